"""Thoughts left in the text: a mark opens them at the very beginning and nowhere else, wherever it is cut; no
character is lost or told twice."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.providers.chat.think import ThinkGate


def through(pieces: list[str]) -> tuple[str, str]:
    """All thought and all text of the pieces."""
    gate = ThinkGate()
    told = [gate.take(piece) for piece in pieces]
    told.append(gate.rest())
    return "".join(thought for thought, _ in told), "".join(text for _, text in told)


@pytest.mark.parametrize(
    ("text", "thought", "said"),
    [
        ("<think>a</think>b", "a", "b"),
        ("\n <think>\na\n</think>\n\n b\n", "\na\n", "b\n"),
        ("<think></think>b", "", "b"),
        ("<think>a < b </thin k></think>c", "a < b </thin k>", "c"),
        ("<think>a</think>b<think>c</think>", "a", "b<think>c</think>"),
        ("<think>never closed </thi", "never closed </thi", ""),
        ("x<think>a</think>", "", "x<think>a</think>"),
        ("<thinking>a</thinking>", "", "<thinking>a</thinking>"),
        ("a</think>b", "", "a</think>b"),
        ("<thin", "", "<thin"),
        ("  ", "", "  "),
        ("", "", ""),
    ],
)
def test_thoughts_and_text(text: str, thought: str, said: str) -> None:
    assert through([text]) == (thought, said)
    assert through(list(text)) == (thought, said)


marks = st.sampled_from(["<think>", "</think>", "<", "</", "think", ">", " ", "\n", "a", "b", "</thi"])


@settings(deadline=None)
@given(st.lists(marks, max_size=12).map("".join), st.lists(st.integers(0, 60), max_size=12))
def test_it_does_not_matter_where_it_is_cut(text: str, cuts: list[int]) -> None:
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    pieces = [text[start:end] for start, end in pairwise(places)]
    assert through(pieces) == through([text])


def test_text_is_not_held_back_once_it_is_text() -> None:
    gate = ThinkGate()
    assert gate.take("Hello <") == ("", "Hello <")
    assert gate.passed
    gate = ThinkGate()
    assert gate.take("<think>a <") == ("a ", "")
    assert gate.take("b") == ("<b", "")
    assert not gate.passed
