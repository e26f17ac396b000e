"""Puts a turn together from its session: the system prompt, the gate, the dispatcher."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from term2_acp import __version__
from term2_acp.agent.asking import Asking
from term2_acp.agent.budget import Repeats
from term2_acp.agent.dispatch import Dispatcher
from term2_acp.agent.gate import Gate
from term2_acp.agent.prompt import Environment, system_prompt
from term2_acp.agent.turn import Turn, chosen
from term2_acp.domain.events import Circumstances
from term2_acp.domain.turn import StopReason
from term2_acp.permission.broker import Broker
from term2_acp.permission.policy import Ground
from term2_acp.providers.base import ModelChoice
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


async def asking_of(session: Session) -> Asking:
    """The way to the session's model, as its turns ask it.

    Raises:
        TurnFailed: there is no model to ask.
    """
    parts = session.parts
    try:
        choice = await chosen(session.options.source())
    finally:
        session.speech.emit_nowait(session.options.news())  # also why there is none, and what there is
    files = hands_of(session).files
    words = await files.read_words("AGENTS.md", WORKSPACE_WORDS)
    if words is not None:
        words = parts.redactor.redact(words)  # a key of one provider is no business of another
    return Asking(
        ports=session.speech,
        mind=parts.mind,
        choice=choice,
        cache_key=hashlib.sha256(session.session_id.encode()).hexdigest()[:32],
        files=lambda: _files_of(files),
        system=system_prompt(Environment(session.cwd, session.first_day), words),
        specs=parts.toolbox().specs,
        transcript=session.transcript,
        meter=session.meter,
    )


async def run_turn(session: Session) -> StopReason:
    """Prepare the session's turn and run it; a cancel may come at any moment of either."""
    parts = session.parts
    toolbox = parts.toolbox()
    asking = await asking_of(session)
    hands = hands_of(session)
    gate = Gate(
        ground=Ground(session.cwd, parts.home),
        access=hands.access,
        answers=hands.answers,
        broker=hands.broker,
        files=hands.files,
        asks_for_edits=asking.choice.provider.asks_for_edits,
        mode=lambda: session.options.mode,
    )
    dispatcher = Dispatcher(
        ports=session.speech,
        gate=gate,
        tools=toolbox.tools,
        context=ToolContext(
            files=hands.files,
            publish=lambda event: session.speech.emit([event]),
            sandbox=toolbox.sandbox,
            artifacts=artifacts_of(parts.state, session.session_id),
            fetcher=toolbox.fetcher,
            redactor=parts.redactor,
            mode=lambda: session.options.mode,
        ),
        open_calls=hands.open_calls,
        repeats=Repeats(),
        circumstances=lambda: _circumstances(session, asking.choice),
    )
    return await Turn(asking, dispatcher).run()


def _circumstances(session: Session, choice: ModelChoice) -> Circumstances:
    """What the calls of the session's turn are made under."""
    assert session.turn is not None, "a turn makes its calls while it is open"
    client = session.client.identity
    return Circumstances(
        prompt=session.turn.message_id,
        client=client.name,
        capabilities=client.capabilities,
        agent=__version__,
        protocol=client.protocol,
        provider=choice.provider.name,
        model=choice.model,
        effort=choice.effort.value,
        roots=(session.cwd,),
    )


def hands_of(session: Session) -> Hands:
    """The session's hands, made with its first turn."""
    if session.hands is None:
        parts = session.parts
        files = Workspace(
            session.cwd,
            home=parts.home,
            own_paths=parts.own_paths,
            own_code=parts.own_code,
            editor=session.client.files(session.session_id),
            owner=session.session_id,
        )
        session.hands = Hands(files, Broker(session.session_id, session.speech.post))
        session.speech.on_terminal = session.hands.open_calls.see_terminal
    return session.hands


async def _files_of(files: Workspace) -> Sequence[str]:
    """The workspace's files by their relative paths; none where they cannot be listed."""
    try:
        return (await files.list_files(files.resolve("."), "**/*", LISTED_FILES)).paths
    except FileRefused:
        return ()
