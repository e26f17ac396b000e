"""Puts a turn together from its session: the system prompt, the gate, the dispatcher."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from term2_acp.agent.budget import Repeats
from term2_acp.agent.dispatch import Dispatcher
from term2_acp.agent.gate import Gate
from term2_acp.agent.prompt import Environment, system_prompt
from term2_acp.agent.turn import Turn, chosen
from term2_acp.domain.turn import StopReason
from term2_acp.permission.broker import Broker
from term2_acp.permission.policy import Ground
from term2_acp.session.hands import Hands
from term2_acp.store.artifacts import artifacts_of
from term2_acp.tools.base import ToolContext
from term2_acp.workspace import FileRefused, Workspace

if TYPE_CHECKING:  # the session builds its turns here, and is what a turn works with
    from term2_acp.session.session import Session

# Files that a model whose words are masked to what there is gets to choose from.
LISTED_FILES = 10_000
# Characters of the workspace's AGENTS.md that a model is given; more would crowd out the conversation.
WORKSPACE_WORDS = 32 * 1024


async def run_turn(session: Session) -> StopReason:
    """Prepare the session's turn and run it; a cancel may come at any moment of either."""
    parts = session.parts
    toolbox = parts.toolbox()
    choice = await chosen(parts.mind)
    hands = _hands_of(session)
    words = await hands.files.read_words("AGENTS.md", WORKSPACE_WORDS)
    if words is not None:
        words = parts.redactor.redact(words)  # a key of one provider is no business of another
    environment = Environment(session.cwd, session.first_day)
    gate = Gate(
        ground=Ground(session.cwd, parts.home),
        access=hands.access,
        answers=hands.answers,
        broker=hands.broker,
        files=hands.files,
        asks_for_edits=choice.provider.asks_for_edits,
    )
    dispatcher = Dispatcher(
        ports=session,
        gate=gate,
        tools=toolbox.tools,
        context=ToolContext(
            files=hands.files,
            publish=lambda event: session.emit([event]),
            sandbox=toolbox.sandbox,
            artifacts=artifacts_of(parts.state, session.session_id),
            fetcher=toolbox.fetcher,
            redactor=parts.redactor,
        ),
        open_calls=hands.open_calls,
        repeats=Repeats(),
    )
    turn = Turn(
        ports=session,
        mind=parts.mind,
        choice=choice,
        cache_key=hashlib.sha256(session.session_id.encode()).hexdigest()[:32],
        files=lambda: _files_of(hands.files),
        system=system_prompt(environment, words),
        transcript=session.transcript,
        meter=session.meter,
        specs=toolbox.specs,
        dispatcher=dispatcher,
    )
    return await turn.run()


def _hands_of(session: Session) -> Hands:
    """The session's hands, made with its first turn."""
    if session.hands is None:
        parts = session.parts
        files = Workspace(session.cwd, home=parts.home, own_paths=parts.own_paths, own_code=parts.own_code)
        session.hands = Hands(files, Broker(session.session_id, session.post))
    return session.hands


async def _files_of(files: Workspace) -> Sequence[str]:
    """The workspace's files by their relative paths; none where they cannot be listed."""
    try:
        return (await files.list_files(files.resolve("."), "**/*", LISTED_FILES)).paths
    except FileRefused:
        return ()
