"""What a client has on its screen, folded from the updates it was sent.

Live updates and a replay of the same session must fold to the same state: that is what "replay is
faithful" means, whatever pieces the words came in. What only says how things stand now (states, options,
commands, notices) is not among it.
"""

import base64
from collections.abc import Iterable
from typing import Any

Json = dict[str, Any]

_MESSAGES = {"user_message", "agent_message", "agent_thought"}
_NOW = {"state_update", "config_option_update", "available_commands_update", "notice"}


def fold(updates: Iterable[Json]) -> Json:
    """What was said and done, in order of appearance, and the last plan, usage and title."""
    things: dict[tuple[str, str], Json] = {}
    last: Json = {}
    for update in updates:
        kind = update["sessionUpdate"]
        if update.get("_meta", {}).get("term2", {}).get("notice"):
            continue  # a message in form only
        base = kind.removesuffix("_chunk")
        if base in _MESSAGES:
            message = things.setdefault((base, update["messageId"]), {"is": base, "text": ""})
            content = update["content"]
            blocks = content if isinstance(content, list) else [content]
            images = [block for block in blocks if block["type"] == "image"]
            text = "".join(block.get("text", block.get("uri", "")) for block in blocks if block not in images)
            more = kind.endswith("_chunk")
            message["text"] = message["text"] + text if more else text
            if images:
                message["images"] = [*message.get("images", []), *images] if more else images
        elif kind == "tool_call_update":
            call = things.setdefault(("tool_call", update["toolCallId"]), {"is": "tool_call"})
            call.update({key: value for key, value in update.items() if key != "sessionUpdate"})
        elif kind == "tool_call_content_chunk":
            call = things["tool_call", update["toolCallId"]]
            call["content"] = [*call.get("content", []), update["content"]]
        elif kind in ("terminal_update", "terminal_output_chunk"):
            terminal = things.setdefault(
                ("terminal", update["terminalId"]), {"is": "terminal", "output": b""}
            )
            if kind == "terminal_output_chunk":
                terminal["output"] += base64.b64decode(update["data"], validate=True)
                continue
            given = {key: value for key, value in update.items() if key != "sessionUpdate"}
            if "output" in given:
                given["output"] = base64.b64decode(given["output"]["data"], validate=True)
            terminal.update(given)
        elif kind in ("compaction_update", "compaction_summary_chunk"):
            compaction = things.setdefault(
                ("compaction", update["compactionId"]), {"is": "compaction", "summary": ""}
            )
            if kind == "compaction_summary_chunk":
                compaction["summary"] += update["content"]["text"]
                continue
            given = {key: value for key, value in update.items() if key != "sessionUpdate"}
            if "summary" in given:
                given["summary"] = "".join(block["text"] for block in given["summary"])
            compaction.update(given)
        elif kind == "usage_update":
            # A cost that is left out stays as it was; null takes it away (ACP v2: UsageUpdate).
            cost = update.get("cost", last.get(kind, {}).get("cost"))
            last[kind] = {**update, "cost": cost}
        elif kind not in _NOW:
            last[kind] = update
    return {"things": [{"id": key[1], **thing} for key, thing in things.items()], "last": last}
