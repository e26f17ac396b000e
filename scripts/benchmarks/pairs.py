"""Pairs: the subject and its reference, measured in turn, compared round by round.

A machine that others use is slow in one second and fast in the next. So every figure is taken of both, one
right after the other, in an order that changes each round; what counts is the median of the rounds' ratios.
"""

import statistics
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.client import Agent

SUBJECT = "term2"


@dataclass(frozen=True)
class Pair:
    """Medians of both, and the median of the rounds' ratios. ``worst`` is the subject's."""

    subject: float
    reference: float
    ratio: float
    worst: float


@dataclass(frozen=True)
class House:
    """What can be launched: the arguments for each agent's name, and the home they run in."""

    argv: dict[str, list[str]]
    home: Path

    def launch(self, name: str) -> Agent:
        """Start the agent of that name."""
        return Agent(name, self.argv[name], self.home)

    @contextmanager
    def both(self, reference: str, subject: str = SUBJECT) -> Iterator[dict[str, Agent]]:
        """The subject and a reference, running and initialised. ``subject`` is who stands for the subject."""
        with ExitStack() as stack:
            agents = {
                SUBJECT: stack.enter_context(self.launch(subject)),
                reference: stack.enter_context(self.launch(reference)),
            }
            for agent in agents.values():
                agent.initialize()
            yield agents


def compare(reference: str, rounds: int, measure: Callable[[str], float]) -> Pair:
    """Measure both by name, ``rounds`` times."""
    names = [SUBJECT, reference]
    figures: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            figures[name].append(measure(name))
        names.reverse()
    mine, theirs = figures[SUBJECT], figures[reference]
    return Pair(
        subject=statistics.median(mine),
        reference=statistics.median(theirs),
        ratio=statistics.median(a / b for a, b in zip(mine, theirs, strict=True)),
        worst=max(mine),
    )
