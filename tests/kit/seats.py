"""One person's seat at either door: the same deeds, and what is seen of them in words of neither version.

A scenario is written once against ``Seat`` and held at both doors. What one version has no word for is left
out of what is seen: a call that was cancelled is a failed one in v1, an idle is the end of a turn in both.
"""

import base64
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from attrs import define, field

from tests.kit.editor import Editor
from tests.kit.editor_v1 import EditorV1
from tests.kit.wire import Json, Refused

FENCED = re.compile(r"(`{3,})\n(.*?)\n?\1", re.DOTALL)


@define
class SeenCall:
    """A tool call as the person saw it in the end."""

    title: str
    kind: str
    status: str
    files: tuple[str, ...] = ()
    output: str | None = None
    text: str = ""


@define
class Seen:
    """A turn as the person saw it. ``stop`` is ACP's word, or ``error`` with the sentence in ``error``."""

    stop: str
    error: str | None = None
    text: str = ""
    thought: str = ""
    calls: list[SeenCall] = field(factory=list)
    plan: list[tuple[str, str]] | None = None
    usage: tuple[int, int] | None = None
    title: str | None = None
    mode: str | None = None


@define
class SeenAsk:
    """A question as the person saw it."""

    title: str
    kinds: tuple[str, ...]
    files: tuple[str, ...]


class Seat(Protocol):
    """What a scenario does. ``asks`` are the questions so far; ``answer`` names the kind that is chosen."""

    asks: list[SeenAsk]
    answer: str

    async def sit(self) -> None: ...

    async def new(self, cwd: Path) -> str: ...

    async def prompt(self, session: str, text: str, *, meanwhile: Callable[[], Any] | None = None) -> Seen:
        """Send a prompt and see its turn. ``meanwhile`` runs when the agent has said something."""
        ...

    async def cancel(self, session: str) -> None: ...

    async def options(self, session: str, cwd: Path) -> dict[str, str]: ...

    async def set(self, session: str, option: str, value: str) -> dict[str, str]: ...

    async def history(self, session: str, cwd: Path) -> list[tuple[str, str]]: ...

    async def sessions(self, cwd: Path) -> list[tuple[str, str | None]]: ...

    async def close(self, session: str) -> None: ...

    async def delete(self, session: str) -> None: ...

    async def refused(self, method: str, params: Json) -> Refused: ...


def _options_of(listed: list[Json], name: str) -> dict[str, str]:
    for option in listed:
        assert option["currentValue"] in [choice["value"] for choice in option["options"]]
    return {option[name]: option["currentValue"] for option in listed}


def _ask(seat: Seat, title: str, call: Json, options: list[Json]) -> Json:
    kinds = tuple(option["kind"] for option in options)
    seat.asks.append(SeenAsk(title, kinds, _files(call.get("content") or ())))
    chosen = next(option for option in options if option["kind"] == seat.answer)
    return {"outcome": {"outcome": "selected", "optionId": chosen["optionId"]}}


def _files(content: Any) -> tuple[str, ...]:
    found: list[str] = []
    for item in content:
        if item["type"] == "diff":
            paths = [change["path"] for change in item["changes"]] if "changes" in item else [item["path"]]
            found += [path.rpartition("/")[2] for path in paths]
    return tuple(found)


def _texts(content: Any) -> str:
    return "\n".join(item["content"]["text"] for item in content if item["type"] == "content")


def _plan(entries: list[Json]) -> list[tuple[str, str]]:
    return [(entry["content"], entry["status"]) for entry in entries]


@define
class SeatV2:
    """A seat at the v2 door, of the profile ``full``."""

    editor: Editor
    asks: list[SeenAsk] = field(factory=list)
    answer: str = "allow_once"

    async def sit(self) -> None:
        await self.editor.initialize()
        self.editor.on_ask = lambda ask: _ask(
            self, ask["params"]["title"], ask["params"]["subject"]["toolCall"], ask["params"]["options"]
        )

    async def new(self, cwd: Path) -> str:
        return await self.editor.new_session(cwd)

    async def prompt(self, session: str, text: str, *, meanwhile: Callable[[], Any] | None = None) -> Seen:
        turn = await self.editor.begin(session, text)
        if meanwhile is not None:
            await turn.seen("agent_message_chunk")
            await meanwhile()
        stop = await turn.ended()
        error = None
        words = turn.text
        if stop == "_term2_error":
            error = turn.updates[-1]["_meta"]["term2"]["error"]["message"]
            stop, words = "error", words.removesuffix(error)
        seen = Seen(stop, error, words, "".join(u["content"]["text"] for u in turn.of("agent_thought_chunk")))
        output = {}
        for update in turn.updates:
            if update["sessionUpdate"] == "terminal_output_chunk":
                output.setdefault(update["terminalId"], bytearray()).extend(base64.b64decode(update["data"]))
        for call in turn.calls.values():
            content = call.get("content") or ()
            shown = [item["terminalId"] for item in content if item["type"] == "terminal"]
            seen.calls.append(
                SeenCall(
                    call["title"],
                    call["kind"],
                    call["status"].replace("cancelled", "failed"),
                    _files(content),
                    bytes(output.get(shown[0], b"")).decode() if shown else None,
                    _texts(content),
                )
            )
        for update in turn.updates:
            match update["sessionUpdate"]:
                case "plan_update":
                    seen.plan = _plan(update["plan"]["entries"])
                case "usage_update":
                    seen.usage = update["used"], update["size"]
                case "session_info_update":
                    seen.title = update["title"]
                case "config_option_update":
                    seen.mode = _options_of(update["configOptions"], "configId")["mode"]
        return seen

    async def cancel(self, session: str) -> None:
        await self.editor.cancel(session)

    async def options(self, session: str, cwd: Path) -> dict[str, str]:
        params = {"sessionId": session, "cwd": str(cwd)}
        return _options_of((await self.editor.request("session/resume", params))["configOptions"], "configId")

    async def set(self, session: str, option: str, value: str) -> dict[str, str]:
        params = {"sessionId": session, "configId": option, "type": "id", "value": value}
        result = await self.editor.request("session/set_config_option", params)
        return _options_of(result["configOptions"], "configId")

    async def history(self, session: str, cwd: Path) -> list[tuple[str, str]]:
        start = len(self.editor.frames)
        params = {"sessionId": session, "cwd": str(cwd), "replayFrom": {"type": "start"}}
        await self.editor.request("session/resume", params)
        told = []
        for update in self.editor.updates(session, start):
            match update["sessionUpdate"]:
                case "user_message" | "agent_message" | "agent_thought":
                    told.append(
                        (update["sessionUpdate"], "".join(block["text"] for block in update["content"]))
                    )
                case "tool_call_update":
                    status = update["status"].replace("cancelled", "failed")
                    told.append(("tool_call", f"{update['title']}: {status}"))
        return told

    async def sessions(self, cwd: Path) -> list[tuple[str, str | None]]:
        result = await self.editor.request("session/list", {"cwd": str(cwd)})
        return [(entry["sessionId"], entry.get("title")) for entry in result["sessions"]]

    async def close(self, session: str) -> None:
        assert await self.editor.request("session/close", {"sessionId": session}) == {}

    async def delete(self, session: str) -> None:
        assert await self.editor.request("session/delete", {"sessionId": session}) == {}

    async def refused(self, method: str, params: Json) -> Refused:
        return await self.editor.refused(method, params)


@define
class SeatV1:
    """A seat at the v1 door. Its client offers nothing of its own."""

    editor: EditorV1
    asks: list[SeenAsk] = field(factory=list)
    answer: str = "allow_once"

    async def sit(self) -> None:
        await self.editor.initialize()
        self.editor.wire.on_ask = lambda ask: _ask(
            self, ask["params"]["toolCall"]["title"], ask["params"]["toolCall"], ask["params"]["options"]
        )

    async def new(self, cwd: Path) -> str:
        return await self.editor.new_session(cwd)

    async def prompt(self, session: str, text: str, *, meanwhile: Callable[[], Any] | None = None) -> Seen:
        turn = await self.editor.begin(session, text)
        if meanwhile is not None:
            await turn.seen("agent_message_chunk")
            await meanwhile()
        try:
            stop, error = await turn.ended(), None
        except Refused as refused:
            stop, error = f"error {refused.code}".removesuffix(" -32603"), refused.message
        thought = "".join(update["content"]["text"] for update in turn.of("agent_thought_chunk"))
        seen = Seen(stop, error, turn.text, thought)
        for call in turn.calls.values():
            content = call.get("content") or ()
            fenced = FENCED.search(_texts(content)) if call["kind"] == "execute" else None
            seen.calls.append(
                SeenCall(
                    call["title"],
                    call["kind"],
                    call["status"],
                    _files(content),
                    f"{fenced[2]}\n" if fenced else None,
                    _texts(content),
                )
            )
        for update in turn.updates:
            match update["sessionUpdate"]:
                case "plan":
                    seen.plan = _plan(update["entries"])
                case "usage_update":
                    seen.usage = update["used"], update["size"]
                case "session_info_update":
                    seen.title = update["title"]
                case "current_mode_update":
                    seen.mode = update["currentModeId"]
        return seen

    async def cancel(self, session: str) -> None:
        await self.editor.cancel(session)

    async def options(self, session: str, cwd: Path) -> dict[str, str]:
        result, told = await self.editor.load(session, cwd, "session/resume")
        assert [update["sessionUpdate"] for update in told] == ["available_commands_update"]
        options = _options_of(result["configOptions"], "id")
        assert result["modes"]["currentModeId"] == options["mode"]
        return options

    async def set(self, session: str, option: str, value: str) -> dict[str, str]:
        return _options_of((await self.editor.set_option(session, option, value))["configOptions"], "id")

    async def history(self, session: str, cwd: Path) -> list[tuple[str, str]]:
        _result, updates = await self.editor.load(session, cwd)
        told: list[tuple[str, str]] = []
        calls: dict[str, Json] = {}
        last = None
        for update in updates:
            kind = update["sessionUpdate"]
            if kind in ("user_message_chunk", "agent_message_chunk", "agent_thought_chunk"):
                # A message that follows another begins with an empty line in v1.
                word, text = kind.removesuffix("_chunk"), update["content"]["text"].removeprefix("\n\n")
                if last == (kind, update["messageId"]):
                    told[-1] = word, told[-1][1] + text
                else:
                    told.append((word, text))
                last = kind, update["messageId"]
            elif kind == "tool_call":
                calls[update["toolCallId"]] = update
                told.append(("tool_call", f"{update['title']}: {update['status']}"))
                last = None
        return told

    async def sessions(self, cwd: Path) -> list[tuple[str, str | None]]:
        result = await self.editor.wire.request("session/list", {"cwd": str(cwd)})
        return [(entry["sessionId"], entry.get("title")) for entry in result["sessions"]]

    async def close(self, session: str) -> None:
        assert await self.editor.wire.request("session/close", {"sessionId": session}) == {}

    async def delete(self, session: str) -> None:
        assert await self.editor.wire.request("session/delete", {"sessionId": session}) == {}

    async def refused(self, method: str, params: Json) -> Refused:
        return await self.editor.wire.refused(method, params)
