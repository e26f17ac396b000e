"""What the embedded model is asked: which prompt, and which words it may answer with. Pure.

Theory of operation. A model of 135 million parameters cannot use tools. What it can do, about nine times
in ten, is choose between two words, ``cat`` and ``say``. So the choice of a *file* is not its own: the
words of the prompt that look like files are the candidates, a grammar allows ``cat`` with one of them or
``say``, and a prompt that mentions no file is not put to the choice at all. The answer is then plain text,
with the file's content in the prompt.

Everything is kept within the model's context by counting bytes: its tokeniser never makes more tokens
than bytes, so a prompt of so many bytes fits, whatever is in it.
"""

import re
from collections.abc import Sequence
from typing import Any

from attrs import frozen

from term2_acp.providers.base import Message, Request, ToolAnswered, UserSaid

# Tokens of context. The model was made for 8192; half of it takes 100 MB less.
CONTEXT_TOKENS = 4096
# Tokens of one answer. What such a model says after two hundred words is not worth waiting for.
ANSWER_TOKENS = 200
# Tokens that the chat template adds to each message, and a few to spare.
_TOKENS_A_MESSAGE = 8
# What stands between two messages of one side in a row. It costs less than a message of its own.
_BETWEEN = "\n\n"
_CHAT_BYTES = CONTEXT_TOKENS - ANSWER_TOKENS - 256
# Bytes of a file's content that the model is shown. It reads 140 to 460 tokens a second.
_CONTENT_BYTES = 2400
_QUESTION_BYTES = 600
# Files of one prompt that are offered.
_MOST_FILES = 8
_LONGEST_PATH = 200

# Sampling that stops a sentence from being said again and again, and still lets a file be quoted: only
# what repeats more than ten tokens of the last hundred is made unlikely.
_NO_LOOPS = {"dry_multiplier": 0.8, "dry_allowed_length": 10, "dry_penalty_last_n": 100}

READ_TOOL = "read_file"
_SYSTEM = "You are a small helpful model. Answer shortly and plainly."

_BARE_NAMES = frozenset({"Makefile", "Dockerfile", "LICENSE", "README", "CHANGELOG", "Justfile"})
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"")
_BEFORE = "([{<'*"
_BEHIND = ".,;:!?)]}>'*"
_NO_FILE = re.compile(
    r"(\d+([./]\d+)*|[eip]\.[egs]\.?|[ap]\.m\.?|u\.s\.?|and/or|[a-z]+://.*|www\..*|.*@.*)", re.IGNORECASE
)

# Pairs of a prompt and the right choice. The model copies their form more than it follows words.
_EXAMPLES: tuple[tuple[str, str], ...] = (
    ("Read notes.txt and tell me what it says.", "cat notes.txt"),
    ("Hello, how are you?", "say"),
    ("What is in src/app.py?", "cat src/app.py"),
    ("I like the name config.toml, do you?", "say"),
    ("Summarise docs/guide.md please.", "cat docs/guide.md"),
    ("Thanks, main.c works now.", "say"),
    ("Open setup.cfg", "cat setup.cfg"),
    ("Read list.csv.", "cat list.csv"),
    ("Explain tests/test_one.py to me.", "cat tests/test_one.py"),
)


@frozen
class Choose:
    """Ask the model whether to read one of ``paths`` first."""

    paths: tuple[str, ...]
    body: dict[str, Any]


@frozen
class Answer:
    """Ask the model for its answer."""

    body: dict[str, Any]


def next_step(request: Request) -> Choose | Answer:
    """What to ask the model for this request."""
    last = request.messages[-1] if request.messages else None
    can_read = any(tool.name == READ_TOOL for tool in request.tools)
    if isinstance(last, UserSaid) and can_read:
        paths = mentioned_files(last.text)
        if paths:
            return Choose(paths, _choice_body(last.text, paths))
    return answer(request)


def answer(request: Request) -> Answer:
    """Ask for the answer, with what a tool has just read in the prompt."""
    last = request.messages[-1] if request.messages else None
    if isinstance(last, ToolAnswered):
        body = _body([_file_message(last, request.messages)], ANSWER_TOKENS)
        return Answer({**body, **_NO_LOOPS})
    body = _body(_chat_messages(request.messages), ANSWER_TOKENS)
    # Without it, small talk falls into loops; with it, the words of a file are not repeated faithfully.
    body["repeat_penalty"] = 1.1
    return Answer(body)


def chosen_path(choice: str, paths: Sequence[str]) -> str | None:
    """The file that the model chose, or None for ``say``."""
    word, _, path = choice.strip().partition(" ")
    return path if word == "cat" and path in paths else None


def mentioned_files(text: str) -> tuple[str, ...]:
    """The words of ``text`` that look like files: they have a dot or a slash in them. In order, once each."""
    words = [(quoted or double).strip() for quoted, double in _QUOTED.findall(text)]
    words += [word.lstrip(_BEFORE).rstrip(_BEHIND) for word in _QUOTED.sub(" ", text).split()]
    found = {word for word in words if _is_file(word)}
    return tuple(sorted(found, key=text.find)[:_MOST_FILES])


def _is_file(word: str) -> bool:
    if word in _BARE_NAMES:
        return True
    if len(word) > _LONGEST_PATH or not word.isprintable() or _NO_FILE.fullmatch(word):
        return False
    return ("/" in word or "." in word) and any(letter.isalnum() for letter in word)


def _choice_body(text: str, paths: Sequence[str]) -> dict[str, Any]:
    messages = [{"role": "system", "content": "Choose cat FILE to read a file, or say to just answer."}]
    for prompt, choice in _EXAMPLES:
        messages += [{"role": "user", "content": prompt}, {"role": "assistant", "content": choice}]
    messages.append({"role": "user", "content": _cut(text, _QUESTION_BYTES)})
    longest = max(len(path.encode()) for path in paths)
    body = _body(messages, longest + 8)
    body["grammar"] = f'root ::= "cat " path | "say"\npath ::= {" | ".join(map(_literal, paths))}\n'
    return body


def _literal(path: str) -> str:
    """A path as a literal of the grammar language (GBNF)."""
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _body(messages: list[dict[str, str]], max_tokens: int) -> dict[str, Any]:
    # Greedy and with a fixed seed: the same question has the same answer.
    return {
        "messages": messages,
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "seed": 1,
        "max_tokens": max_tokens,
    }


def _file_message(answered: ToolAnswered, messages: Sequence[Message]) -> dict[str, str]:
    """The question, the content, and the question again: what is nearest is what the model follows."""
    question = next((m.text for m in reversed(messages) if isinstance(m, UserSaid)), "")
    question = _cut(question, _QUESTION_BYTES)
    content = _cut(answered.result, _CONTENT_BYTES)
    if answered.failed:
        said = f"The file cannot be read: {content}\n\nSay in one sentence why it cannot be read."
    else:
        said = f"The file says:\n\n{content}\n\nIn one or two sentences, what does the file say?"
    return {"role": "user", "content": f"{question}\n\n{said}"}


def _chat_messages(messages: Sequence[Message]) -> list[dict[str, str]]:
    """The latest words that fit. Results of earlier calls are left out: they would fill the context."""
    said = [
        ("user" if isinstance(message, UserSaid) else "assistant", message.text)
        for message in messages
        if not isinstance(message, ToolAnswered) and message.text
    ]
    told: list[dict[str, str]] = [{"role": "system", "content": _SYSTEM}]
    # Joined only now: of two prompts in a row it is the later one that must be kept, however long the first.
    for role, text in _latest(said):
        if told[-1]["role"] == role:
            told[-1]["content"] += f"{_BETWEEN}{text}"
        else:
            told.append({"role": role, "content": text})
    return told


def _latest(said: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The last of what was said that fits; of the very last, as much of its beginning as fits."""
    room = _CHAT_BYTES - len(_SYSTEM)
    kept: list[tuple[str, str]] = []
    for role, text in reversed(said):
        size = len(text.encode("utf-8", "replace")) + _TOKENS_A_MESSAGE
        if size > room:
            if not kept:
                kept.append((role, _cut(text, room - _TOKENS_A_MESSAGE)))
            break
        kept.append((role, text))
        room -= size
    return kept[::-1]


def _cut(text: str, limit: int) -> str:
    """At most ``limit`` bytes of the text, whole characters, and a mark where something is left out."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return data[: max(0, limit - 5)].decode("utf-8", "ignore") + " ..."
