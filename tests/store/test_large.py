"""A store that has grown: what a page of ten thousand sessions costs, in SQLite's own steps, and that a long
session is shown again in bounded memory, at the pace of the client that reads it. (How long it all takes is
for ``make bench``.)"""

import tracemalloc
from itertools import chain

import trio
import trio.testing

from term2_acp.domain import events as ev
from term2_acp.domain.content import Text
from term2_acp.domain.ids import MessageId, SessionId
from term2_acp.session.reading import show_again
from term2_acp.store import journal
from term2_acp.store.database import Database
from term2_acp.store.schema import open_database
from term2_acp.transport.writer import WRITER_BACKLOG
from tests.kit.indoors import indoors

SESSIONS = 10_000
PAGE = 50


class Counting:
    """Counts the steps of SQLite's machine, some hundreds at a time."""

    EVERY = 500

    def __init__(self):
        self.steps = 0
        self.connection = None

    def connect(self, path):
        self.connection = open_database(path)
        self.connection.set_progress_handler(self._count, self.EVERY)
        return self.connection

    def _count(self):
        self.steps += self.EVERY


def fill(connection):
    """A tenth of the sessions in one directory, the others in as many. Many were active at one moment."""
    connection.execute("BEGIN")
    connection.executemany(
        "INSERT INTO session (id, cwd, title, created_at) VALUES (?, ?, ?, '2026-11-01T00:00:00.000Z')",
        [
            (b"s%d" % n, b"/own/%d" % (n % 1000) if n % 10 else b"/most", b"title %d" % n)
            for n in range(SESSIONS)
        ],
    )
    connection.executemany(
        "INSERT INTO activity (session, updated_at) VALUES (?, ?)",
        [(n + 1, f"2026-11-{1 + n * 7 % 28:02}T{n % 24:02}:00:00.{n % 10:03}Z") for n in range(SESSIONS)],
    )
    connection.execute("COMMIT")


async def test_every_page_of_ten_thousand_sessions_costs_one_look_at_each_at_most(opened, tmp_path):
    counting = Counting()

    async def pages(cwd):
        """Each page, and the steps that it took."""
        pages, cursor = [], None
        while not pages or cursor is not None:
            counting.steps = 0
            page = await store.page(cwd, cursor)
            pages.append((page.sessions, counting.steps))
            cursor = page.next_cursor
        return pages

    async with opened(tmp_path, connect=counting.connect) as store:
        fill(counting.connection)
        for cwd, count, most in (
            (None, SESSIONS, 15 * SESSIONS),
            ("/most", SESSIONS // 10, 25 * SESSIONS // 10),
            ("/own/1", SESSIONS // 1000, 1_000),  # what others have is not looked at
            ("/nobody's", 0, 500),
        ):
            read = await pages(cwd)
            listed = list(chain.from_iterable(sessions for sessions, _steps in read))
            assert len(read) == max(1, count // PAGE)
            assert len({session.session_id for session in listed}) == len(listed) == count
            assert {session.cwd for session in listed} <= {cwd} or cwd is None
            moments = [(session.updated_at, int(session.session_id[1:])) for session in listed]
            assert moments == sorted(moments, reverse=True)
            assert max(steps for _sessions, steps in read) <= most


# -- a long session --------------------------------------------------------------------------------------

SAID = "x" * 2000
SCRIPT = '[[rules]]\n[[rules.replies]]\nsteps = [{ text = "ok" }]\n'


def turn(n):
    """A turn of five rows."""
    return [
        ev.UserMessage(MessageId(f"u{n}"), (Text(f"prompt {n}"),)),
        ev.AgentMessageChunk(MessageId(f"m{n}"), SAID),
        ev.AgentMessageChunk(MessageId(f"n{n}"), "and "),
        ev.ReplyEnded("lab", "sage"),
        ev.Idle(),
    ]


def lengthen(directory, session_id, turns):
    """Put so many turns into the journal of a session, in one go."""
    database = Database(open_database(str(directory / "sessions.db")))
    rows = database.to_rows(chain.from_iterable(map(turn, range(turns))))
    number = database.number_of(session_id)
    database.commit(lambda: database.append(number, rows, 0, None, None))
    database.close()


class Reader:
    """A client that takes what it is shown, and keeps nothing but how much that was."""

    def __init__(self):
        self.shown = 0

    def show(self, _session_id, events):
        self.shown += len(events)

    async def ready(self):
        await trio.lowlevel.checkpoint()


async def test_what_a_replay_holds_at_a_time_does_not_grow_with_the_session(opened, record, tmp_path):
    peaks = []
    async with opened(tmp_path) as store:
        for turns in (100, 200, 700):  # the first one is warm-up
            session_id = SessionId(f"s{turns}")
            await store.create(record(session_id))
            lengthen(tmp_path, session_id, turns)
            reader = Reader()
            tracemalloc.start()
            await show_again(store, session_id, reader)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
            assert reader.shown == 3 * turns
    _warm, short, long = peaks
    assert short > journal.CHUNK_ROWS / 5 * len(SAID) / 2, "it holds some of it"
    assert long < short + 200_000, "a replay of 3,500 rows holds what one of 1,000 does"


async def test_a_client_that_does_not_read_stops_the_journal_from_being_read(
    tmp_path, autojump_clock, monkeypatch
):
    read = []
    read_chunk = journal.read_chunk
    monkeypatch.setattr(
        journal, "read_chunk", lambda *bounds: (read.append(chunk := read_chunk(*bounds)), chunk)[1]
    )
    async with indoors(tmp_path, SCRIPT) as daemon:
        editor, peer = daemon.editor, daemon.peer
        await editor.initialize()
        session_id = await editor.new_session(daemon.workspace)
        await editor.request("session/close", {"sessionId": session_id})
        turns = 1500
        lengthen(tmp_path / "state", session_id, turns)
        editor.gate = None  # five thousand frames of three kinds
        daemon.wire.stop_reading()
        params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
        resume = await editor.call("session/resume", params)
        await trio.testing.wait_all_tasks_blocked()
        assert peer.behind
        largest = max(len(chunk.events) for chunk in read) * (len(SAID) + 200)
        writer = peer._writer
        assert writer.queued - writer.written < WRITER_BACKLOG + largest
        assert sum(len(chunk.events) for chunk in read) < 5 * turns / 2
        stopped = len(read)
        await trio.sleep(60)
        assert len(read) == stopped
        before = len(editor.frames)
        daemon.wire.resume_reading()
        assert await resume.result() == {}
        assert sum(len(chunk.events) for chunk in read) == 5 * turns
        kinds = [frame["params"]["update"]["sessionUpdate"] for frame in editor.frames[before:-1]]
        assert kinds == ["user_message", "agent_message", "agent_message"] * turns + ["state_update"]
