"""Git and the sandbox: a command can use a repository for all of its daily work, and plant nothing in it that
the person's own git would run outside, later.

Each plant is tried twice: by a command in the sandbox, and bare, in another copy of the same repository. Then
git is used outside as a person uses it. What was planted bare must have run, or the test would say nothing;
what was planted by a command must not have. Where a plant cannot be refused, since the name was not there
before, it must be told. The last test runs all others as an ordinary user."""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from term2_acp.sandbox import Sandbox, Unavailable
from term2_acp.workspace import Workspace
from tests.kit.commands import ROOT, SOMEBODY, everything

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes that are tried are Linux's"),
    pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed"),
]

# Folders that commands see, other than the temporary ones, of which they have their own.
PLACES = ("/srv", "/opt", os.path.expanduser("~"))

# Seconds for all tests of this file, run by an ordinary user.
PATIENCE_S = 100


class Person:
    """Somebody with a home, whose git is used outside; ``ran`` is what evil programs leave there."""

    def __init__(self, folder, sandbox):
        self.home = folder
        self.sandbox = sandbox
        # No examples of hooks, and no waiting for the disk: there are many repositories.
        for name in ("hooks", "info"):
            (folder / ".template" / name).mkdir(parents=True)
        (folder / ".gitconfig").write_text(
            f"[init]\n\tdefaultBranch = main\n\ttemplateDir = {folder}/.template\n"
            "[user]\n\tname = n\n\temail = a@b\n"
            '[protocol "file"]\n\tallow = always\n[core]\n\tfsync = none\n[gc]\n\tauto = 0\n'
        )

    @property
    def ran(self):
        return sorted(path.name for path in self.home.glob("ran-*"))

    def git(self, where, *words, check=True):
        """The person's own git, outside; what it printed."""
        variables = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LC_ALL": "C", "GIT_EDITOR": "true"}
        done = subprocess.run(
            ["git", *words],
            cwd=where,
            env=variables,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def repository(self, name):
        """A repository with some history, two branches, a submodule and a worktree. It is made only once."""
        pattern = self.home / "pattern"
        if not pattern.exists():
            self._make_pattern(pattern)
        where = self.home / name
        shutil.copytree(pattern, where, symlinks=True)
        for file in (where / "tree/.git", where / ".git/worktrees/tree/gitdir"):
            file.write_text(file.read_text().replace(str(pattern), str(where)))
        return where

    def _make_pattern(self, where):
        for one in (self.home / "library", where):
            one.mkdir()
            self.git(one, "init", "-q")
            (one / "file").write_text("one\n")
            self.git(one, "add", "file")
            self.git(one, "commit", "-qm", "one")
        self.git(where, "submodule", "--quiet", "add", str(self.home / "library"), "lib")
        self.git(where, "commit", "-qm", "with a library")
        self.git(where, "branch", "side")
        self.git(where, "worktree", "add", "-q", "tree", "side")
        (where / ".git/info/exclude").write_text("tree\nevil\nran\n")

    async def confined(self, where, line):
        """Run a line in the sandbox: its exit code, what it printed, and the protected names it told."""
        files = Workspace(str(where), home=str(self.home))
        before = await files.confinement()
        command = ["/bin/bash", "-ec", line]
        async with self.sandbox.launch(command, before, cwd=str(where)) as running:
            said = (await everything(running)).decode()
            code = (await running.wait()).code
        told = await files.newly_protected(before)
        return code, said, sorted(str(Path(path).relative_to(where)) for path in told)

    def bare(self, where, line):
        """Run the same line without a sandbox."""
        variables = {"HOME": str(self.home), "PATH": os.environ["PATH"], "LC_ALL": "C"}
        subprocess.run(["/bin/bash", "-c", line], cwd=where, env=variables, capture_output=True)

    def work(self, where, *, until_something_ran=False):
        """A morning's work of the person, outside, with what is there."""
        with open(where / "file", "a") as file:
            file.write("more\n")
        for line in ("status", "diff", "add file", "commit -m mine", "checkout -q -b other", "checkout -q -"):
            self.git(where, *line.split(), check=False)
            if until_something_ran and self.ran:
                return
        self.git(where / "lib", "checkout", "-q", "-b", "mine", check=False)
        if (where / "tree").exists():
            self.git(where / "tree", "status", check=False)


@pytest.fixture(scope="module")
def somebody():
    """One for all tests: the sandbox is tried out once, and one repository made that others are copies of."""
    place = next((place for place in PLACES if os.access(place, os.W_OK)), None)
    if place is None:
        pytest.skip("there is no folder here that commands see and that is ours to write in")
    with (
        tempfile.TemporaryDirectory(prefix="term2-git-", dir=place) as folder,
        tempfile.TemporaryDirectory() as state,
    ):
        yield Person(Path(folder).resolve(), Sandbox({"PATH": os.environ["PATH"], "HOME": folder}, (), state))


@pytest.fixture
async def person(somebody):
    layers = await somebody.sandbox.layers()
    if isinstance(layers, Unavailable) or layers.kind != "bubblewrap":
        pytest.skip("protected names are held by bubblewrap alone, and there is none here")
    yield somebody
    for path in somebody.home.iterdir():
        if path.name not in ("pattern", "library", ".gitconfig", ".template"):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()


# -- daily work ------------------------------------------------------------------------------------

WORK = """
cd "$1" 2>/dev/null || true
git status --short
echo two >> file; echo new > added
git add -A
git commit -qm two
git branch topic; git checkout -q topic
echo three >> file; git stash -q; git stash pop -q
git commit -qam three
git checkout -q -; git merge -q topic
git tag v1; git branch -D topic -q 2> /dev/null
git mv added moved; git commit -qm moved; git rm -q moved; git commit -qm removed
echo x > file; git checkout -q file; git reset -q --hard HEAD~1; git revert --no-edit HEAD > /dev/null
git commit -q --allow-empty -m empty; git cherry-pick --allow-empty HEAD > /dev/null
git rebase -q HEAD~1; git commit -q --amend --no-edit --allow-empty
git gc -q --prune=now; git repack -qad; git pack-refs --all; git fsck --no-progress
git reflog expire --expire=now --all
git log --oneline | wc -l
"""


@pytest.mark.parametrize("where", [".", "lib", "tree"])
async def test_a_command_can_do_a_days_work(person, where):
    """In the repository, its submodule and its worktree; and the person's git finds it all in order."""
    repository = person.repository("project")
    commits = int(person.git(repository / where, "rev-list", "--count", "HEAD"))
    code, said, told = await person.confined(repository, f"set -- {where}\n{WORK}")
    assert (code, said.split(), told) == (0, [str(commits + 6)], [])
    assert person.git(repository / where, "status", "--short", "--ignore-submodules") == ""
    assert person.git(repository / where, "fsck", "--no-progress", "--no-dangling") == ""
    assert person.git(repository / where, "log", "-1", "--format=%an") == "n\n"


async def test_a_command_can_make_a_repository_and_a_worktree_and_that_is_told(person):
    repository = person.repository("project")
    line = (
        "git init -q made; cd made; git commit -q --allow-empty -m x; cd ..; "
        "git worktree add -q more; git worktree list | wc -l"
    )
    code, said, told = await person.confined(repository, line)
    assert (code, said) == (0, "3\n")
    assert told == [".git/worktrees/more/commondir", "made/.git", "more/.git"]


async def test_a_repository_that_needs_settings_says_so(person):
    """What git cannot do in the sandbox ends with an error that names the file."""
    repository = person.repository("project")
    code, said, _told = await person.confined(repository, "git config user.name other")
    assert code != 0
    assert ".git/config" in said


# -- what is refused -------------------------------------------------------------------------------

EVIL = """
printf '#!/bin/sh\\n: > %s/ran-%s\\ncat < /dev/null\\n' "$HOME" NAME > evil; chmod +x evil; E=$PWD/evil
"""

CONFIG = "printf '[core]\\n\\tfsmonitor = %s\\n[diff]\\n\\texternal = %s\\n' $E $E"

MORE = f"cp -r .git g; {CONFIG} >> g/config"

REFUSED = {
    "a hook": "cp evil .git/hooks/pre-commit; cp evil .git/hooks/post-checkout",
    "a hook by a link": "ln -s $E .git/hooks/pre-commit",
    "a hook by a rename": "cp evil hook; mv hook .git/hooks/pre-commit",
    "other hooks": "mkdir hooks; cp evil hooks/pre-commit; mv .git/hooks .git/h; mv hooks .git/hooks",
    "a link in place of the hooks": (
        "mkdir hooks; cp evil hooks/pre-commit; rm -rf .git/hooks; ln -s ../hooks .git/hooks"
    ),
    "another folder of hooks": "mkdir hooks; cp evil hooks/pre-commit; git config core.hooksPath $PWD/hooks",
    "a monitor of files": "git config core.fsmonitor $E",
    "a program for differences": "git config diff.external $E",
    "a filter": "git config filter.x.clean $E; echo '* filter=x' > .gitattributes",
    "a filter by the folder's attributes": (
        "git config filter.x.clean $E; echo '* filter=x' > .git/info/attributes"
    ),
    "a program that signs": "git config gpg.program $E; git config commit.gpgSign true",
    "an included file": f"git config include.path $PWD/more; {CONFIG} > more",
    "a setting for one worktree": (
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor $E"
    ),
    "a configuration by a rename": f"cp .git/config c; {CONFIG} >> c; mv c .git/config",
    "a configuration by a lock": (
        f"cp .git/config .git/config.lock; {CONFIG} >> .git/config.lock; mv .git/config.lock .git/config"
    ),
    "another git folder": f"{MORE}; mv .git old; mv g .git",
    "a link in place of the git folder": f"{MORE}; mv .git old; ln -sT g .git",
    "a file in place of the git folder": f"{MORE}; mv .git old; echo 'gitdir: g' > .git",
    "a hook of the submodule": (
        "cp evil .git/modules/lib/hooks/post-checkout; cp evil .git/modules/lib/hooks/reference-transaction"
    ),
    "a configuration of the submodule": f"{CONFIG} >> .git/modules/lib/config",
    "another file for the submodule": (
        f"cp -r .git/modules/lib g; {CONFIG} >> g/config; git config -f g/config --unset core.worktree; "
        'echo "gitdir: $PWD/g" > lib/.git'
    ),
    "another common folder for the worktree": f"{MORE}; echo $PWD/g > .git/worktrees/tree/commondir",
    "another file for the worktree": f'{MORE}; echo "gitdir: $PWD/g" > tree/.git',
}


@pytest.mark.parametrize("plant", REFUSED)
async def test_a_plant_that_is_refused(person, plant):
    bare, confined = person.repository("bare"), person.repository("confined")
    person.bare(bare, EVIL.replace("NAME", "bare") + REFUSED[plant])
    person.work(bare, until_something_ran=True)
    assert person.ran == ["ran-bare"]
    # Each step by itself: that one of them is refused shall not keep the others from being tried.
    _code, _said, told = await person.confined(
        confined, "set +e\n" + EVIL.replace("NAME", "confined") + REFUSED[plant]
    )
    person.work(confined)
    assert person.ran == ["ran-bare"]
    assert [name for name in told if name.startswith(".git")] == []
    assert "mine" in person.git(confined, "log", "--format=%s")


HARMLESS = {
    "objects of elsewhere": "git init -q --bare o; echo $PWD/o/objects > .git/objects/info/alternates",
    "attributes without a program": "echo '* filter=x diff=y merge=z' > .git/info/attributes",
    "modules that say what to run": (
        "git config -f .gitmodules submodule.lib.update '!'$E; "
        "git config -f .gitmodules submodule.lib.fsmonitor $E"
    ),
    "a monitor in the index": "git update-index --fsmonitor",
    "a bare repository beside": f"git init -q --bare b; {CONFIG} >> b/config",
}


@pytest.mark.parametrize("plant", HARMLESS)
async def test_what_is_data_to_git_runs_nothing(person, plant):
    """It is not kept from a command, and does nothing bare either."""
    bare, confined = person.repository("bare"), person.repository("confined")
    person.bare(bare, EVIL.replace("NAME", "bare") + HARMLESS[plant])
    await person.confined(confined, "set +e\n" + EVIL.replace("NAME", "confined") + HARMLESS[plant])
    for where in (bare, confined):
        person.work(where)
    assert person.ran == []


# -- what is told ----------------------------------------------------------------------------------

TOLD = {
    "a common folder": (
        f"cp -r .git g; {CONFIG} >> g/config; echo $PWD/g > .git/commondir",
        {".git/commondir", "g/config", "g/hooks"},
    ),
    "a repository that the index names": (
        f"git init -q n; git -C n commit -q --allow-empty -m x; {CONFIG} >> n/.git/config; git add n",
        {"n/.git"},
    ),
    "steps of a rebase": (
        "printf 'break\\nexec %s\\n' $E > steps; GIT_SEQUENCE_EDITOR='cp steps' git rebase -q -i HEAD",
        {".git/rebase-merge/git-rebase-todo"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("plant", TOLD)
async def test_a_plant_that_cannot_be_refused_is_told(person, plant):
    """The name was not there before, so there was nothing to keep read-only."""
    line, names = TOLD[plant]
    repository = person.repository("project")
    _code, said, told = await person.confined(repository, EVIL.replace("NAME", "told") + line)
    assert names <= set(told), said
    person.work(repository)
    person.git(repository, "rebase", "--continue", check=False)
    assert person.ran == ["ran-told"]  # as the warning says of such files: other programs run them


async def test_a_strategy_of_a_rebase_that_is_under_way_is_told(person):
    """Git takes it for the name of a program, with slashes in it too."""
    repository = person.repository("project")
    person.git(repository, "checkout", "-q", "-b", "mine", "HEAD~1")
    (repository / "file").write_text("mine\n")
    person.git(repository, "commit", "-qam", "mine")
    (repository / "file").write_text("mine again\n")
    person.git(repository, "commit", "-qam", "mine again")
    person.git(repository, "checkout", "-q", "-b", "theirs", "main")
    (repository / "file").write_text("theirs\n")
    person.git(repository, "commit", "-qam", "theirs")
    person.git(repository, "rebase", "theirs", "mine", check=False)
    assert (repository / ".git/rebase-merge").is_dir()
    line = (
        "mkdir git-merge-x; cp evil git-merge-x/y; echo x/y > .git/rebase-merge/strategy; "
        "echo both > file; git add file"
    )
    _code, said, told = await person.confined(repository, EVIL.replace("NAME", "told") + line)
    assert told == [".git/rebase-merge/strategy"], said
    person.git(repository, "rebase", "--continue", check=False)
    assert person.ran == ["ran-told"]


@pytest.mark.parametrize("name", ["COMMIT_EDITMSG", "logs/HEAD", "FETCH_HEAD"])
async def test_a_link_that_git_would_write_through_is_told(person, name):
    """A message or a line that git writes later goes where the link leads, into a file of the home."""
    repository = person.repository("project")
    (person.home / ".bashrc").write_text("as it was\n")
    _code, said, told = await person.confined(repository, f"ln -sf $HOME/.bashrc .git/{name}")
    assert told == [f".git/{name}"], said
    person.work(repository)
    person.git(repository, "fetch", "-q", ".", check=False)
    assert (person.home / ".bashrc").read_text() != "as it was\n"


async def test_what_the_persons_own_configuration_takes_from_the_workspace_is_the_workspaces(person):
    """Not held: hooks and settings that the configuration has in the tree, as it has a build script there."""
    repository = person.repository("project")
    (repository / "githooks").mkdir()
    (repository / "settings").write_text("")
    person.git(repository, "config", "core.hooksPath", "githooks")
    person.git(repository, "config", "include.path", "../settings")
    line = EVIL.replace("NAME", "own") + f"cp evil githooks/pre-commit; {CONFIG} >> settings"
    _code, _said, told = await person.confined(repository, line)
    assert told == []
    person.work(repository)
    assert person.ran == ["ran-own"]


# -- git folders of other kinds --------------------------------------------------------------------


async def test_a_git_folder_that_is_a_link_keeps_what_it_leads_to(person):
    repository = person.repository("project")
    person.git(repository, "worktree", "remove", "tree")
    (repository / ".git").rename(repository / "real")
    (repository / ".git").symlink_to("real")
    line = (
        EVIL.replace("NAME", "link")
        + f"""
cp evil .git/hooks/pre-commit; cp evil real/hooks/pre-commit; {CONFIG} >> real/config; {CONFIG} >> .git/config
mv real moved; git status --short > /dev/null && git commit -q --allow-empty -m inside
"""
    )
    _code, said, told = await person.confined(repository, "set +e\n" + line)
    assert told == []
    person.work(repository)
    assert person.ran == [], said
    assert "inside" in person.git(repository, "log", "--format=%s")


async def test_a_link_in_place_of_a_git_folder_that_is_a_link_is_told(person):
    repository = person.repository("project")
    person.git(repository, "worktree", "remove", "tree")
    (repository / ".git").rename(repository / "real")
    (repository / ".git").symlink_to("real")
    line = EVIL.replace("NAME", "link") + f"cp -r real g; {CONFIG} >> g/config; ln -sfn g .git"
    _code, _said, told = await person.confined(repository, line)
    assert ".git" in told


async def test_a_bare_repository_in_the_workspace_keeps_its_hooks_and_configuration(person):
    workspace = person.home / "projects"
    workspace.mkdir()
    person.git(workspace, "init", "-q", "--bare", "store")
    person.repository("source")
    person.git(person.home / "source", "push", "-q", str(workspace / "store"), "HEAD:refs/heads/main")
    line = (
        EVIL.replace("NAME", "bare-store")
        + f"""
cp evil store/hooks/post-update; cp evil store/hooks/update; {CONFIG} >> store/config
mv store other; rm -rf store/hooks
git clone -q store copy && cd copy && git commit -q --allow-empty -m inside && git push -q && echo pushed
"""
    )
    _code, said, told = await person.confined(workspace, "set +e\n" + line)
    assert said.endswith("pushed\n")
    assert told == ["copy/.git"]
    person.git(person.home / "source", "push", "-q", str(workspace / "store"), "HEAD:refs/heads/more")
    person.git(workspace / "store", "gc", "-q")
    assert person.ran == []


@pytest.mark.parametrize(
    "name", [".git", ".git/HEAD", ".git/commondir", ".git/config", ".git/hooks", "lib/.git"]
)
async def test_a_fifo_where_git_has_something_hangs_nobody(person, name):
    """Whoever opens it waits for a writer; the look at the workspace does not open it."""
    repository = person.repository("project")
    if (repository / name).is_dir():
        shutil.rmtree(repository / name)
    (repository / name).unlink(missing_ok=True)
    os.mkfifo(repository / name)
    code, said, _told = await person.confined(repository, "echo in")
    assert (code, said) == (0, "in\n")


# -- as an ordinary user ---------------------------------------------------------------------------


@pytest.fixture(scope="module", autouse=True)
def ordinary(tmp_path_factory):
    """All tests of this file once more, by an ordinary user, beside these; or why they are not."""
    place = next((place for place in PLACES if os.access(place, os.W_OK)), None)
    if os.geteuid() != 0 or place is None:
        yield "only root can become another user; these tests are run as an ordinary one as it is"
        return
    said = tmp_path_factory.mktemp("ordinary") / "said"
    with tempfile.TemporaryDirectory(prefix="term2-git-", dir=place) as folder, said.open("wb") as output:
        os.chown(folder, SOMEBODY, SOMEBODY)
        site = next(path for path in sys.path if path.endswith("site-packages"))
        variables = {
            "PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{site}", "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": folder, "TMPDIR": folder, "LC_ALL": "C.UTF-8",
        }  # fmt: skip
        become = {"user": SOMEBODY, "group": SOMEBODY, "extra_groups": [], "cwd": str(ROOT), "env": variables}
        python = next((one for one in (sys.executable, "/usr/bin/python3") if _works(one, become)), None)
        if python is None:
            yield "no interpreter here that an ordinary user can run, with what we are made of"
            return
        words = [
            python,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            str(Path(__file__)),
            "-k",
            "not ordinary",
        ]
        with subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT, **become) as process:
            try:
                yield process, said
            finally:
                process.kill()


def _works(python, become):
    try:
        tried = [python, "-c", "import pytest, term2_acp.sandbox, tests.kit.commands"]
        subprocess.run(tried, check=True, capture_output=True, **become)
    except (OSError, subprocess.CalledProcessError):
        return False
    return True


def test_all_of_this_as_an_ordinary_user(ordinary):
    if isinstance(ordinary, str):
        pytest.skip(ordinary)
    process, said = ordinary
    code = process.wait(PATIENCE_S)
    assert code == 0, said.read_text()[-8000:]
    assert " passed" in said.read_text()
