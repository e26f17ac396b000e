"""Which model is meant by a name, and which one of a provider when none is named and it has no default.

The part of ``resolve`` that has to know which models there are. It is loaded by a start that asks for it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

from term2_acp.domain.classes import frozen
from term2_acp.providers.choosing.candidates import ambiguous, is_pattern, quoted, several, unknown
from term2_acp.providers.choosing.choice import Decided, Nothing, Resolved, Undecided, Unresolved
from term2_acp.providers.choosing.listed import Lists
from term2_acp.providers.servers.known import Known


@frozen
class _Meant:
    """What a name means. ``warnings`` are about servers that did not say which models they have."""

    decided: Decided
    warnings: tuple[str, ...] = ()


class Names:
    """Looks models up among the providers that can be named."""

    def __init__(
        self, known: Mapping[str, Known], lists: Lists, installed: Callable[[], Path | None]
    ) -> None:
        self._known = known
        self._lists = lists
        self._installed = installed

    def meant(self, provider: Known | None, model: str) -> Resolved | Unresolved:
        """The provider and model that are meant by a name, or why that cannot be told."""
        meant = self._of_all(model) if provider is None else self._of_provider(provider, model)
        return meant if isinstance(meant, Unresolved) else Resolved(meant.decided, meant.warnings)

    def only_model(self, provider: Known) -> Resolved | Unresolved:
        """The model of a provider that has no default: the only one, if there is one alone."""
        found = self._lists.of(provider)
        if len(found.talkers) == 1:
            return Resolved(Decided(provider, found.talkers[0]))
        if found.talkers:
            return Unresolved(several(provider.name, found.talkers))
        if provider.problem is not None:
            return Resolved(Nothing(provider.problem))
        # Its server may be started after us. The prompt asks it again.
        mute = f"The model server of {provider.name} lists no model that can be talked to."
        told = f"{found.silence or mute} It is asked again with the first prompt."
        return Resolved(Undecided((provider,)), (told,))

    def _of_all(self, model: str) -> _Meant | Unresolved:
        configured = [provider for provider in self._known.values() if provider.configured]
        prefix, slash, rest = model.partition("/")
        named = self._known.get(prefix) if slash else None
        # Servers are asked for all of this at once. The catalog has time until it is needed.
        early = [named] if named is not None and named.catalog is None else []
        lists = self._lists.of_all([*configured, *early])
        found = [Decided(provider, model) for provider in configured if model in lists[provider.name].ids]
        embedded = self._known["local"]
        has_it = model in embedded.models and all(each.type != "local" for each in configured)
        if has_it and (not found or self._installed() is not None):
            found.append(Decided(embedded, model))
        pair: _Meant | Unresolved | None = None
        if named is not None and (named.configured or not found):
            pair = self._of_provider(named, rest, typed=model)
        if isinstance(pair, _Meant):
            found.append(pair.decided)
        if len(found) > 1:
            return Unresolved(ambiguous(model, [(each.provider.name, each.model) for each in found]))
        if not found and isinstance(pair, Unresolved) and named is not None and named.configured:
            return pair
        if not found:
            # A router's id may begin like the name of a provider that is not there.
            return self._unknown(model, [*configured, *([named] if named else [])], everywhere=True)
        silent = ((each, lists[each.name].silence) for each in configured if each != found[0].provider)
        warnings = [
            f"{why} So {quoted(model)} was not looked for at {each.name}." for each, why in silent if why
        ]
        return _Meant(found[0], (*(pair.warnings if isinstance(pair, _Meant) else ()), *warnings))

    def _of_provider(self, provider: Known, model: str, typed: str = "") -> _Meant | Unresolved:
        listed = self._lists.of(provider)
        decided = Decided(provider, model)
        if model in listed.ids:
            return _Meant(decided)
        if listed.silence is None:
            return self._unknown(typed or model, [provider], bare=not typed)
        if not model or is_pattern(model):
            what = f"model {quoted(model)} is no id"
            return Unresolved(f"{what}; write the whole id of a model of {provider.name}")
        if model == provider.default_model:
            return _Meant(decided)
        why = f"{listed.silence} " if listed.silence else ""
        return _Meant(decided, (f"{why}The model {quoted(model)} is taken as written.",))

    def _unknown(
        self, model: str, providers: Iterable[Known], *, everywhere: bool = False, bare: bool = False
    ) -> Unresolved:
        searched = [(provider, self._lists.of(provider)) for provider in providers]
        others = self._without_key(model, [provider.name for provider, _ in searched]) if everywhere else []
        return Unresolved(unknown(model, searched, others, bare=bare))

    def _without_key(self, model: str, searched: Collection[str]) -> Sequence[Known]:
        """The other servers that have the model, by the catalog, and of which the key is missing."""
        from term2_acp.providers.catalog.catalog import catalog_models  # only for a refusal

        others = [e for e in self._known.values() if not e.configured and e.name not in searched]
        return [each for each in others if each.catalog and model in catalog_models(each.catalog)]
