"""Permission questions and answers (ACP: session/request_permission).

What a tool wants to do is an ``Action``; what the policy says to it is in ``permission.policy``; what
goes over the wire is an ``Ask``; what comes back is an ``Answer``. Only ``Selected`` with an option
that allows, on an ask that is still open, ever lets a tool run.
"""

from enum import StrEnum

from term2_acp.domain.classes import frozen
from term2_acp.domain.ids import SessionId
from term2_acp.domain.paths import Target
from term2_acp.domain.toolcall import ToolCallUpdate


class Access(StrEnum):
    """What an action does to its target. Neither ``read`` nor ``edit`` implies the other."""

    READ = "read"
    SEARCH = "search"  # reading, of a folder and all below it
    EDIT = "edit"
    COMMAND = "command"  # a command or a program in the sandbox; it has no file as its target
    OTHER = "other"  # anything else that has no file as its target


@frozen
class Action:
    """One thing a tool call wants to do, with its real target.

    ``target`` is the file or (``search``) the folder; it is None for ``command`` and ``other``, where
    ``description`` says what is done.
    """

    access: Access
    target: Target | None = None
    description: str = ""


class OptionKind(StrEnum):
    """ACP's option kinds. ``reject_always`` exists in ACP and is never used by us."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"


@frozen
class Option:
    """One answer the person can choose. ``option_id`` is the internal choice's id."""

    option_id: str
    name: str
    kind: OptionKind


@frozen
class Ask:
    """One permission question, complete: a door can send it with nothing else at hand.

    ``ask_id`` is the broker's own, and is unique in the process.
    """

    ask_id: int
    session_id: SessionId
    title: str
    description: str
    tool_call: ToolCallUpdate
    options: tuple[Option, ...]


@frozen
class Selected:
    """The person chose an option; whether that id was offered is for the broker to check."""

    option_id: str


@frozen
class AskCancelled:
    """The client answered ``cancelled``: this call and the rest of its reply are not run."""


@frozen
class Unintelligible:
    """An error, a missing, malformed or unknown outcome: a refusal. ``reason`` is for the log."""

    reason: str


@frozen
class Lost:
    """The client went away before it answered: a refusal that also ends the turn."""


Answer = Selected | AskCancelled | Unintelligible | Lost
