"""The protocol every provider speaks, and the errors it may end in.

A stream is entered and left as a context (``async with provider.stream(request) as deltas``) and read
with ``await deltas.receive()``, which returns *a list*: everything that arrived since the last call, in
order and never empty. One list a wake-up, rather than one delta, is what keeps a fast model cheap.
The last item of the last list is ``Finished`` or ``Failed``; after it ``receive`` is not called again.

Requests (``request``), errors (``errors``) and what a session may choose (``offers``) are given on from here,
so that a wire imports one module.
A turn asks a ``ModelSource`` which model answers, once for each prompt, and then asks that model. A session
may choose another one than the process's own, of those that ``ModelOffers`` has.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Protocol

from term2_acp.domain.classes import frozen
from term2_acp.domain.effort import Effort as Effort  # a request is made of it
from term2_acp.providers.errors import AuthenticationFailed as AuthenticationFailed
from term2_acp.providers.errors import ConnectionFailed as ConnectionFailed
from term2_acp.providers.errors import ContextOverflow as ContextOverflow
from term2_acp.providers.errors import NotUsable as NotUsable
from term2_acp.providers.errors import Overloaded as Overloaded
from term2_acp.providers.errors import ProviderError as ProviderError
from term2_acp.providers.errors import RateLimited as RateLimited
from term2_acp.providers.errors import RequestRefused as RequestRefused
from term2_acp.providers.errors import StreamBroke as StreamBroke
from term2_acp.providers.errors import StreamSilent as StreamSilent
from term2_acp.providers.offers import DEFAULT_MODEL as DEFAULT_MODEL
from term2_acp.providers.offers import ModelOffers as ModelOffers
from term2_acp.providers.offers import OfferedModel as OfferedModel
from term2_acp.providers.request import FALLBACK_CONTEXT_TOKENS as FALLBACK_CONTEXT_TOKENS
from term2_acp.providers.request import AssistantSaid as AssistantSaid
from term2_acp.providers.request import CallMade as CallMade
from term2_acp.providers.request import Image as Image
from term2_acp.providers.request import Message as Message
from term2_acp.providers.request import ModelInfo as ModelInfo
from term2_acp.providers.request import Opaque as Opaque
from term2_acp.providers.request import Request as Request
from term2_acp.providers.request import ToolAnswered as ToolAnswered
from term2_acp.providers.request import ToolSpec as ToolSpec
from term2_acp.providers.request import UserSaid as UserSaid
from term2_acp.providers.request import unseen as unseen

# -- what comes out --------------------------------------------------------------------------------


@frozen
class TextDelta:
    """More text of the reply."""

    text: str


@frozen
class ThoughtDelta:
    """More of what the model thinks, where it shows it."""

    text: str


@frozen
class ToolCallDelta:
    """One complete tool call. A wire gathers the pieces: half a call never leaves it.

    ``arguments`` is JSON text as the model wrote it; it may not parse. ``call_id`` is the provider's.
    """

    call_id: str
    name: str
    arguments: str


@frozen
class UsageDelta:
    """Tokens of this call as the provider counted them. Whole numbers, never negative.

    ``input_tokens`` are all that the model read: those that came from a cache (``cache_read_tokens``) and
    those that were put into one (``cache_write_tokens``) are among them. ``output_tokens`` are all that it
    wrote, ``thought_tokens`` among them. ``cost_pico_usd`` is the price of the call, where the server itself
    tells it.
    """

    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    thought_tokens: int = 0
    cost_pico_usd: int | None = None


class Finish(StrEnum):
    """Why the model stopped."""

    STOP = "stop"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    REFUSAL = "refusal"


@frozen
class Finished:
    """The terminal event: the reply is complete, and its tool calls may run."""

    finish: Finish
    opaque: str | None = None


@frozen
class Failed:
    """The stream ended without a complete reply. What was said stands; tool calls do not."""

    error: "ProviderError"


Delta = TextDelta | ThoughtDelta | ToolCallDelta | UsageDelta | Finished | Failed


class DeltaStream(Protocol):
    """What ``Provider.stream`` yields."""

    async def receive(self) -> Sequence[Delta]:
        """Wait for more of the reply: everything that has arrived, in order, at least one delta.

        Cancelled, it stops the reading at once; leaving the stream's context closes its connection.
        """
        ...


OnWait = Callable[[str], None]
"""Told, in one sentence for the person, that the answer takes longer than a few seconds to begin."""


def wait_silently(sentence: str) -> None:
    """The ``OnWait`` of whoever has nobody to tell."""
    del sentence


class Provider(Protocol):
    """One configured language model server.

    ``name`` is its name in the settings. ``merge_text`` is False only where each delta must stay its own
    update (benchmarks). ``asks_for_edits`` makes every edit and every command ask, whatever the mode (the
    embedded model, chaos).
    """

    name: str
    merge_text: bool
    asks_for_edits: bool

    def describe(self, model: str) -> ModelInfo:
        """What is known of ``model`` by now."""
        ...

    def stream(
        self, request: Request, on_wait: OnWait = wait_silently
    ) -> AbstractAsyncContextManager[DeltaStream]:
        """Ask the model. Faults arrive as ``Failed``, never as an exception out of the context.

        ``on_wait`` is called, from within, when a try failed and the next one is seconds away.
        """
        ...

    def rest_nowait(self) -> None:
        """No session is open any more: let go of what costs (children). The next request brings it back."""
        ...

    async def aclose(self) -> None:
        """Close connections and children. Bounded; shielded by the caller."""
        ...


@frozen
class ModelChoice:
    """The model that answers a prompt."""

    provider: Provider
    model: str
    effort: Effort = Effort.DEFAULT


class ModelSource(Protocol):
    """Which model answers. ``merge_text`` is as ``Provider.merge_text``."""

    merge_text: bool

    async def choice(self) -> ModelChoice:
        """The model for the next prompt. The first call may ask servers, within bounds.

        Cancelled, nothing is decided, and the next call asks anew.

        Raises:
            ProviderError: there is none; the sentence says what to set.
        """
        ...

    def rest_nowait(self) -> None:
        """As ``Provider.rest_nowait``, for every provider of the source."""
        ...

    async def aclose(self) -> None:
        """As ``Provider.aclose``, for every provider of the source."""
        ...
