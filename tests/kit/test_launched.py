"""What stands between a real client and its agent changes nothing, and what it wrote down is looked at."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.kit import launched
from tests.kit.home import Home
from tests.kit.launched import Launch
from tests.kit.packages import CLIENTS

RECORD = [sys.executable, "-I", "-S", str(CLIENTS / "record.py")]


@pytest.fixture
def launch(tmp_path):
    return Launch(Home.make(tmp_path))


def recorded(folder):
    (path,) = folder.iterdir()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_bytes_pass_both_ways_and_the_exit_code_is_the_agents(tmp_path):
    said = "é\n{}\nno line end".encode() + b"\xff"
    agent = ["sh", "-c", "cat; exit 7"]
    done = subprocess.run([*RECORD, str(tmp_path), *agent], input=said, capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (7, said, b"")
    lines = ["é", "{}", "no line end\udcff"]
    written = recorded(tmp_path)
    for direction in ("c2a", "a2c"):
        assert [line for way, line in written if way == direction] == lines


def test_a_signal_is_the_agents_and_its_last_words_come_through(tmp_path):
    agent = ["sh", "-c", "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done"]
    with subprocess.Popen(
        [*RECORD, str(tmp_path), *agent], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGTERM)
        assert (process.stdout.read(), process.wait()) == (b"bye\n", 3)


def test_what_still_runs_is_found_and_waited_for(launch, monkeypatch):
    monkeypatch.setattr(launched, "LEAVES_WITHIN_S", 0.1)
    with subprocess.Popen(["cat"], env=launch.environment, stdin=subprocess.PIPE) as process:
        assert [each.pid for each in launch.left()] == [process.pid]
        monkeypatch.setattr(launched, "LEAVES_WITHIN_S", 20)
        os.kill(process.pid, signal.SIGKILL)
        assert launch.left() == []


def exchange(launch, *lines):
    folder = launch.home.root / "frames"
    folder.mkdir()
    (folder / "1.jsonl").write_text("".join(json.dumps([way, json.dumps(m)]) + "\n" for way, m in lines))
    return launch


ASKED = ("c2a", {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}})
ANSWERED = ("a2c", {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1}})
UPDATE = {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": []}}


def test_answers_belong_to_what_they_answer(launch):
    (connection,) = exchange(launch, ASKED, ANSWERED).connections()
    assert connection.asked("initialize") == [{"protocolVersion": 1}]
    assert connection.answers("initialize") == [ANSWERED[1]]
    assert connection.answers("session/new") == []


@pytest.mark.parametrize(
    "lines",
    [
        [ASKED],
        [ASKED, ("a2c", {"jsonrpc": "2.0", "id": 2, "result": {}})],
        [ASKED, ANSWERED, ("a2c", {"jsonrpc": "2.0", "method": "session/update", "params": UPDATE})],
    ],
    ids=["no answer", "an answer to nothing", "no session"],
)
def test_what_breaks_a_rule_is_found(launch, lines):
    with pytest.raises(AssertionError):
        exchange(launch, *lines).connections()
