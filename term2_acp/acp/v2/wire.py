"""What comes in through the v2 door, decoded, and the results that go out.

Rules:

- Decoding is strict about what we use and blind to the rest: unknown members and ``_meta`` are ignored,
  null is the same as absent wherever the schema says so.
- Content blocks are an open union: each is first asked for its type, then decoded as that type. What is
  not advertised is refused by name, since a block that is dropped in silence is worse than an error.
- A rule that needs the file system or a session is not checked here.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from term2_acp.acp.params import decode_at, invalid
from term2_acp.acp.v2.capabilities import CAPABILITIES, INFO, PROTOCOL_VERSION
from term2_acp.acp.v2.fit import whole_characters
from term2_acp.domain.content import ContentBlock, ResourceLink, Text

if TYPE_CHECKING:  # the store is imported with the first session, not at the start
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
        _check_cwd(self.cwd)
        _check_not_advertised(self.additional_directories, self.mcp_servers)


class ListSessions(Params, frozen=True):
    """``session/list``. The cursor is for the store to understand."""

    cwd: str | None = None
    cursor: str | None = None

    def check(self) -> None:
        """See ``Params``."""
        if self.cwd is not None:
            _check_cwd(self.cwd)


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
        _check_cwd(self.cwd)
        _check_not_advertised(self.additional_directories, self.mcp_servers)
        if self.replay_from is not None and self.replay_from.type != "start":
            raise invalid("$.replayFrom.type", 'only "start" is supported')


class PromptSession(Params, frozen=True):
    """``session/prompt``. The blocks are decoded by ``content``."""

    session_id: str
    prompt: list[msgspec.Raw]

    def content(self) -> tuple[ContentBlock, ...]:
        """The prompt's blocks, in order.

        Raises:
            RpcError: -32602, a block is malformed or not advertised, or there is nothing in the prompt.
        """
        blocks = tuple(_block(f"$.prompt[{place}]", raw) for place, raw in enumerate(self.prompt))
        if all(isinstance(block, Text) and not block.text.strip() for block in blocks):
            raise invalid("$.prompt", "the prompt is empty")
        return blocks


class CancelSession(Params, frozen=True):
    """``session/cancel``, a notification."""

    session_id: str


class CloseSession(Params, frozen=True):
    """``session/close``."""

    session_id: str


P = TypeVar("P", bound=Params)


def decode(type_: type[P], raw: msgspec.Raw) -> P:
    """The params of one method.

    Raises:
        RpcError: -32602, with the JSON path of the member that is missing, does not fit or is not taken.
    """
    params = decode_at("$", type_, raw)
    params.check()
    return params


def _check_cwd(cwd: str) -> None:
    if not cwd.startswith("/"):
        raise invalid("$.cwd", "must be an absolute path")
    if "\0" in cwd:
        raise invalid("$.cwd", "must not hold a null character")


def _check_not_advertised(
    directories: Sequence[msgspec.Raw] | None, servers: Sequence[msgspec.Raw] | None
) -> None:
    if directories:
        raise invalid("$.additionalDirectories", "additional directories are not advertised")
    if servers:
        raise invalid("$.mcpServers", "MCP servers are not advertised")


# -- content blocks ------------------------------------------------------------------------------------

# Blocks that ACP knows and that we did not advertise.
_NOT_ADVERTISED = frozenset({"image", "audio", "resource"})


# What makes a URI of a text (RFC 3986, section 3.1). What follows the scheme is not looked at: editors do
# send characters that should have been escaped, and the person means what they point at.
_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class _AnyBlock(msgspec.Struct, frozen=True):
    type: str


class _TextBlock(msgspec.Struct, frozen=True):
    text: str


class _ResourceLinkBlock(msgspec.Struct, rename="camel", frozen=True):
    name: str
    uri: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: Annotated[int, msgspec.Meta(ge=0)] | None = None


def _block(path: str, raw: msgspec.Raw) -> ContentBlock:
    kind = decode_at(path, _AnyBlock, raw).type
    if kind == "text":
        return Text(decode_at(path, _TextBlock, raw).text)
    if kind == "resource_link":
        link = decode_at(path, _ResourceLinkBlock, raw)
        if not _HAS_SCHEME.match(link.uri):
            raise invalid(f"{path}.uri", "must be a URI")
        return ResourceLink(
            name=link.name,
            uri=link.uri,
            title=link.title,
            description=link.description,
            mime_type=link.mime_type,
            size=link.size,
        )
    if kind in _NOT_ADVERTISED:
        raise invalid(f"{path}.type", f"{kind} blocks are not advertised")
    raise invalid(f"{path}.type", "this type of block is not known")


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


def initialize_result() -> InitializeResult:
    """What ``initialize`` is answered with, whatever newer version was asked for."""
    return InitializeResult(PROTOCOL_VERSION, dict(INFO), dict(CAPABILITIES))


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
