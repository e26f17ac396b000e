"""One turn: the model is called, its reply is shown, its tool calls are run, until it has nothing to run.

``Turn.run`` returns why the turn ended, or raises ``TurnFailed`` with the sentence for the person. It never
reports a cancel: the session knows of one by the turn's scope, and settles.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from attrs import define

from term2_acp.agent.calls import Call
from term2_acp.agent.dispatch import Dispatcher
from term2_acp.agent.mind import Mind, TurnFailed
from term2_acp.agent.ports import TurnPorts
from term2_acp.agent.stream import ReplyFold
from term2_acp.agent.transcript import Transcript
from term2_acp.agent.usage import Meter, counted
from term2_acp.domain import events as ev
from term2_acp.domain.ids import new_message_id
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.providers.base import (
    Failed,
    Finish,
    Finished,
    ModelChoice,
    ProviderError,
    Request,
    ToolSpec,
)
from term2_acp.redact import StreamRedactor
from term2_acp.tools.base import Tool
from term2_acp.tools.registry import schema_of

logger = logging.getLogger(__name__)

# Characters of what a provider wants back with a reply. Signatures and sealed thoughts of one reply take some
# hundred KiB; the bound keeps a server from filling the journal, and every later request with it.
MAX_OPAQUE = 8 * 1024 * 1024


def tool_specs(tools: Mapping[str, Tool]) -> tuple[ToolSpec, ...]:
    """The tools as a provider is told of them."""
    return tuple(ToolSpec(tool.name, tool.description, schema_of(tool)) for tool in tools.values())


async def chosen(mind: Mind) -> ModelChoice:
    """The model that answers this turn.

    Raises:
        TurnFailed: there is none.
    """
    try:
        return await mind.source.choice()
    except ProviderError as error:
        raise TurnFailed(Failure(error.code, error.message)) from error


@define(eq=False)
class Turn:
    """What one turn works with. ``cache_key`` and ``files`` are as in ``Request``.

    ``meter`` is the session's: whatever ends the turn, what was counted of its calls is in there.
    """

    ports: TurnPorts
    mind: Mind
    choice: ModelChoice
    cache_key: str
    files: Callable[[], Awaitable[Sequence[str]]]
    system: str
    transcript: Transcript
    meter: Meter
    specs: tuple[ToolSpec, ...]
    dispatcher: Dispatcher

    async def run(self) -> StopReason:
        """Work until the model is done.

        Raises:
            TurnFailed: the provider could not answer, or answered what makes no sense.
        """
        for _ in range(self.mind.model_calls):
            fold = await self._ask_model()
            if isinstance(fold.end, Failed):
                raise TurnFailed(Failure(fold.end.error.code, fold.end.error.message))
            assert fold.end is not None, "a fold is read to its end"
            stop = await self._act(fold, fold.end)
            if stop is not None:
                return stop
        return StopReason.MAX_TURN_REQUESTS

    async def _ask_model(self) -> ReplyFold:
        """One call of the model, shown as it comes."""
        redactor, choice = self.mind.redactor, self.choice
        fold = ReplyFold(StreamRedactor(redactor) if redactor else None)
        request = Request(
            choice.model,
            self.system,
            self.transcript.messages(),
            self.specs,
            choice.effort,
            self.cache_key,
            self.files,
        )
        info = choice.provider.describe(choice.model)
        self.meter.begin(lambda: None if fold.usage is None else counted(fold.usage, info))
        async with choice.provider.stream(request, self._say_that_we_wait) as deltas:
            while fold.end is None:
                events = fold.feed(await deltas.receive())
                if self.ports.full:
                    await self.ports.room()
                if events:
                    self.ports.emit_nowait(events)
        return fold

    def _say_that_we_wait(self, sentence: str) -> None:
        """Tell the person why nothing comes; the model is not told that it said so."""
        told = ev.AgentMessage(new_message_id(), self.mind.redactor.redact(sentence), spoken_by_model=False)
        self.ports.emit_nowait([told])

    async def _act(self, fold: ReplyFold, end: Finished) -> StopReason | None:
        """End the reply and run its calls; None when the model is to be called again."""
        await self.ports.room()  # before the calls are opened: what opens them must not be lost to a cancel
        calls: list[Call] = []
        events: list[ev.Event] = []
        stop = False
        runs = end.finish in (Finish.STOP, Finish.TOOL_CALLS)
        if runs and fold.calls:
            calls, events, stop = self.dispatcher.announce(fold.calls)
        events += self._reply_ended(end.opaque)
        self.ports.emit_nowait(events)
        if not runs:
            return StopReason.REFUSAL if end.finish is Finish.REFUSAL else StopReason.MAX_TOKENS
        if not calls:
            if end.finish is Finish.TOOL_CALLS:
                raise TurnFailed(
                    Failure(
                        "provider_stream_broke",
                        "The model said it would use a tool and named none. Try again.",
                    )
                )
            return StopReason.END_TURN
        await self.dispatcher.run(calls)
        return StopReason.MAX_TURN_REQUESTS if stop else None

    def _reply_ended(self, opaque: str | None) -> list[ev.Event]:
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
