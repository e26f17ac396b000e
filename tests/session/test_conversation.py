"""A turn as its client sees it, through the real door and store: order, state, tool calls, asks, failures.

Under the autojump clock with memory streams; the tools that are used here have no threads.
"""

import pytest

from tests.kit.fold import fold
from tests.kit.indoors import indoors
from tests.kit.wire import Refused

HELLO = """
[[rules]]
[[rules.replies]]
steps = [{ thought = "hmm" }, { text = "Hello there.", chunk = 3 }, { usage = [12, 5] }]
"""


def probes(*calls: str, then: str = "Done.") -> str:
    """A script that at ``go`` makes the calls in one reply and speaks in the next."""
    steps = ", ".join(f'{{ call = "probe", arguments = {{ {call} }} }}' for call in calls)
    speaks = f'[[rules.replies]]\nsteps = [{{ text = "{then}" }}]\n'
    return f'[[rules]]\nmatch = "^go$"\n[[rules.replies]]\nsteps = [{steps}]\n{speaks}{HELLO}'


def kinds(turn) -> list[str]:
    return [update.get("state", update["sessionUpdate"]) for update in turn.updates]


async def test_a_turn_in_its_order(tmp_path, autojump_clock):
    async with indoors(tmp_path, HELLO) as daemon:
        session_id, turn = await daemon.begin("hi  there\n")
        assert await turn.ended() == "end_turn"
        assert kinds(turn) == [
            "running",
            "user_message",
            "session_info_update",
            "agent_thought_chunk",
            "agent_message_chunk",
            "usage_update",
            "idle",
        ]
        assert turn.of("user_message")[0]["messageId"] == turn.message_id
        assert turn.of("user_message")[0]["content"] == [{"type": "text", "text": "hi  there\n"}]
        assert turn.of("session_info_update")[0]["title"] == "hi there"
        assert turn.of("usage_update")[0]["used"] == 17
        assert turn.text == "Hello there."
        frames = daemon.editor.frames
        response = next(i for i, frame in enumerate(frames) if frame.get("result", {}).get("messageId"))
        shown = next(
            i
            for i, frame in enumerate(frames)
            if frame.get("params", {}).get("update", {}).get("sessionUpdate") == "user_message"
        )
        running = next(
            i
            for i, frame in enumerate(frames)
            if frame.get("params", {}).get("update", {}).get("state") == "running"
        )
        assert running < response < shown
        second = await daemon.editor.prompt(session_id, "again")
        assert "session_info_update" not in kinds(second), "the title comes from the first prompt"


async def test_a_call_is_shown_runs_and_ends_and_the_model_hears_of_it(tmp_path, autojump_clock):
    async with indoors(tmp_path, probes('name = "a"', 'name = "b", fails = true')) as daemon:
        _, turn = await daemon.begin("go")
        assert await turn.ended() == "end_turn"
        assert daemon.probe.ran == ["a"]
        first, second = turn.calls.values()
        assert first["status"] == "completed"
        assert first["rawOutput"] == {"probed": "a"}
        assert first["rawInput"] == {"name": "a"}
        assert second["status"] == "failed"
        assert second["content"] == [
            {"type": "content", "content": {"type": "text", "text": "the probe broke"}}
        ]
        statuses = [update["status"] for update in turn.of("tool_call_update") if "status" in update]
        assert statuses == ["pending", "pending", "in_progress", "completed", "in_progress", "failed"]
        assert turn.text == "Done."


async def test_an_ask_of_its_own_is_an_action_and_an_allow_runs_it(tmp_path, autojump_clock):
    async with indoors(tmp_path, probes('name = "a", asks = true')) as daemon:
        _, turn = await daemon.begin("go")
        ask = await daemon.editor.next_ask()
        assert daemon.probe.ran == []
        assert kinds(turn)[-1] == "requires_action"
        params = ask["params"]
        assert params["title"] == "Probe a"
        assert "Probes a." in params["description"]
        assert str(daemon.workspace) in params["description"]
        assert [option["optionId"] for option in params["options"]] == ["approve", "reject"]
        assert [option["kind"] for option in params["options"]] == ["allow_once", "reject_once"]
        (call_id,) = turn.calls
        assert params["subject"]["type"] == "tool_call"
        assert params["subject"]["toolCall"]["toolCallId"] == call_id
        assert params["subject"]["toolCall"]["status"] == "pending"
        await daemon.editor.choose(ask, "approve")
        assert await turn.ended() == "end_turn"
        assert daemon.probe.ran == ["a"]
        states = [update["state"] for update in turn.of("state_update")]
        assert states == ["running", "requires_action", "running", "idle"]


REFUSALS = {
    "reject": {"result": {"outcome": {"outcome": "selected", "optionId": "reject"}}},
    "an option that was not offered": {
        "result": {"outcome": {"outcome": "selected", "optionId": "allow-remember"}}
    },
    "an option id of the wrong type": {"result": {"outcome": {"outcome": "selected", "optionId": 1}}},
    "no option id": {"result": {"outcome": {"outcome": "selected"}}},
    "an unknown outcome": {"result": {"outcome": {"outcome": "_maybe"}}},
    "a missing outcome": {"result": {}},
    "a malformed outcome": {"result": {"outcome": "allow_once"}},
    "null": {"result": None},
    "an error": {"error": {"code": -32000, "message": "no"}},
    "no such method": {"error": {"code": -32601, "message": "Method not found"}},
}


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
async def test_whatever_is_not_an_allow_refuses_the_call_and_the_turn_goes_on(
    tmp_path, autojump_clock, answer
):
    async with indoors(tmp_path, probes('name = "a", asks = true', 'name = "b"')) as daemon:
        _, turn = await daemon.begin("go")
        ask = await daemon.editor.next_ask()
        await daemon.editor.send({"jsonrpc": "2.0", "id": ask["id"], **answer})
        assert await turn.ended() == "end_turn"
        assert daemon.probe.ran == ["b"]
        refused, other = turn.calls.values()
        assert refused["status"] == "failed"
        assert "refused" in refused["content"][0]["content"]["text"]
        assert other["status"] == "completed"


async def test_duplicate_members_in_an_answer_refuse_the_call(tmp_path, autojump_clock):
    async with indoors(tmp_path, probes('name = "a", asks = true')) as daemon:
        _, turn = await daemon.begin("go")
        ask = await daemon.editor.next_ask()
        outcome = '{"outcome":"selected","optionId":"reject","optionId":"approve"}'
        await daemon.editor.send_bytes(
            f'{{"jsonrpc":"2.0","id":{ask["id"]},"result":{{"outcome":{outcome}}}}}\n'.encode()
        )
        assert await turn.ended() == "end_turn"
        assert daemon.probe.ran == []


async def test_cancelled_refuses_the_call_and_the_rest_of_its_reply(tmp_path, autojump_clock):
    script = probes('name = "a", asks = true', 'name = "b"', 'name = "c"')
    async with indoors(tmp_path, script) as daemon:
        _, turn = await daemon.begin("go")
        await daemon.editor.reply(await daemon.editor.next_ask(), {"outcome": {"outcome": "cancelled"}})
        assert await turn.ended() == "end_turn"
        assert daemon.probe.ran == []
        assert [call["status"] for call in turn.calls.values()] == ["failed"] * 3


async def test_a_late_second_answer_is_nothing(tmp_path, autojump_clock):
    async with indoors(tmp_path, probes('name = "a", asks = true')) as daemon:
        session_id, turn = await daemon.begin("go")
        ask = await daemon.editor.next_ask()
        await daemon.editor.choose(ask, "reject")
        await daemon.editor.choose(ask, "approve")
        assert await turn.ended() == "end_turn"
        assert daemon.probe.ran == []
        await daemon.editor.prompt(session_id, "hi")


async def test_asks_side_by_side_each_get_their_own_answer(tmp_path, autojump_clock):
    calls = ", ".join(
        f'{{ call = "reading_probe", arguments = {{ name = "{n}", asks = true }} }}' for n in "abcd"
    )
    script = (
        f'[[rules]]\n[[rules.replies]]\nsteps = [{calls}]\n[[rules.replies]]\nsteps = [{{ text = "ok" }}]\n'
    )
    async with indoors(tmp_path, script) as daemon:
        _, turn = await daemon.begin("go")
        asks = [await daemon.editor.next_ask() for _ in range(4)]
        assert [ask["params"]["title"] for ask in asks] == ["Probe a", "Probe b", "Probe c", "Probe d"]
        assert [update["state"] for update in turn.of("state_update")] == ["running", "requires_action"]
        for ask, choice in zip(reversed(asks), ["approve", "reject", "approve", "reject"], strict=True):
            await daemon.editor.choose(ask, choice)
        assert await turn.ended() == "end_turn"
        assert sorted(daemon.reading.ran) == ["b", "d"]
        assert [call["status"] for call in turn.calls.values()] == [
            "failed",
            "completed",
            "failed",
            "completed",
        ]


async def test_a_cancel_while_an_ask_is_open_withdraws_it_and_runs_nothing(tmp_path, autojump_clock):
    async with indoors(tmp_path, probes('name = "a", asks = true')) as daemon:
        session_id, turn = await daemon.begin("go")
        ask = await daemon.editor.next_ask()
        await daemon.editor.cancel(session_id)
        assert await turn.ended() == "cancelled"
        assert [call["status"] for call in turn.calls.values()] == ["cancelled"]
        assert {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": ask["id"]}} in (
            daemon.editor.frames
        )
        await daemon.editor.choose(ask, "approve")
        after = await daemon.editor.prompt(session_id, "hi")
        assert after.updates[0]["state"] == "running"
        assert daemon.probe.ran == []


async def test_a_cancel_in_the_same_read_as_the_prompt_ends_it_without_a_model_call(tmp_path, autojump_clock):
    async with indoors(tmp_path, HELLO) as daemon:
        await daemon.editor.initialize()
        session_id = await daemon.editor.new_session(daemon.workspace)
        call = daemon.editor.prepare("session/prompt")
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": "hi"}]}
        start = len(daemon.editor.frames)
        await daemon.editor.send(daemon.editor.request_frame(call, params))
        await daemon.editor.cancel(session_id)
        assert (await call.result())["messageId"]
        update = await daemon.editor.update(session_id, lambda update: update.get("state") == "idle", start)
        assert update["stopReason"] == "cancelled"
        said = [u["sessionUpdate"] for u in daemon.editor.updates(session_id, start)]
        assert said == ["state_update", "user_message", "session_info_update", "state_update"]


async def test_a_second_prompt_is_busy_and_a_cancelled_session_takes_the_next(tmp_path, autojump_clock):
    script = '[[rules]]\nmatch = "^wait$"\n[[rules.replies]]\nsteps = [{ hang = true }]\n' + HELLO
    async with indoors(tmp_path, script) as daemon:
        session_id, turn = await daemon.begin("wait")
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": "hi"}]}
        refused = await daemon.editor.refused("session/prompt", params)
        assert (refused.code, refused.data) == (-32000, {"reason": "busy"})
        other = await daemon.editor.new_session(daemon.workspace)
        assert (await daemon.editor.prompt(other, "hi")).text == "Hello there."
        await daemon.editor.cancel(session_id)
        assert await turn.ended() == "cancelled"
        assert (await daemon.editor.prompt(session_id, "hi")).text == "Hello there."


async def test_a_close_cancels_settles_and_then_answers(tmp_path, autojump_clock):
    async with indoors(tmp_path, probes('name = "a", asks = true')) as daemon:
        session_id, turn = await daemon.begin("go")
        await daemon.editor.next_ask()
        assert await daemon.editor.request("session/close", {"sessionId": session_id}) == {}
        assert await turn.ended() == "cancelled"
        assert daemon.probe.ran == []
        refused = await daemon.editor.refused(
            "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": "x"}]}
        )
        assert (refused.code, refused.data) == (-32002, {"sessionId": session_id})
        assert await daemon.editor.request("session/close", {"sessionId": session_id}) == {}


async def test_a_failed_turn_tells_the_person_and_is_no_error_response(tmp_path, autojump_clock):
    script = '[[rules]]\n[[rules.replies]]\nsteps = [{ text = "I beg" }, { error = "overloaded" }]\n'
    async with indoors(tmp_path, script) as daemon:
        _, turn = await daemon.begin("hi")
        assert await turn.ended() == "_term2_error"
        idle = turn.updates[-1]
        error = idle["_meta"]["term2"]["error"]
        assert error["code"] == "provider_overloaded"
        (told,) = turn.of("agent_message")
        assert told["content"][0]["text"] == error["message"]
        assert turn.text.startswith("I beg")


async def test_the_same_call_again_and_again_is_warned_and_then_ends_the_turn(tmp_path, autojump_clock):
    reply = '[[rules.replies]]\nsteps = [{ call = "probe", arguments = { name = "a" } }]\n'
    async with indoors(tmp_path, "[[rules]]\n" + 9 * reply) as daemon:
        _, turn = await daemon.begin("go")
        assert await turn.ended() == "max_turn_requests"
        assert daemon.probe.ran == ["a", "a"]
        assert [call["status"] for call in turn.calls.values()] == ["completed"] * 2 + ["failed"] * 4


async def test_a_turn_may_call_the_model_so_often(tmp_path, autojump_clock):
    steps = "\n".join(
        f'[[rules.replies]]\nsteps = [{{ call = "probe", arguments = {{ name = "{n}" }} }}]' for n in range(9)
    )
    async with indoors(tmp_path, "[[rules]]\n" + steps, model_calls=3) as daemon:
        _, turn = await daemon.begin("go")
        assert await turn.ended() == "max_turn_requests"
        assert daemon.probe.ran == ["0", "1", "2"]


BAD_CALLS = {
    "no JSON": '{ call = "probe", raw = "{\\"name\\":" }',
    "an array": '{ call = "probe", raw = "[]" }',
    "a wrong type": '{ call = "probe", raw = "{\\"name\\":5}" }',
    "an unknown member": '{ call = "probe", raw = "{\\"name\\":\\"a\\",\\"x\\":1}" }',
    "an unknown tool": '{ call = "rm -rf", arguments = {} }',
}


@pytest.mark.parametrize("call", BAD_CALLS.values(), ids=BAD_CALLS)
async def test_a_call_that_does_not_fit_is_an_error_for_the_model_alone(tmp_path, autojump_clock, call):
    script = (
        f"[[rules]]\n[[rules.replies]]\nsteps = [{call}, "
        '{ call = "probe", arguments = { name = "b" } }]\n'
        '[[rules.replies]]\nsteps = [{ text = "ok" }]\n'
    )
    async with indoors(tmp_path, script) as daemon:
        _, turn = await daemon.begin("go")
        assert await turn.ended() == "end_turn"
        assert [call["status"] for call in turn.calls.values()] == ["failed", "completed"]
        assert daemon.probe.ran == ["b"]


async def test_a_key_that_we_were_given_is_never_said(tmp_path, autojump_clock):
    secret = "sk-canary-0123456789"
    script = (
        '[[rules]]\n[[rules.replies]]\nsteps = [{ text = "It is sk-canary-0123456789.", chunk = 4 }, '
        '{ call = "probe", arguments = { name = "sk-canary-0123456789", asks = true } }]\n'
        '[[rules.replies]]\nsteps = [{ text = "ok" }]\n'
    )
    async with indoors(tmp_path, script, secrets=(secret,)) as daemon:
        _, turn = await daemon.begin(f"my key is {secret}")
        await daemon.editor.choose(await daemon.editor.next_ask(), "approve")
        assert await turn.ended() == "end_turn"
        assert turn.text.startswith("It is [redacted].")
        assert secret.encode() not in daemon.wire.received
    for path in (tmp_path / "state").rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), path


async def test_a_resume_in_another_process_shows_what_was_seen(tmp_path, autojump_clock):
    async with indoors(tmp_path, probes('name = "a", asks = true', 'name = "b", fails = true')) as daemon:
        session_id, turn = await daemon.begin("go")
        await daemon.editor.choose(await daemon.editor.next_ask(), "approve")
        await turn.ended()
        live = fold(daemon.editor.updates(session_id))
    async with indoors(tmp_path, HELLO) as daemon:
        editor = daemon.editor
        await editor.initialize()
        (entry,) = (await editor.request("session/list"))["sessions"]
        assert (entry["sessionId"], entry["title"]) == (session_id, "go")
        params = {"sessionId": session_id, "cwd": str(daemon.workspace)}
        start = len(editor.frames)
        assert await editor.request("session/resume", {**params, "replayFrom": {"type": "start"}}) == {}
        replayed = editor.updates(session_id, start)
        assert replayed[-1] == {"sessionUpdate": "state_update", "state": "idle"}
        assert not [u for u in replayed if u["sessionUpdate"].endswith("message_chunk")]
        assert fold(replayed) == live
        start = len(editor.frames)
        assert await editor.request("session/resume", params) == {}
        assert editor.updates(session_id, start) == [{"sessionUpdate": "state_update", "state": "idle"}]
        assert (await editor.prompt(session_id, "hi")).text == "Hello there."


async def test_a_resume_is_refused_where_it_must_be(tmp_path, autojump_clock):
    script = '[[rules]]\nmatch = "^wait$"\n[[rules.replies]]\nsteps = [{ hang = true }]\n' + HELLO
    async with indoors(tmp_path, script) as daemon:
        session_id, turn = await daemon.begin("wait")
        params = {"sessionId": session_id, "cwd": str(daemon.workspace)}
        busy = await daemon.editor.refused("session/resume", params)
        assert (busy.code, busy.data) == (-32000, {"reason": "busy"})
        await daemon.editor.cancel(session_id)
        await turn.ended()
        other = await daemon.editor.refused("session/resume", {**params, "cwd": str(tmp_path)})
        assert other.code == -32602
        assert "$.cwd" in other.message
        unknown = await daemon.editor.refused("session/resume", {**params, "sessionId": "../../etc"})
        assert (unknown.code, unknown.data) == (-32002, {"sessionId": "../../etc"})
        with pytest.raises(Refused):
            await daemon.editor.request("session/resume", {**params, "replayFrom": {"type": "middle"}})


async def test_a_prompt_while_a_session_is_being_opened_is_busy(tmp_path, autojump_clock):
    async with indoors(tmp_path, HELLO) as daemon:
        session_id, turn = await daemon.begin("hi")
        await turn.ended()
        resume = await daemon.editor.call(
            "session/resume",
            {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}},
        )
        prompt = await daemon.editor.call(
            "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": "x"}]}
        )
        with pytest.raises(Refused, match="-32000"):
            await prompt.result()
        assert await resume.result() == {}
        assert (await daemon.editor.prompt(session_id, "hi")).text == "Hello there."


async def test_a_client_that_goes_away_while_it_is_asked_runs_nothing(tmp_path, autojump_clock):
    async with indoors(tmp_path, probes('name = "a", asks = true')) as daemon:
        await daemon.begin("go")
        await daemon.editor.next_ask()
        daemon.wire.break_()
    assert daemon.probe.ran == []
