"""A provider that cannot be used here, as a provider: every prompt ends with the reason.

So the daemon starts without a model, says what to set where the person sees it, and needs no case of its
own for having none.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from term2_acp.providers.base import DeltaStream, Failed, NotUsable, Request
from term2_acp.providers.ended import Ended


class Unusable:
    """Ends every prompt with ``NotUsable(message)`` (``Provider``)."""

    merge_text = True
    asks_for_edits = False

    def __init__(self, name: str, message: str) -> None:
        self.name = name
        self._message = message

    def context_tokens(self, model: str) -> int:
        """See ``Provider``. A size that is never used, and no zero to divide by."""
        del model
        return 1

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[DeltaStream]:
        """See ``Provider``."""
        del request
        yield Ended([Failed(NotUsable(self._message))])

    async def aclose(self) -> None:
        """See ``Provider``. There is nothing to close."""
        await trio.lowlevel.checkpoint()
