"""Which models this process can offer to its sessions (``ModelOffers``), without asking any server.

Rules:

- A provider is offered that is configured and can be used, with the models that the settings, the catalog or
  the cache list; of them those that talk. So is a server that answered when the process's own model was
  looked for, with what it said then.
- The process's own model can always be used, whether it is listed or not.
- A model that was chosen once can be used again while its provider is there and nobody lists what that has: a
  server on this machine is known only once it was asked.

Nothing is loaded before somebody asks. The lists are made then, once, and again when a server was heard.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from attrs import evolve

from term2_acp.domain.effort import Effort
from term2_acp.providers.choosing.choice import Nothing
from term2_acp.providers.choosing.opening import Opener
from term2_acp.providers.servers.known import Known

if TYPE_CHECKING:  # with the first question
    from term2_acp.providers.base import ModelChoice, ModelSource
    from term2_acp.providers.choosing.listed import Lists
    from term2_acp.providers.offers import OfferedModel
    from term2_acp.providers.servers.listing import Listing
    from term2_acp.providers.servers.model_server import NoList


class Offers:
    """See the module. ``own`` is the source of the process's own model; ``known`` gives all providers."""

    def __init__(self, opener: Opener, own: "ModelSource", known: Callable[[], Mapping[str, Known]]) -> None:
        self._opener = opener
        self._own = own
        self._known_providers = known
        self._known: Mapping[str, Known] = {}
        self._lists: Lists | None = None
        self._models: dict[str, OfferedModel] = {}
        self._heard: object = None  # what servers had said when the models were listed
        self._sources: dict[tuple[str | None, Effort | None], ModelSource] = {}

    # -- which there are ---------------------------------------------------------------------------

    def default(self) -> "OfferedModel | None":
        """See ``ModelOffers``."""
        from term2_acp.providers.offers import DEFAULT_MODEL, OfferedModel

        taken = self._opener.taken
        if taken is not None:
            value = f"{taken.provider.name}/{taken.model}"
            return self._listed().get(value) or OfferedModel(value, value)
        if isinstance(self._opener.choice, Nothing):
            return None
        return OfferedModel(
            DEFAULT_MODEL,
            "Found with the first prompt",
            "Model servers are asked with the first prompt, and what they have is offered from then on.",
        )

    def models(self) -> "Sequence[OfferedModel]":
        """See ``ModelOffers``."""
        return tuple(self._listed().values())

    def find(self, value: str) -> "OfferedModel | None":
        """See ``ModelOffers``."""
        from term2_acp.providers.choosing.candidates import is_pattern
        from term2_acp.providers.offers import OfferedModel

        default = self.default()
        if default is not None and value == default.value:
            return default
        listed = self._listed().get(value)
        if listed is not None:
            return listed
        name, _, model = value.partition("/")
        provider = self._known.get(name)
        if provider is None or not _is_usable(provider) or name in self._opener.heard:
            return None
        if not model or is_pattern(model):
            return None
        assert self._lists is not None
        return OfferedModel(value, value) if self._lists.of(provider).silence is not None else None

    def _listed(self) -> "Mapping[str, OfferedModel]":
        if self._heard is not self._opener.heard:
            from term2_acp.providers.choosing.listed import Lists
            from term2_acp.providers.offers import OfferedModel

            self._known = self._known_providers()
            self._lists = Lists(self._opener.state, keep=False, ask=_nobody_asks)
            offered = dict(self._offered(self._lists))
            several = len(offered) > 1
            self._models = {}
            for name, models in offered.items():
                for model in models:
                    value = f"{name}/{model}"
                    self._models[value] = OfferedModel(value, value if several else model)
            self._heard = self._opener.heard
        return self._models

    def _offered(self, lists: "Lists") -> Iterator[tuple[str, Sequence[str]]]:
        """The models of each provider that is offered and has any."""
        heard = self._opener.heard
        asked = {name: server for name, (server, _) in heard.items() if name not in self._known}
        for name, provider in {**self._known, **asked}.items():
            if not _is_usable(provider) or not (provider.configured or name in heard):
                continue
            models = (
                tuple(model.id for model in heard[name][1].models if model.talks)
                if name in heard
                else lists.of(provider).talkers
            )
            if models:
                yield name, models

    # -- one of them -------------------------------------------------------------------------------

    def levels(self, value: str) -> Sequence[Effort]:
        """See ``ModelOffers``."""
        provider, model = self._located(value)
        if provider is None or not provider.is_server:
            return ()
        from term2_acp.providers.catalog.stated import describe

        efforts = describe(provider, model).efforts or ()
        return tuple(level for level in Effort if level in efforts)

    def effort(self, value: str, wanted: Effort | None) -> Effort:
        """See ``ModelOffers``."""
        if wanted is not None:
            return wanted if wanted in self.levels(value) else Effort.DEFAULT
        effort = self._opener.effort
        provider, model = self._located(value)
        if effort is Effort.DEFAULT or provider is None or not provider.is_server:
            return effort
        from term2_acp.providers.catalog.efforts import refuse_effort
        from term2_acp.providers.catalog.stated import describe

        refused = refuse_effort(effort, describe(provider, model), model)
        return effort if refused is None else Effort.DEFAULT

    def source(self, value: str | None, wanted: Effort | None) -> "ModelSource":
        """See ``ModelOffers``."""
        if value is None and wanted is None:
            return self._own
        source = self._sources.get((value, wanted))
        if source is None:
            source = self._sources[value, wanted] = self._source(value, wanted)
        return source

    def _source(self, value: str | None, wanted: Effort | None) -> "ModelSource":
        if value is None:
            return _WithEffort(self._own, lambda value: self.effort(value, wanted))
        provider, model = self._located(value)
        if provider is None or self.find(value) is None:
            raise LookupError(value)
        return self._opener.model(provider, model, self.effort(value, wanted))

    def _located(self, value: str) -> tuple[Known | None, str]:
        """The provider and the model that a value names; no provider where it names none."""
        name, _, model = value.partition("/")
        taken = self._opener.taken
        if taken is not None and (taken.provider.name, taken.model) == (name, model):
            return taken.provider, model
        if not model:
            return None, ""
        self._listed()
        heard = self._opener.heard.get(name)
        return heard[0] if heard is not None else self._known.get(name), model

    # -- the end -----------------------------------------------------------------------------------

    def rest_nowait(self) -> None:
        """See ``ModelOffers``."""
        self._opener.rest_nowait()

    async def aclose(self) -> None:
        """See ``ModelOffers``."""
        await self._opener.aclose()


class _WithEffort:
    """The process's own model, asked with another effort (``ModelSource``)."""

    def __init__(self, own: "ModelSource", effort: Callable[[str], Effort]) -> None:
        self.merge_text = own.merge_text
        self._own = own
        self._effort = effort

    async def choice(self) -> "ModelChoice":
        """See ``ModelSource``."""
        choice = await self._own.choice()
        return evolve(choice, effort=self._effort(f"{choice.provider.name}/{choice.model}"))

    def rest_nowait(self) -> None:
        """See ``ModelSource``."""
        self._own.rest_nowait()

    async def aclose(self) -> None:
        """See ``ModelSource``."""
        await self._own.aclose()


def _is_usable(provider: Known) -> bool:
    return provider.problem is None


def _nobody_asks(servers: Sequence[Known]) -> "Mapping[str, Listing | NoList]":
    """Stands in for the asking of servers: what nobody listed by now is not listed."""
    from term2_acp.providers.base import NotUsable
    from term2_acp.providers.servers.model_server import NoList

    return {each.name: NoList(NotUsable(f"{each.name} was not asked."), answered=False) for each in servers}
