"""From the command line to an exit code. The only room that prints or exits.

Theory of operation:

- ``main`` looks at one word. For ``acp`` it claims standard input and output before it imports anything
  else, so that nothing an import prints, and no child it starts, can reach the wire.
- A refused start writes no byte to standard output, one line that says why and the usage line to standard
  error, and exits 1.
- The process ends by ``os._exit`` once everything is flushed: by then every room has closed what it
  opened, and the interpreter's own teardown costs an editor 11 ms and may wait for an abandoned thread.

Importing this package imports next to nothing: ``signal`` and ``types`` are small.
"""

import os
import signal
import sys
from types import FrameType


def main() -> None:
    """Run the command in ``sys.argv``. Never returns."""
    words = sys.argv[1:]
    if words[:1] == ["acp"]:
        code = _acp(words[1:])
    else:
        from term2_acp.cli import commands  # lazy: the daemon needs none of it

        code = commands.run(words)
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            pass  # the reader went away; there is nobody left to tell
    os._exit(code)


def _acp(words: list[str]) -> int:
    """Claim the descriptors, then run the daemon."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    # Lazy, and in this order: nothing else is imported before the descriptors are claimed.
    from term2_acp.transport.claim import claim

    try:
        claimed = claim()
    except OSError as error:
        from term2_acp.cli.terminal import refuse

        return refuse(f"standard input or output cannot be used: {error.strerror}")

    from term2_acp.cli.acp import run

    return run(claimed, words, os.environ)


def _leave(_number: int, _frame: FrameType | None) -> None:
    """A signal before the daemon takes them over: nothing has begun, so nothing has to be ended."""
    os._exit(0)
