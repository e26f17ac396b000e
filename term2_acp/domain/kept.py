"""The events that are kept and that a person is not shown: see ``domain.events``, which gives them on."""

from attrs import field, frozen
from attrs.validators import optional

from term2_acp.domain.ids import ToolCallId
from term2_acp.domain.options import OptionId
from term2_acp.domain.toolcall import Effect
from term2_acp.domain.usage import Usage, whole


@frozen
class ToolCallPrepared:
    """The model asked for a tool. ``arguments`` is the JSON text exactly as the model wrote it.

    ``provider_call_id`` is the provider's own id for the call (it may be empty or repeated; it is
    never shown). ``digest`` is the SHA-256 of the tool's name and arguments, in hex. ``parent`` is the call
    in whose program this one was made: the model did not ask for it by itself, and is not told of it.
    """

    tool_call_id: ToolCallId
    name: str
    arguments: str
    provider_call_id: str
    digest: str
    parent: ToolCallId | None = None


@frozen
class ToolCallDispatched:
    """The call is about to have its effect. Written before it runs."""

    tool_call_id: ToolCallId


@frozen
class ToolCallSettled:
    """The call is over. ``result`` is the text that the model is given as its result.

    ``failed``: it ran and is no success all the same (a program that was stopped at its time limit).
    """

    tool_call_id: ToolCallId
    effect: Effect
    result: str
    failed: bool = False


@frozen
class ReplyEnded:
    """One reply of the model is complete; the tool calls prepared before it belong to it.

    ``opaque`` is JSON text that the provider of that name must get back verbatim (signatures of
    thoughts, for one), or None. ``usage`` is what the provider counted, None where it did not.
    ``cost_pico_usd`` is what this call cost, None where it has no price.
    """

    provider: str
    model: str
    opaque: str | None = None
    usage: Usage | None = None
    cost_pico_usd: int | None = field(default=None, validator=optional(whole))


@frozen
class OptionChosen:
    """The person set an option of the session, from here on. It holds when the session is opened again."""

    option_id: OptionId
    value: str
