"""What a session needs of the door behind which its client stands."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from term2_acp.domain.classes import frozen
from term2_acp.domain.events import Event
from term2_acp.domain.ids import SessionId

if TYPE_CHECKING:  # questions and the file port are imported with the first turn
    from term2_acp.domain.permission import Answer, Ask
    from term2_acp.workspace.editor import EditorFiles


@frozen
class ClientIdentity:
    """What a client said of itself at ``initialize``.

    ``name`` is its name and version, ``capabilities`` what it said it can, as JSON text. Both are bounded,
    and empty where it said nothing. ``protocol`` is the version of ACP that was agreed on.
    """

    name: str
    capabilities: str
    protocol: int


class Client(Protocol):
    """The editor, as a session sees it. A door implements this for its version of the protocol."""

    @property
    def identity(self) -> ClientIdentity:
        """Who it is. Worked out when it is first asked for."""
        ...

    def show(self, session_id: SessionId, events: Sequence[Event]) -> None:
        """Project the events and queue their frames, in order. Never waits, never raises.

        Events that the version has no words for are left out; once the client is gone, all are.
        """
        ...

    @property
    def behind(self) -> bool:
        """Whether ``ready`` would wait. Asked for each group; the wait is the rare case."""
        ...

    async def ready(self) -> None:
        """Wait until the client has read enough of what was queued; at once when it is gone."""
        ...

    def ask(self, ask: "Ask", settle: "Callable[[Answer], None]") -> Callable[[], None]:
        """Send a permission question now and return how to withdraw it.

        ``settle`` is called at most once, by the reader, inline. Withdrawing sends
        ``$/cancel_request`` and makes a late answer nothing; after an answer it does nothing. When the
        client is gone, or goes, ``settle`` gets ``Lost``.
        """
        ...

    def files(self, session_id: SessionId) -> "EditorFiles | None":
        """The editor's own view of the workspace's files; None where it offers none."""
        ...

    def left(self, session_id: SessionId) -> None:
        """The session has ended, however it did, and nothing more of it will be shown. Never raises.

        A request that waits for the end of its turn is answered here, if the turn had none.
        """
        ...
