"""Who a client is, by what it said of itself at ``initialize``.

Nothing depends on it, so it may be missing, null, or of the shape of another version: v2 calls its members
``info`` and ``capabilities``, v1 ``clientInfo`` and ``clientCapabilities``, and clients send either to both.
It is for the record of what tool calls were made under. An editor waits for ``initialize``, so it is only put
aside there, and read with the first tool call.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:  # sessions are imported with the first of them
    from term2_acp.session.ports import ClientIdentity

# Bytes of the params of ``initialize`` that are put aside for the life of a connection. Clients send some two
# KiB at most; a line may have 32 MiB.
MAX_INTRODUCTION_BYTES = 64 * 1024

# Characters of a client's name and version together. Names of editors have a tenth of that.
MAX_NAME = 200

# Bytes of what a client says it can, as it is kept once a turn. Today's clients say a few hundred.
MAX_CAPABILITIES_BYTES = 4 * 1024


class Introduction:
    """The params of one ``initialize``, put aside. Those that are too long are as good as none."""

    def __init__(self, params: msgspec.Raw) -> None:
        # A copy: what came in is a part of its line, which would be kept as well.
        self._params = bytes(params) if 0 < len(params) <= MAX_INTRODUCTION_BYTES else b"{}"

    def identity(self, protocol: int) -> "ClientIdentity":
        """Who the client is; ``protocol`` is the version that was agreed on. Never raises."""
        from term2_acp.session.ports import ClientIdentity  # with the first tool call; see the module

        try:
            said = msgspec.json.decode(self._params, type=dict[str, msgspec.Raw])
        except msgspec.DecodeError:
            said = {}
        return ClientIdentity(
            _name_in(said, "info") or _name_in(said, "clientInfo"),
            _in_short(said, "capabilities") or _in_short(said, "clientCapabilities"),
            protocol,
        )


NOTHING_SAID = Introduction(msgspec.Raw(b""))
"""The introduction of a client that has none."""


def _name_in(said: Mapping[str, msgspec.Raw], member: str) -> str:
    """Name and version, without what a person cannot see in them."""
    try:
        info = msgspec.json.decode(said.get(member, b"{}"), type=dict)
    except msgspec.DecodeError:
        return ""  # it is no object
    given = [info.get("name"), info.get("version")]
    words = " ".join(word[:MAX_NAME] for word in given if isinstance(word, str))
    return " ".join("".join(filter(str.isprintable, words)).split())[:MAX_NAME]


def _in_short(said: Mapping[str, msgspec.Raw], member: str) -> str:
    """JSON text without white space between its parts, and a mark where it is cut."""
    whole = msgspec.json.format(bytes(said.get(member, b"null")), indent=-1)
    if whole == b"null":
        return ""
    if len(whole) <= MAX_CAPABILITIES_BYTES:
        return whole.decode(errors="replace")
    mark = f"... ({len(whole):,} bytes in all)"
    return whole[: MAX_CAPABILITIES_BYTES - len(mark)].decode(errors="ignore") + mark
