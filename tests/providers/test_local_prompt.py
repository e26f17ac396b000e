"""What the embedded model is asked: which words of a prompt are files, that the grammar offers those and no
others, and that no history outgrows the context."""

import json

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
from term2_acp.providers.local_prompt import (
    ANSWER_TOKENS,
    CONTEXT_TOKENS,
    Answer,
    Choose,
    chosen_path,
    mentioned_files,
    next_step,
)

TOOLS = [ToolSpec("read_file", "Reads.", {})]


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("Read README.md.", ("README.md",)),
        ("What is in src/app.py, and in `my notes.txt`?", ("src/app.py", "my notes.txt")),
        ('Compare "a.c" (old) with ./b.c!', ("a.c", "./b.c")),
        ("see /etc/hosts and ../up.txt and ~/x", ("/etc/hosts", "../up.txt", "~/x")),
        ('Read " a b.txt " please', ("a b.txt",)),
        ("Explain the Makefile", ("Makefile",)),
        ("a.py a.py a.py", ("a.py",)),
        (".gitignore", (".gitignore",)),
        ("Hello. How are you?", ()),
        ("It is 3.5 or 1/2, e.g. and/or i.e. so...", ()),
        ("see https://example.org/a.html and www.example.org or me@example.org", ()),
        ("x" * 300 + ".py", ()),
        ("/ . .. ./ ~", ()),
    ],
)
def test_words_that_are_files(text: str, files: tuple[str, ...]) -> None:
    assert mentioned_files(text) == files


def test_files_are_offered_by_the_grammar_and_nothing_else() -> None:
    step = next_step(Request("m", "", [UserSaid('Read a.txt and `b "x\\.txt`')], TOOLS))
    assert isinstance(step, Choose)
    assert step.paths == ("a.txt", 'b "x\\.txt')
    assert step.body["grammar"] == 'root ::= "cat " path | "say"\npath ::= "a.txt" | "b \\"x\\\\.txt"\n'
    assert step.body["temperature"] == 0


@pytest.mark.parametrize(
    ("messages", "tools"),
    [
        ([UserSaid("Read a.txt")], []),
        ([UserSaid("Hello")], TOOLS),
        ([UserSaid("Read a.txt"), AssistantSaid("It is a.")], TOOLS),
        ([], TOOLS),
    ],
    ids=["no tool", "no file", "answered", "nothing"],
)
def test_otherwise_it_just_answers(messages: list[Message], tools: list[ToolSpec]) -> None:
    assert isinstance(next_step(Request("m", "", messages, tools)), Answer)


@pytest.mark.parametrize(
    ("words", "path"),
    [("cat a.txt", "a.txt"), (" cat b c.txt\n", "b c.txt"), ("say", None), ("cat other", None), ("", None)],
)
def test_the_choice_is_one_of_the_offered_files(words: str, path: str | None) -> None:
    assert chosen_path(words, ("a.txt", "b c.txt")) == path


def read(result: str, *, failed: bool = False) -> str:
    call = CallMade("1", "read_file", '{"path":"a.txt"}')
    messages = [
        UserSaid("Read a.txt"),
        AssistantSaid("", (call,)),
        ToolAnswered("1", "read_file", result, failed),
    ]
    step = next_step(Request("m", "a long system prompt", messages, TOOLS))
    assert isinstance(step, Answer)
    (message,) = step.body["messages"]
    content: str = message["content"]
    return content


def test_the_files_content_is_in_the_prompt() -> None:
    assert "the words of a" in read("the words of a")
    assert "cannot be read: no such file" in read("no such file", failed=True)


@pytest.mark.parametrize("earlier", ["word " * 200_000, "\U0001f600" * 900, "a" * 3000])
def test_the_last_prompt_is_asked_whatever_came_before_it(earlier: str) -> None:
    """A prompt that was answered with nothing leaves no reply behind it, and the next one follows on it."""
    said = [UserSaid(earlier), AssistantSaid(""), UserSaid(earlier), UserSaid("What is two and two?")]
    messages = next_step(Request("m", "", said, TOOLS)).body["messages"]
    assert [m["role"] for m in messages] == ["system", "user"]
    assert messages[-1]["content"].endswith("What is two and two?")


text = st.text(max_size=200).map(lambda piece: piece * 30)
message = st.one_of(
    text.map(UserSaid),
    text.map(AssistantSaid),
    text.map(lambda result: ToolAnswered("1", "read_file", result)),
)


@given(st.lists(message, max_size=6))
def test_no_history_outgrows_the_context(messages: list[Message]) -> None:
    """A token is at least a byte of text, whatever the tokeniser does; the template adds a few."""
    body = next_step(Request("m", "s" * 100_000, messages, TOOLS)).body
    size = sum(len(m["content"].encode("utf-8", "replace")) + 8 for m in body["messages"])
    assert size + ANSWER_TOKENS <= CONTEXT_TOKENS
    assert 0 < body["max_tokens"] <= 1000
    json.dumps(body)
