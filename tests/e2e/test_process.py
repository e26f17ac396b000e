"""The process as whoever launches it sees it: starts, refusals, descriptors, signals and ends.

Everything here happens to the installed program, in a process of its own, with real descriptors of every
kind that a launcher can hand it. What it says over the wire is the business of other files. Starts and
signals are those of a process that was started for it. What a start is refused for, and how what goes on is
settled in the end, is the same in a fork (``kit.forked``), which costs a tenth; of each there is one that was
started.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit import forked, processes
from tests.kit.daemon import LEAVES_WITHIN_S, PROGRAM, running
from tests.kit.home import Home
from tests.kit.play import WAITS
from tests.kit.program import INITIALIZE, started

CONSOLE_SCRIPT = Path(sys.executable).with_name("term2")

# The ladder is at most 10 s; what is not stuck is far quicker, and a busy machine is given its time.
PROMPT_EXIT_S = 5


@pytest.fixture
def home(tmp_path):
    return Home.make(tmp_path, script=WAITS)


def run(home, *args, data=b"", environment=None):
    """The exit code and what was written, given ``data`` and the end of stdin."""
    with started(home, *args, environment=environment) as process:
        out, err = process.communicate(data, timeout=LEAVES_WITHIN_S)
    return process.returncode, out, err.decode()


def run_forked(home, *args, data=b"", environment=None):
    """The same, of a fork."""
    done = forked.run(["acp", *args], home.root, home.environment(**(environment or {})), stdin=data)
    return done.returncode, done.stdout, done.stderr.decode()


# -- refused starts --------------------------------------------------------------------------------

# The rules of the command line and of settings have tests of their own; here are one or two of each kind,
# for what all refusals have in common.
REFUSED = {
    "auto approve": (["--auto-approve"], "unknown option --auto-approve"),
    "an unknown option with a value": (["--key=secret-value"], "unknown option --key"),
    "a word": (["now"], "unexpected argument 'now'"),
    "an unknown provider": (["--provider", "nobody"], "nobody"),
    "a model that two providers have": (["--model", "small"], "--provider one"),
    "a pattern, though it fits one": (["--model", "lar*"], "lar*"),
}


def assert_refused(code, out, err, words):
    assert code == 1
    assert out == b""
    first, usage, *rest = err.splitlines()
    assert first.startswith("term2 acp: ")
    assert words in first
    assert usage.startswith("usage: term2 acp ")
    assert rest == []
    assert "Traceback" not in err


MODELS = """
[providers.one]
type = "openai-compatible"
base_url = "http://127.0.0.1:9/v1"
models = ["small", "large"]
[providers.two]
type = "openai-compatible"
base_url = "http://127.0.0.1:9/v1"
models = ["small"]
"""


@pytest.mark.parametrize(("args", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_a_start_is_refused_in_one_line_and_without_a_byte_on_stdout(home, args, words):
    home.settings.write_text(MODELS)
    runs = run if words == "nobody" else run_forked
    code, out, err = runs(home, *args, data=INITIALIZE)
    assert_refused(code, out, err, words)
    assert "secret-value" not in err


BAD_SETTINGS = {
    "not TOML": ("provider = \n", "settings.toml"),
    "a word for a number": ('[limits]\nmodel_calls = "100"\n', "model_calls"),
    "auto approval": ("[acp]\nauto_approve = true\n", "auto_approve"),
}


@pytest.mark.parametrize(("settings", "words"), BAD_SETTINGS.values(), ids=BAD_SETTINGS.keys())
def test_settings_with_a_fault_refuse_to_start(home, settings, words):
    home.settings.write_text(settings)
    code, out, err = run_forked(home, data=INITIALIZE)
    assert_refused(code, out, err, words)


def test_a_settings_file_that_is_named_must_be_there(home):
    code, out, err = run_forked(
        home, environment={"TERM2_CONFIG": str(home.root / "gone.toml")}, data=INITIALIZE
    )
    assert_refused(code, out, err, "gone.toml")


def test_no_environment_variable_turns_approval_off(home):
    # A bad value is refused like a bad flag; a made-up variable does nothing at all.
    code, out, err = run_forked(home, environment={"TERM2_EFFORT": "huge"}, data=INITIALIZE)
    assert_refused(code, out, err, "huge")
    code, out, _ = run_forked(home, environment={"TERM2_AUTO_APPROVE": "1"}, data=INITIALIZE)
    assert code == 0
    assert json.loads(out)["result"]["capabilities"] == {"session": {}}


# -- starts and ends -------------------------------------------------------------------------------


def test_the_end_of_stdin_before_initialize_is_a_good_end(home):
    assert run(home) == (0, b"", "")


def test_the_console_script_is_the_same_program(home):
    by_module = run(home, data=INITIALIZE)
    done = subprocess.run(
        [CONSOLE_SCRIPT, "acp"], input=INITIALIZE, capture_output=True, env=home.environment(), cwd=home.root
    )
    assert (done.returncode, done.stdout, done.stderr.decode()) == by_module
    assert by_module[0] == 0
    assert json.loads(by_module[1])["result"]["protocolVersion"] == 2
    assert by_module[2] == ""


def test_it_starts_without_a_home_a_terminal_type_or_a_working_directory_of_its_own(home):
    env = {"PATH": os.environ["PATH"], "TERM2_STATE_DIR": str(home.state)}
    done = subprocess.run(PROGRAM, input=INITIALIZE, capture_output=True, env=env, cwd="/")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["id"] == 0


def test_a_module_in_the_working_directory_is_not_imported(home):
    (home.root / "msgspec.py").write_text("print('mine'); raise SystemExit(7)\n")
    code, out, _ = run(home, data=INITIALIZE)
    assert code == 0
    assert json.loads(out)["id"] == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_an_idle_daemon_without_another_byte_of_input(home, number):
    with started(home) as process:
        process.stdin.write(INITIALIZE)
        assert json.loads(process.stdout.readline())["id"] == 0
        asked = time.monotonic()
        process.send_signal(number)
        assert process.wait(LEAVES_WITHIN_S) == 0
        assert time.monotonic() - asked < PROMPT_EXIT_S
        assert (process.stdout.read(), process.stderr.read()) == (b"", b"")


# An editor that quits closes the pipe and, in the next instant, signals: that is one wish to end, not two.
@pytest.mark.parametrize("ending", ["EOF", "SIGTERM", "SIGINT", "EOF and SIGTERM"])
async def test_a_running_turn_is_settled_before_the_end(home, ending):
    runs = running if ending == "EOF and SIGTERM" else forked.running
    async with runs(home, leaves=False) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        turn = await daemon.begin(session, "wait")
        await turn.seen("agent_message_chunk")
        family = processes.descendants(daemon.process.pid)
        if "EOF" in ending:
            await daemon.close_stdin()
        if "SIG" in ending:
            daemon.signal(signal.Signals[ending.removeprefix("EOF and ")])
        assert await daemon.exit_code() == 0, daemon.stderr
        assert await turn.ended() == "cancelled"
        daemon.check(family)


def test_requests_in_flight_at_the_end_of_stdin_are_each_answered_once(home):
    # The first session opens the store: the end comes at some instant of that, another one each time.
    session = b'{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"%s"}}\n'
    listing = b'{"jsonrpc":"2.0","id":2,"method":"session/list"}\n'
    data = INITIALIZE + session % os.fsencode(home.workspace) + listing
    for _ in range(6):
        code, out, err = run_forked(home, data=data)
        assert code == 0
        assert sorted(json.loads(line)["id"] for line in out.splitlines()) == [0, 1, 2]
        assert "Traceback" not in err


async def test_an_open_ask_is_denied_at_the_end_and_nothing_was_read(home):
    async with forked.running(home, leaves=False) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        turn = await daemon.begin(session, "ask")
        ask = await daemon.next_ask()
        call_id = ask["params"]["subject"]["toolCall"]["toolCallId"]
        await daemon.close_stdin()
        assert await daemon.exit_code() == 0, daemon.stderr
        assert await turn.ended() == "cancelled"
        assert turn.calls[call_id]["status"] == "cancelled"
        daemon.check()


def fill(process):
    """Ask so much, reading nothing, that the answers fill the pipe and the daemon's own queue."""
    process.stdin.write(INITIALIZE)
    assert json.loads(process.stdout.readline())["id"] == 0
    os.set_blocking(process.stdin.fileno(), False)
    request = b'{"jsonrpc":"2.0","id":"%s","method":"x"}\n' % (b"i" * 4000)
    deadline = time.monotonic() + LEAVES_WITHIN_S
    refused_since = None
    while refused_since is None or time.monotonic() - refused_since < 0.5:
        assert time.monotonic() < deadline, "it reads on and on while nobody reads its answers"
        if process.stdin.write(request) is not None:
            refused_since = None
        else:
            refused_since = refused_since or time.monotonic()
            time.sleep(0.01)


def test_a_reader_that_never_reads_cannot_hold_the_end_up(home):
    with started(home) as process:
        fill(process)
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LEAVES_WITHIN_S) == 0
        assert time.monotonic() - asked < 10


def test_a_second_signal_skips_to_the_end(home):
    with started(home) as process:
        fill(process)
        asked = time.monotonic()
        process.send_signal(signal.SIGTERM)
        # The second signal counts once the first was taken; two at once are one to the kernel.
        while process.poll() is None and time.monotonic() - asked < LEAVES_WITHIN_S:
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
        assert process.wait() == 130
        assert time.monotonic() - asked < 1


def test_a_reader_that_went_away_is_a_quiet_end(home):
    with started(home) as process:
        process.stdout.close()
        process.stdin.write(INITIALIZE)
        assert process.wait(LEAVES_WITHIN_S) == 0
        assert process.stderr.read() == b""


def test_a_log_that_nobody_reads_changes_nothing(home):
    with started(home, environment={"TERM2_LOG_LEVEL": "debug"}) as process:
        process.stderr.close()
        process.stdin.write(INITIALIZE + b"not json\n" + INITIALIZE.replace(b":0", b":1"))
        first, garbage, second = [json.loads(process.stdout.readline()) for _ in range(3)]
        assert (first["id"], garbage["error"]["code"], second["id"]) == (0, -32700, 1)
        process.stdin.close()
        assert process.wait(LEAVES_WITHIN_S) == 0


async def test_killed_hard_it_leaves_no_children_and_a_store_that_opens(home):
    async with running(home, leaves=False) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        first = await daemon.prompt(session, "hi")
        turn = await daemon.begin(session, "wait")
        await turn.seen("agent_message_chunk")
        said = turn.text
        family = processes.descendants(daemon.process.pid)
        daemon.kill()
        assert processes.alive(family) == []
    async with forked.running(home) as daemon:
        await daemon.initialize()
        listed = await daemon.request("session/list", {"cwd": str(home.workspace)})
        assert [entry["sessionId"] for entry in listed["sessions"]] == [session]
        opened = {"sessionId": session, "cwd": str(home.workspace), "replayFrom": {"type": "start"}}
        await daemon.request("session/resume", opened)
        replayed = daemon.updates(session)
        users = [update["messageId"] for update in replayed if update["sessionUpdate"] == "user_message"]
        assert users == [first.message_id, turn.message_id]
        # What the client has seen survives; what it had not seen yet may be there too.
        agent = [update for update in replayed if update["sessionUpdate"] == "agent_message"]
        text = "".join(block["text"] for update in agent for block in update["content"])
        assert text.startswith(first.text)
        assert text.removeprefix(first.text).startswith(said)
        assert (await daemon.prompt(session, "hi")).text == first.text
