"""The options of a session in v1's words: twice, as modes and as config options that say the same; and that a
list of thousands of models still fits. Commands are written here too."""

import json

from attrs import frozen

from term2_acp.acp.v1.options import MAX_OPTIONS_BYTES, commands_to_wire, modes_to_wire, options_to_wire
from term2_acp.domain.options import OptionChoice, OptionId, SessionOption
from tests.kit import packages
from tests.kit.published import published

MODE = SessionOption(
    OptionId.MODE,
    "Mode",
    "mode",
    "ask",
    (OptionChoice("standard", "Standard"), OptionChoice("ask", "Ask first", "Asks before every edit.")),
    "How freely term2 acts.",
)


def models(count, current, description=None):
    choices = tuple(OptionChoice(f"m{number}", f"Model {number}", description) for number in range(count))
    return SessionOption(OptionId.MODEL, "Model", "model", current, choices)


def held(method, result):
    """The result, which fits both published schemas."""
    try:
        schemas = published(1)
    except packages.Unavailable:
        schemas = ()
    for schema in schemas:
        schema.result(method, result)
    return result


def test_modes_and_options_say_the_same():
    result = held(
        "session/new",
        {"sessionId": "s", "modes": modes_to_wire((MODE,)), "configOptions": options_to_wire((MODE,))},
    )
    assert result["modes"] == {
        "currentModeId": "ask",
        "availableModes": [
            {"id": "standard", "name": "Standard"},
            {"id": "ask", "name": "Ask first", "description": "Asks before every edit."},
        ],
    }
    assert result["configOptions"] == [
        {
            "id": "mode",
            "name": "Mode",
            "description": "How freely term2 acts.",
            "category": "mode",
            "type": "select",
            "currentValue": "ask",
            "options": [
                {"value": "standard", "name": "Standard"},
                {"value": "ask", "name": "Ask first", "description": "Asks before every edit."},
            ],
        }
    ]


def test_without_a_mode_there_are_no_modes():
    assert modes_to_wire((models(1, "m0"),)) is None
    assert options_to_wire(()) == []


def test_descriptions_go_first_where_a_list_is_too_long():
    many = models(50, "m0", "x" * 100)
    assert "description" in options_to_wire((MODE, many))[1]["options"][0]
    mode, model = options_to_wire((MODE, many), 3000)
    assert [choice["value"] for choice in model["options"]] == [f"m{number}" for number in range(50)]
    assert all("description" not in choice for choice in mode["options"] + model["options"])
    assert len(json.dumps([mode, model], separators=(",", ":"))) <= 3000


def test_choices_that_do_not_fit_are_left_out_from_the_end_but_never_the_current_one():
    mode, model = held(
        "session/set_config_option", {"configOptions": options_to_wire((MODE, models(1000, "m990")), 3000)}
    )["configOptions"]
    values = [choice["value"] for choice in model["options"]]
    assert len(mode["options"]) == 2
    assert model["currentValue"] == values[-1] == "m990"
    assert values[:-1] == [f"m{number}" for number in range(len(values) - 1)]
    assert len(values) > 20
    assert len(json.dumps([mode, model], separators=(",", ":"))) <= 3000


def test_the_bound_leaves_room_in_a_frame():
    huge = SessionOption(
        OptionId.MODEL, "Model", "model", "m5", tuple(OptionChoice(f"m{n}", "é" * 1000) for n in range(6000))
    )
    assert (
        len(json.dumps(options_to_wire((MODE, huge)), separators=(",", ":"), ensure_ascii=False).encode())
        <= MAX_OPTIONS_BYTES
    )


@frozen
class Command:
    name: str
    description: str
    hint: str | None


def test_commands_have_a_hint_where_something_may_follow():
    wire = commands_to_wire([Command("plan", "Plan first.", "what to do"), Command("usage", "Tokens.", None)])
    assert wire == [
        {"name": "plan", "description": "Plan first.", "input": {"hint": "what to do"}},
        {"name": "usage", "description": "Tokens."},
    ]
