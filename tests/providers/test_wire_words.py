"""Words that all wires share. What they come to on a wire is in the tests of each; here is what holds of any
input: a name and an id that every server takes, arguments that are an object, and the same each time."""

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.providers.wire_words import (
    CUT_NOTE,
    CallIds,
    encode,
    function_name,
    marked_if_cut,
    object_arguments,
)

anything = st.text(st.characters(codec=None, exclude_categories=()), max_size=80)


@settings(deadline=None)
@given(anything)
def test_names_and_arguments(text: str) -> None:
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", function_name(text))
    assert isinstance(json.loads(object_arguments(text)), dict)


def test_good_words_stay_as_they_are() -> None:
    assert function_name("read_file-2") == "read_file-2"
    assert object_arguments('{ "a":1 }') == '{ "a":1 }'


@settings(deadline=None)
@given(st.lists(anything, max_size=20))
def test_ids_differ_and_follow_from_the_history_alone(ids: list[str]) -> None:
    first, second = CallIds(), CallIds()
    made = [first.of_call(one) for one in ids]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", one) for one in made)
    assert [second.of_call(one) for one in ids] == made
    last = dict(zip(ids, made, strict=True))
    assert [first.of_result(one) for one in ids] == [last[one] for one in ids]


def test_a_cut_is_marked() -> None:
    assert marked_if_cut("half", cut=True) == f"half\n{CUT_NOTE}"
    assert marked_if_cut("", cut=True) == CUT_NOTE
    assert marked_if_cut("whole", cut=False) == "whole"


@settings(deadline=None)
@given(st.recursive(anything, lambda inner: st.lists(inner) | st.dictionaries(anything, inner), max_leaves=8))
def test_anything_is_written_as_json_in_utf_8(value: object) -> None:
    json.loads(encode(value).decode())
