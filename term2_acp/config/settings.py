"""The settings as values, and which of them make sense together.

The checks here need nothing but the values, so a ``Config`` is sound however it was made. What is wrong
is raised as ``Wrong``, with the key it is about.
"""

import math
import re
from collections.abc import Mapping
from decimal import Decimal

from attrs import Attribute, field, fields

from term2_acp.config.presets_known import PRESET_NAMES
from term2_acp.domain.classes import frozen

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "default")
PROFILES = ("baseline", "full")

MOST_TOKENS = 1_000_000_000
"""Tokens that a context is believed to have. What is above is a slip of the keys."""

DEAREST_USD = 1_000_000
"""USD for a million tokens: a dollar for each of them. What is above is a slip too."""

MOST_DAYS = 36_500
"""Days that a session may be kept for: a century. What is above is a slip too, and time has no such dates."""

_NETWORK = frozenset({"base_url", "api_key_env", "api_key", "catalog"})

# What each type of provider takes beside `type` and `models`, and what of it it needs.
_ALLOWED: Mapping[str, frozenset[str]] = {
    "openai": _NETWORK,
    "openai-compatible": _NETWORK,
    "anthropic": _NETWORK,
    "local": frozenset(),
    "scripted": frozenset({"script"}),
    "chaos": frozenset({"seed"}),
}
_NEEDED: Mapping[str, str] = {"scripted": "script", "chaos": "seed"}

PROVIDER_TYPES = tuple(_ALLOWED)

MOST_SHOWN = 200
"""Characters of a value or a name that a diagnosis repeats."""

# Each of these is compiled with the first value that it is held against: an editor waits for the start.
_NAME = r"(?a)[A-Za-z0-9][A-Za-z0-9._-]{0,63}"  # it is written before the slash of `provider/model`
_URL = r"(?ai)https?://[^\s/?#]+[^\s?#]*"
_USER = r"(?ai)https?://[^/]*@"
_VARIABLE = r"(?a)[A-Za-z_][A-Za-z0-9_]*"
_KEY = r"(?a)[!-~]+"  # what an HTTP header can carry


class Wrong(ValueError):
    """A value that cannot be used.

    ``key`` is the setting's own name, several names for one in a table below, "" for the thing as a whole.
    """

    def __init__(self, key: str | tuple[str, ...], what: str) -> None:
        super().__init__(what)
        self.key = key
        self.what = what


def shown(value: str) -> str:
    """What a person wrote, quoted, and not much of it: an argument may have 128 KiB, a file a megabyte."""
    return repr(value if len(value) <= MOST_SHOWN else f"{value[:MOST_SHOWN]}...")


def one_of(key: str, value: str, choices: tuple[str, ...]) -> str:
    """The value, if it is one of the choices; else ``Wrong`` names them."""
    if value not in choices:
        raise Wrong(key, f"must be one of {', '.join(choices)}, not {shown(value)}")
    return value


def not_blank(key: str, value: str) -> str:
    """The value, if there is more than white space in it."""
    if not value.strip():
        raise Wrong(key, "must not be empty")
    return value


def _has_host(url: str) -> bool:
    """Whether a URL has a host, and a port that there is: a larger number would be another port's."""
    from urllib.parse import urlsplit  # where there is an address

    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _optional_text(_instance: object, attribute: "Attribute[str | None]", value: str | None) -> None:
    if value is not None:
        not_blank(attribute.name, value)


def _models(_instance: object, _attribute: object, value: tuple[str, ...] | None) -> None:
    if value is None:
        return
    if not value:
        raise Wrong("models", "must not be empty; leave it out if the models need no list")
    for model in value:
        not_blank("models", model)
    twice = next((model for model in value if value.count(model) > 1), None)
    if twice is not None:
        raise Wrong("models", f"names {shown(twice)} twice")


def _some_tokens(_instance: object, attribute: "Attribute[int | None]", value: int | None) -> None:
    if value is not None and not 0 < value <= MOST_TOKENS:
        raise Wrong(attribute.name, f"must be a number of tokens from 1 to {MOST_TOKENS}")


def _price(_instance: object, attribute: "Attribute[Decimal | None]", value: Decimal | None) -> None:
    if value is not None and not (value.is_finite() and 0 <= value <= DEAREST_USD):
        raise Wrong(attribute.name, f"must be USD for a million tokens, from 0 to {DEAREST_USD}")


def _levels(
    _instance: object, attribute: "Attribute[tuple[str, ...] | None]", value: tuple[str, ...] | None
) -> None:
    for level in value or ():
        one_of(attribute.name, level, EFFORTS[:-1])  # `default` is taken by every model
    if value is not None and len(set(value)) < len(value):
        raise Wrong(attribute.name, "names a level twice")


@frozen
class ModelSettings:
    """One ``[providers.NAME.catalog."MODEL"]`` table: what the person knows better of a model.

    None where the table says nothing. Prices are in USD for a million tokens, exactly as they are written.
    They are a whole: with any of them, ``input_usd`` and ``output_usd`` are there. ``efforts`` are the levels
    that the model takes, ``default`` apart.
    """

    context_tokens: int | None = field(default=None, validator=_some_tokens)
    output_tokens: int | None = field(default=None, validator=_some_tokens)
    images: bool | None = None
    efforts: tuple[str, ...] | None = field(default=None, validator=_levels)
    input_usd: Decimal | None = field(default=None, validator=_price)
    output_usd: Decimal | None = field(default=None, validator=_price)
    cache_read_usd: Decimal | None = field(default=None, validator=_price)
    cache_write_usd: Decimal | None = field(default=None, validator=_price)

    def __attrs_post_init__(self) -> None:
        given = [
            a.name
            for a in fields(type(self))
            if a.name.endswith("_usd") and getattr(self, a.name) is not None
        ]
        for name in ("input_usd", "output_usd"):
            if given and name not in given:
                raise Wrong(name, f"is missing; what a call costs cannot be told from {given[0]} alone")


def _catalog(_instance: object, _attribute: object, value: Mapping[str, ModelSettings]) -> None:
    for model in value:
        not_blank("catalog", model)


@frozen
class ProviderSettings:
    """One ``[providers.NAME]`` table.

    ``api_key`` never shows in ``repr``. ``models`` is None when the file lists none, and ``catalog`` has what
    it says of single models. ``script`` and ``seed`` belong to the types ``scripted`` and ``chaos``.
    """

    type: str
    base_url: str | None = field(default=None, validator=_optional_text)
    api_key_env: str | None = field(default=None, validator=_optional_text)
    api_key: str | None = field(default=None, repr=False, validator=_optional_text)
    models: tuple[str, ...] | None = field(default=None, validator=_models)
    script: str | None = field(default=None, validator=_optional_text)
    seed: int | None = None
    catalog: Mapping[str, ModelSettings] = field(factory=dict, validator=_catalog)

    def __attrs_post_init__(self) -> None:
        one_of("type", self.type, PROVIDER_TYPES)
        given = {
            name
            for name in ("base_url", "api_key_env", "api_key", "script", "seed", "catalog")
            if getattr(self, name) not in (None, {})
        }
        for name in sorted(given - _ALLOWED[self.type]):
            raise Wrong(name, f"has no meaning for a provider of type {self.type!r}")
        needed = _NEEDED.get(self.type)
        if needed is not None and needed not in given:
            raise Wrong(needed, f"is missing; a provider of type {self.type!r} needs it")
        if self.base_url is not None and not re.fullmatch(_URL, self.base_url):
            raise Wrong("base_url", "must be an http:// or https:// URL without a query")
        if self.base_url is not None and not _has_host(self.base_url):
            raise Wrong("base_url", "must have a host, and a port, if any, that is a number up to 65535")
        if self.base_url is not None and re.match(_USER, self.base_url):
            # It would take the place of the key on the wire, and nothing would know that it is a secret.
            raise Wrong("base_url", "must not hold a user name or a password; api_key_env names the key")
        if self.api_key_env is not None and not re.fullmatch(_VARIABLE, self.api_key_env):
            # Not repeated: people paste the key itself here.
            raise Wrong("api_key_env", "must be the name of an environment variable")
        if self.api_key is not None and not re.fullmatch(_KEY, self.api_key):
            raise Wrong("api_key", "must be printable ASCII without spaces")
        for model in self.catalog:
            if self.models is not None and model not in self.models:
                raise Wrong(("catalog", model), "describes a model that `models` does not list")


@frozen
class Limits:
    """``[limits]``: calls of the model in one turn, and seconds of silence that end a stream."""

    model_calls: int = 100
    idle_s: float = 120.0

    def __attrs_post_init__(self) -> None:
        if self.model_calls < 1:
            raise Wrong("model_calls", "must be at least 1")
        if not 0 < self.idle_s < math.inf:
            raise Wrong("idle_s", "must be a number of seconds above 0")


@frozen
class RetentionSettings:
    """``[retention]``: what term2 removes by itself; nothing where both are None.

    ``days`` is how long a session is kept after it was last active, ``sessions`` how many are kept.
    """

    days: int | None = None
    sessions: int | None = None

    def __attrs_post_init__(self) -> None:
        if self.days is not None and not 1 <= self.days <= MOST_DAYS:
            raise Wrong("days", f"must be a number of days from 1 to {MOST_DAYS}")
        if self.sessions is not None and self.sessions < 1:
            raise Wrong("sessions", "must be at least 1")


@frozen
class AcpSettings:
    """``[acp]``: what is advertised. ``full`` goes beyond the baseline."""

    profile: str = "baseline"

    def __attrs_post_init__(self) -> None:
        one_of("profile", self.profile, PROFILES)


def _providers(_instance: object, _attribute: object, value: Mapping[str, ProviderSettings]) -> None:
    for name, settings in value.items():
        if not re.fullmatch(_NAME, name):
            raise Wrong(
                "providers",
                f"{shown(name)} cannot be a provider's name; use letters, digits, '.', '_' and '-'",
            )
        if settings.type == "openai-compatible" and settings.base_url is None and name not in PRESET_NAMES:
            raise Wrong(
                ("providers", name, "base_url"),
                f"is missing; a provider of type {settings.type!r} needs it, but for those with a known name "
                f"({', '.join(sorted(PRESET_NAMES))})",
            )


@frozen
class Config:
    """Everything that was decided before the start.

    ``provider`` and ``model`` are None when nothing names them; whether they exist is for the catalog
    to say. ``source`` is the file that was read, if any. ``origins`` names the flag or the variable that a
    setting comes from, where it is not the file. ``warnings`` are lines for the log.
    """

    provider: str | None = field(default=None, validator=_optional_text)
    model: str | None = field(default=None, validator=_optional_text)
    effort: str = "default"
    providers: Mapping[str, ProviderSettings] = field(factory=dict, validator=_providers)
    limits: Limits = Limits()
    retention: RetentionSettings = RetentionSettings()
    acp: AcpSettings = AcpSettings()
    source: str | None = None
    origins: Mapping[str, str] = field(factory=dict)
    warnings: tuple[str, ...] = ()

    def __attrs_post_init__(self) -> None:
        one_of("effort", self.effort, EFFORTS)

    def named_in(self, key: str) -> str:
        """Where a setting at the top of the file comes from, as the beginning of a diagnostic line.

        It is ``file:key: ``, ``VARIABLE: `` or ``--flag: ``, and "" where nothing is known of it.
        """
        if key in self.origins:
            return f"{self.origins[key]}: "
        if self.source is not None and getattr(self, key) is not None:
            return f"{self.source}:{key}: "
        return ""
