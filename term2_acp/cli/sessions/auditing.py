"""``term2 sessions audit``: who let which call run, under what, and what came of it (``session.audit``)."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from term2_acp.cli.pieces import Look, Piece, shown
from term2_acp.cli.sessions.kept import Found, find, local, moment, opened, read
from term2_acp.cli.sessions.listing import as_json, heading
from term2_acp.cli.sessions.written import JsonObject
from term2_acp.cli.terminal import visible
from term2_acp.session.audit import Audit, AuditRecord, CallRecord, DecisionRecord, Origin

if TYPE_CHECKING:
    from term2_acp.cli.sessions import Desk


async def run_audit(desk: "Desk") -> int:
    """Show the audit of one session."""
    async with opened(desk.state) as store:
        found = await find(store, desk.request.ids[0])
        assert store is not None
        clean = desk.redactor.redact_log
        audit = Audit(found.record.session_id, clean)
        told = _without_secrets(found, clean)
        writer: _Json | _Text
        if desk.request.json:
            writer = _Json(desk, as_json(told))
        else:
            writer = _Text(desk)
            desk.output.write(shown(heading(told), desk.screen))
        await read(store, found, lambda events: writer.put(audit.feed(events)))
        writer.put(audit.end(goes_on=found.is_open))
        writer.end()
    return 0


def _without_secrets(found: Found, clean: Callable[[str], str]) -> Found:
    """The session as an audit tells of it: its title is the beginning of a prompt."""
    record = found.record
    title = None if record.title is None else clean(record.title)
    return attrs.evolve(found, record=attrs.evolve(record, title=title, cwd=clean(record.cwd)))


def record_as_json(record: AuditRecord) -> dict[str, Any]:
    """A record as JSON has it: flat, its times as texts, the policy an object."""
    kind = "decision" if isinstance(record, DecisionRecord) else "call"
    fields = attrs.asdict(record)
    flat = {"record": kind, **fields.pop("origin"), **fields}
    return {name: moment(value) if name.endswith("_at") else value for name, value in flat.items()}


class _Json:
    """One object: the session, and ``audit``, a record a line."""

    def __init__(self, desk: "Desk", session: dict[str, Any]) -> None:
        self._written = JsonObject(desk.output)
        self._written.member("session", session)
        self._written.begin_list("audit")

    def put(self, records: Sequence[AuditRecord]) -> None:
        self._written.add(map(record_as_json, records))

    def end(self) -> None:
        self._written.end()


class _Text:
    """A call a section; the circumstances where they change."""

    def __init__(self, desk: "Desk") -> None:
        self._desk = desk
        self._under: tuple[Piece, ...] = ()
        self._any = False

    def put(self, records: Sequence[AuditRecord]) -> None:
        decision: DecisionRecord | None = None
        for record in records:
            if isinstance(record, DecisionRecord):
                decision = record
                continue
            of_it = decision if decision is not None and decision.origin == record.origin else None
            under = tuple(_circumstances(record.origin))
            pieces = [*(under if under != self._under else ()), *_of_call(record, of_it)]
            self._under, self._any = under, True
            self._desk.output.write(shown(pieces, self._desk.screen))

    def end(self) -> None:
        if not self._any:
            none = Piece("No tool was called in this session.", Look.DIM, gap=True)
            self._desk.output.write(shown([none], self._desk.screen))


def _circumstances(origin: Origin) -> Iterator[Piece]:
    yield _line(f"Turn {origin.turn or 'unknown'}", Look.HEADING, gap=True)
    spoken = "" if origin.protocol is None else f" over ACP version {origin.protocol}"
    made = f", term2 {origin.agent}" if origin.agent else ""
    yield _line(f"client: {origin.client or 'unknown'}{spoken}{made}", Look.DIM, indent=2)
    if origin.capabilities:
        yield _line(f"it can: {origin.capabilities}", Look.DIM, indent=2)
    effort = f", effort {origin.effort}" if origin.effort else ""
    model = f"{origin.provider}/{origin.model}{effort}" if origin.model else "unknown"
    yield _line(f"model: {model}", Look.DIM, indent=2)
    if origin.roots:
        yield _line(f"workspace: {', '.join(origin.roots)}", Look.DIM, indent=2)


_EFFECT_LOOKS = {"committed": Look.GOOD, "failed": Look.WARNING, "outcome_unknown": Look.BAD}


def _of_call(record: CallRecord, decision: DecisionRecord | None) -> Iterator[Piece]:
    effect = record.effect.value if record.effect is not None else "not settled yet"
    status = record.status.value if record.status is not None else "not shown"
    took = "" if record.took_ms is None else f", took {record.took_ms:,} ms"
    look = _EFFECT_LOOKS.get(effect, Look.PLAIN)
    yield _line(f"{record.origin.tool}: {effect} ({status}{took})", look, indent=2, gap=True)
    inside = f", called by {record.origin.parent}" if record.origin.parent else ""
    yield _line(f"call: {record.origin.tool_call}{inside}", indent=4)
    yield _line(f"arguments: sha256 {record.origin.arguments_digest}", indent=4)
    yield from (_line(f"target: {target}", indent=4) for target in record.targets)
    yield _line(f"decision: {_decision(decision)}", indent=4)
    if decision is not None:
        granted = ", ".join(decision.policy.grants) or "no grants"
        yield _line(
            f"policy: mode {decision.policy.mode}, {granted} (revision {decision.policy.digest})", indent=4
        )
    yield _line(f"times: {_times(record)}", Look.DIM, indent=4)
    if record.exit_code is not None or record.signal is not None:
        yield _line(f"exit: {record.signal or record.exit_code}", indent=4)
    if record.cancelled:
        yield _line(f"cancelled: {local(moment(record.cancelled_at))}", Look.WARNING, indent=4)


def _line(text: str, look: Look = Look.PLAIN, *, indent: int = 0, gap: bool = False) -> Piece:
    """A piece that is one line, whatever a target is called."""
    return Piece(visible(text), look, indent, gap)


def _decision(decision: DecisionRecord | None) -> str:
    if decision is None:
        return "not recorded"
    word = "allowed" if decision.allowed else "not allowed"
    choice = f" ({decision.choice})" if decision.choice else ""
    waited = f", after {decision.waited_ms:,} ms" if decision.waited_ms else ""
    reason = f": {decision.reason}" if decision.reason else ""
    return f"{word} by {decision.by.value}{choice}{waited}{reason}"


def _times(record: CallRecord) -> str:
    steps = (
        ("prepared", record.prepared_at),
        ("decided", record.decided_at),
        ("dispatched", record.dispatched_at),
        ("settled", record.settled_at),
    )
    return ", ".join(f"{word} {local(moment(at))}" for word, at in steps if at is not None) or "not recorded"
