"""What the turns of one session work with, and what it holds for them from one turn to the next.

Made with the session's first turn, and ended with the session. An editor that opens a session waits for none
of it: the rooms that it stands on are half of what a session would import, and idle sessions have none.
"""

import trio
from attrs import field

from term2_acp.agent.calls import OpenCalls
from term2_acp.domain.classes import define
from term2_acp.permission.broker import Broker
from term2_acp.permission.grants import SessionAccess, TurnAnswers
from term2_acp.workspace import Workspace


@define(eq=False)
class Hands:
    """The files of the workspace, what the person allowed, the desk for asks, and the calls that are open."""

    files: Workspace
    broker: Broker
    access: SessionAccess = field(factory=SessionAccess)
    answers: TurnAnswers = field(factory=TurnAnswers)
    open_calls: OpenCalls = field(factory=lambda: OpenCalls(trio.current_time))

    def settle(self, *, refused: bool) -> None:
        """A turn is over: its answers and its asks are. ``refused``: what it read is in no history."""
        if refused:
            self.files.forget_reads_nowait()
        self.answers.settle()
        self.broker.revise_nowait()

    def end(self) -> None:
        """The session is over: every ask is denied, and every grant is gone."""
        self.broker.close_nowait()
        self.access.reset()
