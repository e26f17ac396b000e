"""The servers that are known by name: where they are, how they are spoken to, and whose keys they take.

A table, and how a URL is found in it. Pure: nothing is asked, read or looked up.

The default models are taken where a key is all that was given. Each is in the catalog, calls tools and is
what its vendor offers for code at an ordinary price: neither the largest, whose bill would be a surprise, nor
a small one, whose work would be.
"""

from collections.abc import Mapping
from typing import NamedTuple

RESPONSES = "openai"
MESSAGES = "anthropic"
CHAT = "openai-compatible"
"""How a server is spoken to: the types of the settings."""


class Preset(NamedTuple):  # every start makes this class; one of attrs takes a millisecond
    """One server that needs no table in the settings.

    ``keys`` are the environment variables that may hold its key, the first that is set counts; a server
    without any takes no key. ``catalog`` is its name in the catalog of models. ``model`` is taken where none
    is named. ``port`` is where it listens on this machine, for the servers that do. ``also`` are other
    addresses of the same server.
    """

    name: str
    type: str
    base_url: str
    keys: tuple[str, ...] = ()
    catalog: str | None = None
    model: str | None = None
    port: int | None = None
    also: tuple[str, ...] = ()


def _local(name: str, port: int) -> Preset:
    return Preset(name, CHAT, f"http://127.0.0.1:{port}/v1", port=port)


# In the order in which they are preferred. The local ones: first those whose port nobody else uses by habit,
# then those whose port is any web server's.
_TABLE = (
    Preset(
        "openai",
        RESPONSES,
        "https://api.openai.com/v1",
        ("OPENAI_API_KEY",),
        "openai",
        "gpt-5.4",  # the general model of its generation, at half the price of the flagship
    ),
    Preset(
        "anthropic",
        MESSAGES,
        "https://api.anthropic.com/v1",
        ("ANTHROPIC_API_KEY",),
        "anthropic",
        "claude-sonnet-4-6",  # the middle one of three sizes
    ),
    Preset(
        "openrouter",
        CHAT,
        "https://openrouter.ai/api/v1",
        ("OPENROUTER_API_KEY",),
        "openrouter",
        "anthropic/claude-sonnet-4.6",  # not its router: limits and price are known before the first call
    ),
    Preset(
        "groq",
        CHAT,
        "https://api.groq.com/openai/v1",
        ("GROQ_API_KEY",),
        "groq",
        "openai/gpt-oss-120b",  # the strongest that is no preview
    ),
    Preset(
        "mistral",
        CHAT,
        "https://api.mistral.ai/v1",
        ("MISTRAL_API_KEY",),
        "mistral",
        "devstral-medium-latest",  # made for coding agents
    ),
    Preset(
        "deepseek",
        CHAT,
        "https://api.deepseek.com",
        ("DEEPSEEK_API_KEY",),
        "deepseek",
        "deepseek-v4-pro",  # the stronger of two
        also=("https://api.deepseek.com/v1",),
    ),
    Preset(
        "gemini",
        CHAT,
        "https://generativelanguage.googleapis.com/v1beta/openai",
        ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        "google",
        "gemini-3.5-flash",  # the newest that is no preview
    ),
    _local("ollama", 11434),
    _local("lmstudio", 1234),
    _local("llama.cpp", 8080),
    _local("vllm", 8000),
)

PRESETS: Mapping[str, Preset] = {preset.name: preset for preset in _TABLE}
"""Every server that is known by name, in the order of preference."""

BY_KEY_FIRST = ("openai", "anthropic", "openrouter")
"""Taken before anything that the settings list, if their key is set."""

BY_KEY_LAST = tuple(p.name for p in _TABLE if p.keys and p.name not in BY_KEY_FIRST)
"""Taken, if their key is set, behind what the settings list."""

_DEFAULT_URLS = {RESPONSES: PRESETS["openai"].base_url, MESSAGES: PRESETS["anthropic"].base_url}


def default_url(name: str, kind: str) -> str:
    """Where a provider of this name and type is when its settings do not say; "" where nobody knows."""
    preset = PRESETS.get(name)
    if preset is not None and preset.type == kind:
        return preset.base_url
    return _DEFAULT_URLS.get(kind, preset.base_url if preset is not None else "")


def server_at(base_url: str) -> Preset | None:
    """The known server that has this address, whatever it is called in the settings."""
    return _BY_ADDRESS.get(_address(base_url))


def _address(base_url: str) -> str:
    """The URL in a form that is the same for the same server. It need not be a URL at all."""
    scheme, _, rest = base_url.strip().partition("://")
    host, _, path = rest.partition("/")
    scheme, host = scheme.lower(), host.lower()
    name, colon, port = host.rpartition(":")
    if not colon:
        name, port = host, ""
    if name in {"localhost", "[::1]"}:
        name = "127.0.0.1"
    if port == _USUAL_PORTS.get(scheme):
        port = ""
    return f"{scheme}://{name}:{port}/{path.strip('/')}"


_USUAL_PORTS = {"http": "80", "https": "443"}
_BY_ADDRESS = {_address(url): preset for preset in _TABLE for url in (preset.base_url, *preset.also)}
