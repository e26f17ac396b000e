"""The order checker of v1 itself: one good conversation that it accepts, and each rule broken in it once."""

import json

import pytest

from tests.kit.order_v1 import OrderV1

S = "s1"


def sent(method, request_id, **params):
    return ">", {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def result(request_id, **members):
    return "<", {"jsonrpc": "2.0", "id": request_id, "result": members}


def failure(request_id, code=-32600):
    return "<", {"jsonrpc": "2.0", "id": request_id, "error": {"code": code, "message": "no"}}


def said(kind, session_id=S, /, **members):
    params = {"sessionId": session_id, "update": {"sessionUpdate": kind, **members}}
    return "<", {"jsonrpc": "2.0", "method": "session/update", "params": params}


def made(status="pending", call_id="c1", **members):
    return said("tool_call", toolCallId=call_id, title="Read", kind="read", status=status, **members)


def update(status=None, call_id="c1", **members):
    return said("tool_call_update", toolCallId=call_id, **({"status": status} if status else {}), **members)


def ask(*kinds, call_id="c1"):
    options = [{"optionId": str(n), "name": kind, "kind": kind} for n, kind in enumerate(kinds)]
    params = {"sessionId": S, "toolCall": {"toolCallId": call_id}, "options": options}
    return "<", {"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}


def calls(method, session_id=S):
    return "<", {"jsonrpc": "2.0", "id": 8, "method": method, "params": {"sessionId": session_id}}


TEXT = said("agent_message_chunk", content={"type": "text", "text": "x"})
NEW = [sent("session/new", 1, cwd="/w"), result(1, sessionId=S)]
PROMPT = sent("session/prompt", 2, sessionId=S)
END = result(2, stopReason="end_turn")
MODE = [said("current_mode_update"), said("config_option_update")]
LOAD = sent("session/load", 5, sessionId="s2")

GOOD = [
    *NEW,
    said("available_commands_update"),
    *MODE,
    PROMPT,
    said("agent_thought_chunk"),
    made(),
    ask("allow_once", "allow_always", "reject_once"),
    sent("session/prompt", 3, sessionId=S),
    failure(3),
    calls("fs/read_text_file"),
    update("in_progress"),
    update(content=[{"type": "diff"}, {"type": "content"}]),
    update("completed", _meta={"terminal_output": {"terminal_id": "c1"}}),
    TEXT,
    said("usage_update"),
    END,
    said("notice"),
    sent("session/prompt", 4, sessionId=S),
    made(),
    update("failed"),
    failure(4, -32603),
    LOAD,
    said("user_message_chunk", "s2"),
    said("tool_call", "s2", toolCallId="c9", title="Read", status="completed"),
    result(5),
    sent("session/close", 6, sessionId=S),
    result(6),
]


S2 = {"sessionId": "s2"}
# Several requests that are read together, and an answer to each in its turn.
TOGETHER = {
    "a prompt before the load that opens its session": [
        *(sent("session/prompt", 3, **S2), LOAD, failure(3, -32002), result(5)),
        *(
            sent("session/prompt", 4, **S2),
            said("agent_message_chunk", "s2"),
            result(4, stopReason="refusal"),
        ),
    ],
    "a close before a load": [
        *NEW,
        *(sent("session/close", 3, sessionId=S), sent("session/load", 4, sessionId=S)),
        *(result(3), said("user_message_chunk"), result(4), said("notice")),
    ],
    "a load that is refused beside one that goes on": [
        *(LOAD, sent("session/load", 6, **S2), failure(6), said("user_message_chunk", "s2"), result(5)),
    ],
    "a load of an open session that is cancelled": [
        *(*NEW, sent("session/load", 5, sessionId=S), made("in_progress"), failure(5, -32800)),
        *(PROMPT, made(), update("failed"), END),
    ],
}


def check(frames):
    order = OrderV1()
    for direction, frame in frames:
        (order.sent if direction == ">" else order.received)(json.dumps(frame))
    order.finish()


def test_a_good_conversation_is_accepted():
    check(GOOD)


@pytest.mark.parametrize("frames", TOGETHER.values(), ids=TOGETHER)
def test_requests_that_are_read_together_are_told_apart(frames):
    check(frames)


@pytest.mark.parametrize(
    ("frames", "why"),
    [
        ([said("notice")], "not open"),
        ([*NEW, TEXT], "while nothing goes on"),
        ([*NEW, PROMPT, END, TEXT], "while nothing goes on"),
        ([*NEW, sent("session/resume", 5, sessionId=S), TEXT], "while nothing goes on"),
        ([*NEW, PROMPT, said("user_message_chunk")], "outside a load"),
        ([*NEW, PROMPT, said("state_update")], "no update of v1"),
        ([*NEW, PROMPT, said("plan_update")], "no update of v1"),
        ([*NEW, said("current_mode_update"), said("notice")], "after current_mode_update"),
        ([*NEW, said("current_mode_update")], "stands alone"),
        ([*NEW, PROMPT, update("completed")], "before it is made"),
        ([*NEW, PROMPT, made(), made()], "made twice"),
        ([*NEW, PROMPT, made("in_progress")], "begins as in_progress"),
        ([*NEW, PROMPT, made(), update("failed"), update("completed")], "completed after failed"),
        ([*NEW, PROMPT, made(), END], "not final"),
        ([*NEW, PROMPT, made(content=[{"type": "content"}, {"type": "diff"}])], "diffs come first"),
        ([*NEW, PROMPT, made(_meta={"terminal_output": {"terminal_id": "t"}})], "output of t"),
        ([*NEW, PROMPT, ask("allow_once", "reject_once")], "an ask about c1"),
        ([*NEW, PROMPT, made(), update("failed"), ask("allow_once", "reject_once")], "an ask about c1"),
        (
            [*NEW, PROMPT, made(), ask("allow_once", "allow_always", "allow_always", "reject_once")],
            "allow_always",
        ),
        ([*NEW, PROMPT, made(), ask("allow_once")], "allow_once"),
        ([*NEW, ask("allow_once", "reject_once")], "no prompt is open"),
        ([*NEW, calls("fs/read_text_file")], "outside of a prompt"),
        ([*NEW, PROMPT, calls("terminal/create")], "terminal/create"),
        ([*NEW, PROMPT, result(2, stopReason="_term2_error")], "stopReason"),
        ([*NEW, PROMPT], "never answered"),
        ([*NEW, sent("session/close", 6, sessionId=S), result(6), said("notice")], "not open"),
        ([*NEW, sent("session/delete", 6, sessionId=S), result(6), said("notice")], "not open"),
        ([LOAD, failure(5, -32800), said("notice", "s2")], "not open"),
        (
            [LOAD, said("tool_call", "s2", toolCallId="c", title="T", status="pending"), result(5)],
            "not final",
        ),
    ],
)
def test_each_rule_holds(frames, why):
    with pytest.raises(AssertionError, match=why):
        check(frames)
