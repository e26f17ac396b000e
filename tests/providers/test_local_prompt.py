"""What the embedded model is asked: that the grammar offers the lines of a prompt's calls and no others,
what follows from a call without a question, what it is told of results, and that no history outgrows the
context."""

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    Message,
    Request,
    ToolAnswered,
    ToolSpec,
    UserSaid,
)
from term2_acp.providers.local.prompt import (
    ANSWER_TOKENS,
    CONTEXT_TOKENS,
    Answer,
    Call,
    Choose,
    chosen,
    next_step,
)

FILES = ("a.txt", "b.txt", 'c "x\\.txt')
TOOLS = [ToolSpec(name, "", {}) for name in ("read_file", "glob", "grep", "shell", "search_replace")]


def step(*messages: Message, tools: Sequence[ToolSpec] = TOOLS) -> Choose | Call | Answer:
    return next_step(Request("m", "a long system prompt", messages, tools), FILES)


def made(name: str, arguments: dict[str, Any], result: str, *, failed: bool = False) -> list[Message]:
    call = CallMade("1", name, json.dumps(arguments))
    return [AssistantSaid("", (call,)), ToolAnswered("1", name, result, failed)]


def test_a_question_may_be_answered_or_worked_on() -> None:
    asked = step(UserSaid('What do a.txt and `c "x\\.txt` say?'))
    assert isinstance(asked, Choose)
    assert asked.body["grammar"] == 'root ::= "cat a.txt" | "cat c \\"x\\\\.txt" | "say"\n'
    assert asked.body["temperature"] == 0
    assert chosen(" cat a.txt\n", asked.choices) == asked.choices[0]
    assert chosen("say", asked.choices) is None
    assert chosen("cat other", asked.choices) is None


def test_an_order_of_several_calls_may_not_be_talked_away() -> None:
    asked = step(UserSaid("Read a.txt and b.txt"))
    assert isinstance(asked, Choose)
    assert asked.body["grammar"] == 'root ::= "cat a.txt" | "cat b.txt"\n'


def test_an_order_of_one_call_needs_no_question() -> None:
    asked = step(UserSaid("Read a.txt"))
    assert isinstance(asked, Call)
    assert (asked.choice.tool, asked.choice.arguments) == ("read_file", {"path": "a.txt"})


def test_what_else_was_named_follows() -> None:
    prompt = UserSaid("Compare a.txt with b.txt")
    follows = step(prompt, *made("read_file", {"path": "b.txt"}, "the words of b"))
    assert isinstance(follows, Call)
    assert follows.choice.line == "cat a.txt"
    both = [
        *made("read_file", {"path": "b.txt"}, "the words of b"),
        *made("read_file", {"path": "a.txt"}, "the words of a"),
    ]
    answer = step(prompt, *both)
    assert isinstance(answer, Answer)
    content = answer.body["messages"][0]["content"]
    assert "The file b.txt says:\n\nthe words of b" in content
    assert "The file a.txt says:\n\nthe words of a" in content


def test_nothing_follows_a_call_that_failed() -> None:
    answer = step(
        UserSaid("Compare a.txt with b.txt"),
        *made("read_file", {"path": "a.txt"}, "no such file", failed=True),
    )
    assert isinstance(answer, Answer)
    assert "It did not work:\n\nno such file" in answer.body["messages"][0]["content"]


def test_an_edit_follows_its_reading_and_is_made_once() -> None:
    prompt = UserSaid('Replace "x" with "y" in a.txt')
    reads = step(prompt)
    assert isinstance(reads, Call)
    assert reads.choice.tool == "read_file"
    edits = step(prompt, *made("read_file", {"path": "a.txt"}, "x"))
    assert isinstance(edits, Call)
    assert edits.choice.tool == "search_replace"
    done = [
        *made("read_file", {"path": "a.txt"}, "x"),
        *made("search_replace", dict(edits.choice.arguments), "replaced"),
    ]
    assert isinstance(step(prompt, *done), Answer)


@pytest.mark.parametrize(
    ("messages", "tools"),
    [
        ([UserSaid("Read a.txt")], []),
        ([UserSaid("Hello")], TOOLS),
        ([UserSaid("Read a.txt"), AssistantSaid("It is a.")], TOOLS),
        ([], TOOLS),
    ],
    ids=["no tool", "no work", "answered", "nothing"],
)
def test_otherwise_it_just_answers(messages: list[Message], tools: list[ToolSpec]) -> None:
    assert isinstance(step(*messages, tools=tools), Answer)


def test_it_is_told_that_a_file_is_not_there() -> None:
    answer = step(UserSaid("Read z.txt"))
    assert isinstance(answer, Answer)
    assert answer.body["messages"][-1]["content"].endswith("(No file called z.txt is listed here.)")


@pytest.mark.parametrize("earlier", ["word " * 200_000, "\U0001f600" * 900, "a" * 3000])
def test_the_last_prompt_is_asked_whatever_came_before_it(earlier: str) -> None:
    """A prompt that was answered with nothing leaves no reply behind it, and the next one follows on it."""
    said = [UserSaid(earlier), AssistantSaid(""), UserSaid(earlier), UserSaid("What is two and two?")]
    messages = asked(step(*said))["messages"]
    assert [m["role"] for m in messages] == ["system", "user"]
    assert messages[-1]["content"].endswith("What is two and two?")


def test_little_of_what_came_before_is_told_again() -> None:
    """It would be read anew each turn, at a hundred tokens a second."""
    said = [
        turn for _ in range(20) for turn in (UserSaid("Tell me of it. " * 9), AssistantSaid("It is. " * 20))
    ]
    messages = asked(step(*said, UserSaid("What is two and two?")))["messages"]
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert sum(len(m["content"]) for m in messages) < 800


def test_a_line_is_chosen_with_the_blanks_at_its_end() -> None:
    looked = step(UserSaid('Where is "two " in this?'))
    assert isinstance(looked, Choose)
    choice = chosen("find two ", looked.choices)
    assert choice is not None
    assert choice.arguments["pattern"] == "two "


def asked(what: Choose | Call | Answer) -> dict[str, Any]:
    assert not isinstance(what, Call)
    return what.body


text = st.text(max_size=200).map(lambda piece: piece * 30)
message = st.one_of(
    text.map(UserSaid),
    text.map(AssistantSaid),
    text.map(lambda result: ToolAnswered("1", "read_file", result)),
)


@given(st.lists(message, max_size=6))
def test_no_history_outgrows_the_context(messages: list[Message]) -> None:
    """A token is at least a byte of text, whatever the tokeniser does; the template adds a few."""
    body = asked(step(*messages))
    size = sum(len(m["content"].encode("utf-8", "replace")) + 8 for m in body["messages"])
    assert size + ANSWER_TOKENS <= CONTEXT_TOKENS
    assert 0 < body["max_tokens"] <= 1000
    json.dumps(body)
