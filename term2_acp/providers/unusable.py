"""A provider that cannot be used here, as a provider: every prompt ends with the reason.

So the daemon starts without a model, says what to set where the person sees it, and needs no case of its
own for having none.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from term2_acp.providers.base import DeltaStream, Failed, ModelInfo, NotUsable, OnWait, Request, wait_silently
from term2_acp.providers.ended import Ended


class Unusable:
    """Ends every prompt with ``NotUsable(message)`` (``Provider``)."""

    merge_text = True
    asks_for_edits = False

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        self._message = message

    def describe(self, model: str) -> ModelInfo:
        """See ``Provider``."""
        del model
        return ModelInfo()

    @asynccontextmanager
    async def stream(self, request: Request, on_wait: OnWait = wait_silently) -> AsyncIterator[DeltaStream]:
        """See ``Provider``."""
        del request, on_wait
        yield Ended([Failed(NotUsable(self._message))])

    def rest_nowait(self) -> None:
        """See ``Provider``. There is nothing to let go of."""

    async def aclose(self) -> None:
        """See ``Provider``. There is nothing to close."""
        await trio.lowlevel.checkpoint()
