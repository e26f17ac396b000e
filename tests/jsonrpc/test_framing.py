"""Lines, in and out. Charter: whatever is fed, in whatever pieces, the same lines come out; one that is
too long costs one event and bounded memory; what goes out is always one line of valid UTF-8 JSON."""

import json
import tracemalloc
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from term2_acp.jsonrpc.frames import (
    batch_frame,
    call_frame,
    error_frame,
    notification_frame,
    result_frame,
)
from term2_acp.jsonrpc.framing import MAX_LINE_BYTES, LineSplitter, Overlong, encode
from term2_acp.jsonrpc.outline import Outline

MIB = 1024 * 1024


def test_lines_come_out_without_their_newlines():
    splitter = LineSplitter()

    assert splitter.feed(b'{"a":1}\n{"b":2}\n{"c"') == [b'{"a":1}', b'{"b":2}']
    assert splitter.feed(b":3}") == []
    assert splitter.feed(b"\n") == [b'{"c":3}']
    assert splitter.pending_bytes == 0


def test_blank_lines_are_nothing():
    splitter = LineSplitter()

    assert splitter.feed(b"\n\r\n   \n\t\n1\n") == [b"1"]
    assert splitter.feed(b"  ") == []
    assert splitter.feed(b"\n2\r\n") == [b"2\r"]


def test_one_byte_at_a_time():
    splitter = LineSplitter()
    data = 'x: "é"\n\n{"n":1}\n'.encode()

    lines = [line for byte in data for line in splitter.feed(bytes([byte]))]

    assert lines == ['x: "é"'.encode(), b'{"n":1}']


def test_the_last_line_needs_no_newline():
    splitter = LineSplitter()
    splitter.feed(b'{"a":1}\n{"b":2}')

    assert splitter.finish() == [b'{"b":2}']
    assert splitter.finish() == []


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=12))
def test_the_cuts_do_not_matter(data, cuts):
    splitter = LineSplitter()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]

    lines = []
    for start, end in pairwise(places):
        if start < end:
            lines += splitter.feed(data[start:end])
    lines += splitter.finish()

    assert lines == [line for line in data.split(b"\n") if line and not line.isspace()]


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=120), cuts=st.lists(st.integers(0, 120), max_size=12))
def test_the_cuts_do_not_matter_for_long_lines_either(data, cuts):
    splitter = LineSplitter(limit=8)
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]

    lines = []
    for start, end in pairwise(places):
        if start < end:
            lines += splitter.feed(data[start:end])
            assert splitter.pending_bytes <= 8
    lines += splitter.finish()

    expected = [line if len(line) <= 8 else None for line in data.split(b"\n")]
    expected = [line for line in expected if line is None or (line and not line.isspace())]
    assert [None if isinstance(line, Overlong) else line for line in lines] == expected


def test_a_line_may_be_as_long_as_the_limit():
    line = b'"' + b"a" * (MAX_LINE_BYTES - 2) + b'"'
    splitter = LineSplitter()
    for start in range(0, len(line), MIB):
        assert splitter.feed(line[start : start + MIB]) == []

    [whole] = splitter.feed(b"\n")

    assert whole == line


def test_a_line_over_the_limit_is_one_event_with_its_outline_and_the_next_one_is_served():
    splitter = LineSplitter(limit=100)
    splitter.feed(b'{"jsonrpc":"2.0","id":7,"method":"x","params":{"p":"')
    for _ in range(50):
        assert splitter.feed(b"a" * 90) == []

    lines = splitter.feed(b'"}}\n{"good":1}\n')

    assert lines == [Overlong(Outline(version=True, method=True, ids=[7])), b'{"good":1}']


def test_an_endless_line_costs_bounded_memory():
    splitter = LineSplitter()
    splitter.feed(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"p":"')
    piece = b"a" * 65_536
    tracemalloc.start()
    try:
        for _ in range(2 * MAX_LINE_BYTES // len(piece)):
            splitter.feed(piece)
            assert splitter.pending_bytes <= MAX_LINE_BYTES
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 3 * MAX_LINE_BYTES  # growing the buffer once needs the old and the new one
    assert now < MIB
    [overlong, good] = splitter.feed(b'"}}\ngood\n')
    assert isinstance(overlong, Overlong)
    assert overlong.outline.id == 1
    assert good == b"good"


# -- outgoing --------------------------------------------------------------------------------------


def test_frames_are_one_line_each_and_begin_with_the_version():
    error = RpcError(ErrorCode.BUSY, "busy", {"reason": "busy"})

    assert result_frame("1", {"a": "x\ny"}) == b'{"jsonrpc":"2.0","id":"1","result":{"a":"x\\ny"}}'
    assert error_frame(None, RpcError(ErrorCode.PARSE_ERROR, "no")) == (
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}'
    )
    assert error_frame(2, error) == (
        b'{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"busy","data":{"reason":"busy"}}}'
    )
    assert call_frame(3, "m", {}) == b'{"jsonrpc":"2.0","id":3,"method":"m","params":{}}'
    assert notification_frame("n", {"x": 1}) == b'{"jsonrpc":"2.0","method":"n","params":{"x":1}}'
    assert batch_frame([b"1", b"2"]) == b"[1,2]"


@pytest.mark.parametrize(
    "request_id", [0, -1, 2**70, pytest.param(10**4299, id="4300 digits"), "", "1", 'q"\\\n']
)
def test_ids_are_echoed_exactly(request_id):
    frame = result_frame(request_id, {})

    assert frame.count(b"\n") == 0
    assert json.loads(frame)["id"] == request_id


class Body(msgspec.Struct):
    text: str
    raw: msgspec.Raw


def test_a_lone_surrogate_is_replaced_and_a_pair_is_put_together():
    frame = encode({"a": "x\ud800y", "b": ["\udfff"], "\ud83d\ude00": "\ud83d\ude00"})

    assert json.loads(frame) == {"a": "x\ufffdy", "b": ["\ufffd"], "😀": "😀"}
    assert json.loads(encode(Body("\ud800", msgspec.Raw(b'{"k": 1}')))) == {"text": "\ufffd", "raw": {"k": 1}}


def test_what_is_no_number_is_null():
    assert encode({"a": float("nan"), "b": float("inf")}) == b'{"a":null,"b":null}'


def test_a_raw_value_cannot_break_the_line():
    frame = encode(Body("t", msgspec.Raw(b'{\n  "k":\n 1\n}')))

    assert b"\n" not in frame
    assert json.loads(frame) == {"text": "t", "raw": {"k": 1}}


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(), st.lists, max_leaves=8)
)
def test_whatever_is_encoded_is_one_line_of_json(value):
    frame = encode(value)

    assert b"\n" not in frame
    json.loads(frame.decode(), parse_constant=pytest.fail)


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(codec=None)))
def test_whatever_text_is_encoded_is_utf8(text):
    assert "\n" not in encode(text).decode()


def test_what_json_has_no_words_for_is_refused():
    with pytest.raises(TypeError):
        encode({"a": object()})
    with pytest.raises(TypeError):
        encode({"a": object(), "b": "\ud800"})
