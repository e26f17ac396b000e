"""Several edits as one: all of them are made or none, whatever fails, and whatever is cancelled.

Each way of failing leaves the very tree that was there before: names, contents, modes, and nothing staged.
"""

import errno
import os
import shutil
import stat
import tempfile
import threading
import time
from pathlib import Path

import pytest
import trio

from term2_acp.workspace import (
    AlreadyThere,
    ChangedSinceRead,
    Edit,
    FileContent,
    FileRefused,
    NotRead,
    PartlyCommitted,
    PathChanged,
    PathRefused,
    Workspace,
)
from tests.kit.until import until

# An account that no machine has, by its number.
SOMEBODY = 64_218

MUTATING = ("link", "rename", "unlink", "mkdir", "rmdir")


@pytest.fixture
def root(tmp_path):
    path = tmp_path.resolve()
    (path / "ws").mkdir()
    return path


@pytest.fixture
def files(root):
    return Workspace(str(root / "ws"), home=str(root / "home"))


def tree(folder):
    """All that is below a folder: paths, modes, contents, where links lead."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        held = os.readlink(path) if stat.S_ISLNK(mode) else path.read_bytes() if stat.S_ISREG(mode) else None
        found[str(path.relative_to(folder))] = (stat.filemode(mode), held)
    return found


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def content(data):
    return FileContent.of(data) if data is not None else None


async def edit(files, path, new, *, like=None):
    """An edit of a path as it is now."""
    target = files.resolve(path)
    old = await files.load(target)
    if old is not None:
        files.saw(target, old)
    return Edit(target, content(new), old, files.resolve(like) if like is not None else None)


@pytest.fixture
async def edits(files, root):
    """One of each kind: two new files in a new folder, a change, a removal, a move; five files touched."""
    ws = root / "ws"
    for name in ("changed", "removed", "moved"):
        (ws / name).write_text(name)
    (ws / "changed").chmod(0o640)
    (ws / "moved").chmod(0o751)
    return [
        await edit(files, "changed", b"new content"),
        await edit(files, "removed", None),
        await edit(files, "new/deep/a", b"a"),
        await edit(files, "new/b", b"b"),
        await edit(files, "elsewhere", b"moved!", like="moved"),
        await edit(files, "moved", None),
    ]


AFTER = {
    "changed": ("-rw-r-----", b"new content"),
    "elsewhere": ("-rwxr-x--x", b"moved!"),
    "new": ("drwxr-xr-x", None),
    "new/b": ("-rw-r--r--", b"b"),
    "new/deep": ("drwxr-xr-x", None),
    "new/deep/a": ("-rw-r--r--", b"a"),
}


async def test_all_are_made(files, root, edits):
    before = descriptors()
    with await files.stage_all(edits) as staged:
        assert (root / "ws/changed").read_text() == "changed"
        assert not (root / "ws/new").exists()
        staged.commit_nowait()
    assert tree(root / "ws") == AFTER
    assert descriptors() == before


async def test_what_was_made_counts_as_seen_and_what_is_gone_does_not(files, root, edits):
    with await files.stage_all(edits) as staged:
        staged.commit_nowait()
    for name in ("changed", "new/deep/a", "new/b", "elsewhere"):
        target = files.resolve(name)
        files.require_seen(target, await files.load(target))
    (root / "ws/removed").write_text("removed")
    target = files.resolve("removed")
    with pytest.raises(NotRead):
        files.require_seen(target, await files.load(target))


async def test_one_edit_alone_is_one_rename(files, root, monkeypatch):
    (root / "ws/a").write_text("a")
    calls = recorded(monkeypatch)
    with await files.stage_all([await edit(files, "a", b"b")]) as staged:
        staged.commit_nowait()
    # The unlink is the discarding of a staged file that is not there any more.
    assert [name for name, _ in calls] == ["rename", "unlink"]
    assert tree(root / "ws") == {"a": ("-rw-r--r--", b"b")}


async def test_new_files_come_first_and_removals_last(files, root, edits, monkeypatch):
    staged = await files.stage_all(edits)
    calls = recorded(monkeypatch)
    staged.commit_nowait()
    done = [name for name, _ in calls]
    assert done[: done.index("rename")] == ["mkdir", "mkdir", "link", "link", "link", "link"]
    places = [arguments[:2] for name, arguments in calls if name == "rename"]
    assert [old if new.startswith(".term2-") else new for old, new in places] == [
        "changed",
        "removed",
        "moved",
    ]


def recorded(monkeypatch, failing=lambda number, name: None):
    """Every change of a folder that is asked of the system from here on; ``failing`` may give an error."""
    calls = []
    for name in MUTATING:
        real = getattr(os, name)

        def call(*arguments, _real=real, _name=name, **more):
            error = failing(len(calls), _name)
            calls.append((_name, arguments))
            if error is not None:
                raise error
            return _real(*arguments, **more)

        monkeypatch.setattr(os, name, call)
    return calls


@pytest.mark.parametrize(("links", "hard"), [(True, 5), (False, 9)], ids=["links", "no links"])
async def test_whichever_step_fails_nothing_has_happened(files, root, edits, monkeypatch, links, hard):
    """Every call that changes a folder fails once, on a file system with hard links and on one without.

    ``hard`` of them cannot be done without: two folders are made, five places are taken, and three files are
    put aside. Links have another way, which is a rename. The rest is the sweeping up after the effect.
    """
    ws = root / "ws"
    shutil.copytree(ws, root / "kept")
    before, open_before = tree(ws), descriptors()
    number = failed = 0
    calls = [None]

    def fails(count, name):
        if count == number:
            return OSError(errno.ENOSPC, "No space left on device")
        return OSError(errno.EPERM, "Operation not permitted") if name == "link" and not links else None

    while number < len(calls):
        staged = await files.stage_all(edits)
        error = None
        with monkeypatch.context() as patch:
            calls = recorded(patch, fails)
            try:
                staged.commit_nowait()
            except FileRefused as refused:
                error = refused
        assert descriptors() == open_before
        number += 1
        if error is not None:
            failed += 1
            assert "No space left on device" in error.reason
            assert not isinstance(error, PartlyCommitted)
            assert tree(ws) == before
            continue
        found = tree(ws)
        left_over = [name for name in found if ".term2-" in name]
        assert {name: found[name] for name in found if name not in left_over} == AFTER
        assert len(left_over) <= 1
        shutil.rmtree(ws)
        shutil.copytree(root / "kept", ws)
        edits = [await edit(files, one.path, one.new and one.new.data, like=like(one)) for one in edits]
    assert failed == hard


def like(one):
    return one.like.path if one.like is not None else None


@pytest.mark.parametrize("kept", [False, True], ids=["the file", "its new version"])
async def test_what_cannot_be_taken_back_is_named(files, root, monkeypatch, kept):
    """The disk breaks in the midst: from the fifth change on, every one fails."""
    ws = root / "ws"
    for name in "abc":
        (ws / name).write_text(name)
    edits = [await edit(files, name, None if not kept else b"new") for name in "abc"]
    staged = await files.stage_all(edits)
    from_there = 1 if not kept else 3
    with monkeypatch.context() as patch:
        recorded(
            patch,
            lambda count, _: OSError(errno.EIO, os.strerror(errno.EIO)) if count >= from_there else None,
        )
        with pytest.raises(PartlyCommitted) as caught:
            staged.commit_nowait()
    error = caught.value
    if kept:
        # a was put aside and replaced, b was put aside as a second link only.
        assert error.changed == (str(ws / "b"), str(ws / "a"))
    else:
        assert error.changed == (str(ws / "a"),)
        assert not (ws / "a").exists()
    assert str(ws / "c") in error.unchanged
    assert (ws / "c").read_text() == "c"
    assert f"As they were: {', '.join(error.unchanged)}." in error.reason
    assert "Input/output error" in error.reason
    # The old content is where the message says.
    aside = error.reason.split(f"{ws / 'a'}: ")[1].split(" that is in ")[1].split(".tmp")[0] + ".tmp"
    assert Path(aside).read_text() == "a"


async def test_a_place_that_was_taken_meanwhile_is_left_alone_on_the_way_back(files, root, monkeypatch):
    """Somebody makes a file where one was just put aside, and then a step fails."""
    ws = root / "ws"
    for name in "ab":
        (ws / name).write_text(name)
    staged = await files.stage_all([await edit(files, "a", None), await edit(files, "b", None)])
    real = os.rename

    def rename(old, new, **more):
        if old == "b":
            (ws / "a").write_text("theirs")
            raise OSError(errno.EIO, "Input/output error")
        real(old, new, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        with pytest.raises(PartlyCommitted, match="Something else is there now") as caught:
            staged.commit_nowait()
    assert (ws / "a").read_text() == "theirs"
    assert caught.value.changed == (str(ws / "a"),)
    assert [path.read_text() for path in ws.glob(".term2-*")] == ["a"]


# -- the world goes on between stage and commit ----------------------------------------------------


@pytest.mark.parametrize("name", ["changed", "removed", "moved"])
@pytest.mark.parametrize("how", ["written", "replaced", "a folder", "a link", "gone"])
async def test_a_change_after_the_last_look_is_seen(files, root, edits, name, how):
    path = root / "ws" / name
    staged = await files.stage_all(edits)
    if how == "written":
        before = path.stat()
        path.write_text("x" * len(name))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        path.unlink()
    if how == "replaced":
        path.write_text(name)
    elif how == "a folder":
        path.mkdir()
    elif how == "a link":
        path.symlink_to("/etc/passwd")
    found = {name: held for name, held in tree(root / "ws").items() if not name.startswith(".term2-")}
    with pytest.raises(ChangedSinceRead):
        staged.commit_nowait()
    assert tree(root / "ws") == found


@pytest.mark.parametrize("name", ["new", "elsewhere"])
@pytest.mark.parametrize("how", ["file", "folder", "dangling"])
async def test_what_appeared_is_not_replaced(files, root, edits, name, how):
    path = root / "ws" / name
    staged = await files.stage_all(edits)
    if how == "file":
        path.write_text("theirs")
    elif how == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    found = {name: held for name, held in tree(root / "ws").items() if not name.startswith(".term2-")}
    with pytest.raises(AlreadyThere):
        staged.commit_nowait()
    assert tree(root / "ws") == found


async def test_a_folder_that_was_swapped_is_refused(files, root):
    ws = root / "ws"
    (ws / "sub").mkdir()
    (ws / "sub/f").write_text("mine")
    (ws / "a").write_text("a")
    (root / "outside").mkdir()
    (root / "outside/f").write_text("theirs")
    staged = await files.stage_all([await edit(files, "a", b"b"), await edit(files, "sub/f", None)])
    (ws / "sub").rename(ws / "aside")
    (ws / "sub").symlink_to(root / "outside")
    with pytest.raises(PathChanged):
        staged.commit_nowait()
    assert (ws / "a").read_text() == "a"
    assert tree(root / "outside") == {"f": ("-rw-r--r--", b"theirs")}
    assert tree(ws / "aside") == {"f": ("-rw-r--r--", b"mine")}


async def test_a_file_swapped_in_the_midst_of_the_commit_is_put_back(files, root, monkeypatch):
    """What is put aside is looked at: it is not removed when it is another file than the one read."""
    ws = root / "ws"
    for name in "ab":
        (ws / name).write_text(name)
    staged = await files.stage_all([await edit(files, "a", None), await edit(files, "b", None)])
    real = os.rename

    def rename(old, new, **more):
        if old == "b":
            (ws / "theirs").write_text("theirs")
            (ws / "theirs").replace(ws / "b")
        real(old, new, **more)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", rename)
        with pytest.raises(ChangedSinceRead):
            staged.commit_nowait()
    assert tree(ws) == {"a": ("-rw-r--r--", b"a"), "b": ("-rw-r--r--", b"theirs")}


async def test_a_file_below_a_new_file_takes_everything_back(files, root):
    """A step that fails by itself: the name of a folder that is to be made is a file by then."""
    (root / "ws/a").write_text("a")
    edits = [await edit(files, name, b"x") for name in ("x", "x/y", "a")]
    with await files.stage_all(edits) as staged, pytest.raises(AlreadyThere):
        staged.commit_nowait()
    assert tree(root / "ws") == {"a": ("-rw-r--r--", b"a")}


async def test_two_names_of_one_file(files, root):
    ws = root / "ws"
    (ws / "a").write_text("same")
    os.link(ws / "a", ws / "b")
    with await files.stage_all([await edit(files, "b", None), await edit(files, "a", b"new")]) as staged:
        staged.commit_nowait()
    assert tree(ws) == {"a": ("-rw-r--r--", b"new")}


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("sticky", [False, True], ids=["a read-only folder", "somebody else's file"])
async def test_what_an_ordinary_user_may_not_do_takes_everything_back(sticky):
    """The change and the new file are made, then the removal is refused by the system itself."""
    with tempfile.TemporaryDirectory(prefix="term2-several-") as folder:
        ws = Path(folder).resolve()
        for name in ("mine", "theirs"):
            (ws / name).mkdir()
            (ws / name / "f").write_text(name)
            (ws / name / "f").chmod(0o666)
        for path in (ws, ws / "mine", ws / "mine/f"):
            os.chown(path, SOMEBODY, SOMEBODY)
        (ws / "theirs").chmod(0o1777 if sticky else 0o755)
        files = Workspace(str(ws), home=None)
        edits = [
            await edit(files, "mine/f", b"new"),
            await edit(files, "mine/sub/g", b"g"),
            await edit(files, "theirs/f", None),
        ]
        before = tree(ws)
        os.setegid(SOMEBODY)
        os.seteuid(SOMEBODY)
        try:
            staged = await files.stage_all(edits)
            with pytest.raises(FileRefused, match=r"permitted|denied") as caught:
                staged.commit_nowait()
        finally:
            os.seteuid(0)
            os.setegid(0)
        assert not isinstance(caught.value, PartlyCommitted)
        assert tree(ws) == before


# -- links -----------------------------------------------------------------------------------------


async def test_nothing_is_removed_through_a_link(files, root):
    ws = root / "ws"
    (ws / "real").mkdir()
    (ws / "real/f").write_text("f")
    (ws / "folder").symlink_to("real")
    (ws / "link").symlink_to("real/f")
    with pytest.raises(PathRefused, match=r"/ws/link is a link to .*/ws/real/f\. Links are neither"):
        await files.stage_all([await edit(files, "link", None)])
    assert (ws / "real/f").read_text() == "f"
    # A file in a folder that is reached by a link is that file.
    with await files.stage_all([await edit(files, "folder/f", None)]) as staged:
        staged.commit_nowait()
    assert sorted(os.listdir(ws)) == ["folder", "link", "real"]
    assert os.listdir(ws / "real") == []


# -- stages that come to nothing -------------------------------------------------------------------


async def test_discarding_leaves_nothing(files, root, edits):
    before, open_before = tree(root / "ws"), descriptors()
    with await files.stage_all(edits):
        assert tree(root / "ws") != before
    assert tree(root / "ws") == before
    assert descriptors() == open_before


@pytest.mark.parametrize("broken", range(6))
async def test_a_stage_that_fails_leaves_nothing(files, root, edits, broken):
    path = Path(edits[broken].path)
    if edits[broken].old is not None:
        path.write_text("something else")
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("theirs")
    before, open_before = tree(root / "ws"), descriptors()
    with pytest.raises(FileRefused):
        await files.stage_all(edits)
    assert tree(root / "ws") == before
    assert descriptors() == open_before


@pytest.mark.parametrize("at", range(4))
async def test_a_cancelled_stage_leaves_nothing_and_has_no_effect(files, root, edits, monkeypatch, at):
    """The thread is held in the midst of its writing until the turn has gone on without it."""
    begun, go_on = threading.Event(), threading.Event()
    real, written = os.write, []

    def held(descriptor, data):
        written.append(len(data))
        if len(written) == at + 1:
            begun.set()
            go_on.wait(10)
        return real(descriptor, data)

    before, open_before = tree(root / "ws"), descriptors()
    monkeypatch.setattr(os, "write", held)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(files.stage_all, edits)
        await trio.to_thread.run_sync(begun.wait)
        began = time.monotonic()
        nursery.cancel_scope.cancel()
    assert time.monotonic() - began < 1
    go_on.set()
    await until(lambda: tree(root / "ws") == before and descriptors() <= open_before)
    # What nobody waits for any more is not written either.
    assert len(written) == at + 1


async def test_a_stage_that_was_cancelled_as_it_finished_leaves_nothing(files, root, edits):
    before = tree(root / "ws")
    for _ in range(30):
        with trio.CancelScope() as scope:
            scope.cancel()
            await files.stage_all(edits)
        assert scope.cancelled_caught
    await until(lambda: tree(root / "ws") == before)
