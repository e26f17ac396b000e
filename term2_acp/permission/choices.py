"""The answers a person can be offered, what each means in ACP, and the words it is offered in.

``Choice`` holds every internal choice there is. Two of them, ``unsandboxed-once`` and
``allow-remember``, have no ACP kind: nothing an editor sends can mean them, and asking for an option
made of one is an error of ours. ``reject_always`` is not used: no answer forbids anything for longer
than one call.

A name says what is allowed, where, and for how long. It is built from the same functions that a grant is
built from (``ground``), so that what is granted is what was shown.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from types import MappingProxyType

from term2_acp.domain.permission import Access, Action, Option, OptionKind
from term2_acp.permission.ground import Ground, file_of, folder_of, may_grant


class Choice(StrEnum):
    """An answer, by its internal id, which is also the ``optionId`` on the wire."""

    APPROVE = "approve"
    ALLOW_ONCE = "allow-once"
    ALLOW_FOLDER_SESSION = "allow-folder-session"
    ALLOW_EDIT_FILE_SESSION = "allow-edit-file-session"
    ALLOW_EDIT_FOLDER_SESSION = "allow-edit-folder-session"
    REJECT = "reject"
    DENY = "deny"
    UNSANDBOXED_ONCE = "unsandboxed-once"  # never offered
    ALLOW_REMEMBER = "allow-remember"  # never offered


# The ACP mapping. A choice that is not here is never offered. The order is the order of the options:
# allowing ones first, the narrowest at the head, because some clients take the first for the default.
KINDS = MappingProxyType(
    {
        Choice.APPROVE: OptionKind.ALLOW_ONCE,
        Choice.ALLOW_ONCE: OptionKind.ALLOW_ONCE,
        Choice.ALLOW_EDIT_FILE_SESSION: OptionKind.ALLOW_ALWAYS,
        Choice.ALLOW_EDIT_FOLDER_SESSION: OptionKind.ALLOW_ALWAYS,
        Choice.ALLOW_FOLDER_SESSION: OptionKind.ALLOW_ALWAYS,
        Choice.REJECT: OptionKind.REJECT_ONCE,
        Choice.DENY: OptionKind.REJECT_ONCE,
    }
)
_ORDER = MappingProxyType({choice: place for place, choice in enumerate(KINDS)})


def allows(choice: Choice) -> bool:
    """Whether the choice lets the call run."""
    return KINDS.get(choice) in (OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS)


def in_order(choices: Sequence[Choice]) -> tuple[Choice, ...]:
    """The choices without doubles, allowing ones first. All of them must be ones that are offered."""
    return tuple(sorted(set(choices), key=_ORDER.__getitem__))


def scope_of(choice: Choice, action: Action) -> str | None:
    """The canonical path that ``choice`` would grant for ``action``; None when it grants nothing.

    A choice about reading grants nothing for an edit, and the other way round.
    """
    editing = action.access is Access.EDIT
    reading = action.access in (Access.READ, Access.SEARCH)
    if choice is Choice.ALLOW_EDIT_FILE_SESSION and editing:
        return file_of(action)
    if (choice is Choice.ALLOW_EDIT_FOLDER_SESSION and editing) or (
        choice is Choice.ALLOW_FOLDER_SESSION and reading
    ):
        return folder_of(action)
    return None


def to_options(choices: Sequence[Choice], actions: Sequence[Action], ground: Ground) -> tuple[Option, ...]:
    """The options of one ask, named for what they allow, where and for how long; allowing ones first.

    Raises:
        ValueError: a choice that is never offered, a session choice that grants nothing for these
            actions or a folder that may not be granted, or a set without a way to allow or to refuse.
    """
    for choice in choices:
        if choice not in KINDS:
            raise ValueError(f"{choice} is never offered")
    ordered = in_order(choices)
    if not ordered or not allows(ordered[0]) or allows(ordered[-1]):
        raise ValueError("an ask needs a way to allow and a way to refuse")
    return tuple(Option(choice.value, _name(choice, actions, ground), KINDS[choice]) for choice in ordered)


def _name(choice: Choice, actions: Sequence[Action], ground: Ground) -> str:
    kind = KINDS[choice]
    if kind is OptionKind.REJECT_ONCE:
        return "Reject this call" if choice is Choice.REJECT else "Deny this call"
    if kind is OptionKind.ALLOW_ONCE:
        return f"Allow once: {_listed([_deed(action) for action in actions]) or 'this call'}"
    scopes = [scope for action in actions if (scope := scope_of(choice, action)) is not None]
    if not scopes:
        raise ValueError(f"{choice} would grant nothing for these actions")
    if choice is Choice.ALLOW_EDIT_FILE_SESSION:
        return f"Allow edits of {_listed(scopes)} until this session closes"
    if not all(may_grant(folder, ground) for folder in scopes):
        raise ValueError(f"{choice} would grant a folder that is never granted")
    verb = "edits" if choice is Choice.ALLOW_EDIT_FOLDER_SESSION else "reading"
    return f"Allow {verb} below {_listed(scopes)} until this session closes"


def _deed(action: Action) -> str:
    if action.target is None:
        return action.description or "this call"
    verb = {Access.READ: "read", Access.SEARCH: "search below", Access.EDIT: "edit"}[action.access]
    return f"{verb} {action.target.path}"


def _listed(words: Sequence[str]) -> str:
    """The words once each and in order, all of them: nothing is granted that is not named."""
    distinct = [escape_for_person(word) for word in dict.fromkeys(words)]
    if len(distinct) < 2:
        return "".join(distinct)
    return f"{', '.join(distinct[:-1])} and {distinct[-1]}"


# -- text that cannot lie ------------------------------------------------------------------------------

# What a person cannot see, or what moves other characters about. Written out, not computed from the
# Unicode tables of the interpreter, so that every Python shows a call in the same way: controls (C0,
# DEL, C1), line separators, bidirectional controls, Unicode's default-ignorable code points (zero-width
# characters, fillers, variation selectors, tags), annotation marks, the blank braille cell, surrogates.
_HIDDEN = (
    r"\x00-\x1f\x7f-\x9f"
    r"\u2028\u2029"
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
    r"\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200d\u2060-\u2065\u206a-\u206f\u2800\u3164"
    r"\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    r"\ud800-\udfff"
)
_HIDDEN_CHARACTER = re.compile(f"[{_HIDDEN}]")


def escape_for_person(text: str) -> str:
    r"""One line in which every control, bidi or zero-width character is written out (``\u202e``).

    Nothing is left out and nothing is shortened. Text without such characters comes back as it is, and
    so does text that was escaped before.
    """
    if text.isascii() and text.isprintable():
        return text  # nearly all there is, and a search through it would take ten times as long
    return _HIDDEN_CHARACTER.sub(_written_out, text)


def escape_lines(text: str) -> str:
    """The same, for text of several lines: line feeds stay, all else is as in ``escape_for_person``.

    Whoever joins lines escapes what is not their own first, or a file's name could forge a line.
    """
    return "\n".join(escape_for_person(line) for line in text.split("\n"))


def _written_out(match: re.Match[str]) -> str:
    point = ord(match.group())
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"
