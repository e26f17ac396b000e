"""``term2 acp``: everything that can refuse the start, in order, then the daemon.

By the time this module is imported standard input and output are claimed, so it may import what it needs.
What is rare (HTTP, SQLite, a provider's wire) stays unimported until the first session or prompt: an editor
waits for the answer to ``initialize``, and imports are nearly all of that wait.
"""

import gc
import logging
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from term2_acp import app, log
from term2_acp.cli.arguments import BadArguments, parse
from term2_acp.cli.terminal import refuse
from term2_acp.config import SettingsError, load, state_directory
from term2_acp.providers.choosing.choice import Unresolved
from term2_acp.providers.choosing.resolve import resolve
from term2_acp.redact import Redactor
from term2_acp.transport.claim import Claimed

logger = logging.getLogger(__name__)

# How many more objects than before there may be until the collector looks for cycles. Those of a turn live
# as long as it does and go with their last reference. At the default of 700 two hundred turns at once, which
# have twenty thousand, are looked at again and again for nothing: a sixth of their CPU, and some 30 ms at a
# time in which the loop stands still. What can be garbage for longer is some five MiB.
YOUNG_OBJECTS = 25_000


def run(claimed: Claimed, words: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the daemon until its input ends or a signal comes; return the exit code."""
    # Inherited as ignored, it would have the kernel reap our children before we learn how they ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    gc.set_threshold(YOUNG_OBJECTS)
    try:
        flags = parse(words)
        config = load(environ, provider=flags.provider, model=flags.model, effort=flags.effort)
        state = state_directory(environ)
    except (BadArguments, SettingsError) as error:
        return refuse(str(error))
    resolved = resolve(config, environ, state)
    if isinstance(resolved, Unresolved):
        return refuse(resolved.message)
    # A missing stderr was replaced by the null device when the descriptors were claimed.
    stream = sys.stderr or os.fdopen(2, "w", closefd=False)
    log.set_up(
        environ.get("TERM2_LOG_LEVEL", ""),
        stream,
        Redactor(resolved.secrets),
        directory=log.log_directory(state),
    )
    for warning in (*config.warnings, *resolved.warnings):
        logger.warning("%s", warning)
    try:
        return app.serve(claimed, config, resolved, environ)
    except Exception:
        # The outermost wall: a fault of ours is logged, redacted, and never a bare traceback.
        logger.exception("the daemon failed")
        return 1
