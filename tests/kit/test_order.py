"""The order checker itself: one good conversation that it accepts, and each rule broken in it once."""

import json

import pytest

from tests.kit.order import Order

S = "s1"


def sent(method, request_id, **params):
    return ">", {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


def result(request_id, **members):
    return "<", {"jsonrpc": "2.0", "id": request_id, "result": members}


def failure(request_id):
    return "<", {"jsonrpc": "2.0", "id": request_id, "error": {"code": -32000, "message": "busy"}}


def said(kind, session_id=S, /, **members):
    update = {"sessionUpdate": kind, **members}
    params = {"sessionId": session_id, "update": update}
    return "<", {"jsonrpc": "2.0", "method": "session/update", "params": params}


def state(word, **members):
    return said("state_update", state=word, **members)


def call(status=None, call_id="c1", **members):
    return said("tool_call_update", toolCallId=call_id, **({"status": status} if status else {}), **members)


def shown(call_id="c1"):
    return call("pending", call_id, title="Read", name="read_file", kind="read", rawInput={})


def ask(call_id="c1"):
    params = {"sessionId": S, "subject": {"type": "tool_call", "toolCall": {"toolCallId": call_id}}}
    return "<", {"jsonrpc": "2.0", "id": 7, "method": "session/request_permission", "params": params}


def chunk(message_id, spoken="agent_message"):
    return said(f"{spoken}_chunk", messageId=message_id)


NEW = [sent("session/new", 1, cwd="/w"), result(1, sessionId=S)]
OPEN = [*NEW, sent("session/prompt", 2, sessionId=S)]
BEGUN = [*OPEN, state("running"), result(2, messageId="u1"), said("user_message", messageId="u1")]
DONE = state("idle", stopReason="end_turn")
FINISHED = call("completed", rawOutput={})
RESUME = [sent("session/resume", 3, sessionId=S)]


def watch(*frames):
    order = Order()
    for direction, message in frames:
        (order.sent if direction == ">" else order.received)(json.dumps(message))
    return order


def test_a_whole_turn_passes():
    order = watch(
        *BEGUN,
        chunk("t1", "agent_thought"),
        chunk("m1"),
        chunk("m1"),
        shown(),
        state("requires_action"),
        ask(),
        state("running"),
        call("in_progress"),
        said("tool_call_content_chunk", toolCallId="c1"),
        FINISHED,
        chunk("m2"),
        said("usage_update", used=1, size=2),
        DONE,
        sent("session/close", 4, sessionId=S),
        result(4),
    )
    order.finish()


def test_a_turn_may_be_cancelled_while_it_is_blocked():
    order = watch(
        *BEGUN,
        shown(),
        ask(),
        state("requires_action"),
        call("cancelled", rawOutput={}),
        state("idle", stopReason="cancelled"),
    )
    order.finish()
    assert order.idles(S) == 1


def compaction(status, compaction_id="k1", **members):
    return said("compaction_update", compactionId=compaction_id, status=status, **members)


PART = said("compaction_summary_chunk", compactionId="k1", content={"type": "text", "text": "s"})


def test_compactions_pass_live_and_replayed():
    ends = [compaction("completed", summary=[]), compaction("failed", "k2", error="e"), DONE]
    watch(
        *BEGUN, compaction("in_progress"), PART, ends[0], compaction("in_progress", "k2"), *ends[1:]
    ).finish()
    old = [compaction("in_progress"), PART, compaction("completed"), compaction("failed", "k2", error="e")]
    watch(*RESUME, said("user_message", messageId="u1"), *old, state("idle"), result(3)).finish()


@pytest.mark.parametrize("kind", ["config_option_update", "available_commands_update"])
def test_options_and_commands_may_change_beside_the_turns(kind):
    watch(*NEW, said(kind), *BEGUN[2:], said(kind), shown(), state("requires_action"), said(kind))
    with pytest.raises(AssertionError, match="while the session is started"):
        watch(*OPEN, state("running"), said(kind))


def test_a_session_that_was_deleted_is_gone_and_one_that_was_not_is_there():
    delete = sent("session/delete", 9, sessionId=S)
    watch(*NEW, delete, failure(9), *BEGUN[2:], DONE).finish()
    with pytest.raises(AssertionError, match="not open"):
        watch(*NEW, delete, result(9), said("config_option_update"))
    with pytest.raises(AssertionError, match="closed while its turn is working"):
        watch(*BEGUN, delete, result(9))


def test_a_refused_prompt_leaves_no_trace():
    watch(*OPEN, failure(2)).finish()


def test_sessions_interleave():
    other = [sent("session/new", "x", cwd="/w"), result("x", sessionId="s2")]
    watch(
        *OPEN, *other, state("running"), result(2, messageId="u1"), said("user_message", messageId="u1"), DONE
    )


def test_a_replay_passes():
    whole = [said("user_message", messageId="u1"), said("user_message_chunk", messageId="u1")]
    old = call("completed", title="Read", name="read_file", kind="read")
    watch(*RESUME, *whole, old, said("agent_message", messageId="m1"), state("idle"), result(3)).finish()


def test_a_resume_without_replay_passes():
    watch(*RESUME, state("idle"), result(3)).finish()


def test_a_second_resume_that_is_refused_takes_nothing_from_the_first():
    second = [sent("session/resume", 4, sessionId=S), failure(4)]
    watch(*RESUME, *second, said("user_message", messageId="u1"), state("idle"), result(3)).finish()


def test_a_refused_resume_leaves_the_session_unknown():
    with pytest.raises(AssertionError, match="not open"):
        watch(*RESUME, failure(3), state("running"))


def priced(amount, used=1, size=2):
    return said("usage_update", used=used, size=size, cost={"amount": amount, "currency": "USD"})


def idle(**took):
    counts = dict.fromkeys(
        ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "thoughtTokens"], 3
    )
    usage = {"modelCalls": 2, "countedCalls": 2, **counts, **took}
    return state("idle", stopReason="end_turn", _meta={"term2": {"usage": usage}})


def test_usage_and_costs_pass():
    watch(*BEGUN, priced(0.1), priced(0.30000001), idle(costUsd=0.30000001)).finish()
    withdrawn = said("usage_update", used=1, size=2, cost=None)
    watch(*BEGUN, priced(0.1), withdrawn, withdrawn, idle()).finish()
    watch(*BEGUN, idle(countedCalls=0)).finish()
    watch(*RESUME, said("user_message", messageId="u1"), priced(7), state("idle"), result(3)).finish()


BROKEN = {
    "more in the context than it holds": ([*BEGUN, said("usage_update", used=3, size=2)], "3 of 2"),
    "nothing in the context": ([*BEGUN, said("usage_update", used=0, size=2)], "0 of 2"),
    "a cost that falls": ([*BEGUN, priced(0.2), priced(0.1)], "fell from 0.2"),
    "a cost that is not told again": (
        [*BEGUN, priced(0.2), said("usage_update", used=1, size=2)],
        "neither told nor withdrawn",
    ),
    "a cost after it was withdrawn": (
        [*BEGUN, said("usage_update", used=1, size=2, cost=None), priced(0.1)],
        "after it was withdrawn",
    ),
    "a turn that costs less than the session rose by": (
        [*BEGUN, priced(0.2), idle(costUsd=0.1)],
        "rose by 0.2",
    ),
    "a turn with more counted calls than calls": ([*BEGUN, idle(countedCalls=3)], "calls of a turn"),
    "a turn with usage and without calls": (
        [*BEGUN, idle(modelCalls=0, countedCalls=0)],
        "calls of a turn",
    ),
    "a negative count": ([*BEGUN, idle(outputTokens=-1)], "a turn took"),
    "a fraction of a token": ([*BEGUN, idle(outputTokens=1.5)], "a turn took"),
    "a replay with every usage": ([*RESUME, priced(1), priced(2)], "a second usage_update"),
    "a snapshot with the usage of a turn": (
        [*RESUME, said("state_update", state="idle", _meta={"term2": {"usage": {}}})],
        "the snapshot of a resume has usage",
    ),
    "an update before its session/new was answered": ([NEW[0], DONE], "not open"),
    "an update of a session nobody knows": ([*NEW, said("usage_update", "s9")], "not open"),
    "a response before running": ([*OPEN, result(2, messageId="u1")], "response of a prompt while"),
    "an update between running and the response": (
        [*OPEN, state("running"), chunk("m1")],
        "while the session",
    ),
    "a response without its id": ([*OPEN, state("running"), result(2)], "no messageId"),
    "work before the user_message": ([*BEGUN[:-1], chunk("m1")], "before the user_message"),
    "a user_message with another id": ([*BEGUN[:-1], said("user_message", messageId="u2")], "'u2'"),
    "a second user_message": ([*BEGUN, said("user_message", messageId="u1")], "second user_message"),
    "running twice": ([*BEGUN, state("running")], "running while"),
    "an idle that no turn began": ([*NEW, DONE], "idle while"),
    "a second idle": ([*BEGUN, DONE, DONE], "idle while"),
    "an idle without its reason": ([*BEGUN, state("idle")], "stopReason"),
    "words after the idle": ([*BEGUN, DONE, chunk("m1")], "while the session is idle"),
    "usage after the idle": ([*BEGUN, DONE, said("usage_update")], "while the session is idle"),
    "words while it is blocked": ([*BEGUN, shown(), state("requires_action"), chunk("m1")], "waits"),
    "requires_action twice": (
        [*BEGUN, state("requires_action"), state("requires_action")],
        "requires_action while",
    ),
    "a compaction that begins with its end": ([*BEGUN, compaction("completed")], "begins 'completed'"),
    "a summary of no compaction": ([*BEGUN, PART], "a summary of no compaction"),
    "a summary after the end": (
        [*BEGUN, compaction("in_progress"), compaction("cancelled"), PART],
        "after its compaction was cancelled",
    ),
    "two ends of a compaction": (
        [*BEGUN, compaction("in_progress"), compaction("failed"), compaction("completed")],
        "after its compaction was failed",
    ),
    "an error of what went well": (
        [*BEGUN, compaction("in_progress"), compaction("completed", error="e")],
        "an error, and completed",
    ),
    "an idle over an open compaction": ([*BEGUN, compaction("in_progress"), DONE], "not final: .'k1'"),
    "a replay that ends in a compaction": (
        [*RESUME, compaction("in_progress"), state("idle"), result(3)],
        "not final: .'k1'",
    ),
    "a compaction outside a turn": ([*NEW, compaction("in_progress")], "while the session is idle"),
    "words for a message that a compaction followed": (
        [*BEGUN, chunk("m1"), compaction("in_progress"), compaction("failed"), chunk("m1")],
        "had ended",
    ),
    "a call that begins in progress": (
        [*BEGUN, call("in_progress", title="t", name="n", kind="x", rawInput={})],
        "begins",
    ),
    "a call without its name": (
        [*BEGUN, call("pending", title="t", kind="read", rawInput={})],
        "without name",
    ),
    "a call without its input": (
        [*BEGUN, call("pending", title="t", kind="read", name="n")],
        "without rawInput",
    ),
    "a call that changes its name": ([*BEGUN, shown(), call(name="other")], "changed its name"),
    "a call that goes back": ([*BEGUN, shown(), call("in_progress"), call("pending")], "went back"),
    "a final status without its output": ([*BEGUN, shown(), call("failed")], "without rawOutput"),
    "a change after the final status": ([*BEGUN, shown(), FINISHED, FINISHED], "changed after"),
    "content after the final status": (
        [*BEGUN, shown(), FINISHED, said("tool_call_content_chunk", toolCallId="c1")],
        "content for a call",
    ),
    "content for a call nobody saw": (
        [*BEGUN, said("tool_call_content_chunk", toolCallId="c9")],
        "never shown",
    ),
    "an idle over an open call": ([*BEGUN, shown(), DONE], "not final"),
    "an ask about a call nobody saw": ([*BEGUN, ask()], "never shown"),
    "an ask about a call that is over": ([*BEGUN, shown(), FINISHED, ask()], "which is completed"),
    "an ask outside a turn": ([*NEW, ask()], "an ask while"),
    "text for a message that another followed": (
        [*BEGUN, chunk("m1"), chunk("m2"), chunk("m1")],
        "had ended",
    ),
    "text for a message that a call followed": ([*BEGUN, chunk("m1"), shown(), chunk("m1")], "had ended"),
    "text for a message of an earlier turn": (
        [
            *BEGUN,
            chunk("m1"),
            DONE,
            sent("session/prompt", 5, sessionId=S),
            state("running"),
            result(5, messageId="u2"),
            said("user_message", messageId="u2"),
            chunk("m1"),
        ],
        "had ended",
    ),
    "a message id used again for a prompt": (
        [*BEGUN, DONE, sent("session/prompt", 5, sessionId=S), state("running"), result(5, messageId="u1")],
        "again",
    ),
    "a close over a running turn": (
        [*BEGUN, sent("session/close", 4, sessionId=S), result(4)],
        "closed while",
    ),
    "an update after the close": ([*NEW, sent("session/close", 4, sessionId=S), result(4), DONE], "not open"),
    "a resume answered without its state": ([*RESUME, result(3)], "before its state_update"),
    "a replay after its state": (
        [*RESUME, state("idle"), said("user_message", messageId="u")],
        "ends a replay",
    ),
    "a replay in chunks": ([*RESUME, chunk("m1")], "without its whole message"),
    "a replayed call that is not over": (
        [*RESUME, call("in_progress", title="t", name="n", kind="read"), state("idle"), result(3)],
        "not final",
    ),
    "an update after a resume": (
        [*RESUME, state("idle"), result(3), said("usage_update")],
        "while the session",
    ),
    "a session made twice": ([*NEW, sent("session/new", 9, cwd="/w"), result(9, sessionId=S)], "made twice"),
}


@pytest.mark.parametrize(("frames", "why"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_order_is_refused(frames, why):
    *before, last = frames
    order = watch(*before)
    with pytest.raises(AssertionError, match=why):
        order.received(json.dumps(last[1]))


def test_a_turn_without_its_idle_is_seen_at_the_end():
    with pytest.raises(AssertionError, match="no idle"):
        watch(*BEGUN).finish()


def test_a_connection_of_v1_is_not_watched():
    order = watch(sent("initialize", 0, protocolVersion=1), result(0, protocolVersion=1), chunk("m1"))
    order.finish()
