"""Terminals as ACP v2 writes them: updates and chunks of output, in base64, within the bound of a frame.

A snapshot that does not fit is sent as its beginning and then as chunks that are appended to it; the exit
status is told after the last of them.
"""

import base64
from collections.abc import Iterator

from term2_acp.acp.fit import shorten, whole_characters
from term2_acp.acp.shown import Wire
from term2_acp.domain.events import ExitStatus, TerminalOutput, TerminalUpdate

# What part of a frame's room one piece of output may take: the rest is for what stands around it.
_SHARE = 2

# The command is a label, which may be shortened; it has its part of the room beside the output.
_COMMAND_SHARE = 4


def terminal_to_wire(event: TerminalUpdate | TerminalOutput, room: int) -> Iterator[Wire]:
    """The updates of one event, in order, of at most ``room`` bytes each."""
    if isinstance(event, TerminalOutput):
        yield from _chunks(event.terminal_id, _pieces(event.data, room))
        return
    update: Wire = {"sessionUpdate": "terminal_update", "terminalId": event.terminal_id}
    if event.command is not None:
        update["command"] = shorten(whole_characters(event.command), room // _COMMAND_SHARE)
    if event.cwd is not None:
        update["cwd"] = whole_characters(event.cwd)
    first, *rest = _pieces(event.output or b"", room)
    if event.output is not None:
        update["output"] = {"data": _base64(first)}
    if rest:
        yield update
        yield from _chunks(event.terminal_id, rest)
        update = {"sessionUpdate": "terminal_update", "terminalId": event.terminal_id}
    if event.exit_status is not None:
        update["exitStatus"] = _exit_status_to_wire(event.exit_status)
    if not rest or event.exit_status is not None:
        yield update


def _exit_status_to_wire(status: ExitStatus) -> Wire:
    values = {"exitCode": status.exit_code, "signal": status.signal}
    return {name: value for name, value in values.items() if value is not None}


def _chunks(terminal_id: str, pieces: list[bytes]) -> Iterator[Wire]:
    for piece in pieces:
        yield {"sessionUpdate": "terminal_output_chunk", "terminalId": terminal_id, "data": _base64(piece)}


def _pieces(data: bytes, room: int) -> list[bytes]:
    """Bytes in pieces that fit when they are written in base64; one empty piece for none."""
    most = room // _SHARE // 4 * 3
    return [data[at : at + most] for at in range(0, len(data), most)] or [b""]


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
