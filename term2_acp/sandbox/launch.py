"""Starting a command under bubblewrap, and ending it with all that it left behind.

Theory of operation. bubblewrap makes the namespaces, and in them process 1, which makes the mounts, starts
the command and reaps. We hold a descriptor of process 1: when the kernel lets that one end, every process of
its namespace has ended and is reaped, whatever session it fled to. So one kill and one wait end the tree.

Four gates stand between the start and the command. At the end of its pipe, which is our death, none opens
but the third.

1. What is started is a shell that reads a line from us and becomes bubblewrap. bubblewrap asks to die with
   us, but when it does before it let its process 1 go on, that one waits for ever. Until gate 3 it is of the
   process group of the shell, and so a *warden*, started before, is told that group first. It waits for our
   end and kills the group.
2. bubblewrap tells the number of process 1. We see that it is what it should be (a child of bubblewrap, first
   in a namespace of its own), and keep its descriptor.
3. Process 1 waits for a byte (``--block-fd``), so that the limits and the control group are on it before it
   has children. This gate alone also opens at the end of its pipe: process 1 would then run the command with
   no limits, and ask to die with its parent after the parent has gone.
4. So what bubblewrap runs is again a shell that reads a line from us and becomes the command. The line is
   written when process 1 is seen to carry its filters, which it loads after it asked to die with its parent
   and made its mounts, and when each of those is where it should be (``mounted``). From there on our own
   death, by SIGKILL too, ends the tree.

The command's stdin is empty. Leaving the context kills process 1, waits for it, at most ``GONE_DEADLINE_S``,
shielded from cancellation, and then for bubblewrap.
"""

import fcntl
import functools
import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress

import trio
from attrs import field

from term2_acp.domain.classes import define
from term2_acp.process import Process, open_process
from term2_acp.sandbox import cgroups, limits
from term2_acp.sandbox.bwrap import bwrap_argv
from term2_acp.sandbox.command import Command, Exit, exit_from_code, nothing_to_say
from term2_acp.sandbox.mounted import require_in_place
from term2_acp.sandbox.policy import Layer, Policy, SandboxFailed, notes
from term2_acp.sandbox.seccomp import programs

logger = logging.getLogger(__name__)

# Seconds until the command runs. Bubblewrap needs milliseconds; the mount of a dead server takes for ever.
START_DEADLINE_S = 10.0

# Seconds for a killed tree to be gone. Only a process that hangs in the kernel needs longer.
GONE_DEADLINE_S = 5.0

# Seconds between two looks at process 1, which makes its mounts meanwhile; there is nothing to wait on.
_LOOK_S = 0.0005

# Bytes of bubblewrap's own words that are passed on, and seconds that they are waited for.
_WORDS_BYTES = 1000
_WORDS_DEADLINE_S = 1.0

# Bytes of the status pipe: bubblewrap writes two short lines.
_STATUS_BYTES = 64 * 1024

# Is told a process group, waits for the end of its stdin, which is our own, and kills the group.
_WARDEN = ("/bin/sh", "-c", 'read -r group && { read -r end; kill -s KILL -- "-$group"; }', "warden")

# The first and the fourth gate. The command's stdin is empty.
_FIRST_GATE = ("/bin/sh", "-c", 'read -r go && exec "$@"', "sandbox")
_LAST_GATE = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "sh")


@asynccontextmanager
async def launch(
    program: str,
    policy: Policy,
    command: Sequence[str],
    *,
    pass_fds: Sequence[int] = (),
    last_word: Callable[[], None] = nothing_to_say,
) -> AsyncIterator[Command]:
    """Run a command under the bubblewrap ``program``.

    Descriptors of ``pass_fds`` reach the command under their numbers. ``last_word`` is called in the very
    step that lets the command run; if it raises, nothing of it runs. The context is entered when nothing
    stands in the command's way any more. When it has been left, for whatever reason, no process, descriptor
    or control group of the command is left, and neither when it could not be entered.

    Raises:
        SandboxFailed: bubblewrap did not start, or not properly. Nothing of the command ran.
    """
    async with AsyncExitStack() as stack:
        theirs = stack.enter_context(ExitStack())  # what only the children shall hold, once they are started
        status, status_w = pipe(stack, theirs)
        block_r, block = pipe(theirs, stack)
        gate_r, gate = pipe(theirs, stack)
        warden_r, warden = pipe(theirs, stack)
        os.set_blocking(status, False)
        filters = [sealed(theirs, one) for one in _filters()]
        argv = bwrap_argv(
            program, policy, [*_LAST_GATE, *command], status_fd=status_w, block_fd=block_r, filter_fds=filters
        )
        group = stack.enter_context(cgroups.group(policy.limits))
        await start(stack, _WARDEN, policy, stdin=warden_r)
        process = await start(
            stack,
            [*_FIRST_GATE, *argv],
            policy,
            stdin=gate_r,
            pass_fds=[status_w, block_r, *filters, *pass_fds],
        )
        os.write(warden, b"%d\n" % process.pid)
        tree = _Tree(process, status, len(filters))
        stack.push_async_callback(tree.until_gone)
        theirs.close()
        with trio.move_on_after(START_DEADLINE_S) as starting:
            bounded = await _open_gates(tree, policy, group, block, gate, last_word)
        if starting.cancelled_caught:
            raise SandboxFailed(f"the sandbox did not start within {START_DEADLINE_S:.0f} s")

        async def ended() -> Exit:
            return exit_from_code(await process.wait())

        yield Command(notes(policy), bounded, process, ended, tree.kill_nowait)


async def start(
    stack: AsyncExitStack, argv: Sequence[str], policy: Policy, *, stdin: int, pass_fds: Sequence[int] = ()
) -> Process:
    """Start a program that is part of a sandbox; it is gone when the stack is unwound.

    Raises:
        SandboxFailed: it cannot be started.
    """
    try:
        return await stack.enter_async_context(
            open_process(
                argv, env=policy.environment, cwd="/", stdin=stdin, stderr="stdout", pass_fds=pass_fds
            )
        )
    except (OSError, ValueError) as error:  # ValueError: a NUL in the command, which no system call can say
        raise SandboxFailed(f"the sandbox did not start: {error}") from error


async def words(process: Process) -> str:
    """What a program that made no sandbox said, on one line, shortened; waits a moment for its end."""
    said = bytearray()
    with trio.move_on_after(_WORDS_DEADLINE_S):
        while len(said) < _WORDS_BYTES and (data := await process.receive()):
            said += data
    return " ".join(said[:_WORDS_BYTES].decode(errors="replace").split())


@define(eq=False)
class _Tree:
    """The processes of one command: bubblewrap itself, and from gate 2 on a descriptor of process 1.

    ``filters`` is how many filters process 1 is to load.
    """

    process: Process
    status: int
    filters: int
    first: int | None = field(default=None, init=False)
    gone: bool = field(default=False, init=False)

    def kill_nowait(self) -> None:
        """Kill everything. Before gate 2, process 1 is still of bubblewrap's own process group."""
        if self.gone:
            return
        with suppress(ProcessLookupError):
            if self.first is not None:
                signal.pidfd_send_signal(self.first, signal.SIGKILL)
            else:
                os.killpg(self.process.pid, signal.SIGKILL)

    async def until_gone(self) -> None:
        """Kill everything, and wait until it has gone."""
        self.kill_nowait()
        with trio.move_on_after(GONE_DEADLINE_S, shield=True) as scope:
            if self.first is not None:
                await trio.lowlevel.wait_readable(self.first)
            else:
                while await read_some(self.status):
                    pass  # both processes hold the other end, and nobody else does
        if scope.cancelled_caught:
            logger.error("processes of a command did not end within %.0f s of being killed", GONE_DEADLINE_S)
        self.gone = True  # the numbers may be a stranger's from now on
        if self.first is not None:
            os.close(self.first)


async def _open_gates(
    tree: _Tree,
    policy: Policy,
    group: cgroups.Group,
    block: int,
    gate: int,
    last_word: Callable[[], None],
) -> frozenset[Layer]:
    """Take the command through the gates; the limits of the tree that are in force.

    Raises:
        SandboxFailed: bubblewrap gave up, or is not what it should be.
        SandboxError: ``last_word`` raised it.
    """
    fault: Exception | None = None
    try:
        os.write(gate, b"\n")
        pid = await _first_process(tree)
        bounded = limits.hold(pid, policy.limits, namespace=True) | group.add_nowait(pid)
        os.write(block, b"\n")
        while not _dies_with_parent(pid, tree.filters):
            if tree.process.returncode is not None:
                break
            await trio.sleep(_LOOK_S)
        else:
            require_in_place(pid, policy)
            last_word()
            os.write(gate, b"\n")
            return bounded
    except (OSError, ValueError) as error:
        fault = error
    said = await words(tree.process) or str(fault or "bubblewrap ended and said nothing")
    raise SandboxFailed(f"the sandbox did not start: {said}") from fault


async def _first_process(tree: _Tree) -> int:
    """Wait for the number of process 1, and take its descriptor.

    Raises:
        ValueError: no number came, or it is of something else.
        OSError: the process has gone.
    """
    told = b""
    while (pid := _child_pid(told)) is None:
        data = await read_some(tree.status)
        if not data or len(told) > _STATUS_BYTES:
            raise ValueError("bubblewrap did not tell its process")
        told += data
    with ExitStack() as strangers:
        # Kept only when it is shown to be ours: it will be killed.
        first = os.pidfd_open(pid)
        strangers.callback(os.close, first)
        facts = _facts(pid)
        numbers = facts.get("NSpid", "").split()
        if facts.get("PPid", "").strip() != str(tree.process.pid) or len(numbers) < 2 or numbers[-1] != "1":
            raise ValueError("bubblewrap made no namespace of processes")
        strangers.pop_all()
    tree.first = first
    return pid


def _child_pid(told: bytes) -> int | None:
    """The number of process 1 in the complete lines of the status pipe.

    Raises:
        ValueError: a line is no JSON, or the number none.
    """
    for line in told.splitlines(keepends=True):
        if line.endswith(b"\n") and isinstance(facts := json.loads(line), dict):
            pid = facts.get("child-pid")
            if type(pid) is int:
                return pid
    return None


def _dies_with_parent(pid: int, filters: int) -> bool:
    """Whether process 1 carries so many filters more than we. It asked to die with its parent just before."""
    facts = _facts(pid)
    if (loaded := facts.get("Seccomp_filters")) is None:
        return facts.get("Seccomp", "").strip() == "2"  # before Linux 5.9 they are not counted
    return int(loaded) - int(_facts(os.getpid())["Seccomp_filters"]) >= filters


def _facts(pid: int) -> dict[str, str]:
    """What the kernel tells of a process, by name.

    Raises:
        OSError: there is no such process.
    """
    with open(f"/proc/{pid}/status", encoding="utf-8", errors="replace") as file:
        return dict(line.rstrip("\n").split(":", 1) for line in file)


async def read_some(descriptor: int) -> bytes:
    """Wait for bytes of a non-blocking pipe; ``b""`` at its end."""
    while True:
        await trio.lowlevel.wait_readable(descriptor)
        with suppress(BlockingIOError):
            return os.read(descriptor, 4096)


def pipe(reader: ExitStack | AsyncExitStack, writer: ExitStack | AsyncExitStack) -> tuple[int, int]:
    """The reading and the writing end of a new pipe; each of the stacks closes its own."""
    reading, writing = os.pipe()
    reader.callback(os.close, reading)
    writer.callback(os.close, writing)
    return reading, writing


@functools.cache
def _filters() -> tuple[bytes, ...]:
    """The filters of every command: milliseconds to make, always the same."""
    return programs(own_network=True)


def sealed(stack: ExitStack, content: bytes) -> int:
    """A file in memory, at its beginning, which nobody can change any more; the stack closes it."""
    descriptor = os.memfd_create("term2", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    stack.callback(os.close, descriptor)
    with open(descriptor, "wb", closefd=False) as file:
        file.write(content)
    seals = fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
