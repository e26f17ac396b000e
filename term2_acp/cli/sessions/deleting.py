"""``term2 sessions delete``: sessions are removed for good, when the person says so.

All ids are looked up before anything is removed: one that is unknown or stands for several stops it all. What
a live process has open is left alone, and said to be; the others go. On a terminal the person is asked;
elsewhere nobody can be, and ``--yes`` has to say it.
"""

import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from term2_acp.cli.pieces import Look, Piece, shown
from term2_acp.cli.sessions.kept import Found, NotDone, find, opened
from term2_acp.cli.sessions.listing import title_of
from term2_acp.cli.terminal import tell, visible
from term2_acp.store import ClaimedElsewhere, Store, StoreError, UnknownSession

if TYPE_CHECKING:
    from term2_acp.cli.sessions import Desk

# An answer is a word. Somebody's pasted megabyte is not read.
_MOST_BYTES = 1000

_PROGRAM = "term2 sessions delete"


async def run_delete(desk: "Desk") -> int:
    """Remove the sessions; 1 when one of them was not."""
    request = desk.request
    asks = "yes" not in request.flags
    if asks and (request.json or desk.screen.width is None or not os.isatty(desk.input)):
        raise NotDone("nobody can be asked here; --yes deletes without asking")
    async with opened(desk.state, to_write=True) as store:
        every = [await find(store, word) for word in request.ids]
        found = {each.record.session_id: each for each in every}  # two beginnings may mean the same
        assert store is not None
        if asks and not _agreed(desk, list(found.values())):
            desk.output.write("Nothing was deleted.\n")
            return 1
        outcomes = [await _delete(desk, store, each) for each in found.values()]
    if request.json:
        desk.output.write(json.dumps({"sessions": outcomes}, indent=2) + "\n")
    return 0 if all(outcome["deleted"] for outcome in outcomes) else 1


def _agreed(desk: "Desk", found: Sequence[Found]) -> bool:
    many = f"these {len(found)} sessions" if len(found) > 1 else "this session"
    pieces = [Piece(f"{_name(each)}\n{visible(each.record.cwd)}", indent=2) for each in found]
    desk.output.write(shown(pieces, desk.screen))
    desk.output.write(f"Delete {many} for good? [y/N] ")
    answer = os.read(desk.input, _MOST_BYTES)
    return answer.strip().lower() in (b"y", b"yes")


async def _delete(desk: "Desk", store: Store, found: Found) -> dict[str, Any]:
    """Remove one session, and say what became of it."""
    session_id = found.record.session_id
    problem, pid = None, None
    try:
        claim = await store.claim(session_id)
        try:
            await store.delete(session_id)
        finally:
            claim.release()
    except UnknownSession:
        pass  # somebody was faster, and it is gone
    except ClaimedElsewhere as error:
        pid = error.pid or None
        who = f"process {pid}" if pid else "another process"
        problem = f"{session_id} is open in {who} and was not deleted; close it there first"
    except StoreError as error:
        problem = f"{session_id} was not deleted: {error.message}"
    if problem is not None:
        tell(_PROGRAM, problem)
    elif not desk.request.json:
        desk.output.write(shown([Piece(f"Deleted {_name(found)}", Look.PLAIN)], desk.screen))
    return {"session_id": session_id, "deleted": problem is None, "problem": problem, "pid": pid}


def _name(found: Found) -> str:
    return f"{found.record.session_id}  {title_of(found.record)}"
