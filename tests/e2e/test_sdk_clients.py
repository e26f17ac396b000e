"""The daemon under the clients of both official SDKs, as an editor built on them would drive it.

The drivers in ``tests/clients`` run under node and print what the SDK's client saw; the values are judged
here. Every line that went over the wire is recorded by the driver and then held to the schema gate and the
order checker, because these clients drop what they do not understand without a word. One node runs all that
is done in a home, each scenario with an agent and a client of its own.
"""

import json
import subprocess
from pathlib import Path

import pytest
from attrs import frozen

from tests.kit import packages
from tests.kit.daemon import PROGRAM
from tests.kit.home import Home
from tests.kit.order import Order
from tests.kit.pictures import image
from tests.kit.play import HELLO, OUTSIDE, conformance, outside
from tests.kit.schema import Gate

SDKS = ("sdk14", "sdk24")
DRIVER_TAKES_AT_MOST_S = 60


@frozen
class Driver:
    """Runs scenarios with the client of one SDK, all in one home."""

    modules: Path
    sdk: str
    home: Home

    def run(self, **scenarios):
        """The driver's summaries of scenarios by their names, each with what its plan has of its own."""
        frames = [self.home.root / f"{name}.jsonl" for name in scenarios]
        plans = [
            {
                "scenario": name,
                "command": PROGRAM,
                "env": self.home.environment(),
                "cwd": str(self.home.workspace),
                "frames": str(file),
                "prompts": {"hello": "hi", "ask": "ask", "wait": "wait"},
                **more,
            }
            for (name, more), file in zip(scenarios.items(), frames, strict=True)
        ]
        driver = self.modules.parent / "drive.mjs"
        done = subprocess.run(
            [packages.node(), driver, self.sdk, json.dumps(plans)],
            capture_output=True,
            text=True,
            timeout=DRIVER_TAKES_AT_MOST_S,
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == "", "the SDK's client or the daemon complained"
        for file in frames:
            check_frames(file)
        return dict(zip(scenarios, json.loads(done.stdout), strict=True))


def check_frames(file):
    """Hold what went over the wire to the schemas and to the order."""
    gate, order = Gate.if_available(), Order()
    for line in file.read_text().splitlines():
        direction, frame = json.loads(line)
        gate.check_line(direction, frame)
        (order.sent if direction == "c2a" else order.received)(frame)
    assert gate.unanswered() == []
    order.finish()


@pytest.fixture(scope="module", params=SDKS)
def driver(request, tmp_path_factory):
    home = Home.make(tmp_path_factory.mktemp(request.param))
    home.play(conformance(home))
    return Driver(packages.require(), request.param, home)


@pytest.fixture(scope="module")
def seen(driver):
    return driver.run(live={}, again={"takesUp": True}, withdrawn={})


@pytest.fixture(scope="module")
def live(seen):
    return seen["live"]


def test_initialize_gives_the_client_what_the_contract_says(live):
    initialized = live["initialized"]
    assert initialized["protocolVersion"] == 2
    assert initialized["info"]["name"] == "term2"
    assert initialized["capabilities"] == {"session": {}}


def test_a_prompt_is_echoed_answered_and_ended(live):
    hello = live["hello"]
    assert hello["text"] == HELLO
    assert hello["stopReason"] == "end_turn"
    assert hello["user"]["content"] == [{"type": "text", "text": "hi"}]
    assert hello["user"]["messageId"]
    if hello["accepted"]:  # SDK 1.4.0 hands on an empty object
        assert hello["accepted"]["messageId"] == hello["user"]["messageId"]
    assert hello["kinds"].count("state_update") == 2


def only_call(seen):
    (call,) = seen["calls"].values()
    return call


def test_an_allowed_ask_runs_the_tool(live, driver):
    allowed = live["allowed"]
    call = only_call(allowed)
    assert (call["name"], call["kind"], call["status"]) == ("read_file", "read", "completed")
    assert call["locations"][0]["path"] == outside(driver.home)
    assert allowed["stopReason"] == "end_turn"


def test_a_rejected_ask_does_not(live):
    rejected = live["rejected"]
    call = only_call(rejected)
    assert call["status"] == "failed"
    assert OUTSIDE not in json.dumps(call)
    assert rejected["stopReason"] == "end_turn"


def test_an_ask_has_what_a_dialog_shows(live, driver):
    first, second = live["asks"]
    assert [first["policy"], second["policy"]] == ["allow", "reject"]
    path = outside(driver.home)
    assert path in first["description"]
    assert first["subject"]["type"] == "tool_call"
    assert first["subject"]["toolCall"]["locations"][0]["path"] == path
    assert [(o["optionId"], o["kind"]) for o in first["options"]] == [
        ("approve", "allow_once"),
        ("allow-folder-session", "allow_always"),
        ("reject", "reject_once"),
    ]


def test_a_cancelled_turn_ends_cancelled(live):
    assert live["cancelled"]["stopReason"] == "cancelled"


def test_the_session_is_listed_with_its_title_and_the_filter_holds(live, driver):
    (entry,) = live["listed"]["sessions"]
    assert entry["sessionId"] == live["sessionId"]
    assert entry["cwd"] == str(driver.home.workspace)
    assert entry["title"]
    assert entry["updatedAt"].endswith("Z")
    assert live["elsewhere"]["sessions"] == []


def test_close_answers_and_the_process_leaves_well(live):
    assert live["closed"] == {}
    assert live["exit"] == 0


def test_another_process_resumes_without_and_with_the_history(live, seen):
    again = seen["again"]
    assert again["withoutReplay"] == [{"sessionUpdate": "state_update", "state": "idle"}]
    replay = again["replay"]
    assert replay[-1] == {"sessionUpdate": "state_update", "state": "idle"}
    users = [update["messageId"] for update in replay if update["sessionUpdate"] == "user_message"]
    steps = ("hello", "allowed", "rejected", "cancelled")
    assert users == [live[step]["user"]["messageId"] for step in steps]
    calls = {u["toolCallId"]: u["status"] for u in replay if u["sessionUpdate"] == "tool_call_update"}
    lived = [only_call(live[step]) for step in ("allowed", "rejected")]
    assert calls == {call["toolCallId"]: call["status"] for call in lived}
    assert not [u for u in replay if u["sessionUpdate"].endswith("_message_chunk")]
    # And the resumed session goes on.
    assert again["idle"]["stopReason"] == "end_turn"
    text = "".join(u["content"]["text"] for u in again["live"] if u["sessionUpdate"] == "agent_message_chunk")
    assert text == HELLO
    assert again["exit"] == 0


def test_an_ask_that_is_open_at_the_cancel_is_withdrawn(seen):
    withdrawn = seen["withdrawn"]
    assert withdrawn["stopReason"] == "cancelled"
    (ask,) = withdrawn["asks"]
    assert ask["withdrawn"] is True
    assert withdrawn["exit"] == 0


@pytest.fixture(scope="module")
def full(driver, tmp_path_factory):
    """The same client, with a daemon whose profile takes images."""
    home = Home.make(tmp_path_factory.mktemp(f"{driver.sdk}-full"))
    home.play(conformance(home), '[acp]\nprofile = "full"\n')
    return Driver(driver.modules, driver.sdk, home)


def test_images_are_advertised_taken_echoed_and_shown_again(full):
    blocks = [image(uri="file:///w/a.png"), {"type": "text", "text": "hi"}, image(mime_type="image/gif")]
    seen = full.run(images={"blocks": blocks}, history={"takesUp": True})
    live = seen["images"]
    assert live["initialized"]["capabilities"] == {"session": {"prompt": {"image": {}}, "delete": {}}}
    assert live["images"]["user"]["content"] == blocks
    assert live["images"]["stopReason"] == "end_turn"
    replay = seen["history"]["replay"]
    users = [update for update in replay if update["sessionUpdate"] == "user_message"]
    assert users == [live["images"]["user"]]
