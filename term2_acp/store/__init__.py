"""What survives a restart: sessions, their journals, and who has a session open.

Rules of the room:

- SQLite is touched here only, and on one thread only: the ``Runner``'s.
- The journal is append-only. Nothing that was committed is ever changed; a session is deleted as a whole.
- Several processes share one store: transactions are short, and a session is held by a kernel lock.
- Importing this package imports neither sqlite3 nor cattrs; opening the store does.
"""

from term2_acp.store.claims import Claim
from term2_acp.store.errors import (
    BadCursor,
    ClaimedElsewhere,
    StoreError,
    StoreFailed,
    StoreTooNew,
    UnknownSession,
)
from term2_acp.store.records import Page, SessionRecord, Standing
from term2_acp.store.runner import InlineRunner, Runner, ThreadRunner
from term2_acp.store.store import PAGE_SIZE, Store, now

__all__ = [
    "PAGE_SIZE",
    "BadCursor",
    "Claim",
    "ClaimedElsewhere",
    "InlineRunner",
    "Page",
    "Runner",
    "SessionRecord",
    "Standing",
    "Store",
    "StoreError",
    "StoreFailed",
    "StoreTooNew",
    "ThreadRunner",
    "UnknownSession",
    "now",
]
