"""Which efforts a model takes: a row for each family that is documented, what is unknown, and the sentence
that refuses a start."""

import pytest

from term2_acp.domain.effort import Effort
from term2_acp.providers.catalog.efforts import efforts_of, refuse_effort
from term2_acp.providers.request import ModelInfo

ALL = "none minimal low medium high xhigh"


def levels(text: str) -> frozenset[Effort]:
    return frozenset(map(Effort, text.split()))


@pytest.mark.parametrize(
    ("vendor", "model", "taken"),
    [
        ("openai", "gpt-5", "minimal low medium high"),
        ("openai", "gpt-5-mini-2025-08-07", "minimal low medium high"),
        ("openai", "gpt-5-codex", "low medium high"),
        ("openai", "gpt-5-pro-2025-10-06", "high"),
        ("openai", "gpt-5.1", "none low medium high"),
        ("openai", "gpt-5.1-codex-mini", "low medium high"),
        ("openai", "gpt-5.1-codex-max", "low medium high xhigh"),
        ("openai", "gpt-5.1-chat-latest", "medium"),
        ("openai", "gpt-5.2-2025-12-11", "none low medium high xhigh"),
        ("openai", "gpt-5.2-pro", "medium high xhigh"),
        ("openai", "gpt-5.3-codex", "low medium high xhigh"),
        ("openai", "gpt-5.4-nano", "none low medium high xhigh"),
        ("openai", "gpt-5.6-terra", "none low medium high xhigh"),
        ("openai", "o3", "low medium high"),
        ("openai", "o4-mini-2025-04-16", "low medium high"),
        ("openai", "o3-deep-research", "medium"),
        ("openai", "gpt-4.1-mini", ""),
        ("openai", "gpt-4o-2024-08-06", ""),
        ("openai", "gpt-5-chat-latest", ""),
        # A budget of tokens has room for each level; an effort has no word for the least one.
        ("anthropic", "claude-sonnet-4-5-20250929", ALL),
        ("anthropic", "claude-3-7-sonnet-20250219", ALL),
        ("anthropic", "claude-sonnet-4-6", "none low medium high xhigh"),
        ("anthropic", "claude-opus-4-7", "none low medium high xhigh"),
        ("anthropic", "claude-haiku-5-5", "none low medium high xhigh"),
        ("anthropic", "claude-opus-5-5", "low medium high xhigh"),
        ("anthropic", "claude-fable-5-1", "low medium high xhigh"),
        ("anthropic", "claude-3-5-haiku-latest", ""),
        ("google", "gemini-2.5-flash", "none minimal low medium high"),
        ("google", "models/gemini-2.5-pro", "minimal low medium high"),
        ("google", "gemini-3-pro-preview", "low high"),
        ("google", "gemini-3.1-pro-preview", "low medium high"),
        ("google", "gemini-3.1-flash-lite", "minimal low medium high"),
        ("google", "gemini-2.0-flash", ""),
        ("groq", "openai/gpt-oss-120b", "low medium high"),
        ("groq", "qwen/qwen3-32b", "none"),
        ("mistral", "mistral-small-2603", "none high"),
        ("mistral", "mistral-medium-3-5", "none high"),
        ("deepseek", "deepseek-v4-pro", ALL),
        ("openrouter", "anthropic/claude-sonnet-4.6", ALL),
        ("openrouter", "who/knows", ALL),
    ],
)
def test_a_documented_family(vendor: str, model: str, taken: str) -> None:
    assert efforts_of(vendor, model) == levels(taken)


@pytest.mark.parametrize(
    ("vendor", "model"),
    [
        ("openai", "gpt-7"),
        ("openai", "gpt-5.9"),
        ("openai", "gpt-50"),
        ("openai", "o5"),
        ("openai", "my-fine-tune"),
        ("anthropic", "kimi-k2"),
        ("google", "gemini-flash-latest"),
        ("groq", "groq/compound"),
        ("mistral", "mistral-small-latest"),
        ("deepseek", "deepseek-chat"),
        ("ollama", "gpt-oss:20b"),
        (None, "gpt-5"),
    ],
)
def test_what_nobody_has_said_is_unknown(vendor: str | None, model: str) -> None:
    assert efforts_of(vendor, model) is None


def test_a_model_that_does_not_think_takes_none_where_the_server_would_refuse() -> None:
    assert efforts_of("groq", "llama-3.3-70b-versatile", thinks=False) == frozenset()
    assert efforts_of("groq", "llama-3.3-70b-versatile", thinks=True) is None
    assert efforts_of("deepseek", "deepseek-chat", thinks=False) is None
    # The catalog is older than what such a name leads to today.
    assert efforts_of("mistral", "mistral-large-latest", thinks=False) is None
    # A row of the table knows better than the catalog.
    assert efforts_of("openai", "gpt-5.1", thinks=False) == levels("none low medium high")


def test_a_level_that_is_not_taken_is_refused_with_those_that_are() -> None:
    info = ModelInfo(efforts=levels("high minimal medium low"))
    assert refuse_effort(Effort.XHIGH, info, "gpt-5") == (
        "gpt-5 does not take the effort 'xhigh'; it takes minimal, low, medium, high, default"
    )
    assert refuse_effort(Effort.LOW, ModelInfo(efforts=frozenset()), "gpt-4o") == (
        "gpt-4o does not take the effort 'low'; it takes default"
    )
    assert refuse_effort(Effort.LOW, info, "gpt-5") is None


@pytest.mark.parametrize("effort", list(Effort))
def test_default_is_always_taken_and_so_is_any_level_of_an_unknown_model(effort: Effort) -> None:
    assert refuse_effort(effort, ModelInfo(efforts=None), "m") is None
    assert refuse_effort(Effort.DEFAULT, ModelInfo(efforts=frozenset()), "m") is None
    if effort is not Effort.DEFAULT:
        assert refuse_effort(effort, ModelInfo(efforts=frozenset()), "m") is not None
