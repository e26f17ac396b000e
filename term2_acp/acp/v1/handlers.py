"""One function for each method of ACP v1. They decode, call the core, and name the result; no policy.

``METHODS`` and ``NOTIFICATIONS`` are the whole surface. What is not in them is -32601; docs/PROTOCOL.md has
the same list for people, and a test holds the two together.

A session that was opened has its options in the answer. Its commands follow the answer to ``session/new``,
which names the session; after a ``load`` or ``resume`` nothing follows, so there they come before.
"""

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from term2_acp.acp.errors import not_found
from term2_acp.acp.places import canonical, workspace
from term2_acp.acp.router import NotificationHandler, RequestHandler
from term2_acp.acp.v1 import wire
from term2_acp.acp.v1.errors import busy, named
from term2_acp.domain.ids import SessionId
from term2_acp.domain.turn import Failure
from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from term2_acp.transport.peer import Call, Work

if TYPE_CHECKING:  # what a session needs is imported with the first one
    from term2_acp.acp.v1.client import V1Client
    from term2_acp.acp.v1.door import Door
    from term2_acp.domain.options import SessionOption
    from term2_acp.session.session import Session

logger = logging.getLogger(__name__)

# -- the connection ------------------------------------------------------------------------------------


def authenticate(door: "Door", call: Call) -> None:
    """There is nothing to log in to, and some clients log in all the same."""
    del door
    wire.decode(wire.Authenticate, call.params)
    call.answer_nowait({})


# -- opening -------------------------------------------------------------------------------------------


def session_new(door: "Door", call: Call) -> Work:
    """Make a session for a directory. Its commands follow the answer."""
    params = wire.decode(wire.NewSession, call.params)

    async def work() -> None:
        cwd = workspace(params.cwd)
        registry = door.core.registry_nowait()
        with named():
            await door.core.store()
            session = await registry.new(cwd, door.client_of(cwd, params.cwd))
        options = await _options_of(session, made=True)
        call.answer_nowait({"sessionId": session.session_id} | _options(options))
        _introduce(door, session.session_id, params.mcp_servers)

    return work


def session_load(door: "Door", call: Call) -> Work:
    """Open a session again: its history, then the answer."""
    return _open(door, call, replay=True)


def session_resume(door: "Door", call: Call) -> Work:
    """Open a session again, without its history."""
    return _open(door, call, replay=False)


def _open(door: "Door", call: Call, *, replay: bool) -> Work:
    params = wire.decode(wire.OpenSession, call.params)
    session_id = SessionId(params.session_id)
    registry = door.core.registry_nowait()
    with named(session_id):
        session = registry.find(session_id)
        if session is not None and _client_of(session).prompted:
            raise busy()
        registry.reserve_nowait(session_id)

    async def work() -> Any:
        try:
            cwd = workspace(params.cwd)
            with named(session_id):
                await door.core.store()
                client = door.client_of(cwd, params.cwd)
                await registry.open(session_id, cwd, client, replay=replay)
                session = registry.find(session_id)
                options = () if session is None else await _options_of(session, made=session.client is client)
        finally:
            registry.release_nowait(session_id)
        _introduce(door, session_id, params.mcp_servers)
        return _options(options)

    return work


async def _options_of(session: "Session", *, made: bool) -> "tuple[SessionOption, ...]":
    """The options of a session. If the request is cancelled here, nobody is told that the session is open.

    So one that was ``made`` by the request is ended then, and others may open it.
    """
    try:
        return await session.options.shown()
    except BaseException:
        if made:
            session.abandon_nowait()
        raise


def _options(options: "tuple[SessionOption, ...]") -> dict[str, Any]:
    """The options of a session, as the answers that open it name them: the mode twice, for older clients."""
    from term2_acp.acp.v1.options import modes_to_wire, options_to_wire

    result: dict[str, Any] = {"configOptions": options_to_wire(options)}
    modes = modes_to_wire(options)
    return result if modes is None else {"modes": modes} | result


def _introduce(door: "Door", session_id: SessionId, servers: list[wire.McpServer] | None) -> None:
    """Say what the session has: its commands, and which of the client's servers it has not."""
    from term2_acp.acp.v1.frames import commands_frame, notice_frame

    door.notify(commands_frame(session_id))
    if servers:
        names = ", ".join(server.name for server in servers)
        logger.warning("MCP servers are not supported; a session goes without %s", names[:_NAMES_LOGGED])
        if door.features.notices:
            door.notify(notice_frame(session_id, names))


# Characters of the names of servers that a log line repeats.
_NAMES_LOGGED = 500


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


# -- closing -------------------------------------------------------------------------------------------


def session_close(door: "Door", call: Call) -> Work | None:
    """Cancel the session's turn and close it. One that is not open here is closed already."""
    session_id = SessionId(wire.decode(wire.NamedSession, call.params).session_id)
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
    """Close the session and remove it for good. One that is not there is removed already."""
    session_id = SessionId(wire.decode(wire.NamedSession, call.params).session_id)
    delete = door.core.registry_nowait().delete_nowait(session_id)
    call.on_cancel = _not_undone

    async def work() -> Any:
        with named(session_id):
            await door.core.store()
            await delete()
        return {}

    return work


def _not_undone() -> None:
    """What was begun is not undone by cancelling its request; it is answered when it is done."""


# -- the turn ------------------------------------------------------------------------------------------


def session_prompt(door: "Door", call: Call) -> None:
    """Admit a prompt. It is answered when its turn ends, after the last update of it."""
    params = wire.decode(wire.PromptSession, call.params)
    session = _live(door, params.session_id)
    client = _client_of(session)
    if client.prompted:
        raise busy()
    with named(session.session_id):
        turn = session.admit_nowait(
            params.content(), answer=lambda message_id: None, refuse=client.refuse, commands=True
        )
    client.begin(call)
    # This turn's, not whichever is open then: its answer may be out after its end.
    call.on_cancel = turn.scope.cancel
    # The client keeps the call for as long as the turn goes on, and these may be megabytes.
    call.params = msgspec.Raw()


def session_cancel(door: "Door", params: msgspec.Raw) -> None:
    """Stop the turn that is admitted now. Idle, closed and unknown sessions: nothing."""
    session_id = SessionId(wire.decode(wire.NamedSession, params).session_id)
    registry = door.core.registry
    session = registry.find(session_id) if registry is not None else None
    if session is not None:
        session.cancel_nowait()


# -- options -------------------------------------------------------------------------------------------


def session_set_mode(door: "Door", call: Call) -> None:
    """Set the mode: how freely the session acts, from the next call on."""
    params = wire.decode(wire.SetMode, call.params)
    _set(door, call, params.session_id, "mode", params.mode_id, with_options=False)


def session_set_model(door: "Door", call: Call) -> None:
    """Set the model, as clients did it before there were config options."""
    params = wire.decode(wire.SetModel, call.params)
    _set(door, call, params.session_id, "model", params.model_id, with_options=False)


def session_set_config_option(door: "Door", call: Call) -> None:
    """Set an option. The answer has all of them, since one may change another."""
    params = wire.decode(wire.SetConfigOption, call.params)
    _set(door, call, params.session_id, params.config_id, params.value, with_options=True)


def _set(door: "Door", call: Call, session_id: str, option: str, value: str, *, with_options: bool) -> None:
    from term2_acp.acp.v1.options import options_to_wire

    session = _live(door, session_id)

    def done(options: "tuple[SessionOption, ...]") -> None:
        call.answer_nowait({"configOptions": options_to_wire(options)} if with_options else {})

    def refuse(failure: Failure) -> None:
        call.fail_nowait(RpcError(ErrorCode.INTERNAL_ERROR, failure.message))

    with named(session.session_id):
        session.set_option_nowait(option, value, done, refuse)


# -- looking sessions up -------------------------------------------------------------------------------


def _live(door: "Door", session_id: str) -> "Session":
    """The live session of this id.

    Raises:
        RpcError: it is being opened, or there is none.
    """
    named_id = SessionId(session_id)
    registry = door.core.registry
    session = registry.find(named_id) if registry is not None else None
    if registry is not None and registry.is_opening(named_id):
        raise busy("The session is being opened")
    if session is None:
        raise not_found(session_id)
    return session


def _client_of(session: "Session") -> "V1Client":
    """The session's editor. All sessions of a connection are opened through its one door."""
    from term2_acp.acp.v1.client import V1Client

    client = session.client
    assert isinstance(client, V1Client)
    return client


METHODS: Mapping[str, RequestHandler] = {
    "authenticate": authenticate,
    "session/new": session_new,
    "session/load": session_load,
    "session/resume": session_resume,
    "session/list": session_list,
    "session/close": session_close,
    "session/delete": session_delete,
    "session/prompt": session_prompt,
    "session/set_mode": session_set_mode,
    "session/set_model": session_set_model,
    "session/set_config_option": session_set_config_option,
}

NOTIFICATIONS: Mapping[str, NotificationHandler] = {
    "session/cancel": session_cancel,
}
