"""The arguments of ``term2 sessions``, by the rules of ``cli.arguments``."""

from collections.abc import Mapping, Sequence

from attrs import field

from term2_acp.cli.arguments import BadArguments, shortened
from term2_acp.domain.classes import frozen

# Longer numbers of sessions than this are a slip of the finger.
_MOST = 1_000_000


class _Ids:
    """How many sessions a command is about."""

    NONE = 0
    ONE = 1
    SOME = 2


@frozen
class _Grammar:
    """``flags`` stand alone; each of ``values`` has one of the words, or any where there are none."""

    ids: int
    flags: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] = field(factory=dict)


_COMMANDS = {
    "list": _Grammar(_Ids.NONE, ("--json",), {"--cwd": (), "--limit": ()}),
    "show": _Grammar(_Ids.ONE, ("--json",)),
    "export": _Grammar(_Ids.ONE, ("--force",), {"--format": ("json", "markdown"), "--output": ()}),
    "delete": _Grammar(_Ids.SOME, ("--yes", "--json")),
    "audit": _Grammar(_Ids.ONE, ("--json",)),
    "verify": _Grammar(_Ids.NONE, ("--json",)),
}

COMMANDS = tuple(_COMMANDS)
"""The words after ``term2 sessions``."""


@frozen
class Request:
    """What is asked for. ``values`` has the flags that were given with their values, without the dashes."""

    command: str
    ids: tuple[str, ...] = ()
    flags: frozenset[str] = frozenset()
    values: Mapping[str, str] = field(factory=dict)

    @property
    def json(self) -> bool:
        """Whether a program reads the answer."""
        return "json" in self.flags

    @property
    def limit(self) -> int | None:
        """How many sessions are listed at most."""
        return int(self.values["limit"]) if "limit" in self.values else None


def parse(words: Sequence[str]) -> Request:
    """Read the words after ``term2 sessions``.

    Raises:
        BadArguments: as ``cli.arguments.parse``.
    """
    if not words:
        raise BadArguments("no command given")
    command = words[0]
    grammar = _COMMANDS.get(command)
    if grammar is None:
        kind = "option" if command.startswith("-") else "command"
        raise BadArguments(f"unknown {kind} '{shortened(command)}'")
    ids: list[str] = []
    flags: set[str] = set()
    values: dict[str, str] = {}
    rest = iter(words[1:])
    for word in rest:
        if not word.startswith("-"):
            ids.append(word)
            continue
        flag, equals, value = word.partition("=")
        if flag[2:] in flags or flag[2:] in values:
            raise BadArguments(f"{flag} is given twice")
        if flag in grammar.flags:
            if equals:
                raise BadArguments(f"{flag} takes no value")
            flags.add(flag[2:])
        elif flag in grammar.values:
            values[flag[2:]] = _value(flag, value if equals else next(rest, ""), equals, grammar)
        else:
            raise BadArguments(f"unknown option {shortened(flag)}")
    _count(command, grammar.ids, ids)
    return Request(command, tuple(dict.fromkeys(ids)), frozenset(flags), values)


def _value(flag: str, value: str, equals: str, grammar: _Grammar) -> str:
    # As in `cli.arguments`: what looks like a flag is one whose neighbour lost its value.
    if not value or (not equals and value.startswith("-")):
        raise BadArguments(f"{flag} needs a value")
    words = grammar.values[flag]
    if words and value not in words:
        raise BadArguments(f"{flag}: must be {' or '.join(words)}, not '{shortened(value)}'")
    if flag == "--limit" and not (value.isascii() and value.isdigit() and 0 < int(value[:9]) <= _MOST):
        raise BadArguments(f"--limit: must be a number from 1 to {_MOST}, not '{shortened(value)}'")
    return value


def _count(command: str, wanted: int, ids: Sequence[str]) -> None:
    if wanted == _Ids.NONE and ids:
        raise BadArguments(f"unexpected argument '{shortened(ids[0])}'")
    if wanted != _Ids.NONE and not all(ids or [""]):
        raise BadArguments(f"{command} needs the id of a session")
    if wanted == _Ids.ONE and len(ids) > 1:
        raise BadArguments(f"unexpected argument '{shortened(ids[1])}'")
