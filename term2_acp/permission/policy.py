"""What asks, as a pure table.

============  =================  ==============  ==============================================
what          where              mode            decision
============  =================  ==============  ==============================================
read, search  inside             any             allow
read, search  outside            any             ask: approve, allow-folder-session, reject
read, search  hidden path        any             ask each time: approve, reject
edit          inside             standard        allow
edit          inside             ask             ask each time: approve, reject
edit          outside            standard        ask: allow-once, the two session choices, deny
edit          outside            ask             ask each time: allow-once, deny
edit          guarded, anywhere  standard, ask   ask each time: allow-once, deny
edit          anywhere           plan            deny
command       in the sandbox     standard, plan  allow
command       in the sandbox     ask             ask each time: approve, reject
other         no file            any             ask: approve, reject
============  =================  ==============  ==============================================

A provider may ask for every edit (the embedded model): then the rows of ``ask`` hold in ``standard``, and a
command asks in ``plan`` too. A command that is allowed in ``plan`` sees the workspace read-only, which is for
the sandbox to hold.

Reading a protected name inside the workspace (``AGENTS.md``, ``.git/config``) does not ask; outside it
asks each time, since no grant covers one. A grant that covers an action makes it allowed where the table
does not say *each time*, and counts again when the mode that did not honour it is over. A folder choice is
offered only for a folder that may be granted.

A call of several actions is allowed when all of them are, and denied when one of them is. Otherwise it is
one question, whose choices are those that every asking action has, always with one way to allow once and one
to refuse.
"""

from collections.abc import Sequence

from term2_acp.domain.classes import frozen
from term2_acp.domain.options import Mode
from term2_acp.domain.paths import hides
from term2_acp.domain.permission import Access, Action
from term2_acp.permission.choices import Choice, in_order, scope_of
from term2_acp.permission.grants import SessionAccess
from term2_acp.permission.ground import Ground, may_grant

__all__ = ["PLAN_KEEPS_FILES", "Allow", "AskPerson", "Decision", "Deny", "Ground", "decide"]

PLAN_KEEPS_FILES = (
    "Plan mode is on, so no file was changed. Show the plan; the person switches the mode when it is to be "
    "carried out."
)
"""What the model and the person are told of an edit in the mode ``plan``."""


@frozen
class Allow:
    """Every action may happen now. ``granted``: one of them only under a grant of the session."""

    granted: bool = False


@frozen
class AskPerson:
    """The person decides, with these choices, allowing ones first."""

    choices: tuple[Choice, ...]


@frozen
class Deny:
    """It must not happen, and nobody is asked. ``reason`` is a sentence for the model and the person."""

    reason: str


Decision = Allow | AskPerson | Deny

_APPROVE = (Choice.APPROVE, Choice.REJECT)
_ONCE = (Choice.ALLOW_ONCE, Choice.DENY)
_EDIT_SESSION = (Choice.ALLOW_EDIT_FILE_SESSION, Choice.ALLOW_EDIT_FOLDER_SESSION)
_WITHOUT_FILE = frozenset({Access.COMMAND, Access.OTHER})
_FOLDER_CHOICES = frozenset({Choice.ALLOW_FOLDER_SESSION, Choice.ALLOW_EDIT_FOLDER_SESSION})


def decide(
    actions: Sequence[Action],
    access: SessionAccess,
    *,
    ground: Ground,
    asks_for_edits: bool,
    mode: Mode = Mode.STANDARD,
) -> Decision:
    """Decide about one call under ``mode``, which is the one in force now.

    ``asks_for_edits`` is a provider's: under it every edit and command asks, whatever the mode.
    """
    if not all(_is_whole(action) for action in actions):
        return Deny("This call does not say which file it is about, so it is refused.")
    if mode is Mode.PLAN and any(action.access is Access.EDIT for action in actions):
        return Deny(PLAN_KEEPS_FILES)
    each = asks_for_edits or mode is Mode.ASK
    asking = [choices for action in actions if (choices := _choices(action, access, asks_for_edits=each))]
    if not asking:
        return Allow(granted=any(access.covers(action) for action in actions))
    return AskPerson(
        in_order([choice for choice in _in_common(asking) if _may_offer(choice, actions, ground)])
    )


def _is_whole(action: Action) -> bool:
    """An action about a file has a target, and one about no file has none."""
    if action.access in _WITHOUT_FILE:
        return action.target is None
    return action.target is not None and action.target.path.startswith("/")


def _choices(action: Action, access: SessionAccess, *, asks_for_edits: bool) -> tuple[Choice, ...]:
    """The row of the table for one action; nothing when it is allowed."""
    target = action.target
    if action.access is Access.COMMAND:
        return _APPROVE if asks_for_edits else ()
    if target is None:
        return _APPROVE
    if action.access is Access.EDIT:
        if target.guarded is not None:
            return _ONCE
        if asks_for_edits:
            # No grant is honoured here, so none is offered.
            return _APPROVE if target.inside else _ONCE
        return () if target.inside or access.covers(action) else (*_ONCE, *_EDIT_SESSION)
    if hides(target.guarded):
        return _APPROVE
    if target.inside or access.covers(action):
        return ()
    return _APPROVE if target.guarded is not None else (*_APPROVE, Choice.ALLOW_FOLDER_SESSION)


def _in_common(asking: Sequence[tuple[Choice, ...]]) -> set[Choice]:
    common = set(asking[0]).intersection(*asking[1:])
    if not common.issuperset(_APPROVE) and not common.issuperset(_ONCE):
        # One action is to be approved and another to be allowed once: the two mean the same, and the
        # question is put in the words of the edit, which is the graver of the two.
        common.update(_ONCE)
    return common


def _may_offer(choice: Choice, actions: Sequence[Action], ground: Ground) -> bool:
    """Whether every folder that the choice would grant may be granted, also for actions that do not ask."""
    if choice not in _FOLDER_CHOICES:
        return True
    scopes = (scope_of(choice, action) for action in actions)
    return all(may_grant(scope, ground) for scope in scopes if scope is not None)
