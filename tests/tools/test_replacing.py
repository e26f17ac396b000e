"""Literal replacement: every character means itself, and only bytes that differ change."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.tools.base import ToolError
from term2_acp.tools.replacing import MAX_MATCHES, Replacement, apply
from term2_acp.workspace import MAX_FILE_BYTES


def replaced(text, search, replace, *, match_all=False):
    return apply(text, [Replacement(search, replace, match_all)])[0]


@pytest.mark.parametrize(
    "new", ["\\1", "\\g<0>", "\\n", "$&$&", "$1", "$$", "{}", "{0}", "%s", "%", "\\\\", "&", "\0", ""]
)
@pytest.mark.parametrize("old", ["a.c", "(x)*", "[a-z]+", "^$", "\\d", "$&", "a|b", "{2}", "\\"])
def test_every_character_means_itself(old, new):
    assert replaced(f"abc {old} xyz", old, new) == f"abc {new} xyz"
    assert replaced(f"{old}abc{old}", old, new, match_all=True) == f"{new}abc{new}"


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("lf", "one\ntwo\nthree\n", "one\nTWO\nthree\n"),
        ("crlf", "one\r\ntwo\r\nthree\r\n", "one\r\nTWO\r\nthree\r\n"),
        ("mixed", "one\ntwo\r\nthree\nfour\r\n", "one\nTWO\r\nthree\nfour\r\n"),
        ("bare cr", "one\rtwo\rthree\r", "one\rTWO\rthree\r"),
        ("cr as data", "one\r\rx\ntwo\r\r\nthree\r\n", "one\r\rx\nTWO\r\r\nthree\r\n"),
        ("no final newline", "one\r\ntwo", "one\r\nTWO"),
        ("form feed", "one\x0ctwo\x0cthree\n", "one\x0cTWO\x0cthree\n"),
        ("line separator", "one\u2028two\u2029\x85three\n", "one\u2028TWO\u2029\x85three\n"),
    ],
)
def test_one_word_changes_one_word(name, text, expected):
    assert replaced(text, "two", "TWO") == expected


@pytest.mark.parametrize(
    ("text", "search", "replace", "expected"),
    [
        # A search over several lines, written with plain line ends.
        ("a\r\nb\r\nc\r\n", "a\nb", "a\nB", "a\r\nB\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "b\n", "b\nx\n", "a\r\nb\r\nx\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "a\nb\nc\n", "", ""),
        ("a\r\nb\r\nc", "b\nc", "b", "a\r\nb"),
        ("a\r\nb\r\nc\r\n", "\nb\n", "\n", "a\r\nc\r\n"),
        ("a\rb\rc\r", "a\nb", "a\nx\nb", "a\rx\rb\rc\r"),
        # Unchanged lines of a match keep the line ends they have, changed ones keep theirs in order.
        ("a\r\nb\nc\r\nd", "a\nb\nc\nd", "a\nX\nc\nd", "a\r\nX\nc\r\nd"),
        ("a\r\nb\nc\r\nd", "a\nb\nc\nd", "1\n2\n3\n4", "1\r\n2\n3\r\n4"),
        ("a\nb\r\nc\n", "b", "b\nx", "a\nb\r\nx\r\nc\n"),
        ("a\r\nb\nc\r\n", "b", "b\nx", "a\r\nb\nx\nc\r\n"),
        ("a\r\nb", "b", "b\nx", "a\r\nb\r\nx"),
        ("ab", "b", "b\nx", "ab\nx"),
        ("a\rb\r", "b", "b\nx", "a\rb\rx\r"),
        # Whoever writes \r means it.
        ("a\r\nb\r\n", "a\r\n", "a\n", "a\nb\r\n"),
        ("a\nb\n", "a\n", "a\r\n", "a\r\nb\n"),
        ("a\r\nb\r\n", "b", "b\rc", "a\r\nb\rc\r\n"),
        ("a\r\r\nb", "\r\r", "\r", "a\r\nb"),
    ],
)
def test_line_ends_follow_their_surroundings(text, search, replace, expected):
    assert replaced(text, search, replace) == expected


def test_all_matches_each_with_the_line_ends_of_its_place():
    text = "x=1\r\ny\r\nx=1\ny\nx=1"
    assert replaced(text, "x=1", "x=\n2", match_all=True) == "x=\r\n2\r\ny\r\nx=\n2\ny\nx=\n2"
    assert replaced("x\r\ny\nx\ny\r\n", "x\ny", "z", match_all=True) == "z\nz\r\n"


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b", "", "é𝄞"]), st.sampled_from(["\n", "\r\n"])), min_size=1),
    st.text("xyz\n", max_size=5),
    st.data(),
)
def test_what_stands_around_a_match_never_changes(lines, new, data):
    """Any run of whole lines that occurs once, replaced by anything."""
    text = "".join(line + end for line, end in lines)
    first = data.draw(st.integers(0, len(lines) - 1))
    last = data.draw(st.integers(first, len(lines) - 1))
    before = "".join(line + end for line, end in lines[:first])
    after = "".join(line + end for line, end in lines[last + 1 :])
    search = "".join(line + "\n" for line, _ in lines[first : last + 1])
    try:
        result = replaced(text, search, new)
    except ToolError:
        return
    assert result.startswith(before)
    assert result.endswith(after)
    middle = result[len(before) : len(result) - len(after)]
    assert middle.replace("\r\n", "\n") == new


@pytest.mark.parametrize(
    ("text", "search", "words"),
    [
        ("one\ntwo\none\n", "one", "matches 2 times, at line 1, 3. Add lines"),
        ("aaa", "aa", "matches 2 times"),
        ("x\n" * 50, "x", "matches 50 times, at line 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and others"),
        ("a\r\nb\r\na\nb\n", "a\nb\n", "matches 2 times, at line 1, 3"),
        ("a\rb\ra\r", "a", "at line 1, 3"),
        ("one\n  two\n", "one\ntwo", "first line is found at line 1"),
        ("One\n", "one", "other letter case"),
        ("one\n", "two", "Not even its first line"),
        ("a\n", "a\r\n", "first line is found at line 1"),
        ("", "x", "Not even"),
        ("x", "\n\n", "not in the file"),
        ("x", "x", "same as search_content"),
        ("x", "", "empty"),
    ],
)
def test_what_does_not_match_once_is_refused_with_what_was_found(text, search, words):
    with pytest.raises(ToolError, match=words) as caught:
        replaced(text, search, "x" if search == "x" == text else "y")
    assert str(caught.value).endswith("Nothing was changed.")


def test_replacements_apply_in_order_and_all_or_none():
    edits = [Replacement("a", "b"), Replacement("bb", "c")]
    assert apply("ab", edits) == ("c", 2)
    assert apply("a1a2", [Replacement("a", "", match_all=True)]) == ("12", 2)
    with pytest.raises(ToolError, match="Replacement 2: search_content is not in the file"):
        apply("ab", [Replacement("a", "x"), Replacement("a", "y")])


def test_growth_is_bounded_before_it_happens():
    with pytest.raises(ToolError, match="grow beyond"):
        replaced("a" * 1000, "a", "b" * (MAX_FILE_BYTES // 100), match_all=True)
    with pytest.raises(ToolError, match="more than 100,000"):
        replaced("a" * (MAX_MATCHES + 1), "a", "b", match_all=True)


@pytest.mark.parametrize(
    ("text", "search"),
    [
        ("\n" * 2_000_000, "\n" * 1000 + "x"),
        ("\r\n" * 1_000_000, "\n" * 1000 + "x"),
        ("a" * 2_000_000, "a" * 100_000 + "b"),
        ("ab" * 1_000_000, "ab" * 5_000 + "b"),
    ],
)
def test_no_text_makes_the_search_slow(text, search):
    began = time.process_time()
    with pytest.raises(ToolError):
        replaced(text, search, "y")
    assert time.process_time() - began < 2


def test_many_matches_in_a_file_of_crlf_lines_take_linear_time():
    began = time.process_time()
    result = replaced("x\r\ny\r\n" * 50_000, "x\ny\n", "z\n\n", match_all=True)
    assert time.process_time() - began < 3
    assert result == "z\r\n\r\n" * 50_000
