"""Between a prepared call and its run: the policy, the person, and a last look at the targets.

Rules:

- A call runs only when ``admit`` returned ``Go``, and ``Go`` has two sources: the policy (inside the
  workspace, or under a grant) and an explicit allow of the person on this very ask.
- What was asked is what runs. After an answer each target is resolved again; one that leads elsewhere now
  makes the ask stale, and a stale ask ends the turn. (A target that moves after that is refused by the
  workspace, which opens the canonical path and follows no link.)
- A call is decided about under the mode that is in force when it is about to run. The mode is read in the
  step that decides, and once more in the one that lets the call run (``changed_nowait``): in between, the
  call is journalled and waits for a slow editor. An ask that is open when the mode changes is stale, which
  the broker knows of.
"""

from collections.abc import Callable

from attrs import define, frozen

from term2_acp.agent.calls import Call
from term2_acp.agent.ports import Workers
from term2_acp.domain.content import Diff
from term2_acp.domain.options import Mode
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import ToolCallUpdate, ToolStatus
from term2_acp.permission.broker import Abandoned, Approved, Broker, RefusedAll
from term2_acp.permission.choices import Choice, escape_for_person
from term2_acp.permission.grants import SessionAccess, TurnAnswers
from term2_acp.permission.policy import Allow, Decision, Deny, Ground, decide
from term2_acp.tools.base import Prepared
from term2_acp.workspace import PathRefused, Workspace


@frozen
class Go:
    """The call may run, as was decided under ``mode``."""

    mode: Mode


@frozen
class No:
    """The call may not run. ``rest_too``: nor may the other calls of the same reply."""

    reason: str
    rest_too: bool = False


@frozen
class Abort:
    """The turn is over: the client is gone, or what it was asked about has changed."""

    reason: str


Admission = Go | No | Abort

_CHANGED = "The session's mode was changed just before this call ran, so it was not run. Call it again."


@define(eq=False)
class Gate:
    """Decides about the calls of one turn.

    ``asks_for_edits`` is the provider's (the embedded model). ``mode`` tells the mode that is in force now.
    """

    ground: Ground
    access: SessionAccess
    answers: TurnAnswers
    broker: Broker
    files: Workspace
    asks_for_edits: bool
    mode: Callable[[], Mode]

    async def admit(self, call: Call, prepared: Prepared, workers: Workers) -> Admission:
        """Decide, asking the person where the policy says so. Cancelled, the ask is withdrawn."""
        mode = self.mode()
        decision = self._decide(prepared, mode)
        if isinstance(decision, Allow):
            return Go(mode)
        if isinstance(decision, Deny):
            return No(decision.reason)
        remembered = self.answers.covering(call.made.name, prepared.actions)
        if remembered is not None and remembered in decision.choices:
            return Go(mode)
        return await self._ask(call, prepared, decision.choices, mode, workers)

    def changed_nowait(self, prepared: Prepared, admitted: Go) -> str | None:
        """Why an admitted call may not run after all: the mode has changed since. None when it may."""
        mode = self.mode()
        if mode is admitted.mode:
            return None
        decision = self._decide(prepared, mode)
        if isinstance(decision, Allow):
            return None
        return decision.reason if isinstance(decision, Deny) else _CHANGED

    def _decide(self, prepared: Prepared, mode: Mode) -> Decision:
        return decide(
            prepared.actions, self.access, ground=self.ground, asks_for_edits=self.asks_for_edits, mode=mode
        )

    async def _ask(
        self, call: Call, prepared: Prepared, choices: tuple[Choice, ...], mode: Mode, workers: Workers
    ) -> Admission:
        with workers.asking():
            verdict = await self.broker.ask(
                title=call.description.title,
                description=describe(prepared, self.ground.workspace, mode),
                tool_call=_as_asked(call, prepared),
                choices=choices,
                actions=prepared.actions,
                ground=self.ground,
            )
        if isinstance(verdict, Abandoned):
            return Abort(verdict.reason)
        if not isinstance(verdict, Approved):
            return No(verdict.reason, rest_too=isinstance(verdict, RefusedAll))
        if not self.unchanged(prepared.actions):
            return Abort("A target changed between the ask and its answer.")
        for action in prepared.actions:
            self.access.record(verdict.choice, action)
            self.answers.remember(call.made.name, verdict.choice, action)
        return Go(mode)

    def unchanged(self, actions: tuple[Action, ...]) -> bool:
        """Whether each target still leads where it led when it was shown."""
        try:
            return all(
                self.files.resolve(action.target.typed).path == action.target.path
                for action in actions
                if action.target is not None
            )
        except PathRefused:
            return False


def _as_asked(call: Call, prepared: Prepared) -> ToolCallUpdate:
    shown = call.shown(ToolStatus.PENDING)
    diffs = tuple(content for content in prepared.preview if isinstance(content, Diff))
    return ToolCallUpdate(
        shown.tool_call_id,
        title=shown.title,
        name=shown.name,
        kind=shown.kind,
        status=shown.status,
        content=diffs or None,
        locations=prepared.locations or shown.locations,
        raw_input=shown.raw_input,
        parent=shown.parent,
    )


_DOES = {
    Access.READ: "Reads {} and gives its text to the model.",
    Access.SEARCH: "Searches {} and everything below it, and gives what it finds to the model.",
    Access.EDIT: "Changes {}.",
}


def describe(prepared: Prepared, workspace: str, mode: Mode) -> str:
    """The sentences of an ask: what is done, to which real target, from where, and where data goes.

    Each is one line whatever a file is called: a name cannot add a line of its own.
    """
    sentences = [prepared.summary] if prepared.summary else []
    for action in prepared.actions:
        if action.target is None:
            sentences.append(action.description)
            if action.access is Access.COMMAND and mode is Mode.PLAN:
                sentences.append("Plan mode is on: the workspace is read-only for this.")
            continue
        sentences.append(_DOES[action.access].format(action.target.path))
        if action.target.guarded is not None:
            sentences.append(f"This path is protected ({action.target.guarded}).")
        elif not action.target.inside:
            sentences.append("This path is outside the workspace.")
    sentences.append(f"Working directory: {workspace}")
    return "\n".join(escape_for_person(sentence) for sentence in sentences)
