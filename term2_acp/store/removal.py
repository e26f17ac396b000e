"""Taking a session out of the database, and giving the disk what it held.

A long journal goes in pieces, from its end, so that nobody else who writes waits long. What a crash leaves
of it is the beginning of a journal, as any crash does. When all is gone, the database gives its free pages
back, in pieces too, and the write-ahead log is emptied, which holds what was removed until then.

On a full disk: whatever is overwritten stands in the log first, so a removal needs room for one piece. The
log itself is the first place to look for some, and is emptied before anything else. If a piece still finds no
room, the pieces become smaller, and the log is emptied behind each. Where not even the smallest fits (some
100 KiB), the removal fails and can be tried again.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from term2_acp.domain.ids import SessionId
from term2_acp.store.errors import FULL, StoreFailed

if TYPE_CHECKING:  # they import sqlite3
    from term2_acp.store.database import Database

logger = logging.getLogger(__name__)

T = TypeVar("T")

# One piece, of a journal or of free pages, in bytes: some 50 ms, in which nobody else can write.
PIECE_BYTES = 4 * 1024 * 1024

# The smallest, on a full disk. A piece that finds no room is followed by one of a quarter of its size.
SMALLEST_PIECE_BYTES = 16 * 1024
_QUARTER = 4

_PAGE_BYTES = 4096

Work = Callable[["Database"], T]


class Removal:
    """The removal of one session. ``write`` commits its work; ``read`` does it on the store's thread.

    Both raise ``StoreFailed``.
    """

    def __init__(
        self,
        session_id: SessionId,
        write: "Callable[[Work[bool]], Awaitable[bool]]",
        read: "Callable[[Work[bool]], Awaitable[bool]]",
    ) -> None:
        self._session_id = session_id
        self._write = write
        self._read = read
        self._size = PIECE_BYTES

    async def rows(self) -> None:
        """Remove the journal and the place in the list.

        Raises ``StoreFailed``: it is still in the list, perhaps without the end of its journal.
        """
        await self._empty_log()
        await self._in_pieces(self._write, self._remove_piece)

    async def space(self) -> None:
        """Give back what is free and empty the log. That it cannot be done now is no failure of a removal."""
        try:
            await self._in_pieces(self._read, self._give_piece_back)
        except StoreFailed as error:
            logger.warning("the store could not give space back to the disk: %s", error.message)
        await self._empty_log()

    async def _in_pieces(self, do: "Callable[[Work[bool]], Awaitable[bool]]", piece: "Work[bool]") -> None:
        more = True
        while more:
            try:
                more = await do(piece)
            except StoreFailed as error:
                if error.code != FULL or self._size <= SMALLEST_PIECE_BYTES:
                    raise
                self._size //= _QUARTER
            if self._size < PIECE_BYTES:
                await self._empty_log()

    async def _empty_log(self) -> None:
        try:
            emptied = await self._read(lambda database: database.empty_log())
        except StoreFailed as error:
            logger.warning("the store's log could not be emptied: %s", error.message)
        else:
            if not emptied:
                logger.info("the store's log is in use and will be emptied later")

    def _remove_piece(self, database: "Database") -> bool:
        return database.remove(self._session_id, self._size)

    def _give_piece_back(self, database: "Database") -> bool:
        return database.give_back(self._size // _PAGE_BYTES)
