"""Server-sent events from bytes, without any input or output (WHATWG HTML, section 9.2.6).

Theory of operation. Bytes go in as they were read, split anywhere; complete events come out. Everything
is done on bytes, so a character that is cut by a chunk's border is whole again before anyone decodes it,
and U+2028, U+2029, U+0085 or a vertical tab are ordinary text: a line ends at LF, CRLF or CR and nowhere
else (``str.splitlines`` knows eleven ends, and loses data here).

Rules:

- A CR ends its line at once; a LF that follows it, also in the next chunk, belongs to it.
- One leading byte-order mark is dropped. One space after the colon is dropped. ``id`` and ``retry`` are
  read and ignored, for nobody reconnects to a model.
- Comments are counted and otherwise dropped: they keep a connection open and say nothing.
- An event without data is no event.
- Memory is bounded by one event. Nothing is copied twice: a line that comes in a thousand pieces is joined
  once.
"""

from attrs import define

# An event holds one delta; the largest real ones carry a whole tool call. 8 MiB is what the longest
# arguments we accept need, and keeps a server that never ends its line from filling our memory.
MAX_EVENT_BYTES = 8 * 1024 * 1024

_BOM = b"\xef\xbb\xbf"


class EventTooLong(Exception):
    """The server sent more than ``MAX_EVENT_BYTES`` without ending its event. The parser is done."""


@define
class SseEvent:
    """One event. ``data`` is the UTF-8 as it came, its lines joined by LF; it may hold bad UTF-8."""

    name: str
    data: bytes


class SseParser:
    """Parses one stream. ``comments`` and ``lines`` count what was seen, for watchdogs and diagnosis."""

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.comments = 0
        self.lines = 0
        self._limit = max_event_bytes
        self._partial: list[bytes] = []  # the pieces of a line whose end has not come
        self._data: list[bytes] = []  # the data lines of the event being read
        self._name = b""
        self._partial_size = 0
        self._data_size = 0
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """Take bytes and return the events that they completed, in order.

        Raises:
            EventTooLong: an event outgrew the bound; what it completed before that is lost with it.
        """
        if b"\r" in chunk or self._after_cr:
            chunk = self._plain_line_ends(chunk)
        lines = chunk.split(b"\n")
        rest = lines.pop()
        events: list[SseEvent] = []
        if lines:
            if self._partial:
                self._partial.append(lines[0])
                lines[0] = b"".join(self._partial)
                self._partial.clear()
                self._partial_size = 0
            for line in lines:
                self._take_line(line, events)
        if rest:
            self._partial.append(rest)
            self._partial_size += len(rest)
            self._check_size()
        return events

    def finish(self) -> list[SseEvent]:
        """Tell the parser that the stream ended; return the last event if its blank line is missing.

        The standard drops such an event. Servers that end their last event by closing are common, and
        the reader of the data finds out by itself whether it is whole.
        """
        events: list[SseEvent] = []
        if self._partial:
            line = b"".join(self._partial)
            self._partial.clear()
            self._partial_size = 0
            self._take_line(line, events)
        self._end_event(events)
        return events

    def _plain_line_ends(self, chunk: bytes) -> bytes:
        if self._after_cr and chunk.startswith(b"\n"):
            chunk = chunk[1:]
            self._after_cr = False
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _take_line(self, line: bytes, events: list[SseEvent]) -> None:
        self.lines += 1
        if self.lines == 1 and line.startswith(_BOM):
            line = line[len(_BOM) :]
        if not line:
            self._end_event(events)
        elif line.startswith(b"data:"):
            data = line[6:] if line.startswith(b" ", 5) else line[5:]
            self._take_data(data)
        elif line.startswith(b":"):
            self.comments += 1
        else:
            self._take_rare_field(line)

    def _take_rare_field(self, line: bytes) -> None:
        field, _, value = line.partition(b":")
        if field == b"event":
            self._name = value.removeprefix(b" ")
        elif field == b"data":  # a line that is the bare word: an empty line of data
            self._take_data(b"")

    def _take_data(self, data: bytes) -> None:
        self._data.append(data)
        self._data_size += len(data) + 1  # the line end too, so that empty lines are bounded as well
        self._check_size()

    def _end_event(self, events: list[SseEvent]) -> None:
        if self._data:
            data = self._data[0] if len(self._data) == 1 else b"\n".join(self._data)
            name = self._name.decode("utf-8", "replace") if self._name else "message"
            events.append(SseEvent(name, data))
            self._data.clear()
            self._data_size = 0
        self._name = b""

    def _check_size(self) -> None:
        if self._partial_size + self._data_size > self._limit:
            self._partial.clear()
            self._data.clear()
            raise EventTooLong
