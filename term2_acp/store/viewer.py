"""A store for who only reads it, and may have nothing but the files to read.

It is opened as by a daemon, so that a log that a killed process left is folded in and old tables are brought
up to date, but neither the directory nor the locks are made. Where that cannot be done, since the disk is
full or nothing may be written, the database is looked at as ``verify`` does: what is kept can be read and
exported then too. Whether someone has a session open is seen without a lock of our own; there are no claims.

(What lay at rest is read as a file that nobody changes. Should a daemon of another user begin to write to it
meanwhile, what is read may not fit together, and looks damaged. Nothing is changed by that.)
"""

import os
import sqlite3

from term2_acp.store.database import Database
from term2_acp.store.errors import FULL, READ_ONLY, StoreFailed, StoreTooNew
from term2_acp.store.examine import DATABASE, in_use
from term2_acp.store.faults import FAULTS
from term2_acp.store.schema import open_database
from term2_acp.store.store import Store
from term2_acp.store.verify import connection_to_look


class Viewer(Store):
    """See the module. The database must be there. ``claim`` raises ``StoreFailed``, and nobody writes."""

    def _open_here(self) -> None:
        if self._database is None:
            self._database = Database.open(os.path.join(self._directory, DATABASE), connect)


def connect(path: str) -> sqlite3.Connection:
    """A connection to a database that is there; see the module.

    Raises ``StoreTooNew``, ``StoreFailed`` and ``FAULTS``.
    """
    try:
        return open_database(path)
    except StoreTooNew:
        raise
    except (*FAULTS, OSError) as error:
        failure = StoreFailed.from_error(error)
        if failure.code not in (FULL, READ_ONLY):
            raise failure from error
        try:
            return connection_to_look(path, at_rest=not in_use(path))
        except (*FAULTS, OSError):
            raise failure from error  # of the two, this one says what to do
