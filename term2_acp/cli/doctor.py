"""``term2 doctor``: what works on this machine.

Theory of operation. Standard output is claimed first, as the daemon does it, so that nothing an import prints
and nothing a child says gets between the lines; and so that a descriptor which was closed at start cannot
turn out to be the database. Then the checks, then every known key taken out of what they found, and one
write.

The exit status is the health: 0 all of it works; 1 a start would be refused, or conversations could not be
kept; 2 term2 starts, with less than it could have. A reader that went away changes nothing about it. Bad
arguments and output that cannot be written are 1 too.

A check that crashes is a fault of ours. It is logged with its traceback, the part says so, and the others go
on.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from attrs import evolve

from term2_acp.cli.health import (
    Health,
    Level,
    ProvidersHealth,
    RipgrepHealth,
    SandboxHealth,
    SettingsHealth,
    StoreHealth,
    redacted,
)
from term2_acp.cli.terminal import DOCTOR_USAGE, complain, one_line, put
from term2_acp.config import Config
from term2_acp.redact import Redactor

if TYPE_CHECKING:
    from term2_acp.providers.choosing.choice import Choice

logger = logging.getLogger(__name__)

T = TypeVar("T")

INTERRUPTED = 130

OUR_FAULT = "This check failed by a fault of term2's own; standard error has the details."


def run(words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the checks and show what they found; return the exit status."""
    wrong = _wrong(words)
    if wrong is not None:
        return _refuse(wrong)
    from term2_acp.transport.claim import claim

    try:
        output = claim().output
    except OSError as error:
        return _refuse(f"standard input or output cannot be used: {error.strerror}")
    # Inherited as ignored, it would have the kernel reap our children before we learn how they ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # What was started is ended and what was made removed, as by an interrupt from the keyboard.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda _number, _frame: signal.raise_signal(signal.SIGINT))
    health: Health | None = None
    try:
        health = _examine(environ)
    except* KeyboardInterrupt:
        pass  # a nursery wraps it in a group
    if health is None:
        return INTERRUPTED
    from term2_acp.cli import report, screen  # once the descriptors are claimed, as all that is large

    text = report.to_json(health) if words else report.to_text(health, screen.screen_of(output, environ))
    return put(text, output) or report.EXIT_STATUS[health.level]


def _wrong(words: Sequence[str]) -> str | None:
    """What is wrong with the arguments; the value of an option is not repeated."""
    for word in words:
        option, equals, _value = word.partition("=")
        if not word.startswith("-"):
            return f"unexpected argument '{word}'"
        if option != "--json":
            return f"unknown option {option}"
        if equals:
            return "--json takes no value"
    return "--json is given twice" if len(words) > 1 else None


def _refuse(message: str) -> int:
    return complain("term2 doctor", message, DOCTOR_USAGE)


def _examine(environ: Mapping[str, str]) -> Health:
    """Run every check; what they found, without keys."""
    import trio  # with the rest a fifth of a second, and not needed to refuse an option

    from term2_acp import log
    from term2_acp.cli import checks, checks_models

    stream = sys.stderr or os.fdopen(2, "w", closefd=False)
    level = environ.get("TERM2_LOG_LEVEL", "")
    log.set_up(level, stream, Redactor(checks.secrets_of(None, environ)))
    no_settings: tuple[SettingsHealth, Config | None] = SettingsHealth(Level.BROKEN, (OUR_FAULT,)), None
    settings, config = _contained(partial(checks.check_settings, environ), no_settings)
    secrets = checks.secrets_of(config, environ)
    log.set_up(level, stream, Redactor(secrets))
    no_providers: tuple[ProvidersHealth, Choice | None] = ProvidersHealth(Level.BROKEN, (OUR_FAULT,)), None
    providers, choice = _contained(partial(checks_models.check_providers, config, environ), no_providers)
    store = _contained(partial(checks.check_store, environ), StoreHealth(Level.BROKEN, (OUR_FAULT,)))
    ripgrep, sandbox = trio.run(_probe, environ, secrets, store.directory)
    servers = partial(trio.run, checks_models.check_servers, providers, choice)
    providers = _contained(servers, evolve(providers, level=Level.BROKEN, problems=(OUR_FAULT,)))
    health = Health(sandbox, ripgrep, settings, providers, store, checks.check_machine())
    return without_keys(health, Redactor(secrets))


async def _probe(
    environ: Mapping[str, str], secrets: tuple[str, ...], state: str | None
) -> tuple[RipgrepHealth, SandboxHealth]:
    """What has to be run."""
    from term2_acp.cli import probes
    from term2_acp.workspace.ripgrep import find

    try:
        ripgrep = await probes.check_ripgrep(find())
    except Exception:
        # A wall, as in `_contained`.
        logger.exception("a check failed")
        ripgrep = RipgrepHealth(Level.LESS, (OUR_FAULT,))
    try:
        sandbox = await probes.check_sandbox(environ, secrets, state)
    except Exception:
        # The same.
        logger.exception("a check failed")
        sandbox = SandboxHealth(Level.LESS, (f"{OUR_FAULT} {probes.NO_SANDBOX}",))
    return ripgrep, sandbox


def _contained(check: Callable[[], T], otherwise: T) -> T:
    """The check's answer, and another one where it crashes: the wall between the checks."""
    try:
        return check()
    except Exception:
        logger.exception("a check failed")
        return otherwise


def without_keys(health: Health, redactor: Redactor) -> Health:
    """The same without a key in any text, each on one line.

    Settings and providers hold what a person has typed, so what only looks like a key is taken out of them
    too; not of the names before a diagnosis, which say where it is.
    """

    def known(text: str) -> str:
        return one_line(redactor.redact(text))

    def typed(text: str) -> str:
        where, colon, what = text.partition(": ")
        if not colon:
            where, what = "", text
        return known(where) + colon + one_line(redactor.redact_log(what))

    return evolve(
        redacted(health, known),
        settings=redacted(health.settings, typed),
        providers=redacted(health.providers, typed),
    )
