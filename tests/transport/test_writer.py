"""The one writer. Charter: frames go out whole and in order whatever the pipe takes at a time; what one
round of the loop produced is one write; nobody waits for a client that is gone; and a frame is never left
lying while the loop sleeps."""

import logging

import pytest
import trio

from term2_acp.transport.streams import PeerGone
from term2_acp.transport.writer import GATHER_BYTES, MAX_AGE_S, WRITER_BACKLOG, Writer
from tests.kit.streams import Wire


def frame(n):
    return b'{"n":%d}' % n


async def test_what_one_round_produced_is_one_write(nursery):
    wire = Wire()
    writer = Writer(wire.outgoing)
    await nursery.start(writer.run)
    for n in range(100):
        writer.send_nowait(frame(n))
    assert wire.received == b""
    await trio.sleep(0.001)

    assert wire.received == b"".join(frame(n) + b"\n" for n in range(100))
    assert len(wire.outgoing.writes) == 1


async def test_much_is_written_before_the_loop_waits(nursery):
    wire = Wire()
    writer = Writer(wire.outgoing)
    await nursery.start(writer.run)
    for _ in range(100):
        writer.send_nowait(b"x" * 1_023)
    assert len(wire.outgoing.writes) == 2
    assert wire.outgoing.writes[0] == GATHER_BYTES
    await writer.drained()

    assert len(wire.received) == 100 * 1_024


async def test_a_busy_loop_gathers_and_does_not_wait_for_ever(nursery):
    wire = Wire()
    writer = Writer(wire.outgoing)
    await nursery.start(writer.run)
    writer.send_nowait(frame(1))
    started = trio.current_time()
    for _ in range(1_000_000):
        await trio.lowlevel.checkpoint()
        if wire.received:
            break

    assert trio.current_time() - started >= MAX_AGE_S
    assert wire.received == frame(1) + b"\n"


async def test_the_pipe_may_take_any_part_of_it(nursery):
    wire = Wire(capacity=7)
    writer = Writer(wire.outgoing)
    await nursery.start(writer.run)
    wire.stop_reading()
    expected = b""
    for n in range(2_000):
        writer.send_nowait(frame(n))
        expected += frame(n) + b"\n"
        if n % 97 == 0:
            wire.resume_reading()
            await trio.lowlevel.checkpoint()
            wire.stop_reading()
    wire.resume_reading()
    await writer.drained()

    assert wire.received == expected
    assert writer.queued == writer.written == len(expected)


async def test_ready_waits_while_too_much_is_unsent(nursery, autojump_clock):
    wire = Wire()
    writer = Writer(wire.outgoing)
    await nursery.start(writer.run)
    await writer.ready()
    wire.stop_reading()
    while writer.queued - writer.written <= WRITER_BACKLOG:
        await writer.ready()
        writer.send_nowait(b"x" * 65_535)
    with trio.move_on_after(60) as scope:
        await writer.ready()
    assert scope.cancelled_caught
    wire.resume_reading()
    with trio.fail_after(1):
        await writer.ready()
        await writer.drained()

    assert len(wire.received) == writer.queued


async def test_a_client_that_is_gone_is_quiet_and_nobody_waits_for_it(nursery, autojump_clock, caplog):
    wire = Wire()
    writer = Writer(wire.outgoing)
    told = trio.Event()
    calls = []
    writer.on_broken = lambda: (calls.append(1), told.set())
    await nursery.start(writer.run)
    wire.stop_reading()
    for _ in range(40):
        writer.send_nowait(b"x" * 65_536)
    waiters = (writer.ready, writer.drained, writer.progress, writer.broke)
    with trio.fail_after(60):
        async with trio.open_nursery() as waiting:
            for waiter in waiters:
                waiting.start_soon(waiter)
            await trio.sleep(10)
            assert len(waiting.child_tasks) == len(waiters)
            wire.break_()
        await told.wait()
        assert writer.broken
        for _ in range(10):
            writer.send_nowait(b"late")
        await writer.ready()
        await writer.drained()
        await writer.broke()

    assert calls == [1]
    assert caplog.records == []


async def test_the_loop_learns_of_a_break_that_a_flush_before_its_wait_finds(nursery):
    """The loop has decided how long to wait when the instrument runs; it must not sleep on."""
    wire = Wire()
    writer = Writer(wire.outgoing)
    told = trio.Event()
    writer.on_broken = told.set
    await nursery.start(writer.run)
    wire.break_()
    with trio.fail_after(10):
        await trio.sleep(0.01)  # the wake-ups of the break itself are over
        writer.send_nowait(b"x")
        sent = trio.current_time()
        await told.wait()

    assert trio.current_time() - sent < 5  # it would be 10: the next thing that wakes the loop


def test_a_full_disk_is_logged_and_ends_the_output_like_a_client_that_is_gone(caplog):
    class Full:
        def send_nowait(self, data):
            raise OSError(28, "No space left on device")

        async def send(self, data):
            raise AssertionError

        def close(self):
            pass

    writer = Writer(Full())
    writer.send_nowait(b"x")
    writer.flush_nowait()

    assert writer.broken
    [record] = caplog.records
    assert record.levelno == logging.ERROR


async def test_an_instrument_never_raises(nursery, caplog):
    class Odd:
        """Fails once in a way that nobody foresaw."""

        def __init__(self):
            self.calls = 0
            self.taken = b""

        def send_nowait(self, data):
            self.calls += 1
            if self.calls == 1:
                raise ZeroDivisionError
            self.taken += data
            return len(data)

        async def send(self, data):
            raise AssertionError

        def close(self):
            pass

    odd = Odd()
    writer = Writer(odd)
    await nursery.start(writer.run)
    writer.send_nowait(b"1")
    await trio.sleep(0.001)
    writer.send_nowait(b"2")
    await trio.sleep(0.001)

    assert writer.broken
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
    assert caplog.records[0].exc_info


async def test_a_report_that_fails_is_logged_and_hurts_no_sender(caplog):
    wire = Wire()
    writer = Writer(wire.outgoing)

    def report():
        raise ValueError

    writer.on_broken = report
    wire.break_()
    writer.send_nowait(b"x")
    writer.flush_nowait()
    await writer.broke()

    assert writer.broken
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_cancelled_it_flushes_and_takes_its_instrument_along():
    wire = Wire()
    writer = Writer(wire.outgoing)
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        writer.send_nowait(b"last")
        nursery.cancel_scope.cancel()
    assert wire.received == b"last\n"
    writer.send_nowait(b"later")
    await trio.sleep(0.001)

    assert wire.received == b"last\n"


async def test_two_writers_do_not_know_of_each_other(nursery):
    wires = [Wire(), Wire()]
    writers = [Writer(wire.outgoing) for wire in wires]
    for writer in writers:
        await nursery.start(writer.run)
    for n, writer in enumerate(writers):
        writer.send_nowait(frame(n))
    await trio.sleep(0.001)

    assert [wire.received for wire in wires] == [frame(0) + b"\n", frame(1) + b"\n"]


async def test_a_send_that_is_refused_for_good_ends_the_writer(nursery):
    class Closing:
        def send_nowait(self, data):
            return 1

        async def send(self, data):
            await trio.lowlevel.checkpoint()
            raise PeerGone

        def close(self):
            pass

    writer = Writer(Closing())
    await nursery.start(writer.run)
    writer.send_nowait(b"abc")
    with trio.fail_after(5):
        await writer.drained()

    assert writer.broken


@pytest.mark.parametrize("size", [0, 1, GATHER_BYTES - 1, GATHER_BYTES, 8 * 2**20])
async def test_frames_of_any_size_end_in_one_newline(size, nursery):
    wire = Wire()
    writer = Writer(wire.outgoing)
    await nursery.start(writer.run)
    writer.send_nowait(b"x" * size)
    writer.send_nowait(b"y")
    await writer.drained()

    assert wire.received == b"x" * size + b"\ny\n"
