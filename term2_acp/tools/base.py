"""The contract between a tool and whoever dispatches it.

A call goes through three steps, and a person may be asked between the second and the third:

1. ``describe``: at once and without waiting, what the call is about, so that it can be shown.
2. ``prepare``: work out what exactly will happen (the real targets, the diff of an edit). No effect.
3. ``run``: make it happen, on the very targets that were prepared.

A tool whose effect is a change of files makes it in one synchronous step at the end of ``run``, with no
checkpoint after it: a cancel either comes before the effect, or finds a finished ``Outcome``.
"""

from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Protocol

import msgspec
from attrs import field, frozen

from term2_acp.domain.content import ToolContent
from term2_acp.domain.events import Event
from term2_acp.domain.permission import Action
from term2_acp.domain.toolcall import Location, ToolKind
from term2_acp.workspace import Workspace


class ToolError(Exception):
    """The call cannot be done. The message is for the model, and is shown to the person too.

    It says what was found and what would work, and never holds the content of a file that the model
    has not read.
    """


@frozen
class ToolContext:
    """What a tool gets to work with.

    ``files`` is the session's workspace. ``publish`` shows an event to the person (a plan, for one);
    it waits while the editor reads slowly.
    """

    files: Workspace
    publish: Callable[[Event], Awaitable[None]]


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
    """

    actions: tuple[Action, ...] = ()
    preview: tuple[ToolContent, ...] = ()
    locations: tuple[Location, ...] = ()
    summary: str = ""
    work: Any = None


@frozen
class Outcome:
    """What happened, for its three audiences.

    ``result`` is for the model, bounded, and says in words what was left out. ``content`` is for the
    person and replaces the call's content; ``raw_output`` is a JSON value for clients that show it.
    """

    result: str
    content: tuple[ToolContent, ...] = ()
    raw_output: Any = field(factory=dict)


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
        """
        ...
