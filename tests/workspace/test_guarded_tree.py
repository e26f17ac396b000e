"""The walk for protected names: at any depth, within bounds, and listing again only what changed."""

import os
import tempfile
from pathlib import Path

import pytest

from term2_acp.domain.paths import PROTECTED_NAMES, guard_of
from term2_acp.workspace import guarded_tree
from term2_acp.workspace.guarded_tree import GuardedTree


@pytest.fixture
def top(tmp_path):
    return tmp_path.resolve()


def put(top, *files):
    for file in files:
        path = top / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def names(top, walk):
    return [os.path.relpath(name, top) for name in walk.names]


@pytest.fixture
def ordinary_folder():
    """A folder of an ordinary user's, and for as long as it is used we are that user."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder).resolve()
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def settled(monkeypatch):
    """Whatever was written before counts as written long ago."""
    monkeypatch.setattr(guarded_tree, "SETTLED_NS", -1)


@pytest.fixture
def listings(monkeypatch):
    """The folders that are listed, as they are."""
    listed = []
    real = os.scandir
    monkeypatch.setattr(guarded_tree.os, "scandir", lambda path: listed.append(path) or real(path))
    return listed


def test_names_are_found_at_any_depth_the_nearest_first(top):
    put(top, "a/b/c/.envrc", "a/AGENTS.md", "CLAUDE.md", "a/b/.vscode/settings.json", ".git/config", "x.md")
    put(top, ".github/workflows/ci.yml", "workflows/x", "a/.GIT/config", "a/.config/fish/config.fish")
    walk = GuardedTree(str(top)).walk()
    assert names(top, walk) == [
        ".git", "CLAUDE.md", ".github/workflows", "a/.GIT", "a/AGENTS.md", "a/.config/fish", "a/b/.vscode",
        "a/b/c/.envrc",
    ]  # fmt: skip
    assert (walk.repositories, walk.closed, walk.incomplete) == ((), (), False)


@pytest.mark.parametrize("name", PROTECTED_NAMES)
def test_the_walk_and_the_guard_know_the_same_names(top, name):
    put(top, f"a/{name.upper()}x" if name.endswith("/") else f"a/{name.upper()}", "a/x" + name.rstrip("/"))
    (found,) = GuardedTree(str(top)).walk().names
    assert os.path.relpath(found, top) == f"a/{name.upper()}".rstrip("/")
    assert guard_of(found, home=None) == name
    assert guard_of(os.path.dirname(found), home=None) is None


def test_no_link_is_followed_and_no_guarded_folder_is_entered(top):
    put(
        top, ".git/.envrc", ".vscode/.envrc", "secret/.envrc", "far/.github/workflows/ci.yml", "far/AGENTS.md"
    )
    (top / "link").symlink_to("far")
    (top / "loop").symlink_to(".")
    (top / ".github").symlink_to("far/.github")
    (top / ".mcp.json").symlink_to("nowhere")
    walk = GuardedTree(str(top)).walk({str(top / "secret")})
    assert names(top, walk) == [
        ".git", ".github/workflows", ".mcp.json", ".vscode", "far/AGENTS.md", "far/.github/workflows",
    ]  # fmt: skip


def test_what_git_takes_for_a_repository_is_found_by_its_look(top):
    put(top, "lib.git/HEAD", "lib.git/objects/x", "lib.git/refs/x", "lib.git/.envrc", "no/HEAD", "no/refs/x")
    walk = GuardedTree(str(top)).walk()
    assert walk.repositories == (str(top / "lib.git"),)
    assert names(top, walk) == ["lib.git/.envrc"]


def test_only_what_changed_is_listed_again(top, settled, listings):
    put(top, "a/b/x", "a/c/x", "d/x")
    tree = GuardedTree(str(top))
    tree.walk()
    assert len(listings) == 5
    listings.clear()
    assert tree.walk().names == ()
    assert listings == []
    put(top, "a/c/AGENTS.md")
    assert names(top, tree.walk()) == ["a/c/AGENTS.md"]
    assert listings == [str(top / "a/c")]
    listings.clear()
    (top / "a/c").rename(top / "d/c")
    assert names(top, tree.walk()) == ["d/c/AGENTS.md"]
    assert sorted(listings) == [str(top / "a"), str(top / "d"), str(top / "d/c")]
    listings.clear()
    (top / "d/c/AGENTS.md").unlink()
    assert tree.walk().names == ()
    assert tree.walk().names == ()
    assert listings == [str(top / "d/c")]


def test_what_changed_just_now_is_listed_again(top, listings, monkeypatch):
    put(top, "a/x")
    tree = GuardedTree(str(top))
    changed = min(os.stat(folder).st_ctime_ns for folder in (top, top / "a"))
    now = [changed + guarded_tree.SETTLED_NS - 1]
    monkeypatch.setattr(guarded_tree.time, "time_ns", lambda: now[0])
    for _ in range(2):
        tree.walk()
    assert listings == [str(top), str(top / "a")] * 2
    now[0] += guarded_tree.SETTLED_NS
    for _ in range(2):
        tree.walk()
    assert listings == [str(top), str(top / "a")] * 3


def test_a_folder_that_took_the_place_of_another_is_listed(top, settled, listings):
    put(top, "a/x", "b/AGENTS.md")
    tree = GuardedTree(str(top))
    tree.walk({str(top / "b")})
    (top / "a").rename(top / "old")
    (top / "b").rename(top / "a")
    assert names(top, tree.walk()) == ["a/AGENTS.md"]


def test_the_bounds_are_kept_and_said(top, monkeypatch):
    put(top, "a/b/.envrc", "c/x", "d/x", "node_modules/p/AGENTS.md")
    assert names(top, GuardedTree(str(top)).walk()) == ["a/b/.envrc", "node_modules/p/AGENTS.md"]
    monkeypatch.setattr(guarded_tree, "MAX_FOLDERS", 5)
    walk = GuardedTree(str(top)).walk()
    # What a package manager filled comes after all that is the project's own.
    assert names(top, walk) == ["a/b/.envrc"]
    assert walk.incomplete
    monkeypatch.setattr(guarded_tree, "MAX_FOLDERS", 20_000)
    put(top, *(".g" + "\u200b" * count + "it" for count in range(1, 21)))
    monkeypatch.setattr(guarded_tree, "_MAX_NAMES_EACH", 20)
    assert not GuardedTree(str(top)).walk().incomplete
    monkeypatch.setattr(guarded_tree, "_MAX_NAMES_EACH", 19)
    walk = GuardedTree(str(top)).walk()
    assert (walk.incomplete, len(walk.names)) == (True, 19 + 2)
    monkeypatch.setattr(guarded_tree, "_MAX_NAMES", 7)
    assert len(GuardedTree(str(top)).walk().names) == 7


def test_what_is_remembered_is_bounded(top, settled, listings, monkeypatch):
    put(top, "a/b/x", "a/c/AGENTS.md")
    monkeypatch.setattr(guarded_tree, "_MAX_REMEMBERED", 1)
    tree = GuardedTree(str(top))
    for _ in range(2):
        assert names(top, tree.walk()) == ["a/c/AGENTS.md"]
    assert listings.count(str(top)) == 1
    assert listings.count(str(top / "a")) == 2


def test_a_folder_that_cannot_be_looked_into_is_told(ordinary_folder):
    top = ordinary_folder
    put(top, "a/AGENTS.md", "b/AGENTS.md")
    for name, mode in (("a", 0o000), ("b", 0o444)):
        (top / name).chmod(mode)
    tree = GuardedTree(str(top))
    walk = tree.walk()
    for name in ("a", "b"):
        (top / name).chmod(0o755)
    assert (walk.closed, walk.names) == ((str(top / "a"), str(top / "b")), ())
    assert names(top, tree.walk()) == ["a/AGENTS.md", "b/AGENTS.md"]


def test_a_workspace_that_is_gone_or_changes_has_no_names(top):
    put(top, "a/AGENTS.md")
    tree = GuardedTree(str(top / "a"))
    assert names(top, tree.walk()) == ["a/AGENTS.md"]
    (top / "a").rename(top / "b")
    assert tree.walk().names == ()
    (top / "a").symlink_to("b")
    assert tree.walk().names == ()


def test_the_second_walk_through_a_large_tree_lists_nothing(top, settled, listings):
    for number in range(500):
        os.makedirs(top / f"a{number % 10}/b{number % 50}/c{number}")
    tree = GuardedTree(str(top))
    tree.walk()
    assert len(listings) == 500 + 50 + 10 + 1
    listings.clear()
    tree.walk()
    assert listings == []
