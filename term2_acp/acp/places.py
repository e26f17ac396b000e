"""The directories that clients name, whatever the version of the protocol. Metadata only."""

import os
import stat

from term2_acp.acp.params import invalid
from term2_acp.jsonrpc.errors import ErrorCode, RpcError


def check_cwd(cwd: str) -> None:
    """Refuse what is no absolute path.

    Raises:
        RpcError: -32602, with the member's path.
    """
    if not cwd.startswith("/"):
        raise invalid("$.cwd", "must be an absolute path")
    if "\0" in cwd:
        raise invalid("$.cwd", "must not hold a null character")


def canonical(cwd: str) -> str:
    """Where a directory really is; one that is gone may still have sessions."""
    return os.path.realpath(cwd)


def workspace(cwd: str) -> str:
    """The canonical directory that a session is bound to. ``cwd`` is absolute, as decoding made sure.

    Raises:
        RpcError: it does not exist, is no directory, or may not be entered (-32602).
    """
    try:
        real = os.path.realpath(cwd, strict=True)
        mode = os.stat(real).st_mode
    except (OSError, ValueError):
        raise RpcError(
            ErrorCode.INVALID_PARAMS, "Invalid params: $.cwd does not exist or cannot be reached"
        ) from None
    if not stat.S_ISDIR(mode):
        raise RpcError(ErrorCode.INVALID_PARAMS, "Invalid params: $.cwd is not a directory")
    if not os.access(real, os.R_OK | os.X_OK):
        raise RpcError(ErrorCode.INVALID_PARAMS, "Invalid params: $.cwd may not be read")
    return real
