"""Any history and any window: what a model is asked is within its window, or the person reads a sentence that
it is not; it never goes on for ever; and every request is well paired, that for a summary too. The servers
here hold to a window by the same estimate as term2: some say that a request is too long, and some cut it in
silence.
"""

from contextlib import asynccontextmanager

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.agent.context import estimate
from term2_acp.agent.mind import TurnFailed
from term2_acp.agent.turn import STILL_TOO_LONG
from term2_acp.domain import events as ev
from term2_acp.domain.ids import MessageId, ToolCallId
from term2_acp.domain.toolcall import Effect
from term2_acp.domain.turn import StopReason
from term2_acp.providers.base import (
    AssistantSaid,
    Finish,
    Finished,
    ModelChoice,
    ModelInfo,
    TextDelta,
    ToolAnswered,
    UserSaid,
    wait_silently,
)
from tests.agent.test_relief import DONE, TOO_LONG, Play, calls, prompt
from tests.kit.model import OK, Model

SERVER_SAYS = TOO_LONG[0].error.message
TEXTS = ("some words ", "漢字", '{"a":1},', "QUJDREVGR0hJ", "x\n")
SUMMARIES = (
    [TextDelta("Summed up."), OK],
    [TextDelta("long " * 9_000), OK],
    [OK],
    [TextDelta("I look."), *calls(10)],
    [Finished(Finish.REFUSAL)],
    TOO_LONG,
)
# Calls of the model that one of a turn may take: it, a summary, half of one, and it once more.
MOST_CALLS = 4


class Server(Model):
    """Has a window, and ``summary`` as the reply to each question for one."""

    def __init__(self, window, summary, *, honest, info):
        super().__init__(info=info)
        self.window, self.summary, self.honest, self.fixed = window, summary, honest, 0

    def size(self, request):
        return self.fixed + estimate(request.messages)

    @asynccontextmanager
    async def stream(self, request, on_wait=wait_silently):
        reply = self.summary if is_question(request) else DONE
        self.replies = [TOO_LONG if self.honest and self.size(request) > self.window else reply]
        async with super().stream(request, on_wait) as deltas:
            yield deltas


def is_question(request):
    """Whether a summary is asked for."""
    last = request.messages[-1]
    return isinstance(last, UserSaid) and last.text.startswith("The conversation is about to be cut here.")


# A text is a kind and a size here, so that a failure can be read.
_TEXT = st.tuples(st.integers(0, len(TEXTS) - 1), st.sampled_from([1, 60, 2_000, 30_000]))
_REPLY = st.tuples(
    _TEXT,
    st.integers(0, 4),  # calls
    st.integers(0, 4),  # of them with a result
    _TEXT,
    st.sampled_from(["cut", "whole", "sealed"]),
)
_PAST = st.lists(st.tuples(_TEXT, st.lists(_REPLY, max_size=3)), max_size=4)


def text(kind, size):
    return (TEXTS[kind] * (size // len(TEXTS[kind]) + 1))[:size]


def events_of(past):
    """The events of a conversation whose replies ended, or broke off."""
    for number, (asks, replies) in enumerate(past):
        yield prompt(text(*asks))
        for place, (said, count, settled, result, how) in enumerate(replies):
            yield ev.AgentMessageChunk(MessageId(f"m{number}.{place}"), text(*said))
            made = [ToolCallId(f"c{number}.{place}.{call}") for call in range(count)]
            for call in made:
                yield ev.ToolCallPrepared(call, "n", '{"a": 1}', "1", "0" * 64)
            if how != "cut":
                yield ev.ReplyEnded("play", "m", '{"sealed": 1}' if how == "sealed" else None)
            for call in made[:settled]:
                yield ev.ToolCallSettled(call, Effect.COMMITTED, text(*result))
        yield ev.Idle(StopReason.END_TURN)


def check_paired(messages):
    waiting = []
    for message in messages:
        if isinstance(message, ToolAnswered):
            assert waiting.pop(0) == message.call_id
            continue
        assert not waiting, "a reply is apart from its results"
        waiting = [call.call_id for call in message.calls] if isinstance(message, AssistantSaid) else []
    assert not waiting


async def turn_of(play):
    try:
        return await play.run()
    except TurnFailed as failed:
        return failed.failure.message


@settings(max_examples=150, deadline=None)
@given(
    _PAST,
    _TEXT,
    st.one_of(st.sampled_from([0, 1, 4_096, 8_000, 12_000, 16_000, 24_000, 10**9]), st.integers(2, 60_000)),
    st.sampled_from(["stated", "larger than it is", "unknown"]),
    st.booleans(),
    st.sampled_from([0, 0, 0, *range(len(SUMMARIES))]),
)
def test_any_request_fits_or_a_sentence_says_that_it_does_not(past, asks, window, known, honest, summary):
    info = {
        "stated": ModelInfo(window, cuts=not honest),
        "larger than it is": ModelInfo(window * 4 + 1, cuts=not honest),
        "unknown": ModelInfo(context_assumed=True),
    }[known]
    play = Play(info=info, said=list(events_of(past)), asks=text(*asks))
    server = Server(window, SUMMARIES[summary], honest=honest, info=info)
    server.fixed = play.asking.fixed_tokens
    play.asking.choice = ModelChoice(server, "m")
    came_to = trio.run(turn_of, play)
    assert len(server.asked) <= MOST_CALLS
    for request in server.asked:
        check_paired(request.messages)
        assert known != "stated" or not window or not is_question(request) or server.size(request) <= window
    check_paired(play.transcript.messages())
    begun = [event.status for event in play.events if isinstance(event, ev.CompactionUpdate)]
    assert begun.count(ev.CompactionStatus.IN_PROGRESS) * 2 == len(begun) <= 2, "one, and it has ended"
    notices = [event for event in play.events if isinstance(event, ev.Notice)]
    last = server.size(server.asked[-1])
    if came_to is StopReason.END_TURN:
        assert not honest or last <= window
        if known == "stated" and window:
            assert last <= window or notices
    else:
        assert honest
        assert came_to in (SERVER_SAYS, STILL_TOO_LONG)
