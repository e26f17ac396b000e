"""A process that has everything imported and forks a daemon each time it is asked to. Run as a program.

A start of ``term2 acp`` is nearly all imports, and a sweep over crashes needs a hundred of them. The zygote
imports what a turn needs, makes nothing and starts no thread; what it forks then takes the same way as the
program: ``cli.main`` with its own descriptors, environment and working directory, to ``os._exit``.

``python zygote.py FD [ROOM [MODULE ...]]`` imports these modules as well and serves the socket ``FD``
(SOCK_SEQPACKET). A request is one JSON object:

- ``{"directory", "environment", "user", "fault", "report"}`` with three descriptors: fork a daemon with these
  as its stdin, stdout and stderr, and as that user, if it is not null. The answer is its process id. With
  ``"command"``, which is ``python -m term2_acp`` and any words, ``/proc`` shows it and the environment as if
  the process had been started with them; the zygote has to have been started with more bytes of both.
- ``{"reap": pid}``: what that daemon ended with, as ``os.waitpid`` has it. Asked for when it has ended.

What is not the product is done to the forked daemon before it begins:

- ``fault``: ``[n, "before"]`` kills it (SIGKILL, by itself, on the thread of the store) in the n-th write
  transaction, when all is written but the COMMIT; ``[n, "after"]`` does when that COMMIT has returned. A kind
  of rows in place of n: in the first transaction that has one. Before the COMMIT the disk is slow for a
  moment, in which all happens that does not wait for it.
- ``report``, if it is not null: a file that gets one line of JSON for each write transaction (the kinds of
  its rows) and, beside it with the suffix ``.asked``, one for each request that the scripted model gets.
"""

import ctypes
import gc
import json
import os
import signal
import socket
import sys
import time

# What `initialize`, a session and a turn import, by the modules that import it.
_WARM = (
    "encodings.ascii",
    "encodings.utf_8_sig",
    "landlockpy",
    "seccompy",
    "term2_acp.acp.blocks",
    "term2_acp.acp.door",
    "term2_acp.acp.v2.client",
    "term2_acp.acp.v2.door",
    "term2_acp.acp.v2.options",
    "term2_acp.acp.v2.project",
    "term2_acp.agent.prompt",
    "term2_acp.agent.turn",
    "term2_acp.app",
    "term2_acp.cli.acp",
    "term2_acp.config.toml",
    "term2_acp.providers.choosing.offering",
    "term2_acp.providers.choosing.opening",
    "term2_acp.providers.ended",
    "term2_acp.providers.scripted.model",
    "term2_acp.providers.servers.known",
    "term2_acp.providers.unusable",
    "term2_acp.sandbox",
    "term2_acp.session.hands",
    "term2_acp.session.reading",
    "term2_acp.session.registry",
    "term2_acp.session.replay",
    "term2_acp.session.workbench",
    "term2_acp.store.database",
    "term2_acp.store.rows",
    "term2_acp.tools.registry",
    "term2_acp.web.public",
    "term2_acp.workspace.aftermath",
    "tomllib",
)

_LARGEST_REQUEST = 64 * 1024

# As long as an edit or the first output of a command takes.
_SLOW_S = 0.05


def serve(door: socket.socket) -> None:
    """Serve requests until the other side is closed."""
    while True:
        data, descriptors, _flags, _address = socket.recv_fds(door, _LARGEST_REQUEST, 3)
        if not data:
            return
        request = json.loads(data)
        if "reap" in request:
            answer = os.waitstatus_to_exitcode(os.waitpid(request["reap"], 0)[1])
        else:
            answer = os.fork()
            if answer == 0:
                door.close()
                _become(request, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
        door.send(json.dumps(answer).encode())


def _become(request: dict, descriptors: list[int]) -> None:
    """Be the daemon. Never returns."""
    os.setsid()
    for standard, given in enumerate(descriptors):
        os.dup2(given, standard)
        os.close(given)
    os.chdir(request["directory"])
    os.environ.clear()
    os.environ.update(request["environment"])
    command = request.get("command")
    if command is None:
        sys.argv = ["term2", "acp"]
    else:
        sys.argv = ["term2", *command[command.index("term2_acp") + 1 :]]
        _show(command, request["environment"])
    if request["report"] is not None:
        _watch(request["report"], request["fault"])
    if request["user"] is not None:
        os.setgroups([])
        os.setgid(request["user"])
        os.setuid(request["user"])
    from term2_acp.cli import main

    main()


def _show(command: list[str], environment: dict[str, str]) -> None:
    """Have ``/proc`` show them: it reads them where they lay in memory when the process was started.

    Nothing else points there any more: Python has copies of its arguments, and ``os.environ`` was made anew.
    """
    with open("/proc/self/stat") as stat:
        fields = stat.read().rpartition(")")[2].split()
    arguments, end_of_arguments, variables, end_of_variables = map(int, fields[45:49])
    pairs = [f"{name}={value}" for name, value in environment.items()]
    for words, start, end in (
        (command, arguments, end_of_arguments),
        (pairs, variables, end_of_variables),
    ):
        data = b"".join(os.fsencode(word) + b"\0" for word in words)
        assert len(data) <= end - start, "no room to show it"
        ctypes.memmove(start, data.ljust(end - start, b"\0"), end - start)


def _watch(report: str, fault: tuple[int | str, str] | None) -> None:
    from term2_acp.providers.scripted.model import Scripted
    from term2_acp.store import journal, schema

    writes = os.open(report, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    asked = os.open(f"{report}.asked", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    commit, append, stream = schema.commit, journal.append, Scripted.stream
    kinds: list[str] = []
    count = 0

    def noting(connection, number, rows, at):
        kinds.extend(row.kind for row in rows)
        append(connection, number, rows, at)

    def committing(connection, work):
        nonlocal count
        count += 1

        def watched():
            work()
            os.write(writes, json.dumps(kinds).encode() + b"\n")
            if struck("before"):
                time.sleep(_SLOW_S)
                os.kill(os.getpid(), signal.SIGKILL)

        commit(connection, watched)
        if struck("after"):
            os.kill(os.getpid(), signal.SIGKILL)
        kinds.clear()

    def struck(now):
        return fault is not None and fault[0] in (count, *kinds) and fault[1] == now

    def asking(self, request, *rest):
        os.write(asked, json.dumps([_told(message) for message in request.messages]).encode() + b"\n")
        return stream(self, request, *rest)

    schema.commit, journal.append, Scripted.stream = committing, noting, asking


def _told(message: object) -> dict:
    """A message of a request, as ``crashing.Life`` has it."""
    told = {"is": type(message).__name__, "text": getattr(message, "text", "")}
    if told["is"] == "AssistantSaid":
        told["calls"] = [call.call_id for call in message.calls]
    elif told["is"] == "ToolAnswered":
        told |= {"text": message.result, "answers": message.call_id}
    return told


def _make_what_is_made_once() -> None:
    """The codec of rows, which has no state. It takes longer than all else that a short life does."""
    from term2_acp.store import database

    database._codec()


def main() -> None:
    """See the module."""
    del sys.path[0]  # the folder of this file: what lies beside it is no part of the program
    for name in (*_WARM, *sys.argv[3:]):
        __import__(name)
    _make_what_is_made_once()
    gc.collect()
    assert len(os.listdir("/proc/self/task")) == 1, "a fork would lose a thread"
    gc.freeze()  # what is here stays: a collection in a fork would copy every page of it
    serve(socket.socket(fileno=int(sys.argv[1])))


if __name__ == "__main__":
    main()
