"""Values made fit for a frame: whole characters, numbers that JSON has, text split and never cut."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.acp.fit import encode, json_safe, shorten, split_text, whole_characters

TEXT = st.text(st.one_of(st.characters(), st.sampled_from('"\\\n\x00\x1fé你🙂')), max_size=400)

# The same examples in every run, and no clock: the machine may be busy.
steady = settings(deadline=None, derandomize=True)


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("plain", "plain"),
        ("é🙂", "é🙂"),
        ("a\ud800b", "a\ufffdb"),
        ("\udcff", "\ufffd"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        # A character that came in two halves is that character.
        ("\ud83d\ude42", "🙂"),
        ("\ud83d\ude42\ud83d", "🙂\ufffd"),
    ],
)
def test_lone_surrogates_are_replaced(text, whole):
    assert whole_characters(text) == whole
    assert json.loads(encode({"a": text, "b": [text]})) == {"a": whole, "b": [whole]}


def nested(levels):
    value = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "safe"),
    [
        ({"a": [1, 2.5, True, None, "x"]}, {"a": [1, 2.5, True, None, "x"]}),
        ((1, {"b": ()}), [1, {"b": []}]),
        (float("nan"), "nan"),
        ([float("inf"), float("-inf")], ["inf", "-inf"]),
        (2**70, 2**70),
        (2**1030, hex(2**1030)),
        ({1: "a", "\ud800": "\ud800"}, {"1": "a", "\ufffd": "\ufffd"}),
        (object(), "(object)"),
        (b"x", "(bytes)"),
        (nested(99), nested(99)),
    ],
)
def test_raw_values_become_json(value, safe):
    assert json_safe(value) == safe
    assert json.loads(encode(json_safe(value))) == safe


def test_what_is_nested_deeper_than_receivers_take_says_so():
    value = json_safe(nested(100_000))
    for _ in range(100):
        (value,) = value
    assert value == "(nested too deeply to show)"


@steady
@given(TEXT, st.integers(8, 80))
def test_pieces_fit_and_joined_are_the_text(text, room):
    text = whole_characters(text)
    pieces = list(split_text(text, room))
    assert "".join(pieces) == text
    assert all(piece for piece in pieces)
    assert all(len(encode(piece)) <= room for piece in pieces)


def test_plain_text_is_split_into_as_few_pieces_as_it_takes():
    assert [len(piece) for piece in split_text("a" * 1000, 102)] == [100] * 10
    assert len(list(split_text("é" * 1000, 102))) <= 21


@steady
@given(TEXT, st.integers(64, 400))
def test_a_label_fits_and_says_what_is_missing(text, room):
    short = shorten(text, room)
    assert len(encode(short)) <= room
    if short != whole_characters(text):
        kept, note = short.rsplit("… ", 1)
        assert note == f"({len(whole_characters(text))} characters in all)"
        assert whole_characters(text).startswith(kept)
