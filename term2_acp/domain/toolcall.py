"""Tool calls as the person sees them (ACP v2: ToolCallUpdate)."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from term2_acp.domain.classes import frozen
from term2_acp.domain.content import ToolContent
from term2_acp.domain.ids import ToolCallId


class ToolKind(StrEnum):
    """ACP's tool kinds; clients pick an icon by it."""

    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    OTHER = "other"


class ToolStatus(StrEnum):
    """ACP's tool-call statuses. The last three are final."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"

    @property
    def final(self) -> bool:
        """Whether a call with this status can change no more."""
        return self in _FINAL


_FINAL = frozenset({ToolStatus.COMPLETED, ToolStatus.FAILED, ToolStatus.CANCELLED})


@frozen
class Location:
    """A place the call is about: an absolute path, and a 1-based line where one is known."""

    path: str
    line: int | None = None


@frozen
class ToolCallUpdate:
    """An upsert of one tool call: None leaves a field as it was; the first one for an id creates it.

    ``content`` replaces the whole content. ``raw_input`` and ``raw_output`` are JSON values. ``parent`` is
    the call in whose program this one was made.
    """

    tool_call_id: ToolCallId
    title: str | None = None
    name: str | None = None
    kind: ToolKind | None = None
    status: ToolStatus | None = None
    content: tuple[ToolContent, ...] | None = None
    locations: tuple[Location, ...] | None = None
    raw_input: Mapping[str, Any] | None = None
    raw_output: Any | None = None
    parent: ToolCallId | None = None


class Effect(StrEnum):
    """What became of the effect of a tool call, as the journal keeps it."""

    COMMITTED = "committed"
    FAILED = "failed"
    OUTCOME_UNKNOWN = "outcome_unknown"


class DecidedBy(StrEnum):
    """Who decided whether a tool call may run.

    ``policy``: the rules of the mode. ``grant``: what the person allowed for the session. ``answer``: what
    they answered in this turn to an ask that covers it. ``person``: their answer to its own ask.
    ``nobody``: no answer came that counts, and the call was not allowed.
    """

    POLICY = "policy"
    GRANT = "grant"
    ANSWER = "answer"
    PERSON = "person"
    NOBODY = "nobody"


@frozen
class FileDigests:
    """What a call is to make of one file: the SHA-256 of its bytes, in hex, before and after.

    ``path`` is canonical and absolute. None where there is no such file.
    """

    path: str
    before: str | None
    after: str | None
