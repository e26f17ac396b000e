"""The order of frames on a connection of ACP v1, checked from outside (see ``order`` for v2).

``OrderV1`` refuses with ``AssertionError`` whatever breaks one of these rules:

- no update mentions a session before the answer to its ``session/new`` or the question to open it;
- what the agent does (messages, thoughts, calls, plans, usage, titles) comes while a prompt is open, or while
  the session is being loaded; a ``resume`` shows none of it;
- what a person said comes while the session is being loaded, and never while a prompt is open;
- options, commands and notices may come at any time, ``current_mode_update`` and ``config_option_update``
  together;
- a call is made by one ``tool_call``, pending when it is live, with a title; what follows are updates of it;
  its final status is the last status, and every call has one before its prompt is answered;
- diffs stand before anything else in a call's content;
- an ask is about a call that was made and is not over, in a prompt that is open; it has one way to allow
  always at most, one to allow once and one to refuse;
- the output of a command names the call that it belongs to;
- a prompt ends with one of v1's stop reasons, or an error;
- nothing is said of a session after its close or delete was answered;
- no request of ours but an ask or one for files, the latter while a prompt is open.
"""

import json
from typing import Any

from attrs import define, field

FINAL = frozenset({"completed", "failed"})
STOP_REASONS = frozenset({"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"})
WORK = frozenset(
    {
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
        "usage_update",
        "session_info_update",
        "compaction_update",
        "compaction_summary_chunk",
    }
)
ANY_TIME = frozenset({"available_commands_update", "current_mode_update", "config_option_update", "notice"})
OPENING = frozenset({"session/load", "session/resume"})


Key = tuple[type, Any]  # of a request: "1" and 1 are two ids


@define
class _Session:
    session_id: str
    open: bool = False  # the answer to a request that opened it has come
    openings: dict[Key, str] = field(factory=dict)  # the requests that are to open it, with their methods
    prompts: set[Key] = field(factory=set)
    calls: dict[str, str] = field(factory=dict)
    mode_told: bool = False

    @property
    def loading(self) -> bool:
        return "session/load" in self.openings.values()

    def update(self, update: dict[str, Any]) -> None:
        kind = update["sessionUpdate"]
        where = f"{self.session_id}: {kind}"
        assert not self.mode_told or kind == "config_option_update", f"{where} after current_mode_update"
        self.mode_told = kind == "current_mode_update"
        if kind in ANY_TIME:
            return
        if kind == "user_message_chunk":
            assert self.loading, f"{where} outside a load"
            return
        assert kind in WORK, f"{where} is no update of v1"
        assert self.prompts or self.loading, f"{where} while nothing goes on"
        if kind in ("tool_call", "tool_call_update"):
            self._tool_call(kind, update)

    def _tool_call(self, kind: str, update: dict[str, Any]) -> None:
        call_id = update["toolCallId"]
        where = f"{self.session_id}: {call_id}"
        if kind == "tool_call":
            assert call_id not in self.calls, f"{where} is made twice"
            assert update["title"], f"{where} has no title"
            if not self.openings:
                assert update.get("status") == "pending", f"{where} begins as {update.get('status')}"
            self.calls[call_id] = "pending"
        assert call_id in self.calls, f"{where} is updated before it is made"
        status = update.get("status")
        if status is not None:
            assert self.calls[call_id] not in FINAL, f"{where}: {status} after {self.calls[call_id]}"
            self.calls[call_id] = status
        kinds = [item["type"] for item in update.get("content") or ()]
        assert kinds == sorted(kinds, key=lambda each: each != "diff"), f"{where}: diffs come first: {kinds}"
        output = (update.get("_meta") or {}).get("terminal_output")
        if output is not None:
            assert output["terminal_id"] == call_id, f"{where}: output of {output['terminal_id']}"

    def end_prompt(self, key: Key, answer: dict[str, Any]) -> None:
        self.prompts.discard(key)
        if "result" in answer:
            reason = answer["result"]["stopReason"]
            assert reason in STOP_REASONS, f"{self.session_id}: stopReason {reason!r}"
        self._all_over()

    def end_opening(self, key: Key, answer: dict[str, Any]) -> None:
        self.openings.pop(key, None)
        self.open = self.open or "result" in answer
        if "result" in answer:
            self._all_over()
        elif not self.prompts:
            self.calls.clear()  # a load that was cancelled stops anywhere

    def _all_over(self) -> None:
        if self.prompts:
            return  # what was answered is a prompt that was refused: the turn goes on
        unended = [call_id for call_id, status in self.calls.items() if status not in FINAL]
        assert not unended, f"{self.session_id}: calls are not final: {unended}"
        self.calls.clear()

    def ask(self, params: dict[str, Any]) -> None:
        call_id = params["toolCall"]["toolCallId"]
        assert self.prompts, f"{self.session_id}: an ask while no prompt is open"
        assert self.calls.get(call_id) not in (None, *FINAL), f"{self.session_id}: an ask about {call_id}"
        kinds = [option["kind"] for option in params["options"]]
        assert kinds.count("allow_always") <= 1, f"{self.session_id}: {kinds}"
        assert kinds.count("allow_once") == kinds.count("reject_once") == 1, f"{self.session_id}: {kinds}"
        assert "reject_always" not in kinds, f"{self.session_id}: {kinds}"


class OrderV1:
    """One connection under watch. ``received`` takes term2's lines, ``sent`` those of its client."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Session] = {}
        self._open: dict[Key, tuple[str, str | None]] = {}

    def sent(self, line: bytes | str) -> None:
        """Note what the client asks."""
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            return
        for message in value if isinstance(value, list) else [value]:
            if isinstance(message, dict) and isinstance(message.get("method"), str) and "id" in message:
                self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        params = message.get("params")
        session_id = params.get("sessionId") if isinstance(params, dict) else None
        session_id = session_id if isinstance(session_id, str) else None
        request_id, method = message["id"], message["method"]
        key = type(request_id), request_id
        if not isinstance(request_id, int | str) or key in self._open:
            return
        self._open[key] = method, session_id
        if session_id is None:
            return
        if method in OPENING:
            self._sessions.setdefault(session_id, _Session(session_id)).openings[key] = method
        elif method == "session/prompt" and session_id in self._sessions:
            self._sessions[session_id].prompts.add(key)

    def received(self, line: bytes | str) -> None:
        """Hold one line of term2 to every rule."""
        value = json.loads(line)
        for message in value if isinstance(value, list) else [value]:
            if "method" not in message:
                self._answer(message)
            elif message["method"] == "session/update":
                params = message["params"]
                session = self._sessions.get(params["sessionId"])
                assert session is not None, f"an update of {params['sessionId']}, which is not open"
                session.update(params["update"])
            elif message["method"] == "session/request_permission":
                self._sessions[message["params"]["sessionId"]].ask(message["params"])
            elif message["method"] != "$/cancel_request":
                assert message["method"].startswith("fs/"), f"a request {message['method']}"
                assert self._sessions[message["params"]["sessionId"]].prompts, "files outside of a prompt"

    def _answer(self, message: dict[str, Any]) -> None:
        request_id = message.get("id")
        if request_id is None:
            return
        key = type(request_id), request_id
        method, session_id = self._open.pop(key, ("?", None))
        if method == "session/new" and "result" in message:
            made = message["result"]["sessionId"]
            assert made not in self._sessions, f"{made} was made twice"
            self._sessions[made] = _Session(made, open=True)
        session = self._sessions.get(session_id) if session_id is not None else None
        if session is None:
            return
        if method == "session/prompt":
            session.end_prompt(key, message)
        elif method in OPENING:
            session.end_opening(key, message)
        elif method in ("session/close", "session/delete") and "result" in message:
            session.open = False
        if not (session.open or session.openings or session.prompts):
            del self._sessions[session.session_id]

    def finish(self) -> None:
        """The connection has ended: nothing was left open."""
        for session in self._sessions.values():
            assert not session.prompts, f"{session.session_id}: a prompt was never answered"
            assert not session.mode_told, f"{session.session_id}: current_mode_update stands alone"
