"""Compaction by the model: what it is asked, what becomes of each kind of reply, that the last update always
comes, and that the history, the tokens and the files that count as read follow from how it ended. That what
it is asked fits the model's context, also where the history does not. When a turn compacts by itself is in
``test_relief``."""

import pytest
import trio

from term2_acp.agent.asking import Asking
from term2_acp.agent.compaction import MAX_SUMMARY, compact
from term2_acp.agent.context import estimate
from term2_acp.agent.mind import Mind
from term2_acp.agent.shrinking import cut_text
from term2_acp.agent.told import KEPT_AFTER_WORDS, SUMMARY
from term2_acp.agent.transcript import Transcript
from term2_acp.agent.usage import Meter
from term2_acp.domain import events as ev
from term2_acp.domain.content import Text
from term2_acp.domain.events import CompactionStatus
from term2_acp.domain.ids import MessageId, ToolCallId
from term2_acp.domain.toolcall import Effect
from term2_acp.domain.turn import StopReason
from term2_acp.domain.usage import Prices, Usage
from term2_acp.providers.base import (
    AssistantSaid,
    ContextOverflow,
    Failed,
    Finish,
    Finished,
    ModelChoice,
    ModelInfo,
    Opaque,
    Overloaded,
    TextDelta,
    ThoughtDelta,
    ToolAnswered,
    ToolCallDelta,
    ToolSpec,
    UsageDelta,
    UserSaid,
)
from term2_acp.providers.choosing.source import Fixed
from term2_acp.redact import Redactor
from tests.kit.model import HANG, OK, Model, Waits

KEY = "sk-canary-0123456789"
INFO = ModelInfo(context_tokens=1000, prices=Prices(1, 10))
SPECS = (ToolSpec("read_file", "Reads.", {}),)
SAID = [
    ev.UserMessage(MessageId("u"), (Text("Make it blue."),)),
    ev.AgentMessageChunk(MessageId("m"), "It is blue."),
    ev.ReplyEnded("play", "m", '{"sealed": 1}', Usage(1, 1), 11),
    ev.Idle(StopReason.END_TURN),
    ev.UserMessage(MessageId("u2"), (Text("/compact"),), to_model=False),
]
HISTORY = (UserSaid("Make it blue."), AssistantSaid("It is blue."))
OPAQUE = Opaque("play", "m", '{"sealed": 1}')
CUT = Finished(Finish.LENGTH)


class Ports:
    """The events that were emitted, folded as a session folds them."""

    full = unkept = False

    def __init__(self, transcript: Transcript, meter: Meter) -> None:
        self.events: list[ev.Event] = []
        self._folds = (transcript.apply, meter.apply)

    async def emit(self, events):
        await trio.lowlevel.checkpoint()
        self.emit_nowait(events)

    async def reached(self):
        await trio.lowlevel.checkpoint()

    def emit_nowait(self, events):
        self.events += events
        for event in events:
            for fold in self._folds:
                fold(event)


class Play:
    """A session's history, its model, and one compaction of it."""

    def __init__(self, *replies, said=SAID, info=INFO):
        self.model = Model(*replies, info=info)
        self.transcript, self.meter = Transcript(), Meter()
        self.ports = Ports(self.transcript, self.meter)
        for event in said:
            self.transcript.apply(event)
            self.meter.apply(event)
        self.forgotten = 0
        redactor = Redactor((KEY,))
        self.asking = Asking(
            self.ports,
            Mind(Fixed(self.model, "m"), 100, redactor),
            ModelChoice(self.model, "m"),
            "key",
            self._no_files,
            "system",
            SPECS,
            self.transcript,
            self.meter,
        )

    async def _no_files(self):
        return ()

    def _forget(self):
        self.forgotten += 1

    async def compact(self, instructions=None, kept=0, most=None):
        return await compact(
            self.asking, forget_reads=self._forget, instructions=instructions, kept=kept, most=most
        )

    @property
    def updates(self):
        return [event for event in self.ports.events if isinstance(event, ev.CompactionUpdate)]

    def told(self):
        """The messages, as far as a test can foresee them."""
        return [
            AssistantSaid(said.text) if isinstance(said, AssistantSaid) else said
            for said in self.transcript.messages()
        ]


async def test_the_summary_takes_the_place_of_what_was_said():
    play = Play([ThoughtDelta("Hm."), TextDelta(" The person "), TextDelta("wants blue. \n"), OK])
    ended = await play.compact()
    begun, last = play.updates
    assert (begun.status, begun.summary, begun.error) == (CompactionStatus.IN_PROGRESS, None, None)
    assert last is ended
    assert (ended.status, ended.summary) == (CompactionStatus.COMPLETED, "The person wants blue.")
    assert last.compaction_id == begun.compaction_id
    assert play.told() == [UserSaid(f"{SUMMARY}The person wants blue.")]
    assert play.forgotten == 1
    shown = {type(event) for event in play.ports.events}
    assert shown == {ev.CompactionUpdate, ev.ReplyEnded}, "what the model says becomes no message"


async def test_the_model_is_asked_what_a_turn_would_ask_and_for_a_summary():
    play = Play([TextDelta("s"), OK])
    await play.compact("  keep the colours ")
    (request,) = play.model.asked
    assert (request.model, request.system, request.tools, request.cache_key) == ("m", "system", SPECS, "key")
    *history, last = request.messages
    assert [AssistantSaid(m.text) if isinstance(m, AssistantSaid) else m for m in history] == list(HISTORY)
    assert history[1].opaque is not None
    assert last.text.startswith("The conversation is about to be cut here. Write a summary")
    assert last.text.endswith("\n\nThe person asks of this summary: keep the colours")
    again = Play([TextDelta("s"), OK])
    await again.compact(" ")
    assert "asks of this summary" not in again.model.asked[0].messages[-1].text


NO_SUMMARY = {
    "nothing": ([OK], "wrote no summary"),
    "blanks": ([TextDelta(" \n"), OK], "wrote no summary"),
    "a thought": ([ThoughtDelta("Hm."), OK], "wrote no summary"),
    "refused": ([TextDelta("I will not."), Finished(Finish.REFUSAL)], "refused"),
    "cut": ([TextDelta("The per"), CUT], "was cut"),
    "a tool": (
        [TextDelta("I look."), ToolCallDelta("1", "read_file", "{}"), Finished(Finish.TOOL_CALLS)],
        "used a tool",
    ),
    "a tool, said to be none": (
        [TextDelta("I look."), ToolCallDelta("1", "read_file", "{}"), OK],
        "used a tool",
    ),
    "a tool that is not named": ([TextDelta("I look."), Finished(Finish.TOOL_CALLS)], "used a tool"),
    "too long": ([TextDelta("x" * MAX_SUMMARY), TextDelta("x"), HANG], "too long"),
    "failed": ([TextDelta("The per"), Failed(Overloaded("It is busy."))], "It is busy."),
}


@pytest.mark.parametrize(("reply", "sentence"), NO_SUMMARY.values(), ids=NO_SUMMARY)
async def test_what_is_no_summary_leaves_the_history_as_it_was(reply, sentence):
    play = Play(reply)
    ended = await play.compact()
    assert [update.status for update in play.updates] == [
        CompactionStatus.IN_PROGRESS,
        CompactionStatus.FAILED,
    ]
    assert play.updates[-1] is ended
    assert sentence in ended.error
    assert ended.summary is None
    assert play.told() == list(HISTORY)
    assert play.forgotten == 0
    assert len(play.model.asked) == 1, "it is not asked again"


async def test_a_summary_of_the_most_characters_is_taken():
    play = Play([TextDelta("x" * MAX_SUMMARY), OK], said=long_history(200_000))
    assert (await play.compact()).status is CompactionStatus.COMPLETED


async def test_a_summary_that_is_longer_than_asked_for_is_shorter_than_what_it_stands_for():
    long, short = "word " * 5_000, "word " * 2_900  # 6,250 tokens; 3,625, and 3,750 may be asked for
    for said, summary, status in (
        (SAID, long, CompactionStatus.FAILED),
        (SAID, short, CompactionStatus.COMPLETED),
        ([ev.UserMessage(MessageId("u"), (Text(long * 2),)), *SAID[1:]], long, CompactionStatus.COMPLETED),
    ):
        play = Play([TextDelta(summary), OK], said=said, info=ModelInfo(200_000))
        ended = await play.compact()
        assert ended.status is status
        if status is CompactionStatus.FAILED:
            assert "too long to stand for the conversation" in ended.error
            assert play.told() == list(HISTORY)


async def test_a_turn_that_keeps_nothing_has_its_words_repeated():
    play = Play([TextDelta("s"), OK])
    await compact(play.asking, forget_reads=play._forget, at_work=True)
    assert "You are at work on the person's last words: repeat those" in play.model.asked[0].messages[-1].text
    again = Play([TextDelta("s"), OK])
    await again.compact()
    assert "You are at work" not in again.model.asked[0].messages[-1].text


@pytest.mark.parametrize("said", [[], SAID[-1:]], ids=["a new session", "nothing but the command"])
async def test_there_may_be_nothing_to_compact(said):
    play = Play(said=said)
    assert await play.compact() is None
    assert play.ports.events == []
    assert play.model.asked == []


async def test_a_summary_alone_is_not_summarised_again():
    play = Play([TextDelta("s"), OK], [TextDelta("t"), OK])
    await play.compact()
    assert await play.compact() is None
    assert len(play.model.asked) == 1
    play.ports.emit_nowait([ev.UserMessage(MessageId("u3"), (Text("And red."),))])
    assert (await play.compact()).summary == "t"
    assert play.told() == [UserSaid(f"{SUMMARY}t")]


@pytest.mark.parametrize("reply", [[HANG], [TextDelta("The per"), HANG], [Waits("Busy."), OK]])
async def test_a_cancel_ends_it_and_changes_nothing(autojump_clock, reply):
    play = Play(reply)
    with trio.move_on_after(1) as scope:
        await play.compact()
    assert scope.cancelled_caught
    begun, last = play.updates
    assert last == ev.CompactionUpdate(begun.compaction_id, CompactionStatus.CANCELLED)
    assert play.told() == list(HISTORY)
    assert play.forgotten == 0


async def test_a_cancel_before_it_begins_shows_nothing():
    play = Play([TextDelta("s"), OK])
    with trio.CancelScope() as scope:
        scope.cancel()
        await play.compact()
    assert play.ports.events == []


async def test_a_fault_of_ours_ends_it_too(monkeypatch):
    play = Play([TextDelta("s"), OK])

    def breaks(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(play.model, "stream", breaks)
    with pytest.raises(RuntimeError):
        await play.compact()
    assert play.updates[-1].status is CompactionStatus.FAILED
    assert "failed inside term2" in play.updates[-1].error


async def test_a_wait_is_told_and_a_key_is_not(autojump_clock):
    play = Play([Waits(f"Busy with {KEY}."), TextDelta(f"The key is {KEY[:9]}"), TextDelta(KEY[9:]), OK])
    ended = await play.compact(f"Keep {KEY}.")
    assert play.model.asked[0].messages[-1].text.endswith("Keep [redacted].")
    (notice,) = [event for event in play.ports.events if isinstance(event, ev.Notice)]
    assert (notice.severity, notice.text) == (ev.Severity.WARNING, "Busy with [redacted].")
    assert ended.summary == "The key is [redacted]"


async def test_a_summary_that_the_journal_cannot_take_is_taken_back():
    """The pump shows it as failed (``tests/session``); what a restart would read is the history again."""
    play = Play([TextDelta("s"), OK])
    play.transcript.mark()
    scope = trio.CancelScope()

    async def reached():
        play.ports.unkept = True
        scope.cancel()
        await trio.lowlevel.checkpoint()

    play.ports.reached = reached
    with scope:
        await play.compact()
    assert play.updates[-1].status is CompactionStatus.COMPLETED
    assert play.told() == list(HISTORY)
    assert play.forgotten == 1, "to read once more than is needed is safe"


# -- what is kept, and what fits ---------------------------------------------------------------------------

OVERFLOW = [Failed(ContextOverflow("Too long."))]


async def test_the_last_messages_may_be_kept_and_are_counted_as_context():
    old = ev.UserMessage(MessageId("old"), (Text("Hello."),))
    play = Play([TextDelta("s"), UsageDelta(500, 60), OK], said=[old, *SAID])
    ended = await play.compact(kept=1)
    assert (ended.kept, ended.summary) == (1, "s")
    assert play.told() == [
        UserSaid(f"{SUMMARY}s{KEPT_AFTER_WORDS}"),
        UserSaid("Make it blue."),
        AssistantSaid("It is blue."),
    ]
    assert "the last 1 messages above, which stay as they are" in play.model.asked[0].messages[-1].text
    left = estimate([UserSaid("Make it blue."), AssistantSaid("It is blue.", (), OPAQUE)])
    assert usage_of(play) == [ev.UsageUpdate(60 + left, 1000, 1111)]


async def test_what_is_kept_is_said_in_whole_groups():
    made = [
        ev.ToolCallPrepared(ToolCallId("c"), "read_file", "{}", "1", "0" * 64),
        ev.ReplyEnded("play", "m"),
        ev.ToolCallSettled(ToolCallId("c"), Effect.COMMITTED, "text"),
    ]
    play = Play([TextDelta("s"), OK], said=[*SAID, ev.UserMessage(MessageId("u3"), (Text("Look."),)), *made])
    assert (await play.compact(kept=1)).kept == 2
    assert [type(message) for message in play.told()] == [UserSaid, UserSaid, AssistantSaid, ToolAnswered]
    play = Play([OK], said=[*SAID, *made])
    assert (await play.compact(kept=1)).kept == 0, "of one that failed nothing is said"


async def test_there_may_be_nothing_but_what_is_kept():
    play = Play()
    assert await play.compact(kept=2) is None
    assert play.model.asked == []


def long_history(size):
    return [ev.UserMessage(MessageId("u"), (Text("w" * size),)), *SAID[1:]]


async def test_a_history_that_overflows_can_be_compacted_all_the_same():
    window = ModelInfo(20_000)
    play = Play([TextDelta("s"), OK], said=long_history(200_000), info=window)
    play.transcript.reading = None
    assert (await play.compact("be short")).status is CompactionStatus.COMPLETED
    (request,) = play.model.asked
    assert request.messages[0] == UserSaid(cut_text("w" * 200_000, 32_000))
    assert request.messages[-1].text.endswith("asks of this summary: be short")
    assert "You will go on from that summary alone" in request.messages[-1].text
    assert play.told() == [UserSaid(f"{SUMMARY}s")]


async def test_the_question_fits_a_context_that_is_too_small_for_anything_else():
    """A server that cuts in silence would have it summed up from what is left."""
    play = Play([TextDelta("s"), OK], said=long_history(60_000), info=ModelInfo(4_096))
    play.transcript.reading = None
    assert (await play.compact()).status is CompactionStatus.COMPLETED
    (request,) = play.model.asked
    assert play.asking.fixed_tokens + estimate(request.messages) <= 4_096
    read = ev.ReplyEnded("play", "m", None, Usage(5_000, 1))
    play = Play(
        [TextDelta("s"), OK], said=[*long_history(60_000)[:2], read, *SAID[3:]], info=ModelInfo(4_096)
    )
    assert (await play.compact()).status is CompactionStatus.COMPLETED
    assert play.model.asked[0].messages[0] == UserSaid("w" * 60_000), "it holds more than is said"


async def test_what_the_server_finds_too_long_is_halved_once():
    play = Play(OVERFLOW, [TextDelta("s"), OK], said=long_history(60_000))
    assert (await play.compact()).status is CompactionStatus.COMPLETED
    whole, half = (request.messages for request in play.model.asked)
    assert whole[0] == UserSaid("w" * 60_000)
    assert half[0] == UserSaid(cut_text("w" * 60_000, 8_000))
    play = Play(OVERFLOW, OVERFLOW, said=long_history(60_000))
    assert (await play.compact()).error == "Too long."
    assert len(play.model.asked) == 2
    assert play.meter.turn_usage().model_calls == 2
    play = Play([TextDelta("The per"), *OVERFLOW], said=long_history(60_000))
    assert (await play.compact()).error == "Too long."
    assert len(play.model.asked) == 1, "it had begun to write"


async def test_where_no_part_of_a_history_fits_no_model_is_asked():
    play = Play(said=long_history(60_000))
    ended = await play.compact(most=100)
    assert (ended.status, ended.summary, play.model.asked) == (CompactionStatus.FAILED, None, [])
    assert "leaves no room" in ended.error
    assert play.meter.turn_usage() is None


async def test_a_cancel_of_the_second_try_counts_both():
    play = Play([UsageDelta(900, 0), *OVERFLOW], [HANG], said=long_history(60_000))
    with trio.move_on_after(0.01):
        await play.compact()
    assert play.updates[-1].status is CompactionStatus.CANCELLED
    assert usage_of(play) == [ev.UsageUpdate(900, 1000, 911)]
    assert play.meter.turn_usage().model_calls == 2


# -- tokens and money --------------------------------------------------------------------------------------


def usage_of(play):
    return [event for event in play.ports.events if isinstance(event, ev.UsageUpdate)]


async def test_its_call_is_counted_and_the_context_is_what_is_left():
    play = Play([TextDelta("s"), UsageDelta(500, 60, thought_tokens=20), OK])
    await play.compact()
    ended = next(event for event in play.ports.events if isinstance(event, ev.ReplyEnded))
    assert ended == ev.ReplyEnded(
        "play", "m", None, Usage(input_tokens=500, output_tokens=60, thought_tokens=20), 1100
    )
    assert usage_of(play) == [ev.UsageUpdate(40, 1000, 1111)]
    took = play.meter.turn_usage()
    assert (took.model_calls, took.counted_calls, took.tokens.input_tokens) == (1, 1, 500)


async def test_what_is_left_is_never_more_than_what_there_was():
    old = ev.UserMessage(MessageId("old"), (Text("Hello."),))
    play = Play([TextDelta("s"), UsageDelta(1, 10**9), OK], said=[old, *SAID])
    await play.compact(kept=1)
    (update,) = usage_of(play)
    assert update.used == update.size == 10**9 + 1


@pytest.mark.parametrize(
    ("reply", "calls", "update"),
    [
        ([TextDelta("s"), UsageDelta(500, 60), CUT], (1, 1, 1100), ev.UsageUpdate(560, 1000, 1111)),
        (
            [TextDelta("s"), UsageDelta(500, 60), Failed(Overloaded("Busy."))],
            (1, 1, 1100),
            ev.UsageUpdate(560, 1000, 1111),
        ),
        ([Failed(Overloaded("Busy."))], (1, 0, 0), None),
    ],
)
async def test_a_call_that_failed_is_counted_when_the_turn_goes_on(reply, calls, update):
    play = Play(reply)
    await play.compact()
    assert usage_of(play) == ([] if update is None else [update])
    assert play.meter.open_call() is None
    play.asking.begin()  # the next call of the turn
    took = play.meter.turn_usage()
    assert (took.model_calls, took.counted_calls, took.cost_pico_usd) == (calls[0] + 1, *calls[1:])


async def test_a_model_that_counts_nothing_is_told_of_nothing():
    play = Play([TextDelta("s"), OK])
    assert (await play.compact()).status is CompactionStatus.COMPLETED
    assert usage_of(play) == []


async def test_the_journal_makes_the_same_history():
    play = Play([TextDelta("s"), UsageDelta(500, 60), OK], [TextDelta("never"), CUT])
    await play.compact()
    play.ports.emit_nowait([ev.UserMessage(MessageId("u3"), (Text("And red."),))])
    await play.compact()
    read = Transcript()
    for event in [*SAID, *play.ports.events]:
        if type(event) not in ev.SHOWN_ONLY:
            read.apply(event)
    assert read.messages() == play.transcript.messages() == (UserSaid(f"{SUMMARY}s"), UserSaid("And red."))
