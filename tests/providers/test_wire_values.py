"""What all wires read alike: loose JSON, arguments, counts of tokens, text that is cut within a character.

The charter: what strict JSON refuses is read or is None, and nothing here raises, whatever a server sends;
text comes out as Unicode, in order, with nothing lost but halves whose other halves never came.
"""

from typing import Any

import msgspec
import pytest

from term2_acp.providers.text import TextPieces
from term2_acp.providers.wire import Broken
from term2_acp.providers.wire_values import (
    MAX_TOKENS,
    NOT_STRICT,
    arguments_of,
    decode_loosely,
    parses,
    tokens,
    value_of,
)


class _Event(msgspec.Struct):
    delta: Any = None
    many: list[int] | None = None


LOOSE = [
    (b'{"delta": NaN}', "nan"),
    (b'{"delta": "\\ud83d"}', "'\\ud83d'"),
    (b'{"delta": "\xff"}', "'\ufffd'"),
]


@pytest.mark.parametrize(("data", "delta"), LOOSE)
def test_what_strict_json_refuses_is_read_all_the_same(data, delta):
    with pytest.raises(NOT_STRICT):
        msgspec.json.decode(data, type=_Event)
    assert repr(decode_loosely(data, _Event).delta) == delta


@pytest.mark.parametrize("data", [b"", b"no", b"[1]", b'"x"', b'{"many": 1}', b"[" * 100_000, b"\xff"])
def test_what_is_no_event_is_none(data):
    assert decode_loosely(data, _Event) is None


def test_a_value_that_is_no_json_is_its_text():
    assert value_of(b'{"a": [1]}') == {"a": [1]}
    assert value_of(b"overloaded \xff") == "overloaded \ufffd"
    assert value_of(b"[" * 100_000) == "[" * 100_000


def test_arguments_are_text_whatever_way_they_come():
    assert arguments_of(None) == ""
    assert arguments_of('{"a": 1') == '{"a": 1'
    assert arguments_of({"a": "\u00e9\ud83d"}) == '{"a":"\u00e9\ufffd"}'
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert arguments_of(deep) == Broken("sent a tool call that is nested too deep")


@pytest.mark.parametrize(
    ("text", "whole"), [("{}", True), ('{"a"', False), ('"\ud83d"', False), ("[" * 100_000, False)]
)
def test_whether_arguments_parse(text, whole):
    assert parses(text) is whole


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (0, 0),
        (7.0, 7),
        (MAX_TOKENS, MAX_TOKENS),
        (MAX_TOKENS + 1, None),
        (-1, None),
        (1.5, None),
        (float("nan"), None),
        (float("inf"), None),
        (True, None),
        ("7", None),
        (None, None),
    ],
)
def test_a_number_of_tokens_is_one_that_can_be(value, count):
    assert tokens(value) == count


@pytest.mark.parametrize(
    ("pieces", "told", "rest"),
    [
        (["a", "é"], ["a", "é"], ""),
        (["a\ud83d", "\ude00b"], ["a", "\U0001f600b"], ""),
        (["\ud83d", "", "\ude00"], ["", "", "\U0001f600"], ""),
        (["\ud83d", "x"], ["", "\ufffdx"], ""),
        (["\ude00\ud83d"], ["\ufffd"], "\ufffd"),
        ([], [], ""),
    ],
)
def test_a_pair_of_surrogates_that_was_cut_in_two_is_joined(pieces, told, rest):
    text = TextPieces()
    assert [text.take(piece) for piece in pieces] == told
    assert text.end() == rest
    assert text.end() == ""
