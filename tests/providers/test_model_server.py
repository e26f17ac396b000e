"""Model servers are asked which models they have: real loopback servers that answer as each vendor's does,
and as none should. Every fault is a value with a sentence, everything is bounded, no connection is left."""

import json
from typing import Any

import pytest
import trio
from attrs import evolve

from term2_acp.providers.base import AuthenticationFailed, ConnectionFailed, StreamBroke, StreamSilent
from term2_acp.providers.servers import model_server
from term2_acp.providers.servers.asking import ask_all
from term2_acp.providers.servers.facts import ServerFacts
from term2_acp.providers.servers.known import Known
from term2_acp.providers.servers.listing import MAX_MODELS, Listing
from term2_acp.providers.servers.model_server import MAX_BODY_BYTES, MAX_PAGES, NoList
from term2_acp.providers.servers.presets import MESSAGES, PRESETS
from tests.kit.listing import lists, preset_at, routes, says_json
from tests.kit.model_server import Answer, body, head_only, never, open_model_server, refuse, status

# A test waits for an event, and this long only when something is broken.
LONG_S = 20.0

KEY = "sk-canary-0123456789"


def lab(base_url: str, kind: str = "openai-compatible", key: str | None = KEY) -> Known:
    return Known("lab", kind, base_url, key, "LAB_KEY", configured=True)


async def ask(known: Known, about: str | None = None, seconds: float = LONG_S) -> Listing | NoList:
    with trio.fail_after(2 * LONG_S):
        return (await ask_all([known], seconds, about=about))[known.name]


async def listing_of(known: Known, about: str | None = None) -> Listing:
    answer = await ask(known, about)
    assert isinstance(answer, Listing), answer
    return answer


def ids(listing: Listing) -> list[str]:
    return [model.id for model in listing.models]


async def facts_of(known: Known, model: str) -> ServerFacts:
    entry = (await listing_of(known, model)).named(model)
    assert entry is not None
    assert entry.told
    return entry.facts


async def test_a_compatible_server_is_asked_where_prompts_go_and_with_their_key() -> None:
    async with open_model_server(lists("a", "b")) as server:
        assert ids(await listing_of(lab(server.base_url + "/"))) == ["a", "b"]
        (call,) = server.calls
        assert (call.method, call.path, call.headers["authorization"]) == (
            "GET",
            "/v1/models",
            f"Bearer {KEY}",
        )
        await server.until_sockets(0)


async def test_ollama_says_more_at_its_own_addresses() -> None:
    tags = {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "details": {"families": ["qwen3"]}}]}
    show = {"model_info": {"qwen3.context_length": 40960}, "capabilities": ["completion", "tools"]}
    async with open_model_server(routes({"/api/tags": tags, "/api/show": show})) as server:
        known = preset_at("ollama", server.base_url)
        assert await facts_of(known, "qwen3:8b") == ServerFacts(40960, None, False)
        assert [(call.method, call.path) for call in server.calls] == [
            ("GET", "/api/tags"),
            ("POST", "/api/show"),
            ("GET", "/api/ps"),
        ]
        assert server.calls[1].json == {"model": "qwen3:8b"}
        # One that its list does not name, as a person may write it: it is told of, and nothing is refused.
        found = await listing_of(known, "qwen3")
        assert (ids(found), found.whole) == (["qwen3:8b", "qwen3"], False)


@pytest.mark.parametrize(
    ("running", "parameters", "context", "loaded"),
    [
        ([], "", 262144, False),
        ([], "num_ctx 16384", 16384, False),
        ([{"name": "m:latest", "context_length": 4096}], "", 4096, True),
        ([{"name": "m:latest", "context_length": 4096}], "num_ctx 16384", 4096, True),
        ([{"name": "m:latest", "context_length": 524288}], "", 262144, True),
        ([{"name": "other", "context_length": 4096}], "", 262144, False),
    ],
)
async def test_what_ollama_serves_counts_and_not_what_the_model_was_trained_for(
    running: list[Any], parameters: str, context: int, loaded: bool
) -> None:
    show = {"model_info": {"x.context_length": 262144}, "parameters": parameters}
    answers = {
        "/api/tags": {"models": [{"name": "m"}]},
        "/api/show": show,
        "/api/ps": {"models": running},
    }
    async with open_model_server(routes(answers)) as server:
        found = (await listing_of(preset_at("ollama", server.base_url), "m")).named("m")
        assert found is not None
        assert (found.facts.context_tokens, found.loaded, found.fleeting) == (context, loaded, True)


async def test_llama_cpp_says_what_it_runs_with() -> None:
    entry = {"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072}}
    props = {"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": True}}
    answers: dict[str, Any] = {"/v1/models": {"data": [entry]}, "/props": props}
    async with open_model_server(routes(answers)) as server:
        assert await facts_of(preset_at("llama.cpp", server.base_url), "m") == ServerFacts(8192, None, True)
        # Any server that says so is one.
        assert await facts_of(lab(server.base_url), "m") == ServerFacts(8192, None, True)
        del answers["/props"]
        assert await facts_of(lab(server.base_url), "m") == ServerFacts(131072)


async def test_lm_studio_says_which_models_see_and_which_are_loaded() -> None:
    own = {
        "data": [
            {"id": "cold", "type": "llm", "state": "not-loaded", "max_context_length": 32768},
            {"id": "warm", "type": "vlm", "state": "loaded", "loaded_context_length": 4096},
        ]
    }
    answers: dict[str, Any] = {
        "/api/v0/models": own,
        "/v1/models": {"data": [{"id": "warm", "owned_by": "organization_owner"}]},
    }
    async with open_model_server(routes(answers)) as server:
        found = await listing_of(preset_at("lmstudio", server.base_url))
        assert ids(found) == ["cold", "warm"]
        best = found.first_suitable()
        assert best is not None
        assert best.id == "warm"
        assert await facts_of(lab(server.base_url), "warm") == ServerFacts(4096, None, True)
        del answers["/api/v0/models"]
        assert ids(await listing_of(preset_at("lmstudio", server.base_url))) == ["warm"]


async def test_messages_servers_list_in_pages() -> None:
    pages: dict[str, Any] = {
        "/v1/models?limit=1000": {"data": [{"id": "c/1"}], "has_more": True, "last_id": "c/1"},
        "/v1/models?limit=1000&after_id=c%2F1": {"data": [{"id": "c2"}], "has_more": False, "last_id": "c2"},
    }
    async with open_model_server(routes(pages)) as server:
        found = await listing_of(lab(server.base_url, MESSAGES))
        assert (ids(found), found.whole) == (["c/1", "c2"], True)
        headers = server.calls[0].headers
        assert (headers["x-api-key"], "anthropic-version" in headers) == (KEY, True)


@pytest.mark.parametrize("second", [status(500, "{}"), refuse, says_json({"no": "list"})])
async def test_pages_that_break_off_are_not_the_whole(second: Answer) -> None:
    first = {"data": [{"id": "a"}], "has_more": True, "last_id": "a"}
    async with open_model_server(says_json(first), second) as server:
        found = await listing_of(lab(server.base_url, MESSAGES))
        assert (ids(found), found.whole) == (["a"], False)


async def test_pages_without_an_end_are_bounded() -> None:
    async with open_model_server(
        says_json({"data": [{"id": "a"}], "has_more": True, "last_id": "a"})
    ) as server:
        found = await listing_of(lab(server.base_url, MESSAGES))
        assert (ids(found), found.whole) == (["a"], False)
        assert len(server.calls) == MAX_PAGES


async def test_gemini_s_ids_are_told_as_they_are_asked() -> None:
    async with open_model_server(lists("models/gemini-x", "models/gemini-y")) as server:
        known = evolve(lab(server.base_url), server=PRESETS["gemini"], like=PRESETS["gemini"])
        assert ids(await listing_of(known)) == ["gemini-x", "gemini-y"]


@pytest.mark.parametrize(
    ("answer", "error", "answered", "words"),
    [
        (status(401, f'{{"error": {{"message": "bad key {KEY}"}}}}'), AuthenticationFailed, True, "LAB_KEY"),
        (status(404, "nope"), None, True, "404"),
        (
            body(b"<html><title>Hi</title></html>", "text/html"),
            StreamBroke,
            True,
            "something else than a list",
        ),
        (says_json({"data": 5}), StreamBroke, True, "something else than a list"),
        (says_json(b"[" * 100_000), StreamBroke, True, "something else than a list"),
        (body(b" " * (MAX_BODY_BYTES + 1), "application/json"), StreamBroke, True, "too long"),
        (refuse, ConnectionFailed, False, "lost the connection"),
    ],
)
async def test_what_is_no_list_is_a_sentence(
    answer: Answer, error: type[Exception] | None, answered: bool, words: str
) -> None:
    async with open_model_server(answer) as server:
        found = await ask(lab(server.base_url))
        assert isinstance(found, NoList)
        assert error is None or isinstance(found.error, error)
        assert found.answered is answered
        assert words in found.error.message
        assert KEY not in found.error.message
        assert "\n" not in found.error.message
        await server.until_sockets(0)


async def test_a_port_where_nobody_listens() -> None:
    with trio.socket.socket() as taken:
        await taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        found = await ask(lab(f"http://127.0.0.1:{port}/v1"))
    assert isinstance(found, NoList)
    assert isinstance(found.error, ConnectionFailed)
    assert not found.answered


@pytest.mark.parametrize("answer", [never, head_only])
async def test_a_server_that_says_nothing_is_left_in_time(answer: Answer) -> None:
    async with open_model_server(answer) as silent, open_model_server(lists("a")) as quick:
        known = [lab(silent.base_url), evolve(lab(quick.base_url), name="quick")]
        with trio.fail_after(LONG_S):
            answers = await ask_all(known, 0.5)
        gone = answers["lab"]
        assert isinstance(gone, NoList)
        assert isinstance(gone.error, StreamSilent)
        assert "did not say within 0.5 s which models it has" in gone.error.message
        assert isinstance(answers["quick"], Listing)
        await silent.until_sockets(0)


async def test_those_that_are_not_waited_for_are_left_at_once() -> None:
    async with open_model_server(never) as silent, open_model_server(lists("a")) as quick:
        known = [lab(silent.base_url), evolve(lab(quick.base_url), name="quick")]
        with trio.fail_after(LONG_S):
            answers = await ask_all(known, 10 * LONG_S, enough=lambda answers: "quick" in answers)
        assert isinstance(answers["quick"], Listing)
        await silent.until_sockets(0)


async def test_a_cancel_closes_every_connection() -> None:
    async with open_model_server(never) as server:
        with trio.fail_after(LONG_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ask_all, [lab(server.base_url)], 10 * LONG_S)
                await server.until_call(1)
                nursery.cancel_scope.cancel()
            await server.until_sockets(0)


async def test_ten_thousand_models_are_read_as_far_as_the_bound_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_server, "MAX_BODY_BYTES", 10 * MAX_BODY_BYTES)
    many = json.dumps({"data": [{"id": f"m{number}"} for number in range(10_000)]}).encode()
    async with open_model_server(says_json(many)) as server:
        found = await listing_of(lab(server.base_url))
        assert (len(found.models), found.whole) == (MAX_MODELS, False)
