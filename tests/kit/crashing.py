"""A conversation that is killed at any write of its journal, and what a client and the files show of it.

``zygote`` gives a process that forks daemons (see ``zygote.py``), ``living`` starts one in a home and yields
its client. ``prepare`` makes a home whose model plays ``SCRIPT``; ``first_life`` holds the conversation there
until it is killed, ``later_life`` opens what is left, replays it and perhaps prompts once more. What they
return is what was seen, nothing is judged here but what the gate and the order checker judge.

The conversation has text, a thought, two reads side by side, a read that asks, an edit of a file, a new file,
a command that appends to a file and shows a terminal, a plan, usage, and a second prompt.
"""

import json
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import trio
from attrs import define, field, frozen

from tests.kit.daemon import Daemon, attached
from tests.kit.fold import fold
from tests.kit.home import Home
from tests.kit.wire import ANSWERS_WITHIN_S

Json = dict[str, Any]

ROOT = Path(__file__).parents[2]

_SCRIPT = """
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [
    { thought = "hm" },
    { text = "I look." },
    { call = "read_file", arguments = { path = "a.txt" } },
    { call = "read_file", arguments = { path = "b.txt" } },
    { usage = [10, 1] },
]
[[rules.replies]]
steps = [{ call = "read_file", arguments = { path = "@OUTSIDE@" } }, { usage = [20, 2] }]
[[rules.replies]]
steps = [
    { text = "I write." },
    { call = "search_replace", raw = '@REPLACE@' },
    { call = "create_file", arguments = { path = "made.txt", content = "made\\n" } },
    { usage = [30, 3] },
]
[[rules.replies]]
steps = [{ call = "shell", arguments = { command = "@COMMAND@" } }, { usage = [40, 4] }]
[[rules.replies]]
[[rules.replies.steps]]
call = "update_plan"
[[rules.replies.steps.arguments.entries]]
content = "Look"
priority = "high"
status = "completed"
[[rules.replies]]
steps = [{ text = "Done." }, { usage = [50, 5] }]

[[rules]]
[[rules.replies]]
steps = [{ text = "Hello." }, { usage = [60, 6] }]
"""

BEFORE, AFTER, MADE = "one\n", "two\n", "made\n"
# A write of the journal, the first of its output, falls into the pause.
COMMAND = "echo ran >> ran.txt; echo first; sleep 0.05; echo second"
REPLACE = {"path": "a.txt", "replacements": [{"search_content": "one", "replace_content": "two"}]}


@frozen
class Fault:
    """Where a daemon kills itself: in its ``write``-th write transaction, "before" or "after" the COMMIT.

    In place of a number, a kind of rows: in the first write of such a row.
    """

    write: int | str
    when: str

    def __str__(self) -> str:
        return f"{self.when} the COMMIT of write {self.write}"


# -- processes ---------------------------------------------------------------------------------------


@define
class Zygote:
    """A process that forks daemons. Its answers come at once, so they are waited for where they are asked."""

    _door: socket.socket

    def fork(self, home: Home, report: Path, fault: Fault | None = None, user: int | None = None) -> "Forked":
        """A daemon in that home; as another user, if one is given."""
        (input_, ours_in), (ours_out, output), (ours_err, errors) = (os.pipe() for _ in range(3))
        request = {
            "directory": str(home.root),
            "environment": home.environment(),
            "report": str(report),
            "fault": None if fault is None else [fault.write, fault.when],
            "user": user,
        }
        socket.send_fds(self._door, [json.dumps(request).encode()], [input_, output, errors])
        pid = self._answer()
        for descriptor in (input_, output, errors):
            os.close(descriptor)
        return Forked(self, pid, open(ours_in, "wb", 0), open(ours_out, "rb", 0), open(ours_err, "rb", 0))

    def reap(self, pid: int) -> int:
        """What a daemon that has ended ended with, in the words of ``subprocess``."""
        self._door.send(json.dumps({"reap": pid}).encode())
        return self._answer()

    def _answer(self) -> int:
        answer = self._door.recv(1024)
        assert answer, "the zygote has died"
        number: int = json.loads(answer)
        return number


@define(eq=False)
class Forked:
    """A forked daemon, as far as it can stand in for a ``subprocess.Popen``."""

    _zygote: Zygote
    pid: int
    stdin: Any
    stdout: Any
    stderr: Any
    _code: int | None = None

    def wait(self) -> int:
        if self._code is None:
            self._code = self._zygote.reap(self.pid)
        return self._code

    def poll(self) -> int | None:
        return self._code

    def send_signal(self, number: int) -> None:
        if self._code is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@contextmanager
def zygote() -> Iterator[Zygote]:
    """A zygote for as long as the block lasts; every daemon of it must have ended by then."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        command = [sys.executable, str(ROOT / "tests" / "kit" / "zygote.py"), str(theirs.fileno())]
        process = subprocess.Popen(command, cwd=ROOT, pass_fds=[theirs.fileno()])
        theirs.close()
        try:
            yield Zygote(ours)
        finally:
            ours.close()
            assert process.wait() == 0


@asynccontextmanager
async def living(
    zygote: Zygote, home: Home, report: Path, fault: Fault | None = None, user: int | None = None
) -> AsyncIterator[Daemon]:
    """A daemon in the home, and its client. It is gone when the block ends."""
    process = zygote.fork(home, report, fault, user)
    async with attached(process, "", watch=True, leaves=False) as daemon:  # type: ignore[arg-type]
        yield daemon


# -- lives -------------------------------------------------------------------------------------------


def prepare(root: Path) -> Home:
    """A home whose model plays the conversation, with the files that it is about."""
    outside = root / "elsewhere" / "outside.txt"
    outside.parent.mkdir(parents=True)
    outside.write_text("outside\n")
    words = {"@OUTSIDE@": str(outside), "@REPLACE@": json.dumps(REPLACE), "@COMMAND@": COMMAND}
    script = _SCRIPT
    for name, value in words.items():
        script = script.replace(name, value)
    home = Home.make(root, script)
    (home.workspace / "a.txt").write_text(BEFORE)
    (home.workspace / "b.txt").write_text("bee\n")
    return home


@frozen
class Row:
    """A row of a journal as it stands in the file."""

    place: int
    version: int
    kind: str
    body: bytes

    @property
    def value(self) -> Any:
        return json.loads(self.body)


@define
class Life:
    """What was seen of one daemon. ``updates`` are those of the session, ``rows`` what its journal had then.

    ``replayed`` is how many of the updates were shown before the resume was answered. ``asked`` are the
    requests that the model got, each a list of messages, and ``writes`` the kinds of rows of each write.
    """

    killed: bool = False
    session_id: str | None = None
    updates: list[Json] = field(factory=list)
    replayed: int = 0
    listed: list[Json] = field(factory=list)
    rows: list[Row] = field(factory=list)
    asked: list[list[Json]] = field(factory=list)
    writes: list[list[str]] = field(factory=list)

    @property
    def shown(self) -> Json:
        """All that was shown, folded."""
        return fold(self.updates)

    @property
    def replay(self) -> Json:
        """What was replayed, folded."""
        return fold(self.updates[: self.replayed])


async def first_life(zygote: Zygote, home: Home, fault: Fault | None) -> Life:
    """Hold the conversation until the fault; one that comes too late has the daemon killed behind its end."""
    life, report = Life(), home.root / "first"
    async with living(zygote, home, report, fault) as daemon:
        life.killed = not await _until_it_ends(daemon, lambda: _converse(daemon, home, life))
        daemon.signal(signal.SIGKILL)
        assert await _has_ended(daemon) == -signal.SIGKILL, daemon.stderr
        _look(daemon, life, report, home)
    return life


async def _until_it_ends(daemon: Daemon, talk: Callable[[], Awaitable[None]]) -> bool:
    """Talk with a daemon that may be killed meanwhile; whether all was said before that."""
    said = False
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            await daemon.ended.wait()
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        try:
            await talk()
            said = True
        except trio.BrokenResourceError:
            pass  # it was killed while it was told something
        except AssertionError:
            if not daemon.ended.is_set():  # else it was killed while something was waited for
                raise
        nursery.cancel_scope.cancel()
    return said


async def _has_ended(daemon: Daemon) -> int:
    code = await daemon.exit_code()
    with trio.fail_after(ANSWERS_WITHIN_S):
        await daemon.ended.wait()
    return code


async def _converse(daemon: Daemon, home: Home, life: Life) -> None:
    await daemon.initialize()
    life.session_id = await daemon.new_session(home.workspace)
    turn = await daemon.begin(life.session_id, "go")
    await daemon.choose(await daemon.next_ask(), "approve")
    assert await turn.ended() == "end_turn"
    turn = await daemon.begin(life.session_id, "hi")
    assert await turn.ended() == "end_turn"


def _resume(home: Home, session_id: str) -> Json:
    return {"sessionId": session_id, "cwd": str(home.workspace), "replayFrom": {"type": "start"}}


async def later_life(
    zygote: Zygote,
    home: Home,
    name: str,
    session_id: str | None,
    prompt: str | None = None,
    *,
    sound: bool = True,
) -> Life:
    """List, resume with replay from the start, send the prompt if there is one, and leave well.

    Without a session id the first of the list is taken; the life ends there when there is none. Where the
    database is not ``sound``, its rows are not looked at.
    """
    life, report = Life(session_id=session_id), home.root / name
    async with living(zygote, home, report) as daemon:
        await daemon.initialize()
        life.listed = (await daemon.request("session/list", {}))["sessions"]
        if life.session_id is None and life.listed:
            life.session_id = life.listed[0]["sessionId"]
        if life.session_id is not None:
            assert await daemon.request("session/resume", _resume(home, life.session_id)) == {}
            life.replayed = len(daemon.updates(life.session_id))
        if life.session_id is not None and prompt is not None:
            assert await (await daemon.begin(life.session_id, prompt)).ended() == "end_turn"
        await daemon.close_stdin()
        assert await _has_ended(daemon) == 0, daemon.stderr
        assert "Traceback" not in daemon.stderr, daemon.stderr
        daemon.check_ended_well()
        _look(daemon, life, report, home if sound else None)
    return life


async def cut_life(zygote: Zygote, home: Home, session_id: str, fault: Fault) -> bool:
    """Resume the session with a daemon that is killed meanwhile; whether it came to that."""
    async with living(zygote, home, home.root / "cut", fault) as daemon:

        async def open_it() -> None:
            await daemon.initialize()
            await daemon.request("session/resume", _resume(home, session_id))
            await daemon.close_stdin()

        await _until_it_ends(daemon, open_it)
        return await _has_ended(daemon) == -signal.SIGKILL


def _look(daemon: Daemon, life: Life, report: Path, home: Home | None) -> None:
    if life.session_id is not None:
        life.updates = daemon.updates(life.session_id)
    life.rows = [] if home is None else rows_of(home)
    life.writes, life.asked = _lines(report), _lines(report.with_suffix(".asked"))


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def rows_of(home: Home) -> list[Row]:
    """The journal of the one session, from a copy of the files: to open them is to mend them.

    Raises:
        AssertionError: SQLite finds something wrong with them.
    """
    copy = home.root / "copy"
    copy.mkdir(exist_ok=True)
    for name in ("sessions.db", "sessions.db-wal"):
        if (home.state / name).exists():
            shutil.copy(home.state / name, copy / name)
    with closing(sqlite3.connect(copy / "sessions.db")) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        if connection.execute("PRAGMA user_version").fetchone() == (0,):
            rows = []
        else:
            rows = connection.execute(
                "SELECT place, version, kind, body FROM journal ORDER BY place"
            ).fetchall()
    shutil.rmtree(copy)
    return [Row(*row) for row in rows]
