"""The one table of error codes, and the exception that carries one to the wire.

Sources: JSON-RPC 2.0 section 5.1; ACP v2 for -32800, -32000, -32002 and -32022. ``SESSION_OPEN_ELSEWHERE``
is ours and lies outside the ranges that JSON-RPC and ACP reserve.
"""

from enum import IntEnum
from typing import Any


class ErrorCode(IntEnum):
    """Every code that term2 sends."""

    PARSE_ERROR = -32700
    INVALID_REQUEST = -32600
    METHOD_NOT_FOUND = -32601
    INVALID_PARAMS = -32602
    INTERNAL_ERROR = -32603
    REQUEST_CANCELLED = -32800
    BUSY = -32000  # ACP's number for "log in"; `data.reason` tells them apart
    NOT_FOUND = -32002
    UNSUPPORTED_PROTOCOL_VERSION = -32022
    SESSION_OPEN_ELSEWHERE = 409


class RpcError(Exception):
    """A request is answered with this error.

    ``message`` is one line for a person, without paths of ours and without keys; ``data`` is a JSON
    value or None.
    """

    def __init__(self, code: ErrorCode, message: str, data: Any | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
