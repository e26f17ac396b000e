"""What is known of a provider's models: from the settings, else from the server, else from the catalog.

A server is asked for what it knows only where the settings and the catalog do not describe the model: one on
this machine, above all. It is asked once, before the first request, for ``ASK_S`` seconds, and again with the
next prompt if it could not be reached at all. What it says is kept for the processes to come. Where it says
nothing, the stated fallback holds.

Some servers decide how large a model's context is when they load it (``ServerModel.fleeting``). Of those
nothing is remembered: they are asked with each prompt, and once more behind the first reply to it where the
model was not loaded, so that the turn that has just begun knows it too. A model that was let go of meanwhile
is taken to be loaded as it was, until that is known.
"""

import functools
import logging

import trio
from attrs import evolve

from term2_acp.providers.base import ConnectionFailed, ModelInfo
from term2_acp.providers.catalog.stated import describe, is_described
from term2_acp.providers.servers.cache import ModelsCache
from term2_acp.providers.servers.facts import ServerFacts
from term2_acp.providers.servers.known import Known
from term2_acp.providers.servers.listing import Listing, ServerModel, least

_log = logging.getLogger(__name__)

# Seconds that a server has to describe its model. A person is waiting for the first answer.
ASK_S = 1.0

# The server that is known to cut a request that is too long, also where the settings describe its model.
_CUTS = "ollama"


class Described:
    """The models of one provider, described. ``cache`` None: nothing is kept."""

    def __init__(self, provider: Known, cache: ModelsCache | None) -> None:
        self._provider = provider
        self._cache = cache
        self._told: dict[str, ServerFacts] = {}
        self._asked: set[str] = set()  # for good
        self._fleeting: set[str] = set()
        self._unloaded: set[str] = set()  # when they were asked for last; of these more is known soon
        self._loaded_with: dict[str, int | None] = {}  # tokens of the context, the last time
        self._info = functools.cache(self._described)

    def info(self, model: str) -> ModelInfo:
        """What is known of the model by now."""
        return self._info(model)

    def _described(self, model: str) -> ModelInfo:
        provider = self._provider
        info = describe(provider, model, self._told.get(model))
        cuts = model in self._fleeting or (provider.like is not None and provider.like.name == _CUTS)
        return evolve(info, cuts=cuts)

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
            self._take(model, entry)
            if entry.fleeting and not entry.loaded:
                self._unloaded.add(model)

    async def answered(self, model: str) -> None:
        """Wait until the server has said what the model is loaded with, where that could not be known before.

        The model has just answered, so it is loaded.
        """
        if model not in self._unloaded:
            await trio.lowlevel.checkpoint()
            return
        self._unloaded.discard(model)  # once a prompt: a server may never say so of it
        entry = await self._ask(model)
        if entry is not None:
            self._take(model, entry)

    def _take(self, model: str, entry: ServerModel) -> None:
        if entry.fleeting:
            self._fleeting.add(model)
        elif model in self._fleeting:
            return  # the server was not itself this time: what it said before stands
        else:
            self._asked.add(model)
        facts = entry.facts
        if entry.loaded:
            self._loaded_with[model] = facts.context_tokens
        elif model in self._loaded_with:
            facts = evolve(facts, context_tokens=least(self._loaded_with[model], facts.context_tokens))
        self._told[model] = facts
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
