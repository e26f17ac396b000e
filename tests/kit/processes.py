"""Which processes a daemon has started, and which of them are still there.

Two ways, because neither sees everything: its descendants as ``/proc`` shows them (a child that lost its
parent is no descendant any more, so the list is taken before the end and looked at after it), and a mark in
the environment (a sandbox gives its children a clean one).
"""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from attrs import frozen

MARK = "TERM2_TEST_MARK"


@frozen
class Process:
    """A process, told apart from a later one with the same number by when it was started."""

    pid: int
    started: str
    command: str


def _read(pid: int, file: str) -> bytes | None:
    """What ``/proc`` has there of the process; None when it is gone, or not ours to read."""
    try:
        with open(f"/proc/{pid}/{file}", "rb", 0) as opened:
            return opened.read()
    except OSError:
        return None


def _fields(pid: int) -> list[str] | None:
    """Its state, its parent and what follows; None when there is no such process."""
    stat = _read(pid, "stat")
    # The name in brackets may hold anything; the fields are counted from behind it.
    return None if stat is None else stat.rpartition(b")")[2].decode().split()


def _look(pid: int) -> tuple[Process, int, str] | None:
    """The process, its parent and its state; None when there is none."""
    fields, command = _fields(pid), _read(pid, "cmdline")
    if fields is None or command is None:
        return None
    said = command.replace(b"\0", b" ").decode(errors="replace").strip()
    return Process(pid, fields[19], said), int(fields[1]), fields[0]


def _numbers() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def descendants(pid: int) -> list[Process]:
    """Every process below ``pid``, not itself."""
    children: dict[int, list[int]] = {}
    for number in _numbers():
        fields = _fields(number)
        if fields is not None:
            children.setdefault(int(fields[1]), []).append(number)
    found: list[Process] = []
    below = [pid]
    while below:
        for child in children.get(below.pop(), ()):
            below.append(child)
            looked = _look(child)
            if looked is not None:
                found.append(looked[0])
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
    return _running(pid for pid in _numbers() if entry in (_read(pid, "environ") or b"").split(b"\0"))


def commanded(word: str) -> list[Process]:
    """Those that have the word in their command line and that still run, wherever they come from."""
    return [process for process in _running(_numbers()) if word in process.command]


def _running(pids: Iterable[int]) -> list[Process]:
    looked = (_look(pid) for pid in pids)
    return [found[0] for found in looked if found is not None and found[2] != "Z"]
