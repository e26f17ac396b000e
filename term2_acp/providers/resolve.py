"""Which provider and model the settings mean. Nobody is asked: no server, no catalog, no person.

Rules:

- A model is named by its exact id, or by ``provider/model``. With a provider named too, the whole string is
  an id of that provider.
- What could mean two things, a pattern, and what nothing knows are refused with the candidates named.
- A provider whose settings list no models takes an id as written, with a warning, if the provider was named.
- Without a provider, the first usable one is taken: ``openai`` and ``openrouter`` by their keys, then the
  servers of the settings in their order, then ``local`` if it is installed. When there is none, the daemon
  starts all the same, and a prompt says what to set. A script is played only when it is named.
- Keys come from the environment before the file. A key goes to the server it was named for and to no other.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from attrs import evolve, field, frozen

from term2_acp.config import Config, ProviderSettings, known_keys
from term2_acp.domain.effort import Effort
from term2_acp.providers.weights import HOW_TO_INSTALL, find_weights
from term2_acp.providers.weights import MODEL_ID as LOCAL_MODEL

if TYPE_CHECKING:  # its values cost a tenth of the start, and are needed with the first session
    from term2_acp.providers.base import Provider

OPENAI_URL = "https://api.openai.com/v1"
OPENROUTER_URL = "https://openrouter.ai/api/v1"
OPENAI_MODEL = "gpt-5"
OPENROUTER_MODEL = "openrouter/auto"  # both are taken where a key is all that was given
SCRIPTED_MODEL = "scripted"

_TYPES = frozenset({"openai", "openai-compatible", "local", "scripted"})
_DEFAULT_KEYS = {OPENAI_URL: "OPENAI_API_KEY", OPENROUTER_URL: "OPENROUTER_API_KEY"}
# Candidates that a refusal names.
_MOST_CANDIDATES = 8
_PATTERN = re.compile(r"[*?\[\]{}\s\x00-\x1f\x7f]")
_SENDABLE = re.compile(r"[\x21-\x7e]+")

NOTHING_USABLE = (
    "No model is configured. Set OPENAI_API_KEY or OPENROUTER_API_KEY, or add a [providers.NAME] table to "
    f"settings.toml. For the embedded smoke-test model, {HOW_TO_INSTALL}."
)


@frozen
class Resolved:
    """The provider and the model of this process.

    ``provider`` is the name in the settings. ``problem`` says why the provider cannot be used, for the
    person; prompts then end with it. ``secrets`` are all keys that this process knows, for redaction.
    """

    provider: str
    type: str
    model: str
    effort: Effort
    base_url: str = ""
    key: str | None = field(default=None, repr=False)
    key_source: str = ""
    script: str = ""
    problem: str | None = None
    warnings: tuple[str, ...] = ()
    secrets: tuple[str, ...] = field(default=(), repr=False)


@frozen
class Unresolved:
    """The start is refused. ``message`` is one line for the person, with the candidates in it."""

    message: str


@frozen
class _Known:
    """A provider that can be named: one of the settings, or one that needs none."""

    name: str
    type: str
    base_url: str = ""
    key: str | None = field(default=None, repr=False)
    key_source: str = ""
    models: tuple[str, ...] = ()
    default_model: str | None = None
    script: str = ""
    problem: str | None = None


@frozen
class _Chosen:
    provider: _Known
    model: str
    warnings: tuple[str, ...] = ()


def resolve(
    config: Config,
    environ: Mapping[str, str],
    *,
    installed: Callable[[], Path | None] = find_weights,
) -> Resolved | Unresolved:
    """Find what ``config`` means. ``installed`` finds the weights of the embedded model."""
    known = _known_providers(config, environ)
    if config.provider is not None and config.provider not in known:
        where = config.named_in("provider")
        return Unresolved(f"{where}unknown provider {config.provider!r}; there are {', '.join(known)}")
    if config.model is not None:
        chosen = _choose_model(config.provider, config.model, known)
    elif config.provider is not None:
        chosen = _default_of(known[config.provider])
    else:
        first = _first_usable(config, known, installed)
        if first is None:
            return Resolved(
                "none",
                "none",
                "none",
                Effort(config.effort),
                problem=NOTHING_USABLE,
                secrets=_secrets(config, environ),
            )
        chosen = _default_of(first)
    if isinstance(chosen, _Chosen):
        chosen = _not_built(chosen.provider) or chosen
    if isinstance(chosen, Unresolved):
        where = config.named_in("provider" if config.model is None else "model")
        return Unresolved(f"{where}{chosen.message}")
    provider = chosen.provider
    return Resolved(
        provider.name,
        provider.type,
        chosen.model,
        Effort(config.effort),
        provider.base_url,
        provider.key,
        provider.key_source,
        provider.script,
        provider.problem,
        chosen.warnings,
        _secrets(config, environ),
    )


def open_provider(resolved: Resolved, idle_s: float) -> "Provider":
    """Make the provider. Nothing is connected, started or loaded before its first request.

    ``idle_s`` is the longest silence of a stream, in seconds.
    """
    # Each import is for its own kind alone, and none is needed to answer `initialize`.
    from term2_acp.providers.base import NotUsable
    from term2_acp.providers.unusable import Unusable

    if resolved.problem is not None:
        return Unusable(resolved.provider, resolved.problem)
    if resolved.type == "local":
        from term2_acp.providers.local import LocalModel

        return LocalModel(resolved.provider, find_weights(), idle_s=idle_s)
    if resolved.type == "scripted":
        from term2_acp.providers.scripted import Scripted, open_script

        try:
            return Scripted(resolved.provider, open_script(resolved.script))
        except NotUsable as error:
            return Unusable(resolved.provider, error.message)
    from term2_acp.providers.chat_wire import ChatWire
    from term2_acp.providers.http_provider import HttpProvider

    return HttpProvider(
        resolved.provider,
        ChatWire(),
        resolved.base_url,
        resolved.key,
        idle_s=idle_s,
        key_source=resolved.key_source,
    )


# -- what there is


def _known_providers(config: Config, environ: Mapping[str, str]) -> dict[str, _Known]:
    known = {
        "openai": _with_key(
            _Known("openai", "openai", OPENAI_URL, default_model=OPENAI_MODEL), None, environ
        ),
        "openrouter": _with_key(
            _Known("openrouter", "openai-compatible", OPENROUTER_URL, default_model=OPENROUTER_MODEL),
            None,
            environ,
        ),
        "local": _Known("local", "local", models=(LOCAL_MODEL,), default_model=LOCAL_MODEL),
    }
    known.update((name, _configured(name, settings, environ)) for name, settings in config.providers.items())
    return known


def _configured(name: str, settings: ProviderSettings, environ: Mapping[str, str]) -> _Known:
    models = settings.models or ()
    if settings.type == "local":
        return _Known(name, "local", models=(LOCAL_MODEL,), default_model=LOCAL_MODEL)
    if settings.type == "scripted":
        models = models or (SCRIPTED_MODEL,)
        return _Known(name, "scripted", models=models, default_model=models[0], script=settings.script or "")
    base_url, default = settings.base_url or "", models[0] if models else None
    if settings.type == "openai":
        base_url, default = base_url or OPENAI_URL, default or OPENAI_MODEL
    elif base_url.rstrip("/") == OPENROUTER_URL:
        default = default or OPENROUTER_MODEL
    known = _Known(name, settings.type, base_url, models=models, default_model=default)
    return _with_key(known, settings, environ)


def _with_key(known: _Known, settings: ProviderSettings | None, environ: Mapping[str, str]) -> _Known:
    """The provider with its key, or the problem that it has none."""
    variable = settings.api_key_env if settings is not None else None
    if variable is None:
        # A default key goes to its own server; any other gets what its settings name for it.
        variable = _DEFAULT_KEYS.get(known.base_url.rstrip("/"))
    key = environ.get(variable, "").strip() if variable is not None else ""
    source = variable or "api_key_env"
    if not key and settings is not None and settings.api_key:
        key, source = settings.api_key.strip(), f"api_key in [providers.{known.name}]"
    problem = known.problem
    if key and not _SENDABLE.fullmatch(key):
        problem = f"The key in {source} holds characters that cannot be sent; set it again."
    elif not key and variable is not None:
        problem = f"Set {variable} to the key of the provider {known.name}."
    return evolve(known, key=key or None, key_source=source, problem=problem)


def _secrets(config: Config, environ: Mapping[str, str]) -> tuple[str, ...]:
    keys = known_keys(config, environ)  # and as they are sent: without the line end that came along
    return tuple(dict.fromkeys(key for key in (*keys, *(key.strip() for key in keys)) if key))


# -- which one is meant ----------------------------------------------------------------------------


def _first_usable(
    config: Config, known: Mapping[str, _Known], installed: Callable[[], Path | None]
) -> _Known | None:
    for name in dict.fromkeys(("openai", "openrouter", *config.providers)):
        provider = known[name]
        servers = provider.type in {"openai", "openai-compatible"}
        if servers and provider.problem is None and provider.default_model is not None:
            return provider
    local = known["local"]
    return local if local.type == "local" and installed() is not None else None


def _not_built(provider: _Known) -> Unresolved | None:
    if provider.type in _TYPES:
        return None
    types = ", ".join(sorted(_TYPES))
    return Unresolved(
        f"[providers.{provider.name}]: type {provider.type!r} is not available yet; there are {types}"
    )


def _default_of(provider: _Known) -> _Chosen | Unresolved:
    not_built = _not_built(provider)
    if not_built is not None:
        return not_built
    if provider.default_model is None:
        return Unresolved(
            f"no model is set, and [providers.{provider.name}] lists none; set `model`, or `models` there"
        )
    return _Chosen(provider, provider.default_model)


def _choose_model(name: str | None, model: str, known: Mapping[str, _Known]) -> _Chosen | Unresolved:
    if name is not None:
        return _of_provider(known[name], model)
    by_id = [_Chosen(provider, model) for provider in known.values() if model in provider.models]
    if not by_id:
        # An id that we know, though nothing lists it.
        usable = (provider for provider in known.values() if provider.problem is None)
        by_id = [_Chosen(provider, model) for provider in usable if model == provider.default_model]
    prefix, slash, rest = model.partition("/")
    pair = _of_provider(known[prefix], rest) if slash and prefix in known else None
    found = by_id + ([pair] if isinstance(pair, _Chosen) else [])
    if len(found) == 1:
        return found[0]
    if found:
        # `provider/model` alone cannot tell them apart when the string is itself an id.
        ways = ", ".join(f"--provider {c.provider.name} --model {c.model}" for c in found[:_MOST_CANDIDATES])
        return Unresolved(f"model {model!r} is ambiguous; say which: {ways}")
    if isinstance(pair, Unresolved):
        return pair
    return _unknown(model, known.values())


def _of_provider(provider: _Known, model: str) -> _Chosen | Unresolved:
    if model in provider.models:
        return _Chosen(provider, model)
    if provider.models:
        return _unknown(model, [provider])
    if not model or _PATTERN.search(model):
        return Unresolved(f"model {model!r} is no id; write the whole id of a model of {provider.name}")
    if model == provider.default_model:
        return _Chosen(provider, model)
    return _Chosen(
        provider, model, (f"the models of {provider.name} are not listed; {model!r} is taken as written",)
    )


def _unknown(model: str, providers: Iterable[_Known]) -> Unresolved:
    """No provider knows the model: say which models there are, and how to name one that is not listed."""
    listed: list[str] = []
    unlisted: list[str] = []
    for provider in providers:
        listed += [f"{provider.name}/{known}" for known in provider.models]
        if not provider.models and provider.problem is None:
            unlisted.append(f"{provider.name}/MODEL")
    candidates = listed[:_MOST_CANDIDATES] + (["..."] if len(listed) > _MOST_CANDIDATES else []) + unlisted
    return Unresolved(f"unknown model {model!r}; there are {', '.join(candidates) or 'none'}")
