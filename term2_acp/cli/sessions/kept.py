"""The sessions that are kept: opening the store as it is, finding a session by its id, reading its journal.

Rules:

- Reading makes nothing. Where there is no database, there is no session, and neither a directory nor a file
  is made to find that out. What lies on a full disk or may not be written to can be read all the same.
- A store that a newer term2 wrote is refused untouched; an older one is brought up to date, as by a daemon.
- An id may be the beginning of one, where only one session has it.
"""

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import trio

from term2_acp.cli.arguments import shortened
from term2_acp.domain.classes import frozen
from term2_acp.store import InlineRunner, SessionRecord, Standing, Store, StoreFailed, UnknownSession
from term2_acp.store.examine import DATABASE
from term2_acp.store.journal import Dated
from term2_acp.store.viewer import Viewer

# Sessions named when a beginning of an id is not enough.
_CANDIDATES = 10

# All sessions, on one page: it is one look, so none is seen twice or missed while others are used.
_ALL = 2**31

# Seconds for the store to close. It has nothing to write but the log that it folds in.
_CLOSING_S = 10


class NotDone(Exception):
    """What was asked for cannot be done. The message is one line for the person."""


@frozen
class Found:
    """A session, and where it stands."""

    record: SessionRecord
    standing: Standing

    @property
    def is_open(self) -> bool:
        """Whether a live process has it open."""
        return self.standing.holder is not None


@asynccontextmanager
async def opened(state: str, *, to_write: bool = False) -> AsyncIterator[Store | None]:
    """The store in the state directory; None where there is none. Raises ``StoreFailed``.

    Without ``to_write`` it is only for reading (``store.viewer``).
    """
    if not _is_there(state):
        yield None
        return
    store = Store(state, InlineRunner()) if to_write else Viewer(state, InlineRunner())
    try:
        await store.open()
        yield store
    finally:
        with trio.move_on_after(_CLOSING_S, shield=True):
            await store.aclose()


def _is_there(state: str) -> bool:
    try:
        os.stat(os.path.join(state, DATABASE))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise StoreFailed.from_error(error) from error  # nobody knows what is there
    return True


async def all_of(store: Store | None, cwd: str | None = None) -> Sequence[SessionRecord]:
    """Every session, last active first; only those of ``cwd`` when it is given."""
    return () if store is None else (await store.page(cwd, None, _ALL)).sessions


async def find(store: Store | None, word: str) -> Found:
    """The session with this id, or with an id that begins so.

    Raises ``NotDone``: there is none, or there are several.
    """
    record = None if store is None else await store.find(word)
    if record is None:
        record = _only(word, [each for each in await all_of(store) if each.session_id.startswith(word)])
    assert store is not None
    try:
        return Found(record, await store.standing(record.session_id))
    except UnknownSession:
        raise _none(word) from None  # it was deleted this moment


def _only(word: str, found: Sequence[SessionRecord]) -> SessionRecord:
    if not found:
        raise _none(word)
    if len(found) > 1:
        named = [record.session_id for record in found[:_CANDIDATES]]
        more = f" and {len(found) - len(named)} more" if len(found) > len(named) else ""
        raise NotDone(f"'{shortened(word)}' is the beginning of several sessions: {', '.join(named)}{more}")
    return found[0]


def _none(word: str) -> NotDone:
    return NotDone(f"there is no session '{shortened(word)}'")


async def read(store: Store, found: Found, take: Callable[[Sequence[Dated]], None]) -> None:
    """Hand the journal on, a bounded piece at a time. Raises ``StoreFailed``, and what ``take`` raises."""
    async with store.journal(found.record.session_id) as journal:
        while events := await journal.receive_dated():
            take(events)


def moment(at: int | None) -> str | None:
    """The time of a record as JSON has it: ISO 8601, UTC, milliseconds, ``Z``."""
    if at is None:
        return None
    try:
        time = datetime.fromtimestamp(at / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return None  # no time that there is: a damaged row
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local(time: str | None) -> str:
    """A time for a person: to the second, in their own time zone."""
    if time is None:
        return "at an unknown time"
    try:
        return datetime.fromisoformat(time).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError):
        return time  # someone edited the database by hand
