"""The trial run and the ladder: what holds is said to hold, what does not is found out, and once is enough.

Each fake in the place of bubblewrap is one that could be met: a wrapper that just runs the command, one that
answers what is expected, one that does nothing or never ends, and a real bubblewrap with one promise taken
out. For that last kind the fake is ours to steer: it edits the arguments and starts the real one.
"""

import json
import os
import sys
from pathlib import Path

import pytest
import trio

from term2_acp.domain.confinement import Confinement
from term2_acp.process import open_process
from term2_acp.sandbox import (
    Exit,
    Layer,
    Layers,
    Limits,
    Sandbox,
    SandboxFailed,
    SandboxRefused,
    Unavailable,
    candidates,
    landlock,
    probe,
)
from term2_acp.sandbox import launch as launching
from term2_acp.sandbox import sandbox as room
from tests.kit.commands import as_ordinary_user, bwrap, descriptors, everything, groups, visible_folder

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

PYTHON = os.path.realpath(sys.executable)

BOUNDS = {Layer.PROCESSES, Layer.MEMORY}


@pytest.fixture(autouse=True)
def _nothing_left(tmp_path):
    """Whatever a test does, it leaves no descriptor, no control group and nothing of a trial."""
    before = descriptors()
    yield
    assert descriptors().keys() == before.keys()
    assert groups() == []
    assert list(tmp_path.glob("state/sandbox/trial-*")) == []


@pytest.fixture
def sandbox(tmp_path):
    return Sandbox({"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}, (), str(tmp_path / "state"))


@pytest.fixture
def workspace(tmp_path):
    (tmp_path / "workspace").mkdir()
    return str(tmp_path / "workspace")


def replaced(monkeypatch, tmp_path, text, version="0.99"):
    """A program in the place of the bundled bubblewrap, and Landlock not there; the text is Python's."""
    program = tmp_path / "bwrap"
    program.write_text(
        f"#!{PYTHON} -IS\nimport os, sys, time\n"
        f"if sys.argv[1:] == ['--version']: print('bubblewrap {version}'); sys.exit()\n{text}\n"
    )
    program.chmod(0o755)
    monkeypatch.setattr(candidates, "bundled", lambda: [str(program)])
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    return str(program)


async def refused(sandbox, workspace):
    """Why nothing runs here, as a command is told."""
    with pytest.raises(SandboxRefused) as error:
        async with sandbox.launch(["/bin/touch", "ran"], Confinement(workspace=workspace), cwd=workspace):
            pytest.fail("it was entered")
    assert os.listdir(workspace) == []
    return error.value.reason


# -- what holds ------------------------------------------------------------------------------------


async def test_the_bundled_bubblewrap_holds_everything(sandbox):
    bwrap()  # or there is none
    found = await sandbox.layers()
    assert isinstance(found, Layers)
    assert (found.kind, found.program) == ("bubblewrap", bwrap())
    assert found.version[0].isdigit()
    assert set(Layer) - found.held <= BOUNDS
    assert len(found.notes) == len(set(Layer) - found.held)


async def test_landlock_stands_in_and_says_what_it_does_not_hold(sandbox, monkeypatch, workspace):
    if landlock.abi() < landlock.MINIMUM_ABI:
        pytest.skip("the kernel has no Landlock that bounds signals")
    monkeypatch.setattr(candidates, "bundled", list)
    found = await sandbox.layers()
    assert isinstance(found, Layers)
    assert (found.kind, found.program, found.version) == ("landlock", None, f"ABI {landlock.abi()}")
    assert set(Layer) - found.held - BOUNDS == {Layer.PROTECTED, Layer.PROCESS_VIEW}
    assert any("protected names" in note for note in found.notes)
    line = "echo $TMPDIR; touch $TMPDIR/there ran && echo both"
    async with sandbox.launch(
        ["/bin/sh", "-c", line], Confinement(workspace=workspace), cwd=workspace
    ) as run:
        temporary, word = (await everything(run)).decode().split()
        assert run.notes == found.notes
        assert await run.wait() == Exit(0, None)
    assert word == "both"
    assert os.listdir(workspace) == ["ran"]
    assert not Path(temporary).exists()


ORDINARY = """\
import os, sys, trio
from term2_acp.sandbox import Sandbox, candidates

async def main():
    print(sorted((await Sandbox(os.environ, (), sys.argv[1]).layers()).held))
    candidates.bundled = list
    print(sorted((await Sandbox(os.environ, (), sys.argv[1]).layers()).held))

trio.run(main)
"""


def test_both_hold_for_an_ordinary_user_too():
    if landlock.abi() < landlock.MINIMUM_ABI:
        pytest.skip("the kernel has no Landlock that bounds signals")
    whole, fallback = as_ordinary_user(ORDINARY).replace("'", "").splitlines()
    for layer in set(Layer) - BOUNDS:
        assert layer in whole
    for layer in set(Layer) - BOUNDS - {Layer.PROTECTED, Layer.PROCESS_VIEW}:
        assert layer in fallback
    assert Layer.PROTECTED not in fallback


# -- what does not ---------------------------------------------------------------------------------

# Makes of the arguments what is to be run without bubblewrap.
BARE = "command = sys.argv[sys.argv.index('--') + 1:]\n"

# Tells a first process, and so comes past the first gate when it is one.
TELL = (
    "status = int(sys.argv[sys.argv.index('--json-status-fd') + 1])\n"
    "os.write(status, b'{\"child-pid\": %d}\\n' % os.getpid())\n"
)

EXPECTED = dict.fromkeys(probe._ATTEMPTS, "EROFS") | {"filtered": True, "left_behind": True}

FAKES = {
    "just runs the command": BARE + "os.execv(command[0], command)",
    "runs the command without the gate": BARE + "os.execv(command[4], command[4:])",
    "tells itself and runs the command": TELL + BARE + "os.execv(command[0], command)",
    "says what is expected": f"print({json.dumps(json.dumps(EXPECTED))})",
    "does nothing": "sys.exit(0)",
    "hangs": "time.sleep(60)",
}


@pytest.mark.parametrize("kind", FAKES)
async def test_a_fake_does_not_pass(sandbox, monkeypatch, tmp_path, workspace, kind):
    monkeypatch.setattr(probe, "TRIAL_DEADLINE_S", 1.0)
    monkeypatch.setattr(launching, "GONE_DEADLINE_S", 0.2)
    monkeypatch.setattr(launching, "_WORDS_DEADLINE_S", 0.1)
    program = replaced(monkeypatch, tmp_path, FAKES[kind])
    found = await sandbox.layers()
    assert isinstance(found, Unavailable)
    assert program in found.reason
    assert await refused(sandbox, workspace) == found.reason


class Pretence:
    """In the place of a launch: runs the command bare, or prints, so that the judge alone decides."""

    def __init__(self, *command):
        self.command = command
        self.bounded = frozenset()

    def __call__(self, command, confinement):
        self.given = self.command or command
        return self

    async def __aenter__(self):
        self.process = open_process(self.given, env={})
        self.receive = (await self.process.__aenter__()).receive
        return self

    async def __aexit__(self, *error):
        return await self.process.__aexit__(*error)  # noqa: ASYNC102 -- the process's own is bounded


async def test_what_runs_the_attempts_bare_holds_nothing(tmp_path):
    """Every attempt succeeds outside of any sandbox, as far as this user may: so each can tell."""
    held = await probe.held_by(Pretence(), str(tmp_path))
    # What an ordinary user may not do anyway is no sign of a sandbox, and is not enough of one.
    assert held & {Layer.HIDDEN, Layer.PROTECTED, Layer.NETWORK, Layer.UNIX_SOCKETS} == set()
    assert held & {Layer.PROCESS_VIEW, Layer.WHOLE_TREE, Layer.SYSCALLS, Layer.WRITES} == set()


@pytest.mark.parametrize(
    "said", ["", "nonsense", "[]", json.dumps(EXPECTED), json.dumps({**EXPECTED, "nonce": "guessed"})]
)
async def test_an_answer_without_the_run_is_none(tmp_path, said):
    with pytest.raises(SandboxFailed, match="did not do what it should"):
        await probe.held_by(Pretence("/bin/echo", said), str(tmp_path))


# One change to the real arguments, and the layer that it costs.
BROKEN = {
    Layer.WRITES: "argv[argv.index('--ro-bind'):argv.index('--ro-bind') + 3] = ['--bind', '/', '/']",
    Layer.HIDDEN: (
        "at = max(n for n, word in enumerate(argv) if word.endswith('/hidden'))\nargv[at - 2:at + 1] = []"
    ),
    Layer.PROTECTED: (
        "at = max(n for n, word in enumerate(argv) if word.endswith('/protected'))\nargv[at - 2] = '--bind'"
    ),
    Layer.NETWORK: "argv.remove('--unshare-net')",
}


@pytest.mark.parametrize("layer", BROKEN)
async def test_a_bubblewrap_that_lacks_one_promise_is_found_out(monkeypatch, layer):
    """The state is not below a temporary folder here: there the command has its own, whatever is mounted."""
    bwrap()
    change = f"argv = sys.argv[1:]\n{BROKEN[layer]}\nos.execv({bwrap()!r}, ['bwrap', *argv])"
    # The trial shall find it, not the look at the mounts, which comes before.
    monkeypatch.setattr("term2_acp.sandbox.launch.require_in_place", lambda *_: None)
    with visible_folder() as folder:
        replaced(monkeypatch, folder, change)
        found = await Sandbox({"PATH": "/usr/bin:/bin"}, (), str(folder / "state")).layers()
    assert isinstance(found, Unavailable)
    assert layer.label in found.reason
    others = set(BROKEN) - {layer}
    assert [other for other in others if other.label in found.reason] == []


async def test_nothing_at_all_is_told_with_all_reasons(sandbox, monkeypatch, workspace, tmp_path):
    replaced(monkeypatch, tmp_path, "sys.exit('no namespaces')")
    reason = await refused(sandbox, workspace)
    assert "no namespaces" in reason
    assert "Landlock has ABI 0" in reason
    monkeypatch.setattr(candidates, "bundled", list)
    sandbox._found = None
    assert "there is no bubblewrap" in await refused(sandbox, workspace)


# -- a workspace that is read-only as a whole ------------------------------------------------------


@pytest.fixture
def trials_of_keeping(monkeypatch):
    """What each trial of it came to."""
    found = []
    really = probe.keeps_workspace

    async def counted(run, folder):
        found.append(await really(run, folder))
        return found[-1]

    monkeypatch.setattr(probe, "keeps_workspace", counted)
    return found


async def touched(sandbox, workspace, *, read_only):
    """What a command that makes a file is told, and what is in the workspace then."""
    confinement = Confinement(workspace=workspace)
    command = ["/bin/sh", "-c", "touch made; echo $TMPDIR > $TMPDIR/t && echo end"]
    confinement = confinement.as_read_only() if read_only else confinement
    async with sandbox.launch(command, confinement, cwd=workspace) as running:
        said = (await everything(running)).decode()
    return said, os.listdir(workspace)


@pytest.mark.parametrize(
    ("kind", "said"), [("bubblewrap", "Read-only file system"), ("landlock", "Permission denied")]
)
async def test_that_it_is_kept_is_seen_once_and_only_when_it_is_asked_for(
    sandbox, monkeypatch, workspace, trials_of_keeping, kind, said
):
    if kind == "landlock":
        if landlock.abi() < landlock.MINIMUM_ABI:
            pytest.skip("the kernel has no Landlock that bounds signals")
        monkeypatch.setattr(candidates, "bundled", list)
        monkeypatch.setattr(candidates, "SYSTEM_FOLDERS", ())
    else:
        bwrap()
    assert isinstance(await sandbox.layers(), Layers)
    assert trials_of_keeping == []
    for _ in range(2):
        found = await touched(sandbox, workspace, read_only=True)
        assert found == (f"touch: cannot touch 'made': {said}\nend\n", [])
    assert trials_of_keeping == [True]
    assert await touched(sandbox, workspace, read_only=False) == ("end\n", ["made"])


async def test_a_sandbox_that_does_not_keep_it_runs_no_such_command(
    sandbox, monkeypatch, tmp_path, workspace, trials_of_keeping
):
    """A bubblewrap that does all else as it should: only the read-only workspace of the trial is not."""
    real = bwrap()
    weak = (
        "argv = sys.argv[1:]\n"
        "for at, word in enumerate(argv):\n"
        "    if word == '--ro-bind' and argv[at + 2].endswith('/workspace'): argv[at] = '--bind'\n"
        f"os.execv({real!r}, ['bwrap', *argv])"
    )
    monkeypatch.setattr("term2_acp.sandbox.launch.require_in_place", lambda *_: None)
    program = replaced(monkeypatch, tmp_path, weak)
    for _ in range(2):
        with pytest.raises(SandboxRefused) as error:
            await touched(sandbox, workspace, read_only=True)
        assert error.value.reason == f"{program} was seen not to keep a workspace read-only"
        assert os.listdir(workspace) == []
    assert trials_of_keeping == [False]
    assert await touched(sandbox, workspace, read_only=False) == ("end\n", ["made"])
    os.unlink(os.path.join(workspace, "made"))
    # Another program in its place is tried anew.
    replaced(monkeypatch, tmp_path, f"os.execv({real!r}, ['bwrap', *sys.argv[1:]])")
    said, made = await touched(sandbox, workspace, read_only=True)
    assert (said.endswith("end\n"), made) == (True, [])
    assert trials_of_keeping == [False, True]


async def test_landlock_without_the_filter_does_not_keep_it(sandbox, monkeypatch, workspace):
    """Modes and times would be left to be changed."""
    if landlock.abi() < landlock.MINIMUM_ABI:
        pytest.skip("the kernel has no Landlock that bounds signals")
    monkeypatch.setattr(candidates, "bundled", list)
    monkeypatch.setattr(candidates, "SYSTEM_FOLDERS", ())
    really = landlock.programs
    monkeypatch.setattr(landlock, "programs", lambda *, own_network, **_: really(own_network=own_network))
    with pytest.raises(SandboxRefused, match="Landlock was seen not to keep a workspace read-only"):
        await touched(sandbox, workspace, read_only=True)


@pytest.mark.parametrize(
    "said",
    [
        "",
        "nonsense",
        "[]",
        json.dumps(dict.fromkeys(probe._CHANGES, "EROFS")),
        json.dumps({"nonce": "guessed"}),
    ],
)
async def test_an_answer_without_the_trial_keeps_nothing(tmp_path, said):
    assert not await probe.keeps_workspace(Pretence("/bin/echo", said), str(tmp_path))


CHANGES = {
    "nothing": "pass",
    "content": "open(file, 'r+').write('changed')",
    "content, size and times as before": (
        "was = os.stat(file); open(file, 'r+').write('u'); "
        "os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))"
    ),
    "mode": "os.chmod(file, 0o777)",
    "a new name": "os.link(file, file + '2')",
    "a name that came and went": "os.mkdir(file + '2'); os.rmdir(file + '2')",
}


@pytest.mark.parametrize("change", CHANGES)
async def test_what_a_trial_says_does_not_count_against_what_is_seen(tmp_path, change):
    """It says that every change was stopped, and makes one."""
    lie = (
        "import json, os, sys\n"
        "places = json.loads(sys.argv[1])\n"
        "file = places['protected']\n"
        f"{CHANGES[change]}\n"
        f"print(json.dumps({{'nonce': places['nonce'], **dict.fromkeys({probe._CHANGES!r}, 'EROFS')}}))"
    )

    def run(command, confinement):
        return Pretence(PYTHON, "-I", "-S", "-c", lie, command[-1])(command, confinement)

    assert await probe.keeps_workspace(run, str(tmp_path)) is (change == "nothing")


async def test_what_runs_the_trial_bare_keeps_nothing(tmp_path):
    """Every change succeeds there, and each alone would tell."""
    said = []

    class Telling(Pretence):
        async def __aenter__(self):
            await super().__aenter__()
            really = self.receive

            async def receive():
                said.append(await really())
                return said[-1]

            self.receive = receive
            return self

    assert not await probe.keeps_workspace(Telling(), str(tmp_path))
    found = json.loads(b"".join(said))
    assert {name: found[name] for name in probe._CHANGES} == dict.fromkeys(probe._CHANGES)


# -- once, and again -------------------------------------------------------------------------------


class Trials:
    """In the place of the trial: counts, takes a moment, and finds everything held; or is cancelled."""

    def __init__(self):
        self.made = 0
        self.cancel = None

    async def held_by(self, run, folder):
        self.made += 1
        if self.cancel is not None:
            self.cancel()
        await trio.testing.wait_all_tasks_blocked()
        return frozenset(Layer)


@pytest.fixture
def trials(monkeypatch):
    trials = Trials()
    monkeypatch.setattr(probe, "held_by", trials.held_by)
    return trials


async def test_callers_at_the_same_time_share_one_trial(sandbox, monkeypatch, tmp_path, trials):
    replaced(monkeypatch, tmp_path, "")
    found = []

    async def ask():
        found.append(await sandbox.layers())

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(ask)
    assert trials.made == 1
    assert len(found) == 5
    assert len({id(one) for one in found}) == 1


async def test_a_trial_that_was_cancelled_is_made_again(sandbox, monkeypatch, tmp_path, trials):
    replaced(monkeypatch, tmp_path, "")
    with trio.CancelScope() as scope:
        trials.cancel = scope.cancel
        await sandbox.layers()
    assert scope.cancelled_caught
    trials.cancel = None
    assert isinstance(await sandbox.layers(), Layers)
    assert trials.made == 2


@pytest.mark.parametrize("change", ["content", "time", "another file"])
async def test_a_changed_program_is_tried_again(sandbox, monkeypatch, tmp_path, trials, change):
    program = Path(replaced(monkeypatch, tmp_path, ""))
    first = await sandbox.layers()
    assert await sandbox.layers() is first
    if change == "content":
        program.write_text(program.read_text() + "# changed")
    elif change == "time":
        os.utime(program, (1, 1))
    else:
        new = program.with_name("new")
        new.write_text(program.read_text())
        new.chmod(0o755)
        new.rename(program)
    assert await sandbox.layers() is not first
    assert trials.made == 2


async def test_a_program_that_is_replaced_by_a_fake_runs_nothing_more(
    sandbox, tmp_path, monkeypatch, workspace
):
    real = bwrap()
    replaced(monkeypatch, tmp_path, f"os.execv({real!r}, ['bwrap', *sys.argv[1:]])")
    async with sandbox.launch(["/bin/true"], Confinement(workspace=workspace), cwd=workspace) as command:
        assert await command.wait() == Exit(0, None)
    replaced(monkeypatch, tmp_path, "sys.exit('not any more')")
    assert "not any more" in await refused(sandbox, workspace)


async def test_that_nothing_holds_is_asked_again_after_a_while(sandbox, monkeypatch, tmp_path):
    replaced(monkeypatch, tmp_path, "sys.exit('busy')")
    first = await sandbox.layers()
    assert isinstance(first, Unavailable)
    assert await sandbox.layers() is first
    monkeypatch.setattr(room, "RETRY_S", -1.0)
    assert await sandbox.layers() is not first


async def test_the_newer_program_goes_first_and_the_bundled_one_of_equals(
    sandbox, monkeypatch, tmp_path, trials
):
    bundled = replaced(monkeypatch, tmp_path, "", version="0.9.1")
    system = tmp_path / "system"
    system.mkdir()
    for version, expected in (("0.10.0", str(system / "bwrap")), ("0.9.1", bundled), ("0.8.0", bundled)):
        program = system / "bwrap"
        program.write_text(f"#!/bin/sh\necho bubblewrap {version}\n")
        program.chmod(0o755)
        monkeypatch.setattr(candidates, "SYSTEM_FOLDERS", ("relative", str(system)))
        asked = Sandbox({}, (), str(tmp_path / "state"))
        found = await asked.layers()
        assert isinstance(found, Layers)
        assert found.program == expected
    assert trials.made == 3


@pytest.mark.parametrize(
    ("mode", "folder_mode", "taken"),
    [
        (0o755, 0o755, True),
        (0o4755, 0o755, False),
        (0o757, 0o755, False),
        (0o755, 0o777, False),
        (0o644, 0o755, False),
    ],
)
def test_only_a_program_that_is_safe_to_run_is_taken_from_where_the_system_has_its_own(
    tmp_path, mode, folder_mode, taken
):
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "bwrap").touch()
    (folder / "bwrap").chmod(mode)
    folder.chmod(folder_mode)
    found = candidates.installed(["", ".", "bin", str(folder), str(folder), "/nowhere"])
    assert found == ([str(folder / "bwrap")] if taken else [])


# -- the facade ------------------------------------------------------------------------------------


async def test_a_command_runs_with_what_the_machine_has_now(sandbox, tmp_path, workspace):
    bwrap()
    for name in ("folder", "file"):
        (tmp_path / name).mkdir() if name == "folder" else (tmp_path / name).write_text("secret")
    (tmp_path / "folder" / "key").write_text("secret")
    hidden = (str(tmp_path / "folder"), str(tmp_path / "file"), str(tmp_path / "state"))
    confinement = Confinement(workspace=workspace, hidden=hidden)
    line = "cat /etc/shadow /etc/sudoers | wc -c; pwd; echo $HOME; touch ran"
    async with sandbox.launch(["/bin/sh", "-c", line], confinement, cwd=workspace) as command:
        output = (await everything(command)).decode().splitlines()
    assert output[-3:] == ["0", workspace, str(tmp_path)]
    assert os.listdir(workspace) == ["ran"]
    empty = tmp_path / "state" / "sandbox" / "empty"
    assert (empty.stat().st_mode & 0o777, empty.stat().st_size) == (0o400, 0)
    assert empty.parent.stat().st_mode & 0o777 == 0o700


async def test_a_limit_that_could_be_held_and_is_not_this_time_is_said(sandbox, monkeypatch, workspace):
    bwrap()
    found = await sandbox.layers()
    if Layer.MEMORY not in found.held:
        pytest.skip("no control group for memory can be made here")
    monkeypatch.setattr(room.landlock.cgroups, "_places", dict)
    confinement = Confinement(workspace=workspace)
    async with sandbox.launch(["/bin/true"], confinement, cwd=workspace, limits=Limits()) as command:
        assert room.NOT_HELD[Layer.MEMORY] in command.notes


async def test_what_cannot_be_run_is_refused_or_fails(sandbox, tmp_path, workspace):
    bwrap()
    with pytest.raises(SandboxRefused, match="no command"):
        async with sandbox.launch([], Confinement(workspace=workspace), cwd=workspace):
            pytest.fail("it was entered")
    with pytest.raises(SandboxRefused, match="hidden"):
        async with sandbox.launch(
            ["/bin/true"], Confinement(workspace=workspace, hidden=(str(tmp_path),)), cwd=workspace
        ):
            pytest.fail("it was entered")
    (tmp_path / "not-a-folder").touch()
    broken = Sandbox({}, (), str(tmp_path / "not-a-folder"))
    assert isinstance(await broken.layers(), Unavailable)
