"""Which model a started daemon talks to, as an editor and a person see it: real model servers that count who
asks them what and when. Nobody is asked before a prompt needs it, a refused start names what there is, and
one sentence says what to do."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.kit.forked import run, running
from tests.kit.home import Home
from tests.kit.listing import lists, routes
from tests.kit.model_server import ModelServer, never, open_model_server, says

FIRST_ASK_S = 3  # what a start may spend on asking


def home_of(root: Path, base_url: str, extra: str = "") -> Home:
    table = f'[providers.lab]\ntype = "openai-compatible"\nbase_url = "{base_url}"\n'
    return Home.make(root, None, f"{extra}\n{table}")


async def refused(home: Home, *words: str) -> str:
    """The line with which a start is refused, after nothing on stdout."""
    done = await trio.to_thread.run_sync(run, ["acp", *words], home.root, home.environment())
    assert (done.returncode, done.stdout) == (1, b"")
    line, usage = done.stderr.decode().splitlines()
    assert usage.startswith("usage: term2 acp")
    return line.removeprefix("term2 acp: ")


def paths(server: ModelServer) -> Sequence[str]:
    return [call.path for call in server.calls]


SERVES = {"/v1/chat/completions": says("hello")}


async def test_nobody_is_asked_before_the_first_prompt(tmp_path: Path) -> None:
    models: Any = {"data": [{"id": "m", "max_model_len": 4096}]}
    async with open_model_server(routes({**SERVES, "/v1/models": models})) as server:
        async with running(home_of(tmp_path, server.base_url)) as daemon:
            await daemon.initialize()
            session = await daemon.new_session(tmp_path / "workspace")
            assert server.accepted == 0
            turn = await daemon.prompt(session, "hi")
            assert (turn.text, await turn.ended()) == ("hello", "end_turn")
            # Found, then described, then asked.
            assert paths(server) == ["/v1/models", "/v1/models", "/v1/chat/completions"]
            assert turn.of("usage_update")[0]["size"] == 4096
            await daemon.prompt(session, "again")
            assert paths(server)[3:] == ["/v1/chat/completions"]
            assert "no model is set: m is taken, from lab" in daemon.stderr


async def test_a_server_that_is_started_late_is_found_by_the_next_prompt(tmp_path: Path) -> None:
    async with open_model_server(lists("m")) as server:
        base_url = server.base_url
    async with running(home_of(tmp_path, base_url, 'provider = "lab"')) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(tmp_path / "workspace")
        turn = await daemon.prompt(session, "hi")
        assert await turn.ended() == "_term2_error"
        assert "The model server of lab cannot be reached" in turn.text
        assert "It is asked again with the first prompt." in daemon.stderr
        port = int(base_url.removesuffix("/v1").rpartition(":")[2])
        async with open_model_server(routes({**SERVES, "/v1/models": {"data": [{"id": "m"}]}}), port=port):
            turn = await daemon.prompt(session, "hi")
            assert (turn.text, await turn.ended()) == ("hello", "end_turn")


async def test_a_start_is_refused_with_what_the_server_has(tmp_path: Path) -> None:
    async with open_model_server(lists("qwen3-coder", "small")) as server:
        home = home_of(tmp_path, server.base_url)
        assert await refused(home, "--model", "lab/qwen3-code") == (
            "--model: unknown model 'lab/qwen3-code'; there are lab/qwen3-coder, lab/small"
        )
        assert len(server.calls) == 1
        # It is remembered: nobody is asked again.
        again = await refused(home, "--model", "qwen3-code")
        assert again.startswith("--model: unknown model 'qwen3-code'; there are lab/qwen3-coder, lab/small; ")
        assert f"remembered in {home.state}/models.json" in again
        assert (
            await refused(home, "--provider", "lab")
            == "--provider: no model is set; lab has qwen3-coder, small"
        )
        assert len(server.calls) == 1
        async with running(home, args=["--model=small"]):
            pass
        assert len(server.calls) == 1
        assert [path.name for path in home.state.iterdir() if path.suffix == ".json"] == ["models.json"]


async def test_with_a_silent_server_a_start_waits_its_time_and_takes_the_model_as_written(
    tmp_path: Path,
) -> None:
    async with open_model_server(never) as server:
        begun = trio.current_time()
        home = home_of(tmp_path, server.base_url)
        async with running(home, args=["--model", "lab/m"]) as daemon:
            await daemon.initialize()
            assert trio.current_time() - begun >= FIRST_ASK_S
            assert "did not say within 3 s which models it has" in daemon.stderr
            assert "The model 'm' is taken as written." in daemon.stderr
        assert paths(server) == ["/v1/models"]


ANOTHER_KEY = (
    "--model: unknown model 'gpt-5.4'; there are none; it would be openai/gpt-5.4 with OPENAI_API_KEY"
)
OTHER_EFFORT = "--effort: gpt-5-pro does not take the effort 'low'; it takes high, default"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--provider", "openai", "--model", "gpt-5-pro", "--effort", "low"], OTHER_EFFORT),
        (["--model", "gpt-5.4"], ANOTHER_KEY),
    ],
)
async def test_what_else_refuses_a_start(tmp_path: Path, words: list[str], line: str) -> None:
    assert await refused(Home.make(tmp_path, None), *words) == line
