"""Takes stdin and stdout away from everything but the protocol. Runs before any other import.

Afterwards file descriptor 0 is the null device and 1 is stderr, so no import, ``print`` or child process
can read a request or put a byte between two frames (ACP v2: nothing but messages on stdout). Diagnostics
that went to stdout by mistake are seen on stderr.

Imports only what an interpreter has loaded anyway.
"""

import fcntl
import os

# Descriptors 0, 1 and 2 are the standard ones; the private ones lie above, whatever was closed at start.
_FIRST_PRIVATE = 3


class Claimed:
    """The protocol's own descriptors. Both are private: above 2, and not inherited by children."""

    __slots__ = ("input", "output")

    def __init__(self, input_fd: int, output_fd: int) -> None:
        self.input = input_fd
        self.output = output_fd


def claim() -> Claimed:
    """Move the descriptors 0 and 1 out of reach and put harmless ones in their place.

    One that was closed at start counts as the null device: an input that has ended, an output that
    nobody reads. The status flags of what we were given are not touched.

    Raises:
        OSError: the null device cannot be opened, or there are no descriptors left.
    """
    for descriptor in (0, 1, 2):
        _open_if_closed(descriptor)
    claimed = Claimed(
        fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, _FIRST_PRIVATE),
        fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, _FIRST_PRIVATE),
    )
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return claimed


def _open_if_closed(descriptor: int) -> None:
    """Put the null device there. Called in rising order, so the lowest free number is the one."""
    try:
        os.fstat(descriptor)
    except OSError:
        null = os.open(os.devnull, os.O_RDWR)
        if null == descriptor:
            os.set_inheritable(null, True)  # noqa: FBT003 - it takes no keyword
        else:
            os.dup2(null, descriptor)
            os.close(null)
