"""Looking at the guarded places of a workspace, in a thread of its own.

A look walks through the workspace, and a mount in it may hang. So there is one look at a time, beside the
threads that files are read in: one that hangs stops further looks, and no reading. Nobody waits for a look
after a cancel; it goes on alone, and what it learnt serves the next one.
"""

import logging
import math
import time

import trio

from term2_acp.domain.confinement import Confinement
from term2_acp.domain.paths import Target
from term2_acp.workspace.confinement import GuardedPlaces
from term2_acp.workspace.confinement import newly_protected as _newly_protected
from term2_acp.workspace.guards import Guards, Leads
from term2_acp.workspace.refusals import PathChanged

logger = logging.getLogger(__name__)

# Seconds for which the places are taken to be what they were, before an edit.
KNOWN_FOR_S = 1.0

# Seconds that an edit waits for a look. By then it is a disk that hangs or was not read for long; what is
# guarded by its own name still is.
MAX_WAIT_S = 2.0


class Lookout:
    """Keeps what is known of the guarded places of one session's workspace."""

    def __init__(self, guards: Guards) -> None:
        self._places = GuardedPlaces(guards)
        self._one_look: trio.CapacityLimiter | None = None
        self._looked_at = -math.inf

    @property
    def leads(self) -> Leads:
        """Places that names found in the workspace lead to, and their guards, as of the last look."""
        return self._places.leads

    async def confinement(self, *, read_only: bool) -> Confinement:
        """See ``Workspace.confinement``."""
        found = await self._look(make_hooks=not read_only)
        return found.as_read_only() if read_only else found

    async def newly_protected(self, before: Confinement) -> tuple[str, ...]:
        """See ``Workspace.newly_protected``."""
        return _newly_protected(before, await self._look(make_hooks=False))

    async def look_before_edit(self, cwd: str) -> None:
        """Look, unless that was done just now. Waits ``MAX_WAIT_S`` at most."""
        if time.monotonic() - self._looked_at <= KNOWN_FOR_S:
            await trio.lowlevel.checkpoint()
            return
        with trio.move_on_after(MAX_WAIT_S) as scope:
            await self._look(make_hooks=False)
        if scope.cancelled_caught:
            logger.warning("%s could not be looked through for protected names in time", cwd)

    async def _look(self, *, make_hooks: bool) -> Confinement:
        if self._one_look is None:
            self._one_look = trio.CapacityLimiter(1)  # made here, since that needs a run of Trio's
        begun = time.monotonic()
        found = await trio.to_thread.run_sync(
            lambda: self._places.look(make_hooks=make_hooks), abandon_on_cancel=True, limiter=self._one_look
        )
        self._looked_at = begun
        return found


def require_same_guard(decided: Target, now: Target) -> None:
    """Refuse a target that turned out to be guarded after it was decided about.

    Raises:
        PathChanged: it is guarded, and was not known to be.
    """
    if now.guarded is not None and now.guarded != decided.guarded:
        raise PathChanged(
            f"{now.path} is protected ({now.guarded}), which was not known when this call was decided about; "
            "nothing was written. Try once more."
        )
