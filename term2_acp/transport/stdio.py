"""The claimed descriptors as streams, without changing a flag that anyone else can see.

O_NONBLOCK belongs to the open file description, which we share with whoever launched us, with our
stderr, and with the shell behind a terminal: set there, their plain writes would lose data, also after
we are gone. So there are three ways, by what a descriptor is:

- *Pipes and terminals* are opened again through ``/proc/self/fd``, which makes a description of our own.
- *Sockets* cannot be opened again, and need not be: MSG_DONTWAIT is a flag of one call.
- *All else* (regular files, the null device, systems without ``/proc``, pipes that belong to another
  user) blocks in a thread, which is abandoned when the wait is cancelled.
"""

import errno
import os
import socket
import stat
from collections.abc import Callable

import trio

from term2_acp.transport.streams import Incoming, Outgoing, PeerGone

# A pipe holds 64 KiB unless someone enlarged it, so a longer read would seldom return more.
READ_BYTES = 65_536

# What a thread writes in one call: as much as a pipe holds. Longer writes save nothing.
_THREAD_WRITE_BYTES = 65_536

# What a read says when the other end is gone rather than at its end: a closed terminal, a reset socket.
_ENDED = frozenset({errno.EIO, errno.ECONNRESET, errno.ENXIO, errno.ENOTCONN})

# What a write says when nobody can read any more.
_GONE = frozenset({errno.EPIPE, errno.ECONNRESET, errno.EIO, errno.ENXIO, errno.ENOTCONN, errno.ESHUTDOWN})

_Write = Callable[[bytes | memoryview], int]


def open_input(fd: int) -> Incoming:
    """Take over a descriptor to read from."""
    if stat.S_ISSOCK(os.fstat(fd).st_mode):
        channel = socket.socket(fileno=fd)
        return _PolledInput(fd, lambda: channel.recv(READ_BYTES, socket.MSG_DONTWAIT), channel.close)
    own = _opened_again(fd, os.O_RDONLY)
    if own is None:
        return _ThreadInput(fd)
    os.close(fd)
    return _PolledInput(own, lambda: os.read(own, READ_BYTES), lambda: os.close(own))


def open_output(fd: int) -> Outgoing:
    """Take over a descriptor to write to."""
    if stat.S_ISSOCK(os.fstat(fd).st_mode):
        channel = socket.socket(fileno=fd)
        return _PolledOutput(fd, lambda data: channel.send(data, socket.MSG_DONTWAIT), channel.close)
    own = _opened_again(fd, os.O_WRONLY)
    if own is None:
        return _ThreadOutput(fd)
    os.close(fd)
    return _PolledOutput(own, lambda data: os.write(own, data), lambda: os.close(own))


def _opened_again(fd: int, access: int) -> int | None:
    """A non-blocking description of our own for the same pipe or terminal; None where there is none."""
    if not (stat.S_ISFIFO(os.fstat(fd).st_mode) or os.isatty(fd)):
        return None
    try:
        return os.open(f"/proc/self/fd/{fd}", access | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        return None


class _PolledInput:
    """Reads when the event loop says that there is something to read."""

    def __init__(self, fd: int, read: Callable[[], bytes], close: Callable[[], None]) -> None:
        self._fd = fd
        self._read = read
        self._close = close
        self._closed = False

    async def receive(self) -> bytes:
        while not self._closed:
            # Waiting first costs an idle client nothing and gives a busy one no more than its share.
            await trio.lowlevel.wait_readable(self._fd)
            try:
                return self._read()
            except BlockingIOError:
                pass  # someone else who reads the same pipe was faster
            except OSError as error:
                if error.errno in _ENDED:
                    return b""
                raise
        await trio.lowlevel.checkpoint()
        return b""

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._close()


class _PolledOutput:
    """Writes at once what is taken, and waits for the event loop with the rest."""

    def __init__(self, fd: int, write: _Write, close: Callable[[], None]) -> None:
        self._fd = fd
        self._write = write
        self._close = close
        self._closed = False

    def send_nowait(self, data: bytes | memoryview) -> int:
        if self._closed:
            raise PeerGone
        try:
            return self._write(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            if error.errno in _GONE:
                raise PeerGone from error
            raise

    async def send(self, data: memoryview) -> int:
        while True:
            await trio.lowlevel.wait_writable(self._fd)
            if taken := self.send_nowait(data):
                return taken

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._close()


class _ThreadInput:
    """Reads in a thread. A read that was abandoned keeps its thread and its descriptor until it returns."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._reading = False
        self._closed = False

    async def receive(self) -> bytes:
        try:
            return await trio.to_thread.run_sync(self._read, abandon_on_cancel=True)
        except OSError as error:
            if error.errno in _ENDED or self._closed:
                return b""
            raise

    def _read(self) -> bytes:
        self._reading = True
        try:
            return os.read(self._fd, READ_BYTES)
        finally:
            self._reading = False

    def close(self) -> None:
        # A descriptor that is closed under a blocked read could be someone else's when it returns.
        if not self._closed and not self._reading:
            os.close(self._fd)
        self._closed = True


class _ThreadOutput:
    """Writes in a thread. Nothing is ever taken at once, since any write might block."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._writing = False
        self._closed = False

    def send_nowait(self, data: bytes) -> int:
        if self._closed:
            raise PeerGone
        return 0

    async def send(self, data: memoryview) -> int:
        piece = bytes(data[:_THREAD_WRITE_BYTES])
        try:
            return await trio.to_thread.run_sync(self._write, piece, abandon_on_cancel=True)
        except OSError as error:
            if error.errno in _GONE or self._closed:
                raise PeerGone from error
            raise

    def _write(self, piece: bytes) -> int:
        self._writing = True
        try:
            return os.write(self._fd, piece)
        finally:
            self._writing = False

    def close(self) -> None:
        if not self._closed and not self._writing:
            os.close(self._fd)
        self._closed = True
