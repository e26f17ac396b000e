"""The updates of a session that are small and made of one event alone, as ACP v1 writes them.

Each function gives the updates of one event in order, of at most ``room`` bytes of JSON each.
"""

from collections.abc import Iterator

from term2_acp.acp.fit import shorten, split_text, whole_characters
from term2_acp.acp.shown import Wire, plan_entries, text_block
from term2_acp.acp.usage import usage_to_wire
from term2_acp.acp.v1.options import modes_to_wire, options_to_wire
from term2_acp.domain import events as ev
from term2_acp.domain.plan import PlanStatus

UPDATE_OVERHEAD = 256
"""Bytes that an update takes besides the value that is fitted: ids of ours, names of members, a line feed."""

# What part of the room a label may take, and the text beside it.
_LABEL_SHARE = 4
_TEXT_SHARE = 2


def plan_to_wire(event: ev.PlanUpdate, room: int) -> Iterator[Wire]:
    """A plan. Steps that were cancelled are left out.

    v1 has no word for them, and ``completed`` would say that somebody had done them.
    """
    steps = [entry for entry in event.entries if entry.status is not PlanStatus.CANCELLED]
    yield {"sessionUpdate": "plan", "entries": plan_entries(steps, room - UPDATE_OVERHEAD)}


def usage_update_to_wire(event: ev.UsageUpdate, room: int) -> Iterator[Wire]:
    """Tokens and money; they fit."""
    del room
    yield {"sessionUpdate": "usage_update"} | usage_to_wire(event)


def session_info_to_wire(event: ev.SessionInfoUpdate, room: int) -> Iterator[Wire]:
    """The title."""
    title = shorten(event.title, room // _TEXT_SHARE)
    yield {"sessionUpdate": "session_info_update", "title": title, "updatedAt": event.updated_at}


def options_update_to_wire(event: ev.OptionsUpdate, room: int) -> Iterator[Wire]:
    """The options, as modes and as config options."""
    modes = modes_to_wire(event.options)
    if modes is not None:
        yield {"sessionUpdate": "current_mode_update", "currentModeId": modes["currentModeId"]}
    options = options_to_wire(event.options, room - UPDATE_OVERHEAD)
    yield {"sessionUpdate": "config_option_update", "configOptions": options}


def notice_to_wire(event: ev.Notice, room: int) -> Iterator[Wire]:
    """A notice, for clients that know them: its first line is the title, which must not be empty."""
    title, _, description = event.text.strip().partition("\n")
    if not title:
        return
    update: Wire = {"sessionUpdate": "notice", "severity": event.severity}
    update["title"] = shorten(title, room // _LABEL_SHARE)
    if description:
        update["description"] = shorten(description, room // _TEXT_SHARE)
    yield update


def compaction_to_wire(event: ev.CompactionUpdate, room: int) -> Iterator[Wire]:
    """A compaction, for clients that know them.

    A summary that does not fit comes in chunks, while the compaction is under way: only then are they valid.
    """
    update: Wire = {
        "sessionUpdate": "compaction_update",
        "compactionId": event.compaction_id,
        "status": event.status,
    }
    if event.error is not None:
        update["error"] = shorten(event.error, room // _TEXT_SHARE)
    pieces = list(split_text(whole_characters(event.summary or ""), room // _TEXT_SHARE))
    if len(pieces) == 1:
        update["summary"] = [text_block(pieces[0])]
    elif pieces:
        yield update | {"status": ev.CompactionStatus.IN_PROGRESS}
        for piece in pieces:
            yield {
                "sessionUpdate": "compaction_summary_chunk",
                "compactionId": event.compaction_id,
                "content": text_block(piece),
            }
    yield update
