"""A model that is looked for with a prompt: real loopback servers on injected ports, asked side by side and
in time, the first by order taken, and nothing remembered that was not found."""

import logging
from collections.abc import Sequence

import pytest
import trio

from term2_acp.providers.base import ModelSource, NotUsable
from term2_acp.providers.choosing.choice import Undecided
from term2_acp.providers.choosing.discovery import Discovered
from term2_acp.providers.choosing.resolve import NOTHING_USABLE
from term2_acp.providers.choosing.source import Fixed
from term2_acp.providers.servers.known import Known
from term2_acp.providers.unusable import Unusable
from tests.kit.listing import lists, preset_at, routes, says_json
from tests.kit.model_server import body, never, open_model_server, refuse, status

# A test waits for an event, and this long only when something is broken.
LONG_S = 20.0

EMBEDDED = Known("local", "local", models=("tiny",))


def opened(provider: Known, model: str) -> ModelSource:
    """What was found, as a source: nothing of it is asked here."""
    return Fixed(Unusable(provider.name, "not asked"), model)


def looks(
    servers: Sequence[Known],
    *,
    otherwise: Known | None = None,
    any_model: bool = True,
    seconds: float = LONG_S,
) -> Discovered:
    nothing = NOTHING_USABLE if any_model else ""
    return Discovered(Undecided(tuple(servers), otherwise, any_model, nothing), opened, seconds)


async def found(source: Discovered) -> tuple[str, str]:
    with trio.fail_after(2 * LONG_S):
        choice = await source.choice()
    return choice.provider.name, choice.model


async def refused(source: Discovered) -> str:
    with trio.fail_after(2 * LONG_S), pytest.raises(NotUsable) as caught:
        await source.choice()
    return caught.value.message


async def test_the_first_by_order_that_lists_a_model_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    async with (
        open_model_server(refuse) as broken,
        open_model_server(body(b"<html>", "text/html")) as website,
        open_model_server(lists("text-embedding-x", "big", "small")) as first,
        open_model_server(lists("other")) as second,
    ):
        source = looks(
            [
                preset_at("ollama", broken.base_url),
                preset_at("lmstudio", website.base_url),
                preset_at("llama.cpp", first.base_url),
                preset_at("vllm", second.base_url),
            ]
        )
        assert await found(source) == ("llama.cpp", "big")
        assert caplog.messages == [f"no model is set: big is taken, from llama.cpp at {first.base_url}"]
        # For the life of the process: nobody is asked again.
        asked = [len(server.calls) for server in (broken, website, first)]
        assert await found(source) == ("llama.cpp", "big")
        assert [len(server.calls) for server in (broken, website, first)] == asked
        await source.aclose()
        for server in (broken, website, first, second):
            await server.until_sockets(0)


async def test_a_slow_one_that_is_preferred_is_waited_for_and_a_later_one_is_not() -> None:
    answered = trio.Event()

    async def slowly(call: object) -> None:
        with trio.fail_after(LONG_S):
            await answered.wait()
        await lists("slow")(call)  # type: ignore[arg-type]

    async def at_once(call: object) -> None:
        await lists("quick")(call)  # type: ignore[arg-type]
        answered.set()

    async with (
        open_model_server(slowly) as slow,
        open_model_server(at_once) as quick,
        open_model_server(never) as silent,
    ):
        source = looks(
            [
                preset_at("llama.cpp", slow.base_url),
                preset_at("vllm", quick.base_url),
                preset_at("lmstudio", silent.base_url),
            ]
        )
        assert await found(source) == ("llama.cpp", "slow")
        await silent.until_sockets(0)


async def test_a_port_that_never_answers_costs_the_bound_and_no_more() -> None:
    async with open_model_server(never) as silent, open_model_server(lists("m")) as quick:
        servers = [preset_at("llama.cpp", silent.base_url), preset_at("vllm", quick.base_url)]
        begun = trio.current_time()
        assert await found(looks(servers, seconds=0.5)) == ("vllm", "m")
        assert trio.current_time() - begun >= 0.5
        await silent.until_sockets(0)


async def test_servers_are_asked_side_by_side() -> None:
    """Each answers only when both were asked."""
    both = trio.Event()
    asked = 0

    async def when_both(call: object) -> None:
        nonlocal asked
        asked += 1
        if asked == 2:
            both.set()
        with trio.fail_after(LONG_S):
            await both.wait()
        await lists("m")(call)  # type: ignore[arg-type]

    async with open_model_server(when_both) as one, open_model_server(when_both) as two:
        source = looks([preset_at("llama.cpp", one.base_url), preset_at("vllm", two.base_url)])
        assert await found(source) == ("llama.cpp", "m")


async def test_a_loaded_model_is_rather_taken() -> None:
    own = {"data": [{"id": "cold", "state": "not-loaded"}, {"id": "warm", "state": "loaded", "type": "vlm"}]}
    async with open_model_server(routes({"/api/v0/models": own})) as server:
        assert await found(looks([preset_at("lmstudio", server.base_url)])) == ("lmstudio", "warm")


async def test_then_the_embedded_model(caplog: pytest.LogCaptureFixture) -> None:
    async with open_model_server(lists("text-embedding-x")) as server:
        source = looks([preset_at("vllm", server.base_url)], otherwise=EMBEDDED)
        assert await found(source) == ("local", "tiny")
        assert "the embedded model is taken" in caplog.text


async def test_nothing_found_is_said_and_not_remembered() -> None:
    async with open_model_server(status(404, "{}"), status(404, "{}"), lists("late")) as server:
        source = looks([preset_at("vllm", server.base_url)])
        assert await refused(source) == NOTHING_USABLE
        assert await refused(source) == NOTHING_USABLE
        assert await found(source) == ("vllm", "late")


async def test_of_two_prompts_at_once_one_looks() -> None:
    async with open_model_server(lists("m")) as server:
        source = looks([preset_at("vllm", server.base_url)])
        results: list[tuple[str, str]] = []

        async def prompt() -> None:
            results.append(await found(source))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(prompt)
            nursery.start_soon(prompt)
        assert results == [("vllm", "m")] * 2
        assert len(server.calls) == 1


async def test_a_cancelled_prompt_decides_nothing() -> None:
    async with open_model_server(never, lists("m")) as server:
        source = looks([preset_at("vllm", server.base_url)])
        with trio.fail_after(LONG_S):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(source.choice)
                await server.until_call(1)
                nursery.cancel_scope.cancel()
            await server.until_sockets(0)
        assert await found(source) == ("vllm", "m")


async def test_a_server_that_was_named_must_have_one_suitable_model() -> None:
    async with open_model_server(says_json({"data": [{"id": "embed-x"}, {"id": "m"}]})) as one:
        assert await found(looks([preset_at("vllm", one.base_url)], any_model=False)) == ("vllm", "m")
    async with open_model_server(lists("a", "b")) as several:
        assert await refused(looks([preset_at("vllm", several.base_url)], any_model=False)) == (
            "No model is set; vllm has a, b. Name one as `model` in settings.toml."
        )
    async with open_model_server(lists("embed-x")) as none:
        assert "has no model that can be talked to" in await refused(
            looks([preset_at("vllm", none.base_url)], any_model=False)
        )
    gone = await refused(looks([preset_at("vllm", several.base_url)], any_model=False))
    assert gone.startswith("The model server of vllm cannot be reached")


async def test_before_anything_is_found_there_is_nothing_to_close() -> None:
    source = looks([])
    source.rest_nowait()
    await source.aclose()
    assert source.merge_text
