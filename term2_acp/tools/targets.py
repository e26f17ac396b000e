"""Paths as a model writes them, and the file port's refusals as tool errors."""

from contextlib import AbstractContextManager
from typing import Annotated

import msgspec

from term2_acp.domain.paths import Target
from term2_acp.domain.toolcall import Location
from term2_acp.tools.base import Description, ToolContext, ToolError
from term2_acp.workspace import FileRefused

FilePath = Annotated[
    str, msgspec.Meta(description="The file, absolute or relative to the working directory.")
]
"""A file as an argument."""

# Characters of the model's own words that a title shows.
MAX_TITLE_PART = 120


class _Refusals:
    """A context without a state; one made of a generator would take three times as long."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, FileRefused):
            raise ToolError(error.reason) from None


_REFUSALS = _Refusals()


def refusals() -> AbstractContextManager[None]:
    """What the file port refuses inside is a tool error outside."""
    return _REFUSALS


def resolve(context: ToolContext, typed: str) -> Target:
    """Where a path leads.

    Raises:
        ToolError: nowhere that may be opened.
    """
    with refusals():
        return context.files.resolve(typed)


def describe(context: ToolContext, title: str, typed: str, line: int | None = None) -> Description:
    """A title, and the place where the path leads unless it is a bad one."""
    try:
        return Description(title, (Location(context.files.path_of(typed), line),))
    except FileRefused:
        return Description(title)


def brief(words: str) -> str:
    """The model's words as a part of a title: one line, not too long, and nothing in it unseen.

    Control, bidi and zero-width characters could make a title read as something else.
    """
    line = " ".join(words[: 4 * MAX_TITLE_PART].split())
    if not line.isprintable():
        line = "".join(
            char if char.isprintable() else char.encode("unicode_escape").decode() for char in line
        )
    return line if len(line) <= MAX_TITLE_PART else line[: MAX_TITLE_PART - 3] + "..."


def counted(count: int, singular: str, plural: str | None = None) -> str:
    """``1 line``, ``2,000 lines``."""
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"
