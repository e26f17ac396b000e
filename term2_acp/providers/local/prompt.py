"""What the embedded model is asked: which prompt, and which words it may answer with. Pure.

Theory of operation. A prompt that can mean work (``choices``) is first put to a choice among the lines
that stand for its calls, or ``say``; a grammar allows nothing else. What follows from a call by the words
of the prompt is then made without another question. The answer at last is plain text, with what the tools
found in the prompt.

Everything is kept within the model's context by counting bytes: its tokeniser never makes more tokens
than bytes, so a prompt of so many bytes fits, whatever is in it.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import AssistantSaid, Message, Request, ToolAnswered, UserSaid
from term2_acp.providers.local.choices import (
    CREATE,
    EDIT,
    FIND,
    LIST,
    MOST_CALLS,
    READ,
    RUN,
    Choice,
    choices,
    is_order,
    unlisted_files,
)

# Tokens of context. The model was made for 8192; half of it takes 100 MB less.
CONTEXT_TOKENS = 4096
# Tokens of one answer. What such a model says after two hundred words is not worth waiting for.
ANSWER_TOKENS = 200
# Tokens that the chat template adds to each message, and a few to spare.
_TOKENS_A_MESSAGE = 8
# What stands between two messages of one side in a row. It costs less than a message of its own.
_BETWEEN = "\n\n"
_CHAT_BYTES = CONTEXT_TOKENS - ANSWER_TOKENS - 256
# Bytes of what was said before the last words. It is read anew each turn, for seconds; and of more than a
# little, such a model only says the words again.
_EARLIER_BYTES = 600
# Bytes of what tools found that the model is shown. It reads 140 to 460 tokens a second.
_CONTENT_BYTES = 2400
_QUESTION_BYTES = 600
_NOTE_BYTES = 200

# Sampling that stops a sentence from being said again and again, and still lets a file be quoted: only
# what repeats more than ten tokens of the last hundred is made unlikely.
_NO_LOOPS = {"dry_multiplier": 0.8, "dry_allowed_length": 10, "dry_penalty_last_n": 100}

_SYSTEM = "You are a small helpful model. Answer shortly and plainly."
_SAY = "say"
_CHOOSE = "Choose one command for what the user wants, or say to just answer."

# Pairs of a prompt and the right choice. The model copies their form more than it follows words. Few, short:
# they are read before the first choice, and twenty of them chose no better.
_EXAMPLES: tuple[tuple[str, str], ...] = (
    ("Read notes.txt", "cat notes.txt"),
    ("Hello", "say"),
    ("Can you run make?", "run make"),
    ("What is in app.py?", "cat app.py"),
    ("I like the name config.toml.", "say"),
    ("Where is parse used?", "find parse"),
    ('Can you change "a" to "b" in page.html?', "edit page.html"),
    ("Which files are in src?", "ls src"),
    ("Run `ls`", "run ls"),
    ("Is there an error in x.py?", "cat x.py"),
    ("I deleted list.csv yesterday.", "say"),
)

# How a result is told, and what is asked about it.
_TOLD = {
    READ: ("The file {path} says:", "In one or two sentences, what does the file say?"),
    LIST: ("The files are:", "Name the files."),
    FIND: ("These lines were found:", "In which files was it found?"),
    RUN: ("The command printed:", "In one sentence, what did the command print?"),
    CREATE: ("The file was written:", "Say in one sentence that the file was written."),
    EDIT: ("The file was changed:", "Say in one sentence that the file was changed."),
}
_NOT_DONE = ("It did not work:", "Say in one sentence why it did not work.")


@frozen
class Choose:
    """Ask the model which of ``choices`` it takes, if any."""

    choices: tuple[Choice, ...]
    body: dict[str, Any]


@frozen
class Call:
    """Make this call: the words leave no choice, or it follows from what was chosen."""

    choice: Choice


@frozen
class Answer:
    """Ask the model for its answer."""

    body: dict[str, Any]


def next_step(request: Request, files: Sequence[str]) -> Choose | Call | Answer:
    """What to do for this request. ``files`` are the workspace's, by their relative paths."""
    turn = _Turn.of(request.messages)
    tools = {tool.name for tool in request.tools}
    if turn is None or not tools:
        return answer(request)
    offered = choices(turn.prompt, files, tools, turn.read)
    if not turn.calls:
        return _first(turn.prompt, offered) if offered else answer(request, files)
    first = turn.calls[0]
    if turn.failed or len(turn.calls) >= MOST_CALLS:
        return answer(request)
    kinds = {verb_of(choice) for choice in choices(turn.prompt, files, tools) if _is(choice, first)}
    left = [c for c in offered if verb_of(c) in kinds and not any(_is(c, call) for call in turn.calls)]
    return Call(left[0]) if left else answer(request)


def _first(prompt: str, offered: tuple[Choice, ...]) -> Choose | Call:
    order = is_order(prompt)
    if order and len(offered) == 1:
        return Call(offered[0])  # nothing is left to choose
    lines = [choice.line for choice in offered] + ([] if order else [_SAY])
    return Choose(offered, _choice_body(prompt, lines))


def answer(request: Request, files: Sequence[str] = ()) -> Answer:
    """Ask for the answer, with what tools have just found in the prompt."""
    turn = _Turn.of(request.messages)
    if turn is not None and turn.results:
        body = _body([_results_message(turn)], ANSWER_TOKENS)
        return Answer({**body, **_NO_LOOPS})
    missing = unlisted_files(turn.prompt, files) if turn is not None and files else ()
    note = f"(No file called {' or '.join(missing)} is listed here.)" if missing else ""
    body = _body(_chat_messages(request.messages, note), ANSWER_TOKENS)
    # Without it, small talk falls into loops; with it, the words of a file are not repeated faithfully.
    body["repeat_penalty"] = 1.1
    return Answer(body)


def chosen(words: str, offered: Sequence[Choice]) -> Choice | None:
    """The call that the model chose, or None for ``say``."""
    return next((choice for choice in offered if choice.line.strip() == words.strip()), None)


def verb_of(choice: Choice) -> str:
    """The first word of a choice's line: what kind of work it is."""
    return choice.line.partition(" ")[0]


# -- the turn so far -------------------------------------------------------------------------------


@frozen
class _Made:
    tool: str
    arguments: Any


@frozen
class _Turn:
    """The last prompt, and what came of it. ``read`` are the files that were read in the whole history."""

    prompt: str
    calls: tuple[_Made, ...]
    results: tuple[ToolAnswered, ...]
    read: frozenset[str]

    @property
    def failed(self) -> bool:
        return any(result.failed for result in self.results)

    @classmethod
    def of(cls, messages: Sequence[Message]) -> "_Turn | None":
        """None where the last prompt was answered, or there is none."""
        prompt, calls, results = None, list[_Made](), list[ToolAnswered]()
        made: dict[str, _Made] = {}
        read: set[str] = set()
        for message in messages:
            match message:
                case UserSaid(text=text):
                    prompt, calls, results = text, [], []
                case AssistantSaid(calls=asked):
                    found = [_Made(call.name, _decoded(call.arguments)) for call in asked]
                    made |= {call.call_id: one for call, one in zip(asked, found, strict=True)}
                    calls += found
                case ToolAnswered():
                    results.append(message)
                    call = made.get(message.call_id)
                    if call is not None and call.tool == READ and not message.failed:
                        read.add(call.arguments.get("path"))
        last = messages[-1] if messages else None
        if prompt is None or isinstance(last, AssistantSaid):
            return None
        return cls(prompt, tuple(calls), tuple(results), frozenset(read))


def _decoded(arguments: str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        value = None
    return value if isinstance(value, dict) else {}


def _is(choice: Choice, made: _Made) -> bool:
    return (choice.tool, choice.arguments) == (made.tool, made.arguments)


# -- the bodies ------------------------------------------------------------------------------------


def _choice_body(text: str, lines: Sequence[str]) -> dict[str, Any]:
    messages = [{"role": "system", "content": _CHOOSE}]
    for prompt, line in _EXAMPLES:
        messages += [{"role": "user", "content": prompt}, {"role": "assistant", "content": line}]
    messages.append({"role": "user", "content": _cut(text, _QUESTION_BYTES)})
    body = _body(messages, max(len(line.encode()) for line in lines) + 8)
    body["grammar"] = f"root ::= {' | '.join(map(_literal, lines))}\n"
    return body


def _literal(path: str) -> str:
    """A line as a literal of the grammar language (GBNF)."""
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


def _results_message(turn: _Turn) -> dict[str, str]:
    """The question, what was found, and the question again: what is nearest is what the model follows."""
    share = _CONTENT_BYTES // len(turn.results)
    told = [_cut(turn.prompt, _QUESTION_BYTES)]
    asked = ""
    for result, call in zip(turn.results, turn.calls, strict=False):
        heading, asked = _NOT_DONE if result.failed else _TOLD.get(result.name, _TOLD[RUN])
        path = _cut(str(call.arguments.get("path", "")), share // 8)
        told.append(f"{heading.format(path=path)}\n\n{_cut(result.result, share - share // 8)}")
    return {"role": "user", "content": "\n\n".join([*told, asked])}


def _chat_messages(messages: Sequence[Message], note: str) -> list[dict[str, str]]:
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
    if note and told[-1]["role"] == "user":
        told[-1]["content"] += f"{_BETWEEN}{_cut(note, _NOTE_BYTES)}"
    return told


def _latest(said: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The last words, as much of their beginning as fits, and of what was said before them what fits."""
    room = _CHAT_BYTES - _NOTE_BYTES - len(_SYSTEM)
    kept: list[tuple[str, str]] = []
    for role, text in reversed(said):
        size = len(text.encode("utf-8", "replace")) + _TOKENS_A_MESSAGE
        if size > room:
            if not kept:
                kept.append((role, _cut(text, room - _TOKENS_A_MESSAGE)))
            break
        room = min(room - size, room if kept else _EARLIER_BYTES)
        kept.append((role, text))
    return kept[::-1]


def _cut(text: str, limit: int) -> str:
    """At most ``limit`` bytes of the text, whole characters, and a mark where something is left out."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return text
    return data[: max(0, limit - 5)].decode("utf-8", "ignore") + " ..."
