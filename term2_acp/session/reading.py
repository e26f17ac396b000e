"""Reading a session's journal: for a client that is shown it again, and for a session that is opened.

Whoever opens a session owns it, and makes its journal whole first: what a turn that was cut off left open is
ended (``recovery``), by what the files of its calls hold now, and that is kept before anyone is told of it.
Opening a session is no activity of it. Where nothing can be kept (a full disk), the session is opened all the
same and the end of that turn is told as it was found; it goes to the journal with the first record that can
be kept (``pump``), or else the next one to open the session finds it anew.

A session that is live in this process has a journal that it goes on writing: it is only shown again.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

import trio

from term2_acp.domain import events as ev
from term2_acp.domain.ids import SessionId
from term2_acp.domain.toolcall import Effect, FileDigests
from term2_acp.redact import PLACEHOLDER
from term2_acp.session.history import History
from term2_acp.session.outcome import Files, effect_of
from term2_acp.session.ports import Client
from term2_acp.session.recovery import Recovery
from term2_acp.session.replay import Replay
from term2_acp.store import Store, StoreFailed

if TYPE_CHECKING:  # the file port is imported where a turn was cut off in the midst of an edit
    from term2_acp.workspace.aftermath import Aftermath

logger = logging.getLogger(__name__)

# Seconds that an editor waits, at most, while files are looked at: a file server may be gone. What was not
# looked at by then is not known. A file is hashed at some hundred MiB a second, and few calls change more.
LOOK_S = 5.0


async def show_again(
    store: Store, session_id: SessionId, client: Client, owed: Sequence[ev.Event] = ()
) -> None:
    """Show the client the whole journal of a session, with what it is ``owed`` behind it.

    Raises:
        StoreFailed: it cannot be read.
    """
    replay = Replay()
    async with store.journal(session_id) as journal:
        while events := await journal.receive():
            client.show(session_id, replay.feed(events))
            await client.ready()
    client.show(session_id, [*replay.feed(owed), *replay.end()])


async def make_whole(
    store: Store, session_id: SessionId, history: History, own_paths: tuple[str, ...], client: Client | None
) -> Sequence[ev.Event]:
    """Read the journal of a session whose claim is held into its history, and end what is open in it.

    A ``client`` is shown it. ``own_paths`` are term2's settings and state. Returns what the journal is owed:
    the end of its last turn, where that could not be kept. Cancelled before its end is found, the journal is
    as it was.

    Raises:
        StoreFailed: it cannot be read.
    """
    replay, recovery = Replay(told=True), Recovery()
    async with store.journal(session_id) as journal:
        while events := await journal.receive():
            told = recovery.told(events)
            for event in told:
                history.read(event)
            if client is not None:
                client.show(session_id, replay.feed(told))
                await client.ready()
    closing, kept = await _ended(store, session_id, recovery, own_paths)
    for event in closing:
        history.read(event)
    if client is not None:
        client.show(session_id, [*replay.feed(closing), *replay.end()])
    return () if kept else closing


async def read_again(store: Store, session_id: SessionId, history: History) -> None:
    """Make a history that was told what could not be kept that of the journal again.

    Everything that was said since must be kept by now. Cancelled, the history is as it was.

    Raises:
        StoreFailed: the journal cannot be read, and the history is as it was.
    """
    transcript, recovery = history.beginning(), Recovery()
    async with store.journal(session_id) as journal:
        while events := await journal.receive():
            for event in recovery.told(events):
                transcript.apply(event)
    history.is_now(transcript)


async def _ended(
    store: Store, session_id: SessionId, recovery: Recovery, own_paths: tuple[str, ...]
) -> tuple[Sequence[ev.Event], bool]:
    """What ends the session's last turn, and whether it is kept."""
    changes = [of_call for _call, of_call in recovery.open_changes()]
    found = Files()
    if changes:
        from term2_acp.workspace.aftermath import Aftermath  # few sessions are opened after that

        with trio.move_on_after(LOOK_S):
            await _look(Aftermath(own_paths), changes, session_id, found)
    closing = recovery.closing(found)
    if closing:
        try:
            await store.append(session_id, closing, active=False)
        except StoreFailed as error:
            logger.warning("how the last turn of a session ended could not be kept: %s", error.message)
            return closing, False
    return closing, True


async def _look(
    aftermath: "Aftermath", changes: Sequence[Sequence[FileDigests]], session_id: SessionId, found: Files
) -> None:
    """Put what the files of each call hold into ``found``, one after the other, and clear up beside them.

    What was put aside is needed where it is not known what became of its call, and the file does not hold it.
    """
    from term2_acp.workspace.refusals import FileRefused

    # A path with a key in it is not in the journal as it was.
    known = [change for of_call in changes for change in of_call if PLACEHOLDER not in change.path]
    for change in known:
        try:
            found.hold[change.path] = await aftermath.digest(change.path, was_there=change.before is not None)
        except FileRefused as error:
            logger.info("a file of a call that was cut off is not known: %s", error)
    # Of two that held the same, the one that does so no more needs what was put aside.
    known.sort(key=lambda change: found.hold.get(change.path, "") == change.before)
    found.aside |= await aftermath.aside(known, session_id)
    for change in known:
        aside = found.aside.get(change.path)
        lost_its_name = change.after is not None and found.hold.get(change.path, "") is None
        if aside is not None and lost_its_name and await aftermath.put_back(aside, change.path):
            found.hold[change.path] = change.before
            del found.aside[change.path]
    needed = {
        change.path
        for of_call in changes
        if effect_of(of_call, found.hold) is Effect.OUTCOME_UNKNOWN
        for change in of_call
        if found.hold.get(change.path, "") != change.before
    }
    for path in found.aside.keys() - needed:
        await aftermath.remove_aside(found.aside.pop(path))
    await aftermath.remove_staged(known, session_id)
