"""The replay fold: whole messages and calls with their ids, in order of appearance, and nothing left open."""

from hypothesis import given
from hypothesis import strategies as st

from term2_acp.domain import events as ev
from term2_acp.domain.content import Change, Diff, Operation, Terminal, Text
from term2_acp.domain.ids import CompactionId, MessageId, PlanId, TerminalId, ToolCallId
from term2_acp.domain.options import OptionId
from term2_acp.domain.toolcall import Effect, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import StopReason
from term2_acp.domain.usage import TurnUsage, Usage
from term2_acp.session.replay import INTERRUPTED, NOT_COMPACTED, UNKNOWN, Replay

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


def test_a_call_that_never_settled_and_its_turn_are_said_to_be():
    shown = replay(U, text("m1", "I edit"), announced(A))
    assert shown[:2] == [U, ev.AgentMessage(MessageId("m1"), "I edit")]
    assert shown[2].status is ToolStatus.FAILED
    assert shown[2].content == (Text(UNKNOWN),)
    assert shown[2].raw_output["effect"] == "outcome_unknown"
    assert shown[3] == ev.AgentMessage(MessageId("u1_interrupted"), INTERRUPTED, spoken_by_model=False)


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
    assert told == said
