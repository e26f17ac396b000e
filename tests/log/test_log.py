"""Log lines: what they look like, what is taken out of them, and that neither a reader who does not read
nor a full disk nor another process can hold the program up or lose more than lines."""

import fcntl
import io
import logging
import os
import re
import subprocess
import sys
import threading

import pytest

from term2_acp.log import FileHandler, LineFormatter, StreamHandler, log_directory, set_up
from term2_acp.redact import Redactor

KEY = "our-very-own-key"


@pytest.fixture(autouse=True)
def _root():
    """The root logger, afterwards as it was."""
    root = logging.getLogger()
    level = root.level
    yield
    for handler in root.handlers[:]:
        if isinstance(handler, StreamHandler | FileHandler):
            root.removeHandler(handler)
            handler.close()
    root.setLevel(level)


def record(message, *arguments):
    """A record for a handler alone: pytest's own handlers raise where ours keeps silent."""
    return logging.LogRecord("t", logging.WARNING, __file__, 1, message, arguments, None)


@pytest.fixture
def own():
    """Our handler without a logger, and its stream."""
    stream = io.StringIO()
    handler = StreamHandler(stream)
    handler.setFormatter(LineFormatter(Redactor([KEY])))
    return handler, stream


def lines(stream):
    return stream.getvalue().splitlines()


def test_a_line_has_time_level_and_logger():
    stream = io.StringIO()
    set_up("info", stream, Redactor())
    logging.getLogger("term2_acp.store.x").info("kept %d rows", 3)
    (line,) = lines(stream)
    assert line.endswith(" INFO term2_acp.store.x: kept 3 rows")
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z ", line)


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("debug", 5),
        ("INFO", 4),
        ("warning", 3),
        ("", 3),
        (" error ", 2),
        ("critical", 1),
    ],
)
def test_the_level_decides_what_is_shown(level, shown):
    stream = io.StringIO()
    set_up(level, stream, Redactor())
    log = logging.getLogger("t")
    for say in (log.debug, log.info, log.warning, log.error, log.critical):
        say("x")
    assert len(lines(stream)) == shown


@pytest.mark.parametrize("level", ["loud", "10", "NOTSET"])
def test_a_bad_level_is_warning_and_is_said(level):
    stream = io.StringIO()
    set_up(level, stream, Redactor())
    logging.getLogger("t").info("hidden")
    (line,) = lines(stream)
    assert (
        f"TERM2_LOG_LEVEL: {level!r} is not one of debug, info, warning, error, critical; using warning"
        in line
    )


def test_setting_up_again_takes_the_place_of_the_first():
    first, second = io.StringIO(), io.StringIO()
    set_up("warning", first, Redactor())
    set_up("warning", second, Redactor())
    logging.getLogger("t").warning("x")
    assert (len(lines(first)), len(lines(second))) == (0, 1)


def test_keys_and_what_looks_like_one_are_taken_out_tracebacks_included():
    stream = io.StringIO()
    set_up("warning", stream, Redactor([KEY]))
    log = logging.getLogger("t")
    try:
        raise RuntimeError(f"refused {KEY}")
    except RuntimeError:
        log.exception("with %s and Bearer abcdef12345", KEY)
    text = stream.getvalue()
    assert KEY not in text
    assert "abcdef12345" not in text
    assert "RuntimeError: refused [redacted]" in text
    assert "with [redacted] and Bearer [redacted]" in text


def test_a_line_cannot_move_the_cursor_or_be_forged_by_a_carriage_return():
    stream = io.StringIO()
    set_up("warning", stream, Redactor())
    logging.getLogger("t").warning("a\x1b[2Jb\rc\x00d\x9b\ud800\te")
    assert stream.getvalue().endswith("a\\x1b[2Jb\\x0dc\\x00d\\x9b\\ud800\te\n")


def test_arguments_that_do_not_fit_are_shown_rather_than_lost(own):
    handler, stream = own
    handler.handle(record("only %d", "text", KEY))
    (line,) = lines(stream)
    assert line.endswith("only %d ('text', '[redacted]')")


def test_a_line_that_cannot_be_written_is_dropped_in_silence(capfd):
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "w") as broken:
        set_up("warning", broken, Redactor())
        logging.getLogger("t").warning("nobody reads this")
    logging.getLogger("t").warning("the stream is closed")
    closed = io.StringIO()
    closed.close()
    set_up("warning", closed, Redactor())
    logging.getLogger("t").warning("this one too")
    assert capfd.readouterr() == ("", "")


class Unprintable:
    def __str__(self):
        raise ZeroDivisionError

    __repr__ = __str__


def test_an_argument_that_cannot_be_shown_costs_its_line_only(own, capfd):
    handler, stream = own
    handler.handle(record("%s", Unprintable()))
    handler.handle(record("next"))
    assert [line.split(": ")[1] for line in lines(stream)] == ["next"]
    assert capfd.readouterr() == ("", "")


def read_all(fd):
    os.set_blocking(fd, False)
    parts = []
    while True:
        try:
            part = os.read(fd, 1 << 16)
        except BlockingIOError:
            return b"".join(parts)
        if not part:
            return b"".join(parts)
        parts.append(part)


def test_a_reader_that_does_not_read_holds_nothing_up():
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream:
        handler = StreamHandler(stream)
        handler.setFormatter(LineFormatter(Redactor()))
        for number in range(300):  # far more than a pipe holds; blocking would hang the test
            handler.handle(record("%d %s", number, "x" * 1000))
        got = read_all(read)
        assert 30_000 < len(got) <= 1 << 17
        assert os.get_blocking(write)
        handler.handle(record("read again"))
        assert read_all(read).endswith(b" WARNING t: read again\n")
    os.close(read)


def test_a_terminal_that_nobody_reads_holds_nothing_up():
    # It says that it has room while it has none for a line: a write that may wait would hang the test.
    keyboard, terminal = os.openpty()
    with os.fdopen(terminal, "w") as stream:
        handler = StreamHandler(stream)
        for number in range(300):
            handler.write_line(b"%d " % number + b"x" * 1000 + b"\n")
        got = read_all(keyboard)
        assert got.startswith(b"0 xxx")
        assert os.get_blocking(terminal)
        handler.write_line(b"read again\n")
        assert read_all(keyboard).endswith(b"read again\r\n")
        handler.close()
    os.close(keyboard)


def test_a_pipe_that_another_fills_meanwhile_holds_nothing_up():
    class Filled(StreamHandler):
        """Between any question about its pipe and the write, another process fills the pipe."""

        def write_line(self, line):
            with os.fdopen(os.open(f"/proc/self/fd/{write}", os.O_WRONLY | os.O_NONBLOCK), "wb", 0) as other:
                while other.write(b"o" * 4096):
                    pass
            super().write_line(line)

    read, write = os.pipe()
    with os.fdopen(write, "w") as stream:
        handler = Filled(stream)
        handler._poll = type("AlwaysRoom", (), {"poll": lambda self, timeout: [(write, 4)]})()
        handler.write_line(b"no room\n")
        assert set(read_all(read)) == {ord("o")}
        assert os.get_blocking(write)
        handler.close()
    os.close(read)


def test_closing_the_handler_leaves_the_stream_open():
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream:
        before = len(os.listdir("/proc/self/fd"))
        handler = StreamHandler(stream)
        handler.write_line(b"said\n")
        handler.close()
        handler.close()
        assert len(os.listdir("/proc/self/fd")) == before
        stream.write("still open\n")
    assert read_all(read) == b"said\nstill open\n"
    os.close(read)


def test_a_line_that_was_torn_does_not_swallow_the_next():
    read, write = os.pipe()
    with os.fdopen(write, "w") as stream:
        handler = StreamHandler(stream)
        handler.write_line(b"x" * (1 << 21) + b"\n")
        got = read_all(read)
        assert set(got) == {ord("x")}
        handler.write_line(b"next\n")
        assert read_all(read) == b"\nnext\n"
        handler.write_line(b"and on\n")
        assert read_all(read) == b"and on\n"
    os.close(read)


def test_a_line_that_the_pipe_can_hold_arrives_whole():
    read, write = os.pipe()
    line = b"y" * 50_000 + b"\n"
    with os.fdopen(write, "w") as stream:
        StreamHandler(stream).write_line(line)
        assert read_all(read) == line
    os.close(read)


def test_files_are_private_lazy_and_bounded(tmp_path):
    old = os.umask(0)
    try:
        directory = log_directory(str(tmp_path / "state"))
        handler = FileHandler(directory, max_bytes=1000, files=3)
        assert not os.path.exists(tmp_path / "state")
        for number in range(100):
            handler.write_line(b"%03d " % number + b"x" * 95 + b"\n")
        handler.close()
    finally:
        os.umask(old)
    assert sorted(os.listdir(directory)) == [".rotate", "term2.log", "term2.log.1", "term2.log.2"]
    for path in (tmp_path / "state", tmp_path / "state" / "logs"):
        assert path.stat().st_mode & 0o777 == 0o700
    kept = b""
    for name in ("term2.log.2", "term2.log.1", "term2.log"):
        path = os.path.join(directory, name)
        assert os.stat(path).st_mode & 0o777 == 0o600
        assert os.stat(path).st_size <= 1000
        with open(path, "rb") as file:
            kept += file.read()
    numbers = [int(line[:3]) for line in kept.splitlines()]
    assert numbers == list(range(100 - len(numbers), 100))
    assert len(numbers) >= 19


def test_a_line_larger_than_a_file_is_written_all_the_same(tmp_path):
    handler = FileHandler(str(tmp_path), max_bytes=10, files=2)
    handler.write_line(b"a" * 50 + b"\n")
    handler.write_line(b"b" * 50 + b"\n")
    handler.close()
    assert (tmp_path / "term2.log").read_bytes() == b"b" * 50 + b"\n"
    assert (tmp_path / "term2.log.1").read_bytes() == b"a" * 50 + b"\n"


WRITE = """
import sys
from term2_acp.log import FileHandler
handler = FileHandler(sys.argv[1], max_bytes=4050, files=50)
for number in range(300):
    handler.write_line(b"%s %03d\\n" % (sys.argv[2].encode() * 40, number))
"""


def test_processes_share_the_files_without_losing_a_line(tmp_path):
    processes = [subprocess.Popen([sys.executable, "-c", WRITE, str(tmp_path), name]) for name in "abc"]
    for process in processes:
        assert process.wait() == 0
    seen = []
    for path in tmp_path.glob("term2.log*"):
        seen += path.read_text().splitlines()
    assert sorted(seen) == sorted(f"{name * 40} {number:03}" for name in "abc" for number in range(300))


def test_a_file_that_another_has_just_begun_is_not_rotated_again(tmp_path):
    first, second = (FileHandler(str(tmp_path), max_bytes=100, files=9) for _ in range(2))
    first.write_line(b"1" * 45 + b"\n")
    second.write_line(b"2" * 45 + b"\n")
    first.write_line(b"3" * 45 + b"\n")
    second.write_line(b"4" * 45 + b"\n")
    first.close()
    second.close()
    assert (tmp_path / "term2.log.1").read_bytes() == b"1" * 45 + b"\n" + b"2" * 45 + b"\n"
    assert (tmp_path / "term2.log").read_bytes() == b"3" * 45 + b"\n" + b"4" * 45 + b"\n"


def test_a_process_that_was_stopped_while_rotating_holds_nobody_up(tmp_path):
    handler = FileHandler(str(tmp_path), max_bytes=100, files=3)
    handler.write_line(b"x" * 90 + b"\n")
    with open(tmp_path / ".rotate", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        handler.write_line(b"y" * 90 + b"\n")
    assert (tmp_path / "term2.log").stat().st_size == 182
    handler.write_line(b"z" * 90 + b"\n")
    handler.close()
    assert (tmp_path / "term2.log").read_bytes() == b"z" * 90 + b"\n"


def test_a_directory_that_cannot_be_made_costs_the_lines_only(tmp_path, capfd):
    (tmp_path / "state").write_text("in the way")
    stream = io.StringIO()
    set_up("warning", stream, Redactor(), directory=log_directory(str(tmp_path / "state")))
    logging.getLogger("t").warning("x")
    assert len(lines(stream)) == 1
    assert capfd.readouterr() == ("", "")


def test_both_places_get_the_redacted_line_from_any_thread(tmp_path):
    stream = io.StringIO()
    set_up("warning", stream, Redactor([KEY]), directory=str(tmp_path))
    thread = threading.Thread(target=lambda: logging.getLogger("t").warning("from a thread: %s", KEY))
    thread.start()
    thread.join()
    assert stream.getvalue() == (tmp_path / "term2.log").read_text()
    assert stream.getvalue().endswith("from a thread: [redacted]\n")
