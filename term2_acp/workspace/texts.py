"""When a text in an editor is that of a file.

Editors show and save text a little otherwise than it stands there: other line ends, one at the end or none,
a mark that is shown for a character.
"""

import hashlib

from term2_acp.workspace.content import FileText, text_of

_MARK = "\ufeff"


def is_clean(found: FileText, shown: str) -> bool:
    """Whether a buffer that shows a text has nothing that the file has not."""
    return _plain(found.text) == _plain(without_mark(found, shown))


def gist_of(text: str) -> bytes:
    """A digest that a text has in common with what an editor saves of it (``seen``)."""
    lines = (line.rstrip(" \t") for line in _plain(text).split("\n"))
    return hashlib.sha256("\n".join(lines).rstrip("\n").encode()).digest()


def utf8_text_of(data: bytes) -> FileText | None:
    """The text of a file, if it is UTF-8."""
    found = text_of(data)
    return found if found is not None and found.encoding == "utf-8" else None


def _plain(text: str) -> str:
    """A text with line feeds for its line ends, and without the last one."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n")


def without_mark(found: FileText, shown: str) -> str:
    """The text that an editor shows, without the mark that some take for a character."""
    return shown.removeprefix(_MARK) if found.mark else shown
