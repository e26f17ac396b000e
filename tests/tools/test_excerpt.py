"""Ranges of lines: which they are, how they are cut, and that no character is cut in two."""

import pytest

from term2_acp.tools.excerpt import MAX_BYTES, MAX_LINES, Excerpt, excerpt


@pytest.mark.parametrize(
    ("text", "first", "last", "expected"),
    [
        ("", 1, None, Excerpt("", 1, 0, 0)),
        ("a", 1, None, Excerpt("a", 1, 1, 1)),
        ("a\n", 1, None, Excerpt("a", 1, 1, 1)),
        ("a\n\n", 1, None, Excerpt("a\n", 1, 2, 2)),
        ("\n", 1, None, Excerpt("", 1, 1, 1)),
        ("a\nb\nc\n", 2, None, Excerpt("b\nc", 2, 3, 3)),
        ("a\nb\nc", 2, 2, Excerpt("b", 2, 2, 3)),
        ("a\nb\nc", 3, 9, Excerpt("c", 3, 3, 3)),
        ("a\nb", 5, None, Excerpt("", 5, 4, 2)),
        ("a\r\nb\r\n", 1, None, Excerpt("a\nb", 1, 2, 2)),
        ("a\r\nb\rc\nd", 1, None, Excerpt("a\nb\rc\nd", 1, 3, 3)),
        ("a\rb\rc", 2, 3, Excerpt("b\nc", 2, 3, 3)),
        ("a\u2028b\x0cc\nd", 1, None, Excerpt("a\u2028b\x0cc\nd", 1, 2, 2)),
    ],
)
def test_lines(text, first, last, expected):
    assert excerpt(text, first, last) == expected


def test_many_lines_are_cut_between_lines():
    part = excerpt("x\n" * (MAX_LINES + 5), 3, None)
    assert (part.first, part.last, part.total, part.cut) == (3, MAX_LINES + 2, MAX_LINES + 5, None)


def test_many_bytes_are_cut_between_lines():
    line = "é" * 500
    part = excerpt(f"{line}\n" * 200, 1, None)
    assert part.last == MAX_BYTES // 1001
    assert part.text == "\n".join([line] * part.last)
    assert len(part.text.encode()) <= MAX_BYTES


@pytest.mark.parametrize("pad", range(4))
def test_a_long_line_is_cut_between_characters(pad):
    text = "x" * pad + "𝄞" * MAX_BYTES + "\nnext"
    part = excerpt(text, 1, None)
    assert (part.first, part.last, part.total) == (1, 1, 2)
    assert part.cut == pad + 4 * MAX_BYTES
    assert text.startswith(part.text)
    assert MAX_BYTES - 4 < len(part.text.encode()) <= MAX_BYTES


def test_a_long_line_after_others_is_left_for_the_next_call():
    text = "a\n" + "x" * MAX_BYTES + "\n"
    assert excerpt(text, 1, None) == Excerpt("a", 1, 1, 2)
    assert excerpt(text, 2, None).cut == MAX_BYTES
