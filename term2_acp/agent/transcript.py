"""Events folded into the history that a provider is given.

The fold is the same for a live session and for one that was read from the journal, so a model that is
asked after a restart is told what it would have been told before. Two invariants hold at every prefix of
any sequence of events, whatever was cancelled or lost:

- every call of a reply is followed by exactly one result, in the order of the calls; one that never
  settled gets a result that says so;
- the calls of a reply stand with its text, and a reply that neither spoke nor called is left out.

Which images of it are sent is for ``agent.images`` to say.
"""

from collections.abc import Callable, Mapping
from typing import Any

from term2_acp.agent.images import in_words, said, within_bounds
from term2_acp.domain import events as ev
from term2_acp.domain.ids import ToolCallId
from term2_acp.domain.toolcall import Effect
from term2_acp.providers.base import AssistantSaid, CallMade, Message, Opaque, ToolAnswered
from term2_acp.providers.errors import ContextOverflow, RequestRefused

# What the model reads where the outcome of a call was lost with the process that made it.
OUTCOME_UNKNOWN = (
    "outcome_unknown: term2 stopped before the end of this call was recorded. It may or may not have had "
    "its effect; look before you repeat it."
)

# How a turn fails whose request was refused, for its images perhaps.
_REFUSED = frozenset({RequestRefused.code, ContextOverflow.code})


class _Reply:
    """One reply of the model, as far as it came."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.calls: list[CallMade] = []
        self.results: dict[ToolCallId, tuple[str, bool]] = {}
        self.opaque: Opaque | None = None
        self.complete = False

    def messages(self) -> list[Message]:
        text = "".join(self.parts)
        if not text and not self.calls:
            return []
        said: list[Message] = [AssistantSaid(text, tuple(self.calls), self.opaque, cut=not self.complete)]
        for call in self.calls:
            result, failed = self.results.get(ToolCallId(call.call_id), (OUTCOME_UNKNOWN, True))
            said.append(ToolAnswered(call.call_id, call.name, result, failed))
        return said


class Transcript:
    """The history of one session. ``apply`` takes every event of it, in order."""

    def __init__(self) -> None:
        self._done: list[Message] = []
        self._reply: _Reply | None = None
        self._refused = False  # the last turn ended so; its images are let go when it is sure to stand

    def apply(self, event: ev.Event) -> None:
        """Fold one more event in. Events that a provider is not told of change nothing."""
        fold = _FOLDS.get(type(event))
        if fold is not None:
            fold(self, event)

    def mark(self) -> int:
        """Where the history stands between two turns, for ``rewind``."""
        self._put_away()
        return len(self._done)

    def rewind(self, mark: int) -> None:
        """Forget everything since ``mark``: a prompt that was refused leaves no trace."""
        self._reply = None
        self._refused = False
        del self._done[mark:]

    def messages(self) -> tuple[Message, ...]:
        """The history so far, well paired, oldest first, its images within the bounds of a request."""
        reply = self._reply.messages() if self._reply is not None else ()
        return tuple(within_bounds((*self._done, *reply)))

    def _speaking(self) -> _Reply:
        """The reply that is being made; a complete one is put away and the next begins."""
        if self._reply is None or self._reply.complete:
            self._put_away()
            self._reply = _Reply()
        return self._reply

    def _put_away(self) -> None:
        if self._reply is not None:
            self._done += self._reply.messages()
            self._reply = None

    def _on_user_message(self, event: ev.UserMessage) -> None:
        self._put_away()
        # What no request will hold again need not be kept. All before this prompt stands for good: one that
        # could still be taken back is answered before the next is admitted.
        self._done = (
            [in_words(message) for message in self._done] if self._refused else within_bounds(self._done)
        )
        self._refused = False
        self._done.append(said(event.content))

    def _on_chunk(self, event: ev.AgentMessageChunk) -> None:
        reply = self._reply
        if reply is None or reply.complete:
            reply = self._speaking()
        reply.parts.append(event.text)

    def _on_message(self, event: ev.AgentMessage) -> None:
        if event.spoken_by_model:
            self._speaking().parts.append(event.text)

    def _on_prepared(self, event: ev.ToolCallPrepared) -> None:
        if event.parent is None:  # a call that a program made is no part of what the model said
            self._speaking().calls.append(CallMade(event.tool_call_id, event.name, event.arguments))

    def _on_settled(self, event: ev.ToolCallSettled) -> None:
        if self._reply is not None:
            failed = event.failed or event.effect is not Effect.COMMITTED
            self._reply.results[event.tool_call_id] = (event.result, failed)

    def _on_reply_ended(self, event: ev.ReplyEnded) -> None:
        reply = self._speaking()
        if event.opaque is not None:
            reply.opaque = Opaque(event.provider, event.model, event.opaque)
        reply.complete = True

    def _on_idle(self, event: ev.Idle) -> None:
        self._put_away()
        self._refused = event.failure is not None and event.failure.code in _REFUSED


_FOLDS: Mapping[type, Callable[[Transcript, Any], None]] = {
    ev.UserMessage: Transcript._on_user_message,
    ev.AgentMessageChunk: Transcript._on_chunk,
    ev.AgentMessage: Transcript._on_message,
    ev.ToolCallPrepared: Transcript._on_prepared,
    ev.ToolCallSettled: Transcript._on_settled,
    ev.ReplyEnded: Transcript._on_reply_ended,
    ev.Idle: Transcript._on_idle,
}
