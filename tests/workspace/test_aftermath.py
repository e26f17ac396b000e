"""After a kill: a file is looked at by the same safe way as everything else, and what was staged is removed
where it can be nobody else's. Real files of every kind; what must stay is there afterwards."""

import hashlib
import os
import threading

import pytest
import trio

from term2_acp.domain.toolcall import FileDigests
from term2_acp.workspace import (
    Edit,
    FileContent,
    FileRefused,
    NotRegular,
    PathChanged,
    PathRefused,
    Workspace,
    aftermath,
)
from term2_acp.workspace.aftermath import Aftermath
from term2_acp.workspace.replace import name_aside

MINE, OTHERS = "sess_mine", "sess_others"


@pytest.fixture
def root(tmp_path):
    return tmp_path.resolve()


@pytest.fixture
def look(root):
    (root / "state").mkdir()
    return Aftermath((str(root / "state"),))


async def test_a_file_is_known_by_what_it_holds_now(root, look, monkeypatch):
    monkeypatch.setattr(aftermath, "MAX_FILE_BYTES", 1 << 20)
    (root / "a").write_bytes(b"\0" * (1 << 20))
    assert (
        await look.digest(str(root / "a"), was_there=False) == hashlib.sha256(b"\0" * (1 << 20)).hexdigest()
    )
    assert await look.digest(str(root / "nothing"), was_there=False) is None
    assert await look.digest(str(root / "no/such/folder"), was_there=False) is None
    # One that was there: it is gone from its folder, or who knows where with it.
    assert await look.digest(str(root / "nothing"), was_there=True) is None
    with pytest.raises(FileRefused):
        await look.digest(str(root / "no/such/folder"), was_there=True)


async def test_what_is_no_regular_file_where_it_was_is_not_known(root, look, monkeypatch):
    (root / "folder").mkdir()
    (root / "folder" / "f").write_text("x")
    (root / "file").write_text("x")
    (root / "link").symlink_to("file")
    (root / "way").symlink_to("folder")
    os.mkfifo(root / "fifo")
    (root / "state" / "sessions.db").write_text("x")
    monkeypatch.setattr(aftermath, "MAX_FILE_BYTES", 8)
    (root / "large").write_bytes(b"123456789")
    refusals = {
        "folder": NotRegular,
        "fifo": NotRegular,
        "link": PathChanged,
        "way/f": PathChanged,
        "file/f": PathChanged,
        "large": FileRefused,
        "state/sessions.db": FileRefused,
    }
    for name, refusal in refusals.items():
        with pytest.raises(refusal):
            await look.digest(str(root / name), was_there=False)
    for path in ("", "a", "/a\0b", "/a\0b/c", "/a\ud800"):
        with pytest.raises(PathRefused):
            await look.digest(path, was_there=False)
        await look.remove_staged([new(path)], MINE)


async def test_a_file_that_changes_while_it_is_looked_at_is_not_known(root, look, monkeypatch):
    path = root / "a"
    path.write_text("old")
    read = os.read

    def read_and_change(descriptor, size):
        data = read(descriptor, size)
        path.write_text("other")
        return data

    monkeypatch.setattr(aftermath.os, "read", read_and_change)
    with pytest.raises(FileRefused, match="changes while"):
        await look.digest(str(path), was_there=False)


async def staged(root, owner, path):
    """The name of what a process that is killed now has staged for a new file."""
    files = Workspace(str(root), home=None, owner=owner)
    group = await files.stage_all([Edit(files.resolve(path), FileContent.of(b"new"), None)])
    (one,) = group.edits
    os.close(one.folder)  # as a kill would; the file stays
    one._open = False
    return one.staged


def new(path):
    """A file that a call was to make."""
    return FileDigests(str(path), None, "a" * 64)


def known(path):
    """One that was there before."""
    return FileDigests(str(path), "b" * 64, "a" * 64)


async def test_what_the_session_had_staged_goes_and_nothing_else(root, look):
    mine = await staged(root, MINE, "sub/deep/a")  # the folders are not there yet: it waits above them
    others = await staged(root, OTHERS, "b")
    nobodys = await staged(root, "", "b")
    assert len({mine[:23], others[:23], nobodys[:23]}) == 3
    stem = mine.removesuffix(".tmp")[:-16]
    alike = [f"{stem}{'0' * 15}.tmp", f"{stem}{'0' * 16}", f"x{mine}", ".term2-0123456789abcdef.tmp"]
    for name in alike:
        (root / name).write_text("somebody's")
    folder, link = f"{stem}{'1' * 16}.tmp", f"{stem}{'2' * 16}.tmp"
    (root / folder).mkdir()
    (root / link).symlink_to("state")
    kept = {*alike, others, nobodys, folder, link, "state"}
    assert set(os.listdir(root)) == {*kept, mine}
    (root / "elsewhere").symlink_to(".")
    await look.remove_staged([known(root / "elsewhere" / "a")], MINE)
    assert mine in os.listdir(root), "a folder that is a link is not the one where it was staged"
    (root / "elsewhere").unlink()
    await look.remove_staged([known(root / "sub/deep/a")], MINE)
    assert mine in os.listdir(root), "a file that was there waits beside its place"
    (root / "sub" / "deep").mkdir(parents=True)  # killed when these were made, and the file was not
    await look.remove_staged([new(f"/{root}/sub/deep/a")], MINE)
    assert set(os.listdir(root)) == {*kept, "sub"}
    await look.remove_staged([new(root / "b")], "")
    assert set(os.listdir(root)) == {*kept, "sub"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
async def test_what_root_had_staged_goes_when_it_was_given_to_somebody_already(root, look):
    mine = await staged(root, MINE, "a")
    os.chown(root / mine, 12345, 12345)
    await look.remove_staged([new(root / "a")], MINE)
    assert mine not in os.listdir(root)


def put_aside(root, owner, text):
    path = root / name_aside(owner)
    path.write_text(text)
    return path


def replaced(path, text):
    return FileDigests(str(path), hashlib.sha256(text.encode()).hexdigest(), "f" * 64)


async def test_what_was_put_aside_is_known_by_what_it_holds(root, look):
    mine, unknown, others = (
        put_aside(root, owner, text) for owner, text in ((MINE, "a"), (MINE, "x"), (OTHERS, "b"))
    )
    twins = [put_aside(root, MINE, "twin"), put_aside(root, MINE, "twin")]
    os.mkfifo(root / name_aside(MINE))
    (root / name_aside(MINE)).symlink_to(mine)
    changes = [replaced(root / "a", "a"), replaced(root / "b", "b"), new(root / "new")]
    changes += [replaced(root / name, "twin") for name in ("c", "d")]
    changes += [replaced(path, "a") for path in ("/no/such/folder/a", "/a\0b/c", "a")]
    found = await look.aside(changes, MINE)
    assert found.pop(str(root / "a")) == str(mine)
    assert found.keys() == {str(root / "c"), str(root / "d")}
    assert sorted(found.values()) == sorted(map(str, twins))
    await look.remove_aside(str(mine))
    await look.remove_aside(str(mine))
    assert not mine.exists()
    assert (unknown.read_text(), others.read_text()) == ("x", "b")


async def test_what_was_put_aside_of_term2s_own_is_not_opened(root, look, monkeypatch):
    # With a second name of a database, closing it would drop every lock of this process on that.
    monkeypatch.setattr(aftermath, "_digest_at", lambda *_arguments: pytest.fail("opened"))
    put_aside(root / "state", MINE, "a")
    assert await look.aside([replaced(root / "state" / "sessions.db", "a")], MINE) == {}


async def test_what_was_put_aside_gets_its_name_again_where_nothing_has_that(root, look):
    aside = put_aside(root, MINE, "a")
    assert await look.put_back(str(aside), str(root / "a"))
    assert (root / "a").read_text() == "a"
    assert not aside.exists()
    aside = put_aside(root, MINE, "older")
    (root / "link").symlink_to("nowhere")
    for taken in ("a", "link"):
        assert not await look.put_back(str(aside), str(root / taken))
    assert (root / "a").read_text() == "a"
    assert aside.read_text() == "older"
    assert not await look.put_back(str(root / "gone"), str(root / "b"))


async def test_a_thread_that_nobody_waits_for_any_more_removes_nothing(root, look, monkeypatch):
    # The session is at work by then, and what it stages has names of the same kind.
    mine = await staged(root, MINE, "a")
    began, go_on, ended = threading.Event(), threading.Event(), trio.Event()
    token, names_in, clear = trio.lowlevel.current_trio_token(), aftermath._names_in, aftermath._clear

    def slowly(within):
        began.set()
        assert go_on.wait(5)
        return names_in(within)

    def to_its_end(*arguments):
        clear(*arguments)
        token.run_sync_soon(ended.set)

    monkeypatch.setattr(aftermath, "_names_in", slowly)
    monkeypatch.setattr(aftermath, "_clear", to_its_end)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(look.remove_staged, [known(root / "a")], MINE)
        await trio.to_thread.run_sync(began.wait, 5)
        nursery.cancel_scope.cancel()
    go_on.set()
    with trio.fail_after(5):
        await ended.wait()
    assert mine in os.listdir(root)


async def test_a_search_shows_nothing_of_what_is_staged(root):
    await staged(root, MINE, "a")
    (root / ".term2-0123456789abcdef.tmp").write_text("as older ones were called")
    (root / ".term2-mine.tmp").write_text("a person's")
    files = Workspace(str(root), home=None)
    listing = await files.list_files(files.resolve("."), "**/*", 10)
    assert listing.paths == (".term2-mine.tmp",)
