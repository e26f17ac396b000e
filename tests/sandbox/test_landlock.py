"""The fallback by Landlock, each promise by an attempt against it: reads, writes, signals, sockets, the tree.

The grants are also looked at as a value, on trees that are only names. What Landlock cannot hold is refused
where it must be, and said where it may be. The exact exit is told, since no shell stands between.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from term2_acp.domain.confinement import Confinement
from term2_acp.sandbox import Exit, Limits, Policy, SandboxFailed, SandboxRefused, landlock
from term2_acp.sandbox.landlock import Grant, confine, grants, temporary_folder
from tests.kit.commands import ROOT, as_ordinary_user, descriptors, everything, groups, mark, policy, running
from tests.kit.steps import at_step, seeded
from tests.kit.until import until

PYTHON = os.path.realpath(sys.executable)

real = pytest.mark.skipif(
    landlock.abi() < landlock.MINIMUM_ABI, reason="the kernel has no Landlock that bounds signals"
)


@asynccontextmanager
async def confined(folder, line, *, python=False, pass_fds=(), last_word=lambda: None, **options):
    """A shell's line, or the text of a Python program, under Landlock, with a temporary folder."""
    command = [PYTHON, "-I", "-S", "-c", line] if python else ["/bin/sh", "-c", line]
    async with temporary_folder() as temporary:
        made = policy(folder, temporary=temporary, **options)
        async with confine(
            made, command, temporary=temporary, pass_fds=pass_fds, last_word=last_word
        ) as running:
            yield running


async def says(folder, line, **options):
    async with confined(folder, line, **options) as command:
        return (await everything(command)).decode()


@pytest.fixture(autouse=True)
def _nothing_left():
    """Whatever a test does, it leaves no descriptor and no control group."""
    before = descriptors()
    yield
    assert descriptors().keys() == before.keys()
    assert groups() == []


# -- what is granted -------------------------------------------------------------------------------

TREE = {
    "/": ["/dev", "/etc", "/home", "/tmp", "/usr"],
    "/home": ["/home/me", "/home/you"],
    "/home/me": ["/home/me/.ssh", "/home/me/.config", "/home/me/project", "/home/me/.profile"],
    "/home/me/.config": ["/home/me/.config/gcloud", "/home/me/.config/git"],
    "/etc": ["/etc/shadow", "/etc/passwd"],
}


HIDDEN = ("/home/me/.ssh", "/home/me/.config/gcloud", "/etc/shadow")


def granted(workspace="/home/me/project", hidden=HIDDEN, *, read_only=False):
    confinement = Confinement(workspace=workspace, hidden=hidden)
    made = Policy(
        confinement=confinement.as_read_only() if read_only else confinement,
        cwd=workspace,
        environment={},
        limits=Limits(),
        empty_file="/empty",
        temporary=("/tmp",),
    )
    return grants(made, "/tmp/mine", lambda folder: TREE.get(folder, []))


def test_reading_is_granted_around_the_hidden_places():
    found = [grant.path for grant in granted() if grant.rights == landlock._READ]
    assert found == [
        "/etc/passwd",
        "/home/me/.config/git",
        "/home/me/project",
        "/home/me/.profile",
        "/home/you",
        "/usr",
    ]


def test_writing_is_granted_in_the_workspace_and_the_temporary_folder_and_on_harmless_devices():
    writing = [grant for grant in granted() if grant.rights & landlock._CHANGE]
    assert [grant.path for grant in writing[-2:]] == ["/home/me/project", "/tmp/mine"]
    assert {grant.path for grant in writing[:-2]} == {
        "/dev/null",
        "/dev/zero",
        "/dev/full",
        "/dev/random",
        "/dev/urandom",
    }
    make_device_node, device_controls = 1 << 6 | 1 << 11, 1 << 15
    assert not any(grant.rights & (make_device_node | device_controls) for grant in granted())


@pytest.mark.parametrize("workspace", ["/home/me/project", "/home", "/tmp/project"])
def test_nothing_in_a_read_only_workspace_is_granted_but_reading(workspace):
    found = granted(workspace, read_only=True)
    assert Grant(workspace, landlock._READ) in found
    writing = [grant.path for grant in found if grant.rights & landlock._CHANGE]
    assert writing == [*landlock._DEVICES, "/tmp/mine"]
    assert [one for one in granted(workspace) if one.path != workspace] == [
        one for one in found if one.path != workspace
    ]


def test_only_names_are_granted_everywhere():
    assert granted()[0] == Grant("/", landlock._READ_DIR)


@pytest.mark.parametrize("hidden", ["secret", "."])
async def test_a_hidden_place_in_the_workspace_is_refused(tmp_path, hidden):
    place = tmp_path / "workspace" / hidden
    with pytest.raises(SandboxRefused, match="cannot hide"):
        async with confined(tmp_path, "true", hidden=(str(place),)):
            pytest.fail("it was entered")


async def test_our_own_code_in_the_workspace_is_refused(tmp_path):
    with pytest.raises(SandboxRefused, match="own code"):
        async with confined(tmp_path, "true", own_inside=True):
            pytest.fail("it was entered")


@real
async def test_our_own_code_in_a_workspace_that_is_read_only_is_kept(tmp_path):
    workspace = str(tmp_path / "workspace")
    line = "touch made; echo end"
    said = await says(tmp_path, line, own_inside=True, read_only=(workspace,))
    assert said == "touch: cannot touch 'made': Permission denied\nend\n"
    assert os.listdir(workspace) == []


@real
async def test_the_last_word_keeps_a_command_from_running(tmp_path):
    def no():
        raise SandboxRefused("not any more")

    with pytest.raises(SandboxRefused, match="not any more"):
        async with confined(tmp_path, "touch ran", last_word=no):
            pytest.fail("it was entered")
    assert os.listdir(tmp_path / "workspace") == []


# -- what is held ----------------------------------------------------------------------------------


@real
async def test_the_workspace_and_the_temporary_folder_are_written_and_nothing_else(tmp_path):
    (tmp_path / "outside").write_text("as it was")
    (tmp_path / "linked").write_text("as it was")
    line = (
        "echo in > f; mkdir d; mv f d/f; cat d/f; echo tmp > $TMPDIR/t && cat $TMPDIR/t; echo > /dev/null; "
        f"ln -s {tmp_path}/linked link; "
        f"for f in {tmp_path}/outside {tmp_path}/new link /tmp/x /etc/x /dev/shm/x /proc/sys/kernel/panic; "
        "do (echo no > $f) 2>/dev/null && echo written: $f; done; "
        f"ln {tmp_path}/outside hard 2>/dev/null && echo no >> hard; mv {tmp_path}/outside . 2>/dev/null; "
        "mknod node b 7 0 2>/dev/null && echo made; echo end"
    )
    assert await says(tmp_path, line) == "in\ntmp\nend\n"
    assert (tmp_path / "outside").read_text() == (tmp_path / "linked").read_text() == "as it was"
    assert not (tmp_path / "new").exists()
    assert (tmp_path / "workspace" / "d" / "f").read_text() == "in\n"


@real
async def test_hidden_places_cannot_be_read_by_any_name(tmp_path):
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "key").write_text("secret-of-the-test")
    (tmp_path / "history").write_text("secret-of-the-test")
    (tmp_path / "plain").write_text("plain\n")
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "link").symlink_to(hidden)
    # A link beside the hidden place, which is not granted as what it leads to.
    (tmp_path / "beside").symlink_to(hidden)
    line = (
        f"cat {hidden}/key {tmp_path}/history link/key {tmp_path}/beside/key /proc/self/root{hidden}/key; "
        f"cd {tmp_path}/beside; cat key; cat {tmp_path}/plain; echo end"
    )
    async with temporary_folder() as temporary:
        made = policy(tmp_path, temporary=temporary, hidden=(str(hidden), str(tmp_path / "history")))
        made = attrs.evolve(made, temporary=())  # or all that is here would be hidden with the rest of /tmp
        async with confine(made, ["/bin/sh", "-c", line], temporary=temporary) as command:
            output = (await everything(command)).decode()
    assert "secret-of-the-test" not in output
    assert output.count("Permission denied") == 6
    assert output.endswith("plain\nend\n")


@real
async def test_other_processes_can_be_neither_looked_into_nor_signalled(tmp_path, monkeypatch):
    """The supervisor among them, which is not in the domain though it leads the group."""
    with started("sleep", "60", SOME_API_KEY="do-not-tell") as stranger:
        line = (
            f"for p in {stranger.pid} {os.getpid()} $PPID; do cat /proc/$p/environ /proc/$p/maps; "
            "ls -l /proc/$p/fd /proc/$p/root; kill -0 $p; kill -9 $p; done 2>&1 | tr '\\0' ' '; kill -9 0"
        )
        async with confined(tmp_path, line) as command:
            output = (await everything(command)).decode()
            # It is the whole group that was signalled, of which only the command's part may be reached.
            assert await command.wait() == Exit(None, "SIGKILL")
        assert stranger.poll() is None
        stranger.kill()
    assert "do-not-tell" not in output
    assert "PATH=" not in output
    assert output.count("Operation not permitted") == 6
    assert output.lower().count("permission denied") >= 9


@real
async def test_there_is_no_network_and_no_socket(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0term2-{os.getpid()}")
        abstract.listen()
        port = listener.getsockname()[1]
        program = (
            "import socket\n"
            f"tcp, udp, unix = ('127.0.0.1', {port}), ('127.0.0.1', 9), '\\0term2-{os.getpid()}'\n"
            "for family, kind, to in ((socket.AF_INET, 1, tcp), (socket.AF_INET, 2, udp),\n"
            "                         (socket.AF_UNIX, 1, unix), (socket.AF_NETLINK, 3, (0, 0))):\n"
            "    try: socket.socket(family, kind).connect(to); print('connected', family)\n"
            "    except PermissionError: print('refused')\n"
            "print([one.family.name for one in socket.socketpair()])"
        )
        output = await says(tmp_path, program, python=True)
    assert output == "refused\n" * 4 + "['AF_UNIX', 'AF_UNIX']\n"


@real
async def test_rights_are_given_up(tmp_path):
    output = await says(tmp_path, "grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status")
    fields = dict(line.split(":\t") for line in output.splitlines())
    assert fields.pop("NoNewPrivs") == "1"
    assert fields.pop("Seccomp") == "2"
    if os.geteuid() != 0:
        del fields["CapBnd"]  # nothing can be taken from it, and nothing comes of it
    assert {name: int(value, 16) for name, value in fields.items()} == dict.fromkeys(fields, 0)
    assert "CapEff" in fields


# -- the command's life ----------------------------------------------------------------------------


@real
async def test_exits_are_told_exactly(tmp_path):
    for line, exit_ in (
        ("exit 7", Exit(7, None)),
        ("exit 137", Exit(137, None)),
        ("kill -TERM $$", Exit(None, "SIGTERM")),
        ("kill -KILL $$", Exit(None, "SIGKILL")),
    ):
        async with confined(tmp_path, line) as command:
            assert await command.wait() == exit_


@real
async def test_the_command_has_its_words_its_folder_an_empty_stdin_and_the_usual_signals(tmp_path):
    reading, writing = os.pipe()
    program = (
        "import json, os, sys\n"
        f"os.write({writing}, b'private')\n"
        "print(json.dumps([os.getcwd(), sys.stdin.read(), sorted(os.listdir('/proc/self/fd')),\n"
        "                  os.environ['TMPDIR']]))"
    )
    try:
        output = json.loads(await says(tmp_path, program, python=True, pass_fds=[writing]))
        assert os.read(reading, 100) == b"private"
    finally:
        os.close(reading)
        os.close(writing)
    folder, stdin, open_there, temporary = output
    assert (folder, stdin) == (str(tmp_path / "workspace"), "")
    # The fourth is the listing's own.
    assert open_there == sorted(["0", "1", "2", "3", str(writing)])
    assert "/term2-" in temporary
    assert not Path(temporary).exists()
    # Of the ones that Python ignores, none is ignored in a command. Whoever started us may ignore others.
    status = await says(tmp_path, "grep SigIgn /proc/self/status")
    of_python = 1 << signal.SIGPIPE - 1 | 1 << signal.SIGXFSZ - 1
    here = Path("/proc/self/status").read_text().partition("SigIgn:")[2].split()[0]
    assert int(here, 16) & of_python == of_python
    assert int(status.split()[1], 16) == int(here, 16) & ~of_python


@real
async def test_what_forbids_its_removal_is_removed_all_the_same(tmp_path):
    line = "mkdir -p $TMPDIR/a/b; touch $TMPDIR/a/b/c; chmod 0 $TMPDIR/a/b $TMPDIR/a; echo $TMPDIR"
    temporary = (await says(tmp_path, line)).strip()
    assert temporary.startswith("/")
    assert not Path(temporary).exists()


@real
async def test_nobody_leaves_the_group_and_all_are_gone(tmp_path):
    seconds = mark()
    line = (
        f"setsid sleep {seconds}; (sleep {seconds} >/dev/null 2>&1 &); "
        f"(trap '' TERM HUP; sleep {seconds}) & set -m; sleep {seconds} & echo ready; wait"
    )
    async with confined(tmp_path, line) as command:
        seen = b""
        while not seen.endswith(b"ready\n"):
            seen += await command.receive()
        await until(lambda: len(running(seconds)) >= 3)
    assert running(seconds) == []


@real
async def test_a_background_process_does_not_outlive_the_command(tmp_path):
    seconds = mark()
    async with confined(tmp_path, f"sleep {seconds} & echo done") as command:
        assert await everything(command) == b"done\n"
        assert await command.wait() == Exit(0, None)
    assert running(seconds) == []
    command.kill_nowait()  # late, and so nothing


@real
async def test_a_cancel_at_any_step_leaves_nothing(tmp_path):
    before = descriptors()
    seconds = mark()
    entered = []
    for step in range(1, 1000, 2):
        with seeded(step), trio.CancelScope() as scope, at_step(step, scope.cancel) as instrument:
            async with confined(tmp_path, f"sleep {seconds} & echo ready; wait") as command:
                entered.append(step)
                assert await command.receive() == b"ready\n"
        assert running(seconds) == []
        assert running(landlock.child.__file__, str(os.getpid())) == []
        assert descriptors().keys() == before.keys()
        if not instrument.acted:
            break
    assert 1 not in entered
    assert len(entered) > 3
    assert step < 990
    assert list(Path(tempfile.gettempdir()).glob(f"term2-{os.getpid()}-*")) == []


@real
@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ({"cwd": "/nowhere"}, "No such file"),
        ({"program": "not a filter!!!!"}, "Invalid argument"),
    ],
)
async def test_a_child_that_cannot_confine_itself_runs_nothing(tmp_path, monkeypatch, broken, said):
    if "program" in broken:
        monkeypatch.setattr(landlock, "programs", lambda **_: (broken["program"].encode(),))
    made = policy(tmp_path)
    made = attrs.evolve(made, cwd=broken.get("cwd", made.cwd))
    command = ["/usr/bin/touch", str(tmp_path / "workspace" / "ran")]
    async with temporary_folder() as temporary:
        with pytest.raises(SandboxFailed, match=said):
            async with confine(made, command, temporary=temporary):
                pytest.fail("it was entered")
    assert list((tmp_path / "workspace").iterdir()) == []


@real
async def test_a_supervisor_that_does_not_start_is_told_in_its_own_words(tmp_path, monkeypatch):
    monkeypatch.setattr(landlock.child, "__file__", str(tmp_path / "gone.py"))
    with pytest.raises(SandboxFailed, match=r"gone\.py"):
        async with confined(tmp_path, "true"):
            pytest.fail("it was entered")


def started(*words, **variables):
    """A process of ours that is no command."""
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, env={**os.environ, **variables})


DAEMON = """\
import sys, time, trio
from term2_acp.sandbox import limits
from tests.sandbox.test_landlock import confined

folder, seconds, where = sys.argv[1:]

def stuck(*arguments, **options):
    print("stuck", flush=True)
    time.sleep(1000)

if where == "before the limits":
    limits.hold = stuck

async def main():
    async with confined(folder, f"touch ran; sleep {seconds} & echo ready; wait") as command:
        print((await command.receive()).decode(), end="", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_a_temporary_folder_is_not_made_where_nothing_may_be_made(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    async with temporary_folder() as usual, temporary_folder(outside=str(tmp_path.resolve())) as elsewhere:
        assert [str(each) for each in tmp_path.iterdir()] == [usual]
        assert Path(elsewhere).is_dir()
    assert not Path(elsewhere).exists()


@real
@pytest.mark.parametrize("where", ["before the limits", "while it runs"])
async def test_when_the_daemon_is_killed_nothing_survives_it(tmp_path, where):
    seconds = mark()
    with started(sys.executable, "-c", DAEMON, str(tmp_path), seconds, where) as daemon:
        assert daemon.stdout.readline() == (b"ready\n" if where == "while it runs" else b"stuck\n")
        leftovers = list(Path(tempfile.gettempdir()).glob(f"term2-{daemon.pid}-*"))
        daemon.kill()
        daemon.wait()
    # The supervisor has the daemon's number in its arguments.
    await until(lambda: running(seconds) == [] and running(str(daemon.pid)) == [])
    assert (tmp_path / "workspace" / "ran").exists() == (where == "while it runs")
    assert len(leftovers) == 1
    assert await says(tmp_path, "echo later") == "later\n"
    assert not leftovers[0].exists()


ORDINARY = """\
import os, sys, trio
from tests.sandbox.test_landlock import says

async def main():
    folder = sys.argv[1]
    forbids = "mkdir -p $TMPDIR/a/b; touch $TMPDIR/a/b/c; chmod 0 $TMPDIR/a/b $TMPDIR/a $TMPDIR; echo $TMPDIR"
    print(os.path.exists((await says(folder, forbids)).strip()))
    with open(folder + "/outside", "w") as file:
        file.write("as it was")
    line = f"echo in > f; cat f; (echo no > {folder}/outside) 2>/dev/null && echo written; "
    line += f"cat /proc/{os.getpid()}/environ"
    print(await says(folder, line), open(folder + "/outside").read())

trio.run(main)
"""


@real
def test_it_holds_for_an_ordinary_user_too():
    output = as_ordinary_user(ORDINARY)
    assert output.startswith("False\nin\n")
    assert output.endswith("as it was\n")
    assert "written" not in output
    assert "Permission denied" in output
    assert "PATH=" not in output
