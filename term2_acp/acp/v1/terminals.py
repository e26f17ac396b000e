"""What a command writes, as a v1 client is shown it: in a terminal of its own, or as text.

ACP v1 knows only terminals that the client runs, and commands never run there. Two ways are left:

- The terminal-output extension (``_meta``, where the client offers it): bytes become text as they come. A
  character that is split between two pieces is held until its rest comes, and bytes that are no UTF-8 become
  U+FFFD. A snapshot that replaces what was shown clears the terminal first, as the command ``clear`` does.
- Text content, fenced, that is replaced as a whole each time. While the command runs only the end of its
  output is shown, so that showing n bytes costs the order of n; when it has ended, all of it is, with how it
  ended.
"""

import codecs
import re

from attrs import field

from term2_acp.acp.shown import Wire
from term2_acp.domain.classes import define
from term2_acp.domain.events import ExitStatus, TerminalOutput, TerminalUpdate

# Bytes of the end of an output that are shown while the command runs: some hundred lines. They are sent
# again with every piece that comes.
LIVE_TAIL_BYTES = 8 * 1024

CLEAR = "\x1b[H\x1b[2J\x1b[3J"
"""Home, erase the screen, erase what has scrolled away: what ``clear`` writes to a terminal."""

_EARLIER = "The command is still running. The end of its output so far:\n\n"

_FENCES = re.compile("`{3,}")

# The first bytes of a tail that begin inside a character: at most three.
_LEAST_CONTINUATION, _MOST_CONTINUATION = 0x80, 0xBF
_MOST_CONTINUATIONS = 3

_UTF8 = codecs.getincrementaldecoder("utf-8")


@define(eq=False)
class CommandOutput:
    """The output of one command: ``take`` and ``take_exit`` for the first way, ``as_text`` for the second."""

    exit_status: ExitStatus | None = field(default=None, init=False)
    _data: bytearray = field(factory=bytearray, init=False)
    _decoder: codecs.IncrementalDecoder = field(factory=lambda: _UTF8("replace"), init=False)
    _taken: bool = field(default=False, init=False)
    _replaced: bool = field(default=False, init=False)
    _exit_taken: bool = field(default=False, init=False)

    @property
    def ended(self) -> bool:
        """Whether the command is over. Nothing is taken from it any more."""
        return self.exit_status is not None

    def take_in(self, event: TerminalUpdate | TerminalOutput) -> bool:
        """The command wrote something, or ended; whether there is now more to show."""
        if self.ended:
            return False
        if isinstance(event, TerminalOutput):
            self._data += event.data
            return bool(event.data)
        if event.output is not None:
            self._data[:] = event.output
            self._replaced = True
            self._decoder.reset()
        self.exit_status = event.exit_status
        return event.output is not None or self.ended

    def take(self) -> str:
        """What was not taken yet, as the text that a terminal is fed."""
        text = self._decoder.decode(bytes(self._data), self.ended)
        self._data.clear()
        if self._replaced and self._taken:
            text = CLEAR + text
        self._replaced = False
        self._taken = self._taken or bool(text)
        return text

    def take_exit(self) -> ExitStatus | None:
        """How the command ended, once."""
        if self._exit_taken or self.exit_status is None:
            return None
        self._exit_taken = True
        return self.exit_status

    def as_text(self) -> str:
        """All of it, or its end while the command runs, and how it ended; empty when there is nothing."""
        cut = not self.ended and len(self._data) > LIVE_TAIL_BYTES
        data = _tail(self._data) if cut else bytes(self._data)
        text = _UTF8("replace").decode(data, self.ended)
        parts = [_EARLIER if cut else "", fenced(text) if text else ""]
        if self.exit_status is not None:
            parts.append(_how(self.exit_status))
        return "".join(parts)


def exit_to_wire(terminal_id: str, status: ExitStatus) -> Wire:
    """The ``terminal_exit`` of the extension. A command that a signal ended has no code."""
    return {"terminal_id": terminal_id, "exit_code": status.exit_code, "signal": status.signal}


def fenced(text: str) -> str:
    """The text as a block of Markdown, in a fence that is longer than any in it."""
    longest = max((len(found) for found in _FENCES.findall(text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}\n{text}{end}{fence}\n"


def _how(status: ExitStatus) -> str:
    if status.signal is not None:
        return f"Ended by {status.signal}.\n"
    if status.exit_code is None:
        return "How it ended is not known.\n"
    return f"Exit code {status.exit_code}.\n" if status.exit_code else ""


def _tail(data: bytearray) -> bytes:
    tail = bytes(data[-LIVE_TAIL_BYTES:])
    begin = 0
    while begin < _MOST_CONTINUATIONS and _LEAST_CONTINUATION <= tail[begin] <= _MOST_CONTINUATION:
        begin += 1
    return tail[begin:]
