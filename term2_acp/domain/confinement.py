"""What a command may not do to files: the places of one workspace as a value.

The workspace finds the places, since it alone looks at files; the sandbox enforces them, and neither knows
the other. Every path is canonical and existed when it was looked up: masking a name that is not there would
have to make it first, in somebody's project.
"""

from collections.abc import Mapping
from typing import Self

from attrs import evolve, field

from term2_acp.domain.classes import frozen


@frozen
class Confinement:
    """The guarded places as they are now, seen from one workspace.

    ``workspace`` is the one place that may be written, unless it is read-only as a whole. ``hidden`` holds
    credentials, histories, term2's own settings and state: a command sees an empty file or folder there,
    wherever it lies. ``read_only`` are the protected names inside the workspace (or what they lead to inside
    it), files and folders, which keep their content; of a git folder only the parts that git executes or
    believes are among them, since a commit must work. ``held`` are folders inside the workspace that must not
    be renamed or removed (a git folder, the ``.github`` of ``.github/workflows``), while what is in them may
    be changed. A workspace that lies in a protected place, or in which nothing may be changed for now, is
    itself the one entry of ``read_only``.

    ``own_inside``: term2's own code lies in the workspace, and is among ``read_only``. ``incomplete``: the
    workspace has more folders or protected names than are looked for. The nearest were taken, and what was
    guarded before.

    ``seen`` is the workspace's own bookkeeping: what each protected name was, so that it can tell afterwards
    which ones are new or were replaced.
    """

    workspace: str
    hidden: tuple[str, ...] = ()
    read_only: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    own_inside: bool = False
    incomplete: bool = False
    seen: Mapping[str, object] = field(factory=dict, eq=False, repr=False)

    @property
    def is_read_only(self) -> bool:
        """Whether nothing in the workspace may be changed."""
        return self.workspace in self.read_only

    def as_read_only(self) -> Self:
        """The same places, with the workspace read-only as a whole: no place in it needs to be kept then."""
        return evolve(self, read_only=(self.workspace,), held=(), incomplete=False)
