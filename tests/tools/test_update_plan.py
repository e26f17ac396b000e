"""``update_plan``: the plan is published whole, under one id, with defaults for what was left out."""

import pytest

from term2_acp.domain.events import PlanUpdate
from term2_acp.domain.plan import PlanEntry, PlanPriority, PlanStatus
from term2_acp.tools.base import ToolError
from tests.kit.tools import Bench


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path.resolve())


async def test_the_plan_is_published_whole(bench):
    entries = [{"content": "look"}, {"content": "do", "priority": "high", "status": "completed"}]
    prepared = await bench.prepare("update_plan", entries=entries)
    assert prepared.actions == ()
    assert bench.published == []
    outcome = await bench.run("update_plan", prepared)
    await bench.call("update_plan", entries=[])
    first, second = bench.published
    assert isinstance(first, PlanUpdate)
    assert first.entries == (
        PlanEntry("look", PlanPriority.MEDIUM, PlanStatus.PENDING),
        PlanEntry("do", PlanPriority.HIGH, PlanStatus.COMPLETED),
    )
    assert (second.plan_id, second.entries) == (first.plan_id, ())
    assert outcome.result == "The plan has 2 entries, 1 of them completed."
    assert outcome.raw_output == {"entries": 2, "completed": 1}


@pytest.mark.parametrize(
    "entries",
    [
        [{"content": ""}],
        [{"content": "x" * 1001}],
        [{"content": "x"}] * 101,
        [{}],
        [{"content": "x", "priority": "urgent"}],
    ],
)
async def test_bad_plans_are_refused(bench, entries):
    with pytest.raises(ToolError):
        await bench.call("update_plan", entries=entries)
