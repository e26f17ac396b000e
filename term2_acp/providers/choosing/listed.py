"""Where the models of a provider are listed: in the settings, else in the catalog, else by its server.

Rules:

- Nothing is looked at before somebody asks for it: a start that looks no model up loads no catalog and opens
  no file. An answer is kept for the life of this object.
- A server is asked only where nothing else lists its models, and all of those at once, for ``ASK_S`` seconds
  together. One without its key is not asked.
- What a server said too long ago counts where it does not answer now.
- A list that is not whole, or is empty, lists nothing: it cannot tell that an id is wrong.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from term2_acp.domain.classes import frozen
from term2_acp.providers.servers.known import Known

if TYPE_CHECKING:
    from term2_acp.providers.servers.cache import ModelsCache
    from term2_acp.providers.servers.listing import Listing
    from term2_acp.providers.servers.model_server import NoList

# Seconds that servers have, at the start, to say which models they have.
ASK_S = 3.0

Ask = Callable[[Sequence[Known]], "Mapping[str, Listing | NoList]"]
"""Asks servers for their models, side by side; the answers by the names of the providers."""


@frozen
class Listed:
    """The ids that a provider has. ``of_catalog``: they are the catalog's, and there may be newer ones.

    ``silence`` is why there are none, in a sentence; None where the list counts. ``mute`` are the models that
    only embed, rank or the like. ``file`` is the cache that the list comes from, if it does.
    """

    ids: tuple[str, ...]
    of_catalog: bool = False
    silence: str | None = None
    mute: frozenset[str] = frozenset()
    file: str | None = None

    @property
    def talkers(self) -> tuple[str, ...]:
        """The models that can be talked to."""
        return tuple(each for each in self.ids if each not in self.mute)


class Lists:
    """The lists of one start. ``state`` is the directory of the cache, None for a start without any.

    ``keep`` False leaves the cache as it is.
    """

    def __init__(self, state: str | None, *, keep: bool = True, ask: Ask | None = None) -> None:
        self._state = state
        self._keep = keep
        self._ask = ask if ask is not None else ask_now
        self._found: dict[str, Listed] = {}

    def of(self, provider: Known) -> Listed:
        """The list of one provider; see ``of_all``."""
        return self.of_all([provider])[provider.name]

    def of_all(self, providers: Iterable[Known]) -> Mapping[str, Listed]:
        """The list of each provider, by its name. Waits for servers, if any have to be asked."""
        wanted = {provider.name: provider for provider in providers}
        unlisted = [each for name, each in wanted.items() if name not in self._found and not self._look(each)]
        if unlisted:
            self._ask_all(unlisted)
        return {name: self._found[name] for name in wanted}

    def _look(self, provider: Known) -> bool:
        """Whether the list is somewhere, or cannot be had: then it is in ``_found``."""
        found: Listed | None = None
        if provider.models:
            found = Listed(provider.models)
        elif provider.catalog is not None:
            from term2_acp.providers.catalog.catalog import (
                catalog_models,  # 20 ms, where a model has to be looked up
            )

            ids = catalog_models(provider.catalog)
            # A model that the person describes is one, however new it is.
            described = tuple(provider.settings.catalog) if provider.settings is not None else ()
            found = Listed(tuple(dict.fromkeys((*described, *ids))), of_catalog=True) if ids else None
        if found is None:
            found = self._remembered(provider, stale=False)
        if found is None and (provider.problem is not None or not provider.is_server):
            found = Listed((), silence=provider.problem or "")
        if found is None:
            return False
        self._found[provider.name] = found
        return True

    def _ask_all(self, unlisted: Sequence[Known]) -> None:
        from term2_acp.providers.servers.model_server import NoList  # loaded by whoever asked

        answers = self._ask(unlisted)
        for provider in unlisted:
            answer = answers[provider.name]
            if isinstance(answer, NoList):
                old = self._remembered(provider, stale=True)
                self._found[provider.name] = old or Listed((), silence=answer.error.message)
                continue
            cache = self._cache()
            if cache is not None and self._keep:
                cache.keep(provider.base_url, answer)
            self._found[provider.name] = _from_listing(provider, answer)

    def _remembered(self, provider: Known, *, stale: bool) -> Listed | None:
        cache = self._cache()
        if cache is None or not provider.is_server:
            return None
        kept = cache.listing(provider.base_url, local=provider.runs_here)
        if kept is None or not (kept.fresh or stale):
            return None
        found = _from_listing(provider, kept.listing)
        return evolve(found, file=cache.path) if found.silence is None else None

    def _cache(self) -> "ModelsCache | None":
        if self._state is None:
            return None
        from term2_acp.providers.servers.cache import ModelsCache  # it builds decoders

        return ModelsCache(self._state)


def _from_listing(provider: Known, listing: "Listing") -> Listed:
    ids = tuple(model.id for model in listing.models)
    if ids and listing.whole:
        return Listed(ids, mute=frozenset(model.id for model in listing.models if not model.talks))
    what = "more models than are read" if ids else "no models"
    return Listed((), silence=f"The model server of {provider.name} lists {what}.")


def ask_now(servers: Sequence[Known]) -> "Mapping[str, Listing | NoList]":
    """Ask servers side by side in an event loop of their own, for ``ASK_S`` seconds."""
    import trio  # with the HTTP library a fifth of a second; the daemon's own loop does not run yet

    from term2_acp.providers.servers.asking import ask_all

    return trio.run(ask_all, servers, ASK_S)
