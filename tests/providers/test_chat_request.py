"""Request bodies, golden: what each kind of history becomes on the wire, and that what servers refuse for
good (ids, names, arguments, lone surrogates) never gets there."""

import json
import re

import pytest

from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    Effort,
    Request,
    ToolAnswered,
    ToolSpec,
    UserSaid,
)
from term2_acp.providers.chat_request import CUT_NOTE, chat_messages, chat_request

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
