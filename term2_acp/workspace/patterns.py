"""File-name patterns: ``*``, ``?``, ``[seq]`` within a name, ``**`` for any folders, ``{a,b}``.

Ripgrep's own ``--glob`` is no help here: a pattern given to it overrides every ignore file, so that
``**/*`` would list all of ``node_modules``. Patterns are therefore matched on the names it lists.

A pattern without a slash matches a name at any depth. Matching takes time proportional to the length of
the path times that of the pattern, whatever the pattern: names are matched by ``fnmatch``'s expressions,
which do not backtrack from one star into another, and folders by following all ways at once.
"""

import fnmatch
import re

from term2_acp.domain.classes import frozen
from term2_acp.workspace.refusals import FileRefused

# Characters of a pattern, and ways that its braces may spell out to. Nobody types more.
MAX_PATTERN = 1000
MAX_ALTERNATIVES = 64

_ANY_FOLDERS = None


class PatternRefused(FileRefused):
    """The pattern is none that can be matched."""


@frozen
class Pattern:
    """A compiled pattern. ``names`` are the patterns of the last names, each one necessary for a match."""

    _alternatives: tuple[tuple[re.Pattern[str] | None, ...], ...]
    names: tuple[str, ...]

    def matches(self, path: str) -> bool:
        """Whether a relative path (no ``.`` or ``..`` in it) matches as a whole."""
        names = path.split("/")
        return any(_follows(parts, names) for parts in self._alternatives)


def compile_pattern(pattern: str) -> Pattern:
    """Compile what the model wrote.

    Raises:
        PatternRefused: the pattern is empty, absolute, leads up, is negated, or is too long.
    """
    if not pattern or len(pattern) > MAX_PATTERN:
        raise PatternRefused(f"A pattern has 1 to {MAX_PATTERN:,} characters.")
    if pattern.startswith(("/", "~", "!")) or ".." in pattern.split("/"):
        raise PatternRefused(
            f"The pattern {pattern!r} must be relative to the searched folder and not begin with `!`; "
            "name another folder with `path`."
        )
    compiled: list[tuple[re.Pattern[str] | None, ...]] = []
    last: list[str] = []
    for spelled in _spell_out(pattern):
        parts = [part for part in spelled.split("/") if part not in ("", ".")]
        if len(parts) == 1 or not parts:
            parts = ["**", *parts]
        if parts[-1] == "**":
            parts.append("*")
        last.append(parts[-1])
        compiled.append(
            tuple(_ANY_FOLDERS if part == "**" else re.compile(fnmatch.translate(part)) for part in parts)
        )
    return Pattern(tuple(compiled), tuple(dict.fromkeys(last)))


def _spell_out(pattern: str) -> list[str]:
    """The patterns that the braces stand for; braces that do not close are ordinary characters."""
    done: list[str] = []
    todo = [pattern]
    while todo:
        current = todo.pop()
        group = re.search(r"\{([^{}]*,[^{}]*)\}", current)
        if group is None:
            done.append(current)
        else:
            head, tail = current[: group.start()], current[group.end() :]
            todo.extend(head + choice + tail for choice in group[1].split(","))
        if len(done) + len(todo) > MAX_ALTERNATIVES:
            raise PatternRefused(f"The pattern's braces spell out to more than {MAX_ALTERNATIVES} patterns.")
    return done


def _follows(parts: tuple[re.Pattern[str] | None, ...], names: list[str]) -> bool:
    ways = _and_past_folders(parts, {0})
    for name in names:
        further: set[int] = set()
        for at in ways:
            if at == len(parts):
                continue
            part = parts[at]
            if part is None:
                further.add(at)
            elif part.match(name):
                further.add(at + 1)
        if not further:
            return False
        ways = _and_past_folders(parts, further)
    return len(parts) in ways


def _and_past_folders(parts: tuple[re.Pattern[str] | None, ...], ways: set[int]) -> set[int]:
    """Add the places behind each ``**``, which may stand for no folder at all."""
    for at in sorted(ways):
        place = at
        while place < len(parts) and parts[place] is None:
            place += 1
            ways.add(place)
    return ways
