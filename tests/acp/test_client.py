"""The editor as a session sees it: events become frames in order, a question becomes one request that is
valid in every published schema, and every reply but a selected option becomes an answer that refuses.

The connection is played by a peer that keeps what it was given; the reply values are the real ones.
"""

import json

import msgspec
import pytest
import trio
from attrs import evolve

from term2_acp.acp.answers import answer_from_wire
from term2_acp.acp.fit import MAX_FRAME_BYTES
from term2_acp.acp.v2.capabilities import FULL
from term2_acp.acp.v2.client import V2Client
from term2_acp.acp.v2.question import ask_to_wire
from term2_acp.domain import events as ev
from term2_acp.domain.content import Change, Diff, Operation, Text
from term2_acp.domain.ids import MessageId, SessionId, ToolCallId
from term2_acp.domain.permission import (
    Ask,
    AskCancelled,
    Lost,
    Option,
    OptionKind,
    Selected,
    Unintelligible,
)
from term2_acp.domain.toolcall import Location, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.permission.broker import MAX_DESCRIPTION_BYTES, MAX_NAME_BYTES
from term2_acp.session.commands import COMMANDS
from term2_acp.transport.peer import ErrorReply, Gone, MalformedReply, Result
from tests.kit.schema import Gate

OPTIONS = (
    Option("allow-once", "Allow once: edit /srv/a", OptionKind.ALLOW_ONCE),
    Option("allow-edit-file-session", "Allow edits of /srv/a", OptionKind.ALLOW_ALWAYS),
    Option("deny", "Deny this call", OptionKind.REJECT_ONCE),
)
CALL = ToolCallUpdate(
    ToolCallId("call_1"),
    title="Edit a",
    name="apply_patch",
    kind=ToolKind.EDIT,
    status=ToolStatus.PENDING,
    content=(Diff((Change(Operation.MODIFY, "/srv/a"),), "diff --git /srv/a /srv/a\n"),),
    locations=(Location("/srv/a", 3),),
    raw_input={"patch": "p"},
)


def ask_of(**more):
    values = {
        "ask_id": 1,
        "session_id": SessionId("sess_1"),
        "title": "Edit a",
        "description": "Changes /srv/a.\nWorking directory: /w",
        "tool_call": CALL,
        "options": OPTIONS,
    }
    return Ask(**(values | more))


class Peer:
    """Keeps frames and calls; withdrawing is noted. A peer that is gone answers at once."""

    def __init__(self, *, gone=False):
        self.frames = []
        self.calls = []
        self.withdrawn = 0
        self.waited = 0
        self._gone = gone

    def notify_nowait(self, frame):
        self.frames.append(frame)

    def call_nowait(self, method, params, settle):
        self.calls.append((method, params, settle))
        if self._gone:
            settle(Gone())

        def withdraw():
            self.withdrawn += 1

        return withdraw

    async def ready(self):
        await trio.lowlevel.checkpoint()
        self.waited += 1


def sent(ask, bound=MAX_FRAME_BYTES):
    """The params of the ask as the client gets them, held to the schemas and to the bound."""
    frame = msgspec.json.encode(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "session/request_permission",
            "params": ask_to_wire(ask, bound),
        }
    )
    assert len(frame) + 1 <= bound
    assert b"\n" not in frame
    Gate.if_available().received(frame)
    return json.loads(frame)["params"]


def test_events_become_frames_in_order_each_with_its_session():
    peer = Peer()
    client = V2Client(peer)
    client.show(SessionId("s1"), [ev.Running(), ev.AgentMessageChunk(MessageId("m"), "a")])
    client.show(SessionId("s2"), [ev.AgentMessageChunk(MessageId("m"), "b")])
    client.show(SessionId("s1"), [ev.AgentMessageChunk(MessageId("m"), "c"), ev.ToolCallDispatched(CALL)])
    client.show(SessionId("s1"), [])
    params = [json.loads(frame)["params"] for frame in peer.frames]
    assert [(p["sessionId"], p["update"].get("content", {}).get("text")) for p in params] == [
        ("s1", None),
        ("s1", "a"),
        ("s2", "b"),
        ("s1", "c"),
    ]


def test_nothing_is_kept_of_a_session_that_has_left():
    peer = Peer()
    client = V2Client(peer)
    chunk = ev.AgentMessageChunk(MessageId("m"), "a")
    client.left(SessionId("s1"))  # nothing was shown of it
    for _ in range(2):
        client.show(SessionId("s1"), [chunk])
        client.show(SessionId("s2"), [chunk])
        client.left(SessionId("s1"))
    assert list(client._projections) == ["s2"]
    params = [json.loads(frame)["params"] for frame in peer.frames]
    assert [p["sessionId"] for p in params] == ["s1", "s2"] * 2


def test_clients_of_v2_offer_no_files():
    assert V2Client(Peer()).files(SessionId("s1")) is None


def test_commands_are_one_update_of_the_session():
    peer = Peer()
    client = V2Client(peer, FULL)
    client.show_commands(SessionId("s1"))
    (frame,) = peer.frames
    Gate.if_available().received(frame)
    params = json.loads(frame)["params"]
    assert params["sessionId"] == "s1"
    assert params["update"]["sessionUpdate"] == "available_commands_update"
    assert [command["name"] for command in params["update"]["availableCommands"]] == [
        command.name for command in COMMANDS
    ]


async def test_ready_is_the_peer_s():
    peer = Peer()
    await V2Client(peer).ready()
    assert peer.waited == 1


def test_a_question_is_complete():
    assert sent(ask_of()) == {
        "sessionId": "sess_1",
        "title": "Edit a",
        "description": "Changes /srv/a.\nWorking directory: /w",
        "subject": {
            "type": "tool_call",
            "toolCall": {
                "toolCallId": "call_1",
                "title": "Edit a",
                "name": "apply_patch",
                "kind": "edit",
                "status": "pending",
                "rawInput": {"patch": "p"},
                "locations": [{"path": "/srv/a", "line": 3}],
                "content": [
                    {
                        "type": "diff",
                        "changes": [{"operation": "modify", "path": "/srv/a"}],
                        "patch": {"format": "git_patch", "text": "diff --git /srv/a /srv/a\n"},
                    }
                ],
            },
        },
        "options": [
            {"optionId": "allow-once", "name": "Allow once: edit /srv/a", "kind": "allow_once"},
            {"optionId": "allow-edit-file-session", "name": "Allow edits of /srv/a", "kind": "allow_always"},
            {"optionId": "deny", "name": "Deny this call", "kind": "reject_once"},
        ],
    }


def test_a_question_leaves_out_what_it_does_not_have():
    params = sent(ask_of(description="", tool_call=ToolCallUpdate(ToolCallId("c"), title="t\ud800")))
    assert "description" not in params
    assert params["subject"]["toolCall"] == {"toolCallId": "c", "title": "t\ufffd"}


def test_a_question_that_is_too_long_fits_and_says_what_is_missing():
    long = "x\x01" * 20_000
    call = ToolCallUpdate(
        ToolCallId("c"),
        title=long,
        status=ToolStatus.PENDING,
        content=(Text(long), Diff((Change(Operation.ADD, "/srv/b"),), long)),
        raw_input={"command": long},
    )
    options = tuple(Option(option.option_id, option.name + long, option.kind) for option in OPTIONS)
    params = sent(ask_of(title=long, description=long, tool_call=call, options=options), 16_384)
    assert [option["optionId"] for option in params["options"]] == [
        "allow-once",
        "allow-edit-file-session",
        "deny",
    ]
    assert params["title"].endswith("… (40000 characters in all)")
    assert params["subject"]["toolCall"]["rawInput"]["note"] == "Too long to show here."
    assert params["subject"]["toolCall"]["content"][-1]["content"]["text"] == (
        "The rest of this call is too long for the question. It is shown with the call itself."
    )


def test_a_question_as_long_as_the_broker_lets_it_be_is_shown_whole():
    name = "x\u20ac" * (MAX_NAME_BYTES // 4)
    # As many options as any ask has.
    options = tuple(Option(f"{n}", name, OptionKind.ALLOW_ALWAYS) for n in range(4))
    description = 'a"\\\n' * (MAX_DESCRIPTION_BYTES // 7)  # 7 bytes as JSON
    call = evolve(CALL, raw_input={"command": "c" * MAX_FRAME_BYTES})
    params = sent(ask_of(description=description, options=options, tool_call=call))
    assert params["description"] == description
    assert [option["name"] for option in params["options"]] == [name] * 4


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (Result(msgspec.Raw(b'{"outcome":{"outcome":"selected","optionId":"x"}}')), Selected("x")),
        (
            Result(msgspec.Raw(b'{"outcome":{"outcome":"selected","optionId":"","_meta":{}},"_meta":null}')),
            Selected(""),
        ),
        (Result(msgspec.Raw(b'{"outcome":{"outcome":"cancelled"}}')), AskCancelled()),
        (Result(msgspec.Raw(b'{"outcome":{"outcome":"cancelled","optionId":7}}')), AskCancelled()),
        (ErrorReply(-32601, "no such method"), Unintelligible("the client answered with error -32601")),
        (ErrorReply(-32800, "cancelled\nx"), Unintelligible("the client answered with error -32800")),
        (MalformedReply("duplicate members"), Unintelligible("duplicate members")),
        (Gone(), Lost()),
    ],
)
def test_what_a_reply_says(reply, answer):
    assert answer_from_wire(reply) == answer


@pytest.mark.parametrize(
    "result",
    [
        b"null",
        b"{}",
        b"[]",
        b"7",
        b'"allow-once"',
        b'{"approved":true}',
        b'{"outcome":null}',
        b'{"outcome":"selected","optionId":"allow-once"}',
        b'{"optionId":"allow-once"}',
        b'{"outcome":{}}',
        b'{"outcome":{"optionId":"allow-once"}}',
        b'{"outcome":{"outcome":"selected"}}',
        b'{"outcome":{"outcome":"selected","optionId":null}}',
        b'{"outcome":{"outcome":"selected","optionId":1}}',
        b'{"outcome":{"outcome":"selected","optionId":["allow-once"]}}',
        b'{"outcome":{"outcome":"Selected","optionId":"allow-once"}}',
        b'{"outcome":{"outcome":"approved","optionId":"allow-once"}}',
        b'{"outcome":{"outcome":"_allow","optionId":"allow-once"}}',
        b'{"outcome":{"outcome":true,"optionId":"allow-once"}}',
        b'{"outcome":[{"outcome":"selected","optionId":"allow-once"}]}',
        b'{"outcome":{"outcome":"selected","optionId":"\\ud800"}}',
        b"",
    ],
)
def test_every_other_result_is_unintelligible(result):
    assert isinstance(answer_from_wire(Result(msgspec.Raw(result))), Unintelligible)


def test_what_does_not_fit_is_named_for_the_log():
    answer = answer_from_wire(Result(msgspec.Raw(b'{"outcome":{"optionId":"allow-once"}}')))
    assert answer == Unintelligible("the result does not fit: $.outcome.outcome: required, but missing")


def test_an_ask_goes_out_as_one_request_and_its_reply_comes_back_as_an_answer():
    peer = Peer()
    answers = []
    withdraw = V2Client(peer).ask(ask_of(), answers.append)
    ((method, params, settle),) = peer.calls
    assert method == "session/request_permission"
    assert bytes(params) == bytes(ask_to_wire(ask_of()))
    assert (answers, peer.withdrawn) == ([], 0)
    settle(Result(msgspec.Raw(b'{"outcome":{"outcome":"selected","optionId":"allow-once"}}')))
    assert answers == [Selected("allow-once")]
    withdraw()
    assert peer.withdrawn == 1


def test_a_client_that_is_gone_loses_the_ask_at_once():
    answers = []
    V2Client(Peer(gone=True)).ask(ask_of(), answers.append)
    assert answers == [Lost()]
