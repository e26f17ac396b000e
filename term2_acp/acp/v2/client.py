"""The editor behind the v2 door, as a session sees it (``session.ports.Client``).

Events become frames and are queued; a permission question becomes a ``session/request_permission``
request, and whatever comes back becomes an ``Answer`` (``acp.answers``).

Nothing here waits but ``ready``, and nothing here knows whether a session exists. How events and questions
are written is imported with the first of them: an editor waits for its new session, and is shown nothing yet.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from term2_acp.acp.fit import MAX_FRAME_BYTES
from term2_acp.acp.introduction import NOTHING_SAID, Introduction
from term2_acp.acp.v2.capabilities import BASELINE, PROTOCOL_VERSION, Advertised
from term2_acp.domain.events import Event
from term2_acp.domain.ids import SessionId
from term2_acp.transport.peer import Reply

if TYPE_CHECKING:  # see the module; and sessions are imported with the first of them
    from term2_acp.acp.v2.project import Projection
    from term2_acp.domain.permission import Answer, Ask
    from term2_acp.session.ports import ClientIdentity

METHOD = "session/request_permission"


class Peer(Protocol):
    """The connection, as far as this file needs it (``transport.peer``)."""

    def notify_nowait(self, frame: bytes) -> None:
        """Queue one whole notification, without its line feed. Once the client is gone: nothing."""
        ...

    def call_nowait(self, method: str, params: Any, settle: Callable[[Reply], None]) -> Callable[[], None]:
        """Send a request, and say how to withdraw it. ``settle`` gets its one reply."""
        ...

    async def ready(self) -> None:
        """Wait until the client has read enough of what was queued; at once when it is gone."""
        ...

    @property
    def behind(self) -> bool:
        """Whether ``ready`` would wait."""
        ...


class V2Client:
    """See the module. ``said`` is what it said of itself; ``max_frame_bytes`` counts the line feed."""

    def __init__(
        self,
        peer: Peer,
        advertised: Advertised = BASELINE,
        said: Introduction = NOTHING_SAID,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        self._peer = peer
        self._advertised = advertised
        self._said = said
        self._max_frame_bytes = max_frame_bytes
        self._projections: dict[SessionId, Projection] = {}

    @functools.cached_property
    def identity(self) -> "ClientIdentity":
        """See ``session.ports.Client``."""
        return self._said.identity(PROTOCOL_VERSION)

    def show(self, session_id: SessionId, events: Sequence[Event]) -> None:
        """Project the events and queue their frames; see ``session.ports.Client``."""
        projection = self._projections.get(session_id)
        if projection is None:
            projection = self._new_projection(session_id)
        frames: list[bytes] = []
        for event in events:
            projection.write_to(frames, event)
        notify = self._peer.notify_nowait
        for frame in frames:
            notify(frame)

    def show_commands(self, session_id: SessionId) -> None:
        """Queue the commands of a new session. One that is opened again is shown them with its state."""
        self._peer.notify_nowait(self._new_projection(session_id).commands())

    async def ready(self) -> None:
        """Wait until the client has read enough of what was queued; at once when it is gone."""
        await self._peer.ready()

    @property
    def behind(self) -> bool:
        """Whether ``ready`` would wait; see ``session.ports.Client``."""
        return self._peer.behind

    def ask(self, ask: "Ask", settle: "Callable[[Answer], None]") -> Callable[[], None]:
        """Send a permission question now; see ``session.ports.Client``."""
        from term2_acp.acp.answers import answer_from_wire
        from term2_acp.acp.v2.question import ask_to_wire

        def on_reply(reply: Reply) -> None:
            settle(answer_from_wire(reply))

        return self._peer.call_nowait(METHOD, ask_to_wire(ask, self._max_frame_bytes), on_reply)

    def files(self, session_id: SessionId) -> None:
        """Clients of v2 have no files to offer; see ``session.ports.Client``."""

    def left(self, session_id: SessionId) -> None:
        """Forget the session; see ``session.ports.Client``."""
        self._projections.pop(session_id, None)

    def _new_projection(self, session_id: SessionId) -> "Projection":
        from term2_acp.acp.v2.project import Projection

        projection = Projection(session_id, self._max_frame_bytes, self._advertised)
        self._projections[session_id] = projection
        return projection
