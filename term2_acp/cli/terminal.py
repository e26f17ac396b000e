"""Lines for a person at a terminal, or for the log of the editor that started us.

They go straight to the descriptor: a stream may be missing (closed by the parent), may hold text back,
and cannot write the stray bytes that an argument may have.
"""

import os
import re

from term2_acp.domain.classes import frozen

ACP_USAGE = "usage: term2 acp [--provider P] [--model M] [--effort E]"
DOCTOR_USAGE = "usage: term2 doctor [--json]"
SESSIONS_USAGE = "usage: term2 sessions list | show ID | export ID | delete ID... | audit ID | verify"
USAGE = "usage: term2 acp | sessions COMMAND | doctor [--json] | help [COMMAND] | version"

_STDOUT, _STDERR = 1, 2

# Columns between the stops of a tab.
_TAB = 8

# What may need a second look: everything but the printable letters of ASCII.
_UNUSUAL = re.compile(r"[^\x20-\x7e]")


class CannotWrite(Exception):
    """A text could not be written, for the reason in the message. ``gone``: its reader went away."""

    def __init__(self, reason: str, *, gone: bool) -> None:
        super().__init__(reason)
        self.gone = gone


@frozen
class Output:
    """A descriptor that a text is written to piece by piece."""

    descriptor: int

    def write(self, text: str) -> None:
        """Write the text, whole. Raises ``CannotWrite``."""
        try:
            _write(self.descriptor, text)
        except OSError as error:
            reason = error.strerror or "unknown reason"
            raise CannotWrite(reason, gone=isinstance(error, BrokenPipeError)) from error


def put(text: str, descriptor: int = _STDOUT) -> int:
    """Write ``text`` to standard output, or where that was moved to, and return the exit code.

    A reader that went away is a quiet 0; any other fault is one line on standard error and 1.
    """
    try:
        _write(descriptor, text)
    except BrokenPipeError:
        return 0
    except OSError as error:
        return complain("term2", f"cannot write: {error.strerror}", USAGE)
    return 0


def complain(program: str, message: str, usage: str) -> int:
    """Write one diagnostic line and the usage line to standard error; return exit code 1."""
    try:
        _write(_STDERR, f"{program}: {one_line(message)}\n{usage}\n")
    except OSError:
        pass  # nobody reads it; the exit code still tells
    return 1


def tell(program: str, message: str) -> None:
    """Write one diagnostic line to standard error, where the arguments were not at fault."""
    try:
        _write(_STDERR, f"{program}: {one_line(message)}\n")
    except OSError:
        pass  # as above


def refuse(message: str) -> int:
    """Refuse to start the daemon: the line says why. Returns exit code 1."""
    return complain("term2 acp", message, ACP_USAGE)


def one_line(message: str) -> str:
    """The message with everything that is not printable escaped, so that it stays one line."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in message
    )


def visible(text: str) -> str:
    """The text as one line in which nothing acts on a terminal: what has no shape of its own is written out.

    As ``one_line``, but spaces stay, of whatever width.
    """
    return text if text.isprintable() else _UNUSUAL.sub(_shown, text)


def visible_lines(text: str) -> list[str]:
    """The lines of a text, each as ``visible`` makes it, with spaces for tabs.

    Only line feeds divide them: what else divides lines somewhere could forge one.
    """
    lines = text.removesuffix("\n").split("\n")
    return [visible(line.removesuffix("\r").expandtabs(_TAB)) for line in lines]


def _shown(match: re.Match[str]) -> str:
    import unicodedata  # not for the daemon, which waits for no import of ours

    letter = match[0]
    return letter if unicodedata.category(letter) == "Zs" else one_line(letter)


def _write(descriptor: int, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(descriptor, data) :]
