"""A journal that cannot be written: nothing unkept is shown, one sentence says why, and the session lives.

The disk is a real SQLite file whose size is capped by a pragma, so that it is full when the test says so.
"""

import pytest

from term2_acp.store.schema import open_database
from tests.kit.fold import fold
from tests.kit.indoors import indoors

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
