"""Where a prompt gets its model from (``ModelSource``)."""

import trio

from term2_acp.providers.base import Effort, ModelChoice, Provider


class Fixed:
    """One model, chosen before the start."""

    def __init__(self, provider: Provider, model: str, effort: Effort = Effort.DEFAULT) -> None:
        self.merge_text = provider.merge_text
        self._choice = ModelChoice(provider, model, effort)

    async def choice(self) -> ModelChoice:
        """See ``ModelSource``."""
        await trio.lowlevel.checkpoint()
        return self._choice

    def rest_nowait(self) -> None:
        """See ``ModelSource``."""
        self._choice.provider.rest_nowait()

    async def aclose(self) -> None:
        """See ``ModelSource``."""
        await self._choice.provider.aclose()
