"""What the embedded model may choose from: every tool call that a prompt can mean, written out. Pure.

Theory of operation. A model of 135 million parameters cannot use tools: left alone it calls what does not
exist with arguments that nobody said. What it can do, about nine times in ten, is choose a line from a few.
So each call that the words of the prompt allow is made here, whole and valid, and stands under one short
line (``cat notes.txt``); a grammar lets the model write one of those lines, or ``say``, and nothing else.

Rules:

- A path is one of the workspace's files, or the folder of one. A file that does not exist yet is named by the
  prompt, and is only ever created.
- A command, a text to look for and a text to write are copied from the prompt, character for character.
- A call is offered only when the prompt has a word for it (read apart, for which naming a file is enough),
  and none where it asks how something is done, or says not to do it.
- A prompt that begins with such a word is an order: then there is no ``say`` to choose.
- A command is one that somebody is told to run: what was run, or runs, is none.
- A prompt that is longer than ``_LONGEST_PROMPT`` carries a text with it, whose words are no orders: nothing
  is offered for it. So reading a prompt apart takes milliseconds, whatever is in it.
- A line is printable and short, else its call is not offered: it is written into a grammar, and the model
  writes it token by token.
- A file is read before it is edited. What a prompt names besides what was chosen first follows without
  another question, at most ``MOST_CALLS`` calls a prompt.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from term2_acp.domain.classes import frozen

# Calls for one prompt. A model that needs more of them needs to be another model.
MOST_CALLS = 4
# Lines that are offered for one prompt.
_MOST_CHOICES = 8
# Characters of a prompt that is read apart.
_LONGEST_PROMPT = 4000
# Bytes of a line. The model writes some sixty of them in a second.
_LONGEST_LINE = 240
_LONGEST_PATH = 200
# Characters of a command or a text that are copied from a prompt.
_LONGEST_COPY = 200

READ, LIST, FIND, RUN, CREATE, EDIT = (
    "read_file",
    "glob",
    "grep",
    "shell",
    "create_file",
    "search_replace",
)

_BARE_NAMES = frozenset({"Makefile", "Dockerfile", "LICENSE", "README", "CHANGELOG", "Justfile"})
_QUOTED = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"")
_BEFORE = "([{<'*"
_BEHIND = ".,;:!?)]}>'*"
_NO_FILE = re.compile(
    r"(\d+([./]\d+)*|[eip]\.[egs]\.?|[ap]\.m\.?|u\.s\.?|and/or|[a-z]+://.*|www\..*|.*@.*)", re.IGNORECASE
)
_LIST_WORDS = re.compile(
    r"(?<!\ba )\blist\b|\b(files|folders?|director(y|ies)|ls)\b|\bwhat is (here|in)\b", re.IGNORECASE
)
_FIND_WORDS = re.compile(r"\b(find|search|grep|look for|where is|where are)\b", re.IGNORECASE)
_RUN_WORDS = re.compile(
    r"(?:^|[.?!,;:]\s|\n|\b(?:please|you|you to|and|then|now|also|just|first|let.?s)\s)"
    r"[^\S\n]*(?:run|execute)\s+",  # no line break: of thousands in a row, each would be tried with each
    re.IGNORECASE,
)
_RUN_END = re.compile(r"[.?!,;](\s|$)|\s(and|then|please|for me)\b|\n", re.IGNORECASE)
_NO_COMMAND = re.compile(
    r"(the|a|an|my|your|this|that|it|all|some|into|out|away|in|on|at|with|for|from|to)\b", re.IGNORECASE
)
_CREATE_WORDS = re.compile(r"\b(create|make|write|add)\b", re.IGNORECASE)
_EDIT_WORDS = re.compile(r"\b(replace|change|rename|edit)\b", re.IGNORECASE)
_HOW = re.compile(r"\bhow (do|to|can|would|should|does)\b", re.IGNORECASE)
_NOT = re.compile(r"\b(don.?t|do not|never|not to|shouldn.?t|should not|without)\b", re.IGNORECASE)
_POLITE = r"(?:please\s+|(?:can|could|would|will)\s+you\s+|now\s+|then\s+)*"
_ORDER = re.compile(
    rf"{_POLITE}(read|open|show|print|cat|summari[sz]e|explain|list|ls|find|search|grep|look|run|execute"
    r"|create|make|write|add|replace|change|edit)\b",
    re.IGNORECASE,
)
_BOUND = re.compile(r"[\w./-]+")
_QUOTES = frozenset('`"')
_SENTENCE_ENDS = ".?!"
_CALLED_BY_NAME = frozenset(name.lower() for name in (*_BARE_NAMES, "COPYING", "CONTRIBUTING"))


@frozen
class Choice:
    """One call that the model may choose. ``line`` is what it writes to choose it."""

    line: str
    tool: str
    arguments: Mapping[str, Any]


def mentioned_files(text: str) -> tuple[str, ...]:
    """The words of ``text`` that look like files: they have a dot or a slash in them. In order, once each."""
    if len(text) > _LONGEST_PROMPT:
        return ()
    words = [span.strip() for span in _spans(text)]
    words += [word.lstrip(_BEFORE).rstrip(_BEHIND) for word in _QUOTED.sub(" ", text).split()]
    found = {word for word in words if _is_file(word)}
    return tuple(sorted(found, key=text.find)[:_MOST_CHOICES])


def unlisted_files(text: str, files: Sequence[str]) -> tuple[str, ...]:
    """The mentioned files that are not among ``files``."""
    return tuple(word for word in mentioned_files(text) if not _real(word, files))


def choices(
    text: str, files: Sequence[str], tools: Collection[str], read: Collection[str] = ()
) -> tuple[Choice, ...]:
    """The calls that ``text`` can mean, the likeliest first; none when it speaks of no work.

    ``files`` are the workspace's files, ``tools`` the names of the tools that there are, ``read`` the files
    that were read already. What would edit an unread file reads it.
    """
    if len(text) > _LONGEST_PROMPT:
        return ()
    found = _every(text, files, frozenset(read))
    every = [choice for choice in found if choice.tool in tools and _can_be_written(choice.line)]
    by_line = {choice.line: choice for choice in reversed(every)}  # of two with one line, the first
    lines = dict.fromkeys(choice.line for choice in every)
    return tuple(by_line[line] for line in lines)[:_MOST_CHOICES]


def is_order(text: str) -> bool:
    """Whether the prompt tells to do something, rather than asks or tells about it."""
    return _ORDER.match(text.strip()) is not None


def _every(text: str, files: Sequence[str], read: frozenset[str]) -> Iterator[Choice]:
    if _HOW.search(text) or _NOT.search(text):
        return
    mentioned = mentioned_files(text)
    real = tuple(dict.fromkeys(path for word in mentioned for path in _real(word, files)))
    real = real or tuple(_by_name(text, files))
    spans = [span for span in _spans(text) if len(span) <= _LONGEST_COPY]
    edits = tuple(_edits(text, spans, real, read))
    yield from edits
    yield from _creations(text, spans, mentioned, files)
    yield from _commands(text, spans)
    if not edits:  # else reading is the first half of the edit
        for path in real:
            yield Choice(f"cat {path}", READ, {"path": path})
    yield from _searches(text, spans)
    if not real and _LIST_WORDS.search(text):
        for folder in _folders(text, files):
            yield Choice(f"ls {folder}", LIST, {"pattern": "*", "path": folder})


def _edits(text: str, spans: Sequence[str], real: Sequence[str], read: frozenset[str]) -> Iterator[Choice]:
    texts = [span for span in spans if span not in real]
    if not _EDIT_WORDS.search(text) or len(texts) != 2:
        return
    old, new = texts
    for path in real:
        if path not in read:
            yield Choice(f"edit {path}", READ, {"path": path})
            continue
        replacement = {"search_content": old, "replace_content": new}
        yield Choice(f"edit {path}", EDIT, {"path": path, "replacements": [replacement]})


def _creations(
    text: str, spans: Sequence[str], mentioned: Sequence[str], files: Sequence[str]
) -> Iterator[Choice]:
    new = [word for word in mentioned if not _real(word, files) and _is_inside(word)]
    texts = [span for span in spans if span not in mentioned]
    if _CREATE_WORDS.search(text) and len(new) == 1 and len(texts) == 1:
        yield Choice(f"write {new[0]}", CREATE, {"path": new[0], "content": f"{texts[0]}\n"})


def _commands(text: str, spans: Sequence[str]) -> Iterator[Choice]:
    for word in _RUN_WORDS.finditer(text):
        rest = text[word.end() :]
        quoted = next((s for s in spans if rest[:1] in _QUOTES and rest[1:].startswith(s)), None)
        command = _unquoted(rest) if quoted is None else quoted
        if command and len(command) <= _LONGEST_COPY and command.isprintable():
            yield Choice(f"run {command}", RUN, {"command": command})


def _unquoted(rest: str) -> str:
    """The command that a sentence ends with; "" where it names none ("run the tests"): none is made up."""
    end = _RUN_END.search(rest)
    words = (rest[: end.start()] if end else rest).strip().rstrip(_SENTENCE_ENDS)
    return "" if _NO_COMMAND.match(words) else words


def _searches(text: str, spans: Sequence[str]) -> Iterator[Choice]:
    word = _FIND_WORDS.search(text)
    if word is None:
        return
    wanted = list(spans)
    if not wanted:
        # The last word with something of a program's name in it, else the last word of all.
        named = [w for w in _BOUND.findall(text[word.end() :]) if len(w) > 2]
        marked = [w for w in named if "_" in w or any(c.isupper() for c in w[1:])]
        wanted = (marked or named)[-1:]
    for phrase in wanted:
        yield Choice(f"find {phrase}", FIND, {"pattern": phrase.rstrip("."), "fixed_strings": True})


def _folders(text: str, files: Sequence[str]) -> tuple[str, ...]:
    """The folders of the workspace that the text names; the workspace itself where it names none."""
    known = {path.rpartition("/")[0] for path in files}
    known |= {"/".join(folder.split("/")[:depth]) for folder in known for depth in range(1, 8)}
    words = [w.strip("/").removeprefix("./").rstrip(".") for w in _BOUND.findall(text)]
    found = tuple(dict.fromkeys(word for word in words if word and word in known))
    return found or (".",)


def _real(word: str, files: Sequence[str]) -> tuple[str, ...]:
    """The files that a word of the prompt can mean: the one of that path, or those of that name."""
    wanted = word.removeprefix("./")
    if wanted in files:
        return (wanted,)
    behind = f"/{wanted}"
    return tuple(path for path in files if path.endswith(behind))[:_MOST_CHOICES]


def _by_name(text: str, files: Sequence[str]) -> Iterator[str]:
    """Files at the top that a person calls by their bare name: the readme, the changelog, the makefile."""
    words = {word.lower() for word in _BOUND.findall(text)}
    for path in files:
        stem = path.partition(".")[0].lower()
        if "/" not in path and stem in words and stem in _CALLED_BY_NAME:
            yield path


def _can_be_written(line: str) -> bool:
    return line.isprintable() and len(line.encode()) <= _LONGEST_LINE


def _is_inside(word: str) -> bool:
    """Whether a new file of that name is below the workspace, by its words alone."""
    return not word.startswith(("/", "~")) and ".." not in word.split("/")


def _spans(text: str) -> list[str]:
    return [back or double for back, double in _QUOTED.findall(text)]


def _is_file(word: str) -> bool:
    if word in _BARE_NAMES:
        return True
    if len(word) > _LONGEST_PATH or not word.isprintable() or _NO_FILE.fullmatch(word):
        return False
    return ("/" in word or "." in word) and any(letter.isalnum() for letter in word)
