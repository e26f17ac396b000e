"""What happens in a session, in ACP v2's shape.

Events are facts in the order in which they happened. The journal keeps them, a door projects them to
its version of the protocol, and the transcript folds them into what a provider is told. Four groups:

- *Shown and kept*: messages, tool calls, terminals, plans, usage, the title, compactions, and the idle that
  ends a turn.
- *Shown only*: ``Running``, ``RequiresAction``, ``ToolCallBegan``, ``Notice`` and ``OptionsUpdate``. They say
  what is going on now, and nothing is going on when a journal is read.
- *Kept only* (``domain.kept``): the records of tool calls, the end of each model reply, and what the
  person set of the session. The transcript, the session and the audit need them; a person is not shown them.
- *Found only*: ``RecordsLost``, which stands where a journal could not be read.

A chunk appends to the message with its id; a whole message replaces it. The first event for an id
creates the message or tool call.
"""

from enum import StrEnum

from attrs import field
from attrs.validators import optional

from term2_acp.domain.classes import frozen
from term2_acp.domain.content import ContentBlock, Text, ToolContent
from term2_acp.domain.ids import CompactionId, MessageId, PlanId, TerminalId, ToolCallId
from term2_acp.domain.kept import Circumstances as Circumstances
from term2_acp.domain.kept import OptionChosen as OptionChosen
from term2_acp.domain.kept import RecordsLost as RecordsLost
from term2_acp.domain.kept import ReplyEnded as ReplyEnded
from term2_acp.domain.kept import ToolCallDecided as ToolCallDecided
from term2_acp.domain.kept import ToolCallDispatched as ToolCallDispatched
from term2_acp.domain.kept import ToolCallPrepared as ToolCallPrepared
from term2_acp.domain.kept import ToolCallSettled as ToolCallSettled
from term2_acp.domain.options import SessionOption
from term2_acp.domain.plan import PlanEntry
from term2_acp.domain.toolcall import ToolCallUpdate
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.domain.usage import TurnUsage, whole

# -- shown only ------------------------------------------------------------------------------------


@frozen
class Running:
    """Foreground work started, or goes on after an ask."""


@frozen
class RequiresAction:
    """The turn waits for nothing but answers of the person."""


@frozen
class ToolCallBegan:
    """A tool call is at work (ACP v2: the status ``in_progress``)."""

    tool_call_id: ToolCallId


class Severity(StrEnum):
    """How much a notice matters."""

    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@frozen
class Notice:
    """A sentence of term2's own about what goes on; it is no part of the conversation.

    ``message_id`` is for clients that have no notices, and are shown a message.
    """

    message_id: MessageId
    severity: Severity
    text: str


@frozen
class OptionsUpdate:
    """The session's options, whole, after one of them changed."""

    options: tuple[SessionOption, ...]


# -- shown and kept --------------------------------------------------------------------------------


@frozen
class Idle:
    """The turn ended. ``stop_reason`` is None only in the snapshot that answers a resume.

    ``usage`` is what the turn took of models, a call that was cut off included; None when it called none.
    """

    stop_reason: StopReason | None = None
    failure: Failure | None = None
    usage: TurnUsage | None = None


@frozen
class UserMessage:
    """The prompt, whole, as it was sent.

    ``to_model`` is False for a command that term2 answered by itself: no model is told of it. Of any other,
    a model is told what follows the first ``command_length`` characters of its first text.
    """

    message_id: MessageId
    content: tuple[ContentBlock, ...]
    to_model: bool = True
    command_length: int = 0

    @property
    def for_model(self) -> tuple[ContentBlock, ...]:
        """What a model is told of it. A text of which the command was all is no text."""
        if not self.to_model or not self.command_length:
            return self.content if self.to_model else ()
        content = list(self.content)
        for place, block in enumerate(content):
            if isinstance(block, Text):
                text = block.text[self.command_length :]
                content[place : place + 1] = [Text(text)] if text else []
                break
        return tuple(content)


@frozen
class AgentMessageChunk:
    """Text that the model said, appended to the message."""

    message_id: MessageId
    text: str


@frozen
class AgentThoughtChunk:
    """Text that the model thought, appended to the thought."""

    message_id: MessageId
    text: str


@frozen
class AgentMessage:
    """A whole message of the agent: on replay, and when term2 itself has to say something.

    ``spoken_by_model`` is False for a sentence of ours (why a turn failed); the model is not told
    that it said it.
    """

    message_id: MessageId
    text: str
    spoken_by_model: bool = True


@frozen
class AgentThought:
    """A whole thought, on replay."""

    message_id: MessageId
    text: str


@frozen
class ToolCallContentAdded:
    """Content appended to a tool call (ACP v2: tool_call_content_chunk)."""

    tool_call_id: ToolCallId
    content: ToolContent


@frozen
class ExitStatus:
    """How a command ended: with a code that is not negative, or by a signal (``SIGKILL``)."""

    exit_code: int | None = None
    signal: str | None = None


@frozen
class TerminalUpdate:
    """An upsert of one display terminal: None leaves a field as it was (ACP v2: terminal_update).

    The first one for an id carries the command and its absolute working directory, which never change.
    ``output`` replaces everything shown so far. With ``exit_status`` the command is over, and its whole
    process tree is gone.
    """

    terminal_id: TerminalId
    command: str | None = None
    cwd: str | None = None
    output: bytes | None = None
    exit_status: ExitStatus | None = None


@frozen
class TerminalOutput:
    """Bytes that a command wrote, appended to its terminal; a character may be split between two."""

    terminal_id: TerminalId
    data: bytes


@frozen
class PlanUpdate:
    """The plan, whole."""

    plan_id: PlanId
    entries: tuple[PlanEntry, ...]


@frozen
class UsageUpdate:
    """Tokens in the model's context, and its size. Both are whole numbers, never negative.

    ``cost_pico_usd`` is what the session cost so far, or None where that is not known. ``cost_withdrawn``: it
    was known and told once, and what was told holds no longer.
    """

    used: int
    size: int
    cost_pico_usd: int | None = field(default=None, validator=optional(whole))
    cost_withdrawn: bool = False


@frozen
class SessionInfoUpdate:
    """The session's title, and when it changed (ISO 8601, UTC, ``Z``)."""

    title: str
    updated_at: str


class CompactionStatus(StrEnum):
    """ACP's statuses of a compaction. All but the first are final."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@frozen
class CompactionUpdate:
    """An upsert of one compaction: what was said before it is summarised for the model.

    ``summary`` comes with ``completed``: from there on the model is told this in place of what was said
    before, but for the last ``kept`` messages of its history, which it is told as they are (see
    ``agent.transcript``). ``error`` is a sentence, and comes with ``failed``.
    """

    compaction_id: CompactionId
    status: CompactionStatus
    summary: str | None = None
    error: str | None = None
    kept: int = field(default=0, validator=whole)


KeptOnly = (
    Circumstances
    | ToolCallPrepared
    | ToolCallDecided
    | ToolCallDispatched
    | ToolCallSettled
    | ReplyEnded
    | OptionChosen
)
Event = (
    Running
    | RequiresAction
    | ToolCallBegan
    | Idle
    | UserMessage
    | AgentMessageChunk
    | AgentThoughtChunk
    | AgentMessage
    | AgentThought
    | ToolCallUpdate
    | ToolCallContentAdded
    | TerminalUpdate
    | TerminalOutput
    | PlanUpdate
    | UsageUpdate
    | SessionInfoUpdate
    | CompactionUpdate
    | Notice
    | OptionsUpdate
    | OptionChosen
    | Circumstances
    | ToolCallPrepared
    | ToolCallDecided
    | ToolCallDispatched
    | ToolCallSettled
    | ReplyEnded
    | RecordsLost
)

SHOWN_ONLY: frozenset[type] = frozenset({Running, RequiresAction, ToolCallBegan, Notice, OptionsUpdate})
KEPT_ONLY: frozenset[type] = frozenset(KeptOnly.__args__)
FOUND_ONLY: frozenset[type] = frozenset({RecordsLost})
NEVER_KEPT: frozenset[type] = SHOWN_ONLY | FOUND_ONLY
