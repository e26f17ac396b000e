"""Commands under the real bubblewrap: their end is told as it was, their bytes arrive, and nothing is left.

"Nothing" is taken at its word: no process in whatever session, no descriptor, no control group, whether a
command ends by itself, is killed, is cancelled at any step of its life, or its daemon is killed by SIGKILL.
Programs that are no bubblewrap, or a broken one, run nothing.
"""

import json
import os
import signal
import subprocess
import sys

import pytest
import trio

from term2_acp.sandbox import Exit, SandboxFailed, SandboxRefused
from term2_acp.sandbox import launch as launching
from term2_acp.sandbox.command import exit_from_code
from term2_acp.sandbox.launch import launch
from tests.kit.commands import ROOT, bwrap, descriptors, everything, groups, mark, policy, running
from tests.kit.steps import at_step, seeded
from tests.kit.until import until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is of Linux")


PYTHON = os.path.realpath(sys.executable)


def started(*words):
    """A process of ours that is no command."""
    return subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE)


def shell(folder, line, **options):
    return launch(bwrap(), policy(folder), ["/bin/sh", "-c", line], **options)


@pytest.fixture(autouse=True)
def _nothing_left():
    """Whatever a test does, it leaves no descriptor and no control group."""
    before = descriptors()
    yield
    assert descriptors().keys() == before.keys()
    assert groups() == []


async def test_the_last_word_keeps_a_command_from_running(tmp_path):
    asked = []

    def no():
        asked.append(os.listdir(tmp_path / "workspace"))
        raise SandboxRefused("not any more")

    with pytest.raises(SandboxRefused, match="not any more"):
        async with shell(tmp_path, "touch ran", last_word=no):
            pytest.fail("it was entered")
    assert asked == [[]]
    assert os.listdir(tmp_path / "workspace") == []
    async with shell(tmp_path, "touch ran", last_word=lambda: asked.append("yes")) as command:
        assert await everything(command) == b""
    assert asked == [[], "yes"]
    assert os.listdir(tmp_path / "workspace") == ["ran"]


# -- the exit and the output -----------------------------------------------------------------------


async def test_output_arrives_as_bytes_and_in_order_with_stderr_among_it(tmp_path):
    async with shell(tmp_path, r"printf 'a\0\377'; printf b >&2; printf c; exit 7") as command:
        assert await everything(command) == b"a\0\xffbc"
        assert await command.wait() == Exit(7, None)
        assert await command.wait() == Exit(7, None)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGSEGV"])
async def test_a_command_that_dies_by_a_signal_is_said_to(tmp_path, name):
    async with shell(tmp_path, f"kill -{name.removeprefix('SIG')} $$") as command:
        assert await command.wait() == Exit(None, name)


async def test_a_program_that_is_not_there_is_told_by_the_shells_code(tmp_path):
    async with launch(bwrap(), policy(tmp_path), ["no-such-program"]) as command:
        assert b"no-such-program" in await everything(command)
        assert await command.wait() == Exit(127, None)


def test_codes_are_signals_only_where_there_is_such_a_signal():
    assert exit_from_code(0) == Exit(0, None)
    assert exit_from_code(128) == Exit(128, None)
    assert exit_from_code(128 + signal.SIGXFSZ) == Exit(None, "SIGXFSZ")
    assert exit_from_code(128 + signal.SIGRTMIN + 1) == Exit(None, "SIGRTMIN+1")
    assert exit_from_code(200) == Exit(200, None)
    assert exit_from_code(255) == Exit(255, None)
    assert exit_from_code(-signal.SIGKILL) == Exit(None, "SIGKILL")


async def test_stdin_is_empty_and_the_words_of_a_command_arrive_as_they_are(tmp_path):
    words = ["a b", "", "*", "$HOME", "'\"", "\n", "é", "-n"]
    program = "import sys; print(sys.stdin.read() == '', sys.argv[1:])"
    async with launch(bwrap(), policy(tmp_path), [PYTHON, "-I", "-c", program, *words]) as command:
        assert (await everything(command)).decode() == f"True {words}\n"


async def test_the_command_is_in_its_folder_with_its_environment_and_no_descriptors_of_ours(tmp_path):
    reading, writing = os.pipe()
    program = (
        "import json, os\n"
        f"os.write({writing}, b'private')\n"
        "print(json.dumps([os.getcwd(), dict(os.environ), sorted(os.listdir('/proc/self/fd'))]))"
    )
    made = policy(tmp_path)
    try:
        async with launch(bwrap(), made, [PYTHON, "-I", "-c", program], pass_fds=[writing]) as command:
            folder, variables, open_there = json.loads(await everything(command))
        assert os.read(reading, 100) == b"private"
    finally:
        os.close(reading)
        os.close(writing)
    assert folder == str(tmp_path / "workspace")
    for name in ("LC_CTYPE", "SHLVL", "OLDPWD", "_"):  # Python's own, and some shells'
        variables.pop(name, None)
    assert variables == {**made.environment, "PWD": folder}
    # The fourth is the listing's own.
    assert open_there == sorted(["0", "1", "2", "3", str(writing)])


async def test_the_first_process_of_the_sandbox_has_no_more_of_our_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "do-not-tell")
    async with shell(tmp_path, "cat /proc/[0-9]*/environ; echo end") as command:
        output = await everything(command)
    assert b"PATH=" in output
    assert output.endswith(b"end\n")
    assert b"do-not-tell" not in output


async def test_fifty_megabytes_arrive(tmp_path):
    size = 50_000_000
    async with shell(tmp_path, f"head -c {size} /dev/zero") as command:
        seen = 0
        while data := await command.receive():
            seen += len(data)
        assert seen == size
        assert await command.wait() == Exit(0, None)


# -- the tree --------------------------------------------------------------------------------------


async def test_who_holds_the_pipe_does_not_hold_the_exit_and_is_gone_with_it(tmp_path):
    seconds = mark()
    async with shell(tmp_path, f"sleep {seconds} & echo done") as command:
        with trio.fail_after(5):
            assert await everything(command) == b"done\n"
            assert await command.wait() == Exit(0, None)
    assert running(seconds) == []


async def test_sessions_of_their_own_do_not_save_anybody(tmp_path):
    seconds = mark()
    line = (
        f"setsid sleep {seconds} & "
        f"(setsid sh -c 'trap \"\" TERM HUP INT; sleep {seconds} & sleep {seconds}' >/dev/null 2>&1 &) & "
        f"nohup sleep {seconds} >/dev/null 2>&1 & "
        "echo ready; wait"
    )
    async with shell(tmp_path, line) as command:
        assert await command.receive() == b"ready\n"
        await until(lambda: len(running(seconds)) >= 4)
    assert running(seconds) == []


async def test_a_kill_ends_all_and_is_told_and_a_late_one_does_nothing(tmp_path):
    seconds = mark()
    async with shell(tmp_path, f"setsid sleep {seconds} & echo ready; wait") as command:
        assert await command.receive() == b"ready\n"
        command.kill_nowait()
        assert await command.wait() == Exit(None, "SIGKILL")
        command.kill_nowait()
    assert running(seconds) == []
    command.kill_nowait()


async def test_a_fault_of_the_body_comes_out_as_it_is(tmp_path):
    seconds = mark()
    with pytest.raises(ValueError, match="mine"):
        async with shell(tmp_path, f"sleep {seconds}"):
            raise ValueError("mine")
    assert running(seconds) == []


async def test_a_cancel_at_any_step_leaves_nothing(tmp_path):
    """A step is one task's turn of the scheduler; they are tried until a whole life has fewer."""
    before = descriptors()
    seconds = mark()
    line = f"setsid sleep {seconds} & echo ready; wait"
    entered = []
    for step in range(1, 1000):
        with seeded(step), trio.CancelScope() as scope, at_step(step, scope.cancel) as instrument:
            async with shell(tmp_path, line) as command:
                entered.append(step)
                assert await command.receive() == b"ready\n"
        assert running(seconds) == []
        assert descriptors().keys() == before.keys()
        assert groups() == []
        if not instrument.acted:
            break
    # A whole life has some steps before the command runs, and some after.
    assert 1 not in entered
    assert len(entered) > 3
    assert step < 999


FILTERED = """\
import ctypes, struct, sys, trio
from term2_acp.sandbox import launch as launching
from tests.kit.commands import bwrap, everything, policy

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]

allow_all = Program(1, struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(allow_all), 0, 0) == 0

async def main():
    seen = []
    real = launching._dies_with_parent

    def looked(pid, filters):
        seen.append(real(pid, filters))
        return seen[-1]

    launching._dies_with_parent = looked
    line = "grep Seccomp_filters /proc/1/status"
    async with launching.launch(bwrap(), policy(sys.argv[1]), ["/bin/sh", "-c", line]) as command:
        print((await everything(command)).decode().split()[1], seen[0], seen[-1])

trio.run(main)
"""


def test_filters_that_we_are_under_ourselves_are_not_taken_for_the_commands(tmp_path):
    """As in a container: there every process carries some."""
    with started(sys.executable, "-c", FILTERED, str(tmp_path)) as daemon:
        assert daemon.stdout.read().split()[:2] == [b"3", b"False"]
        assert daemon.wait() == 0


# -- starts that fail ------------------------------------------------------------------------------


def script(folder, text):
    """A program in the place of bubblewrap: a shell script, or the words of Python after ``#python``."""
    program = folder / "bwrap"
    run = f"{PYTHON} -IS" if text.startswith("#python") else "/bin/sh"
    program.write_text(f"#!{run}\n{text}\n")
    program.chmod(0o755)
    return str(program)


def tells(pid):
    """Says that the first process of its sandbox is ``pid``, and waits."""
    return (
        "#python\nimport os, sys, time\n"
        "status = int(sys.argv[sys.argv.index('--json-status-fd') + 1])\n"
        f"os.write(status, b'{{ \"child-pid\": %d }}\\n' % {pid})\n"
        "time.sleep(60)"
    )


BROKEN = {
    "does nothing": ("exit 0", "bubblewrap did not tell its process"),
    "refuses": ("echo 'no namespaces for you' >&2; exit 1", "no namespaces for you"),
    "runs the command as it is": (
        'while [ "$1" != -- ]; do shift; done; shift; exec "$@"',
        "did not start within",
    ),
    "hangs": ("while :; do sleep 1; done", "did not start within"),
    "makes no namespace": (tells("os.getpid()"), "bubblewrap made no namespace of processes"),
    "makes no namespace in a child": (
        tells("(os.fork() or time.sleep(60))"),
        "bubblewrap made no namespace of processes",
    ),
    "tells nobody": (tells("(2 ** 22 + 1)"), "No such process"),
    "tells nonsense": (tells("0").replace("child-pid", 'child-pid": nonsense, "'), "Expecting value"),
    "tells no number": (tells("os.getpid()").replace("%d", 'true, "or": %d'), "did not start within"),
}


@pytest.mark.parametrize("kind", BROKEN)
async def test_what_is_no_bubblewrap_runs_nothing_and_is_told(tmp_path, monkeypatch, kind):
    monkeypatch.setattr(launching, "START_DEADLINE_S", 0.5)
    monkeypatch.setattr(launching, "_WORDS_DEADLINE_S", 0.1)
    text, said = BROKEN[kind]
    with pytest.raises(SandboxFailed) as failed:
        async with launch(script(tmp_path, text), policy(tmp_path), ["/bin/sh", "-c", "touch ran"]):
            pytest.fail("it was entered")
    assert "the sandbox did not start" in failed.value.reason
    assert said in failed.value.reason
    assert list((tmp_path / "workspace").iterdir()) == []
    assert running(str(tmp_path / "bwrap")) == []


async def test_a_number_that_is_a_strangers_is_not_killed(tmp_path, monkeypatch):
    monkeypatch.setattr(launching, "_WORDS_DEADLINE_S", 0.1)
    with started("sleep", "60") as stranger:
        with pytest.raises(SandboxFailed):
            async with launch(script(tmp_path, tells(stranger.pid)), policy(tmp_path), ["/bin/true"]):
                pytest.fail("it was entered")
        assert stranger.poll() is None
        stranger.kill()


async def test_bubblewraps_own_words_are_passed_on(tmp_path):
    gone = str(tmp_path / "workspace" / "gone")
    with pytest.raises(SandboxFailed, match=r"bwrap: .*gone"):
        async with launch(bwrap(), policy(tmp_path, read_only=(gone,)), ["/bin/true"]):
            pytest.fail("it was entered")


@pytest.mark.parametrize("program", ["/nowhere/bwrap", "/etc/passwd"])
async def test_a_program_that_cannot_be_started_is_told(tmp_path, program):
    with pytest.raises(SandboxFailed, match="the sandbox did not start"):
        async with launch(program, policy(tmp_path), ["/bin/true"]):
            pytest.fail("it was entered")


async def test_a_word_that_no_system_call_can_say_is_told(tmp_path):
    with pytest.raises(SandboxFailed, match="the sandbox did not start"):
        async with shell(tmp_path, "echo \0"):
            pytest.fail("it was entered")


# -- the daemon's death ----------------------------------------------------------------------------

DAEMON = """\
import sys, time, trio
from term2_acp.sandbox import launch as launching
from tests.kit.commands import policy, running

folder, seconds, where, program = sys.argv[1:]

def stuck(*arguments, **options):
    print("stuck", flush=True)
    time.sleep(1000)

if where == "before the limits":
    launching.limits.hold = stuck
if where == "before the command":
    launching._dies_with_parent = stuck

async def told():
    # bubblewrap and its process 1, which has the same words until it runs something.
    while len(running(folder + "/workspace")) < 2:
        await trio.sleep(0.01)
    print("stuck", flush=True)

async def main():
    line = f"touch ran; setsid sleep {seconds} & echo ready; wait"
    if where == "before the namespace":
        trio.lowlevel.spawn_system_task(told)
    async with launching.launch(program, policy(folder), ["/bin/sh", "-c", line]) as command:
        print((await command.receive()).decode(), end="", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


# The real bubblewrap, held where it has made its process 1 and not yet let it go on.
HELD = """\
#python
import os, sys
reading, writing = os.pipe()
for end in (reading, writing):
    os.set_inheritable(end, True)
sys.argv.remove("--disable-userns")  # the two do not go together
os.execv({program!r}, ["bwrap", "--info-fd", "2", "--userns-block-fd", str(reading), *sys.argv[1:]])
"""


@pytest.mark.parametrize(
    "where", ["before the namespace", "before the limits", "before the command", "while it runs"]
)
async def test_when_the_daemon_is_killed_nothing_survives_it(tmp_path, where):
    seconds = mark()
    program = bwrap()
    if where == "before the namespace":
        program = script(tmp_path, HELD.format(program=program))
    with started(sys.executable, "-c", DAEMON, str(tmp_path), seconds, where, program) as daemon:
        assert daemon.stdout.readline() == (b"ready\n" if where == "while it runs" else b"stuck\n")
        # Bubblewrap and what it started have our words, or those of its command, in their arguments.
        assert running(seconds) or running(str(tmp_path / "workspace"))
        daemon.kill()
        daemon.wait()
    await until(lambda: running(seconds) == [] and running(str(tmp_path / "workspace")) == [])
    assert (tmp_path / "workspace" / "ran").exists() == (where == "while it runs")
