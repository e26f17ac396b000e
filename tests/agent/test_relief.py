"""When a turn compacts its history by itself, and that it never goes on for ever: each test counts the calls
of the model. What the person sees of it, and what a restart makes of it, is in ``tests/session``."""

from contextlib import asynccontextmanager

import pytest
import trio

from term2_acp.agent.asking import Asking
from term2_acp.agent.context import estimate
from term2_acp.agent.mind import Mind, TurnFailed
from term2_acp.agent.relief import MAX_COMPACTIONS
from term2_acp.agent.shrinking import cut_text
from term2_acp.agent.told import KEPT, KEPT_AFTER_WORDS, SUMMARY
from term2_acp.agent.transcript import Transcript
from term2_acp.agent.turn import STILL_TOO_LONG, TOO_OFTEN, Turn
from term2_acp.agent.usage import Meter
from term2_acp.domain import events as ev
from term2_acp.domain.content import Text
from term2_acp.domain.events import CompactionStatus
from term2_acp.domain.ids import MessageId, ToolCallId
from term2_acp.domain.toolcall import Effect
from term2_acp.domain.turn import StopReason
from term2_acp.domain.usage import Usage
from term2_acp.providers.base import (
    AssistantSaid,
    ContextOverflow,
    Failed,
    Finish,
    Finished,
    ModelChoice,
    ModelInfo,
    Overloaded,
    TextDelta,
    ThoughtDelta,
    ToolAnswered,
    ToolCallDelta,
    UsageDelta,
    UserSaid,
    wait_silently,
)
from term2_acp.providers.choosing.source import Fixed
from term2_acp.redact import Redactor
from tests.kit.model import OK, Model

WINDOW = 16_000  # it is compacted from 12,000 on, and 4,000 may be kept
KNOWN = ModelInfo(WINDOW)
UNKNOWN = ModelInfo(context_assumed=True)
SUMMED = [TextDelta("Summed up."), OK]
DONE = [TextDelta("Done."), OK]
TOO_LONG = [Failed(ContextOverflow("The server finds it too long."))]
C, F = CompactionStatus.COMPLETED, CompactionStatus.FAILED
P, X = CompactionStatus.IN_PROGRESS, CompactionStatus.CANCELLED


def text(letter, size):
    """So many characters of words, four to a token."""
    return f"{letter * 3} " * (size // 4)


def calls(size=0, used=0):
    """A reply with a call whose result has ``size`` tokens; the provider counts ``used`` tokens, if any."""
    counts = [UsageDelta(used, 1)] if used else []
    return [ToolCallDelta("1", "x" * 8, str(size)), *counts, Finished(Finish.TOOL_CALLS)]


def prompt(text):
    return ev.UserMessage(MessageId(f"u{text[:9]}"), (Text(text),))


SAID = [
    prompt("old " + "o" * 400),
    ev.AgentMessageChunk(MessageId("m"), "Yes."),
    ev.Idle(StopReason.END_TURN),
]


LONG = [prompt(text("o", 20_000)), *SAID[1:]]


class Files:
    """What is asked of a workspace here."""

    forgotten = 0

    def forget_reads_nowait(self):
        self.forgotten += 1


class Hands:
    """Runs each call at once: its result is as long as its arguments say. Stands for a ``Dispatcher``."""

    def __init__(self, play):
        self.play = play
        self.files = Files()
        self.context = self

    def announce(self, made):
        ids = [ToolCallId(f"call_{len(self.play.events)}_{n}") for n in range(len(made))]
        prepared = [
            ev.ToolCallPrepared(call_id, delta.name, delta.arguments, "1", "0" * 64)
            for call_id, delta in zip(ids, made, strict=True)
        ]
        return list(zip(ids, made, strict=True)), prepared, False

    async def run(self, made):
        await trio.lowlevel.checkpoint()
        for call_id, delta in made:
            result = text("r", 4 * int(delta.arguments))
            self.play.emit_nowait([ev.ToolCallSettled(call_id, Effect.COMMITTED, result)])


class Play:
    """A turn about ``asks``, in a session with ``said``, with a model that gives ``replies``."""

    full = unkept = False

    def __init__(self, *replies, info=KNOWN, said=SAID, asks="go", system="system", model_calls=100):
        self.model = Model(*replies, info=info)
        self.transcript, self.meter = Transcript(), Meter()
        self.events = []
        self.emit_nowait([*said, prompt(asks)])
        self.asking = Asking(
            self,
            Mind(Fixed(self.model, "m"), model_calls, Redactor(())),
            ModelChoice(self.model, "m"),
            "key",
            self._no_files,
            system,
            (),
            self.transcript,
            self.meter,
        )
        self.hands = Hands(self)

    async def _no_files(self):
        return ()

    async def run(self):
        return await Turn(self.asking, self.hands).run()

    async def fails(self):
        with pytest.raises(TurnFailed) as failed:
            await self.run()
        return failed.value.failure.message

    async def emit(self, events):
        await trio.lowlevel.checkpoint()
        self.emit_nowait(events)

    async def room(self):
        await trio.lowlevel.checkpoint()

    reached = room

    def emit_nowait(self, events):
        for event in events:
            self.events.append(event)
            self.transcript.apply(event)
            self.meter.apply(event)

    @property
    def compactions(self):
        """How each ended."""
        updates = [event for event in self.events if isinstance(event, ev.CompactionUpdate)]
        begun, ended = updates[::2], updates[1::2]
        assert all(update.status is CompactionStatus.IN_PROGRESS for update in begun)
        return [update.status for update in ended]

    @property
    def asked(self):
        return [list(request.messages) for request in self.model.asked]


# -- by an estimate ----------------------------------------------------------------------------------------


async def test_a_turn_that_goes_on_keeps_its_last_round_and_its_prompt():
    play = Play(calls(9_000), calls(3_000), SUMMED, DONE, model_calls=3)
    assert await play.run() is StopReason.END_TURN, "the summary is none of the turn's calls"
    assert play.compactions == [C]
    assert play.hands.files.forgotten == 1
    *history, words = play.asked[2]
    assert [type(message) for message in history] == [UserSaid, AssistantSaid, UserSaid] + 2 * [
        AssistantSaid,
        ToolAnswered,
    ]
    assert "the last 2 messages above, which stay as they are" in words.text
    summary, asks, said, answered = play.asked[3]
    assert summary == UserSaid(f"{SUMMARY}Summed up.{KEPT_AFTER_WORDS}")
    assert asks == UserSaid("go")
    assert [said, answered] == history[-2:]


async def test_turns_that_fit_are_kept_whole():
    turn = [
        prompt(text("b", 4_000)),
        ev.AgentMessageChunk(MessageId("m2"), "b"),
        ev.Idle(StopReason.END_TURN),
    ]
    play = Play(SUMMED, DONE, said=[prompt(text("a", 46_000)), *SAID[1:], *turn])
    await play.run()
    assert play.compactions == [C]
    assert play.asked[1] == [
        UserSaid(f"{SUMMARY}Summed up.{KEPT}"),
        UserSaid(text("b", 4_000)),
        AssistantSaid("b", cut=True),
        UserSaid("go"),
    ]


async def test_what_was_counted_decides_and_what_came_since_is_added():
    play = Play(calls(used=11_000), calls(used=11_995), SUMMED, calls(3_000, used=9_000), SUMMED, DONE)
    assert await play.run() is StopReason.END_TURN
    assert play.compactions == [C, C]
    assert len(play.asked) == 6
    assert [UserSaid("go") in messages for messages in play.asked] == [True] * 6


@pytest.mark.parametrize(
    "info", [UNKNOWN, ModelInfo(4_096), ModelInfo(200_000)], ids=["unknown", "tiny", "room"]
)
async def test_there_is_none_where_there_is_room_or_nobody_knows(info):
    play = Play(calls(9_000), calls(9_000), DONE, info=info)
    assert await play.run() is StopReason.END_TURN
    assert (play.compactions, len(play.asked)) == ([], 3)


@pytest.mark.parametrize(
    "more",
    [
        {"said": [], "asks": text("x", 80_000)},
        {"asks": text("x", 80_000)},
        {"system": text("s", 80_000)},
        {"said": [], "system": text("s", 50_000)},
    ],
    ids=["the first prompt", "a prompt", "what is in every request", "nothing to summarise"],
)
async def test_there_is_none_where_it_would_not_help(more):
    play = Play(calls(), DONE, **more)
    assert await play.run() is StopReason.END_TURN
    assert (play.compactions, len(play.asked)) == ([], 2)


NO_SUMMARY = {
    "empty": [OK],
    "refused": [Finished(Finish.REFUSAL)],
    "an error": [Failed(Overloaded("Busy."))],
    "a tool": calls(),
}


@pytest.mark.parametrize("reply", NO_SUMMARY.values(), ids=NO_SUMMARY)
async def test_after_one_that_failed_the_turn_goes_on_with_all_and_makes_no_more(reply):
    play = Play(calls(9_000), calls(3_000), reply, calls(10), calls(10), DONE)
    assert await play.run() is StopReason.END_TURN
    assert (play.compactions, len(play.asked)) == ([F], 6)
    assert play.asked[3] == play.asked[2][:-1], "the whole history"
    assert play.hands.files.forgotten == 0


async def test_after_one_that_left_too_much_the_turn_makes_no_more():
    long, said = [TextDelta(text("s", 60_000)), OK], [prompt(text("a", 64_000)), *SAID[1:]]
    play = Play(long, calls(10), calls(10), DONE, said=said)
    assert await play.run() is StopReason.END_TURN
    assert (play.compactions, len(play.asked)) == ([C], 4)


async def test_a_summary_that_is_longer_than_what_it_stands_for_is_none():
    play = Play(calls(9_000), calls(3_000), [TextDelta(text("s", 60_000)), OK], calls(10), DONE)
    assert await play.run() is StopReason.END_TURN
    assert (play.compactions, len(play.asked)) == ([F], 5)


async def test_a_server_that_counts_too_much_is_believed_a_few_times_a_turn():
    rounds = [reply for _ in range(MAX_COMPACTIONS) for reply in (calls(used=15_000), SUMMED)]
    play = Play(calls(), *rounds, *[calls(used=15_000)] * 5, TOO_LONG)
    assert await play.fails() == TOO_OFTEN
    assert play.compactions == [C] * MAX_COMPACTIONS
    assert len(play.asked) == 1 + 2 * MAX_COMPACTIONS + 6


async def test_a_long_turn_in_a_small_context_is_worked_to_its_end():
    rounds = [reply for _ in range(20) for reply in (calls(), calls(used=13_000), SUMMED)]
    play = Play(*rounds, *[calls(3_000), TOO_LONG, SUMMED] * 5, DONE)
    assert await play.run() is StopReason.END_TURN
    assert play.compactions == [C] * 25


# -- results that are too much by themselves ---------------------------------------------------------------


def many(size, count=5):
    """A reply with so many calls, whose results have ``size`` tokens each."""
    made = [ToolCallDelta(str(number), "x" * 8, str(size)) for number in range(count)]
    return [*made, Finished(Finish.TOOL_CALLS)]


async def test_results_that_do_not_fit_by_themselves_are_summed_up_too():
    play = Play(many(4_000), SUMMED, DONE, asks="look at all")
    assert await play.run() is StopReason.END_TURN
    assert play.compactions == [C]
    question = play.asked[1]
    assert estimate(question) < WINDOW, "they are cut for it"
    assert "repeat those words" in question[-1].text
    assert play.asked[2] == [UserSaid(f"{SUMMARY}Summed up.")]


@pytest.mark.parametrize("info", [UNKNOWN, KNOWN])
async def test_nor_do_they_end_a_turn_whose_server_says_so(info):
    play = Play(many(20_000), *([TOO_LONG] if info is UNKNOWN else []), SUMMED, DONE, info=info)
    assert await play.run() is StopReason.END_TURN
    assert play.compactions == [C]
    assert play.asked[-1] == [UserSaid(f"{SUMMARY}Summed up.")]


# -- what the person is told -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "more", "warned"),
    [
        (ModelInfo(4_096, cuts=True), {"system": text("s", 20_000)}, True),
        (ModelInfo(1, cuts=True), {}, True),
        (ModelInfo(WINDOW, cuts=True), {"asks": text("x", 80_000)}, True),
        (ModelInfo(WINDOW, cuts=True), {}, False),
        (ModelInfo(0, cuts=True), {"asks": text("x", 80_000)}, False),
        (ModelInfo(4_096, context_assumed=True, cuts=True), {"asks": text("x", 80_000)}, False),
        (ModelInfo(10**15, cuts=True), {"asks": text("x", 80_000)}, False),
        (KNOWN, {"asks": text("x", 80_000)}, False),
    ],
)
async def test_a_request_that_may_be_cut_in_silence_is_told_once_a_turn(info, more, warned):
    play = Play(calls(10), DONE, info=info, **more)
    assert await play.run() is StopReason.END_TURN
    notices = [event for event in play.events if isinstance(event, ev.Notice)]
    assert len(notices) == warned
    if warned:
        assert notices[0].severity is ev.Severity.WARNING
        assert f"a context of {info.context_tokens:,}:" in notices[0].text
        assert len(play.asked) == 2, "it is an estimate: the request goes out"


async def test_a_model_that_read_more_than_it_is_said_to_hold_is_not_warned_of():
    play = Play(calls(used=5_000), DONE, info=ModelInfo(4_096, cuts=True))
    assert await play.run() is StopReason.END_TURN
    assert not any(isinstance(event, ev.Notice) for event in play.events)


# -- by the provider's word --------------------------------------------------------------------------------


async def test_a_model_that_read_more_than_it_is_said_to_hold_holds_more():
    play = Play(calls(used=WINDOW + 1), DONE)
    assert await play.run() is StopReason.END_TURN
    assert (play.compactions, len(play.asked)) == ([], 2)
    ended = ev.ReplyEnded("other", "m", usage=Usage(WINDOW + 1, 1))
    play = Play(SUMMED, DONE, said=[SAID[0], SAID[1], ended, SAID[2]])
    assert await play.run() is StopReason.END_TURN
    assert (play.compactions, len(play.asked)) == ([C], 2), "it was another model that did"


@pytest.mark.parametrize("info", [UNKNOWN, KNOWN, ModelInfo(4_096)])
async def test_what_overflows_is_compacted_and_asked_again(info):
    play = Play(TOO_LONG, SUMMED, DONE, info=info, said=LONG, model_calls=1)
    assert await play.run() is StopReason.END_TURN
    assert play.compactions == [C]
    assert len(play.asked) == 3
    assert play.asked[1][:-1] == [
        UserSaid(cut_text(text("o", 20_000), 8_000)),
        AssistantSaid("Yes.", cut=True),
    ]
    assert "What came after the messages above stays as it is" in play.asked[1][-1].text
    assert play.asked[2] == [UserSaid(f"{SUMMARY}Summed up.{KEPT}"), UserSaid("go")]
    took = play.meter.turn_usage()
    assert (took.model_calls, took.counted_calls) == (3, 0)


OVERFLOWS = {
    "again": ((TOO_LONG, SUMMED, TOO_LONG), {}, [C], 3, STILL_TOO_LONG),
    "empty": ((TOO_LONG, [OK]), {}, [F], 2, None),
    "a summary that fails": ((TOO_LONG, NO_SUMMARY["an error"]), {}, [F], 2, None),
    "a summary that overflows": ((TOO_LONG, TOO_LONG, TOO_LONG), {}, [F], 3, None),
    "one message": ((TOO_LONG,), {"said": [], "asks": text("x", 80_000)}, [], 1, None),
    "a message behind others": (
        (TOO_LONG, SUMMED, TOO_LONG),
        {"asks": text("x", 80_000)},
        [C],
        3,
        STILL_TOO_LONG,
    ),
    "what is in every request": ((TOO_LONG,), {"system": text("s", 80_000)}, [F], 1, None),
    "after an estimate": (
        (SUMMED, TOO_LONG),
        {"said": [prompt(text("a", 50_000)), *SAID[1:]]},
        [C],
        2,
        STILL_TOO_LONG,
    ),
    "after an estimate that failed": (
        ([OK], TOO_LONG),
        {"said": [prompt(text("a", 50_000)), *SAID[1:]]},
        [F],
        2,
        None,
    ),
    "with words before it": (([TextDelta("I "), *TOO_LONG],), {}, [], 1, None),
    "with a thought before it": (([ThoughtDelta("Hm"), *TOO_LONG],), {}, [], 1, None),
}


@pytest.mark.parametrize(
    ("replies", "more", "compactions", "count", "sentence"), OVERFLOWS.values(), ids=OVERFLOWS
)
async def test_an_overflow_ends_the_turn_at_last(replies, more, compactions, count, sentence):
    play = Play(*replies, **{"said": LONG, **more})
    assert await play.fails() == (sentence or "The server finds it too long.")
    assert (play.compactions, len(play.asked)) == (compactions, count)


async def test_a_summary_that_overflows_is_asked_for_once_more_with_half():
    said = [prompt(text("a", 40_000)), *SAID[1:], prompt("kept" * 1_000), *SAID[1:]]
    play = Play(TOO_LONG, TOO_LONG, SUMMED, DONE, info=UNKNOWN, said=said)
    assert await play.run() is StopReason.END_TURN
    assert (play.compactions, len(play.asked)) == ([C], 4)
    first, half = play.asked[1][:-1], play.asked[2][:-1]
    for messages, most in ((first, 8_000), (half, 2_000)):
        assert messages == [
            UserSaid(cut_text(text("a", 40_000), most)),
            AssistantSaid("Yes.", cut=True),
        ]


async def test_each_call_of_a_turn_may_overflow_once():
    play = Play(TOO_LONG, SUMMED, calls(3_000), calls(10), TOO_LONG, SUMMED, DONE, info=UNKNOWN, said=LONG)
    assert await play.run() is StopReason.END_TURN
    assert (play.compactions, len(play.asked)) == ([C, C], 7)


# -- a cancel at each step ---------------------------------------------------------------------------------


class Stepped(Play):
    """Its turn is cancelled at the step of that number: whatever is awaited, by the turn or its model."""

    def __init__(self, *replies, at, **more):
        super().__init__(*replies, **more)
        self.at, self.steps, self.scope = at, 0, trio.CancelScope()

    async def step(self):
        self.steps += 1
        if self.steps == self.at:
            self.scope.cancel()
        await trio.lowlevel.checkpoint()

    room = reached = step

    async def emit(self, events):
        await self.step()
        self.emit_nowait(events)


class SteppedModel(Model):
    """A model whose every await is a step of its play."""

    play: Stepped

    @asynccontextmanager
    async def stream(self, request, on_wait=wait_silently):
        await self.play.step()
        async with super().stream(request, on_wait) as deltas:
            yield SteppedDeltas(self.play, deltas)
        await self.play.step()


class SteppedDeltas:
    def __init__(self, play, deltas):
        self.play, self.deltas = play, deltas

    async def receive(self):
        await self.play.step()
        return await self.deltas.receive()


def stepped(at):
    """A turn with a compaction whose first question overflows, and with another one later."""
    replies = [TOO_LONG, TOO_LONG, SUMMED, calls(3_000), calls(10), TOO_LONG, SUMMED, DONE]
    play = Stepped(*replies, at=at, info=UNKNOWN, said=LONG)
    play.model = SteppedModel(*replies, info=UNKNOWN)
    play.model.play = play
    play.asking.choice = ModelChoice(play.model, "m")
    return play


async def test_a_cancel_at_any_step_leaves_the_history_as_before_or_after():
    whole = stepped(0)
    assert await whole.run() is StopReason.END_TURN
    assert whole.compactions == [C, C]
    assert whole.steps > 30
    seen = set()
    for at in range(1, whole.steps + 1):
        play = stepped(at)
        with play.scope:
            await play.run()
        updates = [event for event in play.events if isinstance(event, ev.CompactionUpdate)]
        assert [update.status for update in updates[::2]] == [P] * (len(updates) // 2), "each has ended"
        ends = tuple(play.compactions)
        assert ends in {(), (X,), (C,), (C, X), (C, C)}
        seen.add(ends)
        assert play.hands.files.forgotten == ends.count(C)
        again = Transcript()
        for event in play.events:
            again.apply(event)
        assert again.messages() == play.transcript.messages(), "what the next process is told"
        first = again.messages()[0]
        if C in ends:
            assert first.text.startswith(f"{SUMMARY}Summed up.")
        else:
            assert first == UserSaid(text("o", 20_000))
        took = play.meter.turn_usage()
        begun = 0 if took is None else took.model_calls
        assert begun - len(play.asked) in (0, 1), "a call that was cancelled on its way is counted"
    assert seen == {(), (X,), (C,), (C, X), (C, C)}
