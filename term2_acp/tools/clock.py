"""The time limit of a program: a clock that stands still while a person is asked.

A program that waits for an answer must not be stopped for the time that a person takes. So its deadline is
no moment but an amount of time that is left, and the amount is used up only while nobody is asked.

The program itself is not stopped meanwhile: what it does beside its question costs it no time either.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Clock:
    """A limit of so many seconds, which runs from here on.

    ``scope`` is entered by the caller, once, and is cancelled when the time is used up.
    """

    def __init__(self, seconds: float) -> None:
        self.scope = trio.CancelScope(deadline=trio.current_time() + seconds)
        self._paused = 0
        self._left = seconds
        self._stopped = False

    @property
    def expired(self) -> bool:
        """Whether the time was used up before what ran in ``scope`` had ended. True once it has been left."""
        return self.scope.cancelled_caught

    def stop_nowait(self) -> None:
        """The program has ended in time: nothing that is still to be done for it uses up its time."""
        self._stopped = True
        self.scope.deadline = math.inf

    @contextmanager
    def paused(self) -> Iterator[None]:
        """The clock stands still while the context is open. Contexts may overlap, in any order.

        Time that was used up before stays used up.
        """
        if not self._paused and not self._stopped:
            self._left = max(self.scope.deadline - trio.current_time(), 0.0)
            self.scope.deadline = math.inf
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1
            if not self._paused and not self._stopped:
                self.scope.deadline = trio.current_time() + self._left
