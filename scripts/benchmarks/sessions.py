"""Sessions that are kept: how fast they are written, listed and shown again, and how that grows.

The store is filled by the product's own code, in this process, in a home of its own. Here the reference is no
other agent, but term2 with less of the same: what a figure does when there is ten times as much.
"""

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import trio
from benchmarks.client import Agent
from benchmarks.pairs import SUBJECT, House, Pair, compare

from term2_acp.domain import events as ev
from term2_acp.domain.content import Text
from term2_acp.domain.ids import MessageId, SessionId, ToolCallId
from term2_acp.domain.toolcall import DecidedBy, Effect, Location, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import StopReason
from term2_acp.domain.usage import TurnUsage, Usage
from term2_acp.store import SessionRecord, Store, ThreadRunner
from term2_acp.store.database import Database
from term2_acp.store.rows import Row, RowCodec
from term2_acp.store.schema import open_database

TENTH, PLAIN = "a tenth", "SQLite"

EVENTS = 21
"""Events of a turn."""

LONG, SHORT = 100_000, 10_000
"""Events of the sessions that are shown again, but for a turn that would be cut off."""

SESSIONS, FEW = 10_000, 50
"""Sessions in the list, and those of one directory among them."""

JOURNALLED = 950 * EVENTS

_TIME = "2026-11-30T10:00:00.000Z"
_FILE = "def one():\n    return 1\n" * 20
_TOKENS = Usage(12_000, 300, 11_000)


def turn(number: int) -> Iterator[ev.Event]:
    """A turn as they mostly are: the model thinks, speaks, reads a file, and speaks for longer. 21 events.

    What the model streams becomes a row whenever it pauses for some milliseconds, so it is in a few pieces.
    """
    prompt = MessageId(f"msg_{number:020x}")
    thought, first, second = (MessageId(f"msg_{number:016x}{place:04x}") for place in (1, 2, 3))
    call = ToolCallId(f"call_{number:020x}")
    yield ev.UserMessage(prompt, (Text(f"Look at module {number} and mend what is wrong with it."),))
    yield ev.Circumstances(prompt, "bench 1", "{}", "1", 2, "lab", "sage", "default", ("/home/me/project",))
    for _ in range(2):
        yield ev.AgentThoughtChunk(thought, "I should see what it does before I change it. " * 2)
    yield ev.AgentMessageChunk(first, "Let me read it first.")
    yield ev.ToolCallPrepared(call, "read_file", '{"path": "one.py"}', "toolu_1", "0" * 64)
    yield ToolCallUpdate(
        call,
        "Read one.py",
        "read_file",
        ToolKind.READ,
        ToolStatus.PENDING,
        locations=(Location("/home/me/project/one.py"),),
        raw_input={"path": "one.py"},
    )
    yield ev.UsageUpdate(12_300, 200_000, number * 10**9)
    yield ev.ReplyEnded("lab", "sage", usage=_TOKENS, cost_pico_usd=10**9)
    yield ev.ToolCallDecided(call, True, DecidedBy.POLICY, "standard", ("/home/me/project/one.py",))
    yield ev.ToolCallDispatched(call)
    yield ev.ToolCallSettled(call, Effect.COMMITTED, _FILE, took_ms=1)
    yield ToolCallUpdate(call, status=ToolStatus.COMPLETED, content=(Text(_FILE),), raw_output={"lines": 40})
    for _ in range(6):
        yield ev.AgentMessageChunk(second, "It returns one where it should count. I would change it so. ")
    yield ev.ReplyEnded("lab", "sage", usage=_TOKENS, cost_pico_usd=10**9)
    yield ev.Idle(StopReason.END_TURN, usage=TurnUsage(2, 2, _TOKENS, 2 * 10**9))


SHOWN = 5
"""Frames of a turn that is shown again: the prompt, a thought, a message, the call, a message."""

# How a turn comes to the journal: what is said in one moment is one group, and one commit.
_GROUPS = (2, 1, 1, 1, 4, 4, 1, 1, 1, 1, 1, 1, 2)


def _apart(house: House, name: str) -> House:
    """A home of its own, with the same settings and an empty store."""
    home = house.home / name
    settings = home / ".config" / "term2"
    settings.mkdir(parents=True)
    shutil.copy(house.home / ".config" / "term2" / "settings.toml", settings)
    Path(home, ".local", "state", "term2").mkdir(parents=True)
    return House(house.argv, home)


def _store_of(house: House) -> str:
    return str(house.home / ".local" / "state" / "term2")


def _record(name: str, cwd: str) -> SessionRecord:
    return SessionRecord(SessionId(name), cwd, name, _TIME, _TIME)


# -- shown again ---------------------------------------------------------------------------------------


def _filled(house: House) -> House:
    """A home with three sessions: a long one, a short one, and one of a single turn."""
    if Path(house.home, "long").exists():
        return House(house.argv, house.home / "long")
    apart = _apart(house, "long")
    database = Database(open_database(f"{_store_of(apart)}/sessions.db"))
    for turns in (LONG // EVENTS, SHORT // EVENTS, 1):
        # One row an event: a run of pieces that is given in one go would be one.
        rows = [row for number in range(turns) for event in turn(number) for row in database.to_rows([event])]

        def add(turns: int = turns, rows: list[Row] = rows) -> None:
            number = database.create(_record(f"sess_{turns}", str(apart.home)))
            database.append(number, rows, 0, None, None)

        database.commit(add)
    database.close()
    return apart


@dataclass(frozen=True)
class Shown:
    """A session that was shown again: its events, the wall time and the agent's CPU that took, in seconds."""

    agent: Agent
    events: int
    seconds: float
    cpu: float


def _show(agent: Agent, house: House, turns: int) -> Shown:
    """Have the session of so many turns opened and shown again."""
    params = {"sessionId": f"sess_{turns}", "cwd": str(house.home), "replayFrom": {"type": "start"}}
    frame = agent.frame("session/resume", params)
    cpu, began = agent.cpu_ns(), time.perf_counter_ns()
    agent.write(frame)
    told = agent.drain_until(b'"id":%d' % agent.last_id)
    took, cpu = time.perf_counter_ns() - began, agent.cpu_ns() - cpu
    shown, wanted = told.count(b"\n"), SHOWN * turns + 3  # the usage, the idle and the answer
    if shown != wanted or b'"error"' in told[-300:]:
        raise agent.failed(f"showed {shown} frames of {wanted}: {told[-300:]!r}")
    return Shown(agent, turns * EVENTS, took / 1e9, cpu / 1e9)


def _shown_again(house: House, figure: Callable[[Shown], float]) -> Pair:
    """The long session, to the short one; each in a process of its own."""
    filled = _filled(house)

    def once(name: str) -> float:
        turns = (LONG if name == SUBJECT else SHORT) // EVENTS
        with filled.launch(SUBJECT) as agent:
            agent.initialize()
            _show(agent, filled, 1)  # imports
            return figure(_show(agent, filled, turns))

    return compare(TENTH, 3, once)


def replay(house: House) -> Pair:
    """Events of a session of 100,000 that are read and shown in a second of CPU; the reference is 10,000."""
    return _shown_again(house, lambda shown: shown.events / shown.cpu)


def resume(house: House) -> Pair:
    """From the request to resume a session of 100,000 events to the last byte of its answer, in ms."""
    return _shown_again(house, lambda shown: shown.seconds * 1e3)


def replay_memory(house: House) -> Pair:
    """The most resident memory of a process that does that, in MiB. It keeps what its model is told."""
    return _shown_again(house, lambda shown: shown.agent.peak_kib() / 1024)


# -- listed --------------------------------------------------------------------------------------------


def pages(house: House) -> Pair:
    """A page of the list of 10,000 sessions, in ms; the reference is that of a directory with 50 of them."""
    apart = _apart(house, "many")
    few = apart.home / "few"
    few.mkdir()
    database = Database(open_database(f"{_store_of(apart)}/sessions.db"))

    def add() -> None:
        for number in range(SESSIONS):
            cwd = few if number % (SESSIONS // FEW) == 0 else apart.home
            database.create(_record(f"sess_{number}", str(cwd)))

    database.commit(add)
    database.close()
    with apart.launch(SUBJECT) as agent:
        agent.initialize()

        def once(name: str) -> float:
            params, read = {} if name == SUBJECT else {"cwd": str(few)}, 0
            began = time.perf_counter_ns()
            while True:
                page = agent.request("session/list", params)
                read += 1
                if "nextCursor" not in page:
                    break
                params = {**params, "cursor": page["nextCursor"]}
            took = time.perf_counter_ns() - began
            if read != (SESSIONS if name == SUBJECT else FEW) // FEW:
                raise agent.failed(f"listed {read} pages")
            return took / read / 1e6

        once(TENTH)  # warm
        return compare(TENTH, 5, once)


# -- journalled ----------------------------------------------------------------------------------------


def _groups() -> Iterator[list[ev.Event]]:
    for number in range(JOURNALLED // EVENTS):
        said = turn(number)
        for size in _GROUPS:
            yield list(islice(said, size))


def journal(house: House) -> Pair:
    """Events a second that are kept, a commit for each group; the reference is SQLite alone with the rows."""
    folders = (_folder(house, f"journal-{number}") for number in itertools.count())

    def once(name: str) -> float:
        seconds = trio.run(_kept, next(folders)) if name == SUBJECT else _plain(next(folders))
        return JOURNALLED / seconds

    return compare(PLAIN, 3, once)


def journal_bytes(house: House) -> Pair:
    """Bytes of the database that an event takes; the reference is its JSON alone."""
    folder = _folder(house, "journal-bytes")
    trio.run(_kept, folder)
    size = Path(folder, "sessions.db").stat().st_size / JOURNALLED
    bodies = sum(len(row.body) for group in _rows() for row in group) / JOURNALLED
    return Pair(size, bodies, size / bodies, size)


def _folder(house: House, name: str) -> str:
    folder = house.home / name
    folder.mkdir()
    return str(folder)


async def _kept(folder: str) -> float:
    """Keep the groups one after the other, as one session does; how long that took, in seconds."""
    store = Store(folder, ThreadRunner())
    session_id = SessionId("sess_1")
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        await store.open()
        await store.create(_record(session_id, folder))
        began = time.perf_counter_ns()
        for group in _groups():
            await store.append(session_id, group)
        took = time.perf_counter_ns() - began
        await store.aclose()
    return took / 1e9


def _rows() -> list[list[Row]]:
    codec = RowCodec()
    return [codec.to_rows(group) for group in _groups()]


def _plain(folder: str) -> float:
    """Put the same rows there in the same groups; how long that took, in seconds."""
    groups = _rows()
    places = itertools.count(1)
    connection = open_database(f"{folder}/sessions.db")
    began = time.perf_counter_ns()
    for group in groups:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(
            "INSERT INTO journal (place, version, kind, body, at) VALUES (?, ?, ?, ?, 0)",
            [(next(places), row.version, row.kind, row.body) for row in group],
        )
        connection.execute("COMMIT")
    took = time.perf_counter_ns() - began
    connection.close()
    return took / 1e9
