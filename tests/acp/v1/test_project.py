"""The projection of v1: each event as the whole frames it becomes, held to both published schemas; what is
told live and what in a replay; and that a client which folds the frames, in whatever groups the events came,
has what the events say."""

import typing

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.acp.fit import MAX_FRAME_BYTES, whole_characters
from term2_acp.acp.v1.capabilities import ClientFeatures
from term2_acp.acp.v1.project import Projection
from term2_acp.domain import events as ev
from term2_acp.domain.content import Change, Diff, FileTexts, Image, Operation, ResourceLink, Terminal, Text
from term2_acp.domain.ids import CompactionId, MessageId, PlanId, SessionId, TerminalId, ToolCallId
from term2_acp.domain.options import OptionChoice, OptionId, SessionOption
from term2_acp.domain.plan import PlanEntry, PlanPriority, PlanStatus
from term2_acp.domain.toolcall import DecidedBy, Effect, Location, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.session.replay import Replay
from term2_acp.tools.patch import git_patch
from tests.kit.fold_v1 import fold, updates_of

MSG = MessageId("msg_1")
CALL = ToolCallId("call_1")
TERM = TerminalId("term_1")
SMALL = 4096

PLAIN = ClientFeatures()
FULL = ClientFeatures(terminal_output=True, notices=True, compaction=True)

MODE = SessionOption(
    OptionId.MODE,
    "Mode",
    "mode",
    "plan",
    (OptionChoice("standard", "Standard", "Works."), OptionChoice("plan", "Plan")),
)
MODEL = SessionOption(OptionId.MODEL, "Model", "model", "m", (OptionChoice("m", "M"),), "Which one.")


def projection(features=PLAIN, bound=MAX_FRAME_BYTES):
    return Projection(SessionId("sess_1"), "/w", features, bound)


def told(*groups, features=PLAIN, bound=MAX_FRAME_BYTES, by=None):
    """The updates of groups of events."""
    frames = []
    shown = by or projection(features, bound)
    for group in groups:
        shown.write_to(frames, group)
    return updates_of(frames, bound)


def text(words):
    return {"type": "text", "text": words}


SUMMED_UP = "The conversation was summed up. From here on the model goes by the summary."


def chunk(kind, words, message_id="msg_1"):
    return {"sessionUpdate": f"{kind}_chunk", "messageId": message_id, "content": text(words)}


EVENTS = [
    (ev.Running(), []),
    (ev.RequiresAction(), []),
    (ev.Idle(StopReason.END_TURN), []),
    (ev.AgentMessageChunk(MSG, 'a"\n\u2028é🙂'), [chunk("agent_message", 'a"\n\u2028é🙂')]),
    (ev.AgentThoughtChunk(MSG, "hm"), [chunk("agent_thought", "hm")]),
    (ev.AgentMessage(MSG, "all"), [chunk("agent_message", "all")]),
    (ev.AgentMessage(MSG, ""), []),
    (ev.AgentThought(MSG, "all"), [chunk("agent_thought", "all")]),
    (
        ev.UserMessage(
            MSG, (Text("go"), ResourceLink("n", "file:///w/a", size=0), Image("image/png", "iVBORw0KGgo="))
        ),
        [
            chunk("user_message", "go"),
            chunk("user_message", "go")
            | {"content": {"type": "resource_link", "name": "n", "uri": "file:///w/a", "size": 0}},
            chunk("user_message", "go")
            | {"content": {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}},
        ],
    ),
    (
        ToolCallUpdate(
            CALL,
            title="Read a",
            name="read_file",
            kind=ToolKind.READ,
            status=ToolStatus.PENDING,
            content=(Text("said"),),
            locations=(Location("/w/a", 3), Location("/w/c", 0)),
            raw_input={"n": float("nan")},
            raw_output=[1],
            parent=ToolCallId("call_0"),
        ),
        [
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "call_1",
                "title": "Read a",
                "name": "read_file",
                "kind": "read",
                "status": "pending",
                "content": [{"type": "content", "content": text("said")}],
                "locations": [{"path": "/w/a", "line": 3}, {"path": "/w/c"}],
                "rawInput": {"n": "nan"},
                "rawOutput": [1],
                "_meta": {"term2": {"parentToolCallId": "call_0"}},
            }
        ],
    ),
    # What was never announced has a title all the same.
    (
        ev.ToolCallBegan(CALL),
        [
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "call_1",
                "title": "Tool call",
                "status": "in_progress",
            }
        ],
    ),
    (
        ev.ToolCallContentAdded(CALL, Text("more")),
        [
            {
                "sessionUpdate": "tool_call",
                "toolCallId": "call_1",
                "title": "Tool call",
                "content": [{"type": "content", "content": text("more")}],
            }
        ],
    ),
    # No call is known to show them.
    (ev.TerminalUpdate(TERM, "make", "/w", b"x", ev.ExitStatus(0)), []),
    (ev.TerminalOutput(TERM, b"x"), []),
    (
        ev.PlanUpdate(
            PlanId("plan_1"),
            (
                PlanEntry("one", PlanPriority.HIGH, PlanStatus.COMPLETED),
                PlanEntry("two", PlanPriority.MEDIUM, PlanStatus.CANCELLED),
                PlanEntry("three", PlanPriority.LOW, PlanStatus.IN_PROGRESS),
            ),
        ),
        [
            {
                "sessionUpdate": "plan",
                "entries": [
                    {"content": "one", "priority": "high", "status": "completed"},
                    {"content": "three", "priority": "low", "status": "in_progress"},
                ],
            }
        ],
    ),
    (ev.UsageUpdate(10, 1000), [{"sessionUpdate": "usage_update", "used": 10, "size": 1000}]),
    (
        ev.UsageUpdate(10, 1000, 12_300_000_000),
        [
            {
                "sessionUpdate": "usage_update",
                "used": 10,
                "size": 1000,
                "cost": {"amount": 0.0123, "currency": "USD"},
            }
        ],
    ),
    (
        ev.UsageUpdate(10, 1000, None, cost_withdrawn=True),
        [{"sessionUpdate": "usage_update", "used": 10, "size": 1000, "cost": None}],
    ),
    (
        ev.SessionInfoUpdate("T", "2026-11-02T00:00:00.000Z"),
        [{"sessionUpdate": "session_info_update", "title": "T", "updatedAt": "2026-11-02T00:00:00.000Z"}],
    ),
    (ev.Notice(MSG, ev.Severity.WARNING, "Busy.\nWaiting."), [chunk("agent_message", "Busy.\nWaiting.")]),
    (
        ev.CompactionUpdate(CompactionId("c"), ev.CompactionStatus.COMPLETED, "short"),
        [chunk("agent_message", SUMMED_UP) | {"messageId": "c_ended"}],
    ),
    (
        ev.OptionsUpdate((MODE,)),
        [
            {"sessionUpdate": "current_mode_update", "currentModeId": "plan"},
            {
                "sessionUpdate": "config_option_update",
                "configOptions": [
                    {
                        "id": "mode",
                        "name": "Mode",
                        "category": "mode",
                        "type": "select",
                        "currentValue": "plan",
                        "options": [
                            {"value": "standard", "name": "Standard", "description": "Works."},
                            {"value": "plan", "name": "Plan"},
                        ],
                    }
                ],
            },
        ],
    ),
    (ev.ToolCallPrepared(CALL, "shell", "{}", "c1", "00"), []),
    (ev.ToolCallDispatched(CALL), []),
    (ev.ToolCallSettled(CALL, Effect.COMMITTED, "done"), []),
    (ev.ReplyEnded("p", "m"), []),
    (ev.OptionChosen(OptionId.MODE, "plan"), []),
    (ev.Circumstances(MessageId("m"), "Zed 1", "{}", "0.1.0", 1, "p", "m", "default", ("/w",)), []),
    (ev.ToolCallDecided(CALL, allowed=True, by=DecidedBy.POLICY, mode="standard"), []),
    (ev.RecordsLost(7, 1, 0), []),
]


@pytest.mark.parametrize(("event", "updates"), EVENTS, ids=lambda value: type(value).__name__)
def test_each_event_by_itself(event, updates):
    assert told([event]) == updates


def test_every_kind_of_event_is_in_these_tests():
    assert {type(event) for event, _ in EVENTS} == set(typing.get_args(ev.Event))


# -- what the client knows ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("Busy.", {"severity": "warning", "title": "Busy."}),
        ("Busy.\nWait 5 s.", {"severity": "warning", "title": "Busy.", "description": "Wait 5 s."}),
        ("  \n", None),
    ],
)
def test_a_notice_has_a_title_and_what_follows_it(said, shown):
    updates = told([ev.Notice(MSG, ev.Severity.WARNING, said)], features=FULL)
    assert updates == ([] if shown is None else [{"sessionUpdate": "notice"} | shown])


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (ev.CompactionStatus.IN_PROGRESS, "is being summed up"),
        (ev.CompactionStatus.COMPLETED, "was summed up"),
    ],
)
def test_a_compaction_is_two_notices_for_clients_that_know_none(status, words):
    event = [ev.CompactionUpdate(CompactionId("c"), status)]
    (shown,) = told(event)
    assert (shown["sessionUpdate"], words in shown["content"]["text"]) == ("agent_message_chunk", True)
    (shown,) = told(event, features=ClientFeatures(notices=True))
    assert (shown["sessionUpdate"], words in shown["title"]) == ("notice", True)


def test_a_compaction_is_an_entity_of_its_own():
    compaction = CompactionId("c")
    events = [
        ev.CompactionUpdate(compaction, ev.CompactionStatus.IN_PROGRESS),
        ev.CompactionUpdate(compaction, ev.CompactionStatus.COMPLETED, "short"),
    ]
    whole = {"compactionId": "c", "status": "completed", "summary": [text("short")]}
    assert fold(told(events, features=FULL))["things"] == {("compaction", "c"): whole}
    failed = ev.CompactionUpdate(compaction, ev.CompactionStatus.FAILED, error="The server is gone.")
    assert told([failed], features=FULL) == [
        {
            "sessionUpdate": "compaction_update",
            "compactionId": "c",
            "status": "failed",
            "error": "The server is gone.",
        }
    ]


def test_a_summary_longer_than_a_frame_comes_in_chunks_before_the_compaction_is_complete():
    words = "é" * 5000
    events = [ev.CompactionUpdate(CompactionId("c"), ev.CompactionStatus.COMPLETED, words)]
    (compaction,) = fold(told(events, features=FULL, bound=SMALL))["things"].values()
    assert compaction["status"] == "completed"
    assert "".join(block["text"] for block in compaction["summary"]) == words


def test_the_mode_is_told_only_where_it_can_be_set():
    kinds = [update["sessionUpdate"] for update in told([ev.OptionsUpdate((MODEL,))])]
    assert kinds == ["config_option_update"]


# -- live and replayed ----------------------------------------------------------------------------------

PROMPT = ev.UserMessage(MSG, (Text("go"),))
SENTENCE = ev.AgentMessage(MessageId("m2"), "The key is wrong.", spoken_by_model=False)
FAILED = ev.Idle(StopReason.ERROR, Failure("provider_auth", "The key is wrong."))


def test_a_client_is_not_told_what_it_sent():
    assert told([ev.Running()], [PROMPT]) == []
    shown = projection()
    assert told([ev.Running(), PROMPT, ev.Idle(StopReason.END_TURN)], by=shown) == []
    assert told([PROMPT], by=shown) == [chunk("user_message", "go")]


def test_why_a_turn_failed_is_told_once():
    assert told([ev.Running(), PROMPT], [SENTENCE, FAILED]) == []


@pytest.mark.parametrize(
    "group",
    [
        [SENTENCE],
        [SENTENCE, ev.Idle(StopReason.END_TURN)],
        [SENTENCE, ev.Idle(StopReason.ERROR, Failure("x", "Another."))],
        [attrs.evolve(SENTENCE, spoken_by_model=True), FAILED],
    ],
)
def test_any_other_sentence_is_shown(group):
    assert told([ev.Running()], group) == [chunk("agent_message", "The key is wrong.", "m2")]


@pytest.mark.parametrize("idle", [[], [FAILED]])
def test_a_replay_shows_why_a_turn_failed(idle):
    assert told([PROMPT, SENTENCE, *idle]) == [
        chunk("user_message", "go"),
        chunk("agent_message", "The key is wrong.", "m2"),
    ]


def test_messages_that_follow_one_another_are_kept_apart():
    events = [
        ev.Notice(MessageId("n"), ev.Severity.INFO, "Waiting."),
        ev.AgentMessageChunk(MessageId("m1"), "a"),
        ev.AgentMessageChunk(MessageId("m1"), "b"),
        ev.AgentMessage(MessageId("m2"), "c", spoken_by_model=False),
        ev.AgentThoughtChunk(MessageId("m3"), "d"),
        ev.AgentMessageChunk(MessageId("m3"), "e"),
        ToolCallUpdate(CALL, title="T"),
        ev.AgentMessageChunk(MessageId("m4"), "f"),
    ]
    said = [update.get("content", text(None))["text"] for update in told(events)]
    assert said == ["Waiting.", "\n\na", "b", "\n\nc", "d", "e", None, "f"]


def test_a_call_that_changes_stays_where_it_stands_and_parts_no_messages():
    shown = projection()
    told([ToolCallUpdate(CALL, title="T"), ev.AgentMessage(MessageId("m1"), "a")], by=shown)
    changed, message = told([ev.ToolCallBegan(CALL), ev.AgentMessage(MessageId("m2"), "b")], by=shown)
    assert changed["sessionUpdate"] == "tool_call_update"
    assert message == chunk("agent_message", "\n\nb", "m2")


def test_what_is_under_way_when_a_session_breaks_off_is_ended_as_a_replay_ends_it():
    shown, frames, replay, later = projection(FULL), [], Replay(), ToolCallId("call_2")
    events = [
        ToolCallUpdate(CALL, title="T", name="shell", kind=ToolKind.EXECUTE, status=ToolStatus.PENDING),
        ev.ToolCallDispatched(CALL),
        ev.ToolCallBegan(CALL),
        ev.TerminalUpdate(TERM, command="x", cwd="/w"),
        ToolCallUpdate(CALL, content=(Terminal(TERM),)),
        ToolCallUpdate(later, title="U", name="probe", kind=ToolKind.OTHER, status=ToolStatus.PENDING),
        ev.TerminalOutput(TERM, b"some"),
        ev.CompactionUpdate(CompactionId("comp_1"), ev.CompactionStatus.IN_PROGRESS),
    ]
    shown.write_to(frames, [ev.Running(), *events])
    shown.break_off(frames)
    live = fold(updates_of(frames, MAX_FRAME_BYTES))
    assert live["terminals"] == {CALL: {"text": "some", "exit": (None, None)}}
    again = fold(told([*replay.feed(events), *replay.end()], features=FULL))
    assert live["things"] == again["things"]
    assert [thing["status"] for thing in live["things"].values()] == ["failed"] * 3


def test_nothing_is_said_of_what_had_ended_when_a_session_breaks_off():
    shown, frames = projection(FULL), []
    ended = ToolCallUpdate(CALL, title="T", status=ToolStatus.COMPLETED, raw_output={})
    compacted = ev.CompactionUpdate(CompactionId("comp_1"), ev.CompactionStatus.COMPLETED, "All.")
    told([ev.Running(), ended, compacted], by=shown)
    shown.break_off(frames)
    assert frames == []


def test_a_call_stands_before_the_text_that_follows_it_and_is_told_once_a_group():
    events = [
        ToolCallUpdate(CALL, title="T", status=ToolStatus.PENDING),
        ev.UsageUpdate(1, 2),
        ev.ToolCallBegan(CALL),
        ToolCallUpdate(CALL, status=ToolStatus.COMPLETED, raw_output={}),
        ev.AgentMessageChunk(MSG, "a"),
        ev.AgentMessageChunk(MSG, "b"),
    ]
    updates = told(events)
    assert [update["sessionUpdate"] for update in updates] == [
        "usage_update",
        "tool_call",
        "agent_message_chunk",
        "agent_message_chunk",
    ]
    assert updates[1]["status"] == "completed"


def test_a_call_is_shown_pending_before_it_is_at_work():
    events = [
        ToolCallUpdate(CALL, title="T", status=ToolStatus.PENDING),
        ToolCallUpdate(CALL, content=(Text("a"),)),
        ev.ToolCallBegan(CALL),
    ]
    made, began = told([ev.Running(), *events])
    assert (made["sessionUpdate"], made["status"]) == ("tool_call", "pending")
    assert (began["sessionUpdate"], began["status"]) == ("tool_call_update", "in_progress")
    assert len(began["content"]) == 1
    (replayed,) = told(events)
    assert (replayed["sessionUpdate"], replayed["status"]) == ("tool_call", "in_progress")


def test_a_change_of_a_call_stands_before_more_of_a_message_too():
    shown = projection()
    told([ev.Running(), ToolCallUpdate(CALL, title="T"), ev.AgentMessageChunk(MSG, "a")], by=shown)
    updates = told([ev.ToolCallBegan(CALL), ev.AgentMessageChunk(MSG, "b")], by=shown)
    assert [update["sessionUpdate"] for update in updates] == ["tool_call_update", "agent_message_chunk"]


@pytest.mark.parametrize("end", [[ev.Idle(StopReason.END_TURN)], [PROMPT]])
def test_nothing_is_remembered_beyond_a_turn(end):
    shown = projection()
    said = ev.AgentMessage(MessageId("m1"), "a")
    made = ToolCallUpdate(CALL, title="T", content=(Text("a"),))
    told([made, said, *end], by=shown)
    again = [attrs.evolve(said, message_id="m2"), ev.ToolCallContentAdded(CALL, Text("b"))]
    message, call = told(again, by=shown)
    assert message == chunk("agent_message", "a", "m2")
    assert (call["sessionUpdate"], len(call["content"])) == ("tool_call", 1)


# -- any events -----------------------------------------------------------------------------------------

# The same examples in every run, and no clock: the machine may be busy.
steady = settings(deadline=None, derandomize=True, max_examples=40)

words = st.text(st.sampled_from('a"\\\n`é你🙂\ud800'), max_size=12)
plain = words.map(lambda said: f"said {said}")  # no output of a command looks like it
long_words = st.builds(lambda unit, times: unit * times, words, st.integers(0, 900))
bytes_out = st.lists(st.sampled_from([b"a\n", b"```\n", "é".encode(), b"\xc3", b"\xa9", b"\xff"]), max_size=5)
SIDES = {}  # what each patch that was drawn makes of what
file_lines = st.lists(st.sampled_from(["a\n", "b\r\n", "\n", "é"]), max_size=3).map("".join)
statuses = st.one_of(
    st.builds(ev.ExitStatus, st.integers(0, 2)),
    st.just(ev.ExitStatus(None, "SIGKILL")),
    st.just(ev.ExitStatus()),
)


@st.composite
def diffs(draw):
    """A change of a file so short that its patch has all of it."""
    path, old, new = draw(st.sampled_from(["/w/a", "/w/b c"])), draw(file_lines), draw(file_lines)
    operation = draw(st.sampled_from([Operation.ADD, Operation.DELETE, Operation.MODIFY]))
    if old == new:
        new += "more\n"
    sides = (
        None if operation is Operation.ADD else old,
        None if operation is Operation.DELETE else new,
    )
    texts = (FileTexts(path, *sides),) if draw(st.booleans()) else ()
    patch = git_patch(path, *sides)
    SIDES[patch] = sides
    return Diff((Change(operation, path),), patch, texts)


contents = st.one_of(st.builds(Text, long_words), diffs(), st.builds(Terminal, st.sampled_from(["t1", "t2"])))
call_ids = st.sampled_from(["c1", "c2"])
message_ids = st.sampled_from(["m1", "m2"])
anything = st.one_of(
    st.sampled_from([event for event, _ in EVENTS]),
    st.builds(ev.AgentMessageChunk, message_ids, long_words),
    st.builds(ev.AgentMessage, message_ids, long_words, st.booleans()),
    st.builds(ev.AgentThought, message_ids, long_words),
    st.builds(ev.UserMessage, message_ids, st.tuples(st.builds(Text, long_words))),
    st.builds(ev.Notice, message_ids, st.sampled_from(ev.Severity), long_words),
    st.builds(
        ToolCallUpdate,
        call_ids,
        title=st.none() | long_words,
        name=st.none() | words,
        kind=st.none() | st.sampled_from(ToolKind),
        status=st.none() | st.sampled_from(ToolStatus),
        content=st.none() | st.lists(contents, max_size=4).map(tuple),
        locations=st.none() | st.integers(0, 60).map(lambda n: (Location("/w/a", 1),) * n),
        raw_input=st.none() | st.builds(lambda value: {"x": value}, long_words),
        raw_output=st.none() | long_words,
    ),
    st.builds(ev.ToolCallBegan, call_ids),
    st.builds(ev.ToolCallContentAdded, call_ids, contents),
    st.builds(ev.TerminalOutput, st.sampled_from(["t1", "t2"]), st.binary(max_size=3000)),
    st.builds(
        ev.TerminalUpdate,
        st.sampled_from(["t1", "t2"]),
        output=st.none() | st.binary(max_size=3000),
        exit_status=st.none() | statuses,
    ),
    st.builds(
        ev.CompactionUpdate, st.just("k"), st.sampled_from(ev.CompactionStatus), long_words, long_words
    ),
    st.builds(ev.SessionInfoUpdate, long_words, st.just("2026-11-02T00:00:00.000Z")),
    st.builds(
        ev.PlanUpdate,
        st.just("p"),
        st.lists(
            st.builds(PlanEntry, long_words, st.sampled_from(PlanPriority), st.sampled_from(PlanStatus))
        ),
    ),
)


@steady
@given(st.lists(st.lists(anything, max_size=6), max_size=4), st.sampled_from([PLAIN, FULL]))
def test_any_events_give_frames_of_the_closed_vocabulary_within_the_bound(groups, features):
    told(*groups, features=features, bound=SMALL)


# -- what a client has in the end -----------------------------------------------------------------------


@st.composite
def tool_calls(draw, number):
    """One call as the core shows it, from its announcement to its end."""
    call, terminal = ToolCallId(f"c{number}"), TerminalId(f"t{number}")
    runs = draw(st.booleans())
    kind = ToolKind.EXECUTE if runs else ToolKind.EDIT
    events = [
        ToolCallUpdate(call, title="T", name="n", kind=kind, status=ToolStatus.PENDING, raw_input={"x": 1})
    ]
    if draw(st.booleans()):
        reason = (Text(draw(plain)),)
        end = draw(st.sampled_from([ToolStatus.CANCELLED, ToolStatus.FAILED]))
        return [*events, ToolCallUpdate(call, status=end, content=reason, raw_output={"error": "e"})]
    preview = Terminal(terminal) if runs else draw(diffs())
    events += [ToolCallUpdate(call, content=(preview,)), ev.ToolCallBegan(call)]
    if runs:
        pieces = draw(bytes_out)
        events.append(ev.TerminalUpdate(terminal, "make", "/w"))
        events += [ev.TerminalOutput(terminal, piece) for piece in pieces]
        snapshot = draw(st.none() | st.just(b"head\n...\ntail"))
        events.append(ev.TerminalUpdate(terminal, output=snapshot, exit_status=draw(statuses)))
    content = (preview, Text("note"), draw(diffs())) if draw(st.booleans()) else (preview,)
    if draw(st.booleans()) and not runs:
        events.append(ev.ToolCallContentAdded(call, Text("added")))
        content = None
    events.append(ToolCallUpdate(call, status=ToolStatus.COMPLETED, content=content, raw_output=draw(words)))
    return events


@st.composite
def turns(draw):
    """Events of one turn, in groups."""
    events = []
    for number in range(draw(st.integers(1, 4))):
        message_id = MessageId(f"m{number}")
        pieces = draw(st.lists(words.filter(bool), max_size=3))
        kind = draw(st.sampled_from([ev.AgentMessageChunk, ev.AgentThoughtChunk]))
        events += [kind(message_id, piece) for piece in pieces]
        if draw(st.booleans()):
            events.append(ev.AgentMessage(MessageId(f"own{number}"), "Ours.", spoken_by_model=False))
        one, other = draw(tool_calls(2 * number)), draw(tool_calls(2 * number + 1))
        if draw(st.booleans()):  # side by side
            length = min(len(one), len(other))
            events += [event for pair in zip(one, other, strict=False) for event in pair]
            events += one[length:] + other[length:]
        else:
            events += one + other
    cuts = sorted(draw(st.lists(st.integers(0, len(events)), max_size=6)))
    return [events[i:j] for i, j in zip([0, *cuts], [*cuts, len(events)], strict=True)]


def expected(events, *, streams):
    """What the events say, in the words of a v1 screen. Written from the meaning of the events alone."""
    things, terminals = {}, {}
    for event in events:
        if isinstance(event, ev.AgentMessageChunk | ev.AgentThoughtChunk | ev.AgentMessage):
            key = ("thought" if isinstance(event, ev.AgentThoughtChunk) else "agent", event.message_id)
            things.setdefault(key, {"text": ""})["text"] += event.text
        elif isinstance(event, ToolCallUpdate):
            call = things.setdefault(("call", event.tool_call_id), {"content": ()})
            given = attrs.asdict(event, recurse=False, filter=lambda _, value: value is not None)
            call.update(given)
        elif isinstance(event, ev.ToolCallContentAdded):
            things["call", event.tool_call_id]["content"] += (event.content,)
        elif isinstance(event, ev.TerminalOutput):
            terminals[event.terminal_id][0] += event.data
        elif isinstance(event, ev.TerminalUpdate):
            terminal = terminals.setdefault(event.terminal_id, [b"", None])
            terminal[0] = terminal[0] if event.output is None else event.output
            terminal[1] = event.exit_status
    return {
        key: _screen_call(thing, terminals, streams) if key[0] == "call" else _screen_text(thing)
        for key, thing in things.items()
    }


def _screen_text(thing):
    return {"text": whole_characters(thing["text"])}


def _screen_call(call, terminals, streams):
    cancelled = call["status"] is ToolStatus.CANCELLED
    raw = call["raw_output"]
    pieces = [piece for one in call["content"] for piece in _screen_content(one, terminals, streams)]
    return {
        "title": call["title"],
        "kind": call["kind"],
        "status": "failed" if cancelled else call["status"],
        "raw": whole_characters(raw)
        if isinstance(raw, str)
        else raw | ({"cancelled": True} if cancelled else {}),
        "content": sorted(pieces, key=lambda piece: piece[0] != "diff"),
    }


def _screen_content(one, terminals, streams):
    if isinstance(one, Text):
        return [("text", whole_characters(one.text))]
    if isinstance(one, Diff):
        old, new = SIDES[one.patch]
        return [("diff", one.changes[0].path, old, new or "")]
    data, status = terminals[one.terminal_id]
    shown = data.decode("utf-8", "replace")
    if streams:
        return [("terminal", shown, (status.exit_code, status.signal))]
    ending = f"Ended by {status.signal}." if status.signal else f"Exit code {status.exit_code}."
    ending = {ev.ExitStatus(0): "", ev.ExitStatus(): "How it ended is not known."}.get(status, ending)
    return [("output", shown and shown.removesuffix("\n") + "\n", ending)] if shown or ending else []


def screen(groups, features):
    """What a client has of the calls and messages of groups of events, in the words of ``expected``."""
    folded = fold(told(*groups, features=features))
    assert features.terminal_output or folded["terminals"] == {}
    things = {}
    for key, thing in folded["things"].items():
        if key[0] == "call":
            things[key] = {
                "title": thing["title"],
                "kind": thing["kind"],
                "status": thing["status"],
                "raw": thing["rawOutput"],
                "content": [_piece(piece, folded["terminals"]) for piece in thing["content"]],
            }
        elif key[0] != "user":
            things[key] = {"text": thing["text"]}
    return things


def _piece(piece, terminals):
    if piece["type"] == "diff":
        return ("diff", piece["path"], piece.get("oldText"), piece["newText"])
    if piece["type"] == "terminal":
        terminal = terminals[piece["terminalId"]]
        return ("terminal", terminal["text"], terminal["exit"])
    said = piece["content"]["text"]
    if said.startswith("```"):
        fence, _, rest = said.partition("\n")
        inside, mark, ending = rest.rpartition(f"{fence}\n")
        assert mark
        assert fence not in inside
        return ("output", inside, ending.removesuffix("\n"))
    if said.endswith(".\n"):
        return ("output", "", said.removesuffix("\n"))
    return ("text", said)


@steady
@given(turns(), st.sampled_from([PLAIN, FULL]))
def test_what_a_client_has_in_the_end_is_what_the_events_say(groups, features):
    events = [event for group in groups for event in group]
    assert screen([[ev.Running()], *groups], features) == expected(events, streams=features.terminal_output)


@steady
@given(turns(), st.sampled_from([PLAIN, FULL]))
def test_a_replay_shows_what_was_shown_live(groups, features):
    live = screen([[ev.Running(), PROMPT], *groups], features)
    replay = Replay()
    kept = [
        attrs.evolve(event, content=tuple(_kept(one) for one in event.content))
        if isinstance(event, ToolCallUpdate) and event.content is not None
        else event
        for group in groups
        for event in group
        if type(event) not in ev.SHOWN_ONLY
    ]
    again = [replay.feed([PROMPT, *kept, ev.Idle(StopReason.END_TURN)]), replay.end()]
    replayed = screen(again, features)
    assert replayed == live
    assert list(replayed) == list(live)


def _kept(content):
    return attrs.evolve(content, texts=()) if isinstance(content, Diff) else content
