"""Events to rows and back.

A row's body is JSON. cattrs says what of an event is written, and msgspec writes and reads. Rules:

- ``_KINDS`` is the one table of names. A name never gets another meaning, and a class whose fields
  change in a way that old rows do not fit gets the next ``FORMAT``, with code here that reads both.
- Reading is strict: a number is not text, 1 is not true, null is no text. A body that does not fit its
  class is a *damaged* row, and so is one whose kind or version no term2 can have written; one whose kind or
  version is not known here is a *newer* one. Both are skipped, counted and named in the log by whoever
  reads; neither is changed in the file.
- Text is kept exactly, NUL, line separators and lone surrogates included. JSON cannot carry a lone
  surrogate and msgspec refuses it, so such a body is written by the standard library with surrogates
  encoded as they stand. Those bytes are not UTF-8, by which the reader knows them.

Reading is the hot half: a session that is opened again reads all of its rows. So msgspec makes the domain's
objects as it decodes (``forms`` says where it needs help), and nothing is looked at twice.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import cattrs.preconf.msgspec
import msgspec
from cattrs.gen import make_dict_unstructure_fn, override
from cattrs.strategies import configure_tagged_union

from term2_acp.domain.classes import frozen
from term2_acp.domain.content import ContentBlock, Diff, ToolContent
from term2_acp.domain.events import (
    NEVER_KEPT,
    AgentMessage,
    AgentMessageChunk,
    AgentThought,
    AgentThoughtChunk,
    Circumstances,
    CompactionUpdate,
    Event,
    Idle,
    OptionChosen,
    PlanUpdate,
    ReplyEnded,
    SessionInfoUpdate,
    TerminalOutput,
    TerminalUpdate,
    ToolCallContentAdded,
    ToolCallDecided,
    ToolCallDispatched,
    ToolCallPrepared,
    ToolCallSettled,
    UsageUpdate,
    UserMessage,
)
from term2_acp.domain.toolcall import ToolCallUpdate
from term2_acp.store.errors import FAILED, StoreFailed
from term2_acp.store.forms import FORMS, TAGS

logger = logging.getLogger(__name__)

FORMAT = 1
"""The version that new rows are written in."""

_FIRST_FORMAT = 1

_KINDS: dict[str, type] = {
    "idle": Idle,
    "user_message": UserMessage,
    "agent_message_chunk": AgentMessageChunk,
    "agent_thought_chunk": AgentThoughtChunk,
    "agent_message": AgentMessage,
    "agent_thought": AgentThought,
    "tool_call_update": ToolCallUpdate,
    "tool_call_content_added": ToolCallContentAdded,
    "terminal_update": TerminalUpdate,
    "terminal_output": TerminalOutput,
    "plan_update": PlanUpdate,
    "usage_update": UsageUpdate,
    "session_info_update": SessionInfoUpdate,
    "tool_call_prepared": ToolCallPrepared,
    "tool_call_decided": ToolCallDecided,
    "tool_call_dispatched": ToolCallDispatched,
    "tool_call_settled": ToolCallSettled,
    "reply_ended": ReplyEnded,
    "compaction_update": CompactionUpdate,
    "option_chosen": OptionChosen,
    "circumstances": Circumstances,
}

_CHUNKS: frozenset[type] = frozenset({AgentMessageChunk, AgentThoughtChunk})

# What the name of a kind may be, of this version or a later one.
_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}", re.ASCII)

# What decoding raises for a body that does not fit. (What msgspec raises is a ValueError.)
_MISFITS = (ValueError, TypeError, RecursionError)

# What encoding raises for a value that is no JSON value.
_UNWRITABLE = (ValueError, TypeError, OverflowError, RecursionError)


class DamagedRow(Exception):
    """The row is nothing that any term2 writes. The message names its kind, if that is known, and the fault.

    It does not hold the content; what damage made of a kind or a version may be content as well.
    """


class NewerRow(Exception):
    """The kind or the version is not known here: a newer term2 wrote the row. The message names both."""


@frozen
class Row:
    """One event as it is kept."""

    version: int
    kind: str
    body: bytes


class RowCodec:
    """``to_row`` and ``from_row`` for every event that is kept. Making one takes a few milliseconds."""

    def __init__(self) -> None:
        converter = _converter()
        self._converter = converter
        self._names = {cls: kind for kind, cls in _KINDS.items()}
        self._writers: dict[type, Callable[[Any], bytes]] = {
            cls: converter.get_dumps_hook(cls) for cls in _KINDS.values()
        }
        self._readers = {kind: _reader(cls) for kind, cls in _KINDS.items()}

    def to_rows(self, events: Iterable[Event]) -> list[Row]:
        """The rows that keep these events: none for what is only shown, one for a run of chunks.

        Raises ``StoreFailed`` when a value in an event is no JSON value.
        """
        return [self.to_row(event) for event in merged(events)]

    def to_row(self, event: Event) -> Row:
        """The row of one event. Raises as ``to_rows`` does."""
        cls = type(event)
        try:
            try:
                body = self._writers[cls](event)
            except UnicodeEncodeError:
                plain = self._converter.unstructure(event, cls)
                body = json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode(
                    "utf-8", "surrogatepass"
                )
        except _UNWRITABLE as error:
            logger.exception("a %s cannot be written as a row", cls.__name__)
            raise StoreFailed.because(FAILED) from error
        return Row(FORMAT, self._names[cls], body)

    def from_row(self, version: object, kind: str, body: bytes) -> Event:
        """The event of a row, whatever SQLite gives for one. Raises ``DamagedRow`` and ``NewerRow``."""
        read = self._readers.get(kind)
        if read is None or version != FORMAT:
            raise _unknown(kind, version)
        try:
            return read(body)
        except msgspec.ValidationError as error:
            raise _misfit(kind, error) from error
        except msgspec.DecodeError:
            return _with_half_characters(kind, body)
        except _MISFITS as error:
            raise _misfit(kind, error) from error


def _unknown(kind: object, version: object) -> DamagedRow | NewerRow:
    """Why a row cannot be read whose kind or version is not known, whatever SQLite gives for them."""
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        return DamagedRow("a kind that cannot be")
    if type(version) is not int or version < _FIRST_FORMAT:
        return DamagedRow(f"{kind}: a format that cannot be" if kind in _KINDS else "a format that cannot be")
    return NewerRow(f"{kind}, format {version}")


def _misfit(kind: str, error: Exception) -> DamagedRow:
    """The fault of a body that is not what its kind, which is a known one, says."""
    return DamagedRow(f"{kind}: {type(error).__name__}")


def _with_half_characters(kind: str, body: bytes | str) -> Event:
    """The event of a body that is no JSON to msgspec: lone surrogates may be all that is wrong with it."""
    cls = _KINDS[kind]
    form = FORMS.get(cls)
    try:
        # Damage, or a hand, may have made it text.
        text = body if isinstance(body, str) else body.decode("utf-8", "surrogatepass")
        plain = json.loads(text)
        read: Any = msgspec.convert(plain, form or cls)
        event: Event = read if form is None else read.value()
    except _MISFITS as error:
        raise _misfit(kind, error) from error
    return event


def _reader(cls: type) -> Callable[[bytes], Event]:
    """What makes an event of a body, in one call where that is enough."""
    form = FORMS.get(cls)
    if form is None:
        return msgspec.json.Decoder(cls).decode
    decode = msgspec.json.Decoder(form).decode
    return lambda body: decode(body).value()


def merged(events: Iterable[Event]) -> Sequence[Event]:
    """The events that are kept, with a run of chunks of one message as one chunk.

    The parts are joined once; adding them up one by one would be quadratic.
    """
    kept: list[Event] = []
    parts: list[str] = []
    last: AgentMessageChunk | AgentThoughtChunk | None = None

    def end_run() -> None:
        if last is not None and len(parts) > 1:
            kept[-1] = type(last)(last.message_id, "".join(parts))

    for event in events:
        kind = type(event)
        if kind in NEVER_KEPT:
            continue
        if kind not in _CHUNKS:
            end_run()
            last = None
        else:
            chunk: AgentMessageChunk | AgentThoughtChunk = event  # type: ignore[assignment]
            if last is not None and kind is type(last) and chunk.message_id == last.message_id:
                parts.append(chunk.text)
                continue
            end_run()
            last = chunk
            parts = [chunk.text]
        kept.append(event)
    end_run()
    return kept


def _converter() -> cattrs.preconf.msgspec.MsgspecJsonConverter:
    converter = cattrs.preconf.msgspec.make_converter(omit_if_default=True)
    # The patch tells what was changed. The whole texts are for those who see it happen.
    texts = override(omit=True)
    converter.register_unstructure_hook(
        Diff, make_dict_unstructure_fn(Diff, converter, _cattrs_omit_if_default=True, texts=texts)
    )
    for union in (ContentBlock, ToolContent):
        configure_tagged_union(union, converter, tag_generator=TAGS.__getitem__, tag_name="type")
    return converter
