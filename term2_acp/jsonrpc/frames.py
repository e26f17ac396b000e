"""What we send, as lines: answers, errors, calls and notifications.

Each function returns one line without its newline. Sources: JSON-RPC 2.0 sections 4, 5 and 6.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from term2_acp.jsonrpc.errors import RpcError
from term2_acp.jsonrpc.framing import encode

RequestId = int | str


class _Version(msgspec.Struct, tag_field="jsonrpc", tag="2.0"):
    """Every message begins with the version."""


class _ResultFrame(_Version, tag="2.0"):
    id: RequestId
    result: Any


class _ErrorBody(msgspec.Struct):
    code: int
    message: str
    data: Any | msgspec.UnsetType = msgspec.UNSET


class _ErrorFrame(_Version, tag="2.0"):
    id: RequestId | None
    error: _ErrorBody


class _CallFrame(_Version, tag="2.0"):
    id: RequestId
    method: str
    params: Any


class _NotificationFrame(_Version, tag="2.0"):
    method: str
    params: Any


def result_frame(request_id: RequestId, result: Any) -> bytes:
    """The answer to a request that went well. Raises what ``encode`` raises."""
    return encode(_ResultFrame(request_id, result))


def error_frame(request_id: RequestId | None, error: RpcError) -> bytes:
    """The answer to a request that did not. Without an id it says that the line had none to echo."""
    data = msgspec.UNSET if error.data is None else error.data
    return encode(_ErrorFrame(request_id, _ErrorBody(int(error.code), error.message, data)))


def call_frame(call_id: int, method: str, params: Any) -> bytes:
    """A request of ours. Raises what ``encode`` raises."""
    return encode(_CallFrame(call_id, method, params))


def notification_frame(method: str, params: Any) -> bytes:
    """A notification of ours. Raises what ``encode`` raises."""
    return encode(_NotificationFrame(method, params))


def batch_frame(answers: Iterable[bytes]) -> bytes:
    """The answers to one batch, as one array."""
    return b"[" + b",".join(answers) + b"]"
