"""What is under way in a conversation that is shown again, until it can change no more (``replay``).

Each thing takes in what a journal says of it. ``complete``: no more will come. ``whole`` is the one event
that stands for all of it.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import attrs

from term2_acp.domain import events as ev
from term2_acp.domain.classes import define
from term2_acp.domain.content import ToolContent
from term2_acp.domain.ids import MessageId
from term2_acp.domain.toolcall import ToolCallUpdate

# What stands in a message where records of it could not be read.
GAP = " [...] "

T = TypeVar("T", ToolCallUpdate, ev.TerminalUpdate)

_FIELDS: Mapping[type, Callable[[Any], tuple[Any, ...]]] = {
    cls: operator.attrgetter(*(each.name for each in attrs.fields(cls)))
    for cls in (ToolCallUpdate, ev.TerminalUpdate)
}


def _upserted(before: T, event: T) -> T:
    """The fields of both, those of the event where it gives them."""
    # A tenth of what ``asdict`` and ``evolve`` take, and this is felt in a long session.
    of = _FIELDS[type(event)]
    return type(event)(*[old if new is None else new for old, new in zip(of(before), of(event), strict=True)])


@define(eq=False)
class Message:
    """Text of the model's, said or thought."""

    kind: type[ev.AgentMessage] | type[ev.AgentThought]
    message_id: MessageId
    parts: list[str]
    complete: bool = False
    torn: bool = False  # what follows next, if anything does, follows a gap

    def add(self, text: str) -> None:
        """More of it."""
        self.parts += [GAP, text] if self.torn else [text]
        self.torn = False

    def whole(self) -> ev.Event:
        """See the module."""
        return self.kind(self.message_id, "".join(self.parts))


@define(eq=False)
class Call:
    """A tool call, from its announcement on."""

    shown: ToolCallUpdate
    content: list[ToolContent]

    @property
    def complete(self) -> bool:
        """See the module."""
        return self.shown.status is not None and self.shown.status.final

    def update(self, event: ToolCallUpdate) -> None:
        """What changed of it."""
        if event.content is not None:
            self.content = list(event.content)
        self.shown = _upserted(self.shown, event)

    def whole(self) -> ev.Event:
        """See the module."""
        content = tuple(self.content) or None
        return self.shown if content == self.shown.content else attrs.evolve(self.shown, content=content)


@define(eq=False)
class Terminal:
    """A command's terminal, shown again as one snapshot."""

    shown: ev.TerminalUpdate
    parts: list[bytes]

    @property
    def complete(self) -> bool:
        """See the module."""
        return self.shown.exit_status is not None

    def update(self, event: ev.TerminalUpdate) -> None:
        """What changed of it."""
        if event.output is not None:
            self.parts = [event.output]
        self.shown = _upserted(self.shown, event)

    def whole(self) -> ev.Event:
        """See the module."""
        return attrs.evolve(self.shown, output=b"".join(self.parts))


@define(eq=False)
class Compaction:
    """A compaction, of which the last state is shown."""

    shown: ev.CompactionUpdate

    @property
    def complete(self) -> bool:
        """See the module."""
        return self.shown.status is not ev.CompactionStatus.IN_PROGRESS

    def whole(self) -> ev.Event:
        """See the module."""
        return self.shown


@define(eq=False)
class Loss:
    """Records that could not be read. More of them may follow directly."""

    found: ev.RecordsLost
    complete: bool = False

    def add(self, more: ev.RecordsLost) -> None:
        """Those that follow."""
        first = self.found
        self.found = ev.RecordsLost(
            first.seq, first.damaged + more.damaged, first.newer + more.newer, more.hidden_end
        )

    def whole(self) -> ev.Event:
        """See the module."""
        said = MessageId(f"lost_{self.found.seq}")
        return ev.AgentMessage(said, _sentence_of(self.found), spoken_by_model=False)


Open = Message | Call | Terminal | Compaction | Loss

OPEN = (Message, Call, Terminal, Compaction, Loss)  # ``isinstance`` takes thrice as long for a union


def _sentence_of(lost: ev.RecordsLost) -> str:
    """What a person reads in place of records that could not be read."""
    sentences = []
    if lost.damaged:
        records = _counted(lost.damaged)
        sentences.append(
            f"{records} of this conversation could not be read here; `term2 sessions verify` names "
            f"{'it' if lost.damaged == 1 else 'them'}."
        )
    if lost.newer:
        were = "was" if lost.newer == 1 else "were"
        sentences.append(
            f"{_counted(lost.newer)} of this conversation could not be read here: "
            f"{'it' if lost.newer == 1 else 'they'} {were} written by a newer term2."
        )
    if lost.hidden_end:
        sentences.append(
            "The store is damaged here, so whatever may follow in this conversation could not be read; "
            "`term2 sessions verify` says where."
        )
    return " ".join(sentences)


def _counted(records: int) -> str:
    return f"{records:,} record{'' if records == 1 else 's'}"
