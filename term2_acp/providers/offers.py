"""What a session may choose of models, as it sees them. An editor waits for this when it opens a session, so
nothing that a request needs is imported for it.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from term2_acp.domain.classes import frozen
from term2_acp.domain.effort import Effort

if TYPE_CHECKING:  # see the module
    from term2_acp.providers.base import ModelSource

DEFAULT_MODEL = "default"
"""What names the process's own model as long as it is not known which one that is."""


@frozen
class OfferedModel:
    """A model that a session may choose. ``value`` is ``provider/model``; ``name`` is what a person reads."""

    value: str
    name: str
    description: str | None = None


class ModelOffers(Protocol):
    """The models that this process can offer. No server is asked for any of this."""

    def default(self) -> OfferedModel | None:
        """The process's own model, with the value ``DEFAULT_MODEL`` while it is not known; None for none."""
        ...

    def models(self) -> Sequence[OfferedModel]:
        """All that are listed somewhere, each once, those of one provider together."""
        ...

    def find(self, value: str) -> OfferedModel | None:
        """The model of that value, if it can be used: a listed one, the process's own, or one of a provider
        whose models nobody lists.
        """
        ...

    def levels(self, value: str) -> Sequence[Effort]:
        """The levels of effort that the model is known to take, least first, ``default`` apart."""
        ...

    def effort(self, value: str, wanted: Effort | None) -> Effort:
        """The effort that the model is asked with: ``wanted``, where the model is known to take it, else
        ``default``, since the person could not see what is sent, nor change it. Where ``wanted`` is None, the
        process's, and ``default`` where the model is known not to take that.
        """
        ...

    def source(self, value: str | None, wanted: Effort | None) -> "ModelSource":
        """Where a session with these choices gets its model from; None is no choice. The same for the same.

        Raises:
            LookupError: ``find`` does not find the model.
        """
        ...

    def rest_nowait(self) -> None:
        """As ``Provider.rest_nowait``, for every provider of the process, its own model's included."""
        ...

    async def aclose(self) -> None:
        """As ``Provider.aclose``, for every provider of the process, its own model's included."""
        ...
