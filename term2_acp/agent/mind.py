"""The models of a process, and how a turn with it fails: what a session knows of its turns before it has one.

Apart from ``turn``, which imports everything that a turn needs: a session that is only opened does without.
"""

from typing import TYPE_CHECKING

from term2_acp.domain.classes import define
from term2_acp.domain.turn import Failure
from term2_acp.redact import Redactor

if TYPE_CHECKING:  # imported with the first prompt
    from term2_acp.providers.base import ModelOffers, ModelSource


class TurnFailed(Exception):
    """The turn cannot go on. Its idle is ``_term2_error`` with this failure."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


@define(eq=False)
class Mind:
    """What turns think with: where their model comes from, and how often a turn may call it.

    ``source`` is the process's own model, which a session has that chose no other. ``offers`` are the others,
    None where there are none. ``redactor`` knows the keys that must not leave in what the model says.
    """

    source: "ModelSource"
    model_calls: int
    redactor: Redactor
    offers: "ModelOffers | None" = None

    def rest_nowait(self) -> None:
        """No session is open any more: every provider lets go of what costs."""
        (self.offers or self.source).rest_nowait()

    async def aclose(self) -> None:
        """Close every provider. Bounded; shielded by the caller."""
        await (self.offers or self.source).aclose()
