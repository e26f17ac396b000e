"""Request bodies of the Messages wire: golden histories, and that every well-paired history becomes a body
that obeys the wire's rules, held by a checker that knows the rules and nothing of how bodies are made."""

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.providers.anthropic.opaque import HiddenThought, Place, Thought, keep
from term2_acp.providers.anthropic.request import MOST_OUTPUT_TOKENS, anthropic_request
from term2_acp.providers.anthropic.wire import AnthropicWire
from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    Effort,
    Image,
    Message,
    ModelInfo,
    Opaque,
    Request,
    ToolAnswered,
    ToolSpec,
    UserSaid,
)
from term2_acp.providers.wire_words import CUT_NOTE

GOLDEN = Path(__file__).parent.parent / "golden" / "wires"
BUDGET, ADAPTIVE, BOUND = "claude-haiku-4-5", "claude-opus-4-6", "claude-opus-5-5"
SEES = ModelInfo(context_tokens=200_000, output_tokens=64_000, sees_images=True)
BLIND = ModelInfo(context_tokens=200_000, output_tokens=64_000)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
TOOLS = (ToolSpec("read_file", "Reads a file.", SCHEMA), ToolSpec("list_all", "", {"type": "object"}))
PIXEL = Image("image/png", "iVBORw0KGgo=")
THOUGHT, HIDDEN = Thought("Two files.", "c2lnLW9uZQ=="), HiddenThought("ZW5jcnlwdGVk")
MORE = Thought("", "c2lnLXR3bw==")


def kept(*places: Place, model: str = BUDGET, provider: str = "lab") -> Opaque:
    data = keep(places)
    assert data is not None
    return Opaque(provider, model, data)


def body(request: Request, info: ModelInfo = SEES) -> dict[str, Any]:
    made: dict[str, Any] = json.loads(anthropic_request(request, info, "lab"))
    return made


def told(*messages: Message, model: str = BUDGET, effort: Effort = Effort.HIGH) -> list[Any]:
    """The messages of a body, without the breakpoints of the cache."""
    said: list[Any] = body(Request(model, "", messages, effort=effort))["messages"]
    for message in said:
        for block in message["content"]:
            block.pop("cache_control", None)
    return said


def words(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def blocks(model: str = BUDGET, effort: Effort = Effort.HIGH, **said: Any) -> list[Any]:
    """The blocks of one reply, told back."""
    told_back: list[Any] = told(UserSaid("hi"), AssistantSaid(**said), model=model, effort=effort)[1][
        "content"
    ]
    return told_back


# -- golden ----------------------------------------------------------------------------------------


def rich(model: str) -> tuple[Message, ...]:
    """A prompt with an image, thoughts and two calls (one fails), a reply that is cut, two prompts."""
    places: tuple[Place, ...] = (THOUGHT, HIDDEN, 13, MORE, "call", "call")
    calls = (CallMade("call_1", "read_file", '{"path": "a.txt"}'), CallMade("call_2", "list_all", "{}"))
    return (
        UserSaid("What is in both?", (PIXEL,)),
        AssistantSaid("I read both.\n", calls, kept(*places, model=model)),
        ToolAnswered("call_1", "read_file", "ä 𝄞"),
        ToolAnswered("call_2", "list_all", "no such tool", failed=True),
        AssistantSaid("They are", cut=True),
        UserSaid("Go on."),
        UserSaid("Please."),
    )


REQUESTS = {
    "anthropic-request-budget.json": Request(
        BUDGET, "Be good.", rich(BUDGET), TOOLS, Effort.MEDIUM, cache_key="secret"
    ),
    "anthropic-request-bound.json": Request(BOUND, "Be good.", rich(BOUND), TOOLS, Effort.XHIGH),
    "anthropic-request-another-model.json": Request(ADAPTIVE, "Be good.", rich(BOUND), TOOLS, Effort.NONE),
    "anthropic-request-least.json": Request("other-model", "", (UserSaid("hi"),)),
}


def test_every_golden_request_is_held() -> None:
    assert {path.name for path in GOLDEN.glob("anthropic-request-*.json")} == set(REQUESTS)


@pytest.mark.parametrize("name", REQUESTS)
def test_a_golden_request(name: str) -> None:
    info = ModelInfo() if name.endswith("-least.json") else SEES
    made = AnthropicWire().body(REQUESTS[name], info, "lab")
    assert json.loads(made) == json.loads((GOLDEN / name).read_text())


def test_the_path_and_the_headers() -> None:
    assert AnthropicWire().path == "/messages"
    without = {"anthropic-version": "2023-06-01"}
    wire = AnthropicWire()
    assert wire.headers(None, "claude-opus-4-5") == wire.headers("", "other") == without
    assert wire.headers("sk-x", "claude-opus-4-7") == {**without, "x-api-key": "sk-x"}
    beta = {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
    assert wire.headers(None, "claude-opus-5-5") == {**without, **beta}


# -- the order of things ---------------------------------------------------------------------------


def test_what_the_person_did_not_say_is_filled_in() -> None:
    go_on = {"role": "user", "content": [words("Go on.")]}
    one, two = ({"role": "assistant", "content": [words(text)]} for text in ("one", "two"))
    assert told(AssistantSaid("one"), AssistantSaid("two")) == [go_on, one, go_on, two, go_on]
    assert told() == told(UserSaid(" \n")) == told(AssistantSaid("")) == [go_on]


def test_prompts_in_a_row_are_one_message() -> None:
    assert told(UserSaid("a"), AssistantSaid("", ()), UserSaid("b")) == [
        {"role": "user", "content": [words("a"), words("b")]}
    ]


def test_results_stand_before_what_was_said_after_them() -> None:
    calls = (CallMade("a", "f", "{}"), CallMade("b", "f", "{}"))
    said = told(
        UserSaid("hi"),
        AssistantSaid("", calls),
        ToolAnswered("a", "f", "1"),
        ToolAnswered("b", "f", "2"),
        UserSaid("more"),
    )
    assert [block["type"] for block in said[-1]["content"]] == ["tool_result", "tool_result", "text"]
    made, answered = said[1]["content"], said[2]["content"]
    assert [block["id"] for block in made] == [block["tool_use_id"] for block in answered[:2]]


def test_results_stand_first_even_if_they_come_late() -> None:
    late = (UserSaid("more"), ToolAnswered("a", "f", "1"), ToolAnswered("b", "f", "2"))
    said = told(
        UserSaid("hi"), AssistantSaid("", (CallMade("a", "f", "{}"), CallMade("b", "f", "{}"))), *late
    )
    assert [block.get("content", "more") for block in said[-1]["content"]] == ["1", "2", "more"]


def test_a_reply_does_not_end_in_white_space() -> None:
    assert blocks(text=" hi \n") == [words(" hi")]
    assert shape(blocks(text="hi \n", calls=(CALL,))) == [words("hi \n"), "call"]


@pytest.mark.parametrize(
    ("result", "failed", "rest"),
    [
        ("ok", False, {"content": "ok"}),
        ("no", True, {"content": "no", "is_error": True}),
        (" \n", False, {}),
        ("", True, {"content": "It failed without a word.", "is_error": True}),
    ],
)
def test_results(result: str, failed: bool, rest: dict[str, Any]) -> None:
    call = AssistantSaid("", (CallMade("a", "f", "{}"),))
    block = told(UserSaid("hi"), call, ToolAnswered("a", "f", result, failed))[-1]["content"][0]
    assert block.pop("tool_use_id")
    assert block == {"type": "tool_result", **rest}


@pytest.mark.parametrize(
    "arguments", ['{"a":', "[]", "null", '"x"', "", "\ud800", "[" * 100_000, '{"a": NaN}']
)
def test_arguments_that_are_no_object_are_quoted(arguments: str) -> None:
    made = blocks(text="", calls=(CallMade("a", "f", arguments),))[0]["input"]
    assert made == {"malformed": arguments[:500].replace("\ud800", "\ufffd")}


def test_names_are_what_the_server_takes() -> None:
    made = blocks(text="", calls=(CallMade("a", "read file/ü" + "x" * 99, "{}"), CallMade("b", "", "{}")))
    assert [block["name"] for block in made] == ["read_file__" + "x" * 53, "unnamed"]


# -- images ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "info", "block"),
    [
        (
            PIXEL,
            SEES,
            {
                "type": "image",
                "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="},
            },
        ),
        (
            PIXEL,
            BLIND,
            words("[an image (image/png, 8 bytes) was attached; it cannot be shown to you]"),
        ),
        (
            Image("image/tiff", "iVBORw0KGgo="),
            SEES,
            words("[an image (image/tiff, 8 bytes) was attached; it cannot be shown to you]"),
        ),
    ],
)
def test_images(image: Image, info: ModelInfo, block: dict[str, Any]) -> None:
    content = body(Request("m", "", (UserSaid("look", (image,)),)), info)["messages"][0]["content"]
    content[-1].pop("cache_control")
    assert content == [block, words("look")]


# -- how long a reply may be -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "info", "tokens"),
    [
        (BUDGET, ModelInfo(200_000, 8_000), 8_000),
        (BUDGET, ModelInfo(200_000, 500_000), MOST_OUTPUT_TOKENS),
        (BUDGET, ModelInfo(10_000, 64_000), 5_000),
        (BUDGET, ModelInfo(1, 64_000), 1),
        (BUDGET, ModelInfo(), 32_000),
        (BOUND, ModelInfo(), 64_000),
        ("other-model", ModelInfo(), 8_192),
        ("claude-3-opus-20240229", ModelInfo(), 4_096),
    ],
)
def test_how_long_a_reply_may_be(model: str, info: ModelInfo, tokens: int) -> None:
    assert body(Request(model, "", (UserSaid("hi"),)), info)["max_tokens"] == tokens


# -- thoughts --------------------------------------------------------------------------------------

ONE = {"type": "thinking", "thinking": "Two files.", "signature": "c2lnLW9uZQ=="}
TWO = {"type": "redacted_thinking", "data": "ZW5jcnlwdGVk"}
CALL = CallMade("a", "f", "{}")


def shape(made: list[Any]) -> list[Any]:
    """Blocks with their calls as a word, for their ids are another test's."""
    return ["call" if block["type"] == "tool_use" else block for block in made]


@pytest.mark.parametrize(
    ("places", "text", "calls", "expected"),
    [
        ((THOUGHT, 2), "hi", (), [ONE, words("hi")]),
        ((THOUGHT, "call"), "", (CALL,), [ONE, "call"]),
        (
            (3, THOUGHT, 2, "call", HIDDEN, "call"),
            "oh hi",
            (CALL, CALL),
            [words("oh "), ONE, words("hi"), "call", TWO, "call"],
        ),
        # What was redacted goes whole where its first part stood.
        ((THOUGHT, 3, HIDDEN, 2, "call"), "[gone] hi", (CALL,), [ONE, words("[gone] hi"), TWO, "call"]),
        # Calls that were dropped, or are more than there were.
        ((THOUGHT, 2, "call"), "hi", (), [ONE, words("hi")]),
        ((THOUGHT, "call"), "", (CALL, CALL), [ONE, "call", "call"]),
        # Text that has no place stands before the calls.
        ((THOUGHT, "call"), "hi", (CALL,), [ONE, words("hi"), "call"]),
        # A thought never stands last, and blank text is not sent.
        ((2, THOUGHT), "hi", (), [words("hi")]),
        ((THOUGHT, 1, HIDDEN, 2), " hi", (), [ONE, TWO, words("hi")]),
    ],
)
def test_places(places: tuple[Place, ...], text: str, calls: Any, expected: list[Any]) -> None:
    made = blocks(ADAPTIVE, text=text, calls=calls, opaque=kept(*places, model=ADAPTIVE))
    assert shape(made) == expected


PLAIN = [words("hi"), "call"]
DATA = kept(THOUGHT, 2, "call").data


@pytest.mark.parametrize(
    "opaque",
    [
        Opaque("other", BUDGET, DATA),
        Opaque("lab", "other-model", DATA),
        Opaque("lab", BUDGET, ""),
        Opaque("lab", BUDGET, "null"),
        Opaque("lab", BUDGET, "[" * 100_000),
        Opaque("lab", BUDGET, "\ud800"),
        Opaque("lab", BUDGET, DATA[:-1]),
        Opaque("lab", BUDGET, DATA.replace("Two", "[redacted]")),
        Opaque("lab", BUDGET, DATA.replace('"version":1', '"version":2')),
        Opaque("lab", BUDGET, DATA.replace('"wire":"anthropic"', '"wire":"responses"')),
        Opaque("lab", BUDGET, DATA.replace('"digest":"', '"digest":"0')),
        Opaque("lab", BUDGET, '{"wire":"responses","items":[]}'),
    ],
)
def test_a_reply_is_told_without_what_is_anothers_or_damaged(opaque: Opaque) -> None:
    assert shape(blocks(text="hi", calls=(CALL,), opaque=opaque)) == PLAIN


def test_the_thoughts_of_a_cut_reply_do_not_go_back() -> None:
    made = blocks(text="hi", calls=(CALL,), opaque=kept(THOUGHT, 2, "call"), cut=True)
    assert shape(made) == [words(f"hi\n{CUT_NOTE}"), "call"]
    assert blocks(text="", cut=True) == [words(CUT_NOTE)]


def test_thoughts_alone_are_no_reply() -> None:
    assert len(told(UserSaid("a"), AssistantSaid("", opaque=kept(THOUGHT)), UserSaid("b"))) == 1


def test_a_model_that_may_not_think_is_told_no_thoughts() -> None:
    said: dict[str, Any] = {"text": "hi", "calls": (CALL,), "opaque": kept(THOUGHT, 2, "call")}
    assert shape(blocks(**said, effort=Effort.NONE)) == PLAIN
    assert shape(blocks(**said, effort=Effort.DEFAULT)) == PLAIN
    assert shape(blocks(**said, effort=Effort.LOW)) == [ONE, *PLAIN]


LEADS = AssistantSaid("hi", (CALL,), kept(THOUGHT, 2, "call"))
LATER = AssistantSaid("hi", (CALL,), kept(2, THOUGHT, "call"))
BARE = AssistantSaid("hi", (CALL,))
ANSWER = ToolAnswered("a", "f", "ok")


@pytest.mark.parametrize(
    ("turn", "thinks"),
    [
        ((), True),
        ((LEADS, ANSWER), True),
        ((LEADS, ANSWER, BARE, ANSWER), True),  # the server asks of the first alone
        ((BARE, ANSWER), False),
        ((BARE, ANSWER, LEADS, ANSWER), False),
        ((LATER, ANSWER), False),
        ((BARE, ANSWER, UserSaid("next")), True),
        ((AssistantSaid("hi"),), True),
        ((AssistantSaid("hi", (CALL,), LEADS.opaque, cut=True), ANSWER), False),
    ],
)
def test_a_turn_that_did_not_begin_with_a_thought_goes_on_without(
    turn: tuple[Message, ...], thinks: bool
) -> None:
    made = body(Request(BUDGET, "", (UserSaid("hi"), *turn), effort=Effort.HIGH))
    assert ("thinking" in made) is thinks
    types = {block["type"] for message in made["messages"] for block in message["content"]}
    assert thinks or "thinking" not in types
    # Where the model decides by itself, the server asks for nothing.
    adaptive = body(Request(ADAPTIVE, "", (UserSaid("hi"), *turn), effort=Effort.HIGH))
    assert adaptive["thinking"] == {"type": "adaptive"}


# -- the cache -------------------------------------------------------------------------------------


def cached(made: dict[str, Any]) -> list[bytes]:
    """What each breakpoint stands behind, as the server would compare it: everything before it."""
    prefix: list[Any] = []
    found: list[bytes] = []
    content = ((message["role"], block) for message in made["messages"] for block in message["content"])
    parts = [("tools", tool) for tool in made.get("tools", ())]
    parts += [("system", block) for block in made.get("system", ())]
    for part in (*parts, *content):
        mark = part[1].pop("cache_control", None)
        prefix.append(part)
        if mark is not None:
            assert mark == {"type": "ephemeral"}
            found.append(json.dumps(prefix).encode())
    return found


def test_a_conversation_that_grows_finds_what_it_wrote() -> None:
    history: list[Message] = []
    before: list[bytes] = []
    for turn in range(4):
        history.append(UserSaid(f"prompt {turn}"))
        for step in range(3):
            now = cached(body(Request(BOUND, "Be good.", history, TOOLS)))
            assert len(now) <= 4
            assert not before or before[-1] in now
            before = now
            call = CallMade(f"{turn}.{step}", "read_file", '{"path": "a"}')
            history.append(AssistantSaid("hm", (call,), kept(THOUGHT, 2, "call", model=BOUND)))
            history.append(ToolAnswered(call.call_id, "read_file", "content"))


# -- every history ---------------------------------------------------------------------------------


def check(made: Any, info: ModelInfo) -> None:
    """Hold a body against the rules of the wire, as its documentation and its errors state them."""
    assert 1 <= made["max_tokens"] <= max(1, info.context_tokens)
    assert made["stream"] is True
    assert made.keys() <= {
        "model", "max_tokens", "stream", "thinking", "output_config", "tools", "system", "messages",
    }  # fmt: skip
    # Nothing said: those that would think all the same are told so by us, the others' models are free.
    thinking = made.get("thinking", {"type": "disabled" if "claude" in made["model"] else "free"})
    if thinking["type"] == "enabled":
        assert 1_024 <= thinking["budget_tokens"] < made["max_tokens"]
    assert made["messages"][0]["role"] == made["messages"][-1]["role"] == "user"
    roles = [message["role"] for message in made["messages"]]
    assert all(role != other for role, other in pairwise(roles))
    seen: set[str] = set()
    for at, message in enumerate(made["messages"]):
        assert message["content"]
        if message["role"] == "user":
            check_user(message["content"])
            continue
        check_reply(message["content"], thinking)
        calls = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        assert not seen & set(calls)
        seen |= set(calls)
        assert len(calls) == len(set(calls))
        answers = [
            block["tool_use_id"]
            for block in made["messages"][at + 1]["content"]
            if block["type"] == "tool_result"
        ]
        assert answers == calls
    everything = [block["type"] for message in made["messages"] for block in message["content"]]
    assert everything.count("tool_result") == len(seen)
    if thinking["type"] == "enabled":
        check_current_turn(made["messages"])
    assert len(cached(made)) <= 4


def check_user(content: Sequence[Any]) -> None:
    types = [block["type"] for block in content]
    assert set(types) <= {"text", "image", "tool_result"}
    results = types.count("tool_result")
    assert types[:results] == ["tool_result"] * results
    for block in content:
        if block["type"] == "text":
            assert block["text"].strip()
        if block["type"] == "tool_result":
            assert block.keys() <= {"type", "tool_use_id", "content", "is_error", "cache_control"}
            assert block.get("content", "x").strip()
            assert not block.get("is_error") or block["content"]


def check_reply(content: Sequence[Any], thinking: Any) -> None:
    for block in content:
        match block["type"]:
            case "text":
                assert block["text"].strip()
            case "tool_use":
                assert re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"])
                assert re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", block["name"])
                assert isinstance(block["input"], dict)
            case "thinking" | "redacted_thinking":
                assert thinking["type"] not in {"disabled", "between_tools"}
            case _:
                raise AssertionError(block)
        if block["type"] in {"thinking", "redacted_thinking"}:
            assert "cache_control" not in block
    assert content[-1]["type"] in {"text", "tool_use"}
    if content[-1]["type"] == "text":
        assert content[-1]["text"] == content[-1]["text"].rstrip()


def check_current_turn(messages: Sequence[Any]) -> None:
    """With a budget, the assistant's side of the turn that goes on begins with a thought, if it called."""
    turn: list[Any] = []
    for message in reversed(messages):
        if message["role"] == "user" and any(block["type"] != "tool_result" for block in message["content"]):
            break
        if message["role"] == "assistant":
            turn = message["content"]
    if any(block["type"] == "tool_use" for block in turn):
        assert turn[0]["type"] in {"thinking", "redacted_thinking"}


TEXT = st.text(st.characters(categories=["L", "Z", "Cs"], include_characters="\n\ud800 a"), max_size=8)
PLACES: st.SearchStrategy[list[Place]] = st.lists(
    st.one_of(st.sampled_from([THOUGHT, HIDDEN, MORE]), st.just("call"), st.integers(0, 8)), max_size=6
)
MODELS = st.sampled_from(
    [BUDGET, ADAPTIVE, BOUND, "claude-sonnet-5-5", "claude-opus-4-5", "claude-3-opus", "other-model"]
)


@st.composite
def replies(draw: st.DrawFn, model: str) -> list[Message]:
    """A reply, and the results of its calls."""
    ids = draw(st.lists(st.sampled_from(["a", "b", "", "ü/\ud800"]), unique=True, max_size=3))
    arguments = st.sampled_from(["{}", '{"a": 1}', "[", "\ud800"])
    calls = tuple(CallMade(call_id, draw(TEXT), draw(arguments)) for call_id in ids)
    text = draw(TEXT)
    data = keep(draw(PLACES))
    if draw(st.booleans()):  # as a reply would have left it
        data = keep([THOUGHT, len(text), *["call" for _ in calls]])  # type: ignore[list-item]
    opaque = None
    if data is not None:
        opaque = Opaque(draw(st.sampled_from(["lab", "other"])), draw(st.just(model) | MODELS), data)
    said = AssistantSaid(text, calls, opaque, cut=draw(st.booleans()))
    return [said, *(ToolAnswered(call.call_id, "f", draw(TEXT), draw(st.booleans())) for call in calls)]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    model = draw(MODELS)
    images = st.lists(st.sampled_from([PIXEL, Image("image/tiff", "AAAA")]), max_size=2).map(tuple)
    prompts = st.builds(UserSaid, TEXT, images).map(lambda prompt: [prompt])
    parts = draw(st.lists(prompts | replies(model), max_size=6))
    history = [message for part in parts for message in part]
    return Request(
        model, draw(TEXT), history, draw(st.sampled_from([(), TOOLS])), draw(st.sampled_from(list(Effort)))
    )


@given(requests(), st.sampled_from([SEES, BLIND, ModelInfo(), ModelInfo(3_000, 4_000), ModelInfo(1, 1)]))
@settings(max_examples=80)
def test_every_well_paired_history_obeys_the_rules_of_the_wire(request: Request, info: ModelInfo) -> None:
    made = anthropic_request(request, info, "lab")
    made.decode()
    check(json.loads(made), info)
    assert anthropic_request(request, info, "lab") == made


@given(st.text(), st.booleans())
def test_no_kept_text_raises(data: str, as_json: bool) -> None:
    if as_json:
        data = json.dumps({"wire": "anthropic", "version": 1, "digest": data, "content": [data, 1, None]})
    blocks(text="hi", calls=(CALL,), opaque=Opaque("lab", BUDGET, data))
