"""The v2 conformance kit's table, made again here: one test a row, named by the row's id.

The kit itself cannot be had; its table of requirements can. Rows that look at ordinary conversation share
one recorded conversation with one process, since no row changes what another sees; a row that needs
another start, another end or another process has its own. Rows of what the profile ``full`` advertises
(images, delete, config options) have a process with that profile. Rows of capabilities that no profile
advertises (audio, resources, additional directories, login) are covered by
``test_rows_of_capabilities_that_are_not_advertised_do_not_apply``, which proves that they are not. The two
rows about terminals (PATCH-206, PATCH-207) are held by the schema gate wherever a command is run.
"""

import json
from collections.abc import Iterator

import pytest
import trio

from tests.kit.conversation import Record, converse, first_option
from tests.kit.daemon import running
from tests.kit.editor import Turn
from tests.kit.home import Home
from tests.kit.pictures import image
from tests.kit.play import conformance
from tests.kit.wire import Json

STOP_REASONS = {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
TOOL_KINDS = {"read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"}
TOOL_STATUSES = {"pending", "in_progress", "completed", "failed", "cancelled"}
FINAL = {"completed", "failed", "cancelled"}
MESSAGES = {
    "user_message",
    "agent_message",
    "agent_thought",
    "user_message_chunk",
    "agent_message_chunk",
    "agent_thought_chunk",
}


@pytest.fixture(scope="module")
def record(tmp_path_factory) -> Iterator[Record]:
    home = Home.make(tmp_path_factory.mktemp("conformance"))
    home.play(conformance(home))
    return trio.run(converse, home)


# -- mandatory: initialize -------------------------------------------------------------------------


async def initialized(home, version):
    async with running(home) as daemon:
        return await daemon.initialize(version)


def test_init_001_initialize_succeeds(record):
    assert set(record.initialize) == {"protocolVersion", "info", "capabilities"}


def test_init_201_the_version_is_an_integer_and_the_one_that_was_asked_for(record):
    assert record.initialize["protocolVersion"] == 2
    assert type(record.initialize["protocolVersion"]) is int


async def test_init_003_a_version_from_the_future_gets_our_latest(tmp_path):
    result = await initialized(Home.make(tmp_path), 65535)
    assert result["protocolVersion"] == 2


async def test_init_202_version_1_is_answered_by_1_or_2(tmp_path):
    result = await initialized(Home.make(tmp_path), 1)
    assert result["protocolVersion"] in {1, 2}


def test_init_203_info_names_the_agent_and_its_version(record):
    info = record.initialize["info"]
    assert info["name"] == "term2"
    assert info["title"] == "term2"
    assert info["version"]


def test_init_204_capability_markers_are_objects(record):
    assert record.initialize["capabilities"] == {"session": {}}


def test_rows_of_capabilities_that_are_not_advertised_do_not_apply(record):
    # PROMPTCAP-002/003, ADDDIRS-*, AUTH-202/203/204/206/207, AUTH-201, EXT-202
    assert record.initialize["capabilities"] == {"session": {}}
    assert "authMethods" not in record.initialize
    for step in ("new {}", "resume", "replay"):
        assert "configOptions" not in record.answers[step]


# -- mandatory: schema and transport ---------------------------------------------------------------


def test_schema_001_and_002_every_frame_went_through_the_gate(record):
    # The gate refuses a bad frame when it arrives; here is proof that it had something to look at.
    kinds = {update["sessionUpdate"] for update in record.all_updates()}
    assert kinds >= {"user_message", "agent_message_chunk", "tool_call_update", "state_update", "plan_update"}
    assert len(record.asks) == 1


def test_transport_201_and_203_each_line_is_one_message_or_a_non_empty_array(record):
    assert record.raw.endswith(b"\n")
    lines = bytes(record.raw).split(b"\n")[:-1]
    assert len(lines) > 50
    for line in lines:
        value = json.loads(line)
        assert isinstance(value, dict | list)
        assert value


def test_transport_002_stdout_is_utf8(record):
    assert record.raw.decode("utf-8")


# -- mandatory: JSON-RPC ---------------------------------------------------------------------------


def test_jsonrpc_001_ids_are_echoed_exactly(record):
    ids = [frame["id"] for frame in record.frames if "result" in frame]
    assert ids[0] == "init-1"
    assert 2**40 in ids
    assert record.refusals["unknown method"]["id"] == "u-1"
    assert record.refusals["extension"]["id"] == 77
    (two,) = record.batches["two"]
    assert sorted(map(str, (entry["id"] for entry in two["batch"]))) == ["2", "b1"]
    assert {type(entry["id"]) for entry in two["batch"]} == {str, int}


def test_jsonrpc_002_an_answer_has_a_result_or_an_error_and_never_both(record):
    answers = [frame for frame in record.frames if "method" not in frame and "batch" not in frame]
    assert len(answers) > 20
    for answer in answers:
        assert ("result" in answer) != ("error" in answer)


def test_jsonrpc_003_and_cancel_205_notifications_are_never_answered(record):
    assert record.quiet["notifications"] == []


def test_batch_201_an_empty_array_is_one_invalid_request(record):
    (answer,) = record.batches["empty"]
    assert answer["id"] is None
    assert answer["error"]["code"] == -32600


def test_batch_202_a_batch_of_notifications_gets_no_answer(record):
    assert record.batches["notification"] == []


def test_ext_001_an_extension_request_is_answered(record):
    assert record.refusals["extension"]["code"] == -32601


# -- session ---------------------------------------------------------------------------------------


def test_session_001_and_203_a_session_has_an_id_with_and_without_servers(record):
    assert set(record.answers["new {}"]) == {"sessionId"}
    assert all(record.sessions)


def test_session_002_two_sessions_have_two_ids(record):
    assert len(set(record.sessions)) == 2


# -- prompt ----------------------------------------------------------------------------------------


def test_prompt_201_the_result_has_a_message_id(record):
    assert record.answers["hi"]["messageId"]


def test_prompt_203_the_user_message_has_that_id(record):
    (user,) = [u for u in record.updates["hi"] if u["sessionUpdate"] == "user_message"]
    assert user["messageId"] == record.answers["hi"]["messageId"]
    assert user["content"] == [{"type": "text", "text": "hi"}]


def test_prompt_205_every_update_has_its_own_session(record):
    told = {f["params"]["sessionId"] for f in record.frames if f.get("method") == "session/update"}
    assert told == {record.sessions[0]}


def test_prompt_003_a_resource_link_is_taken(record):
    (user,) = [u for u in record.updates["link"] if u["sessionUpdate"] == "user_message"]
    assert user["content"][1]["uri"] == "file:///a.txt"
    assert states(record.updates["link"])[-1] == ("idle", "end_turn")


def test_meta_001_meta_in_a_prompt_is_taken(record):
    assert states(record.updates["meta"])[-1] == ("idle", "end_turn")


def test_meta_201_meta_is_an_object_or_null(record):
    for frame in record.frames:
        for holder in (frame, frame.get("params") or {}, (frame.get("params") or {}).get("update") or {}):
            assert isinstance(holder.get("_meta"), dict | None)


# -- what the full profile advertises --------------------------------------------------------------

WITH_IMAGE = [{"type": "text", "text": "hi"}, image()]


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> Iterator[Record]:
    home = Home.make(tmp_path_factory.mktemp("full"))
    home.play(conformance(home), '[acp]\nprofile = "full"\n')
    return trio.run(converse_in_full, home)


async def converse_in_full(home: Home) -> Record:
    record = Record()
    async with running(home) as daemon:
        record.frames = daemon.frames
        record.initialize = await daemon.initialize()
        record.answers["new"] = new = await daemon.request("session/new", {"cwd": str(home.workspace)})
        session = {"sessionId": new["sessionId"]}
        turn = await daemon.prompt(new["sessionId"], WITH_IMAGE)
        record.updates["image"] = turn.updates
        start = len(daemon.frames)
        setting = {**session, "configId": "mode", "type": "id", "value": "plan"}
        record.answers["set"] = await daemon.request("session/set_config_option", setting)
        record.updates["set"] = daemon.updates(new["sessionId"], start)
        record.answers["close"] = await daemon.request("session/close", session)
        opening = {**session, "cwd": str(home.workspace)}
        record.answers["resume"] = await daemon.request("session/resume", opening)
        record.answers["list"] = await daemon.request("session/list")
        record.answers["delete"] = await daemon.request("session/delete", session)
        record.answers["list after"] = await daemon.request("session/list")
        record.answers["delete again"] = await daemon.request("session/delete", session)
    return record


def test_promptcap_001_an_image_is_taken_where_it_is_advertised(full):
    assert full.initialize["capabilities"]["session"]["prompt"] == {"image": {}}
    users = [u["content"] for u in full.updates["image"] if u["sessionUpdate"] == "user_message"]
    assert users == [WITH_IMAGE]
    assert states(full.updates["image"])[-1] == ("idle", "end_turn")


def test_delete_201_delete_answers_an_empty_object(full):
    assert full.initialize["capabilities"]["session"]["delete"] == {}
    assert full.answers["delete"] == {}


def test_delete_202_what_is_deleted_is_gone_from_the_list(full):
    session = full.answers["new"]["sessionId"]
    assert [entry["sessionId"] for entry in full.answers["list"]["sessions"]] == [session]
    assert full.answers["list after"]["sessions"] == []


def test_delete_203_a_second_delete_is_silent(full):
    assert full.answers["delete again"] == {}


@pytest.mark.parametrize("step", ["new", "set", "resume"])
def test_config_201_and_203_and_204_options_are_well_formed_and_each_has_one_of_its_values(full, step):
    options = full.answers[step]["configOptions"]
    ids = [option["configId"] for option in options]
    assert "mode" in ids
    assert len(set(ids)) == len(ids)
    for option in options:
        values = [choice["value"] for choice in option["options"]]
        assert len(set(values)) == len(values)
        assert option["currentValue"] in values
        assert option["name"]


def test_config_202_setting_an_option_answers_the_complete_list(full):
    before, after = (full.answers[step]["configOptions"] for step in ("new", "set"))
    assert [option["configId"] for option in after] == [option["configId"] for option in before]
    assert next(option["currentValue"] for option in after if option["configId"] == "mode") == "plan"
    assert full.answers["resume"]["configOptions"] == after


def test_config_206_the_update_is_the_complete_list(full):
    (update,) = [u for u in full.updates["set"] if u["sessionUpdate"] == "config_option_update"]
    assert update["configOptions"] == full.answers["set"]["configOptions"]


# -- state -----------------------------------------------------------------------------------------


def states(updates):
    return [(u["state"], u.get("stopReason")) for u in updates if u["sessionUpdate"] == "state_update"]


def test_state_201_and_202_running_comes_before_the_idle(record):
    assert states(record.updates["hi"]) == [("running", None), ("idle", "end_turn")]


def test_state_203_the_idle_says_why(record):
    turns_ended = [
        stop
        for update in record.of("state_update")
        if update["state"] == "idle" and (stop := update.get("stopReason")) is not None
    ]
    assert len(turns_ended) == 10
    assert set(turns_ended) <= STOP_REASONS


# -- permission ------------------------------------------------------------------------------------


def test_perm_201_an_ask_is_well_formed_and_its_turn_ends(record):
    (ask,) = record.asks
    params = ask["params"]
    assert params["title"]
    assert params["subject"]["type"] == "tool_call"
    assert [option["kind"] for option in params["options"]] == ["allow_once", "allow_always", "reject_once"]
    assert states(record.updates["ask"])[-1] == ("idle", "end_turn")


def test_patch_209_requires_action_while_blocked_then_running(record):
    assert [state for state, _ in states(record.updates["ask"])] == [
        "running",
        "requires_action",
        "running",
        "idle",
    ]


def test_clientcap_201_and_202_only_defined_requests_are_made(record):
    asked = {frame["method"] for frame in record.frames if "method" in frame and "id" in frame}
    assert asked == {"session/request_permission"}


async def test_enum_203_an_outcome_nobody_knows_is_survived_and_is_no_approval(tmp_path):
    home = Home.make(tmp_path)
    home.play(conformance(home))
    async with running(home) as daemon:
        daemon.on_ask = lambda ask: {"outcome": {"outcome": "_kit_maybe", "optionId": "approve"}}
        await daemon.initialize()
        turn = await daemon.prompt(await daemon.new_session(home.workspace), "ask")
        (call,) = turn.calls.values()
        assert call["status"] == "failed"
        assert await turn.ended() == "end_turn"


# -- cancel and close ------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["cancel", "cancel with meta"])
def test_cancel_201_203_206_207_a_cancelled_turn_ends_cancelled(record, step):
    assert states(record.updates[step])[-1] == ("idle", "cancelled")


@pytest.mark.parametrize("step", ["cancel", "cancel with meta"])
def test_cancel_202_nothing_follows_the_cancelled_idle(record, step):
    assert record.quiet[step] == []


def test_cancel_208_and_close_202_a_close_cancels_the_work_first(record):
    assert states(record.updates["closed"]) == [("running", None), ("idle", "cancelled")]
    assert record.answers["close while working"] == {}


def test_close_201_an_idle_session_closes(record):
    assert record.answers["close"] == {}


# -- resume ----------------------------------------------------------------------------------------


def test_resume_201_a_resume_without_replay_succeeds(record):
    assert record.answers["resume"] == {}


def test_resume_202_nothing_follows_the_answer(record):
    assert record.quiet["resume"] == []
    assert record.quiet["replay"] == []


def test_resume_203_without_replay_there_is_no_history(record):
    assert record.updates["resume"] == [{"sessionUpdate": "state_update", "state": "idle"}]


def test_resume_204_replayed_messages_keep_their_ids(record):
    replayed = [u["messageId"] for u in record.updates["replay"] if u["sessionUpdate"] == "user_message"]
    live = [u["messageId"] for u in record.of("user_message")]
    assert replayed == live[: len(replayed)]
    assert len(replayed) == 10
    agent = {u["messageId"] for u in record.updates["replay"] if u["sessionUpdate"] == "agent_message"}
    assert agent == {u["messageId"] for u in record.of("agent_message_chunk")}


def test_resume_205_replay_is_whole_messages(record):
    kinds = {u["sessionUpdate"] for u in record.updates["replay"]}
    assert kinds.isdisjoint({"user_message_chunk", "agent_message_chunk", "agent_thought_chunk"})
    assert record.updates["replay"][-1] == {"sessionUpdate": "state_update", "state": "idle"}


async def test_resume_204_across_two_processes(tmp_path):
    home = Home.make(tmp_path)
    home.play(conformance(home))
    async with running(home) as daemon:
        daemon.on_ask = first_option
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        turns = [await daemon.prompt(session, prompt) for prompt in ("hi", "ask", "edit")]
    async with running(home) as daemon:
        await daemon.initialize()
        params = {"sessionId": session, "cwd": str(home.workspace), "replayFrom": {"type": "start"}}
        assert await daemon.request("session/resume", params) == {}
        replay = Turn(daemon, session, "", 0)
    assert [u["messageId"] for u in replay.of("user_message")] == [turn.message_id for turn in turns]
    assert replay.text == "".join(turn.text for turn in turns)
    lived = {call_id: call for turn in turns for call_id, call in turn.calls.items()}
    assert len(lived) == 2
    assert replay.calls == lived


# -- list ------------------------------------------------------------------------------------------


def test_list_201_and_203_the_filter_is_exact(record, tmp_path_factory):
    listed = record.answers["list"]["sessions"]
    assert {entry["sessionId"] for entry in listed} == set(record.sessions)
    assert record.answers["list all"]["sessions"] == listed


def test_list_202_a_cwd_that_nobody_uses_lists_nothing(record):
    assert record.answers["list elsewhere"] == {"sessions": []}


def test_list_204_paths_are_absolute(record):
    assert all(entry["cwd"].startswith("/") for entry in record.answers["list"]["sessions"])
    assert record.refusals["relative cwd"]["code"] == -32602


# -- patches and enums -----------------------------------------------------------------------------


def test_patch_201_every_message_update_has_its_id(record):
    messages = [u for u in record.all_updates() if u["sessionUpdate"] in MESSAGES]
    assert len(messages) > 20
    assert all(u["messageId"] for u in messages)


def test_patch_203_two_prompts_have_two_ids(record):
    ids = [
        record.answers[step]["messageId"] for step in ("hi", "again", "link", "ask", "edit", "plan", "meta")
    ]
    assert len(set(ids)) == len(ids)


def test_patch_204_every_tool_update_has_its_id(record):
    calls = record.of("tool_call_update") + record.of("tool_call_content_chunk")
    assert calls
    assert all(u["toolCallId"] for u in calls)


def test_patch_205_every_plan_has_its_id(record):
    plans = record.of("plan_update")
    assert plans
    assert all(u["plan"]["planId"] for u in plans)


def test_patch_208_a_call_is_first_shown_with_title_and_name_and_keeps_its_name(record):
    first: dict[str, Json] = {}
    for update in record.of("tool_call_update"):
        seen = first.setdefault(update["toolCallId"], update)
        assert seen["title"]
        assert update.get("name", seen["name"]) == seen["name"]
    assert sorted(seen["name"] for seen in first.values()) == ["create_file", "read_file", "update_plan"]


def test_enum_201_and_202_words_are_defined(record):
    for update in record.of("tool_call_update"):
        assert update.get("kind", "other") in TOOL_KINDS
        assert update.get("status", "pending") in TOOL_STATUSES
    for update in record.of("plan_update"):
        for entry in update["plan"]["entries"]:
            assert entry["priority"] in {"high", "medium", "low"}
            assert entry["status"] in {"pending", "in_progress", "completed", "cancelled"}


# -- advisory --------------------------------------------------------------------------------------


def test_jsonrpc_004_an_unknown_method_is_said_to_be_unknown(record):
    assert record.refusals["unknown method"]["code"] == -32601


def test_jsonrpc_005_the_connection_is_usable_after_errors(record):
    assert record.answers["after errors"]["sessions"]


def test_batch_203_bad_entries_have_an_error_each(record):
    (bad,) = record.batches["bad"]
    assert [(e["id"], e["error"]["code"]) for e in bad["batch"]] == [(None, -32600)] * 3


def test_batch_204_and_205_one_array_answers_what_asks(record):
    (mixed,) = record.batches["mixed"]
    by_id = {entry["id"]: entry for entry in mixed["batch"]}
    assert set(by_id) == {None, "b3"}
    assert "sessions" in by_id["b3"]["result"]
    assert by_id[None]["error"]["code"] == -32600


def test_auth_205_nothing_asks_for_a_login(record):
    assert not [f for f in record.frames if f.get("error", {}).get("code") == -32000]


def test_ext_201_an_unknown_notification_is_ignored(record):
    assert record.quiet["notifications"] == []


def test_error_001_messages_are_one_line(record):
    assert len(record.refusals) == 4
    for refused in record.refusals.values():
        assert len(refused["message"].splitlines()) == 1
    assert "cwd" in record.refusals["bad params"]["message"]


async def test_shutdown_001_it_leaves_soon_after_stdin_ends(tmp_path):
    async with running(Home.make(tmp_path), leaves=False) as daemon:
        await daemon.initialize()
        with trio.fail_after(5):
            await daemon.leave()
