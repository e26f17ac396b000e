"""The protocol every provider speaks, and the errors it may end in.

A stream is entered and left as a context (``async with provider.stream(request) as deltas``) and read
with ``await deltas.receive()``, which returns *a list*: everything that arrived since the last call, in
order and never empty. One list a wake-up, rather than one delta, is what keeps a fast model cheap.
The last item of the last list is ``Finished`` or ``Failed``; after it ``receive`` is not called again.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from enum import StrEnum
from typing import Any, ClassVar, Protocol

from attrs import frozen

from term2_acp.domain.effort import Effort as Effort  # a request is made of it

# -- what goes in ----------------------------------------------------------------------------------


@frozen
class ToolSpec:
    """A tool as the model is told of it. ``schema`` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


@frozen
class UserSaid:
    """The person's words, with references to what they point at already written out as text."""

    text: str


@frozen
class CallMade:
    """A tool call that the model made. ``call_id`` is ours; a wire maps it to what its server takes."""

    call_id: str
    name: str
    arguments: str


@frozen
class AssistantSaid:
    """One reply of the model. ``opaque`` is what its provider wants back verbatim, as JSON text.

    ``cut`` marks a reply that was cancelled or broke off; its calls have results all the same.
    """

    text: str
    calls: tuple[CallMade, ...] = ()
    opaque: str | None = None
    cut: bool = False


@frozen
class ToolAnswered:
    """The result of one call. Every ``CallMade`` is followed by exactly one, in the order of the calls."""

    call_id: str
    name: str
    result: str
    failed: bool = False


Message = UserSaid | AssistantSaid | ToolAnswered


@frozen
class Request:
    """One call of the model: the system prompt, the whole well-paired history, and the tools."""

    model: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    effort: Effort = Effort.DEFAULT


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
    """Tokens of this call as the provider counted them. Whole numbers, never negative."""

    input_tokens: int
    output_tokens: int


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


class Provider(Protocol):
    """One configured language model server.

    ``name`` is its name in the settings. ``context_tokens`` is the size of the model's context, for
    the usage meter. ``merge_text`` is False only where each delta must stay its own update
    (benchmarks). ``asks_for_edits`` makes every edit ask, whatever the mode (the embedded model).
    """

    name: str
    merge_text: bool
    asks_for_edits: bool

    def context_tokens(self, model: str) -> int:
        """The size of the context of ``model`` in tokens."""
        ...

    def stream(self, request: Request) -> AbstractAsyncContextManager[DeltaStream]:
        """Ask the model. Faults arrive as ``Failed``, never as an exception out of the context."""
        ...

    async def aclose(self) -> None:
        """Close connections and children. Bounded; shielded by the caller."""
        ...


# -- errors ----------------------------------------------------------------------------------------


class ProviderError(Exception):
    """A model could not answer. ``message`` is one sentence for the person: what failed, what to do.

    It never holds a key, a header or the body of an answer. ``code`` is one stable word, the same for
    every error of a class.
    """

    code: ClassVar[str] = "provider_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class AuthenticationFailed(ProviderError):
    """The key is missing, wrong, or not allowed to use the model (401, 403). Never retried."""

    code = "provider_auth"


class RateLimited(ProviderError):
    """The account's limit is reached (429), and waiting within our bounds did not help."""

    code = "provider_rate_limit"


class Overloaded(ProviderError):
    """The server cannot answer now (5xx, 408, 529), and retries did not help."""

    code = "provider_overloaded"


class RequestRefused(ProviderError):
    """The server understood and refused the request (400, 404, 413 ...). Never retried."""

    code = "provider_refused"


class ContextOverflow(RequestRefused):
    """The request is longer than the model's context."""

    code = "context_overflow"


class ConnectionFailed(ProviderError):
    """No connection, or it broke before anything came."""

    code = "provider_unreachable"


class StreamBroke(ProviderError):
    """The stream ended or broke without its terminal event. Its tool calls are not run."""

    code = "provider_stream_broke"


class StreamSilent(ProviderError):
    """Nothing meaningful arrived for the configured time."""

    code = "provider_silent"


class NotUsable(ProviderError):
    """The provider cannot be used here: nothing is configured, or a part is not installed."""

    code = "provider_not_usable"
