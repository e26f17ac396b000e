"""The contract between a tool and whoever dispatches it.

A call goes through three steps, and a person may be asked between the second and the third:

1. ``describe``: at once and without waiting, what the call is about, so that it can be shown.
2. ``prepare``: work out what exactly will happen (the real targets, the diff of an edit). No effect.
3. ``run``: make it happen, on the very targets that were prepared.

A tool whose effect is a change of files makes it in one synchronous step at the end of ``run``, with no
checkpoint after it: a cancel either comes before the effect, or finds a finished ``Outcome``. In that very
step it looks whether files may still be changed (``ToolContext.require_changes_nowait``). A tool that
runs a program, or has an editor write, cannot do that. It ends the program when it is cancelled, and says how
far it came by ``CallPorts.stopped_nowait`` before it lets the cancel through.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import msgspec
from attrs import field

from term2_acp.domain.classes import frozen
from term2_acp.domain.content import ToolContent
from term2_acp.domain.events import Event
from term2_acp.domain.ids import ToolCallId
from term2_acp.domain.options import Mode
from term2_acp.domain.permission import Action
from term2_acp.domain.toolcall import FileDigests, Location, ToolKind
from term2_acp.permission.policy import PLAN_KEEPS_FILES
from term2_acp.redact import Redactor
from term2_acp.workspace import Workspace

if TYPE_CHECKING:  # the rooms behind these are imported when a command runs or a page is fetched
    from term2_acp.sandbox import Sandbox
    from term2_acp.store.artifacts import Artifacts
    from term2_acp.web.public import Fetcher


class ToolError(Exception):
    """The call cannot be done. The message is for the model, and is shown to the person too.

    It says what was found and what would work, and never holds the content of a file that the model
    has not read.
    """


class OutcomeUnknown(Exception):
    """The call was at work, and nobody knows whether it had its effect.

    The message begins with ``outcome_unknown:`` and says why, and what to do. It is for the model, and is
    shown to the person too.
    """


@frozen
class NestedResult:
    """What a call that a program made came to: the words a model would be given."""

    text: str
    failed: bool


class Nesting(Protocol):
    """Calls that the program of a call makes, each of them a tool call of its own."""

    async def call(
        self, name: str, arguments: str, while_asking: Callable[[], AbstractContextManager[None]]
    ) -> NestedResult:
        """Make one call through the same dispatch and the same questions as a call of the model.

        ``arguments`` is JSON text. ``while_asking`` gives a context that is open while the person is asked:
        their time is not the program's. Never raises for what the program did; cancelled, an open question
        is withdrawn and the call is ended when the nesting is left.
        """
        ...


class CallPorts(Protocol):
    """What one call of a tool may say about itself while it runs."""

    @property
    def tool_call_id(self) -> ToolCallId:
        """The call's id."""
        ...

    def show_nowait(self, events: Sequence[Event]) -> None:
        """Show and keep events whatever waits: for the last words of a call that is being cancelled."""
        ...

    def stopped_nowait(self, outcome: "Outcome") -> None:
        """The call is being cancelled and this is how far it came; it is shown when the turn settles."""
        ...

    def nesting(self) -> AbstractAsyncContextManager[Nesting]:
        """Calls of the program that this call runs. Leaving it ends those that are still open as failed.

        Enter it outside of any cancel scope of your own that may be cancelled while a call is open: from
        within, the end of your time cannot be told from a cancel of the turn, which ends calls otherwise.
        """
        ...


def _standard() -> Mode:
    return Mode.STANDARD


@frozen
class ToolContext:
    """What a tool gets to work with.

    ``files`` is the session's workspace. ``publish`` shows an event to the person (a plan, for one);
    it waits while the editor reads slowly. ``sandbox`` runs commands, and ``artifacts`` keeps the whole of
    what they wrote when it is too long for the model. ``fetcher`` is the way to the web. ``redactor`` knows
    the keys that must not be in what a program wrote. ``mode`` tells the session's mode as it is now, also in
    the midst of a call. ``ports`` are those of the one call, while it runs.
    """

    files: Workspace
    publish: Callable[[Event], Awaitable[None]]
    sandbox: "Sandbox"
    artifacts: "Artifacts"
    fetcher: "Fetcher"
    redactor: Redactor
    mode: Callable[[], Mode] = _standard
    ports: CallPorts | None = None

    def require_changes_nowait(self) -> None:
        """Refuse to change a file where the mode that is in force now allows no edit.

        A call that was admitted before the mode was set may come to its effect after that; this stops it.

        Raises:
            ToolError: the mode is ``plan``.
        """
        if self.mode() is Mode.PLAN:
            raise ToolError(PLAN_KEEPS_FILES)


@frozen
class Description:
    """How a call is shown before anything is known about it but its arguments."""

    title: str
    locations: tuple[Location, ...] = ()


@frozen
class Prepared:
    """What exactly a call will do.

    ``actions`` are put to the permission policy, each with its real target. ``preview`` is shown with
    the question and replaces the call's content (the diff of an edit). ``summary`` is the sentence of
    the question ("Replace 2 passages in /a/b.py"). ``work`` is the tool's own: ``run`` gets it back.
    ``changes`` are the files that the call will change, all of them or none, if it changes nothing else and
    their bytes before and after are known; after a crash they tell whether it did.
    """

    actions: tuple[Action, ...] = ()
    preview: tuple[ToolContent, ...] = ()
    locations: tuple[Location, ...] = ()
    summary: str = ""
    work: Any = None
    changes: tuple[FileDigests, ...] = ()


@frozen
class Outcome:
    """What happened, for its three audiences.

    ``result`` is for the model, bounded, and says in words what was left out. ``content`` is for the
    person and replaces the call's content; ``raw_output`` is a JSON value for clients that show it.
    ``failed``: it ran, and what it did stands, but it is no success (it was stopped at a limit).
    """

    result: str
    content: tuple[ToolContent, ...] = ()
    raw_output: Any = field(factory=dict)
    failed: bool = False


class Tool(Protocol):
    """One thing the model can do. ``description`` is the model's manual page for it.

    ``reads_only`` tools may run side by side; the others run one at a time, in the model's order.
    """

    name: ClassVar[str]
    kind: ClassVar[ToolKind]
    description: ClassVar[str]
    reads_only: ClassVar[bool]
    Arguments: ClassVar[type[msgspec.Struct]]

    def describe(self, arguments: Any, context: ToolContext) -> Description:
        """Say what the call is about. Makes at most small metadata calls; never raises for bad paths."""
        ...

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared:
        """Work out what will happen.

        Raises:
            ToolError: the call cannot be done.
        """
        ...

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        """Do it. Cancelled, either nothing happened or all of it did.

        Raises:
            ToolError: it could not be done after all; nothing happened.
            OutcomeUnknown: nobody knows whether it was done.
        """
        ...
