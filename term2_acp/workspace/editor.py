"""The port to the editor's own files: what the person sees in an unsaved buffer, and edits that they review.

A door implements it for clients that offer their files. The rules of the workspace hold before anything goes
this way: paths are resolved, targets are regular files inside the workspace, and what was not read is not
written.
"""

from typing import Protocol

from term2_acp.workspace.refusals import FileRefused


class EditorRefused(FileRefused):
    """The editor answered with an error, with nonsense or not in time, or it is gone."""


class EditorLost(EditorRefused):
    """The editor was told to write and never said whether it did: it is gone, silent, or talks nonsense."""


class EditorSilent(EditorRefused):
    """The editor was to read and did not answer in time."""


class EditorFiles(Protocol):
    """``reads`` and ``writes`` say which of the two the editor offers; the other one is never called."""

    @property
    def reads(self) -> bool:
        """Whether files may be read through the editor."""
        ...

    @property
    def writes(self) -> bool:
        """Whether files may be written through the editor."""
        ...

    async def read(self, path: str) -> str:
        """The whole text of the file at a canonical absolute path of the workspace, as the editor has it.

        Cancelled, the editor is told so.

        Raises:
            EditorSilent: it did not answer in time.
            EditorRefused: there is no text.
        """
        ...

    async def write(self, path: str, text: str) -> None:
        """Have the editor write the whole text; returns when it says that it did.

        The request is sent once, before the first wait. Cancelled, the editor is told so, and may have
        written all the same.

        Raises:
            EditorLost: nobody knows whether the editor did it.
            EditorRefused: it did not.
        """
        ...
