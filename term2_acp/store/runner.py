"""The way to the store's thread.

SQLite calls block, and its connection belongs to the thread that made it. So everything the store does
to its files runs by a ``Runner``, one piece of work after the other and in the order in which they were
handed over. Which runner is a parameter: the product has a thread, and tests under Trio's autojump
clock run inline, because that clock does not wait for threads.

Both keep one promise: work that was handed over is done, also when its waiter is cancelled. A waiter
that leaves abandons the result, never the work.
"""

import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Protocol, TypeVar

import outcome
import trio

from term2_acp.domain.classes import define

T = TypeVar("T")


class Runner(Protocol):
    """Runs the store's blocking work in order."""

    async def run(self, fn: Callable[[], T]) -> T:
        """Do the work and wait for its result; what it raises is raised here.

        Cancelled, it stops waiting at once and the work is done all the same. Raises
        ``trio.ClosedResourceError`` after ``aclose``.
        """
        ...

    async def aclose(self) -> None:
        """Wait until the work that was handed over is done, and end. Cancelled, it stops waiting."""
        ...


@define(eq=False)
class _Job:
    """One piece of work on its way to the thread and back. ``task`` is None once nobody waits."""

    fn: Callable[[], Any]
    task: trio.lowlevel.Task | None

    def settle(self, result: "outcome.Outcome[Any]") -> None:
        if self.task is not None:
            trio.lowlevel.reschedule(self.task, result)

    def abandon(self, _raise_cancel: Callable[[], Any]) -> trio.lowlevel.Abort:
        self.task = None
        return trio.lowlevel.Abort.SUCCEEDED


class ThreadRunner:
    """A worker thread of our own, started at the first piece of work.

    ``trio.to_thread`` behind a limiter of one is *not* one thread (SQLite's thread check trips), and
    a hop through it takes half as long again. The thread is a daemon: a disk that hangs must not keep
    the process from ending.
    """

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = trio.Event()
        self._closed = False

    async def run(self, fn: Callable[[], T]) -> T:
        """See ``Runner.run``."""
        if self._closed:
            raise trio.ClosedResourceError
        if self._thread is None:
            token = trio.lowlevel.current_trio_token()
            self._thread = threading.Thread(target=self._work, args=(token,), name="term2-store", daemon=True)
            self._thread.start()
        job = _Job(fn, trio.lowlevel.current_task())
        self._jobs.put(job)
        result: T = await trio.lowlevel.wait_task_rescheduled(job.abandon)
        return result

    async def aclose(self) -> None:
        """See ``Runner.aclose``."""
        if not self._closed:
            self._closed = True
            self._jobs.put(None)
        if self._thread is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._ended.wait()

    def _work(self, token: trio.lowlevel.TrioToken) -> None:
        while (job := self._jobs.get()) is not None:
            result = outcome.capture(job.fn)
            try:
                token.run_sync_soon(job.settle, result)
            except trio.RunFinishedError:
                pass  # nobody is left to tell; what is in the queue is still done
            del job, result  # or the last one would live until the next arrives
        try:
            token.run_sync_soon(self._ended.set)
        except trio.RunFinishedError:
            pass


class InlineRunner:
    """Does the work where it stands. For tests under the autojump clock."""

    def __init__(self) -> None:
        self._closed = False

    async def run(self, fn: Callable[[], T]) -> T:
        """See ``Runner.run``. The checkpoint comes after the work, so that a cancel finds it done."""
        if self._closed:
            raise trio.ClosedResourceError
        result = outcome.capture(fn)
        await trio.lowlevel.checkpoint()
        return result.unwrap()

    async def aclose(self) -> None:
        """See ``Runner.aclose``."""
        self._closed = True
        await trio.lowlevel.checkpoint()
