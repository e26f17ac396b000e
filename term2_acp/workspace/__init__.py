"""The file port: the only room that opens the files of a workspace.

Rules of the room:

- A path is resolved first, the decision is made on the canonical path, and that path is then opened
  with no link followed. Nothing opens a path in any other way.
- Regular files only. A device, a FIFO, a socket or a ``/proc`` link is refused before it is read.
- An edit is written beside its file and renamed over it, after a last look that the file is still the
  one that was read.
"""

from term2_acp.workspace.workspace import Workspace

__all__ = ["Workspace"]
