"""The table from models and efforts to what the Messages wire says of thinking: what each generation of
models takes and nothing else, whatever prefix or date a platform adds to its id."""

from typing import Any

import pytest

from term2_acp.domain.effort import Effort
from term2_acp.providers.anthropic.thinking import Way, family_of, thinking_for

ADAPTIVE = {"type": "adaptive"}
SHOWN = {"type": "adaptive", "display": "summarized"}
BOUND = {**SHOWN, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
OFF = {"type": "disabled"}
# Long enough for every budget.
LONG = 64_000


def budget(tokens: int) -> dict[str, Any]:
    return {"type": "enabled", "budget_tokens": tokens}


# For each effort: what `thinking` and `output_config.effort` are, None where they are not sent.
TABLE: dict[str, dict[str, tuple[dict[str, Any] | None, str | None]]] = {
    # Thinking is always on. Thoughts are bound to their conversation.
    "claude-opus-5-5 claude-fable-5-1 claude-fable-5-2 claude-mythos-5-1": {
        "default": (BOUND, None),
        "none": (BOUND, "low"),
        "minimal": (BOUND, "low"),
        "low": (BOUND, "low"),
        "medium": (BOUND, "medium"),
        "high": (BOUND, "high"),
        "xhigh": (BOUND, "xhigh"),
    },
    # The same, and thoughts are not bound.
    "claude-fable-5 claude-mythos-5": {
        "default": (SHOWN, None),
        "none": (SHOWN, "low"),
        "xhigh": (SHOWN, "xhigh"),
    },
    "claude-sonnet-5-5": {
        "default": (BOUND, None),
        "none": ({"type": "between_tools"}, None),
        "medium": (BOUND, "medium"),
        "xhigh": (BOUND, "xhigh"),
    },
    "claude-haiku-5-5": {
        "default": (BOUND, None),
        "none": (OFF, None),
        "medium": (BOUND, "medium"),
        "xhigh": (BOUND, "xhigh"),
    },
    "claude-opus-5 claude-sonnet-5": {
        "default": (SHOWN, None),
        "none": (OFF, None),
        "low": (SHOWN, "low"),
        "xhigh": (SHOWN, "xhigh"),
    },
    # These think only when they are told to.
    "claude-opus-4-8 claude-opus-4-7": {
        "default": (None, None),
        "none": (OFF, None),
        "minimal": (SHOWN, "low"),
        "xhigh": (SHOWN, "xhigh"),
    },
    "claude-opus-4-6 claude-sonnet-4-6": {
        "default": (None, None),
        "none": (OFF, None),
        "high": (ADAPTIVE, "high"),
        "xhigh": (ADAPTIVE, "max"),
    },
    "claude-opus-4-5": {
        "default": (None, None),
        "none": (OFF, None),
        "minimal": (budget(1_024), "low"),
        "low": (budget(4_096), "low"),
        "medium": (budget(8_192), "medium"),
        "high": (budget(16_384), "high"),
        "xhigh": (budget(32_000), "high"),
    },
    "claude-sonnet-4-5 claude-haiku-4-5 claude-opus-4-1 claude-opus-4-0 claude-3-7-sonnet": {
        "default": (None, None),
        "none": (OFF, None),
        "minimal": (budget(1_024), None),
        "low": (budget(4_096), None),
        "medium": (budget(8_192), None),
        "high": (budget(16_384), None),
        "xhigh": (budget(32_000), None),
    },
    "claude-3-5-sonnet claude-3-opus claude-2.1 claude-instant-1.2": {
        effort.value: (None, None) for effort in Effort
    },
    # Other makers' models on this wire.
    "kimi-k2-thinking deepseek-v4 glm-5": {
        "default": (None, None),
        "none": (OFF, None),
        "high": (budget(16_384), None),
    },
}
ROWS = [
    (model, effort, thinking, level)
    for models, efforts in TABLE.items()
    for model in models.split()
    for effort, (thinking, level) in efforts.items()
]


@pytest.mark.parametrize(("model", "effort", "thinking", "level"), ROWS)
def test_the_table(model: str, effort: str, thinking: dict[str, Any] | None, level: str | None) -> None:
    expected: dict[str, Any] = {}
    if thinking is not None:
        expected["thinking"] = thinking
    if level is not None:
        expected["output_config"] = {"effort": level}
    assert thinking_for(family_of(model), Effort(effort), LONG).members == expected


@pytest.mark.parametrize(
    ("model", "like"),
    [
        ("claude-opus-4-5-20251101", "claude-opus-4-5"),
        ("claude-opus-4-20250514", "claude-opus-4-0"),
        ("claude-opus-4@20250514", "claude-opus-4-0"),
        ("anthropic.claude-opus-4-1-20250805-v1:0", "claude-opus-4-1"),
        ("us.anthropic.claude-opus-4-6-v1", "claude-opus-4-6"),
        ("anthropic/claude-opus-4.5", "claude-opus-4-5"),
        ("anthropic/claude-3.7-sonnet", "claude-3-7-sonnet"),
        ("claude-3-7-sonnet-20250219", "claude-3-7-sonnet"),
        ("claude-3-5-sonnet-20241022", "claude-3-5-sonnet"),
        ("claude-3-opus-latest", "claude-3-opus"),
        ("claude-4-opus-20250514", "claude-opus-4-0"),
        ("Claude-Sonnet-5-5", "claude-sonnet-5-5"),
        ("claude-haiku-4-5-20251001", "claude-haiku-4-5"),
        # What is to come is told what the newest of its line is told.
        ("claude-opus-6", "claude-opus-5-5"),
        ("claude-sonnet-5-9", "claude-sonnet-5-5"),
        ("claude-opus-10-1", "claude-opus-5-5"),
        ("claude-opus-latest", "claude-opus-5-5"),
        ("claude-saga-1", "claude-fable-5"),
    ],
)
def test_ids_as_platforms_write_them(model: str, like: str) -> None:
    assert family_of(model) is family_of(like)


@pytest.mark.parametrize("max_tokens", [1, 1_000, 2_047, 2_048, 4_096, 10_000, LONG])
@pytest.mark.parametrize("effort", [effort for effort in Effort if effort not in {"none", "default"}])
def test_a_budget_leaves_half_of_the_reply_and_is_never_too_small(max_tokens: int, effort: Effort) -> None:
    thinking = thinking_for(family_of("claude-sonnet-4-5"), effort, max_tokens)
    said = thinking.members.get("thinking")
    assert thinking.on is (max_tokens >= 2_048)
    assert (said is not None) is thinking.on
    if said is not None:
        assert 1_024 <= said["budget_tokens"] <= max_tokens // 2


@pytest.mark.parametrize(
    ("model", "effort", "on"),
    [
        ("claude-opus-5-5", "default", True),
        ("claude-opus-5-5", "none", True),
        ("claude-sonnet-5-5", "none", False),
        ("claude-opus-5", "default", True),
        ("claude-opus-5", "none", False),
        ("claude-opus-4-7", "default", False),
        ("claude-opus-4-7", "low", True),
        ("claude-haiku-4-5", "default", False),
        ("claude-haiku-4-5", "low", True),
        ("claude-haiku-4-5", "none", False),
        ("claude-3-opus", "low", False),
        ("kimi-k2-thinking", "default", True),
        ("kimi-k2-thinking", "none", False),
    ],
)
def test_thoughts_go_back_while_the_model_thinks(model: str, effort: str, on: bool) -> None:
    assert thinking_for(family_of(model), Effort(effort), LONG).on is on


@pytest.mark.parametrize(
    ("model", "leads", "members"),
    [
        ("claude-haiku-4-5", True, {}),
        ("claude-opus-4-5", True, {"output_config": {"effort": "high"}}),
        ("claude-opus-4-6", False, {"thinking": ADAPTIVE, "output_config": {"effort": "high"}}),
        ("claude-opus-5-5", False, {"thinking": BOUND, "output_config": {"effort": "high"}}),
        ("kimi-k2-thinking", True, {}),
    ],
)
def test_a_turn_that_cannot_think_on_is_a_matter_of_budgets_alone(
    model: str, leads: bool, members: dict[str, Any]
) -> None:
    assert thinking_for(family_of(model), Effort.HIGH, LONG).leads is leads
    assert thinking_for(family_of(model), Effort.HIGH, LONG, may_think=False).members == members


def test_effort_above_high_never_goes_with_thinking_turned_off() -> None:
    for model, effort, _, _ in ROWS:
        members = thinking_for(family_of(model), Effort(effort), LONG).members
        if members.get("thinking", ADAPTIVE)["type"] in {"disabled", "between_tools"}:
            assert members.keys() == {"thinking"}
            assert members["thinking"].keys() == {"type"}


def test_only_budgets_have_tokens_and_only_adaptive_thinking_is_shown() -> None:
    for model, _, _, _ in ROWS:
        family = family_of(model)
        assert (family.way is Way.ADAPTIVE) or not (family.hides or family.bound)
