"""What a client of ACP v1 has on its screen, folded from the frames it was sent.

It is a strict client: a call is made once and changed only after that; a terminal is made with its call and
never later; what is shown of one was made before; and nothing comes after an exit. Text goes to the message
of its id; the empty line that keeps two messages apart is no part of the second.
"""

import json
from collections.abc import Iterable
from typing import Any

from tests.kit import packages
from tests.kit.published import published

Json = dict[str, Any]

_CHUNKS = {"user_message_chunk": "user", "agent_message_chunk": "agent", "agent_thought_chunk": "thought"}
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"
_TIMELESS = {"plan", "usage_update", "session_info_update", "current_mode_update", "config_option_update"}


def updates_of(frames: Iterable[bytes], bound: int) -> list[Json]:
    """The updates in the frames, each of which is one line within the bound and fits both published schemas.

    A notice is held to the newest only: the older one does not know any.
    """
    try:
        schemas = published(1)
    except packages.Unavailable:
        schemas = ()
    found = []
    for frame in frames:
        assert b"\n" not in frame
        assert len(frame) + 1 <= bound
        message = json.loads(frame.decode())
        assert message.keys() == {"jsonrpc", "method", "params"}
        assert (message["jsonrpc"], message["method"]) == ("2.0", "session/update")
        assert message["params"].keys() == {"sessionId", "update"}
        update = message["params"]["update"]
        for schema in schemas:
            if update["sessionUpdate"] != "notice" or "sdk24" in schema.label:
                schema.params("session/update", "Notification", message["params"])
        found.append(update)
    return found


def fold(updates: Iterable[Json]) -> Json:
    """Messages, calls and compactions in order of appearance; the last of all else; notices; terminals."""
    things: dict[tuple[str, str], Json] = {}
    screen: Json = {"things": things, "last": {}, "notices": [], "terminals": {}}
    for update in updates:
        kind = update["sessionUpdate"]
        if kind in _CHUNKS:
            _text(things, (_CHUNKS[kind], update["messageId"]), update["content"])
        elif kind in ("tool_call", "tool_call_update"):
            _call(things, screen["terminals"], update, made=kind == "tool_call")
        elif kind == "compaction_update":
            given = {name: value for name, value in update.items() if name != "sessionUpdate"}
            things.setdefault(("compaction", update["compactionId"]), {}).update(given)
        elif kind == "compaction_summary_chunk":
            compaction = things["compaction", update["compactionId"]]
            assert compaction["status"] == "in_progress"
            compaction["summary"] = [*compaction.get("summary", []), update["content"]]
        elif kind == "notice":
            screen["notices"].append(update)
        else:
            assert kind in _TIMELESS, kind
            screen["last"][kind] = update
    return screen


def _text(things: dict[tuple[str, str], Json], key: tuple[str, str], block: Json) -> None:
    text = "" if block["type"] == "image" else block.get("text", block.get("uri", ""))
    if key not in things:
        before = next(reversed(things), None)
        if key[0] == "agent" and before is not None and before[0] == "agent":
            assert text.startswith("\n\n")
            text = text.removeprefix("\n\n")
        things[key] = {"text": ""}
    things[key]["text"] += text
    if block["type"] == "image":
        things[key]["images"] = [*things[key].get("images", []), block]


def _call(things: dict[tuple[str, str], Json], terminals: Json, update: Json, *, made: bool) -> None:
    key = ("call", update["toolCallId"])
    assert (key not in things) == made, f"{key} is made {'twice' if made else 'by an update'}"
    meta = update.get("_meta", {})
    info, output, ended = (meta.get(f"terminal_{word}") for word in ("info", "output", "exit"))
    assert made or info is None
    assert not made or (output is None and ended is None)
    if info is not None:
        assert info["cwd"].startswith("/")
        terminals[info["terminal_id"]] = {"text": "", "exit": None}
    call = things.setdefault(key, {"status": "pending", "kind": "other", "content": []})
    call.update({name: value for name, value in update.items() if name not in ("sessionUpdate", "_meta")})
    if "term2" in meta:
        call["parent"] = meta["term2"]["parentToolCallId"]
    for piece in call["content"]:
        assert piece["type"] != "terminal" or piece["terminalId"] in terminals
    if output is not None:
        terminal = terminals[output["terminal_id"]]
        assert terminal["exit"] is None
        *_, terminal["text"] = (terminal["text"] + output["data"]).split(_CLEAR)
    if ended is not None:
        terminal = terminals[ended["terminal_id"]]
        assert terminal["exit"] is None
        terminal["exit"] = (ended["exit_code"], ended["signal"])
