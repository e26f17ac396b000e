"""The file port: the only room that opens the files of a workspace.

Rules of the room:

- A path is resolved first, the decision is made on the canonical path, and that path is then opened
  with no link followed. Nothing opens a path in any other way.
- Regular files only. A device, a FIFO, a socket or a ``/proc`` link is refused before it is read.
- Where the client is an editor that offers its files, text of the workspace is read and written through it.
- An edit of the disk is written beside its file and renamed over it, after a last look that the file is
  still the one that was read. Several edits are made together or not at all.
"""

from term2_acp.workspace.buffers import BufferEdit
from term2_acp.workspace.content import (
    MAX_FILE_BYTES,
    FileContent,
    FileText,
    LineEnd,
    has_one_line_end,
    line_end_of,
    text_of,
)
from term2_acp.workspace.editor import EditorFiles, EditorLost, EditorRefused
from term2_acp.workspace.opening import Kind
from term2_acp.workspace.patterns import Pattern, PatternRefused, compile_pattern
from term2_acp.workspace.refusals import (
    AlreadyThere,
    ChangedSinceRead,
    FileRefused,
    Missing,
    NotRead,
    NotRegular,
    PathChanged,
    PathRefused,
    TooLarge,
    Unsaved,
)
from term2_acp.workspace.replace import Edit
from term2_acp.workspace.ripgrep import Hit, Hits, Listing, Query
from term2_acp.workspace.several import PartlyCommitted, StagedEdits, require_own_name
from term2_acp.workspace.workspace import Workspace

__all__ = [
    "MAX_FILE_BYTES",
    "AlreadyThere",
    "BufferEdit",
    "ChangedSinceRead",
    "Edit",
    "EditorFiles",
    "EditorLost",
    "EditorRefused",
    "FileContent",
    "FileRefused",
    "FileText",
    "Hit",
    "Hits",
    "Kind",
    "LineEnd",
    "Listing",
    "Missing",
    "NotRead",
    "NotRegular",
    "PartlyCommitted",
    "PathChanged",
    "PathRefused",
    "Pattern",
    "PatternRefused",
    "Query",
    "StagedEdits",
    "TooLarge",
    "Unsaved",
    "Workspace",
    "compile_pattern",
    "has_one_line_end",
    "line_end_of",
    "require_own_name",
    "text_of",
]
