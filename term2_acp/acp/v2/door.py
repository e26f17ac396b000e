"""The door that ACP v2 clients come through (``acp.door.VersionDoor``)."""

from collections.abc import Mapping

from term2_acp.acp.core import Core
from term2_acp.acp.router import NotificationHandler, RequestHandler
from term2_acp.acp.v2.capabilities import PROFILES
from term2_acp.acp.v2.client import Peer, V2Client
from term2_acp.acp.v2.handlers import NOTIFICATIONS, served
from term2_acp.acp.v2.wire import InitializeResult, initialize_result


class Door:
    """One connection. ``advertised`` is what the client is told of, and what is served to it.

    ``client`` is the editor, as sessions see it.
    """

    notifications: Mapping[str, NotificationHandler] = NOTIFICATIONS

    # An array cannot keep the order that these need (ACP v2, transports).
    unbatchable: frozenset[str] = frozenset(
        {"initialize", "session/new", "session/resume", "session/prompt", "session/close"}
    )

    def __init__(self, core: Core, peer: Peer, profile: str) -> None:
        self.core = core
        self.advertised = PROFILES[profile]
        self.client = V2Client(peer, self.advertised)
        self.methods: Mapping[str, RequestHandler] = served(self.advertised)

    def initialize_result(self) -> InitializeResult:
        """See ``acp.door.VersionDoor``."""
        return initialize_result(self.advertised)
