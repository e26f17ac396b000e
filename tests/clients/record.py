"""Stands between a client and the agent that it launches, and writes down every line that passes.

    python -I -S record.py FOLDER PROGRAM ARGUMENT...

The process that the client launched becomes the agent: signals, exit codes and the agent's place in the
process tree are the agent's own. Before that it leaves a process behind that carries the bytes both ways and
writes each whole line, with its direction, to a file of its own in FOLDER; the names sort by when they began.
It carries what it got even when the file cannot be written, and it ends when both directions have. A line is
written before it is passed on, so whoever got one finds it in the file, and an answer stands behind what it
answers.
"""

import json
import os
import signal
import sys
import threading
import time

PIECE = 256 * 1024


class Record:
    """The file of one connection."""

    def __init__(self, folder):
        name = f"{time.monotonic_ns():020d}-{os.getpid()}.jsonl"
        self._file = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._writing = threading.Lock()

    def lines(self, direction, data):
        with self._writing:
            for line in data.splitlines(keepends=True):
                text = line.rstrip(b"\n").decode("utf-8", "surrogateescape")
                os.write(self._file, json.dumps([direction, text]).encode() + b"\n")


def carry(record, direction, source, target):
    """Pass on everything from one descriptor to the other, and its end."""
    rest = b""
    try:
        while piece := os.read(source, PIECE):
            whole, newline, unfinished = (rest + piece).rpartition(b"\n")
            record.lines(direction, whole + newline)
            rest = unfinished
            while piece:
                piece = piece[os.write(target, piece) :]
    except OSError:
        pass  # whoever was to get it has gone; that it has is told by closing the other end
    if rest:
        record.lines(direction, rest)
    for descriptor in (source, target):
        os.close(descriptor)


def stand_between(folder, to_agent, from_agent):
    """What the process that is left behind does."""
    # It must outlive the signals that the agent gets, to carry what the agent says last.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    record = Record(folder)
    ways = [
        threading.Thread(target=carry, args=(record, "c2a", os.dup(0), to_agent)),
        threading.Thread(target=carry, args=(record, "a2c", from_agent, os.dup(1))),
    ]
    # Whoever reads the agent's stderr to its end must not have to wait for this process as well.
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(nowhere, descriptor)
    for way in ways:
        way.start()
    for way in ways:
        way.join()


def main():
    folder, *command = sys.argv[1:]
    for_agent, to_agent = os.pipe()
    from_agent, by_agent = os.pipe()
    # Twice, so that it is nobody's child: the agent would not know what to do with one.
    child = os.fork()
    if child == 0:
        if os.fork() == 0:
            os.close(for_agent)
            os.close(by_agent)
            stand_between(folder, to_agent, from_agent)
        os._exit(0)
    os.waitpid(child, 0)
    os.dup2(for_agent, 0)
    os.dup2(by_agent, 1)
    os.execvp(command[0], command)


main()
