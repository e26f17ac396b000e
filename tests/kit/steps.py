"""The scheduler under a test's hand: a fixed order, and something that happens at its k-th step.

Trio starts tasks in an order of its own choosing, at random. ``seeded`` fixes the choice by a seed that a
failing test prints, so that a sweep over the steps of a scenario sees the same steps each time.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio
from trio._core import _run as scheduler


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Make the scheduling of the current run a function of ``seed``."""
    old_random, old_flag = scheduler._r, scheduler._ALLOW_DETERMINISTIC_SCHEDULING
    scheduler._r = random.Random(seed)
    scheduler._ALLOW_DETERMINISTIC_SCHEDULING = True
    print(f"scheduling seed {seed}")  # noqa: T201 - pytest shows it when the test fails
    try:
        yield
    finally:
        scheduler._r, scheduler._ALLOW_DETERMINISTIC_SCHEDULING = old_random, old_flag


class AtStep(trio.abc.Instrument):
    """Calls ``act`` once, before the ``k``-th step of any task, counted from the moment it is armed."""

    def __init__(self, k: int, act: Callable[[], None]) -> None:
        self.seen = 0
        self.acted = False
        self._k = k
        self._act = act

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.seen += 1
        if self.seen == self._k:
            self.acted = True
            self._act()


@contextmanager
def at_step(k: int, act: Callable[[], None]) -> Iterator[AtStep]:
    """Arm an ``AtStep`` for the block."""
    instrument = AtStep(k, act)
    trio.lowlevel.add_instrument(instrument)
    try:
        yield instrument
    finally:
        trio.lowlevel.remove_instrument(instrument)
