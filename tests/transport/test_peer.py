"""One connection, over memory streams. Charter: every request is answered exactly once, notifications and
replies never, in the order of the input and with the right code and id; our calls are settled at most
once and never lost; a client that floods, stalls or goes away costs bounded memory and nobody else."""

import json
import logging
import tracemalloc

import pytest
import trio

from term2_acp.jsonrpc.errors import ErrorCode
from term2_acp.jsonrpc.framing import MAX_LINE_BYTES
from term2_acp.transport.peer import ErrorReply, Gone, MalformedReply, Peer, Result
from term2_acp.transport.replies import MAX_UNREAD_REPLIES
from term2_acp.transport.requests import MAX_TASKS
from term2_acp.transport.writer import Writer
from tests.kit.streams import PIPE_BYTES, Refused, Wire, WireClient, served
from tests.transport.doors import TestDoor


async def raw(client, line, *request_ids):
    """What one line is answered with; an empty list when it is not. Its ids are to be announced."""
    client.expect(*request_ids)
    client.wire.feed(line + b"\n")
    start = len(client.arrived())
    client.start("echo", {}, request_id=(fence := f"fence-{start}-{len(line)}"))
    await client.response(fence)
    return [frame for frame in client.frames[start:] if frame.get("id") != fence]


def error(frame):
    return frame["error"]["code"], frame["id"]


# -- requests --------------------------------------------------------------------------------------


async def test_a_request_is_answered_inline_and_in_order():
    async with served(TestDoor()) as (client, _):
        ids = [client.start("echo", {"n": n}) for n in range(50)]
        await client.response(ids[-1])

        assert [frame["result"]["n"] for frame in client.frames] == list(range(50))


@pytest.mark.parametrize(
    "request_id", [0, -1, 2**70, 10**4299, "", "1", 'é"'], ids=lambda value: repr(value)[:9]
)
async def test_ids_come_back_as_they_were(request_id):
    async with served(TestDoor()) as (client, _):
        client.start("echo", {"k": 1}, request_id)

        assert (await client.response(request_id))["result"] == {"k": 1}


async def test_missing_params_are_an_empty_object_and_unknown_members_nothing():
    door = TestDoor()
    async with served(door) as (client, _):
        assert await client.request("echo") == {}
        client.send({"jsonrpc": "2.0", "id": 9, "method": "echo", "params": None, "_meta": {"x": 1}, "y": 2})
        assert (await client.response(9))["result"] == {}


async def test_refusals_carry_their_code_message_and_data():
    async with served(TestDoor()) as (client, _):
        with pytest.raises(Refused) as refused:
            await client.request("unknown")
        assert (refused.value.code, refused.value.data) == (-32601, {"method": "unknown"})
        with pytest.raises(Refused) as refused:
            await client.request("slow_refuse")
        assert (refused.value.code, refused.value.data) == (-32002, {"sessionId": "s"})


@pytest.mark.parametrize("method", ["explode", "slow_explode", "slow_group", "unwritable"])
async def test_a_fault_of_ours_is_logged_and_told_without_detail(method, caplog):
    async with served(TestDoor()) as (client, _):
        frame = await client.response(client.start(method))
        assert await client.request("echo", {"alive": 1}) == {"alive": 1}

    assert frame["error"] == {"code": -32603, "message": "Internal error"}
    [record] = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert record.exc_info


async def test_a_second_answer_is_dropped_and_logged(caplog):
    async with served(TestDoor()) as (client, _):
        assert await client.request("twice") == {"first": True}

    assert [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR] == [
        "a second answer to twice was dropped"
    ] * 2


async def test_an_open_id_is_refused_and_the_first_request_lives():
    door = TestDoor()
    async with served(door) as (client, _):
        client.start("slow", {"n": 1}, "x")
        [refusal] = await raw(client, b'{"jsonrpc":"2.0","id":"x","method":"echo"}', "x")
        door.open.set()

        assert error(refusal) == (-32600, "x")
        assert await client.response("x") == refusal
        assert (await client.response("x"))["result"] == {"n": 1}
        client.start("echo", {"n": 2}, "x")
        assert (await client.response("x"))["result"] == {"n": 2}


async def test_one_and_the_string_one_are_open_at_once():
    door = TestDoor()
    async with served(door) as (client, _):
        client.start("slow", {"n": 1}, 1)
        client.start("slow", {"n": 2}, "1")
        door.open.set()

        assert (await client.response(1))["result"] == {"n": 1}
        assert (await client.response("1"))["result"] == {"n": 2}


async def test_at_most_so_many_requests_are_worked_on_and_inline_ones_go_on():
    door = TestDoor()
    async with served(door) as (client, _):
        ids = [client.start("slow", {"n": n}) for n in range(MAX_TASKS)]
        more = await client.response(client.start("slow"))
        door.open.set()
        for n, request_id in enumerate(ids):
            assert (await client.response(request_id))["result"] == {"n": n}

        assert more["error"] == {"code": -32603, "message": "too many open requests"}
        assert await client.request("slow", {"n": 0}) == {"n": 0}


# -- cancelling ------------------------------------------------------------------------------------


async def test_a_cancelled_request_is_answered_once(autojump_clock):
    door = TestDoor()
    async with served(door) as (client, _):
        request_id = client.start("slow")
        other = client.start("slow", {"n": 1})
        await trio.sleep(1)
        client.notify("$/cancel_request", {"requestId": request_id})
        frame = await client.response(request_id)
        client.notify("$/cancel_request", {"requestId": request_id})
        door.open.set()

        assert frame["error"]["code"] == -32800
        assert (await client.response(other))["result"] == {"n": 1}
    assert door.ended == ["cancelled", "done"]


async def test_a_cancel_in_the_same_read_finds_its_request():
    async with served(TestDoor()) as (client, _):
        client.wire.feed(
            b'{"jsonrpc":"2.0","id":1,"method":"slow"}\n'
            b'{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}\n'
        )
        client.expect(1)

        assert (await client.response(1))["error"]["code"] == -32800


async def test_a_cancel_that_comes_too_late_changes_nothing(autojump_clock):
    door = TestDoor()
    async with served(door) as (client, _):
        request_id = client.start("finishes")
        await trio.sleep(1)
        client.notify("$/cancel_request", {"requestId": request_id})
        await trio.sleep(1)
        door.open.set()

        assert (await client.response(request_id))["result"] == {"finished": True}


async def test_a_call_may_say_what_its_cancel_does():
    door = TestDoor()
    async with served(door) as (client, _):
        kept, forgotten = client.start("keep"), client.start("forget")
        client.notify("$/cancel_request", {"requestId": kept})
        client.notify("$/cancel_request", {"requestId": forgotten})  # no task, no hook: nothing to cancel

        assert (await client.response(kept))["result"] == {"cancelled": True}
        door.kept[1].answer_nowait({})
        assert (await client.response(forgotten))["result"] == {}


@pytest.mark.parametrize(
    "params", [None, {}, {"requestId": None}, {"requestId": 77}, {"requestId": "1"}, [1]]
)
async def test_other_cancels_are_nothing(params):
    door = TestDoor()
    async with served(door) as (client, _):
        request_id = client.start("slow", {"n": 1})
        client.notify("$/cancel_request", params)
        assert await client.request("echo") == {}
        door.open.set()

        assert (await client.response(request_id))["result"] == {"n": 1}
    assert all(method != "$/cancel_request" for method, _ in door.seen)


# -- notifications ---------------------------------------------------------------------------------


async def test_notifications_are_never_answered(caplog):
    door = TestDoor()
    async with served(door) as (client, _):
        client.notify("known", {"a": 1})
        client.notify("echo", {"a": 2})  # a request's method, without an id
        client.notify("$/whatever", {})
        client.notify("explode")
        for line in (
            b'{"jsonrpc":"2.0","method":"m","params":{"a":1,"a":1}}',
            b'{"jsonrpc":"2.0","method":"m","params":["\xff"]}',
            b'{"method":"m"}',
            b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
            b'{"jsonrpc":"2.0","id":99,"result":{}}',
            b'{"jsonrpc":"2.0","id":99,"result":{},"error":1}',
        ):
            assert await raw(client, line) == []

        assert all("result" in frame for frame in client.frames)
    assert [entry for entry in door.seen if entry[1]] == [("known", {"a": 1}), ("echo", {"a": 2})]
    assert "$/whatever" not in [method for method, _ in door.seen]


async def test_effects_come_in_the_order_of_the_input():
    door = TestDoor()
    async with served(door) as (client, peer):
        answers = []
        peer.call_nowait("ask", {}, lambda reply: door.seen.append(("answer", reply)))
        call = await client.called("ask")
        client.wire.feed(
            b'{"jsonrpc":"2.0","id":%d,"result":{"x":1}}\n'
            b'{"jsonrpc":"2.0","method":"cancel"}\n'
            b'{"jsonrpc":"2.0","id":"p","method":"slow"}\n'
            b'{"jsonrpc":"2.0","method":"mode"}\n'
            b'{"jsonrpc":"2.0","id":"q","method":"echo"}\n' % call["id"]
        )
        client.expect("p", "q")
        door.open.set()
        await client.response("p")

        assert [method for method, _ in door.seen] == ["answer", "cancel", "slow", "mode", "echo"]
        assert answers == []


# -- faults ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b"{oops", (-32700, None)),
        (b"\xff\xfe", (-32700, None)),
        (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"echo"}', (-32700, None)),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo"}{"jsonrpc":"2.0","id":2,"method":"echo"}', (-32700, None)),
        (b'{"jsonrpc":"2.0","id":1,"method":"echo","params":{"x":NaN}}', (-32700, None)),
        (b"1", (-32600, None)),
        (b"[]", (-32600, None)),
        (b'{"id":1,"method":"echo"}', (-32600, None)),
        (b'{"jsonrpc":"2.0","id":null,"method":"echo"}', (-32600, None)),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"echo"}', (-32600, None)),
        (b'{"jsonrpc":"2.0","id":true,"method":"echo"}', (-32600, None)),
        (b'{"jsonrpc":"2.0","id":{},"method":"echo"}', (-32600, None)),
        (b'{"jsonrpc":"2.0","id":7777,"method":"echo","params":{"a":1,"a":2}}', (-32600, 7777)),
        (b'{"jsonrpc":"2.0","id":7777,"method":"echo","_x":"\xff"}', (-32700, 7777)),
        (b'{"jsonrpc":"2.0","id":7777,"method":"echo","_x":"\\ud800"}', (-32600, 7777)),
        (
            b'{"jsonrpc":"2.0","id":7777,"method":"echo","_x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
            (-32600, 7777),
        ),
    ],
    ids=range(16),
)
async def test_a_bad_line_costs_one_error_and_the_next_good_one_is_served(line, answer):
    async with served(TestDoor()) as (client, _):
        [frame] = await raw(client, line, *([7777] if answer[1] else []))

        assert error(frame) == answer
        assert await client.request("echo", {"k": 1}) == {"k": 1}


async def test_a_line_over_the_limit_costs_one_error_and_other_requests_nothing():
    door = TestDoor()
    async with served(door) as (client, _):
        other = client.start("slow", {"n": 1})
        wire = client.wire
        wire.feed(b'{"jsonrpc":"2.0","id":"long","method":"echo","params":{"text":"')
        client.expect("long")
        for _ in range(MAX_LINE_BYTES // 2**20 + 1):
            wire.feed(b"a" * 2**20)
        wire.feed(b'"}}\n')
        frame = await client.response("long")
        door.open.set()

        assert error(frame) == (-32600, "long")
        assert (await client.response(other))["result"] == {"n": 1}
        assert await client.request("echo", {"text": "a" * 8 * 2**20}) == {"text": "a" * 8 * 2**20}


async def test_one_byte_at_a_time():
    async with served(TestDoor()) as (client, _):
        client.expect(5)
        for byte in '{"jsonrpc":"2.0","id":5,"method":"echo","params":{"é":"\\n"}}\n\n'.encode():
            client.wire.feed(bytes([byte]))

        assert (await client.response(5))["result"] == {"é": "\n"}


async def test_a_line_is_not_kept_while_nothing_comes_after_it():
    size = 8 * 1024 * 1024
    async with served(TestDoor()) as (client, _):
        await raw(client, b'"x"')  # whatever is made once is made now
        client.expect(5)
        tracemalloc.start()
        try:
            client.wire.feed(b'{"jsonrpc":"2.0","id":5,"method":"none","_x":"')
            for _ in range(size // PIPE_BYTES):
                client.wire.feed(b"x" * PIPE_BYTES)
            client.wire.feed(b'"}\n')
            assert (await client.response(5))["error"]["code"] == -32601
            kept, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert most > size, "the line was there"
    assert kept < size / 8


async def test_the_last_line_needs_no_newline():
    wire = Wire()
    async with served(TestDoor(), wire=wire) as (client, _):
        client.expect(5)
        wire.feed(b'{"jsonrpc":"2.0","id":5,"method":"echo"}')
        wire.end()

        assert (await client.response(5))["result"] == {}


# -- batches ---------------------------------------------------------------------------------------


async def lines_of(client, start):
    """What was sent since then, line by line."""
    await trio.sleep(1)
    return [json.loads(line) for line in client.wire.received[start:].splitlines()]


async def test_the_answers_to_a_batch_are_one_array_when_the_last_is_there(autojump_clock):
    door = TestDoor()
    async with served(door) as (client, _):
        client.wire.feed(
            b'[{"jsonrpc":"2.0","id":"a","method":"slow","params":{"n":1}}, 17, true, null,'
            b'{"jsonrpc":"2.0","method":"note"}, {"jsonrpc":"2.0","id":"1","method":"echo"},'
            b'{"jsonrpc":"2.0","id":1,"method":"unknown"}, {"jsonrpc":"2.0","id":"i","method":"initialize"},'
            b'{"jsonrpc":"2.0","id":"a","method":"echo"}]\n'
        )
        client.expect("a", "1", 1, "i", "a")
        before = await lines_of(client, 0)
        door.open.set()
        [array] = await lines_of(client, 0)

        assert before == []
        answers = {(frame["id"], frame.get("error", {}).get("code")) for frame in array}
        assert answers == {
            ("a", None), (None, -32600), ("1", None), (1, -32601), ("i", -32600), ("a", -32600),
        }  # fmt: skip
        assert len(array) == 8
        assert all(frame["jsonrpc"] == "2.0" for frame in array)
        assert ("note", {}) in door.seen


async def test_a_batch_with_nothing_to_answer_is_silent(autojump_clock):
    door = TestDoor()
    async with served(door) as (client, peer):
        replies = []
        peer.call_nowait("ask", {}, replies.append)
        call = await client.called("ask")
        start = len(client.wire.received)
        client.send([{"jsonrpc": "2.0", "method": "note"}])
        client.send([{"jsonrpc": "2.0", "id": call["id"], "result": {}}])

        assert await lines_of(client, start) == []
        assert [type(reply) for reply in replies] == [Result]


async def test_a_batch_counts_as_it_says():
    calls = []

    class Door(TestDoor):
        def request(self, call):
            calls.append(call.batched)
            return super().request(call)

    async with served(Door()) as (client, _):
        client.send([{"jsonrpc": "2.0", "id": 8, "method": "echo"}])
        await client.response(8)
        await client.request("echo")

    assert calls == [True, False]


async def test_a_request_of_a_batch_can_be_cancelled():
    async with served(TestDoor()) as (client, _):
        client.send(
            [{"jsonrpc": "2.0", "id": n, "method": method} for n, method in ((1, "slow"), (2, "echo"))]
        )
        client.notify("$/cancel_request", {"requestId": 1})

        assert (await client.response(1))["error"]["code"] == -32800
        assert (await client.response(2))["result"] == {}


async def test_answers_that_do_not_fit_into_one_array_are_errors():
    async with served(TestDoor()) as (client, _):
        text = "a" * 3 * 2**20
        client.send([{"jsonrpc": "2.0", "id": n, "method": "echo", "params": {"t": text}} for n in range(4)])
        answers = [await client.response(n) for n in range(4)]

        assert ["result" in frame for frame in answers] == [True, True, False, False]
        assert answers[3]["error"]["code"] == -32603
        assert len(client.wire.received) < 8 * 2**20


# -- our calls -------------------------------------------------------------------------------------


async def called(client, peer, method="ask"):
    """A call of ours as it arrived, its replies, and how to withdraw it."""
    replies = []
    start = len(client.arrived())
    withdraw = peer.call_nowait(method, {"k": 1}, replies.append)
    return await client.called(method, start), replies, withdraw


async def test_a_call_is_settled_by_its_answer_and_only_once():
    async with served(TestDoor()) as (client, peer):
        call, replies, withdraw = await called(client, peer)
        second, second_replies, _ = await called(client, peer)
        client.answer(second, {"n": 2})
        client.answer(call, {"n": 1})
        client.answer(call, {"n": 3})
        await client.request("echo")
        start = len(client.frames)
        withdraw()
        await client.request("echo")

        assert (call["method"], call["params"], second["id"]) == ("ask", {"k": 1}, call["id"] + 1)
        assert [bytes(reply.value) for reply in replies] == [b'{"n": 1}']
        assert [bytes(reply.value) for reply in second_replies] == [b'{"n": 2}']
        assert len(client.frames) == start + 1  # nothing was withdrawn


async def test_an_error_is_an_answer():
    async with served(TestDoor()) as (client, peer):
        call, replies, _ = await called(client, peer)
        client.send({"jsonrpc": "2.0", "id": call["id"], "error": {"code": -32601, "message": "no"}})
        await client.request("echo")

        assert replies == [ErrorReply(-32601, "no")]


@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":%d,"result":{"outcome":{"optionId":"a","optionId":"b"}}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{},"error":{"code":1,"message":"m"}}',
        b'{"jsonrpc":"2.0","id":%d,"error":null}',
        b'{"jsonrpc":"2.0","id":%d,"result":{"x":"\xff"}}',
        b'{"jsonrpc":"2.0","id":%d,"result":{oops}}',
        b'{"jsonrpc":"2.0","id":%d,"result":' + b"[" * 200 + b"]" * 200 + b"}",
        b'{"jsonrpc":"2.0","id":%d}',
        b'{"id":%d,"result":{}}',
    ],
    ids=range(8),
)
async def test_a_bad_line_that_answers_a_call_settles_it_and_is_not_answered(line):
    async with served(TestDoor()) as (client, peer):
        call, replies, _ = await called(client, peer)

        assert await raw(client, line % call["id"]) == []
        assert [type(reply) for reply in replies] == [MalformedReply]


@pytest.mark.parametrize(
    "other", [lambda n: n + 1, str, float, lambda n: None], ids=["later", "string", "float", "null"]
)
async def test_an_answer_to_something_else_settles_nothing(other):
    async with served(TestDoor()) as (client, peer):
        call, replies, _ = await called(client, peer)

        assert (
            await raw(client, json.dumps({"jsonrpc": "2.0", "id": other(call["id"]), "result": {}}).encode())
            == []
        )
        assert replies == []
        client.answer(call, {})
        await client.request("echo")
        assert len(replies) == 1


async def test_a_withdrawn_call_is_cancelled_once_and_its_late_answer_is_nothing():
    async with served(TestDoor()) as (client, peer):
        call, replies, withdraw = await called(client, peer)
        withdraw()
        withdraw()
        cancel = await client.called("$/cancel_request")
        client.answer(call, {"outcome": "selected"})
        await client.request("echo")

        assert cancel["params"] == {"requestId": call["id"]}
        assert "id" not in cancel
        assert len([frame for frame in client.frames if frame.get("method") == "$/cancel_request"]) == 1
        assert replies == []


async def test_the_ids_of_both_directions_do_not_meet(autojump_clock):
    door = TestDoor()
    async with served(door) as (client, peer):
        call, replies, _ = await called(client, peer)
        client.start("slow", {"n": 1}, call["id"])
        client.answer(call, {"n": 2})
        await trio.sleep(1)
        door.open.set()

        assert (await client.response(call["id"]))["result"] == {"n": 1}
        assert [type(reply) for reply in replies] == [Result]


async def test_a_settle_that_fails_is_logged_and_the_reader_goes_on(caplog):
    def settle(reply):
        raise ValueError

    async with served(TestDoor()) as (client, peer):
        peer.call_nowait("ask", {}, settle)
        client.answer(await client.called("ask"), {})

        assert await client.request("echo", {"alive": 1}) == {"alive": 1}
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


async def test_a_call_that_cannot_be_written_was_never_made():
    async with served(TestDoor()) as (client, peer):
        replies = []
        with pytest.raises(TypeError):
            peer.call_nowait("ask", {"x": object()}, replies.append)
        await client.request("echo")

        assert [frame.get("method") for frame in client.frames] == [None]
        assert replies == []


# -- ends ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["end", "stop", "break"])
async def test_every_open_call_is_settled_when_no_answer_can_come(how, autojump_clock):
    wire = Wire()
    async with served(TestDoor(), wire=wire) as (client, peer):
        replies = []
        peer.call_nowait("ask", {}, replies.append)
        peer.call_nowait("ask", {}, lambda reply: peer.call_nowait("again", {}, replies.append))
        await client.called("ask")
        match how:
            case "end":
                wire.end()
            case "stop":
                peer.stop_nowait()
            case "break":
                wire.break_()
                peer.notify_nowait(b"{}")
        await trio.sleep(1)
        withdraw = peer.call_nowait("late", {}, replies.append)
        withdraw()

        assert replies == [Gone()] * 3
        assert peer.ended.is_set() == (how != "break")


async def test_answers_still_go_out_after_the_input_has_ended():
    door = TestDoor()
    wire = Wire()
    async with served(door, wire=wire) as (client, peer):
        request_id = client.start("slow", {"n": 1})
        wire.end()
        await peer.ended.wait()
        door.open.set()

        assert (await client.response(request_id))["result"] == {"n": 1}


async def test_run_returns_when_the_input_and_the_last_request_have_ended(autojump_clock):
    door = TestDoor()
    wire = Wire()
    peer = Peer(wire.incoming, Writer(wire.outgoing), door)
    wire.feed(b'{"jsonrpc":"2.0","id":1,"method":"slow"}\n')
    wire.end()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.run)
        await peer.ended.wait()
        await trio.sleep(10)
        assert nursery.child_tasks
        door.open.set()

    assert door.ended == ["done"]


async def test_nothing_is_accepted_after_a_stop(autojump_clock):
    door = TestDoor()

    class StopDoor(TestDoor):
        def notification(self, method, params):
            super().notification(method, params)
            peer.stop_nowait()

    door = StopDoor()
    wire = Wire()
    async with served(door, wire=wire) as (client, peer):
        wire.feed(b'{"jsonrpc":"2.0","method":"stop"}\n{"jsonrpc":"2.0","id":1,"method":"echo"}\n')
        await peer.ended.wait()
        wire.feed(b'{"jsonrpc":"2.0","id":2,"method":"echo"}\n')
        await trio.sleep(1)

        assert door.seen == [("stop", {})]
        assert client.arrived() == []


async def test_cancelled_from_outside_every_request_is_answered(autojump_clock):
    door = TestDoor()
    wire = Wire()
    client = WireClient(wire)
    writer = Writer(wire.outgoing)
    peer = Peer(wire.incoming, writer, door)
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        with trio.CancelScope() as scope:
            client.start("slow", {}, 1)
            client.start("slow", {}, 2)
            scope.deadline = trio.current_time() + 5
            await peer.run()
        await writer.drained()
        nursery.cancel_scope.cancel()

    assert [error(frame) for frame in sorted(client.arrived(), key=lambda frame: frame["id"])] == [
        (ErrorCode.REQUEST_CANCELLED, 1),
        (ErrorCode.REQUEST_CANCELLED, 2),
    ]
    client.close()


# -- clients that read slowly or not at all --------------------------------------------------------


async def test_a_client_that_does_not_read_pauses_the_reader_and_nothing_else(autojump_clock):
    door = TestDoor()
    wire = Wire(capacity=1_000)
    async with served(door, wire=wire) as (client, _):
        wire.stop_reading()
        ids = [client.start("echo") for _ in range(3 * MAX_UNREAD_REPLIES)]
        await trio.sleep(60)
        accepted = len(door.seen)
        taken = 1_000 // len(b'{"jsonrpc":"2.0","id":10,"result":{}}\n')
        wire.resume_reading()
        await client.response(ids[-1])

        assert MAX_UNREAD_REPLIES <= accepted <= MAX_UNREAD_REPLIES + taken + 5
        assert [frame["id"] for frame in client.frames] == ids


async def test_notifications_that_wait_unread_never_stop_the_reader(autojump_clock):
    door = TestDoor()
    wire = Wire(capacity=1_000)
    async with served(door, wire=wire) as (client, peer):
        wire.stop_reading()
        for _ in range(5_000):
            peer.notify_nowait(b'{"jsonrpc":"2.0","method":"update","params":{}}')
        for n in range(MAX_UNREAD_REPLIES - 1):
            client.start("echo", {"n": n})
        client.notify("last")
        await trio.sleep(1)
        assert door.seen[-1] == ("last", {})
        wire.resume_reading()
        await client.response(MAX_UNREAD_REPLIES - 1)


async def test_a_paused_reader_stops_when_told(autojump_clock):
    wire = Wire(capacity=10)
    door = TestDoor()
    writer = Writer(wire.outgoing)
    peer = Peer(wire.incoming, writer, door)
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        nursery.start_soon(peer.run)
        wire.stop_reading()
        wire.feed(b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"echo"}\n' % n for n in range(5_000)))
        await trio.sleep(1)
        assert len(door.seen) < 5_000
        peer.stop_nowait()
        await peer.ended.wait()
        await trio.sleep(1)
        nursery.cancel_scope.cancel()

    assert len(door.seen) < 5_000


async def test_a_client_that_is_gone_is_read_to_its_end(autojump_clock):
    door = TestDoor()
    wire = Wire()
    async with served(door, wire=wire) as (client, _):
        wire.break_()
        wire.feed(b'{"jsonrpc":"2.0","id":1,"method":"echo"}\n' * (3 * MAX_UNREAD_REPLIES))
        client.notify("last")
        await trio.sleep(1)

        assert door.seen[-1] == ("last", {})
