"""What is kept of a long output: its head and its tail. Pure.

Rules:

- Memory is bounded by what is kept, whatever is fed, and feeding costs no more than copying the piece.
- Bytes are counted as they came and decoded once, as a whole, at the end: pieces split characters anywhere,
  and a character that was written whole is shown whole. A cut takes a few bytes more out rather than half a
  character; U+FFFD stands for what never was a character, once for each such place, as Python decodes.
- Nothing is read into the bytes. For the model, NUL is shown as its symbol: no text has it, and some servers
  end a text there. A long run of what is no text is shown as one and its number: each costs a model more than
  a word, and an image or a disk is full of them.
"""

import re

from attrs import field

from term2_acp.domain.classes import define, frozen

# A character of UTF-8 has at most so many bytes.
_LONGEST = 4


@frozen
class Kept:
    """The ``head`` and the ``tail`` of an output, and how many bytes between them are ``left_out``.

    With nothing left out, ``head`` is all of it.
    """

    head: bytes
    tail: bytes = b""
    left_out: int = 0

    def joined(self, note: str) -> bytes:
        """All of it as bytes, with the note in the place of what is left out."""
        return self.head + _between(note).encode() + self.tail if self.left_out else self.head

    def text(self, note: str) -> str:
        """All of it as text, with the note in the place of what is left out."""
        if not self.left_out:
            return _decoded(self.head)
        return _decoded(self.head) + _between(note) + _decoded(self.tail)


@define(eq=False)
class HeadAndTail:
    """Takes an output piece by piece; keeps its first ``head_bytes`` and its last ``tail_bytes``."""

    head_bytes: int
    tail_bytes: int
    total: int = field(default=0, init=False)
    _head: bytearray = field(factory=bytearray, init=False)
    _tail: bytearray = field(factory=bytearray, init=False)

    @property
    def cut(self) -> bool:
        """Whether something had to be left out."""
        return self.total > self.head_bytes + self.tail_bytes

    def feed(self, data: bytes) -> None:
        """Take the next piece."""
        self.total += len(data)
        room = self.head_bytes - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if len(data) >= self.tail_bytes:
            self._tail[:] = data[len(data) - self.tail_bytes :]
            return
        self._tail += data
        if len(self._tail) > 2 * self.tail_bytes:  # now and then, not at each piece: that would be quadratic
            del self._tail[: -self.tail_bytes]

    def kept(self) -> Kept:
        """What is kept, cut between characters."""
        if not self.cut:
            return Kept(bytes(self._head + self._tail))
        head = _without_broken_end(bytes(self._head))
        tail = _without_broken_start(bytes(self._tail[-self.tail_bytes :]))
        return Kept(head, tail, self.total - len(head) - len(tail))


def _between(note: str) -> str:
    return f"\n[{note}]\n"


_NO_TEXT = re.compile(r"([\u2400\ufffd])\1{15,}")


def _decoded(data: bytes) -> str:
    text = data.decode(errors="replace").replace("\0", "\N{SYMBOL FOR NULL}")
    return _NO_TEXT.sub(lambda run: f"{run[1]}[{len(run[0]):,} times]", text)


def _without_broken_end(data: bytes) -> bytes:
    """Without the beginning of a character at the end, of which the rest was cut off."""
    for back in range(1, min(_LONGEST, len(data) + 1)):
        byte = data[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:  # the first byte of a character says how many it has
            wanted = 2 if byte < 0xE0 else 3 if byte < 0xF0 else _LONGEST
            return data[:-back] if wanted > back else data
    return data


def _without_broken_start(data: bytes) -> bytes:
    """Without the last bytes of a character at the start, of which the beginning was cut off."""
    start = 0
    while start < min(_LONGEST - 1, len(data)) and data[start] & 0xC0 == 0x80:
        start += 1
    return data[start:]
