"""Lines for a person at a terminal, or for the log of the editor that started us.

They go straight to the descriptor: a stream may be missing (closed by the parent), may hold text back,
and cannot write the stray bytes that an argument may have.
"""

import os

ACP_USAGE = "usage: term2 acp [--provider P] [--model M] [--effort E]"
DOCTOR_USAGE = "usage: term2 doctor [--json]"
USAGE = "usage: term2 acp | doctor [--json] | help [COMMAND] | version"

_STDOUT, _STDERR = 1, 2


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


def refuse(message: str) -> int:
    """Refuse to start the daemon: the line says why. Returns exit code 1."""
    return complain("term2 acp", message, ACP_USAGE)


def one_line(message: str) -> str:
    """The message with everything that is not printable escaped, so that it stays one line."""
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape", "backslashreplace").decode()
        for letter in message
    )


def _write(descriptor: int, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(descriptor, data) :]
