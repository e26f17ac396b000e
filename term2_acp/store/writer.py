"""The one writer: a transaction for all that waits, of every session (group commit).

A commit costs far more than a row in it, so whatever arrives while one is under way shares the next.
Who wrote is told after the commit, each by itself: when a group fails it is taken apart and each write
is tried alone, so that a fault in one session's rows is that session's fault only.

Whoever finds no commit under way *leads*: it takes what waits to the runner itself, which saves two
switches of tasks where one session writes alone. The task ``run`` leads for those that arrived behind
a leader, and for a leader that was cancelled.

What was handed over is written even when its waiter was cancelled, and even when the writer itself is
cancelled: the runner finishes what it was given, and the last act of ``run``, shielded and with a
deadline, is to write what still waits. After ``aclose`` it only hands that to the runner: whoever closed
has waited already, for as long as there was time.
"""

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import outcome
import trio

from term2_acp.domain.classes import define
from term2_acp.store.errors import BUSY, CLOSED, FAILED, StoreFailed
from term2_acp.store.runner import Runner

if TYPE_CHECKING:  # it imports sqlite3 and cattrs, which wait for the store to be opened
    from term2_acp.store.database import Database

logger = logging.getLogger(__name__)

T = TypeVar("T")

FLUSH_SECONDS = 3.0
"""How long a cancelled writer may take for what still waits. The whole shutdown has ten seconds."""


@define(eq=False)
class _Write:
    """One piece of work that waits for a commit.

    The thread fills in the result, the loop tells the waiter by ``done``; who leads needs no telling.
    """

    work: "Callable[[Database], Any]"
    done: trio.Event | None = None
    value: Any = None
    error: BaseException | None = None
    settled: bool = False

    def tell(self) -> None:
        """The result is final: wake the waiter, if there is one."""
        self.settled = True
        if self.done is not None:
            self.done.set()


class GroupWriter:
    """Commits in groups. ``run`` is its one task.

    ``opened`` gives it the database, on the runner's thread, or raises ``StoreFailed``.
    """

    def __init__(self, runner: Runner, opened: "Callable[[], Database]") -> None:
        self._runner = runner
        self._opened = opened
        self._waiting: list[_Write] = []
        self._unsettled: list[_Write] = []  # handed to the runner, their waiters not told yet
        self._arrived = trio.lowlevel.ParkingLot()
        self._leading = False
        self._closed = False
        self._started = False
        self._finished = trio.Event()

    async def write(self, work: "Callable[[Database], T]") -> T:
        """Wait until the work is done and committed.

        Raises ``StoreFailed``: nothing of it was kept. Cancelled, the work is done all the same.
        """
        if self._closed:
            raise StoreFailed.because(CLOSED)
        write = _Write(work)
        self._waiting.append(write)
        if self._leading:
            write.done = trio.Event()
            await write.done.wait()
        else:
            await self._lead()
        if write.error is not None:
            # A new exception for each waiter: they may share the cause.
            raise StoreFailed.from_error(write.error) from write.error
        value: T = write.value
        return value

    async def run(self) -> None:
        """Write until ``aclose`` or a cancel; either way, what was handed over is written first."""
        self._started = True
        try:
            await trio.lowlevel.checkpoint()
            while not self._closed or self._pending:
                if self._pending and not self._leading:
                    await self._lead()
                else:
                    await self._arrived.park()
        finally:
            seconds = 0 if self._closed else FLUSH_SECONDS
            self._closed = True
            if self._pending:
                with trio.move_on_after(seconds, shield=True):
                    await self._lead()
            self._give_up()
            self._finished.set()

    async def aclose(self) -> None:
        """Take nothing more and wait until ``run`` has written the rest."""
        self._closed = True
        self._arrived.unpark()
        if self._started:
            await self._finished.wait()
        else:
            self._give_up()
            await trio.lowlevel.checkpoint()

    @property
    def _pending(self) -> bool:
        return bool(self._waiting or self._unsettled)

    async def _lead(self) -> None:
        """Take what waits to the runner, and tell all whose work is done when it comes back."""
        self._leading = True
        group, self._waiting = self._waiting, []
        self._unsettled += group
        # A leader that was cancelled left its group among the unsettled; the runner keeps the order,
        # so that group is done as well when this one is. A later one need not be.
        handed_over = self._unsettled.copy()
        try:
            await self._runner.run(lambda: _commit_all(self._opened, group))
            for write in handed_over:
                write.tell()
            self._unsettled = [write for write in self._unsettled if not write.settled]
        finally:
            self._leading = False
            if self._pending or self._closed:
                self._arrived.unpark()

    def _give_up(self) -> None:
        abandoned = self._unsettled + self._waiting
        self._unsettled, self._waiting = [], []
        for write in abandoned:
            write.error = write.error or StoreFailed.because(FAILED)
            write.tell()
        if abandoned:
            logger.error("the store did not write %d record(s) in time", len(abandoned))


def _commit_all(opened: "Callable[[], Database]", group: Sequence[_Write]) -> None:
    """Commit the group, or what can be committed of it. On the runner's thread; never raises."""
    result = outcome.capture(_transact, opened, group)
    if isinstance(result, outcome.Value):
        return
    if len(group) == 1 or _is_busy(result.error):
        # Busy is about the whole store, and finding out again would take BUSY_SECONDS for each.
        _log(result.error)
        for write in group:
            write.error = result.error
        return
    for position, write in enumerate(group):
        _commit_all(opened, [write])
        if _is_busy(write.error):
            for later in group[position + 1 :]:
                later.error = write.error
            return


def _transact(opened: "Callable[[], Database]", group: Sequence[_Write]) -> None:
    database = opened()

    def work() -> None:
        for write in group:
            write.value = write.work(database)

    database.commit(work)


def _is_busy(error: BaseException | None) -> bool:
    return error is not None and StoreFailed.from_error(error).code == BUSY


def _log(error: BaseException) -> None:
    if not isinstance(error, StoreFailed):
        logger.error("the store could not write", exc_info=error)
