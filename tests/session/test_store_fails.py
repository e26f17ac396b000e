"""A journal that cannot be written: nothing unkept is shown, one sentence says why, and the session lives.

The disk is a real SQLite file whose size is capped by a pragma, so that it is full when the test says so.
"""

import pytest
import trio

from term2_acp.domain.events import ExitStatus, TerminalOutput, TerminalUpdate
from term2_acp.providers.base import UserSaid
from term2_acp.store import StoreFailed
from term2_acp.store.errors import FULL
from term2_acp.store.schema import open_database
from tests.kit.fold import fold
from tests.kit.indoors import Probe, indoors
from tests.kit.wire import Refused

HELLO = '[[rules]]\n[[rules.replies]]\nsteps = [{ text = "Hello." }]\n'
WORDS = "x" * 200_000  # more than what is left in the pages of an almost empty database


class Disk:
    """The connection that the store uses, and a lid on its file."""

    def __init__(self) -> None:
        self.connection = None

    def connect(self, path: str):
        self.connection = open_database(path)
        return self.connection

    def fill(self) -> None:
        pages = self.connection.execute("PRAGMA page_count").fetchone()[0]
        self.connection.execute(f"PRAGMA max_page_count = {pages}")

    def free(self) -> None:
        self.connection.execute("PRAGMA max_page_count = 100000")


@pytest.fixture
def disk():
    return Disk()


async def test_a_prompt_that_cannot_be_kept_is_refused_and_leaves_no_trace(tmp_path, autojump_clock, disk):
    async with indoors(tmp_path, HELLO, connect=disk.connect) as daemon:
        session_id, turn = await daemon.begin("hi")
        await turn.ended()
        before = fold(daemon.editor.updates(session_id))
        disk.fill()
        start = len(daemon.editor.frames)
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": WORDS}]}
        refused = await daemon.editor.refused("session/prompt", params)
        assert refused.code == -32603
        assert "disk" in refused.message
        assert daemon.editor.updates(session_id, start) == []
        disk.free()
        start = len(daemon.editor.frames)
        again = await daemon.editor.prompt(session_id, "again")
        assert again.text == "Hello."
        assert WORDS not in str(daemon.editor.frames[start:])
        live = fold(daemon.editor.updates(session_id))
        assert live["things"][: len(before["things"])] == before["things"]
        params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
        start = len(daemon.editor.frames)
        await daemon.editor.request("session/resume", params)
        assert fold(daemon.editor.updates(session_id, start)) == live
        messages = daemon.session(session_id).transcript.messages()
        assert [message.text for message in messages] == ["hi", "Hello.", "again", "Hello."]


async def test_words_that_cannot_be_kept_are_not_shown_and_end_the_turn(tmp_path, autojump_clock, disk):
    script = f"""
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [{{ call = "probe", arguments = {{ name = "a", asks = true }} }}]
[[rules.replies]]
steps = [{{ text = "{WORDS}" }}, {{ call = "probe", arguments = {{ name = "b" }} }}]
[[rules.replies]]
steps = [{{ text = "never" }}]
"""
    async with indoors(tmp_path, script + HELLO, connect=disk.connect) as daemon:
        session_id, turn = await daemon.begin("go")
        ask = await daemon.editor.next_ask()
        disk.fill()
        await daemon.editor.choose(ask, "approve")
        assert await turn.ended() == "_term2_error"
        error = turn.updates[-1]["_meta"]["term2"]["error"]
        assert error["code"] == "store_full"
        (sentence,) = turn.of("agent_message")
        assert sentence["content"][0]["text"] == error["message"]
        assert WORDS not in str(turn.updates)
        assert "b" not in daemon.probe.ran, "an effect must not come before the journal knows of it"
        assert all(call["status"] in ("completed", "failed", "cancelled") for call in turn.calls.values())
        disk.free()
        assert (await daemon.editor.prompt(session_id, "hi")).text == "Hello."


async def test_what_was_not_kept_is_not_told_to_the_model_either(tmp_path, autojump_clock, disk):
    """It is told what its person was shown, and what it would be told after a restart."""
    script = f"""
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [{{ text = "I ask." }}, {{ call = "probe", arguments = {{ name = "a", asks = true }} }}]
[[rules.replies]]
steps = [{{ text = "{WORDS}" }}]
"""
    async with indoors(tmp_path, script + HELLO, connect=disk.connect) as daemon:
        session_id, turn = await daemon.begin("go")
        ask = await daemon.editor.next_ask()
        disk.fill()
        await daemon.editor.choose(ask, "approve")
        assert await turn.ended() == "_term2_error"
        disk.free()
        session = daemon.session(session_id)
        assert (await daemon.editor.prompt(session_id, "hi")).text == "Hello."
        told = session.transcript.messages()
        assert WORDS not in str(told)
        assert [message.text for message in told if isinstance(message, UserSaid)] == ["go", "hi"]
        await daemon.editor.request("session/close", {"sessionId": session_id})
        await daemon.editor.request("session/resume", {"sessionId": session_id, "cwd": str(daemon.workspace)})
        assert daemon.session(session_id).transcript.messages() == told


async def test_an_ending_that_cannot_be_kept_does_not_say_that_all_went_well(tmp_path, autojump_clock, disk):
    script = f"""
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [{{ wait_ms = 10 }}, {{ text = "{WORDS}" }}]
"""
    async with indoors(tmp_path, script + HELLO, connect=disk.connect) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.seen("user_message")
        disk.fill()
        assert await turn.ended() == "_term2_error"
        assert turn.updates[-1]["_meta"]["term2"]["error"]["code"] == "store_full"
        assert len([u for u in turn.of("state_update") if u["state"] == "idle"]) == 1
        assert WORDS not in str(turn.updates)
        disk.free()
        assert (await daemon.editor.prompt(session_id, "hi")).text == "Hello."


class Command(Probe):
    """A tool that shows what a command does: its beginning, when ``go`` is set much output, then its end.

    It begins before ``go`` or, where ``begins`` is false, after it.
    """

    name = "command"

    def __init__(self, *, begins: bool) -> None:
        super().__init__()
        self.go = trio.Event()
        self._begins = begins

    async def run(self, prepared, context):
        begun = TerminalUpdate(TERMINAL, "yes", "/somewhere")
        if self._begins:
            await context.publish(begun)
        await self.go.wait()
        try:
            if not self._begins:
                await context.publish(begun)
            await context.publish(TerminalOutput(TERMINAL, WORDS.encode()))
            await trio.sleep_forever()
        finally:
            context.ports.show_nowait([TerminalUpdate(TERMINAL, exit_status=ExitStatus(signal="SIGKILL"))])


TERMINAL = "term_0123456789abcdef0123"


@pytest.mark.parametrize("begins", [True, False])
async def test_output_that_cannot_be_kept_leaves_no_terminal_that_seems_to_run(
    tmp_path, autojump_clock, disk, begins
):
    script = """
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [{ call = "command", arguments = { name = "a" } }]
"""
    command = Command(begins=begins)
    tools = {"command": command}
    async with indoors(tmp_path, script + HELLO, connect=disk.connect, more_tools=tools) as daemon:
        _session_id, turn = await daemon.begin("go")
        await turn.seen("tool_call_update", status="in_progress")
        if begins:
            await turn.seen("terminal_update")
        disk.fill()
        command.go.set()
        assert await turn.ended() == "_term2_error"
        shown = turn.of("terminal_update")
        # Its end, bare; of a terminal that the client was never shown, not even that.
        assert [update.get("exitStatus") for update in shown] == ([None, {"signal": "SIGKILL"}] * begins)
        assert turn.of("terminal_output_chunk") == []
        assert [call["status"] for call in turn.calls.values()] == ["failed"]
        disk.free()


class Steady(Probe):
    """A tool that shows a short command, in pieces that are journalled one by one."""

    name = "steady"

    async def run(self, prepared, context):
        status = ExitStatus(signal="SIGKILL")
        try:
            await context.publish(TerminalUpdate(TERMINAL, "make", "/somewhere"))
            for _ in range(3):
                await trio.sleep(1)
                await context.publish(TerminalOutput(TERMINAL, b"piece\n"))
            await trio.sleep(1)
            status = ExitStatus(0)
        finally:
            context.ports.show_nowait([TerminalUpdate(TERMINAL, exit_status=status)])
        return await super().run(prepared, context)


async def fails_at(root, n):
    """Run a command with a journal whose ``n``-th write fails; whether there were so many."""
    script = """
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [{ call = "steady", arguments = { name = "a" } }, { call = "probe", arguments = { name = "b" } }]
[[rules.replies]]
steps = [{ text = "Done." }]
"""
    async with indoors(root, script + HELLO, more_tools={"steady": Steady()}) as daemon:
        await daemon.editor.initialize()
        session_id = await daemon.editor.new_session(daemon.workspace)
        store = await daemon.core.store()
        append, left = store.append, n

        async def failing(session_id, events):
            nonlocal left
            left -= 1
            if left == 0:
                raise StoreFailed.because(FULL)
            await append(session_id, events)

        store.append = failing
        try:
            turn = await daemon.editor.begin(session_id, "go")
        except Refused as refused:
            if (n, refused.code) != (1, -32603):
                raise
            return True
        reason = await turn.ended()
        store.append = append
        failed = left <= 0
        assert reason == ("_term2_error" if failed else "end_turn")
        assert (await daemon.editor.prompt(session_id, "hi")).text == "Hello."
        await daemon.editor.request("session/close", {"sessionId": session_id})
        start = len(daemon.editor.frames)
        params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
        await daemon.editor.request("session/resume", params)
        for seen in (turn.updates, daemon.editor.updates(session_id, start)):
            things = fold(seen)["things"]
            assert all("exitStatus" in thing for thing in things if thing["is"] == "terminal")
            calls = [thing for thing in things if thing["is"] == "tool_call"]
            assert all(call["status"] in ("completed", "failed") for call in calls)
        return failed


async def test_a_journal_that_fails_at_every_write_of_a_command(tmp_path, autojump_clock):
    n = 1
    while await fails_at(_made(tmp_path / str(n)), n):
        n += 1
    assert n > 8, "the turn has more writes than that"


def _made(folder):
    folder.mkdir()
    return folder
