"""Replies gathered from Messages events: golden streams give these deltas and no others, however their bytes
are cut; what a server gets wrong either does not matter or breaks the reply; no terminal event is made up."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.providers.anthropic.blocks import MAX_BLOCKS
from term2_acp.providers.anthropic.opaque import HiddenThought, Thought, places_of
from term2_acp.providers.anthropic.reply import AnthropicReply
from term2_acp.providers.base import Finish, Finished, TextDelta, ThoughtDelta, ToolCallDelta, UsageDelta
from term2_acp.providers.wire import Broken, ServerError
from term2_acp.providers.wire_values import MAX_ARGUMENTS, MAX_CALLS
from term2_acp.web.sse import SseParser

GOLDEN = Path(__file__).parent.parent / "golden" / "wires"
OVERLOADED = {"type": "overloaded_error", "message": "Overloaded"}


def start(index: Any, **content: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": content}


def delta(index: Any, **rest: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": rest}


def stop(index: Any) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def text(index: int, words: str) -> list[dict[str, Any]]:
    return [start(index, type="text", text=""), delta(index, type="text_delta", text=words), stop(index)]


def call(index: int, *pieces: str, name: str = "f", whole: Any = None) -> list[dict[str, Any]]:
    first = start(index, type="tool_use", id=f"t{index}", name=name, input={} if whole is None else whole)
    return [
        first,
        *(delta(index, type="input_json_delta", partial_json=piece) for piece in pieces),
        stop(index),
    ]


def end(reason: Any, **usage: Any) -> list[dict[str, Any]]:
    return [
        {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage},
        {"type": "message_stop"},
    ]


def gather(*events: Any) -> list[Any] | Broken | ServerError:
    """Everything a reply of these events gives, in order, as ``HttpStream`` would feed it."""
    reply = AnthropicReply()
    deltas: list[Any] = []
    for event in events:
        data = event if isinstance(event, bytes) else json.dumps(event).encode()
        name = event.get("type", "") if isinstance(event, dict) else "message"
        outcome = reply.feed(name, data)
        if isinstance(outcome, Broken | ServerError):
            return outcome
        deltas += outcome or ()
        if reply.over:
            break
    closed = reply.close()
    return closed if isinstance(closed, Broken) else [*deltas, *closed]


def play(data: bytes, cuts: list[int]) -> Any:
    """The deltas of a stream whose bytes are cut there; neighbours of a kind are joined."""
    parser, events = SseParser(), []
    borders = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    for begin, stop_at in pairwise(borders):
        events += parser.feed(data[begin:stop_at])
    reply = AnthropicReply()
    deltas: list[Any] = []
    for event in events + parser.finish():
        outcome = reply.feed(event.name, event.data)
        if isinstance(outcome, Broken | ServerError):
            return [*deltas, outcome]
        deltas += outcome or ()
    closed = reply.close()
    return [*deltas, closed] if isinstance(closed, Broken) else [*deltas, *closed]


THINKING_AND_CALLS = (
    '{"wire":"anthropic","version":1,"digest":"3e2f1928be562e0b","content":['
    '{"type":"thinking","thinking":"Two files to read. 𝄞","signature":"c2lnLW9uZQ=="},'
    '{"type":"redacted_thinking","data":"ZW5jcnlwdGVk"},13,'
    '{"type":"thinking","thinking":"","signature":"c2lnLXR3bw=="},"call","call"]}'
)
STREAMS: dict[str, list[Any]] = {
    "anthropic-thinking-and-calls.sse": [
        UsageDelta(2312, 2, 2000, 300),
        ThoughtDelta("Two files "),
        ThoughtDelta("to read. 𝄞"),
        TextDelta("I read "),
        TextDelta("both.\n"),
        ToolCallDelta("toolu_A", "read_file", '{"path": "a.txt"}'),
        ToolCallDelta("toolu_B", "list_all", "{}"),
        UsageDelta(2312, 90, 2000, 300, 40),
        Finished(Finish.TOOL_CALLS, THINKING_AND_CALLS),
    ],
    "anthropic-unknown-kinds.sse": [
        UsageDelta(9, 1),
        TextDelta("As the "),
        TextDelta("sky is\u2028blue"),
        UsageDelta(9, 17),
        Finished(Finish.STOP),
    ],
    "anthropic-cut-call.sse": [
        UsageDelta(9, 1),
        TextDelta("I write it"),
        UsageDelta(9, 64000),
        Finished(Finish.LENGTH),
    ],
    "anthropic-overloaded.sse": [UsageDelta(9, 1), TextDelta("I begin"), ServerError(OVERLOADED)],
}


def test_every_golden_stream_is_held() -> None:
    assert {path.name for path in GOLDEN.glob("anthropic-*.sse")} == set(STREAMS)


@pytest.mark.parametrize("name", STREAMS)
def test_a_golden_stream_gives_these_deltas(name: str) -> None:
    assert play((GOLDEN / name).read_bytes(), []) == STREAMS[name]


@pytest.mark.parametrize("name", STREAMS)
@given(cuts=st.lists(st.integers(0, 9999), max_size=40))
def test_it_gives_them_however_it_is_cut(name: str, cuts: list[int]) -> None:
    assert play((GOLDEN / name).read_bytes(), cuts) == STREAMS[name]


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_that_is_cut_off_anywhere_runs_nothing(name: str) -> None:
    lines = (GOLDEN / name).read_bytes().splitlines(keepends=True)
    last = next((at for at, line in enumerate(lines) if b'"message_delta"' in line), len(lines))
    for size in range(last):
        deltas = play(b"".join(lines[:size]), [])
        assert not any(isinstance(delta, ToolCallDelta | Finished) for delta in deltas)
        assert isinstance(deltas[-1], Broken | ServerError)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", Finish.STOP),
        ("stop_sequence", Finish.STOP),
        ("pause_turn", Finish.STOP),
        ("max_tokens", Finish.LENGTH),
        ("model_context_window_exceeded", Finish.LENGTH),
        ("refusal", Finish.REFUSAL),
    ],
)
def test_stop_reasons(reason: str, finish: Finish) -> None:
    assert gather(*text(0, "hi"), *end(reason)) == [TextDelta("hi"), Finished(finish)]


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (("tool_use", "max_tokens"), [Finished(Finish.LENGTH)]),
        (("max_tokens", "tool_use"), [Finished(Finish.LENGTH)]),
        (("end_turn", "refusal"), [Finished(Finish.REFUSAL)]),
        (("refusal", "end_turn"), [Finished(Finish.REFUSAL)]),
        (("tool_use", "bogus"), Broken("ended its answer with the unknown reason 'bogus'")),
    ],
)
def test_no_reason_takes_back_a_worse_one(reasons: tuple[str, str], expected: Any) -> None:
    ends = [{"type": "message_delta", "delta": {"stop_reason": reason}} for reason in reasons]
    assert gather(*call(0, "{}"), *ends, {"type": "message_stop"}) == expected


def test_a_stop_that_is_said_again_is_no_sign_of_life() -> None:
    reply, said = AnthropicReply(), b'{"type":"message_delta","delta":{"stop_reason":"end_turn"}}'
    assert [reply.feed("message_delta", said) for _ in range(3)] == [[], None, None]


@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded", "refusal"])
def test_a_reply_that_was_cut_or_refused_drops_its_calls(reason: str) -> None:
    gathered = gather(*text(0, "hi"), *call(1, '{"x": 1}'), *end(reason))
    assert isinstance(gathered, list)
    assert not any(isinstance(delta, ToolCallDelta) for delta in gathered)


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([*text(0, "hi"), *end("tool_use")], "announced tool calls and sent none"),
        ([*text(0, "hi"), *end("gone_fishing")], "ended its answer with the unknown reason 'gone_fishing'"),
        ([*text(0, "hi"), *end(7)], "ended its answer with the unknown reason '7'"),
        ([*text(0, "hi"), *end(None)], "ended its answer in the middle"),
        ([*text(0, "hi"), {"type": "message_stop"}], "ended its answer in the middle"),
        ([*text(0, "hi")], "ended its answer in the middle"),
        ([*call(0, '{"x":'), *end("end_turn")], "broke off in the middle of a tool call"),
        ([*call(0, '{"x": 1}')[:-1], *end("tool_use")], "broke off in the middle of a tool call"),
        ([*call(0, "{}", name=""), *end("tool_use")], "sent a tool call without a name"),
        ([b"nonsense"], "sent an event that cannot be read"),
        ([b"[1]"], "sent an event that cannot be read"),
        ([b"[" * 100_000], "sent an event that cannot be read"),
    ],
)
def test_contradictions_break_the_reply(events: list[Any], reason: str) -> None:
    assert gather(*events) == Broken(reason)


@pytest.mark.parametrize(
    "events",
    [
        [delta(0, type="text_delta", text="hi")],
        [stop(0)],
        [*text(0, "hi"), delta(0, type="text_delta", text="more")],
        [*text(0, "hi"), stop(0)],
        [*text(0, "hi"), start(0, type="text", text="")],
        [start(0, type="text"), delta(0, type="input_json_delta", partial_json="{}")],
        [start(0, type="thinking"), delta(0, type="text_delta", text="hi")],
        [start(0, type="tool_use", id="a", name="f"), delta(0, type="text_delta", text="hi")],
        [start(0, type="redacted_thinking", data="x"), delta(0, type="thinking_delta", thinking="hi")],
        [start(0, type="text"), {"type": "content_block_delta", "index": 0, "delta": "hi"}],
        [start("0", type="text")],
        [start([], type="text")],
        [{"type": "content_block_start", "index": 0}],
        [{"type": "content_block_delta", "index": {}, "delta": {"type": "text_delta", "text": "hi"}}],
    ],
)
def test_parts_that_do_not_fit_together_break_the_reply(events: list[Any]) -> None:
    assert gather(*events, *end("end_turn")) == Broken("mixed the parts of its answer up")


@pytest.mark.parametrize(
    ("events", "arguments"),
    [
        (call(0), "{}"),
        (call(0, ""), "{}"),
        (call(0, '{"x": 1}'), '{"x": 1}'),
        (call(0, *'{"x": "ü"}'), '{"x": "ü"}'),
        (call(0, whole={"x": [1, "ü"]}), '{"x":[1,"ü"]}'),
        (call(0, "", whole={"x": 1}), '{"x":1}'),
        (call(0, '{"x": 2}', whole={"x": 1}), '{"x": 2}'),
        (call(0, '{"x":'), '{"x":'),  # the model is told that it does not parse
    ],
)
def test_arguments_come_in_any_split_or_at_once(events: list[Any], arguments: str) -> None:
    assert gather(*events, *end("tool_use")) == [
        ToolCallDelta("t0", "f", arguments),
        Finished(Finish.TOOL_CALLS),
    ]


def test_calls_side_by_side_are_kept_apart() -> None:
    first, second = call(0, '{"a"', ": 1}"), call(1, '{"b"', ": 2}")
    mixed = [part for pair in zip(first, second, strict=True) for part in pair]
    assert gather(*mixed, *end("end_turn")) == [
        ToolCallDelta("t0", "f", '{"a": 1}'),
        ToolCallDelta("t1", "f", '{"b": 2}'),
        Finished(Finish.TOOL_CALLS),
    ]


def test_the_end_without_message_stop_is_an_end() -> None:
    assert gather(*text(0, "hi"), end("end_turn")[0]) == [TextDelta("hi"), Finished(Finish.STOP)]


def test_the_end_as_the_other_wire_says_it() -> None:
    assert gather(*text(0, "hi"), end("end_turn")[0], b"[DONE]", b"x")[-1:] == [Finished(Finish.STOP)]  # type: ignore[index]
    assert gather(*text(0, "hi"), b"[DONE]") == Broken("ended its answer in the middle")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("ping", b'{"type": "ping"}'),
        ("ping", b""),
        ("message", b'{"type": "ping"}'),
        ("message_start", b'{"type": "message_start", "message": {"usage": {"input_tokens": 3}}}'),
        ("message_start", b'{"type": "message_start"}'),
        ("weather", b'{"type": "weather"}'),
        ("weather", b'{"type": 7}'),
        ("message_delta", b'{"type": "message_delta", "delta": {}, "usage": {"output_tokens": -1}}'),
        ("message_delta", b'{"type": "message_delta", "delta": {"stop_reason": null}}'),
    ],
)
def test_what_is_no_sign_of_life(name: str, data: bytes) -> None:
    assert AnthropicReply().feed(name, data) is None


@pytest.mark.parametrize(
    ("kind", "empty", "full"),
    [
        ("text", {"type": "text_delta", "text": ""}, {"type": "text_delta", "text": "a"}),
        (
            "thinking",
            {"type": "thinking_delta", "thinking": ""},
            {"type": "signature_delta", "signature": "a"},
        ),
        (
            "tool_use",
            {"type": "input_json_delta", "partial_json": ""},
            {"type": "input_json_delta", "partial_json": "{"},
        ),
        ("text", {"type": "colour_delta", "colour": "blue"}, {"type": "text_delta", "text": "a"}),
    ],
)
def test_a_delta_without_anything_in_it_is_no_sign_of_life(
    kind: str, empty: dict[str, Any], full: dict[str, Any]
) -> None:
    reply = AnthropicReply()
    reply.feed("content_block_start", json.dumps(start(0, type=kind)).encode())
    outcomes = [reply.feed("", json.dumps(delta(0, **parts)).encode()) for parts in (empty, full)]
    assert [outcome is None for outcome in outcomes] == [True, False]


def test_what_counts_on_without_words_is_a_sign_of_life() -> None:
    reply = AnthropicReply()
    counted = b'{"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}}'
    assert [reply.feed("message_delta", counted), reply.feed("message_delta", counted)] == [[], None]
    begun = json.dumps(start(0, type="thinking", thinking="")).encode()
    assert reply.feed("content_block_start", begun) == []


@pytest.mark.parametrize(
    ("name", "data", "error"),
    [
        ("error", json.dumps({"type": "error", "error": OVERLOADED}).encode(), OVERLOADED),
        ("message", json.dumps({"type": "error", "error": OVERLOADED}).encode(), OVERLOADED),
        ("message", json.dumps({"error": OVERLOADED}).encode(), OVERLOADED),
        ("error", b"it broke", "it broke"),
        ("error", b'{"message": "it broke"}', '{"message": "it broke"}'),
    ],
)
def test_errors(name: str, data: bytes, error: Any) -> None:
    assert AnthropicReply().feed(name, data) == ServerError(error)


# -- usage -----------------------------------------------------------------------------------------


def usage(begin: dict[str, Any], finish: dict[str, Any]) -> list[Any]:
    first = {"type": "message_start", "message": {"usage": begin}}
    gathered = gather(first, *text(0, "hi"), *end("end_turn", **finish))
    assert isinstance(gathered, list)
    return [delta for delta in gathered if isinstance(delta, UsageDelta)]


@pytest.mark.parametrize(
    ("begin", "finish", "last"),
    [
        ({"input_tokens": 5, "output_tokens": 1}, {"output_tokens": 7}, UsageDelta(5, 7)),
        ({"input_tokens": 5}, {"output_tokens": 7, "input_tokens": 6}, UsageDelta(6, 7)),
        ({}, {"output_tokens": 7, "input_tokens": 6, "cache_read_input_tokens": 4}, UsageDelta(10, 7, 4)),
        (
            {"input_tokens": 5, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 3},
            {"output_tokens": 7, "cache_read_input_tokens": None},
            UsageDelta(10, 7, 3, 2),
        ),
        (
            {"input_tokens": 5},
            {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 4}},
            UsageDelta(5, 7, thought_tokens=4),
        ),
        (
            {"input_tokens": 5},
            {"output_tokens": 7, "output_tokens_details": {"thinking_tokens": 9}},
            UsageDelta(5, 7, thought_tokens=7),
        ),
        ({"input_tokens": 5, "output_tokens": 1}, {"output_tokens": -7}, UsageDelta(5, 1)),
        ({"input_tokens": 5, "output_tokens": 1}, {"output_tokens": 10**15}, UsageDelta(5, 1)),
        ({"input_tokens": 5, "output_tokens": 1}, {"output_tokens": "7"}, UsageDelta(5, 1)),
        ({"input_tokens": 5, "output_tokens": 1}, {"output_tokens": True}, UsageDelta(5, 1)),
        ({"input_tokens": 5, "output_tokens": 1}, {"output_tokens": 7.5}, UsageDelta(5, 1)),
        ({"input_tokens": 5, "output_tokens": 1}, {"output_tokens": float("nan")}, UsageDelta(5, 1)),
    ],
)
def test_usage(begin: dict[str, Any], finish: dict[str, Any], last: UsageDelta) -> None:
    assert usage(begin, finish)[-1] == last


def test_a_count_of_one_side_alone_is_not_told() -> None:
    assert usage({"input_tokens": 5}, {}) == usage({}, {"output_tokens": 5}) == []


def test_what_was_counted_at_the_start_comes_with_the_first_block() -> None:
    counted = {"input_tokens": 5, "cache_read_input_tokens": 4, "output_tokens": 1}
    reply = AnthropicReply()
    reply.feed("message_start", json.dumps({"message": {"usage": counted}}).encode())
    begun = json.dumps(start(0, type="text", text="")).encode()
    assert reply.feed("content_block_start", begun) == [UsageDelta(9, 1, 4)]


# -- text and thoughts -----------------------------------------------------------------------------


def test_what_stands_in_the_start_of_a_block_is_taken() -> None:
    gathered = gather(
        start(0, type="thinking", thinking="hm", signature="s"),
        stop(0),
        start(1, type="text", text="hi"),
        stop(1),
        *end("end_turn"),
    )
    assert isinstance(gathered, list)
    assert gathered[:2] == [ThoughtDelta("hm"), TextDelta("hi")]
    assert places_of(gathered[-1].opaque) == [Thought("hm", "s"), 2]


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([rb"\ud834", rb"\udd1e"], ["𝄞"]),
        ([rb"a\ud834", rb"b"], ["a", "\ufffdb"]),
        ([rb"a\ud834"], ["a", "\ufffd"]),
        ([rb"\udd1e"], ["\ufffd"]),
        ([b"\xff"], ["\ufffd"]),
    ],
)
@pytest.mark.parametrize(("kind", "made"), [("text", TextDelta), ("thinking", ThoughtDelta)])
def test_what_comes_out_is_unicode(pieces: list[bytes], words: list[str], kind: str, made: Any) -> None:
    events: list[Any] = [start(0, type=kind)]
    for piece in pieces:
        event = json.dumps(delta(0, type=f"{kind}_delta", **{kind: "WORDS"})).encode()
        events.append(event.replace(b"WORDS", piece))
    gathered = gather(*events, stop(0), *end("end_turn"))
    assert isinstance(gathered, list)
    assert gathered[:-1] == [made(word) for word in words]
    assert places_of(gathered[-1].opaque) == ([Thought("".join(words), "")] if kind == "thinking" else ())


def test_a_thought_that_was_cut_is_not_kept() -> None:
    cut = [start(0, type="thinking"), delta(0, type="thinking_delta", thinking="hm")]
    assert gather(*cut, *end("max_tokens")) == [ThoughtDelta("hm"), Finished(Finish.LENGTH)]


def test_thoughts_are_kept_of_a_cut_reply_without_its_calls_and_not_of_a_refused_one() -> None:
    events = [start(0, type="redacted_thinking", data="d"), stop(0), *text(1, "hi"), *call(2, "{}")]
    cut, refused = gather(*events, *end("max_tokens")), gather(*events, *end("refusal"))
    assert isinstance(cut, list)
    assert isinstance(refused, list)
    assert places_of(cut[-1].opaque) == [HiddenThought("d"), 2]
    assert refused[-1] == Finished(Finish.REFUSAL)


# -- bounds ----------------------------------------------------------------------------------------


def test_a_reply_is_bounded() -> None:
    many = [event for at in range(MAX_CALLS + 1) for event in call(at)]
    assert gather(*many, *end("tool_use")) == Broken("made too many tool calls in one answer")
    parts = [event for at in range(MAX_BLOCKS + 1) for event in text(at, "x")]
    assert gather(*parts, *end("end_turn")) == Broken("made its answer of too many parts")
    large = "x" * (MAX_ARGUMENTS // 2 + 1)
    assert gather(*call(0, large, large)) == Broken("sent an answer that is too large")
    thought = delta(0, type="thinking_delta", thinking=large)
    assert gather(start(0, type="thinking"), thought, thought) == Broken("sent an answer that is too large")


@given(st.lists(st.tuples(st.sampled_from(["message", "error", "message_delta"]), st.binary()), max_size=5))
def test_nothing_a_server_sends_raises(events: list[tuple[str, bytes]]) -> None:
    reply = AnthropicReply()
    for name, data in events:
        reply.feed(name, data)
    reply.close()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=4,
)
KINDS = st.sampled_from(
    ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta"]
)
CONTENT = st.dictionaries(
    st.sampled_from(["type", "text", "thinking", "signature", "data", "id", "name", "input", "stop_reason"]),
    st.sampled_from(["text", "thinking", "redacted_thinking", "tool_use", "text_delta", "end_turn"]) | JSON,
)


@given(
    st.lists(
        st.fixed_dictionaries(
            {"type": KINDS, "index": st.integers(0, 2) | JSON},
            optional={
                "content_block": CONTENT | JSON,
                "delta": CONTENT | JSON,
                "message": JSON,
                "usage": JSON,
            },
        ),
        max_size=6,
    )
)
@settings(max_examples=40)
def test_no_event_of_any_shape_raises(events: list[dict[str, Any]]) -> None:
    gather(*events)
