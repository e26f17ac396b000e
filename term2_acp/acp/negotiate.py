"""Which version of ACP a connection speaks.

The client names the newest version it knows. We answer the newest that we both know. Version 0 never
existed and is refused with the error that ACP v2 has for that. No refusal ends the connection: the
client may ask again.

``info`` and ``capabilities`` are not looked at: clients leave them out, send null, or send those of
another version, and nothing that we do depends on them.

Source: ACP v2, initialization; the versions' published schemas bound the number to 16 bits.
"""

from typing import Annotated

import msgspec

from term2_acp.acp.params import decode_at
from term2_acp.jsonrpc.errors import ErrorCode, RpcError

SUPPORTED = (1, 2)
"""The versions that there is a door for."""

_MAX_VERSION = 65535


class _Initialize(msgspec.Struct, rename="camel"):
    protocol_version: Annotated[int, msgspec.Meta(ge=0, le=_MAX_VERSION)]


def negotiate(params: msgspec.Raw) -> int:
    """The version to speak with a client that sent these ``initialize`` params.

    Raises:
        RpcError: -32602, the version is missing or is no integer from 0 to 65535; -32022, no such
            version can be spoken, with ``data {requested, supported}``.
    """
    requested = decode_at("$", _Initialize, params).protocol_version
    if requested == 0:
        raise RpcError(
            ErrorCode.UNSUPPORTED_PROTOCOL_VERSION,
            f"Protocol version {requested} is not supported",
            {"requested": requested, "supported": list(SUPPORTED)},
        )
    return max(version for version in SUPPORTED if version <= requested)
