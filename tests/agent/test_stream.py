"""Deltas into events: where a message ends, what is held back, and when calls may run."""

from term2_acp.agent.stream import ReplyFold
from term2_acp.domain.events import AgentMessageChunk, AgentThoughtChunk
from term2_acp.providers.base import (
    Finish,
    Finished,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    UsageDelta,
)
from term2_acp.redact import Redactor, StreamRedactor


def shapes(events):
    return [(type(event), event.text) for event in events]


def test_a_run_of_text_is_one_message():
    fold = ReplyFold()
    first = fold.feed([TextDelta("a"), TextDelta("b")])
    second = fold.feed([TextDelta("c")])
    assert shapes(first + second) == [
        (AgentMessageChunk, "a"),
        (AgentMessageChunk, "b"),
        (AgentMessageChunk, "c"),
    ]
    assert len({event.message_id for event in first + second}) == 1


def test_a_thought_and_a_call_end_a_message_and_usage_does_not():
    fold = ReplyFold()
    events = fold.feed(
        [
            ThoughtDelta("t"),
            TextDelta("a"),
            UsageDelta(1, 2),
            TextDelta("b"),
            ToolCallDelta("x", "glob", "{}"),
            TextDelta("c"),
            ThoughtDelta("u"),
        ]
    )
    assert shapes(events) == [
        (AgentThoughtChunk, "t"),
        (AgentMessageChunk, "a"),
        (AgentMessageChunk, "b"),
        (AgentMessageChunk, "c"),
        (AgentThoughtChunk, "u"),
    ]
    ids = [event.message_id for event in events]
    assert ids[1] == ids[2]
    assert len(set(ids)) == 4


def test_empty_text_is_nothing_and_the_end_is_kept():
    fold = ReplyFold()
    assert fold.feed([TextDelta(""), ThoughtDelta("")]) == []
    assert fold.end is None
    end = Finished(Finish.STOP)
    fold.feed([ToolCallDelta("x", "glob", "{}"), UsageDelta(3, 4), end])
    assert fold.end is end
    assert fold.calls == [ToolCallDelta("x", "glob", "{}")]
    assert fold.usage == UsageDelta(3, 4)


def test_a_key_cut_in_two_by_the_stream_does_not_get_out():
    fold = ReplyFold(StreamRedactor(Redactor(["sk-secret"])))
    events = []
    for piece in ["the key is s", "k-sec", "ret, or s", "k-other"]:
        events += fold.feed([TextDelta(piece)])
    events += fold.feed([Finished(Finish.STOP)])
    assert "".join(event.text for event in events) == "the key is [redacted], or sk-other"
    assert len({event.message_id for event in events}) == 1
