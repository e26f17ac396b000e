"""The event-stream parser: whatever way the bytes are cut, the events are the same, their text is exact, and
memory is bounded. Right values come from a plain reference that sees the whole text at once."""

import itertools
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from term2_acp.web.sse import EventTooLong, SseEvent, SseParser


def parse(*chunks: bytes) -> list[tuple[str, bytes]]:
    parser = SseParser()
    events = [event for chunk in chunks for event in parser.feed(chunk)]
    return [(event.name, event.data) for event in [*events, *parser.finish()]]


def reference(stream: bytes) -> list[tuple[str, bytes]]:
    """The same, from the standard's prose, with everything at hand at once."""
    stream = stream.removeprefix(b"\xef\xbb\xbf")
    events: list[tuple[str, bytes]] = []
    name, data = b"", []
    for line in [*re.split(rb"\r\n|\n|\r", stream), b""]:
        if not line:
            if data:
                events.append((name.decode(errors="replace") or "message", b"\n".join(data)))
            name, data = b"", []
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value.startswith(b" ") else value
        if field == b"event":
            name = value
        elif field == b"data":
            data.append(value)
    return events


TEXT = "a\u2028b\u2029c\u0085d\u000be\u000cf\u001cg — 𝄞 \u00a0".encode()


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_text_is_exact_whatever_the_cut_and_the_line_end(end: bytes, size: int) -> None:
    stream = b"\xef\xbb\xbf" + b": hello" + end + b"data: " + TEXT + end + end
    stream += b"event: error" + end + b"data:one" + end + b"data:  two" + end + b"data" + end + end
    pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
    assert parse(*pieces) == [("message", TEXT), ("error", b"one\n two\n")]


def test_an_event_is_complete_when_its_blank_line_is_and_not_later() -> None:
    parser = SseParser()
    assert parser.feed(b"data: 1\r\n\r") == [SseEvent("message", b"1")]
    assert parser.feed(b"\ndata: 2\n") == []
    assert parser.feed(b"\n") == [SseEvent("message", b"2")]


def test_a_crlf_cut_in_two_is_one_line_end() -> None:
    assert parse(b"data: 1\r", b"\ndata: 2\r", b"\n\r", b"\n") == [("message", b"1\n2")]
    assert parse(b"data: 1\r", b"", b"\n", b"data: 2\n\n") == [("message", b"1\n2")]


def test_comments_are_counted_and_are_no_events() -> None:
    parser = SseParser()
    assert parser.feed(b": keep-alive\n\n:\n\n: x\n") == []
    assert parser.comments == 3


def test_the_name_of_an_event_without_data_does_not_stick() -> None:
    assert parse(b"event: error\n\ndata: 1\n\n") == [("message", b"1")]


def test_a_last_event_without_its_blank_line_is_not_lost() -> None:
    assert parse(b"data: 1\n\ndata: [DONE]") == [("message", b"1"), ("message", b"[DONE]")]
    assert parse(b"data: 1\n") == [("message", b"1")]


def test_a_byte_order_mark_counts_at_the_start_only() -> None:
    assert parse(b"\xef", b"\xbb\xbfdata: 1\n\n\xef\xbb\xbfdata: 2\n\n") == [("message", b"1")]


@pytest.mark.parametrize(
    "piece",
    [b"x" * 7, b"data: " + b"x" * 7 + b"\n", b"data\n", b"data:\n"],
    ids=["endless line", "endless event", "bare data", "empty data"],
)
def test_an_event_without_end_is_bounded(piece: bytes) -> None:
    parser = SseParser(max_event_bytes=1000)

    def feed_for_ever() -> None:
        for _ in range(2000):
            parser.feed(piece)

    with pytest.raises(EventTooLong):
        feed_for_ever()


def test_many_events_are_not_one_long_event() -> None:
    parser = SseParser(max_event_bytes=100)
    for _ in range(100):
        assert parser.feed(b"data: " + b"x" * 50 + b"\n") == []
        assert len(parser.feed(b"\n")) == 1
        for byte in b": " + b"c" * 60 + b"\n":
            parser.feed(bytes([byte]))


def test_a_line_in_many_pieces_costs_linear_time() -> None:
    # 4 MiB byte by byte would be 8 TiB of copying if each piece joined what came before.
    parser = SseParser()
    for _ in range(64 * 1024):
        parser.feed(b"x" * 64)
    assert parser.feed(b"\n\n") == []


LINES = st.lists(
    st.one_of(
        st.sampled_from(
            [b"", b"data", b"data:", b"data: ", b": c", b"event: e", b"id: 1", b"retry: 5", b"junk"]
        ),
        st.text(alphabet="ab :\u2028\u0085é𝄞\x00\x0b").map(lambda text: b"data: " + text.encode()),
    )
)


@given(
    lines=LINES,
    ends=st.lists(st.sampled_from([b"\n", b"\r", b"\r\n"]), min_size=1),
    bom=st.booleans(),
    cuts=st.lists(st.integers(0, 400)),
)
@example(lines=[b"data: x", b""], ends=[b"\r"], bom=True, cuts=[1, 2])
def test_any_cut_of_any_stream_gives_the_events_of_the_whole(
    lines: list[bytes], ends: list[bytes], bom: bool, cuts: list[int]
) -> None:
    stream = b"\xef\xbb\xbf" if bom else b""
    stream += b"".join(line + ends[i % len(ends)] for i, line in enumerate(lines))
    at = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    pieces = [stream[a:b] for a, b in itertools.pairwise(at)]
    assert b"".join(pieces) == stream
    assert parse(*pieces) == reference(stream)


@given(st.lists(st.binary(max_size=30)))
def test_no_bytes_raise(chunks: list[bytes]) -> None:
    assert parse(*chunks) == reference(b"".join(chunks))
