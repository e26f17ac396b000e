"""Events folded into the history that a provider is given.

The fold is the same for a live session and for one that was read from the journal, so a model that is
asked after a restart is told what it would have been told before. Two invariants hold at every prefix of
any sequence of events, whatever was cancelled or lost:

- every call of a reply is followed by exactly one result, in the order of the calls; one that never
  settled gets a result that says so;
- the calls of a reply stand with its text, and a reply that neither spoke nor called is left out.

A compaction that completed stands for everything before it, but for the last messages that it keeps: the
history begins anew with its summary, and they follow as they are. Where the person's last words are not among
them, those come between, as they are too: they are what the work that goes on is for.

Where records of the conversation could not be read, a line of term2's says so before the person's next words.

A mode that the person set is told before their next words, once, as words of term2's. The system prompt stays
the same for a session's life, and so does what a provider remembers of it. A mode that is set while the model
is at work may show in what its calls return, so what is in force then is told even where it is the old one.

Which images of it are sent is for ``agent.images`` to say, and the words of term2's stand in ``agent.told``.
"""

from collections.abc import Callable, Mapping
from typing import Any

from term2_acp.agent.context import Reading, start_of
from term2_acp.agent.images import in_words, said, within_bounds
from term2_acp.agent.told import KEPT, KEPT_AFTER_WORDS, MODE_TOLD, OUTCOME_UNKNOWN, RECORD_LOST, SUMMARY
from term2_acp.domain import events as ev
from term2_acp.domain.classes import frozen
from term2_acp.domain.ids import ToolCallId
from term2_acp.domain.options import Mode, OptionId
from term2_acp.domain.toolcall import Effect
from term2_acp.providers.base import AssistantSaid, CallMade, Message, Opaque, ToolAnswered, UserSaid
from term2_acp.providers.errors import ContextOverflow, RequestRefused

# One object for each mode: so a history is searched for what was told, not for words that a person can type.
_TOLD: Mapping[Mode, UserSaid] = {mode: UserSaid(text) for mode, text in MODE_TOLD.items()}

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
        self.torn = False  # a part of its record is lost

    @property
    def empty(self) -> bool:
        return not self.calls and not any(self.parts)

    def messages(self) -> list[Message]:
        if self.empty:
            return []
        text = "".join(self.parts)
        said: list[Message] = [AssistantSaid(text, tuple(self.calls), self.opaque, cut=not self.complete)]
        for call in self.calls:
            result, failed = self.results.get(ToolCallId(call.call_id), (OUTCOME_UNKNOWN, True))
            said.append(ToolAnswered(call.call_id, call.name, result, failed))
        return said


@frozen
class Mark:
    """Where a transcript stands between two turns."""

    length: int
    told: Mode | None
    lost: bool
    prompt: UserSaid | None
    reading: Reading | None


@frozen
class _Before:
    """A history as it stood before a compaction."""

    done: list[Message]
    summary: UserSaid | None
    reading: Reading | None


class Transcript:
    """The history of one session. ``apply`` takes every event of it, in order.

    ``reading`` is what the provider counted of the messages last, and ``summary`` what stands for all before
    the last compaction; None where there is none.
    """

    def __init__(self) -> None:
        self.reading: Reading | None = None
        self._done: list[Message] = []
        self._reply: _Reply | None = None
        self._mode = Mode.STANDARD
        self._told: Mode | None = Mode.STANDARD  # the mode that the model knows of; None: of several
        self._lost = False  # records are, and the model was not told yet
        self._at_work = False  # the model is, as far as events tell
        self._refused = False  # the last turn ended so; its images are let go when it is sure to stand
        self._pictured = False  # the last prompt has images, for which older ones may have to be let go
        self._pictures = False  # a prompt had some, ever: without any, no request need be looked through
        self._prompt: UserSaid | None = None  # the person's last words
        self._compacting = False  # the model writes a summary, as far as events tell
        self.summary: UserSaid | None = None
        self._marked = False
        self._first: _Before | None = None  # what a rewind brings back
        self._last: _Before | None = None  # what taking the last compaction back does

    def apply(self, event: ev.Event) -> None:
        """Fold one more event in. Events that a provider is not told of change nothing."""
        fold = _FOLDS.get(type(event))
        if fold is not None:
            fold(self, event)

    def mark(self) -> Mark:
        """Where the history stands between two turns, for ``rewind``."""
        self._put_away()
        self._marked, self._first, self._last = True, None, None
        return Mark(len(self._done), self._told, self._lost, self._prompt, self.reading)

    def rewind(self, mark: Mark) -> None:
        """Forget everything since ``mark``: a prompt that was refused leaves no trace."""
        self._reply, self._last = None, self._first
        self.take_back_compaction()
        self._refused = self._at_work = self._compacting = False
        self._told, self._lost = mark.told, mark.lost
        self._prompt, self.reading = mark.prompt, mark.reading
        del self._done[mark.length :]

    def take_back_compaction(self) -> None:
        """Forget the last compaction since the last mark, if there is one, and what was said since."""
        before, self._last = self._last, None
        if before is None:
            return
        self._reply = None
        self._done, self.summary, self.reading = before.done, before.summary, before.reading
        if before is self._first:
            self._first = None

    def messages(self) -> tuple[Message, ...]:
        """The history so far, well paired, oldest first, its images within the bounds of a request."""
        reply = self._reply.messages() if self._reply is not None else ()
        history = (*self._done, *reply)
        return tuple(within_bounds(history)) if self._pictures else history

    @property
    def prompt(self) -> int | None:
        """The place of the person's last words among the messages; None where they are not there."""
        places = range(len(self._done) - 1, -1, -1)
        return next((place for place in places if self._done[place] is self._prompt), None)

    def compactable(self, kept: int = 0) -> bool:
        """Whether there is more before the last ``kept`` messages than what a compaction leaves there."""
        history = self.messages()
        left = [self.summary] if not kept else [self.summary, self._prompt]
        return any(all(message is not one for one in left) for message in history[: start_of(history, kept)])

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
        # Looking through all of it at each prompt would make the reading of a long history quadratic.
        if self._refused:
            self._done = [in_words(message) for message in self._done]
        elif self._pictured:
            self._done = within_bounds(self._done)
        self._refused = self._pictured = self._compacting = False
        self._at_work = event.to_model
        if not event.to_model:
            return
        if self._lost:
            self._done.append(UserSaid(RECORD_LOST))
            self._lost = False
        if self._mode is not self._told:
            self._done.append(_TOLD[self._mode])
            self._told = self._mode
        self._prompt = said(event.for_model)
        self._pictured = bool(self._prompt.images)
        self._pictures = self._pictures or self._pictured
        self._done.append(self._prompt)

    def _on_option_chosen(self, event: ev.OptionChosen) -> None:
        if event.option_id is not OptionId.MODE or event.value not in _MODES or event.value == self._mode:
            return
        self._mode = Mode(event.value)
        if self._at_work:
            self._told = None

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
            self._reply.results.setdefault(event.tool_call_id, (event.result, failed))  # the first one stands

    def _on_lost(self, event: ev.RecordsLost) -> None:
        del event
        self._lost = True
        if self._reply is not None and not self._reply.complete:
            self._reply.torn = True  # what a provider wants back is good with the whole reply only

    def _on_reply_ended(self, event: ev.ReplyEnded) -> None:
        reply = self._speaking()
        if event.opaque is not None and not reply.torn:
            reply.opaque = Opaque(event.provider, event.model, event.opaque)
        reply.complete = True
        # A server that took the history from its cache may say that it read nothing: that counts no history.
        if event.usage is not None and event.usage.input_tokens and not self._compacting:
            # Thoughts that the provider does not want back are in no request.
            thoughts = event.usage.thought_tokens if event.opaque is None else 0
            read, written = event.usage.input_tokens, event.usage.output_tokens - thoughts
            place = len(self._done) + (0 if reply.empty else 1)
            self.reading = Reading(read + written, place, read, (event.provider, event.model))

    def _on_compaction(self, event: ev.CompactionUpdate) -> None:
        self._put_away()  # the reply that ends within is the summary's, and none of the history
        self._compacting = event.status is ev.CompactionStatus.IN_PROGRESS
        if event.status is not ev.CompactionStatus.COMPLETED or event.summary is None:
            return
        if self._marked:
            self._last = _Before(self._done, self.summary, self.reading)
            self._first = self._first or self._last
        prompt, start = self.prompt, start_of(self._done, event.kept)
        kept = self._done[start:]
        again = self._done[prompt : prompt + 1] if kept and prompt is not None and prompt < start else []
        told = any(message is one for message in kept for one in _TOLD.values())
        mode = "" if told or self._told in (None, Mode.STANDARD) else f"\n\n{MODE_TOLD[self._told]}"
        note = "" if not kept else KEPT_AFTER_WORDS if again else KEPT
        self.summary, self.reading = UserSaid(f"{SUMMARY}{event.summary}{mode}{note}"), None
        self._done = [self.summary, *again, *kept]

    def _on_idle(self, event: ev.Idle) -> None:
        self._put_away()
        self._at_work = False
        self._refused = event.failure is not None and event.failure.code in _REFUSED


# A newer term2 may have kept others.
_MODES = frozenset(Mode)

_FOLDS: Mapping[type, Callable[[Transcript, Any], None]] = {
    ev.UserMessage: Transcript._on_user_message,
    ev.AgentMessageChunk: Transcript._on_chunk,
    ev.AgentMessage: Transcript._on_message,
    ev.ToolCallPrepared: Transcript._on_prepared,
    ev.ToolCallSettled: Transcript._on_settled,
    ev.ReplyEnded: Transcript._on_reply_ended,
    ev.RecordsLost: Transcript._on_lost,
    ev.CompactionUpdate: Transcript._on_compaction,
    ev.Idle: Transcript._on_idle,
    ev.OptionChosen: Transcript._on_option_chosen,
}
