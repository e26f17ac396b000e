"""The daemon behind acpbox, which turns an ACP agent into a server of the chat completions of OpenAI.

It offers nothing, takes the modes for models, opens a session for each request, and answers every permission
with something that is no answer: that has to be a refusal, and the turn has to go on. It is asked over HTTP
on the loopback interface.
"""

import http.client
import json
import signal
import socket
import subprocess

import pytest
from attrs import frozen

from tests.kit import python_clients
from tests.kit.clients_play import CHANGED, LOOKING, NOTES, SEEN, notes, stage
from tests.kit.launched import Launch

ANSWERS_WITHIN_S = 30


@frozen
class Gateway:
    """A running acpbox."""

    port: int
    process: subprocess.Popen

    def ask(self, method, path, body=None):
        """The answer to one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWERS_WITHIN_S)
        try:
            content = None if body is None else json.dumps(body)
            connection.request(method, path, content, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            return json.loads(answer.read())
        finally:
            connection.close()

    def chat(self, mode, words):
        """What is said to those words in that mode."""
        body = {"model": mode, "messages": [{"role": "user", "content": words}], "stream": False}
        return self.ask("POST", "/v1/chat/completions", body)["choices"][0]["message"]["content"]

    def stop(self):
        """End it as a terminal does; returns its exit code."""
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(ANSWERS_WITHIN_S)


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


@pytest.fixture(scope="module")
def launch(tmp_path_factory):
    return Launch(stage(tmp_path_factory.mktemp("acpbox")))


@pytest.fixture(scope="module")
def gateway(launch):
    python, port = python_clients.require("acpbox"), free_port()
    environment = {
        **launch.environment,
        "ACPBOX_ACP_COMMAND": json.dumps(launch.command),
        "ACPBOX_ACP_WORKSPACE": str(launch.home.workspace),
        "ACPBOX_GATEWAY_HOST": "127.0.0.1",
        "ACPBOX_GATEWAY_PORT": str(port),
    }
    with subprocess.Popen(
        [python, "-c", "from acpbox.cli import main; main()"],
        env=environment,
        cwd=launch.home.root,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            said = []
            for line in process.stderr:
                said.append(line)
                if "Uvicorn running" in line:
                    break
            else:
                pytest.fail("".join(said))
            yield Gateway(port, process)
        finally:
            process.kill()


@pytest.fixture(scope="module")
def answers(gateway):
    """Everything that is asked, in one go; then the gateway is stopped."""
    seen = {
        "models": gateway.ask("GET", "/v1/models"),
        "standard": gateway.chat("standard", "work"),
        "ask": gateway.chat("ask", "change one two"),
    }
    return {**seen, "exit": gateway.stop()}


def test_the_modes_are_its_models(answers):
    assert [model["id"] for model in answers["models"]["data"]] == ["standard", "ask", "plan"]


def test_a_turn_is_a_completion(answers):
    assert answers["standard"] == LOOKING + SEEN


def test_what_is_no_answer_to_an_ask_is_a_refusal_and_the_turn_goes_on(answers, launch):
    assert answers["ask"] == CHANGED
    assert notes(launch.home).read_text() == NOTES
    (connection,) = launch.connections()
    (reply,) = connection.answers("session/request_permission")
    assert reply["result"] == {"outcome": "allow_once"}
    assert connection.updates("tool_call_update")[-1]["status"] == "failed"


def test_it_leaves_nothing_behind(answers, launch):
    assert answers["exit"] in (0, -signal.SIGINT)
    assert launch.left() == []
