"""Updates that no event of a session stands behind: what a door says when it has opened one."""

from typing import Any

from term2_acp.acp.fit import encode, shorten
from term2_acp.acp.v1.options import commands_to_wire
from term2_acp.domain.ids import SessionId

# Bytes of the names of MCP servers in a notice.
_NAMES_BYTES = 2 * 1024


def commands_frame(session_id: SessionId) -> bytes:
    """The ``available_commands_update`` of a session."""
    from term2_acp.session.commands import COMMANDS  # with the first session

    commands = commands_to_wire(COMMANDS)
    return _frame(session_id, {"sessionUpdate": "available_commands_update", "availableCommands": commands})


def notice_frame(session_id: SessionId, servers: str) -> bytes:
    """The notice that MCP servers are not used. ``servers`` are their names."""
    description = f"This version of term2 does not connect to MCP servers: {shorten(servers, _NAMES_BYTES)}."
    title = "MCP servers are not used"
    update = {"sessionUpdate": "notice", "severity": "warning", "title": title, "description": description}
    return _frame(session_id, update)


def _frame(session_id: SessionId, update: dict[str, Any]) -> bytes:
    params = {"sessionId": session_id, "update": update}
    return encode({"jsonrpc": "2.0", "method": "session/update", "params": params})
