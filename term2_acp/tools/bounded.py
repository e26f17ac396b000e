"""What the results of ``glob`` and ``grep`` have in common: their bound, and what they say of it."""

from collections.abc import Sequence

# Bytes of text (in UTF-8) of one result.
MAX_BYTES = 48 * 1024

UNREADABLE = " Some files or folders could not be read."


def in_bounds(lines: Sequence[str]) -> tuple[list[str], int]:
    """The lines that fit into ``MAX_BYTES``, from the first on, and how many do not."""
    left = MAX_BYTES
    for index, line in enumerate(lines):
        left -= len(line.encode()) + 1
        if left < 0:
            return list(lines[:index]), len(lines) - index
    return list(lines), 0


def place(folder: str) -> str:
    """A folder as a sentence names it."""
    return "the working directory" if folder == "." else folder


def join_path(folder: str, path: str) -> str:
    """A path below a folder that is itself written for the model; ``.`` is not written."""
    if folder == ".":
        return path
    return folder + path if folder.endswith("/") else f"{folder}/{path}"
