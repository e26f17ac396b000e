"""The order of frames, checked from outside and independently of the code that makes it (ACP v2).

``Order`` watches one connection in both directions and keeps, for each session, where its turn is:

    idle -> running -> response {messageId} -> user_message with that id -> work -> idle + stopReason

and refuses with ``AssertionError`` whatever breaks one of these rules:

- no update mentions a session before the answer to its `session/new` or the question to open it;
- nothing of a session comes between `running`, the response of the prompt and its `user_message`;
- a turn has exactly one idle, and nothing follows it until the next `running`;
- `requires_action` is left by `running` or `idle`, and the model says nothing while it lasts;
- a tool call is first shown pending, with title, name, kind and its input; its name never changes; a final
  status (with its output) is the last word about it, and every call has one before the idle;
- a terminal begins with its command and an absolute working directory, which never change; after its exit
  status nothing is said of it, it is never begun again, and it has one before the idle;
- a compaction begins in progress while a turn runs, and has one final status, before the idle; its summary
  comes in chunks before that or with it;
- a message, once followed by another, by a tool call or by a compaction, gets no more text;
- options and commands may be told at any time, but not within the beginning of a turn;
- an ask is about a call that was shown, is not over, and belongs to a turn that runs;
- a replay is whole messages and calls, ends in a `state_update`, and comes before its response;
- tokens and money make sense (``meter``);
- nothing is said of a session after its close was answered.

The rules of v1 are others: a connection that negotiates it is not watched.
"""

import json
from enum import Enum
from typing import Any

from attrs import define, field

from tests.kit.meter import Meter

FINAL = frozenset({"completed", "failed", "cancelled"})
_WHOLE = {"user_message": "user", "agent_message": "agent", "agent_thought": "thought"}
# What may change between two turns as well.
_BESIDE = {"config_option_update", "available_commands_update"}
_CHUNKS = {"user_message_chunk": "user", "agent_message_chunk": "agent", "agent_thought_chunk": "thought"}


class Phase(Enum):
    """Where the turn of a session is."""

    IDLE = "idle"
    STARTED = "started (the response of the prompt comes next)"
    ANSWERED = "answered (its user_message comes next)"
    WORKING = "working"
    BLOCKED = "blocked by asks"


@define
class _Call:
    name: str
    status: str


@define
class _Session:
    session_id: str
    phase: Phase = Phase.IDLE
    opened_by: tuple[type, Any] | None = None  # the question to resume, until its answer: replay
    before: "_Session | None" = None  # what was open then, and stays so if the resume fails
    snapshot: bool = False  # the replay has ended with its state_update
    prompt_id: str | None = None
    idles: int = 0
    calls: dict[str, _Call] = field(factory=dict)
    terminals: dict[str, bool] = field(factory=dict)  # whether it is over
    compactions: dict[str, str] = field(factory=dict)  # the status of each
    live: dict[str, str] = field(factory=dict)  # the message of each type that still takes text
    ended: set[tuple[str, str]] = field(factory=set)
    meter: Meter = field(factory=Meter)

    @property
    def opening(self) -> bool:
        return self.opened_by is not None

    # -- updates -----------------------------------------------------------------------------------

    def update(self, update: dict[str, Any]) -> None:
        kind = update["sessionUpdate"]
        if self.opening:
            self._replayed(kind, update)
        elif kind == "state_update":
            self._state(update)
        else:
            self._work(kind, update)
        self.meter.see(self.session_id, update, replayed=self.opening)

    def _state(self, update: dict[str, Any]) -> None:
        state = update["state"]
        if state == "running":
            self._expect(Phase.IDLE, Phase.BLOCKED, what="running")
            self.phase = Phase.STARTED if self.phase is Phase.IDLE else Phase.WORKING
        elif state == "requires_action":
            self._expect(Phase.WORKING, what="requires_action")
            self.phase = Phase.BLOCKED
        else:
            self._expect(Phase.WORKING, Phase.BLOCKED, what="idle")
            assert state == "idle", f"{self.session_id}: state {state!r}"
            assert update.get("stopReason"), f"{self.session_id}: the idle of a turn has no stopReason"
            open_calls = [call_id for call_id, call in self.calls.items() if call.status not in FINAL]
            assert not open_calls, f"{self.session_id}: idle, and calls are not final: {open_calls}"
            running = [terminal for terminal, over in self.terminals.items() if not over]
            assert not running, f"{self.session_id}: idle, and terminals have no exit status: {running}"
            self._all_compactions_are_over("idle")
            self.phase = Phase.IDLE
            self.idles += 1
            self._end_messages()

    def _work(self, kind: str, update: dict[str, Any]) -> None:
        if self.phase is Phase.ANSWERED:
            assert kind == "user_message", f"{self.session_id}: {kind} before the user_message of its prompt"
            assert update["messageId"] == self.prompt_id, (
                f"{self.session_id}: user_message {update['messageId']!r}, not {self.prompt_id!r}"
            )
            self.phase = Phase.WORKING
            self._message("user", update["messageId"], whole=True)
            return
        if kind in _BESIDE:
            self._expect(Phase.IDLE, Phase.WORKING, Phase.BLOCKED, what=kind)
            return
        self._expect(Phase.WORKING, Phase.BLOCKED, what=kind)
        if kind in _CHUNKS or kind in _WHOLE:
            spoken = _CHUNKS.get(kind) or _WHOLE[kind]
            assert self.phase is Phase.WORKING, f"{self.session_id}: {kind} while it waits for an answer"
            assert kind != "user_message", f"{self.session_id}: a second user_message in one turn"
            self._message(spoken, update["messageId"], whole=kind in _WHOLE)
        elif kind == "tool_call_update":
            self._tool_call(update)
        elif kind in ("terminal_update", "terminal_output_chunk"):
            self._terminal(kind, update)
        elif kind in ("compaction_update", "compaction_summary_chunk"):
            self._expect(Phase.WORKING, what=kind)
            self._compaction(kind, update)
        elif kind == "tool_call_content_chunk":
            call = self.calls.get(update["toolCallId"])
            assert call is not None, f"{self.session_id}: content for a call that was never shown"
            assert call.status not in FINAL, f"{self.session_id}: content for a call that is {call.status}"

    def _terminal(self, kind: str, update: dict[str, Any]) -> None:
        terminal_id = update["terminalId"]
        if terminal_id not in self.terminals:
            assert kind == "terminal_update", f"{self.session_id}: output of a terminal that never began"
            assert update.get("command"), (
                f"{self.session_id}: terminal {terminal_id} begins without a command"
            )
            assert str(update.get("cwd")).startswith("/"), f"{self.session_id}: terminal without a cwd"
            self.terminals[terminal_id] = False
        else:
            assert not self.terminals[terminal_id], f"{self.session_id}: {kind} after an exit status"
            assert not {"command", "cwd"} & update.keys(), f"{self.session_id}: a terminal changed"
        self.terminals[terminal_id] = "exitStatus" in update

    def _compaction(self, kind: str, update: dict[str, Any]) -> None:
        compaction_id = update["compactionId"]
        known = self.compactions.get(compaction_id)
        if known is None:
            assert kind == "compaction_update", f"{self.session_id}: a summary of no compaction"
            assert self.opening or update["status"] == "in_progress", (
                f"{self.session_id}: compaction {compaction_id} begins {update['status']!r}"
            )
            self._end_messages()
        else:
            assert known not in FINAL, f"{self.session_id}: {kind} after its compaction was {known}"
        status = update.get("status", known)
        assert not ("error" in update and status != "failed"), f"{self.session_id}: an error, and {status}"
        self.compactions[compaction_id] = status

    def _all_compactions_are_over(self, what: str) -> None:
        open_ones = [one for one, status in self.compactions.items() if status not in FINAL]
        assert not open_ones, f"{self.session_id}: {what}, and compactions are not final: {open_ones}"

    def _message(self, spoken: str, message_id: str, *, whole: bool) -> None:
        if self.live.get(spoken) == message_id:
            assert not whole, f"{self.session_id}: {spoken} message {message_id} came whole after it began"
            return
        assert (spoken, message_id) not in self.ended, (
            f"{self.session_id}: more text for {spoken} message {message_id}, which had ended"
        )
        if spoken == "user":
            assert whole, f"{self.session_id}: a chunk of a user message nobody knows"
        self._end_messages()
        self.live[spoken] = message_id

    def _end_messages(self) -> None:
        self.ended.update(self.live.items())
        self.live.clear()

    def _tool_call(self, update: dict[str, Any]) -> None:
        call_id = update["toolCallId"]
        call = self.calls.get(call_id)
        if call is None:
            for member in ("title", "name", "kind", "status", "rawInput"):
                assert member in update, f"{self.session_id}: call {call_id} is first shown without {member}"
            assert update["status"] == "pending", (
                f"{self.session_id}: call {call_id} begins {update['status']!r}"
            )
            self.calls[call_id] = _Call(update["name"], "pending")
            self._end_messages()
            return
        assert call.status not in FINAL, (
            f"{self.session_id}: call {call_id} changed after it was {call.status}"
        )
        assert update.get("name", call.name) == call.name, (
            f"{self.session_id}: call {call_id} changed its name"
        )
        status = update.get("status", call.status)
        if call.status == "in_progress":
            assert status != "pending", f"{self.session_id}: call {call_id} went back to pending"
        if status in FINAL:
            assert "rawOutput" in update, f"{self.session_id}: call {call_id} is {status} without rawOutput"
        call.status = status

    # -- replay ------------------------------------------------------------------------------------

    def _replayed(self, kind: str, update: dict[str, Any]) -> None:
        assert not self.snapshot, f"{self.session_id}: {kind} after the state_update that ends a replay"
        if kind == "state_update":
            assert update["state"] == "idle", f"{self.session_id}: resumed as {update['state']!r}"
            self.snapshot = True
        elif kind in _WHOLE:
            self.live = {_WHOLE[kind]: update["messageId"]}
        elif kind in _CHUNKS:
            spoken = _CHUNKS[kind]
            assert self.live.get(spoken) == update["messageId"], (
                f"{self.session_id}: a replayed chunk without its whole message before it"
            )
        elif kind in ("terminal_update", "terminal_output_chunk"):
            self._terminal(kind, update)
        elif kind in ("compaction_update", "compaction_summary_chunk"):
            self._compaction(kind, update)
        elif kind == "tool_call_update" and update["toolCallId"] not in self.calls:
            for member in ("title", "name", "kind", "status"):
                assert member in update, f"{self.session_id}: a replayed call has no {member}"
            self.calls[update["toolCallId"]] = _Call(update["name"], update["status"])
        elif kind == "tool_call_update":
            call = self.calls[update["toolCallId"]]
            call.status = update.get("status", call.status)

    def resumed(self) -> None:
        self.before = None
        assert self.snapshot, f"{self.session_id}: the answer to a resume comes before its state_update"
        unsettled = [call_id for call_id, call in self.calls.items() if call.status not in FINAL]
        assert not unsettled, f"{self.session_id}: replayed calls are not final: {unsettled}"
        self._all_compactions_are_over("resumed")
        self.opened_by = None
        self.live.clear()

    # -- the prompt --------------------------------------------------------------------------------

    def answered(self, message_id: Any) -> None:
        self._expect(Phase.STARTED, what="the response of a prompt")
        assert message_id, f"{self.session_id}: the response of a prompt has no messageId"
        assert ("user", message_id) not in self.ended, f"{self.session_id}: messageId {message_id} again"
        self.prompt_id = message_id
        self.phase = Phase.ANSWERED

    def asked(self, call_id: str) -> None:
        self._expect(Phase.WORKING, Phase.BLOCKED, what="an ask")
        call = self.calls.get(call_id)
        assert call is not None, f"{self.session_id}: an ask about call {call_id}, which was never shown"
        assert call.status not in FINAL, (
            f"{self.session_id}: an ask about call {call_id}, which is {call.status}"
        )

    def _expect(self, *phases: Phase, what: str) -> None:
        assert self.phase in phases, f"{self.session_id}: {what} while the session is {self.phase.value}"


class Order:
    """One connection under watch, like ``schema.Gate``; the two know nothing of each other."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._asked: dict[tuple[type, Any], tuple[str, Any]] = {}
        self._watching = True

    def sent(self, line: bytes | str) -> None:
        """Note a line from the client."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return
        for message in value if isinstance(value, list) else [value]:
            if isinstance(message, dict) and isinstance(message.get("id"), int | str):
                self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        session_id = params.get("sessionId") if isinstance(params, dict) else None
        method = message.get("method")
        if not isinstance(method, str):
            return
        self._asked[type(message["id"]), message["id"]] = (method, session_id)
        if method == "session/resume" and isinstance(session_id, str):
            # Whatever was shown before is shown again from the start, with the ids that it had.
            known = self._sessions.get(session_id)
            if known is None or (known.phase is Phase.IDLE and not known.opening):
                asked, meter = (type(message["id"]), message["id"]), Meter(fresh=False)
                self._sessions[session_id] = _Session(session_id, opened_by=asked, meter=meter, before=known)

    def received(self, line: bytes | str) -> None:
        """Hold a line of term2 to the rules.

        Raises:
            AssertionError: with the session and the rule that is broken.
        """
        if not self._watching:
            return
        value = json.loads(line)
        for message in value if isinstance(value, list) else [value]:
            params = message.get("params")
            if message.get("method") == "session/update":
                self._session(params["sessionId"], "an update").update(params["update"])
            elif message.get("method") == "session/request_permission":
                session = self._session(params["sessionId"], "an ask")
                session.asked(params["subject"]["toolCall"]["toolCallId"])
            elif "method" not in message and message.get("id") is not None:
                self._answer(message)

    def _session(self, session_id: str, what: str) -> _Session:
        session = self._sessions.get(session_id)
        assert session is not None, f"{what} of session {session_id}, which is not open"
        return session

    def _answer(self, message: dict[str, Any]) -> None:
        asked = type(message["id"]), message["id"]
        method, session_id = self._asked.pop(asked, ("", None))
        failed = "error" in message
        result: Any = message.get("result")
        if method == "initialize" and not failed:
            self._watching = result.get("protocolVersion") != 1
        elif method == "session/new" and not failed:
            made = result["sessionId"]
            assert made not in self._sessions, f"session {made} was made twice"
            self._sessions[made] = _Session(made)
        elif method == "session/resume":
            session = self._sessions.get(session_id)
            if failed and session is not None and session.opened_by == asked:
                del self._sessions[session_id]
                if session.before is not None:
                    self._sessions[session_id] = session.before
            elif not failed:
                self._session(session_id, "the answer to a resume").resumed()
        elif method == "session/prompt" and not failed:
            self._session(session_id, "the answer to a prompt").answered(result.get("messageId"))
        elif method in ("session/close", "session/delete"):
            if failed and method == "session/delete":
                return  # it may be open still, in another process
            session = self._sessions.pop(session_id, None)
            if session is not None:
                assert session.phase is Phase.IDLE, (
                    f"{session_id}: closed while its turn is {session.phase.value}"
                )

    def idles(self, session_id: str) -> int:
        """How many turns of the session have ended on this connection."""
        return self._session(session_id, "a question").idles

    def finish(self) -> None:
        """The connection ended as it should: every turn that began has had its idle."""
        running = {s.session_id: s.phase.value for s in self._sessions.values() if s.phase is not Phase.IDLE}
        assert not running, f"the connection ended, and turns had no idle: {running}"
