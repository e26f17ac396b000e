"""What messages and tool calls are made of (ACP v2: ContentBlock, ToolCallContent, Diff)."""

from enum import StrEnum

from attrs import frozen

from term2_acp.domain.ids import TerminalId


@frozen
class Text:
    """Plain text, shown to the person and given to the model as it is."""

    text: str


@frozen
class ResourceLink:
    """A reference to something the person pointed at. term2 never fetches it.

    ``uri`` is what the client sent, character for character: it is echoed back unchanged.
    """

    name: str
    uri: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


ContentBlock = Text | ResourceLink


class Operation(StrEnum):
    """What happened to a file (ACP v2: DiffChange.operation)."""

    ADD = "add"
    DELETE = "delete"
    MODIFY = "modify"
    MOVE = "move"


@frozen
class Change:
    """One changed file. Paths are absolute and canonical; ``old_path`` is set for a move only."""

    operation: Operation
    path: str
    old_path: str | None = None


@frozen
class Diff:
    """File changes as ACP v2 shows them.

    ``patch`` is a git patch with absolute paths and without ``a/`` and ``b/`` prefixes; None when the
    change has no text form (a binary file).
    """

    changes: tuple[Change, ...]
    patch: str | None = None


@frozen
class Terminal:
    """The place of a command's terminal in a tool call; what it shows comes as events of its own."""

    terminal_id: TerminalId


ToolContent = Text | Diff | Terminal
