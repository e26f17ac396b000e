"""Sessions as a store keeps them, without anybody who held them."""

from collections.abc import Sequence

import trio

from term2_acp.domain.events import Event
from term2_acp.domain.ids import SessionId
from term2_acp.store import InlineRunner, SessionRecord, Store

_TIME = "2026-11-30T10:00:{:02}.000Z"


def keep(state: str, *names: str, events: Sequence[Event] = (), cwd: str = "/w", second: int = 0) -> None:
    """Keep sessions of these names and events in the state directory, made and last active at that second."""
    at = _TIME.format(second)

    async def work() -> None:
        store = Store(state, InlineRunner(), clock=lambda: at)
        await store.open()
        for name in names:
            await store.create(SessionRecord(SessionId(name), cwd, None, at, at))
            await store.append(SessionId(name), events)
        await store.aclose()

    trio.run(work)
