"""Reading and changing files: regular ones only, never through a link, never over an unseen change."""

import errno
import os
import socket
import stat
import struct
import threading
import time

import pytest
import trio

from term2_acp.workspace import (
    MAX_FILE_BYTES,
    AlreadyThere,
    ChangedSinceRead,
    FileContent,
    FileRefused,
    Missing,
    NotRead,
    NotRegular,
    PathChanged,
    TooLarge,
    Workspace,
)
from term2_acp.workspace import seen as seen_module
from tests.kit.until import until


@pytest.fixture
def root(tmp_path):
    path = tmp_path.resolve()
    (path / "ws").mkdir()
    return path


@pytest.fixture
def files(root):
    return Workspace(str(root / "ws"), home=str(root / "home"))


async def see(files, target):
    """What reading does: load, and the model is given it."""
    content = await files.load(target)
    if content is None:
        raise Missing(target.path)
    files.saw(target, content)
    return content


async def write(files, typed, data):
    """What an edit does: load, require that it was seen, stage, commit."""
    target = files.resolve(typed)
    old = await files.load(target)
    if old is not None:
        files.require_seen(target, old)
    with await files.stage(target, FileContent.of(data), old) as staged:
        staged.commit_nowait()


def names(folder):
    return sorted(os.listdir(folder))


def descriptors():
    return len(os.listdir("/proc/self/fd"))


async def test_a_file_is_read_whole(files, root):
    data = os.urandom(700_000)
    (root / "ws/a").write_bytes(data)
    content = await see(files, files.resolve("a"))
    assert content == FileContent.of(data)


async def test_what_is_not_there_is_missing(files):
    assert await files.load(files.resolve("none")) is None
    assert await files.load(files.resolve("none/deeper")) is None


@pytest.mark.parametrize("kind", ["fifo", "socket", "folder", "device", "root"])
async def test_regular_files_only_and_nothing_blocks(files, root, kind):
    path = root / "ws/x"
    words = kind
    if kind == "fifo":
        os.mkfifo(path)
        words = "FIFO"
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.symlink_to("/")
        words = "folder"
    target = files.resolve("x")
    before = descriptors()
    with trio.fail_after(5):
        with pytest.raises(NotRegular, match=words):
            await files.load(target)
    assert descriptors() == before


async def test_a_huge_sparse_file_is_refused_at_once(files, root):
    (root / "ws/big").touch()
    os.truncate(root / "ws/big", 50 * 1024**3)
    with trio.fail_after(2), pytest.raises(TooLarge, match="53,687,091,200 bytes"):
        await see(files, files.resolve("big"))


async def test_the_largest_file_is_read_and_one_more_byte_is_not(files, root):
    (root / "ws/big").write_bytes(b"x" * MAX_FILE_BYTES)
    assert len((await see(files, files.resolve("big"))).data) == MAX_FILE_BYTES
    (root / "ws/big").write_bytes(b"x" * (MAX_FILE_BYTES + 1))
    with pytest.raises(TooLarge):
        await see(files, files.resolve("big"))


async def test_a_parent_swapped_for_a_link_after_the_check_is_refused(files, root):
    (root / "ws/sub").mkdir()
    (root / "ws/sub/f").write_text("mine")
    (root / "outside").mkdir()
    (root / "outside/f").write_text("theirs")
    target = files.resolve("sub/f")
    await see(files, target)
    old = await files.load(target)
    (root / "ws/sub").rename(root / "ws/gone")
    (root / "ws/sub").symlink_to(root / "outside")
    with pytest.raises(PathChanged):
        await see(files, target)
    with pytest.raises(PathChanged):
        await files.stage(target, FileContent.of(b"new"), old)
    assert (root / "outside/f").read_text() == "theirs"
    assert (root / "ws/gone/f").read_text() == "mine"


async def test_a_folder_swapped_between_stage_and_commit_is_refused(files, root):
    (root / "ws/sub").mkdir()
    (root / "ws/sub/f").write_text("mine")
    (root / "outside").mkdir()
    (root / "outside/f").write_text("theirs")
    target = files.resolve("sub/f")
    old = await see(files, target)
    for new_place in ("link", "folder"):
        staged = await files.stage(target, FileContent.of(b"new"), old)
        (root / "ws/sub").rename(root / "ws/gone")
        if new_place == "link":
            (root / "ws/sub").symlink_to(root / "outside")
        else:
            (root / "outside").rename(root / "ws/sub")
        with pytest.raises(PathChanged):
            staged.commit_nowait()
        if new_place == "link":
            assert (root / "outside/f").read_text() == "theirs"
            (root / "ws/sub").unlink()
            (root / "ws/gone").rename(root / "ws/sub")
    assert (root / "ws/sub/f").read_text() == "theirs"
    assert (root / "ws/gone/f").read_text() == "mine"
    assert names(root / "ws/gone") == ["f"]


async def test_an_unread_file_is_not_changed(files, root):
    (root / "ws/a").write_text("a")
    with pytest.raises(NotRead, match="Read it first"):
        await write(files, "a", b"b")
    assert (root / "ws/a").read_text() == "a"


async def test_a_change_with_the_same_size_and_time_is_seen(files, root):
    path = root / "ws/a"
    path.write_text("one")
    before = path.stat()
    await see(files, files.resolve("a"))
    path.write_text("two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ChangedSinceRead, match="Read it again"):
        await write(files, "a", b"xxx")
    assert path.read_text() == "two"


async def test_a_change_while_the_question_is_open_is_seen(files, root):
    path = root / "ws/a"
    path.write_text("one")
    target = files.resolve("a")
    old = await see(files, target)
    path.write_text("two")
    with pytest.raises(ChangedSinceRead):
        await files.stage(target, FileContent.of(b"new"), old)
    assert names(root / "ws") == ["a"]


@pytest.mark.parametrize("how", ["written", "replaced", "removed", "linked"])
async def test_a_change_after_the_last_look_is_seen(files, root, how):
    path = root / "ws/a"
    path.write_text("one")
    (root / "other").write_text("other")
    target = files.resolve("a")
    staged = await files.stage(target, FileContent.of(b"new"), await see(files, target))
    before = path.stat()
    if how == "written":
        path.write_text("two")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        path.unlink()
        if how == "replaced":
            path.write_text("one")
        elif how == "linked":
            path.symlink_to(root / "other")
    found = names(root / "ws")
    with pytest.raises(ChangedSinceRead):
        staged.commit_nowait()
    assert (root / "other").read_text() == "other"
    assert names(root / "ws") == [name for name in found if not name.startswith(".term2-")]


async def test_own_edits_count_as_seen(files, root):
    (root / "ws/a").write_text("0")
    await see(files, files.resolve("a"))
    for number in range(1, 4):
        await write(files, "a", str(number).encode())
    await write(files, "new", b"x")
    await write(files, "new", b"y")
    assert (root / "ws/a").read_text() == "3"
    assert (root / "ws/new").read_text() == "y"


async def test_loading_is_not_seeing(files, root):
    (root / "ws/AGENTS.md").write_text("words")
    await files.load(files.resolve("AGENTS.md"))
    assert await files.read_words("AGENTS.md", 100) == "words"
    with pytest.raises(NotRead):
        await write(files, "AGENTS.md", b"x")


async def test_a_file_seen_under_one_name_is_seen_under_every_name(files, root):
    (root / "ws/a").write_text("0")
    (root / "ws/l").symlink_to("a")
    await see(files, files.resolve("l"))
    await write(files, "./a", b"1")
    await write(files, "l", b"2")
    assert (root / "ws/a").read_text() == "2"
    assert (root / "ws/l").is_symlink()


async def test_what_was_seen_long_ago_is_forgotten(files, root, monkeypatch):
    monkeypatch.setattr(seen_module, "MAX_SEEN", 2)
    for name in "abc":
        (root / "ws" / name).write_text(name)
        await see(files, files.resolve(name))
    await write(files, "c", b"x")
    await write(files, "b", b"x")
    with pytest.raises(NotRead):
        await write(files, "a", b"x")


async def test_mode_and_owner_are_kept_and_a_new_file_has_the_umasks(files, root):
    path = root / "ws/run"
    path.write_text("#!/bin/sh\n")
    if os.getuid() == 0:
        os.chown(path, 1234, 2345)
    path.chmod(0o6751)
    before = path.stat()
    await see(files, files.resolve("run"))
    umask = os.umask(0o027)
    try:
        await write(files, "run", b"#!/bin/bash\n")
        await write(files, "new", b"")
    finally:
        os.umask(umask)
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert stat.S_IMODE((root / "ws/new").stat().st_mode) == 0o640


def access_list(*entries):
    """A POSIX access list as the kernel has it: version 2, then (tag, permissions, id) each."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


NOBODY = 65534
_NO_ID = 0xFFFFFFFF
_OWNER, _USER, _GROUP, _MASK, _OTHERS = 1, 2, 4, 16, 32


def set_list(path, which, *, group):
    entries = ((_OWNER, 7, _NO_ID), (_USER, 7, NOBODY), (_GROUP, group, _NO_ID), (_MASK, 7, _NO_ID))
    try:
        os.setxattr(path, f"system.posix_acl_{which}", access_list(*entries, (_OTHERS, 0, _NO_ID)))
    except OSError as error:
        pytest.skip(f"no access lists here: {error}")


async def test_an_edit_lets_nobody_in_whom_only_the_folder_names(files, root):
    path = root / "ws/a"
    path.write_text("a")
    path.chmod(0o660)
    set_list(root / "ws", "default", group=5)
    await see(files, files.resolve("a"))
    await write(files, "a", b"b")
    assert path.read_text() == "b"
    assert os.listxattr(path) == []
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


async def test_an_access_list_is_kept(files, root):
    path = root / "ws/a"
    path.write_text("a")
    set_list(path, "access", group=0)
    before, mode = os.getxattr(path, "system.posix_acl_access"), path.stat().st_mode
    await see(files, files.resolve("a"))
    await write(files, "a", b"b")
    assert os.getxattr(path, "system.posix_acl_access") == before
    assert path.stat().st_mode == mode


@pytest.mark.skipif(os.getuid() != 0, reason="only root can make a file of another owner")
async def test_a_file_that_gets_another_owner_keeps_its_group_and_lends_out_no_rights(
    files, root, monkeypatch
):
    path = root / "ws/run"
    path.write_text("a")
    os.chown(path, 1234, 2345)
    path.chmod(0o6770)
    await see(files, files.resolve("run"))
    chown = os.fchown

    def as_a_member_of_the_group(descriptor, owner, group):
        if owner != -1:
            raise PermissionError(errno.EPERM, "not permitted")
        chown(descriptor, owner, group)

    monkeypatch.setattr(os, "fchown", as_a_member_of_the_group)
    await write(files, "run", b"b")
    after = path.stat()
    assert (after.st_uid, after.st_gid) == (0, 2345)
    assert stat.S_IMODE(after.st_mode) == 0o770


@pytest.mark.skipif(os.getuid() == 0, reason="root may write what is read-only")
async def test_a_read_only_file_is_not_replaced(files, root):
    (root / "ws/a").write_text("a")
    (root / "ws/a").chmod(0o444)
    await see(files, files.resolve("a"))
    with pytest.raises(FileRefused, match="read-only"):
        await write(files, "a", b"b")


async def test_missing_folders_are_made_with_the_file_and_not_before(files, root):
    target = files.resolve("x/y/z")
    staged = await files.stage(target, FileContent.of(b"new"), None)
    assert [name for name in names(root / "ws") if not name.startswith(".term2-")] == []
    staged.commit_nowait()
    assert (root / "ws/x/y/z").read_bytes() == b"new"
    assert names(root / "ws") == ["x"]
    assert names(root / "ws/x/y") == ["z"]


async def test_discarding_leaves_nothing(files, root):
    before = descriptors()
    with await files.stage(files.resolve("x/y/z"), FileContent.of(b"new"), None):
        pass
    staged = await files.stage(files.resolve("a"), FileContent.of(b"new"), None)
    staged.discard_nowait()
    staged.discard_nowait()
    assert names(root / "ws") == []
    assert descriptors() == before


@pytest.mark.parametrize("what", ["file", "folder", "dangling"])
async def test_a_new_file_never_replaces_what_appeared(files, root, what):
    staged = await files.stage(files.resolve("a"), FileContent.of(b"new"), None)
    path = root / "ws/a"
    if what == "file":
        path.write_text("theirs")
    elif what == "folder":
        path.mkdir()
    else:
        path.symlink_to(root / "outside")
    with pytest.raises(AlreadyThere):
        staged.commit_nowait()
    assert not (root / "outside").exists()
    assert names(root / "ws") == ["a"]
    assert what != "file" or path.read_text() == "theirs"


async def test_a_folder_on_the_way_that_appeared_is_not_entered(files, root):
    staged = await files.stage(files.resolve("x/y"), FileContent.of(b"new"), None)
    (root / "ws/x").symlink_to(root)
    with pytest.raises(AlreadyThere):
        staged.commit_nowait()
    assert not (root / "y").exists()
    assert names(root / "ws") == ["x"]


async def test_folders_go_again_when_the_last_step_fails(files, root):
    # The name fits where it is looked up, and not where the file is to be.
    target = files.resolve("x/y/" + "n" * 255)
    staged = await files.stage(target, FileContent.of(b"new"), None)
    os.unlink(next((root / "ws").glob(".term2-*")))
    with pytest.raises(Missing):
        staged.commit_nowait()
    assert names(root / "ws") == []


async def test_a_full_disk_or_a_file_in_the_way_leaves_nothing(files, root):
    (root / "ws/file").write_text("x")
    with pytest.raises(FileRefused):
        await write(files, "file/below", b"new")
    assert names(root / "ws") == ["file"]


async def test_a_write_that_fails_leaves_nothing(files, root, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    before = descriptors()
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(FileRefused, match="No space left"):
        await files.stage(files.resolve("a"), FileContent.of(b"new"), None)
    monkeypatch.undo()
    assert names(root / "ws") == []
    assert descriptors() == before


async def test_a_cancelled_stage_leaves_nothing_and_has_no_effect(files, root, monkeypatch):
    """The thread is held in the midst of its writing until the turn has gone on without it."""
    begun, go_on = threading.Event(), threading.Event()
    real = os.write

    def held(descriptor, data):
        begun.set()
        go_on.wait(10)
        return real(descriptor, data)

    (root / "ws/a").write_text("old")
    target = files.resolve("a")
    old = await see(files, target)
    monkeypatch.setattr(os, "write", held)
    before = descriptors()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(files.stage, target, FileContent.of(b"new"), old)
        await trio.to_thread.run_sync(begun.wait)
        began = time.monotonic()
        nursery.cancel_scope.cancel()
    assert time.monotonic() - began < 1
    monkeypatch.undo()
    assert len(names(root / "ws")) == 2
    go_on.set()
    await until(lambda: names(root / "ws") == ["a"] and descriptors() <= before)
    assert (root / "ws/a").read_text() == "old"


async def test_a_stage_that_was_cancelled_as_it_finished_leaves_nothing(files, root):
    for _ in range(50):
        with trio.CancelScope() as scope:
            scope.cancel()
            await files.stage(files.resolve("a"), FileContent.of(b"new"), None)
        assert scope.cancelled_caught
    await until(lambda: not names(root / "ws"))


async def test_no_edit_ever_reaches_a_file_outside(files, root):
    """A file that flips between itself and a link, and a parent that is swapped, during 300 edits."""
    ws = root / "ws"
    (root / "outside/sub").mkdir(parents=True)
    for place in ("outside/f", "outside/sub/t"):
        (root / place).write_text("theirs")
    (ws / "sub").mkdir()
    (ws / "sub/t").write_text("mine")
    (ws / "t").write_text("mine")
    stop = threading.Event()

    def flip():
        while not stop.is_set():
            for move in (
                lambda: ((ws / "link").symlink_to(root / "outside/f"), (ws / "link").replace(ws / "t")),
                lambda: ((ws / "plain").write_text("mine"), (ws / "plain").replace(ws / "t")),
                lambda: (ws / "sub").rename(ws / "aside"),
                lambda: (ws / "sub").symlink_to(root / "outside/sub"),
                (ws / "sub").unlink,
                lambda: (ws / "aside").rename(ws / "sub"),
            ):
                try:
                    move()
                except OSError:
                    continue

    thread = threading.Thread(target=flip)
    thread.start()
    committed = 0
    try:
        for number in range(300):
            await trio.lowlevel.checkpoint()
            try:
                target = files.resolve("t" if number % 2 else "sub/t")
                if not target.inside:
                    continue  # here the policy asks
                old = await see(files, target)
                with await files.stage(target, FileContent.of(b"edit %d" % number), old) as staged:
                    staged.commit_nowait()
                committed += 1
            except FileRefused:
                continue
    finally:
        stop.set()
        thread.join()
    assert (root / "outside/f").read_text() == "theirs"
    assert (root / "outside/sub/t").read_text() == "theirs"
    assert names(root / "outside") == ["f", "sub"]
    assert names(root / "outside/sub") == ["t"]
    assert committed > 0
    assert [
        name
        for folder in (ws, ws / "sub", ws / "aside")
        if folder.exists()
        for name in names(folder)
        if name.startswith(".term2-")
    ] == []


async def test_the_words_of_the_workspace(files, root):
    assert await files.read_words("AGENTS.md", 10) is None
    (root / "ws/AGENTS.md").write_text("é" * 12)
    assert await files.read_words("AGENTS.md", 12) == "é" * 12
    assert await files.read_words("AGENTS.md", 10) == "é" * 10 + "\n[2 more characters are left out]"
    (root / "ws/AGENTS.md").write_bytes(b"\0")
    assert await files.read_words("AGENTS.md", 10) is None


async def test_words_from_elsewhere_are_not_read_unasked(files, root):
    (root / "home/.ssh").mkdir(parents=True)
    (root / "home/.ssh/id").write_text("key")
    (root / "ws/AGENTS.md").symlink_to(root / "home/.ssh/id")
    assert await files.read_words("AGENTS.md", 10) is None
    at_home = Workspace(str(root / "home"), home=str(root / "home"))
    assert await at_home.read_words(".ssh/id", 10) is None


async def test_a_hanging_thread_does_not_hold_a_cancel_up(files):
    begun, go_on = threading.Event(), threading.Event()

    def hang():
        begun.set()
        go_on.wait(10)

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(files.in_thread, hang)
            await trio.to_thread.run_sync(begun.wait)
            began = time.monotonic()
            nursery.cancel_scope.cancel()
        assert time.monotonic() - began < 1
    finally:
        go_on.set()
