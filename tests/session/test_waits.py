"""A request that is tried again after some seconds: the person is told why nothing comes, in its place and
while it matters. No model and no later replay is told of it."""

import pytest

from term2_acp.providers.base import (
    AssistantSaid,
    Failed,
    Finish,
    Finished,
    ModelInfo,
    Overloaded,
    TextDelta,
    ThoughtDelta,
    ToolAnswered,
    ToolCallDelta,
    UserSaid,
)
from tests.kit.fold import fold
from tests.kit.indoors import indoors
from tests.kit.model import HANG, OK, Model, Waits

KEY = "sk-canary-0123456789"
BUSY = "The server is busy. (Asking again in 5 s.)"
CALL = ToolCallDelta("1", "probe", '{"name": "a"}')


def told(turn):
    """What was said in the turn, in order, by kind."""
    said = []
    for update in turn.updates:
        content = update.get("content")
        if update["sessionUpdate"] == "agent_message":
            said.append(("we", content[0]["text"]))
        elif update["sessionUpdate"].endswith("_chunk") and isinstance(content, dict) and "text" in content:
            said.append((update["sessionUpdate"], content["text"]))
        elif update.get("status") in ("pending", "completed"):
            said.append(("call", update["status"]))
    return said


async def test_a_wait_is_told_in_its_place_and_is_no_part_of_the_conversation(tmp_path, autojump_clock):
    model = Model(
        [ThoughtDelta("Hm."), TextDelta("I look."), CALL, Finished(Finish.TOOL_CALLS)],
        [Waits(f"The server refused {KEY}."), Waits(BUSY), TextDelta("Done."), OK],
        info=ModelInfo(),
    )
    async with indoors(tmp_path, provider=model, secrets=(KEY,)) as daemon:
        session_id, turn = await daemon.begin("go")
        assert await turn.ended() == "end_turn"
        assert told(turn) == [
            ("agent_thought_chunk", "Hm."),
            ("agent_message_chunk", "I look."),
            ("call", "pending"),
            ("call", "completed"),
            ("we", "The server refused [redacted]."),
            ("we", BUSY),
            ("agent_message_chunk", "Done."),
        ]
        ids = [update["messageId"] for update in turn.updates if "messageId" in update]
        assert len(set(ids)) == len(ids) == 6, "each wait is a message of its own"
        assert KEY.encode() not in daemon.wire.received
        await daemon.editor.prompt(session_id, "and?")
        live = fold(daemon.editor.updates(session_id))
    history = [
        UserSaid("go"),
        AssistantSaid("I look.", model.asked[1].messages[1].calls),
        ToolAnswered(model.asked[1].messages[2].call_id, "probe", "probed a"),
        AssistantSaid("Done."),
        UserSaid("and?"),
    ]
    assert list(model.asked[2].messages) == history
    again = Model(info=ModelInfo())
    async with indoors(tmp_path, provider=again) as daemon:
        editor = daemon.editor
        await editor.initialize()
        params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
        await editor.request("session/resume", params)
        # Waits are no part of what was said: they were shown (above), and are not shown again.
        replayed = editor.updates(session_id)
        assert not [update for update in replayed if BUSY in str(update)]
        assert fold(replayed) == live
        await editor.prompt(session_id, "still?")
    assert list(again.asked[0].messages) == [*history, AssistantSaid("ok"), UserSaid("still?")]
    for path in (tmp_path / "state").rglob("*"):
        if path.is_file():
            assert KEY.encode() not in path.read_bytes(), path


@pytest.mark.parametrize("end", ["cancelled", "_term2_error"])
async def test_a_turn_may_end_after_its_waits(tmp_path, autojump_clock, end):
    last = HANG if end == "cancelled" else Failed(Overloaded("It is still busy. Try again later."))
    model = Model([Waits(BUSY), last], [TextDelta("ok"), OK], info=ModelInfo())
    async with indoors(tmp_path, provider=model) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.seen("agent_message")
        if end == "cancelled":
            await daemon.editor.cancel(session_id)
        assert await turn.ended() == end
        failure = [("we", "It is still busy. Try again later.")] if end == "_term2_error" else []
        assert told(turn) == [("we", BUSY), *failure]
        await daemon.editor.prompt(session_id, "again")
    assert list(model.asked[1].messages) == [UserSaid("go"), UserSaid("again")]
