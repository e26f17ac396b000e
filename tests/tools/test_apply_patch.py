"""``apply_patch`` through its three steps, on real files: what it does, shows, asks for and refuses.

What stands between: how a patch is read is in ``test_patch_format``, where its hunks go in
``test_patch_apply``, and what happens when a step of the commit fails in the workspace's ``test_several``.
"""

import codecs
import os
import subprocess

import pytest
import trio

from term2_acp.domain.content import Change, Diff, Operation, Text
from term2_acp.domain.permission import Access
from term2_acp.domain.toolcall import Location
from term2_acp.permission.grants import SessionAccess
from term2_acp.permission.policy import Allow, AskPerson, Ground, decide
from term2_acp.tools import patch_plan
from term2_acp.tools.apply_patch import MAX_TITLED
from term2_acp.tools.base import ToolError
from term2_acp.workspace import MAX_FILE_BYTES
from tests.kit.tools import Bench
from tests.kit.until import until


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path.resolve())


def envelope(*lines):
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch", ""])


def git_apply(folder, patch):
    subprocess.run(
        ["git", "apply", "--unsafe-paths", "-p1", "--directory=/", "-"],
        input=patch.encode(),
        cwd=folder,
        check=True,
    )


def tree(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


async def read(bench, *names):
    for name in names:
        await bench.call("read_file", path=name)


async def refused(bench, patch, words):
    """The patch is refused with these words, and nothing has changed."""
    before = sorted(os.walk(bench.root)), tree(bench.root)
    with pytest.raises(ToolError, match=words) as caught:
        await bench.call("apply_patch", patch=patch)
    assert (sorted(os.walk(bench.root)), tree(bench.root)) == before
    return str(caught.value)


ALL_KINDS = envelope(
    "*** Add File: sub/new.py",
    "+one",
    "*** Update File: a.py",
    "@@",
    " one",
    "-two",
    "+2",
    "*** Delete File: gone.py",
    "*** Update File: old.py",
    "*** Move to: sub/moved.py",
    "-x",
    "+y",
    "*** Update File: same.py",
    "*** Move to: sub/same.py",
)


@pytest.fixture
async def five(bench):
    """The files that ``ALL_KINDS`` is about, read."""
    ws = bench.ws
    (ws / "a.py").write_text("one\ntwo\nthree\n")
    (ws / "gone.py").write_text("bye\n")
    (ws / "old.py").write_text("v\nw\nx\n")
    (ws / "same.py").write_text("same\n")
    (ws / "old.py").chmod(0o755)
    (ws / "same.py").chmod(0o640)
    await read(bench, "a.py", "gone.py", "old.py", "same.py")
    return ws


AFTER = {
    "a.py": b"one\n2\nthree\n",
    "sub/moved.py": b"v\nw\ny\n",
    "sub/new.py": b"one\n",
    "sub/same.py": b"same\n",
}


async def test_a_patch_of_every_kind(bench, five):
    before = tree(five)
    prepared = await bench.prepare("apply_patch", patch=ALL_KINDS)
    assert tree(five) == before
    new, a, gone, old, moved, same, there = (
        str(five / name)
        for name in ("sub/new.py", "a.py", "gone.py", "old.py", "sub/moved.py", "same.py", "sub/same.py")
    )
    assert [(action.access, action.target.path) for action in prepared.actions] == [
        (Access.EDIT, path) for path in (new, a, gone, old, moved, same, there)
    ]
    assert prepared.locations == (
        Location(new, 1),
        Location(a, 2),
        Location(gone),
        Location(old),
        Location(moved, 3),
        Location(same),
        Location(there),
    )
    (diff,) = prepared.preview
    assert diff.changes == (
        Change(Operation.ADD, new),
        Change(Operation.MODIFY, a),
        Change(Operation.DELETE, gone),
        Change(Operation.MOVE, moved, old),
        Change(Operation.MOVE, there, same),
    )
    assert diff.patch == (
        f"diff --git {new} {new}\nnew file mode 100644\n--- /dev/null\n+++ {new}\n@@ -0,0 +1 @@\n+one\n"
        f"diff --git {a} {a}\n--- {a}\n+++ {a}\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
        f"diff --git {gone} {gone}\ndeleted file mode 100644\n--- {gone}\n+++ /dev/null\n"
        "@@ -1 +0,0 @@\n-bye\n"
        f"diff --git {old} {moved}\nrename from {old}\nrename to {moved}\n--- {old}\n+++ {moved}\n"
        "@@ -1,3 +1,3 @@\n v\n w\n-x\n+y\n"
        f"diff --git {same} {there}\nsimilarity index 100%\nrename from {same}\nrename to {there}\n"
    )
    assert prepared.summary == (
        f"Patch 5 files: add {new}; update {a}; delete {gone}; move {old} to {moved}, with changes; "
        f"move {same} to {there}."
    )
    outcome = await bench.run("apply_patch", prepared)
    assert tree(five) == AFTER
    assert (five / "sub/moved.py").stat().st_mode & 0o777 == 0o755
    assert (five / "sub/same.py").stat().st_mode & 0o777 == 0o640
    assert not outcome.failed
    assert outcome.result == (
        f"Applied the patch to 5 files.\nAdded {new}.\nUpdated {a}.\nDeleted {gone}.\n"
        f"Moved {old} to {moved}, with changes.\nMoved {same} to {there}."
    )
    assert outcome.content == (diff,)
    assert outcome.raw_output == {
        "files": [
            {"path": new, "operation": "add"},
            {"path": a, "operation": "modify"},
            {"path": gone, "operation": "delete"},
            {"path": moved, "operation": "move", "from": old},
            {"path": there, "operation": "move", "from": same},
        ]
    }


async def test_the_diff_that_was_shown_is_the_change(bench, five):
    """Git makes the same of it, from the same files."""
    before = tree(five)
    prepared = await bench.prepare("apply_patch", patch=ALL_KINDS)
    await bench.run("apply_patch", prepared)
    after = tree(five)
    for path in after:
        (five / path).unlink()
    for path, data in before.items():
        (five / path).write_bytes(data)
    git_apply(bench.root, prepared.preview[0].patch)
    assert tree(five) == after


async def test_what_was_shown_can_be_applied_again(bench, five):
    """Our own diffs, with their absolute paths, are patches too."""
    before = tree(five)
    prepared = await bench.prepare("apply_patch", patch=ALL_KINDS)
    for path in before:
        (five / path).write_bytes(before[path])
    await bench.call("apply_patch", patch=prepared.preview[0].patch)
    assert tree(five) == AFTER


async def test_a_git_diff_is_taken(bench, five):
    await bench.call(
        "apply_patch",
        patch="diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n"
        "diff --git a/gone.py b/gone.py\ndeleted file mode 100644\n--- a/gone.py\n+++ /dev/null\n"
        "@@ -1 +0,0 @@\n-bye\n"
        "--- /dev/null\n+++ b/n\n@@ -0,0 +1 @@\n+n\n\\ No newline at end of file\n",
    )
    assert (five / "a.py").read_text() == "one\n2\nthree\n"
    assert (five / "n").read_text() == "n"
    assert not (five / "gone.py").exists()


async def test_a_diff_that_removes_less_than_the_file_does_not_delete_it(bench, five):
    await refused(
        bench,
        "--- a/a.py\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-one\n-two\n",
        "holds more lines than the patch removes",
    )


# -- bytes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        b"one\r\ntwo\r\nthree\r\n",
        b"one\ntwo\nthree\n",
        b"one\r\ntwo\nthree\r\n",
        b"one\rtwo\rthree\r",
        b"one\ntwo",
        codecs.BOM_UTF8 + b"one\r\ntwo",
        "one\ntwo\n\x0c\u2028\x85\n".encode(),
        b"one\r\ntwo\r\ncaf\xe9\r\n",
        "one\r\ntwo\r\né\r\n".encode("utf-16"),
        codecs.BOM_UTF16_BE + "one\ntwo\né\n".encode("utf-16-be"),
    ],
)
@pytest.mark.parametrize("move", [False, True])
async def test_only_the_edited_bytes_differ(bench, data, move):
    (bench.ws / "a").write_bytes(data)
    (bench.ws / "a").chmod(0o751)
    await read(bench, "a")
    to = ["*** Move to: b"] if move else []
    await bench.call("apply_patch", patch=envelope("*** Update File: a", *to, "@@", " one", "-two", "+2"))
    wide = "utf-16-le" if data.startswith(codecs.BOM_UTF16_LE) else "utf-8"
    wide = "utf-16-be" if data.startswith(codecs.BOM_UTF16_BE) else wide
    path = bench.ws / ("b" if move else "a")
    assert path.read_bytes() == data.replace("two".encode(wide), "2".encode(wide))
    assert path.stat().st_mode & 0o777 == 0o751
    assert os.listdir(bench.ws) == [path.name]


async def test_what_an_encoding_cannot_hold_is_refused(bench):
    (bench.ws / "a").write_bytes(b"caf\xe9\ntwo\n")
    (bench.ws / "b").write_text("b\n")
    await read(bench, "a", "b")
    patch = envelope("*** Update File: b", "-b", "+c", "*** Update File: a", "-two", "+€")
    await refused(bench, patch, r"cannot hold U\+20AC")


# -- what it asks for ------------------------------------------------------------------------------


async def decision(bench, *lines):
    prepared = await bench.prepare("apply_patch", patch=envelope(*lines))
    ground = Ground(workspace=str(bench.ws), home=str(bench.root / "home"))
    return decide(prepared.actions, SessionAccess(), ground=ground, asks_for_edits=False)


async def test_one_question_covers_every_path(bench):
    (bench.ws / "a").write_text("a\n")
    (bench.root / "out").write_text("o\n")
    (bench.ws / ".git").mkdir()
    (bench.ws / ".git/config").write_text("c\n")
    (bench.ws / "l").symlink_to(bench.root / "out")
    await read(bench, "a", "../out", ".git/config", "l")
    inside = ("*** Add File: new", "+n")
    assert isinstance(await decision(bench, *inside, "*** Delete File: a"), Allow)
    for asks in (
        ("*** Update File: ../out", "-o", "+p"),
        ("*** Update File: l", "-o", "+p"),
        ("*** Delete File: ../out",),
        ("*** Add File: ../other", "+x"),
        ("*** Update File: ../out", "*** Move to: here"),
        ("*** Update File: a", "*** Move to: ../there"),
    ):
        found = await decision(bench, *inside, *asks)
        assert isinstance(found, AskPerson)
        assert "allow-edit-file-session" in [str(choice) for choice in found.choices]
    for asks in (
        ("*** Delete File: .git/config",),
        ("*** Update File: a", "*** Move to: .git/hooks/pre-commit"),
        ("*** Update File: .git/config", "*** Move to: config"),
        ("*** Add File: AGENTS.md", "+x"),
    ):
        found = await decision(bench, *inside, *asks)
        assert isinstance(found, AskPerson)
        assert [str(choice) for choice in found.choices] == ["allow-once", "deny"]


# -- what is refused -------------------------------------------------------------------------------


async def test_files_must_have_been_read(bench):
    (bench.ws / "a").write_text("secret\n")
    (bench.ws / "b").write_text("b\n")
    await read(bench, "b")
    for lines in (
        ("*** Update File: a", "-x", "+y"),
        ("*** Update File: a", "*** Move to: c"),
        ("*** Delete File: a",),
    ):
        message = await refused(bench, envelope("*** Delete File: b", *lines), "a exists and was not read")
        assert "secret" not in message
    await read(bench, "a")
    (bench.ws / "a").write_text("changed\n")
    for lines in (("*** Update File: a", "-x", "+y"), ("*** Delete File: a",)):
        message = await refused(bench, envelope(*lines), "a changed since it was read")
        assert "changed\n" not in message


async def test_own_patches_count_as_read(bench):
    await bench.call("apply_patch", patch=envelope("*** Add File: a", "+1"))
    await bench.call("apply_patch", patch=envelope("*** Update File: a", "-1", "+2"))
    await bench.call("apply_patch", patch=envelope("*** Update File: a", "*** Move to: b", "-2", "+3"))
    await bench.call("search_replace", path="b", replacements=[("3", "4")])
    assert tree(bench.ws) == {"b": b"4\n"}
    await bench.call("apply_patch", patch=envelope("*** Delete File: b"))
    await bench.call("apply_patch", patch=envelope("*** Add File: b", "+5"))
    assert tree(bench.ws) == {"b": b"5\n"}


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ("*** Update File: a", "-a", "+b", "*** Update File: a", "-b", "+c"),
            "/ws/a is named twice, at lines 4 and 7 of",
        ),
        (("*** Update File: a", "-a", "+b", "*** Delete File: ./sub/../a"), "/ws/a is named twice"),
        (("*** Delete File: a", "*** Add File: a", "+x"), "/ws/a is named twice"),
        (("*** Update File: a", "*** Move to: b", "*** Update File: b", "*** Move to: a"), "is named twice"),
        (("*** Update File: a", "*** Move to: b", "*** Delete File: b"), "/ws/b is named twice"),
        (("*** Update File: a", "*** Move to: a", "-a", "+b"), "/ws/a is where the file is already"),
        (("*** Add File: n", "+x", "*** Update File: a", "*** Move to: n"), "/ws/n is named twice"),
        (("*** Update File: l", "-a", "+b", "*** Update File: a", "-a", "+c"), "/ws/a is named twice"),
        (("*** Add File: n", "+x", "*** Add File: n/m", "+y"), "/ws/n/m would be below .*/ws/n, which"),
        (
            ("*** Add File: n-", "+x", "*** Add File: n/m", "+y", "*** Add File: n", "+z"),
            "n/m would be below",
        ),
        (("*** Update File: a", "*** Move to: b"), "/ws/b exists already; a move does not replace"),
        (("*** Add File: a", "+x"), r"/ws/a exists already \(2 bytes\)\. Read it and change it"),
        (("*** Update File: none", "-a", "+b"), "/ws/none does not exist"),
        (("*** Delete File: none",), "/ws/none does not exist"),
        (("*** Delete File: sub",), "sub is a folder; only regular files"),
        (("*** Delete File: sub/",), "sub/ names a folder"),
        (("*** Add File: sub/..", "+x"), "names a folder"),
        (("*** Add File: sub", "+x"), "sub is a folder"),
        (("*** Update File: a", "*** Move to: sub"), "sub is a folder"),
        (("*** Delete File: fifo",), "fifo is a FIFO"),
        (("*** Delete File: /dev/null",), "is a device"),
        (("*** Add File: a/below", "+x"), "no folder"),
        (("*** Delete File: l",), "/ws/l is a link to .*/ws/a. Links are neither removed nor moved"),
        (("*** Update File: l", "*** Move to: n"), "/ws/l is a link to .*/ws/a"),
        (("*** Update File: a", "*** Move to: dangling"), "/ws/dangling is a link to .*/ws/nowhere"),
        (("*** Delete File: binary",), "binary is a binary file"),
        (("*** Update File: binary", "*** Move to: n"), "binary is a binary file"),
        (("*** Add File: ~/x", "+x"), "`~` is not expanded"),
        (("*** Add File: x\0y", "+x"), "NUL"),
        (("*** Add File: /proc/self/x", "+x"), "/proc"),
        (
            ("*** Update File: a", "-a", "+b", "*** Update File: b", "-x", "+y"),
            "Hunk 1 of .*/ws/b .* does not match",
        ),
    ],
)
async def test_what_cannot_be_done_is_refused_and_nothing_else_is_done_either(bench, lines, words):
    (bench.ws / "sub").mkdir()
    (bench.ws / "a").write_text("a\n")
    (bench.ws / "b").write_text("b\n")
    (bench.ws / "binary").write_bytes(b"\0\1\2")
    (bench.ws / "l").symlink_to("a")
    (bench.ws / "dangling").symlink_to("nowhere")
    os.mkfifo(bench.ws / "fifo")
    await read(bench, "a", "b")
    with trio.fail_after(5):
        before = sorted(os.listdir(bench.ws))
        with pytest.raises(ToolError, match=words):
            await bench.call("apply_patch", patch=envelope("*** Add File: first", "+x", *lines))
        assert sorted(os.listdir(bench.ws)) == before
        assert (bench.ws / "a").read_text() == "a\n"


async def test_a_link_is_followed_when_a_file_is_made_or_changed(bench):
    (bench.ws / "a").write_text("a\n")
    (bench.ws / "l").symlink_to("a")
    (bench.ws / "dangling").symlink_to("made")
    await read(bench, "l")
    await bench.call(
        "apply_patch", patch=envelope("*** Update File: l", "-a", "+b", "*** Add File: dangling", "+n")
    )
    assert (bench.ws / "l").is_symlink()
    assert (bench.ws / "a").read_text() == "b\n"
    assert (bench.ws / "made").read_text() == "n\n"


async def test_sizes_are_bounded(bench, monkeypatch):
    (bench.ws / "a").write_bytes(b"a\n" + b"x" * (MAX_FILE_BYTES - 3) + b"\n")
    (bench.ws / "b").write_text("b\n")
    await read(bench, "a", "b")
    await refused(
        bench, envelope("*** Update File: a", "-a", "+aaaa"), "would have 16,777,219 bytes; at most"
    )
    monkeypatch.setattr(patch_plan, "MAX_TOTAL_BYTES", MAX_FILE_BYTES)
    both = envelope("*** Update File: a", "-a", "+b", "*** Update File: b", "-b", "+c")
    await refused(bench, both, "hold more than 16,777,216 bytes")
    await refused(
        bench, envelope("*** Add File: c", "+" + "x" * MAX_FILE_BYTES), "The file would have 16,777,217 bytes"
    )


async def test_the_words_of_a_refusal_say_that_nothing_was_done(bench, five):
    prepared = await bench.prepare("apply_patch", patch=ALL_KINDS)
    (five / "gone.py").write_text("other\n")
    before = tree(five)
    with pytest.raises(
        ToolError, match=r"gone.py changed since it was read; .* No file of the patch was changed\."
    ):
        await bench.run("apply_patch", prepared)
    assert tree(five) == before


async def test_what_could_be_done_only_in_part_is_said(bench, five, monkeypatch):
    """The disk breaks in the midst: from one moment on every rename fails."""
    prepared = await bench.prepare("apply_patch", patch=ALL_KINDS)
    real, renamed = os.rename, []

    def rename(old, new, **more):
        renamed.append(new)
        if len(renamed) > 1:
            raise OSError(5, "Input/output error")
        real(old, new, **more)

    monkeypatch.setattr(os, "rename", rename)
    outcome = await bench.run("apply_patch", prepared)
    monkeypatch.undo()
    assert outcome.failed
    assert outcome.content == (Text(outcome.result),)
    assert outcome.raw_output["changed"] == [str(five / "a.py")]
    assert str(five / "gone.py") in outcome.raw_output["unchanged"]
    assert f"{five / 'a.py'}: Input/output error. It does not hold what it did; that is in" in outcome.result
    assert (five / "a.py").read_text() == "one\n2\nthree\n"
    assert (five / "gone.py").read_text() == "bye\n"
    assert not (five / "sub").exists()


# -- how it is announced ---------------------------------------------------------------------------


def test_a_patch_is_announced_by_its_files(bench):
    description = bench.describe("apply_patch", patch=ALL_KINDS)
    assert description.title == "Patch sub/new.py, a.py, gone.py and 4 more"
    assert [location.path for location in description.locations] == [
        str(bench.ws / name)
        for name in ("sub/new.py", "a.py", "gone.py", "old.py", "sub/moved.py", "same.py", "sub/same.py")
    ]
    assert bench.describe("apply_patch", patch=envelope("*** Delete File: a")).title == "Patch a"
    many = bench.describe("apply_patch", patch=envelope(*(f"*** Delete File: {n}" for n in range(50))))
    assert (many.title, len(many.locations)) == ("Patch 0, 1, 2 and 47 more", 10)


def test_describing_never_fails(bench):
    for patch in (
        "x",
        envelope("*** Add File: a\0b", "+x"),
        envelope("*** Delete File: ~/a\u202e" + "b" * 300),
    ):
        description = bench.describe("apply_patch", patch=patch)
        assert description.title.isprintable()
        assert len(description.title) < 300
        assert description.locations == ()
    long = envelope("*** Add File: a", "+" + "x" * MAX_TITLED)
    assert bench.describe("apply_patch", patch=long).title == "Apply a patch of 65,584 characters"


# -- cancellation ----------------------------------------------------------------------------------


async def test_a_cancel_at_any_checkpoint_leaves_nothing_or_all(bench, five):
    """Cancelled at the first checkpoint of the run, at the second, and so on until it is through."""
    before = tree(five)
    folders = sorted(os.listdir(five))
    seen = []
    for steps in range(50):
        prepared = await bench.prepare("apply_patch", patch=ALL_KINDS)
        with trio.CancelScope() as scope:
            countdown = Countdown(scope, steps)
            trio.lowlevel.add_instrument(countdown)
            try:
                outcome = await bench.run("apply_patch", prepared)
            finally:
                trio.lowlevel.remove_instrument(countdown)
        seen.append(scope.cancelled_caught)
        if not scope.cancelled_caught:
            assert outcome.result.startswith("Applied the patch to 5 files.")
            assert tree(five) == AFTER
            break
        await until(lambda: tree(five) == before and sorted(os.listdir(five)) == folders)
    assert seen.count(True) >= 2
    assert seen[-1] is False


class Countdown(trio.abc.Instrument):
    """Cancels a scope when its task has been stepped so many times; a cancel finds the next checkpoint."""

    def __init__(self, scope, steps):
        self.task = trio.lowlevel.current_task()
        self.scope = scope
        self.left = steps
        if not steps:
            scope.cancel()

    def after_task_step(self, task):
        if task is self.task:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel()


async def test_a_cancel_while_it_is_prepared_has_no_effect(bench, five):
    before = tree(five)
    with trio.CancelScope() as scope:
        scope.cancel()
        await bench.prepare("apply_patch", patch=ALL_KINDS)
    assert scope.cancelled_caught
    assert tree(five) == before


async def test_a_diff_of_a_move_is_one_change(bench):
    (bench.ws / "a").write_text("a\n")
    await read(bench, "a")
    outcome = await bench.call("apply_patch", patch=envelope("*** Update File: a", "*** Move to: b"))
    (diff,) = outcome.content
    assert isinstance(diff, Diff)
    assert diff.changes == (Change(Operation.MOVE, str(bench.ws / "b"), str(bench.ws / "a")),)
