"""``term2 sessions verify``: whether what is kept is sound, and what to do where it is not."""

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import trio

from term2_acp.cli.pieces import Look, Piece, shown
from term2_acp.store.findings import DAMAGE, Finding, Kind, Verified
from term2_acp.store.verify import verify

if TYPE_CHECKING:
    from term2_acp.cli.sessions import Desk

DAMAGED = 1

_ADVICE = {
    Kind.DATABASE: "The database itself is damaged. Export what can still be read (`term2 sessions export`), "
    "then move sessions.db away, with its -wal and -shm, or put a copy from before in its place.",
    Kind.UNREADABLE: "Records that cannot be read stay where they are and are left out; the conversation "
    "around them can be opened and goes on.",
    Kind.NEWER: "A newer term2 wrote these records and can read them; nothing is wrong with them.",
    Kind.MISSING: "Records are gone, which term2 does not do by itself. What is left can be opened.",
    Kind.OUT_OF_ORDER: "The records of a call do not fit together. The first of each counts.",
    Kind.UNSETTLED: "term2 stopped during these calls. Opening the session tells the model and you what is "
    "known of them; nothing is run again.",
    Kind.NO_SESSION: "These records belong to no session and are shown nowhere.",
    Kind.NOT_LISTED: "These sessions are in no list and cannot be opened.",
    Kind.STRAY_FILES: "These folders below `artifacts` in the state directory belong to no session; they can "
    "be removed.",
}


async def run_verify(desk: "Desk") -> int:
    """Look, and tell: 0 where it is sound, 1 where it is damaged."""
    verified = verify(desk.state)
    await trio.lowlevel.checkpoint()
    if desk.request.json:
        desk.output.write(json.dumps(_as_json(verified), indent=2) + "\n")
    else:
        desk.output.write(shown(list(_pieces(verified)), desk.screen))
    return 0 if verified.sound else DAMAGED


def _as_json(verified: Verified) -> dict[str, object]:
    return {
        "sound": verified.sound,
        "found": verified.found,
        "sessions": verified.sessions,
        "records": verified.records,
        "counts": verified.counts,
        "findings": [{**attrs.asdict(each), "damage": each.kind in DAMAGE} for each in verified.findings],
        "omitted": verified.omitted,
    }


def _pieces(verified: Verified) -> Iterator[Piece]:
    if not verified.found:
        yield Piece("No sessions are kept.", Look.DIM)
        return
    amount = f"{_number(verified.sessions, 'session')}, {_number(verified.records, 'record')}"
    if verified.sound:
        yield Piece(f"Sound: {amount}.", Look.GOOD)
    else:
        yield Piece(f"Damaged: {amount}.", Look.BAD)
    for kind in Kind:
        if kind not in verified.counts:
            continue
        look = Look.BAD if kind in DAMAGE else Look.WARNING
        yield Piece(f"{kind.value.replace('_', ' ')}: {verified.counts[kind]:,}", look, gap=True)
        yield Piece(_ADVICE[kind], indent=2)
        yield from (Piece(_line(each), indent=4) for each in verified.findings if each.kind is kind)
    if verified.omitted:
        yield Piece(f"{verified.omitted:,} more were found and are not named.", gap=True)


def _number(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _line(finding: Finding) -> str:
    where = [finding.session] if finding.session is not None else []
    where += [f"record {finding.seq}"] if finding.seq is not None else []
    return ": ".join([", ".join(where), finding.reason] if where else [finding.reason])
