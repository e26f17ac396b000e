"""The threads in which a session's files are read, hashed and written.

They have a limiter of the session's own, so that a disk that hangs stops its own session only. Nobody waits
for a thread that was cancelled, and what it does has no effect any more.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import trio
from attrs import field

from term2_acp.domain.classes import define

T = TypeVar("T")

# Threads of one session that work on files at the same time.
MAX_THREADS = 4


@define(eq=False)
class Threads:
    """The threads of one session, and the limiter of them (``trio.to_thread.run_sync``).

    Trio's own limiter costs a turn of the loop also where a thread is free, which is always.
    """

    _at_work: set[object] = field(factory=set, init=False)
    _waiting: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    async def run(self, work: Callable[[], T]) -> T:
        """Run work that blocks. Cancelled, its result is nobody's."""
        limiter: Any = self  # Trio takes what has these two methods, and says so in words only
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=limiter)

    async def acquire_on_behalf_of(self, borrower: object) -> None:
        """Wait for a free thread; where one is, return without a checkpoint."""
        while len(self._at_work) >= MAX_THREADS:
            await self._waiting.park()
        self._at_work.add(borrower)

    def release_on_behalf_of(self, borrower: object) -> None:
        """The thread has ended its work, also when nobody waits for that any more."""
        self._at_work.remove(borrower)
        self._waiting.unpark()
