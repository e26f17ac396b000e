"""What a person can set of a session, and the commands there are, as ACP v2 writes them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from term2_acp.acp.fit import MAX_FRAME_BYTES, encode, shorten
from term2_acp.acp.shown import Wire
from term2_acp.domain.options import OptionChoice, SessionOption

if TYPE_CHECKING:  # sessions are imported with the first of them, not at the start
    from term2_acp.session.commands import CommandInfo

# What options may take of the line of a result, which holds little else.
_ROOM_OF_RESULT = MAX_FRAME_BYTES // 2

# The label of an option or a choice that does not fit keeps so many bytes; what a person reads is shorter.
_LABEL_BYTES = 256

# An option without its choices: its names and labels, and what stands around them.
_OPTION_OVERHEAD = 4 * _LABEL_BYTES


def options_to_wire(options: Sequence[SessionOption], room: int = _ROOM_OF_RESULT) -> list[Wire]:
    """``configOptions``, the complete list, within ``room`` bytes.

    A server calls its models as it likes. Where they do not fit, the first of them are shown, with short
    labels, and the current one always; one that is not shown can be set by its value all the same.
    """
    wire = [_option_to_wire(option) for option in options]
    if len(encode(wire)) <= room:
        return wire
    share = room // len(options)
    return [_shortened(option, share) for option in wire]


def _option_to_wire(option: SessionOption) -> Wire:
    wire: Wire = {"configId": option.option_id, "name": option.name}
    if option.description is not None:
        wire["description"] = option.description
    return wire | {
        "category": option.category,
        "type": "select",
        "currentValue": option.current,
        "options": [_choice_to_wire(choice) for choice in option.choices],
    }


def _choice_to_wire(choice: OptionChoice) -> Wire:
    wire: Wire = {"value": choice.value, "name": choice.name}
    return wire if choice.description is None else wire | {"description": choice.description}


def _shortened(option: Wire, room: int) -> Wire:
    choices = [_labels_shortened(choice) for choice in option["options"]]
    room -= _OPTION_OVERHEAD
    shown = set()
    # The current one is counted first, wherever it stands.
    for choice in sorted(choices, key=lambda choice: choice["value"] != option["currentValue"]):
        room -= len(encode(choice)) + 1
        if room < 0:
            break
        shown.add(choice["value"])
    return _labels_shortened(option) | {"options": [choice for choice in choices if choice["value"] in shown]}


def _labels_shortened(wire: Wire) -> Wire:
    labels = {label: shorten(wire[label], _LABEL_BYTES) for label in ("name", "description") if label in wire}
    return wire | labels


def commands_to_wire(commands: "Sequence[CommandInfo]") -> list[Wire]:
    """``availableCommands``: what a prompt may begin with, after a slash."""
    return [_command_to_wire(command) for command in commands]


def _command_to_wire(command: "CommandInfo") -> Wire:
    wire: Wire = {"type": "command", "name": command.name, "description": command.description}
    return wire if command.hint is None else wire | {"input": {"type": "text", "hint": command.hint}}
