"""The tool calls of one turn, as a v1 client has them, and what it must yet be told.

ACP v1 sends the content of a call whole or not at all, and has no terminals of ours. So the calls are kept
here with their content and the output of their commands; what changes is noted, and ``take`` gives it as
updates: one for each call, however much of it changed since the last ``take``.

- The first update of a call is a ``tool_call``, all later ones are ``tool_call_update``.
- Where the client has the terminal-output extension, a command's call has a terminal with the call's id. Some
  clients make it only of the ``_meta`` of a ``tool_call``, and take output and exit only from the ``_meta``
  of a ``tool_call_update``. The first terminal of such a call is streamed there. Every other is text.
- The question to the person is about the call, with content of its own, which clients show in place of the
  call's. So the content is told again when the call begins to work.
- A call whose status is final and whose commands are over changes no more. Its content is let go.

A replay shows a call before its terminal, and live it is the other way round: the output of a command is kept
until the call that shows it is known.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from attrs import field

from term2_acp.acp.fit import encode, split_text
from term2_acp.acp.shown import Wire
from term2_acp.acp.v1.capabilities import ClientFeatures
from term2_acp.acp.v1.terminals import CommandOutput, exit_to_wire
from term2_acp.acp.v1.toolcalls import (
    content_to_wire,
    fit_tool_call,
    members_to_wire,
    parent_meta,
    text_piece,
)
from term2_acp.domain.classes import define
from term2_acp.domain.content import Terminal, Text, ToolContent
from term2_acp.domain.events import ExitStatus, TerminalOutput, TerminalUpdate
from term2_acp.domain.ids import TerminalId, ToolCallId
from term2_acp.domain.toolcall import Effect, ToolCallUpdate, ToolKind, ToolStatus

_FIELDS = ("title", "name", "kind", "status", "locations", "raw_input", "raw_output", "parent")

# What a call is called whose announcement is not known: v1 wants a title.
_NO_TITLE = "Tool call"

# What part of a frame one piece of a command's output may take: the rest is for what stands around it.
_OUTPUT_SHARE = 2

# What part of a frame output may take beside other changes of its call.
_MERGED_SHARE = 16


@define(eq=False)
class _Call:
    """One call. ``fields`` are those that changed and were not told yet."""

    call_id: ToolCallId
    fields: dict[str, Any] = field(factory=dict)
    content: tuple[ToolContent, ...] = ()
    content_changed: bool = False
    output_changed: bool = False
    told: bool = False  # the client knows the call
    content_told: bool = False  # the client has content of it
    has_terminal: bool = False  # the client has made a terminal for it
    streamed: TerminalId | None = None  # the one that is shown there
    began: bool = False
    final: bool = False
    over: bool = False

    @property
    def terminals(self) -> Iterator[TerminalId]:
        """The terminals that its content shows."""
        return (one.terminal_id for one in self.content if isinstance(one, Terminal))


class Calls:
    """See the module. ``cwd`` is the session's working directory."""

    def __init__(self, cwd: str, features: ClientFeatures) -> None:
        self._cwd = cwd
        self._streams = features.terminal_output
        self._calls: dict[ToolCallId, _Call] = {}
        self._outputs: dict[TerminalId, CommandOutput] = {}
        self._shown_by: dict[TerminalId, _Call] = {}
        # What `take` has to tell of, in the order in which it changed first. A plain member: it is looked at
        # with every chunk of text.
        self.changed: dict[ToolCallId, _Call] = {}
        self.shown = 0  # how many calls the client was told of

    def clear(self) -> None:
        """Forget all calls: their turn has ended."""
        self._calls.clear()
        self._outputs.clear()
        self._shown_by.clear()
        self.changed.clear()

    # -- what happens ------------------------------------------------------------------------------

    def update(self, event: ToolCallUpdate) -> None:
        """Members of a call are set."""
        call = self._call(event.tool_call_id)
        if call is None:
            return
        for name in _FIELDS:
            value = getattr(event, name)
            if value is not None:
                call.fields[name] = value
        if event.content is not None:
            self._show(call, event.content)
        call.final = call.final or (event.status is not None and event.status.final)

    def begin(self, call_id: ToolCallId) -> None:
        """A call is at work."""
        call = self._call(call_id)
        if call is None or call.final:
            return
        call.began = True
        call.fields["status"] = ToolStatus.IN_PROGRESS
        if call.told and call.content:  # and so there may have been a question
            call.content_changed = True

    def add(self, call_id: ToolCallId, content: ToolContent) -> None:
        """Content is appended to a call's."""
        call = self._call(call_id)
        if call is not None:
            self._show(call, (*call.content, content))

    def see(self, event: TerminalUpdate | TerminalOutput) -> None:
        """A command wrote something, or ended. What it is called is in the title of its call."""
        output = self._outputs.setdefault(event.terminal_id, CommandOutput())
        if not output.take_in(event):
            return
        call = self._shown_by.get(event.terminal_id)
        if call is not None:
            call.output_changed = True
            self.changed[call.call_id] = call

    def break_off(self, not_run: str, unknown: str) -> None:
        """Nothing more happens: what runs has ended, nobody knows how, and what is open has failed.

        ``not_run`` says so of a call that had not begun, ``unknown`` of one that had. What a command had
        written stays, as it does in a replay.
        """
        for terminal_id in self._outputs:
            self.see(TerminalUpdate(terminal_id, exit_status=ExitStatus()))
        for call in self._calls.values():
            if not call.final:
                why, effect = (unknown, Effect.OUTCOME_UNKNOWN) if call.began else (not_run, Effect.FAILED)
                output = {"error": why, "effect": effect.value}
                begun = (Terminal(one) for one in call.terminals if one in self._outputs)
                content: tuple[ToolContent, ...] = (*begun, Text(why))
                self.update(
                    ToolCallUpdate(call.call_id, status=ToolStatus.FAILED, content=content, raw_output=output)
                )

    def _call(self, call_id: ToolCallId) -> _Call | None:
        """The call, which is about to change; None when it can change no more."""
        call = self._calls.get(call_id)
        if call is None:
            call = self._calls[call_id] = _Call(call_id)
        if call.over:
            return None
        self.changed.setdefault(call_id, call)
        return call

    def _show(self, call: _Call, content: Sequence[ToolContent]) -> None:
        shown = tuple(content)
        if shown == call.content:
            return  # what a call ends with is mostly what it was prepared with
        call.content = shown
        call.content_changed = True
        for terminal_id in call.terminals:
            self._shown_by[terminal_id] = call
            call.output_changed = call.output_changed or terminal_id in self._outputs

    # -- what is told ------------------------------------------------------------------------------

    def take(self, room: int) -> Iterator[bytes]:
        """What changed, as encoded updates of at most ``room`` bytes each; from then on it is told."""
        changed, self.changed = self.changed, {}
        for call in changed.values():
            yield from self._updates(call, room)
            outputs = [self._outputs.get(terminal_id) for terminal_id in call.terminals]
            if call.final and all(output is not None and output.ended for output in outputs):
                self._let_go(call)

    def _let_go(self, call: _Call) -> None:
        for terminal_id in call.terminals:
            self._outputs.pop(terminal_id, None)
            self._shown_by.pop(terminal_id, None)
        call.over = True
        call.content = ()

    def _updates(self, call: _Call, room: int) -> Iterator[bytes]:
        first = not call.told
        wire: Wire = {
            "sessionUpdate": "tool_call" if first else "tool_call_update",
            "toolCallId": call.call_id,
        }
        bare = len(wire)
        meta = self._add_members(call, wire, first=first)
        self._add_content(call, wire)
        *pieces, last = self._output_metas(call, room)
        if first or pieces or len(encode(last)) > room // _MERGED_SHARE:
            # A terminal that is made here is filled by the next update only, and a piece may fill a frame.
            pieces.append(last)
        else:
            meta |= last
        if meta:
            wire["_meta"] = meta
        if first or len(wire) > bare:
            yield fit_tool_call(wire, room, lambda: self._content(call, whole=False))
        for piece in pieces:
            if piece:
                yield encode(
                    {"sessionUpdate": "tool_call_update", "toolCallId": call.call_id, "_meta": piece}
                )

    def _add_members(self, call: _Call, wire: Wire, *, first: bool) -> Wire:
        """Add the members that changed; what belongs to the ``_meta`` beside them."""
        fields, call.fields = call.fields, {}
        wire |= members_to_wire(fields)
        meta = parent_meta(fields["parent"]) if "parent" in fields else {}
        if first:
            call.told = True
            self.shown += 1
            wire.setdefault("title", fields.get("name") or _NO_TITLE)
            if self._streams and fields.get("kind") is ToolKind.EXECUTE:
                call.has_terminal = True
                meta["terminal_info"] = {"terminal_id": call.call_id, "cwd": self._cwd}
        return meta

    def _add_content(self, call: _Call, wire: Wire) -> None:
        as_text = call.output_changed and any(one != call.streamed for one in call.terminals)
        if not (call.content_changed or as_text):
            return
        call.content_changed = False
        content = self._content(call)
        if content or call.content_told:
            wire["content"] = content
        call.content_told = bool(content)

    def _content(self, call: _Call, *, whole: bool = True) -> list[Wire]:
        def terminal(shown: Terminal) -> Wire | None:
            if call.has_terminal and call.streamed in (None, shown.terminal_id):
                call.streamed = shown.terminal_id
                return {"type": "terminal", "terminalId": call.call_id}
            output = self._outputs.get(shown.terminal_id)
            text = output.as_text() if output is not None else ""
            return text_piece(text) if text else None

        return content_to_wire(call.content, terminal, whole=whole)

    def _output_metas(self, call: _Call, room: int) -> list[Wire]:
        """What came of a streamed command, as the ``_meta`` of one update (empty for nothing) or several."""
        changed, call.output_changed = call.output_changed, False
        output = self._outputs.get(call.streamed) if changed and call.streamed is not None else None
        if output is None:
            return [{}]
        metas: list[Wire] = [
            {"terminal_output": {"terminal_id": call.call_id, "data": piece}}
            for piece in split_text(output.take(), room // _OUTPUT_SHARE)
        ] or [{}]
        status = output.take_exit()
        if status is not None:
            metas[-1]["terminal_exit"] = exit_to_wire(call.call_id, status)
        return metas
