"""The events that are kept and that a person is not shown: see ``domain.events``, which gives them on.

The records of a tool call stand in this order, each at most once::

    ToolCallPrepared ..... the model asked for it
    ToolCallDecided ...... whether it may run, and who decided that; none where it cannot be run at all
    ToolCallDispatched ... it is about to have its effect
    ToolCallSettled ...... it is over

A call that changes something is dispatched in the journal before it acts. The records of one that only reads
are written with its end. When they were written is the time of their rows.
"""

from attrs import field
from attrs.validators import optional

from term2_acp.domain.classes import frozen
from term2_acp.domain.ids import MessageId, ToolCallId
from term2_acp.domain.options import OptionId
from term2_acp.domain.toolcall import DecidedBy, Effect, FileDigests
from term2_acp.domain.usage import Usage, whole


@frozen
class Circumstances:
    """What the tool calls of a turn are made under, from here on. Written before the first of them.

    ``prompt`` names the turn by its prompt. ``client`` is the editor's name and version as it gave them,
    ``capabilities`` what it said it can, as JSON text; both may be empty. ``agent`` is term2's version and
    ``protocol`` the version of ACP that was agreed on. ``roots`` are the canonical directories that count as
    the workspace.
    """

    prompt: MessageId
    client: str
    capabilities: str
    agent: str
    protocol: int
    provider: str
    model: str
    effort: str
    roots: tuple[str, ...]


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
class ToolCallDecided:
    """Whether the call may run. ``reason`` says why not, and is empty where it may.

    ``targets`` are what it is about: canonical paths, or what there is in place of one (a command, an
    address). ``choice`` is the option of the ask that the person took, None where they took none.
    ``mode`` and ``grants`` are those in force when it was decided: the policy's revision. ``waited_ms`` is
    how long the person was waited for.
    """

    tool_call_id: ToolCallId
    allowed: bool
    by: DecidedBy
    mode: str
    targets: tuple[str, ...] = ()
    grants: tuple[str, ...] = ()
    choice: str | None = None
    waited_ms: int = field(default=0, validator=whole)
    reason: str = ""


@frozen
class ToolCallDispatched:
    """The call is about to have its effect. Written before it runs.

    ``changes`` are the files that it is to change, and nothing else: after a crash they tell whether it did.
    Empty for a call of which nobody can know that (a command), and for one that only reads.
    """

    tool_call_id: ToolCallId
    changes: tuple[FileDigests, ...] = ()


@frozen
class ToolCallSettled:
    """The call is over. ``result`` is the text that the model is given as its result.

    ``failed``: it ran and is no success all the same (a program that was stopped at its time limit).
    ``took_ms`` is the time from its dispatch to here; None for a call that was not dispatched, or whose end
    was not seen (term2 stopped).
    """

    tool_call_id: ToolCallId
    effect: Effect
    result: str
    failed: bool = False
    took_ms: int | None = field(default=None, validator=optional(whole))


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


@frozen
class RecordsLost:
    """Records of the session that cannot be read, where they stand.

    No journal holds it: whoever reads one says so in place of what could not be read. ``seq`` is the place of
    the first of them in the journal. ``damaged`` of them are not what they say they are, ``newer`` were
    written by a newer term2. ``hidden_end``: damage hides whether others follow, and the journal ends here.
    """

    seq: int
    damaged: int
    newer: int
    hidden_end: bool = False
