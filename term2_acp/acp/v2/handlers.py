"""One function for each method of ACP v2. They decode, call the core, and name the result; no policy.

``METHODS`` and ``NOTIFICATIONS`` are the whole surface, ``served`` what one connection has of it. What is not
there is -32601; docs/PROTOCOL.md has the same list for people, and a test holds the two together.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from term2_acp.acp.places import canonical, workspace
from term2_acp.acp.router import NotificationHandler, RequestHandler
from term2_acp.acp.v2 import wire
from term2_acp.acp.v2.capabilities import Advertised
from term2_acp.acp.v2.errors import named, named_option
from term2_acp.domain.ids import SessionId
from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from term2_acp.transport.peer import Call, Work

if TYPE_CHECKING:
    from term2_acp.acp.v2.door import Door
    from term2_acp.session.session import Session


def session_new(door: "Door", call: Call) -> Work:
    """Make a session for a directory."""
    params = wire.decode(wire.NewSession, call.params)

    async def work() -> Any:
        cwd = workspace(params.cwd)
        registry = door.core.registry_nowait()
        with named():
            await door.core.store()
            session = await registry.new(cwd, door.client)
        options = await _options(door, session, made=True)
        call.answer_nowait({"sessionId": session.session_id} | options)
        if door.advertised.commands:
            door.client.show_commands(session.session_id)
        return None

    return work


def session_list(door: "Door", call: Call) -> Work:
    """List the sessions that are kept, last active first, a page at a time."""
    params = wire.decode(wire.ListSessions, call.params)

    async def work() -> Any:
        cwd = None if params.cwd is None else canonical(params.cwd)
        registry = door.core.registry_nowait()
        with named():
            await door.core.store()
            page = await registry.page(cwd, params.cursor)
        return wire.list_result(page)

    return work


def session_resume(door: "Door", call: Call) -> Work:
    """Open a session again, with its history first where ``replayFrom`` says so; the answer comes last."""
    params = wire.decode(wire.ResumeSession, call.params)
    session_id = SessionId(params.session_id)
    registry = door.core.registry_nowait()
    before = registry.find(session_id)
    with named(session_id):
        registry.reserve_nowait(session_id)

    async def work() -> Any:
        try:
            cwd = workspace(params.cwd)
            with named(session_id):
                await door.core.store()
                await registry.open(session_id, cwd, door.client, replay=params.replay)
                session = registry.find(session_id)
                return await _options(door, session, made=session is not before)
        finally:
            registry.release_nowait(session_id)

    return work


async def _options(door: "Door", session: "Session | None", *, made: bool) -> dict[str, Any]:
    """What the result that opens a session has besides; nothing for one that a shutdown closes already.

    If the request is cancelled here, nobody is told that the session is open: one that was ``made`` by the
    request is ended then, and others may open it.
    """
    if session is None or not door.advertised.options:
        return {}
    from term2_acp.acp.v2.options import options_to_wire  # with the first session that has any

    try:
        return {"configOptions": options_to_wire(await session.options.shown())}
    except BaseException:
        if made:
            session.abandon_nowait()
        raise


def session_set_config_option(door: "Door", call: Call) -> None:
    """Set an option of a session. It holds from here on; the answer goes out when the change is kept."""
    from term2_acp.acp.v2.options import options_to_wire

    params = wire.decode(wire.SetConfigOption, call.params)
    session_id = SessionId(params.session_id)
    with named(session_id), named_option():
        _live(door, session_id).set_option_nowait(
            params.config_id,
            params.value,
            done=lambda options: call.answer_nowait({"configOptions": options_to_wire(options)}),
            refuse=lambda failure: call.fail_nowait(RpcError(ErrorCode.INTERNAL_ERROR, failure.message)),
        )


def session_prompt(door: "Door", call: Call) -> None:
    """Admit a prompt. Its response goes out from the session's outbox, before the message it names."""
    params = wire.decode(wire.PromptSession, call.params)
    session_id = SessionId(params.session_id)
    session = _live(door, session_id)
    with named(session_id):
        turn = session.admit_nowait(
            params.content(door.advertised),
            answer=lambda message_id: call.answer_nowait({"messageId": message_id}),
            refuse=lambda failure: call.fail_nowait(RpcError(ErrorCode.INTERNAL_ERROR, failure.message)),
            commands=door.advertised.commands,
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


def session_delete(door: "Door", call: Call) -> Work:
    """Close the session if it is open here, and remove it for good. An unknown one is removed already."""
    session_id = SessionId(wire.decode(wire.DeleteSession, call.params).session_id)
    delete = door.core.registry_nowait().delete_nowait(session_id)
    call.on_cancel = _not_undone

    async def work() -> Any:
        with named(session_id):
            await door.core.store()
            await delete()
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
    """A close or delete that was begun is not undone by cancelling its request; it is answered when done."""


def _live(door: "Door", session_id: SessionId) -> "Session":
    """The live session of this id.

    Raises:
        RpcError: it is being opened (busy), or there is none.
    """
    registry = door.core.registry
    if registry is not None:
        if registry.is_opening(session_id):
            raise RpcError(ErrorCode.BUSY, "The session is being opened", {"reason": "busy"})
        session = registry.find(session_id)
        if session is not None:
            return session
    raise RpcError(ErrorCode.NOT_FOUND, "Session not found", {"sessionId": session_id})


METHODS: Mapping[str, RequestHandler] = {
    "session/new": session_new,
    "session/list": session_list,
    "session/resume": session_resume,
    "session/prompt": session_prompt,
    "session/set_config_option": session_set_config_option,
    "session/close": session_close,
    "session/delete": session_delete,
}


def served(advertised: Advertised) -> Mapping[str, RequestHandler]:
    """The methods of a client that was told this; the rest are not there."""
    hidden = set()
    if not advertised.options:
        hidden.add("session/set_config_option")
    if not advertised.delete:
        hidden.add("session/delete")
    return {method: handler for method, handler in METHODS.items() if method not in hidden}


NOTIFICATIONS: Mapping[str, NotificationHandler] = {
    "session/cancel": session_cancel,
}
