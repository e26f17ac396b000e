"""The v1 door as a client meets it: what each method answers, what is refused and how, and what a client may
get wrong without losing anything. The daemon behind it is whole (``indoors``)."""

import json

import pytest
import trio
import trio.testing

from term2_acp import __version__
from term2_acp.session.options import Options
from tests.kit.editor_v1 import EditorV1, choosing
from tests.kit.indoors import indoors
from tests.kit.wire import Refused

SCRIPT = """
[[rules]]
match = "^wait$"
[[rules.replies]]
steps = [{ text = "Waiting." }, { hang = true }]

[[rules]]
match = "^ask$"
[[rules.replies]]
steps = [{ call = "probe", arguments = { name = "one", asks = true } }]
[[rules.replies]]
steps = [{ text = "After." }]

[[rules]]
match = "^break$"
[[rules.replies]]
steps = [{ text = "Half" }, { error = "rate_limit", message = "Too many. Wait a minute." }]

[[rules]]
[[rules.replies]]
steps = [{ text = "Hello." }, { usage = [10, 2] }]
"""
UNKNOWN = "sess_00000000000000000000000000000000"


@pytest.fixture
async def daemon(tmp_path):
    async with indoors(tmp_path, SCRIPT) as inside:
        yield inside


@pytest.fixture
async def editor(daemon):
    editor = EditorV1(daemon.editor)
    await editor.initialize()
    return editor


def text(words):
    return [{"type": "text", "text": words}]


async def test_initialize_says_all_that_there_is(daemon):
    assert await EditorV1(daemon.editor).initialize() == {
        "protocolVersion": 1,
        "agentInfo": {"name": "term2", "title": "term2", "version": __version__},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": False, "embeddedContext": False},
            "mcpCapabilities": {"http": False, "sse": False},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
        },
        "authMethods": [],
    }


@pytest.mark.parametrize(
    "params",
    [
        {"protocolVersion": 1},
        {"protocolVersion": 1, "info": {"name": "k", "version": "1"}, "capabilities": {"auth": {}}},
        {"protocolVersion": 1, "clientInfo": None, "clientCapabilities": None},
        {"protocolVersion": 1, "clientCapabilities": {"fs": True, "session": [], "_meta": 7}},
    ],
    ids=["nothing", "of-v2", "null", "nonsense"],
)
async def test_initialize_is_lenient_about_everything_else(daemon, params):
    assert (await daemon.editor.request("initialize", params))["protocolVersion"] == 1


async def test_a_client_may_ask_again_for_the_other_version_until_it_has_asked_for_more(daemon):
    editor = EditorV1(daemon.editor)
    await editor.initialize()
    assert (await daemon.editor.initialize(2))["protocolVersion"] == 2
    assert (await editor.initialize())["protocolVersion"] == 1
    await editor.new_session(daemon.workspace)
    assert (await daemon.editor.refused("initialize", {"protocolVersion": 2})).code == -32600
    assert (await editor.prompt(await editor.new_session(daemon.workspace), "hi")).text == "Hello."


async def test_there_is_nothing_to_log_in_to_and_logging_in_is_no_harm(editor):
    for params in ({"methodId": "anything"}, {}, {"methodId": None}):
        assert await editor.wire.request("authenticate", params) == {}
    assert (await editor.wire.refused("logout", {})).code == -32601


async def test_a_new_session_has_its_modes_twice_and_its_commands_follow(daemon, editor):
    start = len(daemon.editor.frames)
    result = await editor.open(daemon.workspace)
    assert [mode["id"] for mode in result["modes"]["availableModes"]] == ["standard", "ask", "plan"]
    assert result["modes"]["currentModeId"] == "standard"
    mode = result["configOptions"][0]
    assert (mode["id"], mode["category"], mode["type"]) == ("mode", "mode", "select")
    assert mode["currentValue"] == "standard"
    assert [choice["value"] for choice in mode["options"]] == ["standard", "ask", "plan"]
    update = await daemon.editor.update(result["sessionId"], lambda _: True, start)
    assert update["sessionUpdate"] == "available_commands_update"
    names = [command["name"] for command in update["availableCommands"]]
    assert names == ["plan", "compact", "model", "usage", "permissions", "help"]
    assert all("type" not in command for command in update["availableCommands"])
    answer = next(n for n, f in enumerate(daemon.editor.frames) if f.get("result") == result)
    told = next(n for n, f in enumerate(daemon.editor.frames[start:], start) if "method" in f)
    assert answer < told


@pytest.mark.parametrize(
    ("params", "path"),
    [
        ({}, "$.cwd"),
        ({"cwd": "relative"}, "$.cwd"),
        ({"cwd": "/nowhere/at/all"}, "$.cwd"),
        ({"cwd": 7}, "$.cwd"),
        ({"cwd": "/tmp", "additionalDirectories": ["/tmp"]}, "$.additionalDirectories"),
        ({"cwd": "/tmp", "mcpServers": [7]}, "$.mcpServers[0]"),
        ({"cwd": "/tmp", "mcpServers": [{"command": "x"}]}, "$.mcpServers[0].name"),
    ],
    ids=["none", "relative", "missing", "number", "directories", "server", "nameless"],
)
async def test_a_bad_session_is_refused_by_the_path_of_what_is_bad(editor, params, path):
    refused = await editor.wire.refused("session/new", params)
    assert refused.code == -32602
    assert path in refused.message


async def test_servers_of_the_editor_are_taken_and_said_not_to_be_used(daemon, caplog):
    editor = EditorV1(daemon.editor)
    await editor.initialize({"session": {"notices": {}}})
    servers = [
        {"name": "files", "command": "/bin/files", "args": [], "env": []},
        {"type": "http", "name": "far", "url": "http://127.0.0.1:9", "headers": []},
    ]
    start = len(daemon.editor.frames)
    session = (await editor.open(daemon.workspace, mcpServers=servers))["sessionId"]
    notice = await daemon.editor.update(session, lambda u: u["sessionUpdate"] == "notice", start)
    assert notice["severity"] == "warning"
    assert "files, far" in notice["description"]
    assert "files, far" in caplog.text


async def test_a_prompt_is_answered_at_its_end_with_what_it_took(daemon, editor):
    session = await editor.new_session(daemon.workspace)
    turn = await editor.prompt(session, "hi")
    result = await turn.call.result()
    assert result["stopReason"] == "end_turn"
    assert result["_meta"]["term2"]["usage"]["inputTokens"] == 10
    assert [update["sessionUpdate"] for update in turn.updates] == [
        "session_info_update",
        "agent_message_chunk",
        "usage_update",
    ]
    assert daemon.editor.updates(session)[-1] == turn.updates[-1]


@pytest.mark.parametrize(
    ("prompt", "path"),
    [
        ([], "$.prompt"),
        (text("  "), "$.prompt"),
        ([{"type": "audio", "data": "", "mimeType": "audio/wav"}], "$.prompt[0].type"),
        ([{"type": "resource", "resource": {"uri": "file:///a", "text": "x"}}], "$.prompt[0].type"),
        ([{"type": "image", "data": "x", "mimeType": "image/png"}], "$.prompt[0].data"),
    ],
    ids=["empty", "blank", "audio", "resource", "image"],
)
async def test_a_bad_prompt_is_refused_and_leaves_no_trace(daemon, editor, prompt, path):
    session = await editor.new_session(daemon.workspace)
    refused = await editor.wire.refused("session/prompt", {"sessionId": session, "prompt": prompt})
    assert refused.code == -32602
    assert path in refused.message
    await editor.wire.request("session/close", {"sessionId": session})
    assert [u["sessionUpdate"] for u in (await editor.load(session, daemon.workspace))[1]] == [
        "available_commands_update"
    ]


async def test_a_second_prompt_is_busy_in_a_word_that_means_no_login(daemon, editor):
    session = await editor.new_session(daemon.workspace)
    turn = await editor.begin(session, "wait")
    await turn.seen("agent_message_chunk")
    for method, params in (
        ("session/prompt", {"prompt": text("hi")}),
        ("session/load", {"cwd": str(daemon.workspace), "mcpServers": []}),
        ("session/resume", {"cwd": str(daemon.workspace)}),
    ):
        refused = await editor.wire.refused(method, {"sessionId": session, **params})
        assert (refused.code, refused.data) == (-32600, {"reason": "busy"})
    await editor.cancel(session)
    assert await turn.ended() == "cancelled"
    assert (await editor.prompt(session, "hi")).text == "Hello."


async def test_a_prompt_and_its_cancel_in_one_piece_end_cancelled_without_a_call(daemon, editor):
    session = await editor.new_session(daemon.workspace)
    call = daemon.editor.prepare("session/prompt")
    frames = [
        daemon.editor.request_frame(call, {"sessionId": session, "prompt": text("hi")}),
        {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}},
    ]
    for frame in frames:
        daemon.editor.gate.sent(json.dumps(frame))
        daemon.editor.order.sent(json.dumps(frame))
    await daemon.editor.send_bytes(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))
    assert await call.result() == {"stopReason": "cancelled"}


async def test_cancelling_the_request_cancels_the_turn(daemon, editor):
    session = await editor.new_session(daemon.workspace)
    turn = await editor.begin(session, "wait")
    await turn.seen("agent_message_chunk")
    await daemon.editor.notify("$/cancel_request", {"requestId": turn.call.request_id})
    assert await turn.ended() == "cancelled"


async def test_a_turn_that_fails_is_an_error_with_its_sentence_and_the_sentence_is_not_said_twice(
    daemon, editor
):
    session = await editor.new_session(daemon.workspace)
    turn = await editor.begin(session, "break")
    with pytest.raises(Refused) as caught:
        await turn.ended()
    assert (caught.value.code, caught.value.message) == (-32603, "Too many. Wait a minute.")
    assert caught.value.data == {"reason": "provider_rate_limit"}
    assert turn.text == "Half"
    assert (await editor.prompt(session, "hi")).text == "Hello."


async def test_a_close_answers_the_prompt_first(daemon, editor):
    session = await editor.new_session(daemon.workspace)
    turn = await editor.begin(session, "wait")
    await turn.seen("agent_message_chunk")
    close = await daemon.editor.call("session/close", {"sessionId": session})
    assert await close.result() == {}
    assert turn.call.answered
    assert await turn.ended() == "cancelled"
    for method in ("session/close", "session/delete"):
        assert await daemon.editor.request(method, {"sessionId": UNKNOWN}) == {}


async def test_an_unknown_session_is_not_found(editor, daemon):
    for method, params in (
        ("session/prompt", {"prompt": text("hi")}),
        ("session/load", {"cwd": str(daemon.workspace), "mcpServers": []}),
        ("session/resume", {"cwd": str(daemon.workspace)}),
        ("session/set_mode", {"modeId": "plan"}),
        ("session/set_model", {"modelId": "x"}),
        ("session/set_config_option", {"configId": "mode", "value": "plan"}),
    ):
        refused = await editor.wire.refused(method, {"sessionId": UNKNOWN, **params})
        assert (refused.code, refused.data) == (-32002, {"sessionId": UNKNOWN})
    await editor.cancel(UNKNOWN)


async def test_every_mode_that_is_told_can_be_set_and_both_notifications_follow(daemon, editor):
    session = await editor.new_session(daemon.workspace)
    for mode in ("plan", "ask", "standard"):
        start = len(daemon.editor.frames)
        assert await editor.set_mode(session, mode) == {}
        first, second = daemon.editor.updates(session, start)
        assert first == {"sessionUpdate": "current_mode_update", "currentModeId": mode}
        assert second["sessionUpdate"] == "config_option_update"
        assert second["configOptions"][0]["currentValue"] == mode
    refused = await editor.wire.refused("session/set_mode", {"sessionId": session, "modeId": "yolo"})
    assert refused.code == -32602
    assert "standard, ask, plan" in refused.message


async def test_whatever_is_set_its_refusal_is_one_line(daemon, editor):
    session = await editor.new_session(daemon.workspace)
    for params in ({"configId": "mode", "value": "a\nb"}, {"configId": "a\nb", "value": "x"}):
        refused = await editor.wire.refused("session/set_config_option", {"sessionId": session, **params})
        assert refused.code == -32602
        assert len(refused.message.splitlines()) == 1


async def test_a_mode_and_a_prompt_in_one_piece_and_the_mode_rules_the_turn(daemon, editor):
    session = await editor.new_session(daemon.workspace)
    daemon.editor.on_ask = choosing("reject_once")
    mode, prompt = daemon.editor.prepare("session/set_mode"), daemon.editor.prepare("session/prompt")
    frames = [
        daemon.editor.request_frame(mode, {"sessionId": session, "modeId": "plan"}),
        daemon.editor.request_frame(prompt, {"sessionId": session, "prompt": text("hi")}),
    ]
    for frame in frames:
        daemon.editor.gate.sent(json.dumps(frame))
        daemon.editor.order.sent(json.dumps(frame))
    await daemon.editor.send_bytes(b"".join(json.dumps(frame).encode() + b"\n" for frame in frames))
    assert await mode.result() == {}
    assert (await prompt.result())["stopReason"] == "end_turn"
    assert daemon.session(session).options.mode == "plan"


async def test_an_option_that_was_not_shown_is_no_answer(daemon, editor):
    session = await editor.new_session(daemon.workspace)
    for result in (
        {"outcome": {"outcome": "selected", "optionId": "allow-folder-session"}},
        {"outcome": {"outcome": "selected", "optionId": "allow-once"}},
        {"outcome": "allow_once"},
        {"outcome": {"outcome": "cancelled"}},
        {"outcome": {"outcome": "approved"}},
        {},
        None,
        7,
    ):
        turn = await editor.begin(session, "ask")
        ask = await daemon.editor.next_ask()
        assert [option["optionId"] for option in ask["params"]["options"]] == ["approve", "reject"]
        await daemon.editor.reply(ask, result)
        assert await turn.ended() == "end_turn"
        assert [call["status"] for call in turn.calls.values()] == ["failed"]
    assert daemon.probe.ran == []
    turn = await editor.begin(session, "ask")
    await daemon.editor.choose(await daemon.editor.next_ask(), "approve")
    assert await turn.ended() == "end_turn"
    assert daemon.probe.ran == ["one"]


async def test_what_clients_answer_to_updates_is_nothing(daemon, editor):
    session = await editor.new_session(daemon.workspace)
    for line in (
        '{"jsonrpc":"2.0","id":null,"error":{"code":-32602,"message":"Invalid params"}}',
        '{"jsonrpc":"2.0","id":null,"result":null}',
        '{"jsonrpc":"2.0","id":12345,"result":null}',
        '{"jsonrpc":"2.0","error":{"code":-32602,"message":"Invalid params"}}',
    ):
        await daemon.editor.send_bytes(line.encode() + b"\n")
    assert (await editor.prompt(session, "hi")).text == "Hello."


async def test_a_session_that_breaks_off_leaves_no_call_open_and_answers_its_prompt_last(daemon, editor):
    session = await editor.new_session(daemon.workspace)
    turn = await editor.begin(session, "ask")
    await daemon.editor.next_ask()

    def breaks():
        raise RuntimeError("broken on purpose")

    daemon.session(session).outbox.put_nowait([breaks])
    with pytest.raises(Refused, match="-32603: The session ended inside term2"):
        await turn.ended()
    assert [call["status"] for call in turn.calls.values()] == ["failed"]
    told = (await editor.load(session, daemon.workspace))[1]
    (call,) = (update for update in told if update["sessionUpdate"] == "tool_call")
    assert call["content"] == next(iter(turn.calls.values()))["content"]


@pytest.mark.parametrize("was_open", [False, True])
async def test_a_load_that_is_cancelled_leaves_a_session_as_it_was(daemon, editor, monkeypatch, was_open):
    session = await editor.new_session(daemon.workspace)
    if not was_open:
        await daemon.editor.request("session/close", {"sessionId": session})
    opened = trio.Event()

    async def never_shown(_options):
        opened.set()
        await trio.sleep_forever()

    with monkeypatch.context() as patched:
        patched.setattr(Options, "shown", never_shown)
        params = {"sessionId": session, "cwd": str(daemon.workspace), "mcpServers": []}
        call = await daemon.editor.call("session/load", params)
        await opened.wait()
        await daemon.editor.notify("$/cancel_request", {"requestId": call.request_id})
        with pytest.raises(Refused, match="-32800"):
            await call.result()
    await trio.testing.wait_all_tasks_blocked()
    assert (daemon.core.registry.find(session) is not None) == was_open
    await editor.load(session, daemon.workspace)
    assert (await editor.prompt(session, "hi")).text == "Hello."


async def test_a_session_is_the_same_at_both_doors(daemon, tmp_path):
    editor = EditorV1(daemon.editor)
    await editor.initialize()
    session = await editor.new_session(daemon.workspace)
    await editor.prompt(session, "hi")
    await editor.wire.request("session/close", {"sessionId": session})
    listed = await editor.wire.request("session/list", {})
    assert [(entry["sessionId"], entry["title"]) for entry in listed["sessions"]] == [(session, "hi")]
    wrong = tmp_path / "other"
    wrong.mkdir()
    refused = await editor.wire.refused(
        "session/load", {"sessionId": session, "cwd": str(wrong), "mcpServers": []}
    )
    assert refused.code == -32602
    result, updates = await editor.load(session, daemon.workspace)
    assert result["modes"]["currentModeId"] == "standard"
    assert [update["sessionUpdate"] for update in updates] == [
        "user_message_chunk",
        "session_info_update",
        "agent_message_chunk",
        "usage_update",
        "available_commands_update",
    ]
