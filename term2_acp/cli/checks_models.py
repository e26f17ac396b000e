"""The checks of ``term2 doctor`` for the model: which one prompts go to, what is known of it, who answers.

The provider is resolved by the function that a start calls, and a model that a start would look for with its
first prompt is looked for here in the same way. The server of the model that would be used is asked for its
list of models, with its key, and the usual ports of this machine for theirs; nobody else is asked, no prompt
is sent, and nothing is kept. All of it is bounded (``SERVER_S``, ``PORTS_S``).
"""

from collections.abc import Mapping

import trio
from attrs import evolve

from term2_acp.cli.health import Level, LocalServer, ModelHealth, ProviderHealth, ProvidersHealth
from term2_acp.config import Config, SettingsError, state_directory
from term2_acp.providers.base import AuthenticationFailed, NotUsable
from term2_acp.providers.catalog.stated import describe, is_described
from term2_acp.providers.choosing.choice import Choice, Decided, Nothing, Undecided, Unresolved
from term2_acp.providers.choosing.discovery import PORTS_S, nothing_sentence, several_sentence, taken
from term2_acp.providers.choosing.resolve import resolve
from term2_acp.providers.local.weights import HOW_TO_INSTALL, find_weights
from term2_acp.providers.servers.asking import Answers, ask_all
from term2_acp.providers.servers.known import Known, discoverable, known_providers
from term2_acp.providers.servers.listing import Listing
from term2_acp.providers.servers.model_server import NoList

# Seconds for the server of the model that would be used.
SERVER_S = 3.0

_WIRES = {"openai": "Responses", "openai-compatible": "Chat Completions", "anthropic": "Messages"}


def check_providers(
    config: Config | None, environ: Mapping[str, str]
) -> tuple[ProvidersHealth, Choice | None]:
    """Resolve the provider as a start does, and look at every other that can be named.

    The choice is None for settings that cannot be used or refuse a start. A server is asked where a start
    would ask it.
    """
    if config is None:
        return ProvidersHealth(Level.UNKNOWN, ("Not looked at: the settings cannot be used.",)), None
    known = tuple(map(_provider, known_providers(config, environ).values()))
    try:
        state: str | None = state_directory(environ)
    except SettingsError:  # a check of its own tells
        state = None
    resolved = resolve(config, environ, state, keep=False, installed=find_weights)
    if isinstance(resolved, Unresolved):
        return ProvidersHealth(Level.BROKEN, (resolved.message,), known=known), None
    health = _with(ProvidersHealth(Level.OK, known=known), *resolved.warnings)
    match resolved.choice:
        case Decided(provider, model):
            problem = _problem(provider)
            health = evolve(health, chosen=provider.name, model=model, about=_about(provider, model))
            return _with(health, problem), resolved.choice
        case Nothing(message):
            return _with(health, message), resolved.choice
    return health, resolved.choice


async def check_servers(health: ProvidersHealth, choice: Choice | None) -> ProvidersHealth:
    """Ask the server of the model that would be used, and the usual ports of this machine.

    Cancelled, the connections are closed.
    """
    ports = discoverable()
    here: Answers = {}
    asked: Answers = {}

    async def ask_ports() -> None:
        nonlocal here
        here = await ask_all(ports, PORTS_S)

    async def ask_chosen() -> None:
        nonlocal asked
        match choice:
            case Decided(provider, model) if provider.is_server and provider.problem is None:
                asked = await ask_all([provider], SERVER_S, about=model)
            case Undecided(servers, any_model=False):
                asked = await ask_all(servers, SERVER_S)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_ports)
        nursery.start_soon(ask_chosen)
    health = evolve(health, local_servers=tuple(_local_servers(ports, here)))
    match choice:
        case Decided(provider, model) if asked:
            return _answered(health, provider, model, asked)
        case Undecided():
            return _looked_for(health, choice, here if choice.any_model else asked)
    return health


def _answered(health: ProvidersHealth, provider: Known, model: str, answers: Answers) -> ProvidersHealth:
    """What the server of the model said."""
    answer = answers[provider.name]
    health = evolve(health, about=_about(provider, model, answer))
    if isinstance(answer, Listing):
        return health
    # A server need not have a list of models. One that refuses the key will refuse it again.
    refused = not answer.answered or isinstance(answer.error, AuthenticationFailed)
    return _with(health, answer.error.message if refused else None)


def _looked_for(health: ProvidersHealth, wanted: Undecided, answers: Answers) -> ProvidersHealth:
    """The model that a first prompt would find."""
    found = taken(wanted, answers)
    if found is not None and len(found.models) == 1:
        provider, model = found.provider, found.models[0]
        about = _about(provider, model, answers[provider.name])
        return evolve(health, chosen=provider.name, model=model, about=about)
    if found is not None:
        return _with(health, several_sentence(found))
    if wanted.otherwise is not None:
        return evolve(health, chosen=wanted.otherwise.name, model=wanted.otherwise.models[0])
    return _with(health, nothing_sentence(wanted, answers))


def _local_servers(ports: tuple[Known, ...], answers: Answers) -> list[LocalServer]:
    found = []
    for known in ports:
        answer = answers.get(known.name)
        if isinstance(answer, Listing):
            models = tuple(model.id for model in answer.models if model.talks)
            found.append(LocalServer(known.name, known.base_url, models))
    return found


def _about(provider: Known, model: str, answer: Listing | NoList | None = None) -> ModelHealth | None:
    """What is known of a model; ``answer`` is what its server said, where it was asked."""
    if not provider.is_server:
        return None
    entry = answer.named(model) if isinstance(answer, Listing) else None
    facts = entry.facts if entry is not None and not is_described(provider, model) else None
    info = describe(provider, model, facts)
    answers = None if answer is None else isinstance(answer, Listing) or answer.answered
    return ModelHealth(
        _WIRES[provider.type],
        provider.key_source if provider.key is not None else None,
        info.context_tokens,
        info.output_tokens,
        info.sees_images,
        info.prices is not None,
        answers,
    )


def _with(health: ProvidersHealth, *problems: str | None) -> ProvidersHealth:
    """The same with these problems too, each said once."""
    said = list(health.problems)
    for problem in problems:
        if problem is not None and not any(problem in each for each in said):
            said.append(problem)
    return evolve(health, level=Level.LESS if said else health.level, problems=tuple(said))


def _provider(known: Known) -> ProviderHealth:
    default = () if known.default_model is None else (known.default_model,)
    key = "not needed"
    if known.is_server:
        key = "set" if known.key else "missing" if known.problem else "none"
    return ProviderHealth(
        known.name,
        known.type,
        known.settings is not None,
        known.models or default,
        known.base_url or None,
        key,
        known.key_source if key == "set" else None,
        _problem(known),
    )


def _problem(known: Known) -> str | None:
    """What a prompt would end with, as far as that can be seen without asking a server."""
    if known.problem is not None:
        return known.problem
    if known.type == "local" and find_weights() is None:
        return f"The embedded model is not installed. For it, {HOW_TO_INSTALL}."
    if known.type == "scripted" and known.settings is not None:
        from term2_acp.providers.scripted.model import open_script  # only where there is a script

        try:
            open_script(known.settings.script or "")
        except NotUsable as error:
            return error.message
    return None
