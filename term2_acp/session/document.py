"""A session as a document: what was said and done, whole, in order, with the times that matter.

It is what a replay shows (``session.replay``), and between that what a replay leaves out because an editor
would count it twice: how each turn ended, and what it took. A prompt and the end of a turn have the time at
which they were recorded; what stands between has none.
"""

from collections.abc import Iterable

from term2_acp.domain import events as ev
from term2_acp.domain.ids import MessageId
from term2_acp.session.replay import Replay
from term2_acp.store.journal import Dated


class Document:
    """The fold. Memory is bounded as a replay's is."""

    def __init__(self) -> None:
        self._replay = Replay()
        self._times: dict[MessageId, int | None] = {}  # of the prompts that are not shown yet

    def feed(self, events: Iterable[Dated]) -> list[Dated]:
        """Take events of the journal; return what can be shown now."""
        shown: list[Dated] = []
        for dated in events:
            event = dated.event
            if isinstance(event, ev.UserMessage):
                self._times[event.message_id] = dated.at
            shown += map(self._dated, self._replay.feed([event]))
            if isinstance(event, ev.Idle):
                shown.append(dated)
        return shown

    def end(self, *, goes_on: bool) -> list[Dated]:
        """The journal ends here. ``goes_on``: the session is open, and so may be its last turn."""
        return list(map(self._dated, self._replay.end(goes_on=goes_on)))

    def _dated(self, event: ev.Event) -> Dated:
        if isinstance(event, ev.UserMessage):
            return Dated(event, self._times.pop(event.message_id, None))
        return Dated(event, None)
