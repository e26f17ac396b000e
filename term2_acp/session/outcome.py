"""What became of a call that never settled, by what its files hold, and the words for that. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from attrs import field

from term2_acp.domain.classes import define
from term2_acp.domain.toolcall import Effect, FileDigests

# One that only reads is dispatched in the journal with its end, so it may have been at work.
NOT_RUN = "This call was not run to its end: term2 stopped before that. It had no effect."
MADE = (
    "This change was made. term2 stopped before the end of this call was recorded; after the restart, each "
    "of its files was found as the call was to leave it."
)
NOT_MADE = (
    "This change was not made and had no effect. term2 stopped during this call; after the restart, each of "
    "its files was found as it was before."
)
RESULT_LOST = "This call was made. The record of what it returned cannot be read."
UNREAD = (
    "outcome_unknown: a part of the record of this turn cannot be read, so nobody knows how this call ended."
)

# Files of one call that its words name, and calls of one program. A patch may have a hundred; who wants to
# know looks at all of them.
NAMED = 20


@define(eq=False)
class Files:
    """What was found of the files that open calls were to change, by their canonical paths.

    ``hold`` is the SHA-256 of what they hold, in hex, None where there is no file; what could not be looked
    at has no place in it. ``aside`` is the path of the file beside them that has what they held before.
    """

    hold: dict[str, str | None] = field(factory=dict)
    aside: dict[str, str] = field(factory=dict)


NOBODY_LOOKED = Files()


def effect_of(changes: Sequence[FileDigests], hold: Mapping[str, str | None]) -> Effect:
    """What became of changes of files, by what these hold now.

    A file that was to hold what it held tells nothing by itself: it must be so, and another must tell.
    """
    if any(change.before != change.after for change in changes):
        if all(change.path in hold and hold[change.path] == change.after for change in changes):
            return Effect.COMMITTED
        if all(change.path in hold and hold[change.path] == change.before for change in changes):
            return Effect.FAILED
    return Effect.OUTCOME_UNKNOWN


def states(changes: Sequence[FileDigests], found: Files) -> Iterator[str]:
    """Of each file, a sentence that says how it was found; nothing where nothing was.

    What was put aside is said of each file, or in one sentence of all that are not named: it stays.
    """
    if not changes or not (found.hold or found.aside):
        return
    yield "Its files after the restart:"
    for change in changes[:NAMED]:
        yield f"{change.path} {_state(change, found.hold)}."
        if change.path in found.aside:
            yield f"What it held before is in {found.aside[change.path]}."
    more = changes[NAMED:]
    if more:
        aside = sum(change.path in found.aside for change in more)
        kept = f"; what {aside:,} of them held before is in `.term2-*.old.tmp` beside them" if aside else ""
        yield f"There are {len(more):,} more{kept}."


def _state(change: FileDigests, hold: Mapping[str, str | None]) -> str:
    if change.path not in hold:
        return "could not be looked at"
    now = hold[change.path]
    if now == change.after:
        return "is as the call was to leave it"
    if now == change.before:
        return "is as it was before"
    return "does not exist" if now is None else "holds neither what it did before nor what it was to hold"
