"""What a person is shown of something long, piece by piece: on a terminal drawn, elsewhere as plain lines.

A piece is a text with an indent and a look. Elsewhere than on a terminal its lines are written as they are,
however long. On a terminal they are folded, and the Markdown of a model is drawn.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING

from term2_acp.cli.screen import Harmless, Screen, drawing
from term2_acp.cli.terminal import visible_lines
from term2_acp.domain.classes import frozen

if TYPE_CHECKING:
    from rich.console import RenderableType

# Characters of a text that is drawn as Markdown. What is longer is no prose, and drawing it takes seconds.
_MAX_MARKDOWN = 32 * 1024

# A line that opens so many lists and quotes at once that a parser of Markdown would leave its end out.
_NESTED = re.compile(r"^(?:[ \t]*(?:[>*+-]|\d+[.)])){10}", re.MULTILINE)


class Look(StrEnum):
    """How a piece looks, where there are colours."""

    PLAIN = ""
    HEADING = "bold"
    PERSON = "bold cyan"
    CALL = "bold blue"
    DIM = "dim"
    GOOD = "green"
    WARNING = "yellow"
    BAD = "red"
    MARKDOWN = "markdown"
    DIFF = "diff"


@frozen
class Piece:
    """A text of one or more lines. ``indent`` is in columns; ``gap``: an empty line comes before it."""

    text: str
    look: Look = Look.PLAIN
    indent: int = 0
    gap: bool = False


def shown(pieces: Iterable[Piece], screen: Screen) -> str:
    """The pieces as they are written to such a screen."""
    if screen.width is None:
        return "".join(map(_plain, pieces))
    from rich.padding import Padding

    with drawing(screen) as drawn:
        for piece in pieces:
            if piece.gap:
                drawn.console.print()
            drawn.console.print(Harmless(Padding(_renderable(piece), (0, 0, 0, piece.indent))))
    return drawn.text


def _plain(piece: Piece) -> str:
    indent = " " * piece.indent
    lines = (f"{indent}{line}".rstrip() + "\n" for line in visible_lines(piece.text))
    return "\n" * piece.gap + "".join(lines)


def _renderable(piece: Piece) -> "RenderableType":
    from rich.text import Text

    if piece.look is Look.MARKDOWN:
        return _markdown(piece.text)
    if piece.look is Look.DIFF:
        lines = [Text(line, style=_style_of_change(line)) for line in visible_lines(piece.text)]
        return Text("\n", overflow="fold").join(lines)
    return Text("\n".join(visible_lines(piece.text)), style=piece.look.value, overflow="fold")


def _style_of_change(line: str) -> str:
    if line.startswith(("+++", "---", "diff ", "rename ", "new file", "deleted file")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def _markdown(text: str) -> "RenderableType":
    """The text drawn. No link leads anywhere and nothing is fetched; HTML is text like any other."""
    from rich.text import Text

    source = "\n".join(visible_lines(text))
    if len(source) > _MAX_MARKDOWN or _NESTED.search(source):
        return Text(source, overflow="fold")
    from markdown_it import MarkdownIt
    from rich.markdown import Markdown

    drawn = Markdown(source, hyperlinks=False, code_theme="ansi_dark")
    # By itself it would leave out what looks like HTML: of `Vec<String>` the half.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    drawn.parsed = parser.parse(source)
    return drawn
