"""The plan the model shows (ACP v2: plan_update, type items)."""

from enum import StrEnum

from term2_acp.domain.classes import frozen


class PlanPriority(StrEnum):
    """How much an entry matters."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class PlanStatus(StrEnum):
    """How far an entry is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


@frozen
class PlanEntry:
    """One step of a plan."""

    content: str
    priority: PlanPriority
    status: PlanStatus
