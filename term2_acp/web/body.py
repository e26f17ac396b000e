"""What the body of an answer is: its type, its compression, its letters. Pure, and bounded.

A body is decompressed here and not by the HTTP library, so that the bound holds *while* it is decompressed:
a bomb costs what was asked for and one byte more, however many layers or bytes it would have become.
"""

import codecs
import re
import zlib

from attrs import define, field, frozen

from term2_acp.web.compression import NotReadable, new_gunzip

# Bytes of a body that are looked at for what is no text, and for a page's own word on its letters; as far
# as browsers look.
_LOOKED_AT = 1024
# Bytes that are decoded at once, some 8 ms at worst: no other thread runs meanwhile.
DECODED_AT_ONCE = 16 * 1024
# Characters of a ``Content-Type`` that are read: a server may make it as long as the whole head.
_MAX_HEADER = 200

_TYPE = re.compile(r"\s*([\w!#$&^.+-]+/[\w!#$&^.+-]+)", re.ASCII)
_CHARSET = re.compile(r";\s*charset\s*=\s*\"?\s*([\w.:+-]+)", re.ASCII | re.IGNORECASE)
_SAID_INSIDE = re.compile(
    rb"<(?:meta|\?xml)[^>]*?(?:charset|encoding)\s*=\s*[\"']?([\w.:+-]+)", re.IGNORECASE
)
_HTML_BEGINS = re.compile(
    rb"\s*(?:<!--(?:(?!-->).)*-->\s*)*<(!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL
)

_HTML_TYPES = frozenset({"text/html", "application/xhtml+xml"})
# What is text although its type does not begin with "text/" nor end in "+json" or "+xml".
_TEXT_TYPES = frozenset(
    f"application/{name}"
    for name in (
        "ecmascript", "graphql", "javascript", "json", "json5", "jsonl", "ndjson", "sql", "toml",
        "x-javascript", "x-json", "x-ndjson", "x-sh", "x-toml", "x-yaml", "xml", "xml-dtd", "yaml",
    )
)  # fmt: skip

# The labels that browsers take for a wider encoding than the one they name, and two that Python lacks.
_WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "big5": "big5hkscs",
    "utf-16": "utf-16-le",
    "windows-31j": "cp932",
    "x-sjis": "cp932",
}
# Encodings of the web. Python has others under the same door: utf-7, escapes, compressions, punycode.
_OF_THE_WEB = frozenset(
    {
        "utf-8", "utf-16-le", "utf-16-be", "cp866", "cp874", "cp932", "cp949", "gb18030", "big5hkscs",
        "euc_jp", "iso2022_jp", "koi8-r", "koi8-u", "mac-roman",
        *(f"cp{number}" for number in range(1250, 1259)),
        *(f"iso8859-{number}" for number in (*range(2, 9), 10, 13, 14, 15, 16)),
    }
)  # fmt: skip
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))


@frozen
class ContentType:
    """What a server says a body is. ``media_type`` is in lower case, and empty when it says nothing."""

    media_type: str
    charset: str | None = None

    @property
    def is_text(self) -> bool:
        """Whether it can be read as text. What comes without a type is looked at instead."""
        kind = self.media_type
        return not kind or kind.startswith("text/") or kind.endswith(("+json", "+xml")) or kind in _TEXT_TYPES

    @property
    def text(self) -> str:
        """The type for a reader."""
        return f"{self.media_type or 'none given'}{f'; charset={self.charset}' if self.charset else ''}"


def content_type_of(header: str | None) -> ContentType:
    """Read a ``Content-Type`` header, or the want of one."""
    said = (header or "")[:_MAX_HEADER]
    kind, charset = _TYPE.match(said), _CHARSET.search(said)
    return ContentType(kind[1].lower() if kind else "", charset[1].lower() if charset else None)


def is_html(kind: ContentType, body: bytes) -> bool:
    """Whether the body is a page: by its type, or by its looks where it has none."""
    return kind.media_type in _HTML_TYPES or (
        not kind.media_type and _HTML_BEGINS.match(body[:_LOOKED_AT]) is not None
    )


def to_text(kind: ContentType, body: bytes) -> str | None:
    """The body as text; None when it holds what no text does, whatever its type says. For a thread.

    Python makes and handles an error for each byte that does not fit: five megabytes of them take seconds.

    The encoding is that of its byte order mark, else what the header says, else what it says itself (the
    ``meta`` of a page, the declaration of XML), else UTF-8. What does not fit becomes U+FFFD.
    """
    encoding = _encoding_of(kind, body)
    if b"\0" in body[:_LOOKED_AT] and not encoding.startswith("utf-16"):
        return None
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    pieces = [decoder.decode(body[at : at + DECODED_AT_ONCE]) for at in range(0, len(body), DECODED_AT_ONCE)]
    return "".join([*pieces, decoder.decode(b"", final=True)]).removeprefix("\ufeff")


def _encoding_of(kind: ContentType, body: bytes) -> str:
    marked = next((encoding for mark, encoding in _MARKS if body.startswith(mark)), None)
    if marked is not None:
        return marked
    declared = _known(kind.charset)
    if declared is not None:
        return declared
    # Only a page and XML have a place to say it; elsewhere the same words would be a quotation.
    if kind.media_type.endswith(("html", "xml")) or not kind.media_type:
        inside = _SAID_INSIDE.search(body[:_LOOKED_AT])
        said = _known(inside[1].decode("ascii")) if inside else None
        if said is not None and not said.startswith("utf-16"):  # it could not have been read if it were
            return said
    return "utf-8"


def _known(label: str | None) -> str | None:
    if not label:
        return None
    try:
        name = codecs.lookup(_WIDER.get(label, label)).name
    except (LookupError, ValueError):
        return None
    name = _WIDER.get(name, name)
    return name if name in _OF_THE_WEB else None


@define(eq=False)
class Inflow:
    """A body as it comes in: decompressed, and kept up to ``bound`` bytes.

    ``ended``: nothing more is wanted. ``cut``: there was more than ``bound``.
    """

    bound: int
    compressed: bool
    ended: bool = field(default=False, init=False)
    cut: bool = field(default=False, init=False)
    _parts: list[bytes] = field(factory=list, init=False)
    _size: int = field(default=0, init=False)
    _gzip: "zlib._Decompress" = field(factory=new_gunzip, init=False)

    def feed_nowait(self, data: bytes) -> None:
        """Take what came over the wire; once it has ended, do nothing.

        Raises:
            NotReadable: it is not gzip, though the server says so.
        """
        if self.ended:
            return
        room = self.bound - self._size
        if self.compressed:
            try:
                # Never 0, which would mean "without a bound".
                data = self._gzip.decompress(data, room + 1)
            except zlib.error as error:
                raise NotReadable(str(error)) from None
        self.cut = len(data) > room
        # What follows the end of the compressed data is padding, and ignored as browsers ignore it.
        self.ended = self.cut or self._gzip.eof
        self._parts.append(data[:room])
        self._size += len(self._parts[-1])

    def body(self) -> bytes:
        """What has come in.

        Raises:
            NotReadable: the compressed data broke off.
        """
        if self.compressed and self._parts and not self.ended:
            raise NotReadable("the compressed data is incomplete")
        return b"".join(self._parts)
