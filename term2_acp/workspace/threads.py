"""The threads in which a session's files are read, hashed and written.

They have a limiter of the session's own, so that a disk that hangs stops its own session only. Nobody waits
for a thread that was cancelled, and what it does has no effect any more.
"""

from collections.abc import Callable
from typing import TypeVar

import trio
from attrs import define, field

T = TypeVar("T")

# Threads of one session that work on files at the same time.
MAX_THREADS = 4


@define(eq=False)
class Threads:
    """The threads of one session."""

    _limiter: trio.CapacityLimiter | None = field(default=None, init=False)

    async def run(self, work: Callable[[], T]) -> T:
        """Run work that blocks. Cancelled, its result is nobody's."""
        if self._limiter is None:
            self._limiter = trio.CapacityLimiter(MAX_THREADS)  # made here, since that needs a run of Trio's
        return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)
