"""Request bodies of the plain dialect: what each kind of history becomes on the wire; what servers refuse for
good (ids, names, arguments, lone surrogates, images) never gets there; and what of a reply goes back. What
differs from server to server is in the golden files."""

import json
import re
from collections.abc import Sequence
from typing import Any

import pytest

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
    unseen,
)
from term2_acp.providers.chat.dialects import DIALECTS, PLAIN, Dialect
from term2_acp.providers.chat.request import MAX_OUTPUT_TOKENS, chat_request
from term2_acp.providers.chat.request import chat_messages as _chat_messages
from term2_acp.providers.wire_words import CUT_NOTE

SEES = ModelInfo(sees_images=True)
PNG = Image("image/png", "iVBORw0KGgo=")


def chat_messages(
    system: str, messages: Sequence[Message], info: ModelInfo = SEES, dialect: Dialect = PLAIN
) -> list[dict[str, Any]]:
    return _chat_messages(Request("m", system, messages), info, "lab", dialect)


SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}


def test_the_whole_body() -> None:
    request = Request(
        model="m",
        system="Be good.",
        messages=[
            UserSaid("Read a."),
            AssistantSaid("Reading.", (CallMade("call_1", "read_file", '{"path":"a"}'),)),
            ToolAnswered("call_1", "read_file", "content of a"),
            AssistantSaid("It is a."),
            UserSaid("Thanks — 𝄞"),
        ],
        tools=[ToolSpec("read_file", "Reads.", SCHEMA)],
        effort=Effort.HIGH,
    )
    body = json.loads(chat_request(request))
    wire_id = "bf24aa39d"  # of call_1, in every request
    assert body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be good."},
            {"role": "user", "content": "Read a."},
            {
                "role": "assistant",
                "content": "Reading.",
                "tool_calls": [
                    {
                        "id": wire_id,
                        "type": "function",
                        "function": {"name": "read_file", "arguments": '{"path":"a"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": wire_id, "content": "content of a"},
            {"role": "assistant", "content": "It is a."},
            {"role": "user", "content": "Thanks — 𝄞"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {"name": "read_file", "description": "Reads.", "parameters": SCHEMA},
            }
        ],
        "reasoning_effort": "high",
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_what_is_not_there_is_not_sent() -> None:
    assert json.loads(chat_request(Request("m", "", [UserSaid("hi")]))) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


@pytest.mark.parametrize("call_id", ["call_1", "", "x" * 64, "functions.read:0", "ünï cödé", "\ud800", "a b"])
def test_ids_fit_the_strictest_server_and_results_follow_their_calls(call_id: str) -> None:
    messages = chat_messages(
        "",
        [
            AssistantSaid("", (CallMade(call_id, "f", "{}"), CallMade("other", "f", "{}"))),
            ToolAnswered(call_id, "f", "1"),
            ToolAnswered("other", "f", "2"),
        ],
    )
    first, second = (call["id"] for call in messages[0]["tool_calls"])
    assert first != second
    assert re.fullmatch("[a-zA-Z0-9]{9}", first)
    assert [message["tool_call_id"] for message in messages[1:]] == [first, second]


def test_an_id_that_is_used_twice_is_two_ids_and_both_results_follow() -> None:
    history = [
        AssistantSaid("", (CallMade("a", "f", "{}"),)),
        ToolAnswered("a", "f", "1"),
        AssistantSaid("", (CallMade("a", "f", "{}"),)),
        ToolAnswered("a", "f", "2"),
    ]
    messages = chat_messages("", history)
    ids = [messages[0]["tool_calls"][0]["id"], messages[2]["tool_calls"][0]["id"]]
    assert len(set(ids)) == 2
    assert [messages[1]["tool_call_id"], messages[3]["tool_call_id"]] == ids
    # A longer history begins with the same bytes, so that a prompt cache holds.
    assert chat_messages("", [*history, UserSaid("x")])[:4] == messages


@pytest.mark.parametrize(
    ("name", "wire"),
    [("read_file", "read_file"), ("Read File!", "Read_File_"), ("é" * 100, "_" * 64), ("", "unnamed")],
)
def test_names_that_no_server_takes(name: str, wire: str) -> None:
    (message,) = chat_messages("", [AssistantSaid("", (CallMade("a", name, "{}"),))])
    assert message["tool_calls"][0]["function"]["name"] == wire


@pytest.mark.parametrize(
    "arguments", ['{"a":', "[]", "null", '"x"', "", "x" * 1_000_000, '{"\ud800": 1}', "[" * 99_999]
)
def test_arguments_are_always_an_object(arguments: str) -> None:
    (message,) = chat_messages("", [AssistantSaid("", (CallMade("a", "f", arguments),))])
    sent = message["tool_calls"][0]["function"]["arguments"]
    assert isinstance(json.loads(sent), dict)
    assert len(sent) < 1000


def test_good_arguments_are_sent_as_the_model_wrote_them() -> None:
    (message,) = chat_messages("", [AssistantSaid("", (CallMade("a", "f", '{ "b":1,  "a":2 }'),))])
    assert message["tool_calls"][0]["function"]["arguments"] == '{ "b":1,  "a":2 }'
    assert message["content"] is None


def test_a_cut_reply_says_so() -> None:
    assert chat_messages("", [UserSaid("A"), AssistantSaid("half", cut=True), UserSaid("B")]) == [
        {"role": "user", "content": "A"},
        {"role": "assistant", "content": f"half\n{CUT_NOTE}"},
        {"role": "user", "content": "B"},
    ]
    assert chat_messages("", [AssistantSaid("", cut=True)]) == [{"role": "assistant", "content": CUT_NOTE}]


def test_empty_replies_are_left_out_and_prompts_in_a_row_are_one() -> None:
    assert chat_messages("", [UserSaid("A"), AssistantSaid(""), UserSaid("B")]) == [
        {"role": "user", "content": "A\n\nB"}
    ]


def test_lone_surrogates_do_not_stop_a_request() -> None:
    body = chat_request(Request("m", "s\ud800", [UserSaid("a\udfff"), AssistantSaid("\ud834\udd1e")]))
    contents = [message["content"] for message in json.loads(body)["messages"]]
    assert contents == ["s\ufffd", "a\ufffd", "𝄞"]


# -- images ----------------------------------------------------------------------------------------


def image_part(url: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url}}


PART = image_part("data:image/png;base64,iVBORw0KGgo=")


def test_images_stand_behind_the_words_they_came_with() -> None:
    said = [UserSaid("What is this?", (PNG, Image("image/jpeg", "/9j/")))]
    (message,) = chat_messages("", said)
    jpeg = image_part("data:image/jpeg;base64,/9j/")
    assert message["content"] == [{"type": "text", "text": "What is this?"}, PART, jpeg]
    assert chat_messages("", [UserSaid("", (PNG,))])[0]["content"] == [PART]


def test_a_model_that_cannot_see_is_told_what_was_there() -> None:
    (message,) = chat_messages("", [UserSaid("What is this?", (PNG,))], ModelInfo())
    assert message["content"] == f"What is this?\n\n{unseen(PNG)}"


def test_an_image_that_a_server_cannot_read_is_told_too() -> None:
    gif = Image("image/gif", "R0lGODlh")
    (message,) = chat_messages("", [UserSaid("Look.", (gif, PNG))], SEES, DIALECTS["ollama"])
    assert message["content"] == [{"type": "text", "text": f"Look.\n\n{unseen(gif)}"}, PART]


A, B = {"type": "text", "text": "A"}, {"type": "text", "text": "B"}


@pytest.mark.parametrize(
    ("first", "second", "content"),
    [
        (UserSaid("A"), UserSaid("B", (PNG,)), [A, B, PART]),
        (UserSaid("A", (PNG,)), UserSaid("B"), [A, PART, B]),
    ],
)
def test_prompts_in_a_row_are_one_with_images_too(
    first: UserSaid, second: UserSaid, content: list[Any]
) -> None:
    assert chat_messages("", [first, second]) == [{"role": "user", "content": content}]


# -- what goes back --------------------------------------------------------------------------------

CALL = CallMade("1", "f", "{}")
KEPT = '{"wire":"chat","text":"I think."}'


def told(opaque: Opaque | None, dialect: Dialect = PLAIN, text: str = "Well,") -> dict[str, Any]:
    return chat_messages("", [AssistantSaid(text, (CALL,), opaque)], SEES, dialect)[0]


def test_thoughts_go_back_to_the_model_that_had_them() -> None:
    assert told(Opaque("lab", "m", KEPT))["reasoning_content"] == "I think."
    for other in (None, Opaque("lab", "other", KEPT), Opaque("other", "m", KEPT)):
        assert set(told(other)) == {"role", "content", "tool_calls"}


@pytest.mark.parametrize(
    "data",
    [
        "",
        "{",
        "null",
        "[]",
        "5",
        '{"wire":"responses","text":"x"}',
        '{"text":"x"}',
        '{"wire":"chat","text":7}',
        '{"wire":"chat","field":"odd","text":"x"}',
        '{"wire":"chat","calls":5}',
        "\ud800",
        "[" * 99_999,
    ],
)
@pytest.mark.parametrize("name", ["gemini", "openrouter", "mistral", "ollama"])
def test_damaged_data_are_as_good_as_none(name: str, data: str) -> None:
    assert told(Opaque("lab", "m", data), DIALECTS[name]) == told(None, DIALECTS[name])


def test_what_another_dialect_kept_is_not_sent() -> None:
    assert told(Opaque("lab", "m", KEPT), DIALECTS["groq"]) == told(None, DIALECTS["groq"])
    assert told(Opaque("lab", "m", KEPT), DIALECTS["gemini"]) == told(None, DIALECTS["gemini"])


def test_signatures_of_calls_that_are_not_as_many_are_not_sent() -> None:
    kept = '{"wire":"chat","calls":[{"google":{"thought_signature":"a"}},{"google":{}}]}'
    (call,) = told(Opaque("lab", "m", kept), DIALECTS["gemini"])["tool_calls"]
    assert call["extra_content"] == {"google": {"thought_signature": "skip_thought_signature_validator"}}


def test_thoughts_without_a_word_behind_them_go_back_to_mistral() -> None:
    message = told(Opaque("lab", "m", KEPT), DIALECTS["mistral"], "")
    assert message["content"] == [{"type": "thinking", "thinking": [{"type": "text", "text": "I think."}]}]


# -- fields of some servers ------------------------------------------------------------------------


def body(dialect: str, model: str = "m", info: ModelInfo = SEES, **rest: Any) -> dict[str, Any]:
    request = Request(model, "", [UserSaid("hi")], **rest)
    sent: dict[str, Any] = json.loads(chat_request(request, info, "lab", DIALECTS[dialect]))
    return {name: value for name, value in sent.items() if name not in {"model", "messages", "stream"}}


def test_claude_behind_openrouter_keeps_its_prompt() -> None:
    assert body("openrouter", "anthropic/claude", cache_key="k") == {"cache_control": {"type": "ephemeral"}}
    assert body("openrouter", "openai/gpt", cache_key="k") == {}


def test_a_cache_key_is_sent_where_it_is_taken_and_not_empty() -> None:
    assert body("mistral", cache_key="k") == {"prompt_cache_key": "k"}
    assert body("mistral") == {}
    assert "prompt_cache_key" not in body("gemini", cache_key="k")


@pytest.mark.parametrize(("known", "sent"), [(None, None), (8_000, 8_000), (384_000, MAX_OUTPUT_TOKENS)])
def test_the_length_of_a_reply_is_set_where_it_would_be_cut(known: int | None, sent: int | None) -> None:
    assert body("deepseek", info=ModelInfo(output_tokens=known)).get("max_tokens") == sent
    assert "max_tokens" not in body("openai", info=ModelInfo(output_tokens=known))


def test_a_word_stands_between_a_result_and_a_prompt_for_models_that_insist() -> None:
    history = [AssistantSaid("", (CALL,)), ToolAnswered("1", "f", "ok"), UserSaid("Stop.")]

    def roles(model: str) -> list[str]:
        told = _chat_messages(Request(model, "", history), SEES, "lab", PLAIN)
        return [message["role"] for message in told]

    assert roles("mistralai/Devstral-Small") == ["assistant", "tool", "assistant", "user"]
    assert roles("qwen3-coder") == ["assistant", "tool", "user"]


def test_tools_have_names_that_every_server_takes() -> None:
    (tool,) = body("openai", tools=[ToolSpec("mcp.read file", "Reads.", SCHEMA)])["tools"]
    assert tool["function"]["name"] == "mcp_read_file"
