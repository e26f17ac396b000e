"""A question all the way down and back: the broker, the v2 client and the real peer, with bytes at the end.

Each answer is a line as a client may send it. Whatever it is, the ask has exactly one outcome, and only a
selected option of this very ask approves.
"""

import json

import pytest
import trio
import trio.testing

from term2_acp.acp.v2.client import V2Client
from term2_acp.domain.ids import SessionId, ToolCallId
from term2_acp.domain.paths import Target
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import ToolCallUpdate, ToolStatus
from term2_acp.permission.broker import Abandoned, Approved, Broker, Refused, RefusedAll
from term2_acp.permission.choices import Choice
from term2_acp.permission.ground import Ground
from term2_acp.transport.peer import Peer
from term2_acp.transport.writer import Writer
from tests.kit.schema import Gate


class Incoming:
    """The client's lines, through a memory channel."""

    def __init__(self):
        self._lines, self._received = trio.open_memory_channel(100)

    def send(self, line):
        self._lines.send_nowait(line.encode() + b"\n")

    def end(self):
        self._lines.send_nowait(b"")

    async def receive(self):
        return await self._received.receive()

    def close(self):
        self._lines.close()
        self._received.close()


class Outgoing:
    """Takes everything at once, and holds it to the schemas."""

    def __init__(self):
        self._data = b""

    def send_nowait(self, data):
        self._data += bytes(data)
        return len(data)

    async def send(self, data):
        await trio.lowlevel.checkpoint()
        return self.send_nowait(data)

    def close(self):
        """Nothing is held open."""

    def messages(self):
        gate = Gate.if_available()
        return [gate.received(line) for line in self._data.splitlines()]


class NoDoor:
    """Nothing is asked of us here."""

    unbatchable = frozenset()

    def request(self, call):
        raise AssertionError(call.method)

    def notification(self, method, params):
        """Unknown ones are nothing."""


class Desk:
    """One session's broker, whose outbox is empty: an ask goes out as soon as it is posted."""

    def __init__(self, nursery):
        self.incoming = Incoming()
        self.outgoing = Outgoing()
        self.writer = Writer(self.outgoing)
        self.peer = Peer(self.incoming, self.writer, NoDoor())
        self.client = V2Client(self.peer)
        self.broker = Broker(SessionId("sess_1"), lambda waiting: waiting.send_through(self.client.ask))
        self.verdicts = []
        nursery.start_soon(self.peer.run)

    async def ask(self):
        path = "/srv/a/b"
        self.verdicts.append(
            await self.broker.ask(
                title="Edit b",
                description="Changes b.",
                tool_call=ToolCallUpdate(ToolCallId("call_1"), title="Edit b", status=ToolStatus.PENDING),
                choices=(Choice.ALLOW_ONCE, Choice.ALLOW_EDIT_FILE_SESSION, Choice.DENY),
                actions=[Action(Access.EDIT, Target(path, path, inside=False))],
                ground=Ground("/w"),
            )
        )

    def sent(self):
        self.writer.flush_nowait()
        return self.outgoing.messages()


@pytest.fixture
def desk(nursery):
    return Desk(nursery)


NOT_OFFERED = Refused("The editor answered with a choice that was not offered, so this was refused.")
NOT_UNDERSTOOD = Refused("The editor did not give an answer that can be understood, so this was refused.")


def selected(option_id):
    return '"result":{"outcome":{"outcome":"selected","optionId":"' + option_id + '"}}'


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (selected("allow-once"), Approved(Choice.ALLOW_ONCE)),
        (selected("allow-edit-file-session"), Approved(Choice.ALLOW_EDIT_FILE_SESSION)),
        (selected("deny"), Refused("The person refused this.", Choice.DENY)),
        (selected("approve"), NOT_OFFERED),
        (selected("allow-edit-folder-session"), NOT_OFFERED),
        (selected("unsandboxed-once"), NOT_OFFERED),
        (
            '"result":{"outcome":{"outcome":"cancelled"}}',
            RefusedAll("The person dismissed the question, so this and the rest of the reply was not run."),
        ),
        ('"error":{"code":-32601,"message":"Method not found"}', NOT_UNDERSTOOD),
        ('"error":{"code":-32603,"message":"no"}', NOT_UNDERSTOOD),
        ('"error":{"code":-32800,"message":"cancelled"}', NOT_UNDERSTOOD),
        ('"result":{}', NOT_UNDERSTOOD),
        ('"result":null', NOT_UNDERSTOOD),
        ('"result":{"approved":true}', NOT_UNDERSTOOD),
        ('"result":{"outcome":{"outcome":"_yes","optionId":"allow-once"}}', NOT_UNDERSTOOD),
        # Members twice, at any depth: which of them was meant?
        (
            '"result":{"outcome":{"outcome":"cancelled","outcome":"selected","optionId":"allow-once"}}',
            NOT_UNDERSTOOD,
        ),
        (
            '"result":{"outcome":{"outcome":"selected","optionId":"deny","optionId":"allow-once"}}',
            NOT_UNDERSTOOD,
        ),
        (selected("deny") + "," + selected("allow-once"), NOT_UNDERSTOOD),
        (selected("allow-once") + ',"error":{"code":1,"message":"x"}', NOT_UNDERSTOOD),
    ],
)
async def test_every_answer_has_one_outcome(desk, nursery, answer, verdict):
    nursery.start_soon(desk.ask)
    await trio.testing.wait_all_tasks_blocked()
    (request,) = desk.sent()
    assert request["method"] == "session/request_permission"
    line = f'{{"jsonrpc":"2.0","id":{json.dumps(request["id"])},{answer}}}'
    desk.incoming.send(line)
    # The same id twice: the second is an answer to nothing.
    desk.incoming.send(line)
    await trio.testing.wait_all_tasks_blocked()
    assert desk.verdicts == [verdict]
    nursery.cancel_scope.cancel()


async def test_the_end_of_the_input_loses_the_ask(desk, nursery):
    nursery.start_soon(desk.ask)
    await trio.testing.wait_all_tasks_blocked()
    desk.incoming.end()
    await trio.testing.wait_all_tasks_blocked()
    nursery.start_soon(desk.ask)
    await trio.testing.wait_all_tasks_blocked()
    assert desk.verdicts == [Abandoned(), Abandoned()]
    assert len(desk.sent()) == 1
    nursery.cancel_scope.cancel()


async def test_a_cancelled_ask_is_withdrawn_and_its_late_answer_is_nothing(desk, nursery):
    turn = trio.CancelScope()

    async def in_turn():
        with turn:
            await desk.ask()

    nursery.start_soon(in_turn)
    await trio.testing.wait_all_tasks_blocked()
    turn.cancel()
    await trio.testing.wait_all_tasks_blocked()
    request, withdrawal = desk.sent()
    assert withdrawal == {
        "jsonrpc": "2.0",
        "method": "$/cancel_request",
        "params": {"requestId": request["id"]},
    }
    desk.incoming.send(f'{{"jsonrpc":"2.0","id":{request["id"]},{selected("allow-once")}}}')
    await trio.testing.wait_all_tasks_blocked()
    assert desk.verdicts == []
    assert len(desk.sent()) == 2
    nursery.cancel_scope.cancel()


async def test_answers_in_another_order_reach_their_own_asks(desk, nursery):
    for _ in range(3):
        nursery.start_soon(desk.ask)
        await trio.testing.wait_all_tasks_blocked()
    first, second, third = (request["id"] for request in desk.sent())
    for request_id, option in ((third, "deny"), (first, "allow-once"), (second, "allow-edit-file-session")):
        desk.incoming.send(f'{{"jsonrpc":"2.0","id":{request_id},{selected(option)}}}')
        await trio.testing.wait_all_tasks_blocked()
    assert desk.verdicts == [
        Refused("The person refused this.", Choice.DENY),
        Approved(Choice.ALLOW_ONCE),
        Approved(Choice.ALLOW_EDIT_FILE_SESSION),
    ]
    nursery.cancel_scope.cancel()
