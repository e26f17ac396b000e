"""How msgspec reads the events of which a part may be one of several things.

msgspec reads an attrs class as it stands, strictly and five times as fast as a converter would. Only in a
union it has to be told by a tag which member is meant, and only Structs have tags. So each member of
``ContentBlock`` and ``ToolContent`` has a Struct here, and so have the events that hold some. ``value`` makes
the domain's own object of one. A body that does not fit never becomes a Struct.

``TAGS`` are the words by which bodies name the members: like the names of kinds, they never get another
meaning. What a form leaves out (``Diff.texts``) is not read, whatever a body says.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from term2_acp.domain.content import Change, Diff, Image, ResourceLink, Terminal, Text
from term2_acp.domain.events import ToolCallContentAdded, UserMessage
from term2_acp.domain.ids import MessageId, TerminalId, ToolCallId
from term2_acp.domain.toolcall import Location, ToolCallUpdate, ToolKind, ToolStatus

TAGS: Mapping[type, str] = MappingProxyType(
    {Text: "text", ResourceLink: "resource_link", Image: "image", Diff: "diff", Terminal: "terminal"}
)


class _Text(msgspec.Struct, tag=TAGS[Text], gc=False):
    text: str

    def value(self) -> Text:
        return Text(self.text)


class _ResourceLink(msgspec.Struct, tag=TAGS[ResourceLink], gc=False):
    name: str
    uri: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None

    def value(self) -> ResourceLink:
        return ResourceLink(self.name, self.uri, self.title, self.description, self.mime_type, self.size)


class _Image(msgspec.Struct, tag=TAGS[Image], gc=False):
    mime_type: str
    data: str
    uri: str | None = None

    def value(self) -> Image:
        return Image(self.mime_type, self.data, self.uri)


class _Diff(msgspec.Struct, tag=TAGS[Diff]):
    changes: tuple[Change, ...]
    patch: str | None = None

    def value(self) -> Diff:
        return Diff(self.changes, self.patch)


class _Terminal(msgspec.Struct, tag=TAGS[Terminal], gc=False):
    terminal_id: TerminalId

    def value(self) -> Terminal:
        return Terminal(self.terminal_id)


_Block = _Text | _ResourceLink | _Image
_Content = _Text | _Diff | _Terminal


class _UserMessage(msgspec.Struct):
    message_id: MessageId
    content: tuple[_Block, ...]
    to_model: bool = True
    command_length: int = 0

    def value(self) -> UserMessage:
        content = tuple([block.value() for block in self.content])
        return UserMessage(self.message_id, content, self.to_model, self.command_length)


class _ToolCallUpdate(msgspec.Struct):
    tool_call_id: ToolCallId
    title: str | None = None
    name: str | None = None
    kind: ToolKind | None = None
    status: ToolStatus | None = None
    content: tuple[_Content, ...] | None = None
    locations: tuple[Location, ...] | None = None
    raw_input: Mapping[str, Any] | None = None
    raw_output: Any = None
    parent: ToolCallId | None = None

    def value(self) -> ToolCallUpdate:
        return ToolCallUpdate(
            self.tool_call_id,
            self.title,
            self.name,
            self.kind,
            self.status,
            None if self.content is None else tuple([piece.value() for piece in self.content]),
            self.locations,
            self.raw_input,
            self.raw_output,
            self.parent,
        )


class _ToolCallContentAdded(msgspec.Struct):
    tool_call_id: ToolCallId
    content: _Content

    def value(self) -> ToolCallContentAdded:
        return ToolCallContentAdded(self.tool_call_id, self.content.value())


FORMS: Mapping[type, type[_UserMessage | _ToolCallUpdate | _ToolCallContentAdded]] = MappingProxyType(
    {
        UserMessage: _UserMessage,
        ToolCallUpdate: _ToolCallUpdate,
        ToolCallContentAdded: _ToolCallContentAdded,
    }
)
"""The form of each event that has one."""
