"""The gate itself: frames it must refuse, each with the path of the fault, and frames it must accept.

A gate that lets everything pass looks exactly like a program without faults, so the refusals are the heart
of this file. What must pass are the conversations of agents built on the two official SDKs, recorded.
"""

import json
from pathlib import Path

import pytest

from tests.kit import packages
from tests.kit.published import published
from tests.kit.schema import MAX_FRAME_BYTES, Gate

GOLDEN = Path(__file__).parent.parent / "golden"


@pytest.fixture(scope="module", autouse=True)
def _packages():
    packages.require()


@pytest.fixture
def gate():
    return Gate({version: published(version) for version in (1, 2)})


def update(kind, /, **members):
    params = {"sessionId": "s1", "update": {"sessionUpdate": kind, **members}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def call(**members):
    return update("tool_call_update", toolCallId="c1", **members)


def diff(**members):
    return call(content=[{"type": "diff", **members}])


TEXT = {"type": "text", "text": "hi"}
OPTION = {"optionId": "approve", "name": "Allow", "kind": "allow_once"}
ASK = {
    "sessionId": "s1",
    "title": "Read /etc/hosts",
    "subject": {"type": "tool_call", "toolCall": {"toolCallId": "c1", "title": "Read", "kind": "read"}},
    "options": [OPTION],
}


def ask(**members):
    params = {**ASK, **members}
    return {"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}


GOOD = {
    "chunk": update("agent_message_chunk", messageId="m1", content=TEXT),
    "thought": update("agent_thought_chunk", messageId="m1", content=TEXT),
    "whole": update("user_message", messageId="m1", content=[TEXT]),
    "extension stop reason": update("state_update", state="idle", stopReason="_term2_error"),
    "snapshot": update("state_update", state="idle"),
    "extension meta": update(
        "state_update", state="idle", stopReason="_x", _meta={"term2.error": {"code": "x"}}
    ),
    "extension update": update("_term2_hint", anything=1),
    "usage": update("usage_update", used=3, size=100),
    "title": update("session_info_update", title="t", updatedAt="2026-11-30T10:00:00Z"),
    "diff": diff(
        changes=[{"operation": "modify", "path": "/a/b"}], patch={"format": "git_patch", "text": "--- /a/b"}
    ),
    "raw input": call(rawInput={"any": [1.5, None, {"deep": True}]}, rawOutput="text"),
    "terminal": update("terminal_output_chunk", terminalId="t1", data="aGk="),
    "ask": ask(),
}


@pytest.mark.parametrize("frame", GOOD.values(), ids=GOOD.keys())
def test_a_good_frame_passes(gate, frame):
    gate.received(json.dumps(frame))


BAD = {
    "a chunk without its messageId": (
        update("agent_message_chunk", content=TEXT),
        '$.params.update: "messageId" is a required',
    ),
    "a misspelt tool kind": (call(kind="exceute"), r"$.params.update.kind"),
    "a misspelt tool status": (call(status="complete"), r"$.params.update.status"),
    "a v1 status word in capitals": (call(status="Pending"), r"$.params.update.status"),
    "a misspelt stop reason": (
        update("state_update", state="idle", stopReason="endturn"),
        "$.params",
    ),
    "a misspelt state": (update("state_update", state="runing"), "$.params"),
    "a misspelt update": (update("agent_mesage_chunk", messageId="m", content=TEXT), "'agent_mesage_chunk'"),
    "an update of v1": (update("tool_call", toolCallId="c1", title="t"), "'tool_call' is not defined"),
    "a diff as v1 shapes it": (diff(path="/a", oldText="x", newText="y"), "$.params.update.content[0]"),
    "a misspelt file operation": (diff(changes=[{"operation": "change", "path": "/a"}]), "changes[0]"),
    "a misspelt patch format": (diff(changes=[], patch={"format": "git-patch", "text": ""}), "patch"),
    "a relative path in a diff": (diff(changes=[{"operation": "add", "path": "a"}]), "changes[0]"),
    "a relative location": (call(locations=[{"path": "src/a.py"}]), "$.params.update.locations[0].path"),
    "line zero": (call(locations=[{"path": "/a", "line": 0}]), "$.params.update.locations[0].line"),
    "a fractional usage": (update("usage_update", used=1.5, size=10), "$.params.update.used"),
    "a negative usage": (update("usage_update", used=-1, size=10), "$.params.update.used"),
    "base64 that is none": (update("terminal_output_chunk", terminalId="t", data="hi!"), ".data"),
    "an unknown member of an update": (
        update("agent_message_chunk", messageId="m", content=TEXT, text="hi"),
        "('text' was unexpected)",
    ),
    "an unknown member of a block": (
        update("agent_message_chunk", messageId="m", content={**TEXT, "tone": "glad"}),
        "'tone'",
    ),
    "an unknown member beside a word of ours": (
        update("state_update", state="idle", stopReason="_x", error={"code": 1}),
        "",
    ),
    "a misspelt block type": (
        update("agent_message_chunk", messageId="m", content={"type": "txt"}),
        "content",
    ),
    "an empty message id": (update("agent_message_chunk", messageId="", content=TEXT), "messageId"),
    "a date in words": (update("session_info_update", updatedAt="yesterday"), "updatedAt"),
    "a misspelt plan status": (
        update(
            "plan_update",
            plan={
                "type": "items",
                "planId": "p",
                "entries": [{"content": "x", "priority": "high", "status": "done"}],
            },
        ),
        "entries[0].status",
    ),
    "a plan as v1 shapes it": (update("plan_update", planId="p", entries=[]), "plan"),
    "an update without a session": (
        {
            "jsonrpc": "2.0",
            "method": "session/update",
            "params": {"update": GOOD["usage"]["params"]["update"]},
        },
        "sessionId",
    ),
    "an unknown method": ({"jsonrpc": "2.0", "method": "session/updated", "params": {}}, "'session/updated'"),
    "a method that v2 has not": (
        {"jsonrpc": "2.0", "id": 1, "method": "fs/read_text_file", "params": {"path": "/a"}},
        "'fs/read_text_file'",
    ),
    "an ask as v1 shapes it": (
        {**ask(), "params": {"sessionId": "s", "toolCall": {"toolCallId": "c"}, "options": [OPTION]}},
        "$.params",
    ),
    "an ask with a misspelt kind": (ask(options=[{**OPTION, "kind": "allow"}]), "options[0].kind"),
    "an ask without options": (ask(options=[]), "options"),
    "an unknown member at the root": ({**update("usage_update", used=1, size=2), "extra": 1}, "$.extra"),
    "no jsonrpc member": ({"method": "session/update", "params": {}}, "$.jsonrpc"),
    "a cancel of a request that is not open": (
        {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 99}},
        "names no open request",
    ),
    "an answer that nobody asked for": (
        {"jsonrpc": "2.0", "id": 99, "result": {}},
        "answers no open request",
    ),
}


@pytest.mark.parametrize(("frame", "where"), BAD.values(), ids=BAD.keys())
def test_a_bad_frame_is_refused_with_its_path(gate, frame, where):
    with pytest.raises(AssertionError) as refusal:
        gate.received(json.dumps(frame))
    assert where in str(refusal.value)


BAD_ANSWERS = {
    "a result that means nothing": ("session/close", {"result": {"banana": 1}}, "banana"),
    "a prompt's result without its id": ("session/prompt", {"result": {}}, "messageId"),
    "a prompt's result as in v1": ("session/prompt", {"result": {"stopReason": "end_turn"}}, "$.result"),
    "null for an empty result": ("session/close", {"result": None}, "$.result"),
    "a boolean capability": (
        "initialize",
        {
            "result": {
                "protocolVersion": 2,
                "info": {"name": "a", "version": "1"},
                "capabilities": {"session": True},
            }
        },
        "$.result.capabilities.session",
    ),
    "a relative cwd in a list": (
        "session/list",
        {"result": {"sessions": [{"sessionId": "s", "cwd": "w"}]}},
        "$.result.sessions[0].cwd",
    ),
    "a result for a method that is not defined": ("session/levitate", {"result": {}}, "session/levitate"),
    "both result and error": (
        "session/close",
        {"result": {}, "error": {"code": -32603, "message": "x"}},
        "$.result is no member",
    ),
    "an error of two lines": ("session/close", {"error": {"code": -32603, "message": "a\nb"}}, "one line"),
    "an error without words": ("session/close", {"error": {"code": -32603, "message": " "}}, "empty"),
    "an error with a reserved code": ("session/close", {"error": {"code": -32050, "message": "x"}}, "-32050"),
    "an error with a code in words": (
        "session/close",
        {"error": {"code": "x", "message": "x"}},
        "$.error.code",
    ),
    "a lost session without its name": (
        "session/prompt",
        {"error": {"code": -32002, "message": "x", "data": {"id": "s"}}},
        "$.error.data",
    ),
}


@pytest.mark.parametrize(("method", "answer", "where"), BAD_ANSWERS.values(), ids=BAD_ANSWERS.keys())
def test_a_bad_answer_is_refused_with_its_path(gate, method, answer, where):
    gate.sent(json.dumps({"jsonrpc": "2.0", "id": "x", "method": method}))
    with pytest.raises(AssertionError) as refusal:
        gate.received(json.dumps({"jsonrpc": "2.0", "id": "x", **answer}))
    assert where in str(refusal.value)


def test_our_own_error_codes_pass_outside_the_reserved_ranges(gate):
    for request_id, code in enumerate((409, -32000, -32002, -32022, -32800)):
        gate.sent(json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "session/resume"}))
        data = {"requested": 0, "supported": [1, 2], "sessionId": "s"}
        error = {"code": code, "message": "no", "data": data if code in {409, -32000} else None}
        if code == -32002:
            error["data"] = {"sessionId": "s"}
        if code == -32022:
            error["data"] = {"requested": 0, "supported": [1, 2]}
        gate.received(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}))
    assert gate.unanswered() == []


BAD_LINES = {
    "not JSON": (b"{", "not a JSON line"),
    "not UTF-8": (b'{"jsonrpc":"2.0","x":"\xff"}', "not a JSON line"),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"result":NaN}', "NaN"),
    "a scalar": (b"17", "a frame is 17"),
    "an empty array": (b"[]", "empty array"),
    "a batch of notifications": (b'[{"jsonrpc":"2.0","method":"_x"}]', "answers only"),
    "too long": (b'{"jsonrpc":"2.0","p":"' + b"a" * MAX_FRAME_BYTES + b'"}', "longer than"),
}


@pytest.mark.parametrize(("line", "where"), BAD_LINES.values(), ids=BAD_LINES.keys())
def test_a_bad_line_is_refused(gate, line, where):
    with pytest.raises(AssertionError) as refusal:
        gate.received(line)
    assert where in str(refusal.value)


def test_a_lone_surrogate_is_refused(gate):
    with pytest.raises(UnicodeEncodeError):
        gate.received(
            json.dumps(update("agent_message_chunk", messageId="m", content={**TEXT, "text": "\ud800"}))
        )


def test_an_answer_counts_once_and_ids_are_told_apart_by_type(gate):
    gate.sent('{"jsonrpc":"2.0","id":1,"method":"session/list"}')
    gate.sent('[{"jsonrpc":"2.0","id":"1","method":"session/close"}]')
    gate.received('[{"jsonrpc":"2.0","id":"1","result":{}}]')
    assert gate.unanswered() == ["session/list"]
    gate.received('{"jsonrpc":"2.0","id":1,"result":{"sessions":[]}}')
    with pytest.raises(AssertionError, match="answers no open request"):
        gate.received('{"jsonrpc":"2.0","id":1,"result":{"sessions":[]}}')


def test_an_ask_can_be_withdrawn_once_also_when_its_answer_is_on_the_way(gate):
    withdrawal = '{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":7}}'
    gate.received(json.dumps(ask()))
    gate.sent('{"jsonrpc":"2.0","id":7,"result":{"outcome":{"outcome":"cancelled"}}}')
    gate.received(withdrawal)
    with pytest.raises(AssertionError, match="names no open request"):
        gate.received(withdrawal)


def test_the_schema_follows_the_negotiated_version(gate):
    gate.sent('{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}')
    gate.received('{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{}}}')
    gate.received(json.dumps(update("tool_call", toolCallId="c1", title="t")))
    with pytest.raises(AssertionError, match="state_update"):
        gate.received(json.dumps(update("state_update", state="running")))


# -- version 1 ----------------------------------------------------------------------------------------

EVERYTHING = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
    "elicitation": {"form": {}},
    "_meta": {"terminal_output": True},
}


def agreed(gate, capabilities, version=1):
    """Negotiate with a client that offers these."""
    params = {"protocolVersion": version, "clientCapabilities": capabilities}
    gate.sent(json.dumps({"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params}))
    result = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
    gate.received(json.dumps({"jsonrpc": "2.0", "id": "i", "result": result}))
    return gate


def call_v1(**members):
    return update("tool_call_update", toolCallId="c1", **members)


def request(method, **params):
    return {"jsonrpc": "2.0", "id": 5, "method": method, "params": {"sessionId": "s1", **params}}


def option(kind, **members):
    return {"id": "o", "name": "O", "type": kind, **members}


SELECT = option("select", currentValue="a", options=[{"value": "a", "name": "A"}])
BOOLEAN = option("boolean", currentValue=True)
ASK_V1 = {"sessionId": "s1", "toolCall": {"toolCallId": "c1"}, "options": [OPTION]}

GOOD_V1 = {
    "chunk": update("agent_message_chunk", content=TEXT, messageId="m"),
    "call": update("tool_call", toolCallId="c1", title="t", name="shell", kind="execute", status="pending"),
    "diff": call_v1(content=[{"type": "diff", "path": "/a", "oldText": None, "newText": "x"}]),
    "plan": update("plan", entries=[{"content": "x", "priority": "high", "status": "pending"}]),
    "mode": update("current_mode_update", currentModeId="ask"),
    "options": update("config_option_update", configOptions=[SELECT]),
    "commands": update(
        "available_commands_update",
        availableCommands=[{"name": "plan", "description": "d", "input": {"hint": "h"}}],
    ),
    "usage": update("usage_update", used=1, size=2, cost={"amount": 0.1, "currency": "USD"}),
    "ask": {"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": ASK_V1},
    "a location": call_v1(locations=[{"path": "/a", "line": 1}]),
}


@pytest.mark.parametrize("frame", GOOD_V1.values(), ids=GOOD_V1.keys())
def test_a_good_frame_of_v1_passes_for_every_client(gate, frame):
    agreed(gate, {}).received(json.dumps(frame))


BAD_V1 = {
    "an update of v2": (update("state_update", state="idle"), "'state_update' is not defined"),
    "a word of ours for an update": (update("_term2_x", any=1), "'_term2_x' is not defined"),
    "a whole message as in v2": (update("agent_message", messageId="m", content=[TEXT]), "agent_message"),
    "a status of v2": (call_v1(status="cancelled"), "$.params.update.status"),
    "a status of ours": (call_v1(status="_paused"), "$.params.update.status"),
    "a kind of ours": (call_v1(kind="_probe"), "$.params.update.kind"),
    "a plan status of v2": (
        update("plan", entries=[{"content": "x", "priority": "low", "status": "cancelled"}]),
        "entries[0].status",
    ),
    "a diff as v2 shapes it": (call_v1(content=[{"type": "diff", "changes": []}]), "content[0]"),
    "a relative path in a diff": (
        call_v1(content=[{"type": "diff", "path": "a", "newText": ""}]),
        "content[0].path",
    ),
    "a relative location": (call_v1(locations=[{"path": "a"}]), "locations[0].path"),
    "line zero": (call_v1(locations=[{"path": "/a", "line": 0}]), "locations[0].line"),
    "an option as v2 names it": (
        update("config_option_update", configOptions=[{**SELECT, "configId": "o"}]),
        "'configId' was unexpected",
    ),
    "a command as v2 shapes it": (
        update("available_commands_update", availableCommands=[{"type": "command", "name": "p"}]),
        "availableCommands[0]",
    ),
    "an ask as v2 shapes it": (ask(), "$.params"),
    "an ask with a kind of ours": (
        {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "session/request_permission",
            "params": {**ASK_V1, "options": [{**OPTION, "kind": "_x"}]},
        },
        "options[0].kind",
    ),
    "a relative file": (request("fs/read_text_file", path="a"), "$.params.path"),
    "a file without a session": (
        {"jsonrpc": "2.0", "id": 5, "method": "fs/read_text_file", "params": {"path": "/a"}},
        "sessionId",
    ),
    "a notice without a title": (update("notice", severity="info", title=""), "title"),
    "an unstable update": (update("plan_removed", planId="p"), "'plan_removed' is not defined"),
}


@pytest.mark.parametrize(("frame", "where"), BAD_V1.values(), ids=BAD_V1.keys())
def test_a_bad_frame_of_v1_is_refused_whatever_the_client_offers(gate, frame, where):
    agreed(gate, EVERYTHING)
    with pytest.raises(AssertionError) as refusal:
        gate.received(json.dumps(frame))
    assert where in str(refusal.value)


OFFERED = {
    "reading": ({"fs": {"readTextFile": True}}, request("fs/read_text_file", path="/a")),
    "writing": ({"fs": {"writeTextFile": True}}, request("fs/write_text_file", path="/a", content="x")),
    "a terminal": ({"terminal": True}, request("terminal/create", command="ls")),
    "its end": ({"terminal": True}, request("terminal/release", terminalId="t")),
    "a notice": ({"session": {"notices": {}}}, update("notice", severity="info", title="t")),
    "a compaction": (
        {"session": {"compaction": {}}},
        update("compaction_update", compactionId="c", status="in_progress"),
    ),
    "a summary": (
        {"session": {"compaction": {}}},
        update("compaction_summary_chunk", compactionId="c", content=TEXT),
    ),
    "a boolean option": (
        {"session": {"configOptions": {"boolean": {}}}},
        update("config_option_update", configOptions=[SELECT, BOOLEAN]),
    ),
    "a shown terminal": (
        {"_meta": {"terminal_output": True}},
        call_v1(content=[{"type": "terminal", "terminalId": "t"}]),
    ),
    "its output": (
        {"_meta": {"terminal_output": True}},
        call_v1(_meta={"terminal_output": {"terminal_id": "t", "data": "x"}}),
    ),
}


def without(capabilities):
    """What does not offer it: everything else, the same switched off, and other shapes of it."""
    (name, inner), *_ = capabilities.items()
    yield {}
    yield {key: value for key, value in EVERYTHING.items() if key != name}
    if isinstance(inner, dict):
        (member, _), *_ = inner.items()
        others = {key: value for key, value in EVERYTHING[name].items() if key != member}
        yield {**EVERYTHING, name: others}
        yield {**EVERYTHING, name: {**others, member: False}}
        yield {**EVERYTHING, name: {**others, member: None}}
    yield {**EVERYTHING, name: None}
    yield {**EVERYTHING, name: "yes"}
    yield {**EVERYTHING, name: 1}


@pytest.mark.parametrize(("capabilities", "frame"), OFFERED.values(), ids=OFFERED.keys())
def test_what_only_some_clients_take_needs_their_offer(capabilities, frame):
    line = json.dumps(frame)
    agreed(Gate.if_available(), capabilities).received(line)
    agreed(Gate.if_available(), EVERYTHING).received(line)
    for poorer in without(capabilities):
        with pytest.raises(AssertionError, match="and the client does not offer"):
            agreed(Gate.if_available(), poorer).received(line)


@pytest.mark.parametrize(
    "method", ["session/new", "session/load", "session/resume", "session/set_config_option"]
)
def test_a_boolean_option_in_a_result_needs_its_offer_too(method):
    result = {"configOptions": [SELECT, BOOLEAN]} | ({"sessionId": "s"} if method == "session/new" else {})
    answer = json.dumps({"jsonrpc": "2.0", "id": 1, "result": result})
    question = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method})
    for capabilities in ({"session": {"configOptions": {"boolean": {}}}}, {"session": {"configOptions": {}}}):
        gate = agreed(Gate.if_available(), capabilities)
        gate.sent(question)
        if capabilities["session"]["configOptions"]:
            gate.received(answer)
        else:
            with pytest.raises(AssertionError, match="the boolean option o"):
                gate.received(answer)


def test_what_counts_is_the_offer_of_the_initialize_that_was_answered_last(gate):
    agreed(agreed(gate, EVERYTHING), {})
    with pytest.raises(AssertionError, match="the client does not offer fs"):
        gate.received(json.dumps(request("fs/read_text_file", path="/a")))


@pytest.mark.parametrize(
    ("method", "result", "where"),
    [
        ("session/new", {"sessionId": "s", "modes": {"currentModeId": "a"}}, "availableModes"),
        ("session/prompt", {"stopReason": "_term2_error"}, "$.result.stopReason"),
        ("session/prompt", {"messageId": "m"}, "stopReason"),
        ("session/list", {"sessions": [{"sessionId": "s", "cwd": "w"}]}, "sessions[0].cwd"),
        ("session/load", None, "$.result"),
        ("session/set_mode", {"modes": {}}, "modes"),
    ],
)
def test_a_bad_answer_of_v1_is_refused(gate, method, result, where):
    agreed(gate, EVERYTHING)
    gate.sent(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method}))
    with pytest.raises(AssertionError) as refusal:
        gate.received(json.dumps({"jsonrpc": "2.0", "id": 1, "result": result}))
    assert where in str(refusal.value)


def test_what_a_client_of_v2_offers_is_no_offer_in_v1(gate):
    params = {"protocolVersion": 2, "capabilities": EVERYTHING}
    gate.sent(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}))
    gate.received('{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}')
    with pytest.raises(AssertionError, match="does not offer session"):
        gate.received(json.dumps(update("notice", severity="info", title="t")))


# -- what the official SDKs' agents said -----------------------------------------------------------

# The null and fractional ids that SDK 1.4.0 echoes are refused here, as SDK 2.4.0 and term2 refuse them.
NO_JSONRPC_IDS = {("1.4.0", "v2 id null"), ("1.4.0", "v2 id fractional")}


def recorded(version):
    frames = {}
    for line in (GOLDEN / f"sdk-{version}-frames.jsonl").read_text().splitlines():
        frame = json.loads(line)
        text = json.dumps(frame["msg"]) if "msg" in frame else frame["raw"]
        frames.setdefault(frame["scenario"], []).append((frame["dir"], text))
    return frames


def refusals(version, schemas):
    found = []
    for scenario, frames in recorded(version).items():
        if (version, scenario) in NO_JSONRPC_IDS:
            continue
        gate = Gate({1: published(1), 2: schemas})
        for direction, line in frames:
            try:
                gate.check_line(direction, line)
            except AssertionError as refusal:
                found.append(str(refusal))
    return found


def test_everything_that_an_agent_on_sdk_2_4_0_said_passes_every_schema():
    assert refusals("2.4.0", published(2)) == []


def test_what_an_agent_on_sdk_1_4_0_said_passes_its_own_schema():
    own = tuple(schema for schema in published(2) if schema.label.startswith("sdk14"))
    assert len(own) == 1
    assert refusals("1.4.0", own) == []


def test_an_agent_on_sdk_1_4_0_fails_the_newer_schema_in_the_two_known_places_only():
    newer = tuple(schema for schema in published(2) if schema.label == "sdk24 schema/v2/schema.json")
    assert len(newer) == 1
    found = refusals("1.4.0", newer)
    assert len(found) == 3
    assert '$.result: "messageId" is a required property' in found[1]
    assert '$.result: "messageId" is a required property' in found[2]
    assert "$.params.update.availableCommands[0]" in found[0]
