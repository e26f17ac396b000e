"""One session's editor behind the v1 door (``session.ports.Client``).

Events become frames and are queued; the idle that ends a turn is not among them: it answers the prompt that
the turn began with, which has been open since. That answer comes after every update of its turn, and nothing
of the session follows it before the next prompt.

A client of v1 answers a permission question by what it was shown. It is shown fewer options than there are,
so an answer with one of the others is no answer.
"""

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from term2_acp.acp.answers import answer_from_wire
from term2_acp.acp.fit import MAX_FRAME_BYTES, shorten
from term2_acp.acp.introduction import Introduction
from term2_acp.acp.usage import turn_usage_to_wire
from term2_acp.acp.v1.capabilities import PROTOCOL_VERSION, ClientFeatures
from term2_acp.acp.v1.project import Projection
from term2_acp.acp.v1.toolcalls import ask_to_wire
from term2_acp.domain import events as ev
from term2_acp.domain.ids import SessionId
from term2_acp.domain.permission import Answer, Ask, Selected, Unintelligible
from term2_acp.domain.turn import Failure
from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from term2_acp.transport.peer import Call, Reply

if TYPE_CHECKING:  # the file port is imported with the first turn
    from term2_acp.session.ports import ClientIdentity
    from term2_acp.workspace.editor import EditorFiles

METHOD = "session/request_permission"

# Bytes of the sentence of an error: clients show it in a box.
_SENTENCE_BYTES = 16 * 1024

_ENDED = Failure("internal", "The session ended inside term2 before its turn did. The log has the details.")


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


class V1Client:
    """See the module. ``said`` is what it said of itself. ``cwd`` is the session's canonical workspace,
    ``named`` how the client calls it.
    """

    def __init__(
        self,
        peer: Peer,
        features: ClientFeatures,
        said: Introduction,
        *,
        cwd: str,
        named: str,
        max_frame_bytes: int = MAX_FRAME_BYTES,
    ) -> None:
        self._peer = peer
        self._features = features
        self._said = said
        self._cwd = cwd
        self._named = named
        self._max_frame_bytes = max_frame_bytes
        self._projection: Projection | None = None  # from the beginning of a turn or replay to its idle
        self._prompt: Call | None = None

    # -- the prompt that is open -------------------------------------------------------------------

    @property
    def prompted(self) -> bool:
        """Whether a prompt waits for its answer. Until it has it, the session takes no other."""
        return self._prompt is not None

    def begin(self, prompt: Call) -> None:
        """A prompt was admitted; it is answered when its turn ends."""
        self._prompt = prompt

    def refuse(self, failure: Failure) -> None:
        """The prompt that is open is not kept, or can have no other end."""
        prompt, self._prompt = self._prompt, None
        if prompt is not None:
            sentence = shorten(" ".join(failure.message.split()), _SENTENCE_BYTES)
            prompt.fail_nowait(RpcError(ErrorCode.INTERNAL_ERROR, sentence, {"reason": failure.code}))

    def _end(self, idle: ev.Idle) -> None:
        if idle.failure is not None:
            self.refuse(idle.failure)
            return
        prompt, self._prompt = self._prompt, None
        if prompt is None:
            return  # the snapshot that ends an opening
        result: dict[str, Any] = {"stopReason": idle.stop_reason}
        if idle.usage is not None:
            result["_meta"] = {"term2": {"usage": turn_usage_to_wire(idle.usage)}}
        prompt.answer_nowait(result)

    # -- session.ports.Client ----------------------------------------------------------------------

    @functools.cached_property
    def identity(self) -> "ClientIdentity":
        """See ``session.ports.Client``."""
        return self._said.identity(PROTOCOL_VERSION)

    def show(self, session_id: SessionId, events: Sequence[ev.Event]) -> None:
        """Project the events and queue their frames; see ``session.ports.Client``."""
        if self._projection is None:
            self._projection = Projection(session_id, self._cwd, self._features, self._max_frame_bytes)
        frames: list[bytes] = []
        self._projection.write_to(frames, events)
        for frame in frames:
            self._peer.notify_nowait(frame)
        for event in events:
            if type(event) is ev.Idle:
                self._projection = None
                self._end(event)

    async def ready(self) -> None:
        """See ``session.ports.Client``."""
        await self._peer.ready()

    @property
    def behind(self) -> bool:
        """See ``session.ports.Client``."""
        return self._peer.behind

    def ask(self, ask: Ask, settle: Callable[[Answer], None]) -> Callable[[], None]:
        """Send a permission question now; see ``session.ports.Client``."""
        params, shown = ask_to_wire(ask, self._max_frame_bytes)

        def on_reply(reply: Reply) -> None:
            answer = answer_from_wire(reply)
            if isinstance(answer, Selected) and answer.option_id not in shown:
                answer = Unintelligible("an option was selected that was not offered")
            settle(answer)

        return self._peer.call_nowait(METHOD, params, on_reply)

    def files(self, session_id: SessionId) -> "EditorFiles | None":
        """The editor's files, where it offers them; see ``session.ports.Client``."""
        if not (self._features.read_files or self._features.write_files):
            return None
        from term2_acp.acp.v1.files import ClientFiles  # with the first turn

        return ClientFiles(
            self._peer.call_nowait,
            session_id,
            named=self._named,
            cwd=self._cwd,
            reads=self._features.read_files,
            writes=self._features.write_files,
        )

    def left(self, session_id: SessionId) -> None:
        """The session has ended; see ``session.ports.Client``."""
        del session_id
        projection, self._projection = self._projection, None
        if projection is not None:
            frames: list[bytes] = []
            projection.break_off(frames)
            for frame in frames:
                self._peer.notify_nowait(frame)
        self.refuse(_ENDED)
