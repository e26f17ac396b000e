"""How hard a model should think. A value of the settings and of every request."""

from enum import StrEnum


class Effort(StrEnum):
    """How hard the model should think. ``default`` sends nothing."""

    DEFAULT = "default"
    NONE = "none"
    MINIMAL = "minimal"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    XHIGH = "xhigh"
