"""One function for each method of ACP v2. They decode, call the core, and name the result; no policy.

``METHODS`` and ``NOTIFICATIONS`` are the whole surface. What is not in them is -32601; docs/PROTOCOL.md has
the same list for people, and a test holds the two together.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from term2_acp.acp import negotiate
from term2_acp.acp.places import canonical, workspace
from term2_acp.acp.router import NotificationHandler, RequestHandler
from term2_acp.acp.v2 import wire
from term2_acp.acp.v2.errors import named
from term2_acp.domain.ids import SessionId
from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from term2_acp.transport.peer import Call, Work

if TYPE_CHECKING:
    from term2_acp.acp.v2.door import Door


def initialize(door: "Door", call: Call) -> None:
    """Agree on the version. Served again until another request was; then -32600."""
    if door.in_use:
        raise RpcError(
            ErrorCode.INVALID_REQUEST, "initialize may not be requested again once the connection is in use"
        )
    negotiate.negotiate(call.params)
    door.initialized = True
    call.answer_nowait(wire.initialize_result(door.advertised))


def session_new(door: "Door", call: Call) -> Work:
    """Make a session for a directory."""
    params = wire.decode(wire.NewSession, call.params)

    async def work() -> Any:
        cwd = workspace(params.cwd)
        registry = door.core.registry_nowait()
        with named():
            await door.core.store()
            session = await registry.new(cwd, door.client)
        return {"sessionId": session.session_id}

    return work


def session_list(door: "Door", call: Call) -> Work:
    """List the sessions that are kept, last active first, a page at a time."""
    params = wire.decode(wire.ListSessions, call.params)

    async def work() -> Any:
        cwd = None if params.cwd is None else canonical(params.cwd)
        with named():
            store = await door.core.store()
            page = await store.page(cwd, params.cursor)
        return wire.list_result(page)

    return work


def session_resume(door: "Door", call: Call) -> Work:
    """Open a session again, with its history first where ``replayFrom`` says so; the answer comes last."""
    params = wire.decode(wire.ResumeSession, call.params)
    session_id = SessionId(params.session_id)
    registry = door.core.registry_nowait()
    with named(session_id):
        registry.reserve_nowait(session_id)

    async def work() -> Any:
        try:
            cwd = workspace(params.cwd)
            with named(session_id):
                await door.core.store()
                await registry.open(session_id, cwd, door.client, replay=params.replay)
        finally:
            registry.release_nowait(session_id)
        return {}

    return work


def session_prompt(door: "Door", call: Call) -> None:
    """Admit a prompt. Its response goes out from the session's outbox, before the message it names."""
    params = wire.decode(wire.PromptSession, call.params)
    session_id = SessionId(params.session_id)
    registry = door.core.registry
    session = registry.find(session_id) if registry is not None else None
    if session is None:
        raise _not_live(door, session_id)
    with named(session_id):
        turn = session.admit_nowait(
            params.content(door.advertised),
            answer=lambda message_id: call.answer_nowait({"messageId": message_id}),
            refuse=lambda failure: call.fail_nowait(RpcError(ErrorCode.INTERNAL_ERROR, failure.message)),
        )
    # This turn's, not whichever is open then: its response may be out after its end.
    call.on_cancel = turn.scope.cancel
    # Whoever answers keeps the call for as long as the turn is known, and these may be megabytes.
    call.params = msgspec.Raw()


def session_close(door: "Door", call: Call) -> Work | None:
    """Cancel the session's turn and close it. One that is not open here is closed already."""
    params = wire.decode(wire.CloseSession, call.params)
    session_id = SessionId(params.session_id)
    registry = door.core.registry
    close = registry.close_nowait(session_id) if registry is not None else None
    if close is None:
        call.answer_nowait({})
        return None
    call.on_cancel = _not_undone

    async def work() -> Any:
        with named(session_id):
            await close()
        return {}

    return work


def session_cancel(door: "Door", params: msgspec.Raw) -> None:
    """Stop the turn that is admitted now. Idle, closed and unknown sessions: nothing."""
    session_id = SessionId(wire.decode(wire.CancelSession, params).session_id)
    registry = door.core.registry
    session = registry.find(session_id) if registry is not None else None
    if session is not None:
        session.cancel_nowait()


def _not_undone() -> None:
    """A close that was begun is not undone by cancelling its request; it is answered when it is done."""


def _not_live(door: "Door", session_id: SessionId) -> RpcError:
    """Why there is no live session of this id to prompt: it is being opened, or there is none."""
    registry = door.core.registry
    if registry is not None and registry.is_opening(session_id):
        return RpcError(ErrorCode.BUSY, "The session is being opened", {"reason": "busy"})
    return RpcError(ErrorCode.NOT_FOUND, "Session not found", {"sessionId": session_id})


METHODS: Mapping[str, RequestHandler] = {
    "initialize": initialize,
    "session/new": session_new,
    "session/list": session_list,
    "session/resume": session_resume,
    "session/prompt": session_prompt,
    "session/close": session_close,
}

NOTIFICATIONS: Mapping[str, NotificationHandler] = {
    "session/cancel": session_cancel,
}
