"""Between a prepared call and its run: the policy, the person, and a last look at the targets.

Rules:

- A call runs only when ``admit`` returned ``Go``, and ``Go`` has two sources: the policy (inside the
  workspace, or under a grant) and an explicit allow of the person on this very ask.
- What was asked is what runs. After an answer each target is resolved again; one that leads elsewhere now
  makes the ask stale, and a stale ask ends the turn. (A target that moves after that is refused by the
  workspace, which opens the canonical path and follows no link.)
- Whatever is decided leaves its record with the call (``Call.unwritten``), and so does a cancel that finds
  the ask open: nobody allowed the call. There is one for each call that came here.
- A call is decided about under the mode that is in force when it is about to run. The mode is read in the
  step that decides, and once more in the one that lets the call run (``changed_nowait``): in between, the
  call is journalled and waits for a slow editor. An ask that is open when the mode changes is stale, which
  the broker knows of.
"""

from collections.abc import Callable

import trio

from term2_acp.agent.calls import Call
from term2_acp.agent.ports import Workers
from term2_acp.domain.classes import define, frozen
from term2_acp.domain.content import Diff
from term2_acp.domain.events import ToolCallDecided
from term2_acp.domain.options import Mode
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import DecidedBy, ToolCallUpdate, ToolStatus
from term2_acp.permission.broker import Abandoned, Approved, Broker, Refused, RefusedAll, Verdict
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

# Characters that the record of a decision has of what is no path. The whole of a command is in the call's
# arguments, which are kept as well.
MAX_TARGET = 500

_CUT_OFF = "This was ended before an answer of the person was acted on."
_MOVED = "A target changed between the ask and its answer."
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
        note = _Note(call, mode, targets_of(prepared), self.access)
        if isinstance(decision, Allow):
            note.write(DecidedBy.GRANT if decision.granted else DecidedBy.POLICY)
            return Go(mode)
        if isinstance(decision, Deny):
            note.write(DecidedBy.POLICY, refusal=decision.reason)
            return No(decision.reason)
        remembered = self.answers.covering(call.made.name, prepared.actions)
        if remembered is not None and remembered in decision.choices:
            note.write(DecidedBy.ANSWER, choice=remembered)
            return Go(mode)
        return await self._ask(call, prepared, decision.choices, note, workers)

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
        self, call: Call, prepared: Prepared, choices: tuple[Choice, ...], note: "_Note", workers: Workers
    ) -> Admission:
        asked_at = trio.current_time()
        try:
            with workers.asking():
                verdict = await self.broker.ask(
                    title=call.description.title,
                    description=describe(prepared, self.ground.workspace, note.mode),
                    tool_call=_as_asked(call, prepared),
                    choices=choices,
                    actions=prepared.actions,
                    ground=self.ground,
                )
        except trio.Cancelled:
            note.waited_s = trio.current_time() - asked_at
            note.write(DecidedBy.NOBODY, refusal=_CUT_OFF)
            raise
        note.waited_s = trio.current_time() - asked_at
        return self._answered(call, prepared, verdict, note)

    def _answered(self, call: Call, prepared: Prepared, verdict: Verdict, note: "_Note") -> Admission:
        """What a verdict comes to: its record, and what it leaves behind."""
        match verdict:
            case Abandoned(reason=reason):
                note.write(DecidedBy.NOBODY, refusal=reason)
                return Abort(reason)
            case RefusedAll(reason=reason):
                note.write(DecidedBy.PERSON, refusal=reason)
                return No(reason, rest_too=True)
            case Refused(reason=reason, choice=choice):
                by = DecidedBy.PERSON if choice is not None else DecidedBy.NOBODY
                note.write(by, refusal=reason, choice=choice)
                return No(reason)
            case Approved(choice=taken):
                if not self.unchanged(prepared.actions):
                    note.write(DecidedBy.NOBODY, refusal=_MOVED, choice=taken)
                    return Abort(_MOVED)
                note.write(DecidedBy.PERSON, choice=taken)
                for action in prepared.actions:
                    self.access.record(taken, action)
                    self.answers.remember(call.made.name, taken, action)
                return Go(note.mode)

    def unchanged(self, actions: tuple[Action, ...]) -> bool:
        """Whether each target still leads where it led when it was shown."""
        try:
            return all(
                self.files.path_of(action.target.typed) == action.target.path
                for action in actions
                if action.target is not None
            )
        except PathRefused:
            return False


@define(eq=False)
class _Note:
    """The record of one decision as far as it is known: what it is about, and how long the person was waited
    for. ``access`` are the grants, which are those in force when it is written.
    """

    call: Call
    mode: Mode
    targets: tuple[str, ...]
    access: SessionAccess
    waited_s: float = 0.0

    def write(self, by: DecidedBy, *, refusal: str = "", choice: Choice | None = None) -> None:
        """Leave the record with the call: allowed, unless there is a ``refusal``."""
        record = ToolCallDecided(
            self.call.tool_call_id,
            allowed=not refusal,
            by=by,
            mode=self.mode.value,
            targets=self.targets,
            grants=self.access.in_words(),
            choice=None if choice is None else choice.value,
            waited_ms=round(self.waited_s * 1000),
            reason=refusal,
        )
        self.call.unwritten.append(record)


def targets_of(prepared: Prepared) -> tuple[str, ...]:
    """What a call is about, for the record of its decision: canonical paths, or words in place of one."""
    return tuple(
        action.target.path if action.target is not None else _in_short(_words_of(action, prepared))
        for action in prepared.actions
    )


def _words_of(action: Action, prepared: Prepared) -> str:
    """The command itself is in the sentence about its call; its action only says how commands are run."""
    if action.access is Access.COMMAND and prepared.summary:
        return prepared.summary
    return action.description


def _in_short(words: str) -> str:
    shown = escape_for_person(words[: MAX_TARGET + 1])
    return shown if len(shown) <= MAX_TARGET else f"{shown[: MAX_TARGET - 3]}..."


def _as_asked(call: Call, prepared: Prepared) -> ToolCallUpdate:
    diffs = tuple(content for content in prepared.preview if isinstance(content, Diff))
    return call.shown(ToolStatus.PENDING, content=diffs or None, locations=prepared.locations)


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
