"""What an editor of ACP v1 does over a ``Wire``: the steps of a session, and a turn as the person sees it.

It stands on any connection of the kit (``running``, ``indoors``); the wire's own watch holds the frames to
the schemas and to the order of v1 once v1 was negotiated.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from attrs import define, frozen

from tests.kit.wire import Call, Json, Wire

ALL_FEATURES: Json = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "session": {"configOptions": {"boolean": {}}, "notices": {}, "compaction": {}},
    "_meta": {"terminal_output": True},
}
"""Everything that a client can offer."""


@frozen
class TurnV1:
    """A prompt that was sent, and what the session says until it is answered."""

    wire: Wire
    session_id: str
    call: Call
    start: int

    @property
    def updates(self) -> list[Json]:
        """The updates of the turn so far: up to the answer of its prompt."""
        end = len(self.wire.frames)
        for number, frame in enumerate(self.wire.frames[self.start :], self.start):
            if frame.get("id") == self.call.request_id and "method" not in frame:
                end = number
                break
        return [
            frame["params"]["update"]
            for frame in self.wire.frames[self.start : end]
            if frame.get("method") == "session/update" and frame["params"]["sessionId"] == self.session_id
        ]

    def of(self, kind: str) -> list[Json]:
        """The updates of one kind."""
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    @property
    def text(self) -> str:
        """What the agent said, joined."""
        return "".join(update["content"]["text"] for update in self.of("agent_message_chunk"))

    @property
    def calls(self) -> dict[str, Json]:
        """The tool calls of the turn by id, each as its updates folded into one."""
        folded: dict[str, Json] = {}
        for update in self.updates:
            if update["sessionUpdate"] in ("tool_call", "tool_call_update"):
                folded.setdefault(update["toolCallId"], {}).update(update)
        return folded

    async def seen(self, kind: str, **members: Any) -> Json:
        """Wait for an update of that kind with those members, and return it."""

        def fits(update: Json) -> bool:
            return update["sessionUpdate"] == kind and all(update.get(k) == v for k, v in members.items())

        return await self.wire.update(self.session_id, fits, self.start)

    async def ended(self) -> str:
        """Wait for the answer of the prompt, and return its stop reason; raises ``Refused`` for an error."""
        result = await self.call.result()
        return str(result["stopReason"])


@define
class EditorV1:
    """A client of ACP v1 on a connection."""

    wire: Wire

    async def initialize(self, capabilities: Json | None = None) -> Json:
        """Negotiate; returns the result."""
        info = {"name": "kit", "version": "1"}
        params = {"protocolVersion": 1, "clientInfo": info, "clientCapabilities": capabilities or {}}
        result: Json = await self.wire.request("initialize", params)
        return result

    async def open(self, cwd: Path | str, **more: Any) -> Json:
        """Make a session and return the whole answer."""
        params = {"cwd": str(cwd), "mcpServers": [], **more}
        result: Json = await self.wire.request("session/new", params)
        return result

    async def new_session(self, cwd: Path | str) -> str:
        """Make a session and return its id, once its commands were told too."""
        start = len(self.wire.frames)
        session_id = str((await self.open(cwd))["sessionId"])
        await self.wire.update(
            session_id, lambda update: update["sessionUpdate"] == "available_commands_update", start
        )
        return session_id

    async def load(
        self, session_id: str, cwd: Path | str, method: str = "session/load"
    ) -> tuple[Json, list[Json]]:
        """Load a session: the answer, and the updates that came before it."""
        start = len(self.wire.frames)
        params = {"sessionId": session_id, "cwd": str(cwd), "mcpServers": []}
        result: Json = await self.wire.request(method, params)
        return result, self.wire.updates(session_id, start)

    async def begin(self, session_id: str, prompt: str | Sequence[Json]) -> TurnV1:
        """Send a prompt; the turn goes on."""
        start = len(self.wire.frames)
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else list(prompt)
        call = await self.wire.call("session/prompt", {"sessionId": session_id, "prompt": blocks})
        return TurnV1(self.wire, session_id, call, start)

    async def prompt(self, session_id: str, prompt: str | Sequence[Json]) -> TurnV1:
        """Send a prompt and wait for its answer, which is no error."""
        turn = await self.begin(session_id, prompt)
        await turn.ended()
        return turn

    async def cancel(self, session_id: str) -> None:
        """Send the cancel notification."""
        await self.wire.notify("session/cancel", {"sessionId": session_id})

    async def set_mode(self, session_id: str, mode: str) -> Json:
        """Set the mode."""
        result: Json = await self.wire.request("session/set_mode", {"sessionId": session_id, "modeId": mode})
        return result

    async def set_option(self, session_id: str, option: str, value: str) -> Json:
        """Set a config option."""
        params = {"sessionId": session_id, "configId": option, "value": value}
        result: Json = await self.wire.request("session/set_config_option", params)
        return result


def choosing(*kinds: str) -> Callable[[Json], Json]:
    """Answers asks by the kind of the option, the first match, as an editor's buttons do."""

    def answer(ask: Json) -> Json:
        for kind in kinds:
            for option in ask["params"]["options"]:
                if option["kind"] == kind:
                    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        return {"outcome": {"outcome": "cancelled"}}

    return answer
