"""How a change of an option goes: into force, then into the journal, then to the client.

A mode that changes makes every open ask stale (``permission.broker``): what was asked was asked under the
other one. A change that the journal cannot take is taken back: whoever set it is told, and the client is
shown what holds. A turn that was admitted since, and so in a mode that holds no longer, is over: what was to
change nothing must not go on in a mode that lets it.
"""

import contextlib
from collections.abc import Callable

import trio

from term2_acp.domain import events as ev
from term2_acp.domain.options import OptionId, SessionOption
from term2_acp.domain.turn import Failure
from term2_acp.session.history import History
from term2_acp.session.options import Change
from term2_acp.session.outbox import Closed
from term2_acp.session.speech import Speech

# Changes of one session that may wait for its journal and its client. A client that sets options and does not
# read would fill the line with them.
MOST_WAITING = 256

CLOSING = Failure("closed", "The session is closing, so nothing was set.")
_TOO_MANY = Failure("busy", "Too many changes of this session's options wait to be kept. Try again.")

Done = Callable[[tuple[SessionOption, ...]], None]
Refuse = Callable[[Failure], None]


def _nothing() -> None:
    """Nobody waits for what is only shown."""


def _nor_fails(failure: Failure) -> None:
    raise AssertionError(f"what is only shown needs no journal: {failure.code}")


class Chooser:
    """See the module. ``on_mode`` is told that the mode in force is another one now."""

    def __init__(self, history: History, speech: Speech, on_mode: Callable[[], None]) -> None:
        self._history = history
        self._speech = speech
        self._on_mode = on_mode
        self._open: dict[Change, Refuse] = {}

    def set_nowait(self, option_id: str, value: str, done: Done, refuse: Refuse) -> None:
        """Set an option that was shown; see ``Session.set_option_nowait``."""
        if len(self._open) >= MOST_WAITING:
            refuse(_TOO_MANY)
            return
        mode = self._history.options.mode
        self._say(self._history.options.set_nowait(option_id, value), mode, done, refuse)

    def put_nowait(self, option_id: OptionId, value: str, done: Done, refuse: Refuse) -> None:
        """Set an option to a value that is known to be valid, whether it was shown or not."""
        mode = self._history.options.mode
        self._say(self._history.options.put_nowait(option_id, value), mode, done, refuse)

    async def choose(self, option_id: OptionId, value: str) -> Failure | None:
        """As ``put_nowait``, and wait until it is kept and shown. Returns why it could not be kept.

        Cancelled, it is in force all the same.
        """
        over, failures = trio.Event(), list[Failure]()

        def refuse(failure: Failure) -> None:
            failures.append(failure)
            over.set()

        self.put_nowait(option_id, value, lambda options: over.set(), refuse)
        await over.wait()
        return failures[0] if failures else None

    def end(self, failure: Failure) -> None:
        """The session is over: what still waits is refused."""
        for change in tuple(self._open):
            self._open.pop(change)(failure)

    def _say(self, change: Change, mode: str, done: Done, refuse: Refuse) -> None:
        options, turn = self._history.options, self._speech.turn

        def said() -> None:
            del self._open[change]
            options.keep(change)
            done(shown)

        def refused(failure: Failure) -> None:
            del self._open[change]
            before = options.mode
            options.take_back(change)
            self._see_mode(before)
            admitted = self._speech.turn
            if admitted is not None and admitted is not turn and options.mode != before:
                admitted.fail(failure)
            refuse(failure)
            # The client may have shown it already, and the changes behind this one tell it as if it held.
            with contextlib.suppress(Closed):
                self._speech.say_nowait([ev.OptionsUpdate(options.known_nowait())], _nothing, _nor_fails)

        self._open[change] = refuse
        shown = options.known_nowait()
        try:
            self._speech.say_nowait([*change.events(), ev.OptionsUpdate(shown)], said, refused)
        except Closed:
            del self._open[change]
            options.take_back(change)
            refuse(CLOSING)
            return
        self._see_mode(mode)

    def _see_mode(self, before: str) -> None:
        if self._history.options.mode != before:
            self._history.tell_mode()
            self._on_mode()
