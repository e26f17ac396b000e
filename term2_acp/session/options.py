"""What the person set of one session: its mode, its model and its effort.

Rules:

- What is set counts from the moment it is set. The journal has it a little later, and it is taken back if the
  journal cannot: the value in force is that of the last change that waits for the journal, else the kept one.
- Nothing of a model is loaded before the options are shown or a model is chosen, and no server is asked.
- A model that does not take the effort that is set sets it back to ``default``.
- A kept model that is not offered any more counts as no choice, and the person is told with the next prompt.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import trio

from term2_acp.domain import events as ev
from term2_acp.domain.effort import Effort
from term2_acp.domain.ids import new_message_id
from term2_acp.domain.options import Mode, OptionId, SessionOption
from term2_acp.session.menus import effort_option, mode_option, model_option

if TYPE_CHECKING:  # with the first question about a model
    from term2_acp.agent.mind import Mind
    from term2_acp.providers.base import ModelSource

# Values that an error names, and characters of each: a server may have hundreds of models. What was said in
# place of one is repeated without the keys in it: somebody pastes one into the wrong field.
_NAMED = 20
_NAMED_CHARACTERS = 100

# What a journal can say. A newer term2 may have kept others; those change nothing here.
_READABLE: Mapping[OptionId, frozenset[str]] = {
    OptionId.MODE: frozenset(Mode),
    OptionId.EFFORT: frozenset(Effort),
}


class _Unknown(Exception):
    """``valid`` is what could have been said instead."""

    def __init__(self, what: str, valid: tuple[str, ...]) -> None:
        named = [each[:_NAMED_CHARACTERS] for each in valid[:_NAMED]]
        super().__init__(f"{what}; there are {', '.join(named)}{', ...' if len(valid) > _NAMED else ''}")
        self.valid = valid


class UnknownOption(_Unknown):
    """The session has no option of that id."""


class UnknownValue(_Unknown):
    """The option cannot have that value."""


class Change:
    """What the person set, and what it sets with it: ``values`` by their options. Each is itself alone."""

    def __init__(self, values: Mapping[OptionId, str]) -> None:
        self.values = values

    def events(self) -> Iterator[ev.Event]:
        """What the journal keeps of it."""
        return (ev.OptionChosen(option_id, value) for option_id, value in self.values.items())


class Options:
    """See the module. They begin with nothing set."""

    def __init__(self, mind: "Mind") -> None:
        self._mind = mind
        self._kept: dict[OptionId, str] = {}
        self._waiting: list[Change] = []  # in force, and not kept yet
        self._shown: tuple[SessionOption, ...] | None = None
        self._lost: str | None = None  # a kept model that is not offered any more, until the person is told

    # -- what is in force --------------------------------------------------------------------------

    @property
    def mode(self) -> Mode:
        """The mode in force."""
        return Mode(self._value(OptionId.MODE) or Mode.STANDARD)

    @property
    def effort(self) -> Effort | None:
        """The effort that the person chose; None: that of the settings."""
        value = self._value(OptionId.EFFORT)
        return None if value is None else Effort(value)

    def model(self) -> str | None:
        """The model that the person chose, ``provider/model``; None: the process's own.

        Where one was chosen, what is known of models is loaded now.
        """
        offers, value = self._mind.offers, self._value(OptionId.MODEL)
        if offers is None or value is None:
            return None
        from term2_acp.providers.offers import DEFAULT_MODEL

        if value == DEFAULT_MODEL:
            return None
        if offers.find(value) is None:
            self._kept.pop(OptionId.MODEL, None)
            self._lost = value
            return None
        return value

    def source(self) -> "ModelSource":
        """Where the session's next turn gets its model from."""
        offers = self._mind.offers
        return self._mind.source if offers is None else offers.source(self.model(), self.effort)

    def _value(self, option_id: OptionId) -> str | None:
        for change in reversed(self._waiting):
            if option_id in change.values:
                return change.values[option_id]
        return self._kept.get(option_id)

    # -- what is shown -----------------------------------------------------------------------------

    async def shown(self) -> tuple[SessionOption, ...]:
        """The options of the session as they are now, each with all that it may be. No server is asked.

        The first call of a process loads what is known of models, and takes 20 to 40 ms.
        """
        await trio.lowlevel.checkpoint()
        return self.shown_nowait()

    def shown_nowait(self) -> tuple[SessionOption, ...]:
        """The same, for whoever cannot wait and whose session has been shown before."""
        self._shown = (mode_option(self.mode), *self._of_models())
        return self._shown

    def _of_models(self) -> Iterator[SessionOption]:
        offers = self._mind.offers
        option = None if offers is None else model_option(offers, self.model())
        if offers is None or option is None:
            return
        yield option
        effort = effort_option(offers, option.current, self.effort)
        if effort is not None:
            yield effort

    def known_nowait(self) -> tuple[SessionOption, ...]:
        """The options as far as they are known without waiting: what was never shown is its mode alone."""
        return (mode_option(self.mode),) if self._shown is None else self.shown_nowait()

    def news(self) -> Sequence[ev.Event]:
        """What there is to tell once a turn has its model: a choice that was lost, a model that was found."""
        told: list[ev.Event] = []
        if self._lost is not None:
            sentence = f"The model {self._lost} is not offered here any more, so the default model is used."
            told.append(ev.Notice(new_message_id(), ev.Severity.WARNING, sentence))
            self._lost = None
        if self._shown is not None:
            before = self._shown
            if self.shown_nowait() != before:
                told.append(ev.OptionsUpdate(self._shown))
        return told

    # -- what is set -------------------------------------------------------------------------------

    def set_nowait(self, option_id: str, value: str) -> Change:
        """Set an option; it is in force from here. ``keep`` or ``take_back`` is called with what is returned.

        Raises:
            UnknownOption: there is none of that id, or it was never shown.
            UnknownValue: it is not among the values that were shown.
        """
        options = {option.option_id: option for option in self._shown or self.known_nowait()}
        option = next((each for each in options.values() if each.option_id == option_id), None)
        if option is None:
            raise UnknownOption(f"there is no option {self._repeated(option_id)!r}", tuple(options))
        valid = tuple(choice.value for choice in option.choices)
        if value not in valid:
            raise UnknownValue(f"the option {option_id!r} cannot be {self._repeated(value)!r}", valid)
        return self.put_nowait(option.option_id, value)

    def _repeated(self, said: str) -> str:
        """Redacted before it is cut: half a key is no key that anyone would find again."""
        return self._mind.redactor.redact(said)[:_NAMED_CHARACTERS]

    def put_nowait(self, option_id: OptionId, value: str) -> Change:
        """The same for a value that is known to be valid."""
        values = {option_id: value}
        offers = self._mind.offers
        if option_id is OptionId.MODEL and offers is not None:
            self._lost = None  # what the person chose anew they know of
            effort = self.effort
            if effort not in (None, Effort.DEFAULT) and effort not in offers.levels(value):
                values[OptionId.EFFORT] = Effort.DEFAULT
        change = Change(values)
        self._waiting.append(change)
        return change

    def keep(self, change: Change) -> None:
        """The journal has it."""
        self._waiting.remove(change)
        self._kept.update(change.values)

    def take_back(self, change: Change) -> None:
        """The journal cannot have it."""
        self._waiting.remove(change)

    @property
    def waiting(self) -> int:
        """How many changes are neither kept nor taken back."""
        return len(self._waiting)

    def apply(self, event: ev.OptionChosen) -> None:
        """Fold in what the journal says was set."""
        readable = _READABLE.get(event.option_id)
        if readable is None or event.value in readable:
            self._kept[event.option_id] = event.value
