"""A conversation as Markdown, to be kept or handed on.

Whatever was said or written stands in a fence that is longer than any in it: it can neither become a heading
of this document, nor have whoever reads it fetch a picture. What would act on a terminal is written out.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from term2_acp.cli.sessions import words
from term2_acp.cli.terminal import visible, visible_lines
from term2_acp.domain import events as ev
from term2_acp.domain.content import Diff, Text
from term2_acp.domain.toolcall import ToolCallUpdate

if TYPE_CHECKING:
    from term2_acp.cli.sessions.kept import Found
    from term2_acp.store.journal import Dated

_TICKS = re.compile(r"`+")

# What Markdown gives a meaning to within a line of text.
_MEANT = re.compile(r"[\\`*_\[\]<>&#|~!]")


def beginning(found: "Found") -> str:
    """The head of the document."""
    record = found.record
    facts = (
        ("session", record.session_id),
        ("workspace", record.cwd),
        ("made", record.created_at),
        ("last active", record.updated_at),
    )
    lines = [f"- {name}: {_code(what)}" for name, what in facts]
    return f"# {_inline(record.title or 'Session')}\n\n" + "\n".join(lines) + "\n"


def section(dated: "Dated", time: str | None) -> str:
    """One event of a replay. Empty for what is not shown."""
    return "".join(f"\n{block}\n" for block in _blocks(dated.event, time))


def _blocks(event: ev.Event, time: str | None) -> Iterator[str]:
    match event:
        case ev.UserMessage():
            yield f"## Prompt, {time or 'at an unknown time'}"
            yield from (_fence(words.of_block(block), "text") for block in event.content)
        case ev.AgentMessage(text=text, spoken_by_model=True):
            yield "### Answer"
            yield _fence(text, "markdown")
        case ev.AgentMessage(text=text):
            yield "### term2"
            yield _inline(text)
        case ev.AgentThought(text=text):
            yield "### Thought"
            yield _fence(text, "text")
        case ToolCallUpdate():
            yield from _of_call(event)
        case ev.TerminalUpdate():
            yield f"In {_code(terminal_place(event))}:"
            yield _fence(f"$ {event.command or ''}\n{words.of_output(event.output or b'')}", "text")
            yield _inline(words.of_exit(event))
        case _:
            yield from _of_others(event)


def _of_others(event: ev.Event) -> Iterator[str]:
    match event:
        case ev.PlanUpdate(entries=entries):
            yield "### Plan"
            yield _fence("\n".join(map(words.of_entry, entries)), "text")
        case ev.CompactionUpdate():
            yield "### Compaction"
            yield _inline(words.of_compaction(event))
            if event.summary is not None:
                yield _fence(event.summary, "text")
        case ev.Idle():
            yield _inline(words.of_idle(event))
        case ev.UsageUpdate():
            yield _inline(words.of_context(event))
        case _:
            return


def _of_call(call: ToolCallUpdate) -> Iterator[str]:
    yield f"### {_inline(words.of_call(call))}"
    places = [f"- {_code(place)}" for place in words.of_places(call)]
    if places:
        yield "\n".join(places)
    for content in call.content or ():
        if isinstance(content, Text):
            yield _fence(content.text, "text")
        elif isinstance(content, Diff):
            yield "\n".join(f"- {_inline(words.of_change(change))}" for change in content.changes)
            if content.patch is not None:
                yield _fence(content.patch, "diff")


def terminal_place(terminal: ev.TerminalUpdate) -> str:
    """Where a command ran."""
    return terminal.cwd or "an unknown directory"


def _fence(text: str, kind: str) -> str:
    body = "\n".join(visible_lines(text))
    longest = max((len(run) for run in _TICKS.findall(body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{body}\n{fence}"


def _code(text: str) -> str:
    body = visible(text)
    ticks = "`" * (max((len(run) for run in _TICKS.findall(body)), default=0) + 1)
    space = " " if "`" in body else ""
    return f"{ticks}{space}{body}{space}{ticks}"


def _inline(text: str) -> str:
    """Words within a line, none of which means anything to Markdown."""
    return _MEANT.sub(r"\\\g<0>", visible(" ".join(text.split("\n"))))
