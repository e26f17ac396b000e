"""Two texts of each changed file: as they came with the change, or read back from its patch. Patches are made
by the tools that make them in the product; with a context of the whole file nothing may be lost."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.acp.v1.diffs import diff_to_wire
from term2_acp.domain.content import Change, Diff, FileTexts, Operation
from term2_acp.tools import patch as patches
from term2_acp.tools.patch import git_patch

ADD, DELETE, MODIFY, MOVE = Operation.ADD, Operation.DELETE, Operation.MODIFY, Operation.MOVE


def diff(path, new, old=None):
    return {"type": "diff", "path": path} | ({} if old is None else {"oldText": old}) | {"newText": new}


def said(text):
    return {"type": "content", "content": {"type": "text", "text": text}}


def replayed(operation, path, old, new, moved_from=None):
    """What is shown of one change of which the journal has the patch alone."""
    patch = git_patch(path, old, new, moved_from=moved_from)
    return diff_to_wire(Diff((Change(operation, path, moved_from),), patch))


def numbered(first, last):
    return "".join(f"{number}\n" for number in range(first, last + 1))


def test_texts_are_shown_as_they_came():
    changes = (
        Change(ADD, "/w/a"),
        Change(DELETE, "/w/b"),
        Change(MODIFY, "/w/c"),
        Change(MOVE, "/w/e", "/w/d"),
    )
    texts = (
        FileTexts("/w/a", None, "new\n"),
        FileTexts("/w/b", "old\n", None),
        FileTexts("/w/c", "", "x"),
        FileTexts("/w/e", "y\r\n", "y\r\n"),
    )
    assert diff_to_wire(Diff(changes, "not even a patch", texts)) == [
        diff("/w/a", "new\n"),
        diff("/w/b", "", "old\n"),
        diff("/w/c", "x", ""),
        diff("/w/e", "y\r\n", "y\r\n"),
        said("/w/d was moved to /w/e."),
    ]


@pytest.mark.parametrize(
    ("operation", "old", "new", "shown"),
    [
        (ADD, None, "a\nb", diff("/w/f", "a\nb")),
        (ADD, None, "", diff("/w/f", "")),
        (DELETE, "a\n", None, diff("/w/f", "", "a\n")),
        (DELETE, "", None, diff("/w/f", "", "")),
        (MODIFY, "", "a\n", diff("/w/f", "a\n", "")),
        (MODIFY, "a\n", "", diff("/w/f", "", "a\n")),
        (MODIFY, "a", "a\n", diff("/w/f", "a\n", "a")),
        (MODIFY, "a\n", "a", diff("/w/f", "a", "a\n")),
        (MODIFY, "a\nb", "c\nb", diff("/w/f", "c\nb", "a\nb")),
        (MODIFY, "a\r\nb\r\n", "a\r\nc\r\n", diff("/w/f", "a\r\nc\r\n", "a\r\nb\r\n")),
        (MODIFY, "a\u2028\r\x0c\n", "b\n", diff("/w/f", "b\n", "a\u2028\r\x0c\n")),
        (MODIFY, "\n\n-- x\n++ y\n", "\ndiff --git a b\n@@ -1 +1 @@\n", None),
    ],
)
def test_a_patch_is_read_back(operation, old, new, shown):
    assert replayed(operation, "/w/f", old, new) == [shown or diff("/w/f", new, old)]


@pytest.mark.parametrize(
    "path", ["/w/a b", '/w/"q"', "/w/tab\t.txt", "/w/\\n\n\x7f\x01", "/w/ä x ", "/w/x /w/x"]
)
@pytest.mark.parametrize(
    ("old", "new"), [(None, "a\n"), (None, ""), ("a\n", None), ("", None), ("a\n", "b\n")]
)
def test_names_are_read_as_git_writes_them(path, old, new):
    operation = ADD if old is None else DELETE if new is None else MODIFY
    assert replayed(operation, path, old, new) == [diff(path, new or "", old)]


def test_a_move_with_changes_stands_at_its_new_path():
    assert replayed(MOVE, "/w/n w", "a\n", "b\n", moved_from="/w/old") == [
        diff("/w/n w", "b\n", "a\n"),
        said("/w/old was moved to /w/n w."),
    ]


def test_a_move_without_changes_has_no_texts_in_its_patch():
    assert replayed(MOVE, "/w/n", "a\n", "a\n", moved_from="/w/o") == [said("/w/o was moved to /w/n.")]


def test_what_the_hunks_leave_out_is_said_on_both_sides():
    old = numbered(1, 40)
    new = old.replace("10\n", "ten\n").replace("30\n", "thirty\nmore\n")
    (shown,) = replayed(MODIFY, "/w/f", old, new)
    between = "… 13 unchanged lines …\n"
    assert shown["oldText"] == f"… 6 unchanged lines …\n{numbered(7, 13)}{between}{numbered(27, 33)}"
    assert shown["newText"] == (
        f"… 6 unchanged lines …\n{numbered(7, 9)}ten\n{numbered(11, 13)}{between}"
        f"{numbered(27, 29)}thirty\nmore\n{numbered(31, 33)}"
    )


def test_one_line_that_is_left_out_is_one_line():
    old = numbered(1, 9)
    (shown,) = replayed(MODIFY, "/w/f", old, old.replace("5\n", "five\n"))
    assert shown["oldText"].startswith("… 1 unchanged line …\n2\n")


def test_lines_that_are_only_added_are_placed_by_the_line_before_them(monkeypatch):
    monkeypatch.setattr(patches, "CONTEXT", 0)
    old = numbered(1, 5)
    (shown,) = replayed(MODIFY, "/w/f", old, old.replace("3\n", "3\nnew\n"))
    assert (shown["oldText"], shown["newText"]) == ("… 3 unchanged lines …\n", "… 3 unchanged lines …\nnew\n")


def test_several_files_of_one_patch_and_only_some_with_texts():
    changes = (Change(MODIFY, "/w/a"), Change(ADD, "/w/empty"), Change(MODIFY, "/w/b"))
    patch = git_patch("/w/a", "1\n", "2") + git_patch("/w/empty", None, "") + git_patch("/w/b", "3", "4\n")
    shown = [diff("/w/a", "2", "1\n"), diff("/w/empty", ""), diff("/w/b", "4\n", "3")]
    assert diff_to_wire(Diff(changes, patch)) == shown
    assert diff_to_wire(Diff(changes, patch, (FileTexts("/w/b", "x", "y"),))) == [
        *shown[:2],
        diff("/w/b", "y", "x"),
    ]


def test_hunks_are_taken_where_whole_texts_would_not_fit():
    old = numbered(1, 40)
    new = old.replace("20\n", "twenty\n")
    one = Diff((Change(MODIFY, "/w/f"),), git_patch("/w/f", old, new), (FileTexts("/w/f", old, new),))
    (whole,) = diff_to_wire(one)
    (hunks,) = diff_to_wire(one, whole=False)
    assert whole["newText"] == new
    assert len(hunks["newText"]) < len(new)
    assert "twenty\n" in hunks["newText"]
    binary = Diff((Change(MODIFY, "/w/f"),), None, (FileTexts("/w/f", old, new),))
    assert diff_to_wire(binary, whole=False) == [whole]


@pytest.mark.parametrize(("operation", "verb"), [(ADD, "Added"), (DELETE, "Deleted"), (MODIFY, "Changed")])
@pytest.mark.parametrize(
    "patch",
    [
        None,
        "",
        "diff --git /w/x /w/x\nold mode 100644\nnew mode 100755\n",
        "diff --git /w/x /w/x\n--- /w/x\n+++ /w/x\n@@ -1,2 +1 @@\n a\n",
        "diff --git /w/x /w/x\n--- /w/x\n+++ /w/x\n@@ -1 +1 @@\n-a\n+b\n c\n",
        "diff --git /w/x /w/x\n--- /w/x\n+++ /w/x\n@@ -1 +1 @@\n-a\n?b\n",
        "diff --git /w/x /w/x\n--- /w/x\n+++ /w/x\n@@ nonsense @@\n",
        "diff --git \n@@ -1 +1 @@\n\\ No newline at end of file\n",
        "diff --git /w/y /w/y\n--- /w/y\n+++ /w/y\n@@ -1 +1 @@\n-a\n+b\n",
    ],
)
def test_what_has_no_text_or_a_damaged_patch_is_said_in_words(operation, verb, patch):
    assert diff_to_wire(Diff((Change(operation, "/w/x"),), patch)) == [
        said(f"{verb} /w/x. There is no text to compare.")
    ]


texts = st.lists(
    st.sampled_from(
        ["a\n", "b\r\n", "\n", "-x\n", "+++ y\n", "@@ -1 +1 @@\n", "\\ n\n", "diff --git a b\n", "é\u2028"]
    )
).map("".join)


@settings(deadline=None, derandomize=True, max_examples=100)
@given(st.none() | texts, st.none() | texts, st.text(st.sampled_from('a b"\\\t\né'), min_size=1, max_size=6))
def test_with_the_whole_file_for_a_context_nothing_is_lost(old, new, name):
    path = f"/w/{name}"
    with pytest.MonkeyPatch.context() as whole:
        whole.setattr(patches, "CONTEXT", 10**6)
        patch = git_patch(path, old, new)
    operation = ADD if old is None else DELETE if new is None else MODIFY
    (shown,) = diff_to_wire(Diff((Change(operation, path),), patch))
    if old == new:  # no hunks: the one case in which a patch has no text
        assert shown["type"] == ("diff" if old is None else "content")
    else:
        assert shown == diff(path, new or "", old)
