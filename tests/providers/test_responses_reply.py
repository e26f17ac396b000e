"""Replies of the Responses wire: golden streams with the deltas that they come to, whole; every way in which
servers were seen to name, repeat, leave out or contradict the items of a reply; and by hypothesis that it
does not matter where a stream is cut into reads."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.providers.base import (
    Delta,
    Finish,
    Finished,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    UsageDelta,
)
from term2_acp.providers.responses.items import MAX_ITEMS
from term2_acp.providers.responses.opaque import Place, read_places
from term2_acp.providers.responses.reply import MAX_KEEPALIVES, ResponsesReply, usage_of
from term2_acp.providers.wire import Broken, ServerError
from term2_acp.providers.wire_values import MAX_CALLS
from term2_acp.web.sse import SseParser

GOLDEN = Path(__file__).parent.parent / "golden" / "wires"
STOP, TOOL_CALLS = Finished(Finish.STOP), Finished(Finish.TOOL_CALLS)
END = "end"

Outcome = list[Delta | Broken | ServerError]


def read(chunks: Iterable[bytes]) -> Outcome:
    """What a stream comes to, as the provider's reader would read it."""
    parser, reply = SseParser(), ResponsesReply()
    out: Outcome = []
    events = (event for chunk in chunks for event in parser.feed(chunk))
    for event in [*events, *parser.finish()]:
        taken = reply.feed(event.name, event.data)
        if isinstance(taken, Broken | ServerError):
            return [*out, taken]
        out += taken or ()
        if reply.over:
            break
    closed = reply.close()
    return [*out, closed] if isinstance(closed, Broken) else [*out, *closed]


def golden(name: str) -> bytes:
    return (GOLDEN / f"responses-{name}.sse").read_bytes()


def without_opaque(outcome: Outcome) -> Outcome:
    return [Finished(delta.finish) if isinstance(delta, Finished) else delta for delta in outcome]


def kept(outcome: Outcome) -> Sequence[Place] | None:
    (end,) = (delta for delta in outcome if isinstance(delta, Finished))
    return read_places(end.opaque)


# -- the golden streams ----------------------------------------------------------------------------

CALLS: Outcome = [
    ThoughtDelta("The notes"),
    ThoughtDelta(" come first."),
    ThoughtDelta("\n\nThen the picture."),
    TextDelta("Reading "),
    TextDelta("both — 𝄞."),
    ToolCallDelta("call_a1", "read_file", '{"path":"notes.md"}'),
    ToolCallDelta("call_a2", "read_file", '{"path":"missing.md"}'),
    UsageDelta(1200, 340, 1024, 128, 192),
    TOOL_CALLS,
]
TEXT: Outcome = [TextDelta("Hello"), TextDelta(", "), TextDelta("world."), UsageDelta(11, 7), STOP]
GOLDEN_STREAMS: dict[str, Outcome] = {
    "calls": CALLS,
    "text": TEXT,
    "incomplete": [TextDelta("I write it"), UsageDelta(50, 4096), Finished(Finish.LENGTH)],
    "refusal": [
        TextDelta("I cannot"),
        TextDelta(" help with that."),
        UsageDelta(20, 9),
        Finished(Finish.REFUSAL),
    ],
    "failed": [
        TextDelta("Half a "),
        ServerError({"code": "server_error", "message": "The model had a fault."}),
    ],
}


@pytest.mark.parametrize("name", GOLDEN_STREAMS)
def test_golden_streams(name: str) -> None:
    assert without_opaque(read([golden(name)])) == GOLDEN_STREAMS[name]


def test_what_is_kept_of_a_reply_is_its_reasoning_and_the_places() -> None:
    assert kept(read([golden("calls")])) == [
        Place(
            reasoning={
                "type": "reasoning",
                "id": "rs_a1",
                "summary": [
                    {"type": "summary_text", "text": "The notes come first."},
                    {"type": "summary_text", "text": "Then the picture."},
                ],
                "encrypted_content": "gAAAAB-notes-first==",
            }
        ),
        Place(text=len("Reading both — 𝄞."), phase="commentary"),
        Place(call="call_a1"),
        Place(call="call_a2"),
    ]


@pytest.mark.parametrize("name", ["incomplete", "refusal"])
def test_nothing_is_kept_of_a_reply_that_is_not_whole(name: str) -> None:
    assert kept(read([golden(name)])) is None


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(GOLDEN_STREAMS)), st.data())
def test_it_does_not_matter_where_a_stream_is_cut(name: str, data: st.DataObject) -> None:
    stream = golden(name)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=40)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert read(chunks) == read([stream])


def test_it_does_not_matter_how_lines_end_or_whether_events_have_names() -> None:
    stream = golden("calls")
    whole = read([stream])
    bare = b"".join(line for line in stream.splitlines(keepends=True) if not line.startswith(b"event:"))
    assert read([bare]) == whole
    assert read([stream.replace(b"\n", b"\r\n")]) == whole
    assert read([b"\xef\xbb\xbf: hi\n\n" + stream + b"data: [DONE]\n\n"]) == whole
    for index in range(0, len(stream), 997):
        assert read([stream[:index], stream[index:]]) == whole


@pytest.mark.parametrize("name", ["calls", "text"])
def test_a_stream_that_stops_anywhere_before_its_terminal_event_runs_nothing(name: str) -> None:
    stream = golden(name)
    events = stream.split(b"\n\n")[:-1]
    for count in range(len(events)):
        cut = b"\n\n".join(events[:count]) + b"\n\n"
        for ending in (b"", b"data: [DONE]\n\n"):
            outcome = read([cut + ending])
            assert outcome[-1] == Broken("ended its answer in the middle")
            assert not any(isinstance(delta, ToolCallDelta | Finished | UsageDelta) for delta in outcome)


# -- events built by hand --------------------------------------------------------------------------


def feed(*events: Any) -> Outcome:
    """The outcome of events, each a value, or bytes as they came; ``END`` is a terminal event of nothing."""
    datas = []
    for event in events:
        value = {"type": "response.completed", "response": {}} if event is END else event
        datas.append(value if isinstance(value, bytes) else json.dumps(value).encode())
    return read([b"data: " + data + b"\n\n" for data in datas])


def added(item: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "item": item, **rest}


def done(item: dict[str, Any], **rest: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": item, **rest}


def say(delta: Any, **rest: Any) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "delta": delta, **rest}


def think(delta: str, **rest: Any) -> dict[str, Any]:
    return {"type": "response.reasoning_text.delta", "delta": delta, **rest}


def more(delta: Any, **rest: Any) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.delta", "delta": delta, **rest}


def whole(arguments: Any, **rest: Any) -> dict[str, Any]:
    return {"type": "response.function_call_arguments.done", "arguments": arguments, **rest}


def call(call_id: str = "call_1", name: str = "f", arguments: Any = "", **rest: Any) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments, **rest}


def message(*texts: str, **rest: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []} for text in texts]
    return {"type": "message", "role": "assistant", "content": content, **rest}


def reasoning(item_id: str = "rs_1", **rest: Any) -> dict[str, Any]:
    return {"type": "reasoning", "id": item_id, "summary": [], "encrypted_content": "gAAA", **rest}


def terminal(*output: Any, kind: str = "completed", **rest: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": {"output": list(output), **rest}}


ONE_CALL = [ToolCallDelta("call_1", "f", '{"a":1}'), TOOL_CALLS]
FG = [ToolCallDelta("c1", "f", '{"a":1}'), ToolCallDelta("c2", "g", '{"b":2}'), TOOL_CALLS]


@pytest.mark.parametrize(
    "events",
    [
        [added(call(id="fc")), more('{"a"', item_id="fc"), more(":1}", item_id="fc"), END],
        [added(call(), output_index=0), more('{"a":1}', output_index=0), END],
        [added(call()), more('{"a":1}'), END],
        [added(call(arguments='{"a":1}')), END],
        [added(call(arguments={"a": 1})), END],
        [done(call(arguments='{"a":1}')), END],
        [terminal(call(arguments='{"a":1}'))],
        [added(call(id="x"), output_index=1), whole('{"a":1}', item_id="y", output_index=1), END],
        [added(call(id="x")), more('{"a"', item_id="x"), whole('{"a":1}', item_id="x"), END],
        [added(call()), more("lost"), done(call(arguments='{"a":1}')), END],
        [added(call()), whole('{"a":1}'), done(call(arguments="")), END],
        [
            added(call(id="u1"), output_index=0),
            more('{"a":1}', item_id="u2", output_index=0),
            done(call(id="u3", arguments='{"a":1}'), output_index=0),
            terminal(call(id="u4", arguments='{"a":1}')),
        ],
        [*[added(call(id="fc"))] * 2, *[done(call(id="fc", arguments='{"a":1}'))] * 2, END],
        [done(call(id="x", arguments='{"a":1}')), done(call(id="y", arguments='{"a": 1}')), END],
        [more('{"a":1}', item_id="fc"), done(call(id="fc", arguments='{"a":1}')), END],
        [more('{"a":1}', item_id="fc"), terminal(call(id="fc"))],
        [
            added(call("", name=""), output_index=0),
            done(call(id="fc", arguments='{"a":1}'), output_index=0),
            terminal(call("", id="fc")),
        ],
    ],
    ids=[
        "by item id",
        "by index",
        "by nothing",
        "at once",
        "as a value",
        "done only",
        "at the end only",
        "another id, the index",
        "done beats pieces",
        "done beats other pieces",
        "done without arguments",
        "an id an event",
        "everything twice",
        "two ids, one call",
        "pieces first",
        "a name at the end",
        "an id at the end",
    ],
)
def test_one_call_however_it_comes(events: list[Any]) -> None:
    assert without_opaque(feed(*events)) == ONE_CALL


@pytest.mark.parametrize(
    "events",
    [
        [
            added(call("c1", "f", id="1"), output_index=0),
            added(call("c2", "g", id="2"), output_index=1),
            more('{"b"', item_id="2", output_index=1),
            more('{"a"', item_id="1", output_index=0),
            more(":2}", item_id="2", output_index=1),
            more(":1}", item_id="1", output_index=0),
            END,
        ],
        [
            added(call("c2", "g"), output_index=1),
            added(call("c1", "f"), output_index=0),
            more('{"b":2}', output_index=1),
            more('{"a":1}', output_index=0),
            END,
        ],
        [
            added(call("c1", "f"), output_index=0),
            more('{"a":1}', output_index=0),
            added(call("c2", "g"), output_index=0),
            more('{"b":2}', output_index=0),
            END,
        ],
        [
            added(call("c1", "f")),
            more('{"a":1}'),
            done(call("c1", "f", '{"a":1}')),
            added(call("c2", "g")),
            more('{"b":2}'),
            done(call("c2", "g", '{"b":2}')),
            END,
        ],
        [
            done(call("c1", "f", '{"a":1}', id="1"), output_index=0),
            terminal(call("c1", "f", '{"a":1}', id="1"), call("c2", "g", '{"b":2}', id="2")),
        ],
        [
            done(call("c1", "f", '{"a":1}', id="1"), output_index=0),
            done(call("c2", "g", '{"b":2}', id="2"), output_index=0),
            terminal(),
        ],
    ],
    ids=["interleaved", "in another order", "index 0 twice", "no index", "one only at the end", "done only"],
)
def test_two_calls_however_they_come(events: list[Any]) -> None:
    assert without_opaque(feed(*events)) == FG


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([added(call("c1", "f")), added(call("c2", "g")), more("{}")], "mixed"),
        ([added(call("c1", "f")), added(call("c2", "g")), whole("{}")], "mixed"),
        ([added(call("c1", "f", id="1")), done(call("c1", "g", "{}", id="1"))], "mixed"),
        ([added(call("c1", "f", id="1")), done(call("c2", "f", "{}", id="1"))], "mixed"),
        ([whole('{"a":1}', item_id="1"), done(call(id="1", arguments='{"a":2}'))], "two things"),
        (
            [done(call(id="1", arguments='{"a":1}')), terminal(call(id="1", arguments='{"a":2}'))],
            "two things",
        ),
        ([done(call(id="1", arguments="{a")), terminal(call(id="1", arguments="{b"))], "two things"),
        ([done(call("c1", "f", "{}")), terminal(message("hi"))], "takes back"),
        ([done(call("c1", "f", "{}")), terminal(call("c2", "f", "{}"))], "takes back"),
        ([added(call()), more('{"a"'), END], "middle of a tool call"),
        ([done(call(arguments="{}", status="incomplete")), END], "middle of a tool call"),
        ([done(call(name="", arguments="{}")), END], "without a name"),
        ([more("{}", item_id="fc"), END], "without a name"),
        ([added(call()), *[more("x" * 2**22, item_id="") for _ in range(5)], END], "too large"),
        ([done(call(f"c{number}", arguments="x" * 2**22)) for number in range(5)], "too large"),
        ([added(call(f"c{number}")) for number in range(MAX_CALLS + 1)], "too many tool calls"),
        ([added({"type": "x", "id": str(number)}) for number in range(MAX_ITEMS + 1)], "too many items"),
        ([terminal(*[message()] * (MAX_ITEMS + 1))], "too many items"),
        ([terminal(kind="incomplete")], "the unknown reason ''"),
        ([terminal(kind="incomplete", incomplete_details={"reason": "steered"})], "reason 'steered'"),
        ([terminal(kind="failed")], "failed, and not why"),
        ([terminal(status="cancelled")], "cancelled"),
        ([b"{nonsense"], "cannot be read"),
        ([b"[1]"], "cannot be read"),
        ([b'"' + b"\xff" + b'"'], "cannot be read"),
    ],
)
def test_contradictions_break_a_reply(events: list[Any], reason: str) -> None:
    broken = feed(*events)[-1]
    assert isinstance(broken, Broken)
    assert reason in broken.reason


def test_arguments_that_do_not_parse_are_handed_on_when_the_server_calls_them_whole() -> None:
    outcome = feed(added(call()), more('{"a"'), done(call(arguments='{"a"')), END)
    assert outcome == [ToolCallDelta("call_1", "f", '{"a"'), TOOL_CALLS]
    assert feed(added(call()), END) == [ToolCallDelta("call_1", "f", "{}"), TOOL_CALLS]


@pytest.mark.parametrize(
    "event",
    [
        done(call(arguments="DEEP")),
        done(reasoning(summary=[{"text": "DEEP"}], content="DEEP")),
        done(message(id="DEEP")),
        terminal("DEEP", usage="DEEP"),
        say("DEEP"),
    ],
)
def test_nesting_of_any_depth_is_answered(event: Any) -> None:
    for depth in range(100, 1100, 40):
        deep = "[" * depth + '"\\ud800"' + "]" * depth
        data = json.dumps(event).replace('"DEEP"', deep).encode()
        assert isinstance(feed(data, END)[-1], Finished | Broken)


# -- text, thoughts and refusals -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "texts"),
    [
        ([say("a"), say("b")], ["a", "b"]),
        ([say("a", item_id="m"), say("b", item_id="m"), done(message("ab", id="m"))], ["a", "b"]),
        ([say("a", output_index=0), done(message("abc"), output_index=0)], ["a", "bc"]),
        ([done(message("ab", "c", id="m"))] * 3, ["abc"]),
        ([done(message("ab", "c"), output_index=1)] * 3, ["abc"]),
        ([done(message("ab", id="m")), say("ab", item_id="m")], ["ab"]),
        ([terminal(message("ab"))], ["ab"]),
        ([done(message("ab", id="1"), output_index=0), terminal(message("ab", id="2"))], ["ab"]),
        ([say("a"), done(message("ab")), terminal(message("ab"), message("c"))], ["a", "b", "c"]),
        ([say("x"), done(message("y")), terminal(message("z"))], ["x"]),
        ([say("a"), done(message("")), terminal(message())], ["a"]),
        ([say(""), say(None), say(7), say({"text": "a"})], []),
        (
            [
                added(message(id="1"), output_index=0),
                say("a", output_index=0),
                done(message("a", id="1"), output_index=0),
                added(message(id="2"), output_index=0),
                say("b", item_id="2", output_index=0),
            ],
            ["a", "b"],
        ),
    ],
)
def test_text_is_given_once(events: list[Any], texts: list[str]) -> None:
    if events[-1]["type"] != "response.completed":
        events = [*events, END]
    assert without_opaque(feed(*events)) == [*map(TextDelta, texts), STOP]


def test_pairs_of_surrogates_that_are_cut_in_two_are_joined_and_halves_replaced() -> None:
    high, low = "\ud834", "\udd1e"
    assert feed(say(f"a{high}"), say(f"{low}b"), END) == [TextDelta("a"), TextDelta("𝄞b"), STOP]
    assert feed(say(f"a{high}"), END) == [TextDelta("a"), TextDelta("\ufffd"), STOP]
    assert feed(say(low), done(message("")), END) == [TextDelta("\ufffd"), STOP]
    assert feed(say(high), done(message("𝄞")), END) == [TextDelta("𝄞"), STOP]
    arguments = ToolCallDelta("call_1", "f", '{"a":"𝄞\ufffd"}')
    assert feed(added(call()), more('{"a":"' + high), more(low + low + '"}'), END) == [arguments, TOOL_CALLS]


def test_what_strict_json_refuses_is_read_all_the_same() -> None:
    data = b'{"type":"response.output_text.delta","delta":"a\xff","logprobs":[NaN]}'
    assert feed(data, END) == [TextDelta("a\ufffd"), STOP]


def test_thoughts_of_several_parts_are_set_apart() -> None:
    outcome = feed(
        think("a", item_id="r", content_index=0),
        think("b", item_id="r", content_index=0),
        think("c", item_id="r", content_index=1),
        think("d", item_id="s", content_index=0),
        say("x"),
        think("e", item_id="t", content_index=0),
        END,
    )
    assert outcome == [
        ThoughtDelta("a"),
        ThoughtDelta("b"),
        ThoughtDelta("\n\nc"),
        ThoughtDelta("\n\nd"),
        TextDelta("x"),
        ThoughtDelta("e"),
        STOP,
    ]


def test_thoughts_that_only_the_whole_item_brings_are_given_once() -> None:
    item = reasoning(summary=[{"type": "summary_text", "text": text} for text in ("a", "b")])
    outcome = without_opaque(feed(done(item), done(item), terminal(item)))
    assert outcome == [ThoughtDelta("a"), ThoughtDelta("\n\nb"), STOP]


def test_a_refusal_drops_the_calls() -> None:
    refusal = {"type": "response.refusal.delta", "delta": "No."}
    refused = [TextDelta("No."), Finished(Finish.REFUSAL)]
    assert feed(refusal, done(call(arguments="{}")), END) == refused
    part = {"type": "message", "content": [{"type": "refusal", "refusal": "No."}]}
    assert feed(done(call(arguments="{}")), done(part), END) == refused


@pytest.mark.parametrize(
    ("reason", "finish"), [("max_output_tokens", Finish.LENGTH), ("content_filter", Finish.REFUSAL)]
)
def test_an_answer_that_is_not_complete_drops_its_calls(reason: str, finish: Finish) -> None:
    half = [say("x"), added(call()), more('{"a"')]
    rest = {"incomplete_details": {"reason": reason}}
    listed = call(arguments='{"b"', status="incomplete")
    assert feed(*half, terminal(listed, kind="incomplete", **rest)) == [TextDelta("x"), Finished(finish)]
    worse = terminal(listed, kind="completed", status="incomplete", **rest)
    assert feed(*half, worse) == [TextDelta("x"), Finished(finish)]


# -- what is no part of the answer -----------------------------------------------------------------


def test_only_what_says_something_is_a_sign_of_life() -> None:
    def signs(*events: Any) -> list[bool]:
        reply = ResponsesReply()
        return [reply.feed("", json.dumps(event).encode()) is not None for event in events]

    nothing = [
        {"type": "response.created", "response": {}},
        {"type": "response.in_progress", "response": {}},
        {"type": "response.queued", "response": {}},
        {"type": "response.content_part.added", "part": {}},
        {"type": "response.something.new", "delta": "x"},
        {"type": "keepalive", "sequence_number": 3},
        {"kind": "x"},
        {"type": ["x"]},
        say(""),
        more(""),
        added({"type": "web_search_call", "id": "w"}),
    ]
    assert not any(signs(*nothing))
    assert signs(added(message(id="m")), added(message(id="m"))) == [True, False]
    assert signs(added(call(id="m")), more("{")) == [True, True]


def test_keepalives_count_while_it_thinks_unseen_and_not_for_ever() -> None:
    reply = ResponsesReply()
    alive = [reply.feed("", json.dumps(added(reasoning())).encode()) is not None]
    for _ in range(MAX_KEEPALIVES + 5):
        alive.append(reply.feed("keepalive", b'{"type":"keepalive"}') is not None)
    assert alive == [True] * (MAX_KEEPALIVES + 1) + [False] * 5


@pytest.mark.parametrize(
    "error",
    [
        {"type": "error", "code": "rate_limit_exceeded", "message": "slow down", "param": None},
        {"type": "error", "error": {"type": "tokens", "code": "rate_limit_exceeded", "message": "slow down"}},
        {"error": {"code": "rate_limit_exceeded", "message": "slow down"}},
    ],
)
def test_errors_are_handed_on_as_they_are(error: Any) -> None:
    assert feed(say("a"), error) == [TextDelta("a"), ServerError(error)]


def test_an_error_that_is_no_json() -> None:
    assert read([b"event: error\ndata: upstream died\n\n"]) == [ServerError("upstream died")]


def test_other_items_are_ignored() -> None:
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
    custom = {"type": "custom_tool_call", "id": "ct_1", "call_id": "c", "name": "f", "input": "x"}
    outcome = feed(
        added(search), done(search), done(custom), say("a"), terminal(search, custom, message("a"))
    )
    assert outcome == [TextDelta("a"), STOP]


# -- what is kept ----------------------------------------------------------------------------------


def test_the_places_are_those_of_the_output() -> None:
    outcome = feed(
        added(reasoning("rs_1", encrypted_content="part"), output_index=0),
        done(reasoning("rs_1", encrypted_content="whole", status="completed"), output_index=0),
        say("a", output_index=1),
        done(call("c1", arguments="{}"), output_index=2),
        done(reasoning("rs_2", content=[{"type": "reasoning_text", "text": "t"}]), output_index=3),
        say("bc", output_index=4),
        done({"type": "web_search_call", "id": "w"}, output_index=5),
        terminal(reasoning("rs_1", encrypted_content="other"), message("a"), call("c1"), message("bc")),
    )
    places = kept(outcome)
    assert places is not None
    assert [place.text for place in places] == [None, 1, None, None, 2, None]
    assert [place.call for place in places] == [None, None, "c1", None, None, None]
    assert places[5] == Place()
    assert [(place.reasoning or {}).get("encrypted_content") for place in places[:4]] == [
        "whole",
        None,
        None,
        "gAAA",
    ]
    assert places[0].reasoning == reasoning("rs_1", encrypted_content="whole")


@pytest.mark.parametrize(
    "item",
    [
        reasoning(encrypted_content=None),
        reasoning(encrypted_content=""),
        reasoning(item_id=""),
        reasoning(item_id="x" * 65),
        reasoning(item_id="rs 1"),
    ],
)
def test_reasoning_that_no_server_takes_back_is_not_kept(item: dict[str, Any]) -> None:
    assert kept(feed(done(item), say("a"), END)) is None


def test_messages_that_spoke_at_the_same_time_cannot_be_parted() -> None:
    events = [say("a", item_id="1"), say("b", item_id="2"), say("c", item_id="1")]
    outcome = feed(done(reasoning()), *events, END)
    assert kept(outcome) is None
    assert [delta for delta in outcome if isinstance(delta, TextDelta)] == [*map(TextDelta, "abc")]


# -- usage -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"input_tokens": 3, "output_tokens": 2}, UsageDelta(3, 2)),
        ({"input_tokens": 3.0, "output_tokens": 0, "input_tokens_details": None}, UsageDelta(3, 0)),
        (
            {
                "input_tokens": 9,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 3},
                "output_tokens_details": {"reasoning_tokens": 5},
            },
            UsageDelta(9, 5, 4, 3, 5),
        ),
        (
            {
                "input_tokens": 9,
                "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": 20, "cache_write_tokens": -3},
                "output_tokens_details": {"reasoning_tokens": 7},
            },
            UsageDelta(9, 5, 9, 0, 5),
        ),
        (
            {"input_tokens": 9, "output_tokens": 5, "input_tokens_details": {"cached_tokens": "4"}},
            UsageDelta(9, 5),
        ),
        ({"input_tokens": -1, "output_tokens": 2}, None),
        ({"input_tokens": float("nan"), "output_tokens": 2}, None),
        ({"input_tokens": 1.5, "output_tokens": 2}, None),
        ({"input_tokens": 10**12, "output_tokens": 2}, None),
        ({"input_tokens": True, "output_tokens": 2}, None),
        ({"input_tokens": 1}, None),
        ([], None),
        (None, None),
    ],
)
def test_usage(usage: Any, expected: UsageDelta | None) -> None:
    assert usage_of(usage) == expected


ODD: list[Any] = [None, True, 0, -1, 2, 1.5, "", "x", "{}", [], {}, [None], [[]], {"type": 1}, {"text": "t"}]
JSON = st.sampled_from(ODD)
MEMBERS = ["type", "id", "call_id", "name", "arguments", "status", "content", "summary", "encrypted_content"]
ITEMS = st.fixed_dictionaries(
    {"type": st.sampled_from(["message", "reasoning", "function_call"])},
    optional=dict.fromkeys(MEMBERS[1:], JSON),
)
KINDS = [
    "response.output_text.delta",
    "response.refusal.delta",
    "response.reasoning_summary_text.delta",
    "response.function_call_arguments.delta",
    "response.function_call_arguments.done",
    "response.output_item.added",
    "response.output_item.done",
    "response.completed",
    "response.incomplete",
    "response.failed",
    "keepalive",
    "error",
]
EVENTS = st.fixed_dictionaries(
    {"type": st.sampled_from(KINDS)},
    optional={
        "delta": st.sampled_from(["a", "{", "\ud834", "\udd1e"]) | JSON,
        "item_id": JSON,
        "output_index": st.sampled_from([0, 1]) | JSON,
        "arguments": JSON,
        "item": ITEMS | JSON,
        "response": st.fixed_dictionaries(
            {}, optional={"output": st.lists(ITEMS | JSON, max_size=3) | JSON, "status": JSON, "usage": JSON}
        )
        | JSON,
    },
)


@settings(max_examples=120, deadline=None)
@given(st.lists(EVENTS, max_size=8))
def test_any_events_end_in_a_reply_or_a_reason(events: list[Any]) -> None:
    last = feed(*events)[-1]
    assert isinstance(last, Broken | ServerError | Finished)
