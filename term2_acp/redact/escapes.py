"""Finding a key whose letters are written as JSON may write them: ``\\u0073k-live`` is ``sk-live``. Pure.

The arguments of a tool call are JSON text that a model wrote, and they need not parse; so they are not
decoded, but looked at letter by letter. Each letter of a key has a few spellings, so a search takes time
linear in the text: about 40 ms for a MiB and a key, and next to none where nothing is escaped.
"""

import functools
import re

# Letters that JSON also writes with a single one behind the backslash.
_SHORT = {'"': r"\\\"", "\\": r"\\\\", "/": r"\\/"}


class EscapedKey:
    """A key, of which ``beginning`` or more is looked for."""

    def __init__(self, key: str, beginning: str) -> None:
        self._key = key
        self._beginning = beginning
        # Without one of these in a text the key can only be spelt as it is, and that is looked for elsewhere.
        self._marks = ("\\u", *(f"\\{letter}" for letter in _SHORT if letter in key))

    def replace_in(self, text: str, placeholder: str) -> str:
        """The text with the placeholder for each such part of the key; the same object if there is none."""
        if not any(mark in text for mark in self._marks):
            return text
        beginning, rest = self._expressions
        parts: list[str] = []
        done = 0
        found = beginning.search(text)
        while found is not None:
            parts += (text[done : found.start()], placeholder)
            done = found.end()
            for letter in rest:
                more = letter.match(text, done)
                if more is None:
                    break
                done = more.end()
            found = beginning.search(text, done)
        return "".join([*parts, text[done:]]) if parts else text

    @functools.cached_property
    def _expressions(self) -> tuple[re.Pattern[str], tuple[re.Pattern[str], ...]]:
        """For the beginning, and for each letter behind it. Compiled with the first text that needs them."""
        rest = self._key[len(self._beginning) :]
        return (
            re.compile("".join(map(_spellings, self._beginning))),
            tuple(re.compile(_spellings(letter)) for letter in rest),
        )


def _spellings(letter: str) -> str:
    """An expression for one letter of a key."""
    units = letter.encode("utf-16-be", errors="surrogatepass").hex()
    escaped = "".join(rf"\\u(?i:{units[at : at + 4]})" for at in range(0, len(units), 4))
    # The letter itself stands last: a bare backslash begins the other spellings of one.
    return f"(?:{'|'.join(filter(None, (escaped, _SHORT.get(letter), re.escape(letter))))})"
