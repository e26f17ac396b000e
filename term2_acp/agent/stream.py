"""Deltas of a provider folded into events.

One ``ReplyFold`` lives for one reply. A run of text is one message and a run of thought is one thought:
whatever comes between them, a tool call too, ends the run, and the next text gets a fresh id. So a
replay can show each message whole, in its place.

Keys that we were given are replaced before an event is made: the wire, the journal and the next request
then agree. Text of a stream can cut a key in two, so what could be the beginning of one is held back.
"""

from collections.abc import Sequence

from term2_acp.domain import events as ev
from term2_acp.domain.ids import MessageId, new_message_id
from term2_acp.providers.base import (
    Delta,
    Failed,
    Finished,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    UsageDelta,
)
from term2_acp.redact import StreamRedactor


class ReplyFold:
    """What one reply of the model came to.

    ``calls`` may be run only when ``end`` is ``Finished``. ``usage`` is the provider's last count as it came
    (some servers count up with the text); ``usage.counted`` holds it to what can be.
    """

    def __init__(self, redactor: StreamRedactor | None = None) -> None:
        self.calls: list[ToolCallDelta] = []
        self.usage: UsageDelta | None = None
        self.end: Finished | Failed | None = None
        self._redactor = redactor
        self._kind: type | None = None
        self._run = MessageId("")

    def feed(self, deltas: Sequence[Delta]) -> list[ev.Event]:
        """Take what arrived; return what is to be shown, in order."""
        events: list[ev.Event] = []
        for delta in deltas:
            kind = type(delta)
            if kind is TextDelta or kind is ThoughtDelta:
                self._text(kind, delta.text, events)  # type: ignore[union-attr]
                continue
            if isinstance(delta, UsageDelta):
                self.usage = delta  # the last one counts, and it ends no message
                continue
            self._end_run(events)
            if isinstance(delta, ToolCallDelta):
                self.calls.append(delta)
            elif isinstance(delta, Finished | Failed):
                self.end = delta
        return events

    def _text(self, kind: type, text: str, events: list[ev.Event]) -> None:
        if not text:
            return
        if kind is not self._kind:
            self._end_run(events)
            self._kind = kind
            self._run = new_message_id()
        if self._redactor is not None:
            text = self._redactor.feed(text)
        self._append(text, events)

    def _append(self, text: str, events: list[ev.Event]) -> None:
        if text:
            chunk = ev.AgentMessageChunk if self._kind is TextDelta else ev.AgentThoughtChunk
            events.append(chunk(self._run, text))

    def _end_run(self, events: list[ev.Event]) -> None:
        if self._kind is None:
            return
        if self._redactor is not None:
            self._append(self._redactor.flush(), events)
        self._kind = None
