"""The provider ``chaos``: a model that does, by a seed, whatever a model and its server have ever done wrong.

Theory of operation. What is played follows from the seed, the place in the conversation and the last prompt,
and from nothing else: no clock, no counter, no set. So a run that went wrong is run again by its seed, after
a restart too. The drawing is done in ``reply`` and ``calls``; this is the server behind it, which is strict
about what it is asked: a history that is not well paired is refused, as hosted models refuse it.

It breaks no promise of ``Provider``: a list is never empty, what ends a stream stands last in it, faults are
``Failed``. Everything that a server can do under these promises, it does; there is no watchdog, so now and
then nothing comes until the person cancels.

It is harmless where it is tried out: see ``calls``.
"""

import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from random import Random

import trio

from term2_acp.providers.base import (
    AssistantSaid,
    DeltaStream,
    Failed,
    Message,
    ModelInfo,
    OnWait,
    Request,
    RequestRefused,
    ToolAnswered,
    UserSaid,
    wait_silently,
)
from term2_acp.providers.chaos.calls import HARMLESS, Recipe
from term2_acp.providers.chaos.reply import CONTEXT_TOKENS, reply, waits_before
from term2_acp.providers.ended import Ended
from term2_acp.providers.scripted.playing import PlayedStream

_log = logging.getLogger(__name__)

# How many deltas are handed on together at most: one each, as a slow model's come, up to a whole reply.
_PER_READ = (1, 1, 2, 7, 64, 5000)


class Chaos:
    """A seed as a provider (``Provider``). ``recipes`` are the tools that it calls, and with what."""

    merge_text = True
    asks_for_edits = True

    def __init__(self, name: str, seed: int, *, recipes: Mapping[str, Recipe] = HARMLESS) -> None:
        self.name = name
        self.seed = seed
        self._recipes = recipes
        self._told = False

    def describe(self, model: str) -> ModelInfo:
        """See ``Provider``."""
        del model
        return ModelInfo(CONTEXT_TOKENS, sees_images=True)

    @asynccontextmanager
    async def stream(self, request: Request, on_wait: OnWait = wait_silently) -> AsyncIterator[DeltaStream]:
        """See ``Provider``. Entering waits where a server would be asked again."""
        if not self._told:
            self._told = True
            _log.warning("the provider %s plays faults on purpose, by seed %d", self.name, self.seed)
        unpaired = fault_of_history(request.messages)
        if unpaired is not None:
            _log.error("chaos was asked with a broken history: %s", unpaired)
            yield Ended([Failed(RequestRefused(f"The history is broken: {unpaired}."))])
            return
        place = len(request.messages)
        prompt = next(said.text for said in reversed(request.messages) if isinstance(said, UserSaid))
        _log.info("chaos plays seed %d at message %d", self.seed, place)
        # A text seeds alike in every process.
        draw = Random(f"{self.seed}/{place}/{prompt}")  # noqa: S311 - nothing secret is drawn
        for sentence, seconds in waits_before(draw):
            on_wait(sentence)
            await trio.sleep(seconds)
        tools = [tool.name for tool in request.tools if tool.name in self._recipes]
        recipes = {name: self._recipes[name] for name in tools}
        yield PlayedStream(reply(draw, recipes), draw.choice(_PER_READ))

    def rest_nowait(self) -> None:
        """See ``Provider``. There is nothing to let go of."""

    async def aclose(self) -> None:
        """See ``Provider``. There is nothing to close."""
        await trio.lowlevel.checkpoint()


def fault_of_history(messages: Sequence[Message]) -> str | None:
    """What a strict server finds wrong with a history; None when it would answer it.

    It begins with the person and ends with the person or a result; no reply is empty or follows another; each
    call has exactly one result, which stands behind it, in the order of the calls; no id comes twice.
    """
    if not messages or not isinstance(messages[0], UserSaid):
        return "it does not begin with the person"
    if isinstance(messages[-1], AssistantSaid):
        return "it does not end with the person or a result"
    seen: set[str] = set()
    open_calls: list[tuple[str, str]] = []
    before: Message | None = None
    for number, message in enumerate(messages):
        if isinstance(message, ToolAnswered):
            if not open_calls or open_calls.pop(0) != (message.call_id, message.name):
                return f"message {number} answers no call, or not the next one"
        elif open_calls:
            return f"message {number} stands where the result of a call should"
        elif isinstance(message, AssistantSaid):
            if isinstance(before, AssistantSaid):
                return f"message {number} is a second reply in a row"
            if not message.text and not message.calls:
                return f"message {number} is an empty reply"
            for call in message.calls:
                if call.call_id in seen:
                    return f"message {number} has a call whose id was used before"
                seen.add(call.call_id)
                open_calls.append((call.call_id, call.name))
        before = message
    return "the last call has no result" if open_calls else None
