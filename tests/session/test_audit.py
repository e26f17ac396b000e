"""The audit as a pure fold: what one record of a decision and one of a call hold, for calls that were allowed
and refused, ran, were cancelled, were cut off by a crash or go on, and for journals that are older than
decisions. Times and values are compared one by one, since who reads an audit believes each of them.
"""

import attrs

from term2_acp.domain import events as ev
from term2_acp.domain.content import Terminal, Text
from term2_acp.domain.ids import MessageId, SessionId, TerminalId, ToolCallId
from term2_acp.domain.toolcall import DecidedBy, Effect, Location, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import StopReason
from term2_acp.redact import Redactor
from term2_acp.session.audit import Audit, CallRecord, DecisionRecord, Origin, Policy
from term2_acp.store.journal import Dated

A, B = ToolCallId("call_a"), ToolCallId("call_b")
TERMINAL = TerminalId("term_a")
PROMPT = ev.UserMessage(MessageId("m1"), (Text("go"),))
KEY = "sk-abcdefghijklmnop"
UNDER = ev.Circumstances(
    MessageId("m1"), f"Zed {KEY}", '{"fs":true}', "0.1.0", 2, "play", "scripted", "default", ("/w",)
)
ORIGIN = Origin(
    SessionId("s"), MessageId("m1"), A, None, "shell", "digest", "Zed [redacted]", '{"fs":true}', "0.1.0", 2,
    "play", "scripted", "default", ("/w",),
)  # fmt: skip


def asked(call, name="shell", parent=None):
    return ev.ToolCallPrepared(call, name, '{"command": "secret"}', "p", "digest", parent)


def shown(call, status, **more):
    return ToolCallUpdate(call, "Run", "shell", ToolKind.EXECUTE, status, **more)


def decided(call, *, allowed=True, by=DecidedBy.POLICY, **more):
    return ev.ToolCallDecided(call, allowed, by, "standard", **more)


def settled(call, effect=Effect.COMMITTED, **more):
    return ev.ToolCallSettled(call, effect, "the result", **more)


def idle(reason=StopReason.END_TURN):
    return ev.Idle(reason)


def audit(*events, goes_on=False, step=1):
    """The records, of events that happened a second after each other; taken ``step`` at a time."""
    fold = Audit(SessionId("s"), Redactor().redact_log)
    dated = [Dated(event, 1000 * place) for place, event in enumerate(events)]
    records = []
    for start in range(0, len(dated), step):
        records += fold.feed(dated[start : start + step])
    return records + fold.end(goes_on=goes_on)


def test_a_command_that_the_person_allowed():
    events = (
        PROMPT,
        UNDER,
        asked(A),
        shown(A, ToolStatus.PENDING, locations=(Location("/w"),)),
        decided(
            A, by=DecidedBy.PERSON, targets=(f"x --key {KEY}",), grants=("edit /w/a",), choice="allow-once",
            waited_ms=2500,
        ),
        ev.ToolCallDispatched(A),
        ToolCallUpdate(A, content=(Terminal(TERMINAL),)),
        ev.TerminalUpdate(TERMINAL, "x", "/w"),
        ev.TerminalUpdate(TERMINAL, exit_status=ev.ExitStatus(3)),
        settled(A, failed=True, took_ms=1234),
        ToolCallUpdate(A, status=ToolStatus.FAILED),
        idle(),
    )  # fmt: skip
    policy = Policy(attrs.evolve(audit(*events)[0].policy).digest, "standard", ("edit /w/a",))
    decision = DecisionRecord(
        ORIGIN, ("x --key [redacted]",), policy, True, DecidedBy.PERSON, "allow-once", "", 2500, 4000
    )
    call = CallRecord(
        origin=ORIGIN,
        targets=("x --key [redacted]",),
        policy=policy,
        allowed=True,
        by=DecidedBy.PERSON,
        choice="allow-once",
        prepared_at=2000,
        decided_at=4000,
        dispatched_at=5000,
        settled_at=9000,
        took_ms=1234,
        exit_code=3,
        signal=None,
        effect=Effect.COMMITTED,
        status=ToolStatus.FAILED,
        cancelled=False,
        cancelled_at=None,
        turn_ended=StopReason.END_TURN,
    )
    assert audit(*events) == audit(*events, step=100) == [decision, call]
    # Neither what the model wrote nor what it was given back.
    assert all(word not in repr(audit(*events)) for word in ("secret", "the result", KEY))


def test_a_policy_is_told_apart_by_its_mode_and_grants():
    def digest(mode, *grants):
        under = ev.ToolCallDecided(A, True, DecidedBy.POLICY, mode, grants=grants)
        return audit(PROMPT, asked(A), under, idle())[0].policy.digest

    assert digest("ask", "read /a", "edit /b") == digest("ask", "edit /b", "read /a")
    assert len({digest("ask"), digest("plan"), digest("ask", "read /a"), digest("ask", "edit /a")}) == 4


def test_what_a_model_made_up_is_no_place_for_a_secret():
    (call,) = audit(PROMPT, asked(A, KEY), ev.ReplyEnded("p", KEY), idle())
    assert (call.origin.tool, call.origin.provider, call.origin.model) == ("[redacted]", "p", "[redacted]")
    (call,) = audit(PROMPT, attrs.evolve(UNDER, provider=KEY, model=KEY), asked(A), idle())
    assert (call.origin.provider, call.origin.model) == ("[redacted]", "[redacted]")


def test_a_call_that_was_refused():
    refused = decided(
        A, allowed=False, by=DecidedBy.PERSON, choice="reject", reason="The person refused this."
    )
    decision, call = audit(PROMPT, UNDER, asked(A), refused, settled(A, Effect.FAILED), idle())
    assert (decision.allowed, decision.reason) == (False, "The person refused this.")
    assert (call.allowed, call.effect, call.dispatched_at) == (False, Effect.FAILED, None)


def test_a_cancel_is_told_with_its_time():
    events = (PROMPT, asked(A), decided(A), ev.ToolCallDispatched(A), settled(A, Effect.OUTCOME_UNKNOWN))
    call = audit(*events, shown(A, ToolStatus.CANCELLED), idle(StopReason.CANCELLED))[1]
    assert (call.cancelled, call.cancelled_at, call.turn_ended) == (True, 5000, StopReason.CANCELLED)
    assert call.effect is Effect.OUTCOME_UNKNOWN


def test_calls_come_in_the_order_in_which_they_were_asked_for_each_behind_its_decision():
    events = (
        PROMPT, UNDER, asked(A), asked(B, "read_file", parent=A), decided(B), ev.ToolCallDispatched(B),
        settled(B), decided(A), ev.ToolCallDispatched(A), settled(A),
    )  # fmt: skip
    records = audit(*events, idle())
    kinds = [(type(record), record.origin.tool_call) for record in records]
    assert kinds == [(DecisionRecord, A), (CallRecord, A), (DecisionRecord, B), (CallRecord, B)]
    assert (records[3].origin.tool, records[3].origin.parent) == ("read_file", A)


def test_what_a_crash_cut_off_is_unknown_where_it_may_have_happened():
    events = (PROMPT, UNDER, asked(A), shown(A, ToolStatus.PENDING), asked(B), decided(A))
    events += (ev.ToolCallDispatched(A),)
    for later in ((), (ev.UserMessage(MessageId("m2"), ()), idle())):  # it is the last turn, or another came
        calls = [record for record in audit(*events, *later) if isinstance(record, CallRecord)]
        assert [call.effect for call in calls] == [Effect.OUTCOME_UNKNOWN, Effect.FAILED]
        assert [call.settled_at for call in calls] == [None, None]
        assert [call.status for call in calls] == [ToolStatus.FAILED, None]
        assert [call.turn_ended for call in calls] == [StopReason.ERROR] * 2
    # Beside lost records nobody knows whether it was dispatched.
    calls = audit(PROMPT, asked(B), ev.RecordsLost(3, 1, 0))
    assert [call.effect for call in calls] == [Effect.OUTCOME_UNKNOWN]


def test_a_turn_that_goes_on_has_no_outcome_yet():
    decision, call = audit(PROMPT, asked(A), decided(A), ev.ToolCallDispatched(A), goes_on=True)
    assert decision.allowed
    assert (call.effect, call.settled_at, call.turn_ended) == (None, None, None)


def test_the_first_settlement_stands():
    events = (PROMPT, asked(A), settled(A, took_ms=1), settled(A, Effect.OUTCOME_UNKNOWN), idle())
    (call,) = audit(*events)
    assert (call.effect, call.settled_at, call.took_ms) == (Effect.COMMITTED, 2000, 1)


def test_a_journal_from_before_decisions():
    places = (Location(f"/w/{KEY}", 3),)
    events = (
        PROMPT, asked(A), shown(A, ToolStatus.PENDING, locations=places), ev.ReplyEnded("lab", "qwen"),
        ev.ToolCallDispatched(A), settled(A), idle(), ev.UserMessage(MessageId("m2"), ()), asked(B), idle(),
    )  # fmt: skip
    first, second = audit(*events)
    assert first.origin == Origin(
        SessionId("s"), MessageId("m1"), A, None, "shell", "digest", provider="lab", model="qwen"
    )
    assert (first.targets, first.policy, first.by) == (("/w/[redacted]",), None, None)
    assert (second.origin.turn, second.origin.model) == (MessageId("m2"), "")
