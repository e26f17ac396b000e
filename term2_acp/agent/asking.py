"""How a turn asks its model: what every request of it has in common, and how each call is counted.

A reply is read by whoever asked::

    fold = asking.begin()
    async with asking.stream() as deltas:
        while fold.end is None:
            events = fold.feed(await deltas.receive())

What becomes of the events is the asker's business: a turn shows them, a compaction gathers their text.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager

from term2_acp.agent.context import fixed_tokens
from term2_acp.agent.mind import Mind
from term2_acp.agent.ports import TurnPorts
from term2_acp.agent.stream import ReplyFold
from term2_acp.agent.transcript import Transcript
from term2_acp.agent.usage import Meter, counted
from term2_acp.domain import events as ev
from term2_acp.domain.classes import define
from term2_acp.domain.ids import new_message_id
from term2_acp.providers.base import DeltaStream, Message, ModelChoice, ModelInfo, Request, ToolSpec
from term2_acp.redact import StreamRedactor

logger = logging.getLogger(__name__)

# Characters of what a provider wants back with a reply. Signatures and sealed thoughts of one reply take some
# hundred KiB; the bound keeps a server from filling the journal, and every later request with it.
MAX_OPAQUE = 8 * 1024 * 1024


@define(eq=False)
class Asking:
    """See the module. ``cache_key`` and ``files`` are as in ``Request``; ``specs`` are its tools.

    ``meter`` is the session's: whatever ends a call, what was counted of it is in there.
    """

    ports: TurnPorts
    mind: Mind
    choice: ModelChoice
    cache_key: str
    files: Callable[[], Awaitable[Sequence[str]]]
    system: str
    specs: tuple[ToolSpec, ...]
    transcript: Transcript
    meter: Meter

    @property
    def info(self) -> ModelInfo:
        """What is known of the model by now."""
        return self.choice.provider.describe(self.choice.model)

    @property
    def names(self) -> tuple[str, str]:
        """Those of the provider and of the model."""
        return self.choice.provider.name, self.choice.model

    @property
    def fixed_tokens(self) -> int:
        """The tokens of what stands in each of its requests, as ``context`` estimates them."""
        return fixed_tokens(self.system, self.specs)

    def begin(self) -> ReplyFold:
        """The fold of the next reply. Its call is counted from here."""
        redactor, info = self.mind.redactor, self.info
        fold = ReplyFold(StreamRedactor(redactor) if redactor else None)
        self.meter.begin(lambda: None if fold.usage is None else counted(fold.usage, info))
        return fold

    def stream(self, messages: Sequence[Message] | None = None) -> AbstractAsyncContextManager[DeltaStream]:
        """Ask the model: ``messages``, or else the history as it is now."""
        request = Request(
            self.choice.model,
            self.system,
            self.transcript.messages() if messages is None else messages,
            self.specs,
            self.choice.effort,
            self.cache_key,
            self.files,
        )
        return self.choice.provider.stream(request, self._say_that_we_wait)

    def _say_that_we_wait(self, sentence: str) -> None:
        """Tell the person why nothing comes."""
        told = self.mind.redactor.redact(sentence)
        self.ports.emit_nowait([ev.Notice(new_message_id(), ev.Severity.WARNING, told)])

    def broke_off(self) -> list[ev.Event]:
        """The call gave no whole reply, and the turn goes on: the usage that is shown for it."""
        update = self.meter.update()
        self.meter.break_off()
        return [] if update is None else [update]

    def reply_ended(self, opaque: str | None) -> list[ev.Event]:
        """The end of a reply that came whole, and the usage that is shown for it."""
        call, update = self.meter.open_call(), self.meter.update(whole_reply=True)
        ended = ev.ReplyEnded(
            self.choice.provider.name,
            self.choice.model,
            self._keepable(opaque),
            usage=None if call is None else call.tokens,
            cost_pico_usd=None if call is None else call.cost_pico_usd,
        )
        return [ended] if update is None else [ended, update]

    def _keepable(self, opaque: str | None) -> str | None:
        """What the provider wants back, unless it is too much or has a key of ours in it.

        It is good to its provider whole or not at all, so a key in it cannot be replaced.
        """
        if opaque is None:
            return None
        if len(opaque) > MAX_OPAQUE:
            logger.warning("what the provider wants back with its reply is too long, and was dropped")
            return None
        if self.mind.redactor.redact(opaque) != opaque:
            logger.warning("what the provider wants back with its reply holds a key, and was dropped")
            return None
        return opaque
