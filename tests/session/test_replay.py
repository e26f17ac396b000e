"""The replay fold: whole messages and calls with their ids, in order of appearance, and nothing left open."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.agent.told import OUTCOME_UNKNOWN
from term2_acp.domain import events as ev
from term2_acp.domain.content import Change, Diff, Operation, Terminal, Text
from term2_acp.domain.ids import CompactionId, MessageId, PlanId, TerminalId, ToolCallId
from term2_acp.domain.options import OptionId
from term2_acp.domain.toolcall import Effect, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import StopReason
from term2_acp.domain.usage import TurnUsage, Usage
from term2_acp.session.outcome import NOT_RUN
from term2_acp.session.recovery import INTERRUPTED, NOT_COMPACTED, UNREADABLE
from term2_acp.session.replay import Replay
from term2_acp.session.unfinished import GAP

U = ev.UserMessage(MessageId("u1"), (Text("go"),))
A, B = ToolCallId("a"), ToolCallId("b")
IDLE = ev.Idle(StopReason.END_TURN)


def text(message_id: str, words: str) -> ev.AgentMessageChunk:
    return ev.AgentMessageChunk(MessageId(message_id), words)


def announced(call: ToolCallId) -> ToolCallUpdate:
    return ToolCallUpdate(
        call, "Read x", "read_file", ToolKind.READ, ToolStatus.PENDING, raw_input={"path": "x"}
    )


def done(call: ToolCallId, words: str) -> ToolCallUpdate:
    return ToolCallUpdate(call, status=ToolStatus.COMPLETED, content=(Text(words),), raw_output={"lines": 1})


def replay(*events: ev.Event, step: int = 1000) -> list[ev.Event]:
    fold = Replay()
    shown: list[ev.Event] = []
    for start in range(0, len(events), step):
        shown += fold.feed(events[start : start + step])
    return shown + fold.end()


def whole(call: ToolCallId, words: str) -> ToolCallUpdate:
    return ToolCallUpdate(
        call,
        "Read x",
        "read_file",
        ToolKind.READ,
        ToolStatus.COMPLETED,
        (Text(words),),
        raw_input={"path": "x"},
        raw_output={"lines": 1},
    )


def test_messages_are_whole_and_calls_are_one():
    events = [
        U,
        ev.AgentThoughtChunk(MessageId("t1"), "th"),
        ev.AgentThoughtChunk(MessageId("t1"), "ink"),
        text("m1", "I "),
        text("m1", "look"),
        ev.ToolCallPrepared(A, "read_file", "{}", "x", "0"),
        announced(A),
        ev.ToolCallDispatched(A),
        ToolCallUpdate(A, status=ToolStatus.IN_PROGRESS),
        ev.ToolCallSettled(A, Effect.COMMITTED, "r"),
        done(A, "text"),
        text("m2", "done"),
        IDLE,
    ]
    expected = [
        U,
        ev.AgentThought(MessageId("t1"), "think"),
        ev.AgentMessage(MessageId("m1"), "I look"),
        whole(A, "text"),
        ev.AgentMessage(MessageId("m2"), "done"),
    ]
    assert replay(*events) == expected
    assert replay(*events, step=1) == expected


def test_calls_side_by_side_keep_the_order_in_which_they_appeared():
    shown = replay(U, announced(A), announced(B), done(B, "b"), done(A, "a"), IDLE, step=1)
    assert shown == [U, whole(A, "a"), whole(B, "b")]


def test_a_diff_that_was_shown_before_the_ask_is_still_there():
    diff = Diff((Change(Operation.MODIFY, "/w/x"),), "patch")
    shown = replay(
        U,
        announced(A),
        ToolCallUpdate(A, content=(diff,)),
        ToolCallUpdate(A, status=ToolStatus.COMPLETED, raw_output={}),
        IDLE,
    )
    assert shown[1].content == (diff,)


def ours(message_id: str, words: str) -> ev.AgentMessage:
    return ev.AgentMessage(MessageId(message_id), words, spoken_by_model=False)


def failed(call: ToolCallId, words: str, effect: str) -> ToolCallUpdate:
    return attrs.evolve(
        whole(call, words), status=ToolStatus.FAILED, raw_output={"error": words, "effect": effect}
    )


def test_calls_that_never_settled_and_their_turn_are_said_to_be():
    began = [ev.ToolCallDispatched(A), ev.ToolCallBegan(A)]
    shown = replay(U, text("m1", "I edit"), announced(A), announced(B), *began)
    assert shown == [
        U,
        ev.AgentMessage(MessageId("m1"), "I edit"),
        failed(A, OUTCOME_UNKNOWN, "outcome_unknown"),
        failed(B, NOT_RUN, "failed"),
        ours("u1_interrupted", INTERRUPTED),
    ]


ONE, MANY = (
    "1 record of this conversation could not be read here; `term2 sessions verify` names it.",
    ("1,002 records of this conversation could not be read here; `term2 sessions verify` names them."),
)
NEWER = "2 records of this conversation could not be read here: they were written by a newer term2."
NEWER_ONE = "1 record of this conversation could not be read here: it was written by a newer term2."


def test_records_that_could_not_be_read_are_said_in_their_place_neighbours_together():
    events = [
        ev.RecordsLost(1, 1, 0),
        U,
        text("m", "a"),
        ev.RecordsLost(4, 1000, 0),
        ev.RecordsLost(1004, 2, 0),
        announced(A),
        ev.RecordsLost(2000, 1, 1),
        done(A, "r"),
        ev.RecordsLost(2002, 0, 2),
        IDLE,
        ev.RecordsLost(2005, 0, 1),
    ]
    expected = [
        ours("lost_1", ONE),
        U,
        ev.AgentMessage(MessageId("m"), "a"),
        ours("lost_4", MANY),
        whole(A, "r"),
        ours("lost_2000", f"{ONE} {NEWER_ONE}"),
        ours("lost_2002", NEWER),
        ours("lost_2005", NEWER_ONE),
    ]
    assert replay(*events) == expected
    assert replay(*events, step=1) == expected


def test_what_can_change_no_more_is_shown_at_once():
    fold = Replay()
    pieces = [
        [U, text("m", "a")],
        [text("n", "b")],
        [ev.RecordsLost(4, 1, 0)],
        [announced(A)],
        [done(A, "r")],
    ]
    assert [[type(event) for event in fold.feed(piece)] for piece in pieces] == [
        [ev.UserMessage],
        [ev.AgentMessage],
        [],  # the message may go on behind the gap
        [ev.AgentMessage, ev.AgentMessage],
        [ToolCallUpdate],
    ]


def test_a_message_with_a_gap_stays_one_and_shows_where_it_is():
    gap = [text("m", "a"), ev.RecordsLost(3, 1, 0), ev.RecordsLost(4, 1, 0), text("m", "b"), text("m", "c")]
    said, lost, *rest = replay(U, *gap, text("n", "d"), IDLE, step=1)[1:]
    assert said == ev.AgentMessage(MessageId("m"), "a [...] bc")
    assert lost.message_id == "lost_3"
    assert rest == [ev.AgentMessage(MessageId("n"), "d")]
    # With nothing of it behind the gap there is no gap in it; a thought behind it is no part of it.
    thought = ev.AgentThoughtChunk(MessageId("m"), "x")
    assert replay(U, *gap[:2], thought, IDLE)[1::2] == [
        ev.AgentMessage(MessageId("m"), "a"),
        ev.AgentThought(MessageId("m"), "x"),
    ]


def test_what_ended_unread_is_not_said_to_have_been_cut_off_by_term2():
    assert replay(U, text("m", "a"), ev.RecordsLost(3, 4, 0))[-1] == ours("u1_interrupted", UNREADABLE)
    second = ev.UserMessage(MessageId("u2"), (Text("again"),))
    assert replay(U, ev.RecordsLost(2, 4, 0), second)[2:] == [
        ours("u1_interrupted", UNREADABLE),
        second,
        ours("u2_interrupted", INTERRUPTED),
    ]


def test_an_interrupted_turn_is_told_before_the_next_prompt():
    second = ev.UserMessage(MessageId("u2"), (Text("again"),))
    assert [type(event) for event in replay(U, second, IDLE)] == [
        ev.UserMessage,
        ev.AgentMessage,
        ev.UserMessage,
    ]


def test_plan_title_and_our_own_sentence_stay_in_their_place():
    plan = ev.PlanUpdate(PlanId("plan"), ())
    title = ev.SessionInfoUpdate("go", "2026-01-01T00:00:00.000Z")
    ours = ev.AgentMessage(MessageId("e"), "The server is down.", spoken_by_model=False)
    assert replay(U, title, text("m", "x"), plan, ours, ev.Idle(StopReason.ERROR)) == [
        U,
        title,
        ev.AgentMessage(MessageId("m"), "x"),
        plan,
        ours,
    ]


def test_of_the_usage_the_last_is_shown_at_the_end_and_no_idle_is():
    first, last = ev.UsageUpdate(1, 2, 10), ev.UsageUpdate(3, 4, 30)
    took = ev.Idle(StopReason.END_TURN, usage=TurnUsage(1, 1, Usage(1, 2), 10))
    second = ev.UserMessage(MessageId("u2"), (Text("again"),))
    events = [U, text("m", "x"), first, text("n", "y"), took, second, last, text("o", "z")]
    expected = [
        U,
        ev.AgentMessage(MessageId("m"), "x"),
        ev.AgentMessage(MessageId("n"), "y"),
        second,
        ev.AgentMessage(MessageId("o"), "z"),
        ev.AgentMessage(MessageId("u2_interrupted"), INTERRUPTED, spoken_by_model=False),
        last,
    ]
    assert replay(*events) == expected
    assert replay(*events, step=1) == expected


T = TerminalId("t1")
BEGINS = ev.TerminalUpdate(T, "make", "/w")


def test_a_terminal_is_one_snapshot_of_what_was_shown():
    ran = [BEGINS, ev.TerminalOutput(T, b"\xe2"), ev.TerminalOutput(T, b"\x82\xac\n")]
    ended = ev.TerminalUpdate(T, exit_status=ev.ExitStatus(2))
    call = ToolCallUpdate(A, content=(Terminal(T),))
    shown = replay(U, announced(A), call, *ran, ended, done(A, "r"), IDLE, step=1)
    assert shown[2] == ev.TerminalUpdate(T, "make", "/w", "€\n".encode(), ev.ExitStatus(2))
    # A snapshot replaces what came before it; what comes after an exit status is nobody's.
    cut = ev.TerminalUpdate(T, output=b"head ... tail", exit_status=ev.ExitStatus(0))
    late = ev.TerminalOutput(T, b"late")
    assert replay(U, *ran, cut, late, IDLE)[1] == ev.TerminalUpdate(
        T, "make", "/w", b"head ... tail", ev.ExitStatus(0)
    )


def test_a_terminal_that_never_ended_did_so_with_term2():
    shown = replay(U, announced(A), BEGINS, ev.TerminalOutput(T, b"x"))
    assert shown[2] == ev.TerminalUpdate(T, "make", "/w", b"x", ev.ExitStatus())
    assert replay(U, ev.TerminalOutput(T, b"its beginning is lost"), IDLE) == [U]


K, L = CompactionId("k"), CompactionId("l")
COMPACTS = ev.CompactionUpdate(K, ev.CompactionStatus.IN_PROGRESS)
COMPACTED = ev.CompactionUpdate(K, ev.CompactionStatus.COMPLETED, "s")


def test_a_compaction_is_shown_once_with_its_end_and_hides_nothing():
    failed = ev.CompactionUpdate(L, ev.CompactionStatus.FAILED, error="why")
    begun = ev.CompactionUpdate(L, ev.CompactionStatus.IN_PROGRESS)
    kept_only = [ev.ReplyEnded("p", "m"), ev.OptionChosen(OptionId.MODE, "plan")]
    events = [U, text("m", "x"), COMPACTS, *kept_only, COMPACTED, begun, failed, text("m", "y"), IDLE]
    expected = [
        U,
        ev.AgentMessage(MessageId("m"), "x"),
        COMPACTED,
        failed,
        ev.AgentMessage(MessageId("m"), "y"),
    ]
    assert replay(*events) == expected
    assert replay(*events, step=1) == expected
    late = ev.CompactionUpdate(K, ev.CompactionStatus.FAILED, error="late")
    assert replay(U, COMPACTS, COMPACTED, late, IDLE, step=1) == [U, COMPACTED], "the first end counts"


def test_a_compaction_that_never_ended_did_so_with_term2():
    broken = ev.CompactionUpdate(K, ev.CompactionStatus.FAILED, error=NOT_COMPACTED)
    assert replay(U, COMPACTS)[1] == broken
    assert replay(U, COMPACTS, IDLE) == [U, broken]


_EVENTS = st.lists(
    st.one_of(
        st.just(U),
        st.builds(text, st.sampled_from(["m1", "m2"]), st.text(alphabet="ab", min_size=1, max_size=2)),
        st.sampled_from([announced(A), announced(B), done(A, "a"), done(B, "b")]),
        st.sampled_from(
            [BEGINS, ev.TerminalOutput(T, b"o"), ev.TerminalUpdate(T, exit_status=ev.ExitStatus(1))]
        ),
        st.sampled_from([COMPACTS, COMPACTED]),
        st.sampled_from([ev.RecordsLost(1, 1, 0), ev.RecordsLost(2, 0, 1)]),
        st.just(IDLE),
    ),
    max_size=25,
)


@given(_EVENTS, st.integers(1, 5))
def test_any_prefix_read_in_any_pieces_is_shown_the_same_and_whole(events, step):
    shown = replay(*events)
    assert replay(*events, step=step) == shown
    for event in shown:
        assert not isinstance(event, ev.AgentMessageChunk | ev.TerminalOutput)
        if isinstance(event, ev.TerminalUpdate):
            assert event.exit_status is not None
        if isinstance(event, ToolCallUpdate):
            assert event.status is not None
            assert event.status.final
        if isinstance(event, ev.CompactionUpdate):
            assert event.status is not ev.CompactionStatus.IN_PROGRESS
    said = "".join(event.text for event in events if isinstance(event, ev.AgentMessageChunk))
    told = "".join(
        event.text for event in shown if isinstance(event, ev.AgentMessage) and event.spoken_by_model
    )
    assert told.replace(GAP, "") == said
