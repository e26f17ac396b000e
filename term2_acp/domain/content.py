"""What messages and tool calls are made of (ACP v2: ContentBlock, ToolCallContent, Diff)."""

from enum import StrEnum

from attrs import field

from term2_acp.domain.classes import frozen
from term2_acp.domain.ids import TerminalId

# The bytes of one image. Anthropic counts an image's base64 and takes 10 MB of it, others take more or tell
# no limit; 5 MiB are 7 MB of base64, which also leaves an image whole in one frame of 8 MiB.
MAX_IMAGE_BYTES = 5 * 1024 * 1024

# The images of one request to a model, and so of one prompt. Every request holds the whole history, and one
# that a server refuses for its images would be refused again each time: beyond 20 images Anthropic takes
# none over 2,000 pixels a side, and a request may have 32 MB there. 20 MiB are 28 MB of base64.
MAX_IMAGES = 20
MAX_IMAGES_BYTES = 20 * 1024 * 1024


@frozen
class Text:
    """Plain text, shown to the person and given to the model as it is."""

    text: str


@frozen
class ResourceLink:
    """A reference to something the person pointed at. term2 never fetches it.

    ``uri`` is what the client sent, character for character: it is echoed back unchanged.
    """

    name: str
    uri: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None


@frozen
class Image:
    """A picture that the person sent.

    All of it is what the client sent, character for character: ``data`` is base64 (RFC 4648, section 4),
    which the door has checked, and ``uri`` is never fetched.
    """

    mime_type: str
    data: str = field(repr=False)
    uri: str | None = None

    @property
    def size(self) -> int:
        """Its bytes, decoded."""
        return size_of_base64(self.data)


def size_of_base64(text: str) -> int:
    """How many bytes a base64 text stands for, without decoding it."""
    return len(text) // 4 * 3 - text[-2:].count("=")


ContentBlock = Text | ResourceLink | Image


class Operation(StrEnum):
    """What happened to a file (ACP v2: DiffChange.operation)."""

    ADD = "add"
    DELETE = "delete"
    MODIFY = "modify"
    MOVE = "move"


@frozen
class Change:
    """One changed file. Paths are absolute and canonical; ``old_path`` is set for a move only."""

    operation: Operation
    path: str
    old_path: str | None = None


# Characters of one side of a changed file that are carried with its diff. Source files are far smaller, and a
# reader who wants more of a larger one has its patch.
MAX_DIFF_TEXT = 512 * 1024


@frozen
class FileTexts:
    """One changed file, whole: its text before and after. None where there is no file.

    ``path`` is that of the ``Change`` that it belongs to.
    """

    path: str
    old: str | None = field(repr=False)
    new: str | None = field(repr=False)


@frozen
class Diff:
    """File changes as ACP v2 shows them.

    ``patch`` is a git patch with absolute paths and without ``a/`` and ``b/`` prefixes; None when the
    change has no text form (a binary file). ``texts`` are the changed files whole, for clients that compare
    texts and not patches (ACP v1), as far as they are text of at most ``MAX_DIFF_TEXT`` characters. They are
    not kept: what a journal needs of a change is its patch.
    """

    changes: tuple[Change, ...]
    patch: str | None = None
    texts: tuple[FileTexts, ...] = field(default=(), eq=False, repr=False)


@frozen
class Terminal:
    """The place of a command's terminal in a tool call; what it shows comes as events of its own."""

    terminal_id: TerminalId


ToolContent = Text | Diff | Terminal
