"""From a method's name to its handler, whatever the version of the protocol.

A handler is a function of the door, the call and its raw params. It runs in the reader, in the order in
which requests were read, and never waits. What it decides there (admission, a cancel, a reservation) is
decided in that order; what takes time it returns as work, which the peer runs as a task of its own.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from term2_acp.transport.peer import Call, Work

RequestHandler = Callable[[Any, Call], Work | None]
NotificationHandler = Callable[[Any, msgspec.Raw], None]


def find(methods: Mapping[str, RequestHandler], method: str) -> RequestHandler:
    """The handler of a request method.

    Raises:
        RpcError: there is none (-32601).
    """
    handler = methods.get(method)
    if handler is None:
        shown = method if len(method) <= _SHOWN else method[:_SHOWN] + "…"
        raise RpcError(ErrorCode.METHOD_NOT_FOUND, "Method not found", {"method": shown})
    return handler


# Characters of an unknown method's name that its error repeats: enough for any real one.
_SHOWN = 200
