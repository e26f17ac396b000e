"""The providers that can be named: those of the settings, the presets, and the embedded model.

Rules:

- A table of the settings takes the place of the preset whose name it has.
- A table whose ``base_url`` is that of a known server is that server, whatever its name: same key variable,
  same catalog. A table that only has the name of a preset is spoken to like it, and gets neither.
- A provider is *configured* if it has a table or if its key is set, unless a table says the same of the same
  server. The others can be named, but nothing is looked for among them; apart from the embedded model, which
  counts where it is installed.
- Keys come from the environment before the file. A key goes to the server it was named for and to no other.

Nobody is asked, and nothing is loaded that only a request needs.
"""

import re
from collections.abc import Mapping

from attrs import evolve, field

from term2_acp.config import Config, ProviderSettings, known_keys
from term2_acp.domain.classes import frozen
from term2_acp.providers.local.weights import MODEL_ID as LOCAL_MODEL
from term2_acp.providers.servers.presets import (
    CHAT,
    MESSAGES,
    PRESETS,
    RESPONSES,
    Preset,
    default_url,
    server_at,
)

SCRIPTED_MODEL = "scripted"
CHAOS_MODEL = "chaos"

_SERVERS = frozenset({RESPONSES, MESSAGES, CHAT})
_SENDABLE = r"[\x21-\x7e]+"  # compiled with the first key


@frozen(eq=False)
class Known:
    """A provider that can be named.

    ``models`` is what the settings list, or all that there is; empty where others have to say. ``server``
    is the preset whose server it is, ``like`` the one that it is spoken to like. ``default_model`` is taken
    where none is named. ``key_source`` is what the key comes from, or would. ``problem`` says, to the person,
    why it cannot be used. ``settings`` is its table.
    """

    name: str
    type: str
    base_url: str = ""
    key: str | None = field(default=None, repr=False)
    key_source: str = ""
    models: tuple[str, ...] = ()
    default_model: str | None = None
    configured: bool = False
    server: Preset | None = None
    like: Preset | None = None
    problem: str | None = None
    settings: ProviderSettings | None = field(default=None, repr=False)

    @property
    def is_server(self) -> bool:
        """Whether it is asked over HTTP."""
        return self.type in _SERVERS

    @property
    def catalog(self) -> str | None:
        """Its name in the catalog of models; None for a server that is not a known one."""
        return self.server.catalog if self.server is not None else None

    @property
    def runs_here(self) -> bool:
        """Whether its server runs on this machine, by its address."""
        from term2_acp.web.client import is_loopback  # with Trio; a start needs it for few providers

        return is_loopback(host_of(self.base_url))


def known_providers(config: Config, environ: Mapping[str, str]) -> Mapping[str, Known]:
    """Every provider that can be named, those of the settings first, in their order."""
    known = {name: _of_settings(name, settings, environ) for name, settings in config.providers.items()}
    tables = list(known.values())
    for preset in PRESETS.values():
        if preset.name not in known:
            provider = _of_preset(preset, environ)
            twin = any(table.server is preset and table.key == provider.key for table in tables)
            known[preset.name] = evolve(provider, configured=provider.configured and not twin)
    known.setdefault("local", _local("local"))
    return known


def discoverable() -> tuple[Known, ...]:
    """The servers that may run on this machine, in the order in which they are preferred."""
    return tuple(_of_preset(preset, {}) for preset in PRESETS.values() if preset.port is not None)


def secrets_of(config: Config, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Every key that is known, also as it is sent: without the white space that came along."""
    keys = known_keys(config, environ)
    return tuple(dict.fromkeys(key for key in (*keys, *(key.strip() for key in keys)) if key))


def host_of(base_url: str) -> str:
    """The host in a URL, in lower case, without its port and the brackets of an address."""
    host = base_url.partition("://")[2].partition("/")[0].lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _local(name: str) -> Known:
    return Known(name, "local", models=(LOCAL_MODEL,), default_model=LOCAL_MODEL)


def _of_preset(preset: Preset, environ: Mapping[str, str]) -> Known:
    known = Known(
        preset.name,
        preset.type,
        preset.base_url,
        default_model=preset.model,
        server=preset,
        like=preset,
    )
    known = _with_key(known, preset.keys, None, environ)
    return evolve(known, configured=known.key is not None)


def _of_settings(name: str, settings: ProviderSettings, environ: Mapping[str, str]) -> Known:
    if settings.type == "local":
        return evolve(_local(name), configured=True, settings=settings)
    models = settings.models or ()
    if settings.type in {"scripted", "chaos"}:
        models = models or ((SCRIPTED_MODEL,) if settings.type == "scripted" else (CHAOS_MODEL,))
        return Known(
            name, settings.type, models=models, default_model=models[0], configured=True, settings=settings
        )
    base_url = settings.base_url or default_url(name, settings.type)
    server = server_at(base_url)
    default = models[0] if models else server.model if server is not None else None
    known = Known(
        name,
        settings.type,
        base_url,
        models=models,
        default_model=default,
        configured=True,
        server=server,
        like=server or PRESETS.get(name),
        settings=settings,
    )
    return _with_key(known, server.keys if server is not None else (), settings, environ)


def _with_key(
    known: Known, usual: tuple[str, ...], settings: ProviderSettings | None, environ: Mapping[str, str]
) -> Known:
    """The provider with its key, or the problem that it has none.

    ``usual`` are the variables of the server itself. What the settings name for it comes before them.
    """
    named = settings.api_key_env if settings is not None else None
    variables = (named,) if named is not None else usual
    source = variables[0] if variables else "api_key_env"
    key = ""
    for variable in variables:
        key = environ.get(variable, "").strip()
        if key:
            source = variable
            break
    if not key and settings is not None and settings.api_key:
        key, source = settings.api_key.strip(), f"api_key in [providers.{known.name}]"
    problem = None
    if key and not re.fullmatch(_SENDABLE, key):
        problem = f"The key in {source} holds characters that cannot be sent; set it again."
    elif not key and variables:
        problem = f"Set {source} to the key of the provider {known.name}."
    return evolve(known, key=key or None, key_source=source, problem=problem)
