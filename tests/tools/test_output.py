"""Head and tail of a long output: what is kept is exact, what is left out is counted, memory is bounded, and
no cut ever goes through a character, whatever pieces the bytes came in."""

import itertools
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.tools.output import HeadAndTail, Kept


def kept_of(pieces, head, tail):
    output = HeadAndTail(head, tail)
    for piece in pieces:
        output.feed(piece)
    return output.kept()


def pieces_of(data, cuts):
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[start:end] for start, end in itertools.pairwise(places)]


CUTS = st.lists(st.integers(0, 10_000), max_size=20)


@given(st.binary(max_size=400), CUTS, st.integers(1, 60), st.integers(1, 60))
def test_what_is_kept_is_the_beginning_and_the_end_and_the_rest_is_counted(data, cuts, head, tail):
    kept = kept_of(pieces_of(data, cuts), head, tail)
    assert len(kept.head) + len(kept.tail) + kept.left_out == len(data)
    assert data.startswith(kept.head)
    assert data.endswith(kept.tail)
    if len(data) <= head + tail:
        assert kept == Kept(data)
        return
    # A cut takes at most the three bytes that a character may have had on its other side.
    assert head - 3 <= len(kept.head) <= head
    assert tail - 3 <= len(kept.tail) <= tail


@given(st.text(max_size=300), CUTS, st.integers(1, 60), st.integers(1, 60))
def test_text_is_never_cut_inside_a_character(text, cuts, head, tail):
    kept = kept_of(pieces_of(text.encode(), cuts), head, tail)
    assert text.startswith(kept.head.decode())
    assert text.endswith(kept.tail.decode())


@given(st.binary(max_size=100), CUTS)
def test_short_output_is_decoded_as_a_whole(data, cuts):
    kept = kept_of(pieces_of(data, cuts), 60, 60)
    text = data.decode(errors="replace").replace("\0", "␀")
    assert kept.text("note") == text or "times]" in kept.text("note")
    assert kept.joined("note") == data


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"x\xe2\x80\x94 y", "x— y"),
        (b"whole \xf0\x9d\x84", "whole \ufffd"),  # a process that ended in the middle of a character
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"a\0b\0", "a␀b␀"),
        (b"\x1b[31mred\x1b[0m\r\n", "\x1b[31mred\x1b[0m\r\n"),
        (b"", ""),
        (b"a" + b"\0" * 15 + b"b" * 20, "a" + "␀" * 15 + "b" * 20),
        (b"a" + b"\0" * 60 + b"\xff" * 16 + b"b", "a␀[60 times]\ufffd[16 times]b"),
    ],
)
def test_what_bytes_become(data, text):
    assert kept_of([bytes([byte]) for byte in data], 100, 100).text("") == text


def test_the_note_stands_where_something_is_left_out():
    kept = kept_of([b"first line\n", b"x" * 100, b"\nlast line"], 11, 9)
    assert kept == Kept(b"first line\n", b"last line", 101)
    assert kept.text("101 bytes left out") == "first line\n\n[101 bytes left out]\nlast line"
    assert kept.joined("…") == "first line\n\n[…]\nlast line".encode()


def test_garbage_at_a_cut_is_kept_but_for_what_looks_like_half_a_character():
    kept = kept_of([b"\xff" * 10 + b"\x80" * 10], 5, 5)
    assert kept == Kept(b"\xff" * 4, b"\x80" * 2, 14)


def test_one_character_is_longer_than_the_bounds():
    assert kept_of(["𝄞𝄞".encode()], 3, 3) == Kept(b"", b"", 8)


@pytest.mark.parametrize("size", [1, 7, 4096, 65536])
def test_memory_is_bounded_whatever_the_pieces(size):
    output = HeadAndTail(1000, 2000)
    piece = b"x" * size
    for _ in range(20_000 // size + 10):
        output.feed(piece)
        assert sys.getsizeof(output._head) + sys.getsizeof(output._tail) < 10_000
    assert output.total == size * (20_000 // size + 10)
