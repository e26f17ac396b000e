"""The projection: each event as the whole frame it becomes, held to the published schemas; and the bound of
a frame, tried with a small one, under which no character is lost."""

import base64
import hashlib
import json
import typing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.acp.fit import MAX_FRAME_BYTES, whole_characters
from term2_acp.acp.v2.capabilities import BASELINE, FULL
from term2_acp.acp.v2.project import Projection
from term2_acp.domain import events as ev
from term2_acp.domain.content import Change, Diff, Operation, ResourceLink, Terminal, Text
from term2_acp.domain.ids import CompactionId, MessageId, PlanId, SessionId, TerminalId, ToolCallId
from term2_acp.domain.options import OptionChoice, OptionId, SessionOption
from term2_acp.domain.plan import PlanEntry, PlanPriority, PlanStatus
from term2_acp.domain.toolcall import DecidedBy, Effect, Location, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.domain.usage import TurnUsage, Usage
from tests.kit.schema import Gate

MSG = MessageId("msg_1")
CALL = ToolCallId("call_1")
TERM = TerminalId("term_1")
SMALL = 4096

DIFF = Diff(
    (
        Change(Operation.MODIFY, "/w/a"),
        Change(Operation.ADD, "/w/b"),
        Change(Operation.DELETE, "/w/c"),
        Change(Operation.MOVE, "/w/e", "/w/d"),
    ),
    "diff --git /w/a /w/a\n",
)
DIFF_WIRE = {
    "type": "diff",
    "changes": [
        {"operation": "modify", "path": "/w/a"},
        {"operation": "add", "path": "/w/b"},
        {"operation": "delete", "path": "/w/c"},
        {"operation": "move", "oldPath": "/w/d", "path": "/w/e"},
    ],
    "patch": {"format": "git_patch", "text": "diff --git /w/a /w/a\n"},
}


def text(words):
    return {"type": "text", "text": words}


def updates(event, *, bound=MAX_FRAME_BYTES, projection=None, advertised=BASELINE):
    """The updates that an event becomes. Each frame is one line within the bound, valid in every schema."""
    gate = Gate.if_available()
    found = []
    for frame in (projection or Projection(SessionId("sess_1"), bound, advertised)).to_wire(event):
        assert b"\n" not in frame
        assert len(frame) + 1 <= bound
        gate.received(frame)
        message = json.loads(frame)
        assert message.keys() == {"jsonrpc", "method", "params"}
        assert (message["jsonrpc"], message["method"]) == ("2.0", "session/update")
        assert message["params"].keys() == {"sessionId", "update"}
        assert message["params"]["sessionId"] == "sess_1"
        found.append(message["params"]["update"])
    return found


SHOWN = [
    (ev.Running(), {"sessionUpdate": "state_update", "state": "running"}),
    (ev.RequiresAction(), {"sessionUpdate": "state_update", "state": "requires_action"}),
    (ev.Idle(), {"sessionUpdate": "state_update", "state": "idle"}),
    *(
        (ev.Idle(reason), {"sessionUpdate": "state_update", "state": "idle", "stopReason": word})
        for reason, word in [
            (StopReason.END_TURN, "end_turn"),
            (StopReason.MAX_TOKENS, "max_tokens"),
            (StopReason.MAX_TURN_REQUESTS, "max_turn_requests"),
            (StopReason.REFUSAL, "refusal"),
            (StopReason.CANCELLED, "cancelled"),
        ]
    ),
    (
        ev.Idle(StopReason.CANCELLED, usage=TurnUsage(3, 2, Usage(1000, 20, 300, 40, 5), 900_000)),
        {
            "sessionUpdate": "state_update",
            "state": "idle",
            "stopReason": "cancelled",
            "_meta": {
                "term2": {
                    "usage": {
                        "modelCalls": 3,
                        "countedCalls": 2,
                        "inputTokens": 1000,
                        "outputTokens": 20,
                        "cacheReadTokens": 300,
                        "cacheWriteTokens": 40,
                        "thoughtTokens": 5,
                        "costUsd": 0.0000009,
                    }
                }
            },
        },
    ),
    (
        ev.Idle(StopReason.ERROR, Failure("provider_auth", "The key is wrong.")),
        {
            "sessionUpdate": "state_update",
            "state": "idle",
            "stopReason": "_term2_error",
            "_meta": {"term2": {"error": {"code": "provider_auth", "message": "The key is wrong."}}},
        },
    ),
    (
        ev.UserMessage(
            MSG,
            (
                Text("go"),
                ResourceLink("n", "file:///w/a"),
                ResourceLink("n", "file:///w/a", "t", "d", "text/plain", 0),
            ),
        ),
        {
            "sessionUpdate": "user_message",
            "messageId": "msg_1",
            "content": [
                text("go"),
                {"type": "resource_link", "name": "n", "uri": "file:///w/a"},
                {
                    "type": "resource_link",
                    "name": "n",
                    "uri": "file:///w/a",
                    "title": "t",
                    "description": "d",
                    "mimeType": "text/plain",
                    "size": 0,
                },
            ],
        },
    ),
    (
        ev.AgentMessageChunk(MSG, 'a"\n\u2028é🙂'),
        {"sessionUpdate": "agent_message_chunk", "messageId": "msg_1", "content": text('a"\n\u2028é🙂')},
    ),
    (
        ev.AgentThoughtChunk(MSG, "hm"),
        {"sessionUpdate": "agent_thought_chunk", "messageId": "msg_1", "content": text("hm")},
    ),
    (
        ev.AgentMessage(MSG, "all"),
        {"sessionUpdate": "agent_message", "messageId": "msg_1", "content": [text("all")]},
    ),
    (
        ev.AgentMessage(MSG, ""),
        {"sessionUpdate": "agent_message", "messageId": "msg_1", "content": [text("")]},
    ),
    (
        ev.AgentThought(MSG, "all"),
        {"sessionUpdate": "agent_thought", "messageId": "msg_1", "content": [text("all")]},
    ),
    (
        ToolCallUpdate(
            CALL,
            title="Edit a",
            name="apply_patch",
            kind=ToolKind.EDIT,
            status=ToolStatus.PENDING,
            content=(DIFF, Text("said")),
            locations=(Location("/w/a", 3), Location("/w/b"), Location("/w/c", 0)),
            raw_input={"patch": "p", "n": float("nan")},
            raw_output={},
        ),
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "call_1",
            "title": "Edit a",
            "name": "apply_patch",
            "kind": "edit",
            "status": "pending",
            "rawInput": {"patch": "p", "n": "nan"},
            "rawOutput": {},
            "locations": [{"path": "/w/a", "line": 3}, {"path": "/w/b"}, {"path": "/w/c"}],
            "content": [DIFF_WIRE, {"type": "content", "content": text("said")}],
        },
    ),
    *(
        (
            ToolCallUpdate(CALL, status=status),
            {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": word},
        )
        for status, word in [
            (ToolStatus.IN_PROGRESS, "in_progress"),
            (ToolStatus.COMPLETED, "completed"),
            (ToolStatus.FAILED, "failed"),
            (ToolStatus.CANCELLED, "cancelled"),
        ]
    ),
    (
        ev.ToolCallBegan(CALL),
        {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": "in_progress"},
    ),
    # Empty content clears; content that is None leaves it, as the row above shows.
    (
        ToolCallUpdate(CALL, content=()),
        {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "content": []},
    ),
    (
        ev.ToolCallContentAdded(CALL, Text("more")),
        {
            "sessionUpdate": "tool_call_content_chunk",
            "toolCallId": "call_1",
            "content": {"type": "content", "content": text("more")},
        },
    ),
    (
        ev.ToolCallContentAdded(CALL, Diff((Change(Operation.ADD, "/w/bin"),))),
        {
            "sessionUpdate": "tool_call_content_chunk",
            "toolCallId": "call_1",
            "content": {"type": "diff", "changes": [{"operation": "add", "path": "/w/bin"}]},
        },
    ),
    (
        ev.PlanUpdate(
            PlanId("plan_1"),
            (
                PlanEntry("one", PlanPriority.HIGH, PlanStatus.COMPLETED),
                PlanEntry("two", PlanPriority.LOW, PlanStatus.IN_PROGRESS),
            ),
        ),
        {
            "sessionUpdate": "plan_update",
            "plan": {
                "type": "items",
                "planId": "plan_1",
                "entries": [
                    {"content": "one", "priority": "high", "status": "completed"},
                    {"content": "two", "priority": "low", "status": "in_progress"},
                ],
            },
        },
    ),
    (
        ToolCallUpdate(CALL, content=(Terminal(TERM),), parent=ToolCallId("call_0")),
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "call_1",
            "content": [{"type": "terminal", "terminalId": "term_1"}],
            "_meta": {"term2": {"parentToolCallId": "call_0"}},
        },
    ),
    (
        ev.TerminalUpdate(TERM, "make test", "/w"),
        {
            "sessionUpdate": "terminal_update",
            "terminalId": "term_1",
            "command": "make test",
            "cwd": "/w",
        },
    ),
    (
        ev.TerminalUpdate(TERM, output=b"\xff\n", exit_status=ev.ExitStatus(0)),
        {
            "sessionUpdate": "terminal_update",
            "terminalId": "term_1",
            "output": {"data": "/wo="},
            "exitStatus": {"exitCode": 0},
        },
    ),
    (
        ev.TerminalUpdate(TERM, exit_status=ev.ExitStatus(None, "SIGKILL")),
        {"sessionUpdate": "terminal_update", "terminalId": "term_1", "exitStatus": {"signal": "SIGKILL"}},
    ),
    (
        ev.TerminalOutput(TERM, b"\xe2\x82"),
        {"sessionUpdate": "terminal_output_chunk", "terminalId": "term_1", "data": "4oI="},
    ),
    (ev.UsageUpdate(10, 1000), {"sessionUpdate": "usage_update", "used": 10, "size": 1000}),
    (
        ev.UsageUpdate(10, 1000, 12_300_000_000),
        {
            "sessionUpdate": "usage_update",
            "used": 10,
            "size": 1000,
            "cost": {"amount": 0.0123, "currency": "USD"},
        },
    ),
    (
        ev.UsageUpdate(10, 1000, None, cost_withdrawn=True),
        {"sessionUpdate": "usage_update", "used": 10, "size": 1000, "cost": None},
    ),
    (
        ev.SessionInfoUpdate("T", "2026-11-02T00:00:00.000Z"),
        {"sessionUpdate": "session_info_update", "title": "T", "updatedAt": "2026-11-02T00:00:00.000Z"},
    ),
    (
        ev.Notice(MSG, ev.Severity.WARNING, "The server is busy."),
        {
            "sessionUpdate": "agent_message",
            "messageId": "msg_1",
            "content": [text("The server is busy.")],
            "_meta": {"term2": {"notice": "warning"}},
        },
    ),
]

COMPACTION = CompactionId("comp_1")
MODES = SessionOption(
    OptionId.MODE,
    "Mode",
    "mode",
    "ask",
    (OptionChoice("standard", "Standard"), OptionChoice("ask", "Ask", "Asks before each edit.")),
    "How freely it acts.",
)
MODES_WIRE = {
    "configId": "mode",
    "name": "Mode",
    "description": "How freely it acts.",
    "category": "mode",
    "type": "select",
    "currentValue": "ask",
    "options": [
        {"value": "standard", "name": "Standard"},
        {"value": "ask", "name": "Ask", "description": "Asks before each edit."},
    ],
}

# What is shown under the profile that advertises it, and nowhere else.
ADVERTISED = [
    (
        ev.OptionsUpdate((MODES,)),
        {"sessionUpdate": "config_option_update", "configOptions": [MODES_WIRE]},
    ),
    *(
        (
            ev.CompactionUpdate(COMPACTION, status, summary, error),
            {"sessionUpdate": "compaction_update", "compactionId": "comp_1", **members},
        )
        for status, summary, error, members in [
            (ev.CompactionStatus.IN_PROGRESS, None, None, {"status": "in_progress"}),
            (ev.CompactionStatus.CANCELLED, None, None, {"status": "cancelled"}),
            (ev.CompactionStatus.FAILED, None, "No.", {"status": "failed", "error": "No."}),
            (ev.CompactionStatus.COMPLETED, "S", None, {"status": "completed", "summary": [text("S")]}),
            (ev.CompactionStatus.COMPLETED, "", None, {"status": "completed", "summary": []}),
        ]
    ),
]
KEPT = [
    ev.ToolCallPrepared(CALL, "shell", "{}", "c1", "00"),
    ev.ToolCallDispatched(CALL),
    ev.ToolCallSettled(CALL, Effect.COMMITTED, "done"),
    ev.ReplyEnded("p", "m"),
    ev.OptionChosen(OptionId.MODE, "ask"),
    ev.Circumstances(MessageId("m"), "Zed 1", "{}", "0.1.0", 2, "p", "m", "default", ("/w",)),
    ev.ToolCallDecided(CALL, allowed=True, by=DecidedBy.POLICY, mode="standard"),
    ev.RecordsLost(7, 1, 0),
]


@pytest.mark.parametrize(("event", "update"), SHOWN, ids=lambda value: type(value).__name__)
def test_each_event_that_is_shown(event, update):
    assert updates(event) == [update]


@pytest.mark.parametrize("event", KEPT, ids=lambda value: type(value).__name__)
def test_what_is_only_kept_is_not_shown(event):
    assert updates(event) == []


@pytest.mark.parametrize(("event", "update"), ADVERTISED, ids=lambda value: type(value).__name__)
def test_what_is_advertised_is_shown_and_otherwise_is_not(event, update):
    assert updates(event, advertised=FULL) == [update]
    assert [update for update in updates(event) if not _is_notice(update)] == []


@pytest.mark.parametrize(
    ("status", "error", "severity", "words"),
    [
        (ev.CompactionStatus.IN_PROGRESS, None, "info", "is being summed up"),
        (ev.CompactionStatus.COMPLETED, None, "info", "was summed up"),
        (ev.CompactionStatus.CANCELLED, None, "info", "was not summed up"),
        (
            ev.CompactionStatus.FAILED,
            "It is busy.",
            "warning",
            "was not summed up, and is as it was. It is busy.",
        ),
        (ev.CompactionStatus.FAILED, None, "warning", "was not summed up"),
    ],
)
def test_a_compaction_that_is_not_advertised_is_two_notices(status, error, severity, words):
    summary = "S" if status is ev.CompactionStatus.COMPLETED else None
    (shown,) = updates(ev.CompactionUpdate(COMPACTION, status, summary, error))
    assert shown["_meta"]["term2"]["notice"] == severity
    assert words in shown["content"][0]["text"]
    began = status is ev.CompactionStatus.IN_PROGRESS
    assert shown["messageId"] == f"comp_1_{'began' if began else 'ended'}", (
        "no text goes into one that is over"
    )


def _is_notice(update):
    return "notice" in update.get("_meta", {}).get("term2", {})


@pytest.mark.parametrize(("event", "update"), SHOWN, ids=lambda value: type(value).__name__)
def test_what_everybody_is_shown_is_the_same_under_the_full_profile(event, update):
    if event == ev.Idle():
        commands, state = updates(event, advertised=FULL)  # the state of a session that was opened again
        assert commands["sessionUpdate"] == "available_commands_update"
        assert state == update
    else:
        assert updates(event, advertised=FULL) == [update]


@pytest.mark.parametrize("event", KEPT, ids=lambda value: type(value).__name__)
def test_what_is_only_kept_is_not_shown_under_the_full_profile_either(event):
    assert updates(event, advertised=FULL) == []


def test_every_kind_of_event_is_in_these_tests():
    tried = {type(event) for event, _update in SHOWN + ADVERTISED} | {type(event) for event in KEPT}
    assert tried == set(typing.get_args(ev.Event))
    assert {type(event) for event in KEPT} == ev.KEPT_ONLY | ev.FOUND_ONLY


def test_chunks_of_messages_and_thoughts_in_turn_keep_their_ids():
    """The beginning of a line is remembered; it must be that of this very message."""
    projection = Projection(SessionId("sess_1"))
    said = []
    for event in (
        ev.AgentThoughtChunk(MessageId("m1"), "a"),
        ev.AgentThoughtChunk(MessageId("m1"), "b"),
        ev.AgentMessageChunk(MessageId("m1"), "c"),
        ev.AgentMessageChunk(MessageId("m2"), "d"),
        ev.AgentThoughtChunk(MessageId("m1"), "e"),
    ):
        (update,) = updates(event, projection=projection)
        said.append((update["sessionUpdate"], update["messageId"], update["content"]["text"]))
    assert said == [
        ("agent_thought_chunk", "m1", "a"),
        ("agent_thought_chunk", "m1", "b"),
        ("agent_message_chunk", "m1", "c"),
        ("agent_message_chunk", "m2", "d"),
        ("agent_thought_chunk", "m1", "e"),
    ]


@pytest.mark.parametrize(
    ("pico", "written"),
    [(0, b"0"), (900_000, b"0.0000009"), (1_000, b"0.000000001"), (10**27 + 10**12, b"1000000000000001")],
)
def test_money_is_written_digit_by_digit(pico, written):
    """A float would say 9e-07 for the second and 1e15 for the last."""
    projection = Projection(SessionId("sess_1"))
    (shown,) = projection.to_wire(ev.UsageUpdate(1, 2, pico))
    assert b'"cost":{"amount":' + written + b',"currency":"USD"}' in shown
    (idle,) = projection.to_wire(ev.Idle(StopReason.END_TURN, usage=TurnUsage(1, 1, Usage(1), pico)))
    assert b'"costUsd":' + written + b"}" in idle


@pytest.mark.parametrize("usage", [TurnUsage(2, 1, Usage(1), None), TurnUsage(1, 0, Usage(), 0)])
def test_a_turn_whose_cost_is_not_known_tells_none(usage):
    (update,) = updates(ev.Idle(StopReason.END_TURN, usage=usage))
    told = update["_meta"]["term2"]["usage"]
    assert (told["modelCalls"], told["countedCalls"]) == (usage.model_calls, usage.counted_calls)
    assert "costUsd" not in told


def test_a_failed_turn_tells_what_it_took_beside_its_error():
    (update,) = updates(
        ev.Idle(StopReason.ERROR, Failure("provider_auth", "No."), TurnUsage(1, 1, Usage(5, 6)))
    )
    assert update["_meta"]["term2"]["error"] == {"code": "provider_auth", "message": "No."}
    assert update["_meta"]["term2"]["usage"]["outputTokens"] == 6


def test_lone_surrogates_never_reach_the_wire():
    (update,) = updates(ev.AgentMessageChunk(MSG, "a\ud800\ud83d\ude42"))
    assert update["content"]["text"] == "a\ufffd🙂"
    (update,) = updates(ToolCallUpdate(CALL, title="\udcff", raw_input={"\ud800": ["\udcff"]}))
    assert (update["title"], update["rawInput"]) == ("\ufffd", {"\ufffd": ["\ufffd"]})


# -- the bound -----------------------------------------------------------------------------------------

LONG = st.builds(
    lambda unit, times: unit * times,
    st.text(st.sampled_from('a"\\\n\x01é你🙂\ud800'), min_size=1, max_size=9),
    st.integers(0, 1500),
)

# The same examples in every run, and no clock: the machine may be busy.
steady = settings(deadline=None, derandomize=True, max_examples=30)


def joined(found, kind, *, whole):
    """The text of updates that are a whole message and then chunks with its id, or chunks only."""
    kinds = [update["sessionUpdate"] for update in found]
    rest = [f"{kind}_chunk"] * (len(found) - (1 if whole else 0))
    assert kinds == ([kind] if whole else []) + rest
    assert {update["messageId"] for update in found} == {"msg_1"}
    blocks = [
        update["content"][0] if isinstance(update["content"], list) else update["content"] for update in found
    ]
    assert all(block["type"] == "text" for block in blocks)
    return "".join(block["text"] for block in blocks)


@steady
@given(LONG)
def test_long_text_of_the_model_is_split_and_never_cut(words):
    whole = whole_characters(words)
    chunks = updates(ev.AgentMessageChunk(MSG, words), bound=SMALL)
    assert joined(chunks, "agent_message", whole=False) == whole
    assert joined(updates(ev.AgentMessage(MSG, words), bound=SMALL), "agent_message", whole=True) == whole
    assert joined(updates(ev.AgentThought(MSG, words), bound=SMALL), "agent_thought", whole=True) == whole


@steady
@given(LONG, LONG)
def test_a_long_prompt_is_echoed_whole(first, second):
    found = updates(ev.UserMessage(MSG, (Text(first), Text(second))), bound=SMALL)
    assert [update["sessionUpdate"] for update in found] == ["user_message"] + ["user_message_chunk"] * (
        len(found) - 1
    )
    blocks = [*found[0]["content"], *(update["content"] for update in found[1:])]
    assert "".join(block["text"] for block in blocks) == whole_characters(first) + whole_characters(second)


def test_a_link_that_does_not_fit_is_written_out():
    link = ResourceLink("n", "file:///" + "x" * 9000)
    found = updates(ev.UserMessage(MSG, (Text("see"), link)), bound=SMALL)
    assert found[0]["content"] == [text("see")]
    written = "".join(update["content"]["text"] for update in found[1:])
    assert json.loads(written) == {"type": "resource_link", "name": "n", "uri": link.uri}


def test_the_product_s_bound_is_eight_mebibytes_and_a_frame_just_below_it_is_one_frame():
    # The line feed and what stands around the text take some of it.
    (update,) = updates(ev.AgentMessageChunk(MSG, "a" * (MAX_FRAME_BYTES - 1024)))
    assert len(update["content"]["text"]) == MAX_FRAME_BYTES - 1024
    assert MAX_FRAME_BYTES == 8 * 1024 * 1024
    two = updates(ev.AgentMessageChunk(MSG, "a" * MAX_FRAME_BYTES))
    assert [len(update["content"]["text"]) > 0 for update in two] == [True, True]
    assert joined(two, "agent_message", whole=False) == "a" * MAX_FRAME_BYTES


@steady
@given(LONG)
def test_long_content_of_a_tool_call_is_appended_piece_by_piece(words):
    whole = whole_characters(words)
    added = updates(ev.ToolCallContentAdded(CALL, Text(words)), bound=SMALL)
    assert {update["sessionUpdate"] for update in added} == {"tool_call_content_chunk"}
    assert "".join(update["content"]["content"]["text"] for update in added) == whole
    call = ToolCallUpdate(CALL, status=ToolStatus.COMPLETED, content=(Text("first "), Text(words)))
    first, *rest = updates(call, bound=SMALL)
    assert first["status"] == "completed"
    pieces = [*first["content"], *(update["content"] for update in rest)]
    assert "".join(piece["content"]["text"] for piece in pieces) == "first " + whole


@steady
@given(st.binary(min_size=1, max_size=3 * SMALL), st.sampled_from([None, ev.ExitStatus(3)]))
def test_long_output_of_a_command_loses_no_byte_and_ends_last(data, status):
    snapshot = ev.TerminalUpdate(TERM, "c", "/w", data, status)
    for event in (snapshot, ev.TerminalOutput(TERM, data)):
        shown = updates(event, bound=SMALL)
        pieces = [update.get("data") or update.get("output", {}).get("data", "") for update in shown]
        assert b"".join(base64.b64decode(piece, validate=True) for piece in pieces) == data
    shown = updates(snapshot, bound=SMALL)
    assert shown[0]["command"] == "c"
    assert ["exitStatus" in update for update in shown] == [False] * (len(shown) - 1) + [status is not None]


def test_a_patch_that_does_not_fit_says_how_long_it_is():
    patch = "+é\n" * 3000
    call = ToolCallUpdate(CALL, content=(Diff((Change(Operation.ADD, "/w/b"),), patch), Text("after")))
    first, *rest = updates(call, bound=SMALL)
    assert rest == []
    digest = hashlib.sha256(patch.encode()).hexdigest()
    assert first["content"] == [
        {"type": "diff", "changes": [{"operation": "add", "path": "/w/b"}]},
        {
            "type": "content",
            "content": text(f"The patch is too long to show here: 12000 bytes, SHA-256 {digest}."),
        },
        {"type": "content", "content": text("after")},
    ]


def test_many_changes_are_several_diffs():
    changes = tuple(Change(Operation.MODIFY, f"/w/{number:04}") for number in range(400))
    first, *rest = updates(ToolCallUpdate(CALL, content=(Diff(changes),)), bound=SMALL)
    pieces = [*first["content"], *(update["content"] for update in rest)]
    assert {piece["type"] for piece in pieces} == {"diff"}
    assert [change["path"] for piece in pieces for change in piece["changes"]] == [
        change.path for change in changes
    ]


def test_raw_values_that_do_not_fit_say_how_long_they_are():
    value = {"x": "y" * 9000}
    encoded = json.dumps(value, separators=(",", ":")).encode()
    note = {
        "note": "Too long to show here.",
        "size": len(encoded),
        "sha256": hashlib.sha256(encoded).hexdigest(),
    }
    small = {"command": "ls"}
    (update,) = updates(ToolCallUpdate(CALL, raw_input=small, raw_output=value), bound=SMALL)
    assert (update["rawInput"], update["rawOutput"]) == (small, note)
    (update,) = updates(ToolCallUpdate(CALL, raw_input=value, raw_output=value), bound=SMALL)
    assert (update["rawInput"], update["rawOutput"]) == (note, note)


@steady
@given(LONG, LONG, LONG, st.integers(0, 300))
def test_no_update_of_a_tool_call_is_ever_too_long(title, raw, said, places):
    call = ToolCallUpdate(
        CALL,
        title=title,
        name=title,
        kind=ToolKind.OTHER,
        status=ToolStatus.FAILED,
        content=(Text(said), Diff((Change(Operation.ADD, "/w/b"),), said)),
        locations=tuple(Location(f"/w/{place}", 1) for place in range(places)),
        raw_input={"raw": raw},
        raw_output=[raw],
    )
    first, *_rest = updates(call, bound=SMALL)
    assert first["status"] == "failed"


@steady
@given(LONG, st.integers(1, 100))
def test_labels_are_shortened_to_fit(words, entries):
    updates(ev.Idle(StopReason.ERROR, Failure("x", words)), bound=SMALL)
    updates(ev.SessionInfoUpdate(words, "2026-11-02T00:00:00.000Z"), bound=SMALL)
    updates(ev.Notice(MSG, ev.Severity.INFO, words), bound=SMALL)
    plan = (PlanEntry(words, PlanPriority.LOW, PlanStatus.PENDING),) * entries
    (update,) = updates(ev.PlanUpdate(PlanId("p"), plan), bound=SMALL)
    shown = update["plan"]["entries"]
    assert len(shown) == entries or shown[-1]["content"] == f"… ({entries} entries in all)"


@steady
@given(LONG)
def test_a_long_summary_comes_in_chunks_before_the_end_of_its_compaction(words):
    whole = whole_characters(words)
    event = ev.CompactionUpdate(COMPACTION, ev.CompactionStatus.COMPLETED, words)
    first, *chunks = updates(event, bound=SMALL, advertised=FULL)
    if not chunks:
        assert "".join(block["text"] for block in first["summary"]) == whole
        return
    last = chunks.pop()
    assert (first["status"], last["status"]) == ("in_progress", "completed")
    assert first.keys() == last.keys() == {"sessionUpdate", "compactionId", "status"}
    assert {chunk["sessionUpdate"] for chunk in chunks} == {"compaction_summary_chunk"}
    assert "".join(chunk["content"]["text"] for chunk in chunks) == whole


@steady
@given(LONG)
def test_why_a_compaction_failed_is_shortened_to_fit(words):
    event = ev.CompactionUpdate(COMPACTION, ev.CompactionStatus.FAILED, None, words)
    (update,) = updates(event, bound=SMALL, advertised=FULL)
    assert update["status"] == "failed"


@steady
@given(st.text('a"é\x01', max_size=900), st.integers(1, 40), st.data())
def test_options_that_do_not_fit_keep_their_current_value(words, count, data):
    current = data.draw(st.integers(0, count - 1))
    choices = tuple(OptionChoice(f"m{number}", words, words) for number in range(count))
    models = SessionOption(OptionId.MODEL, words, "model", f"m{current}", choices, words)
    (update,) = updates(ev.OptionsUpdate((MODES, models)), bound=SMALL * 4, advertised=FULL)
    modes, shown = update["configOptions"]
    assert modes == MODES_WIRE
    values = [choice["value"] for choice in shown["options"]]
    assert f"m{current}" in values
    others = [value for value in values if value != f"m{current}"]
    assert others == [f"m{number}" for number in range(count) if number != current][: len(others)]
    assert values == sorted(values, key=lambda value: int(value[1:]))
    assert shown["currentValue"] == f"m{current}"
