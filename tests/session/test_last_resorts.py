"""What happens when almost everything went wrong: refused prompts, stuck tools, sessions that crash.

Steps of the scheduler are counted and seeded, so each case is the same at every run.
"""

from contextlib import asynccontextmanager

import pytest
import trio

from term2_acp.domain.events import ExitStatus, TerminalUpdate, UserMessage
from term2_acp.providers.base import Finish, Finished, ModelInfo, TextDelta, ToolCallDelta
from term2_acp.store import StoreFailed
from term2_acp.store.errors import FULL
from tests.kit.fold import fold
from tests.kit.indoors import Probe, ReadingProbe, indoors
from tests.kit.steps import at_step, seeded
from tests.kit.until import until
from tests.kit.wire import Refused

HI = '[[rules]]\n[[rules.replies]]\nsteps = [{ text = "Hello." }]\n'
TERMINAL = "term_0123456789abcdef0123"
GO = {"prompt": [{"type": "text", "text": "go"}]}


class Fed:
    """A model whose words come from a task of its own, as those of a server do."""

    name = "fed"
    merge_text = True
    asks_for_edits = False

    def describe(self, model):
        return ModelInfo(1000)

    def rest_nowait(self):
        pass

    @asynccontextmanager
    async def stream(self, request, on_wait):
        send, self._deltas = trio.open_memory_channel(0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._speak, send)
            yield self
            nursery.cancel_scope.cancel()

    async def _speak(self, send):
        for number in range(4):
            await send.send([TextDelta(f"w{number} ")])
        await send.send([ToolCallDelta("x", "probe", '{"name":"a"}'), Finished(Finish.TOOL_CALLS)])

    async def receive(self):
        return await self._deltas.receive()

    async def aclose(self):
        await trio.lowlevel.checkpoint()


def fails_at(store, go):
    """Have the append of a prompt wait for ``go`` and then fail, as on a disk that is full."""
    really = store.append

    async def append(session_id, events):
        if any(isinstance(event, UserMessage) for event in events):
            await go.wait()
            raise StoreFailed.because(FULL)
        await really(session_id, events)

    store.append = append


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_prompt_refused_at_any_step_of_its_turn_leaves_no_trace(tmp_path, autojump_clock, seed):
    for k in range(1, 40):
        root = tmp_path / str(k)
        root.mkdir()
        with seeded(seed):
            async with indoors(root, provider=Fed()) as daemon:
                await daemon.editor.initialize()
                session_id = await daemon.editor.new_session(daemon.workspace)
                session = daemon.session(session_id)
                go = trio.Event()
                fails_at(session.parts.store, go)
                with at_step(k, go.set):
                    call = await daemon.editor.call("session/prompt", {"sessionId": session_id, **GO})
                    await trio.testing.wait_all_tasks_blocked()
                    go.set()
                    with pytest.raises(Refused, match="-32603"):
                        await call.result()
                    await trio.testing.wait_all_tasks_blocked()
                assert session.transcript.messages() == ()
                assert daemon.editor.updates(session_id) == []
                assert not session.running
                assert daemon.probe.ran == []


class Stuck(Probe):
    """A tool that gives way to nothing for a minute."""

    name = "stuck"

    async def run(self, prepared, context):
        with trio.CancelScope(shield=True):
            await trio.sleep(60)
        return await super().run(prepared, context)


class StuckReading(Stuck):
    name = "stuck_reading"
    reads_only = ReadingProbe.reads_only


@pytest.mark.parametrize(
    ("tool", "status", "word"), [("stuck", "failed", "unknown"), ("stuck_reading", "cancelled", "no effect")]
)
async def test_every_close_of_a_stuck_turn_is_answered_in_time(
    tmp_path, autojump_clock, caplog, tool, status, word
):
    script = f'[[rules]]\n[[rules.replies]]\nsteps = [{{ call = "{tool}", arguments = {{ name = "a" }} }}]\n'
    tools = {"stuck": Stuck(), "stuck_reading": StuckReading()}
    async with indoors(tmp_path, script, more_tools=tools) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.seen("tool_call_update", status="in_progress")
        begun = trio.current_time()
        first = await daemon.editor.call("session/close", {"sessionId": session_id})
        second = await daemon.editor.call("session/close", {"sessionId": session_id})
        for call in (first, second):
            with pytest.raises(Refused, match="-32603"):
                await call.result()
        params = {"sessionId": session_id, "cwd": str(daemon.workspace)}
        assert (await daemon.editor.refused("session/resume", params)).code == -32000
        assert trio.current_time() - begun < 6
        (shown,) = turn.calls.values()
        assert shown["status"] == status
        assert word in shown["content"][0]["content"]["text"]
        await trio.sleep(60)  # virtual: the tool comes back, and nobody cares any more
        assert await daemon.editor.request("session/resume", params) == {}
    assert "failed inside" not in caplog.text


class StuckCommand(Probe):
    """A tool whose terminal is shown, and whose command no kill ends for a minute."""

    name = "stuck_command"

    async def run(self, prepared, context):
        await context.publish(TerminalUpdate(TERMINAL, "sleep 60", "/somewhere"))
        with trio.CancelScope(shield=True):
            await trio.sleep(60)
        context.ports.show_nowait([TerminalUpdate(TERMINAL, exit_status=ExitStatus(0))])
        return await super().run(prepared, context)


async def test_a_turn_that_is_given_up_leaves_no_terminal_that_seems_to_run(tmp_path, autojump_clock):
    call = '{ call = "stuck_command", arguments = { name = "a" } }'
    script = f"[[rules]]\n[[rules.replies]]\nsteps = [{call}]\n"
    async with indoors(tmp_path, script, more_tools={"stuck_command": StuckCommand()}) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.seen("terminal_update")
        close = await daemon.editor.call("session/close", {"sessionId": session_id})
        with pytest.raises(Refused, match="-32603"):
            await close.result()
        _begun, ended = turn.of("terminal_update")
        assert ended["exitStatus"] == {}  # nobody knows
        kinds = [(update["sessionUpdate"], update.get("status")) for update in turn.updates[-3:]]
        assert kinds == [("terminal_update", None), ("tool_call_update", "failed"), ("state_update", None)]
        live = fold(turn.updates)
        await trio.sleep(60)  # virtual: the command ends after all, and is told to nobody
        start = len(daemon.editor.frames)
        params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
        await daemon.editor.request("session/resume", params)
        assert fold(daemon.editor.updates(session_id, start)) == live


@pytest.mark.parametrize("n", range(8))
async def test_a_prompt_to_a_session_that_is_ending_is_answered_once_at_most(tmp_path, autojump_clock, n):
    async with indoors(tmp_path, HI) as daemon:
        session_id, turn = await daemon.begin("hi")
        await turn.ended()
        session = daemon.session(session_id)
        session.abandon_nowait()
        for _ in range(n):
            await trio.lowlevel.checkpoint()
        call = await daemon.editor.call("session/prompt", {"sessionId": session_id, **GO})
        with pytest.raises(Refused):
            await call.result()
        await session.ended.wait()


async def test_what_a_refused_turn_read_was_not_read(tmp_path):
    script = """
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [{ call = "read_file", arguments = { path = "a.txt" } }]
[[rules.replies]]
steps = [{ hang = true }]
[[rules]]
[[rules.replies]]
[[rules.replies.steps]]
call = "search_replace"
arguments = { path = "a.txt", replacements = [{ search_content = "x", replace_content = "y" }] }
[[rules.replies]]
steps = [{ text = "ok" }]
"""
    async with indoors(tmp_path, script) as daemon:
        path = daemon.workspace / "a.txt"
        path.write_text("x\n")
        await daemon.editor.initialize()
        session_id = await daemon.editor.new_session(daemon.workspace)
        session = daemon.session(session_id)
        store, go = session.parts.store, trio.Event()
        really = store.append
        fails_at(store, go)
        call = await daemon.editor.call("session/prompt", {"sessionId": session_id, **GO})
        await until(lambda: session.hands.files._seen)
        go.set()
        with pytest.raises(Refused):
            await call.result()
        store.append = really
        turn = await daemon.editor.prompt(session_id, "edit")
        assert [shown["status"] for shown in turn.calls.values()] == ["failed"]
        assert path.read_text() == "x\n"


async def test_a_prompt_whose_row_is_never_written_is_answered_at_the_shutdown(tmp_path, autojump_clock):
    async with indoors(tmp_path, HI) as daemon:
        await daemon.editor.initialize()
        session_id = await daemon.editor.new_session(daemon.workspace)
        session = daemon.session(session_id)
        fails_at(session.parts.store, trio.Event())  # nobody ever sets it: a store that is locked for good
        call = await daemon.editor.call("session/prompt", {"sessionId": session_id, **GO})
        await trio.testing.wait_all_tasks_blocked()
        assert not call.answered
        begun = trio.current_time()
    with pytest.raises(Refused, match="-32603"):
        await call.result()
    assert session.ended.is_set()
    assert trio.current_time() - begun < 10
    assert daemon.editor.updates(session_id) == []
