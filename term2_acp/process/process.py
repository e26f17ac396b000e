"""One child process and its pipes.

Theory of operation. Our ends of the pipes are non-blocking; the child's are not, since the two ends of a
pipe are different descriptions. The exit is seen by a pidfd that becomes readable, and the status is read
*without reaping*: while the dead leader keeps its number, no stranger can get it, so the group can still
be killed safely when the context is left. The reaping comes last. Where there is no pidfd (macOS) a
thread waits, and the leader is reaped at once.
"""

import logging
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, Literal

import trio

logger = logging.getLogger(__name__)

# Bytes one ``receive`` returns at most: what a pipe holds by default.
RECEIVE_BYTES = 64 * 1024

# Bytes still read after the process has exited. What it wrote itself is in the pipe by then, and no pipe
# is larger than this by default; the rest would be the words of somebody it left behind.
MAX_BYTES_AFTER_EXIT = 1024 * 1024

# Bytes of stderr that are kept: enough for what a program says when it refuses to run.
KEPT_ERROR_BYTES = 16 * 1024

# Seconds for a killed group to be gone. Only a process that hangs in the kernel needs longer.
KILL_DEADLINE_S = 5.0


class Process:
    """A running child. Made by ``open_process``; gone when that context has been left."""

    def __init__(self, popen: "subprocess.Popen[bytes]") -> None:
        self._popen = popen
        self._stdout = _ours(popen.stdout)
        self._stderr = _ours(popen.stderr)
        self._pidfd = _pidfd(popen.pid)
        self._watching = trio.CancelScope(shield=True)
        self._exited = trio.Event()
        self._status: int | None = None
        self._reading: trio.CancelScope | None = None
        self._left_after_exit = MAX_BYTES_AFTER_EXIT
        self._errors = bytearray()

    @property
    def pid(self) -> int:
        """The process's number, which is its group's number too."""
        return self._popen.pid

    @property
    def returncode(self) -> int | None:
        """How it ended, as ``subprocess`` counts (a negative number is a signal); None while it runs."""
        return self._status

    @property
    def errors(self) -> bytes:
        """The beginning of what it wrote to stderr so far, as far as it is kept."""
        return bytes(self._errors)

    async def wait(self) -> int:
        """Wait for the process itself to exit, whoever holds its pipes; its return code.

        Cancelled, the process runs on.
        """
        await self._exited.wait()
        assert self._status is not None
        return self._status

    async def receive(self) -> bytes:
        """Wait for output: at most ``RECEIVE_BYTES``, ``b""`` at its end.

        The end is reached when nobody holds the pipe any more, or the process has exited and what it
        wrote is read. Cancelled, nothing is lost. One task at a time.
        """
        await trio.lowlevel.checkpoint()
        assert self._stdout is not None, "stdout is no pipe"
        while (data := self._take_nowait()) is None:
            await self._readable()
        return data

    def _take_nowait(self) -> bytes | None:
        """What is in the pipe now, ``b""`` at its end, None when there may be more later."""
        assert self._stdout is not None
        ended = self._exited.is_set()
        if ended and self._left_after_exit <= 0:
            return b""
        try:
            data = os.read(self._stdout, RECEIVE_BYTES)
        except BlockingIOError:
            return b"" if ended else None
        if ended:
            self._left_after_exit -= len(data)
        return data

    def close_stdin(self) -> None:
        """Close the pipe to the child's stdin. A second time, and without a pipe, it does nothing."""
        if self._popen.stdin is not None:
            self._popen.stdin.close()

    async def _readable(self) -> None:
        """Wait until stdout has something, or the process has exited."""
        assert self._stdout is not None
        with trio.CancelScope() as self._reading:
            await trio.lowlevel.wait_readable(self._stdout)
        self._reading = None

    async def _watch(self) -> None:
        """Wait for the exit and tell everyone who waits for it; no cancel of the caller ends this."""
        with self._watching:
            if self._pidfd is not None:
                await trio.lowlevel.wait_readable(self._pidfd)
                self._status = _status_nowait(self.pid)
            else:
                self._status = await trio.to_thread.run_sync(self._popen.wait, abandon_on_cancel=True)
            with suppress(BlockingIOError):
                while self._take_errors_nowait() and len(self._errors) < KEPT_ERROR_BYTES:
                    pass  # what it said last is there before its exit is told
            self._exited.set()
            if self._reading is not None:
                self._reading.cancel()

    async def _keep_errors(self) -> None:
        """Read stderr to its end, so that it never blocks the child, and keep its beginning."""
        more = self._stderr is not None
        await trio.lowlevel.checkpoint()
        while more:
            assert self._stderr is not None
            await trio.lowlevel.wait_readable(self._stderr)
            with suppress(BlockingIOError):  # the watcher may have been here first
                more = self._take_errors_nowait()

    def _take_errors_nowait(self) -> bool:
        """Take what is in stderr now; False at its end.

        Raises:
            BlockingIOError: there is nothing now.
        """
        if self._stderr is None:
            return False
        data = os.read(self._stderr, RECEIVE_BYTES)
        self._errors += data[: KEPT_ERROR_BYTES - len(self._errors)]
        return bool(data)

    def _kill_group(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            # macOS says "not permitted" of a group in which only the dead are left.
            os.killpg(self.pid, signal.SIGKILL)

    def _reap_nowait(self) -> None:
        self._watching.cancel()
        if self._popen.poll() is None:
            logger.warning("process %d did not end within %.0f s of being killed", self.pid, KILL_DEADLINE_S)

    def _close(self) -> None:
        for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr):
            if pipe is not None:
                pipe.close()
        if self._pidfd is not None:
            os.close(self._pidfd)


@asynccontextmanager
async def open_process(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: str | None = None,
    stdin: Literal["null", "pipe"] | int = "null",
    stdout: Literal["null", "pipe"] = "pipe",
    stderr: Literal["null", "keep", "stdout"] = "null",
    pass_fds: Sequence[int] = (),
) -> AsyncIterator[Process]:
    """Start a process, and make sure that its whole group is gone when the context is left.

    ``env`` is the whole environment of the child. ``stdin`` may be a descriptor to read from; as
    ``"pipe"`` it is a life line: the child sees its end when we close it or die. ``stderr="keep"`` keeps
    the first ``KEPT_ERROR_BYTES`` in ``Process.errors``; ``"stdout"`` sends it the same way as stdout.
    Starting blocks for the fraction of a millisecond that fork and exec take.

    Leaving the context, by a cancel too, kills the group and waits at most ``KILL_DEADLINE_S`` for it.

    Raises:
        OSError: the program cannot be started.
    """
    popen = _spawn(
        list(argv),
        env=dict(env),
        cwd=cwd,
        stdin=_STDIN[stdin] if isinstance(stdin, str) else stdin,
        stdout=_STDOUT[stdout],
        stderr=_STDERR[stderr],
        pass_fds=tuple(pass_fds),
    )
    process = Process(popen)
    failure: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(process._watch)
            nursery.start_soon(process._keep_errors)
            try:
                yield process
            except Exception as error:  # noqa: BLE001 -- carried out, or the nursery would wrap it in a group
                failure = error
            finally:
                process._kill_group()
                with trio.move_on_after(KILL_DEADLINE_S, shield=True):
                    await process.wait()
                process._reap_nowait()
                nursery.cancel_scope.cancel()
    finally:
        process._close()
    if failure is not None:
        raise failure


_STDIN = {"null": subprocess.DEVNULL, "pipe": subprocess.PIPE}
_STDOUT = {"null": subprocess.DEVNULL, "pipe": subprocess.PIPE}
_STDERR = {"null": subprocess.DEVNULL, "keep": subprocess.PIPE, "stdout": subprocess.STDOUT}


def _ours(pipe: IO[bytes] | None) -> int | None:
    """Our end of a pipe, made non-blocking; the child's end is another description and stays as it is."""
    if pipe is None:
        return None
    os.set_blocking(pipe.fileno(), False)
    return pipe.fileno()


def _spawn(argv: list[str], **options: Any) -> "subprocess.Popen[bytes]":
    """Start the program here and now: see the room's docstring for why in no thread."""
    return subprocess.Popen(argv, bufsize=0, close_fds=True, start_new_session=True, **options)  # noqa: S603


def _status_nowait(pid: int) -> int:
    """How a process that is dead and not reaped ended, without reaping it."""
    try:
        found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    except ChildProcessError:
        # Whoever started us has SIGCHLD ignored, and so the system reaped it. `subprocess` says 0 too.
        return 0
    assert found is not None
    return found.si_status if found.si_code == os.CLD_EXITED else -found.si_status


def _pidfd(pid: int) -> int | None:
    """A descriptor that becomes readable when the process exits, where the system has such."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
