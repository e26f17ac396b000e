"""Requests of the Responses wire: a rich history as one golden body, what goes back with a reply and what
does not, and by hypothesis that any well-paired history, with anything at all kept beside it, gives a body
that a checker of its own accepts, which was written from the public reference and not from the code."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    Effort,
    Finished,
    Image,
    Message,
    ModelInfo,
    Opaque,
    Request,
    ToolAnswered,
    ToolSpec,
    UserSaid,
)
from term2_acp.providers.responses.opaque import Place, read_places, write_places
from term2_acp.providers.responses.reply import ResponsesReply
from term2_acp.providers.responses.request import input_items, responses_request
from term2_acp.providers.responses.wire import ResponsesWire
from term2_acp.providers.wire_words import CUT_NOTE
from term2_acp.web.sse import SseParser

GOLDEN = Path(__file__).parent.parent / "golden" / "wires"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = (ToolSpec("read_file", "Reads a file.", SCHEMA),)
IMAGE = Image("image/png", "iVBORw0KGgo=")
SEES = ModelInfo(sees_images=True, efforts=frozenset({Effort.LOW, Effort.HIGH}))
THINKS = ModelInfo(efforts=frozenset({Effort.LOW}))


def opaque_of_golden(name: str) -> str:
    """What the reply of a golden stream wants back."""
    reply = ResponsesReply()
    for event in SseParser().feed((GOLDEN / f"responses-{name}.sse").read_bytes()):
        reply.feed(event.name, event.data)
    closed = reply.close()
    assert isinstance(closed, list)
    end = closed[-1]
    assert isinstance(end, Finished)
    assert end.opaque is not None
    return end.opaque


def kept(data: str, provider: str = "openai", model: str = "gpt-astra") -> Opaque:
    return Opaque(provider, model, data)


def rich() -> list[Message]:
    """A prompt with a picture, a reply that thinks, speaks and calls twice, a failed result, a reply that was
    cut, and another prompt."""
    return [
        UserSaid("What do the notes say of this?", (IMAGE,)),
        AssistantSaid(
            "Reading both — 𝄞.",
            (
                CallMade("ours-1", "read_file", '{"path":"notes.md"}'),
                CallMade("ours-2", "read_file", '{"path":"missing.md"}'),
            ),
            kept(opaque_of_golden("calls")),
        ),
        ToolAnswered("ours-1", "read_file", "A cat."),
        ToolAnswered("ours-2", "read_file", "There is no such file.", failed=True),
        AssistantSaid("They say", (CallMade("ours-3", "read file!", '{"path":'),), cut=True),
        ToolAnswered("ours-3", "read file!", "It was cancelled.", failed=True),
        UserSaid("Go on."),
    ]


def body_of(
    messages: Sequence[Message],
    info: ModelInfo = SEES,
    effort: Effort = Effort.DEFAULT,
    cache_key: str = "",
    summaries: bool = False,
) -> Any:
    request = Request("gpt-astra", "", messages, (), effort, cache_key)
    return json.loads(responses_request(request, info, "openai", summaries=summaries))


def items_of(*messages: Message, info: ModelInfo = SEES) -> list[dict[str, Any]]:
    return input_items(Request("gpt-astra", "", messages), info, "openai")


def said(text: str) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "role": "assistant", "content": content}


def asked(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def thought(item_id: str = "rs_1") -> dict[str, Any]:
    return {"type": "reasoning", "id": item_id, "summary": [], "encrypted_content": "gAAA"}


def test_a_rich_history_is_the_golden_body() -> None:
    request = Request("gpt-astra", "Be good.", rich(), TOOLS, Effort.HIGH, "session-1")
    body = ResponsesWire().body(request, SEES, "openai")
    assert json.loads(body) == json.loads((GOLDEN / "responses-request-rich.json").read_text())
    assert check(json.loads(body)) == []


def test_the_same_history_for_a_model_that_neither_sees_nor_reasons() -> None:
    request = Request("other", "Be good.", rich(), TOOLS)
    body = ResponsesWire().body(request, ModelInfo(efforts=frozenset()), "openai")
    assert json.loads(body) == json.loads((GOLDEN / "responses-request-plain.json").read_text())
    assert check(json.loads(body)) == []


def test_what_is_not_there_is_not_sent() -> None:
    assert body_of([UserSaid("hi")], ModelInfo()) == {
        "model": "gpt-astra",
        "input": [asked("hi")],
        "store": False,
        "stream": True,
    }


def test_the_key_is_a_bearer_key() -> None:
    wire = ResponsesWire()
    assert wire.path == "/responses"
    assert wire.headers("sk-1", "m") == {"authorization": "Bearer sk-1"}
    assert wire.headers(None, "m") == {}


@pytest.mark.parametrize(
    ("efforts", "effort", "reasoning", "include"),
    [
        (None, Effort.DEFAULT, None, False),
        (None, Effort.HIGH, {"effort": "high"}, True),
        (None, Effort.NONE, {"effort": "none"}, False),
        (frozenset({Effort.LOW}), Effort.DEFAULT, None, True),
        (frozenset({Effort.LOW}), Effort.XHIGH, {"effort": "xhigh"}, True),
        (frozenset(), Effort.DEFAULT, None, False),
    ],
)
def test_encrypted_reasoning_is_asked_of_models_that_reason(
    efforts: frozenset[Effort] | None, effort: Effort, reasoning: Any, include: bool
) -> None:
    body = body_of([UserSaid("hi")], ModelInfo(efforts=efforts), effort)
    assert body.get("reasoning") == reasoning
    assert body.get("include") == (["reasoning.encrypted_content"] if include else None)


def test_a_model_that_reasoned_before_reasons() -> None:
    places = write_places([Place(reasoning=thought()), Place(text=1)])
    assert places is not None
    body = body_of([UserSaid("hi"), AssistantSaid("a", (), kept(places))], ModelInfo())
    assert body["include"] == ["reasoning.encrypted_content"]


def test_a_summary_is_asked_for_only_if_the_wire_was_made_so() -> None:
    assert body_of([UserSaid("hi")], THINKS, summaries=True)["reasoning"] == {"summary": "auto"}
    assert "reasoning" not in body_of([UserSaid("hi")], ModelInfo(), summaries=True)
    request = Request("m", "", [UserSaid("hi")])
    body = ResponsesWire(summaries=True).body(request, THINKS, "openai")
    assert json.loads(body)["reasoning"] == {"summary": "auto"}


def test_a_cache_key_that_is_too_long_is_replaced_by_its_digest() -> None:
    assert body_of([UserSaid("hi")], cache_key="k" * 64)["prompt_cache_key"] == "k" * 64
    long = body_of([UserSaid("hi")], cache_key="k" * 65)["prompt_cache_key"]
    assert re.fullmatch("[0-9a-f]{64}", long)


# -- replies ---------------------------------------------------------------------------------------

CALL_A, CALL_B = CallMade("a", "f", "{}"), CallMade("b", "f", "{}")
RESULTS = (ToolAnswered("a", "f", "1"), ToolAnswered("b", "f", "2"))


def told(places: Sequence[Place], text: str, *calls: CallMade, **rest: Any) -> list[dict[str, Any]]:
    """A reply as it goes back, without the results of its calls."""
    data = write_places([*places, Place(reasoning=thought("rs_end"))])
    assert data is not None
    reply = AssistantSaid(text, calls, kept(data), **rest)
    return items_of(reply, *RESULTS[: len(calls)])[: -len(calls) or None]


def test_a_reply_goes_back_in_its_order() -> None:
    places = [
        Place(reasoning=thought("rs_1")),
        Place(call="call_x"),
        Place(reasoning=thought("rs_2")),
        Place(reasoning=thought("rs_3")),
        Place(text=2, phase="commentary"),
        Place(call="call_y"),
        Place(text=3, phase="final_answer"),
    ]
    assert told(places, "abcde", CALL_A, CALL_B) == [
        thought("rs_1"),
        {"type": "function_call", "call_id": "call_x", "name": "f", "arguments": "{}"},
        thought("rs_2"),
        thought("rs_3"),
        {**said("ab"), "phase": "commentary"},
        {"type": "function_call", "call_id": "call_y", "name": "f", "arguments": "{}"},
        {**said("cde"), "phase": "final_answer"},
    ]


@pytest.mark.parametrize(
    ("places", "text", "expected"),
    [
        ([Place(text=1)], "a", [said("a")]),
        ([Place(reasoning=thought()), Place(), Place(text=1)], "a", [said("a")]),
        ([Place(reasoning=thought()), Place(text=0), Place(text=1)], "a", [said("a")]),
        ([Place(reasoning=thought()), Place(text=9)], "redacted", [thought(), said("redacted")]),
        (
            [Place(text=1), Place(reasoning=thought()), Place(text=1)],
            "redacted",
            [said("redacted")],
        ),
        ([Place(reasoning=thought()), Place(text=5), Place(text=-4)], "a", [thought(), said("a")]),
        ([Place(reasoning=thought())], "a", [said("a")]),
        ([Place(reasoning=thought()), Place(text=1), Place(call="c")], "a", [said("a")]),
        ([Place(reasoning={"id": "rs_1"}), Place(text=1)], "a", [said("a")]),
        ([Place(reasoning=thought("x y")), Place(text=1)], "a", [said("a")]),
        ([Place(reasoning=thought()), Place(reasoning={}), Place(text=1)], "a", [said("a")]),
        ([Place(text=1, phase="other")], "a", [said("a")]),
    ],
    ids=[
        "nothing to go with",
        "led to what cannot be told",
        "led to an empty message",
        "text of another length",
        "texts of other lengths",
        "a length below nothing",
        "no place for the text",
        "a call that is not there",
        "no content",
        "a bad id",
        "a bad neighbour",
        "an unknown phase",
    ],
)
def test_reasoning_goes_only_where_what_it_led_to_follows(
    places: list[Place], text: str, expected: list[dict[str, Any]]
) -> None:
    assert told(places, text) == expected


def test_a_reply_that_was_cut_goes_without() -> None:
    assert told([Place(reasoning=thought()), Place(text=1)], "a", cut=True) == [said(f"a\n{CUT_NOTE}")]
    assert items_of(AssistantSaid("", cut=True)) == [said(CUT_NOTE)]
    assert items_of(AssistantSaid("")) == []


@pytest.mark.parametrize(
    "opaque",
    [
        kept(opaque_of_golden("calls"), provider="lab"),
        kept(opaque_of_golden("calls"), model="gpt-other"),
        kept(opaque_of_golden("calls").replace("gAAAAB", "gAAAAC")),
        kept(opaque_of_golden("calls").replace('"responses"', '"anthropic"')),
        kept(opaque_of_golden("calls")[:-1]),
        kept(""),
        kept("[" * 100_000),
        kept('{"wire":"responses","digest":"","items":[]}'),
        kept("\ud800"),
        kept("null"),
    ],
)
def test_what_is_foreign_or_damaged_is_told_without(opaque: Opaque) -> None:
    calls = (CALL_A, CALL_B)
    assert items_of(AssistantSaid("x", calls, opaque), *RESULTS) == items_of(
        AssistantSaid("x", calls), *RESULTS
    )


def test_places_without_reasoning_or_phase_are_not_kept() -> None:
    assert write_places([Place(text=3), Place(call="c"), Place()]) is None
    assert read_places(None) is None


def test_what_is_kept_is_unicode() -> None:
    data = write_places([Place(reasoning={**thought(), "summary": [{"text": "\ud800"}]}), Place(text=1)])
    assert data is not None
    data.encode()
    places = read_places(data)
    assert places is not None
    assert (places[0].reasoning or {})["summary"] == [{"text": "\ufffd"}]


# -- ids, arguments, images ------------------------------------------------------------------------


def test_a_call_id_that_comes_twice_is_two_and_results_follow_their_calls() -> None:
    places = write_places([Place(reasoning=thought()), Place(call="call_x")])
    assert places is not None
    history = [
        AssistantSaid("", (CALL_A,), kept(places)),
        RESULTS[0],
        AssistantSaid("", (CALL_A,), kept(places)),
        RESULTS[0],
        AssistantSaid("", (CALL_A,)),
        RESULTS[0],
    ]
    items = items_of(*history)
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    assert calls[0] == "call_x"
    assert len(set(calls)) == 3
    assert [item["call_id"] for item in items if item["type"] == "function_call_output"] == calls
    assert items_of(*history, UserSaid("x"))[:-1] == items


def test_ids_that_come_twice_in_one_reply_and_results_of_no_call() -> None:
    first, second, *results = items_of(AssistantSaid("", (CALL_A, CALL_A)), *[RESULTS[0]] * 3)
    assert [item["call_id"] for item in results] == [first["call_id"], second["call_id"]]


@pytest.mark.parametrize("theirs", ["", "a b", "x" * 65, "\ud800", "ü"])
def test_a_call_id_that_the_server_would_refuse_is_replaced(theirs: str) -> None:
    (_, call) = told([Place(reasoning=thought()), Place(call=theirs)], "", CALL_A)
    assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", call["call_id"])


def test_arguments_that_do_not_parse_are_quoted_in_an_object() -> None:
    (call, _) = items_of(AssistantSaid("", (CallMade("a", "f", '{"a":'),)), RESULTS[0])
    assert json.loads(call["arguments"]) == {"malformed": '{"a":'}


def test_images_go_where_they_are_seen() -> None:
    (seen,) = items_of(UserSaid("", (IMAGE, IMAGE)))
    url = "data:image/png;base64,iVBORw0KGgo="
    assert seen["content"] == [{"type": "input_image", "image_url": url, "detail": "auto"}] * 2
    (unseen,) = items_of(UserSaid("look", (IMAGE,)), info=ModelInfo())
    assert [part["type"] for part in unseen["content"]] == ["input_text", "input_text"]
    assert "it cannot be shown to you" in unseen["content"][1]["text"]
    assert items_of(UserSaid("")) == []


# -- any history -----------------------------------------------------------------------------------

GOOD_ID = re.compile("[a-zA-Z0-9_-]{1,64}")
TOP = {
    "model",
    "instructions",
    "input",
    "tools",
    "reasoning",
    "include",
    "prompt_cache_key",
    "store",
    "stream",
}


def check(body: Any) -> list[str]:
    """What a server would refuse in this body."""
    faults = [f"unknown member {name}" for name in set(body) - TOP]
    if body.get("store") is not False or body.get("stream") is not True or not body.get("model"):
        faults.append("not a streaming request that stores nothing")
    open_calls: dict[str, int] = {}
    answered: set[str] = set()
    items = body["input"]
    for at, item in enumerate(items):
        follower = next((other for other in items[at + 1 :] if other["type"] != "reasoning"), None)
        match item:
            case {"type": "message", "role": "user", "content": [_, *_] as parts}:
                faults += [f"part {part}" for part in parts if not _good_input(part)]
            case {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}:
                if not text or set(item) - {"type", "role", "content", "phase"}:
                    faults.append(f"message {item}")
                if item.get("phase", "commentary") not in {"commentary", "final_answer"}:
                    faults.append(f"phase {item['phase']}")
            case {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}:
                if call_id in open_calls or not GOOD_ID.fullmatch(call_id) or not GOOD_ID.fullmatch(name):
                    faults.append(f"call {item}")
                if not isinstance(json.loads(arguments), dict) or len(item) != 4:
                    faults.append(f"arguments {arguments}")
                open_calls[call_id] = at
            case {"type": "function_call_output", "call_id": call_id, "output": str()}:
                if call_id not in open_calls or call_id in answered:
                    faults.append(f"result {item}")
                answered.add(call_id)
            case {"type": "reasoning", "id": item_id, "summary": list()}:
                if not GOOD_ID.fullmatch(item_id) or not (
                    item.get("encrypted_content") or item.get("content")
                ):
                    faults.append(f"reasoning {item}")
                if set(item) - {"type", "id", "summary", "content", "encrypted_content"}:
                    faults.append(f"reasoning with more {item}")
                if follower is None or not (
                    follower["type"] == "function_call" or follower.get("role") == "assistant"
                ):
                    faults.append(f"reasoning without what it led to {item}")
                if "include" not in body:
                    faults.append("reasoning that is not asked for")
            case _:
                faults.append(f"item {item}")
    faults += [f"call without result {call_id}" for call_id in set(open_calls) - answered]
    return faults


def _good_input(part: dict[str, Any]) -> bool:
    match part:
        case {"type": "input_text", "text": str(text)}:
            return bool(text)
        case {"type": "input_image", "image_url": str(url), "detail": "auto"}:
            return re.fullmatch(r"data:image/[a-z]+;base64,[A-Za-z0-9+/=]*", url) is not None
    return False


TEXTS = st.text(st.characters(exclude_categories=()), max_size=6)
WORDS = st.sampled_from(["", "a", "call_1", "x" * 70, "ä b", "fc-1"]) | TEXTS
CALLS = st.builds(
    CallMade, WORDS, WORDS, st.sampled_from(["{}", '{"a":1}', "[]", "", "{", '{"\ud800":1}']) | TEXTS
)
REASONING = st.fixed_dictionaries(
    {"type": st.just("reasoning")},
    optional={
        "id": WORDS | st.none(),
        "summary": st.just([]) | st.none(),
        "content": st.just([{"type": "reasoning_text", "text": "t"}]) | st.just([]),
        "encrypted_content": st.sampled_from(["gAAA", "", None]),
        "status": st.none(),
    },
)
PLACES = st.one_of(
    st.just(Place()),
    st.builds(lambda item: Place(reasoning=item), REASONING | st.just(thought())),
    st.builds(lambda length, phase: Place(text=length, phase=phase), st.integers(-2, 6), WORDS | st.none()),
    st.builds(lambda call_id: Place(call=call_id), WORDS),
)


@st.composite
def replies(draw: st.DrawFn) -> list[Message]:
    """A reply and the results of its calls, with places that fit it or not, or with anything."""
    calls = draw(st.lists(CALLS, max_size=3))
    text = draw(TEXTS)
    places = draw(st.lists(PLACES, max_size=6))
    if draw(st.booleans()):  # places that fit
        places = [place for place in places if place.call is None and place.text is None]
        for place in [Place(text=len(text)), *(Place(call=call.call_id) for call in calls)]:
            places.insert(draw(st.integers(0, len(places))), place)
    data = write_places(places) if draw(st.booleans()) else draw(TEXTS)
    opaque = None if data is None else kept(data, model=draw(st.sampled_from(["gpt-astra", "other"])))
    reply = AssistantSaid(text, tuple(calls), opaque, draw(st.booleans()))
    return [reply, *(ToolAnswered(call.call_id, call.name, draw(TEXTS)) for call in calls)]


PROMPTS = st.builds(
    lambda text, images: [UserSaid(text, tuple(images))], TEXTS, st.lists(st.just(IMAGE), max_size=2)
)


@settings(max_examples=120, deadline=None)
@given(st.lists(PROMPTS | replies(), max_size=6), st.sampled_from([SEES, THINKS, ModelInfo()]))
def test_any_history_gives_a_body_that_is_accepted(messages: list[list[Message]], info: ModelInfo) -> None:
    history = [message for group in messages for message in group]
    request = Request("gpt-astra", "s", history, TOOLS, Effort.DEFAULT, "k")
    body = responses_request(request, info, "openai")
    assert check(json.loads(body)) == []
    assert responses_request(request, info, "openai") == body


def test_the_checker_can_fail() -> None:
    body = body_of([UserSaid("hi"), AssistantSaid("", (CALL_A,)), RESULTS[0]])
    assert check(body) == []
    call, result = body["input"][1:]
    for faulty in ([call], [result], [call, call, result], [call, result, result], [thought(), asked("x")]):
        assert check({**body, "input": faulty}) != []
    assert check({**body, "previous_response_id": "r"}) != []
