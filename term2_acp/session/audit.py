"""The audit of a session, folded from its journal: one record a decision, and one a tool call.

Events come in with the times of their rows, and records come out when their turn is over: call by call in the
order in which the model asked for them, first the decision about a call, then the call.

Rules:

- A record says who did what under which circumstances, and what came of it. Of arguments it has a digest and
  the targets, of a result nothing; thoughts and the contents of files are in no record.
- A call that could not be run at all, or was cancelled before it was decided about, has no decision.
- Text is passed through ``clean``, which takes out what looks like a secret.
- What a journal does not say is None or empty: an older one has neither circumstances nor decisions nor
  times. The provider and the model are then those of the reply, and the targets the places that were shown.
- What was cut off ends as ``recovery`` says, whether or not the journal has that already. In a turn that goes
  on, a call that did not settle has no effect yet.
"""

import hashlib
import json
from collections.abc import Callable, Iterable

from attrs import evolve, field

from term2_acp.domain import events as ev
from term2_acp.domain.classes import define, frozen
from term2_acp.domain.content import Terminal, ToolContent
from term2_acp.domain.ids import MessageId, SessionId, TerminalId, ToolCallId
from term2_acp.domain.toolcall import DecidedBy, Effect, ToolCallUpdate, ToolStatus
from term2_acp.domain.turn import StopReason
from term2_acp.session.recovery import Recovery
from term2_acp.store.journal import Dated

# Hex digits of a policy's digest: enough to tell the revisions within one session apart.
_DIGEST_DIGITS = 16


@frozen
class Origin:
    """Which call it is, and the circumstances in which the model asked for it.

    ``turn`` is the id of its prompt. ``arguments_digest`` is the SHA-256 of the tool's name and arguments.
    The rest is as in ``domain.kept.Circumstances``.
    """

    session: SessionId
    turn: MessageId | None
    tool_call: ToolCallId
    parent: ToolCallId | None
    tool: str
    arguments_digest: str
    client: str = ""
    capabilities: str = ""
    agent: str = ""
    protocol: int | None = None
    provider: str = ""
    model: str = ""
    effort: str = ""
    roots: tuple[str, ...] = ()


@frozen
class Policy:
    """What was allowed when it was decided. The same mode and grants have the same digest."""

    digest: str
    mode: str
    grants: tuple[str, ...]


@frozen
class DecisionRecord:
    """Whether a call might run; see ``domain.kept.ToolCallDecided``. Times are milliseconds since 1970."""

    origin: Origin
    targets: tuple[str, ...]
    policy: Policy
    allowed: bool
    by: DecidedBy
    choice: str | None
    reason: str
    waited_ms: int
    decided_at: int | None


@frozen
class CallRecord:
    """A tool call from its beginning to its end.

    ``allowed``, ``by``, ``choice`` and ``policy`` are those of its decision. Times are those of the records,
    in milliseconds since 1970; ``took_ms`` is from its dispatch to its end. ``exit_code`` and ``signal`` are
    those of its command. ``effect`` is what became of it, ``status`` what the person was shown.
    ``cancelled``: it was ended by a cancel, ``cancelled_at``. ``turn_ended`` is how its turn ended.
    """

    origin: Origin
    targets: tuple[str, ...]
    policy: Policy | None
    allowed: bool | None
    by: DecidedBy | None
    choice: str | None
    prepared_at: int | None
    decided_at: int | None
    dispatched_at: int | None
    settled_at: int | None
    took_ms: int | None
    exit_code: int | None
    signal: str | None
    effect: Effect | None
    status: ToolStatus | None
    cancelled: bool
    cancelled_at: int | None
    turn_ended: StopReason | None


AuditRecord = DecisionRecord | CallRecord


@define(eq=False)
class _Call:
    """What is known of one call by now. Of each record the first one counts."""

    prepared: ev.ToolCallPrepared
    prepared_at: int | None
    under: ev.Circumstances | None
    reply: ev.ReplyEnded | None = None
    places: tuple[str, ...] = ()
    decided: ev.ToolCallDecided | None = None
    decided_at: int | None = None
    dispatched: Dated | None = None
    settled: ev.ToolCallSettled | None = None
    settled_at: int | None = None
    status: ToolStatus | None = None
    ended_at: int | None = None
    ended: ev.ExitStatus = field(factory=ev.ExitStatus)


class Audit:
    """The fold. ``clean`` gives a text without what looks like a secret (``Redactor.redact_log``)."""

    def __init__(self, session_id: SessionId, clean: Callable[[str], str]) -> None:
        self._session_id = session_id
        self._clean = clean
        self._turn: MessageId | None = None
        self._circumstances: ev.Circumstances | None = None
        self._calls: dict[ToolCallId, _Call] = {}
        self._terminals: dict[TerminalId, _Call] = {}
        self._recovery = Recovery()

    def feed(self, events: Iterable[Dated]) -> list[AuditRecord]:
        """Take events of the journal; the records of the turns that are over by now."""
        records: list[AuditRecord] = []
        for dated in events:
            for before in self._recovery.see(dated.event):
                self._take(Dated(before, None), records)
            self._take(dated, records)
        return records

    def end(self, *, goes_on: bool) -> list[AuditRecord]:
        """The journal ends here. ``goes_on``: the session is open, and so may be its last turn."""
        records: list[AuditRecord] = []
        for event in () if goes_on else self._recovery.closing():
            self._take(Dated(event, None), records)
        return [*records, *self._close_turn(None)]

    def _take(self, dated: Dated, records: list[AuditRecord]) -> None:
        event = dated.event
        if isinstance(event, ev.UserMessage):
            records += self._close_turn(None)
            self._turn = event.message_id
        elif isinstance(event, ev.Idle):
            records += self._close_turn(event.stop_reason)
        elif isinstance(event, ev.ToolCallPrepared):
            call = _Call(event, dated.at, self._circumstances)
            self._calls.setdefault(event.tool_call_id, call)
        elif isinstance(event, ev.Circumstances):
            self._circumstances = event
        elif isinstance(event, ev.ReplyEnded):
            for call in self._calls.values():  # those before the end of a reply are of the model that gave it
                call.reply = call.reply or event
        elif isinstance(event, ev.TerminalUpdate):
            shown_by = self._terminals.get(event.terminal_id)
            if shown_by is not None and event.exit_status is not None:
                shown_by.ended = event.exit_status
        else:
            self._of_call(event, dated)

    def _of_call(self, event: ev.Event, dated: Dated) -> None:
        call = self._calls.get(getattr(event, "tool_call_id", ToolCallId("")))
        if call is None:
            return  # of no call, or of one whose beginning is lost
        if isinstance(event, ev.ToolCallDecided):
            if call.decided is None:
                call.decided, call.decided_at = event, dated.at
        elif isinstance(event, ev.ToolCallDispatched):
            call.dispatched = call.dispatched or dated
        elif isinstance(event, ev.ToolCallSettled):
            if call.settled is None:
                call.settled, call.settled_at = event, dated.at
        elif isinstance(event, ToolCallUpdate):
            self._shown(call, event, dated.at)
        elif isinstance(event, ev.ToolCallContentAdded):
            self._note_terminals(call, (event.content,))

    def _shown(self, call: _Call, event: ToolCallUpdate, at: int | None) -> None:
        if event.locations:
            call.places = tuple(self._clean(location.path) for location in event.locations)
        self._note_terminals(call, event.content or ())
        if event.status is not None and not (call.status and call.status.final):
            call.status = event.status
            call.ended_at = at if event.status.final else None

    def _note_terminals(self, call: _Call, content: Iterable[ToolContent]) -> None:
        for block in content:
            if isinstance(block, Terminal):
                self._terminals[block.terminal_id] = call

    def _origin(self, call: _Call) -> Origin:
        asked, under, reply = call.prepared, call.under or self._circumstances, call.reply
        origin = Origin(
            self._session_id,
            self._turn,
            asked.tool_call_id,
            asked.parent,
            self._clean(asked.name),  # a model may have made it up
            asked.digest,
        )
        if under is None:
            if reply is None:
                return origin
            return evolve(origin, provider=self._clean(reply.provider), model=self._clean(reply.model))
        return evolve(
            origin,
            turn=under.prompt,
            client=self._clean(under.client),
            capabilities=self._clean(under.capabilities),
            agent=under.agent,
            protocol=under.protocol,
            provider=self._clean(under.provider),
            model=self._clean(under.model),
            effort=under.effort,
            roots=tuple(map(self._clean, under.roots)),
        )

    def _decision(self, origin: Origin, call: _Call) -> DecisionRecord | None:
        decided = call.decided
        if decided is None:
            return None
        return DecisionRecord(
            origin=origin,
            targets=tuple(map(self._clean, decided.targets)),
            policy=_policy(decided.mode, tuple(map(self._clean, decided.grants))),
            allowed=decided.allowed,
            by=decided.by,
            choice=decided.choice,
            reason=self._clean(decided.reason),
            waited_ms=decided.waited_ms,
            decided_at=call.decided_at,
        )

    def _close_turn(self, ended: StopReason | None) -> list[AuditRecord]:
        records: list[AuditRecord] = []
        for call in self._calls.values():
            origin = self._origin(call)
            decision = self._decision(origin, call)
            if decision is not None:
                records.append(decision)
            records.append(_record(origin, decision, call, ended))
        self._calls.clear()
        self._terminals.clear()
        self._turn = self._circumstances = None
        return records


def _record(
    origin: Origin, decision: DecisionRecord | None, call: _Call, ended: StopReason | None
) -> CallRecord:
    cancelled = call.status is ToolStatus.CANCELLED
    return CallRecord(
        origin=origin,
        targets=(decision.targets if decision else ()) or call.places,
        policy=decision.policy if decision else None,
        allowed=decision.allowed if decision else None,
        by=decision.by if decision else None,
        choice=decision.choice if decision else None,
        prepared_at=call.prepared_at,
        decided_at=call.decided_at,
        dispatched_at=call.dispatched.at if call.dispatched else None,
        settled_at=call.settled_at,
        took_ms=call.settled.took_ms if call.settled else None,
        exit_code=call.ended.exit_code,
        signal=call.ended.signal,
        effect=call.settled.effect if call.settled else None,
        status=call.status,
        cancelled=cancelled,
        cancelled_at=call.ended_at if cancelled else None,
        turn_ended=ended,
    )


def _policy(mode: str, grants: tuple[str, ...]) -> Policy:
    text = json.dumps([mode, sorted(grants)])
    return Policy(hashlib.sha256(text.encode()).hexdigest()[:_DIGEST_DIGITS], mode, grants)
