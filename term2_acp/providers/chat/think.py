"""Thoughts that a server leaves in the text of a reply. Pure.

Servers of open models send what the model writes as it is when nobody told them how the model marks its
thoughts (llama.cpp without a reasoning format, vLLM without a reasoning parser, Ollama and LM Studio for
models that they do not know). The decision:

- ``<think>`` is a mark only as the very first thing of a reply, behind white space at most. Anywhere else
  it is text: people do write about it.
- Everything up to ``</think>`` is thought, and the white space behind it is dropped. If the mark never
  closes, all of it was thought, and the reply has no text.
- A ``</think>`` that nothing opened is text. Some templates write the opening mark into the prompt, so that
  only the closing one comes; but by then the text has been shown, and it cannot be taken back.

Only servers that are known to do this are read so (``Dialect.thinks_in_text``).
"""

from enum import Enum, auto

_OPEN = "<think>"
_CLOSE = "</think>"


class _At(Enum):
    START = auto()
    THOUGHT = auto()
    GAP = auto()  # behind the closing mark, before the first word
    TEXT = auto()


class ThinkGate:
    """Tells thoughts from text, piece by piece. A mark may be cut anywhere."""

    def __init__(self) -> None:
        self._at = _At.START
        self._blank: list[str] = []  # white space before the first word
        self._held = ""  # what may be the beginning of a mark

    @property
    def passed(self) -> bool:
        """Whether all that follows is text."""
        return self._at is _At.TEXT

    def take(self, piece: str) -> tuple[str, str]:
        """The thought and the text that are certain by now; each may be empty."""
        if self._at is _At.START and not self._held and piece.isspace():
            self._blank.append(piece)  # joined once: a model that is stuck sends a great many
            return "", ""
        text = "".join(self._blank) + self._held + piece
        self._blank.clear()
        self._held = ""
        if self._at is _At.START:
            begun = text.lstrip()
            if not begun.startswith(_OPEN):
                if _OPEN.startswith(begun):
                    self._held = text
                    return "", ""
                self._at = _At.TEXT
                return "", text
            self._at, text = _At.THOUGHT, begun[len(_OPEN) :]
        thought = ""
        if self._at is _At.THOUGHT:
            thought, mark, text = text.partition(_CLOSE)
            if not mark:
                self._held = _half_mark(thought)
                return thought[: len(thought) - len(self._held)], ""
            self._at = _At.GAP
        if self._at is _At.GAP:
            text = text.lstrip()
            if text:
                self._at = _At.TEXT
        return thought, text

    def rest(self) -> tuple[str, str]:
        """The reply ended: what was held back, as thought and text."""
        held, self._held = "".join(self._blank) + self._held, ""
        self._blank.clear()
        return (held, "") if self._at is _At.THOUGHT else ("", held)


def _half_mark(text: str) -> str:
    """The end of the text that may be the beginning of the closing mark."""
    start = text.rfind("<", -len(_CLOSE) + 1)
    return text[start:] if start >= 0 and _CLOSE.startswith(text[start:]) else ""
