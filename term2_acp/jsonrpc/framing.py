"""Lines: bytes in, whole lines out; one message in, one line out.

Rules:

- A message is one line of UTF-8 that ends in a newline (ACP v2, transports). Blank lines are nothing.
- A line is at most ``MAX_LINE_BYTES`` long. A longer one comes out as one ``Overlong`` when it ends; what
  is kept of it meanwhile is its outline, so an endless line costs no memory.
- Nothing here is quadratic: each byte is looked at once for its newline, and joined once. What waits for
  its newline lies in one growing buffer rather than in a list of parts: a line that trickles in a byte at
  a time would cost forty bytes a part.
- What goes out holds no newline, no NaN and no lone surrogate, whatever it was made of.
"""

from typing import Any

import msgspec

from term2_acp.jsonrpc.outline import Outline, OutlineScanner

# What one line may cost in memory. SDK 2.4.0 drops the connection at the same size, so no client sends more.
MAX_LINE_BYTES = 32 * 1024 * 1024

# A line over the limit is handed to the scanner in pieces of this size, to copy little at a time.
_PIECE_BYTES = 65_536

_NEWLINE = 0x0A  # a number: asking for it as bytes costs half a microsecond

_encode = msgspec.json.Encoder().encode


class Overlong(msgspec.Struct, frozen=True):
    """A line that was longer than the limit and was skipped. ``outline`` is what it said of itself."""

    outline: Outline


Line = bytes | Overlong


class LineSplitter:
    """Cuts a stream of bytes into lines. Feed it with whatever was read; it never raises."""

    def __init__(self, limit: int = MAX_LINE_BYTES) -> None:
        self._limit = limit
        self._pending = bytearray()
        self._skipping: OutlineScanner | None = None

    @property
    def pending_bytes(self) -> int:
        """How much of a line that has not ended is kept."""
        return len(self._pending)

    def feed(self, data: bytes) -> list[Line]:
        """The lines that ``data`` completes, in order, without their newlines."""
        first, newline, rest = data.partition(b"\n")
        if not newline:
            self._hold(data)
            return []
        lines: list[Line] = []
        if self._pending or self._skipping is not None:
            self._hold(first)
            self._end_line(lines)
        else:
            rest = data
        pieces = rest.split(b"\n")
        last = pieces.pop()
        for piece in pieces:
            if len(piece) > self._limit:
                self._hold(piece)
                self._end_line(lines)
            elif piece and not piece.isspace():
                lines.append(piece)
        if last:
            self._hold(last)
        return lines

    def finish(self) -> list[Line]:
        """The stream ended: the line that was left without its newline, if there is one."""
        lines: list[Line] = []
        self._end_line(lines)
        return lines

    def _hold(self, data: bytes) -> None:
        """Keep a part of a line, or of what is known about it once it is too long."""
        if self._skipping is None:
            if len(self._pending) + len(data) <= self._limit:
                self._pending += data
                return
            self._skipping = OutlineScanner()
            _feed_in_pieces(self._skipping, self._pending)
            self._pending = bytearray()
        _feed_in_pieces(self._skipping, data)

    def _end_line(self, lines: list[Line]) -> None:
        if self._skipping is not None:
            lines.append(Overlong(self._skipping.close()))
            self._skipping = None
        elif self._pending and not self._pending.isspace():
            lines.append(bytes(self._pending))
        if self._pending:
            self._pending = bytearray()


def _feed_in_pieces(scanner: OutlineScanner, data: bytes | bytearray) -> None:
    for start in range(0, len(data), _PIECE_BYTES):
        scanner.feed(bytes(data[start : start + _PIECE_BYTES]))


def encode(message: Any) -> bytes:
    """One message as one line, without its newline.

    ``message`` is a msgspec Struct or a JSON value; bytes already encoded may stand in it as
    ``msgspec.Raw``. A float that is no number becomes ``null``, a lone surrogate U+FFFD, and a newline
    between the tokens of a ``Raw`` a space.

    Raises:
        TypeError, ValueError: ``message`` holds what JSON has no words for.
    """
    try:
        frame = _encode(message)
    except UnicodeEncodeError:
        frame = _encode(_mended(msgspec.to_builtins(message, enc_hook=_keep_raw)))
    return frame.replace(b"\n", b" ") if _NEWLINE in frame else frame


def _mended(value: Any) -> Any:
    """The value with every lone surrogate replaced; pairs that stand side by side become one character."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_mended(key): _mended(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return [_mended(member) for member in value]
    return value


def _keep_raw(value: Any) -> Any:
    """Bytes already encoded hold no surrogate; ``to_builtins`` wants to be told to leave them."""
    if isinstance(value, msgspec.Raw):
        return msgspec.json.decode(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")
