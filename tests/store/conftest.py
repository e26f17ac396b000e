"""What the tests of the store share: opening one with its writer running, and some events."""

import sqlite3
from collections.abc import Callable
from contextlib import asynccontextmanager

import pytest
import trio

from term2_acp.domain.events import AgentMessageChunk
from term2_acp.domain.ids import MessageId, SessionId
from term2_acp.store import InlineRunner, SessionRecord, Store, StoreFailed

TIME = "2026-11-30T10:00:00.000Z"


@asynccontextmanager
async def _opened(directory, *, runner=None, **parameters):
    store = Store(str(directory), runner or InlineRunner(), **parameters)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        await store.open()
        yield store
        await store.aclose()


@pytest.fixture
def opened():
    """``async with opened(directory) as store``: a store with its writer running, closed at the end."""
    return _opened


@pytest.fixture
def record() -> Callable[..., SessionRecord]:
    """A session's record with everything but its id filled in."""

    def make(session_id: str, *, cwd: str = "/w", title: str | None = None, at: str = TIME) -> SessionRecord:
        return SessionRecord(SessionId(session_id), cwd, title, at, at)

    return make


@pytest.fixture
def said():
    """An event with this text, each in a message of its own."""

    def make(text: str) -> AgentMessageChunk:
        return AgentMessageChunk(MessageId(f"msg_{text}"), text)

    return make


@pytest.fixture
def history():
    """Everything in a session's journal."""

    async def read(store, session_id):
        events = []
        async with store.journal(session_id) as journal:
            while chunk := await journal.receive():
                events += chunk
        return events

    return read


@pytest.fixture
def database(tmp_path):
    """Run SQL on the database of the store in ``tmp_path``, beside the store."""

    def run(sql: str, *values):
        connection = sqlite3.connect(tmp_path / "sessions.db", isolation_level=None)
        try:
            return connection.execute(sql, values).fetchall()
        finally:
            connection.close()

    return run


@pytest.fixture
def code_of():
    """What became of one write: "kept", or the code of its failure."""

    async def wait(operation) -> str:
        await trio.lowlevel.checkpoint()
        try:
            await operation
        except StoreFailed as error:
            return error.code
        return "kept"

    return wait
