"""``term2 sessions export``: a session as one document, to standard output or to a file.

- *json*: ``format``, the fields of the session, ``events`` (every record of the journal: its kind, its time,
  and its body exactly as it is kept) and ``audit``. An event or a record a line. ASCII alone.
- *markdown*: what ``show`` shows, whole.

It holds what the person saw. The keys that term2 was given were replaced before that was kept; what only
looks like a secret stands there as it was, but for the audit.
"""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from attrs import evolve

from term2_acp.cli.sessions import markdown
from term2_acp.cli.sessions.auditing import record_as_json
from term2_acp.cli.sessions.files import new_file
from term2_acp.cli.sessions.kept import Found, find, moment, opened, read
from term2_acp.cli.sessions.listing import as_json
from term2_acp.cli.sessions.written import JsonObject
from term2_acp.cli.terminal import CannotWrite
from term2_acp.domain.events import RecordsLost
from term2_acp.session.audit import Audit, AuditRecord
from term2_acp.session.document import Document
from term2_acp.store import Store
from term2_acp.store.journal import Dated
from term2_acp.store.rows import RowCodec

if TYPE_CHECKING:
    from term2_acp.cli.sessions import Desk

FORMAT = 1
"""The version of the JSON document. A member may be added to it; none changes its meaning."""


async def run_export(desk: "Desk") -> int:
    """Export one session."""
    values = desk.request.values
    async with opened(desk.state) as store:
        found = await find(store, desk.request.ids[0])
        assert store is not None
        write = _as_markdown if values.get("format") == "markdown" else _as_json
        if "output" not in values:
            await write(desk, store, found)
            return 0
        with new_file(values["output"], force="force" in desk.request.flags) as output:
            try:
                await write(evolve(desk, output=output), store, found)
            except CannotWrite as error:
                # A reader that went away is one of standard output; a file is not, and is not whole.
                raise CannotWrite(str(error), gone=False) from error
    return 0


async def _as_markdown(desk: "Desk", store: Store, found: Found) -> None:
    document = Document()

    def put(events: Sequence[Dated]) -> None:
        for dated in events:
            desk.output.write(markdown.section(dated, moment(dated.at)))

    desk.output.write(markdown.beginning(found))
    await read(store, found, lambda events: put(document.feed(events)))
    put(document.end(goes_on=found.is_open))


async def _as_json(desk: "Desk", store: Store, found: Found) -> None:
    codec = RowCodec()
    audit = Audit(found.record.session_id, desk.redactor.redact_log)
    audited: list[str] = []  # as texts, which are the smallest they can be

    def take(events: Sequence[Dated]) -> None:
        written.add(_event(codec, dated) for dated in events)
        audited.extend(map(_audit_line, audit.feed(events)))

    written = JsonObject(desk.output)
    written.member("format", FORMAT)
    written.member("session", as_json(found))
    written.begin_list("events")
    await read(store, found, take)
    audited += map(_audit_line, audit.end(goes_on=found.is_open))
    written.begin_list("audit")
    written.add_lines(audited)
    written.end()


def _audit_line(record: AuditRecord) -> str:
    return json.dumps(record_as_json(record))


def _event(codec: RowCodec, dated: Dated) -> dict[str, Any]:
    """A record of the journal. What could not be read is said in its place."""
    event = dated.event
    if isinstance(event, RecordsLost):
        lost = {
            "seq": event.seq,
            "damaged": event.damaged,
            "newer": event.newer,
            "hidden_end": event.hidden_end,
        }
        return {"kind": "records_lost", "at": None, "body": lost}
    row = codec.to_row(event)
    return {
        "kind": row.kind,
        "at": moment(dated.at),
        "body": json.loads(row.body.decode("utf-8", "surrogatepass")),
    }
