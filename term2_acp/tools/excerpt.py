"""A range of lines out of a text, within bounds that are said in words."""

from term2_acp.domain.classes import frozen
from term2_acp.workspace import LineEnd, line_end_of

# Lines of one result: as much as a model can use at a time.
MAX_LINES = 2000

# Bytes of text (in UTF-8) of one result, about 16,000 tokens.
MAX_BYTES = 64 * 1024


@frozen
class Excerpt:
    """Lines ``first`` to ``last`` (1-based, inclusive) of ``total``, joined by ``\\n``.

    ``cut`` is the size of the last line, in bytes, when only its beginning is there. ``last`` is
    ``first - 1`` when nothing is there.
    """

    text: str
    first: int
    last: int
    total: int
    cut: int | None = None


def excerpt(text: str, first: int, last: int | None) -> Excerpt:
    """Lines ``first`` to ``last`` of ``text``, or to its end, as far as the bounds allow."""
    end = "\r" if line_end_of(text) is LineEnd.CR else "\n"
    total = text.count(end) + (0 if text.endswith(end) or not text else 1)
    stop = min(total if last is None else last, total, first + MAX_LINES - 1)
    at = 0
    for _ in range(min(first, total + 1) - 1):
        at = text.find(end, at) + 1
    lines: list[str] = []
    left = MAX_BYTES
    for number in range(first, stop + 1):
        upto = text.find(end, at)
        line = text[at : upto if upto >= 0 else len(text)]
        if end == "\n":
            line = line.removesuffix("\r")
        # A character takes a byte at least: more than this many need not be encoded to be too many.
        raw = line[: left + 1].encode()
        if len(raw) + 1 > left:
            if lines:
                return Excerpt("\n".join(lines), first, number - 1, total)
            return Excerpt(raw[:left].decode(errors="ignore"), first, number, total, len(line.encode()))
        lines.append(line)
        left -= len(raw) + 1
        at = upto + 1
    return Excerpt("\n".join(lines), first, max(stop, first - 1), total)
