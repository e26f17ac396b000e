"""Which processes a daemon has started, and which of them are still there.

Two ways, because neither sees everything: its descendants as ``/proc`` shows them (a child that lost its
parent is no descendant any more, so the list is taken before the end and looked at after it), and a mark in
the environment (a sandbox gives its children a clean one).
"""

import os
from collections.abc import Sequence
from pathlib import Path

from attrs import frozen

MARK = "TERM2_TEST_MARK"


@frozen
class Process:
    """A process, told apart from a later one with the same number by when it was started."""

    pid: int
    started: str
    command: str


def _look(pid: int) -> tuple[Process, int, str] | None:
    """The process, its parent and its state; None when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return None
    # The name in brackets may hold anything; the fields are counted from behind it.
    fields = stat.rpartition(")")[2].split()
    return Process(pid, fields[19], command.strip()), int(fields[1]), fields[0]


def _all() -> list[tuple[Process, int, str]]:
    looked = (_look(int(entry)) for entry in os.listdir("/proc") if entry.isdigit())
    return [found for found in looked if found is not None]


def descendants(pid: int) -> list[Process]:
    """Every process below ``pid``, not itself."""
    children: dict[int, list[Process]] = {}
    for process, parent, _ in _all():
        children.setdefault(parent, []).append(process)
    found: list[Process] = []
    below = [pid]
    while below:
        for process in children.get(below.pop(), ()):
            found.append(process)
            below.append(process.pid)
    return found


def noticed(pid: int) -> list[Process]:
    """The same as far as a look finds them that takes no time, for those who look again and again.

    Linux does not promise to list a child while others come and go, and may be built without that list.
    """
    found = []
    try:
        below = [
            int(child)
            for task in os.listdir(f"/proc/{pid}/task")
            for child in Path(f"/proc/{pid}/task/{task}/children").read_text().split()
        ]
    except OSError:
        return []
    for child in below:
        looked = _look(child)
        if looked is not None:
            found += [looked[0], *noticed(child)]
    return found


def alive(processes: Sequence[Process]) -> list[Process]:
    """Those that still run; a zombie does not."""
    looked = ((process, _look(process.pid)) for process in processes)
    return [
        process
        for process, found in looked
        if found is not None and found[0].started == process.started and found[2] != "Z"
    ]


def marked(mark: str) -> list[Process]:
    """Those whose environment carries the mark and that still run."""
    entry = f"{MARK}={mark}".encode()
    found = []
    for process, _, state in _all():
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if entry in environment.split(b"\0") and state != "Z":
            found.append(process)
    return found


def commanded(word: str) -> list[Process]:
    """Those that have the word in their command line and that still run, wherever they come from."""
    return [process for process, _parent, state in _all() if word in process.command and state != "Z"]
