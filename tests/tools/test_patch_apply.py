"""Hunks onto texts: found by their exact lines and once, byte for byte right, and what a mismatch says."""

import difflib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.tools.base import ToolError
from term2_acp.tools.patch_apply import apply_hunks
from term2_acp.tools.patch_format import parse

CLASSES = """\
class A:
    def f(self):
        return 1

    def g(
        self,
    ):
        return 1


class B:
    def f(self):
        return 1
"""


def applied(text, *lines):
    """The text with an envelope's hunks applied."""
    (says,) = parse("\n".join(["*** Begin Patch", "*** Update File: f", *lines, "*** End Patch"]))
    return apply_hunks("f", text, says.hunks)


def unified(text, *lines):
    (says,) = parse("\n".join(["--- a/f", "+++ b/f", *lines]) + "\n")
    return apply_hunks("f", text, says.hunks)


# -- line ends -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("lf", "one\ntwo\nthree\n", "one\n2\nnew\nthree\n"),
        ("crlf", "one\r\ntwo\r\nthree\r\n", "one\r\n2\r\nnew\r\nthree\r\n"),
        ("mixed", "one\ntwo\r\nthree\n", "one\n2\r\nnew\r\nthree\n"),
        ("bare cr", "one\rtwo\rthree\r", "one\r2\rnew\rthree\r"),
        ("no final newline", "one\r\ntwo\r\nthree", "one\r\n2\r\nnew\r\nthree"),
        ("odd characters", "\x0cone\u2028\ntwo\r\nthree\x85\r", None),
    ],
)
def test_added_lines_end_as_those_around_them_and_no_other_changes(name, text, expected):
    if expected is None:
        expected = "\x0cone\u2028\n2\r\nnew\r\nthree\x85\r"
    assert applied(text, "-two", "+2", "+new") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\nb\n", "a\nx\nb\n"),
        ("a\r\nb\r\n", "a\r\nx\r\nb\r\n"),
        ("a\rb\r", "a\rx\rb\r"),
        ("a\r\nb", "a\r\nx\r\nb"),
        ("a\nb\r\n", "a\nx\r\nb\r\n"),
    ],
)
def test_an_added_line_ends_as_the_one_below_it(text, expected):
    assert applied(text, " a", "+x", " b") == expected


@pytest.mark.parametrize(
    ("lines", "old", "new"),
    [
        ((" a", "+x"), "a", "a\nx"),
        ((" a", "+x", "+y"), "q\r\na", "q\r\na\r\nx\r\ny"),
        (("-a", "+x"), "a", "x"),
        (("-a",), "q\na", "q"),
        (("-a",), "q\r\na", "q"),
        (("-q", "-a"), "q\ra", ""),
        (("-q", "-a", "+x", "+y"), "q\r\na", "x\r\ny"),
        ((" q", "-a"), "q\na\n", "q\n"),
    ],
)
def test_how_a_file_ends_is_kept(lines, old, new):
    assert applied(old, *lines) == new


@pytest.mark.parametrize(
    ("lines", "old", "new"),
    [
        (("-a", "\\ No newline at end of file", "+a"), "q\r\na", "q\r\na\r\n"),
        (("-a", "+a", "\\ No newline at end of file"), "q\na\n", "q\na"),
        (("-a", "\\ No newline at end of file", "+b", "\\ No newline at end of file"), "a", "b"),
        ((" q", "-a", "\\ No newline at end of file"), "q\na", "q\n"),
        ((" a", "+b", "\\ No newline at end of file"), "a\n", "a\nb"),
        (("-q", " a", "\\ No newline at end of file"), "q\na", "a"),
        (("-a", "\\ No newline at end of file"), "a", ""),
        (("-a", "+b", "\\ No newline at end of file"), "a", "b"),
    ],
)
def test_how_a_file_ends_is_changed_where_the_patch_says_so(lines, old, new):
    assert applied(old, *lines) == new


def test_a_patch_with_carriage_returns_is_taken_literally():
    assert unified("a\r\nb\nc\r\n", "@@ -1,3 +1,3 @@", " a\r", "-b", "+x", " c\r") == "a\r\nx\nc\r\n"
    assert unified("a\r\nb\r\n", "@@ -1,2 +1,2 @@", "-a\r", "+a", " b\r") == "a\nb\r\n"
    with pytest.raises(ToolError, match=r"differs from that in white space: 'a\\r'"):
        unified("a\r\nb\r\n", "@@ -1,2 +1,2 @@", "-a", "+a\r", " b")


def test_an_empty_file_is_filled():
    assert unified("", "@@ -0,0 +1 @@", "+a") == "a\n"
    assert applied("", "@@", "+a", "\\ No newline at end of file") == "a"


def test_lines_are_put_at_the_end():
    assert applied("a\nb\n", "@@", "+c", "*** End of File") == "a\nb\nc\n"
    assert applied("a\r\nb", "@@", "+c", "*** End of File") == "a\r\nb\r\nc"
    assert applied("a\nb\na\n", "@@", "-a", "*** End of File") == "a\nb\n"


# -- places ----------------------------------------------------------------------------------------


def test_hunks_follow_each_other():
    text = "a\nb\n" * 4
    assert (
        applied(text, " a", "-b", "+1", " a", "-b", "+2", " a", " b", " a", " b") == "a\n1\na\n2\n" + text[:8]
    )
    assert applied("a\nb\nc\nd\n", "-a", "+1", "@@", "-b", "@@", " c", "-d") == "1\nc\n"
    assert applied("a\nb", "-a", "+1", "@@", "-b") == "1"


def test_lines_match_whole():
    assert applied("xa\na\nax\n", "-a", "+b") == "xa\nb\nax\n"
    assert applied("xa\nax\na", "-a", "+b") == "xa\nax\nb"


def test_several_places_are_refused():
    with pytest.raises(
        ToolError, match=r"Hunk 1 of f \(line 3 .*\) matches in several places, at line 1, 3, 4\."
    ):
        applied("a\nb\na\na\n", "-a", "+x")
    with pytest.raises(ToolError, match="at line 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 and others"):
        applied("a\n" * 50, "-a", "+x")
    # Overlapping places are several as well.
    with pytest.raises(ToolError, match="at line 1, 2"):
        applied("a\na\na\n", " a", "-a")


def test_a_number_decides_only_where_it_is_right():
    assert (
        unified("a\nb\n" * 30, "@@ -41,2 +41,2 @@", " a", "-b", "+x")
        == "a\nb\n" * 20 + "a\nx\n" + "a\nb\n" * 9
    )
    with pytest.raises(ToolError, match="several places"):
        unified("a\nb\n" * 30, "@@ -42,2 +42,2 @@", " a", "-b", "+x")
    # What is there once needs no number.
    assert unified("a\nb\n", "@@ -70,1 +70,1 @@", "-b", "+x") == "a\nx\n"


def test_the_line_above_narrows_it_down():
    for anchors, line in [
        (("@@ class A:", "@@     def f(self):"), 2),
        (("@@ class A:", "@@ def f(self):"), 2),
        (("@@ class A:", "@@     def g("), 7),
        (("@@     def g(",), 7),
        (("@@ class B:",), 12),
        (("@@ class B:", "@@     def f(self):"), 12),
    ]:
        lines = CLASSES.split("\n")
        lines[line] = "        return 2"
        assert applied(CLASSES, *anchors, "-        return 1", "+        return 2") == "\n".join(lines)


def test_the_line_above_may_be_the_hunks_first():
    assert applied("a\nb\na\nc\n", "@@ b", " b", "-a", "+x") == "a\nb\nx\nc\n"


def test_the_line_above_that_is_there_twice_only_says_where_to_begin():
    assert applied("f\na\nf\nb\n", "@@ f", "-b", "+x") == "f\na\nf\nx\n"
    with pytest.raises(ToolError, match="several places, at line 2, 4"):
        applied("f\na\nf\na\n", "@@ f", "-a", "+x")
    with pytest.raises(ToolError, match="several places, at line 3, 8"):
        applied(CLASSES, "@@ class A:", "-        return 1", "+        return 2")


def test_a_hunk_outside_the_block_is_taken_when_it_is_the_only_one():
    assert (
        applied("def f():\n    a\nx = 1\n", "@@ def f():", "-x = 1", "+x = 2") == "def f():\n    a\nx = 2\n"
    )


# -- what is there instead -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "lines", "words"),
    [
        (
            "a\nb\nc\n",
            (" a", "-x", " c"),
            "first line is at line 1, but at line 2, where it has 'x', there is 'b'",
        ),
        (
            "a\nb\na\nc\n",
            (" a", " c", "-x"),
            "first line is at line 3, but at line 5, .* 'x', the file has ended",
        ),
        ("a\nb\n", (" q", "-x"), "Its first line 'q' is not there; read the file again"),
        ("a\n  b\n", ("-b", "+x"), "Its first line is 'b'; line 2 differs from that in white space: '  b'"),
        ("a\nb\nc\n", ("-c", "+x", "@@", "-a", "+y"), "Hunk 2 .* Its lines are at line 1, which is above"),
        ("a\nb\nc\n", (" a", "-b", "@@", " b", "-c"), "Hunk 2 .* Its lines are at line 2, which is above"),
        ("a\nb\nc\nd\n", ("-b", "@@", "-x"), "Hunk 2 .* Its first line 'x' is not there from line 3 on"),
        ("a\nb\n", ("@@ def q():", "-b"), "below a line 'def q\\(\\):', and no such line is there"),
        ("a\nb\n", ("@@", "+x"), "has added lines only, and nothing says where they go"),
        ("a\nb\n", ("@@ a", "+x"), "has added lines only"),
        (
            "a\nb\n",
            ("-a", "*** End of File"),
            "not match at the end of the file. Its lines are at line 1, and",
        ),
        ("a\nb\n", ("-b", "\\ No newline at end of file", "+b"), "has no newline at its end, and it has one"),
        ("a\nb\n", ("-a", "\\ No newline at end of file", "+b"), "does not match at the end of the file"),
        (
            "a\n",
            ("-a", "-b", "*** End of File"),
            "does not match at the end of the file. Its first line is at",
        ),
    ],
)
def test_a_mismatch_says_where_and_what(text, lines, words):
    with pytest.raises(ToolError, match=f"Hunk . of f \\(line . of the patch\\) .*{words}|{words}"):
        applied(text, *lines)


# -- at large --------------------------------------------------------------------------------------


def test_it_takes_linear_time():
    text = "a\n" * 500_000
    began = time.monotonic()
    with pytest.raises(ToolError, match="does not match"):
        applied(text, *[" a"] * 2_000, "-b")
    with pytest.raises(ToolError, match="several"):
        applied(text, *[" a"] * 2_000, "-a")
    hunks = [line for at in range(1, 1000) for line in (f"@@ -{at * 500} +{at * 500} @@", "-a", "+b")]
    assert unified(text, *hunks).count("b") == 999
    with pytest.raises(ToolError, match="several"):
        applied("f\n" + " a\n" * 500_000, *["@@ f", "- a", "+ b"])
    assert time.monotonic() - began < 5


def lines_of(text):
    *whole, last = text.split("\n")
    return [line + "\n" for line in whole] + ([last] if last else [])


def diff(old, new, context):
    lines = difflib.unified_diff(lines_of(old), lines_of(new), "a/f", "b/f", n=context)
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in ("--- a/f\n" if line.startswith("--- a/f") else line for line in lines)
    )


TEXTS = st.lists(
    st.tuples(
        st.sampled_from(
            ["", "a", "b", " a", "\ta", "-", "--- a", "+++ b", "@@", "\\ x", "é\u2028", "\x0c", "\r"]
        ),
        st.sampled_from(["\n", "\n", "\r\n", "\r"]),
    ),
    max_size=14,
).map(lambda lines: "".join(map("".join, lines)))


@st.composite
def changed_texts(draw):
    """A text and another that has something in common with it."""
    old = draw(TEXTS)
    lines = lines_of(old)
    begin = draw(st.integers(0, len(lines)))
    end = draw(st.integers(begin, len(lines)))
    new = "".join([*lines[:begin], draw(TEXTS), *lines[end:]])
    return old[: len(old) - draw(st.integers(0, 1))], new[: len(new) - draw(st.integers(0, 1))]


@given(changed_texts(), st.sampled_from([1, 3]))
def test_what_difflib_writes_gives_the_new_text(texts, context):
    old, new = texts
    if old == new:
        return
    (says,) = parse(diff(old, new, context))
    assert apply_hunks("f", old, says.hunks) == new


@given(changed_texts())
def test_a_patch_without_carriage_returns_gives_the_new_lines_whatever_ends_them(texts):
    """A model sees no ``\\r``: what it writes for the plain text is right for a file of any line ends."""
    old, new = (text.replace("\r", "") for text in texts)
    if old == new or "\n" not in old:
        return  # nothing to change, or nothing that tells how lines end
    (says,) = parse(diff(old, new, 3))
    assert apply_hunks("f", old.replace("\n", "\r\n"), says.hunks) == new.replace("\n", "\r\n")
    assert apply_hunks("f", old.replace("\n", "\r"), says.hunks) == new.replace("\n", "\r")
