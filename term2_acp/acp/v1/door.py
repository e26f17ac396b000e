"""The door that ACP v1 clients come through (``acp.door.VersionDoor``).

What shows a session to its client is imported with the first of them: nobody waits for it at ``initialize``.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from term2_acp.acp.core import Core
from term2_acp.acp.introduction import Introduction
from term2_acp.acp.router import NotificationHandler, RequestHandler
from term2_acp.acp.v1.capabilities import ClientFeatures, initialize_result
from term2_acp.acp.v1.handlers import METHODS, NOTIFICATIONS

if TYPE_CHECKING:  # see the module
    from term2_acp.acp.v1.client import Peer, V1Client


class Door:
    """One connection, what its client offers, and what it ``said`` of itself. Each session gets an editor of
    its own (``client_of``).
    """

    methods: Mapping[str, RequestHandler] = METHODS
    notifications: Mapping[str, NotificationHandler] = NOTIFICATIONS

    # An array cannot keep the order that these need. The official clients of v1 send no arrays at all.
    unbatchable: frozenset[str] = frozenset(
        {
            "initialize",
            "session/new",
            "session/load",
            "session/resume",
            "session/prompt",
            "session/close",
            "session/delete",
        }
    )

    def __init__(self, core: Core, peer: "Peer", features: ClientFeatures, said: Introduction) -> None:
        self.core = core
        self.features = features
        self._said = said
        self._peer = peer

    def initialize_result(self) -> dict[str, Any]:
        """See ``acp.door.VersionDoor``."""
        return initialize_result()

    def client_of(self, cwd: str, named: str) -> "V1Client":
        """The editor, as the session of the canonical workspace ``cwd`` sees it; the client named it so."""
        from term2_acp.acp.v1.client import V1Client

        return V1Client(self._peer, self.features, self._said, cwd=cwd, named=named)

    def notify(self, frame: bytes) -> None:
        """Queue one whole notification."""
        self._peer.notify_nowait(frame)
