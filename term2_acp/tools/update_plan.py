"""``update_plan``: the plan that the person sees, whole each time. It touches nothing else."""

from typing import Annotated, Any, ClassVar

import msgspec
import trio

from term2_acp.domain.content import Text
from term2_acp.domain.events import PlanUpdate
from term2_acp.domain.ids import PlanId
from term2_acp.domain.plan import PlanEntry, PlanPriority, PlanStatus
from term2_acp.domain.toolcall import ToolKind
from term2_acp.tools.base import Description, Outcome, Prepared, ToolContext
from term2_acp.tools.targets import counted

# A session has one plan, so its id need only be the same each time.
PLAN_ID = PlanId("plan")

# Entries of a plan, and characters of one: more is no plan that a person reads.
MAX_ENTRIES = 100
MAX_ENTRY = 1000


Step = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=MAX_ENTRY, description="What is to be done, in a few words."),
]


class PlanEntryArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step."""

    content: Step
    priority: PlanPriority = PlanPriority.MEDIUM
    status: PlanStatus = PlanStatus.PENDING


Steps = Annotated[
    list[PlanEntryArguments],
    msgspec.Meta(max_length=MAX_ENTRIES, description="The whole plan, in order; it replaces the one before."),
]


class UpdatePlanArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``update_plan`` takes."""

    entries: Steps


class UpdatePlan:
    """Shows a plan."""

    name: ClassVar[str] = "update_plan"
    kind: ClassVar[ToolKind] = ToolKind.THINK
    description: ClassVar[str] = (
        "Show the person your plan for work of several steps. Send the whole plan each time, with the status "
        "of each entry; keep one entry in_progress while you work on it."
    )
    reads_only: ClassVar[bool] = False
    Arguments: ClassVar[type[msgspec.Struct]] = UpdatePlanArguments

    def describe(self, arguments: Any, context: ToolContext) -> Description:
        """See ``Tool``."""
        return Description("Update the plan")

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared:
        """See ``Tool``."""
        await trio.lowlevel.checkpoint()
        return Prepared(
            work=tuple(PlanEntry(entry.content, entry.priority, entry.status) for entry in arguments.entries)
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        """See ``Tool``. The plan is shown by one event; cancelled, it was shown or it was not."""
        entries: tuple[PlanEntry, ...] = prepared.work
        await context.publish(PlanUpdate(PLAN_ID, entries))
        done = sum(entry.status is PlanStatus.COMPLETED for entry in entries)
        words = f"The plan has {counted(len(entries), 'entry', 'entries')}, {done} of them completed."
        return Outcome(words, (Text(words),), {"entries": len(entries), "completed": done})
