"""A line in, and what it is: a request, a notification, a reply, a batch of them, or a fault.

Rules:

- ``decode`` never raises, whatever the line holds. A fault is a value with a code.
- What msgspec does not look at is checked here: depth, repeated members and, in members that it skips,
  UTF-8. So ``params`` and ``result`` may be decoded again without a second look.
- A line that is not UTF-8 or no JSON is -32700, any other fault -32600. A fault carries an id only where
  the line is JSON, says ``"jsonrpc": "2.0"`` and has a method and one valid id.
- Notifications and replies are never answered, however malformed: such a line is ``Ignored``, or settles
  the call that it answers as malformed. A member named ``method`` that is no string is no method.

Theory of operation: a line that, once decoded, encodes to the very same bytes has no repeated member and
no stray byte anywhere; that proof costs half a microsecond and covers what most clients send. Any other
line is looked at closely: the colons in it, counted, against the members of the decoded tree.
"""

from typing import Any, TypeGuard

import msgspec
from msgspec import UNSET, Raw

from term2_acp.jsonrpc.closelook import (
    MAX_DEPTH,
    MAX_VALUES,
    deeper_than,
    has_repeated_members,
    holds_too_many_values,
)
from term2_acp.jsonrpc.errors import ErrorCode
from term2_acp.jsonrpc.framing import MAX_LINE_BYTES, Line, Overlong
from term2_acp.jsonrpc.outline import Outline, outline_of

RequestId = int | str

# Answers to a batch are seventy bytes or more where an entry can be two, so the entries are bounded.
MAX_BATCH = 10_000

# A shorter line cannot open and close more than MAX_DEPTH levels.
_SHALLOW_BYTES = 2 * MAX_DEPTH

NO_PARAMS = Raw(b"{}")


# -- what a line can be ----------------------------------------------------------------------------


class Request(msgspec.Struct, frozen=True, tag_field="jsonrpc", tag="2.0", omit_defaults=True):
    """A request. ``id`` is to be echoed as it is: 1 and "1" are two ids."""

    id: RequestId
    method: str
    params: Raw = NO_PARAMS


class Notification(msgspec.Struct, frozen=True, tag_field="jsonrpc", tag="2.0", omit_defaults=True):
    """A message that nobody answers."""

    method: str
    params: Raw = NO_PARAMS


class Result(msgspec.Struct, frozen=True):
    """A call of ours went well."""

    value: Raw


class ErrorReply(msgspec.Struct, frozen=True):
    """A call of ours was refused."""

    code: int
    message: str


class MalformedReply(msgspec.Struct, frozen=True):
    """A call of ours was answered with something that is no answer. ``reason`` is for the log."""

    reason: str


class Reply(msgspec.Struct, frozen=True):
    """The answer to a call of ours, if ``id`` is one that is open."""

    id: RequestId
    outcome: Result | ErrorReply | MalformedReply


class Fault(msgspec.Struct, frozen=True):
    """A line to be answered with an error.

    ``answers`` is the id of the call of ours that the line may have meant to answer. If that call is
    open the line settles it, and nothing is sent.
    """

    code: ErrorCode
    message: str
    id: RequestId | None = None
    answers: RequestId | None = None


class Ignored(msgspec.Struct, frozen=True):
    """A message that is never answered and too malformed to act on. ``reason`` is for the log."""

    reason: str


Message = Request | Notification | Reply | Fault | Ignored


class Batch(msgspec.Struct, frozen=True):
    """The entries of an array, each judged by itself. There is at least one."""

    entries: list[Message]


# -- decoding --------------------------------------------------------------------------------------

# How a line begins that is written in the usual way: by most clients, with the members in this order.
_USUAL_REQUEST = b'{"jsonrpc":"2.0","id":'
_USUAL_NOTIFICATION = b'{"jsonrpc":"2.0","method":'


class _Parts(msgspec.Struct, gc=False):
    """The two members that are handed on as they came."""

    params: Raw = NO_PARAMS
    result: Raw = NO_PARAMS


_decode_request = msgspec.json.Decoder(Request).decode
_decode_notification = msgspec.json.Decoder(Notification).decode
_decode_parts = msgspec.json.Decoder(_Parts).decode
_decode_entries = msgspec.json.Decoder(list[Raw]).decode
_decode_any = msgspec.json.Decoder().decode
_skim = msgspec.json.Decoder(msgspec.defstruct("_Nothing", [])).decode
_encode = msgspec.json.Encoder().encode


def decode(line: Line) -> Message | Batch:
    """Say what a line is. Never raises."""
    if isinstance(line, Overlong):
        return _refuse(f"the line is longer than {MAX_LINE_BYTES} bytes", line.outline)
    crowded = False
    if len(line) > _SHALLOW_BYTES:
        containers = line.count(b"{") + line.count(b"[")
        crowded = containers > MAX_DEPTH
        if len(line) > MAX_VALUES and holds_too_many_values(line, containers):
            return _refuse("the line holds too many values", outline_of(line))
    return _usual(line, crowded) or _examine(line, crowded)


def _usual(line: bytes, crowded: bool) -> Message | None:  # noqa: FBT001 - hot
    """The request or notification that a line is, if it is written in the usual way; else None."""
    try:
        message: Request | Notification
        if line.startswith(_USUAL_REQUEST):
            message = _decode_request(line)
        elif line.startswith(_USUAL_NOTIFICATION):
            message = _decode_notification(line)
        else:
            return None
        # Equal bytes: no member of the message is repeated or unknown, and ``params`` stand last.
        if _encode(message) != line:
            return None
        params = message.params
        if params is not NO_PARAMS:
            tree = _decode_any(params)
            if tree is None or not line.endswith(_encode(tree), 0, -1):
                return None
            if crowded and deeper_than(MAX_DEPTH - 1, tree):
                return None
    except (msgspec.DecodeError, RecursionError):
        return None
    return message


def _examine(line: bytes, crowded: bool) -> Message | Batch:  # noqa: FBT001
    """Say what a line is that is not written in the usual way, or not right."""
    try:
        tree = _decode_any(line)
    except RecursionError:
        return _refuse(_TOO_DEEP, outline_of(line))
    except msgspec.ValidationError:
        return _refuse("a number is out of range", outline_of(line))
    except msgspec.DecodeError:
        return _refuse_unreadable(line)
    if crowded and deeper_than(MAX_DEPTH, tree):
        return _refuse(_TOO_DEEP, outline_of(line))
    if type(tree) is list:
        return _batch(line, tree)
    if type(tree) is not dict:
        return Fault(ErrorCode.INVALID_REQUEST, "a message is an object")
    if has_repeated_members(line, tree):
        return _refuse("an object has two members of one name", outline_of(line))
    return _classify(line, tree)


_TOO_DEEP = f"the line is nested deeper than {MAX_DEPTH} levels"


def _batch(line: bytes, tree: list[Any]) -> Fault | Batch:
    """The entries of a batch, each decoded from its own bytes, so that a bad one spoils no other."""
    if not tree:
        return Fault(ErrorCode.INVALID_REQUEST, "an empty batch")
    if len(tree) > MAX_BATCH:
        return Fault(ErrorCode.INVALID_REQUEST, f"more than {MAX_BATCH} messages in one batch")
    entries: list[Message] = []
    for raw in _decode_entries(line):
        entry = decode(bytes(raw))
        if isinstance(entry, Batch):
            entry = Fault(ErrorCode.INVALID_REQUEST, "a batch inside a batch")
        entries.append(entry)
    return Batch(entries)


def _classify(line: bytes, tree: dict[str, Any]) -> Message:
    """Say what an object is. Its bytes are sound; what it says may not be."""
    method, request_id = tree.get("method"), tree.get("id", UNSET)
    if tree.get("jsonrpc") == "2.0":
        if type(method) is str:
            if request_id is UNSET:
                return Notification(method, _params(line, tree))
            if _is_id(request_id):
                return Request(request_id, method, _params(line, tree))
        elif ("result" in tree or "error" in tree) and _is_id(request_id):
            return Reply(request_id, _outcome(line, tree))
    outline = Outline(
        version=tree.get("jsonrpc") == "2.0",
        method=type(method) is str,
        answers="result" in tree or "error" in tree,
        ids=[] if request_id is UNSET else [request_id],
    )
    return _refuse('"jsonrpc" is "2.0", a method is a string, an id an integer or a string', outline)


def _params(line: bytes, tree: dict[str, Any]) -> Raw:
    return NO_PARAMS if tree.get("params") is None else _decode_parts(line).params


def _outcome(line: bytes, tree: dict[str, Any]) -> Result | ErrorReply | MalformedReply:
    if "error" not in tree:
        return Result(_decode_parts(line).result)
    error = tree["error"]
    if "result" not in tree and type(error) is dict:
        code, message = error.get("code"), error.get("message")
        if type(code) is int and type(message) is str:
            return ErrorReply(code, message)
    return MalformedReply("the answer is neither a result nor an error")


def _is_id(value: object) -> TypeGuard[RequestId]:
    return type(value) is int or type(value) is str


# -- faults ----------------------------------------------------------------------------------------


def _refuse(message: str, outline: Outline, code: ErrorCode = ErrorCode.INVALID_REQUEST) -> Message:
    """What becomes of a line with a fault: by what it is, an error, nothing, or a malformed reply."""
    if outline.method:
        if not outline.ids:
            return Ignored(f"a notification: {message}")
        return Fault(code, message, outline.id if outline.version else None)
    if outline.answers:
        if outline.id is None:
            return Ignored(f"a reply: {message}")
        return Reply(outline.id, MalformedReply(message))
    return Fault(code, message, answers=outline.id)


def _refuse_unreadable(line: bytes) -> Message:
    """A line that the decoder could not read: not UTF-8, not JSON, or JSON that no text can hold."""
    try:
        text = line.decode()
    except UnicodeDecodeError:
        return _refuse_not_utf8(line)
    if b"\\u" in line and _is_json(text):
        return _refuse("a string holds half a surrogate pair", outline_of(line))
    return Fault(ErrorCode.PARSE_ERROR, "the line is not JSON", answers=_answered(line))


def _refuse_not_utf8(line: bytes) -> Message:
    """JSON but for its encoding says which call it is; what is not even that has no id."""
    message = "the line is not UTF-8"
    try:
        _skim(line)
    except (msgspec.DecodeError, RecursionError):
        return Fault(ErrorCode.PARSE_ERROR, message, answers=_answered(line))
    return _refuse(message, outline_of(line), ErrorCode.PARSE_ERROR)


def _answered(line: bytes) -> RequestId | None:
    """The id of the call of ours that a line which is no JSON seems to answer."""
    outline = outline_of(line)
    return outline.id if outline.answers and not outline.method else None


def _is_json(text: str) -> bool:
    """Whether the grammar of JSON takes the text. Only the standard library lets half a pair through."""
    import json  # it costs a start 3 ms and is needed by broken clients only

    try:
        json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _no_constant(name: str) -> None:
    raise ValueError(name)
