"""A stream of which everything is known before it is read. It brings no wire and no HTTP with it."""

from collections.abc import Sequence

import trio

from term2_acp.providers.base import Delta


class Ended:
    """A stream whose one list ends it (``DeltaStream``)."""

    def __init__(self, deltas: Sequence[Delta]) -> None:
        self._deltas = deltas

    async def receive(self) -> Sequence[Delta]:
        """See ``DeltaStream``."""
        await trio.lowlevel.checkpoint()
        return self._deltas
