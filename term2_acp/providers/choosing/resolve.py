"""Which provider and model the settings mean.

Rules:

- A model is named by its exact id, or by ``provider/model``. With a provider named too, the whole string is
  an id of that provider. What a provider has is known from the settings, the catalog or the cache; its server
  is asked only where none of them lists anything (``listed``).
- The same id under two configured providers, a string that is both an id and a ``provider/model``, a pattern,
  an unknown id and an unknown provider are refused with the candidates named.
- A provider that is not configured is meant only where nothing that is configured can be.
- Where nobody lists the models of a provider that was named, an id is taken as written, with a warning.
- Without a model, the provider's own default is taken, or the only model that its server has.
- Without a provider, the first usable one is taken: ``openai``, ``anthropic`` and ``openrouter`` by their
  keys, then the servers of the settings in their order, then the other presets by their keys, then a server
  that answers on this machine, then ``local`` if it is installed. Servers are asked for this with the first
  prompt, not before. When there is nothing, the daemon starts all the same, and a prompt says what to set. A
  script is played only when it is named.
- An effort that the model does not take is refused.
- A start that names no model, or one that the settings list where no other provider has to be looked at,
  loads no catalog, opens no file and asks nobody. What looks models up is another module (``naming``).
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve

from term2_acp.config import Config
from term2_acp.domain.effort import Effort
from term2_acp.providers.choosing.choice import Choice, Decided, Nothing, Resolved, Undecided, Unresolved
from term2_acp.providers.local.weights import HOW_TO_INSTALL, find_weights
from term2_acp.providers.servers.known import Known, discoverable, known_providers, secrets_of
from term2_acp.providers.servers.presets import BY_KEY_FIRST, BY_KEY_LAST

if TYPE_CHECKING:
    from term2_acp.providers.choosing.listed import Ask

NOTHING_USABLE = (
    "No model is configured. Set OPENAI_API_KEY, ANTHROPIC_API_KEY or OPENROUTER_API_KEY, start a model "
    "server (Ollama, LM Studio, llama.cpp, vLLM), or add a [providers.NAME] table to settings.toml. "
    f"For the embedded smoke-test model, {HOW_TO_INSTALL}."
)


def resolve(
    config: Config,
    environ: Mapping[str, str],
    state: str | None,
    *,
    keep: bool = True,
    ask: "Ask | None" = None,
    installed: Callable[[], Path | None] = find_weights,
) -> Resolved | Unresolved:
    """Find what ``config`` means.

    ``state`` is the directory of what servers said before, None for none; with ``keep`` False it stays as it
    is. ``ask`` stands in for the asking of servers, ``installed`` finds the weights of the embedded model. It
    blocks while servers are asked, for ``listed.ASK_S`` seconds at most.
    """
    known = known_providers(config, environ)
    provider = known.get(config.provider) if config.provider is not None else None
    found: Resolved | Unresolved
    if config.provider is not None and provider is None:
        from term2_acp.providers.choosing.candidates import unknown_provider

        found = Unresolved(unknown_provider(config.provider, known))
    elif provider is None and config.model is None:
        choice = _first_usable(config, known, installed)
        found = Resolved(choice, tuple(_passed_over(known, choice)))
    elif provider is not None and config.model is None and provider.default_model is not None:
        found = Resolved(Decided(provider, provider.default_model))
    else:
        from term2_acp.providers.choosing.listed import Lists
        from term2_acp.providers.choosing.naming import Names

        names = Names(known, Lists(state, keep=keep, ask=ask), installed)
        if config.model is not None:
            found = names.meant(provider, config.model)
        else:
            assert provider is not None
            found = names.only_model(provider)
    if isinstance(found, Unresolved):
        culprit = "model" if config.model is not None and config.provider in (None, *known) else "provider"
        return Unresolved(f"{config.named_in(culprit)}{found.message}")
    effort = Effort(config.effort)
    refused = _refused_effort(effort, found.choice)
    if refused is not None:
        return Unresolved(f"{config.named_in('effort')}{refused}")
    return evolve(found, effort=effort, secrets=secrets_of(config, environ))


def _refused_effort(effort: Effort, choice: Choice) -> str | None:
    if effort is Effort.DEFAULT or not isinstance(choice, Decided) or not choice.provider.is_server:
        return None
    # The catalog, where an effort is set.
    from term2_acp.providers.catalog.efforts import refuse_effort
    from term2_acp.providers.catalog.stated import describe

    return refuse_effort(effort, describe(choice.provider, choice.model), choice.model)


# -- nothing is named ------------------------------------------------------------------------------


def _first_usable(config: Config, known: Mapping[str, Known], installed: Callable[[], Path | None]) -> Choice:
    asked: list[Known] = []
    for provider in _by_preference(config, known):
        if _is_usable(provider) and provider.default_model is not None:
            return Decided(provider, provider.default_model)
        if _is_usable(provider):
            asked.append(provider)
    embedded = known["local"]
    otherwise = embedded if embedded.type == "local" and installed() is not None else None
    if asked:
        return Undecided(tuple(asked), otherwise)
    for provider in map(known.__getitem__, BY_KEY_LAST):
        if _is_usable(provider) and provider.default_model is not None:
            return Decided(provider, provider.default_model)
    # Keys and tables that cannot be used are a configuration too: ports of this machine are none of theirs.
    if not any(each.configured for each in known.values()):
        return Undecided(discoverable(), otherwise, any_model=True, nothing=NOTHING_USABLE)
    if otherwise is not None:
        return Decided(otherwise, otherwise.models[0])
    problems = (each.problem for each in known.values() if each.configured and each.problem is not None)
    return Nothing(next(problems, NOTHING_USABLE))


def _passed_over(known: Mapping[str, Known], choice: Choice) -> Iterable[str]:
    """What the person has to be told of the configured providers that are not taken for a fault of theirs.

    A key that is missing is what tells providers apart, unless all that is left is the embedded model. A key
    that is there and cannot be used is a slip, and the bill or the answers would come from elsewhere.
    """
    left = isinstance(choice, Decided) and choice.provider.type == "local"
    if isinstance(choice, Nothing):
        return ()
    found = (each for each in known.values() if each.configured and each.problem is not None)
    return dict.fromkeys(each.problem or "" for each in found if left or each.key is not None)


def _is_usable(provider: Known) -> bool:
    return provider.is_server and provider.configured and provider.problem is None


def _by_preference(config: Config, known: Mapping[str, Known]) -> Iterable[Known]:
    names: list[str] = []
    for first in BY_KEY_FIRST:
        # A table may be the very server, under another name.
        same = (each.name for each in known.values() if each.server is not None and each.server.name == first)
        names += [first, *same]
    return [known[name] for name in dict.fromkeys((*names, *config.providers))]
