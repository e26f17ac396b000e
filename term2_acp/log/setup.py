"""Setting the root logger up, once, by the command line."""

import logging
import os
from typing import TextIO

from term2_acp.log.handlers import FileHandler, LineFormatter, StreamHandler
from term2_acp.redact import Redactor

LEVELS = ("debug", "info", "warning", "error", "critical")
DEFAULT_LEVEL = "warning"

logger = logging.getLogger(__name__)


def log_directory(state_directory: str) -> str:
    """Where the log files are, below the state directory."""
    return os.path.join(state_directory, "logs")


def set_up(level: str, stream: TextIO, redactor: Redactor, *, directory: str | None = None) -> None:
    """Send log lines of this level and above to the stream, and to files in the directory if given.

    ``level`` is one of ``LEVELS`` in any case, or empty for ``warning``; another word means ``warning``
    and is named in the log. Called again, it takes the place of what was set up before.
    """
    handlers: list[logging.Handler] = [StreamHandler(stream)]
    if directory is not None:
        handlers.append(FileHandler(directory))
    formatter = LineFormatter(redactor)
    root = logging.getLogger()
    for old in [h for h in root.handlers if isinstance(h, StreamHandler | FileHandler)]:
        root.removeHandler(old)
        old.close()
    for handler in handlers:
        handler.setFormatter(formatter)
        root.addHandler(handler)
    chosen = level.strip().lower() or DEFAULT_LEVEL
    known = chosen in LEVELS
    root.setLevel((chosen if known else DEFAULT_LEVEL).upper())
    if not known:
        logger.warning(
            "TERM2_LOG_LEVEL: %r is not one of %s; using %s", level, ", ".join(LEVELS), DEFAULT_LEVEL
        )
