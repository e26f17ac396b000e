"""The content of a file, whole and bounded, and the text that is in it.

Text is decoded so that encoding it again gives the same bytes: UTF-8, UTF-16 where a byte-order mark says
so, and else Latin-1, which holds any byte. A byte-order mark is no part of the text and is put back.
Whatever has NUL bytes without such a mark, or is mostly control characters, is no text.

Line ends are ``\\n`` or ``\\r\\n``, as compilers and ``grep`` count them. Only in a file without any
``\\n`` does a bare ``\\r`` end lines. Nothing else does: a form feed or U+2028 is a character in a line.
"""

import codecs
import hashlib
import os
from collections.abc import Callable
from enum import StrEnum

from attrs import field

from term2_acp.domain.classes import frozen
from term2_acp.workspace import opening
from term2_acp.workspace.refusals import FileRefused, TooLarge, from_os_error

# Files are read and edited whole, in memory; what people write by hand is far smaller. 16 MiB of text
# costs about 100 MiB while it is edited.
MAX_FILE_BYTES = 16 * 1024 * 1024

# Bytes of a file that is read on the spot where it is in memory: to hand it to a thread would take longer.
AT_HAND_BYTES = 32 * 1024

# Bytes a read call asks for.
_BLOCK = 256 * 1024

# Reads only what is in memory (preadv2(2)); Linux has it, for the file systems that keep files on a disk.
_NO_WAIT: int | None = getattr(os, "RWF_NOWAIT", None)

# Of the characters of a Latin-1 file, the share of control characters from which on it counts as binary.
_BINARY_SHARE = 0.1
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\v\b\x1b")) + b"\x7f"


class LineEnd(StrEnum):
    """What ends lines."""

    LF = "\n"
    CRLF = "\r\n"
    CR = "\r"


@frozen
class FileContent:
    """The bytes of a file as they were read in one go, and their SHA-256.

    Where the editor shows a text that is not saved, these are the bytes that the file would hold with it, and
    ``on_disk`` is the digest of what it does hold. ``gist`` is known of files that an editor may save
    (``buffers``).
    """

    data: bytes = field(repr=False)
    digest: bytes = field(repr=False)
    on_disk: bytes = field(repr=False)
    gist: bytes | None = field(default=None, eq=False, repr=False)

    @classmethod
    def of(cls, data: bytes) -> "FileContent":
        """Content with its digest worked out."""
        digest = hashlib.sha256(data).digest()
        return cls(data, digest, digest)

    @property
    def unsaved(self) -> bool:
        """Whether this is an editor's text that is not on the disk."""
        return self.on_disk != self.digest


@frozen
class FileText:
    """The text of a file: without byte-order mark, line ends as they are in the file."""

    text: str = field(repr=False)
    encoding: str
    mark: bytes = b""

    def encode(self, text: str) -> bytes:
        """``text`` as bytes of this file.

        Raises:
            FileRefused: the file's encoding cannot hold a character of it.
        """
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            char = text[error.start]
            raise FileRefused(
                f"The file is in {self.encoding}, which cannot hold U+{ord(char):04X}; nothing was changed."
            ) from None


_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def text_of(data: bytes) -> FileText | None:
    """The text in ``data``, or None when it is binary."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            try:
                text = data[len(mark) :].decode(encoding)
            except UnicodeDecodeError:
                continue
            return None if "\0" in text else FileText(text, encoding, mark)
    if b"\0" in data:
        return None
    try:
        return FileText(data.decode(), "utf-8")
    except UnicodeDecodeError:
        controls = len(data) - len(data.translate(None, _CONTROLS))
        return None if controls > len(data) * _BINARY_SHARE else FileText(data.decode("latin-1"), "latin-1")


def line_end_of(text: str) -> LineEnd:
    """What ends the lines of ``text``, going by the first; a text of one line counts as LF."""
    at = text.find("\n")
    if at < 0:
        return LineEnd.CR if "\r" in text else LineEnd.LF
    return LineEnd.CRLF if text[at - 1 : at] == "\r" else LineEnd.LF


def has_one_line_end(text: str) -> bool:
    """Whether all lines of ``text`` end alike."""
    crlf, lf = text.count("\r\n"), text.count("\n")
    return crlf in (0, lf) or lf == 0


def read_descriptor(
    descriptor: int,
    path: str,
    limit: int = MAX_FILE_BYTES,
    read: Callable[[int, int], bytes] = os.read,
) -> bytes:
    """Read an open regular file to its end, by calls of ``read``.

    Raises:
        TooLarge: there is more than ``limit`` bytes.
        OSError: it cannot be read.
    """
    size = os.fstat(descriptor).st_size
    parts: list[bytes] = []
    left = limit + 1
    while size <= limit and left > 0:
        block = read(descriptor, min(_BLOCK, left))
        if not block:
            return b"".join(parts)
        parts.append(block)
        left -= len(block)
    held = f"holds {size:,} bytes" if size > limit else "is growing"
    raise TooLarge(f"{path} {held}; at most {limit:,} bytes of a file are read. Use grep to look into it.")


def read_whole(path: str) -> FileContent:
    """Read the regular file at a canonical path, whole. Blocks: for a thread.

    Raises:
        FileRefused: it is not there, no regular file, too large, or cannot be read.
    """
    return read_identified(path)[0]


def read_identified(path: str) -> tuple[FileContent, opening.Identity]:
    """``read_whole``, and which file that was. Blocks: for a thread.

    Raises:
        FileRefused: as ``read_whole`` does.
    """
    head, name = os.path.split(path)
    with opening.folder(head) as within:
        descriptor = opening.open_regular(name, within, path)
    try:
        identity = opening.Identity.of(os.fstat(descriptor))
        return FileContent.of(read_descriptor(descriptor, path)), identity
    except OSError as error:
        raise from_os_error(error, path) from None
    finally:
        os.close(descriptor)


def read_at_hand(path: str) -> FileContent | None:
    """``read_whole`` of a small file, or None where that would have to wait: its bytes are not in memory.

    The file is opened for that, which nobody waits for on a disk of this machine whose names were just looked
    at. Whether it lies on one is the caller's to know (``resolve.Resolved.on_disk``).

    Raises:
        FileRefused: it is not there, or no regular file.
    """
    if _NO_WAIT is None:
        return None
    head, name = os.path.split(path)
    with opening.folder(head) as within:
        descriptor = opening.open_regular(name, within, path)
    try:
        return FileContent.of(read_descriptor(descriptor, path, AT_HAND_BYTES, _read_in_memory))
    except (OSError, TooLarge):
        return None  # who reads it in a thread finds out what is the matter
    finally:
        os.close(descriptor)


def _read_in_memory(descriptor: int, count: int) -> bytes:
    """``os.read``, with BlockingIOError in place of a wait."""
    assert _NO_WAIT is not None
    block = bytearray(count)
    size = os.preadv(descriptor, [block], -1, _NO_WAIT)  # -1: from where the last call ended
    return bytes(block[:size])
