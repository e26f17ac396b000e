"""What the full profile of v2 has besides the baseline, as its client meets it at the real door: options that
are told and set, commands that are told and answered here, and sessions that are deleted for good.

Under the autojump clock with memory streams and a scripted model. Which of it is there under which profile is
tests/e2e/test_matrix_v2.py.
"""

import pytest
import trio
import trio.testing

from term2_acp.session.commands import COMMANDS
from term2_acp.session.options import Options
from tests.kit.indoors import indoors
from tests.kit.wire import Refused

SCRIPT = """
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [{ call = "probe", arguments = { name = "a", asks = true } }]
[[rules.replies]]
steps = [{ text = "Done." }]
[[rules]]
[[rules.replies]]
steps = [{ text = "Hello." }]
"""


def daemon(tmp_path, **more):
    return indoors(tmp_path, SCRIPT, profile="full", **more)


def names(frames):
    """The frames as a person names them: what was answered, and which update came."""
    return [
        frame["params"]["update"]["sessionUpdate"]
        if "params" in frame
        else "error"
        if "error" in frame
        else "answer"
        for frame in frames
    ]


def setting(session_id, value, config_id="mode", kind="id"):
    return {"sessionId": session_id, "configId": config_id, "type": kind, "value": value}


def current(options):
    return {option["configId"]: option["currentValue"] for option in options}


# -- options -------------------------------------------------------------------------------------------


async def test_a_new_session_is_answered_with_its_options_and_its_commands_follow(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        editor = there.editor
        await editor.initialize()
        start = len(editor.frames)
        result = await editor.request("session/new", {"cwd": str(there.workspace)})
        session_id = result["sessionId"]
        (mode,) = result["configOptions"]
        assert (mode["configId"], mode["category"], mode["type"]) == ("mode", "mode", "select")
        assert mode["currentValue"] == "standard"
        assert [choice["value"] for choice in mode["options"]] == ["standard", "ask", "plan"]
        assert "availableCommands" not in result
        update = await editor.update(session_id, lambda update: True, start)
        assert names(editor.frames[start:]) == ["answer", "available_commands_update"]
        assert update["availableCommands"] == [
            {"type": "command", "name": command.name, "description": command.description}
            | ({"input": {"type": "text", "hint": command.hint}} if command.hint else {})
            for command in COMMANDS
        ]


async def test_an_option_that_is_set_is_told_whole_and_then_answered(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        editor = there.editor
        await editor.initialize()
        session_id = await editor.new_session(there.workspace)
        start = len(editor.frames)
        result = await editor.request("session/set_config_option", setting(session_id, "ask"))
        assert current(result["configOptions"]) == {"mode": "ask"}
        told = [name for name in names(editor.frames[start:]) if name != "available_commands_update"]
        assert told == ["config_option_update", "answer"]
        (update,) = [
            u for u in editor.updates(session_id, start) if u["sessionUpdate"] == "config_option_update"
        ]
        assert update["configOptions"] == result["configOptions"]


async def test_what_cannot_be_set_is_refused_with_what_can_and_changes_nothing(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        editor = there.editor
        await editor.initialize()
        session_id = await editor.new_session(there.workspace)
        cases = [
            (setting(session_id, "yolo"), "$.value", ["standard", "ask", "plan"]),
            (setting(session_id, "ask", "mood"), "$.configId", ["mode"]),
            (setting(session_id, True, kind="boolean"), "$.type", ['"id"']),
            (setting(session_id, True), "$.value", ["str"]),
        ]
        for params, path, valid in cases:
            refused = await editor.refused("session/set_config_option", params)
            assert refused.code == -32602
            assert refused.message.startswith(f"Invalid params: {path}: ")
            assert all(word in refused.message for word in valid)
        assert not [u for u in editor.updates(session_id) if u["sessionUpdate"] == "config_option_update"]
        result = await editor.request("session/set_config_option", setting(session_id, "plan"))
        assert current(result["configOptions"]) == {"mode": "plan"}


async def test_an_option_of_no_session_is_not_found_and_of_one_that_is_being_opened_busy(
    tmp_path, autojump_clock
):
    async with daemon(tmp_path) as there:
        editor = there.editor
        await editor.initialize()
        refused = await editor.refused("session/set_config_option", setting("sess_0", "ask"))
        assert (refused.code, refused.data) == (-32002, {"sessionId": "sess_0"})
        session_id = await editor.new_session(there.workspace)
        for closed in (False, True):
            if closed:
                await editor.request("session/close", {"sessionId": session_id})
            resume, setter = editor.prepare("session/resume"), editor.prepare("session/set_config_option")
            opening = editor.request_frame(resume, {"sessionId": session_id, "cwd": str(there.workspace)})
            await editor.send_together(opening, editor.request_frame(setter, setting(session_id, "ask")))
            await resume.result()
            error = setter.answer["error"]
            assert (error["code"], error["data"]) == (-32000, {"reason": "busy"})


async def test_a_mode_that_is_set_in_a_turn_is_in_force_for_what_is_asked_next(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        editor = there.editor
        session_id, turn = await there.begin("go")
        ask = await editor.next_ask()
        result = await editor.request("session/set_config_option", setting(session_id, "ask"))
        assert current(result["configOptions"]) == {"mode": "ask"}
        await editor.choose(ask, "approve")
        assert await turn.ended() == "cancelled"  # it was asked in another mode
        assert there.probe.ran == []


async def test_options_hold_when_the_session_is_opened_again_and_its_state_comes_last(
    tmp_path, autojump_clock
):
    async with daemon(tmp_path) as there:
        editor = there.editor
        await editor.initialize()
        session_id = await editor.new_session(there.workspace)
        await editor.request("session/set_config_option", setting(session_id, "ask"))
        await editor.prompt(session_id, "hi")
        for closed in (False, True):
            if closed:
                await editor.request("session/close", {"sessionId": session_id})
            for replay in (None, {"type": "start"}):
                start = len(editor.frames)
                params = {"sessionId": session_id, "cwd": str(there.workspace), "replayFrom": replay}
                result = await editor.request("session/resume", params)
                assert result.keys() == {"configOptions"}
                assert current(result["configOptions"]) == {"mode": "ask"}
                told = names(editor.frames[start:])
                assert told[-3:] == ["available_commands_update", "state_update", "answer"]
                assert told.count("available_commands_update") == 1
                assert ("user_message" in told) is (replay is not None)


async def test_a_new_session_whose_request_is_cancelled_is_not_left_open(
    tmp_path, autojump_clock, monkeypatch
):
    reached = trio.Event()

    async def shown(self):
        reached.set()
        await trio.sleep_forever()

    async with daemon(tmp_path) as there:
        editor = there.editor
        await editor.initialize()
        with monkeypatch.context() as patch:
            patch.setattr(Options, "shown", shown)
            call = await editor.call("session/new", {"cwd": str(there.workspace)})
            await reached.wait()
            (session,) = there.core.registry._live.values()
            await editor.notify("$/cancel_request", {"requestId": call.request_id})
            await session.ended.wait()
        await editor.frame(lambda frame: frame.get("id") == call.request_id)
        assert call.answer["error"]["code"] == -32800
        assert editor.updates(session.session_id) == []


@pytest.mark.parametrize("was_open", [False, True])
async def test_a_resume_that_is_cancelled_leaves_a_session_as_it_was(
    tmp_path, autojump_clock, monkeypatch, was_open
):
    reached = trio.Event()

    async def shown(self):
        reached.set()
        await trio.sleep_forever()

    async with daemon(tmp_path) as there:
        editor = there.editor
        await editor.initialize()
        session = await editor.new_session(there.workspace)
        if not was_open:
            await editor.request("session/close", {"sessionId": session})
        with monkeypatch.context() as patch:
            patch.setattr(Options, "shown", shown)
            params = {"sessionId": session, "cwd": str(there.workspace)}
            call = await editor.call("session/resume", params)
            await reached.wait()
            await editor.notify("$/cancel_request", {"requestId": call.request_id})
            with pytest.raises(Refused, match="-32800"):
                await call.result()
        await trio.testing.wait_all_tasks_blocked()
        assert (there.core.registry.find(session) is not None) == was_open
        if was_open:
            assert await (await editor.begin(session, "hi")).ended() == "end_turn"


# -- commands ------------------------------------------------------------------------------------------


async def test_a_command_is_a_turn_like_any_other_without_the_model(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        session_id, turn = await there.begin("/help")
        assert await turn.ended() == "end_turn"
        assert "Hello." not in turn.text
        assert all(f"/{command.name}" in turn.text for command in COMMANDS)
        assert turn.of("user_message")[0]["content"] == [{"type": "text", "text": "/help"}]
        assert (await there.editor.prompt(session_id, "/Help")).text == "Hello."


async def test_a_compaction_is_shown_and_its_summary_with_its_end(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        session_id, turn = await there.begin("hi")
        await turn.ended()
        turn = await there.editor.prompt(session_id, "/compact")
        began, ended = turn.of("compaction_update")
        assert began == {
            "sessionUpdate": "compaction_update",
            "compactionId": ended["compactionId"],
            "status": "in_progress",
        }
        assert (ended["status"], ended["summary"]) == ("completed", [{"type": "text", "text": "Hello."}])


# -- deletion ------------------------------------------------------------------------------------------


async def listed(editor):
    return [session["sessionId"] for session in (await editor.request("session/list"))["sessions"]]


async def test_a_session_that_is_deleted_is_gone_for_good(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        editor = there.editor
        await editor.initialize()
        kept, gone = [await editor.new_session(there.workspace) for _ in range(2)]
        await editor.prompt(gone, "hi")
        assert await editor.request("session/delete", {"sessionId": gone}) == {}
        assert await listed(editor) == [kept]
        params = {"sessionId": gone, "cwd": str(there.workspace)}
        assert (await editor.refused("session/resume", params)).code == -32002
        prompt = {"sessionId": gone, "prompt": [{"type": "text", "text": "hi"}]}
        assert (await editor.refused("session/prompt", prompt)).code == -32002
        assert await editor.request("session/delete", {"sessionId": gone}) == {}
        assert await editor.request("session/delete", {"sessionId": "sess_0"}) == {}
        assert await listed(editor) == [kept]


async def test_a_session_is_deleted_before_anything_else_was_asked_of_the_store(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        await there.editor.initialize()
        session_id = await there.editor.new_session(there.workspace)
    async with daemon(tmp_path) as there:
        await there.editor.initialize()
        assert await there.editor.request("session/delete", {"sessionId": session_id}) == {}
        assert await listed(there.editor) == []


async def test_the_turn_of_a_session_that_is_deleted_ends_cancelled_first_and_the_answer_comes_last(
    tmp_path, autojump_clock
):
    async with daemon(tmp_path) as there:
        editor = there.editor
        session_id, turn = await there.begin("go")
        ask = await editor.next_ask()
        start = len(editor.frames)
        deletion = await editor.call("session/delete", {"sessionId": session_id})
        # It is not undone, and answered all the same.
        await editor.notify("$/cancel_request", {"requestId": deletion.request_id})
        assert await deletion.result() == {}
        assert await turn.ended() == "cancelled"
        withdrawn = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": ask["id"]}}
        assert withdrawn in editor.frames[start:]
        assert editor.frames[-1] == {"jsonrpc": "2.0", "id": deletion.request_id, "result": {}}
        assert there.probe.ran == []
        assert await listed(editor) == []


async def test_a_session_that_is_open_in_another_process_is_not_deleted(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there, daemon(tmp_path) as other:
        await there.editor.initialize()
        await other.editor.initialize()
        session_id = await there.editor.new_session(there.workspace)
        refused = await other.editor.refused("session/delete", {"sessionId": session_id})
        assert refused.code == 409
        assert refused.data["sessionId"] == session_id
        assert await listed(other.editor) == [session_id]
        await there.editor.request("session/close", {"sessionId": session_id})
        assert await other.editor.request("session/delete", {"sessionId": session_id}) == {}
        assert await listed(there.editor) == []
