"""A command that runs in the sandbox, as its caller sees it: output, exit, kill.

Rules. Output is stdout and stderr in one pipe, as bytes. The exit is that of the command itself, not of those
who hold its pipe. A command is only ever had inside of the context that started it; when that has been left,
nothing of it runs.
"""

import signal
from collections.abc import Awaitable, Callable

from attrs import field

from term2_acp.domain.classes import frozen
from term2_acp.process import Process
from term2_acp.sandbox.policy import Layer

# Shells, and bubblewrap, say a death by signal N as the exit code 128 + N.
_SIGNAL_BASE = 128


@frozen
class Exit:
    """How a command ended: with a code, or by a signal (its name, ``"SIGKILL"``), never both."""

    code: int | None
    signal: str | None


@frozen(eq=False)
class Command:
    """A running command. ``notes`` are sentences about what the sandbox does *not* hold for it.

    ``bounded`` are the limits of the whole tree that are in force: of ``PROCESSES`` and ``MEMORY``.
    """

    notes: tuple[str, ...]
    bounded: frozenset[Layer]
    _process: Process = field(repr=False)
    _ended: Callable[[], Awaitable[Exit]] = field(repr=False)
    _kill: Callable[[], None] = field(repr=False)

    async def receive(self) -> bytes:
        """Wait for output, some tens of KiB at most; ``b""`` at its end. Cancelled, nothing is lost.

        The end comes with the command's own exit, when what it wrote is read. One task at a time.
        """
        return await self._process.receive()

    async def wait(self) -> Exit:
        """Wait until the command itself has ended. Cancelled, it runs on."""
        return await self._ended()

    def kill_nowait(self) -> None:
        """Kill the command and all that it started, by SIGKILL. A second time does nothing."""
        self._kill()


def nothing_to_say() -> None:
    """What is called just before a command runs, for a caller that has no last word."""


def exit_from_code(code: int) -> Exit:
    """The exit that a return code of ``subprocess``, a shell or bubblewrap stands for.

    A negative number is a signal. So is 128 + N where N is the number of a signal: a program that ends itself
    with such a code by ``exit(137)`` cannot be told from one that was killed, and is said to have been.
    """
    if code < 0:
        return Exit(None, signal_name(-code))
    if code > _SIGNAL_BASE and code - _SIGNAL_BASE in signal.valid_signals():
        return Exit(None, signal_name(code - _SIGNAL_BASE))
    return Exit(code, None)


def signal_name(number: int) -> str:
    """The name of a signal; a nameless one above ``SIGRTMIN`` by its distance."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIGRTMIN+{number - signal.SIGRTMIN}"
