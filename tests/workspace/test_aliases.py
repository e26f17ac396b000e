"""A hidden place under a second name, which no link gives away, is hidden there too."""

import os
import subprocess
import sys
import threading

import pytest
import trio

from term2_acp.domain.paths import OWN_FILES
from term2_acp.workspace import PathRefused, Query, Workspace
from term2_acp.workspace import aliases as aliases_module
from term2_acp.workspace.aliases import Aliases, mounts_below
from term2_acp.workspace.guards import Guards
from tests.kit.namespaces import in_namespaces


def test_a_hard_link_to_a_hidden_file_is_hidden(tmp_path):
    root = tmp_path.resolve()
    (root / "home").mkdir()
    (root / "ws").mkdir()
    (root / "home/.netrc").write_text("key")
    os.link(root / "home/.netrc", root / "ws/notes")
    (root / "ws/plain").write_text("words")
    files = Workspace(str(root / "ws"), home=str(root / "home"))
    assert files.resolve("notes").guarded == "~/.netrc"
    assert files.resolve("plain").guarded is None


def test_one_look_is_believed_for_a_while(tmp_path, monkeypatch):
    root = tmp_path.resolve()
    now = 1000.0
    monkeypatch.setattr(aliases_module.time, "monotonic", lambda: now)
    aliases = Aliases((str(root / "a"),))
    assert aliases.name_of(str(root / "b")) is None
    (root / "a").write_text("")
    os.link(root / "a", root / "b")
    assert aliases.name_of(str(root / "b")) is None
    now += 1.1
    assert aliases.name_of(str(root / "b")) == str(root / "a")
    assert aliases.name_of(str(root / "a")) is None


def test_mount_points_are_read_with_their_white_space(tmp_path, monkeypatch):
    table = tmp_path / "mountinfo"
    table.write_text(
        "22 1 0:21 / /proc rw - proc proc rw\n"
        "23 1 8:1 / /w/a\\040b\\134c rw - ext4 /dev/a rw\n"
        "24 1 8:1 / /w rw - ext4 /dev/a rw\n"
        "25 1 8:1 / /w2/x rw - ext4 /dev/a rw\n"
        "26 1 8:1 / / rw - ext4 /dev/a rw\n"
    )
    monkeypatch.setattr(aliases_module, "_MOUNTS", str(table))
    assert mounts_below("/w") == ("/w/a b\\c",)
    assert mounts_below("/") == ("/proc", "/w/a b\\c", "/w", "/w2/x")
    monkeypatch.setattr(aliases_module, "_MOUNTS", str(tmp_path / "missing"))
    assert mounts_below("/w") == ()


async def test_mounts_are_looked_at_in_a_thread_since_one_may_hang(tmp_path, monkeypatch):
    where = []

    def looked(guards, folder):
        where.append((folder, threading.get_ident()))
        return {}

    monkeypatch.setattr(Guards, "mounts_below", looked)
    files = Workspace(str(tmp_path.resolve()), home=None)
    target = files.resolve(".")
    await files.list_files(target, "*", 10)
    await files.search(target, Query("x"), 10, one_file=False)
    assert [folder for folder, _thread in where] == [target.path] * 2
    assert threading.get_ident() not in [thread for _folder, thread in where]


BOUND = ("home", "parent", "hidden", "state")


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory):
    """What came of each, in one go."""
    calls = {
        bound: ("mounted_twice", str(tmp_path_factory.mktemp("mounted").resolve()), bound) for bound in BOUND
    }
    return in_namespaces(__name__, calls)


@pytest.mark.skipif(sys.platform != "linux", reason="bind mounts are Linux's")
@pytest.mark.parametrize("bound", BOUND)
def test_a_hidden_place_that_is_mounted_twice_is_hidden_twice(namespaces, bound):
    assert namespaces[bound] == ""


def mounted_twice(root: str, bound: str) -> None:
    """Run in a mount namespace of its own: bind something into the workspace and look through that."""
    for folder in ("top/home/.ssh", "top/home/docs", "ws/there", "state"):
        os.makedirs(os.path.join(root, folder))
    for file in ("top/home/.ssh/id", "top/home/docs/a", "ws/b", "state/settings", "state/sessions.db"):
        with open(os.path.join(root, file), "w") as handle:
            handle.write("needle\n")
    source = {"home": "top/home", "parent": "top", "hidden": "top/home/.ssh", "state": "state"}[bound]
    there = os.path.join(root, "ws/there")
    subprocess.run(("mount", "--bind", os.path.join(root, source), there), check=True)
    home, state = os.path.join(root, "top/home"), os.path.join(root, "state")
    files = Workspace(os.path.join(root, "ws"), home=home, own_paths=(state,))
    if bound == "state":
        assert files.resolve("there/settings").guarded == OWN_FILES
        try:
            files.resolve("there/sessions.db")
        except PathRefused:
            pass
        else:
            raise AssertionError("the open database can be used under another name")
    else:
        key = {"home": "there/.ssh/id", "parent": "there/home/.ssh/id", "hidden": "there/id"}[bound]
        assert files.resolve(key).guarded == "~/.ssh"
    shown = {"home": ["there/docs/a"], "parent": ["there/home/docs/a"]}.get(bound, [])
    target = files.resolve(".")
    hits = trio.run(lambda: files.search(target, Query("needle"), 100, one_file=False))
    assert [hit.path for hit in hits.hits] == ["b", *shown]
    # The same from a workspace that is itself the second name.
    if bound == "home":
        files = Workspace(there, home=home)
        target = files.resolve(".")
        hits = trio.run(lambda: files.search(target, Query("needle"), 100, one_file=False))
        assert [hit.path for hit in hits.hits] == ["docs/a"]
        assert files.resolve(".ssh/id").guarded == "~/.ssh"
