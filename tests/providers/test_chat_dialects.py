"""The table of dialects: every known server of this wire has one; and which words each uses for how hard a
model should think. ``default`` is never asked for, and no server gets a word that it refuses."""

from typing import Any

import pytest

from term2_acp.providers.base import Effort
from term2_acp.providers.chat.dialects import DIALECTS, PLAIN, dialect_of
from term2_acp.providers.servers.presets import CHAT, PRESETS

LEVELS = ["none", "minimal", "low", "medium", "high", "xhigh"]


def test_every_preset_of_this_wire_has_a_dialect() -> None:
    chat = {name for name, preset in PRESETS.items() if preset.type == CHAT}
    assert set(DIALECTS) == chat | {"openai"}
    assert dialect_of("mistral") is DIALECTS["mistral"]
    assert dialect_of("lab") is PLAIN


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("openai", LEVELS),
        ("vllm", LEVELS),
        ("ollama", ["none", "low", "low", "medium", "high", "high"]),
        ("lmstudio", ["none", "low", "low", "medium", "high", "xhigh"]),
        ("groq", ["none", "low", "low", "medium", "high", "high"]),
        ("mistral", ["none", "low", "low", "medium", "high", "high"]),
        ("gemini", ["none", "minimal", "low", "medium", "high", "high"]),
        ("lab", LEVELS),
    ],
)
def test_servers_that_take_a_word(name: str, words: list[str]) -> None:
    dialect = dialect_of(name)
    assert [dialect.effort(Effort(level)) for level in LEVELS] == [
        {"reasoning_effort": word} for word in words
    ]


@pytest.mark.parametrize(
    ("name", "level", "fields"),
    [
        ("openrouter", "none", {"reasoning": {"effort": "none"}}),
        ("openrouter", "xhigh", {"reasoning": {"effort": "xhigh"}}),
        ("deepseek", "none", {"thinking": {"type": "disabled"}}),
        ("deepseek", "minimal", {"thinking": {"type": "enabled"}, "reasoning_effort": "low"}),
        ("deepseek", "xhigh", {"thinking": {"type": "enabled"}, "reasoning_effort": "max"}),
        ("llama.cpp", "none", {"chat_template_kwargs": {"enable_thinking": False}}),
        (
            "llama.cpp",
            "xhigh",
            {"chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": "high"}},
        ),
    ],
)
def test_servers_with_a_way_of_their_own(name: str, level: str, fields: dict[str, Any]) -> None:
    assert DIALECTS[name].effort(Effort(level)) == fields
