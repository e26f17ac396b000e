"""The options of a session as a person is shown them: each whole, with every value that it may have."""

from typing import TYPE_CHECKING

from term2_acp.domain.effort import Effort
from term2_acp.domain.options import Mode, OptionChoice, OptionId, SessionOption

if TYPE_CHECKING:  # with the first question about a model
    from term2_acp.providers.offers import ModelOffers, OfferedModel

# Models that the option lists. A router has 400: what is longer than 200 nobody reads, and every change of an
# option is shown with all of them (200 are 20 KiB on the wire).
MOST_MODELS = 200

_MODES = (
    OptionChoice(Mode.STANDARD, "Standard", "Works in the workspace; asks about what lies outside of it."),
    OptionChoice(Mode.ASK, "Ask", "Asks before every edit and every command."),
    OptionChoice(Mode.PLAN, "Plan", "Changes nothing: edits are refused, and commands can only read."),
)

_EFFORTS = {
    Effort.DEFAULT: "Default",
    Effort.NONE: "None",
    Effort.MINIMAL: "Minimal",
    Effort.LOW: "Low",
    Effort.MEDIUM: "Medium",
    Effort.HIGH: "High",
    Effort.XHIGH: "Extra high",
}


def mode_option(mode: Mode) -> SessionOption:
    """The mode."""
    return SessionOption(OptionId.MODE, "Mode", "mode", mode, _MODES)


def model_option(offers: "ModelOffers", chosen: str | None) -> SessionOption | None:
    """The model, None where there is none to choose. ``chosen`` is the person's, None if they chose none.

    The provider of the model in force comes first. There are ``MOST_MODELS`` at most, the model in force and
    the process's own among them.
    """
    from term2_acp.providers.offers import DEFAULT_MODEL, OfferedModel

    models = {model.value: model for model in offers.models()}
    default = offers.default()
    if default is None:
        if not models and chosen is None:
            return None
        default = OfferedModel(DEFAULT_MODEL, "None", "No model is set, so prompts cannot be answered.")
    current = default if chosen is None else offers.find(chosen) or OfferedModel(chosen, chosen)
    musts = {model.value: model for model in (default, current)}
    provider = _provider(current)
    ranked = sorted(models.values(), key=lambda model: _provider(model) != provider)
    # What is there for a reason of its own stands before the list, unless it is well within what is shown.
    within = {model.value for model in ranked[: MOST_MODELS - len(musts)]}
    ahead = {value: model for value, model in musts.items() if value not in within}
    rest = [model for model in ranked if model.value not in ahead]
    shown = [*ahead.values(), *rest[: MOST_MODELS - len(ahead)]]
    choices = tuple(OptionChoice(model.value, model.name, model.description) for model in shown)
    return SessionOption(OptionId.MODEL, "Model", "model", current.value, choices)


def effort_option(offers: "ModelOffers", model: str, wanted: Effort | None) -> SessionOption | None:
    """The effort, None where the model is not known to take any. ``wanted`` is the person's choice."""
    levels = offers.levels(model)
    if not levels:
        return None
    choices = tuple(OptionChoice(level, _EFFORTS[level]) for level in (Effort.DEFAULT, *levels))
    return SessionOption(OptionId.EFFORT, "Effort", "thought_level", offers.effort(model, wanted), choices)


def _provider(model: "OfferedModel") -> str:
    return model.value.partition("/")[0]
