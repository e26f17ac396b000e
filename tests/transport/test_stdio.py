"""Real descriptors as streams. Charter: pipes, terminals, sockets, files and the null device carry the
same bytes both ways, end in the same way, can always be cancelled, and no flag that anyone shares with us
is changed."""

import contextlib
import fcntl
import os
import pty
import socket
import tty

import pytest
import trio

from term2_acp.transport.stdio import open_input, open_output
from term2_acp.transport.streams import PeerGone
from term2_acp.transport.writer import Writer


def flags(fd):
    return fcntl.fcntl(fd, fcntl.F_GETFL)


def pipe_ends():
    read, write = os.pipe()
    return read, write


def socket_ends():
    ours, theirs = socket.socketpair()
    return ours.detach(), theirs.detach()


def terminal_ends():
    """What is written at the second end can be read at the first."""
    controller, terminal = pty.openpty()
    tty.setraw(terminal)
    return controller, terminal


@contextlib.contextmanager
def shared(make, ours):
    """One end for us, with a duplicate that stands for the one our parent keeps, and the other end."""
    ends = make()
    mine, theirs = ends[ours], ends[1 - ours]
    kept = os.dup(mine)
    before = flags(kept)
    assert not before & os.O_NONBLOCK
    try:
        yield mine, kept, theirs
        assert flags(kept) == before, "the flags of a shared description were changed"
        assert os.get_blocking(kept)
    finally:
        for fd in (kept, theirs):
            with contextlib.suppress(OSError):
                os.close(fd)


INPUTS = [
    pytest.param(pipe_ends, 0, id="pipe"),
    pytest.param(socket_ends, 0, id="socket"),
    pytest.param(terminal_ends, 1, id="terminal"),
]
OUTPUTS = [
    pytest.param(pipe_ends, 1, id="pipe"),
    pytest.param(socket_ends, 0, id="socket"),
    pytest.param(terminal_ends, 1, id="terminal"),
]


async def in_thread(function, *args):
    return await trio.to_thread.run_sync(function, *args, abandon_on_cancel=True)


@pytest.mark.parametrize(("make", "ours"), INPUTS)
async def test_input_is_received_as_it_comes(make, ours):
    with trio.fail_after(10), shared(make, ours) as (mine, _, theirs):
        incoming = open_input(mine)
        os.write(theirs, b"one\n")
        assert await incoming.receive() == b"one\n"
        async with trio.open_nursery() as nursery:
            received = []

            async def receive():
                received.append(await incoming.receive())

            nursery.start_soon(receive)
            await trio.testing.wait_all_tasks_blocked()
            os.write(theirs, b"two\n")
        incoming.close()

    assert received == [b"two\n"]


@pytest.mark.parametrize(("make", "ours"), [INPUTS[0], INPUTS[1]])
async def test_input_ends_when_its_writers_have_closed(make, ours):
    with trio.fail_after(10):
        ends = make()
        incoming = open_input(ends[ours])
        os.write(ends[1 - ours], b"last")
        os.close(ends[1 - ours])

        assert await incoming.receive() == b"last"
        assert await incoming.receive() == b""
        assert await incoming.receive() == b""
        incoming.close()
        incoming.close()


async def test_control_d_ends_the_input_of_a_terminal():
    with trio.fail_after(10):
        controller, terminal = pty.openpty()
        incoming = open_input(terminal)
        os.write(controller, b"line\n")
        assert await incoming.receive() == b"line\n"
        os.write(controller, b"\x04")
        assert await incoming.receive() == b""
        incoming.close()
        os.close(controller)


async def test_a_terminal_that_is_gone_ends_the_input_and_the_output():
    with trio.fail_after(10):
        controller, terminal = pty.openpty()
        incoming, outgoing = open_input(os.dup(terminal)), open_output(terminal)
        os.close(controller)

        assert await incoming.receive() == b""
        with pytest.raises(PeerGone):
            outgoing.send_nowait(b"x")


async def test_a_socket_that_was_reset_ends_the_input():
    with trio.fail_after(10):
        listener = socket.create_server(("127.0.0.1", 0))
        theirs = socket.create_connection(listener.getsockname())
        ours, _ = listener.accept()
        theirs.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        theirs.close()

        incoming = open_input(ours.detach())
        assert await incoming.receive() == b""
        incoming.close()
        listener.close()


@pytest.mark.parametrize(("make", "ours"), INPUTS)
async def test_waiting_for_input_can_be_cancelled_without_another_byte(make, ours):
    with shared(make, ours) as (mine, _, theirs):
        incoming = open_input(mine)
        with trio.move_on_after(0.05) as scope, trio.fail_after(5):
            await incoming.receive()
        assert scope.cancelled_caught
        os.write(theirs, b"kept")
        assert await incoming.receive() == b"kept"
        incoming.close()


@pytest.mark.parametrize(("make", "ours"), OUTPUTS)
async def test_a_burst_goes_out_whole_while_others_write_to_the_same_place(make, ours):
    """The description is shared with our stderr: its plain, blocking writes must not be cut short."""
    frame = b"f" * 999
    note = b"n" * 999 + b"\n"
    read = bytearray()

    def read_all(fd):
        while read.count(b"\n") < 600:
            read.extend(os.read(fd, 65_536))

    def write_notes(fd):
        return [os.write(fd, note) for _ in range(300)]

    with trio.fail_after(30), shared(make, ours) as (mine, kept, theirs):
        outgoing = open_output(mine)
        writer = Writer(outgoing)
        async with trio.open_nursery() as nursery:
            await nursery.start(writer.run)
            async with trio.open_nursery() as threads:
                threads.start_soon(in_thread, read_all, theirs)
                threads.start_soon(in_thread, write_notes, kept)
                for _ in range(300):
                    writer.send_nowait(frame)
                await writer.drained()
            nursery.cancel_scope.cancel()
        outgoing.close()

    assert len(read) == 300 * 1_000 * 2
    assert (read.count(b"f"), read.count(b"n")) == (300 * 999, 300 * 999)


@pytest.mark.parametrize(("make", "ours"), OUTPUTS)
async def test_a_reader_that_does_not_read_holds_up_nothing(make, ours):
    with trio.fail_after(20), shared(make, ours) as (mine, _, theirs):
        outgoing = open_output(mine)
        writer = Writer(outgoing)
        async with trio.open_nursery() as nursery:
            await nursery.start(writer.run)
            for n in range(200):
                writer.send_nowait(b"%06d" % n + b"x" * 10_000)
            with trio.move_on_after(0.05) as scope:
                await writer.drained()
            assert scope.cancelled_caught
            read = bytearray()

            def read_all():
                while len(read) < 200 * 10_007:
                    read.extend(os.read(theirs, 65_536))

            async with trio.open_nursery() as threads:
                threads.start_soon(in_thread, read_all)
                await writer.drained()
            nursery.cancel_scope.cancel()
        outgoing.close()

    assert [int(line[:6]) for line in bytes(read).splitlines()] == list(range(200))


@pytest.mark.parametrize(("make", "ours"), [OUTPUTS[0], OUTPUTS[1]])
async def test_a_reader_that_went_away_is_gone(make, ours):
    with trio.fail_after(10):
        ends = make()
        outgoing = open_output(ends[ours])
        os.close(ends[1 - ours])

        with pytest.raises(PeerGone):
            outgoing.send_nowait(b"x")
        with pytest.raises(PeerGone):
            await outgoing.send(memoryview(b"x"))
        outgoing.close()
        outgoing.close()
        with pytest.raises(PeerGone):
            outgoing.send_nowait(b"x")


async def test_a_reader_that_was_never_there_is_gone():
    read, write = os.pipe()
    os.close(read)
    outgoing = open_output(write)

    with trio.fail_after(10), pytest.raises(PeerGone):
        await outgoing.send(memoryview(b"x"))
    outgoing.close()


async def test_a_file_is_read_to_its_end_and_written_in_order(tmp_path):
    source, target = tmp_path / "in", tmp_path / "out"
    data = bytes(range(256)) * 1_000
    source.write_bytes(data)
    with trio.fail_after(10):
        incoming = open_input(os.open(source, os.O_RDONLY))
        outgoing = open_output(os.open(target, os.O_WRONLY | os.O_CREAT))
        received = b""
        while piece := await incoming.receive():
            received += piece
        writer = Writer(outgoing)
        async with trio.open_nursery() as nursery:
            await nursery.start(writer.run)
            writer.send_nowait(b"first")
            writer.send_nowait(b"x" * 200_000)
            writer.send_nowait(b"last")
            await writer.drained()
            nursery.cancel_scope.cancel()
        incoming.close()
        outgoing.close()

    assert received == data
    assert target.read_bytes() == b"first\n" + b"x" * 200_000 + b"\nlast\n"


async def test_the_null_device_has_ended_and_takes_everything():
    with trio.fail_after(10):
        incoming = open_input(os.open(os.devnull, os.O_RDONLY))
        outgoing = open_output(os.open(os.devnull, os.O_WRONLY))
        assert await incoming.receive() == b""
        writer = Writer(outgoing)
        async with trio.open_nursery() as nursery:
            await nursery.start(writer.run)
            writer.send_nowait(b"x" * 1_000_000)
            await writer.drained()
            nursery.cancel_scope.cancel()
        incoming.close()
        outgoing.close()


async def test_a_full_device_is_no_peer_that_is_gone():
    outgoing = open_output(os.open("/dev/full", os.O_WRONLY))
    with trio.fail_after(10), pytest.raises(OSError, match="No space left"):
        await outgoing.send(memoryview(b"x"))
    outgoing.close()


@pytest.mark.parametrize("make", [pipe_ends, terminal_ends])
async def test_a_descriptor_that_cannot_be_opened_again_is_served_by_a_thread(make, monkeypatch):
    """As on systems without ``/proc``. A read that was abandoned holds nobody up."""
    real_open = os.open

    def no_proc(path, *args, **kwargs):
        if str(path).startswith("/proc/"):
            raise FileNotFoundError(path)
        return real_open(path, *args, **kwargs)

    first, second = make()
    before = flags(first), flags(second)
    with monkeypatch.context() as patch, trio.fail_after(10):
        patch.setattr(os, "open", no_proc)
        incoming, outgoing = open_input(os.dup(first)), open_output(os.dup(second))
        assert outgoing.send_nowait(b"x") == 0
        assert await outgoing.send(memoryview(b"hello")) == 5
        assert await incoming.receive() == b"hello"
        with trio.move_on_after(0.05) as scope:
            await incoming.receive()
        assert scope.cancelled_caught
        incoming.close()
        assert await outgoing.send(memoryview(b"swallowed")) == 9  # lets the abandoned thread end
        outgoing.close()
    assert (flags(first), flags(second)) == before
    os.close(first)
    os.close(second)
