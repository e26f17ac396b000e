"""Replies gathered from Chat Completions events, server by server as they misbehave: text and calls come out
right or the reply is broken; arguments are never merged, and no terminal event is ever made up."""

import json
from typing import Any

import pytest

from term2_acp.providers.base import Finish, Finished, TextDelta, ThoughtDelta, ToolCallDelta, UsageDelta
from term2_acp.providers.chat.calls import CallGatherer
from term2_acp.providers.chat.dialects import DIALECTS, PLAIN, Dialect
from term2_acp.providers.chat.reply import ChatReply
from term2_acp.providers.wire import Broken, ServerError
from term2_acp.providers.wire_values import MAX_ARGUMENTS, MAX_CALLS
from tests.kit.model_server import USAGE, call_piece, chunk


def gather(*values: Any, dialect: Dialect = PLAIN) -> list[Any] | Broken | ServerError:
    """Everything a reply of these events gives, in order."""
    reply = ChatReply(dialect)
    deltas: list[Any] = []
    for value in values:
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        outcome = reply.feed("message", data)
        if isinstance(outcome, Broken | ServerError):
            return outcome
        deltas += outcome or []
    end = reply.close()
    return end if isinstance(end, Broken) else [*deltas, *end]


def tools(*pieces: dict[str, Any], finish: str | None = "tool_calls") -> list[Any] | Broken | ServerError:
    """The calls of a reply whose pieces come one in an event."""
    return gather(*(chunk(tool_calls=[piece]) for piece in pieces), chunk(finish))


A = ToolCallDelta("a", "add", '{"x":1}')
B = ToolCallDelta("b", "sub", '{"y":2}')
CALLS = [A, B, Finished(Finish.TOOL_CALLS)]


def test_text_thoughts_and_usage() -> None:
    assert gather(
        chunk(role="assistant", content=None),
        chunk(reasoning_content="hm"),
        chunk(reasoning="ok"),
        chunk(content="Hel"),
        chunk("stop", content="lo"),
        USAGE,
    ) == [
        ThoughtDelta("hm"),
        ThoughtDelta("ok"),
        TextDelta("Hel"),
        TextDelta("lo"),
        UsageDelta(11, 7),
        Finished(Finish.STOP, '{"wire":"chat","field":"reasoning","text":"hmok"}'),
    ]


@pytest.mark.parametrize(
    "pieces",
    [
        # index and id in every piece
        [
            call_piece(0, id="a", name="add", arguments='{"x"'),
            call_piece(1, id="b", name="sub", arguments='{"y"'),
            call_piece(0, id="a", arguments=":1}"),
            call_piece(1, id="b", arguments=":2}"),
        ],
        # index everywhere, id and name in the first piece only, interleaved
        [
            call_piece(0, id="a", name="add", arguments=""),
            call_piece(1, id="b", name="sub", arguments=""),
            call_piece(1, arguments='{"y":2}'),
            call_piece(0, arguments='{"x":1}'),
        ],
        # no index, whole calls
        [
            call_piece(None, id="a", name="add", arguments='{"x":1}'),
            call_piece(None, id="b", name="sub", arguments='{"y":2}'),
        ],
        # no index, ids everywhere, interleaved
        [
            call_piece(None, id="a", name="add", arguments='{"x"'),
            call_piece(None, id="b", name="sub", arguments='{"y"'),
            call_piece(None, id="a", arguments=":1}"),
            call_piece(None, id="b", arguments=":2}"),
        ],
        # no index, id in the first piece only, one call after the other
        [
            call_piece(None, id="a", name="add", arguments='{"x"'),
            call_piece(None, arguments=":1}"),
            call_piece(None, id="b", name="sub", arguments='{"y"'),
            call_piece(None, arguments=":2}"),
        ],
        # index only in the first piece of each
        [
            call_piece(0, id="a", name="add", arguments='{"x"'),
            call_piece(None, arguments=":1}"),
            call_piece(1, id="b", name="sub", arguments='{"y"'),
            call_piece(None, arguments=":2}"),
        ],
        # every call under index 0
        [
            call_piece(0, id="a", name="add", arguments='{"x":1}'),
            call_piece(0, id="b", name="sub", arguments='{"y":2}'),
        ],
        # every call under index 0, the second id written as Mistral writes none
        [
            call_piece(0, id="a", name="add", arguments='{"x":1}'),
            call_piece(1, id="null", name="sub", arguments='{"y":2}'),
            call_piece(1, id="b", arguments=""),
        ],
        # name and id repeated in every piece
        [
            call_piece(0, id="a", name="add", arguments='{"x"'),
            call_piece(0, id="a", name="add", arguments=":1}"),
            call_piece(0, id="a", name="add", arguments=""),
            call_piece(1, id="b", name="sub", arguments='{"y"'),
            call_piece(1, id="b", name="sub", arguments=":2}"),
        ],
        # the same without an index
        [
            call_piece(None, id="a", name="add", arguments='{"x"'),
            call_piece(None, id="a", name="add", arguments=":1}"),
            call_piece(None, id="a", name="add", arguments=""),
            call_piece(None, id="b", name="sub", arguments='{"y":2}'),
        ],
        # arguments as objects
        [
            call_piece(0, id="a", name="add", arguments={"x": 1}),
            call_piece(1, id="b", name="sub", arguments={"y": 2}),
        ],
        # index that comes late
        [
            call_piece(None, id="a", name="add", arguments='{"x"'),
            call_piece(0, arguments=":1}"),
            call_piece(1, id="b", name="sub", arguments='{"y":2}'),
        ],
        # indexes that start at 1, or are out of order
        [
            call_piece(3, id="a", name="add", arguments='{"x":1}'),
            call_piece(1, id="b", name="sub", arguments='{"y":2}'),
        ],
    ],
)
def test_two_calls_however_they_are_cut(pieces: list[dict[str, Any]]) -> None:
    assert tools(*pieces) == CALLS


def test_two_calls_in_one_event() -> None:
    pieces = [
        call_piece(None, id="a", name="add", arguments='{"x":1}'),
        call_piece(None, id="b", name="sub", arguments='{"y":2}'),
    ]
    assert gather(chunk(tool_calls=pieces), chunk("tool_calls")) == CALLS


def test_calls_without_ids_keep_apart() -> None:
    assert tools(
        call_piece(None, name="add", arguments='{"x":1}'), call_piece(None, name="sub", arguments='{"y":2}')
    ) == [
        ToolCallDelta("", "add", '{"x":1}'),
        ToolCallDelta("", "sub", '{"y":2}'),
        Finished(Finish.TOOL_CALLS),
    ]


@pytest.mark.parametrize("names", [("add", "sub"), ("add", "add")])
@pytest.mark.parametrize("call_id", ["", None, "same"])
def test_whole_calls_under_one_index_keep_apart(names: tuple[str, str], call_id: str | None) -> None:
    first, second = names
    assert tools(
        call_piece(0, id=call_id, name=first, arguments='{"x":1}'),
        call_piece(0, id=call_id, name=second, arguments='{"y":2}'),
    ) == [
        ToolCallDelta(call_id or "", first, '{"x":1}'),
        ToolCallDelta(call_id or "", second, '{"y":2}'),
        Finished(Finish.TOOL_CALLS),
    ]


def test_another_name_under_the_index_of_half_a_call_breaks_the_reply() -> None:
    outcome = tools(
        call_piece(0, id="a", name="add", arguments='{"x"'),
        call_piece(0, id="b", name="sub", arguments=":1}"),
    )
    assert outcome == Broken("mixed its tool calls up")


def test_a_call_without_arguments_is_not_given_those_of_the_next() -> None:
    assert tools(call_piece(0, name="now", arguments=""), call_piece(0, name="add", arguments='{"x":1}')) == [
        ToolCallDelta("", "now", "{}"),
        ToolCallDelta("", "add", '{"x":1}'),
        Finished(Finish.TOOL_CALLS),
    ]


def test_two_calls_of_one_tool_without_any_mark_keep_apart() -> None:
    assert tools(
        call_piece(None, name="add", arguments='{"x":1}'), call_piece(None, name="add", arguments='{"x":2}')
    ) == [
        ToolCallDelta("", "add", '{"x":1}'),
        ToolCallDelta("", "add", '{"x":2}'),
        Finished(Finish.TOOL_CALLS),
    ]


def test_an_id_that_is_used_twice_is_two_calls() -> None:
    again = call_piece(None, id="a", name="add", arguments='{"x":1}')
    assert tools(again, again) == [A, A, Finished(Finish.TOOL_CALLS)]


@pytest.mark.parametrize("arguments", ["", None])
def test_no_arguments_are_an_empty_object(arguments: str | None) -> None:
    assert tools(call_piece(0, id="a", name="now", arguments=arguments)) == [
        ToolCallDelta("a", "now", "{}"),
        Finished(Finish.TOOL_CALLS),
    ]


def test_pieces_of_several_open_calls_without_marks_break_the_reply() -> None:
    outcome = tools(
        call_piece(None, name="add", arguments='{"x"'),
        call_piece(None, name="sub", arguments='{"y"'),
        call_piece(None, arguments=":1}"),
        call_piece(None, arguments=":2}"),
    )
    assert outcome == Broken("mixed its tool calls up")


def test_more_arguments_for_a_whole_call_break_the_reply() -> None:
    assert isinstance(
        tools(
            call_piece(None, id="a", name="add", arguments='{"x":1}'), call_piece(None, arguments='{"y":2}')
        ),
        Broken,
    )


def test_the_old_way_to_call_a_function() -> None:
    assert gather(
        chunk(function_call={"name": "add", "arguments": '{"x"'}),
        chunk(function_call={"arguments": ":1}"}),
        chunk("function_call"),
    ) == [ToolCallDelta("", "add", '{"x":1}'), Finished(Finish.TOOL_CALLS)]


@pytest.mark.parametrize("arguments", ['{"a":', "[]", "null", '"x"', "\x00", '{"a":1}}'])
def test_malformed_arguments_of_an_announced_call_go_out_as_they_are(arguments: str) -> None:
    """The dispatcher tells the model; this is not the place to guess."""
    assert tools(call_piece(0, id="a", name="add", arguments=arguments)) == [
        ToolCallDelta("a", "add", arguments),
        Finished(Finish.TOOL_CALLS),
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"a": "\ud83d"}, '{"a":"\ufffd"}'),
        ({"\ud800": ["\udc00", {"b": "\ud83d\ude00"}]}, '{"\ufffd":["\ufffd",{"b":"\U0001f600"}]}'),
        ({"a": "\udfff", "n": [1, None, 1.5]}, '{"a":"\ufffd","n":[1,null,1.5]}'),
    ],
)
def test_arguments_that_come_as_a_value_are_unicode_too(arguments: dict[str, Any], text: str) -> None:
    """A value may hold half a surrogate pair, and no JSON in UTF-8 can."""
    reply = ChatReply()
    piece = call_piece(0, id="a", name="add", arguments=arguments)
    assert reply.feed("message", json.dumps(chunk("tool_calls", tool_calls=[piece])).encode()) == []
    assert reply.close() == [ToolCallDelta("a", "add", text), Finished(Finish.TOOL_CALLS)]


def test_arguments_nested_too_deep_to_be_written_break_the_reply() -> None:
    deep: Any = "\ud800"
    for _ in range(20_000):
        deep = [deep]
    outcome = CallGatherer().take(0, "a", "add", {"a": deep})
    assert isinstance(outcome, Broken)
    assert "too deep" in outcome.reason


@pytest.mark.parametrize(
    ("finish", "expected"),
    [
        ("stop", Finish.STOP),
        ("STOP", Finish.STOP),
        ("eos", Finish.STOP),
        ("length", Finish.LENGTH),
        ("max_tokens", Finish.LENGTH),
        ("content_filter", Finish.REFUSAL),
    ],
)
def test_finish_reasons(finish: str, expected: Finish) -> None:
    assert gather(chunk(content="x"), chunk(finish)) == [TextDelta("x"), Finished(expected)]


@pytest.mark.parametrize("finish", ["stop", "tool_calls", "function_call", "tool_use"])
def test_whole_calls_are_calls_whatever_word_ends_them(finish: str) -> None:
    piece = call_piece(0, id="a", name="add", arguments='{"x":1}')
    assert tools(piece, finish=finish) == [A, Finished(Finish.TOOL_CALLS)]


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_a_cut_or_refused_reply_has_no_calls(finish: str) -> None:
    outcome = tools(
        call_piece(0, id="a", name="add", arguments='{"x":1}'),
        call_piece(1, id="b", name="sub", arguments='{"y"'),
        finish=finish,
    )
    assert outcome in ([Finished(Finish.LENGTH)], [Finished(Finish.REFUSAL)])


@pytest.mark.parametrize(
    ("reasons", "expected"),
    [
        (("length", "stop"), [Finished(Finish.LENGTH)]),
        (("length", "tool_calls"), [Finished(Finish.LENGTH)]),
        (("tool_calls", "length"), [Finished(Finish.LENGTH)]),
        (("content_filter", "stop"), [Finished(Finish.REFUSAL)]),
        (("error", "stop"), Broken("failed in the middle of its answer")),
        (("null", "stop"), [ToolCallDelta("a", "f", "{}"), Finished(Finish.TOOL_CALLS)]),
    ],
)
def test_no_reason_takes_back_a_worse_one(reasons: tuple[str, str], expected: Any) -> None:
    call = chunk(tool_calls=[call_piece(0, id="a", name="f", arguments="{}")])
    assert gather(call, *map(chunk, reasons)) == expected


def test_a_stop_that_is_said_again_is_no_sign_of_life() -> None:
    reply = ChatReply()
    again = [reply.feed("message", json.dumps(chunk("stop")).encode()) for _ in range(3)]
    assert again == [[], None, None]


def test_a_refusal_is_shown_and_is_one() -> None:
    assert gather(chunk(refusal="I will not."), chunk("stop")) == [
        TextDelta("I will not."),
        Finished(Finish.REFUSAL),
    ]


@pytest.mark.parametrize(
    "values",
    [
        [],
        [chunk(content="x")],
        [chunk(content="x"), chunk("")],
        [chunk(content="x"), chunk("error")],
        [chunk(content="x"), chunk("tool_calls")],
        [chunk(tool_calls=[call_piece(0, id="a", name="add", arguments='{"x"')]), chunk("stop")],
        [chunk(tool_calls=[call_piece(0, id="a", arguments="{}")]), chunk("tool_calls")],
        [b"{"],
        [b'{"choices": 5}'],
        [b"[]"],
        [b"[" * 100_000],
    ],
    ids=[
        "nothing",
        "no end",
        "an empty end",
        "an unknown end",
        "no calls",
        "half a call",
        "no name",
        "half JSON",
        "other JSON",
        "no object",
        "deep JSON",
    ],
)
def test_contradictions_break_the_reply(values: list[Any]) -> None:
    assert isinstance(gather(*values), Broken)


@pytest.mark.parametrize(
    "usage",
    [
        b'{"prompt_tokens": -1, "completion_tokens": 2}',
        b'{"prompt_tokens": NaN, "completion_tokens": 2}',
        b'{"prompt_tokens": 1e308, "completion_tokens": 2}',
        b'{"prompt_tokens": 1.5, "completion_tokens": 2}',
        b'{"prompt_tokens": true, "completion_tokens": 2}',
        b'{"prompt_tokens": "7", "completion_tokens": 2}',
        b'{"prompt_tokens": 99999999999999999999, "completion_tokens": 2}',
        b'{"completion_tokens": 2}',
        b"null",
        b"[]",
    ],
)
def test_usage_that_cannot_be_is_dropped_and_nothing_else(usage: bytes) -> None:
    data = b'{"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}],"usage":' + usage + b"}"
    assert gather(data) == [TextDelta("x"), Finished(Finish.STOP)]


def test_whole_floats_are_numbers_of_tokens_and_the_last_usage_counts() -> None:
    first = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
    last = {"choices": [], "usage": {"prompt_tokens": 3.0, "completion_tokens": 0}}
    assert gather(first, chunk("stop"), last) == [UsageDelta(3, 0), Finished(Finish.STOP)]


def test_text_is_unicode_whatever_was_escaped_or_cut() -> None:
    halves = [
        rb'{"choices":[{"delta":{"content":"a\ud834"}}]}',
        rb'{"choices":[{"delta":{"content":"\udd1eb"}}]}',
    ]
    assert gather(*halves, chunk("stop")) == [TextDelta("a"), TextDelta("𝄞b"), Finished(Finish.STOP)]
    lone = rb'{"choices":[{"delta":{"content":"a\udd1eb"}}]}'
    assert gather(lone, chunk("stop")) == [TextDelta("a\ufffdb"), Finished(Finish.STOP)]
    tail = rb'{"choices":[{"delta":{"content":"a\ud834"}}]}'
    assert gather(tail, chunk("stop")) == [TextDelta("a"), TextDelta("\ufffd"), Finished(Finish.STOP)]
    bytes_ = b'{"choices":[{"delta":{"content":"a\xff\xe2\x80\x94b"}}]}'
    assert gather(bytes_, chunk("stop")) == [TextDelta("a\ufffd—b"), Finished(Finish.STOP)]


def test_typed_parts_of_content() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "odd"}, {"type": "text", "text": "b"}]
    assert gather(chunk(content=parts), chunk("stop")) == [
        TextDelta("a"),
        TextDelta("b"),
        Finished(Finish.STOP),
    ]


THINKING = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}, {"type": "odd"}, 5]}


def test_thoughts_in_typed_parts() -> None:
    parts = [THINKING, {"type": "text", "text": "a"}, 5, {"type": "thinking", "thinking": "ok"}]
    assert gather(chunk(content=parts), chunk("stop"), dialect=DIALECTS["mistral"]) == [
        ThoughtDelta("hm"),
        TextDelta("a"),
        ThoughtDelta("ok"),
        Finished(Finish.STOP, '{"wire":"chat","text":"hmok"}'),
    ]


def test_thoughts_that_only_the_details_tell() -> None:
    details = [{"type": "reasoning.summary", "summary": "hm"}, {"type": "reasoning.encrypted", "data": "x"}]
    outcome = gather(chunk(reasoning_details=details), chunk("stop"), dialect=DIALECTS["openrouter"])
    assert outcome == [
        ThoughtDelta("hm"),
        Finished(
            Finish.STOP,
            '{"wire":"chat","details":[{"type":"reasoning.summary","summary":"hm"},'
            '{"type":"reasoning.encrypted","data":"x"}]}',
        ),
    ]


@pytest.mark.parametrize("odd", [5, True, ["x"], {"text": "x"}])
@pytest.mark.parametrize(
    "field", ["content", "reasoning", "reasoning_content", "reasoning_details", "refusal"]
)
def test_fields_of_a_strange_type_are_passed_over(field: str, odd: Any) -> None:
    outcome = gather(chunk(**{field: odd}), chunk(content="a"), chunk("stop"), dialect=DIALECTS["openrouter"])
    assert isinstance(outcome, list)
    assert outcome[:1] == [TextDelta("a")]


def test_thoughts_left_in_the_text() -> None:
    pieces = [chunk(content=piece) for piece in ("<thi", "nk>hm</", "think>\n", "\nWell", ", <think>")]
    assert gather(*pieces, chunk("stop"), dialect=DIALECTS["vllm"]) == [
        ThoughtDelta("hm"),
        TextDelta("Well"),
        TextDelta(", <think>"),
        Finished(Finish.STOP),
    ]
    whole = chunk(content="<think>hm</think>")
    assert gather(whole, chunk("stop"), dialect=DIALECTS["openai"]) == [
        TextDelta("<think>hm</think>"),
        Finished(Finish.STOP),
    ]


def test_who_tells_thoughts_apart_leaves_none_in_the_text() -> None:
    deltas = gather(chunk(content=" <th"), chunk(reasoning="hm"), chunk(content="<think>"), chunk("stop"))
    assert isinstance(deltas, list)
    assert deltas[:-1] == [TextDelta(" <th"), ThoughtDelta("hm"), TextDelta("<think>")]


def test_what_was_held_back_is_told_at_the_end() -> None:
    assert gather(chunk(content="<th"), chunk("stop")) == [TextDelta("<th"), Finished(Finish.STOP)]
    cut = rb'{"choices":[{"delta":{"content":"<think>hm</th\ud834"}}]}'
    assert gather(cut, chunk("stop")) == [
        ThoughtDelta("hm"),
        ThoughtDelta("</th\ufffd"),
        Finished(Finish.STOP),
    ]


@pytest.mark.parametrize("finish", ["length", "content_filter"])
def test_nothing_is_kept_of_a_reply_without_its_calls(finish: str) -> None:
    deltas = gather(chunk(reasoning_content="hm"), chunk(content="a"), chunk(finish))
    assert isinstance(deltas, list)
    assert deltas[-1].opaque is None


def test_the_native_reason_counts_where_it_is_worse() -> None:
    value = chunk("stop", content="x")
    value["choices"][0]["native_finish_reason"] = "refusal"
    assert gather(value) == [TextDelta("x"), Finished(Finish.REFUSAL)]


def test_a_usage_of_zeros_does_not_count_against_numbers() -> None:
    zeros = {"choices": [], "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}}
    assert gather(zeros, USAGE, chunk("stop"), zeros) == [UsageDelta(11, 7), Finished(Finish.STOP)]


def test_a_usage_that_was_told_before_is_no_sign_of_life() -> None:
    reply, data = ChatReply(), json.dumps(USAGE).encode()
    assert reply.feed("message", data) == []
    assert reply.feed("message", data) is None


ERROR = {"code": 502, "message": "upstream"}


@pytest.mark.parametrize(
    ("value", "error"),
    [
        # OpenRouter, in the middle of a reply: beside a choice, and inside of it
        ({"error": ERROR, "choices": [{"delta": {"content": ""}, "finish_reason": "error"}]}, ERROR),
        ({"choices": [{"delta": {"content": ""}, "finish_reason": "error", "error": ERROR}]}, ERROR),
        ({"choices": [], "x_groq": {"id": "req_1", "error": "over capacity"}}, "over capacity"),
        (
            {"object": "error", "message": "no", "code": 400},
            {"object": "error", "message": "no", "code": 400},
        ),
        ([{"error": ERROR}], ERROR),
        ({"error": "no"}, "no"),
    ],
)
def test_errors_wherever_they_stand(value: Any, error: Any) -> None:
    assert gather(value) == ServerError(error)
    assert gather(chunk(content="x"), value, b"[DONE]") == ServerError(error)
    assert gather(chunk(content="x"), chunk("stop"), value) == ServerError(error)


@pytest.mark.parametrize("error", [None, "", {}, False])
def test_an_error_that_is_none_is_none(error: Any) -> None:
    assert gather({**chunk("stop", content="x"), "error": error}) == [TextDelta("x"), Finished(Finish.STOP)]


def test_errors_inside_the_stream() -> None:
    assert gather(chunk(content="x"), {"error": {"message": "no"}}) == ServerError({"message": "no"})
    assert ChatReply().feed("error", b'{"message": "no"}') == ServerError({"message": "no"})
    assert ChatReply().feed("error", b"overloaded") == ServerError("overloaded")


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"choices": []},
        chunk(),
        chunk(content=""),
        chunk(role="assistant"),
        {"choices": [], "usage": None},
    ],
)
def test_an_event_that_carries_nothing_is_no_sign_of_life(value: dict[str, Any]) -> None:
    assert ChatReply().feed("message", json.dumps(value).encode()) is None


def test_a_second_answer_is_not_mixed_in() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "B"}, "finish_reason": "length"}]}
    assert gather(chunk(content="a"), other, chunk("stop")) == [TextDelta("a"), Finished(Finish.STOP)]


def test_calls_are_bounded_in_number_and_size() -> None:
    many = [call_piece(number, id=str(number), name="f", arguments="{}") for number in range(MAX_CALLS + 1)]
    assert tools(*many) == Broken("made too many tool calls in one answer")
    large = "x" * (MAX_ARGUMENTS // 2)
    assert tools(*[call_piece(0, id="a", name="f", arguments=large)] * 3) == Broken(
        "sent tool calls that are too large"
    )


@pytest.mark.parametrize("space", ["", " \n"])
@pytest.mark.parametrize("cut", range(1, 24))
def test_a_call_is_whole_where_its_object_ends_and_nowhere_before(cut: int, space: str) -> None:
    arguments = '{"x": ["\\\\", "}\\"}", {}]}'
    assert cut < len(arguments)
    pieces = [
        call_piece(None, name="f", arguments=arguments[:cut]),
        call_piece(None, arguments=arguments[cut:]),
        call_piece(None, arguments=space),
        call_piece(None, name="f", arguments="{}"),
    ]
    (first, second, _) = tools(*pieces)
    assert (first.arguments, second.arguments) == (arguments + space, "{}")


def test_arguments_in_very_many_pieces_cost_linear_time() -> None:
    pieces = [call_piece(None, id="a", name="f", arguments='{"x":"')]
    pieces += [call_piece(None, arguments="} ")] * 2000
    pieces += [call_piece(None, arguments='"}')]
    (call, _) = tools(*pieces)
    assert json.loads(call.arguments) == {"x": "} " * 2000}
