"""What a command may not touch: the guarded places, what of a git folder is guarded, what is told afterwards.

Repositories are git's own. That git goes on working, and that nobody gets round the guards, is tried in a
mount namespace, where places are bound read-only as the sandbox does it.
"""

import os
import shutil
import stat
import subprocess
import sys
import threading
from pathlib import Path

import attrs
import pytest
import trio

from term2_acp.domain.confinement import Confinement
from term2_acp.workspace import (
    FileContent,
    FileRefused,
    PathChanged,
    Query,
    Workspace,
    confinement,
    gitdir,
    lookout,
)
from term2_acp.workspace.guards import Guards
from tests.kit.namespaces import in_namespaces


def append(path, text):
    with open(path, "a") as file:
        file.write(text)


@pytest.fixture
def root(tmp_path):
    path = tmp_path.resolve()
    (path / "ws").mkdir()
    (path / "home").mkdir()
    return path


@pytest.fixture
def files(root):
    return Workspace(str(root / "ws"), home=str(root / "home"))


def put(top, *names):
    for name in names:
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def git(folder, *words):
    environ = {"PATH": os.environ["PATH"], "HOME": "/nowhere", "GIT_CONFIG_NOSYSTEM": "1"}
    for who in ("AUTHOR", "COMMITTER"):
        environ |= {f"GIT_{who}_NAME": "a", f"GIT_{who}_EMAIL": "a@b"}
    settings = ("-c", "protocol.file.allow=always", "-c", "init.defaultBranch=main")
    done = subprocess.run(("git", *settings, *words), cwd=folder, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)
    return done.stdout


def repository(folder):
    folder.mkdir(parents=True, exist_ok=True)
    git(folder, "init", "-q")
    git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    return folder


def shown(root, paths):
    return sorted(os.path.relpath(path, root) for path in paths)


# -- hidden ----------------------------------------------------------------------------------------


async def test_hidden_places_that_exist_and_what_they_lead_to(root):
    home, state = root / "home", root / "state"
    put(home, ".aws/credentials", "dotfiles/ssh/id", ".netrc", "settings.toml")
    (home / ".ssh").symlink_to("dotfiles/ssh")
    (home / ".bash_history").symlink_to("/dev/null")
    (home / ".kube").symlink_to("nowhere")
    state.mkdir()
    (root / "settings").symlink_to(home / "settings.toml")
    own = (str(state), str(root / "settings"))
    files = Workspace(str(root / "ws"), home=str(home), own_paths=own)
    found = await files.confinement()
    assert shown(root, found.hidden) == [
        "home/.aws", "home/.netrc", "home/dotfiles/ssh", "home/settings.toml", "state",
    ]  # fmt: skip
    assert found == Confinement(str(root / "ws"), hidden=found.hidden)


async def test_a_hidden_place_in_the_workspace_is_hidden_and_not_looked_into(root):
    home = root / "home"
    put(home, ".ssh/.git/config", ".ssh/id", ".config/gcloud/AGENTS.md", "AGENTS.md", ".bashrc")
    (home / "CLAUDE.md").symlink_to(".ssh/id")
    found = await Workspace(str(home), home=str(home)).confinement()
    assert shown(home, found.hidden) == [".config/gcloud", ".ssh"]
    assert shown(home, found.read_only) == [".bashrc", "AGENTS.md"]


BOUND = ("hidden", "inner", "home", "above", "behind")


@pytest.fixture(scope="module")
def namespaces(tmp_path_factory):
    """What came of all that is run in mount namespaces, in one go."""
    calls = {bound: ("mounted_twice", bound) for bound in BOUND} | {"git": ("confined",)}
    folders = {name: tmp_path_factory.mktemp("mounted").resolve() for name in calls}
    return in_namespaces(
        __name__, {name: (call, str(folders[name]), *more) for name, (call, *more) in calls.items()}
    )


@pytest.mark.skipif(sys.platform != "linux", reason="bind mounts are Linux's")
@pytest.mark.parametrize("bound", BOUND)
def test_a_hidden_place_that_is_mounted_twice_is_hidden_twice(namespaces, bound):
    assert namespaces[bound] == ""


def mount(what, where, *options):
    subprocess.run(("mount", "--bind", what, where), check=True)
    if options:
        subprocess.run(("mount", "-o", "remount,bind,ro", where), check=True)


def mounted_twice(top, bound):
    """Run in a mount namespace of its own: the same place under a second name."""
    place = lambda *parts: os.path.join(top, *parts)  # noqa: E731
    for folder in ("up/home/.ssh/keys", "ws/there", "other", "up/other"):
        os.makedirs(place(folder))
    home = "up/home"
    source, more = {
        "hidden": ("up/home/.ssh", "ws/there"),
        "inner": ("up/home/.ssh/keys", "ws/there"),
        "home": ("up/home", "ws/there/.ssh"),
        "above": ("up", "ws/there/home/.ssh"),
        # Home is itself the mount: the second name is an ordinary folder.
        "behind": ("up/home", "up/home/.ssh"),
    }[bound]
    if bound == "behind":
        home = "other"
        mount(place(source), place("other"))
    else:
        mount(place(source), place("ws/there"))
    files = Workspace(place("ws"), home=place(home))
    found = trio.run(files.confinement)
    assert sorted(found.hidden) == sorted([place(home, ".ssh"), place(more)]), found.hidden
    assert (found.read_only, found.incomplete) == ((), False)
    if bound == "behind":
        with open(place("up/home/.ssh/id"), "w") as file:
            file.write("needle")
        files = Workspace(place("up"), home=place(home))
        target = files.resolve(".")
        assert trio.run(lambda: files.search(target, Query("needle"), 9, one_file=False)).hits == ()


# -- read-only -------------------------------------------------------------------------------------


async def test_protected_names_at_any_depth_and_what_they_lead_to(root, files):
    ws = root / "ws"
    put(
        ws, "AGENTS.md", "a/b/.envrc", ".github/workflows/ci.yml", "a/.github/workflows/ci.yml", "docs/a", "x"
    )
    put(root, "outside")
    (ws / "CLAUDE.md").symlink_to("docs/a")
    (ws / "a/.mcp.json").symlink_to("../x")
    (ws / "a/.cursorrules").symlink_to(root / "outside")
    (ws / "a/.bashrc").symlink_to("nowhere")
    (ws / "a/.idea").symlink_to("..")
    (ws / "b").symlink_to("a")
    os.mkfifo(ws / "a/.profile")
    found = await files.confinement()
    assert shown(ws, found.read_only) == [
        ".github/workflows", "AGENTS.md", "a/.github/workflows", "a/b/.envrc", "docs/a", "x",
    ]  # fmt: skip
    assert shown(ws, found.held) == [".github", "a/.github"]
    assert all(Path(path).resolve() == Path(path) for path in (*found.read_only, *found.held))
    assert (found.own_inside, found.incomplete) == (False, False)


async def test_of_a_git_folder_only_what_git_executes(root, files):
    ws = repository(root / "ws")
    repository(ws / "sub/inner")
    git(ws, "config", "extensions.worktreeConfig", "true")
    git(ws, "config", "--worktree", "core.editor", "x")
    found = await files.confinement()
    assert shown(ws, found.read_only) == [
        ".git/config", ".git/config.worktree", ".git/hooks", "sub/inner/.git/config", "sub/inner/.git/hooks",
    ]  # fmt: skip
    assert shown(ws, found.held) == [".git", "sub/inner/.git"]


async def test_a_repository_without_hooks_gets_them_and_nothing_else_is_made(root, files):
    ws = repository(root / "ws")
    for folder in (ws, repository(ws / "sub")):
        for name in ("hooks", "config"):
            place = folder / ".git" / name
            shutil.rmtree(place) if place.is_dir() else place.unlink()
    (ws / "no/.git").mkdir(parents=True)
    before = {path.relative_to(ws) for path in ws.rglob("*")}
    assert await files.newly_protected(await Workspace(str(ws), home=None).confinement()) == ()
    made = {str(path.relative_to(ws)) for path in ws.rglob("*")} - set(map(str, before))
    assert made == {".git/hooks", "sub/.git/hooks"}
    assert list((ws / ".git/hooks").iterdir()) == []
    found = await files.confinement()
    assert shown(ws, found.read_only) == [".git/hooks", "sub/.git/hooks"]
    assert shown(ws, found.held) == [".git", "no/.git", "sub/.git"]


async def test_hooks_are_not_made_through_a_link(root, files):
    ws = repository(root / "ws")
    shutil.rmtree(ws / ".git/hooks")
    (ws / ".git").rename(root / "outside")
    (ws / ".git").symlink_to(root / "outside")
    found = await files.confinement()
    assert (found.read_only, found.held) == ((), ())
    assert not (root / "outside/hooks").exists()
    # Nor where a folder becomes a link in that very moment.
    gitdir.make_hooks_folder(str(ws / ".git"))
    assert not (root / "outside/hooks").exists()


async def test_links_in_place_of_git_folders_and_their_parts(root, files):
    ws = repository(root / "ws")
    (ws / ".git").rename(ws / "store")
    (ws / ".git").symlink_to("store")
    shutil.rmtree(ws / "store/hooks")
    put(ws, "githooks/pre-commit")
    (ws / "store/hooks").symlink_to("../githooks")
    found = await files.confinement()
    assert shown(ws, found.read_only) == ["githooks", "store/config"]
    assert shown(ws, found.held) == ["store"]


async def test_submodules_and_worktrees(root, files):
    ws = repository(root / "ws")
    lib = repository(root / "lib")
    git(ws, "submodule", "add", "-q", "--name", "group/lib", str(lib), "lib")
    git(ws, "worktree", "add", "-q", "tree")
    git(ws, "worktree", "add", "-q", str(root / "elsewhere"))
    found = await files.confinement()
    assert shown(ws, found.read_only) == [
        ".git/config", ".git/hooks", ".git/modules/group/lib/config", ".git/modules/group/lib/hooks",
        ".git/worktrees/elsewhere/commondir", ".git/worktrees/tree/commondir", "lib/.git", "tree/.git",
    ]  # fmt: skip
    assert shown(ws, found.held) == [
        ".git", ".git/modules", ".git/modules/group", ".git/modules/group/lib", ".git/worktrees",
        ".git/worktrees/elsewhere", ".git/worktrees/tree",
    ]  # fmt: skip


async def test_a_git_file_guards_what_it_names(root, files):
    ws = root / "ws"
    repository(ws)
    git(ws, "clone", "-q", "--bare", ".", "main.store")
    git(ws / "main.store", "worktree", "add", "-q", "../tree")
    shutil.rmtree(ws / ".git")
    (ws / ".git").write_text("gitdir: ./main.store\n")
    found = await files.confinement()
    assert shown(ws, found.read_only) == [
        ".git", "main.store/config", "main.store/hooks", "main.store/worktrees/tree/commondir", "tree/.git",
    ]  # fmt: skip
    assert shown(ws, found.held) == ["main.store", "main.store/worktrees", "main.store/worktrees/tree"]
    # What is outside cannot be changed; a file that names nothing, itself, or all of it guards only itself.
    for number, text in enumerate(
        ["", "gitdir:", "gitdir: ", "gitdir: .", "gitdir: /", "gitdir: \0", f"gitdir: {root}", "x" * 10_000]
    ):
        put(ws, f"odd{number}/.git")
        (ws / f"odd{number}/.git").write_text(text)
    os.mkfifo(ws / "odd0/.envrc")
    again = await files.confinement()
    assert set(again.read_only) - set(found.read_only) == {str(ws / f"odd{n}/.git") for n in range(8)}
    assert again.held == found.held


async def test_a_worktree_whose_repository_is_outside(root):
    main = repository(root / "main")
    git(main, "worktree", "add", "-q", str(root / "tree"))
    files = Workspace(str(root / "tree"), home=None)
    found = await files.confinement()
    assert found == Confinement(str(root / "tree"), read_only=(str(root / "tree/.git"),))


async def test_bare_repositories_whatever_they_are_called(root):
    ws = root / "ws"
    git(root, "init", "-q", "--bare", str(ws / "lib"))
    files = Workspace(str(ws), home=None)
    found = await files.confinement()
    assert (shown(ws, found.read_only), shown(ws, found.held)) == (["lib/config", "lib/hooks"], ["lib"])
    assert files.resolve("lib/config").guarded == ".git/"
    inside = Workspace(str(ws / "lib"), home=None)
    found = await inside.confinement()
    assert (shown(ws, found.read_only), found.held) == (["lib/config", "lib/hooks"], ())
    assert inside.resolve("config").guarded == ".git/"
    assert inside.resolve("notes").guarded is None


async def test_folders_that_a_command_put_among_git_folders_hide_none(root, files, monkeypatch):
    ws = repository(root / "ws")
    lib = repository(root / "lib")
    git(ws, "submodule", "add", "-q", "--name", "group/lib", str(lib), "lib")
    for name in ("HEAD", "objects/x", "refs/x"):
        put(ws / ".git/modules", name, f"group/{name}")
    fresh = Workspace(str(ws), home=None)
    for place in (files, fresh):
        found = await place.confinement()
        assert str(ws / ".git/modules/group/lib/hooks") in found.read_only
        assert not found.incomplete
    # Nor do a thousand of them, once it was found; who sees them first says that there are more.
    monkeypatch.setattr(gitdir, "MAX_INNER", 10)
    for number in range(10):
        put(ws / ".git/modules", f"a{number}/b/x")
    found = await fresh.confinement()
    assert str(ws / ".git/modules/group/lib/hooks") in found.read_only
    assert str(ws / ".git/modules/group") in found.held
    assert found.incomplete


async def test_own_code_in_the_workspace_and_a_workspace_in_guarded_places(root):
    ws = root / "ws"
    put(ws, "venv/lib/AGENTS.md", "term2/a.py", "AGENTS.md", "venv/bin/rg", "bin/rg")
    own = (str(ws / "venv"), str(ws / "term2"), str(root / "other"))
    found = await Workspace(str(ws), home=None, own_code=own).confinement()
    assert (shown(ws, found.read_only), found.own_inside) == (["AGENTS.md", "term2", "venv"], True)
    found = await Workspace(str(ws / "term2"), home=None, own_code=own).confinement()
    assert (found.read_only, found.held, found.own_inside) == ((str(ws / "term2"),), (), True)
    put(ws, ".vscode/x/.github/workflows/ci.yml")
    found = await Workspace(str(ws / ".vscode/x"), home=None).confinement()
    assert (found.read_only, found.held, found.own_inside) == ((str(ws / ".vscode/x"),), (), False)


async def test_a_program_that_lies_in_the_workspace_is_run_only_if_it_is_our_own(root):
    ws = root / "ws"
    put(ws, "bin/rg", "a")
    (ws / "bin/rg").write_text("#!/bin/sh\ntouch ../planted\n")
    (ws / "bin/rg").chmod(0o755)
    (ws / "link").symlink_to("/bin/true")
    for program in ("bin/rg", "link"):
        files = Workspace(str(ws), home=None, find_ripgrep=lambda program=program: str(ws / program))
        with pytest.raises(FileRefused, match="neither with term2 nor by the system"):
            await files.list_files(files.resolve("."), "*", 10)
    assert not (root / "planted").exists()
    assert not (ws / "planted").exists()
    guards = Guards(str(ws), None, own_code=(str(ws / "bin"),))
    assert guards.unless_planted(str(ws / "bin/rg")) == str(ws / "bin/rg")
    assert guards.unless_planted("/usr/bin/rg") == "/usr/bin/rg"
    assert guards.unless_planted(None) is None


# -- bounds ----------------------------------------------------------------------------------------


async def test_the_nearest_are_taken_and_what_was_guarded_stays(root, files, monkeypatch):
    ws = root / "ws"
    put(ws, "deep/er/AGENTS.md", "deep/.envrc")
    monkeypatch.setattr(confinement, "MAX_GUARDED", 2)
    found = await files.confinement()
    assert (shown(ws, found.read_only), found.incomplete) == (["deep/.envrc", "deep/er/AGENTS.md"], False)
    put(ws, "CLAUDE.md", "a/.envrc")
    found = await files.confinement()
    assert (shown(ws, found.read_only), found.incomplete) == (["deep/.envrc", "deep/er/AGENTS.md"], True)
    (ws / "deep/.envrc").unlink()
    found = await files.confinement()
    assert (shown(ws, found.read_only), found.incomplete) == (["CLAUDE.md", "deep/er/AGENTS.md"], True)
    found = await Workspace(str(ws), home=None).confinement()
    assert (shown(ws, found.read_only), found.incomplete) == (["CLAUDE.md", "a/.envrc"], True)


async def test_git_folders_count_too_and_stay(root, files, monkeypatch):
    ws = repository(root / "ws")
    lib = repository(root / "lib")
    git(ws, "submodule", "add", "-q", str(lib), "lib")
    full = await files.confinement()
    assert len(full.read_only) == 5
    monkeypatch.setattr(confinement, "MAX_GUARDED", 5)
    put(ws, "CLAUDE.md", ".aaa")
    again = await files.confinement()
    assert (set(again.read_only), again.incomplete) == (set(full.read_only), True)
    assert again.held == full.held
    monkeypatch.setattr(confinement, "MAX_GUARDED", 2)
    assert len((await Workspace(str(ws), home=None).confinement()).read_only) == 2


# -- what a command newly made ---------------------------------------------------------------------


async def test_nothing_is_new_when_nothing_happened(root, files):
    ws = repository(root / "ws")
    put(ws, "AGENTS.md", "a/.vscode/x")
    (ws / "CLAUDE.md").symlink_to("AGENTS.md")
    before = await files.confinement()
    put(ws, "a/b", "a/.vscode/y", "AGENTS.md")
    git(ws, "commit", "-q", "--allow-empty", "-m", "y")
    assert await files.newly_protected(before) == ()


async def test_new_names_are_told_and_what_is_below_them_is_not(root, files):
    ws = repository(root / "ws")
    before = await files.confinement()
    put(ws, "sub/AGENTS.md", ".git/commondir", ".git/rebase-merge/git-rebase-todo", ".git/other", "c/.idea/x")
    repository(ws / "new")
    (ws / ".envrc").symlink_to("nowhere")
    assert shown(ws, await files.newly_protected(before)) == [
        ".envrc", ".git/commondir", ".git/rebase-merge/git-rebase-todo", "c/.idea", "new/.git",
        "sub/AGENTS.md",
    ]  # fmt: skip
    now = await files.confinement()
    assert await files.newly_protected(now) == ()
    assert str(ws / ".git/commondir") in now.read_only
    assert str(ws / ".git/rebase-merge/git-rebase-todo") not in now.read_only


async def test_what_git_executes_when_it_goes_on_is_told_when_it_is_written(root, files):
    ws = repository(root / "ws")
    put(ws, ".git/rebase-merge/git-rebase-todo", ".git/sequencer/opts")
    before = await files.confinement()
    assert await files.newly_protected(before) == ()
    append(ws / ".git/rebase-merge/git-rebase-todo", "exec evil\n")
    os.utime(ws / ".git/rebase-merge/git-rebase-todo", (1, 1))
    put(ws, ".git/rebase-merge/strategy")
    assert shown(ws, await files.newly_protected(before)) == [
        ".git/rebase-merge/git-rebase-todo", ".git/rebase-merge/strategy",
    ]  # fmt: skip


async def test_links_where_git_writes_are_told(root, files):
    ws = repository(root / "ws")
    put(ws, "file")
    git(ws, "add", "file")
    git(ws, "commit", "-q", "-m", "x")
    before = await files.confinement()
    assert await files.newly_protected(before) == ()
    names = ["COMMIT_EDITMSG", "FETCH_HEAD", "MERGE_MSG", "deep", "logs/HEAD", "logs/refs/heads/other"]
    for name in names:
        (ws / ".git" / name).unlink(missing_ok=True)
        (ws / ".git" / name).symlink_to(root / "elsewhere")
    put(ws, ".git/objects/ab/cd")  # what is below the objects is not looked at
    (ws / ".git/objects/ab/link").symlink_to(root / "elsewhere")
    assert shown(ws, await files.newly_protected(before)) == [f".git/{name}" for name in names]


async def test_a_link_is_found_in_a_git_folder_that_was_filled(root, files, monkeypatch):
    monkeypatch.setattr(gitdir, "MAX_ENTRIES", 10)
    ws = repository(root / "ws")
    put(ws, *(f".git/{number}" for number in range(50)))
    before = await files.confinement()
    (ws / ".git/COMMIT_EDITMSG").unlink()
    (ws / ".git/COMMIT_EDITMSG").symlink_to(root / "elsewhere")
    assert shown(ws, await files.newly_protected(before)) == [".git/COMMIT_EDITMSG"]


async def test_what_took_the_place_of_another_is_told(root, files):
    ws = repository(root / "ws")
    put(ws, "a/AGENTS.md", "x", "y", "hooks/pre-commit")
    (ws / "CLAUDE.md").symlink_to("x")
    (ws / ".mcp.json").symlink_to("x")
    (ws / ".cursorrules").symlink_to("x")
    shutil.rmtree(ws / ".git/hooks")
    (ws / ".git/hooks").symlink_to("../hooks")
    before = await files.confinement()
    (ws / "a").rename(ws / "b")
    put(ws, "a/AGENTS.md")
    for name, other in (
        ("CLAUDE.md", "y"),
        (".mcp.json", None),
        (".cursorrules", "./x"),
        (".git/hooks", "h"),
    ):
        (ws / name).unlink()
        (ws / name).symlink_to(other) if other else put(ws, name)
    assert shown(ws, await files.newly_protected(before)) == [
        ".git/hooks", ".mcp.json", "CLAUDE.md", "a/AGENTS.md", "b/AGENTS.md",
    ]  # fmt: skip


async def test_new_credentials_and_settings_in_the_workspace_are_told(root):
    home = root / "home"
    settings = home / ".config/term2/settings.toml"
    files = Workspace(str(home), home=str(home), own_paths=(str(settings),))
    before = await files.confinement()
    put(home, ".ssh/authorized_keys", ".config/term2/settings.toml")
    assert shown(home, await files.newly_protected(before)) == [".config/term2/settings.toml", ".ssh"]


async def test_names_that_are_not_text_are_guarded_and_can_be_told(root, files):
    ws = root / "ws"
    before = await files.confinement()
    folder = os.fsencode(ws) + b"/\xff"
    os.mkdir(folder)
    os.mknod(folder + b"/AGENTS.md")
    assert await files.newly_protected(before) == (f"{ws}/\ufffd/AGENTS.md",)
    assert (await files.confinement()).read_only == (os.fsdecode(folder) + "/AGENTS.md",)


# -- what the tools know of it ---------------------------------------------------------------------


async def edit(files, typed):
    target = files.resolve(typed)
    old = await files.load(target)
    if old is not None:
        files.saw(target, old)
    with await files.stage(target, FileContent.of(b"new"), old) as staged:
        staged.commit_nowait()


async def test_a_nested_name_that_is_a_link_guards_what_it_leads_to(root, files):
    ws = root / "ws"
    put(ws, "a/b/x", "docs/y", "plain")
    (ws / "a/b/.envrc").symlink_to("../../docs/y")
    (ws / "a/b/AGENTS.md").symlink_to("../../new")
    # It was decided about while nothing was known: refused, and asked about when it is tried again.
    for name, guard in (("docs/y", ".envrc"), ("new", "AGENTS.md")):
        with pytest.raises(PathChanged, match="is protected"):
            await files.stage(attrs.evolve(files.resolve(name), guarded=None), FileContent.of(b"new"), None)
        assert files.resolve(name).guarded == guard
    assert (ws / "docs/y").read_text() == "x"
    await edit(files, "docs/y")
    await edit(files, "plain")
    assert (ws / "docs/y").read_text() == "new"
    (ws / "a/b/.envrc").unlink()
    await files.confinement()
    assert files.resolve("docs/y").guarded is None


async def test_a_git_file_guards_what_it_names_for_the_tools(root, files):
    ws = root / "ws"
    git(root, "init", "-q", "--separate-git-dir", str(ws / "store"), str(ws / "sub"))
    put(ws, "plain")
    await files.confinement()
    assert files.resolve("store/hooks/pre-commit").guarded == ".git/"
    assert files.resolve("store/objects/x").guarded == ".git/"
    assert files.resolve("plain").guarded is None


async def test_an_edit_looks_once_in_a_while_and_does_not_wait_for_ever(root, files, monkeypatch):
    looks = []
    release = threading.Event()
    real = confinement.GuardedPlaces.look

    def look(places, *, make_hooks=False):
        looks.append(make_hooks)
        return real(places, make_hooks=make_hooks)

    monkeypatch.setattr(confinement.GuardedPlaces, "look", look)
    await edit(files, "a")
    await edit(files, "a")
    assert looks == [False]
    monkeypatch.setattr(lookout, "KNOWN_FOR_S", 0)
    monkeypatch.setattr(lookout, "MAX_WAIT_S", 0.05)
    monkeypatch.setattr(confinement.GuardedPlaces, "look", lambda *_, **__: release.wait(30))
    try:
        await edit(files, "a")
        assert (root / "ws/a").read_text() == "new"
        # One look at a time: a second one that waits takes no thread that files are read in.
        with trio.move_on_after(0.05) as scope:
            await files.confinement()
        assert scope.cancelled_caught
        for number in range(6):
            await edit(files, f"b{number}")
    finally:
        release.set()


# -- in a sandbox ----------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="bind mounts are Linux's")
def test_git_goes_on_working_and_the_guards_hold(namespaces):
    assert namespaces["git"] == ""


def confined(top):
    """Run in a mount namespace of its own: bind the places as the sandbox does, use git, try to get round."""
    root = Path(top)
    ws = repository(root / "ws")
    lib = repository(root / "lib")
    git(ws, "submodule", "add", "-q", str(lib), "lib")
    git(ws, "worktree", "add", "-q", "tree")
    put(ws, "a/AGENTS.md", ".github/workflows/ci.yml")
    git(ws, "add", "a", ".github")
    git(ws, "commit", "-q", "-m", "y")
    files = Workspace(str(ws), home=None)
    found = trio.run(files.confinement)
    for place in found.held:
        mount(place, place)
    for place in found.read_only:
        mount(place, place, "ro")
    for folder in (ws, ws / "lib", ws / "tree"):
        put(folder, "new")
        git(folder, "add", "new")
        git(folder, "commit", "-q", "-m", "new")
        put(folder, "new2")
        (folder / "new").write_text("changed")
        git(folder, "stash", "-q", "-u")
        git(folder, "stash", "pop", "-q")
        git(folder, "commit", "-q", "-a", "-m", "more")
        git(folder, "branch", f"b-{folder.name}")
        git(folder, "checkout", "-q", f"b-{folder.name}")
        git(folder, "tag", f"t-{folder.name}")
        git(folder, "gc", "-q", "--prune=now")
        git(folder, "fsck")
    refused = (
        "mv .git .git2",
        "rm -rf .git/hooks",
        "touch .git/hooks/pre-commit",
        "git config core.fsmonitor x",
        "mv .git/config .git/c",
        "mv .git/modules .git/m",
        "mv .git/modules/lib .git/modules/l",
        "touch .git/modules/lib/hooks/x",
        "mv .git/worktrees .git/w",
        "echo .. > .git/worktrees/tree/commondir",
        "echo 'gitdir: x' > lib/.git",
        "rm lib/.git",
        "mv .github x",
        "echo > a/AGENTS.md",
        "rm a/AGENTS.md",
        "ln .git/config x && echo > x",
    )
    for line in refused:
        done = subprocess.run(("sh", "-c", line), cwd=ws, capture_output=True)
        assert done.returncode != 0, line
    assert trio.run(files.newly_protected, found) == ()
    subprocess.run(("sh", "-c", "mv a b; mkdir a; echo > a/AGENTS.md"), cwd=ws, check=True)
    told = trio.run(files.newly_protected, found)
    assert told == (str(ws / "a/AGENTS.md"), str(ws / "b/AGENTS.md")), told


async def test_the_look_is_in_a_thread_and_reads_no_file_of_the_workspace(root, files, monkeypatch):
    ws = repository(root / "ws")
    put(ws, "AGENTS.md")
    for path in ws.rglob("*"):
        if stat.S_ISREG(path.stat().st_mode) and path.name not in ("commondir",):
            os.utime(path, ns=(1, path.stat().st_mtime_ns))
    threads = []
    real = confinement.GuardedPlaces.look
    monkeypatch.setattr(
        confinement.GuardedPlaces, "look",
        lambda places, **how: threads.append(threading.get_ident()) or real(places, **how),
    )  # fmt: skip
    await files.confinement()
    assert len(threads) == 1
    assert threads[0] != threading.get_ident()
    read = [path for path in ws.rglob("*") if path.is_file() and path.stat().st_atime_ns != 1]
    assert read == []
