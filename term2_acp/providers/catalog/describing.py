"""What is known of a provider's models: from the settings, else from the server, else from the catalog.

A server is asked for what it knows only where the settings and the catalog do not describe the model: one on
this machine, above all. It is asked once, before the first request, for ``ASK_S`` seconds, and again with the
next prompt if it could not be reached at all. What it says is kept for the processes to come. Where it says
nothing, the stated fallback holds.
"""

import functools
import logging

import trio

from term2_acp.providers.base import ConnectionFailed, ModelInfo
from term2_acp.providers.catalog.stated import describe, is_described
from term2_acp.providers.servers.cache import ModelsCache
from term2_acp.providers.servers.facts import ServerFacts
from term2_acp.providers.servers.known import Known
from term2_acp.providers.servers.listing import Listing, ServerModel

_log = logging.getLogger(__name__)

# Seconds that a server has to describe its model. A person is waiting for the first answer.
ASK_S = 1.0


class Described:
    """The models of one provider, described. ``cache`` None: nothing is kept."""

    def __init__(self, provider: Known, cache: ModelsCache | None) -> None:
        self._provider = provider
        self._cache = cache
        self._told: dict[str, ServerFacts] = {}
        self._asked: set[str] = set()
        self._info = functools.cache(lambda model: describe(provider, model, self._told.get(model)))

    def info(self, model: str) -> ModelInfo:
        """What is known of the model by now."""
        return self._info(model)

    async def learn(self, model: str) -> None:
        """Wait until the server has said what it knows of the model, if it has to be asked.

        Cancelled, nothing is learnt, and the next call asks.
        """
        if model in self._asked or is_described(self._provider, model):
            await trio.lowlevel.checkpoint()
            return
        entry = self._remembered(model)
        if entry is None:
            entry = await self._ask(model)
        if entry is not None:
            self._asked.add(model)
            self._told[model] = entry.facts
            self._info.cache_clear()

    def _remembered(self, model: str) -> ServerModel | None:
        if self._cache is None:
            return None
        kept = self._cache.listing(self._provider.base_url, local=self._provider.runs_here)
        entry = kept.listing.named(model) if kept is not None and kept.fresh else None
        return entry if entry is not None and entry.told else None

    async def _ask(self, model: str) -> ServerModel | None:
        """What the server says; None where it cannot be reached, which may change before the next prompt."""
        # The HTTP library, a moment before the request would load it.
        from term2_acp.providers.servers.asking import ask_all

        answer = (await ask_all([self._provider], ASK_S, about=model))[self._provider.name]
        if isinstance(answer, Listing):
            if self._cache is not None:
                await trio.to_thread.run_sync(self._cache.keep, self._provider.base_url, answer)
            return answer.named(model) or ServerModel(model)
        _log.info("%s", answer.error.message)
        return None if isinstance(answer.error, ConnectionFailed) else ServerModel(model)
