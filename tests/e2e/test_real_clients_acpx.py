"""The daemon under acpx, a client of ACP v1 for the command line, as a person or a script uses it.

It keeps a session by a process in the background that resumes it, offers files and terminals, checks every
update by a schema and says what does not fit, and answers permissions by a policy. Every line that passed
between it and each of its agents is held to the schemas of v1 and to the order, and nothing may be left of
any of them in the end.
"""

import json
import shlex
import subprocess

import pytest
from attrs import frozen

from tests.kit import packages
from tests.kit.clients_play import (
    CHANGED,
    LOOKING,
    MODELS,
    NOTES,
    SEEN,
    THOUGHT,
    USED,
    notes,
    stage,
)
from tests.kit.launched import Launch
from tests.kit.play import WAITING

ENDS_WITHIN_S = 60
PERMISSION_DENIED = 5
# The process in the background leaves by itself, should a test fail before it closes the session.
LINGERS_S = 30


@frozen
class Acpx:
    """acpx in one home."""

    launch: Launch
    program: list[str]

    def start(self, *args):
        """Start a command of acpx."""
        agent = ["--agent", shlex.join(self.launch.command), "--cwd", str(self.launch.home.workspace)]
        options = [*agent, "--ttl", str(LINGERS_S), "--format", "json", "--json-strict"]
        # Each command is a process of its own, and half of its time would go into compiling.
        cache = {"NODE_COMPILE_CACHE": str(self.launch.home.root / "compiled")}
        return subprocess.Popen(
            [*self.program, *options, *args],
            env={**self.launch.environment, **cache},
            cwd=self.launch.home.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args, exits=0):
        """Run a command of acpx to its end; the lines that it printed. It may complain of nothing."""
        with self.start(*args) as process:
            said, complaints = process.communicate(timeout=ENDS_WITHIN_S)
        assert (process.returncode, complaints) == (exits, ""), said
        return [json.loads(line) for line in said.splitlines()]


@pytest.fixture(scope="module")
def launch(tmp_path_factory):
    return Launch(stage(tmp_path_factory.mktemp("acpx")))


@pytest.fixture(scope="module")
def seen(launch):
    """A session from its making to its closing, by one command after the other."""
    acpx = Acpx(launch, packages.require_acpx())
    seen = {"made": acpx.run("sessions", "new")}
    try:
        seen["work"] = acpx.run("--approve-reads", "prompt", "work")
        seen["mode"] = acpx.run("set-mode", "ask")
        seen["denied"] = acpx.run("--approve-reads", "prompt", "change one two", exits=PERMISSION_DENIED)
        seen["untouched"] = notes(launch.home).read_text()
        seen["changed"] = acpx.run("--approve-all", "prompt", "change one two")
        seen["model"] = acpx.run("set", "model", MODELS[1])
        seen["cancel"], seen["cancelled"] = cancelled(acpx)
    finally:
        seen["closed"] = acpx.run("sessions", "close")
    return seen


def cancelled(acpx):
    """A prompt that is cancelled by another command while it is at work: what each of them printed."""
    with acpx.start("prompt", "wait") as waiting:
        said = []
        for line in waiting.stdout:
            said.append(json.loads(line))
            if WAITING in line:
                break
        cancel = acpx.run("cancel")
        said += map(json.loads, waiting.stdout)
    return cancel, said


@pytest.fixture(scope="module")
def connections(launch, seen):
    return launch.connections()


def updates(said, kind):
    found = [line["params"]["update"] for line in said if line.get("method") == "session/update"]
    return [update for update in found if update["sessionUpdate"] == kind]


def text(said):
    return "".join(update["content"]["text"] for update in updates(said, "agent_message_chunk"))


def stop_reason(said):
    return next(
        line["result"]["stopReason"] for line in reversed(said) if "stopReason" in str(line.get("result"))
    )


def test_a_session_is_made_and_its_prompts_resume_it_elsewhere(seen, connections):
    first, *others = connections
    (made,) = first.answers("session/new")
    session = made["result"]["sessionId"]
    assert [params["sessionId"] for other in others for params in other.asked("session/resume")]
    sessions = [params["sessionId"] for other in others for params in other.asked("session/resume")]
    assert set(sessions) == {session}
    assert seen["made"][-1]["created"] is True


def test_a_turn_is_printed_as_it_came(seen):
    work = seen["work"]
    assert text(work) == LOOKING + SEEN
    thoughts = updates(work, "agent_thought_chunk")
    assert "".join(update["content"]["text"] for update in thoughts) == THOUGHT
    assert updates(work, "plan")
    assert updates(work, "usage_update")[-1]["used"] == sum(USED)
    assert stop_reason(work) == "end_turn"


def test_its_policy_decides_and_an_edit_is_written_by_the_client_once(seen, launch, connections):
    assert seen["untouched"] == NOTES
    answers = [answer for each in connections for answer in each.answers("session/request_permission")]
    chosen = [answer["result"]["outcome"]["optionId"] for answer in answers]
    assert chosen == ["reject", "approve"]
    assert text(seen["denied"]) == text(seen["changed"]) == CHANGED
    assert notes(launch.home).read_text() == NOTES.replace("one", "two")
    writes = [params for connection in connections for params in connection.asked("fs/write_text_file")]
    assert [(write["path"], write["content"]) for write in writes] == [
        (str(notes(launch.home)), NOTES.replace("one", "two"))
    ]


def test_the_mode_and_the_model_are_set(seen, connections):
    assert seen["mode"][-1]["modeId"] == "ask"
    assert seen["model"][-1]["modelId"] == MODELS[1]
    answers = [answer for each in connections for answer in each.answers("session/set_config_option")]
    values = {option["id"]: option["currentValue"] for option in answers[-1]["result"]["configOptions"]}
    assert (values["mode"], values["model"]) == ("ask", MODELS[1])


def test_a_turn_is_cancelled_by_another_command(seen):
    assert seen["cancel"][-1]["cancelled"] is True
    assert stop_reason(seen["cancelled"]) == "cancelled"


def test_closing_the_session_leaves_nothing_behind(seen, launch):
    assert seen["closed"][-1]["action"] == "session_closed"
    assert launch.left() == []
