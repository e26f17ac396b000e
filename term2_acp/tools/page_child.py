"""The child process that turns a page into text for a model.

``python -m term2_acp.tools.page_child``: one line with the page's address and then the page, in UTF-8, come
by stdin; the text goes to stdout. It is a process of its own because reading a hostile page of megabytes
takes seconds and hundreds of megabytes, which must not be the daemon's.

justhtml reads the page. Its own Markdown is not what reads best for a model: it escapes ``snake_case`` and
``<`` and leaves tables as HTML. So the tree is written out here. Headings, lists, quotations and code are as
in Markdown; a row of a table is a line with bars between its cells; links are absolute, so that they can be
fetched; and what a reader would not see is left out, with scripts, styles and navigation.

The walk is a loop over a stack and not a recursion: a page may be nested as deeply as it is long.
"""

import re
import sys
from collections.abc import Mapping
from typing import Any
from urllib.parse import urljoin

# Levels of lists and quotations that are indented: deeper ones would let the text grow by their square.
MAX_LEVELS = 20
# Characters of a link's address that are shown; a longer one could not be fetched.
MAX_LINK = 2000

_LEFT_OUT = frozenset(
    {
        "audio", "button", "canvas", "embed", "head", "iframe", "nav", "object", "script", "select", "style",
        "svg", "template", "video",
    }
)  # fmt: skip
# A line of their own; those in `_APART` have an empty line before and after them as well.
_BLOCKS = frozenset(
    {
        "address", "article", "aside", "body", "caption", "center", "dd", "details", "dialog", "div", "dt",
        "fieldset", "figcaption", "figure", "footer", "form", "header", "hgroup", "html", "legend", "main",
        "menu", "search", "section", "summary", "tbody", "tfoot", "thead",
    }
)  # fmt: skip
_APART = frozenset({"dl", "h1", "h2", "h3", "h4", "h5", "h6", "p", "table"})
_CODE = frozenset({"code", "kbd", "samp", "tt"})
_UNSEEN_STYLE = re.compile(r"(?:^|;)\s*(?:display\s*:\s*none|visibility\s*:\s*hidden)", re.IGNORECASE)
_FENCES = re.compile("`+")
_WHITE = re.compile(r"[ \t\n\r\f]+")


def main() -> None:
    """Read, turn and write."""
    base, _, page = sys.stdin.buffer.read().partition(b"\n")
    text = to_text(page.decode(errors="replace"), base.decode(errors="replace"))
    sys.stdout.buffer.write(text.encode(errors="replace"))


def to_text(page: str, base: str) -> str:
    """The text of a page, its title first. ``base`` is the page's address, for its relative links."""
    from justhtml import JustHTML  # heavy: only the child needs it

    # Nothing is shown as HTML, so nothing needs to be sanitised. No script runs, so "noscript" counts.
    document = JustHTML(page, sanitize=False, scripting_enabled=False)
    title, own_base = document.query_one("title"), document.query_one("base")
    if own_base is not None and own_base.attrs:
        base = _absolute(base, own_base.attrs.get("href")) or base
    text = _Writer(base).text_of(document.root)
    named = " ".join(title.to_text().split()) if title is not None else ""
    return f"Title: {named}\n\n{text}" if named else text


class _Writer:
    """Writes a tree out, line by line.

    ``_levels`` are what each line begins with: a quotation's bar, a list's indent. Where an item begins
    ``_item`` stands instead of the last of them; ``_heading`` stands after them.
    """

    def __init__(self, base: str) -> None:
        self._base = base
        self._lines: list[str] = []
        self._line: list[str] = []
        self._levels: list[str] = []
        self._item = ""
        self._heading = ""
        self._gap = False  # an empty line comes before the next one
        self._apart = False  # and before the one that has begun
        self._space = False
        self._cells = 0
        self._rows: list[int] = []
        self._lists: list[int] = []
        self._said = self._said_before = 0  # pieces, and those of the lines before this one

    def text_of(self, root: Any) -> str:
        """The text of everything below ``root``."""
        stack: list[tuple[Any, Any]] = [(root, None)]
        while stack:
            node, closing = stack.pop()
            if closing is not None:
                closing()
            elif node.name == "#text":
                self._text(node.data or "")
            elif node.name.startswith(("#doc", "#frag")):
                stack += [(child, None) for child in reversed(node.children)]
            elif not node.name.startswith(("#", "!", "?")) and not _unseen(node.name, node.attrs):
                self._element(node, stack)
        self._end_line()
        return "\n".join(self._lines)

    def _element(self, node: Any, stack: list[tuple[Any, Any]]) -> None:
        """Begin an element; what it holds and what ends it go onto the stack. A leaf puts nothing there."""
        name = node.name
        if self._leaf(name, node):
            return
        closing = None
        if name == "a":
            closing = self._begin_link(node.attrs.get("href"))
        elif name in ("li", "blockquote"):
            closing = self._begin_level(quotation=name == "blockquote")
        elif name in ("ul", "ol"):
            closing = self._begin_list(numbered=name == "ol")
        elif name in ("tr", "td", "th"):
            closing = self._begin_row() if name == "tr" else self._begin_cell()
        elif name in _BLOCKS or name in _APART:
            closing = self._begin_block(name)
        if closing is not None:
            stack.append((None, closing))
        stack += [(child, None) for child in reversed(node.children)]

    def _leaf(self, name: str, node: Any) -> bool:
        """Write an element whose children are not walked; False when it is none."""
        if name == "pre":
            self._preformatted(node.to_text(separator="", strip=False))
        elif name in _CODE:
            code = " ".join(node.to_text(separator="", strip=False).split())
            self._put(f"`{code}`" if code else "")
        elif name == "img":
            alternative = " ".join((node.attrs.get("alt") or "").split())
            self._put(f"[image: {alternative}]" if alternative else "")
        elif name in ("br", "hr"):
            self._break(apart=name == "hr")
        else:
            # The mark beside a heading that links to itself.
            here = name == "a" and (node.attrs.get("href") or "").startswith("#")
            return here and not any(map(str.isalnum, node.to_text()))
        return True

    # -- lines -----------------------------------------------------------------------------------------

    def _text(self, data: str) -> None:
        words = _WHITE.sub(" ", data)
        self._space = self._space or words.startswith(" ")
        if words not in ("", " "):
            self._put(words.strip(" "))
            self._space = words.endswith(" ")

    def _put(self, piece: str, *, bar: bool = False) -> None:
        """Add to the line. A ``bar`` between cells makes no line worth keeping."""
        if not piece:
            return
        if self._line:
            self._line.append(" " if self._space else "")
        else:
            self._apart = self._gap
            levels = self._levels[:-1] if self._item else self._levels
            self._line.append("".join([*levels, self._item, self._heading]))
            self._item = ""
        self._line.append(piece)
        self._said += not bar
        self._gap = self._space = False

    def _end_line(self) -> None:
        if self._line:
            if self._said > self._said_before:
                self._lines += [""] if self._apart and self._lines else []
                self._lines.append("".join(self._line).rstrip())
            else:
                self._gap = self._gap or self._apart
            self._line = []
            self._said_before = self._said
        self._space = False

    def _break(self, *, apart: bool = False, row: bool = False) -> None:
        """End the line, unless it is that of a table's row, where what a cell holds stays on it."""
        if self._cells and not row:
            self._space = True
            return
        self._end_line()
        # An item's first words stand on the line of its mark.
        self._gap = self._gap or (apart and not self._item)

    # -- elements: each begins one, and returns what ends it -------------------------------------------

    def _preformatted(self, code: str) -> None:
        self._break(apart=True, row=True)
        fence = "`" * max(3, 1 + max(map(len, _FENCES.findall(code)), default=0))
        for line in (fence, *code.strip("\n").splitlines(), fence):
            # A line of code keeps its indent, and may be empty.
            self._put(line or " ")
            self._end_line()
        self._gap = True

    def _begin_block(self, name: str) -> Any:
        apart = name in _APART
        self._break(apart=apart)
        if name[0] == "h" and name[1:].isdecimal():
            self._heading = "#" * int(name[1:]) + " "

        def end() -> None:
            self._heading = ""
            self._break(apart=apart)

        return end

    def _begin_list(self, *, numbered: bool) -> Any:
        inner = bool(self._lists)
        self._break(apart=not inner)
        self._lists.append(1 if numbered else 0)

        def end() -> None:
            self._lists.pop()
            self._break(apart=not inner)

        return end

    def _begin_level(self, *, quotation: bool) -> Any:
        self._break(apart=quotation, row=True)
        mark = "> " if quotation else "- "
        if not quotation and self._lists and self._lists[-1]:
            mark = f"{self._lists[-1]}. "
            self._lists[-1] += 1
        deep = len(self._levels) >= MAX_LEVELS
        self._levels.append("" if deep else mark if quotation else " " * len(mark))
        if not quotation:
            self._item = mark

        def end() -> None:
            self._break(row=True)
            self._levels.pop()
            self._item = ""
            self._gap = quotation

        return end

    def _begin_row(self) -> Any:
        self._break(row=True)
        cells, self._cells = self._cells, 0
        self._rows.append(0)

        def end() -> None:
            self._break(row=True)
            self._rows.pop()
            self._cells = cells

        return end

    def _begin_cell(self) -> Any:
        if self._rows:
            if self._rows[-1]:
                self._space = False
                self._put(" |", bar=True)
                self._space = True
            self._rows[-1] += 1
        self._cells += 1

        def end() -> None:
            self._cells -= 1

        return end

    def _begin_link(self, href: str | None) -> Any:
        address = _absolute(self._base, href)
        if address is None:
            return None
        line, pieces, said = self._line, len(self._line), self._said

        def end() -> None:
            if self._said == said:
                return
            if self._line is line:
                # Before the first piece stands what the line begins with, or the space between.
                line[pieces + 1] = f"[{line[pieces + 1]}"
                line.append(f"]({address})")
            elif self._line:
                self._space = True
                self._put(f"({address})")
            else:
                self._lines[-1] += f" ({address})"

        return end


def _unseen(name: str, attributes: Mapping[str, str | None]) -> bool:
    return (
        name in _LEFT_OUT
        or "hidden" in attributes
        or attributes.get("aria-hidden") == "true"
        or _UNSEEN_STYLE.search(attributes.get("style") or "") is not None
    )


def _absolute(base: str, href: str | None) -> str | None:
    """Where a link leads, if that is a page, and another one than this."""
    href = (href or "").strip()
    if not href or href.startswith("#") or len(href) > MAX_LINK:
        return None
    try:
        address = urljoin(base, href)
    except ValueError:
        return None
    fits = address.startswith(("http://", "https://")) and len(address) <= MAX_LINK
    return _WHITE.sub("%20", address) if fits else None


if __name__ == "__main__":
    main()
