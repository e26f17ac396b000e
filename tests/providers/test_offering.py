"""Which models a process offers to its sessions: those of usable providers that are listed somewhere, found
without asking a server; and that each provider is made once, however often it is chosen, and closed once."""

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from term2_acp.config import Config, ModelSettings, ProviderSettings
from term2_acp.domain.effort import Effort
from term2_acp.providers.base import Request, UserSaid
from term2_acp.providers.chaos.model import Chaos
from term2_acp.providers.choosing.choice import Decided, Nothing, Resolved, Undecided
from term2_acp.providers.choosing.offering import Offers
from term2_acp.providers.choosing.opening import Opener
from term2_acp.providers.http_provider import HttpProvider
from term2_acp.providers.servers.cache import ModelsCache
from term2_acp.providers.servers.known import known_providers
from term2_acp.providers.servers.listing import Listing, ServerModel
from tests.kit.listing import lists, preset_at
from tests.kit.model_server import open_model_server, says

LAB = ProviderSettings(
    "openai-compatible",
    base_url="http://127.0.0.1:9/v1",
    models=("sage", "plain"),
    catalog={"sage": ModelSettings(efforts=("low", "high"))},
)
BARE = ProviderSettings("openai-compatible", base_url="http://127.0.0.1:9/v1")
KEYLESS = ProviderSettings("openai-compatible", base_url="http://127.0.0.1:8/v1", api_key_env="NO_SUCH_KEY")


def offers_of(
    choice: Any = None,
    *,
    environ: dict[str, str] | None = None,
    state: Path | None = None,
    effort: Effort = Effort.DEFAULT,
    **providers: ProviderSettings,
) -> Offers:
    """What these settings offer; ``choice`` names the process's own model, or is what was chosen."""
    config = Config(providers=providers)
    known = known_providers(config, environ or {})
    if isinstance(choice, str):
        name, _, model = choice.partition("/")
        choice = Decided(known[name], model)
    resolved = Resolved(choice or Nothing("nothing"), effort=effort)
    opener = Opener(resolved, idle_s=5.0, state=str(state) if state is not None else None)
    return Offers(opener, opener.own(), partial(known_providers, config, environ or {}))


def values(offers: Offers) -> list[str]:
    return [model.value for model in offers.models()]


# -- which there are -------------------------------------------------------------------------------


def test_the_models_of_usable_providers_in_their_order() -> None:
    scripted = ProviderSettings("scripted", script="bench")
    offers = offers_of("lab/plain", lab=LAB, play=scripted, no=KEYLESS, c=ProviderSettings("chaos", seed=1))
    assert values(offers) == ["lab/sage", "lab/plain", "play/scripted", "c/chaos"]
    assert [model.name for model in offers.models()] == values(offers)
    assert [model.name for model in offers_of("lab/plain", lab=LAB).models()] == ["sage", "plain"]


def test_a_vendor_with_a_key_offers_what_the_catalog_has() -> None:
    offers = offers_of("lab/plain", environ={"ANTHROPIC_API_KEY": "k"}, lab=LAB)
    assert values(offers)[:2] == ["lab/sage", "lab/plain"]
    assert "anthropic/claude-sonnet-4-6" in values(offers)
    assert not [value for value in values(offers) if value.startswith("openai/")]
    assert list(offers.levels("anthropic/claude-sonnet-4-6"))[-3:] == [
        Effort.MEDIUM,
        Effort.HIGH,
        Effort.XHIGH,
    ]


def test_what_a_server_said_before_counts_and_what_does_not_talk_is_left_out(tmp_path: Path) -> None:
    said = Listing((ServerModel("m"), ServerModel("embedder", talks=False)))
    ModelsCache(str(tmp_path)).keep("http://127.0.0.1:9/v1", said)
    assert values(offers_of("bare/x", state=tmp_path, bare=BARE)) == ["bare/m"]


async def test_no_server_is_asked_for_any_of_it() -> None:
    async with open_model_server(lists("m")) as server:
        bare = ProviderSettings("openai-compatible", base_url=server.base_url)
        offers = offers_of(Undecided(()), bare=bare)
        assert values(offers) == []
        assert offers.find("bare/m") is not None, "nobody lists what it has"
        assert list(offers.levels("bare/m")) == []
        offers.source("bare/m", None)
        assert server.calls == []


def test_the_models_own_are_known_not_yet_known_or_none() -> None:
    found = offers_of("lab/new", lab=LAB).default()
    assert found is not None
    assert (found.value, found.name) == ("lab/new", "lab/new")
    listed = offers_of("lab/sage", lab=LAB).default()
    assert listed is not None
    assert (listed.value, listed.name) == ("lab/sage", "sage")
    sought = offers_of(Undecided(()), lab=LAB).default()
    assert sought is not None
    assert (sought.value, sought.name) == ("default", "Found with the first prompt")
    assert offers_of(Nothing("none"), lab=LAB).default() is None


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("lab/sage", True),
        ("lab/other", False),  # its list is whole
        ("play/own", True),  # the process's own
        ("bare/any", True),  # nobody lists what it has
        ("bare/", False),
        ("bare/an*y", False),
        ("ollama/qwen3", True),  # it may be there, and was once
        ("openai/gpt-5.4", False),  # its key is missing
        ("no/any", False),
        ("nobody/any", False),
        ("sage", False),
        ("", False),
        ("default", False),
    ],
)
def test_what_can_be_used(value: str, found: bool) -> None:
    play = ProviderSettings("scripted", script="bench")
    offers = offers_of("play/own", lab=LAB, bare=BARE, no=KEYLESS, play=play)
    assert (offers.find(value) is not None) is found
    if not found:
        with pytest.raises(LookupError):
            offers.source(value, None)


async def test_a_server_that_was_found_offers_all_that_it_said_it_has() -> None:
    async with open_model_server(lists("small", "large", "nomic-embed")) as server:
        ollama = preset_at("ollama", server.base_url)
        offers = offers_of(Undecided((ollama,), any_model=True))
        assert values(offers) == []
        choice = await offers.source(None, None).choice()
        assert (choice.provider.name, choice.model) == ("ollama", "small")
        default = offers.default()
        assert default is not None
        assert (default.value, default.name) == ("ollama/small", "small")
        assert values(offers) == ["ollama/small", "ollama/large"]
        assert offers.find("ollama/larger") is None, "it said what it has"
        other = await offers.source("ollama/large", None).choice()
        assert other.provider is choice.provider
        await offers.aclose()


# -- efforts ---------------------------------------------------------------------------------------


def test_the_effort_is_the_wanted_one_where_the_model_takes_it() -> None:
    offers = offers_of("lab/plain", effort=Effort.HIGH, lab=LAB)
    assert list(offers.levels("lab/sage")) == [Effort.LOW, Effort.HIGH]
    assert offers.effort("lab/sage", None) is Effort.HIGH
    assert offers.effort("lab/sage", Effort.LOW) is Effort.LOW
    assert offers.effort("lab/sage", Effort.XHIGH) is Effort.DEFAULT
    assert offers.effort("lab/sage", Effort.DEFAULT) is Effort.DEFAULT
    # Of this one nobody says what it takes: the server decides.
    assert list(offers.levels("lab/plain")) == []
    assert offers.effort("lab/plain", None) is Effort.HIGH
    assert offers.effort("lab/plain", Effort.HIGH) is Effort.DEFAULT, "nobody would see that it is sent"


async def test_the_processs_own_model_is_asked_with_the_effort_that_was_chosen() -> None:
    offers = offers_of("lab/sage", effort=Effort.HIGH, lab=LAB)
    assert offers.source(None, None) is offers.source(None, None)
    assert (await offers.source(None, None).choice()).effort is Effort.HIGH
    assert (await offers.source(None, Effort.LOW).choice()).effort is Effort.LOW
    assert (await offers.source(None, Effort.XHIGH).choice()).effort is Effort.DEFAULT


# -- providers -------------------------------------------------------------------------------------


async def test_a_provider_is_made_once_and_closed_with_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[HttpProvider] = []
    really = HttpProvider.aclose

    async def aclose(self: HttpProvider) -> None:
        closed.append(self)
        await really(self)

    monkeypatch.setattr(HttpProvider, "aclose", aclose)
    async with open_model_server(says("hello")) as server:
        lab = ProviderSettings(
            "openai-compatible",
            base_url=server.base_url,
            models=("a", "b"),
            catalog={name: ModelSettings(context_tokens=1000, efforts=("low",)) for name in "ab"},
        )
        offers = offers_of("lab/a", lab=lab)
        sources = [
            offers.source(None, None),
            offers.source("lab/a", None),
            offers.source("lab/b", None),
            offers.source("lab/b", Effort.LOW),
        ]
        choices = [await source.choice() for source in sources]
        assert len({id(choice.provider) for choice in choices}) == 1
        assert [(choice.model, choice.effort.value) for choice in choices] == [
            ("a", "default"),
            ("a", "default"),
            ("b", "default"),
            ("b", "low"),
        ]
        assert offers.source("lab/b", Effort.LOW) is sources[-1]
        async with choices[-1].provider.stream(Request("b", "", [UserSaid("hi")])) as deltas:
            await deltas.receive()
        offers.rest_nowait()
        await offers.aclose()
        assert closed == [choices[0].provider]
        await server.until_sockets(0)


async def test_a_provider_that_cannot_be_closed_keeps_no_other_open(caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(Chaos):
        async def aclose(self) -> None:
            await trio.lowlevel.checkpoint()
            closed.append(self.name)
            if self.name == "b":
                raise OSError("boom")
            await trio.lowlevel.checkpoint()
            closed.append(f"{self.name} at last")

    closed: list[str] = []
    chaos = ProviderSettings("chaos", seed=1)
    offers = offers_of("a/chaos", a=chaos, b=chaos, c=chaos)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("term2_acp.providers.chaos.model.Chaos", Stuck)
        for name in "abc":
            await offers.source(f"{name}/chaos", None).choice()
    await offers.aclose()
    assert sorted(closed) == ["a", "a at last", "b", "c", "c at last"]
    assert "the provider b cannot be closed" in caplog.text


# -- what it costs ---------------------------------------------------------------------------------

MAKES = """
import sys
import trio
import term2_acp.session.registry, term2_acp.session.parts, term2_acp.session.commands, term2_acp.store
from term2_acp.config import Config, ProviderSettings
from term2_acp.providers.choosing.offering import Offers
from term2_acp.providers.choosing.opening import Opener
from term2_acp.providers.choosing.resolve import resolve
from term2_acp.session.options import Options
lab = ProviderSettings("openai-compatible", base_url="http://h/v1", models=("m",))
config = Config(providers={"lab": lab})
before = set(sys.modules)
opener = Opener(resolve(config, {}, None), idle_s=1.0, state="/nowhere")
own = opener.own()
class Mind:
    source, offers = own, Offers(opener, own, lambda: {"lab": lab})
options = Options(Mind)
assert options.mode == "standard" and options.source() is own and options.news() == []
options.set_nowait("mode", "plan")
print(*(set(sys.modules) - before))
"""


def test_a_session_that_chooses_nothing_loads_nothing_of_models() -> None:
    done = subprocess.run([sys.executable, "-c", MAKES], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
