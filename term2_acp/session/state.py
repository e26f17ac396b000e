"""Whether a session is idle, running, or waits for the person: one table, and the count that drives it.

A session requires action exactly while its turn has calls at work and every one of them waits for an
answer. The table says which change shows which event; a change that is not in it is a fault of ours.
"""

from collections.abc import Callable
from enum import Enum
from typing import Self

from attrs import field

from term2_acp.domain.classes import define
from term2_acp.domain.events import Event, RequiresAction, Running


class State(Enum):
    """The foreground state of a session (ACP v2: state_update)."""

    IDLE = "idle"
    RUNNING = "running"
    REQUIRES_ACTION = "requires_action"


# What is shown when the state changes. The idle is put by the settle step, since it carries the reason.
_SHOWN: dict[tuple[State, State], Callable[[], Event] | None] = {
    (State.IDLE, State.RUNNING): Running,
    (State.RUNNING, State.REQUIRES_ACTION): RequiresAction,
    (State.REQUIRES_ACTION, State.RUNNING): Running,
    (State.RUNNING, State.IDLE): None,
    (State.REQUIRES_ACTION, State.IDLE): None,
}


@define(eq=False)
class Activity:
    """The state of one session. ``show`` puts an event into the outbox, without waiting.

    ``over`` tells whether the turn was cancelled: from then on nothing is shown but its idle.
    """

    show: Callable[[Event], None]
    state: State = field(default=State.IDLE, init=False)
    _over: Callable[[], bool] = field(default=lambda: True, init=False)
    _working: int = field(default=0, init=False)
    _asking: int = field(default=0, init=False)

    def begin(self, over: Callable[[], bool]) -> None:
        """A turn was admitted. ``over`` is asked before anything is shown for it."""
        self._over = over
        self._change(State.RUNNING)

    def end(self) -> None:
        """The turn settled. The idle itself is put by whoever knows its reason."""
        self._working = self._asking = 0
        self._change(State.IDLE)

    def working(self, calls: int) -> "_Group":
        """Count ``calls`` as at work until each is done; what is left when the context ends is done too."""
        return _Group(self, calls)

    def count(self, *, working: int = 0, asking: int = 0) -> None:
        """Calls began or ceased to work, or to wait for the person."""
        self._working += working
        self._asking += asking
        self._settle()

    def _settle(self) -> None:
        if self.state is State.IDLE or self._over():
            return  # its calls are unwinding: the settle step says the rest
        waits = self._working > 0 and self._asking == self._working
        wanted = State.REQUIRES_ACTION if waits else State.RUNNING
        if wanted is not self.state:
            self._change(wanted)

    def _change(self, to: State) -> None:
        shown = _SHOWN[self.state, to]
        self.state = to
        if shown is not None:
            self.show(shown())


@define(eq=False)
class _Group:
    """The calls of one group (agent.ports.Workers), at work within this context."""

    _activity: Activity
    left: int

    def __enter__(self) -> Self:
        self._activity._working += self.left  # nothing is shown for it: the session runs already
        return self

    def __exit__(self, *_: object) -> None:
        left, self.left = self.left, 0
        self._activity.count(working=-left)

    def asking(self) -> "_Asking":
        return _Asking(self._activity)

    def done(self) -> None:
        if self.left:
            self.left -= 1
            self._activity.count(working=-1)


@define(eq=False)
class _Asking:
    """One call waits for the person within this context."""

    _activity: Activity

    def __enter__(self) -> None:
        self._activity.count(asking=1)

    def __exit__(self, *_: object) -> None:
        self._activity.count(asking=-1)
