"""Measure term2 against a bare loop, side by side, as ratios.

    make bench                          the whole table
    scripts/bench.py --row stream       one row (--list names them)
    scripts/bench.py --subject tick     measure another agent in term2's place

Absolute times mean nothing on a shared machine, so a row compares with a reference of the same run: ``bare``
is a hand-rolled ACP loop on Trio and msgspec with no product in it, ``tick`` is bare with one Trio checkpoint
a chunk (benchmarks/bare.py). In one row ``asker`` stands for term2: its broker and its wire, with nothing
behind them (benchmarks/asker.py). Rows of kept sessions compare with less of the same, or with SQLite alone.
Client and agent run on a core each, on the same interpreter, with the same environment and compiled modules.
Exits 1 when a row could not be measured, never for a goal that was missed.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from benchmarks import commands, rows, sessions
from benchmarks.client import AGENT_CORE, CLIENT_CORE, AgentFailed
from benchmarks.pairs import SUBJECT, House, Pair

SETTINGS = """\
provider = "bench"

[providers.bench]
type = "scripted"
script = "bench"

[limits]
model_calls = 10000  # `bench perm` calls the model once an ask
"""


class Goal(Enum):
    """What a goal bounds."""

    RATIO = "x"  # the ratio, from above
    MOST = "<="  # the subject's own figure, from above
    LEAST = ">="  # the subject's own figure, from below
    NONE = "-"  # shown for what it is


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    title: str
    unit: str
    goal: Goal
    bound: float
    measure: Callable[[House], Pair]

    def reached(self, pair: Pair) -> str:
        """Whether the goal was reached, in a word."""
        match self.goal:
            case Goal.RATIO:
                good = pair.ratio <= self.bound
            case Goal.MOST:
                good = pair.subject <= self.bound
            case Goal.LEAST:
                good = pair.subject >= self.bound
            case Goal.NONE:
                return "-"
        return "yes" if good else "NO"

    @property
    def wanted(self) -> str:
        """The goal as the table shows it."""
        match self.goal:
            case Goal.NONE:
                return "-"
            case Goal.RATIO:
                return f"<= {self.bound:g} x"
            case _:
                return f"{self.goal.value} {self.bound:g} {self.unit}"


ROWS = (
    Row("start", "cold start to initialize", "ms", Goal.RATIO, 1.5, rows.start),
    Row("new", "spawn to session/new answered", "ms", Goal.RATIO, 1.7, rows.start_session),
    Row("memory", "resident after initialize", "MiB", Goal.RATIO, 1.5, rows.memory_initialized),
    Row("memory-turn", "resident after the first turn", "MiB", Goal.RATIO, 2.0, rows.memory_turn),
    Row("idle", "an open idle session (of 1,000)", "KiB", Goal.MOST, 40, rows.idle_sessions),
    Row("close-1", "trivial request, 1 in flight, CPU", "us", Goal.RATIO, 1.6, rows.trivial_one),
    Row("close-64", "trivial request, 64 in flight, CPU", "us", Goal.RATIO, 4.0, rows.trivial_many),
    Row("stream", "streamed 32-byte delta, CPU, to tick", "us", Goal.RATIO, 1.8, rows.stream),
    Row("asks", "tool calls that ask, journalled, run", "/s", Goal.LEAST, 1500, rows.asks_rate),
    Row("asks-cpu", "the same, CPU (bare only asks)", "us", Goal.NONE, 0, rows.asks_cpu),
    Row("calls", "a plain read, journalled, run, CPU", "us", Goal.NONE, 0, rows.calls_cpu),
    Row("ask", "an ask alone: broker and wire, CPU", "us", Goal.RATIO, 2.5, rows.ask_cpu),
    Row("cancel", "cancel to idle, p50", "us", Goal.RATIO, 2.5, rows.cancel),
    Row("cancel-flood", "cancel to idle inside a flood", "ms", Goal.RATIO, 3.0, rows.cancel_flood),
    Row("crowd", "200 sessions x 10 chunks, CPU a turn", "us", Goal.RATIO, 4.0, rows.crowd),
    Row("spawn", "a command in the sandbox, to bwrap", "ms", Goal.NONE, 0, commands.spawn),
    Row("command", "a whole call of shell, to bwrap", "ms", Goal.NONE, 0, commands.call),
    Row("command-cancel", "cancel to idle, a command running", "ms", Goal.MOST, 100, commands.cancel),
    Row("replay", "events shown again a second of CPU", "/s", Goal.LEAST, 50_000, sessions.replay),
    Row("resume", "100,000 shown again, to 10,000", "ms", Goal.NONE, 0, sessions.resume),
    Row("replay-memory", "the same, peak resident", "MiB", Goal.NONE, 0, sessions.replay_memory),
    Row("list", "a page of 10,000 sessions, to of 50", "ms", Goal.MOST, 50, sessions.pages),
    Row("journal", "events journalled, to SQLite alone", "/s", Goal.NONE, 0, sessions.journal),
    Row("journal-bytes", "an event on disk, to its JSON", "B", Goal.NONE, 0, sessions.journal_bytes),
    Row("end", "end of input to exit, idle", "ms", Goal.MOST, 100, rows.end),
)

HEAD = ("row", "term2", "bare", "ratio", "goal", "reached?")


def line(cells: tuple[str, ...]) -> str:
    """One line of the table."""
    row, *rest = cells
    return f"{row:<38}" + "".join(f"{cell:>15}" for cell in rest[:-1]) + f"{rest[-1]:>10}"


def figure(value: float, unit: str) -> str:
    """A number in three digits or so, with its unit."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f} {unit}"


def measure(chosen: list[Row], house: House) -> int:
    """Print a line for each row as soon as it is measured. Returns how many failed."""
    print(line(HEAD), line(("-" * 37, *("-" * 9,) * 5)), sep="\n", flush=True)
    failures = []
    for row in chosen:
        try:
            pair = row.measure(house)
        except AgentFailed as error:
            failures.append(f"{row.name}: {error}")
            print(line((row.title, "failed", "", "", row.wanted, "NO")), flush=True)
            continue
        both = figure(pair.subject, row.unit), figure(pair.reference, row.unit)
        print(line((row.title, *both, f"{pair.ratio:.2f} x", row.wanted, row.reached(pair))), flush=True)
    for failure in failures:
        print(f"\n{failure}", file=sys.stderr)
    return len(failures)


def main() -> int:
    """Measure the rows that the command line names."""
    parser = argparse.ArgumentParser(description="Measure term2 against a bare loop, as ratios.")
    parser.add_argument("--row", action="append", choices=[row.name for row in ROWS], help="only this row")
    parser.add_argument("--list", action="store_true", help="list the rows")
    parser.add_argument("--subject", default=SUBJECT, choices=[SUBJECT, "bare", "tick"])
    options = parser.parse_args()
    if options.list:
        for row in ROWS:
            print(f"{row.name:<14}{row.title}; goal {row.wanted}")
        return 0
    argv = {
        SUBJECT: [sys.executable, "-m", "term2_acp", "acp"],
        "bare": [sys.executable, "-m", "bare"],
        "tick": [sys.executable, "-m", "bare", "tick"],
        "asker": [sys.executable, "-m", "asker"],
    }
    argv[SUBJECT] = argv[options.subject]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="term2-bench-") as folder:
        house = House(argv, Path(folder))
        settings = house.home / ".config" / "term2" / "settings.toml"
        settings.parent.mkdir(parents=True)
        settings.write_text(SETTINGS)
        print(
            f"Python {platform.python_version()}, client on core {CLIENT_CORE}, agent on core {AGENT_CORE},"
            f" load {os.getloadavg()[0]:.1f}, measuring {options.subject}; medians\n"
        )
        try:
            for name in argv:
                with house.launch(name) as agent:  # compiles the modules, and shows that it works at all
                    agent.initialize()
                    agent.turn(agent.new_session(), "bench stream 1 1")
        except AgentFailed as error:
            print(error, file=sys.stderr)
            return 1
        chosen = [row for row in ROWS if options.row is None or row.name in options.row]
        failures = measure(chosen, house)
    print(f"\n{time.monotonic() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
