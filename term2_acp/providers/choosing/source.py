"""Where a prompt gets its model from (``ModelSource``): one that is known, or one that is made when asked."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import trio

from term2_acp.domain.effort import Effort

if TYPE_CHECKING:  # ``Later`` is made with a session, and these are imported with its first prompt
    from term2_acp.providers.base import ModelChoice, ModelSource, Provider


async def nothing_to_learn(model: str) -> None:
    """The ``learn`` of a model of which everything is known."""
    del model
    await trio.lowlevel.checkpoint()


class Fixed:
    """One model, chosen already.

    ``learn`` finds out what is not known of the model before it is asked; it is awaited with every prompt,
    bounds itself, and raises nothing.
    """

    def __init__(
        self,
        provider: "Provider",
        model: str,
        effort: Effort = Effort.DEFAULT,
        *,
        learn: Callable[[str], Awaitable[None]] = nothing_to_learn,
    ) -> None:
        from term2_acp.providers.base import ModelChoice  # see above

        self.merge_text = provider.merge_text
        self._choice = ModelChoice(provider, model, effort)
        self._learn = learn

    async def choice(self) -> "ModelChoice":
        """See ``ModelSource``."""
        await self._learn(self._choice.model)
        return self._choice

    def rest_nowait(self) -> None:
        """See ``ModelSource``."""
        self._choice.provider.rest_nowait()

    async def aclose(self) -> None:
        """See ``ModelSource``."""
        await self._choice.provider.aclose()


class Later:
    """A source that is made with the first prompt, and not for a session that is only opened.

    ``make`` may wait, and may raise ``ProviderError``; then, and when it is cancelled, nothing is made, and
    the next prompt tries again. Of two prompts at once, one makes it and the other waits for it.
    ``merge_text`` is what the source that is made will say of it.
    """

    def __init__(self, make: Callable[[], Awaitable["ModelSource"]], *, merge_text: bool = True) -> None:
        self.merge_text = merge_text
        self._make = make
        self._source: ModelSource | None = None
        self._lock = trio.Lock()

    async def choice(self) -> "ModelChoice":
        """See ``ModelSource``."""
        if self._source is None:
            async with self._lock:
                if self._source is None:  # else it was made while the lock was waited for
                    self._source = await self._make()
        return await self._source.choice()

    def rest_nowait(self) -> None:
        """See ``ModelSource``."""
        if self._source is not None:
            self._source.rest_nowait()

    async def aclose(self) -> None:
        """See ``ModelSource``."""
        if self._source is None:
            await trio.lowlevel.checkpoint()
        else:
            await self._source.aclose()
