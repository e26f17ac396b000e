"""The proof that a sandbox holds: a trial run, by the very path that commands take, that tries to get out.

Rules. What the trial run says is believed where it speaks against the sandbox, or where nothing can be seen
from outside. What can be seen is looked at: the file it should not write is as it was, our listener saw
nobody, the lock of the process it left behind is free. And it must have run at all: it writes a number that
nobody could know into the one place where it may. So a program that only calls itself ``bwrap`` does not
pass, whether it runs the command as it is, says what is expected, does nothing, or hangs.

A second trial, made when it is first asked for, tries to change a workspace that is read-only as a whole.
Nothing can be written there as a proof; but it is made of a sandbox that has passed the first one.
"""

import fcntl
import json
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack, contextmanager
from typing import Any

import trio

from term2_acp.domain.classes import frozen
from term2_acp.domain.confinement import Confinement
from term2_acp.sandbox import attempts
from term2_acp.sandbox.command import Command
from term2_acp.sandbox.policy import TEMPORARY_FOLDERS, Layer, SandboxFailed, lies_in

logger = logging.getLogger(__name__)

# Seconds for one trial run. It takes a tenth of one on a quiet machine.
TRIAL_DEADLINE_S = 10.0

# Bytes of output that a trial run is read for; it prints one short line.
_OUTPUT_BYTES = 16 * 1024

# Characters of what it said instead that are passed on.
_SAID = 300

_UNTOUCHED = "untouched"

# What the second trial must report, each as stopped.
_CHANGES = (
    "written",
    "by_the_root",
    "made",
    "nameless",
    "folder",
    "linked",
    "mode",
    "times",
    "renamed",
    "removed",
)

# What the judge asks for; a report without one of them is none.
_ATTEMPTS = (
    "root",
    "kernel",
    "hidden",
    "hidden_below",
    "protected",
    "removed",
    "tcp",
    "unix",
    "process",
    "namespace",
    "filtered",
    "left_behind",
)

Run = Callable[[Sequence[str], Confinement], AbstractAsyncContextManager[Command]]
"""Runs a command in the sandbox that is being tried, in the confinement's workspace."""


async def held_by(run: Run, folder: str) -> frozenset[Layer]:
    """Try a sandbox out; the layers that it was seen to hold.

    ``folder`` is where the places of the trial are made, and removed again, by whom commands are hidden from.

    Raises:
        SandboxError: the trial run did not come to its end, so nothing was seen.
    """
    with _places(folder) as places:
        said, bounded = await _try(run, places, places.confinement())
        return _judge(places, said) | bounded


async def keeps_workspace(run: Run, folder: str) -> bool:
    """Try whether a workspace that is read-only as a whole stays as it is. For the rest see ``held_by``."""
    with _places(folder) as places:
        before = _state(places)
        said, _bounded = await _try(run, places, places.confinement().as_read_only())
        return _all_stopped(places, said) and _state(places) == before


@frozen
class _Places:
    """What a trial run tries to reach, and our ends of it."""

    folder: str
    nonce: str
    secret: str
    tcp: socket.socket

    def path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    def for_attempts(self, *, read_only: bool) -> str:
        """What the program is told; ``read_only`` is the workspace as a whole, or not.

        The secret is not told: it is what the program must not get.
        """
        with open("/proc/self/stat", encoding="ascii", errors="replace") as file:
            started = file.read().rpartition(")")[2].split()[19]
        return json.dumps(
            {
                "nonce": self.nonce,
                "read_only": read_only,
                "workspace": self.path("workspace"),
                "outside": self.path("outside"),
                "protected": self.path("workspace", "protected"),
                "hidden": self.path("hidden"),
                "hidden_below": self.path("folder", "hidden"),
                "secret": len(self.secret),
                "port": self.tcp.getsockname()[1],
                "pid": os.getpid(),
                "started": started,
            }
        )

    def confinement(self) -> Confinement:
        return Confinement(
            workspace=self.path("workspace"),
            hidden=(self.path("hidden"), self.path("folder")),
            read_only=(self.path("workspace", "protected"),),
        )


@contextmanager
def _places(parent: str) -> Iterator[_Places]:
    """Make the places of one trial; they are gone when the context is left."""
    with ExitStack() as stack:
        folder = os.path.realpath(tempfile.mkdtemp(prefix="trial-", dir=parent))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        places = _Places(
            folder,
            nonce=secrets.token_hex(16),
            secret=secrets.token_hex(16),
            tcp=stack.enter_context(socket.create_server(("127.0.0.1", 0))),
        )
        for name in ("workspace", "folder"):
            os.mkdir(places.path(name))
        _write(places.path("outside"), _UNTOUCHED)
        _write(places.path("workspace", "protected"), _UNTOUCHED)
        _write(places.path("hidden"), places.secret)
        _write(places.path("folder", "hidden"), places.secret)
        places.tcp.setblocking(False)  # noqa: FBT003 -- as the library has it
        yield places


async def _try(run: Run, places: _Places, confinement: Confinement) -> tuple[str, frozenset[Layer]]:
    """Run the attempts; what they printed, and which limits were in force. Nothing of them is left.

    Raises:
        SandboxError: they did not come to their end.
    """
    told = places.for_attempts(read_only=confinement.is_read_only)
    said = bytearray()
    with trio.move_on_after(TRIAL_DEADLINE_S) as scope:
        async with run([_python(), "-I", "-S", "-c", _program(), told], confinement) as running:
            while len(said) < _OUTPUT_BYTES and (data := await running.receive()):
                said += data
    if scope.cancelled_caught:
        raise SandboxFailed(f"its trial run did not end within {TRIAL_DEADLINE_S:.0f} s")
    return said.decode(errors="replace"), running.bounded


def _program() -> str:
    with open(attempts.__file__, encoding="utf-8") as file:
        return file.read()


def _python() -> str:
    """The interpreter that runs us, without its virtual environment, where a command can see it."""
    own = os.path.realpath(sys.executable)
    return "/usr/bin/python3" if lies_in(own, TEMPORARY_FOLDERS) else own


def _judge(places: _Places, said: str) -> frozenset[Layer]:
    """Which layers held, from what was printed and from what is there now."""
    found = _report(places, said)
    # That the attempt itself failed is not asked: where the places are below a temporary folder, of which the
    # command has its own, it may well write there.
    beside = os.path.exists(places.path("outside.new"))
    outside_is_safe = _read(places.path("outside")) == _UNTOUCHED and not beside
    protected_is_safe = _read(places.path("workspace", "protected")) == _UNTOUCHED
    seen = {
        Layer.WRITES: outside_is_safe and bool(found["root"]) and bool(found["kernel"]),
        Layer.HIDDEN: bool(found["hidden"]) and bool(found["hidden_below"]) and places.secret not in said,
        Layer.PROTECTED: protected_is_safe and bool(found["protected"]) and bool(found["removed"]),
        Layer.NETWORK: bool(found["tcp"]) and not _was_reached(places.tcp),
        Layer.UNIX_SOCKETS: bool(found["unix"]),
        Layer.PROCESS_VIEW: bool(found["process"]),
        Layer.SYSCALLS: bool(found["namespace"]) and found["filtered"] is True,
        Layer.WHOLE_TREE: found["left_behind"] is True and _is_free(places.path("workspace", "alive")),
    }
    return frozenset(layer for layer, holds in seen.items() if holds)


def _report(places: _Places, said: str) -> dict[str, Any]:
    """What the attempts printed, when they were really made.

    Raises:
        SandboxFailed: they were not.
    """
    try:
        found = json.loads(said)
        if found["nonce"] == _read(places.path("workspace", "proof")) == places.nonce:
            return {name: found[name] for name in _ATTEMPTS}
    except (ValueError, TypeError, LookupError, OSError):
        pass
    words = " ".join(said.split())[:_SAID] or "nothing"
    raise SandboxFailed(f"its trial run did not do what it should; it said: {words}")


def _all_stopped(places: _Places, said: str) -> bool:
    """Whether every change was tried, and stopped."""
    try:
        found = json.loads(said)
        return found["nonce"] == places.nonce and all(isinstance(found[name], str) for name in _CHANGES)
    except (ValueError, TypeError, LookupError):
        return False


def _state(places: _Places) -> list[tuple[object, ...]]:
    """Everything about the workspace and what is in it that a change would alter: no time can be set back."""
    folder = places.path("workspace")
    found: list[tuple[object, ...]] = []
    for path in (folder, *sorted(os.path.join(folder, name) for name in os.listdir(folder))):
        facts = os.lstat(path)
        found.append((path, facts.st_ino, facts.st_mode, facts.st_nlink, facts.st_size, facts.st_ctime_ns))
    return found


def _was_reached(listener: socket.socket) -> bool:
    """Whether somebody connected."""
    try:
        connection, _address = listener.accept()
    except BlockingIOError:
        return False
    connection.close()
    return True


def _is_free(path: str) -> bool:
    """Whether nobody holds the lock of a file, which the process that was left behind held."""
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _read(path: str) -> str | None:
    """What is in a file; None when it is gone."""
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return None


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
