"""What is written to, and drawing on it with rich.

Rules:

- On a terminal lines are folded at its width, never cut. Elsewhere there is no width, and a line stays whole.
- Colours are for terminals, and not with ``NO_COLOR``.
- Nothing that is drawn acts on the terminal. Texts are written out before they are drawn
  (``terminal.visible``); and since a renderer may make letters of its own (of the Markdown
  ``<http://a/%1b>`` an escape), what it has drawn is looked at once more.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING

from term2_acp.cli.terminal import visible
from term2_acp.domain.classes import define, frozen

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult

# Columns where there is no terminal: more than any line has, since a log and grep want whole lines.
_UNBOUNDED = 100_000

# Columns below which nothing can be read. A terminal that says it is narrower is not believed.
_NARROWEST = 30

# Columns of a terminal that does not say.
_USUAL = 80


@frozen
class Screen:
    """What is written to: columns of a terminal, None where there is none, and whether there are colours."""

    width: int | None = None
    colours: bool = False


def screen_of(output: int, environ: Mapping[str, str]) -> Screen:
    """What this descriptor leads to. Terminals get colours, unless ``NO_COLOR`` is set (no-color.org)."""
    try:
        width = os.get_terminal_size(output).columns
    except OSError:
        return Screen()
    plain = environ.get("NO_COLOR") or environ.get("TERM", "dumb") == "dumb"
    # A terminal of which nobody knows the size says 0.
    return Screen(width or _USUAL, colours=not plain)


@define(eq=False)
class Drawn:
    """What is drawn on ``console``; ``text`` is all of it, once the drawing is over."""

    console: "Console"
    text: str = ""


@contextmanager
def drawing(screen: Screen) -> Iterator[Drawn]:
    """A console to print on, for as long as the context lasts."""
    from rich.console import Console  # only here: it is large

    file = StringIO()
    drawn = Drawn(
        Console(
            file=file,
            width=_UNBOUNDED if screen.width is None else max(screen.width, _NARROWEST),
            color_system="standard" if screen.colours else None,
            no_color=not screen.colours,
            force_terminal=screen.colours,
            legacy_windows=False,
            highlight=False,
            markup=False,
            emoji=False,
        )
    )
    yield drawn
    # By line feeds alone: whatever else divides lines was written out.
    lines = file.getvalue().split("\n")[:-1]
    drawn.text = "".join(line.rstrip() + "\n" for line in lines)


@frozen
class Harmless:
    """Draws what it holds, without whatever in it would act on a terminal; see the module."""

    inner: "RenderableType"

    def __rich_console__(self, console: "Console", options: "ConsoleOptions") -> "RenderResult":
        """What rich asks for."""
        from rich.segment import Segment

        for segment in console.render(self.inner, options):
            if segment.control is None:
                style = segment.style.update_link(None) if segment.style else None
                yield Segment("\n".join(map(visible, segment.text.split("\n"))), style)
