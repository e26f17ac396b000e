"""One turn: the model is called, its reply is shown, its tool calls are run, until it has nothing to run.

``Turn.run`` returns why the turn ended, or raises ``TurnFailed`` with the sentence for the person. It never
reports a cancel: the session knows of one by the turn's scope, and settles.

Before a call of the model the history may be compacted, and after one that the provider found too long it is
(``relief``). That is none of the turn's calls, and the call that is then made again is the same one.
"""

from collections.abc import Mapping

from term2_acp.agent.asking import Asking
from term2_acp.agent.calls import Call
from term2_acp.agent.context import overflowed
from term2_acp.agent.dispatch import Dispatcher
from term2_acp.agent.mind import TurnFailed
from term2_acp.agent.relief import Relief, completed
from term2_acp.agent.stream import ReplyFold
from term2_acp.domain import events as ev
from term2_acp.domain.classes import define
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.providers.base import (
    ContextOverflow,
    Failed,
    Finish,
    Finished,
    ModelChoice,
    ModelSource,
    ProviderError,
    ToolSpec,
)
from term2_acp.tools.base import Tool
from term2_acp.tools.registry import schema_of

STILL_TOO_LONG = (
    "The conversation does not fit into this model's context, also now that it was compacted. Shorten the "
    "prompt, choose a model with a larger context, or start a new session."
)
TOO_OFTEN = (
    "This turn has filled the model's context too often, and was stopped. What was done so far stays: send a "
    "prompt to go on."
)


def tool_specs(tools: Mapping[str, Tool]) -> tuple[ToolSpec, ...]:
    """The tools as a provider is told of them."""
    return tuple(ToolSpec(tool.name, tool.description, schema_of(tool)) for tool in tools.values())


async def chosen(source: ModelSource) -> ModelChoice:
    """The model that answers this turn.

    Raises:
        TurnFailed: there is none.
    """
    try:
        return await source.choice()
    except ProviderError as error:
        raise TurnFailed(Failure(error.code, error.message)) from error


@define(eq=False)
class Turn:
    """What one turn works with: the way to its model, and what runs the model's calls."""

    asking: Asking
    dispatcher: Dispatcher

    async def run(self) -> StopReason:
        """Work until the model is done.

        Raises:
            TurnFailed: the provider could not answer, or answered what makes no sense.
        """
        relief = Relief(self.asking, self.dispatcher.context.files.forget_reads_nowait)
        for _ in range(self.asking.mind.model_calls):
            fold = await self._reply(relief)
            if isinstance(fold.end, Failed):
                raise TurnFailed(Failure(fold.end.error.code, fold.end.error.message))
            assert fold.end is not None, "a fold is read to its end"
            stop = await self._act(fold, fold.end)
            if stop is not None:
                return stop
        return StopReason.MAX_TURN_REQUESTS

    async def _reply(self, relief: Relief) -> ReplyFold:
        """The next reply of the model, with room made for it where that is needed.

        Raises:
            TurnFailed: there is no room, whatever was made.
        """
        ended = await relief.before_call()
        fold, shown = await self._ask_model()
        if overflowed(fold.end) and not shown and ended is None:
            self.asking.ports.emit_nowait(self.asking.broke_off())
            ended = await relief.after_overflow()
            if completed(ended):
                fold, shown = await self._ask_model()
        if overflowed(fold.end) and not shown and (completed(ended) or relief.spent):
            sentence = STILL_TOO_LONG if completed(ended) else TOO_OFTEN
            raise TurnFailed(Failure(ContextOverflow.code, sentence))
        return fold

    async def _ask_model(self) -> tuple[ReplyFold, bool]:
        """One call of the model, shown as it comes; and whether anything was."""
        shown = False
        ports, fold = self.asking.ports, self.asking.begin()
        async with self.asking.stream() as deltas:
            while fold.end is None:
                events = fold.feed(await deltas.receive())
                if ports.full:
                    await ports.room()
                if events:
                    shown = True
                    ports.emit_nowait(events)
        return fold, shown

    async def _act(self, fold: ReplyFold, end: Finished) -> StopReason | None:
        """End the reply and run its calls; None when the model is to be called again."""
        ports = self.asking.ports
        await ports.room()  # before the calls are opened: what opens them must not be lost to a cancel
        calls: list[Call] = []
        events: list[ev.Event] = []
        stop = False
        runs = end.finish in (Finish.STOP, Finish.TOOL_CALLS)
        if runs and fold.calls:
            calls, events, stop = self.dispatcher.announce(fold.calls)
        events += self.asking.reply_ended(end.opaque)
        ports.emit_nowait(events)
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
