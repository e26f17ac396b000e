"""The updates of a session that are small, as ACP v2 writes them: what stands in ``params.update``.

One function a kind of event: the update, or the updates in order, each within ``room`` bytes. What can be
long is a label or a list, which is shortened and says so, or a text that has chunks, which is split.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from term2_acp.acp.fit import shorten, split_text, whole_characters
from term2_acp.acp.shown import Wire, plan_entries, text_block
from term2_acp.acp.usage import turn_usage_to_wire, usage_to_wire
from term2_acp.acp.v2.options import commands_to_wire, options_to_wire
from term2_acp.domain import events as ev
from term2_acp.domain.toolcall import ToolStatus

# What an update holds besides the value that is fitted: ids of ours, names of members, a line feed.
UPDATE_OVERHEAD = 256

_STATES: Mapping[type, str] = MappingProxyType({ev.Running: "running", ev.RequiresAction: "requires_action"})


def state_to_wire(event: ev.Running | ev.RequiresAction, _room: int) -> Wire:
    """Work goes on, or waits for the person."""
    return {"sessionUpdate": "state_update", "state": _STATES[type(event)]}


def idle_to_wire(event: ev.Idle, room: int) -> Wire:
    """The end of a turn, with what it took and why it failed; or the state of a session that was opened."""
    update: Wire = {"sessionUpdate": "state_update", "state": "idle"}
    if event.stop_reason is not None:
        update["stopReason"] = event.stop_reason
    told: Wire = {}
    if event.failure is not None:
        message = shorten(event.failure.message, room // 2)
        told["error"] = {"code": event.failure.code, "message": message}
    if event.usage is not None:
        told["usage"] = turn_usage_to_wire(event.usage)
    if told:
        update["_meta"] = {"term2": told}
    return update


def opened_to_wire(event: ev.Idle, room: int) -> Iterator[Wire]:
    """The same for clients that know of commands: a session that was opened has them, and then its state."""
    if event.stop_reason is None:
        yield commands_update_to_wire()
    yield idle_to_wire(event, room)


def commands_update_to_wire() -> Wire:
    """The commands, whole."""
    from term2_acp.session.commands import COMMANDS  # with a session, and not at the start

    return {"sessionUpdate": "available_commands_update", "availableCommands": commands_to_wire(COMMANDS)}


def began_to_wire(event: ev.ToolCallBegan, _room: int) -> Wire:
    """A tool call is at work."""
    return {
        "sessionUpdate": "tool_call_update",
        "toolCallId": event.tool_call_id,
        "status": ToolStatus.IN_PROGRESS.value,
    }


def notice_to_wire(event: ev.Notice, room: int) -> Wire:
    """A message, since clients on SDK 1.4.0 know of no notices; marked, since it is no part of what was said.

    No replay shows it again, but for how a compaction ended.
    """
    return {
        "sessionUpdate": "agent_message",
        "messageId": event.message_id,
        "content": [text_block(shorten(event.text, room // 2))],
        "_meta": {"term2": {"notice": event.severity}},
    }


def plan_to_wire(event: ev.PlanUpdate, room: int) -> Wire:
    """The plan, whole."""
    entries = plan_entries(event.entries, room - UPDATE_OVERHEAD)
    return {
        "sessionUpdate": "plan_update",
        "plan": {"type": "items", "planId": event.plan_id, "entries": entries},
    }


def usage_update_to_wire(event: ev.UsageUpdate, _room: int) -> Wire:
    """Tokens and money."""
    return {"sessionUpdate": "usage_update"} | usage_to_wire(event)


def session_info_to_wire(event: ev.SessionInfoUpdate, room: int) -> Wire:
    """The title."""
    title = shorten(event.title, room // 2)
    return {"sessionUpdate": "session_info_update", "title": title, "updatedAt": event.updated_at}


def options_update_to_wire(event: ev.OptionsUpdate, room: int) -> Wire:
    """The options, whole."""
    return {
        "sessionUpdate": "config_option_update",
        "configOptions": options_to_wire(event.options, room - UPDATE_OVERHEAD),
    }


def compaction_to_wire(event: ev.CompactionUpdate, room: int) -> Iterator[Wire]:
    """One state of a compaction. A summary that does not fit comes in chunks, before the last state."""
    update: Wire = {
        "sessionUpdate": "compaction_update",
        "compactionId": event.compaction_id,
        "status": event.status,
    }
    if event.error is not None:
        update["error"] = shorten(event.error, room // 2)
    if event.summary is not None:
        blocks = [
            text_block(piece) for piece in split_text(whole_characters(event.summary), room - UPDATE_OVERHEAD)
        ]
        if len(blocks) < 2:
            update["summary"] = blocks
        else:
            # Chunks have to come while it is at work, and a replay tells of its end alone.
            yield update | {"status": ev.CompactionStatus.IN_PROGRESS}
            for block in blocks:
                yield {
                    "sessionUpdate": "compaction_summary_chunk",
                    "compactionId": event.compaction_id,
                    "content": block,
                }
    yield update
