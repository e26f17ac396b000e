"""From what was resolved to what answers. Nothing is connected, started or read before it is asked.

A session that is only opened imports nothing of a model: what is needed to ask one is imported with the first
prompt, each kind by itself. Scripts are the exception. They are read at once, since one of them says how a
session hands its text on; nobody waits for those.
"""

import functools
from typing import TYPE_CHECKING

import trio

from term2_acp.domain.effort import Effort
from term2_acp.providers.choosing.choice import Choice, Decided, Nothing, Resolved
from term2_acp.providers.choosing.source import Fixed, Later
from term2_acp.providers.errors import NotUsable
from term2_acp.providers.servers.known import Known

if TYPE_CHECKING:  # see the module
    from term2_acp.providers.base import ModelSource, Provider
    from term2_acp.providers.servers.cache import ModelsCache


def open_source(resolved: Resolved, *, idle_s: float, state: str | None) -> "ModelSource":
    """The source of the models of this process.

    ``idle_s`` is the longest silence of a stream, in seconds. What servers say of their models is kept in the
    directory ``state``; None: nowhere.
    """
    choice = resolved.choice
    opener = _Opener(resolved.effort, idle_s, state)
    if isinstance(choice, Decided) and choice.provider.type == "scripted":
        return opener.source(choice)
    return Later(functools.partial(opener.make, choice))


class _Opener:
    """Makes sources and providers, all of one process."""

    def __init__(self, effort: Effort, idle_s: float, state: str | None) -> None:
        self._effort = effort
        self._idle_s = idle_s
        self._state = state

    async def make(self, choice: Choice) -> "ModelSource":
        """``source``, for whoever waits for it."""
        await trio.lowlevel.checkpoint()
        return self.source(choice)

    def source(self, choice: Choice) -> "ModelSource":
        """The source of what was chosen."""
        match choice:
            case Nothing(message):
                return self._unusable("none", message, "none")
            case Decided(provider, model):
                return self.model(provider, model)
            case undecided:
                from term2_acp.providers.choosing.discovery import Discovered

                return Discovered(undecided, self.found)

    def found(self, provider: Known, model: str) -> "ModelSource":
        """The source of a model that was found only now.

        Raises:
            NotUsable: it does not take the effort that is set.
        """
        if provider.is_server and self._effort is not Effort.DEFAULT:
            from term2_acp.providers.catalog.describing import describe
            from term2_acp.providers.catalog.efforts import refuse_effort

            refused = refuse_effort(self._effort, describe(provider, model), model)
            if refused is not None:
                raise NotUsable(f"The model {refused}.")
        return self.model(provider, model)

    def model(self, provider: Known, model: str) -> "ModelSource":
        """The source of one model."""
        if provider.problem is not None:
            return self._unusable(provider.name, provider.problem, model)
        if not provider.is_server:
            return Fixed(self._other(provider), model, self._effort)
        from term2_acp.providers.catalog.describing import Described
        from term2_acp.providers.http_provider import HttpProvider
        from term2_acp.providers.servers.wires import wire_of

        described = Described(provider, self._cache())
        opened = HttpProvider(
            provider.name,
            wire_of(provider),
            provider.base_url,
            provider.key,
            idle_s=self._idle_s,
            key_source=provider.key_source,
            describe=described.info,
        )
        return Fixed(opened, model, self._effort, learn=described.learn)

    def _other(self, provider: Known) -> "Provider":
        settings = provider.settings
        if provider.type == "local":
            from term2_acp.providers.local.model import LocalModel
            from term2_acp.providers.local.weights import find_weights

            return LocalModel(provider.name, find_weights(), idle_s=self._idle_s)
        assert settings is not None
        if provider.type == "chaos":
            from term2_acp.providers.chaos.model import Chaos

            assert settings.seed is not None
            return Chaos(provider.name, settings.seed)
        from term2_acp.providers.scripted.model import Scripted, open_script
        from term2_acp.providers.unusable import Unusable

        try:
            return Scripted(provider.name, open_script(settings.script or ""))
        except NotUsable as error:
            return Unusable(provider.name, error.message)

    def _unusable(self, name: str, message: str, model: str) -> "ModelSource":
        from term2_acp.providers.unusable import Unusable

        return Fixed(Unusable(name, message), model, self._effort)

    def _cache(self) -> "ModelsCache | None":
        from term2_acp.providers.servers.cache import ModelsCache

        return ModelsCache(self._state) if self._state is not None else None
