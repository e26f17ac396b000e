"""What the peer and the writer need of the two byte streams, whatever they are made of."""

from typing import Protocol


class PeerGone(Exception):
    """The other end of the output is closed. It says nothing about what was taken before."""


class Incoming(Protocol):
    """Bytes from the client."""

    async def receive(self) -> bytes:
        """Wait for bytes; at least one, or none at all when the input has ended.

        An input that breaks has ended too. Cancelled, nothing that was received is lost, except where
        the bytes were on their way in a thread. Called by one task at a time.
        """
        ...

    def close(self) -> None:
        """Give the descriptor back. Idempotent; not while a task waits in ``receive``."""
        ...


class Outgoing(Protocol):
    """Bytes to the client. Used by ``Writer`` alone."""

    def send_nowait(self, data: bytes) -> int:
        """Hand over what is taken at once, and return how many bytes that was: 0 if it would block.

        Raises:
            PeerGone: nobody can read any more.
            OSError: the bytes cannot be written for another reason (a full disk).
        """
        ...

    async def send(self, data: memoryview) -> int:
        """Wait until some bytes of ``data`` are taken, and return how many; at least one.

        Cancelled, an unknown part may have been taken: nothing sensible can be sent after it. Raises
        what ``send_nowait`` raises. Called by one task at a time.
        """
        ...

    def close(self) -> None:
        """Give the descriptor back; the client then sees the end.

        Idempotent; not while a task waits in ``send``.
        """
        ...
