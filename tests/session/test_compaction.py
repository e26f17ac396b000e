"""A session that was compacted: what its model is told from there on, live and when it is opened again, what
its person is shown, which files count as read, and what a journal that fails or a crash makes of it."""

import trio

from term2_acp.agent.transcript import SUMMARY
from term2_acp.domain import events as ev
from term2_acp.domain.events import CompactionStatus
from term2_acp.domain.ids import CompactionId, SessionId
from term2_acp.domain.turn import StopReason
from term2_acp.providers.base import (
    AssistantSaid,
    Finish,
    Finished,
    ModelInfo,
    TextDelta,
    ToolCallDelta,
    UserSaid,
)
from term2_acp.session.outbox import Outbox
from term2_acp.session.pump import Pump
from term2_acp.store import StoreFailed
from term2_acp.store.errors import FULL
from tests.kit.fold import fold
from tests.kit.indoors import indoors
from tests.kit.model import HANG, OK, Model, Waits
from tests.session.test_store_fails import Disk

BUSY = "The server is busy."
SUMMED = [TextDelta("The person "), TextDelta("said hi."), OK]


def compactions(turn):
    return [(update["status"], update.get("error")) for update in turn.of("compaction_update")]


async def replayed(there, session_id):
    params = {"sessionId": session_id, "cwd": str(there.workspace), "replayFrom": {"type": "start"}}
    start = len(there.editor.frames)
    await there.editor.request("session/resume", params)
    return fold(there.editor.updates(session_id, start))


async def test_from_there_on_the_model_is_told_the_summary_and_the_person_sees_all(tmp_path, autojump_clock):
    model = Model([TextDelta("Hello."), OK], SUMMED, info=ModelInfo())
    async with indoors(tmp_path, provider=model, profile="full") as there:
        session_id, turn = await there.begin("hi")
        await turn.ended()
        turn = await there.editor.prompt(session_id, "/compact be short")
        assert compactions(turn) == [("in_progress", None), ("completed", None)]
        assert turn.of("agent_message_chunk") == [], "the summary is no message"
        await there.editor.prompt(session_id, "and?")
        live = fold(there.editor.updates(session_id))
        assert await replayed(there, session_id) == live
    history = [UserSaid(f"{SUMMARY}The person said hi."), UserSaid("and?")]
    assert model.asked[1].messages[-1].text.endswith("The person asks of this summary: be short")
    assert list(model.asked[2].messages) == history
    again = Model(info=ModelInfo())
    async with indoors(tmp_path, provider=again, profile="full") as there:
        await there.editor.initialize()
        assert await replayed(there, session_id) == live
        await there.editor.prompt(session_id, "still?")
    assert list(again.asked[0].messages) == [*history, AssistantSaid("ok"), UserSaid("still?")]
    said = [thing["is"] for thing in live["things"]]
    assert said.count("user_message") == 3
    assert said.count("compaction") == 1


async def test_a_cancel_of_it_is_shown_before_the_idle(tmp_path, autojump_clock):
    model = Model([TextDelta("Hello."), OK], [TextDelta("The per"), HANG], info=ModelInfo())
    async with indoors(tmp_path, provider=model, profile="full") as there:
        session_id, turn = await there.begin("hi")
        await turn.ended()
        turn = await there.editor.begin(session_id, "/compact")
        await turn.seen("compaction_update")
        await trio.testing.wait_all_tasks_blocked()
        await there.editor.cancel(session_id)
        assert await turn.ended() == "cancelled"
        assert compactions(turn) == [("in_progress", None), ("cancelled", None)]
        await there.editor.prompt(session_id, "and?")
        live = fold(there.editor.updates(session_id))
        assert await replayed(there, session_id) == live
    assert list(model.asked[2].messages) == [UserSaid("hi"), AssistantSaid("Hello."), UserSaid("and?")]


async def test_a_summary_that_cannot_be_kept_has_failed(tmp_path, autojump_clock):
    disk = Disk()
    long = "x" * 60_000
    model = Model(
        [TextDelta("Hello."), OK],
        [Waits(BUSY), TextDelta(long), OK],
        [TextDelta("Fine."), OK],
        info=ModelInfo(),
    )
    async with indoors(tmp_path, provider=model, profile="full", connect=disk.connect) as there:
        session_id, turn = await there.begin("hi")
        await turn.ended()
        turn = await there.editor.begin(session_id, "/compact")
        await turn.seen("agent_message")  # it waits
        disk.fill()
        assert await turn.ended() == "_term2_error"
        error = turn.updates[-1]["_meta"]["term2"]["error"]
        assert error["code"] == "store_full"
        assert compactions(turn) == [("in_progress", None), ("failed", error["message"])]
        assert long not in str(turn.updates)
        assert "is compacted" not in str(turn.updates)
        disk.free()
        assert (await there.editor.prompt(session_id, "and?")).text == "Fine."
    told = [message.text for message in model.asked[2].messages]
    assert told == ["hi", "Hello.", "and?"], "the history is as it was"
    again = Model(info=ModelInfo())
    async with indoors(tmp_path, provider=again, profile="full") as there:
        await there.editor.initialize()
        await replayed(there, session_id)
        await there.editor.prompt(session_id, "still?")
    assert [message.text for message in again.asked[0].messages] == [
        "hi",
        "Hello.",
        "and?",
        "Fine.",
        "still?",
    ]


class Full:
    """A store whose disk is full."""

    async def append(self, session_id, events):
        raise StoreFailed.because(FULL)


class Screen:
    """A client, as the pump knows it: what it is shown."""

    behind = False

    def __init__(self):
        self.shown = []

    def show(self, session_id, events):
        self.shown += events


async def test_a_compaction_that_nobody_was_shown_is_not_said_to_have_failed():
    screen, outbox = Screen(), Outbox()
    began = ev.CompactionUpdate(CompactionId("k"), CompactionStatus.IN_PROGRESS)
    ended = ev.CompactionUpdate(CompactionId("k"), CompactionStatus.COMPLETED, "s")
    outbox.put_nowait([began, ended, ev.Idle(StopReason.END_TURN)])
    outbox.close_nowait()
    await Pump(SessionId("sess_1"), outbox, Full(), screen).run()
    assert [type(event) for event in screen.shown] == [ev.AgentMessage, ev.Idle]


async def test_a_crash_in_the_midst_of_it_is_a_failure_in_the_replay(tmp_path, autojump_clock):
    model = Model([TextDelta("Hello."), OK], [HANG], info=ModelInfo())
    async with indoors(tmp_path, provider=model, profile="full") as there:
        session_id, turn = await there.begin("hi")
        await turn.ended()
        turn = await there.editor.begin(session_id, "/compact")
        await turn.seen("compaction_update")
        store = there.core._parts.store
        copy = tmp_path / "crashed"
        copy.mkdir()
        (copy / "workspace").symlink_to(there.workspace)
        await store._runner.run(lambda: _copy(tmp_path / "state", copy / "state"))
        await there.editor.cancel(session_id)
        await turn.ended()
    again = Model(info=ModelInfo())
    async with indoors(copy, provider=again, profile="full") as there:
        await there.editor.initialize()
        things = (await replayed(there, session_id))["things"]
        (compaction,) = [thing for thing in things if thing["is"] == "compaction"]
        assert compaction["status"] == "failed"
        assert "term2 stopped" in compaction["error"]
        await there.editor.prompt(session_id, "and?")
    assert [message.text for message in again.asked[0].messages] == ["hi", "Hello.", "and?"]


def _copy(state, to):
    """What a process leaves that is killed now."""
    to.mkdir()
    for path in state.iterdir():
        if path.is_file():
            (to / path.name).write_bytes(path.read_bytes())


def uses(tool, arguments):
    return [ToolCallDelta("1", tool, arguments), Finished(Finish.TOOL_CALLS)]


async def test_a_file_is_to_be_read_again_before_it_is_changed(tmp_path):
    edit = '{"path": "a.txt", "replacements": [{"search_content": "old", "replace_content": "new"}]}'
    read = '{"path": "a.txt"}'
    replies = [
        [*uses("read_file", read)],
        [TextDelta("It says old."), OK],
        SUMMED,
        [*uses("search_replace", edit)],
        [*uses("read_file", read)],
        [*uses("search_replace", edit)],
    ]
    model = Model(*replies, info=ModelInfo())
    async with indoors(tmp_path, provider=model, profile="full") as there:
        file = there.workspace / "a.txt"
        file.write_text("old\n")
        session_id, turn = await there.begin("read")
        await turn.ended()
        await there.editor.prompt(session_id, "/compact")
        turn = await there.editor.prompt(session_id, "change")
        statuses = [call["status"] for call in turn.calls.values()]
        assert statuses == ["failed", "completed", "completed"]
        assert file.read_text() == "new\n"
    refusal = model.asked[4].messages[-1]
    assert refusal.failed
    assert "read" in refusal.result
