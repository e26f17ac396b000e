"""What a model is asked, and what is known of it before it is asked. Values without any input or output."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from attrs import evolve, field

from term2_acp.domain.classes import frozen
from term2_acp.domain.content import size_of_base64
from term2_acp.domain.effort import Effort
from term2_acp.domain.usage import Prices


@frozen
class ToolSpec:
    """A tool as the model is told of it. ``schema`` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


@frozen
class Image:
    """A picture that the person sent, checked when it came in.

    ``mime_type`` is in lower case, and one that every vendor takes. ``data`` is base64.
    """

    mime_type: str
    data: str = field(repr=False)


@frozen
class UserSaid:
    """The person's words, with references to what they point at already written out as text.

    A provider whose model cannot see puts ``unseen(image)`` in the place of each image.
    """

    text: str
    images: tuple[Image, ...] = ()


@frozen
class CallMade:
    """A tool call that the model made. ``call_id`` is ours; a wire maps it to what its server takes."""

    call_id: str
    name: str
    arguments: str


@frozen
class Opaque:
    """What a provider wants back verbatim with a reply: signatures of thoughts, for one.

    ``data`` is JSON text that only the wire which made it can read. It is for that model of that provider
    alone: another one is told what was said without it (``Request.opaque_of``).
    """

    provider: str
    model: str
    data: str = field(repr=False)


@frozen
class AssistantSaid:
    """One reply of the model, and what its provider wants back with it.

    ``cut`` marks a reply that was cancelled or broke off; its calls have results all the same.
    """

    text: str
    calls: tuple[CallMade, ...] = ()
    opaque: Opaque | None = None
    cut: bool = False


@frozen
class ToolAnswered:
    """The result of one call. Every ``CallMade`` is followed by exactly one, in the order of the calls."""

    call_id: str
    name: str
    result: str
    failed: bool = False


Message = UserSaid | AssistantSaid | ToolAnswered


async def _no_files() -> Sequence[str]:  # noqa: ASYNC124 - there is nothing to wait for
    return ()


@frozen
class Request:
    """One call of the model: the system prompt, the whole well-paired history, and the tools.

    ``cache_key`` is the same for all requests of a session and tells nothing of it: servers that keep
    prompts find them by it. ``files`` lists the workspace's files by their relative paths, a bounded
    number of them, for a model whose words are masked to what there is; it is awaited by such a model alone.
    """

    model: str
    system: str
    messages: Sequence[Message]
    tools: Sequence[ToolSpec] = ()
    effort: Effort = Effort.DEFAULT
    cache_key: str = ""
    files: Callable[[], Awaitable[Sequence[str]]] = field(default=_no_files, eq=False, repr=False)

    def opaque_of(self, said: AssistantSaid, provider: str) -> str | None:
        """What goes back with ``said`` to the provider of that name: only what itself made for this model."""
        opaque = said.opaque
        if opaque is None or (opaque.provider, opaque.model) != (provider, self.model):
            return None
        return opaque.data

    @property
    def has_opaque(self) -> bool:
        """Whether any reply has something that its provider wants back."""
        return any(isinstance(said, AssistantSaid) and said.opaque is not None for said in self.messages)

    def without_opaque(self) -> "Request":
        """The same request, told without what providers want back."""
        bare = (evolve(m, opaque=None) if isinstance(m, AssistantSaid) else m for m in self.messages)
        return evolve(self, messages=tuple(bare))


def unseen(image: Image) -> str:
    """The note that stands for an image that a model cannot see, or its server cannot read."""
    size = size_of_base64(image.data)
    return f"[an image ({image.mime_type}, {size} bytes) was attached; it cannot be shown to you]"


# Tokens of context that are assumed of a model which nothing describes: what today's hosted models have at
# least. The usage meter shows it; nothing is compacted by it.
FALLBACK_CONTEXT_TOKENS = 128_000


@frozen
class ModelInfo:
    """What is known of one model, from the settings, its server and the catalog, in this order.

    ``output_tokens`` is the most that one reply may have, None where nobody says. ``efforts`` are the levels
    that it takes (``default`` apart), None where nobody says: then what the person sets is sent.
    ``context_assumed``: nobody says how large the context is, and ``context_tokens`` is the fallback.
    ``cuts``: a request that is longer than the context is not refused; the server may cut it without a word.
    """

    context_tokens: int = FALLBACK_CONTEXT_TOKENS
    output_tokens: int | None = None
    sees_images: bool = False
    efforts: frozenset[Effort] | None = None
    prices: Prices | None = None
    context_assumed: bool = False
    cuts: bool = False
