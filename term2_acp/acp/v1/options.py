"""The options of a session as ACP v1 has them: twice, since its clients are of two ages.

Modes came first, as a state of their own; config options are what replaced them, and have the mode among
them. A client shows one of the two, so both are told, always, and say the same.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol

from term2_acp.acp.fit import MAX_FRAME_BYTES, encode
from term2_acp.acp.shown import Wire
from term2_acp.domain.options import OptionChoice, OptionId, SessionOption

# Bytes that the options take at most: a server may list thousands of models. Half of a frame leaves room for
# whatever stands around them.
MAX_OPTIONS_BYTES = MAX_FRAME_BYTES // 2


class Command(Protocol):
    """A slash command, as far as this file needs it (``session.commands``)."""

    @property
    def name(self) -> str:
        """What is typed, without the slash."""
        ...

    @property
    def description(self) -> str:
        """What it does."""
        ...

    @property
    def hint(self) -> str | None:
        """What may be typed after it; None for nothing."""
        ...


def modes_to_wire(options: Sequence[SessionOption]) -> Wire | None:
    """The mode state of the options; None when the mode is not among them."""
    mode = next((option for option in options if option.option_id is OptionId.MODE), None)
    if mode is None:
        return None
    return {
        "currentModeId": mode.current,
        "availableModes": [
            _with_description({"id": one.value, "name": one.name}, one) for one in mode.choices
        ],
    }


def options_to_wire(options: Sequence[SessionOption], room: int = MAX_OPTIONS_BYTES) -> list[Wire]:
    """The config options, each a select, within ``room`` bytes of JSON.

    Where they do not fit, descriptions are left out first, and then choices from the end, but never the one
    that is current.
    """
    wire = [_option(option, option.choices) for option in options]
    if len(encode(wire)) <= room:
        return wire
    bare = [_option(option, [_bare(one) for one in option.choices]) for option in options]
    if len(encode(bare)) <= room:
        return bare
    share = room // len(options) - 8  # what joins them
    return [_option(option, _first_that_fit(option, share)) for option in options]


def commands_to_wire(commands: Iterable[Command]) -> list[Wire]:
    """The slash commands of an ``available_commands_update``."""
    return [
        {"name": command.name, "description": command.description}
        | ({} if command.hint is None else {"input": {"hint": command.hint}})
        for command in commands
    ]


def _option(option: SessionOption, choices: Iterable[OptionChoice]) -> Wire:
    wire = _with_description({"id": option.option_id, "name": option.name}, option)
    wire["category"] = option.category
    wire["type"] = "select"
    wire["currentValue"] = option.current
    wire["options"] = [_with_description({"value": one.value, "name": one.name}, one) for one in choices]
    return wire


def _with_description(wire: Wire, described: SessionOption | OptionChoice) -> Wire:
    return wire if described.description is None else wire | {"description": described.description}


def _bare(choice: OptionChoice) -> OptionChoice:
    return OptionChoice(choice.value, choice.name)


def _first_that_fit(option: SessionOption, room: int) -> list[OptionChoice]:
    """The current choice, and as many of the others as fit, in their order."""
    left = room - len(encode(_option(option, ())))
    kept: set[str] = set()
    for choice in sorted(option.choices, key=lambda one: one.value != option.current):
        left -= len(encode({"value": choice.value, "name": choice.name})) + 1
        if left < 0 and kept:
            break
        kept.add(choice.value)
    return [_bare(one) for one in option.choices if one.value in kept]
