"""The door that ACP v2 clients come through (``acp.door.VersionDoor``).

What shows a session to its client is imported with the first of them: nobody waits for it at ``initialize``.
"""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING

from term2_acp.acp.core import Core
from term2_acp.acp.introduction import Introduction
from term2_acp.acp.router import NotificationHandler, RequestHandler
from term2_acp.acp.v2.capabilities import PROFILES
from term2_acp.acp.v2.handlers import NOTIFICATIONS, served
from term2_acp.acp.v2.wire import InitializeResult, initialize_result

if TYPE_CHECKING:  # see the module
    from term2_acp.acp.v2.client import Peer, V2Client


class Door:
    """One connection. ``advertised`` is what the client is told of, and what is served to it; ``said``
    is what it said of itself.
    """

    notifications: Mapping[str, NotificationHandler] = NOTIFICATIONS

    # An array cannot keep the order that these need (ACP v2, transports).
    unbatchable: frozenset[str] = frozenset(
        {"initialize", "session/new", "session/resume", "session/prompt", "session/close"}
    )

    def __init__(self, core: Core, peer: "Peer", profile: str, said: Introduction) -> None:
        self.core = core
        self._said = said
        self.advertised = PROFILES[profile]
        self.methods: Mapping[str, RequestHandler] = served(self.advertised)
        self._peer = peer

    @functools.cached_property
    def client(self) -> "V2Client":
        """The editor, as sessions see it."""
        from term2_acp.acp.v2.client import V2Client

        return V2Client(self._peer, self.advertised, self._said)

    def initialize_result(self) -> InitializeResult:
        """See ``acp.door.VersionDoor``."""
        return initialize_result(self.advertised)
