"""The harness itself, on programs that misbehave: each fault that it is there to see is seen.

The programs are a few lines of Python each, and stand in for a daemon that breaks one promise.
"""

import sys

import pytest

from tests.kit.daemon import running
from tests.kit.home import Home

PRELUDE = """
import json, os, subprocess, sys
def say(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()
def hear():
    line = sys.stdin.readline()
    return json.loads(line) if line else None
RESULT = {"protocolVersion": 2, "info": {"name": "x", "version": "1"}}
"""


def program(*lines):
    return [sys.executable, "-I", "-S", "-c", PRELUDE + "\n".join(lines)]


GREET = "say(id=hear()['id'], result=RESULT)"
LEAVE = "hear()"


async def drive(tmp_path, *lines):
    async with running(Home.make(tmp_path), program=program(*lines)) as daemon:
        await daemon.initialize()


async def test_a_program_that_behaves_passes(tmp_path):
    await drive(tmp_path, GREET, LEAVE)


FAULTS = {
    "an exit code": ((GREET, LEAVE, "sys.exit(3)"), "left with 3, not 0"),
    "a traceback": (
        (GREET, LEAVE, "print('Traceback (most recent call last)', file=sys.stderr)"),
        "Traceback",
    ),
    "an answer twice": (
        ("i = hear()['id']", "say(id=i, result=RESULT)", "say(id=i, result=RESULT)", LEAVE),
        "no open",
    ),
    "a print": (("print('starting')", GREET, LEAVE), "not a JSON line"),
    "half a line": ((GREET, LEAVE, "sys.stdout.write('{')"), "within a line"),
    "a frame out of order": (
        (
            "update = {'sessionUpdate': 'usage_update', 'used': 1, 'size': 2}",
            "say(method='session/update', params={'sessionId': 's', 'update': update})",
            GREET,
            LEAVE,
        ),
        "not open",
    ),
    "a child": (
        (
            GREET,
            "subprocess.Popen(['sleep', '3'], start_new_session=True, stdin=-3, stdout=-3, stderr=-3)",
            LEAVE,
        ),
        "processes left behind: .*sleep 3",
    ),
    "a child with a clean environment": (
        (
            "clean = {'env': {}, 'stdin': -3, 'stdout': -3, 'stderr': -3}",
            "subprocess.Popen(['/bin/sleep', '3'], start_new_session=True, **clean)",
            GREET,
            LEAVE,
        ),
        "processes left behind: .*sleep 3",
    ),
}


@pytest.mark.parametrize(("lines", "words"), FAULTS.values(), ids=FAULTS.keys())
async def test_a_program_that_breaks_a_promise_is_caught(tmp_path, lines, words):
    with pytest.raises(AssertionError, match=words):
        await drive(tmp_path, *lines)


async def test_a_request_without_an_answer_is_caught(tmp_path):
    async def ask_and_leave():
        async with running(Home.make(tmp_path), program=program(GREET, LEAVE, LEAVE)) as daemon:
            await daemon.initialize()
            await daemon.call("session/list")

    with pytest.raises(AssertionError, match=r"without an answer: \['session/list'\]"):
        await ask_and_leave()


async def test_a_fault_of_the_test_itself_is_shown_as_it_is(tmp_path):
    with pytest.raises(KeyError, match="mine"):
        async with running(Home.make(tmp_path), program=program(GREET, LEAVE)):
            raise KeyError("mine")
