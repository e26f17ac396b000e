"""The door that ACP v2 clients come through: the gate before ``initialize``, and the way to the handlers."""

import msgspec

from term2_acp.acp.core import Core
from term2_acp.acp.router import find
from term2_acp.acp.v2.capabilities import BASELINE, Advertised
from term2_acp.acp.v2.handlers import METHODS, NOTIFICATIONS
from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from term2_acp.session.ports import Client
from term2_acp.transport.peer import Call, Work


class Door:
    """One connection's state and its dispatch (transport.peer.Door).

    ``advertised`` is what the client is told that it may send, and what is taken from it. ``initialized`` is
    set by a served ``initialize``; ``in_use`` by any other served request.
    """

    # An array cannot keep the order that these need (ACP v2, transports).
    unbatchable: frozenset[str] = frozenset(
        {"initialize", "session/new", "session/resume", "session/prompt", "session/close"}
    )

    def __init__(self, core: Core, advertised: Advertised = BASELINE) -> None:
        self.core = core
        self.advertised = advertised
        self.initialized = False
        self.in_use = False
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        """The editor, as sessions see it."""
        assert self._client is not None, "the door is given its client before the reader runs"
        return self._client

    @client.setter
    def client(self, client: Client) -> None:
        self._client = client

    def request(self, call: Call) -> Work | None:
        """Serve one request; see ``transport.peer.Door``."""
        first = call.method == "initialize"
        if not first and not self.initialized:
            raise RpcError(ErrorCode.INVALID_REQUEST, "The first request must be initialize")
        handler = find(METHODS, call.method)
        self.in_use = self.in_use or not first
        return handler(self, call)

    def notification(self, method: str, params: msgspec.Raw) -> None:
        """Take one notification. Unknown ones, early ones and malformed ones are nothing."""
        handler = NOTIFICATIONS.get(method)
        if handler is None or not self.initialized:
            return
        try:
            handler(self, params)
        except RpcError:
            return  # a notification is never answered
