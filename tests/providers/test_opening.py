"""From what was resolved to what answers: the right wire at the right address, a provider that cannot be used
as one whose prompts say why, and a model of which nobody knows anything described by its own server, once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import evolve

from term2_acp.config import Config, ModelSettings, ProviderSettings
from term2_acp.domain.effort import Effort
from term2_acp.providers.base import (
    FALLBACK_CONTEXT_TOKENS,
    Failed,
    Finished,
    ModelChoice,
    NotUsable,
    ProviderError,
    Request,
    UserSaid,
)
from term2_acp.providers.catalog.efforts import efforts_of
from term2_acp.providers.catalog.stated import describe
from term2_acp.providers.chaos.model import Chaos
from term2_acp.providers.chat.dialects import DIALECTS, PLAIN
from term2_acp.providers.chat.wire import ChatWire
from term2_acp.providers.choosing.choice import Decided, Nothing, Resolved, Undecided
from term2_acp.providers.choosing.opening import open_source
from term2_acp.providers.choosing.resolve import NOTHING_USABLE, resolve
from term2_acp.providers.local.model import LocalModel
from term2_acp.providers.scripted.model import Scripted
from term2_acp.providers.servers.cache import ModelsCache
from term2_acp.providers.servers.known import Known, known_providers
from term2_acp.providers.servers.presets import PRESETS
from term2_acp.providers.servers.wires import wire_of
from tests.kit.listing import lists, preset_at, routes
from tests.kit.model_server import Call, ModelServer, never, open_model_server, says

# A test waits for an event, and this long only when something is broken.
LONG_S = 20.0


async def choice_of(source: Any) -> ModelChoice:
    with trio.fail_after(LONG_S):
        choice: ModelChoice = await source.choice()
    return choice


async def failure(choice: ModelChoice) -> ProviderError:
    with trio.fail_after(LONG_S):
        async with choice.provider.stream(Request(choice.model, "", [UserSaid("hi")])) as deltas:
            (failed,) = await deltas.receive()
    assert isinstance(failed, Failed)
    return failed.error


def decided(**settings: Any) -> Decided:
    found = resolve(Config(**settings), {}, None, installed=lambda: None)
    assert isinstance(found, Resolved)
    assert isinstance(found.choice, Decided)
    return found.choice


# -- wires -----------------------------------------------------------------------------------------


def known(name: str, **settings: Any) -> Known:
    config = Config(providers={name: ProviderSettings(**settings)} if settings else {})
    return known_providers(config, {})[name]


@pytest.mark.parametrize("name", PRESETS)
def test_each_preset_is_spoken_to_in_its_own_way(name: str) -> None:
    wire = wire_of(known(name))
    paths = {"openai": "/responses", "anthropic": "/messages"}
    assert wire.path == paths.get(name, "/chat/completions")
    if isinstance(wire, ChatWire):
        assert wire.dialect is DIALECTS[name]


@pytest.mark.parametrize(
    ("name", "base_url", "dialect"),
    [
        ("lab", "https://openrouter.ai/api/v1/", DIALECTS["openrouter"]),
        ("lab", "http://localhost:11434/v1", DIALECTS["ollama"]),
        ("ollama", "http://10.0.0.5:11434/v1", DIALECTS["ollama"]),
        ("ollama", "https://api.groq.com/openai/v1", DIALECTS["groq"]),
        ("groq", None, DIALECTS["groq"]),
        ("lab", "http://10.0.0.5:11434/v1", PLAIN),
    ],
)
def test_the_dialect_is_that_of_the_address_before_that_of_the_name(
    name: str, base_url: str | None, dialect: Any
) -> None:
    wire = wire_of(known(name, type="openai-compatible", base_url=base_url))
    assert isinstance(wire, ChatWire)
    assert wire.dialect is dialect


@pytest.mark.parametrize(
    ("kind", "path"),
    [("openai", "/responses"), ("openai-compatible", "/chat/completions"), ("anthropic", "/messages")],
)
def test_the_type_of_a_table_is_its_wire_whatever_its_name(kind: str, path: str) -> None:
    assert wire_of(known("openai", type=kind, base_url="http://127.0.0.1:9/v1")).path == path


# -- providers -------------------------------------------------------------------------------------


async def test_a_prompt_goes_to_the_address_of_the_settings() -> None:
    async with open_model_server(says("hello")) as server:
        lab = ProviderSettings(
            "openai-compatible",
            base_url=server.base_url,
            models=("m",),
            catalog={"m": ModelSettings(context_tokens=1000)},
        )
        source = open_source(
            Resolved(decided(providers={"lab": lab}), effort=Effort.LOW), idle_s=LONG_S, state=None
        )
        choice = await choice_of(source)
        assert (choice.provider.name, choice.model, choice.effort) == ("lab", "m", Effort.LOW)
        assert server.calls == []  # the settings describe it
        async with choice.provider.stream(Request("m", "", [UserSaid("hi")])) as deltas:
            await deltas.receive()
        assert server.calls[0].path == "/v1/chat/completions"
        await source.aclose()
        await server.until_sockets(0)


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        (ProviderSettings("scripted", script="bench"), Scripted),
        (ProviderSettings("chaos", seed=7), Chaos),
        (ProviderSettings("local"), LocalModel),
    ],
)
async def test_providers_that_are_no_servers(settings: ProviderSettings, kind: type) -> None:
    resolved = Resolved(decided(provider="x", providers={"x": settings}))
    source = open_source(resolved, idle_s=1.0, state=None)
    choice = await choice_of(source)
    assert isinstance(choice.provider, kind)
    assert choice.provider.name == "x"
    source.rest_nowait()
    await source.aclose()


@pytest.mark.parametrize("content", [None, "rules = 5", "\xff"])
async def test_a_script_that_cannot_be_read_is_told_by_the_prompt(
    tmp_path: Path, content: str | None
) -> None:
    path = tmp_path / "script.toml"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    choice = decided(provider="s", providers={"s": ProviderSettings("scripted", script=str(path))})
    error = await failure(await choice_of(open_source(Resolved(choice), idle_s=1.0, state=None)))
    assert isinstance(error, NotUsable)
    assert str(path) in error.message


async def test_what_cannot_be_used_says_why_with_each_prompt() -> None:
    choices: list[tuple[Nothing | Decided, str]] = [
        (Nothing(NOTHING_USABLE), NOTHING_USABLE),
        (decided(provider="openai"), "Set OPENAI_API_KEY to the key of the provider openai."),
    ]
    for choice, words in choices:
        source = open_source(Resolved(choice), idle_s=1.0, state=None)
        error = await failure(await choice_of(source))
        assert isinstance(error, NotUsable)
        assert error.message == words
        await source.aclose()


# -- what is known of a model -----------------------------------------------------------------------


def source_of(provider: Known, model: str, state: Path | None) -> Any:
    state_directory = str(state) if state is not None else None
    return open_source(Resolved(Decided(provider, model)), idle_s=LONG_S, state=state_directory)


async def test_a_server_describes_its_model_before_the_first_request_and_once(tmp_path: Path) -> None:
    answers: dict[str, Any] = {
        "/v1/models": {"data": [{"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}]},
        "/props": {"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": True}},
    }
    async with open_model_server(routes(answers)) as server:
        provider = preset_at("llama.cpp", server.base_url)
        source = source_of(provider, "m", tmp_path)
        assert server.calls == []
        for _ in range(2):
            choice = await choice_of(source)
            info = choice.provider.describe("m")
            assert (info.context_tokens, info.sees_images) == (8192, True)
        assert [call.path for call in server.calls] == ["/v1/models", "/props"]
        # The next process knows it from the file.
        choice = await choice_of(source_of(provider, "m", tmp_path))
        assert choice.provider.describe("m").context_tokens == 8192
        assert len(server.calls) == 2
        kept = ModelsCache(str(tmp_path)).listing(server.base_url, local=True)
        assert kept is not None
        assert [model.id for model in kept.listing.models] == ["m"]


@asynccontextmanager
async def ollama(running: list[Any], parameters: str = "") -> AsyncIterator[tuple[Any, ModelServer]]:
    """A server like Ollama with the model ``m``; whatever ``running`` holds is loaded."""
    answers: dict[str, Any] = {
        "/api/tags": {"models": [{"name": "m"}]},
        "/api/show": {"model_info": {"x.context_length": 262144}, "parameters": parameters},
        "/v1/chat/completions": says("hello"),
    }

    async def answer(call: Call) -> None:
        await routes(answers | {"/api/ps": {"models": running}})(call)

    async with open_model_server(answer) as server:
        source = source_of(preset_at("ollama", server.base_url), "m", None)
        yield source, server
        await source.aclose()


async def context_of(source: Any) -> int:
    choice = await choice_of(source)
    tokens: int = choice.provider.describe("m").context_tokens
    return tokens


async def prompted(source: Any) -> int:
    """The tokens of the context that are known behind the reply to a prompt."""
    choice = await choice_of(source)
    with trio.fail_after(LONG_S):
        async with choice.provider.stream(Request("m", "", [UserSaid("hi")])) as deltas:
            while not isinstance((await deltas.receive())[-1], Finished):
                pass
    tokens: int = choice.provider.describe("m").context_tokens
    return tokens


async def test_what_a_model_is_loaded_with_is_known_behind_its_first_reply() -> None:
    running: list[Any] = []
    async with ollama(running) as (source, server):
        assert await context_of(source) == 262144, "what it can take at most"
        running.append({"name": "m", "context_length": 4096})
        assert await prompted(source) == 4096
        calls = len(server.calls)
        assert await prompted(source) == 4096
        asked = [call.path for call in server.calls[calls:]]
        assert asked == ["/api/tags", "/api/show", "/api/ps", "/v1/chat/completions"], "none behind the reply"


async def test_ollama_is_known_to_cut_in_silence_and_others_are_not() -> None:
    async with ollama([]) as (source, server):
        assert (await choice_of(source)).provider.describe("m").cuts
        described = ProviderSettings("openai-compatible", catalog={"m": ModelSettings(context_tokens=4_096)})
        provider = evolve(preset_at("ollama", server.base_url), settings=described)
        info = (await choice_of(source_of(provider, "m", None))).provider.describe("m")
        assert (info.context_tokens, info.cuts) == (4_096, True)
    async with open_model_server(lists("m")) as server:
        assert (
            not (await choice_of(source_of(preset_at("vllm", server.base_url), "m", None)))
            .provider.describe("m")
            .cuts
        )


async def test_a_model_that_is_loaded_anew_is_asked_for_with_the_next_prompt() -> None:
    running = [{"name": "m", "context_length": 4096}]
    async with ollama(running) as (source, _):
        assert await context_of(source) == 4096
        running.clear()
        assert await context_of(source) == 4096, "it may come back as it was"
        running.append({"name": "m", "context_length": 32768})
        assert await prompted(source) == 32768


async def test_a_model_that_is_never_said_to_be_loaded_is_asked_for_twice_a_prompt() -> None:
    async with ollama([], "num_ctx 8192") as (source, server):
        for _ in range(2):
            choice = await choice_of(source)
            for _ in range(3):
                async with choice.provider.stream(Request("m", "", [UserSaid("hi")])) as deltas:
                    while not isinstance((await deltas.receive())[-1], Finished):
                        pass
            assert choice.provider.describe("m").context_tokens == 8192
        assert [call.path for call in server.calls].count("/api/ps") == 4


async def test_a_server_that_is_gone_for_a_moment_leaves_what_was_known() -> None:
    running = [{"name": "m", "context_length": 4096}]
    async with ollama(running) as (source, server):
        assert await context_of(source) == 4096
    choice = await choice_of(source)  # nobody listens any more
    assert choice.provider.describe("m").context_tokens == 4096
    assert server.base_url


async def test_the_file_has_nothing_for_good_of_what_is_loaded(tmp_path: Path) -> None:
    own = {"data": [{"id": "m", "state": "loaded", "loaded_context_length": 4096}]}
    async with open_model_server(routes({"/api/v0/models": own})) as server:
        provider = preset_at("lmstudio", server.base_url)
        assert await context_of(source_of(provider, "m", tmp_path)) == 4096
        own["data"][0]["loaded_context_length"] = 32768
        assert await context_of(source_of(provider, "m", tmp_path)) == 32768


async def test_a_server_that_does_not_know_leaves_the_stated_fallback() -> None:
    async with open_model_server(lists("m")) as server:
        source = source_of(preset_at("vllm", server.base_url), "m", None)
        choice = await choice_of(source)
        assert choice.provider.describe("m").context_tokens == FALLBACK_CONTEXT_TOKENS
        await choice_of(source)
        assert len(server.calls) == 1


async def test_a_silent_server_holds_up_the_first_prompt_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("term2_acp.providers.catalog.describing.ASK_S", 0.3)
    async with open_model_server(never) as server:
        source = source_of(preset_at("vllm", server.base_url), "m", None)
        assert (await choice_of(source)).provider.describe("m").context_tokens == FALLBACK_CONTEXT_TOKENS
        await choice_of(source)
        assert len(server.calls) == 1
        await server.until_sockets(0)


async def test_a_server_that_is_started_late_is_asked_then() -> None:
    async with open_model_server(lists("m")) as server:
        base_url = server.base_url
    source = source_of(preset_at("vllm", base_url), "m", None)
    await choice_of(source)  # it is gone: no connection, and nothing is learnt
    port = int(base_url.rpartition(":")[2].removesuffix("/v1"))
    answers = routes({"/v1/models": {"data": [{"id": "m", "max_model_len": 4096}]}})
    async with open_model_server(answers, port=port):
        choice = await choice_of(source)
        assert choice.provider.describe("m").context_tokens == 4096


async def test_a_hosted_model_is_described_by_the_catalog_and_nobody_is_asked(tmp_path: Path) -> None:
    provider = known_providers(Config(), {"OPENAI_API_KEY": "k"})["openai"]
    source = source_of(provider, "gpt-5.4", tmp_path)
    info = (await choice_of(source)).provider.describe("gpt-5.4")
    assert info.context_tokens > FALLBACK_CONTEXT_TOKENS
    assert info.prices is not None
    assert list(tmp_path.iterdir()) == []


async def test_a_model_that_is_looked_for_is_found_and_described(tmp_path: Path) -> None:
    async with open_model_server(routes({"/v1/models": {"data": [{"id": "m", "max_model_len": 4096}]}})) as s:
        wanted = Undecided((preset_at("vllm", s.base_url),), any_model=True, nothing=NOTHING_USABLE)
        source = open_source(Resolved(wanted, effort=Effort.HIGH), idle_s=LONG_S, state=str(tmp_path))
        assert s.calls == []
        choice = await choice_of(source)
        assert (choice.provider.name, choice.model, choice.effort) == ("vllm", "m", Effort.HIGH)
        assert choice.provider.describe("m").context_tokens == 4096
        await source.aclose()


async def test_a_found_model_that_does_not_take_the_effort() -> None:
    async with open_model_server(lists("m")) as server:
        lab = ProviderSettings(
            "openai-compatible",
            base_url=server.base_url,
            catalog={"m": ModelSettings(efforts=("low",))},
        )
        wanted = Undecided((known_providers(Config(providers={"lab": lab}), {})["lab"],))
        source = open_source(Resolved(wanted, effort=Effort.HIGH), idle_s=LONG_S, state=None)
        with pytest.raises(NotUsable, match="The model m does not take the effort 'high'"):
            await choice_of(source)


def test_a_model_that_is_newer_than_the_catalog_is_known_by_its_family_and_by_the_settings() -> None:
    """It is named in a table of its own; its efforts are those of its line, and a wrong one is refused."""
    newer = ProviderSettings("openai", catalog={"gpt-5.9-new": ModelSettings(context_tokens=500_000)})
    config = Config(provider="openai", model="gpt-5.9-new", providers={"openai": newer})
    resolved = resolve(config, {"OPENAI_API_KEY": "sk-0123456789abcdef"}, None)
    assert isinstance(resolved, Resolved), resolved
    assert isinstance(resolved.choice, Decided)
    info = describe(resolved.choice.provider, resolved.choice.model)
    assert info.context_tokens == 500_000
    assert info.efforts == efforts_of("openai", "gpt-5.9-new")
