"""The arguments of ``term2 acp``.

Rules:

- Three flags and nothing else: ``--provider``, ``--model``, ``--effort``, as ``--flag VALUE`` or
  ``--flag=VALUE``. No abbreviations. Nothing here, and no setting, turns approval or the sandbox off.
- The first fault is reported; it names the flag and never repeats the value of a flag we do not know,
  which may be a key.
- Written by hand, since argparse costs 6 ms of the start and takes abbreviations.
"""

from collections.abc import Sequence

from term2_acp.domain.classes import frozen

_FLAGS = ("--provider", "--model", "--effort")

# Long enough for any word a person mistypes; an argument may be 128 KiB.
_SHOWN_CHARACTERS = 80


@frozen
class Arguments:
    """What the command line asks for; None leaves it to the environment and the settings."""

    provider: str | None = None
    model: str | None = None
    effort: str | None = None


class BadArguments(Exception):
    """The command line is refused. The message is one line, without the program's name."""


def parse(words: Sequence[str]) -> Arguments:
    """Read the words after ``term2 acp``.

    Raises:
        BadArguments: an unknown flag, a word too many, a flag twice or without a value. Whether the
            value is one that the flag can have is for the settings to say.
    """
    values: dict[str, str] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            raise BadArguments(f"unexpected argument '{shortened(word)}'")
        flag, equals, value = word.partition("=")
        if flag not in _FLAGS:
            raise BadArguments(f"unknown option {shortened(flag)}")
        if flag in values:
            raise BadArguments(f"{flag} is given twice")
        if not equals:
            value = next(rest, "")
            # A value that looks like a flag is a flag whose neighbour lost its value. One that
            # really begins with a dash can be given as --flag=VALUE.
            if value.startswith("-"):
                value = ""
        if not value:
            raise BadArguments(f"{flag} needs a value")
        values[flag] = value
    return Arguments(values.get("--provider"), values.get("--model"), values.get("--effort"))


def shortened(word: str) -> str:
    """A word that was given, as a message repeats it."""
    return word if len(word) <= _SHOWN_CHARACTERS else word[:_SHOWN_CHARACTERS] + "..."
