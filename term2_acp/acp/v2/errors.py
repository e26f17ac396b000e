"""The core's refusals, named as ACP v2 names them."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from term2_acp.acp.errors import core_errors, one_line
from term2_acp.acp.params import invalid
from term2_acp.jsonrpc.errors import ErrorCode, RpcError


def named(session_id: str | None = None) -> AbstractContextManager[None]:
    """Turn what the core raises into the error that the client gets."""
    return core_errors(session_id, RpcError(ErrorCode.BUSY, "The session is busy", {"reason": "busy"}))


@contextmanager
def named_option() -> Iterator[None]:
    """The same for what is set of a session. The error says what could have been."""
    from term2_acp.session.options import UnknownOption, UnknownValue  # as above

    try:
        yield
    except UnknownOption as unknown:
        raise invalid("$.configId", one_line(unknown)) from None
    except UnknownValue as unknown:
        raise invalid("$.value", one_line(unknown)) from None
