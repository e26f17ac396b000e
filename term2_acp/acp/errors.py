"""The core's refusals as the errors that clients get, whatever the version of the protocol.

The versions differ in one of them, the number for a session that is busy, which each door gives.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from term2_acp.jsonrpc.errors import ErrorCode, RpcError


def not_found(session_id: str | None) -> RpcError:
    """There is no such session here."""
    return RpcError(ErrorCode.NOT_FOUND, "Session not found", {"sessionId": session_id})


def one_line(error: Exception) -> str:
    """What it says, on one line. A model is called as its server calls it."""
    return " ".join(str(error).split())


@contextmanager
def core_errors(session_id: str | None, busy: RpcError) -> Iterator[None]:
    """Turn what the core raises into the error that the client gets; ``busy`` is its word for that."""
    # The core's words are imported where they are used: a door is there before the core is.
    from term2_acp.session.registry import OtherWorkspace
    from term2_acp.session.session import Busy, CloseFailed
    from term2_acp.store import BadCursor, ClaimedElsewhere, StoreFailed, UnknownSession

    try:
        yield
    except Busy:
        raise busy from None
    except UnknownSession:
        raise not_found(session_id) from None
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
