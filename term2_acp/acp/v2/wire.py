"""What comes in through the v2 door, decoded, and the results that go out.

Rules:

- Decoding is strict about what we use and blind to the rest: unknown members and ``_meta`` are ignored,
  null is the same as absent wherever the schema says so.
- What is not advertised is refused by name. The blocks of a prompt are decoded in ``blocks``.
- A rule that needs the file system or a session is not checked here.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from term2_acp.acp.fit import whole_characters
from term2_acp.acp.params import decode_at, invalid
from term2_acp.acp.places import check_cwd
from term2_acp.acp.v2.capabilities import INFO, PROTOCOL_VERSION, Advertised

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


class NewSession(Params, frozen=True):
    """``session/new``. ``cwd`` is absolute; whether it is a directory is for the handler to see."""

    cwd: str
    additional_directories: list[msgspec.Raw] | None = None
    mcp_servers: list[msgspec.Raw] | None = None

    def check(self) -> None:
        """See ``Params``."""
        check_cwd(self.cwd)
        _check_not_advertised(self.additional_directories, self.mcp_servers)


class ListSessions(Params, frozen=True):
    """``session/list``. The cursor is for the store to understand."""

    cwd: str | None = None
    cursor: str | None = None

    def check(self) -> None:
        """See ``Params``."""
        if self.cwd is not None:
            check_cwd(self.cwd)


class ReplayFrom(msgspec.Struct, frozen=True):
    """Where a replay starts. ``start`` is the one position there is."""

    type: str


class ResumeSession(Params, frozen=True):
    """``session/resume``."""

    session_id: str
    cwd: str
    additional_directories: list[msgspec.Raw] | None = None
    mcp_servers: list[msgspec.Raw] | None = None
    replay_from: ReplayFrom | None = None

    @property
    def replay(self) -> bool:
        """Whether the history is to be shown first."""
        return self.replay_from is not None

    def check(self) -> None:
        """See ``Params``."""
        check_cwd(self.cwd)
        _check_not_advertised(self.additional_directories, self.mcp_servers)
        if self.replay_from is not None and self.replay_from.type != "start":
            raise invalid("$.replayFrom.type", 'only "start" is supported')


class PromptSession(Params, frozen=True):
    """``session/prompt``. The blocks are values here, since one may be an image of megabytes: read once, they
    are converted by ``content``, which has to know what was advertised.
    """

    session_id: str
    prompt: list[Any]

    def content(self, advertised: Advertised) -> "tuple[ContentBlock, ...]":
        """The prompt's blocks, in order; see ``content_from_wire``."""
        from term2_acp.acp.blocks import content_from_wire

        return content_from_wire(self.prompt, images=advertised.images)


class CancelSession(Params, frozen=True):
    """``session/cancel``, a notification."""

    session_id: str


class CloseSession(Params, frozen=True):
    """``session/close``."""

    session_id: str


class DeleteSession(Params, frozen=True):
    """``session/delete``."""

    session_id: str


class SetConfigOption(Params, frozen=True):
    """``session/set_config_option``. Which options there are, and which values, is for the session to say."""

    session_id: str
    config_id: str
    type: str
    value: Any

    def check(self) -> None:
        """See ``Params``."""
        if self.type != "id":
            raise invalid("$.type", 'must be "id": every option here has a list of values')
        if not isinstance(self.value, str):
            raise invalid("$.value", "expected str")


P = TypeVar("P", bound=Params)


def decode(type_: type[P], raw: msgspec.Raw) -> P:
    """The params of one method.

    Raises:
        RpcError: -32602, with the JSON path of the member that is missing, does not fit or is not taken.
    """
    params = decode_at("$", type_, raw)
    params.check()
    return params


def _check_not_advertised(
    directories: Sequence[msgspec.Raw] | None, servers: Sequence[msgspec.Raw] | None
) -> None:
    if directories:
        raise invalid("$.additionalDirectories", "additional directories are not advertised")
    if servers:
        raise invalid("$.mcpServers", "MCP servers are not advertised")


# -- results -------------------------------------------------------------------------------------------


class InitializeResult(msgspec.Struct, rename="camel", frozen=True):
    """The answer to ``initialize``."""

    protocol_version: int
    info: dict[str, str]
    capabilities: dict[str, Any]


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


def initialize_result(advertised: Advertised) -> InitializeResult:
    """What ``initialize`` is answered with, whatever newer version was asked for."""
    return InitializeResult(PROTOCOL_VERSION, dict(INFO), advertised.to_wire())


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
