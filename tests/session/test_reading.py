"""A session that is opened after its process was killed: its journal is made whole by what its files hold,
and the client, the model and the next process are told the same. A real store, real files, and a journal as a
killed process leaves it. Files are looked at in threads, so the clock is the real one."""

import hashlib
import logging
import os
import sqlite3

import trio

from term2_acp.domain import events as ev
from term2_acp.domain.content import Text
from term2_acp.domain.ids import MessageId, SessionId, TerminalId, ToolCallId
from term2_acp.domain.toolcall import FileDigests, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import StopReason
from term2_acp.providers.base import ToolAnswered
from term2_acp.redact import PLACEHOLDER
from term2_acp.session import reading
from term2_acp.session.outcome import MADE, NOT_MADE, NOT_RUN
from term2_acp.session.recovery import INTERRUPTED
from term2_acp.store import InlineRunner, SessionRecord, Store
from term2_acp.store.schema import open_database
from term2_acp.workspace import Edit, FileContent, Workspace
from term2_acp.workspace.aftermath import Aftermath
from tests.kit.fold import fold
from tests.kit.indoors import indoors

HELLO = '[[rules]]\n[[rules.replies]]\nsteps = [{ text = "Hello." }]\n'
CALL, TERM = ToolCallId("call_1"), TerminalId("term_1")
SESSION, OTHER = SessionId("sess_cut"), SessionId("sess_other")
CUT_AT, OTHER_AT = "2026-01-01T10:00:00.000Z", "2026-01-01T11:00:00.000Z"


def digest(words):
    return None if words is None else hashlib.sha256(words.encode()).hexdigest()


def cut_off(*changes):
    """A turn up to the dispatch of a call that is to change files."""
    return [
        ev.UserMessage(MessageId("u1"), (Text("go"),)),
        ev.SessionInfoUpdate("go", CUT_AT),
        ev.AgentMessageChunk(MessageId("m1"), "I edit."),
        ev.ToolCallPrepared(CALL, "edit", "{}", "theirs", "0" * 64),
        ToolCallUpdate(CALL, "Edit", "edit", ToolKind.EDIT, ToolStatus.PENDING, content=(Text("diff"),)),
        ev.ReplyEnded("scripted", "m", None),
        ev.ToolCallDispatched(CALL, tuple(changes)),
        ev.TerminalUpdate(TERM, "make", "/w"),
    ]


async def killed(root, events, *, at=CUT_AT):
    """A store with that journal, and a session beside it that was active later."""
    (root / "workspace").mkdir()
    cwd = str(root / "workspace")
    store = Store(str(root / "state"), InlineRunner(), clock=lambda: at)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        await store.open()
        for session, time in ((SESSION, at), (OTHER, OTHER_AT)):
            await store.create(SessionRecord(session, cwd, None, time, time))
        await store.append(SESSION, events)
        await store.aclose()


async def journal_of(daemon):
    events = []
    async with daemon.core._parts.store.journal(SESSION) as journal:
        while chunk := await journal.receive():
            events += chunk
    return events


async def resumed(daemon):
    """What the client sees of the session when it opens it."""
    start = len(daemon.editor.frames)
    params = {"sessionId": SESSION, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
    await daemon.editor.request("session/resume", params)
    return fold(daemon.editor.updates(SESSION, start))["things"]


async def listed(daemon):
    return (await daemon.editor.request("session/list"))["sessions"]


async def test_it_is_made_whole_once_and_told_the_same_to_everyone(tmp_path):
    path = tmp_path / "workspace" / "a.txt"
    events = cut_off(FileDigests(str(path), digest("old"), digest("new")))
    await killed(tmp_path, events)
    path.write_text("new")
    async with indoors(tmp_path, HELLO) as daemon:
        await daemon.editor.initialize()
        before = await listed(daemon)
        seen = await resumed(daemon)
        assert [thing["is"] for thing in seen] == [
            "user_message",
            "agent_message",
            "tool_call",
            "terminal",
            "agent_message",
        ]
        call = seen[2]
        assert call["status"] == "completed"
        assert call["content"][0]["content"]["text"] == "diff"
        assert call["rawOutput"] == {"note": MADE, "effect": "committed"}
        assert seen[3]["exitStatus"] == {}
        assert seen[4]["text"] == INTERRUPTED
        kept = await journal_of(daemon)
        assert kept[: len(events)] == events
        assert [type(event) for event in kept[len(events) :]] == [
            ev.TerminalUpdate,
            ev.ToolCallSettled,
            ToolCallUpdate,
            ev.AgentMessage,
            ev.Idle,
        ]
        # Neither time nor title nor place in the list has changed.
        assert [(one["sessionId"], one.get("title"), one["updatedAt"]) for one in before] == [
            (OTHER, None, OTHER_AT),
            (SESSION, "go", CUT_AT),
        ]
        assert await listed(daemon) == before
        assert await resumed(daemon) == seen, "it is live now"
        (answer,) = [
            message
            for message in daemon.session(SESSION).transcript.messages()
            if isinstance(message, ToolAnswered)
        ]
        assert (answer.result, answer.failed) == (MADE, False)
        await daemon.editor.request("session/close", {"sessionId": SESSION})
        path.write_text("old")  # it is settled, whatever happens to the file
        assert await resumed(daemon) == seen
        assert await journal_of(daemon) == kept
        assert (await daemon.editor.prompt(SESSION, "on")).text == "Hello."
        assert (await journal_of(daemon))[: len(kept)] == kept


async def test_it_is_opened_without_a_replay_all_the_same_and_the_next_reader_sees_it(tmp_path):
    path = tmp_path / "workspace" / "a.txt"
    # An older term2 left a turn without an end, and went on.
    older = [
        ev.UserMessage(MessageId("u0"), (Text("first"),)),
        ev.ToolCallPrepared(ToolCallId("call_0"), "edit", "{}", "theirs", "0" * 64),
    ]
    await killed(tmp_path, [*older, *cut_off(FileDigests(str(path), None, digest("new")))])
    async with indoors(tmp_path, HELLO) as daemon:
        await daemon.editor.initialize()
        start = len(daemon.editor.frames)
        await daemon.editor.request("session/resume", {"sessionId": SESSION, "cwd": str(daemon.workspace)})
        assert fold(daemon.editor.updates(SESSION, start))["things"] == []
        kept = await journal_of(daemon)
        settled = next(event for event in kept if isinstance(event, ev.ToolCallSettled))
        assert settled.result == NOT_MADE
        messages = daemon.session(SESSION).transcript.messages()
        assert [one.result for one in messages if isinstance(one, ToolAnswered)] == [NOT_RUN, NOT_MADE]
        await daemon.editor.request("session/close", {"sessionId": SESSION})
        things = await resumed(daemon)
        assert things[1]["text"] == INTERRUPTED
        call = next(thing for thing in things if thing["is"] == "tool_call")
        assert (call["status"], call["rawOutput"]["effect"]) == ("failed", "failed")
        assert await journal_of(daemon) == kept


async def test_a_full_disk_opens_it_with_what_was_found_and_one_warning(tmp_path, caplog):
    # What is to be kept names twenty long paths, twice: it does not fit into the pages that there are.
    paths = [tmp_path / "workspace" / f"{number}{'x' * 200}" for number in range(20)]
    events = cut_off(*(FileDigests(str(path), None, digest("new")) for path in paths))
    await killed(tmp_path, events)
    paths[0].write_text("new")
    connections = []

    def connect(at):
        connections.append(open_database(at))
        return connections[0]

    async with indoors(tmp_path, HELLO, connect=connect) as daemon:
        await daemon.editor.initialize()
        await listed(daemon)
        pages = connections[0].execute("PRAGMA page_count").fetchone()[0]
        connections[0].execute(f"PRAGMA max_page_count = {pages}")
        caplog.clear()
        seen = await resumed(daemon)
        warnings = [one for one in caplog.records if one.name == reading.__name__]
        assert [one.levelno for one in warnings] == [logging.WARNING]
        assert "disk" in warnings[0].getMessage()
        assert await journal_of(daemon) == events
        words = seen[2]["content"][0]["content"]["text"]
        assert f"{paths[0]} is as the call was to leave it. {paths[1]} is as it was before." in words
        messages = daemon.session(SESSION).transcript.messages()
        assert [one.result for one in messages if isinstance(one, ToolAnswered)] == [words]
        connections[0].execute("PRAGMA max_page_count = 100000")
        await daemon.editor.request("session/close", {"sessionId": SESSION})
        assert await resumed(daemon) == seen
        assert len(await journal_of(daemon)) == len(events) + 5


async def test_an_end_that_could_not_be_kept_goes_to_the_journal_ahead_of_the_next_record(tmp_path):
    path = tmp_path / "workspace" / "made.txt"
    events = cut_off(FileDigests(str(path), None, digest("new")))
    await killed(tmp_path, events)
    path.write_text("new")
    full = True

    class FullDisk(sqlite3.Connection):
        def executemany(self, statement, rows, /):
            if full:
                raise sqlite3.OperationalError("database or disk is full")
            return super().executemany(statement, rows)

    def connect(at):
        open_database(at).close()
        return sqlite3.connect(at, isolation_level=None, factory=FullDisk)

    async with indoors(tmp_path, HELLO, connect=connect) as daemon:
        await daemon.editor.initialize()
        seen = await resumed(daemon)
        assert [one.get("status") for one in seen if one["is"] == "tool_call"] == ["completed"]
        assert await journal_of(daemon) == events
        assert await resumed(daemon) == seen  # it is live now, and what it is owed is told again
        full = False
        path.write_text("changed by the person")
        await daemon.editor.prompt(SESSION, "hi")
        kept = await journal_of(daemon)
        assert type(kept[len(events) + 4]) is ev.Idle
        assert type(kept[len(events) + 5]) is ev.UserMessage
        await daemon.editor.request("session/close", {"sessionId": SESSION})
        # Nobody looks at files in the midst of a journal: what was told once is what it says.
        assert (await resumed(daemon))[: len(seen)] == seen


async def test_what_cannot_be_looked_at_is_not_known_and_holds_nobody_up(tmp_path, monkeypatch):
    workspace = tmp_path / "workspace"
    hangs, secret = workspace / "hangs", workspace / f"a{PLACEHOLDER}"
    own = tmp_path / "state" / "sessions.db"
    good = workspace / "good"
    changes = [FileDigests(str(path), None, digest("new")) for path in (good, secret, own, hangs)]
    await killed(tmp_path, cut_off(*changes))
    good.write_text("new")
    asked, look = [], Aftermath.digest

    async def digest_or_hang(aftermath, path, *, was_there):
        asked.append(path)
        if path == str(hangs):
            await trio.sleep_forever()
        return await look(aftermath, path, was_there=was_there)

    monkeypatch.setattr(Aftermath, "digest", digest_or_hang)
    monkeypatch.setattr(reading, "LOOK_S", 0.2)
    async with indoors(tmp_path, HELLO) as daemon:
        await daemon.editor.initialize()
        call = (await resumed(daemon))[2]
        assert call["rawOutput"]["effect"] == "outcome_unknown"
        words = call["content"][0]["content"]["text"]
        assert f"{good} is as the call was to leave it." in words
        for path in (secret, own, hangs):
            assert f"{path} could not be looked at." in words
        assert str(secret) not in asked


async def test_a_removal_is_not_known_where_the_folder_is_gone_as_well(tmp_path):
    kept = tmp_path / "workspace" / "moved away" / "a.txt"
    await killed(tmp_path, cut_off(FileDigests(str(kept), digest("old"), None)))
    async with indoors(tmp_path, HELLO) as daemon:
        await daemon.editor.initialize()
        call = (await resumed(daemon))[2]
        assert (call["status"], call["rawOutput"]["effect"]) == ("failed", "outcome_unknown")
        assert "look before you repeat it" in call["content"][0]["content"]["text"]


async def test_what_the_killed_call_had_staged_is_cleared_away(tmp_path):
    path = tmp_path / "workspace" / "a.txt"
    events = cut_off(FileDigests(str(path), None, digest("new")))
    await killed(tmp_path, events)
    edits = {}
    for session in (SESSION, OTHER):
        files = Workspace(str(tmp_path / "workspace"), home=None, owner=session)
        edit = Edit(files.resolve("a.txt"), FileContent.of(b"new"), None)
        edits[session] = await files.stage_all([edit])
    assert len(os.listdir(tmp_path / "workspace")) == 2
    async with indoors(tmp_path, HELLO) as daemon:
        await daemon.editor.initialize()
        assert (await resumed(daemon))[2]["rawOutput"]["effect"] == "failed"
        (left,) = os.listdir(daemon.workspace)
        assert left == edits[OTHER].edits[0].staged
    for staged in edits.values():
        staged.discard_nowait()


async def test_a_live_session_is_only_shown_again(tmp_path):
    async with indoors(tmp_path, HELLO) as daemon:
        await daemon.editor.initialize()
        session_id = SessionId(await daemon.editor.new_session(daemon.workspace))
        await daemon.editor.prompt(session_id, "hi")
        store = daemon.core._parts.store
        # Its process would be dead if this were the end of a journal that nobody writes.
        await store.append(session_id, [ev.UserMessage(MessageId("u9"), (Text("later"),))])
        before = await store.standing(session_id)
        params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
        start = len(daemon.editor.frames)
        await daemon.editor.request("session/resume", params)
        things = fold(daemon.editor.updates(session_id, start))["things"]
        assert things[-1]["text"] == INTERRUPTED
        assert await store.standing(session_id) == before
        await store.append(session_id, [ev.Idle(StopReason.END_TURN)])
