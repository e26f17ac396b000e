"""How turns end (ACP v2: state_update idle)."""

from enum import StrEnum

from term2_acp.domain.classes import frozen


class StopReason(StrEnum):
    """Why a turn ended. ``_term2_error`` is ours, since ACP's own word is younger than some clients."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"
    ERROR = "_term2_error"


@frozen
class Failure:
    """What went wrong in a turn, in words for the person.

    ``code`` is one stable word (``provider_auth``, ``store_full`` ...); ``message`` is one readable
    sentence that says what failed and what to do. Neither ever holds a key, a body or a path of ours.
    """

    code: str
    message: str
