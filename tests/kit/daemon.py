"""The installed daemon as a child process, and a client for it that forgives nothing.

``running`` starts ``term2 acp`` over real pipes under Trio and yields a ``Daemon``. Every line that it
writes goes through the schema gate and the order checker; a line that fails ends the test. When the block
ends, stdin is closed, and the daemon has to leave with code 0 within its bound, having answered every
request exactly once, with no traceback on stderr and no child left behind.

The child is started by ``subprocess.Popen`` on the main thread (a parent-death signal is bound to the
thread that spawned), and waited for by its pidfd. Its ends of the pipes stay as they are; only ours,
which are descriptions of their own, are made non-blocking.
"""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import trio

from tests.kit import processes
from tests.kit.editor import Editor
from tests.kit.home import Home
from tests.kit.wire import ANSWERS_WITHIN_S

# The whole shutdown ladder of term2 takes at most 10 s; the rest is for a busy machine.
LEAVES_WITHIN_S = 15
_READ_BYTES = 256 * 1024
_KEPT_STDERR_BYTES = 4 * 1024 * 1024

PROGRAM = (sys.executable, "-m", "term2_acp", "acp")


class Daemon(Editor):
    """One ``term2 acp`` and the client on the other side of its pipes. Made by ``running``."""

    def __init__(self, process: subprocess.Popen[bytes], mark: str, *, watch: bool) -> None:
        super().__init__(self._write, watch=watch)
        self.process = process
        self._mark = mark
        self._stderr = bytearray()
        self._may_read = trio.Event()
        self._may_read.set()
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        self._stdin = trio.lowlevel.FdStream(os.dup(process.stdin.fileno()))
        self._stdout = trio.lowlevel.FdStream(os.dup(process.stdout.fileno()))
        self._errors = trio.lowlevel.FdStream(os.dup(process.stderr.fileno()))
        for pipe in (process.stdin, process.stdout, process.stderr):
            pipe.close()

    @property
    def stderr(self) -> str:
        """What it wrote to stderr so far."""
        return self._stderr.decode(errors="replace")

    async def _write(self, data: bytes) -> None:
        await self._stdin.send_all(data)

    def stop_reading(self) -> None:
        """Read no more of stdout after the next piece, as a client that hangs does."""
        self._may_read = trio.Event()

    def go_on_reading(self) -> None:
        """Read stdout again."""
        self._may_read.set()

    async def read(self) -> None:
        """Read stdout to its end. Run by ``running``."""
        while chunk := await _receive(self._stdout):
            for reply in self.feed(chunk):
                await self.send(reply)
            await self._may_read.wait()
        self.end()

    async def read_errors(self) -> None:
        """Read stderr to its end. Run by ``running``."""
        while chunk := await _receive(self._errors):
            if len(self._stderr) < _KEPT_STDERR_BYTES:
                self._stderr += chunk

    async def close_stdin(self) -> None:
        """Say that nothing more will come."""
        await self._stdin.aclose()

    def signal(self, number: signal.Signals) -> None:
        """Send the daemon a signal."""
        self.process.send_signal(number)

    async def exit_code(self) -> int:
        """Wait for the process to end, and for what it wrote to be read; returns its exit code."""
        pidfd = os.pidfd_open(self.process.pid)
        try:
            with trio.fail_after(LEAVES_WITHIN_S):
                await trio.lowlevel.wait_readable(pidfd)
        except trio.TooSlowError:
            raise AssertionError(
                f"it did not leave within {LEAVES_WITHIN_S} s; stderr:\n{self.stderr}"
            ) from None
        finally:
            os.close(pidfd)
        return self.process.wait()

    async def leave(self, code: int = 0) -> None:
        """Close stdin and hold the daemon to everything that a good exit is."""
        family = processes.descendants(self.process.pid)
        await self.close_stdin()
        found = await self.exit_code()
        assert found == code, f"it left with {found}, not {code}; stderr:\n{self.stderr}"
        with trio.fail_after(ANSWERS_WITHIN_S):
            await self.ended.wait()
        self.check(family)

    def check(self, family: Sequence[processes.Process] = ()) -> None:
        """Hold what a daemon that ended left behind to the rules of a good end."""
        assert "Traceback" not in self.stderr, self.stderr
        self.check_ended_well()
        left = processes.alive(family) + processes.marked(self._mark)
        assert not left, f"processes left behind: {left}"

    def kill(self) -> None:
        """End it now, for tests that failed and for those that want to see it killed."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    async def release(self) -> None:
        """Close our ends of the pipes, whatever state they are in. Run by ``running``."""
        for pipe in (self._stdin, self._stdout, self._errors):
            await trio.aclose_forcefully(pipe)


async def _receive(stream: trio.lowlevel.FdStream) -> bytes:
    """What arrived, or nothing at the end; our own closing is an end too."""
    try:
        return bytes(await stream.receive_some(_READ_BYTES))
    except trio.ClosedResourceError:
        await trio.lowlevel.checkpoint()
        return b""


def _spawn(home: Home, command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start it on this thread, in a session of its own, with pipes for everything."""
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=home.root,
        env=home.environment(**environment),
        start_new_session=True,
    )


def _alone(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one fault, where there is one: what the test was doing meanwhile was only cancelled."""
    return group.exceptions[0] if len(group.exceptions) == 1 else group


@asynccontextmanager
async def running(
    home: Home,
    *,
    args: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    watch: bool = True,
    leaves: bool = True,
    program: Sequence[str] = PROGRAM,
) -> AsyncIterator[Daemon]:
    """Start the daemon in ``home``, yield it, and see it leave well.

    ``environment`` is added to that of the home. With ``watch`` false nothing checks its frames. With
    ``leaves`` false the test ends it itself, and is responsible for ``Daemon.check``. ``program`` is another
    program to run, for tests of this kit.

    Raises:
        AssertionError: a frame, or the way it left, breaks a rule; no exception group is made of it.
    """
    mark = uuid.uuid4().hex
    process = _spawn(home, [*program, *args], {**(environment or {}), processes.MARK: mark})
    async with attached(process, mark, watch=watch, leaves=leaves) as daemon:
        yield daemon


@asynccontextmanager
async def attached(
    process: subprocess.Popen[bytes], mark: str, *, watch: bool, leaves: bool
) -> AsyncIterator[Daemon]:
    """Be the client of a daemon that was just started, as ``running`` says. It is gone with the block."""
    daemon = Daemon(process, mark, watch=watch)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(daemon.read)
            nursery.start_soon(daemon.read_errors)
            yield daemon
            if leaves:
                await daemon.leave()
            nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raise _alone(group) from None
    finally:
        daemon.kill()
        with trio.move_on_after(1, shield=True):
            await daemon.release()
