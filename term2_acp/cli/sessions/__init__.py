"""``term2 sessions``: what is kept, for a person and for their scripts.

Theory of operation. Standard output is claimed first, as ``doctor`` does it: nothing an import prints gets
between the lines, and a descriptor that was closed at start cannot turn out to be the database. Then the
store is opened as it is, without a thread: nothing else goes on in this process. What is long is read, folded
and written piece by piece, so memory does not grow with a session.

A command is one module with one function, which is given what it needs (``Desk``) and returns the exit
status: 0, or 1 where something was not done. ``verify`` has its own (2: it could not look). A reader that
went away is no fault. A fault of ours is logged with its traceback.

What goes wrong is one line on standard error. The log is silent unless ``TERM2_LOG_LEVEL`` says otherwise.
"""

import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence

from term2_acp.cli.arguments import BadArguments
from term2_acp.cli.screen import Screen, screen_of
from term2_acp.cli.sessions.arguments import Request, parse
from term2_acp.cli.terminal import SESSIONS_USAGE, CannotWrite, Output, complain, tell
from term2_acp.domain.classes import frozen
from term2_acp.redact import Redactor

logger = logging.getLogger(__name__)

NOT_DONE = 1
NOT_LOOKED = 2
INTERRUPTED = 130

_PROGRAM = "term2 sessions"


@frozen
class Desk:
    """What a command works with. ``state`` is the state directory, which need not exist.

    ``input`` is a descriptor with the person's answers, where a person is there to give them.
    """

    request: Request
    state: str
    screen: Screen
    output: Output
    input: int
    redactor: Redactor


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the command; return the exit status."""
    failed = NOT_LOOKED if words[:1] == ["verify"] else NOT_DONE
    try:
        request = parse(words)
    except BadArguments as error:
        complain(_PROGRAM, str(error), SESSIONS_USAGE)
        return failed
    from term2_acp.transport.claim import claim

    try:
        claimed = claim()
    except OSError as error:
        tell(_PROGRAM, f"standard input or output cannot be used: {error.strerror}")
        return failed
    # What is being written is not left behind half, as by an interrupt from the keyboard.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    try:
        return _run(request, environ, claimed.input, claimed.output)
    except KeyboardInterrupt:
        return INTERRUPTED
    except CannotWrite as error:
        if error.gone:
            return 0
        tell(_PROGRAM, f"cannot write: {error}")
    except Exception:
        # The outermost wall: a fault of ours.
        logger.critical("the command failed", exc_info=True)
        tell(_PROGRAM, "this failed by a fault of term2's own")
    return failed


def _run(request: Request, environ: Mapping[str, str], given: int, output: int) -> int:
    import trio  # with the rest a fifth of a second, and not needed to refuse an option

    from term2_acp import log
    from term2_acp.cli import checks
    from term2_acp.cli.sessions.kept import NotDone
    from term2_acp.config import SettingsError, state_directory
    from term2_acp.store import StoreError

    failed = NOT_LOOKED if request.command == "verify" else NOT_DONE
    stream = sys.stderr or os.fdopen(2, "w", closefd=False)
    _settings, config = checks.check_settings(environ)  # for its keys: settings that are wrong do not matter
    redactor = Redactor(checks.secrets_of(config, environ))
    log.set_up(environ.get("TERM2_LOG_LEVEL", "critical"), stream, redactor)
    try:
        desk = Desk(
            request,
            state_directory(environ),
            screen_of(output, environ),
            Output(output),
            given,
            redactor,
        )
        return trio.run(_command(request.command), desk)
    except (NotDone, SettingsError) as error:
        tell(_PROGRAM, str(error))
    except StoreError as error:
        tell(_PROGRAM, error.message)
    return failed


def _command(word: str) -> Callable[[Desk], Awaitable[int]]:
    """The command's function; only what it needs is imported."""
    match word:
        case "list":
            from term2_acp.cli.sessions.listing import run_list as command
        case "show":
            from term2_acp.cli.sessions.showing import run_show as command
        case "export":
            from term2_acp.cli.sessions.exporting import run_export as command
        case "delete":
            from term2_acp.cli.sessions.deleting import run_delete as command
        case "audit":
            from term2_acp.cli.sessions.auditing import run_audit as command
        case _:
            from term2_acp.cli.sessions.verifying import run_verify as command
    return command
