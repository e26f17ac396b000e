"""Nothing that is swapped, planted or renamed while the tools work carries an edit out of the workspace.

Where a moment can be named the swap is made then, between two steps of an edit. Where it cannot, a thread
swaps as fast as it can, for a bounded number of edits. What lies outside never changes, and nothing is left
behind.
"""

import os
import threading
from contextlib import contextmanager

import pytest
import trio

from term2_acp.workspace import FileContent, FileRefused, PartlyCommitted, PathChanged, Workspace
from term2_acp.workspace.replace import Edit

EDITS = 300
FOLDER_EDITS = 150  # with folders that move each one takes ten times as long


@pytest.fixture
def root(tmp_path):
    path = tmp_path.resolve()
    for folder in ("ws/sub", "outside/sub"):
        (path / folder).mkdir(parents=True)
    for file in ("ws/t", "ws/sub/t"):
        (path / file).write_text("mine")
    for file in ("outside/f", "outside/t", "outside/sub/t"):
        (path / file).write_text("theirs")
    return path


@pytest.fixture
def files(root):
    return Workspace(str(root / "ws"), home=None)


def tree(folder):
    """Every file below a folder, with what is in it."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


OUTSIDE = {"f": "theirs", "sub/t": "theirs", "t": "theirs"}


def left_behind(folder):
    return [path.name for path in folder.rglob(".term2-*")]


class Meanwhile:
    """A thread that makes the moves in turn, over and over, whether or not one succeeds."""

    def __init__(self, *moves):
        self.moves = moves
        self.stop, self.wanted, self.rests, self.go = (threading.Event() for _ in range(4))
        self.begun = threading.Event()
        self.thread = threading.Thread(target=self._work)

    def _work(self):
        while not self.stop.is_set():
            # Asked before the moves: what an edit did just before the peace is moved over once more.
            wanted = self.wanted.is_set()
            for move in self.moves:
                try:
                    move()
                except OSError:
                    continue
            self.begun.set()
            if wanted:
                self.wanted.clear()
                self.rests.set()
                assert self.go.wait(30)
                self.go.clear()

    @contextmanager
    def peace(self):
        """Nothing moves: all that was moved is back in its place."""
        self.wanted.set()
        assert self.rests.wait(30)
        self.rests.clear()
        try:
            yield
        finally:
            self.go.set()

    def __enter__(self):
        self.thread.start()
        assert self.begun.wait(30)
        return self

    def __exit__(self, *_):
        self.stop.set()
        self.thread.join()


async def edit(files, typed, data=b"edit", between=lambda step: None):
    """One edit of what is inside, as a tool makes it; ``between`` is called before each of its steps."""
    target = files.resolve(typed)
    if not target.inside:
        return False  # here a person is asked
    between("load")
    old = await files.load(target)
    between("stage")
    with await files.stage(target, FileContent.of(data), old) as staged:
        between("commit")
        staged.commit_nowait()
    return True


async def many(moving, one_edit, edits=EDITS):
    """Many edits, every tenth of them in peace: that one succeeds."""
    for number in range(edits):
        await trio.lowlevel.checkpoint()
        if number % 10 == 9:
            with moving.peace():
                assert await one_edit(number)
            continue
        try:
            await one_edit(number)
        except FileRefused:
            continue


def put_link(place, to):
    aside = place.with_name("aside-link")
    aside.symlink_to(to)
    aside.replace(place)


def put_file(place):
    aside = place.with_name("aside-file")
    aside.write_text("mine")
    aside.replace(place)


async def test_a_file_that_flips_between_itself_and_a_link(files, root):
    place = root / "ws/t"
    with Meanwhile(lambda: put_link(place, root / "outside/f"), lambda: put_file(place)) as moving:
        await many(moving, lambda number: edit(files, "t", b"edit %d" % number))
    assert tree(root / "outside") == OUTSIDE
    assert left_behind(root) == []


async def test_a_file_that_flips_between_nothing_and_a_dangling_link(files, root):
    place = root / "ws/new"
    with Meanwhile(place.unlink, lambda: place.symlink_to(root / "outside/new"), place.unlink) as moving:
        await many(moving, lambda number: edit(files, "new", b"edit %d" % number))
    assert tree(root / "outside") == OUTSIDE
    assert left_behind(root) == []


async def test_a_parent_that_is_renamed_away_and_replaced_by_a_link(files, root):
    ws = root / "ws"
    with Meanwhile(
        lambda: (ws / "sub").rename(ws / "aside"),
        lambda: (ws / "sub").symlink_to(root / "outside/sub"),
        (ws / "sub").unlink,
        lambda: (ws / "aside").rename(ws / "sub"),
    ) as moving:
        names = ("sub/t", "sub/deep/new")
        await many(moving, lambda number: edit(files, names[number % 2], b"%d" % number), FOLDER_EDITS)
    assert tree(root / "outside") == OUTSIDE
    assert left_behind(root) == []


async def test_two_folders_that_change_places(files, root):
    ws = root / "ws"
    (ws / "other").mkdir()
    (ws / "other/t").write_text("other")
    with Meanwhile(
        lambda: (ws / "sub").rename(ws / "aside"),
        lambda: (ws / "other").rename(ws / "sub"),
        lambda: (ws / "aside").rename(ws / "other"),
    ) as moving:
        names = ("sub/t", "other/t")
        await many(moving, lambda number: edit(files, names[number % 2], b"%d" % number), FOLDER_EDITS)
    assert tree(root / "outside") == OUTSIDE
    assert left_behind(root) == []


async def test_removals_while_the_file_flips(files, root):
    """What takes the place of a file in the midst of its removal is not overwritten on the way back.

    Then what was moved aside stays aside, and it is said where.
    """
    place = root / "ws/t"
    told = []

    async def remove(_number):
        target = files.resolve("t")
        old = await files.load(target) if target.inside else None
        if old is None:
            return False
        try:
            with await files.stage_all([Edit(target, None, old)]) as staged:
                staged.commit_nowait()
        except PartlyCommitted as error:
            told.append(error.reason)
            return False
        return True

    with Meanwhile(lambda: put_link(place, root / "outside/f"), lambda: put_file(place)) as moving:
        await many(moving, remove)
    assert tree(root / "outside") == OUTSIDE
    assert all(any(name in words for words in told) for name in left_behind(root))


SWAPS = {
    "file for a link": lambda ws, outside: put_link(ws / "sub/t", outside / "f"),
    "parent for a link": lambda ws, outside: (
        (ws / "sub").rename(ws / "aside"),
        (ws / "sub").symlink_to(outside / "sub"),
    ),
    "workspace for a link": lambda ws, outside: (ws.rename(ws.with_name("old")), ws.symlink_to(outside)),
    "parent for another folder": lambda ws, outside: (
        (ws / "sub").rename(ws / "aside"),
        (ws / "sub").mkdir(),
        (ws / "sub/t").write_text("another"),
    ),
    "file for a hard link": lambda ws, outside: (
        (ws / "sub/t").unlink(),
        os.link(outside / "f", ws / "sub/t"),
    ),
}


@pytest.mark.parametrize("step", ["load", "stage", "commit"])
@pytest.mark.parametrize("swap", SWAPS)
async def test_a_swap_at_each_step_of_an_edit(files, root, swap, step):
    swapped = []

    def between(now):
        if now == step:
            SWAPS[swap](root / "ws", root / "outside")
            swapped.append(step)

    harmless = swap in ("parent for another folder", "file for a hard link") and step == "load"
    if harmless:
        # What is there when it is read is what is edited; a hard link outside keeps the old content.
        assert await edit(files, "sub/t", between=between)
    else:
        with pytest.raises(FileRefused):
            await edit(files, "sub/t", between=between)
    assert swapped == [step]
    assert tree(root / "outside") == OUTSIDE
    assert left_behind(root) == []


@pytest.mark.parametrize("step", ["load", "stage", "commit"])
@pytest.mark.parametrize("planted", ["file", "folder"])
async def test_a_link_planted_where_something_new_is_to_be(files, root, planted, step):
    def between(now):
        if now == step:
            place, to = ("new", "f") if planted == "file" else ("new/deep", "sub")
            (root / "ws" / place).parent.mkdir(exist_ok=True)
            (root / "ws" / place).symlink_to(root / "outside" / to)

    with pytest.raises(FileRefused):
        await edit(files, "new" if planted == "file" else "new/deep/t2", between=between)
    assert tree(root / "outside") == OUTSIDE
    assert left_behind(root) == []


async def test_hard_links_to_what_is_outside_are_left_to_it(files, root):
    """A folder may be full of them; an edit gives the name in the workspace a file of its own."""
    os.link(root / "outside/f", root / "ws/linked")
    assert await edit(files, "linked")
    assert (root / "ws/linked").read_text() == "edit"
    assert tree(root / "outside") == OUTSIDE


async def test_what_becomes_guarded_after_the_decision_is_refused(files, root):
    """A link planted as a protected name makes its target one, wherever in the workspace it is."""
    target = files.resolve("t")
    await files.confinement()
    old = await files.load(target)
    (root / "ws/CLAUDE.md").symlink_to("t")
    with pytest.raises(PathChanged, match=r"CLAUDE\.md"):
        await files.stage(target, FileContent.of(b"edit"), old)
    assert (root / "ws/t").read_text() == "mine"


async def test_places_found_while_folders_flip_are_always_canonical(files, root):
    ws = root / "ws"
    (ws / "sub/AGENTS.md").write_text("mine")
    (root / "outside/sub/AGENTS.md").write_text("theirs")
    with Meanwhile(
        lambda: (ws / "sub").rename(ws / "aside"),
        lambda: (ws / "sub").symlink_to(root / "outside/sub"),
        (ws / "sub").unlink,
        lambda: (ws / "aside").rename(ws / "sub"),
    ) as moving:
        found = []
        for _ in range(50):
            found.append(await files.confinement())
        with moving.peace():
            found.append(await files.confinement())
    # A folder that is moved away at the very moment it is looked into is one that cannot be looked into, and
    # is kept as a whole. What lies outside, or behind the link, is never among them.
    allowed = {str(ws / name) for name in ("sub", "aside", "sub/AGENTS.md", "aside/AGENTS.md")}
    places = {path for each in found for path in each.read_only}
    assert str(ws / "sub/AGENTS.md") in places
    assert places <= allowed
