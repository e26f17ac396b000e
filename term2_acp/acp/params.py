"""Decoding of what a peer sends, and how a bad member is named.

A bad member costs its request one -32602 whose message is one line with the member's JSON path
(``Invalid params: $.prompt[0].text: expected str, got int``). Nothing of what the client sent is in
it but such paths, so it leaks nothing and cannot be long.
"""

import re
from typing import Any, TypeVar

import msgspec

from term2_acp.jsonrpc.errors import ErrorCode, RpcError

T = TypeVar("T")

# How msgspec words a fault: what, and where unless it is the root; a missing member is named in the what.
_FAULT = re.compile(r"(?P<what>.*?)(?: - at `(?P<path>\$[^`]*)`)?", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(?P<name>[^`]*)`")


def invalid(path: str, why: str) -> RpcError:
    """The error for a bad member of params: -32602, with the member's path."""
    return RpcError(ErrorCode.INVALID_PARAMS, f"Invalid params: {path}: {why}")


class Unfit(Exception):
    """A value is missing, or is not of the type that it must have. ``path`` says where, ``why`` how."""

    def __init__(self, path: str, why: str) -> None:
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why


def decode_at(path: str, type_: type[T], raw: msgspec.Raw) -> T:
    """Decode the value that stands at ``path`` of the params (``$`` for all of them).

    Raises:
        RpcError: -32602, with the path of the member that is missing or does not fit.
    """
    try:
        return decode_value(path, type_, raw)
    except Unfit as unfit:
        raise invalid(unfit.path, unfit.why) from None


def convert_at(path: str, type_: type[T], value: Any) -> T:
    """The same for a value that is decoded already; its texts are not copied.

    Raises:
        RpcError: as ``decode_at`` does.
    """
    try:
        return msgspec.convert(value, type_)
    except msgspec.ValidationError as error:
        unfit = _explained(path, str(error))
        raise invalid(unfit.path, unfit.why) from None


def decode_value(path: str, type_: type[T], raw: msgspec.Raw) -> T:
    """Decode a value. One that is missing, which is no bytes at all, is an empty object.

    Raises:
        Unfit: with the path of the member that is missing or does not fit.
    """
    try:
        return _decoder(type_).decode(raw if len(raw) else b"{}")
    except msgspec.ValidationError as error:
        raise _explained(path, str(error)) from None
    except msgspec.DecodeError:
        # The line was JSON, or it would not have come here: what is left is text that is no Unicode.
        raise Unfit(path, "cannot be read") from None


# One decoder a type, kept: making one costs a thousand decodings.
_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {}


def _decoder(type_: type[T]) -> msgspec.json.Decoder[T]:
    decoder = _DECODERS.get(type_)
    if decoder is None:
        decoder = _DECODERS[type_] = msgspec.json.Decoder(type_)
    return decoder


def _explained(base: str, message: str) -> Unfit:
    match = _FAULT.fullmatch(message)
    what, path = (message, "$") if match is None else (match["what"], match["path"] or "$")
    path = base + path.removeprefix("$")
    missing = _MISSING.fullmatch(what)
    if missing is not None:
        return Unfit(f"{path}.{missing['name']}", "required, but missing")
    what = " ".join(what.replace("`", "").split())
    return Unfit(path, what[:1].lower() + what[1:])
