"""What a session knows by its events: its title, what its model is told, what it took, what the person set.

The same events make the same history, whether they happen now or are read from the journal. One that was told
what the journal could not take (``unkept``) is not that of the journal, and is read again before it is used:
a model is told what its person was shown and what a restart would find, and nothing else.
"""

import functools
from typing import TYPE_CHECKING, NamedTuple

from term2_acp.agent.usage import METERED, Meter
from term2_acp.agent.usage import Mark as MeterMark
from term2_acp.domain import events as ev
from term2_acp.domain.options import OptionId
from term2_acp.redact import Redactor
from term2_acp.session.options import Options
from term2_acp.session.title import name

if TYPE_CHECKING:  # imported with the first prompt
    from term2_acp.agent.mind import Mind
    from term2_acp.agent.transcript import Mark as TranscriptMark
    from term2_acp.agent.transcript import Transcript


class Mark(NamedTuple):
    """Where a history stands between two turns."""

    title: str | None
    said: "TranscriptMark"
    spent: MeterMark


class History:
    """See the module. It begins with nothing but a title, which the store keeps by itself."""

    def __init__(self, mind: "Mind", title: str | None = None) -> None:
        self.title = title
        self.unkept = False
        self.meter = Meter()
        self.options = Options(mind)

    @functools.cached_property
    def transcript(self) -> "Transcript":
        """The history that a provider is given. A new one is made, and imported, with the first prompt."""
        return self.beginning()

    def beginning(self) -> "Transcript":
        """The history of a session of which nothing was said yet."""
        from term2_acp.agent.transcript import Transcript

        transcript = Transcript()
        transcript.apply(ev.OptionChosen(OptionId.MODE, self.options.mode))  # it may be set before that
        return transcript

    def read(self, event: ev.Event) -> None:
        """Fold in one more event of the journal."""
        self.transcript.apply(event)
        if type(event) in METERED:
            self.meter.apply(event)
        elif type(event) is ev.OptionChosen:
            self.options.apply(event)

    def see(self, event: ev.Event) -> None:
        """Fold in one more event that happens now. The options know what is set before it is said."""
        self.transcript.apply(event)
        if type(event) in METERED:
            self.meter.apply(event)

    def mark(self) -> Mark:
        """Where the history stands between two turns, for ``rewind``."""
        return Mark(self.title, self.transcript.mark(), self.meter.mark())

    def rewind(self, mark: Mark) -> None:
        """Forget what was said since ``mark``: a prompt that was refused leaves no trace."""
        self.title = mark.title
        self.transcript.rewind(mark.said)
        self.meter.rewind(mark.spent)

    def is_now(self, transcript: "Transcript") -> None:
        """It was read again, up to the last event that was kept."""
        vars(self)["transcript"] = transcript
        self.unkept = False
        self.tell_mode()  # it may have been set while that was read

    def name(self, prompt: ev.UserMessage, redactor: Redactor) -> list[ev.Event]:
        """Name the session by its prompt, if it has no name; the event that says so."""
        self.title, named = name(self.title, prompt.for_model, redactor)
        return named

    def tell_mode(self) -> None:
        """Have the model told of the mode in force, with the next prompt."""
        if "transcript" in vars(self):  # else it begins with that
            self.transcript.apply(ev.OptionChosen(OptionId.MODE, self.options.mode))

    def forget(self) -> None:
        """The session is over. It is a cycle of objects: its images would wait for the collector."""
        vars(self).pop("transcript", None)
