"""What a line that cannot be decoded says about itself. Charter: the members of the outermost object are
found whatever the pieces, clipped members and hostile lines cost bounded memory and time, and nothing
raises."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.jsonrpc.outline import MAX_STEPS, Outline, OutlineScanner, outline_of

REQUEST = Outline(version=True, method=True, ids=[5])


@pytest.mark.parametrize(
    ("line", "outline"),
    [
        (b'{"jsonrpc":"2.0","id":5,"method":"m"}', REQUEST),
        (b' { "method" : "m" , "id" : 5 , "jsonrpc" : "2.0" } \r', REQUEST),
        (b'{"jsonrpc":"2.0","id":5,"method":"m","params":{"id":6,"method":1,"a":[{"id":7}]}}', REQUEST),
        (b'{"jsonrpc":"2.0","\\u0069d":5,"method":"m"}', REQUEST),
        (b'{"jsonrpc":"2.0","id":5,"method":"a\\"},{\\\\","x":"\\\\"}', REQUEST),
        (b'{"jsonrpc":"2.0","id":5,"method":"m","params":["\xff"]}', REQUEST),
        (b'{"jsonrpc":"2.0","id":"5","method":"m"}', Outline(version=True, method=True, ids=["5"])),
        (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}', Outline(version=True, method=True, ids=[1, 2])),
        (b'{"jsonrpc":"2.0","id":{"a":1},"method":"m"}', Outline(version=True, method=True, ids=[[]])),
        (b'{"jsonrpc":"1.0","id":5,"method":"m"}', Outline(method=True, ids=[5])),
        (b'{"jsonrpc":"2.0","jsonrpc":"1.0","id":5}', Outline(ids=[5])),
        (b'{"jsonrpc":"2.0","id":5,"method":1}', Outline(version=True, ids=[5])),
        (b'{"jsonrpc":"2.0","id":5,"result":{"a":[}]}', Outline(version=True, answers=True, ids=[5])),
        (b'{"id":5,"error":null}', Outline(answers=True, ids=[5])),
        (b"{}", Outline()),
        (b"[]", Outline()),
        (b'"id"', Outline()),
        (b"17", Outline()),
        (b'{"id":5', Outline()),
        (b'{"id":5}{"id":6}', Outline()),
        (b'\xef\xbb\xbf{"id":5}', Outline()),
        (b'}{"id":5}', Outline()),
    ],
)
def test_the_top_level_is_read(line, outline):
    assert outline_of(line) == outline


@pytest.mark.parametrize(
    ("ids", "expected"),
    [([], None), ([0], 0), (["x"], "x"), ([None], None), ([True], None), ([1.0], None), ([1, 2], None)],
)
def test_only_a_single_valid_id_is_one(ids, expected):
    assert Outline(ids=ids).id == expected


def test_a_long_member_is_clipped_and_its_value_unknown():
    long = b"x" * 100_000
    line = b'{"jsonrpc":"2.0","method":"%s","params":"%s","id":"%s"}' % (long, long, long)

    outline = outline_of(line)

    assert outline.version
    assert outline.method
    assert len(outline.ids) == 1
    assert outline.id is None


def test_an_id_of_as_many_digits_as_the_decoder_takes_is_read():
    assert outline_of(b'{"id":%s}' % (b"9" * 4300)).id == int("9" * 4300)
    assert outline_of(b'{"id":%s}' % (b"9" * 4301)).id is None


def test_a_deep_line_has_an_outline():
    deep = b"[" * 100_000 + b"]" * 100_000

    assert outline_of(b'{"jsonrpc":"2.0","x":%s,"id":5,"method":"m"}' % deep) == REQUEST


def test_a_line_of_brackets_is_given_up():
    flat = b"[" + b"[]," * (MAX_STEPS // 3 + 1) + b"1]"

    assert outline_of(b'{"jsonrpc":"2.0","x":%s,"id":5,"method":"m"}' % flat) == Outline()


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300), st.integers(1, 20))
def test_nothing_raises_and_the_pieces_do_not_matter(data, size):
    scanner = OutlineScanner()
    for start in range(0, len(data), size):
        scanner.feed(data[start : start + size])
    pieces = scanner.close()

    assert repr(pieces) == repr(outline_of(data)) or pieces.ids == outline_of(data).ids


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text('"\\{}[]:,é', max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('ab"\\:', max_size=3), inner, max_size=3)
    ),
    max_leaves=10,
)


@settings(max_examples=60, deadline=None)
@given(params=JSON, size=st.integers(1, 9), compact=st.booleans())
def test_what_stands_in_params_does_not_matter(params, size, compact):
    message = {"p": params, "jsonrpc": "2.0", "params": params, "id": 5, "x": params, "method": "m"}
    line = json.dumps(message, separators=(",", ":") if compact else None).encode()
    scanner = OutlineScanner()
    for start in range(0, len(line), size):
        scanner.feed(line[start : start + size])

    assert scanner.close() == REQUEST
