"""Whether the tool calls of a journal are told of in the order in which they can have happened. Pure.

Each call is asked for, decided, dispatched and settled, each at most once and in this order, and each is
settled when its turn is over; else the history that a provider is given would have a call without a result,
or a result without a call. Where records are lost nothing of that can be asked of the turn they stood in.

Only the calls of one turn are remembered.
"""

from attrs import field

from term2_acp.domain import events as ev
from term2_acp.domain.classes import define
from term2_acp.domain.ids import ToolCallId

TWICE = "twice"
UNASKED = "unasked"
UNSETTLED = "unsettled"

_STEPS: dict[type, int] = {
    ev.ToolCallPrepared: 1,
    ev.ToolCallDecided: 2,
    ev.ToolCallDispatched: 3,
    ev.ToolCallSettled: 4,
}
_SETTLED = 4


@define(eq=False)
class Pairing:
    """The fold of one journal. ``see`` names what is wrong with an event; see the module."""

    _steps: dict[ToolCallId, int] = field(factory=dict)
    _lost: bool = False

    def see(self, event: ev.Event) -> str | None:
        """Take the next event: ``TWICE`` for a record that comes again or too late, ``UNASKED`` for one of a
        call that nobody asked for, ``UNSETTLED`` for the end of a turn with calls that are not; else None.
        """
        step = _STEPS.get(type(event))
        if step is not None:
            return self._record(event.tool_call_id, step)  # type: ignore[union-attr]
        if isinstance(event, ev.RecordsLost):
            self._lost = True
        elif isinstance(event, ev.Idle | ev.UserMessage):
            unsettled = self.unsettled
            self._steps.clear()
            self._lost = False
            return UNSETTLED if unsettled else None
        return None

    @property
    def unsettled(self) -> int:
        """How many calls of the turn by now are not settled."""
        return 0 if self._lost else sum(step != _SETTLED for step in self._steps.values())

    def _record(self, call: ToolCallId, step: int) -> str | None:
        before = self._steps.get(call, 0)
        self._steps[call] = max(step, before)
        if self._lost:
            return None
        if before >= step:
            return TWICE
        return UNASKED if before == 0 and step > 1 else None
