"""What the store hands out: values, without anything that reads or writes."""

from term2_acp.domain.classes import frozen
from term2_acp.domain.ids import SessionId


@frozen
class SessionRecord:
    """One session as the list has it.

    ``cwd`` is the canonical workspace. ``title`` is None before there is one. Times are ISO 8601, UTC,
    with milliseconds and ``Z``: ``2026-11-30T10:00:00.000Z``, so that their texts sort as they do.
    """

    session_id: SessionId
    cwd: str
    title: str | None
    created_at: str
    updated_at: str


@frozen
class Page:
    """Some sessions, last active first; ``next_cursor`` is None when none follow."""

    sessions: tuple[SessionRecord, ...]
    next_cursor: str | None


@frozen
class Standing:
    """Where a session stands just now.

    ``records`` is how many its journal has, None where damage hides its end. ``holder`` is the process that
    has it open, 0 where that cannot be told; None when nobody has it open.
    """

    records: int | None
    holder: int | None
