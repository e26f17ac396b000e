"""The checks that the decoder does not make. Charter: they agree with a slow and obvious reference on
whatever JSON says, in whatever way it is written."""

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.jsonrpc.closelook import deeper_than, has_repeated_members

NAMES = st.text('ab":\\ é{[', max_size=2)
# Objects as lists of pairs, so that a name may stand in one twice.
TREES = st.recursive(
    st.integers(-3, 3) | st.text('":\\ {}[],é\t', max_size=6),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(NAMES, inner), max_size=4).map(lambda pairs: {"pairs": pairs})
    ),
    max_leaves=12,
)
SPACE = st.sampled_from(["", "", " ", "\t", " \r"])


def written(tree, draw, ensure_ascii):
    """The tree as JSON, with white space wherever it may stand."""
    match tree:
        case {"pairs": pairs}:
            members = (
                f"{json.dumps(name, ensure_ascii=ensure_ascii)}{draw(SPACE)}:{draw(SPACE)}"
                f"{written(value, draw, ensure_ascii)}"
                for name, value in pairs
            )
            return "{" + draw(SPACE) + f"{draw(SPACE)},{draw(SPACE)}".join(members) + draw(SPACE) + "}"
        case list():
            return "[" + ",".join(written(item, draw, ensure_ascii) + draw(SPACE) for item in tree) + "]"
        case _:
            return json.dumps(tree, ensure_ascii=ensure_ascii)


def repeats(tree):
    match tree:
        case {"pairs": pairs}:
            names = [name for name, _ in pairs]
            return len(set(names)) != len(names) or any(repeats(value) for _, value in pairs)
        case list():
            return any(repeats(item) for item in tree)
        case _:
            return False


@settings(max_examples=60, deadline=None)
@given(st.data(), TREES, st.booleans())
def test_repeated_members_are_found_and_nothing_else(data, tree, ensure_ascii):
    line = written([tree], data.draw, ensure_ascii).encode()

    assert has_repeated_members(line, msgspec.json.decode(line)) == repeats([tree])


def test_repeated_members_are_found_across_the_pieces_of_a_long_line():
    filler = '\\\\\\"' * 100_000 + ":"
    for names, repeated in (("ab", False), ("aa", True)):
        line = f'{{"{names[0]}":1,"x":"{filler}","{names[1]}":"{filler}"}}'

        assert has_repeated_members(line.encode(), json.loads(line)) is repeated


@pytest.mark.parametrize(
    ("tree", "depth"), [(1, 0), ([], 1), ({}, 1), ([[1], {"a": {"b": []}}], 4), ({"a": 1, "b": [2]}, 2)]
)
def test_depth_counts_containers(tree, depth):
    assert not deeper_than(depth, tree)
    if depth:
        assert deeper_than(depth - 1, tree)
