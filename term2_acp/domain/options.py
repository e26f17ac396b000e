"""What a person can set of one session: its mode, its model, its effort (ACP: session config options).

An option is shown whole, with every value that it may have, and one of them is current.
"""

from enum import StrEnum

from term2_acp.domain.classes import frozen


class Mode(StrEnum):
    """How freely a session acts. A mode never allows what another one refuses without asking.

    ``standard`` works in the workspace unasked. ``ask`` asks before every edit and every command. ``plan``
    changes nothing: no edit runs, and commands see the workspace read-only.
    """

    STANDARD = "standard"
    ASK = "ask"
    PLAN = "plan"


class OptionId(StrEnum):
    """The options there are. The word is the option's id on the wire and in the journal."""

    MODE = "mode"
    MODEL = "model"
    EFFORT = "effort"


@frozen
class OptionChoice:
    """One value that an option may have, with what a person reads for it."""

    value: str
    name: str
    description: str | None = None


@frozen
class SessionOption:
    """One option, whole. ``current`` is the value of one of ``choices``, whose values are distinct.

    ``category`` is ACP's word, by which clients find its place: ``mode``, ``model`` or ``thought_level``.
    """

    option_id: OptionId
    name: str
    category: str
    current: str
    choices: tuple[OptionChoice, ...]
    description: str | None = None
