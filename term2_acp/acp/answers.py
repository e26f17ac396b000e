"""What a client's reply to a permission question says, whatever the version of the protocol.

Both versions answer in the same words, and what allows a call must be decided in one place. Only an outcome
that says ``selected`` with an ``optionId`` becomes ``Selected``; every other reply is one of the answers that
refuse.
"""

from typing import Any

import msgspec

from term2_acp.acp.params import Unfit, decode_value
from term2_acp.domain.permission import Answer, AskCancelled, Lost, Selected, Unintelligible
from term2_acp.transport.peer import ErrorReply, Gone, MalformedReply, Reply, Result


class _Outcome(msgspec.Struct, rename="camel"):
    outcome: str
    option_id: Any = None


class _Response(msgspec.Struct):
    outcome: _Outcome


def answer_from_wire(reply: Reply) -> Answer:
    """What a reply to ``session/request_permission`` says. Never raises."""
    match reply:
        case Result(value=value):
            return _answer_of(value)
        case ErrorReply(code=code):
            return Unintelligible(f"the client answered with error {code}")
        case MalformedReply(reason=reason):
            return Unintelligible(reason)
        case Gone():
            return Lost()


def _answer_of(value: msgspec.Raw) -> Answer:
    try:
        outcome = decode_value("$", _Response, value).outcome
    except Unfit as unfit:
        return Unintelligible(f"the result does not fit: {unfit}")
    if outcome.outcome == "cancelled":
        return AskCancelled()
    if outcome.outcome != "selected":
        return Unintelligible("the outcome is not known")
    if not isinstance(outcome.option_id, str):
        return Unintelligible("an option was selected, but none was named")
    return Selected(outcome.option_id)
