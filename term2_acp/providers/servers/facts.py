"""What a server says of one of its models: the part of its ``/models`` that we understand."""

from attrs import field

from term2_acp.config import MOST_TOKENS
from term2_acp.domain.classes import frozen
from term2_acp.domain.effort import Effort
from term2_acp.domain.usage import Prices


def _tokens(value: object) -> int | None:
    """A number of tokens, None for what cannot be one: 0 and -1 stand for "unknown" in many servers."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value <= MOST_TOKENS:
        return None
    return value


@frozen
class ServerFacts:
    """Facts of a model from its server. None wherever the server says nothing, or nothing that can be.

    ``context_tokens`` is the longest request, ``output_tokens`` the longest reply. ``efforts`` are all levels
    that the model takes.
    """

    context_tokens: int | None = field(default=None, converter=_tokens)
    output_tokens: int | None = field(default=None, converter=_tokens)
    sees_images: bool | None = None
    prices: Prices | None = None
    efforts: frozenset[Effort] | None = None
