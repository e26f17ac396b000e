"""A turn whose client offers its files: what asks, what a cancel leaves, what stays of a write that nobody
answered for, and what of a change is kept.

The whole daemon runs in this process; the editor behind its file port is a fake with buffers.
"""

import json
from contextlib import nullcontext

import pytest
import trio

from term2_acp.acp.v2.client import V2Client
from term2_acp.domain.content import Change, Diff, FileTexts, Operation
from term2_acp.domain.ids import ToolCallId
from term2_acp.domain.toolcall import ToolCallUpdate
from term2_acp.redact import Redactor
from term2_acp.session.redaction import redacted
from term2_acp.tools.base import Outcome
from term2_acp.transport.peer import Gone
from tests.kit.editor_files import READ, WRITE, EditorWithFiles, refusal
from tests.kit.editor_v1 import EditorV1
from tests.kit.fold import fold
from tests.kit.indoors import indoors
from tests.kit.until import until
from tests.session.test_files_in_a_turn import create, playing, read, replace
from tests.session.test_nested_calls import Nester, nest


@pytest.fixture
def editor(tmp_path, monkeypatch):
    editor = EditorWithFiles()
    monkeypatch.setattr(V2Client, "files", lambda self, session_id: editor.files(tmp_path / "workspace"))
    return editor


def words(call):
    return json.dumps(call["content"])


async def replayed(daemon, session_id):
    """The session's updates as a resume in the same process shows them."""
    await daemon.editor.request("session/close", {"sessionId": session_id})
    start = len(daemon.editor.frames)
    params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
    await daemon.editor.request("session/resume", params)
    return fold(daemon.editor.updates(session_id, start))


async def test_a_turn_reads_and_writes_through_the_editor(tmp_path, editor):
    rules = {"go": [[read("a.txt")], [replace("a.txt", "one", "two"), create("b/c.txt")]]}
    async with indoors(tmp_path, playing(rules)) as daemon:
        (daemon.workspace / "a.txt").write_text("one\n")
        editor.buffers[str(daemon.workspace / "a.txt")] = "one, typed\n"
        session_id, turn = await daemon.begin("go")
        assert await turn.ended() == "end_turn"
        assert [call["status"] for call in turn.calls.values()] == ["completed"] * 3
        assert (daemon.workspace / "a.txt").read_text() == "two, typed\n"
        assert (daemon.workspace / "b" / "c.txt").read_text() == "new\n"
        assert editor.methods() == [READ, READ, READ, WRITE, READ, WRITE]
        live = fold(daemon.editor.updates(session_id))
        assert await replayed(daemon, session_id) == live


async def test_an_error_of_the_editor_fails_the_call_and_the_turn_goes_on(tmp_path, editor):
    editor.answers[WRITE] = refusal()
    async with indoors(tmp_path, playing({"go": [[create("a.txt")], [create("b.txt")]]})) as daemon:
        _, turn = await daemon.begin("go")
        assert await turn.ended() == "end_turn"
        assert [call["status"] for call in turn.calls.values()] == ["failed", "failed"]
        assert all("does not offer that after all" in words(call) for call in turn.calls.values())
        assert list(daemon.workspace.iterdir()) == []


async def test_a_write_that_nobody_answered_for_failed_with_that_word(tmp_path, editor):
    editor.answers[WRITE] = Gone()
    async with indoors(tmp_path, playing({"go": [[create("a.txt")]]})) as daemon:
        session_id, turn = await daemon.begin("go")
        assert await turn.ended() == "end_turn"
        (call,) = turn.calls.values()
        assert call["status"] == "failed"
        assert (
            f"outcome_unknown: The editor was to write {daemon.workspace / 'a.txt'}, and is gone."
            in words(call)
        )
        assert "no effect" not in words(call)
        live = fold(daemon.editor.updates(session_id))
        assert await replayed(daemon, session_id) == live


async def test_a_cancel_while_the_editor_writes_ends_at_once_and_says_what_is_unknown(tmp_path, editor):
    editor.hold = {WRITE}
    async with indoors(tmp_path, playing({"go": [[create("a.txt")]]})) as daemon:
        session_id, turn = await daemon.begin("go")
        await until(lambda: WRITE in editor.methods())
        await daemon.editor.cancel(session_id)
        assert await turn.ended() == "cancelled"
        assert editor.withdrawn == [1]
        editor.let_go()
        (call,) = turn.calls.values()
        assert call["status"] == "cancelled"
        assert "outcome_unknown: The editor was writing" in words(call)
        live = fold(daemon.editor.updates(session_id))
        assert await replayed(daemon, session_id) == live


class EndsEarly(Nester):
    """A program that ends while the editor is at the call that it made."""

    def __init__(self, editor):
        super().__init__()
        self.editor = editor

    async def run(self, prepared, context):
        async with context.ports.nesting() as nesting, trio.open_nursery() as nursery:
            name, arguments = prepared.work.calls[0]
            nursery.start_soon(nesting.call, name, json.dumps(arguments), nullcontext)
            await until(lambda: WRITE in self.editor.methods())
            nursery.cancel_scope.cancel()
        return Outcome("ended")


async def test_a_program_that_ends_while_the_editor_writes_for_it_leaves_that_word_too(tmp_path, editor):
    editor.hold = {WRITE}
    more = {"nester": EndsEarly(editor)}
    async with indoors(tmp_path, playing({"go": [[nest(create("a.txt"))]]}), more_tools=more) as daemon:
        _, turn = await daemon.begin("go")
        assert await turn.ended() == "end_turn"
        program, call = turn.calls.values()
        assert (program["status"], call["status"]) == ("completed", "failed")
        assert "outcome_unknown: The editor was writing" in words(call)
        assert "no effect" not in words(call)


async def test_a_protected_name_asks_before_the_editor_is_told(tmp_path, editor):
    async with indoors(tmp_path, playing({"go": [[create(".envrc")], [create("AGENTS.md")]]})) as daemon:
        _, turn = await daemon.begin("go")
        ask = await daemon.editor.next_ask()
        assert editor.asked == []
        await daemon.editor.choose(ask, "deny")
        ask = await daemon.editor.next_ask()
        await daemon.editor.choose(ask, "allow-once")
        assert await turn.ended() == "end_turn"
        path = str(daemon.workspace / "AGENTS.md")
        assert [(method, params["path"]) for method, params in editor.asked] == [(READ, path), (WRITE, path)]
        assert [call["status"] for call in turn.calls.values()] == ["failed", "completed"]


async def test_a_file_outside_asks_and_is_the_disks(tmp_path, editor):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.txt").write_text("A\n")
    rules = {"go": [[read(tmp_path / "outside/a.txt")], [replace(tmp_path / "outside/a.txt", "A", "B")]]}
    async with indoors(tmp_path, playing(rules)) as daemon:
        _, turn = await daemon.begin("go")
        await daemon.editor.choose(await daemon.editor.next_ask(), "approve")
        await daemon.editor.choose(await daemon.editor.next_ask(), "allow-once")
        assert await turn.ended() == "end_turn"
        assert (tmp_path / "outside/a.txt").read_text() == "B\n"
        assert editor.asked == []


async def test_a_client_of_v1_sees_its_buffers_under_the_name_that_it_gave(tmp_path):
    """The same through the door that offers it: a workspace that was opened through a link."""
    rules = {"go": [[read("a.txt")], [replace("a.txt", "one", "two")], [create("b.txt")]]}
    asked = []

    def serve(frame):
        asked.append((frame["method"], frame["params"]))
        if frame["method"] == WRITE:
            return {}
        return {"content": "one, typed\n" if frame["params"]["path"].endswith("/a.txt") else ""}

    async with indoors(tmp_path, playing(rules)) as daemon:
        (daemon.workspace / "a.txt").write_text("one\n")
        (tmp_path / "link").symlink_to("workspace")
        daemon.editor.on_call = serve
        editor = EditorV1(daemon.editor)
        await editor.initialize({"fs": {"readTextFile": True, "writeTextFile": True}})
        session_id = await editor.new_session(tmp_path / "link")
        turn = await editor.prompt(session_id, "go")
        assert [call["status"] for call in turn.calls.values()] == ["completed"] * 3
        a, b = (
            {"sessionId": session_id, "path": str(tmp_path / "link" / name)} for name in ("a.txt", "b.txt")
        )
        assert asked == [
            (READ, a),
            (READ, a),
            (READ, a),
            (WRITE, {**a, "content": "two, typed\n"}),
            (READ, b),
            (WRITE, {**b, "content": "new\n"}),
        ]
        assert [path.name for path in daemon.workspace.iterdir()] == ["a.txt"]
        assert (daemon.workspace / "a.txt").read_text() == "one\n"
        (diff,) = [*turn.calls.values()][1]["content"]
        assert (diff["oldText"], diff["newText"]) == ("one, typed\n", "two, typed\n")


def test_a_key_in_the_texts_of_a_diff_is_replaced_also_where_no_hunk_shows_it():
    key = "sk-" + "0123456789" * 3
    texts = FileTexts("/a", f"one\n{key}\n", f"two\n{key}\n")
    diff = Diff((Change(Operation.MODIFY, "/a"),), "@@ -1 +1 @@\n-one\n+two\n", (texts,))
    event = ToolCallUpdate(ToolCallId("call_1"), content=(diff,), raw_input={"path": "/a"})
    (shown,) = redacted(event, Redactor([key])).content
    assert shown.texts == (FileTexts("/a", "one\n[redacted]\n", "two\n[redacted]\n"),)
    assert redacted(event, Redactor(["another-key"])) is event
