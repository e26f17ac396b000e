"""Identifiers. They are opaque to everyone who did not make them.

All of them are ours: whatever id a provider gives a tool call, or an editor a request, never becomes
one of these. They are random rather than counted, so that a session that was resumed after a crash
cannot hand out an id twice.
"""

import secrets
from typing import NewType

SessionId = NewType("SessionId", str)
MessageId = NewType("MessageId", str)
ToolCallId = NewType("ToolCallId", str)
PlanId = NewType("PlanId", str)
TerminalId = NewType("TerminalId", str)
CompactionId = NewType("CompactionId", str)

# 80 bits: ten thousand sessions of a hundred thousand ids meet with a chance below 1e-5, and a
# session needs its ids unique within itself only.
_ID_BYTES = 10


def new_session_id() -> SessionId:
    """A fresh session id. 128 bits, since it is looked up across all sessions of the store."""
    return SessionId(f"sess_{secrets.token_hex(16)}")


def new_message_id() -> MessageId:
    """A fresh message id, unique in its session."""
    return MessageId(f"msg_{secrets.token_hex(_ID_BYTES)}")


def new_tool_call_id() -> ToolCallId:
    """A fresh tool-call id, unique in its session."""
    return ToolCallId(f"call_{secrets.token_hex(_ID_BYTES)}")


def new_terminal_id() -> TerminalId:
    """A fresh terminal id, unique in its session and never used twice."""
    return TerminalId(f"term_{secrets.token_hex(_ID_BYTES)}")


def new_compaction_id() -> CompactionId:
    """A fresh compaction id, unique in its session."""
    return CompactionId(f"comp_{secrets.token_hex(_ID_BYTES)}")
