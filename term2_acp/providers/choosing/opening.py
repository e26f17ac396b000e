"""From what was resolved to what answers. Nothing is connected, started or read before it is asked.

A session that is only opened imports nothing of a model: what is needed to ask one is imported with the first
prompt, each kind by itself. Scripts in files are the exception. They are read at once, since one of them says
how a session hands its text on; nobody waits for those.
"""

import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

import trio

from term2_acp.domain.effort import Effort
from term2_acp.providers.choosing.choice import Choice, Decided, Nothing, Resolved
from term2_acp.providers.choosing.source import Fixed, Later, nothing_to_learn
from term2_acp.providers.errors import NotUsable
from term2_acp.providers.scripted.builtin import MERGES_TEXT
from term2_acp.providers.servers.known import Known

if TYPE_CHECKING:  # see the module
    from term2_acp.providers.base import ModelSource, Provider
    from term2_acp.providers.servers.asking import Answers
    from term2_acp.providers.servers.cache import ModelsCache
    from term2_acp.providers.servers.listing import Listing


logger = logging.getLogger(__name__)


class _Opened(NamedTuple):
    """A provider that was made, and what finds out about its models."""

    provider: "Provider"
    learn: Callable[[str], Awaitable[None]] = nothing_to_learn


async def _close(provider: "Provider") -> None:
    try:
        await provider.aclose()
    except Exception:  # the wall between the providers: what one leaves open ends with the process
        logger.exception("the provider %s cannot be closed", provider.name)


def open_source(resolved: Resolved, *, idle_s: float, state: str | None) -> "ModelSource":
    """The source of the model of this process, where no other is ever asked; see ``Opener``."""
    return Opener(resolved, idle_s=idle_s, state=state).own()


class Opener:
    """Makes sources and providers, all of one process. A provider is made once, whoever asks for it.

    ``idle_s`` is the longest silence of a stream, in seconds. What servers say of their models is kept in the
    directory ``state``; None: nowhere. ``taken`` is the process's own model, None while it is not found.
    ``heard`` is what servers said of their models when it was looked for, another value each time.
    """

    def __init__(self, resolved: Resolved, *, idle_s: float, state: str | None) -> None:
        self.choice = resolved.choice
        self.effort = resolved.effort
        self.state = state
        self.taken = resolved.choice if isinstance(resolved.choice, Decided) else None
        self.heard: Mapping[str, tuple[Known, Listing]] = {}
        self._idle_s = idle_s
        self._opened: dict[tuple[str, str], _Opened] = {}

    def own(self) -> "ModelSource":
        """The source of the process's own model."""
        script = self._script()
        if script is not None and script not in MERGES_TEXT:
            return self.source(self.choice)
        merge_text = script is None or MERGES_TEXT[script]
        return Later(functools.partial(self.make, self.choice), merge_text=merge_text)

    def _script(self) -> str | None:
        """The script that the process's own model plays, None where it is no scripted one."""
        if not isinstance(self.choice, Decided) or self.choice.provider.type != "scripted":
            return None
        settings = self.choice.provider.settings
        return settings.script if settings is not None else None

    def rest_nowait(self) -> None:
        """As ``Provider.rest_nowait``, for every provider that was made."""
        for opened in self._opened.values():
            opened.provider.rest_nowait()

    async def aclose(self) -> None:
        """As ``Provider.aclose``, for every provider that was made, side by side; one's fault is its own."""
        async with trio.open_nursery() as nursery:
            for opened in self._opened.values():
                nursery.start_soon(_close, opened.provider)

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

                return Discovered(undecided, self.found, heard=self._hear)

    def found(self, provider: Known, model: str) -> "ModelSource":
        """The source of a model that was found only now.

        Raises:
            NotUsable: it does not take the effort that is set.
        """
        if provider.is_server and self.effort is not Effort.DEFAULT:
            from term2_acp.providers.catalog.efforts import refuse_effort
            from term2_acp.providers.catalog.stated import describe

            refused = refuse_effort(self.effort, describe(provider, model), model)
            if refused is not None:
                raise NotUsable(f"The model {refused}.")
        self.taken = Decided(provider, model)
        return self.model(provider, model)

    def _hear(self, servers: "Iterable[Known]", answers: "Answers") -> None:
        from term2_acp.providers.servers.listing import Listing

        told = ((server, answers[server.name]) for server in servers)
        listed = {server.name: (server, answer) for server, answer in told if isinstance(answer, Listing)}
        self.heard = {**self.heard, **listed}

    def model(self, provider: Known, model: str, effort: Effort | None = None) -> "ModelSource":
        """The source of one model, which is asked with ``effort``; None: with the process's."""
        effort = self.effort if effort is None else effort
        if provider.problem is not None:
            return self._unusable(provider.name, provider.problem, model)
        key = provider.name, provider.base_url
        if key not in self._opened:
            self._opened[key] = self._open(provider)
        opened = self._opened[key]
        return Fixed(opened.provider, model, effort, learn=opened.learn)

    def _open(self, provider: Known) -> "_Opened":
        if not provider.is_server:
            return _Opened(self._other(provider))
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
            answered=described.answered,
        )
        return _Opened(opened, described.learn)

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

        return Fixed(Unusable(name, message), model, self.effort)

    def _cache(self) -> "ModelsCache | None":
        from term2_acp.providers.servers.cache import ModelsCache

        return ModelsCache(self.state) if self.state is not None else None
