"""The daemon under two Python clients of ACP v1: the official SDK, and the asyncio library acp-client.

Neither offers files or terminals. The official SDK checks what it gets with models of its own; acp-client
takes everything, ends its agents by a signal, and turns down what its user's code does not answer. Their
drivers in ``tests/clients`` print what they saw; the values are judged here, and every line that passed is
held to the schemas of v1 and to the order.
"""

import json
import subprocess

import pytest

from tests.kit import python_clients
from tests.kit.clients_play import (
    CHANGED,
    LOOKING,
    MADE,
    MODELS,
    NOTES,
    PLAN,
    SEEN,
    THOUGHT,
    notes,
    outside,
    stage,
)
from tests.kit.launched import Launch
from tests.kit.packages import CLIENTS
from tests.kit.play import HELLO, WAITING

DRIVER_TAKES_AT_MOST_S = 60


def driven(client, driver, launch):
    """What the driver of that client saw."""
    python = python_clients.require(client)
    plan = {"command": launch.command, "cwd": str(launch.home.workspace), "model": MODELS[1]}
    done = subprocess.run(
        [python, CLIENTS / driver, json.dumps(plan)],
        env=launch.environment,
        capture_output=True,
        text=True,
        timeout=DRIVER_TAKES_AT_MOST_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "the client or the daemon complained"
    return json.loads(done.stdout)


def joined(updates, kind):
    return "".join(u["content"]["text"] for u in updates if u["sessionUpdate"] == kind)


def statuses(updates):
    """The last status of each call, in the order in which the calls were made."""
    calls = {}
    for update in updates:
        if update["sessionUpdate"] in ("tool_call", "tool_call_update") and update.get("status"):
            calls[update["toolCallId"]] = update["status"]
    return list(calls.values())


def outputs(updates):
    """What the calls gave back."""
    return [update["rawOutput"] for update in updates if update.get("rawOutput")]


# -- the official SDK ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sdk(tmp_path_factory):
    return Launch(stage(tmp_path_factory.mktemp("official")))


@pytest.fixture(scope="module")
def seen(sdk):
    return driven("agent-client-protocol", "official.py", sdk)


@pytest.fixture(scope="module")
def live(seen):
    return seen["live"]


def test_its_models_take_every_answer(live):
    assert live["initialized"]["protocolVersion"] == 1
    assert live["made"]["modes"]["currentModeId"] == "standard"
    assert [option["id"] for option in live["made"]["configOptions"]][:2] == ["mode", "model"]
    assert live["authenticated"] == {}


def test_it_sees_a_whole_turn(live):
    updates = live["work"]["updates"]
    assert live["work"]["stopReason"] == "end_turn"
    assert joined(updates, "agent_thought_chunk") == THOUGHT
    assert joined(updates, "agent_message_chunk") == LOOKING + SEEN
    assert statuses(updates) == ["completed", "completed"]
    plans = [update["entries"] for update in updates if update["sessionUpdate"] == "plan"]
    assert [entry["content"] for entry in plans[-1]] == list(PLAN)
    # It offers no files, so they are read where they lie.
    assert outputs(updates)[0]["bytes"] == len(NOTES.rstrip())


def test_its_answers_decide(live, sdk):
    assert [ask["options"][0]["kind"] for ask in live["asks"]] == ["allow_once", "allow_once"]
    assert joined(live["allowed"]["updates"], "agent_message_chunk") == MADE
    assert outside(sdk.home).read_text() == "made\n"
    assert statuses(live["rejected"]["updates"]) == ["completed", "failed"]
    assert notes(sdk.home).read_text() == NOTES


def test_its_modes_hold(live):
    kinds = [update["sessionUpdate"] for update in live["toldOfMode"]]
    assert kinds == ["current_mode_update", "config_option_update"]
    # In plan mode an edit is refused without a question, and the turn goes on.
    assert statuses(live["planned"]["updates"]) == ["completed", "failed"]
    assert joined(live["planned"]["updates"], "agent_message_chunk") == CHANGED
    values = {option["id"]: option["currentValue"] for option in live["asking"]["configOptions"]}
    assert values["mode"] == "ask"
    values = {option["id"]: option["currentValue"] for option in live["model"]["configOptions"]}
    assert values["model"] == MODELS[1]


def test_its_cancel_ends_the_turn(live):
    assert live["cancelled"]["stopReason"] == "cancelled"
    assert joined(live["cancelled"]["updates"], "agent_message_chunk") == WAITING
    (entry,) = live["listed"]["sessions"]
    assert entry["sessionId"] == live["made"]["sessionId"]


def test_another_process_loads_and_resumes(seen, sdk):
    again = seen["again"]
    said = joined(again["history"], "user_message_chunk")
    assert said == "work" + "outside" + "change one two" * 2 + "wait"
    assert statuses(again["history"]) == [
        status
        for turn in ("work", "allowed", "planned", "rejected")
        for status in statuses(seen["live"][turn]["updates"])
    ]
    assert again["loaded"]["modes"]["currentModeId"] == "ask"
    assert joined(again["silence"], "user_message_chunk") == ""
    assert joined(again["goesOn"]["updates"], "agent_message_chunk") == HELLO
    assert [seen["live"]["exit"], again["exit"]] == [0, 0]
    assert len(sdk.connections()) == 2


# -- acp-client ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def simple(tmp_path_factory):
    return Launch(stage(tmp_path_factory.mktemp("simple")))


@pytest.fixture(scope="module")
def told(simple):
    return driven("acp-client", "simple.py", simple)


def test_acp_client_gets_its_answers(told, simple):
    assert told["work"] == LOOKING + SEEN
    assert told["allowed"] == MADE
    assert outside(simple.home).read_text() == "made\n"


def test_acp_client_turns_down_by_cancelled_and_the_turn_goes_on(told):
    assert len(told["asks"]) == 2
    assert told["refused"] == MADE  # what the script says next, whatever came of the call
    assert statuses(told["updatesRefused"]) == ["failed"]


def test_acp_client_cancels(told, simple):
    assert told["cancelled"] == WAITING
    first = simple.connections()[0]
    reasons = [answer["result"]["stopReason"] for answer in first.answers("session/prompt")]
    assert reasons == ["end_turn", "end_turn", "end_turn", "cancelled"]


def test_acp_client_carries_a_session_on_in_another_process(told):
    assert told["carriedOn"] == told["session"]
    assert joined(told["history"], "user_message_chunk") == "work" + "outside" * 2 + "wait"
    assert told["hello"] == HELLO


def test_a_signal_without_the_end_of_the_input_is_a_good_end_too(told, simple):
    assert told["exits"] == [0, 0]
    assert len(simple.connections()) == 2
