"""Which wire a provider is spoken to by. Each is imported for its own kind alone."""

from term2_acp.providers.servers.known import Known
from term2_acp.providers.servers.presets import MESSAGES, RESPONSES
from term2_acp.providers.wire import Wire


def wire_of(known: Known) -> Wire:
    """The wire of a provider that is asked over HTTP (``Known.is_server``)."""
    if known.type == RESPONSES:
        from term2_acp.providers.responses.wire import ResponsesWire

        return ResponsesWire()
    if known.type == MESSAGES:
        from term2_acp.providers.anthropic.wire import AnthropicWire

        return AnthropicWire()
    from term2_acp.providers.chat.dialects import dialect_of
    from term2_acp.providers.chat.wire import ChatWire

    return ChatWire(dialect_of(known.like.name if known.like is not None else ""))
