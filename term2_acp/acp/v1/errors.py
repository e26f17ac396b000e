"""The core's refusals, named as ACP v1's clients understand them.

They take -32000 for "log in first", whatever stands beside it. So a session that is busy is -32600 here.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from term2_acp.acp.errors import core_errors, one_line
from term2_acp.jsonrpc.errors import ErrorCode, RpcError


@contextmanager
def named(session_id: str | None = None) -> Iterator[None]:
    """Turn what the core raises into the error that the client gets."""
    from term2_acp.session.options import UnknownOption, UnknownValue  # a door is there before the core is

    try:
        with core_errors(session_id, busy()):
            yield
    except (UnknownOption, UnknownValue) as unknown:
        raise RpcError(ErrorCode.INVALID_PARAMS, f"Invalid params: {one_line(unknown)}") from None


def busy(what: str = "The session has a turn already") -> RpcError:
    """The session cannot take this now."""
    return RpcError(ErrorCode.INVALID_REQUEST, what, {"reason": "busy"})
