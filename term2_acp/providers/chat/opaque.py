"""What a Chat Completions server wants back with a reply: gathered while it streams, read when it goes back.

Pure. It is kept as JSON text with the mark ``"wire": "chat"`` (``Finished.opaque``); nothing but this module
reads it. Text of another wire, of an older version or damaged is as good as none: the reply is then told
without it.

How it goes back differs (``Back``), and only what the dialect at hand sends back is used. What names calls
is matched to them by their order; a reply whose calls are not as many as they were gets none of it.
"""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, Literal

import msgspec
from attrs import field

from term2_acp.domain.classes import define
from term2_acp.providers.wire_words import encode

# Characters that are kept of one reply. Thoughts of a long turn take a tenth of it. A part of a signature
# is worth nothing, so what is larger is not kept at all.
MAX_KEPT = 4 * 1024 * 1024
_IN_PIECES = frozenset({"reasoning.text", "reasoning.summary"})


Field = Literal["reasoning_content", "reasoning"]
"""The names under which servers send reasoning as text."""


class Back(Enum):
    """How reasoning goes back to a server."""

    NOTHING = auto()
    """It does not; the field would be refused."""
    FIELD = auto()
    """As text, under the name it came under: ``reasoning_content`` or ``reasoning``."""
    DETAILS = auto()
    """As ``reasoning_details``, put together and otherwise verbatim (OpenRouter)."""
    PARTS = auto()
    """As a ``thinking`` part before the text of the reply (Mistral)."""
    SIGNATURES = auto()
    """As ``extra_content`` of the reply and of its calls, verbatim (Gemini)."""


class Kept(msgspec.Struct, omit_defaults=True):
    """What was kept of one reply."""

    wire: Literal["chat"]
    field: Field = "reasoning_content"
    text: str = ""
    details: list[dict[str, Any]] = []
    extra: dict[str, Any] | None = None
    calls: list[dict[str, Any] | None] = []


_decode = msgspec.json.Decoder(Kept).decode


def kept_in(data: str | None, calls: int) -> Kept | None:
    """What ``Finished.opaque`` holds for a reply of so many calls; None if nothing that can be read."""
    if data is None:
        return None
    try:
        kept = _decode(data)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    if len(kept.calls) != calls:
        kept.calls = []
    return kept


class Keeper:
    """Gathers what goes back with one reply, as far as ``back`` wants it."""

    def __init__(self, back: Back) -> None:
        self.wants_thoughts = back in {Back.FIELD, Back.PARTS}
        """Whether thoughts go back as text: whoever reads the reply has them, and gives them to ``data``."""
        self._back = back
        self._details: list[_Detail] = []
        self._beside: dict[str, Any] | None = None
        self._size = 0

    def details(self, pieces: Any) -> None:
        """Take ``reasoning_details`` of one event, if that is what they are."""
        if self._back is not Back.DETAILS or not isinstance(pieces, list):
            return
        for piece in pieces:
            if isinstance(piece, dict):
                self._size += sum(len(value) for value in piece.values() if isinstance(value, str))
                if self._size <= MAX_KEPT:
                    self._detail(piece)

    def beside(self, value: Any) -> None:
        """Take ``extra_content`` that stands beside the text; the last signature counts."""
        if self._back is Back.SIGNATURES and isinstance(value, dict):
            self._beside = value

    def data(self, thoughts: Sequence[str], name: Field, extras: Sequence[Any]) -> str | None:
        """What is kept, as JSON text, or None.

        ``thoughts`` came in the field of that ``name``. ``extras`` are what stood beside the calls, in order.
        """
        details = [detail.whole() for detail in self._details]
        kept = Kept("chat", name, "".join(thoughts), details, self._beside)
        if self._back is Back.SIGNATURES and any(isinstance(extra, dict) for extra in extras):
            kept.calls = [extra if isinstance(extra, dict) else None for extra in extras]
        if self._size > MAX_KEPT or not (kept.text or kept.details or kept.extra or kept.calls):
            return None
        try:
            data = encode(kept).decode()
        except RecursionError:
            return None
        return data if len(data) <= MAX_KEPT else None

    def _detail(self, piece: dict[str, Any]) -> None:
        """Join a piece with the one it continues, as the vendor's own client does.

        Text and summaries come in pieces of one type and index; what is encrypted comes whole.
        """
        if not self._details or not self._details[-1].goes_on_with(piece):
            self._details.append(_Detail())
        self._details[-1].add(piece)


@define
class _Detail:
    """One of the ``reasoning_details``, while its pieces come in."""

    fields: dict[str, Any] = field(factory=dict)
    words: dict[str, list[str]] = field(factory=dict)

    def goes_on_with(self, piece: Mapping[str, Any]) -> bool:
        """Whether the piece belongs to this one."""
        same = all(piece.get(name) == self.fields.get(name) for name in ("type", "index"))
        return same and piece.get("type") in _IN_PIECES and not self.fields.get("signature")

    def add(self, piece: Mapping[str, Any]) -> None:
        """Take a piece: words are put behind words, and anything else counts as it was told last."""
        for name, value in piece.items():
            if name in {"text", "summary"} and isinstance(value, str):
                self.words.setdefault(name, []).append(value)
                self.fields.setdefault(name, "")
            elif value is not None or name not in self.fields:
                self.fields[name] = value

    def whole(self) -> dict[str, Any]:
        """It, as it goes back."""
        return {**self.fields, **{name: "".join(words) for name, words in self.words.items()}}
