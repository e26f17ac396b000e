"""What closes a turn that was cut off, as a pure fold: at every place where it can be cut, with every word
that there is for a call, with records that cannot be read, and over any sequence of events at all."""

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.agent.told import LOOK_FIRST, OUTCOME_UNKNOWN
from term2_acp.agent.transcript import Transcript
from term2_acp.domain import events as ev
from term2_acp.domain.content import Terminal, Text
from term2_acp.domain.ids import CompactionId, MessageId, TerminalId, ToolCallId
from term2_acp.domain.options import OptionId
from term2_acp.domain.toolcall import DecidedBy, Effect, FileDigests, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.providers.base import AssistantSaid, ToolAnswered
from term2_acp.session.outcome import MADE, NOT_MADE, NOT_RUN, RESULT_LOST, Files
from term2_acp.session.recovery import INTERRUPTED, NOT_COMPACTED, UNREADABLE, Recovery
from term2_acp.session.replay import Replay

READ, EDIT, SHELL, CODE, NESTED, LATE = (
    ToolCallId(f"call_{name}") for name in ("read", "edit", "shell", "code", "nested", "late")
)
TERM, COMP = TerminalId("term_1"), CompactionId("comp_1")
X = FileDigests("/w/x", "b" * 64, "a" * 64)
NEW = FileDigests("/w/new", None, "c" * 64)
GONE = FileDigests("/w/gone", "d" * 64, None)


def prompt(name):
    return ev.UserMessage(MessageId(name), (Text("go"),))


def text(name, words):
    return ev.AgentMessageChunk(MessageId(name), words)


def asked(call, name="tool", parent=None):
    """The model, or a program, asks for a call."""
    shown = ToolCallUpdate(call, name, name, ToolKind.OTHER, ToolStatus.PENDING, raw_input={}, parent=parent)
    return [ev.ToolCallPrepared(call, name, "{}", "theirs", "0" * 64, parent), shown]


def allowed(call):
    return ev.ToolCallDecided(call, allowed=True, by=DecidedBy.PERSON, mode="standard", choice="approve")


def dispatched(call, *changes):
    return ev.ToolCallDispatched(call, changes)


def done(call, words="done"):
    ended = ToolCallUpdate(call, status=ToolStatus.COMPLETED, content=(Text(words),), raw_output={})
    return [ev.ToolCallSettled(call, Effect.COMMITTED, words, took_ms=3), ended]


def ended(reason=StopReason.END_TURN):
    return ev.Idle(reason)


REPLY = ev.ReplyEnded("lab", "m", None)
FIRST = prompt("u1")
LOST = ev.RecordsLost(7, 1, 0)
BEGUN = ev.TerminalUpdate(TERM, "make", "/w")

# A conversation with everything in it that a kill can cut.
SCRIPT = [
    FIRST,
    ev.SessionInfoUpdate("go", "2026-01-01T00:00:00.000Z"),
    ev.AgentThoughtChunk(MessageId("t1"), "hm"),
    text("m1", "I look, "),
    text("m1", "then edit."),
    *asked(READ),
    *asked(EDIT),
    REPLY,
    ev.UsageUpdate(10, 100),
    ev.Circumstances(MessageId("u1"), "editor 1", "{}", "0", 2, "lab", "m", "default", ("/w",)),
    allowed(READ),
    dispatched(READ),
    *done(READ),
    ToolCallUpdate(EDIT, content=(Text("diff"),)),
    allowed(EDIT),
    dispatched(EDIT, X),
    *done(EDIT),
    *asked(SHELL),
    *asked(CODE),
    REPLY,
    allowed(SHELL),
    dispatched(SHELL),
    ToolCallUpdate(SHELL, content=(Terminal(TERM),)),
    BEGUN,
    ev.TerminalOutput(TERM, b"so far"),
    ev.TerminalUpdate(TERM, exit_status=ev.ExitStatus(0)),
    *done(SHELL),
    allowed(CODE),
    dispatched(CODE),
    *asked(NESTED, parent=CODE),
    allowed(NESTED),
    dispatched(NESTED, NEW),
    *done(NESTED),
    *done(CODE),
    ev.CompactionUpdate(COMP, ev.CompactionStatus.IN_PROGRESS),
    REPLY,
    ev.CompactionUpdate(COMP, ev.CompactionStatus.COMPLETED, "all of it"),
    text("m2", "That is all."),
    REPLY,
    ended(),
    prompt("u2"),
    text("m3", "More."),
    REPLY,
    ended(),
]


def recovery(events):
    found = Recovery()
    for event in events:
        found.see(event)
    return found


def closing(events, found=None, aside=None):
    return recovery(events).closing(Files(found or {}, aside or {}))


def replay(events):
    shown = Replay()
    return [*shown.feed(list(events)), *shown.end()]


def as_read(events):
    """The events as whoever reads them for a session takes them: with what closes turns in their midst."""
    found, read = Recovery(), []
    for event in events:
        read += [*found.see(event), event]
    return [*read, *found.closing()]


def told(events):
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
    return transcript.messages()


def require_well_paired(messages):
    """Every call of a reply is followed by its result, and nothing else has one."""
    owed = []
    for message in messages:
        if isinstance(message, ToolAnswered):
            assert message.call_id == owed.pop(0)
        else:
            assert owed == []
            owed = [call.call_id for call in message.calls] if isinstance(message, AssistantSaid) else []
    assert owed == []


def require_closed(events):
    """What holds of every journal whose end was written behind it."""
    end = closing(events)
    whole = [*events, *end]
    assert closing(whole) == [], "recovering twice writes nothing the second time"
    shown = replay(events)
    assert replay(whole) == shown
    for event in shown:
        if isinstance(event, ToolCallUpdate):
            assert event.status is not None
            assert event.status.final
        elif isinstance(event, ev.TerminalUpdate):
            assert event.exit_status is not None
        elif isinstance(event, ev.CompactionUpdate):
            assert event.status is not ev.CompactionStatus.IN_PROGRESS
    require_well_paired(told(as_read(events)))
    return whole


@pytest.mark.parametrize("length", range(1, len(SCRIPT) + 1))
def test_a_conversation_that_is_cut_at_any_place_is_whole_again(length):
    events = SCRIPT[:length]
    whole = require_closed(events)
    assert whole[:length] == events
    kinds = [type(event) for event in whole]
    assert kinds.count(ev.Idle) == kinds.count(ev.UserMessage), "one idle a turn"
    cut = not isinstance(events[-1], ev.Idle)
    if cut:
        last = MessageId(f"{'u2' if prompt('u2') in events else 'u1'}_interrupted")
        assert whole[-2:] == [
            ev.AgentMessage(last, INTERRUPTED, spoken_by_model=False),
            ev.Idle(StopReason.ERROR, Failure("interrupted", INTERRUPTED)),
        ]
    settled = [event.tool_call_id for event in whole if isinstance(event, ev.ToolCallSettled)]
    prepared = [event.tool_call_id for event in events if isinstance(event, ev.ToolCallPrepared)]
    assert sorted(settled) == sorted(prepared), "each call settles once"


def cut_after(event):
    return SCRIPT[: SCRIPT.index(event) + 1]


def results(events):
    """What became of the calls, as the model is told and as the person is shown, by their ids."""
    model = {}
    for event in events:
        if isinstance(event, ev.ToolCallSettled):
            model.setdefault(event.tool_call_id, (event.effect, event.result))
    shown = {event.tool_call_id: event for event in replay(events) if isinstance(event, ToolCallUpdate)}
    for call, (effect, words) in model.items():
        if words == "done":
            continue
        assert shown[call].raw_output["effect"] == effect
        assert words in shown[call].raw_output.values()
        committed = effect is Effect.COMMITTED
        assert (shown[call].status is ToolStatus.COMPLETED) is committed
        places = (Terminal(TERM),) if call == SHELL and BEGUN in events else ()
        assert committed or shown[call].content == (*places, Text(words))
    return model


UNKNOWN = Effect.OUTCOME_UNKNOWN, OUTCOME_UNKNOWN
UNRUN = Effect.FAILED, NOT_RUN
RAN = Effect.COMMITTED, "done"


def unknown_after(made):
    """The end of a program that had made a call."""
    words = OUTCOME_UNKNOWN.replace(LOOK_FIRST, f"Its program had made these calls: {made}. {LOOK_FIRST}")
    return Effect.OUTCOME_UNKNOWN, words


NESTED_LOST, NESTED_RAN = unknown_after("tool (outcome_unknown)"), unknown_after("tool (committed)")


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (allowed(READ), {READ: UNRUN, EDIT: UNRUN}),
        (allowed(EDIT), {READ: RAN, EDIT: UNRUN}),
        (dispatched(EDIT, X), {READ: RAN, EDIT: UNKNOWN}),
        (ev.TerminalOutput(TERM, b"so far"), {READ: RAN, EDIT: RAN, SHELL: UNKNOWN, CODE: UNRUN}),
        (allowed(NESTED), {READ: RAN, EDIT: RAN, SHELL: RAN, CODE: UNKNOWN, NESTED: UNRUN}),
        (dispatched(NESTED, NEW), {READ: RAN, EDIT: RAN, SHELL: RAN, CODE: NESTED_LOST, NESTED: UNKNOWN}),
        (done(NESTED)[1], {READ: RAN, EDIT: RAN, SHELL: RAN, CODE: NESTED_RAN, NESTED: RAN}),
    ],
)
def test_what_was_dispatched_is_unknown_and_what_was_not_had_no_effect(last, expected):
    events = cut_after(last)
    whole = [*events, *closing(events)]
    assert results(whole) == expected
    answered = {message.call_id: message for message in told(whole) if isinstance(message, ToolAnswered)}
    of_the_model = {call: (effect, words) for call, (effect, words) in expected.items() if call != NESTED}
    assert {call: message.result for call, message in answered.items()} == {
        call: words for call, (_effect, words) in of_the_model.items()
    }
    assert {call for call, message in answered.items() if message.failed} == {
        call for call, (effect, _words) in of_the_model.items() if effect is not Effect.COMMITTED
    }


def test_terminals_and_compactions_end_with_term2():
    running = cut_after(ev.TerminalOutput(TERM, b"so far"))
    assert closing(running)[0] == ev.TerminalUpdate(TERM, exit_status=ev.ExitStatus())
    compacting = cut_after(ev.CompactionUpdate(COMP, ev.CompactionStatus.IN_PROGRESS))
    assert closing(compacting)[0] == ev.CompactionUpdate(
        COMP, ev.CompactionStatus.FAILED, error=NOT_COMPACTED
    )
    assert told([*compacting, *closing(compacting)]) == told(compacting)


@pytest.mark.parametrize(
    ("last", "places"),
    [
        (dispatched(SHELL), ()),
        (ToolCallUpdate(SHELL, content=(Terminal(TERM),)), ()),  # its terminal was never shown
        (BEGUN, (Terminal(TERM),)),
        (ev.TerminalOutput(TERM, b"so far"), (Terminal(TERM),)),
        (ev.TerminalUpdate(TERM, exit_status=ev.ExitStatus(0)), (Terminal(TERM),)),
    ],
)
def test_the_terminal_of_a_command_that_was_cut_off_stays_in_its_call(last, places):
    calls = [event for event in replay(cut_after(last)) if isinstance(event, ToolCallUpdate)]
    (shown,) = (call for call in calls if call.tool_call_id == SHELL)
    assert shown.content == (*places, Text(OUTCOME_UNKNOWN))


# -- what files tell -------------------------------------------------------------------------------

EDITING = [FIRST, *asked(EDIT), REPLY, allowed(EDIT), dispatched(EDIT, X, NEW, GONE)]
AFTER = {X.path: X.after, NEW.path: NEW.after, GONE.path: GONE.after}
BEFORE = {X.path: X.before, NEW.path: NEW.before, GONE.path: GONE.before}


def judged(changes, found, lost=(), aside=None):
    events = [*EDITING[:-1], dispatched(EDIT, *changes), *lost]
    assert list(recovery(events).open_changes()) == ([(EDIT, tuple(changes))] if changes else [])
    whole = [*events, *closing(events, found, aside)]
    assert closing(whole) == []
    return results(whole)[EDIT]


def test_files_settle_a_change_of_files():
    assert judged((X, NEW, GONE), AFTER) == (Effect.COMMITTED, MADE)
    assert judged((X, NEW, GONE), BEFORE) == (Effect.FAILED, NOT_MADE)
    assert judged((X, NEW, GONE), {}) == UNKNOWN
    assert judged((), AFTER) == UNKNOWN
    assert judged((X, NEW, GONE), AFTER, [LOST]) == (Effect.COMMITTED, MADE), "the disk says it"
    assert "was made" in MADE
    assert "had no effect" in NOT_MADE


def test_files_that_tell_different_things_are_each_said_to_be_as_they_are():
    lost = FileDigests("/w/lost", None, "e" * 64)
    there = FileDigests("/w/there", "1" * 64, "2" * 64)
    unlike = FileDigests("/w/unlike", "3" * 64, "4" * 64)
    found = {**AFTER, NEW.path: None, there.path: None, unlike.path: "5" * 64}
    words = (
        "Its files after the restart: /w/x is as the call was to leave it. /w/new is as it was before. "
        "/w/lost could not be looked at. /w/there does not exist. "
        "/w/unlike holds neither what it did before nor what it was to hold. "
        "It may or may not have had its effect; look before you repeat it."
    )
    effect, said = judged((X, NEW, lost, there, unlike), found)
    assert effect is Effect.OUTCOME_UNKNOWN
    assert said == f"outcome_unknown: term2 stopped before the end of this call was recorded. {words}"
    effect, said = judged((X, NEW, lost, there, unlike), found, [LOST])
    assert said.startswith("outcome_unknown: a part of the record of this turn cannot be read")
    assert said.endswith(words)
    many = [FileDigests(f"/w/{number}", "1" * 64, "2" * 64) for number in range(100)]
    _effect, said = judged(many, {"/w/0": "2" * 64})
    assert said.endswith(
        "There are 80 more. It may or may not have had its effect; look before you repeat it."
    )


def test_where_what_a_file_held_was_put_aside_is_said_where_that_is_needed():
    aside = {X.path: "/w/.x", NEW.path: "/w/.new"}
    _effect, said = judged((X, NEW), {X.path: X.after, NEW.path: None}, aside={X.path: "/w/.x"})
    assert "/w/x is as the call was to leave it. What it held before is in /w/.x. /w/new is as" in said
    assert judged((X, NEW), {X.path: X.after, NEW.path: NEW.after}, aside=aside) == (Effect.COMMITTED, MADE)
    assert judged((X, NEW), {X.path: X.before, NEW.path: None}, aside=aside) == (Effect.FAILED, NOT_MADE)


def test_what_was_put_aside_is_told_of_whatever_else_is_known():
    _effect, said = judged((X,), {}, aside={X.path: "/w/.x"})
    assert "/w/x could not be looked at. What it held before is in /w/.x." in said
    many = [FileDigests(f"/w/{number}", "1" * 64, "2" * 64) for number in range(100)]
    aside = {f"/w/{number}": f"/w/.{number}" for number in (19, 20, 99)}
    _effect, said = judged(many, {"/w/0": "2" * 64}, aside=aside)
    assert "What it held before is in /w/.19. There are 80 more; what 2 of them held before is in `" in said


@pytest.mark.parametrize("parents", [(CODE, None), (NESTED, CODE)], ids=["its own", "each other's"])
def test_calls_that_are_said_to_have_made_themselves_end_all_the_same(parents):
    own, other = parents
    events = [FIRST, *asked(CODE, "run_code", own), *asked(NESTED, "nested", other), REPLY]
    ends = closing([*events, dispatched(CODE), dispatched(NESTED)])
    effects = [event.effect for event in ends if isinstance(event, ev.ToolCallSettled)]
    assert effects == [Effect.OUTCOME_UNKNOWN] * 2


def nested(call, title, kind):
    """A program asks for a call."""
    shown = ToolCallUpdate(call, title, "tool", kind, ToolStatus.PENDING, raw_input={}, parent=CODE)
    return [ev.ToolCallPrepared(call, "tool", "{}", "theirs", "0" * 64, CODE), shown]


def test_of_a_program_whose_outcome_is_unknown_its_calls_are_told():
    program = [FIRST, *asked(CODE, "run_code"), REPLY, dispatched(CODE)]
    look = "It may or may not have had its effect; look before you repeat it."
    assert results([*program, *closing(program)])[CODE][1].endswith(f"was recorded. {look}")
    refused = ev.ToolCallSettled(LATE, Effect.FAILED, "no", failed=True)
    events = [
        *program,
        *[*nested(READ, "Read a", ToolKind.READ), dispatched(READ), *done(READ)],
        *[*nested(EDIT, "Edit a", ToolKind.EDIT), dispatched(EDIT, X), *done(EDIT)],
        *[*nested(LATE, "Edit b", ToolKind.EDIT), refused],
        *[*nested(NESTED, "Edit c", ToolKind.EDIT), dispatched(NESTED, GONE)],
    ]
    told_of = "Its program had made these calls: Edit a (committed)"
    for found, also in (
        ({}, ", Edit c (outcome_unknown)"),
        ({GONE.path: None}, ", Edit c (committed)"),
        (
            {GONE.path: GONE.before},
            "",
        ),
    ):
        effect, words = results([*events, *closing(events, found)])[CODE]
        assert effect is Effect.OUTCOME_UNKNOWN
        assert words.endswith(f"was recorded. {told_of}{also}. {look}")
    many = [*program]
    for number in range(25):
        call = ToolCallId(f"call_{number}")
        many += [*nested(call, f"Edit {number}", ToolKind.EDIT), dispatched(call), *done(call)]
    words = results([*many, *closing(many)])[CODE][1]
    assert words.endswith(f"Edit 19 (committed), and 5 more. {look}")
    # Another turn knows nothing of it.
    assert closing([*events, ended(), *done(NESTED)]) == []


def test_a_file_that_was_to_stay_as_it_is_tells_nothing_by_itself():
    same = FileDigests("/w/same", "f" * 64, "f" * 64)
    assert judged((same,), {same.path: "f" * 64})[0] is Effect.OUTCOME_UNKNOWN
    assert judged((same, X), {same.path: "f" * 64, X.path: X.after})[0] is Effect.COMMITTED
    assert judged((same, X), {same.path: None, X.path: X.after})[0] is Effect.OUTCOME_UNKNOWN


# -- what cannot be read ---------------------------------------------------------------------------


def test_where_records_are_lost_whatever_is_not_settled_is_unknown():
    events = [FIRST, *asked(READ), *asked(EDIT), LOST, *done(READ)]
    whole = require_closed(events)
    effect, words = results(whole)[EDIT]
    assert effect is Effect.OUTCOME_UNKNOWN
    assert words.startswith("outcome_unknown: a part of the record of this turn cannot be read")
    assert whole[-1] == ev.Idle(StopReason.ERROR, Failure("interrupted", UNREADABLE))
    # Of the next turn nothing is lost.
    later = [*whole, prompt("u2"), *asked(LATE)]
    assert results([*later, *closing(later)])[LATE] == UNRUN


def test_the_first_end_of_a_call_stands_and_one_that_was_shown_to_be_made_was_made():
    events = [FIRST, *asked(EDIT), REPLY, dispatched(EDIT), LOST, done(EDIT)[1]]
    settled, *rest = closing(events)
    assert settled == ev.ToolCallSettled(EDIT, Effect.COMMITTED, RESULT_LOST)
    assert [type(event) for event in rest] == [ev.AgentMessage, ev.Idle], "its end was shown"
    late = ev.ToolCallSettled(EDIT, Effect.FAILED, "late")
    twice = [*events, *done(EDIT, "first"), late]
    assert closing(twice)[0] == ev.AgentMessage(
        MessageId("u1_interrupted"), UNREADABLE, spoken_by_model=False
    )
    assert told(twice)[-1].result == "first"
    half = [FIRST, *asked(EDIT), REPLY, dispatched(EDIT, X), done(EDIT, "first")[0]]
    assert recovery(half).open_changes() == []
    assert closing([*half, late])[0].raw_output == {"note": "first", "effect": "committed"}
    over = [FIRST, *asked(EDIT), REPLY, *done(EDIT), dispatched(EDIT, X)]
    assert recovery(over).open_changes() == []
    # A call whose announcement is lost is shown to nobody, and its settlement is owed nobody.
    unseen = ToolCallUpdate(LATE, status=ToolStatus.COMPLETED)
    assert [type(event) for event in closing([FIRST, LOST, unseen])] == [ev.AgentMessage, ev.Idle]
    prepared, announced = asked(EDIT)
    require_closed([FIRST, prepared, done(EDIT)[1], announced])
    settled, *rest = closing([FIRST, prepared])
    assert (settled.effect, settled.result) == UNRUN
    assert [type(event) for event in rest] == [ev.AgentMessage, ev.Idle]


# -- turns that nobody closed ----------------------------------------------------------------------


def test_a_turn_in_the_midst_is_closed_at_every_reading():
    first = [FIRST, *asked(EDIT), REPLY, dispatched(EDIT)]
    second = [prompt("u2"), *asked(READ), REPLY, ended(StopReason.CANCELLED)]
    fold = Recovery()
    before = [list(fold.see(event)) for event in [*first, *second]]
    assert before[: len(first)] == [[]] * len(first)
    assert before[len(first)] == closing(first)
    settled, update = before[-1]
    assert (settled.effect, settled.result, update.status) == (*UNRUN, ToolStatus.FAILED)
    assert fold.closing() == [], "the second has its idle"
    assert replay([*first, *second]) == replay([*first, *closing(first), *second])
    messages = told(as_read([*first, *second]))
    assert [one.result for one in messages if isinstance(one, ToolAnswered)] == [OUTCOME_UNKNOWN, NOT_RUN]


_ONE = st.sampled_from([READ, EDIT, NESTED])
_EVENTS = st.lists(
    st.one_of(
        st.sampled_from([FIRST, prompt("u2"), ended(), REPLY, LOST, ev.RecordsLost(9, 0, 2)]),
        st.sampled_from([text("m1", "a"), text("m2", "b"), ev.OptionChosen(OptionId.MODE, "plan")]),
        _ONE.map(lambda call: asked(call)[0]),
        _ONE.map(lambda call: asked(call)[1]),
        _ONE.map(lambda call: dispatched(call, X)),
        _ONE.map(lambda call: done(call)[0]),
        _ONE.map(lambda call: done(call)[1]),
        st.sampled_from([ev.TerminalUpdate(TERM, "make", "/w"), ev.TerminalOutput(TERM, b"x")]),
        st.just(ev.TerminalUpdate(TERM, exit_status=ev.ExitStatus(1))),
        st.sampled_from(
            [ev.CompactionUpdate(COMP, status, "s", None) for status in ev.CompactionStatus],
        ),
    ),
    max_size=25,
)


@settings(max_examples=60)
@given(_EVENTS, st.sampled_from([{}, {X.path: X.after}, {X.path: X.before}, {X.path: None}]))
def test_any_journal_at_all_is_whole_behind_its_end(events, found):
    require_closed(events)
    whole = [*events, *closing(events, found)]
    assert closing(whole) == []
    ids = [attrs.asdict(event, recurse=False).get("message_id") for event in replay(events)]
    assert [attrs.asdict(event, recurse=False).get("message_id") for event in replay(whole)] == ids
    open_calls = dict(recovery(events).open_changes())
    settled = [event for event in whole[len(events) :] if isinstance(event, ev.ToolCallSettled)]
    assert set(open_calls) <= {event.tool_call_id for event in settled}
