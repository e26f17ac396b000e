"""What comes in through the v1 door, decoded, and the results that go out.

Rules:

- Decoding is strict about what we use and blind to the rest: unknown members and ``_meta`` are ignored,
  null is the same as absent wherever the schema says so.
- MCP servers are decoded as far as their names: editors pass the ones that the person set up for all agents,
  and a session that they do not hold up is worth more than none.
"""

from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from term2_acp.acp.fit import whole_characters
from term2_acp.acp.params import decode_at, invalid
from term2_acp.acp.places import check_cwd
from term2_acp.acp.v1.capabilities import IMAGES

if TYPE_CHECKING:  # the store is imported with the first session, and content with the first prompt
    from term2_acp.domain.content import ContentBlock
    from term2_acp.store import Page

# -- params --------------------------------------------------------------------------------------------


class Params(msgspec.Struct, rename="camel", frozen=True):
    """The params of one method. ``check`` raises for what types cannot say."""

    def check(self) -> None:
        """Refuse values of the right type that the method does not take.

        Raises:
            RpcError: -32602, with the member's path.
        """


class McpServer(msgspec.Struct, frozen=True):
    """A server that the client would have us use. We have no way to it, and name it when we say so."""

    name: str


class _Place(Params, frozen=True):
    cwd: str
    additional_directories: list[msgspec.Raw] | None = None
    mcp_servers: list[McpServer] | None = None

    def check(self) -> None:
        """See ``Params``."""
        check_cwd(self.cwd)
        if self.additional_directories:
            raise invalid("$.additionalDirectories", "additional directories are not advertised")


class NewSession(_Place, frozen=True):
    """``session/new``. ``cwd`` is absolute; whether it is a directory is for the handler to see."""


class OpenSession(_Place, frozen=True, kw_only=True):
    """``session/load`` and ``session/resume``."""

    session_id: str


class ListSessions(Params, frozen=True):
    """``session/list``. The cursor is for the store to understand."""

    cwd: str | None = None
    cursor: str | None = None

    def check(self) -> None:
        """See ``Params``."""
        if self.cwd is not None:
            check_cwd(self.cwd)


class PromptSession(Params, frozen=True):
    """``session/prompt``. The blocks are values here, since one may be an image of megabytes."""

    session_id: str
    prompt: list[Any]

    def content(self) -> "tuple[ContentBlock, ...]":
        """The prompt's blocks, in order; see ``content_from_wire``."""
        from term2_acp.acp.blocks import content_from_wire

        return content_from_wire(self.prompt, images=IMAGES)


class NamedSession(Params, frozen=True):
    """``session/cancel``, ``session/close`` and ``session/delete``."""

    session_id: str


class SetMode(Params, frozen=True):
    """``session/set_mode``."""

    session_id: str
    mode_id: str


class SetModel(Params, frozen=True):
    """``session/set_model``, as clients had it before there were config options."""

    session_id: str
    model_id: str


class SetConfigOption(Params, frozen=True):
    """``session/set_config_option``. All our options are lists of values; none is on or off."""

    session_id: str
    config_id: str
    value: str


class Authenticate(Params, frozen=True):
    """``authenticate``. There is nothing to log in to."""

    method_id: str | None = None


P = TypeVar("P", bound=Params)


def decode(type_: type[P], raw: msgspec.Raw) -> P:
    """The params of one method.

    Raises:
        RpcError: -32602, with the JSON path of the member that is missing, does not fit or is not taken.
    """
    params = decode_at("$", type_, raw)
    params.check()
    return params


# -- results -------------------------------------------------------------------------------------------


class SessionEntry(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """One session in a list. ``title`` is absent before the first prompt."""

    session_id: str
    cwd: str
    title: str | None = None
    updated_at: str | None = None


class ListResult(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The answer to ``session/list``. ``next_cursor`` is absent on the last page."""

    sessions: list[SessionEntry]
    next_cursor: str | None = None


def list_result(page: "Page") -> ListResult:
    """A page of kept sessions as ``session/list`` answers it."""
    entries = [
        SessionEntry(
            session_id=session.session_id,
            # A directory's name need not be Unicode.
            cwd=whole_characters(session.cwd),
            title=None if session.title is None else whole_characters(session.title),
            updated_at=session.updated_at,
        )
        for session in page.sessions
    ]
    return ListResult(entries, page.next_cursor)
