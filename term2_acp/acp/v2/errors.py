"""The core's refusals, named as ACP v2 names them."""

from collections.abc import Iterator
from contextlib import contextmanager

from term2_acp.acp.params import invalid
from term2_acp.jsonrpc.errors import ErrorCode, RpcError


@contextmanager
def named(session_id: str | None = None) -> Iterator[None]:
    """Turn what the core raises into the error that the client gets."""
    # The core's words are imported where they are used: a door is there before the core is.
    from term2_acp.session.registry import OtherWorkspace
    from term2_acp.session.session import Busy, CloseFailed
    from term2_acp.store import BadCursor, ClaimedElsewhere, StoreFailed, UnknownSession

    try:
        yield
    except Busy:
        raise RpcError(ErrorCode.BUSY, "The session is busy", {"reason": "busy"}) from None
    except UnknownSession:
        raise RpcError(ErrorCode.NOT_FOUND, "Session not found", {"sessionId": session_id}) from None
    except OtherWorkspace:
        raise RpcError(
            ErrorCode.INVALID_PARAMS, "Invalid params: $.cwd is not the session's workspace"
        ) from None
    except BadCursor:
        raise RpcError(ErrorCode.INVALID_PARAMS, "Invalid params: $.cursor is not one of ours") from None
    except ClaimedElsewhere as elsewhere:
        raise RpcError(
            ErrorCode.SESSION_OPEN_ELSEWHERE,
            "The session is open in another process",
            {"sessionId": session_id, "pid": elsewhere.pid},
        ) from None
    except CloseFailed:
        raise RpcError(
            ErrorCode.INTERNAL_ERROR, "The session is closed, but its turn did not end cleanly"
        ) from None
    except StoreFailed as failed:
        raise RpcError(ErrorCode.INTERNAL_ERROR, failed.message) from None


@contextmanager
def named_option() -> Iterator[None]:
    """The same for what is set of a session. The error says what could have been."""
    from term2_acp.session.options import UnknownOption, UnknownValue  # as above

    try:
        yield
    except UnknownOption as unknown:
        raise invalid("$.configId", _one_line(unknown)) from None
    except UnknownValue as unknown:
        raise invalid("$.value", _one_line(unknown)) from None


def _one_line(error: Exception) -> str:
    """What it says. A model is called as its server calls it."""
    return " ".join(str(error).split())
