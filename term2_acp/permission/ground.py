"""Where a session stands, and which part of the file system an answer is about.

Grants are keyed to a canonical file or folder. The folder is the one that holds the target, or for a
search the one that is searched, and all below it. Three rules keep a folder grant from being wider than
anyone meant:

- A guarded target (a protected name, or a hidden credential path) has no scope at all: it asks each time.
- A target inside the workspace needs no grant, so it has no scope either.
- ``/``, the home directory, and whatever holds the home directory or the workspace are never a scope.

Paths are compared as text, which is right for canonical paths only.
"""

import posixpath

from term2_acp.domain.classes import frozen
from term2_acp.domain.paths import is_within
from term2_acp.domain.permission import Access, Action


@frozen
class Ground:
    """The session's workspace and the person's home directory, both canonical.

    ``home`` is None where there is none, and then nothing is compared with it.
    """

    workspace: str
    home: str | None = None


def file_of(action: Action) -> str | None:
    """The file that a grant for ``action`` would name; None when it can have no grant."""
    target = action.target
    if target is None or target.inside or target.guarded is not None:
        return None
    return target.path


def folder_of(action: Action) -> str | None:
    """The folder that a grant for ``action`` would name; None when it can have no grant.

    Whether that folder may be offered at all is for ``may_grant`` to say.
    """
    path = file_of(action)
    if path is None or action.access is Access.SEARCH:
        return path
    return posixpath.dirname(path)


def may_grant(folder: str, ground: Ground) -> bool:
    """Whether a grant for ``folder`` and all below it may be offered."""
    if folder == "/" or is_within(folder, ground.workspace):
        return False
    return ground.home is None or not is_within(folder, ground.home)
