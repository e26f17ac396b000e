"""What is kept of a reply: details are put together as they were cut, signatures stay as they are; what is
too large, too deep or of a strange type is not kept rather than kept in part."""

import json
from typing import Any

import pytest

from term2_acp.providers.chat.opaque import MAX_KEPT, Back, Keeper, kept_in


def details(*pieces: Any) -> Any:
    keeper = Keeper(Back.DETAILS)
    for piece in pieces:
        keeper.details(piece)
    data = keeper.data((), "reasoning", ())
    return None if data is None else json.loads(data)["details"]


def text(words: str | None, index: int | None = 0, **rest: Any) -> dict[str, Any]:
    return {"type": "reasoning.text", "text": words, "index": index, **rest}


def test_pieces_of_one_detail_are_joined() -> None:
    assert details([text("a", signature=None)], [text("b")], [text(None, signature="s")]) == [
        {"type": "reasoning.text", "text": "ab", "index": 0, "signature": "s"}
    ]


def test_details_that_do_not_continue_one_another_stay_apart() -> None:
    sealed = {"type": "reasoning.encrypted", "data": "x", "id": "rs_1", "index": 0}
    summary = {"type": "reasoning.summary", "summary": "a", "index": 0}
    assert details([text("a"), text("b", 1)]) == [text("a"), text("b", 1)]
    assert details([text("a", signature="s")], [text("b")]) == [text("a", signature="s"), text("b")]
    assert details([summary, {**summary, "summary": "b"}, sealed], [sealed]) == [
        {**summary, "summary": "ab"},
        sealed,
        sealed,
    ]


@pytest.mark.parametrize("pieces", [None, 5, {}, [5, None, "x", []], []])
def test_details_of_a_strange_type_are_not_kept(pieces: Any) -> None:
    assert details(pieces) is None


def test_very_many_pieces_cost_linear_time() -> None:
    assert details(*([text("ab")] for _ in range(100_000))) == [text("ab" * 100_000)]


def test_the_events_are_not_changed_by_what_is_made_of_them() -> None:
    first = text("a")
    details([first], [text("b")])
    assert first == text("a")


def test_what_is_too_large_or_too_deep_is_not_kept() -> None:
    assert details([text("x" * MAX_KEPT)]) is None
    deep: Any = "\ud800"
    for _ in range(20_000):
        deep = [deep]
    assert details([text("a", odd=deep)]) is None
    assert Keeper(Back.FIELD).data(["x" * MAX_KEPT], "reasoning", ()) is None


def test_signatures_are_kept_by_the_order_of_the_calls() -> None:
    keeper = Keeper(Back.SIGNATURES)
    keeper.beside({"google": {"thought_signature": "a"}})
    keeper.beside(5)
    data = keeper.data((), "reasoning", (None, {"google": {"thought_signature": "b"}}, "odd"))
    kept = kept_in(data, 3)
    assert kept is not None
    assert kept.extra == {"google": {"thought_signature": "a"}}
    assert kept.calls == [None, {"google": {"thought_signature": "b"}}, None]
    fewer = kept_in(data, 2)
    assert fewer is not None
    assert (fewer.extra, fewer.calls) == (kept.extra, [])


def test_nothing_is_nothing() -> None:
    for back in Back:
        assert Keeper(back).data((), "reasoning", (None, None)) is None
    assert kept_in(None, 0) is None
