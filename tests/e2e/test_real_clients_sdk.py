"""The daemon under the v1 clients of both official npm SDKs, offering their files, as an editor does.

``tests/clients/drive_v1.mjs`` runs under node, goes through all that an editor does with a session, and
prints what the SDK's client saw; the values are judged here. Every line that passed is recorded between the
two and held to the schemas of v1 and to the order.
"""

import json
import subprocess

import pytest

from tests.kit import packages
from tests.kit.clients_play import (
    CHANGED,
    LOOKING,
    MADE,
    MODELS,
    NOTES,
    PLAN,
    RAN,
    SAID_BY_COMMAND,
    SEEN,
    THOUGHT,
    USED,
    notes,
    outside,
    stage,
)
from tests.kit.launched import Launch
from tests.kit.play import HELLO, WAITING

SDKS = ("sdk14", "sdk24")
DRIVER_TAKES_AT_MOST_S = 60
# What is in the editor and not on the disk.
BUFFER = "one in the editor\n"


@pytest.fixture(scope="module", params=SDKS)
def sdk(request):
    packages.require()
    return request.param


@pytest.fixture(scope="module")
def launch(sdk, tmp_path_factory):
    return Launch(stage(tmp_path_factory.mktemp(sdk)))


@pytest.fixture(scope="module")
def seen(sdk, launch):
    home = launch.home
    plan = {
        "command": launch.command,
        "env": launch.environment,
        "cwd": str(home.workspace),
        "notes": str(notes(home)),
        "buffer": BUFFER,
        "model": MODELS[1],
    }
    done = subprocess.run(
        [packages.node(), packages.CLIENTS / "drive_v1.mjs", sdk, json.dumps(plan)],
        capture_output=True,
        text=True,
        timeout=DRIVER_TAKES_AT_MOST_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "the SDK's client or the daemon complained"
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def connection(launch, seen):
    (connection,) = launch.connections()
    return connection


def options_of(result):
    return {option["id"]: option["currentValue"] for option in result["configOptions"]}


def test_initialize_offers_all_that_is_there_and_no_login(seen):
    initialized = seen["initialized"]
    assert initialized["protocolVersion"] == 1
    assert initialized["agentInfo"]["name"] == "term2"
    assert initialized["authMethods"] == []
    assert initialized["agentCapabilities"]["loadSession"] is True
    assert set(initialized["agentCapabilities"]["sessionCapabilities"]) == {
        "list",
        "resume",
        "close",
        "delete",
    }
    assert seen["authenticated"] in ({}, None)


def test_a_session_comes_with_modes_and_options_that_agree(seen):
    made = seen["made"]
    assert made["modes"]["currentModeId"] == "standard"
    assert [mode["id"] for mode in made["modes"]["availableModes"]] == ["standard", "ask", "plan"]
    assert options_of(made)["mode"] == "standard"
    assert options_of(made)["model"] == MODELS[0]


def test_a_turn_shows_thoughts_words_calls_the_plan_and_what_it_used(seen):
    work = seen["work"]
    assert work["stopReason"] == "end_turn"
    assert work["thoughts"] == THOUGHT
    assert work["text"] == LOOKING + SEEN
    assert [call["status"] for call in work["calls"]] == ["completed", "completed"]
    assert [entry["content"] for entry in work["plans"][-1]] == list(PLAN)
    assert work["usage"][-1]["used"] == sum(USED)
    assert work["usage"][-1]["size"] > 0
    assert "user_message_chunk" not in work["kinds"]


def test_what_is_in_the_editor_unsaved_is_what_the_model_reads(seen, launch):
    call = seen["work"]["calls"][0]
    assert seen["reads"][0]["path"] == str(notes(launch.home))
    assert (call["kind"], call["rawOutput"]["bytes"]) == ("read", len(BUFFER.rstrip()))


def test_an_edit_goes_through_the_editor_once_and_shows_as_a_diff(seen, launch):
    changed = seen["changed"]
    assert (changed["stopReason"], changed["text"]) == ("end_turn", CHANGED)
    edit = changed["calls"][-1]
    assert (edit["kind"], edit["status"]) == ("edit", "completed")
    assert edit["content"][0] == {
        "type": "diff",
        "path": str(notes(launch.home)),
        "oldText": BUFFER,
        "newText": BUFFER.replace("one", "two"),
    }
    # Two edits were let through in all, so two writes; the disk is the editor's business.
    written = [(write["path"], write["content"]) for write in seen["writes"]]
    texts = [BUFFER.replace("one", "two"), BUFFER.replace("one", "four")]
    assert written == [(str(notes(launch.home)), text) for text in texts]
    assert seen["buffer"] == texts[-1]
    assert notes(launch.home).read_text() == NOTES


def test_a_command_shows_its_output_in_a_terminal_of_the_client_and_runs_in_none(seen, connection):
    assert seen["ran"]["text"] == RAN
    assert not [line for line in connection.lines if line.message.get("method", "").startswith("terminal/")]
    metas = [update.get("_meta") or {} for update in connection.updates("tool_call_update")]
    output = "".join(meta["terminal_output"]["data"] for meta in metas if "terminal_output" in meta)
    if seen["ran"]["calls"][0]["status"] == "completed":  # a machine without a sandbox says so instead
        assert SAID_BY_COMMAND in output


def test_what_asks_is_asked_with_one_option_a_kind_and_runs_when_allowed(seen, launch):
    ask = seen["asks"][0]
    kinds = [option["kind"] for option in ask["options"]]
    assert sorted(kinds) == ["allow_always", "allow_once", "reject_once"]
    assert ask["toolCall"]["content"][0]["type"] == "diff"
    assert ask["toolCall"]["locations"][0]["path"] == str(outside(launch.home))
    assert seen["allowed"]["text"] == MADE
    assert outside(launch.home).read_text() == "made\n"


def test_a_mode_counts_from_the_moment_it_is_set_and_is_told_both_ways(seen):
    assert seen["asking"] in ({}, None)
    mode, options = seen["toldOfMode"]
    assert (mode["sessionUpdate"], mode["currentModeId"]) == ("current_mode_update", "ask")
    assert options_of(options)["mode"] == "ask"
    assert [ask["choice"] for ask in seen["asks"]] == ["allow_once", "reject_once", "allow_once"]
    assert seen["rejected"]["calls"][-1]["status"] == "failed"
    assert seen["rejected"]["stopReason"] == "end_turn"
    assert seen["approved"]["calls"][-1]["status"] == "completed"


def test_options_are_answered_with_all_of_them(seen):
    assert options_of(seen["standard"])["mode"] == "standard"
    assert options_of(seen["model"])["model"] == MODELS[1]


def test_a_cancelled_turn_is_answered_so(seen):
    assert seen["cancelled"]["stopReason"] == "cancelled"
    assert seen["cancelled"]["text"] == WAITING


def test_the_session_is_listed_and_gone_when_it_was_deleted(seen, launch):
    (entry,) = seen["listed"]["sessions"]
    assert entry["sessionId"] == seen["made"]["sessionId"]
    assert entry["cwd"] == str(launch.home.workspace)
    assert entry["title"]
    assert seen["elsewhere"]["sessions"] == []
    assert seen["afterwards"]["sessions"] == []


def test_loading_shows_the_history_and_resuming_does_not(seen):
    history = seen["history"]
    words = ["work", "change one two", "run", "outside", "change two three", "change two four", "wait"]
    assert history["user"] == "".join(words)
    lived = [seen[turn] for turn in ("work", "changed", "ran", "allowed", "rejected", "approved")]
    calls = [(call["toolCallId"], call["status"]) for turn in lived for call in turn["calls"]]
    assert [(call["toolCallId"], call["status"]) for call in history["calls"]] == calls
    assert [entry["content"] for entry in history["plans"][-1]] == list(PLAN)
    for opened in (seen["loaded"], seen["resumed"]):
        assert opened["modes"]["currentModeId"] == "standard"
        assert options_of(opened)["model"] == MODELS[1]
    assert {"user_message_chunk", "agent_message_chunk", "tool_call"}.isdisjoint(seen["silence"]["kinds"])
    assert (seen["goesOn"]["text"], seen["goesOn"]["stopReason"]) == (HELLO, "end_turn")


def test_the_end_of_its_input_ends_the_process_well_with_nothing_left(seen, connection):
    assert seen["exit"] == 0
    assert connection.lines
