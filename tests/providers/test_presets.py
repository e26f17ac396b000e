"""The table of servers that are known by name: held to the catalog, to the dialects and to the settings, and
found by address however it is spelt."""

import pytest

from term2_acp.config import PRESET_NAMES, Config, known_keys
from term2_acp.providers.catalog.catalog import catalog_info, catalog_models
from term2_acp.providers.chat.dialects import DIALECTS
from term2_acp.providers.servers.known import host_of
from term2_acp.providers.servers.presets import (
    BY_KEY_FIRST,
    BY_KEY_LAST,
    CHAT,
    MESSAGES,
    PRESETS,
    RESPONSES,
    Preset,
    default_url,
    server_at,
)

HOSTED = [preset for preset in PRESETS.values() if preset.keys]


def test_it_names_whom_the_settings_and_the_dialects_name() -> None:
    assert set(PRESETS) == PRESET_NAMES
    assert {name for name, preset in PRESETS.items() if preset.type == CHAT} <= set(DIALECTS)
    # Whatever is in a variable that a preset reads is a secret.
    keys = {variable: f"key of {variable}" for preset in HOSTED for variable in preset.keys}
    assert set(known_keys(Config(), keys)) == set(keys.values())


@pytest.mark.parametrize("preset", HOSTED, ids=lambda preset: preset.name)
def test_a_default_model_is_in_the_catalog_priced_and_calls_tools(preset: Preset) -> None:
    assert preset.catalog is not None
    assert preset.model is not None
    assert preset.model in catalog_models(preset.catalog)  # those that talk and call tools
    info = catalog_info(preset.catalog, preset.model)
    assert info is not None
    assert info.prices is not None
    assert info.context_tokens >= 100_000


def test_the_order_and_the_kinds() -> None:
    assert BY_KEY_FIRST == ("openai", "anthropic", "openrouter")
    assert BY_KEY_LAST == ("groq", "mistral", "deepseek", "gemini")
    assert (PRESETS["openai"].type, PRESETS["anthropic"].type) == (RESPONSES, MESSAGES)
    assert {preset.name: preset.port for preset in PRESETS.values() if preset.port} == {
        "ollama": 11434,
        "lmstudio": 1234,
        "llama.cpp": 8080,
        "vllm": 8000,
    }


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("HTTPS://OpenRouter.AI:443/api/v1/", "openrouter"),
        ("http://localhost:11434/v1", "ollama"),
        ("http://127.0.0.1:11434/v1/", "ollama"),
        ("http://[::1]:8080/v1", "llama.cpp"),
        ("https://api.deepseek.com/v1", "deepseek"),
        ("https://api.deepseek.com", "deepseek"),
        ("http://openrouter.ai/api/v1", None),
        ("https://openrouter.ai:8443/api/v1", None),
        ("https://openrouter.ai.evil.example/api/v1", None),
        ("https://openrouter.ai@evil.example/api/v1", None),
        ("https://evil.example/https://openrouter.ai/api/v1", None),
        ("https://api.openai.com", None),
        ("http://127.0.0.1:11435/v1", None),
        ("", None),
        ("http://[", None),
    ],
)
def test_a_server_is_found_by_its_address_alone(url: str, name: str | None) -> None:
    found = server_at(url)
    assert (found.name if found is not None else None) == name


@pytest.mark.parametrize(
    ("name", "kind", "url"),
    [
        ("groq", CHAT, "https://api.groq.com/openai/v1"),
        ("openai", CHAT, "https://api.openai.com/v1"),
        ("mine", RESPONSES, "https://api.openai.com/v1"),
        ("mine", MESSAGES, "https://api.anthropic.com/v1"),
        ("groq", RESPONSES, "https://api.openai.com/v1"),
        ("mine", CHAT, ""),
    ],
)
def test_where_a_table_without_an_address_is(name: str, kind: str, url: str) -> None:
    assert default_url(name, kind) == url


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://127.0.0.1:8080/v1", "127.0.0.1"),
        ("http://[::1]:8080/v1", "::1"),
        ("https://api.openai.com/v1", "api.openai.com"),
        ("https://api.openai.com", "api.openai.com"),
        ("HTTP://LocalHost:8080/v1", "localhost"),
        ("nothing", ""),
    ],
)
def test_the_host_in_a_url(url: str, host: str) -> None:
    assert host_of(url) == host
