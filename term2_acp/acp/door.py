"""The one door that a connection has at first: the gate before ``initialize``, and the choice of a version.

The first ``initialize`` that is served decides which version is spoken; the door of that version is imported
then, and the other never is. This is the one place that knows that there are several. ``initialize`` is
served again until another request was, and may choose anew.
"""

from collections.abc import Mapping
from typing import Protocol

import msgspec

from term2_acp.acp import negotiate
from term2_acp.acp.core import Core
from term2_acp.acp.introduction import Introduction
from term2_acp.acp.router import NotificationHandler, RequestHandler, find
from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from term2_acp.transport.peer import Call, Peer, Work

_UNBATCHABLE = frozenset({"initialize"})


class VersionDoor(Protocol):
    """What one version serves. Its handlers are given the door itself."""

    @property
    def methods(self) -> Mapping[str, RequestHandler]:
        """The requests that are served, but for ``initialize``."""
        ...

    @property
    def notifications(self) -> Mapping[str, NotificationHandler]:
        """The notifications that mean something."""
        ...

    @property
    def unbatchable(self) -> frozenset[str]:
        """The methods, ``initialize`` among them, whose order an array cannot keep (ACP v2, transports)."""
        ...

    def initialize_result(self) -> object:
        """What ``initialize`` is answered with."""
        ...


class Door:
    """One connection's state and its dispatch (``transport.peer.Door``).

    ``profile`` is what the settings name as advertised to clients of v2.
    """

    def __init__(self, core: Core, profile: str) -> None:
        self._core = core
        self._profile = profile
        self._peer: Peer | None = None
        self._version: VersionDoor | None = None
        self._in_use = False

    @property
    def peer(self) -> Peer:
        """The connection. It is made with its door, and set before its reader runs."""
        assert self._peer is not None, "the door is given its peer before the reader runs"
        return self._peer

    @peer.setter
    def peer(self, peer: Peer) -> None:
        self._peer = peer

    @property
    def unbatchable(self) -> frozenset[str]:
        """See ``transport.peer.Door``."""
        return _UNBATCHABLE if self._version is None else self._version.unbatchable

    def request(self, call: Call) -> Work | None:
        """Serve one request; see ``transport.peer.Door``."""
        if call.method == "initialize":
            self._initialize(call)
            return None
        if self._version is None:
            raise RpcError(ErrorCode.INVALID_REQUEST, "The first request must be initialize")
        handler = find(self._version.methods, call.method)
        self._in_use = True
        return handler(self._version, call)

    def notification(self, method: str, params: msgspec.Raw) -> None:
        """Take one notification. Unknown ones, early ones and malformed ones are nothing."""
        if self._version is None:
            return
        handler = self._version.notifications.get(method)
        if handler is None:
            return
        try:
            handler(self._version, params)
        except RpcError:
            return  # a notification is never answered

    def _initialize(self, call: Call) -> None:
        if self._in_use:
            raise RpcError(
                ErrorCode.INVALID_REQUEST,
                "initialize may not be requested again once the connection is in use",
            )
        version = negotiate.negotiate(call.params)
        said = Introduction(call.params)
        self._version = self._v1(call.params, said) if version == 1 else self._v2(said)
        call.answer_nowait(self._version.initialize_result())

    def _v1(self, params: msgspec.Raw, said: Introduction) -> VersionDoor:
        from term2_acp.acp.v1 import capabilities, door  # see the module

        return door.Door(self._core, self.peer, capabilities.features_from_wire(params), said)

    def _v2(self, said: Introduction) -> VersionDoor:
        from term2_acp.acp.v2 import door  # see the module

        return door.Door(self._core, self.peer, self._profile, said)
