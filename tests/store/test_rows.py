"""Events to rows and back: every kind of event, exactly, whatever its texts and JSON values hold; strict
reading; and what becomes one row."""

import json
import types
import typing
from itertools import pairwise

import pytest
from attrs import fields, resolve_types
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.domain import events as ev
from term2_acp.domain.content import Change, Diff, FileTexts, Image, Operation, ResourceLink, Text
from term2_acp.domain.ids import CompactionId, MessageId, PlanId, TerminalId, ToolCallId
from term2_acp.domain.options import OptionId
from term2_acp.domain.plan import PlanEntry, PlanPriority, PlanStatus
from term2_acp.domain.toolcall import (
    DecidedBy,
    Effect,
    FileDigests,
    Location,
    ToolCallUpdate,
    ToolKind,
    ToolStatus,
)
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.domain.usage import TurnUsage, Usage
from term2_acp.store.errors import StoreFailed
from term2_acp.store.rows import FORMAT, DamagedRow, NewerRow, Row, RowCodec, merged

CODEC = RowCodec()
KEPT = set(typing.get_args(ev.Event)) - ev.NEVER_KEPT

# Lone surrogates, NUL, U+2028 and U+0085 included.
text = st.text(st.characters(exclude_categories=()), max_size=20)
number = st.integers(-(2**200), 2**200)
count = st.integers(0, 2**200)
json_value = st.recursive(
    st.none() | st.booleans() | number | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)


def build(cls):
    """Any value of an event's class, from the annotations of its fields."""
    resolve_types(cls)
    return st.builds(cls, **{field.name: of(field.type, field.name) for field in fields(cls)})


def of(kind, name=""):
    if name == "raw_input":
        return st.none() | st.dictionaries(text, json_value, max_size=3)
    if name == "raw_output":
        return json_value
    if kind is int and name.endswith(("_tokens", "_calls", "_usd", "_ms", "kept")):
        return count
    if isinstance(kind, typing.NewType):
        return of(kind.__supertype__)
    origin = typing.get_origin(kind)
    if origin is tuple:
        return st.lists(of(typing.get_args(kind)[0]), max_size=2).map(tuple)
    if origin in (typing.Union, types.UnionType):
        return st.one_of([of(part, name) for part in typing.get_args(kind)])
    if kind in SCALARS:
        return SCALARS[kind]
    if hasattr(kind, "__members__"):
        return st.sampled_from(kind)
    return build(kind)


SCALARS = {bytes: st.binary(max_size=40), str: text, int: number, bool: st.booleans(), type(None): st.none()}


@settings(max_examples=200, deadline=None)
@given(st.one_of([build(cls) for cls in sorted(KEPT, key=lambda cls: cls.__name__)]))
def test_every_event_comes_back_as_it_was(event):
    row = CODEC.to_row(event)
    back = CODEC.from_row(row.version, row.kind, row.body)
    assert back == event
    assert type(back) is type(event)


def test_a_row_is_plain_json_that_other_programs_can_read():
    row = CODEC.to_row(ev.UserMessage(MessageId("m"), (Text("hi"), ResourceLink("a", "file:///a"))))
    assert row.kind == "user_message"
    assert row.version == FORMAT == 1
    assert json.loads(row.body) == {
        "message_id": "m",
        "content": [
            {"type": "text", "text": "hi"},
            {"type": "resource_link", "name": "a", "uri": "file:///a"},
        ],
    }


def test_an_image_is_kept_as_it_came():
    event = ev.UserMessage(
        MessageId("m"), (Image("Image/PNG", "iVBORw0KGgo="), Image("image/gif", "R0lGODlh", "file:///a b"))
    )
    row = CODEC.to_row(event)
    assert json.loads(row.body)["content"] == [
        {"type": "image", "mime_type": "Image/PNG", "data": "iVBORw0KGgo="},
        {"type": "image", "mime_type": "image/gif", "data": "R0lGODlh", "uri": "file:///a b"},
    ]
    assert CODEC.from_row(row.version, row.kind, row.body) == event


@pytest.mark.parametrize(
    "hard", ["\ud800", "\udfff tail", "\ud83d\ude00", "a\0b", "\u2028\u2029\x85\r\n", "\U0010ffff"]
)
def test_hard_text_is_kept_to_the_character(hard):
    event = ev.ToolCallSettled(ToolCallId("c"), Effect.COMMITTED, hard)
    row = CODEC.to_row(event)
    assert CODEC.from_row(row.version, row.kind, row.body).result == hard


def test_a_full_tool_call_comes_back():
    event = ToolCallUpdate(
        ToolCallId("c"),
        title="Edit",
        name="apply_patch",
        kind=ToolKind.EDIT,
        status=ToolStatus.FAILED,
        content=(Text("no"), Diff((Change(Operation.MOVE, "/a", "/b"),), "patch")),
        locations=(Location("/a", 3), Location("/b")),
        raw_input={"big": 2**70, "none": None, "list": [1, "1", True, 1.5]},
        raw_output=[{"ok": False}],
    )
    row = CODEC.to_row(event)
    back = CODEC.from_row(row.version, row.kind, row.body)
    assert back == event
    assert back.raw_input["list"] == [1, "1", True, 1.5]
    assert type(back.raw_input["list"][2]) is bool


def test_the_whole_texts_of_a_change_are_neither_written_nor_read():
    change = Change(Operation.MODIFY, "/a")
    event = ToolCallUpdate(
        ToolCallId("call_1"), content=(Diff((change,), "patch", (FileTexts("/a", "old", "new"),)),)
    )
    row = CODEC.to_row(event)
    plain = json.loads(row.body)
    assert plain["content"] == [
        {"type": "diff", "changes": [{"operation": "modify", "path": "/a"}], "patch": "patch"}
    ]
    plain["content"][0]["texts"] = [{"path": "/a", "old": "old", "new": "new"}]
    for body in (row.body, json.dumps(plain).encode()):
        (diff,) = CODEC.from_row(row.version, row.kind, body).content
        assert (diff.changes, diff.patch, diff.texts) == ((change,), "patch", ())


def test_the_table_of_kinds_has_every_event_that_is_kept_and_no_other():
    for cls in KEPT:
        assert CODEC._names[cls]
    assert set(CODEC._names) == KEPT


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("agent_message_chunk", b'{"message_id":"m","text":null}'),
        ("agent_message_chunk", b'{"message_id":"m","text":1}'),
        ("agent_message_chunk", b'{"message_id":"m"}'),
        ("agent_message_chunk", b'{"message_id":["m"],"text":"t"}'),
        ("agent_message_chunk", b"[]"),
        ("agent_message_chunk", b'"text"'),
        ("agent_message_chunk", b"null"),
        ("agent_message_chunk", b'{"message_id":"m","te'),
        ("agent_message_chunk", b""),
        ("agent_message_chunk", b'{"message_id":"m","text":"\xff"}'),
        ("agent_message_chunk", "text, as a hand writes it"),
        ("agent_message_chunk", '{"message_id":"m","text":"\ufffd'),
        ("agent_message_chunk", None),
        ("agent_message_chunk", 7),
        ("agent_message", b'{"message_id":"m","text":"t","spoken_by_model":"false"}'),
        ("agent_message", b'{"message_id":"m","text":"t","spoken_by_model":0}'),
        ("usage_update", b'{"used":true,"size":1}'),
        ("usage_update", b'{"used":1.0,"size":1}'),
        ("usage_update", b'{"used":"1","size":1}'),
        ("usage_update", b'{"used":1,"size":1,"cost_pico_usd":-1}'),
        ("usage_update", b'{"used":1,"size":1,"cost_pico_usd":0.5}'),
        ("reply_ended", b'{"provider":"p","model":"m","usage":{"input_tokens":-1}}'),
        ("reply_ended", b'{"provider":"p","model":"m","usage":{"input_tokens":1.0}}'),
        ("reply_ended", b'{"provider":"p","model":"m","usage":[]}'),
        ("idle", b'{"stop_reason":"end_turn","usage":{"counted_calls":1,"tokens":{}}}'),
        ("idle", b"[]"),
        ("idle", b'"usage"'),
        ("terminal_update", b'{"terminal_id":"t","exit_status":["exit_code"]}'),
        ("idle", b'{"stop_reason":"bored"}'),
        ("user_message", b'{"message_id":"m","content":[{"type":"image"}]}'),
        ("user_message", b'{"message_id":"m","content":[{"type":"image","mime_type":"a","data":null}]}'),
        ("user_message", b'{"message_id":"m","content":[{"type":"audio","mime_type":"a","data":"b"}]}'),
        ("user_message", b'{"message_id":"m","content":"abc"}'),
        ("tool_call_update", b'{"tool_call_id":"c","raw_input":3}'),
        ("plan_update", b'{"plan_id":"p","entries":[{"content":"c","priority":"high","status":"lost"}]}'),
        ("compaction_update", b'{"compaction_id":"c","status":"paused"}'),
        ("compaction_update", b'{"compaction_id":"c","status":"completed","summary":["s"]}'),
        ("option_chosen", b'{"option_id":"colour","value":"red"}'),
        ("option_chosen", b'{"option_id":"mode","value":null}'),
        ("idle", b"[" * 100_000),
    ],
)
def test_a_body_that_does_not_fit_is_damaged(kind, body):
    with pytest.raises(DamagedRow):
        CODEC.from_row(FORMAT, kind, body)


def test_the_fault_of_a_damaged_row_does_not_hold_its_content():
    with pytest.raises(DamagedRow) as caught:
        CODEC.from_row(FORMAT, "agent_message_chunk", b'{"message_id":"m","text":{"secret":"sk-1"}}')
    assert "sk-1" not in str(caught.value)


@pytest.mark.parametrize(
    ("version", "kind", "named"),
    [
        (FORMAT, "dream", "dream, format 1"),
        (FORMAT + 1, "idle", "idle, format 2"),
    ],
)
def test_what_a_newer_term2_wrote_is_newer_not_damaged_and_named_without_content(version, kind, named):
    with pytest.raises(NewerRow) as caught:
        CODEC.from_row(version, kind, b"{}")
    assert str(caught.value) == named


@pytest.mark.parametrize(
    ("version", "kind", "named"),
    [
        (0, "idle", "idle: a format that cannot be"),
        (-1, "dream", "a format that cannot be"),
        ("sk-1", "idle", "idle: a format that cannot be"),
        (None, "sk_1", "a format that cannot be"),
        # Of a damaged head, a piece of the body may be what the kind is.
        ("sk-1", 'idle{"text":"sk-1"}', "a kind that cannot be"),
        (FORMAT, b"sk-1", "a kind that cannot be"),
        (FORMAT, "k" * 41, "a kind that cannot be"),
        (FORMAT, "id\x9ae", "a kind that cannot be"),
        (FORMAT, None, "a kind that cannot be"),
    ],
)
def test_what_no_term2_can_have_written_is_damaged_not_newer_and_named_without_content(version, kind, named):
    with pytest.raises(DamagedRow) as caught:
        CODEC.from_row(version, kind, b"{}")
    assert str(caught.value) == named


def test_fields_that_a_later_term2_added_are_ignored():
    body = b'{"message_id":"m","text":"t","mood":"good"}'
    assert CODEC.from_row(FORMAT, "agent_thought", body) == ev.AgentThought(MessageId("m"), "t")


def test_what_is_no_json_value_is_a_failure_of_this_event():
    event = ToolCallUpdate(ToolCallId("c"), raw_output=object())
    with pytest.raises(StoreFailed) as caught:
        CODEC.to_row(event)
    assert caught.value.code == "store_failed"


def test_a_run_of_chunks_of_one_message_is_one_event():
    m, n = MessageId("m"), MessageId("n")
    assert merged(
        [
            ev.AgentThoughtChunk(m, "a"),
            ev.AgentThoughtChunk(m, "b"),
            ev.AgentMessageChunk(m, "c"),
            ev.Running(),
            ev.AgentMessageChunk(m, "d"),
            ev.AgentMessageChunk(n, "e"),
            ev.UsageUpdate(1, 2),
            ev.AgentMessageChunk(n, "f"),
            ev.AgentMessageChunk(n, ""),
            ev.AgentMessageChunk(n, "g"),
        ]
    ) == [
        ev.AgentThoughtChunk(m, "ab"),
        ev.AgentMessageChunk(m, "cd"),
        ev.AgentMessageChunk(n, "e"),
        ev.UsageUpdate(1, 2),
        ev.AgentMessageChunk(n, "fg"),
    ]


chunks = st.builds(ev.AgentMessageChunk, st.sampled_from("mn"), st.text(max_size=3)) | st.builds(
    ev.AgentThoughtChunk, st.sampled_from("mn"), st.text(max_size=3)
)


@given(st.lists(chunks | st.just(ev.Running()) | st.just(ev.Idle()), max_size=12))
def test_merging_changes_no_message(events):
    def said(sequence):
        texts = {}
        for event in sequence:
            if isinstance(event, ev.AgentMessageChunk | ev.AgentThoughtChunk):
                key = (type(event), event.message_id)
                texts[key] = texts.get(key, "") + event.text
        return texts

    result = merged(events)
    assert said(result) == said(events)
    for first, second in pairwise(result):
        assert not (
            type(first) is type(second)
            and isinstance(first, ev.AgentMessageChunk | ev.AgentThoughtChunk)
            and first.message_id == second.message_id
        )


def test_rows_from_before_calls_were_counted_are_read():
    for kind, body, event in (
        ("idle", b'{"stop_reason":"end_turn"}', ev.Idle(StopReason.END_TURN)),
        (
            "idle",
            b'{"stop_reason":"_term2_error","failure":{"code":"c","message":"m"}}',
            ev.Idle(StopReason.ERROR, Failure("c", "m")),
        ),
        ("reply_ended", b'{"provider":"p","model":"m","opaque":"[]"}', ev.ReplyEnded("p", "m", "[]")),
        ("reply_ended", b'{"provider":"p","model":"m"}', ev.ReplyEnded("p", "m")),
        ("usage_update", b'{"used":17,"size":32768}', ev.UsageUpdate(17, 32768)),
    ):
        assert CODEC.from_row(1, kind, body) == event
        assert CODEC.to_row(event) == Row(1, kind, body), "what has no count is written as it was"


def test_counts_are_kept_to_the_last_token_and_pico():
    tokens = Usage(1000, 20, 300, 40, 5)
    row = CODEC.to_row(ev.ReplyEnded("p", "m", None, tokens, 0))
    assert json.loads(row.body) == {
        "provider": "p",
        "model": "m",
        "usage": {
            "input_tokens": 1000,
            "output_tokens": 20,
            "cache_read_tokens": 300,
            "cache_write_tokens": 40,
            "thought_tokens": 5,
        },
        "cost_pico_usd": 0,
    }
    for event in (
        ev.ReplyEnded("p", "m", None, tokens, 0),
        ev.ReplyEnded("p", "m", None, tokens, None),
        ev.Idle(StopReason.END_TURN, usage=TurnUsage(3, 2, tokens, 10**20 + 1)),
        ev.Idle(StopReason.CANCELLED, usage=TurnUsage(1, 0, Usage(), 0)),
        ev.UsageUpdate(1, 2, None, cost_withdrawn=True),
    ):
        row = CODEC.to_row(event)
        assert CODEC.from_row(row.version, row.kind, row.body) == event


def test_a_row_of_every_named_shape():
    # One of each by hand, so that a kind that was renamed by mistake is seen: files have these names.
    shapes = {
        "idle": ev.Idle(StopReason.ERROR, Failure("c", "m")),
        "user_message": ev.UserMessage(MessageId("m"), ()),
        "agent_message_chunk": ev.AgentMessageChunk(MessageId("m"), "t"),
        "agent_thought_chunk": ev.AgentThoughtChunk(MessageId("m"), "t"),
        "agent_message": ev.AgentMessage(MessageId("m"), "t", spoken_by_model=False),
        "agent_thought": ev.AgentThought(MessageId("m"), "t"),
        "tool_call_update": ToolCallUpdate(ToolCallId("c")),
        "tool_call_content_added": ev.ToolCallContentAdded(ToolCallId("c"), Text("t")),
        "terminal_update": ev.TerminalUpdate(
            TerminalId("t"), "c", "/w", b"\xff\0", ev.ExitStatus(None, "SIGKILL")
        ),
        "terminal_output": ev.TerminalOutput(TerminalId("t"), b"\xe2\x82"),
        "plan_update": ev.PlanUpdate(PlanId("p"), (PlanEntry("c", PlanPriority.LOW, PlanStatus.PENDING),)),
        "usage_update": ev.UsageUpdate(1, 2),
        "session_info_update": ev.SessionInfoUpdate("t", "2026-11-30T10:00:00.000Z"),
        "tool_call_prepared": ev.ToolCallPrepared(ToolCallId("c"), "n", "{}", "p", "d"),
        "tool_call_dispatched": ev.ToolCallDispatched(ToolCallId("c"), (FileDigests("/w/a", None, "d"),)),
        "tool_call_settled": ev.ToolCallSettled(ToolCallId("c"), Effect.OUTCOME_UNKNOWN, "r"),
        "reply_ended": ev.ReplyEnded("p", "m", '{"a": 1}'),
        "compaction_update": ev.CompactionUpdate(CompactionId("c"), ev.CompactionStatus.COMPLETED, "s"),
        "option_chosen": ev.OptionChosen(OptionId.MODE, "plan"),
        "circumstances": ev.Circumstances(
            MessageId("m"), "Zed 1", "{}", "0.1.0", 2, "p", "m", "default", ("/w",)
        ),
        "tool_call_decided": ev.ToolCallDecided(
            ToolCallId("c"), True, DecidedBy.PERSON, "ask", ("/w/a",), ("edit /w",), "allow-once", 7
        ),
    }
    assert set(shapes) == set(CODEC._names.values())
    for kind, event in shapes.items():
        row = CODEC.to_row(event)
        assert row == Row(1, kind, row.body)
        assert CODEC.from_row(1, kind, row.body) == event
