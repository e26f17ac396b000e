"""What the parts of a conversation are called, for whoever shows one: in the terminal and in Markdown.

Whatever is one line here stays one: a name cannot add a line of its own.
"""

from collections.abc import Iterator

from term2_acp.cli.terminal import visible
from term2_acp.domain import events as ev
from term2_acp.domain.content import Change, ContentBlock, Image, Operation, ResourceLink, Text
from term2_acp.domain.plan import PlanEntry, PlanStatus
from term2_acp.domain.toolcall import ToolCallUpdate
from term2_acp.domain.turn import StopReason
from term2_acp.domain.usage import TurnUsage, usd

_ENDS = {
    StopReason.END_TURN: "The turn ended.",
    StopReason.MAX_TOKENS: "The turn ended: the model reached the longest reply it gives.",
    StopReason.MAX_TURN_REQUESTS: "The turn ended: the model was called as often as is allowed.",
    StopReason.REFUSAL: "The turn ended: the model refused.",
    StopReason.CANCELLED: "The turn was cancelled.",
    StopReason.ERROR: "The turn failed.",
}

_MARKS = {PlanStatus.COMPLETED: "[x]", PlanStatus.IN_PROGRESS: "[>]"}

_CHANGES = {
    Operation.ADD: "New: {path}",
    Operation.DELETE: "Deleted: {path}",
    Operation.MODIFY: "Changed: {path}",
    Operation.MOVE: "Moved: {old_path} to {path}",
}


def of_block(block: ContentBlock) -> str:
    """One part of a prompt."""
    match block:
        case Text(text):
            return text
        case ResourceLink(name=name, uri=uri):
            return f"({name}: {uri})"
        case Image(mime_type=kind):
            return f"(an image, {kind}, {block.size:,} bytes)"


def of_call(call: ToolCallUpdate) -> str:
    """A call in one line: its title, its kind, its tool, and how it ended."""
    kind = call.kind.value if call.kind is not None else "other"
    status = call.status.value if call.status is not None else "pending"
    return visible(f"{call.title or call.name or 'A tool call'} ({kind}, {call.name}): {status}")


def of_places(call: ToolCallUpdate) -> Iterator[str]:
    """The places that a call is about."""
    for place in call.locations or ():
        yield visible(place.path if place.line is None else f"{place.path}:{place.line}")


def of_change(change: Change) -> str:
    """One changed file."""
    return visible(_CHANGES[change.operation].format(path=change.path, old_path=change.old_path))


def of_exit(terminal: ev.TerminalUpdate) -> str:
    """How a command ended."""
    ended = terminal.exit_status
    if ended is None:
        return "It has not ended yet."
    if ended.signal is not None:
        return visible(f"It was ended by {ended.signal}.")
    return f"Exit code {ended.exit_code}." if ended.exit_code is not None else "How it ended is not known."


def of_entry(entry: PlanEntry) -> str:
    """One step of a plan."""
    return visible(f"{_MARKS.get(entry.status, '[ ]')} {entry.content}")


def of_compaction(compaction: ev.CompactionUpdate) -> str:
    """What became of a compaction, in one line."""
    match compaction.status:
        case ev.CompactionStatus.COMPLETED:
            return "What was said before was summarised for the model."
        case ev.CompactionStatus.FAILED:
            return visible(f"What was said before could not be summarised. {compaction.error or ''}".rstrip())
        case ev.CompactionStatus.CANCELLED:
            return "Summarising what was said before was cancelled."
    return "What was said before is being summarised."


def of_idle(idle: ev.Idle) -> str:
    """How a turn ended and what it took, in one line."""
    said = _ENDS[idle.stop_reason] if idle.stop_reason is not None else "The turn ended."
    return said if idle.usage is None else f"{said} {_of_usage(idle.usage)}"


def _of_usage(usage: TurnUsage) -> str:
    tokens = usage.tokens
    calls = f"{usage.model_calls:,} call{'' if usage.model_calls == 1 else 's'} of the model"
    if not usage.counted_calls:  # the sums are of nothing: to call them 0 would be a count, and a price
        return f"{calls}, tokens not counted."
    if usage.counted_calls < usage.model_calls:
        calls += f", {usage.counted_calls:,} of them counted"
    cost = "" if usage.cost_pico_usd is None else f", {usd(usage.cost_pico_usd)} USD"
    return f"{calls}, {tokens.input_tokens:,} tokens read, {tokens.output_tokens:,} written{cost}."


def of_context(usage: ev.UsageUpdate) -> str:
    """How full the context is, and what the session cost."""
    cost = "" if usage.cost_pico_usd is None else f" The session cost {usd(usage.cost_pico_usd)} USD."
    return f"{usage.used:,} of {usage.size:,} tokens of context are in use.{cost}"


def of_output(data: bytes) -> str:
    """What a command wrote, as text. Colours of its letters are left out."""
    from re import sub  # only where there is a terminal

    return sub(r"\x1b\[[0-9;:]*m", "", data.decode("utf-8", "replace"))
