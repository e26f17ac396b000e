"""The fallback where namespaces are refused: Landlock, filters of system calls, and a process group.

Theory of operation. Landlock is a list of what is allowed, in a tree: a right on a folder holds for all that
is below it and cannot be taken back further down. So reading is granted around the hidden places: on the way
from ``/`` down to each of them, on every neighbour. Names can be listed everywhere (that right is granted on
``/``), contents cannot be read in the hidden places, and neither what appears beside them later. Writing is
granted in the workspace, in a temporary folder made for the call, and on the harmless devices. No device of
``/dev`` else is granted at all: root owns the disks that are there.

What lies inside the workspace is as writable as the rest of it. A workspace with a hidden place in it, or
with our own code, is therefore refused; protected names in it are not held, which the notes say. A workspace
that is read-only as a whole is granted no right to write. Modes, times and the like are nothing that Landlock
knows of, so then the filters refuse to change them, of any file.

Without a namespace of processes nothing else keeps the tree together than the process group, which the
filters forbid to leave. Signals of the command, and abstract sockets, end at the domain's border since ABI 6
of Landlock; an older one is refused. Internet and UNIX sockets are refused by the filters.
"""

import json
import logging
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress

import trio
from attrs import field

from term2_acp.domain.classes import define, frozen
from term2_acp.domain.paths import is_within
from term2_acp.process import Process
from term2_acp.sandbox import cgroups, child, launch, limits
from term2_acp.sandbox.command import Command, Exit, nothing_to_say, signal_name
from term2_acp.sandbox.policy import (
    TEMPORARY_FOLDERS,
    Layer,
    Policy,
    SandboxFailed,
    SandboxRefused,
    notes,
)
from term2_acp.sandbox.seccomp import programs

logger = logging.getLogger(__name__)

# The first ABI of Landlock that bounds signals and abstract sockets.
MINIMUM_ABI = 6

# Seconds between two looks for members of a killed process group; there is nothing to wait on.
_LOOK_S = 0.002

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")

# The rights of Landlock, as its header numbers them.
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_CHANGE = sum(1 << bit for bit in (1, 4, 5, 7, 8, 9, 10, 12, 13, 14))  # all but device nodes and their ioctls


@frozen
class Grant:
    """Rights of Landlock on a file, or on a folder and all that is below it."""

    path: str
    rights: int


def grants(policy: Policy, temporary: str, list_folder: Callable[[str], Sequence[str]]) -> tuple[Grant, ...]:
    """What a command is granted under ``policy``, with ``temporary`` as its own folder.

    ``list_folder`` gives the paths of what lies in a folder, links left out: what a link leads to is granted,
    or not, where it lies.
    """
    # /dev is treated as hidden for its disks, and the temporary folders for the sockets and files in them.
    hidden = ("/dev", *policy.hidden, *policy.private)
    found = [Grant("/", _READ_DIR)]
    found += [Grant(path, _READ) for path in _around(hidden, "/", list_folder)]
    found += [Grant(path, _READ_FILE | _WRITE_FILE) for path in _DEVICES]
    found.append(
        Grant(policy.confinement.workspace, _READ if policy.confinement.is_read_only else _READ | _CHANGE)
    )
    found.append(Grant(temporary, _READ | _CHANGE))
    return tuple(found)


def _around(hidden: Sequence[str], folder: str, list_folder: Callable[[str], Sequence[str]]) -> Iterator[str]:
    """The paths that together are all below ``folder`` but the hidden ones."""
    for path in list_folder(folder):
        below = [one for one in hidden if is_within(path, one)]
        if not below:
            yield path
        elif path not in below:
            yield from _around(below, path, list_folder)


def refusal(policy: Policy) -> str | None:
    """Why Landlock cannot confine a command in this workspace, or None."""
    confinement = policy.confinement
    for place in policy.hidden:
        if is_within(confinement.workspace, place):
            return f"the workspace holds {place}, which this machine's sandbox cannot hide inside of it"
    if confinement.own_inside and not confinement.is_read_only:
        return (
            "the workspace holds term2's own code, which this machine's sandbox cannot protect inside of it"
        )
    return None


def abi() -> int:
    """The ABI of the kernel's Landlock; 0 where there is none."""
    if sys.platform != "linux":
        return 0
    # Lazily: only where bubblewrap does not work.
    from landlockpy import abi_version

    return abi_version()


@asynccontextmanager
async def confine(
    policy: Policy,
    command: Sequence[str],
    *,
    temporary: str,
    pass_fds: Sequence[int] = (),
    last_word: Callable[[], None] = nothing_to_say,
) -> AsyncIterator[Command]:
    """Run a command confined by Landlock; as ``launch.launch``, with the weaker promise of this module.

    ``temporary`` is the folder of ``temporary_folder`` that the policy's environment names.

    Raises:
        SandboxRefused: this workspace cannot be confined so.
        SandboxFailed: the command was not started.
    """
    if (reason := refusal(policy)) is not None:
        raise SandboxRefused(reason)
    async with AsyncExitStack() as stack:
        theirs = stack.enter_context(ExitStack())
        status, status_w = launch.pipe(stack, theirs)
        started, started_w = launch.pipe(stack, theirs)
        gate_r, gate = launch.pipe(theirs, stack)
        for ours in (status, started):
            os.set_blocking(ours, False)
        told = await trio.to_thread.run_sync(_spec, policy, command, temporary, abandon_on_cancel=True)
        spec = launch.sealed(theirs, told)
        group = stack.enter_context(cgroups.group(policy.limits))
        numbers = (os.getpid(), spec, status_w, started_w)
        argv = [sys.executable, "-I", "-S", child.__file__, *(str(number) for number in numbers)]
        process = await launch.start(stack, argv, policy, stdin=gate_r, pass_fds=[*numbers[1:], *pass_fds])
        tree = _Group(process)
        stack.push_async_callback(tree.until_gone)
        theirs.close()
        with trio.move_on_after(launch.START_DEADLINE_S) as starting:
            bounded = await _open_gate(process, policy, group, gate, started, last_word)
        if starting.cancelled_caught:
            raise SandboxFailed(f"the sandbox did not start within {launch.START_DEADLINE_S:.0f} s")

        async def ended() -> Exit:
            await process.wait()
            return _told(status)

        yield Command(notes(policy), bounded, process, ended, tree.kill_nowait)


async def _open_gate(
    process: Process,
    policy: Policy,
    group: cgroups.Group,
    gate: int,
    started: int,
    last_word: Callable[[], None],
) -> frozenset[Layer]:
    """Have the supervisor start the command, under its limits; those of the tree that are in force.

    Raises:
        SandboxFailed: a step on the way to the command failed.
        SandboxError: ``last_word`` raised it.
    """
    fault: Exception | None = None
    told = ""
    try:
        bounded = limits.hold(process.pid, policy.limits, namespace=False) | group.add_nowait(process.pid)
        last_word()
        os.write(gate, b"\n")
        told = (await launch.read_some(started)).decode(errors="replace")
        if told == child.CONFINED:
            return bounded
    except OSError as error:
        fault = error
    said = told or await launch.words(process) or str(fault or "its supervisor ended and said nothing")
    raise SandboxFailed(f"the sandbox did not start: {said}") from fault


def _spec(policy: Policy, command: Sequence[str], temporary: str) -> bytes:
    """What ``child`` needs to know. Blocks: the folders around the hidden places are listed."""
    # Lazily: only where bubblewrap does not work.
    import landlockpy

    granted = grants(policy, temporary, _without_links)
    spec = {
        "library": os.path.dirname(os.path.dirname(landlockpy.__file__)),
        "command": list(command),
        "cwd": policy.cwd,
        "environment": dict(policy.environment),
        "grants": [[grant.path, grant.rights] for grant in granted],
        "filters": [
            program.hex()
            for program in programs(own_network=False, keeps_attributes=policy.confinement.is_read_only)
        ],
    }
    return json.dumps(spec).encode()


def _without_links(folder: str) -> list[str]:
    """The paths in a folder, links left out; none of a folder that may not be read."""
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry.path for entry in entries if not entry.is_symlink()]
    return []


def _told(status: int) -> Exit:
    """How the command ended, as the supervisor told; it tells nothing when it was killed."""
    told = b""
    with suppress(BlockingIOError):
        told = os.read(status, 64)
    if not told.endswith(b"\n"):
        return Exit(None, signal_name(signal.SIGKILL))
    code = int(told)
    return Exit(None, signal_name(-code)) if code < 0 else Exit(code, None)


@define(eq=False)
class _Group:
    """The processes of one command: the supervisor's process group."""

    process: Process
    gone: bool = field(default=False, init=False)

    def kill_nowait(self) -> None:
        """Kill all of them; a fork that is under way fails."""
        if not self.gone:
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    async def until_gone(self) -> None:
        """Kill everything, and wait until it has gone."""
        self.kill_nowait()
        with trio.move_on_after(launch.GONE_DEADLINE_S, shield=True) as scope:
            # Nothing tells of the end of a group. In a thread: it looks at every process of the machine.
            while await trio.to_thread.run_sync(_has_members, self.process.pid, abandon_on_cancel=True):  # noqa: ASYNC110
                await trio.sleep(_LOOK_S)
        if scope.cancelled_caught:
            logger.error("processes of a command did not end within %.0f s", launch.GONE_DEADLINE_S)
        self.gone = True


def _has_members(group: int) -> bool:
    """Whether a process group has members that are not dead. Blocks for some milliseconds."""
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with suppress(OSError, ValueError):  # one that ends just now may be read as nothing
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, _parent, its_group = file.read().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                return True
    return False


@asynccontextmanager
async def temporary_folder(*, outside: str | None = None) -> AsyncIterator[str]:
    """A new folder that only we may enter, removed with all that is in it.

    It is not made in the canonical folder ``outside``, where nothing may be made, unless that is everywhere.
    """
    path = _new_folder(outside)
    try:
        yield path
    finally:
        with trio.move_on_after(launch.GONE_DEADLINE_S, shield=True):
            await trio.to_thread.run_sync(_remove_with_leftovers, path, abandon_on_cancel=True)


def _new_folder(outside: str | None) -> str:
    places = [os.path.realpath(place) for place in (tempfile.gettempdir(), *TEMPORARY_FOLDERS)]
    elsewhere = (place for place in places if outside is None or not is_within(outside, place))
    parent = next((place for place in elsewhere if os.access(place, os.W_OK | os.X_OK)), places[0])
    return os.path.realpath(tempfile.mkdtemp(prefix=cgroups.name_of_ours() + "-", dir=parent))


def _remove_with_leftovers(path: str) -> None:
    """Remove a folder, and those beside it of our daemons that were killed. Blocks."""
    _remove(path)
    with suppress(OSError), os.scandir(os.path.dirname(path)) as entries:
        for entry in entries:
            is_folder = cgroups.is_leftover(entry.name) and entry.is_dir(follow_symlinks=False)
            if is_folder and entry.stat(follow_symlinks=False).st_uid == os.geteuid():
                _remove(entry.path)


def _remove(path: str) -> None:
    """Remove a folder whose contents may have forbidden it to their owner. Blocks."""
    with suppress(OSError):
        os.chmod(path, 0o700)
    for folder, folders, _files in os.walk(path):
        for inner in (os.path.join(folder, name) for name in folders):
            with suppress(OSError):
                if not os.path.islink(inner):
                    os.chmod(inner, 0o700)
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        logger.warning("a temporary folder could not be removed: %s", path)
