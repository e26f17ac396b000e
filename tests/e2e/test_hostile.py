"""What a hostile or broken client can send, and that it costs one error and nothing else.

The whole table of bad lines goes to one process, each line followed by a good request; then each case is a
test of what came back. The rest are scenes of their own: lines without end, sessions that run meanwhile,
requests in the wrong order, a client that sends and does not read.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from tests.kit.daemon import Daemon
from tests.kit.editor import Turn
from tests.kit.forked import running
from tests.kit.home import Home
from tests.kit.hostile import CASES, INVALID, PARAMS, PARSE, UNKNOWN
from tests.kit.play import WAITS
from tests.kit.schema import Gate
from tests.kit.wire import Json

MAX_LINE_BYTES = 32 * 1024 * 1024
MAX_FRAME_BYTES = 8 * 1024 * 1024
MIB = 1024 * 1024


@pytest.fixture
def home(tmp_path):
    return Home.make(tmp_path, script=WAITS)


# -- one bad line, one error -----------------------------------------------------------------------


async def bombard(home: Home) -> dict[str, list[Json]]:
    """Send every case, each with a good request behind it; what came before the good answer is the case's."""
    answers: dict[str, list[Json]] = {}
    # Unwatched, since the gate would end the whole table at the first surprise; each case asks it later.
    async with running(home, watch=False) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        for name, it in CASES.items():
            line = it.line.replace(b"SESSION", session.encode())
            line = line.replace(b"WORKSPACE", str(home.workspace).encode())
            start = len(daemon.frames)
            await daemon.send_bytes(line + b"\n")
            if not it.silent:
                await daemon.frame(lambda frame: "error" in frame or "batch" in frame, start)
            good = await daemon.request("session/list", {}, f"after {name}")
            assert len(good["sessions"]) == 1, f"{name} made a session"
            answers[name] = daemon.frames[start:-1]
        # And after all of it, the session works.
        assert await (await daemon.prompt(session, "hi")).ended() == "end_turn"
    return answers


@pytest.fixture(scope="module")
def answers(tmp_path_factory) -> Iterator[dict[str, list[Json]]]:
    home = Home.make(tmp_path_factory.mktemp("hostile"), script=WAITS)
    return trio.run(bombard, home)


@pytest.mark.parametrize("name", CASES)
def test_a_bad_line_costs_one_error_and_nothing_else(answers, name):
    it = CASES[name]
    frames = answers[name]
    if it.silent:
        assert frames == []
        return
    (answer,) = frames
    assert answer["error"]["code"] in it.codes
    assert answer["id"] == it.id
    assert type(answer["id"]) is type(it.id)
    gate = Gate.if_available()
    if it.id is not None:
        gate.opened(it.id, "?")
    gate.received(json.dumps(answer))


def test_a_bad_member_is_named_by_its_path(answers):
    def message(name):
        return answers[name][0]["error"]["message"]

    assert "cwd" in message("session/new without params")
    assert "cwd" in message("a cwd that is a number")
    assert "prompt" in message("a prompt that is a string")
    assert "mcpServers" in message("servers that were not asked for")


def test_a_session_that_is_not_there_is_named(answers):
    assert answers["a prompt for nobody"][0]["error"]["data"] == {"sessionId": "nobody"}


# -- ids -------------------------------------------------------------------------------------------

IDS = [0, -1, 1, "1", "", "x-1", "\u00e9\u2028\U0001f600", 2**53 + 1, 2**63 - 1, 2**70, -(2**70), "i" * 5000]


async def test_ids_are_echoed_with_type_and_value_intact(home):
    async with running(home) as daemon:
        await daemon.request("initialize", {"protocolVersion": 2}, "first")
        for request_id in IDS:
            # The call is found again by the type and the value of its id, or not at all.
            call = await daemon.call("session/list", {}, request_id)
            assert await call.result() == {"sessions": []}


# -- before initialize -----------------------------------------------------------------------------


async def test_before_initialize_requests_are_refused_and_the_connection_stays_usable(home):
    async with running(home) as daemon:
        refused = await daemon.refused("session/new", {"cwd": str(home.workspace)})
        assert refused.code == INVALID
        await daemon.notify("session/cancel", {"sessionId": "x"})
        await daemon.send_bytes(b"garbage\n")
        garbage = await daemon.frame(lambda frame: frame.get("id", 0) is None)
        assert garbage["error"]["code"] == PARSE
        assert (await daemon.initialize())["protocolVersion"] == 2
        assert (await daemon.request("session/list", {})) == {"sessions": []}


VERSIONS = {
    "zero": ({"protocolVersion": 0}, -32022),
    "minus one": ({"protocolVersion": -1}, PARAMS),
    "65536": ({"protocolVersion": 65536}, PARAMS),
    "1.5": ({"protocolVersion": 1.5}, PARAMS),
    "a string": ({"protocolVersion": "2"}, PARAMS),
    "null": ({"protocolVersion": None}, PARAMS),
    "true": ({"protocolVersion": True}, PARAMS),
    "a date": ({"protocolVersion": "2025-11-25"}, PARAMS),
    "missing": ({}, PARAMS),
    "no params": (None, PARAMS),
}
LENIENT = {
    "no info": {"protocolVersion": 2},
    "null everywhere": {"protocolVersion": 2, "info": None, "capabilities": None},
    "as in v1": {"protocolVersion": 2, "clientInfo": {"name": "x"}, "clientCapabilities": {"fs": {}}},
    "unknown members": {"protocolVersion": 3, "info": {"name": "x", "version": "1", "hue": 3}, "more": [1]},
}


async def test_no_bad_version_ends_the_connection_and_a_second_initialize_is_served_until_it_is_used(home):
    async with running(home) as daemon:
        for name, (params, code) in VERSIONS.items():
            refused = await daemon.refused("initialize", params)
            assert refused.code == code, name
            if code == -32022:
                assert refused.data["requested"] == 0
                assert 2 in refused.data["supported"]
            else:
                assert "protocolVersion" in refused.message, name
        for name, params in LENIENT.items():
            assert (await daemon.request("initialize", params))["protocolVersion"] == 2, name
        await daemon.request("session/list")
        assert (await daemon.refused("initialize", {"protocolVersion": 2})).code == INVALID


# -- batches ---------------------------------------------------------------------------------------


async def test_lifecycle_requests_are_refused_inside_a_batch_and_their_neighbours_served(home):
    async with running(home) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
        refused = {
            "initialize": {"protocolVersion": 2},
            "session/new": {"cwd": str(home.workspace)},
            "session/resume": {"sessionId": session, "cwd": str(home.workspace)},
            "session/prompt": prompt,
            "session/close": {"sessionId": session},
        }
        frames = [
            {"jsonrpc": "2.0", "id": f"b {method}", "method": method, "params": params}
            for method, params in refused.items()
        ]
        start = len(daemon.frames)
        await daemon.send([*frames, {"jsonrpc": "2.0", "id": "b list", "method": "session/list"}])
        answer = await daemon.frame(lambda frame: "batch" in frame, start)
        by_id = {entry["id"]: entry for entry in answer["batch"]}
        assert len(by_id) == len(answer["batch"]) == 6
        assert len(by_id["b list"]["result"]["sessions"]) == 1
        for method in refused:
            assert by_id[f"b {method}"]["error"]["code"] == INVALID, method
        assert daemon.updates(session) == []


# -- long lines ------------------------------------------------------------------------------------


def resident_bytes(daemon: Daemon) -> int:
    """The most memory that the daemon ever held."""
    status = Path(f"/proc/{daemon.process.pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM:"))) * 1024


async def test_a_line_over_the_limit_is_refused_by_its_id_while_a_turn_goes_on(home):
    async with running(home) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        other = await daemon.new_session(home.workspace)
        turn = await daemon.begin(session, "wait")
        block = {"type": "text", "text": "a" * (33 * MIB)}
        params = {"sessionId": other, "prompt": [block]}
        line = json.dumps({"jsonrpc": "2.0", "id": "big", "method": "session/prompt", "params": params})
        start = len(daemon.frames)
        await daemon.send_line(line)
        answer = await daemon.frame(lambda frame: "error" in frame, start)
        assert (answer["id"], answer["error"]["code"]) == ("big", INVALID)
        assert await (await daemon.prompt(other, "hi")).ended() == "end_turn"
        assert not [u for u in turn.updates if u.get("state") == "idle"]
        await daemon.cancel(session)
        assert await turn.ended() == "cancelled"


async def test_an_endless_line_costs_no_memory_and_the_next_line_is_served(home):
    async with running(home) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        turn = await daemon.begin(session, "wait")
        before = resident_bytes(daemon)
        await daemon.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"p":"')
        for _ in range(160):
            await daemon.send_bytes(b"a" * MIB)
        assert resident_bytes(daemon) - before < MAX_LINE_BYTES + 64 * MIB
        assert not [u for u in turn.updates if u.get("state") == "idle"]
        start = len(daemon.frames)
        await daemon.send_bytes(b"\n")
        answer = await daemon.frame(lambda frame: "error" in frame, start)
        assert answer == {"jsonrpc": "2.0", "id": None, "error": answer["error"]}
        assert answer["error"]["code"] == INVALID
        await daemon.request("session/list", {})
        await daemon.cancel(session)
        assert await turn.ended() == "cancelled"


async def test_a_line_that_trickles_in_is_served(home):
    async with running(home) as daemon:
        call = daemon.prepare("initialize")
        line = json.dumps(daemon.request_frame(call, {"protocolVersion": 2})).encode()
        assert daemon.gate is not None
        daemon.gate.sent(line)
        for byte in line:
            await daemon.send_bytes(bytes([byte]))
        await daemon.send_bytes(b"\r\n")
        assert (await call.result())["protocolVersion"] == 2


def user_text(turn: Turn) -> str:
    text = ""
    for update in turn.updates:
        if update["sessionUpdate"] == "user_message":
            text += "".join(block["text"] for block in update["content"])
        elif update["sessionUpdate"] == "user_message_chunk":
            text += update["content"]["text"]
    return text


async def test_long_prompts_are_taken_and_echoed_without_the_loss_of_a_character(home):
    async with running(home) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        for size in (70 * 1024, MIB, 9 * MIB):
            text = "hi " + "\u00e9\U0001f600\u2028x" * (size // 9)
            turn = await daemon.prompt(session, text)
            assert user_text(turn) == text
    # The gate has held every frame to 8 MiB.


# -- order and load --------------------------------------------------------------------------------


async def test_a_prompt_and_its_cancel_in_one_write_end_cancelled(home):
    async with running(home) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        for _ in range(20):
            call = daemon.prepare("session/prompt")
            block = {"type": "text", "text": "hi"}
            frame = daemon.request_frame(call, {"sessionId": session, "prompt": [block]})
            cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}}
            start = len(daemon.frames)
            await daemon.send_line(json.dumps(frame) + "\n" + json.dumps(cancel))
            if daemon.gate is not None and daemon.order is not None:
                daemon.gate.sent(json.dumps(frame))
                daemon.order.sent(json.dumps(frame))
            turn = Turn(daemon, session, (await call.result())["messageId"], start)
            assert await turn.ended() == "cancelled"
            assert turn.text == ""


async def test_a_second_prompt_is_busy_and_other_sessions_are_not(home):
    async with running(home) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        other = await daemon.new_session(home.workspace)
        turn = await daemon.begin(session, "wait")
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "hi"}]}
        refused = [await daemon.refused("session/prompt", prompt) for _ in range(3)]
        assert {(r.code, r.data["reason"]) for r in refused} == {(-32000, "busy")}
        assert await (await daemon.prompt(other, "hi")).ended() == "end_turn"
        await daemon.cancel(session)
        assert await turn.ended() == "cancelled"
        # A late cancel is for no turn, and the next one runs to its end.
        await daemon.cancel(session)
        assert await (await daemon.prompt(session, "hi")).ended() == "end_turn"


async def test_twenty_sessions_made_at_once_are_each_answered_before_they_are_spoken_of(home):
    async with running(home) as daemon:
        await daemon.initialize()
        cwd = str(home.workspace)
        calls = [await daemon.call("session/new", {"cwd": cwd}) for _ in range(20)]
        sessions = [(await call.result())["sessionId"] for call in calls]
        assert len(set(sessions)) == 20
        turns = [await daemon.begin(session, "hi") for session in sessions]
        assert {await turn.ended() for turn in turns} == {"end_turn"}
        assert len({turn.text for turn in turns}) == 1


async def test_cancelling_a_running_request_ends_its_turn_and_answers_it_once(home):
    async with running(home) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        start = len(daemon.frames)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "wait"}]}
        frame = {"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": prompt}
        cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "p"}}
        call = daemon.prepare("session/prompt", "p")
        if daemon.gate is not None and daemon.order is not None:
            daemon.gate.sent(json.dumps(frame))
            daemon.order.sent(json.dumps(frame))
        await daemon.send_bytes((json.dumps(frame) + "\n" + json.dumps(cancel) + "\n").encode())
        turn = Turn(daemon, session, (await call.result())["messageId"], start)
        assert await turn.ended() == "cancelled"


async def test_twenty_thousand_requests_in_one_piece_are_answered_in_order_and_cost_no_memory(home):
    async with running(home) as daemon:
        await daemon.initialize()
        before = resident_bytes(daemon)
        ids = range(10_000, 30_000)
        for request_id in ids if daemon.gate is not None else ():
            daemon.gate.opened(request_id, "x")
        await daemon.send_bytes(b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"x"}\n' % i for i in ids))
        await daemon.request("session/list", {}, "last")
        answered = [frame["id"] for frame in daemon.frames if frame.get("error", {}).get("code") == UNKNOWN]
        assert answered == list(ids)
        assert resident_bytes(daemon) - before < 64 * MIB
