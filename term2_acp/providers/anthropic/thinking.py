"""How hard a model thinks, in the words of the Messages wire. Pure.

Each generation of models is told in another way, and refuses the ways of the others:

- With a *budget*: ``thinking: enabled`` and a number of tokens (3.7 to 4.5).
- *Adaptive*: ``thinking: adaptive``, and ``output_config.effort`` says how hard (4.6 and later). The newest
  think whether they are asked to or not, and most of those cannot be stopped.

Rules:

- ``_FAMILIES`` is the table: the first row that names a model's line, from its version on, is its family. A
  version to come is told what the newest of its line is told.
- ``default`` says nothing of effort. A model that thinks unasked is still asked to show its thoughts: hidden
  ones would be minutes of silence, for the person and for the watchdog.
- ``none`` turns thinking off. A model that cannot be stopped gets the least effort it has.
- A budget leaves at least half of the reply for what is said; too small a reply has none.
- Newer models accept a block of thought only behind the very words that it was thought behind. A session
  that is opened again with other tools or another system prompt would be refused for good, so they are asked
  to forget such blocks instead (a beta; ``BETA`` is its header).

Source: Claude API documentation, "Thinking", "Effort" and "Preserved thinking", November 2026.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from term2_acp.domain.classes import frozen
from term2_acp.domain.effort import Effort

# The beta that lets a request say what becomes of thoughts whose conversation changed.
BETA = "thinking-binding-controls-2026-08-01"

# Tokens of a thinking budget, and the smallest one that the server takes.
_BUDGETS = {
    Effort.MINIMAL: 1_024,
    Effort.LOW: 4_096,
    Effort.MEDIUM: 8_192,
    Effort.HIGH: 16_384,
    Effort.XHIGH: 32_000,
}
_SMALLEST_BUDGET = 1_024

_LEVELS = tuple(_BUDGETS)
_FIVE = ("low", "low", "medium", "high", "xhigh")
_UP_TO_MAX = ("low", "low", "medium", "high", "max")  # before `xhigh` there was
_THREE = ("low", "low", "medium", "high", "high")


class Way(StrEnum):
    """How a family is told to think."""

    ADAPTIVE = "adaptive"
    BUDGET = "budget"
    NEVER = "never"


@frozen
class Family:
    """What the models of one family take.

    ``off`` is the type that turns thinking off, None where nothing does. ``unasked`` models think when
    nothing is said, and ``hides`` ones do not show it unless asked. ``bound`` ones refuse thoughts whose
    conversation changed. ``leads`` ones, told to think, want a turn that calls tools to begin with a thought.
    ``levels`` are the words of effort from minimal to xhigh, if there are any. Replies of ``output_tokens``
    are taken by every model of the family. ``eager`` ones can send arguments as they are written.
    """

    way: Way
    off: str | None = "disabled"
    unasked: bool = False
    hides: bool = False
    bound: bool = False
    leads: bool = False
    levels: tuple[str, ...] = ()
    output_tokens: int = 8_192
    eager: bool = True


_A, _B = Way.ADAPTIVE, Way.BUDGET
_ENDLESS = Family(_A, off=None, unasked=True, hides=True, levels=_FIVE, output_tokens=64_000)
_ENDLESS_BOUND = Family(_A, None, unasked=True, hides=True, bound=True, levels=_FIVE, output_tokens=64_000)
_SONNET_5_5 = Family(
    _A, "between_tools", unasked=True, hides=True, bound=True, levels=_FIVE, output_tokens=64_000
)
_HAIKU_5_5 = Family(_A, unasked=True, hides=True, bound=True, levels=_FIVE, output_tokens=64_000)
_FIVES = Family(_A, unasked=True, hides=True, levels=_FIVE, output_tokens=64_000)
_OPUS_4_7 = Family(_A, hides=True, levels=_FIVE, output_tokens=64_000)
_FOUR_SIXES = Family(_A, levels=_UP_TO_MAX, output_tokens=64_000)
_OPUS_4_5 = Family(_B, leads=True, levels=_THREE, output_tokens=32_000)
_FOURS = Family(_B, leads=True, output_tokens=32_000)
_SONNET_3_7 = Family(_B, leads=True)
_OLD = Family(Way.NEVER, output_tokens=4_096, eager=False)
# Servers of other makers that speak this wire took over the budget. Not asked, they think as they like.
_FOREIGN = Family(_B, unasked=True, leads=True, eager=False)

# The lines, the version from which on a row holds, and the family.
_FAMILIES: tuple[tuple[str, tuple[int, int], Family], ...] = (
    ("fable mythos", (5, 1), _ENDLESS_BOUND),
    ("fable mythos", (0, 0), _ENDLESS),
    ("opus", (5, 5), _ENDLESS_BOUND),
    ("sonnet", (5, 5), _SONNET_5_5),
    ("haiku", (5, 5), _HAIKU_5_5),
    ("opus sonnet haiku", (5, 0), _FIVES),
    ("opus", (4, 7), _OPUS_4_7),
    ("opus sonnet haiku", (4, 6), _FOUR_SIXES),
    ("opus", (4, 5), _OPUS_4_5),
    ("opus sonnet haiku", (4, 0), _FOURS),
    ("sonnet", (3, 7), _SONNET_3_7),
    ("opus sonnet haiku instant", (0, 0), _OLD),
)

# `claude-opus-4-5-20251101`, `claude-3-7-sonnet-latest`, `anthropic/claude-opus-4.5`, `claude-sonnet-5`.
# A number of more than two digits is a date.
_VERSION = r"(\d{1,2})(?!\d)(?:[-.](\d{1,2})(?!\d))?"
_ID = re.compile(rf"claude-(?:{_VERSION}-)?([a-z]+)(?:-{_VERSION})?")
# An id without a version is an alias of the newest.
_NEWEST = (99, 0)


@frozen
class Thinking:
    """What a request says of thinking: the ``members`` of its body.

    ``on`` says whether thoughts of earlier replies go back with it: a server that is told not to think
    refuses them. ``leads``: the server will want the turn that goes on, if it has called tools, to have
    begun with a thought.
    """

    members: Mapping[str, Any]
    on: bool = False
    leads: bool = False


def family_of(model: str) -> Family:
    """The family of the model with that id, under whichever prefix and suffix a platform gives it."""
    model = model.lower()
    found = _ID.search(model)
    if found is None:
        return _OLD if "claude-" in model else _FOREIGN
    old_major, old_minor, name, major, minor = found.groups()
    version = _NEWEST
    if old_major or major:
        version = (int(old_major or major), int((old_minor if old_major else minor) or 0))
    rows = (family for names, least, family in _FAMILIES if name in names.split() and version >= least)
    return next(rows, _ENDLESS)  # a line that is not known yet is like the newest ones


def thinking_for(family: Family, effort: Effort, max_tokens: int, *, may_think: bool = True) -> Thinking:
    """What to say to a model of ``family`` whose reply may have ``max_tokens``.

    ``may_think`` is False where the turn did not begin as ``Thinking.leads`` wants it.
    """
    if effort is Effort.NONE and family.way is not Way.NEVER and family.off is not None:
        return Thinking({"thinking": {"type": family.off}})
    if family.way is Way.ADAPTIVE:
        return _adaptive(family, effort)
    if family.way is Way.NEVER or effort in {Effort.DEFAULT, Effort.NONE}:
        return Thinking({}, on=family.unasked)
    members = _effort(family, effort)
    budget = min(_BUDGETS[effort], max_tokens // 2)
    if budget < _SMALLEST_BUDGET or not may_think:
        return Thinking(members, on=family.unasked)
    members["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return Thinking(members, on=True, leads=family.leads)


def _adaptive(family: Family, effort: Effort) -> Thinking:
    if effort is Effort.DEFAULT and not family.unasked:
        return Thinking({})
    said: dict[str, Any] = {"type": "adaptive"}
    if family.hides:
        said["display"] = "summarized"
    if family.bound:
        said["block_binding"] = {"prefix_mismatch_behavior": "drop_block"}
    return Thinking({"thinking": said, **_effort(family, effort)}, on=True)


def _effort(family: Family, effort: Effort) -> dict[str, Any]:
    if effort is Effort.DEFAULT or not family.levels:
        return {}
    level = 0 if effort is Effort.NONE else _LEVELS.index(effort)
    return {"output_config": {"effort": family.levels[level]}}
