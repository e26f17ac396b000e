"""Paths: relative ones from the session's cwd, ``..`` and links by where they lead, bad ones refused."""

import os

import pytest

from term2_acp.workspace import FileRefused, Kind, PathRefused, Workspace


@pytest.fixture
def place(tmp_path):
    """A workspace with a neighbour whose name it is a prefix of, and a home directory."""
    root = tmp_path.resolve()
    for name in ("ws/sub", "ws2", "home/.ssh", "outside"):
        (root / name).mkdir(parents=True)
    (root / "ws/a.txt").write_text("a")
    (root / "outside/f").write_text("f")
    return root


@pytest.fixture
def files(place):
    return Workspace(str(place / "ws"), home=str(place / "home"))


@pytest.mark.parametrize(
    ("typed", "path", "inside"),
    [
        ("a.txt", "ws/a.txt", True),
        ("./sub/../a.txt", "ws/a.txt", True),
        ("sub/./b//c", "ws/sub/b/c", True),
        (".", "ws", True),
        ("sub/", "ws/sub", True),
        ("..", "", False),
        ("../ws2/x", "ws2/x", False),
        ("../ws/a.txt", "ws/a.txt", True),
        ("not/there/yet", "ws/not/there/yet", True),
        ("not/there/../../a.txt", "ws/a.txt", True),
        ("not/../../ws2", "ws2", False),
        ("..a", "ws/..a", True),
        ("é\n\u202e", "ws/é\n\u202e", True),
    ],
)
def test_where_paths_lead(files, place, typed, path, inside):
    target = files.resolve(typed)
    assert target.path == str(place / path)
    assert target.inside is inside
    assert target.typed == os.path.join(files.cwd, typed)
    assert files.resolve(target.typed).path == target.path
    assert files.path_of(typed) == target.path


def test_absolute_paths_are_taken_as_they_are(files):
    target = files.resolve("/etc/hosts")
    assert (target.path, target.inside) == ("/etc/hosts", False)
    assert files.resolve("//etc///hosts").path == "/etc/hosts"
    assert files.resolve("/").path == "/"


def test_the_processs_own_cwd_does_not_matter(files, place, monkeypatch):
    monkeypatch.chdir(place / "outside")
    assert files.resolve("a.txt").path == str(place / "ws/a.txt")


def test_links_count_by_where_they_lead(files, place):
    ws = place / "ws"
    (ws / "out").symlink_to(place / "outside/f")
    (ws / "rel").symlink_to("sub/../a.txt")
    (ws / "folder").symlink_to("../outside")
    (ws / "dangling").symlink_to(place / "outside/new")
    (ws / "chain").symlink_to("out")
    (place / "outside/back").symlink_to(ws / "sub")
    assert files.resolve("out").path == str(place / "outside/f")
    assert not files.resolve("out").inside
    assert files.resolve("rel").path == str(ws / "a.txt")
    assert files.resolve("folder/f").path == str(place / "outside/f")
    assert files.resolve("folder/../ws2").path == str(place / "ws2")
    assert files.resolve("dangling").path == str(place / "outside/new")
    assert not files.resolve("dangling").inside
    assert files.resolve("chain").path == str(place / "outside/f")
    back = files.resolve("../outside/back/x")
    assert (back.path, back.inside) == (str(ws / "sub/x"), True)


def test_loops_are_refused(files, place):
    (place / "ws/one").symlink_to("two")
    (place / "ws/two").symlink_to("one")
    (place / "ws/self").symlink_to("self/x")
    for typed in ("one", "one/x", "self"):
        with pytest.raises(PathRefused, match="too many links"):
            files.resolve(typed)


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("", "empty"),
        ("  ", "empty"),
        ("a\0b", "NUL"),
        ("~", "absolute path"),
        ("~/x", "absolute path"),
        ("file:///etc/passwd", "URL"),
        ("x" * 5000, "too long"),
        ("x" * 256, "too long"),
        ("é" * 128, "too long"),
        ("\ud800", "not UTF-8"),
        ("/proc/self/environ", "/proc"),
        ("/proc/self/fd/0", "/proc"),
        ("/proc/1/root/etc/passwd", "/proc"),
        ("/proc/self/cwd/a.txt", "/proc"),
        ("/dev/fd/0", "/proc"),
    ],
)
def test_bad_paths_are_refused_with_the_reason(files, typed, words):
    with pytest.raises(PathRefused, match=words):
        files.resolve(typed)


def test_a_link_into_proc_is_refused(files, place):
    (place / "ws/p").symlink_to("/proc/self/root")
    with pytest.raises(PathRefused, match="/proc"):
        files.resolve("p/etc/passwd")


def test_a_name_that_is_not_utf8_is_refused_when_a_link_leads_to_it(files, place):
    os.symlink(b"\xff", os.fsencode(place / "ws/l"))
    with pytest.raises(PathRefused, match="not UTF-8"):
        files.resolve("l")


def test_a_home_like_name_is_a_name(files, place):
    assert files.resolve("~$draft.docx").path == str(place / "ws/~$draft.docx")


def test_the_home_directory_may_be_reached_through_a_link(place):
    (place / "alias").symlink_to("home")
    files = Workspace(str(place / "ws"), home=str(place / "alias"))
    assert files.resolve(str(place / "home/.ssh/id")).guarded == "~/.ssh"
    assert files.resolve(str(place / "alias/.ssh/id")).guarded == "~/.ssh"


def test_guards(files, place):
    assert files.resolve(".git/hooks/x").guarded == ".git/"
    assert files.resolve("../home/.ssh/id").guarded == "~/.ssh"
    assert files.resolve("a.txt").guarded is None


def test_what_a_guarded_link_leads_to_is_guarded(files, place):
    dotfiles = place / "home/dotfiles"
    (dotfiles / "ssh").mkdir(parents=True)
    (dotfiles / "bashrc").write_text("x")
    os.rmdir(place / "home/.ssh")
    (place / "home/.ssh").symlink_to("dotfiles/ssh")
    (place / "home/.bashrc").symlink_to(dotfiles / "bashrc")
    (place / "ws/CLAUDE.md").symlink_to("a.txt")
    assert files.resolve("../home/dotfiles/ssh/id").guarded == "~/.ssh"
    assert files.resolve("../home/dotfiles/bashrc").guarded == ".bashrc"
    assert files.resolve("../home/.bashrc").guarded == ".bashrc"
    assert files.resolve("a.txt").guarded == "CLAUDE.md"


def test_a_file_reached_by_a_guarded_name_anywhere_is_guarded(files, place):
    (place / "ws/sub/.envrc").symlink_to("../a.txt")
    assert files.resolve("sub/.envrc").guarded == ".envrc"
    assert files.resolve("a.txt").guarded is None


def test_a_hidden_guard_is_named_before_a_protected_one(files, place):
    assert files.resolve("../home/.ssh/.git/config").guarded == "~/.ssh"


def test_what_is_at_a_target(files, place):
    os.mkfifo(place / "ws/fifo")
    kinds = {name: files.kind(files.resolve(name)) for name in ("a.txt", "sub", "none", "fifo", "a.txt/x")}
    assert kinds == {
        "a.txt": Kind.FILE,
        "sub": Kind.FOLDER,
        "none": Kind.NOTHING,
        "fifo": Kind.OTHER,
        "a.txt/x": Kind.NOTHING,
    }


def test_paths_as_they_are_shown(files, place):
    assert files.shown(str(place / "ws/sub/x")) == "sub/x"
    assert files.shown(str(place / "ws")) == "."
    assert files.shown(str(place / "ws2/x")) == str(place / "ws2/x")


def test_every_refusal_is_one_of_the_rooms_own():
    assert issubclass(PathRefused, FileRefused)


@pytest.mark.parametrize("name", ["sessions.db", "sessions.db-wal", "sessions.lock"])
def test_the_files_of_the_open_store_cannot_be_used_at_all(place, name):
    state = place / "home/state"
    state.mkdir()
    files = Workspace(str(place / "home"), home=str(place / "home"), own_paths=(str(state),))
    for look in (files.resolve, files.path_of):
        with pytest.raises(PathRefused, match="has it open"):
            look(f"state/{name}")
    assert files.resolve("state/logs/x").guarded is not None
    assert files.resolve(name).guarded is None
