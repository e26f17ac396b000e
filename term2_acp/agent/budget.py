"""What bounds a turn: calls of the model, and calls of a tool that repeat.

A model that goes round in circles makes the same call again and again. The third identical call in a
row is answered with a warning in place of its result, the sixth ends the turn.
"""

from enum import Enum

from attrs import field

from term2_acp.domain.classes import define

WARN_AT = 3  # identical calls in a row
STOP_AT = 6

REPEAT_WARNING = (
    "This is the same call as the ones before it, and it was not run again. Its result will not change: "
    "use what you already have, or try something else."
)


class Repeat(Enum):
    """What to do with a call, given the ones before it."""

    RUN = "run"
    WARN = "warn"
    STOP = "stop"


@define
class Repeats:
    """Counts identical calls in a row, across the replies of one turn."""

    _last: tuple[str, str] | None = field(default=None, init=False)
    _count: int = field(default=0, init=False)

    def see(self, name: str, arguments: str) -> Repeat:
        """Count one more call and decide about it. ``arguments`` is compared as the model wrote it."""
        call = (name, arguments)
        self._count = self._count + 1 if call == self._last else 1
        self._last = call
        if self._count >= STOP_AT:
            return Repeat.STOP
        # The fourth and fifth are what the third was: running them would undo the warning.
        return Repeat.WARN if self._count >= WARN_AT else Repeat.RUN
