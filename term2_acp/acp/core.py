"""What a door needs of the program behind it, whatever the version of the protocol."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # sessions and the store are imported with the first session, not at the start
    from term2_acp.session.registry import Registry
    from term2_acp.store import Store


class Core(Protocol):
    """The sessions of this process. The composition root implements it."""

    @property
    def registry(self) -> "Registry | None":
        """The sessions, or None while no request has needed them."""
        ...

    def registry_nowait(self) -> "Registry":
        """The sessions; the first call imports and builds what they need. Nothing is opened yet."""
        ...

    async def store(self) -> "Store":
        """The store, opened by the first caller.

        Raises:
            StoreFailed: it cannot be opened; the next caller tries again.
        """
        ...
