"""The channel of a program, against a program that writes anything: what is a call, what closes the channel,
and that memory, calls and turns stay bounded. The program's end of the socket is the test's; the clock jumps
where nothing but the two sockets moves.
"""

import json
import math
import socket
from contextlib import asynccontextmanager

import msgspec
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.tools.base import NestedResult
from term2_acp.tools.clock import Clock
from term2_acp.tools.program import (
    MAX_ARGUMENT_BYTES,
    MAX_CALLS,
    MAX_DEPTH,
    MAX_FRAME_BYTES,
    MAX_NAME,
    MAX_VALUES,
    READ_BYTES,
    Asked,
    Channel,
    Decoder,
    Garbage,
    answer,
    first_frame,
    refusal,
)


def frame(name="read_file", **arguments) -> bytes:
    return json.dumps({"name": name, "arguments": arguments}).encode() + b"\n"


def nested(levels: int):
    value: object = 1
    for _ in range(levels):
        value = [value]
    return value


# -- the decoder -----------------------------------------------------------------------------------


def test_a_call_in_pieces_of_any_size():
    whole = frame(path="ü\n€😀", start_line=3)
    for size in range(1, len(whole) + 1):
        decoder = Decoder()
        pieces = [whole[at : at + size] for at in range(0, len(whole), size)]
        got = [decoder.feed(piece) for piece in pieces]
        assert got[:-1] == [None] * (len(pieces) - 1)
        assert got[-1] is not None
        assert got[-1].name == "read_file"
        assert json.loads(got[-1].arguments) == {"path": "ü\n€😀", "start_line": 3}
        assert decoder.pending_bytes == 0


def test_one_call_after_another():
    decoder = Decoder()
    assert decoder.feed(frame(path="a")) == Asked("read_file", '{"path":"a"}')
    assert decoder.feed(frame("glob")) == Asked("glob", "{}")


def test_what_is_shown_is_what_runs():
    """Of a key that is there twice one is left, and white space goes."""
    asked = Decoder().feed(b'{ "name":"x", "arguments" : {"a" :1,"a": 2} }\n')
    assert asked == Asked("x", '{"a":2}')


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"x",
        b"null",
        b"17",
        b"[]",
        b"{}",
        b"{",
        b'"\xff"',
        b'{"name":"x"}',
        b'{"arguments":{}}',
        b'{"name":"x","arguments":{},"id":1}',
        b'{"name":1,"arguments":{}}',
        b'{"name":null,"arguments":{}}',
        b'{"name":"x","arguments":[]}',
        b'{"name":"x","arguments":"{}"}',
        b'{"name":"x","arguments":null}',
        b'{"name":"x","arguments":{"a":NaN}}',
        b'{"name":"x","arguments":{"a":1e999}}',
        b'{"name":"x","arguments":{"a":' + b"9" * 5000 + b"}}",
        b'{"name":"x","arguments":{"a":"\\ud800"}}',
        b'{"name":"x","arguments":{"a":"\xed\xa0\x80"}}',
        b'{"name":"x","arguments":{}} {}',
        b'{"text":"a reply to itself"}',
        b'{"name":"' + b"x" * (MAX_NAME + 1) + b'","arguments":{}}',
        json.dumps({"name": "x", "arguments": {"a": nested(MAX_DEPTH)}}).encode(),
        b'{"name":"x","arguments":' + b'{"a":' * 100_000 + b"}" * 100_001,
        b"[" * 1_000_000,
        json.dumps({"name": "x", "arguments": {"a": [0] * MAX_VALUES}}).encode(),
        b'{"name":"x","arguments":{"a":[' + b"[]," * 2_000_000 + b"[]]}}",
    ],
)
def test_what_is_no_call(line):
    with pytest.raises(Garbage):
        Decoder().feed(line + b"\n")


def test_the_bounds_are_inclusive():
    longest = "x" * MAX_NAME
    assert Decoder().feed(frame(longest)) == Asked(longest, "{}")
    assert Decoder().feed(frame(a=nested(MAX_DEPTH - 1))) is not None
    assert Decoder().feed(frame(a=[0] * (MAX_VALUES - 1))) is not None
    rest = MAX_FRAME_BYTES - len(frame(a=""))
    assert Decoder().feed(frame(a="x" * rest)) is not None
    with pytest.raises(Garbage):
        Decoder().feed(frame(a="x" * (rest + 1)))


def test_commas_in_strings_are_no_values():
    assert Decoder().feed(frame(a="[{,:" * 1_000_000)) is not None


def test_a_line_without_end_is_refused_before_it_costs_memory():
    decoder = Decoder()
    for _ in range(MAX_FRAME_BYTES // READ_BYTES):
        assert decoder.feed(b"x" * READ_BYTES) is None
    with pytest.raises(Garbage, match="in one frame"):
        decoder.feed(b"x")


def test_a_second_call_before_the_answer_to_the_first():
    with pytest.raises(Garbage, match="not answered"):
        Decoder().feed(frame() + frame())
    with pytest.raises(Garbage, match="not answered"):
        Decoder().feed(frame() + b" ")


@given(st.lists(st.binary(max_size=40), max_size=5))
def test_any_bytes_are_a_call_or_garbage(pieces):
    decoder = Decoder()
    try:
        for piece in pieces:
            decoder.feed(piece)
    except Garbage:
        pass


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=10,
    )
)
def test_any_json_value_arrives_as_it_is(value):
    try:
        line = json.dumps({"name": "x", "arguments": {"a": value}}, allow_nan=False).encode() + b"\n"
    except ValueError:
        return  # an infinity is no JSON
    asked = Decoder().feed(line)
    assert asked is not None
    assert json.loads(asked.arguments) == {"a": value}


def test_the_frames_that_we_send():
    first = json.loads(first_frame("print('\ud800')", {"grep": ("pattern", "path")}))
    assert first == {
        "code": "print('\ud800')",
        "parameters": {"grep": ["pattern", "path"]},
        "max_frame_bytes": MAX_FRAME_BYTES,
    }
    assert json.loads(answer(NestedResult("a\n\udcff", failed=False))) == {"text": "a\n\udcff"}
    assert json.loads(answer(NestedResult("no", failed=True))) == {"error": "no"}
    assert json.loads(refusal("no", last=True)) == {"error": "no", "last": True}
    long = answer(NestedResult("x" * MAX_FRAME_BYTES, failed=False))
    assert len(long) < 1000
    assert "error" in json.loads(long)
    for each in (first_frame("a\nb", {}), answer(NestedResult("a\nb\u2028", failed=False))):
        assert each.count(b"\n") == 1
        assert each.endswith(b"\n")


# -- the channel -----------------------------------------------------------------------------------


class Fake:
    """Ports whose calls take as long as a test wants. Of each open call it says how it ended."""

    def __init__(self):
        self.calls = []
        self.left = []
        self.hold = None  # calls wait for this event
        self.begun = trio.Event()

    @asynccontextmanager
    async def nesting(self):
        self.open = 0
        try:
            yield self
        finally:
            cancelled = trio.current_effective_deadline() == -math.inf
            self.left.append(("left open" if cancelled else "ended") if self.open else "nothing open")

    async def call(self, name, arguments, while_asking):
        self.open += 1
        self.calls.append((name, json.loads(arguments)))
        self.begun.set()
        if self.hold is not None:
            with while_asking():
                await self.hold.wait()
        await trio.lowlevel.checkpoint()
        self.open -= 1
        return NestedResult(f"did {name}", failed=name == "fails")


class Rig:
    def __init__(self, nursery):
        ours, theirs = socket.socketpair()
        self.ours = ours
        self.ports = Fake()
        self.clock = Clock(60)
        self.channel = Channel(ours, self.clock)
        self.theirs = trio.SocketStream(trio.socket.from_stdlib_socket(theirs))
        self.served = trio.Event()
        self.scope = trio.CancelScope()
        self.buffer = b""
        nursery.start_soon(self.serve)

    async def serve(self):
        with self.scope:
            await self.channel.serve(b"first\n", self.ports)
        self.served.set()

    async def line(self):
        while b"\n" not in self.buffer:
            data = await self.theirs.receive_some(65536)
            if not data:
                return None
            self.buffer += data
        line, _, self.buffer = self.buffer.partition(b"\n")
        return line if line == b"first" else msgspec.json.decode(line)


@pytest.fixture
async def rig(nursery):
    made = Rig(nursery)
    assert await made.line() == b"first"
    yield made
    made.theirs.socket.close()
    with trio.fail_after(20):
        await made.served.wait()
    assert made.ours.fileno() == -1, "our end is closed on every path"


async def test_calls_are_answered_in_turn(rig):
    for name in ("a", "fails", "b"):
        await rig.theirs.send_all(frame(name, x=1))
        assert await rig.line() == {"error" if name == "fails" else "text": f"did {name}"}
    await rig.theirs.send_eof()
    await rig.served.wait()
    assert rig.ports.calls == [("a", {"x": 1}), ("fails", {"x": 1}), ("b", {"x": 1})]
    assert rig.ports.left == ["nothing open"]
    assert rig.channel.calls == 3
    assert rig.channel.fault is None


async def test_the_clock_stands_still_while_the_person_is_asked(rig, autojump_clock):
    rig.ports.hold = trio.Event()
    with rig.clock.scope:
        await trio.sleep(50)
        await rig.theirs.send_all(frame())
        await rig.ports.begun.wait()
        await trio.sleep(3600 - 100)
        rig.ports.hold.set()
        assert await rig.line() == {"text": "did read_file"}
        await trio.sleep(9)
        in_time = trio.current_time()
        await trio.sleep(3600)
    assert rig.clock.expired
    assert trio.current_time() - in_time == 1


async def test_a_name_that_no_tool_has_is_not_shown(rig):
    for name in ("", "a b", "a\n", "\u202eshell", "é"):
        await rig.theirs.send_all(frame(name))
        assert await rig.line() == {"error": "There is no tool of that name.", "last": False}
    await rig.theirs.send_all(frame("mcp.server/tool-1"))
    assert await rig.line() == {"text": "did mcp.server/tool-1"}
    assert rig.channel.calls == 6
    assert len(rig.ports.calls) == 1


@pytest.mark.parametrize("junk", [b"x\n", b"\0" * 100 + b"\n", frame() + frame(), b"\n", b"{}\n"])
async def test_garbage_closes_the_channel_for_good(rig, junk):
    await rig.theirs.send_all(frame())
    assert await rig.line() == {"text": "did read_file"}
    await rig.theirs.send_all(junk)
    assert await rig.line() is None
    await rig.served.wait()
    assert rig.channel.fault
    assert len(rig.ports.calls) == 1
    assert rig.ports.left == ["nothing open"]


async def test_half_a_frame_and_an_end_are_nothing(rig):
    await rig.theirs.send_all(frame()[:-5])
    await rig.theirs.send_eof()
    await rig.served.wait()
    assert rig.ports.calls == []
    assert rig.channel.fault is None


@pytest.mark.parametrize("how", ["eof", "close"])
async def test_a_program_that_closes_its_end_ends_the_open_call(rig, how):
    rig.ports.hold = trio.Event()
    await rig.theirs.send_all(frame())
    await rig.ports.begun.wait()
    if how == "eof":
        await rig.theirs.send_eof()
    else:
        rig.theirs.socket.close()
    await rig.served.wait()
    assert rig.ports.left == ["ended"]
    assert rig.channel.fault is None


async def test_bytes_before_the_answer_end_the_open_call(rig):
    rig.ports.hold = trio.Event()
    await rig.theirs.send_all(frame())
    await rig.ports.begun.wait()
    await rig.theirs.send_all(b"x")
    assert await rig.line() is None
    await rig.served.wait()
    assert rig.ports.left == ["ended"]
    assert rig.channel.fault == "bytes before the answer to a call"


async def test_the_end_of_the_program_ends_the_open_call(rig):
    rig.ports.hold = trio.Event()
    await rig.theirs.send_all(frame())
    await rig.ports.begun.wait()
    rig.channel.close_nowait()
    await rig.served.wait()
    assert rig.ports.left == ["ended"]
    with pytest.raises(trio.BrokenResourceError):
        await rig.theirs.send_all(frame())


async def test_the_end_of_the_program_before_it_was_served(autojump_clock):
    async with trio.open_nursery() as nursery:
        rig = Rig(nursery)
        rig.channel.close_nowait()
        await rig.served.wait()
        rig.theirs.socket.close()
    assert rig.ports.left == ["nothing open"]


async def test_a_cancel_of_the_turn_leaves_the_call_to_the_turn(rig):
    rig.ports.hold = trio.Event()
    await rig.theirs.send_all(frame())
    await rig.ports.begun.wait()
    rig.scope.cancel()
    await rig.served.wait()
    assert rig.ports.left == ["left open"]


async def test_one_call_too_many_is_told_and_is_the_last(rig):
    for _ in range(MAX_CALLS):
        await rig.theirs.send_all(frame("a"))
        assert await rig.line() == {"text": "did a"}
    await rig.theirs.send_all(frame("a"))
    last = await rig.line()
    assert last["last"] is True
    assert "200 calls" in last["error"]
    assert await rig.line() is None
    await rig.served.wait()
    assert len(rig.ports.calls) == MAX_CALLS == 200
    assert rig.channel.fault is None


async def test_the_arguments_of_all_calls_are_bounded(rig):
    large = frame("a", x="x" * (MAX_FRAME_BYTES - 1000))
    made = 0
    while True:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(rig.theirs.send_all, large)
            told = await rig.line()
        if "error" in told:
            break
        made += 1
    assert told["last"] is True
    assert made == MAX_ARGUMENT_BYTES // MAX_FRAME_BYTES


async def test_who_floods_and_reads_no_answer_waits(rig):
    """Whatever is not read stays in the program's own socket: it can go on only so far."""
    rig.ports.hold = trio.Event()
    await rig.theirs.send_all(frame())
    await rig.ports.begun.wait()
    rig.ports.hold.set()  # the answer is on its way, and is never read
    sent = 0
    with trio.move_on_after(5) as waited:
        while sent < 10**9:
            try:
                await rig.theirs.send_all(frame(x="y" * 1000))
            except trio.BrokenResourceError:
                break
            sent += 1000
    assert not waited.cancelled_caught, "the flood is out of turn, and closes the channel"
    assert sent < 2_000_000
    assert len(rig.ports.calls) <= 2


async def test_who_does_not_read_a_long_answer_gets_no_other(rig):
    """The daemon waits for the reader of an answer, with that one answer in hand, and can be ended there."""
    rig.ports.call = lambda *_: _long(rig)
    await rig.theirs.send_all(frame())
    await rig.ports.begun.wait()
    await trio.testing.wait_all_tasks_blocked()
    assert not rig.served.is_set()
    rig.channel.close_nowait()
    await rig.served.wait()


async def _long(rig):
    rig.ports.begun.set()
    await trio.lowlevel.checkpoint()
    return NestedResult("x" * 4_000_000, failed=False)


async def test_a_line_without_end_closes_the_channel(rig):
    with pytest.raises(trio.BrokenResourceError):
        await rig.theirs.send_all(b"x" * 100_000_000)
    await rig.served.wait()
    assert "in one frame" in rig.channel.fault
    assert rig.ports.calls == []
