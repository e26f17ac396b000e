"""``term2 sessions show``: a conversation as a person reads it.

It is what a replay shows, in its order (``session.document``). What people and the model said is whole; what
tools gave is bounded, and says so: a person who wants all of it exports the session.

What stands at the beginning of a line is ours: what was said or given is indented, so it cannot pass for it.
"""

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from term2_acp.cli.pieces import Look, Piece, shown
from term2_acp.cli.sessions import words
from term2_acp.cli.sessions.kept import Found, find, local, moment, opened, read
from term2_acp.cli.sessions.listing import as_json, heading, open_word
from term2_acp.cli.sessions.written import JsonObject
from term2_acp.cli.terminal import visible
from term2_acp.domain import events as ev
from term2_acp.domain.content import Diff, Text
from term2_acp.domain.toolcall import ToolCallUpdate, ToolStatus
from term2_acp.session.document import Document
from term2_acp.store.journal import Dated

if TYPE_CHECKING:
    from term2_acp.cli.sessions import Desk

# Of a command's output or a tool's text the end is shown; of a patch, the beginning.
_MOST_LINES = 100
_MOST_CHARACTERS = 20_000

_STATUS_LOOKS = {
    ToolStatus.COMPLETED: Look.CALL,
    ToolStatus.FAILED: Look.BAD,
    ToolStatus.CANCELLED: Look.WARNING,
}


async def run_show(desk: "Desk") -> int:
    """Show one session."""
    async with opened(desk.state) as store:
        found = await find(store, desk.request.ids[0])
        assert store is not None
        document = Document()
        write = _JsonWriter(desk, found) if desk.request.json else _TextWriter(desk, found)
        await read(store, found, lambda events: write.put(document.feed(events)))
        write.put(document.end(goes_on=found.is_open))
        write.end()
    return 0


class _TextWriter:
    def __init__(self, desk: "Desk", found: Found) -> None:
        self._desk = desk
        self._found = found
        self._write(heading(found))

    def put(self, events: Sequence[Dated]) -> None:
        self._write([piece for dated in events for piece in pieces_of(dated)])

    def end(self) -> None:
        if self._found.is_open:
            self._write([Piece(f"The session is {open_word(self._found)}.", Look.WARNING, gap=True)])

    def _write(self, pieces: Sequence[Piece]) -> None:
        self._desk.output.write(shown(pieces, self._desk.screen))


class _JsonWriter:
    """One object: the session, and ``shown``, an entry a line."""

    def __init__(self, desk: "Desk", found: Found) -> None:
        from term2_acp.store.rows import RowCodec

        self._codec = RowCodec()
        self._written = JsonObject(desk.output)
        self._written.member("session", as_json(found))
        self._written.begin_list("shown")

    def put(self, events: Sequence[Dated]) -> None:
        self._written.add(map(self._entry, events))

    def _entry(self, dated: Dated) -> dict[str, Any]:
        row = self._codec.to_row(dated.event)
        body = json.loads(row.body.decode("utf-8", "surrogatepass"))
        entry = {"kind": row.kind, "at": moment(dated.at), "body": body}
        if isinstance(dated.event, ev.TerminalUpdate):
            # The output of a command is bytes, of which JSON has none: as it is kept, and for reading.
            entry["output"] = (dated.event.output or b"").decode("utf-8", "replace")
        return entry

    def end(self) -> None:
        self._written.end()


def pieces_of(dated: Dated) -> Iterator[Piece]:
    """One event of a replay as a person sees it."""
    event = dated.event
    match event:
        case ev.UserMessage():
            yield Piece(f"You, {local(moment(dated.at))}", Look.PERSON, gap=True)
            yield from (Piece(words.of_block(block), indent=2) for block in event.content)
        case ev.AgentMessage(text=text, spoken_by_model=True):
            yield Piece("Answer", Look.HEADING, gap=True)
            yield Piece(text, Look.MARKDOWN, indent=2)
        case ev.AgentMessage(text=text):
            yield Piece(f"term2: {visible(text)}", Look.WARNING, gap=True)
        case ev.AgentThought(text=text):
            yield Piece("Thought", Look.DIM, gap=True)
            yield Piece(text, Look.DIM, indent=2)
        case ToolCallUpdate():
            yield from _of_call(event)
        case ev.TerminalUpdate():
            yield from _of_terminal(event)
        case _:
            yield from _of_others(event)


def _of_others(event: ev.Event) -> Iterator[Piece]:
    match event:
        case ev.PlanUpdate(entries=entries):
            yield Piece("Plan", Look.HEADING, gap=True)
            yield from (Piece(words.of_entry(entry), indent=2) for entry in entries)
        case ev.CompactionUpdate():
            yield Piece(words.of_compaction(event), Look.WARNING, gap=True)
            if event.summary is not None:
                yield Piece(event.summary, Look.DIM, indent=2)
        case ev.Idle():
            usual = event.stop_reason is not None and event.stop_reason.value == "end_turn"
            yield Piece(words.of_idle(event), Look.DIM if usual else Look.WARNING, gap=True)
        case ev.UsageUpdate():
            yield Piece(words.of_context(event), Look.DIM, gap=True)
        case _:
            return  # the title stands above


def _of_call(call: ToolCallUpdate) -> Iterator[Piece]:
    look = _STATUS_LOOKS.get(call.status, Look.CALL) if call.status is not None else Look.CALL
    yield Piece(words.of_call(call), look, gap=True)
    yield from (Piece(place, Look.DIM, indent=2) for place in words.of_places(call))
    for content in call.content or ():
        if isinstance(content, Text):
            yield from _last(content.text, "text")
        elif isinstance(content, Diff):
            yield from (Piece(words.of_change(change), indent=2) for change in content.changes)
            yield from _first(content.patch or "")


def _of_terminal(terminal: ev.TerminalUpdate) -> Iterator[Piece]:
    yield Piece(visible(f"$ {terminal.command or ''}"), Look.HEADING, indent=2)
    yield Piece(visible(f"in {terminal.cwd or 'an unknown directory'}"), Look.DIM, indent=2)
    yield from _last(words.of_output(terminal.output or b""), "output")
    ended = terminal.exit_status
    good = ended is not None and ended.exit_code == 0
    yield Piece(words.of_exit(terminal), Look.DIM if good else Look.WARNING, indent=2)


def _last(text: str, what: str) -> Iterator[Piece]:
    """The end of a text that may be long."""
    kept = text[-_MOST_CHARACTERS:].removesuffix("\n").split("\n")[-_MOST_LINES:]
    left = len(text.removesuffix("\n")) - len("\n".join(kept))
    if left:
        yield Piece(f"({left:,} characters of {what} before this are not shown.)", Look.DIM, indent=4)
    if text:
        yield Piece("\n".join(kept), indent=4)


def _first(patch: str) -> Iterator[Piece]:
    """The beginning of a patch that may be long."""
    kept = "\n".join(patch[:_MOST_CHARACTERS].removesuffix("\n").split("\n")[:_MOST_LINES])
    left = len(patch.removesuffix("\n")) - len(kept)
    if patch:
        yield Piece(kept, Look.DIFF, indent=4)
    if left:
        yield Piece(f"({left:,} characters of the patch after this are not shown.)", Look.DIM, indent=4)
