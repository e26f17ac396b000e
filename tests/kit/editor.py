"""What an editor does over a ``Wire``: the steps of a session, and a turn as the person sees it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import frozen

from tests.kit.wire import Json, Wire


@frozen
class Turn:
    """A prompt that was taken, and what the session says from it on."""

    editor: "Editor"
    session_id: str
    message_id: str
    start: int

    @property
    def updates(self) -> list[Json]:
        """The updates of the turn so far: from its prompt to its idle."""
        updates = self.editor.updates(self.session_id, self.start)
        ends = (number for number, update in enumerate(updates) if update.get("stopReason"))
        return updates[: next(ends, len(updates)) + 1]

    def of(self, kind: str) -> list[Json]:
        """The updates of one kind."""
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    @property
    def text(self) -> str:
        """What the agent said, its messages joined."""
        parts = []
        for update in self.updates:
            if update["sessionUpdate"] == "agent_message_chunk":
                parts.append(update["content"]["text"])
            elif update["sessionUpdate"] == "agent_message":
                parts.extend(block["text"] for block in update["content"])
        return "".join(parts)

    @property
    def calls(self) -> dict[str, Json]:
        """The tool calls of the turn by id, each as its updates folded into one."""
        folded: dict[str, Json] = {}
        for update in self.updates:
            if update["sessionUpdate"] == "tool_call_update":
                folded.setdefault(update["toolCallId"], {}).update(update)
            elif update["sessionUpdate"] == "tool_call_content_chunk":
                call = folded[update["toolCallId"]]
                call["content"] = [*(call.get("content") or ()), update["content"]]
        return folded

    async def seen(self, kind: str, **members: Any) -> Json:
        """Wait for an update of that kind with those members, and return it."""

        def fits(update: Json) -> bool:
            return update["sessionUpdate"] == kind and all(update.get(k) == v for k, v in members.items())

        return await self.editor.update(self.session_id, fits, self.start)

    async def ended(self) -> str:
        """Wait for the idle of the turn and return its stop reason."""
        idle = await self.seen("state_update", state="idle")
        return str(idle["stopReason"])


class Editor(Wire):
    """A client of ACP v2."""

    async def initialize(self, version: int = 2, capabilities: Json | None = None) -> Json:
        """Negotiate; returns the result."""
        info = {"name": "kit", "version": "1"}
        params = {"protocolVersion": version, "info": info, "capabilities": capabilities or {}}
        result: Json = await self.request("initialize", params)
        return result

    async def new_session(self, cwd: Path | str) -> str:
        """Make a session and return its id."""
        result = await self.request("session/new", {"cwd": str(cwd)})
        return str(result["sessionId"])

    async def begin(self, session_id: str, prompt: str | Sequence[Json]) -> Turn:
        """Send a prompt and return once it was taken; the turn goes on."""
        start = len(self.frames)
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else list(prompt)
        result = await self.request("session/prompt", {"sessionId": session_id, "prompt": blocks})
        return Turn(self, session_id, result["messageId"], start)

    async def prompt(self, session_id: str, prompt: str | Sequence[Json]) -> Turn:
        """Send a prompt and wait for the end of its turn."""
        turn = await self.begin(session_id, prompt)
        await turn.ended()
        return turn

    async def cancel(self, session_id: str) -> None:
        """Send the cancel notification."""
        await self.notify("session/cancel", {"sessionId": session_id})
