"""The sandbox: commands run confined, or not at all.

Rules of the room:

- What a command may do is a value (``policy``). What enforces it is made by pure functions: mounts in a
  documented order (``mounts``), a command line (``bwrap``), programs for the kernel (``seccomp``), variables
  (``environment``), and for macOS a profile (``seatbelt``). Nothing else decides.
- A sandbox is used when it was seen to refuse what it must, by the very path that commands take. One that
  cannot be shown to hold runs nothing, and no setting changes that.
- A weaker sandbox says what it does not hold, each time. It is never taken in silence.
- What cannot be confined is refused with a reason; a place that cannot be masked stops the command.
- When a command has ended, for whatever reason, nothing of it is left.

Two mechanisms: bubblewrap (namespaces, mounts and filters), and Landlock with filters where namespaces are
refused. The room knows no session, no tool and no protocol.
"""

from term2_acp.sandbox.command import Command, Exit
from term2_acp.sandbox.policy import (
    Layer,
    Layers,
    Limits,
    Policy,
    SandboxError,
    SandboxFailed,
    SandboxRefused,
    Unavailable,
)
from term2_acp.sandbox.sandbox import Sandbox

__all__ = [
    "Command",
    "Exit",
    "Layer",
    "Layers",
    "Limits",
    "Policy",
    "Sandbox",
    "SandboxError",
    "SandboxFailed",
    "SandboxRefused",
    "Unavailable",
]
