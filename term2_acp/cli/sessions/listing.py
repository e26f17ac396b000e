"""``term2 sessions list``: every session that is kept, last active first."""

import json
import os
from collections.abc import Sequence
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any

import trio

from term2_acp.cli.pieces import Look, Piece, shown
from term2_acp.cli.sessions.kept import Found, all_of, local, opened
from term2_acp.cli.terminal import visible
from term2_acp.store import SessionRecord, Store, UnknownSession

if TYPE_CHECKING:
    from term2_acp.cli.sessions import Desk

# Characters of an id, at least, where it is shown short.
_SHORTEST = len("sess_") + 6


async def run_list(desk: "Desk") -> int:
    """List them: as JSON, as two lines each on a terminal, elsewhere as one."""
    request = desk.request
    cwd = _canonical(request.values.get("cwd"))
    async with opened(desk.state) as store:
        records = (await all_of(store, cwd))[: request.limit]
        found = [] if store is None else await _standings(store, records)
        everything = await all_of(store) if desk.screen.width is not None else ()
    if request.json:
        desk.output.write(json.dumps({"sessions": list(map(as_json, found))}, indent=2) + "\n")
    elif desk.screen.width is None:
        desk.output.write("".join(map(_line, found)))
    else:
        length = _telling_length([record.session_id for record in everything])
        pieces = [piece for each in found for piece in _entry(each, length)]
        desk.output.write(shown(pieces or [Piece("No sessions are kept.", Look.DIM)], desk.screen))
    return 0


def _canonical(cwd: str | None) -> str | None:
    return None if cwd is None else os.path.realpath(cwd)


async def _standings(store: Store, records: Sequence[SessionRecord]) -> list[Found]:
    found = []
    for record in records:
        try:
            found.append(Found(record, await store.standing(record.session_id)))
        except UnknownSession:
            await trio.lowlevel.checkpoint()  # it was deleted this moment
    return found


def as_json(found: Found) -> dict[str, Any]:
    """A session as every command with ``--json`` names its parts."""
    record, standing = found.record, found.standing
    return {
        "session_id": record.session_id,
        "title": record.title,
        "cwd": record.cwd,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "records": standing.records,
        "open": found.is_open,
        "pid": standing.holder or None,
    }


def heading(found: Found) -> list[Piece]:
    """A session in a few lines: its title, its id, and what is known of it."""
    record = found.record
    return [
        Piece(title_of(record), Look.HEADING),
        Piece(record.session_id, Look.DIM),
        Piece(f"{visible(record.cwd)}, {_facts(found)}", Look.DIM),
        *([Piece(f"It is {open_word(found)}.", Look.WARNING)] if found.is_open else []),
    ]


def title_of(record: SessionRecord) -> str:
    """The title of a session as one line."""
    return visible(record.title) if record.title else "(no title yet)"


def open_word(found: Found) -> str:
    """Who has the session open; "closed" where nobody has."""
    holder = found.standing.holder
    if holder is None:
        return "closed"
    return f"open in process {holder}" if holder else "open"


def _entry(found: Found, length: int) -> list[Piece]:
    record = found.record
    state = f"  ({open_word(found)})" if found.is_open else ""
    return [
        Piece(f"{record.session_id[:length]}  {title_of(record)}{state}", Look.HEADING),
        Piece(f"{visible(record.cwd)}, {_facts(found)}", Look.DIM, indent=4),
    ]


def _facts(found: Found) -> str:
    record = found.record
    return (
        f"active {local(record.updated_at)}, made {local(record.created_at)}, "
        f"{_records(found.standing.records)}"
    )


def _records(number: int | None) -> str:
    if number is None:
        return "damaged (`term2 sessions verify` says more)"
    return f"{number:,} record{'' if number == 1 else 's'}"


def _line(found: Found) -> str:
    """What may have spaces comes last, for whoever cuts the line into columns."""
    record = found.record
    state = "open" if found.is_open else "closed"
    number = "-" if found.standing.records is None else str(found.standing.records)
    words = [record.session_id, record.updated_at, record.created_at, number, state]
    return "  ".join(visible(word) for word in (*words, record.cwd, record.title or "-")) + "\n"


def _telling_length(ids: Sequence[str]) -> int:
    """How many characters tell every two of the ids apart."""
    alike = (
        sum(1 for _ in takewhile(lambda letters: letters[0] == letters[1], zip(one, next_one, strict=False)))
        for one, next_one in pairwise(sorted(ids))
    )
    return max([_SHORTEST, *(length + 1 for length in alike)])
