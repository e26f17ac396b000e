"""The checks that msgspec does not make, on a line and the tree that was decoded from it.

Theory of operation:

- *Depth* is read off the decoded tree. The decoder itself stops at Python's recursion limit.
- *Repeated members* vanish in the tree (the last one wins) but not in the line. Outside strings, a line
  has exactly one colon for each member, after a quote or white space. Colons in such places, counted with
  what is inside strings, are an upper bound that is nearly always exact: when it is the number of members
  in the tree, none was repeated. When it is higher, the strings are taken out and the count is exact.
- *Values*: 32 MiB of ``[],`` would become 900 MiB of lists, so their number is bounded before decoding.

Nothing here raises, and the work is linear in the length of the line.
"""

from collections.abc import Iterator
from typing import Any

# ACP's deepest message has nine levels; tool input is the model's. Deep trees overflow stacks elsewhere.
MAX_DEPTH = 128

# Members, elements and containers of one line, above what any message of ACP has by a factor of a
# hundred. As lists, dicts and short strings they cost at most twice the longest line.
MAX_VALUES = 1_000_000

# The strings are taken out in pieces of this size, so that the pieces of a hostile line cost little.
_PIECE_BYTES = 262_144

# As numbers: asking whether bytes hold a byte given as bytes costs half a microsecond.
_TAB, _CR, _SPACE, _BACKSLASH = 0x09, 0x0D, 0x20, 0x5C


def deeper_than(limit: int, tree: Any) -> bool:
    """Whether a decoded value has more than ``limit`` containers inside one another."""
    if type(tree) is dict:
        members: Any = tree.values()
    elif type(tree) is list:
        members = tree
    else:
        return False
    if limit == 0:
        return True
    for member in members:
        kind = type(member)
        if (kind is dict or kind is list) and deeper_than(limit - 1, member):
            return True
    return False


def has_repeated_members(line: bytes, tree: Any) -> bool:
    """Whether some object of ``line``, which decodes to ``tree``, names a member twice."""
    members = _members(tree)
    colons = line.count(b'":')
    if _SPACE in line:
        colons += line.count(b" :")
    if _TAB in line or _CR in line:
        colons += line.count(b"\t:") + line.count(b"\r:")
    if colons == members:
        return False
    return sum(piece.count(b":") for piece in _structure(line)) != members


def holds_too_many_values(line: bytes, containers: int) -> bool:
    """Whether decoding the line would make more than ``MAX_VALUES`` values.

    Each takes a byte or more, so a line that is not longer than that need not be asked about.
    ``containers`` is how often the line opens one, those in strings counted too.
    """
    if containers + line.count(b",") <= MAX_VALUES:
        return False
    values = sum(piece.count(b",") + piece.count(b"{") + piece.count(b"[") for piece in _structure(line))
    return values > MAX_VALUES


def _members(tree: Any) -> int:
    """The members of all objects in a tree that is not deep."""
    if type(tree) is dict:
        count = len(tree)
        tree = tree.values()
    else:
        count = 0
    for member in tree:
        kind = type(member)
        if kind is dict or kind is list:
            count += _members(member)
    return count


def _structure(line: bytes) -> Iterator[bytes]:
    """The line without its strings, in pieces. The line is JSON; of anything else the pieces are senseless.

    Without its escaped characters a string holds no quote, so every other part between quotes is one.
    """
    inside = False
    start = 0
    while start < len(line):
        end = _after_no_backslash(line, start + _PIECE_BYTES)
        piece = line[start:end]
        start = end
        if _BACKSLASH in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        yield b"".join(parts[inside::2])
        inside ^= len(parts) % 2 == 0


def _after_no_backslash(line: bytes, end: int) -> int:
    """The first place from ``end`` on that does not cut an escaped character in two."""
    while end < len(line) and line[end - 1] == _BACKSLASH:
        end += 1
    return min(end, len(line))
