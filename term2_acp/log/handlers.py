"""Two handlers that never block and never raise, and the formatter they share.

The standard library's handlers are not used: ``StreamHandler`` waits when nobody reads the pipe, and
``RotatingFileHandler`` loses lines when several processes rotate the same file.
"""

import contextlib
import fcntl
import logging
import os
import select
import stat
import time
from abc import ABC, abstractmethod
from itertools import pairwise
from typing import Any, TextIO

from term2_acp.redact import Redactor

MAX_FILE_BYTES = 10 * 1024 * 1024
FILES = 5
"""How many log files there are at most, the one that is written to included."""

# Control characters that would move a terminal's cursor or forge a line; tab and newline stay.
_CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}


class LineFormatter(logging.Formatter):
    """``time level logger: message``, in UTC, redacted and without control characters."""

    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, redactor: Redactor) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self.converter = time.gmtime
        self._redactor = redactor

    def format(self, record: logging.LogRecord) -> str:
        """The record as text. Arguments that do not fit the message are written behind it."""
        try:
            text = super().format(record)
        except (TypeError, ValueError, KeyError):
            record = logging.makeLogRecord(
                record.__dict__ | {"msg": f"{record.msg} {record.args!r}", "args": ()}
            )
            text = super().format(record)
        return self._redactor.redact_log(text).translate(_CONTROLS)


class _LineHandler(logging.Handler, ABC):
    """Formats a record into bytes and hands them to ``write_line``; whatever fails, nothing is said."""

    def emit(self, record: logging.LogRecord) -> None:
        """Write the record, or drop it."""
        try:
            self.write_line(self.format(record).encode("utf-8", "backslashreplace") + b"\n")
        except Exception:  # noqa: BLE001 - the one wall without words: it is the words that failed
            self.handleError(record)

    @abstractmethod
    def write_line(self, line: bytes) -> None:
        """Write one line. May raise ``OSError``."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the standard library's name
        """Say nothing: the place where it would be said is the one that failed."""


class StreamHandler(_LineHandler):
    """Lines to a stream, by its descriptor where it has one.

    What does not fit now is dropped, the rest of a line included, and the next line begins a new one. The
    flags of the descriptor are never touched: it is shared with whoever started us. So a pipe or a terminal
    is opened once more, without blocking; all else is written to only while it says that it has room.
    """

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._fd = _descriptor(stream)
        self._own = None if self._fd is None else _opened_again(self._fd)
        self._torn = False
        self._poll: Any = None
        if self._fd is not None:
            self._poll = select.poll()
            self._poll.register(self._fd, select.POLLOUT)

    def write_line(self, line: bytes) -> None:
        """Write what there is room for now."""
        if self._fd is None:
            self._stream.write(line.decode("utf-8"))
            self._stream.flush()
            return
        if self._torn:
            line = b"\n" + line
        if self._own is None:
            self._write_polled(self._fd, line)
            return
        try:
            self._torn = os.write(self._own, line) < len(line)
        except BlockingIOError:
            pass  # nothing was taken; a torn line is still torn

    def close(self) -> None:
        """Give back what was opened here; the stream is its owner's."""
        if self._own is not None:
            os.close(self._own)
            self._own = None
        super().close()

    def _write_polled(self, fd: int, line: bytes) -> None:
        for start in range(0, len(line), select.PIPE_BUF):
            # A pipe or socket that polls writable has room for PIPE_BUF bytes, so this does not wait.
            if not self._poll.poll(0):
                self._torn = self._torn or start > 0
                return
            os.write(fd, line[start : start + select.PIPE_BUF])
            self._torn = start + select.PIPE_BUF < len(line)


class FileHandler(_LineHandler):
    """Lines to ``FILES`` files of at most ``MAX_FILE_BYTES``, 0600, shared by several processes.

    Nothing is opened before the first line. A line is one ``write`` in append mode, so lines of two
    processes do not mix. Rotating is done under a lock by whoever finds the file full; others write on
    meanwhile, and then find another file under the name and go on with that.
    """

    def __init__(self, directory: str, *, max_bytes: int = MAX_FILE_BYTES, files: int = FILES) -> None:
        super().__init__()
        self._directory = directory
        self._path = os.path.join(directory, "term2.log")
        self._max_bytes = max_bytes
        self._files = files
        self._fd = -1

    def write_line(self, line: bytes) -> None:
        """Append the line, to a new file when it does not fit."""
        if self._fd < 0:
            self._open()
        size = os.fstat(self._fd).st_size
        if size and size + len(line) > self._max_bytes:
            self._rotate(len(line))
        os.write(self._fd, line)

    def close(self) -> None:
        """Close the file. A later line opens it again."""
        with self.lock or contextlib.nullcontext():
            self._close_file()
        super().close()

    def _open(self) -> None:
        # The directory may be missing still, and nothing is imported for a log that stays empty.
        from term2_acp.store.private import make_directory, open_file

        make_directory(self._directory)
        self._fd = open_file(self._path, os.O_WRONLY | os.O_APPEND)

    def _close_file(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _rotate(self, room: int) -> None:
        from term2_acp.store.private import open_file  # as in _open

        lock = open_file(os.path.join(self._directory, ".rotate"), os.O_RDWR)
        try:
            # Not waited for: whoever has it may have been stopped. The file grows a little too long.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Another process may have rotated since: look at what has the name now.
            self._close_file()
            self._open()
            size = os.fstat(self._fd).st_size
            if size and size + room > self._max_bytes:
                self._close_file()
                self._shift()
                self._open()
        except BlockingIOError:
            pass
        finally:
            os.close(lock)

    def _shift(self) -> None:
        names = [self._path, *(f"{self._path}.{number}" for number in range(1, self._files))]
        for older, newer in pairwise(reversed(names)):
            with contextlib.suppress(FileNotFoundError):
                os.replace(newer, older)


def _descriptor(stream: TextIO) -> int | None:
    try:
        return stream.fileno()
    except (OSError, AttributeError, ValueError):  # a stream in memory, or none at all
        return None


def _opened_again(fd: int) -> int | None:
    """A non-blocking description of our own for the same pipe or terminal; None where there is none.

    Asking first whether there is room is not enough for either: a terminal that has room for one byte says
    yes, and another process may fill a shared pipe between the question and the write.
    """
    try:
        if not (stat.S_ISFIFO(os.fstat(fd).st_mode) or os.isatty(fd)):
            return None
        return os.open(f"/proc/self/fd/{fd}", os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # no such folder here, or the pipe belongs to another user
        return None
