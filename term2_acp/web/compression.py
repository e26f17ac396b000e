"""How the body of an answer is compressed, and how a stream of it is undone. Pure, and bounded.

Bodies are decompressed here and not by the HTTP library, so that no piece that is handed on is larger than
the one who asked for it can bear: what comes over the wire may become a thousand times as much.
"""

import zlib
from collections.abc import Iterator
from enum import Enum, auto

# Bytes of one piece of a body that is handed on, decompressed: as many as are read from a socket at once.
PIECE_BYTES = 64 * 1024


class NotReadable(Exception):
    """The body cannot be decompressed. ``str()`` says why."""


class Compression(Enum):
    """How a body is compressed. Any other way than these is not asked for, and not undone."""

    NONE = auto()
    GZIP = auto()


def compression_of(header: str | None) -> Compression | None:
    """Read a ``Content-Encoding`` header, or the want of one; None for a way that is not known here."""
    return _CODINGS.get((header or "").strip().lower())


_CODINGS = {
    "": Compression.NONE,
    "identity": Compression.NONE,
    "gzip": Compression.GZIP,
    "x-gzip": Compression.GZIP,
}


def new_gunzip() -> "zlib._Decompress":
    """What decompresses one body."""
    return zlib.decompressobj(zlib.MAX_WBITS | 16)  # with the header of gzip, not that of zlib


class Passing:
    """A body that is handed on as it comes in, decompressed: a bomb is as many pieces as it takes."""

    def __init__(self, compression: Compression) -> None:
        self._compression = compression
        self._gzip = new_gunzip()
        self._begun = False

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The pieces that ``data`` becomes; a compressed one becomes pieces of at most ``PIECE_BYTES``.

        Raises:
            NotReadable: it is not gzip, though the server says so.
        """
        if self._compression is Compression.NONE:
            yield data
            return
        self._begun = True
        piece = b""
        # A piece that is full may leave more of it inside, although all of `data` was taken. What follows
        # the end is padding, and ignored.
        while (data or len(piece) == PIECE_BYTES) and not self._gzip.eof:
            try:
                piece = self._gzip.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                raise NotReadable(str(error)) from None
            data = self._gzip.unconsumed_tail
            if piece:
                yield piece

    def finish(self) -> None:
        """The body has ended.

        Raises:
            NotReadable: the compressed data broke off.
        """
        if self._begun and not self._gzip.eof:
            raise NotReadable("the compressed data is incomplete")
