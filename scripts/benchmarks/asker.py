"""term2's asks by themselves: its wire, its door's client and its broker, with no session behind them.

A whole call that asks is journalled, decided about, run and told to a model. What is left without all that
is here: the call is shown as pending, the broker puts the question, and the answer is judged. Of ACP v2 it
speaks what the client of the benchmarks needs, and of prompts ``bench perm K``: it asks K times, one after
the other, as ``bare`` does. To anything else it says nothing and ends the turn.
"""

import os
from typing import Any

import msgspec
import trio

from term2_acp.acp.v2.client import V2Client
from term2_acp.domain.events import Idle
from term2_acp.domain.ids import SessionId, ToolCallId
from term2_acp.domain.paths import Target
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import Location, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import StopReason
from term2_acp.permission.broker import Approved, Broker, OpenAsk
from term2_acp.permission.choices import Choice
from term2_acp.permission.ground import Ground
from term2_acp.transport.call import Call, Work
from term2_acp.transport.peer import Peer
from term2_acp.transport.stdio import open_input, open_output
from term2_acp.transport.writer import Writer

PATH = "/etc/hosts"
CHOICES = (Choice.APPROVE, Choice.ALLOW_FOLDER_SESSION, Choice.REJECT)


class Text(msgspec.Struct):
    text: str


class PromptParams(msgspec.Struct):
    sessionId: str  # noqa: N815 - the wire's name
    prompt: list[Text]


class Asker:
    """The door of one connection (``transport.call.Door``)."""

    unbatchable: frozenset[str] = frozenset()

    def __init__(self, nursery: trio.Nursery) -> None:
        self.nursery = nursery
        self.client: V2Client
        self.ground = Ground(os.getcwd())
        self.made = 0

    def request(self, call: Call) -> Work | None:
        match call.method:
            case "initialize":
                info = {"name": "asker", "version": "0"}
                call.answer_nowait({"protocolVersion": 2, "info": info, "capabilities": {"session": {}}})
            case "session/new":
                self.made += 1
                call.answer_nowait({"sessionId": f"sess_{self.made}"})
            case "session/prompt":
                params = msgspec.json.decode(call.params, type=PromptParams)
                call.answer_nowait({})
                self.nursery.start_soon(self.turn, SessionId(params.sessionId), params.prompt[0].text.split())
        return None

    def notification(self, method: str, params: msgspec.Raw) -> None:
        del method, params

    async def turn(self, session: SessionId, words: list[str]) -> None:
        broker = Broker(session, self.post)
        count = int(words[2]) if words[:2] == ["bench", "perm"] else 0
        for number in range(count):
            await self.ask(session, broker, number)
        self.client.show(session, [Idle(StopReason.END_TURN)])

    async def ask(self, session: SessionId, broker: Broker, number: int) -> None:
        arguments: dict[str, Any] = {"path": PATH, "start_line": 1, "end_line": number + 1}
        call = ToolCallUpdate(
            ToolCallId(f"call_{number}"),
            title=f"Read {PATH} (lines 1 to {number + 1})",
            name="read_file",
            kind=ToolKind.READ,
            status=ToolStatus.PENDING,
            locations=(Location(PATH, 1),),
            raw_input=arguments,
        )
        self.client.show(session, [call])
        verdict = await broker.ask(
            title=str(call.title),
            description=f"Reads {PATH} and gives its text to the model.\nThis path is outside the workspace.",
            tool_call=call,
            choices=CHOICES,
            actions=(Action(Access.READ, Target(PATH, PATH, inside=False)),),
            ground=self.ground,
        )
        assert verdict == Approved(Choice.APPROVE), verdict

    def post(self, waiting: OpenAsk) -> None:
        waiting.send_through(self.client.ask)


async def serve() -> None:
    writer = Writer(open_output(os.dup(1)))
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        door = Asker(nursery)
        peer = Peer(open_input(os.dup(0)), writer, door)
        door.client = V2Client(peer)
        await peer.run()
        nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(serve)
