"""The scripts as real processes, against the bare agent of the benchmarks, which speaks ACP v2.

What the daemon itself does is tested elsewhere; here the scripts must work, and must fail where they should.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parent.parent.parent / "scripts"
BARE = f"{sys.executable} -m bare"

BROKEN_AGENT = """
import sys
from pathlib import Path
from benchmarks.client import Agent, AgentFailed

with Agent("broken", [sys.executable, "-c", "raise SystemExit('on purpose')"], Path.cwd()) as agent:
    try:
        agent.initialize()
    except AgentFailed as error:
        print(error)
"""


def run(tmp_path, script, *arguments, stdin=""):
    return subprocess.run(
        [sys.executable, str(SCRIPTS / script), *arguments],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.defpath, "PYTHONPATH": str(SCRIPTS / "benchmarks")},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )


def entries(output):
    """Who said what, without the times."""
    return [line[11:] for line in output.splitlines()]


def test_talk_prompts_answers_and_cancels(tmp_path):
    with subprocess.Popen(
        [sys.executable, str(SCRIPTS / "talk.py"), "--agent", BARE],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.defpath, "PYTHONPATH": str(SCRIPTS / "benchmarks")},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as talk:

        def say(line, until):
            """Type a line, and read until an entry begins with ``until``."""
            talk.stdin.write(f"{line}\n")
            talk.stdin.flush()
            return next(entry for entry in (line[11:-1] for line in talk.stdout) if entry.startswith(until))

        assert say("hello you", "agent") == "agent   hello"
        say("", "state   idle: end_turn")
        say("bench perm 1", "          2. Reject")
        assert say("7", "asked") == "asked   answer with a number from 1 to 2"
        say("1", "state   idle: end_turn")
        say("bench hang", "you     bench hang")
        say("/cancel", "state   idle: cancelled")
        assert "/cancel" in say("/what", "help")
        assert say("/close", "answer") == "answer  session/close: {}"
        say("/quit", "ended")
    assert talk.returncode == 0


def test_talk_takes_raw_lines(tmp_path):
    raw = '{"jsonrpc":"2.0","id":99,"method":"session/close","params":{"sessionId":"x"}}'
    done = run(tmp_path, "talk.py", "--agent", BARE, stdin=f"{raw}\n")
    assert "answer  a line of yours: {}" in entries(done.stdout)


def test_talk_ends_with_an_agent_that_cannot_run(tmp_path):
    done = run(tmp_path, "talk.py", "--agent", "false", stdin="hello\n")
    assert done.returncode == 1
    assert done.stderr == ""


@pytest.mark.parametrize("subject", ["bare", "term2"])
def test_bench_measures_a_row(tmp_path, subject):
    """Whether a goal is reached is not for a test to say: this machine may be busy."""
    done = run(tmp_path, "bench.py", "--row", "close-64", "--subject", subject)
    assert (done.returncode, done.stderr) == (0, "")
    row = next(line for line in done.stdout.splitlines() if line.startswith("trivial request, 64"))
    assert row.split()[-5:-1] == ["x", "<=", "4", "x"]
    assert row.split()[-1] in ("yes", "NO")


def test_bench_fails_when_the_agent_does(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", BROKEN_AGENT],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": os.defpath, "PYTHONPATH": str(SCRIPTS)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    # Input or output: whichever is met first.
    assert done.stdout.startswith("broken closed its ")
    assert done.stdout.endswith("; on stderr:\non purpose\n")


def test_bench_lists_its_rows(tmp_path):
    done = run(tmp_path, "bench.py", "--list")
    assert done.returncode == 0
    assert "stream        streamed 32-byte delta, CPU, to tick; goal <= 1.8 x" in done.stdout.splitlines()
