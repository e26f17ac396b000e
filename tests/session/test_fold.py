"""The folds over a journal, held to what must be true of any of them: whatever was read, and wherever a
journal ends, the history that a model is told is well paired, what a person is shown is whole and stands
there once, and the sums are sane. And what is read again is what was seen live. Turns that can happen are put
together from a few steps; sequences that cannot, from events of every kind with the same few ids."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace

import attrs
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.acp.v2.capabilities import FULL
from term2_acp.acp.v2.project import Projection
from term2_acp.agent import transcript
from term2_acp.agent.images import within_bounds
from term2_acp.domain import events as ev
from term2_acp.domain.content import Change, Diff, FileTexts, Image, Operation, ResourceLink, Terminal, Text
from term2_acp.domain.ids import CompactionId, MessageId, PlanId, SessionId, TerminalId, ToolCallId
from term2_acp.domain.options import Mode, OptionId
from term2_acp.domain.plan import PlanEntry, PlanPriority, PlanStatus
from term2_acp.domain.toolcall import DecidedBy, Effect, FileDigests, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.domain.usage import TurnUsage, Usage
from term2_acp.providers.base import AssistantSaid, Message, ToolAnswered
from term2_acp.session.history import History
from term2_acp.session.recovery import Recovery
from term2_acp.session.replay import Replay
from term2_acp.store.rows import RowCodec
from tests.kit.fold import fold

CODEC = RowCodec()
FAILURE = Failure("provider_overloaded", "The server is full.")
TOKENS = Usage(1000, 20)

Events = list[ev.Event]

# -- turns that can happen -------------------------------------------------------------------------------

PENDING, COMPLETED, FAILED = ToolStatus.PENDING, ToolStatus.COMPLETED, ToolStatus.FAILED


def text(n: int) -> Events:
    return [ev.AgentMessageChunk(MessageId(f"m{n}"), words) for words in (f"said {n} ", "in ", "pieces")]


def thought(n: int) -> Events:
    return [ev.AgentThoughtChunk(MessageId(f"t{n}"), words) for words in ("hm", f" {n}")]


def asked(n: int, name: str, kind: ToolKind, **more: object) -> Events:
    """The model asks for a call, and the person sees it."""
    call = ToolCallId(f"c{n}")
    return [
        ev.ToolCallPrepared(call, name, "{}", "theirs", "0" * 64),
        ToolCallUpdate(call, f"{name} {n}", name, kind, PENDING, raw_input={"n": n}, **more),
    ]


def decided(n: int, *, allowed: bool = True, changes: tuple[FileDigests, ...] = ()) -> Events:
    call = ToolCallId(f"c{n}")
    if not allowed:
        return [ev.ToolCallDecided(call, False, DecidedBy.PERSON, "standard", reason="no")]
    return [
        ev.ToolCallDecided(call, True, DecidedBy.POLICY, "standard"),
        ev.ToolCallDispatched(call, changes),
        ev.ToolCallBegan(call),
    ]


def settled(n: int, status: ToolStatus = COMPLETED, *, content: tuple | None = None) -> Events:
    call = ToolCallId(f"c{n}")
    effect = Effect.COMMITTED if status is COMPLETED else Effect.FAILED
    return [
        ev.ToolCallSettled(call, effect, f"result {n}", took_ms=1),
        ToolCallUpdate(call, status=status, content=content, raw_output={"n": n}),
    ]


def read(n: int) -> Events:
    return [*asked(n, "read_file", ToolKind.READ), *decided(n), *settled(n, content=(Text("lines"),))]


def edited(n: int) -> Events:
    changes = (Change(Operation.MODIFY, "/w/a"),)
    diff = Diff(changes, f"patch {n}", (FileTexts("/w/a", "old", "new"),))
    digests = (FileDigests("/w/a", "0" * 64, "1" * 64),)
    shown = ToolCallUpdate(ToolCallId(f"c{n}"), content=(diff,))
    return [*asked(n, "edit", ToolKind.EDIT), shown, *decided(n, changes=digests), *settled(n)]


def refused(n: int) -> Events:
    ask: Events = [ev.RequiresAction(), ev.Running()]
    why = (Text("The person refused this."),)
    return [
        *asked(n, "edit", ToolKind.EDIT),
        *ask,
        *decided(n, allowed=False),
        *settled(n, FAILED, content=why),
    ]


def command(n: int, *, cut: bool = False) -> Events:
    terminal = TerminalId(f"x{n}")
    ran: Events = [ev.TerminalOutput(terminal, data) for data in (b"one\xe2", b"\x82\xac\n")]
    snapshot = b"head ... tail" if cut else None
    ended = ev.TerminalUpdate(terminal, output=snapshot, exit_status=ev.ExitStatus(n % 3))
    begun = ev.TerminalUpdate(terminal, f"make {n}", "/w")
    shown = ToolCallUpdate(ToolCallId(f"c{n}"), content=(Terminal(terminal),))
    note = ev.ToolCallContentAdded(ToolCallId(f"c{n}"), Text("a note"))
    return [
        *asked(n, "shell", ToolKind.EXECUTE),
        shown,
        *decided(n),
        begun,
        *ran,
        note,
        ended,
        *settled(n),
    ]


def command_cut(n: int) -> Events:
    return command(n, cut=True)


def side_by_side(n: int) -> Events:
    """Two calls of one reply; the second ends first."""
    first, second = n, n + 1
    return [
        *asked(first, "read_file", ToolKind.READ),
        *asked(second, "grep", ToolKind.SEARCH),
        *decided(first),
        *decided(second),
        *settled(second),
        *settled(first, FAILED),
    ]


def nested(n: int) -> Events:
    """A program makes a call."""
    outer, inner = asked(n, "run_code", ToolKind.EXECUTE), asked(n + 1, "read_file", ToolKind.READ)
    parent = ToolCallId(f"c{n}")
    inner = [attrs.evolve(event, parent=parent) for event in inner]  # type: ignore[type-var]
    return [*outer, *decided(n), *inner, *decided(n + 1), *settled(n + 1), *settled(n)]


def planned(n: int) -> Events:
    return [
        ev.PlanUpdate(PlanId("plan"), (PlanEntry(f"do {n}", PlanPriority.HIGH, PlanStatus.PENDING),)),
    ]


def used(n: int) -> Events:
    return [ev.UsageUpdate(n, 100_000, n * 1000)]


def replied(n: int) -> Events:
    return [ev.ReplyEnded("lab", "sage", '{"sig":1}' if n % 2 else None, TOKENS, 1000)]


def compacted(n: int) -> Events:
    return _compaction(n, ev.CompactionStatus.COMPLETED, summary=f"sum {n}", kept=n % 4)


def not_compacted(n: int) -> Events:
    return _compaction(n, ev.CompactionStatus.FAILED, error="The server is full.")


def compaction_cancelled(n: int) -> Events:
    return _compaction(n, ev.CompactionStatus.CANCELLED)


def _compaction(n: int, status: ev.CompactionStatus, **end: object) -> Events:
    compaction = CompactionId(f"k{n}")
    begun = ev.CompactionUpdate(compaction, ev.CompactionStatus.IN_PROGRESS)
    return [*replied(n), begun, *replied(n), ev.CompactionUpdate(compaction, status, **end)]


def noticed(n: int) -> Events:
    return [ev.Notice(MessageId(f"n{n}"), ev.Severity.INFO, "The server is busy.")]


def mode_set(n: int) -> Events:
    return [ev.OptionChosen(OptionId.MODE, list(Mode)[n % 3])]


STEPS: tuple[Callable[[int], Events], ...] = (
    text,
    thought,
    read,
    edited,
    refused,
    command,
    command_cut,
    side_by_side,
    nested,
    planned,
    used,
    replied,
    compacted,
    not_compacted,
    compaction_cancelled,
    noticed,
    mode_set,
)


def well(n: int) -> Events:
    return [*replied(n), ev.Idle(StopReason.END_TURN, usage=TurnUsage(1, 1, TOKENS, 1000))]


def cancelled(n: int) -> Events:
    """In the midst of a call."""
    call, terminal = ToolCallId(f"c{n}"), TerminalId(f"x{n}")
    return [
        *asked(n, "shell", ToolKind.EXECUTE, content=(Terminal(terminal),)),
        *decided(n),
        ev.TerminalUpdate(terminal, "sleep", "/w"),
        ev.TerminalUpdate(terminal, exit_status=ev.ExitStatus(signal="SIGKILL")),
        ev.ToolCallSettled(call, Effect.FAILED, "stopped"),
        ToolCallUpdate(call, status=ToolStatus.CANCELLED, raw_output={"signal": "SIGKILL"}),
        ev.Idle(StopReason.CANCELLED),
    ]


def failed(n: int) -> Events:
    said = ev.AgentMessage(MessageId(f"e{n}"), FAILURE.message, spoken_by_model=False)
    return [*text(n), said, ev.Idle(StopReason.ERROR, FAILURE)]


def prompt(n: int, *, to_model: bool = True) -> Events:
    content = (Text(f"prompt {n}"), Image("image/png", "iVBO"), ResourceLink("a", "file:///w/a"))
    return [ev.UserMessage(MessageId(f"u{n}"), content, to_model), ev.Running()]


ENDS: tuple[Callable[[int], Events], ...] = (well, cancelled, failed)

_TURN = st.tuples(st.booleans(), st.lists(st.sampled_from(STEPS), max_size=6), st.sampled_from(ENDS))
CONVERSATIONS = st.lists(_TURN, max_size=4)


def held(turns: Iterable[tuple[bool, list[Callable[[int], Events]], Callable[[int], Events]]]) -> Events:
    """The events of a conversation of such turns, each thing in it with a number of its own."""
    numbers = itertools.count(0, 2)  # some steps make two things
    said: Events = []
    for to_model, steps, end in turns:
        said += prompt(next(numbers), to_model=to_model)
        if len(said) == 2:
            said.append(ev.SessionInfoUpdate("prompt 0", "2026-11-30T10:00:00.000Z"))
        for step in (*steps, end):
            said += step(next(numbers))
    return said


# -- sequences that cannot ---------------------------------------------------------------------------------

LOST = [ev.RecordsLost(7, 1, 0), ev.RecordsLost(8, 0, 2)]
POOL: Events = [
    *LOST,
    *itertools.chain.from_iterable(
        # The same few ids, so that ends come before beginnings, twice, and for things of another kind.
        step(n)
        for n in (0, 1)
        for step in (*STEPS, *ENDS, prompt)
    ),
]
assert {type(event) for event in POOL} >= set(ev.Event.__args__) - {
    ev.Circumstances,
    ev.AgentThought,
    ev.OptionsUpdate,
    ev.SessionInfoUpdate,
}
GARBAGE = st.lists(st.sampled_from(POOL), max_size=40)

# -- the folds ---------------------------------------------------------------------------------------------


def through_rows(events: Iterable[ev.Event]) -> Events:
    """What a journal gives back."""
    return [CODEC.from_row(row.version, row.kind, row.body) for row in CODEC.to_rows(events)]


def read_into(history: History, events: Iterable[ev.Event]) -> History:
    for event in events:
        history.read(event)
    return history


def empty() -> History:
    return History(SimpleNamespace(offers=None), "title")  # type: ignore[arg-type]


def known(history: History) -> tuple[object, ...]:
    """All that a history tells anyone."""
    meter = history.meter
    return history.transcript.messages(), meter.taken, meter.cost_pico_usd, meter.shown, history.options.mode


def replayed(events: Sequence[ev.Event], step: int = 1000) -> Events:
    replay = Replay()
    shown: Events = []
    for start in range(0, len(events), step):
        shown += replay.feed(events[start : start + step])
    return shown + replay.end()


def closing(events: Iterable[ev.Event]) -> Events:
    """What ends the turn that was cut off at the end of these events."""
    recovery = Recovery()
    for event in events:
        recovery.see(event)
    return recovery.closing()


def screen(events: Iterable[ev.Event]) -> dict:
    """What a client that is shown the events has before it."""
    projection = Projection(SessionId("s"), advertised=FULL)
    frames = [frame for event in events for frame in projection.to_wire(event)]
    return fold(json.loads(frame)["params"]["update"] for frame in frames)


# -- what is true of any of them ---------------------------------------------------------------------------


def assert_paired(messages: Sequence[Message]) -> None:
    """Every call has its one result, in order, and right behind it; nothing is empty."""
    open_calls: list[str] = []
    for message in messages:
        if isinstance(message, ToolAnswered):
            assert message.call_id == open_calls.pop(0)
            continue
        assert open_calls == []
        if isinstance(message, AssistantSaid):
            assert message.text or message.calls
            open_calls = [call.call_id for call in message.calls]
    assert open_calls == []


def assert_sane(history: History) -> None:
    assert_paired(history.transcript.messages())
    taken = history.meter.taken
    assert taken.model_calls >= taken.counted_calls >= 0
    assert history.meter.cost_pico_usd is None or history.meter.cost_pico_usd >= 0
    assert history.options.mode in Mode


def assert_whole(shown: Iterable[ev.Event]) -> None:
    """Nothing is under way, and nothing comes in pieces."""
    for event in shown:
        assert type(event) not in ev.KEPT_ONLY | ev.NEVER_KEPT | {ev.Idle}
        assert not isinstance(
            event,
            ev.AgentMessageChunk | ev.AgentThoughtChunk | ev.TerminalOutput | ev.ToolCallContentAdded,
        )
        if isinstance(event, ToolCallUpdate):
            assert event.name is not None
            assert event.status is not None
            assert event.status.final
        if isinstance(event, ev.TerminalUpdate):
            assert (event.command is None, event.exit_status is None) == (False, False)
        if isinstance(event, ev.CompactionUpdate):
            assert event.status is not ev.CompactionStatus.IN_PROGRESS


def ids(events: Iterable[ev.Event]) -> Counter[tuple[str, str]]:
    """How often each thing is there, by what it is and its id."""
    names = ("message_id", "tool_call_id", "terminal_id", "compaction_id")
    return Counter((name, getattr(event, name)) for event in events for name in names if hasattr(event, name))


@settings(max_examples=80, deadline=None)
@given(CONVERSATIONS, st.data())
def test_a_journal_that_ends_anywhere_is_read_as_what_was_seen_of_it(turns, data):
    live = held(turns)
    whole = replayed(through_rows(live), data.draw(st.integers(1, 9), "rows at a time"))
    assert screen(whole) == screen(live), "all of it"
    assert closing(live) == []
    cut = data.draw(st.integers(0, len(live)), "cut")
    prefix = live[:cut]
    rows = through_rows(prefix)
    ended = closing(rows)
    shown = replayed(rows)
    assert_whole(shown)
    assert set(ids(shown).values()) <= {1}
    assert replayed([*rows, *through_rows(ended)]) == shown, "kept or not, the end is the same"
    assert closing([*rows, *ended]) == [], "an end ends"
    assert screen(shown) == screen([*prefix, *ended])
    assert_sane(read_into(empty(), [*rows, *ended]))


@settings(max_examples=80, deadline=None)
@given(CONVERSATIONS, _TURN)
def test_what_is_read_is_known_as_if_it_had_happened_here(turns, refused_turn):
    live = held(turns)
    lived = empty()
    for event in live:
        lived.read(event)
        assert_sane(lived)  # at every prefix
    before = known(lived)
    assert known(read_into(empty(), through_rows(live))) == before
    mark = lived.mark()
    told, *_ = known(lived)
    for event in held([refused_turn]):  # a prompt that could not be kept, however far its turn came
        if not isinstance(event, ev.OptionChosen):
            lived.see(event)
    lived.rewind(mark)
    assert known(lived)[0] == told, "it leaves no trace"
    more = held([(True, [], well)])
    assert known(read_into(lived, more))[0] == known(read_into(empty(), [*live, *more]))[0]


@settings(max_examples=250, deadline=None)
@given(GARBAGE, st.integers(1, 5))
def test_whatever_stands_in_a_journal_is_read_to_its_end(events, step):
    history, recovery = empty(), Recovery()
    for event in events:
        for one in (*recovery.see(event), event):
            history.read(one)
        assert_sane(history)
    shown = replayed(events, step)
    assert_whole(shown)
    assert replayed(events) == shown, "in any pieces"
    assert closing([*events, *recovery.closing()]) == []
    read_into(history, recovery.closing())
    assert_sane(history)
    assert read_into(empty(), events).transcript.messages() == (
        read_into(empty(), events_without_runs(events)).transcript.messages()
    )


def events_without_runs(events: Iterable[ev.Event]) -> Events:
    """The events as rows keep them, but for what no row holds."""
    run: Events = []
    kept: Events = []
    for event in events:
        if isinstance(event, ev.RecordsLost):
            kept += [*through_rows(run), event]
            run = []
        else:
            run.append(event)
    return [*kept, *through_rows(run)]


def test_a_long_history_is_not_looked_through_at_each_prompt(monkeypatch):
    looked: list[int] = []

    def counted(messages):
        looked.append(len(messages))
        return within_bounds(messages)

    monkeypatch.setattr(transcript, "within_bounds", counted)
    history = empty()
    read_into(history, prompt(0))  # it has an image
    for n in range(1, 200):
        read_into(history, [*replied(n), *well(n), ev.UserMessage(MessageId(f"p{n}"), (Text("on"),))])
    assert len(looked) <= 1
