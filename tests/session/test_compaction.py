"""A session that was compacted, by its person or by a turn itself: what its model is told from there on, live
and when it is opened again, what its person is shown, which files count as read, and what a cancel, a journal
that fails or a crash makes of it."""

import pytest
import trio

from term2_acp.agent.told import KEPT, KEPT_AFTER_WORDS, SUMMARY
from term2_acp.domain import events as ev
from term2_acp.domain.events import CompactionStatus
from term2_acp.domain.ids import CompactionId, SessionId
from term2_acp.domain.turn import StopReason
from term2_acp.providers.base import (
    AssistantSaid,
    ContextOverflow,
    Failed,
    Finish,
    Finished,
    ModelInfo,
    TextDelta,
    ToolAnswered,
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
    long = "long " * 2_899 + "long"
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


# -- by a turn itself --------------------------------------------------------------------------------------

WINDOW = ModelInfo(16_000)
TOO_LONG = [Failed(ContextOverflow("The server finds it too long."))]


def probes(name):
    return uses("reading_probe", f'{{"name": "{name}"}}')


# One round takes some 8,000 tokens and the next 3,000. With the tools that is more than the 12,000 from which
# on it is compacted, and the last round fits into the 4,000 that may be kept.
WORDS = "yyy " * 1_499 + "yyyy"
ROUNDS = [probes("xxx " * 4_000), probes(WORDS)]


def check_whole(model, told):
    """The history is as it was: what was to be summarised, and the round that was to be kept."""
    assert list(told[:3]) == list(model.asked[2].messages[:-1])
    assert [type(message) for message in told[3:]] == [AssistantSaid, ToolAnswered]


async def test_a_turn_goes_on_from_a_summary_before_its_history_overflows(tmp_path, autojump_clock):
    model = Model([TextDelta("Hello."), OK], *ROUNDS, SUMMED, [TextDelta("Done."), OK], info=WINDOW)
    async with indoors(tmp_path, provider=model, profile="full", model_calls=3) as there:
        session_id, turn = await there.begin("hi")
        await turn.ended()
        turn = await there.editor.prompt(session_id, "go")
        assert (turn.text, turn.updates[-1]["stopReason"]) == ("Done.", "end_turn")
        assert compactions(turn) == [("in_progress", None), ("completed", None)]
        kinds = [update["sessionUpdate"] for update in turn.updates]
        assert kinds.index("compaction_update") > max(
            place for place, kind in enumerate(kinds) if kind == "tool_call_update"
        )
        live = fold(there.editor.updates(session_id))
        assert await replayed(there, session_id) == live
        told = there.session(session_id).transcript.messages()
    said, answered = model.asked[4].messages[2:]
    assert list(model.asked[4].messages) == [
        UserSaid(f"{SUMMARY}The person said hi.{KEPT_AFTER_WORDS}"),
        UserSaid("go"),
        said,
        answered,
    ]
    assert WORDS in said.calls[0].arguments
    assert answered == ToolAnswered(said.calls[0].call_id, "reading_probe", f"probed {WORDS}")
    again = Model(info=WINDOW)
    async with indoors(tmp_path, provider=again, profile="full") as there:
        await there.editor.initialize()
        assert await replayed(there, session_id) == live
        await there.editor.prompt(session_id, "still?")
    assert list(again.asked[0].messages) == [*told, UserSaid("still?")]


async def test_what_the_server_finds_too_long_is_compacted_and_asked_again(tmp_path, autojump_clock):
    long = "w" * 20_000
    hello, done = [TextDelta("Hello."), OK], [TextDelta("Done."), OK]
    replies = [hello, TOO_LONG, SUMMED, done, TOO_LONG, SUMMED, TOO_LONG]
    model = Model(*replies, info=ModelInfo(context_assumed=True))
    async with indoors(tmp_path, provider=model, profile="full") as there:
        session_id, turn = await there.begin(long)
        await turn.ended()
        turn = await there.editor.prompt(session_id, "go")
        assert (turn.text, turn.updates[-1]["stopReason"]) == ("Done.", "end_turn")
        assert compactions(turn) == [("in_progress", None), ("completed", None)]
        assert turn.of("agent_message") == [], "nothing failed"
        turn = await there.editor.prompt(session_id, long)
        assert turn.updates[-1]["_meta"]["term2"]["error"]["code"] == "context_overflow"
        assert "Shorten the prompt" in turn.of("agent_message")[0]["content"][0]["text"]
        live = fold(there.editor.updates(session_id))
        assert await replayed(there, session_id) == live
    assert list(model.asked[3].messages) == [UserSaid(f"{SUMMARY}The person said hi.{KEPT}"), UserSaid("go")]
    assert len(model.asked) == 7


@pytest.mark.parametrize("profile", ["baseline", "full"])
async def test_one_that_failed_is_shown_and_the_turn_goes_on(tmp_path, autojump_clock, profile):
    model = Model(*ROUNDS, [OK], [TextDelta("Done."), OK], info=WINDOW)
    async with indoors(tmp_path, provider=model, profile=profile) as there:
        session_id, turn = await there.begin("go")
        assert await turn.ended() == "end_turn"
        shown = [("in_progress", None), ("failed", "The model wrote no summary. Try again.")]
        assert compactions(turn) == (shown if profile == "full" else [])
        notices = [update["content"][0]["text"] for update in turn.of("agent_message")]
        assert len(notices) == (0 if profile == "full" else 2)
        if notices:
            assert "is being summed up" in notices[0]
            assert notices[1].endswith(
                "was not summed up, and is as it was. The model wrote no summary. Try again."
            )
        assert turn.text.endswith("Done.")
        assert fold(there.editor.updates(session_id)) == await replayed(there, session_id)
    check_whole(model, model.asked[3].messages)


async def test_a_cancel_within_a_turn_is_shown_before_the_idle(tmp_path, autojump_clock):
    model = Model(*ROUNDS, [TextDelta("The per"), HANG], info=WINDOW)
    async with indoors(tmp_path, provider=model, profile="full") as there:
        session_id, turn = await there.begin("go")
        await turn.seen("compaction_update")
        await trio.testing.wait_all_tasks_blocked()
        await there.editor.cancel(session_id)
        assert await turn.ended() == "cancelled"
        assert compactions(turn) == [("in_progress", None), ("cancelled", None)]
        told = there.session(session_id).transcript.messages()
        check_whole(model, told)


async def test_a_summary_of_a_turn_that_cannot_be_kept_has_failed(tmp_path, autojump_clock):
    disk = Disk()
    summary = [Waits(BUSY), TextDelta("long " * 5_600), OK]
    model = Model(*ROUNDS, summary, [TextDelta("Fine."), OK], info=WINDOW)
    async with indoors(tmp_path, provider=model, profile="full", connect=disk.connect) as there:
        session_id, turn = await there.begin("go")
        await turn.seen("agent_message")  # it waits
        disk.fill()
        assert await turn.ended() == "_term2_error"
        error = turn.updates[-1]["_meta"]["term2"]["error"]
        assert error["code"] == "store_full"
        assert compactions(turn) == [("in_progress", None), ("failed", error["message"])]
        told = there.session(session_id).transcript.messages()
        check_whole(model, told)
        disk.free()
    again = Model(info=ModelInfo())
    async with indoors(tmp_path, provider=again, profile="full") as there:
        await there.editor.initialize()
        await replayed(there, session_id)
        await there.editor.prompt(session_id, "still?")
    assert list(again.asked[0].messages) == [*told, UserSaid("still?")]


async def test_a_file_that_was_read_in_what_is_kept_is_to_be_read_again_too(tmp_path):
    edit = '{"path": "a.txt", "replacements": [{"search_content": "old", "replace_content": "new"}]}'
    read = '{"path": "a.txt"}'
    replies = [
        probes("xxx " * 4_430),
        uses("read_file", read),
        SUMMED,
        uses("search_replace", edit),
        uses("read_file", read),
        uses("search_replace", edit),
    ]
    model = Model(*replies, info=WINDOW)
    async with indoors(tmp_path, provider=model, profile="full") as there:
        (there.workspace / "a.txt").write_text("old\n")
        _, turn = await there.begin("change")
        assert await turn.ended() == "end_turn"
        assert compactions(turn)[-1] == ("completed", None)
        assert [call["status"] for call in turn.calls.values()] == [
            "completed",
            "completed",
            "failed",
            "completed",
            "completed",
        ]
    assert "old" in model.asked[3].messages[-1].result, "its reading is kept"
    assert "Read it first" in model.asked[4].messages[-1].result
