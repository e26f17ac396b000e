"""The history a provider is given: what is folded from which events, and that it is well paired at every
prefix of any sequence, cancelled, crashed, compacted or whole."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.agent.context import Reading
from term2_acp.agent.told import (
    KEPT,
    KEPT_AFTER_WORDS,
    MODE_TOLD,
    OUTCOME_UNKNOWN,
    RECORD_LOST,
    SUMMARY,
)
from term2_acp.agent.transcript import Transcript
from term2_acp.domain import events as ev
from term2_acp.domain.content import Image, ResourceLink, Text
from term2_acp.domain.ids import CompactionId, MessageId, ToolCallId
from term2_acp.domain.options import Mode, OptionId
from term2_acp.domain.toolcall import Effect
from term2_acp.domain.turn import StopReason
from term2_acp.domain.usage import Usage
from term2_acp.providers.base import AssistantSaid, CallMade, Opaque, ToolAnswered, UserSaid

M = MessageId("msg_1")
A, B = ToolCallId("call_a"), ToolCallId("call_b")


def fold(*events: ev.Event):
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
    return transcript.messages()


def prompt(text: str) -> ev.UserMessage:
    return ev.UserMessage(MessageId("msg_u"), (Text(text),))


def prepared(call: ToolCallId, arguments: str = "{}") -> ev.ToolCallPrepared:
    return ev.ToolCallPrepared(call, "read_file", arguments, "theirs", "0" * 64)


def settled(call: ToolCallId, result: str, effect: Effect = Effect.COMMITTED) -> ev.ToolCallSettled:
    return ev.ToolCallSettled(call, effect, result)


END = ev.ReplyEnded("lab", "m", None)
IDLE = ev.Idle(StopReason.END_TURN)


def test_a_plain_exchange():
    assert fold(prompt("hi"), ev.AgentMessageChunk(M, "hel"), ev.AgentMessageChunk(M, "lo"), END, IDLE) == (
        UserSaid("hi"),
        AssistantSaid("hello"),
    )


def test_a_reply_and_its_calls_stand_together_and_the_next_reply_apart():
    assert fold(
        prompt("go"),
        ev.AgentMessageChunk(M, "I look."),
        prepared(A, '{"path":"a"}'),
        prepared(B),
        END,
        settled(B, "b's text"),
        settled(A, "no such file", Effect.FAILED),
        ev.AgentMessageChunk(MessageId("msg_2"), "done"),
        END,
        IDLE,
    ) == (
        UserSaid("go"),
        AssistantSaid("I look.", (CallMade(A, "read_file", '{"path":"a"}'), CallMade(B, "read_file", "{}"))),
        ToolAnswered(A, "read_file", "no such file", failed=True),
        ToolAnswered(B, "read_file", "b's text"),
        AssistantSaid("done"),
    )


def test_a_call_that_never_settled_has_a_result_that_says_so():
    assert fold(prompt("go"), prepared(A), END, prompt("again"))[2] == ToolAnswered(
        A, "read_file", OUTCOME_UNKNOWN, failed=True
    )


def test_a_cancelled_reply_keeps_what_was_said_and_is_marked_cut():
    cancelled = ev.Idle(StopReason.CANCELLED)
    assert fold(prompt("A"), ev.AgentMessageChunk(M, "half"), cancelled, prompt("B")) == (
        UserSaid("A"),
        AssistantSaid("half", cut=True),
        UserSaid("B"),
    )


def test_our_own_sentences_and_thoughts_are_not_the_models():
    assert fold(
        prompt("go"),
        ev.AgentThoughtChunk(M, "hmm"),
        ev.AgentMessage(M, "The server is down.", spoken_by_model=False),
        ev.Idle(StopReason.ERROR),
    ) == (UserSaid("go"),)


def test_what_a_provider_wants_back_stays_with_its_reply():
    assert fold(prompt("x"), ev.AgentMessageChunk(M, "y"), ev.ReplyEnded("lab", "m", '{"sig":1}'))[
        1
    ] == AssistantSaid("y", opaque=Opaque("lab", "m", '{"sig":1}'))


def test_a_link_is_given_by_its_absolute_path():
    link = ResourceLink("é.txt", "file:///ws/a%20b/%C3%A9.txt")
    event = ev.UserMessage(M, (Text("see"), link, ResourceLink("page", "https://example.com/%20")))
    assert fold(event) == (
        UserSaid(
            "see\n[referenced resource: /ws/a b/é.txt (é.txt)]\n"
            "[referenced resource: https://example.com/%20 (page)]"
        ),
    )


K = CompactionId("comp_1")
BEGINS = ev.CompactionUpdate(K, ev.CompactionStatus.IN_PROGRESS)


def compacted(summary: str = "s", kept: int = 0) -> ev.CompactionUpdate:
    return ev.CompactionUpdate(K, ev.CompactionStatus.COMPLETED, summary, kept=kept)


def summarised(summary: str = "s", more: str = "") -> UserSaid:
    return UserSaid(f"{SUMMARY}{summary}{more}")


def test_a_summary_stands_for_all_that_was_said_before_and_marks_itself():
    before = [prompt("go"), prepared(A), END, settled(A, "a's text"), ev.AgentMessageChunk(M, "done"), END]
    after = [IDLE, prompt("more"), ev.AgentMessageChunk(M, "yes"), END]
    assert fold(*before, BEGINS, END, compacted(), *after) == (
        summarised(),
        UserSaid("more"),
        AssistantSaid("yes"),
    )
    assert "no new message of the person" in SUMMARY
    assert "follow no other order in it" in SUMMARY


def test_a_summary_may_stand_for_a_summary_and_within_a_turn():
    within = [prompt("go"), prepared(A), END, settled(A, "r"), BEGINS, END, compacted("one")]
    goes_on = [prepared(B), END, settled(B, "r2")]
    assert fold(*within, *goes_on) == (
        summarised("one"),
        AssistantSaid("", (CallMade(B, "read_file", "{}"),)),
        ToolAnswered(B, "read_file", "r2"),
    )
    assert fold(*within, *goes_on, BEGINS, END, compacted("two")) == (summarised("two"),)


def test_a_compaction_that_failed_changes_nothing():
    said = [prompt("go"), ev.AgentMessageChunk(M, "half")]
    for status in (ev.CompactionStatus.FAILED, ev.CompactionStatus.CANCELLED, ev.CompactionStatus.COMPLETED):
        ended = ev.CompactionUpdate(K, status, error="why")  # a summary that is missing is none
        assert fold(*said, END, BEGINS, END, ended, IDLE, prompt("on")) == (
            UserSaid("go"),
            AssistantSaid("half"),
            UserSaid("on"),
        )
        assert fold(*said, BEGINS, END, ended)[1] == AssistantSaid("half", cut=True), (
            "the reply is not the end"
        )


def test_images_go_with_what_was_said():
    image = ev.UserMessage(M, (Text("see"), Image("image/png", "iVBORw0KGgo=")))
    assert fold(image, IDLE, BEGINS, compacted(), prompt("on")) == (summarised(), UserSaid("on"))


def test_a_mode_that_the_model_was_told_is_told_with_the_summary():
    plan = ev.OptionChosen(OptionId.MODE, "plan")
    said = [plan, prompt("go"), IDLE, BEGINS, compacted()]
    told = summarised(more=f"\n\n{MODE_TOLD[Mode.PLAN]}")
    assert fold(*said, prompt("on")) == (told, UserSaid("on"))
    ended = ev.OptionChosen(OptionId.MODE, "standard")
    assert fold(*said, ended, prompt("on")) == (told, UserSaid(MODE_TOLD[Mode.STANDARD]), UserSaid("on"))
    untold = [prompt("go"), plan, BEGINS, compacted(), prompt("on")]
    assert fold(*untold) == (summarised(), UserSaid(MODE_TOLD[Mode.PLAN]), UserSaid("on"))


def test_a_prompt_that_leaves_no_trace_takes_its_compactions_back():
    transcript = Transcript()
    for event in (prompt("go"), ev.AgentMessageChunk(M, "done"), END, IDLE):
        transcript.apply(event)
    before = transcript.messages()
    mark = transcript.mark()
    for event in (prompt("a"), BEGINS, END, compacted("one"), prompt("b"), compacted("two"), prompt("c")):
        transcript.apply(event)
    transcript.rewind(mark)
    assert transcript.messages() == before
    transcript.apply(compacted("three"))
    later = transcript.mark()
    transcript.apply(prompt("d"))
    transcript.rewind(later)
    assert transcript.messages() == (summarised("three"),), "what was compacted before a mark stays so"


def test_there_is_something_to_compact_behind_a_summary_only():
    transcript = Transcript()
    assert not transcript.compactable()
    for event, compactable in ((prompt("go"), True), (compacted(), False), (prompt("on"), True)):
        transcript.apply(event)
        assert transcript.compactable() is compactable


TWO_ROUNDS = [
    prompt("old"),
    ev.AgentMessageChunk(M, "yes"),
    END,
    IDLE,
    prompt("go"),
    prepared(A),
    END,
    settled(A, "a's text"),
    prepared(B),
    END,
    settled(B, "b's text"),
]
LAST_ROUND = (AssistantSaid("", (CallMade(B, "read_file", "{}"),)), ToolAnswered(B, "read_file", "b's text"))


def test_what_is_kept_stands_behind_the_summary_and_the_persons_last_words():
    one = fold(*TWO_ROUNDS, BEGINS, END, compacted(kept=2))
    assert one == (summarised(more=KEPT_AFTER_WORDS), UserSaid("go"), *LAST_ROUND)
    again = [prepared(A), END, settled(A, "r"), BEGINS, END, compacted("t", kept=2)]
    assert fold(*TWO_ROUNDS, BEGINS, END, compacted(kept=2), *again) == (
        summarised("t", KEPT_AFTER_WORDS),
        UserSaid("go"),
        AssistantSaid("", (CallMade(A, "read_file", "{}"),)),
        ToolAnswered(A, "read_file", "r"),
    )


def test_words_of_the_person_that_are_kept_are_not_told_twice():
    whole = fold(*TWO_ROUNDS)
    assert fold(*TWO_ROUNDS, BEGINS, END, compacted(kept=5)) == (summarised(more=KEPT), *whole[-5:])
    asked = fold(*TWO_ROUNDS, IDLE, prompt("next"), BEGINS, END, compacted(kept=1))
    assert asked == (summarised(more=KEPT), UserSaid("next"))


@pytest.mark.parametrize(("kept", "stays"), [(1, 2), (3, 4), (99, 7)])
def test_a_reply_is_never_cut_from_its_results_whatever_was_lost(kept, stays):
    """A journal may have lost rows, so that the number falls elsewhere than it did."""
    whole = fold(*TWO_ROUNDS)
    told = fold(*TWO_ROUNDS, BEGINS, END, compacted(kept=kept))
    assert told[len(told) - stays :] == whole[len(whole) - stays :]
    assert len(told) == stays + (1 if stays == 7 else 2)


def test_a_mode_that_is_told_in_what_is_kept_is_not_told_with_the_summary():
    plan, standard = (ev.OptionChosen(OptionId.MODE, mode) for mode in ("plan", "standard"))
    said = [plan, prompt("look"), IDLE, standard, prompt("go"), BEGINS]
    over = UserSaid(MODE_TOLD[Mode.STANDARD])
    assert fold(*said, compacted(kept=2)) == (summarised(more=KEPT), over, UserSaid("go"))
    before = fold(plan, prompt("look"), IDLE, prompt("go"), BEGINS, compacted(kept=1))
    assert before == (summarised(more=f"\n\n{MODE_TOLD[Mode.PLAN]}{KEPT}"), UserSaid("go"))


def test_images_of_what_is_kept_are_kept():
    image = ev.UserMessage(M, (Text("see"), Image("image/png", "iVBORw0KGgo=")))
    told = fold(prompt("old"), IDLE, image, prepared(A), END, settled(A, "r"), BEGINS, compacted(kept=2))
    assert [len(message.images) for message in told if isinstance(message, UserSaid)] == [0, 1]


def counted(tokens: int, opaque: str | None = None) -> ev.ReplyEnded:
    usage = Usage(input_tokens=tokens, output_tokens=30, thought_tokens=20)
    return ev.ReplyEnded("lab", "m", opaque, usage)


def test_a_count_is_of_the_messages_up_to_its_reply_and_of_no_summary():
    transcript = Transcript()

    def reading(*events):
        for event in events:
            transcript.apply(event)
        return transcript.reading

    assert reading(prompt("go")) is None
    by = ("lab", "m")
    assert reading(prepared(A), counted(100), settled(A, "r")) == Reading(110, 2, 100, by)
    assert reading(ev.AgentMessageChunk(M, "half"), IDLE) == Reading(110, 2, 100, by), "it was not counted"
    assert reading(counted(0), IDLE) == Reading(110, 2, 100, by), "nor is what a server says it read none of"
    second = Reading(230, 6, 200, by)
    assert reading(prompt("on"), ev.AgentMessageChunk(M, "x"), counted(200, "{}")) == second
    mark = transcript.mark()
    failed = ev.CompactionUpdate(K, ev.CompactionStatus.FAILED, error="why")
    assert reading(BEGINS, counted(999), failed) == second, "the history is as it was"
    assert reading(prompt("b"), prepared(B), counted(300), BEGINS, counted(999), compacted(kept=2)) is None
    transcript.take_back_compaction()
    assert transcript.reading == Reading(310, 8, 300, by)
    transcript.rewind(mark)
    assert transcript.reading == second
    assert reading(counted(400)) == Reading(410, 6, 400, by), "a reply without words is no message"


def test_only_the_last_compaction_is_taken_back():
    transcript = Transcript()
    transcript.mark()
    for event in (*TWO_ROUNDS, BEGINS, END, compacted("one", kept=2)):
        transcript.apply(event)
    before = transcript.messages()
    for event in (BEGINS, END, compacted("two", kept=2), ev.AgentMessageChunk(M, "x")):
        transcript.apply(event)
    for _ in range(2):
        transcript.take_back_compaction()
        assert transcript.messages() == before
    assert transcript.summary == summarised("one", KEPT_AFTER_WORDS)


def test_what_a_compaction_leaves_is_nothing_to_compact_again():
    transcript = Transcript()
    for event in (*TWO_ROUNDS, BEGINS, END, compacted(kept=2)):
        transcript.apply(event)
    assert (transcript.prompt, transcript.compactable()) == (1, True)
    assert [transcript.compactable(kept) for kept in (1, 2, 3, 4)] == [False] * 4
    for event in (prepared(A), END):
        transcript.apply(event)
    assert [transcript.compactable(kept) for kept in (2, 4)] == [True, False]


_EVENTS = st.lists(
    st.one_of(
        st.just(prompt("p")),
        st.just(ev.AgentMessageChunk(M, "t")),
        st.sampled_from([A, B, ToolCallId("call_c")]).map(prepared),
        st.sampled_from([A, B, ToolCallId("call_c")]).map(lambda call: settled(call, "r")),
        st.just(END),
        st.just(counted(100)),
        st.just(IDLE),
        st.sampled_from([BEGINS, compacted("one"), compacted("two")]),
        st.integers(1, 9).map(lambda kept: compacted("kept", kept)),
        st.sampled_from([ev.OptionChosen(OptionId.MODE, mode) for mode in Mode]),
    ),
    max_size=30,
)


def chosen(mode: Mode | str) -> ev.OptionChosen:
    return ev.OptionChosen(OptionId.MODE, mode)


def told(mode: Mode) -> UserSaid:
    return UserSaid(MODE_TOLD[mode])


def test_a_mode_is_told_once_before_the_next_words_and_so_is_its_end():
    assert fold(
        chosen(Mode.STANDARD),
        prompt("a"),
        IDLE,
        chosen(Mode.ASK),
        chosen(Mode.PLAN),
        prompt("b"),
        IDLE,
        prompt("c"),
        chosen(Mode.STANDARD),
        ev.AgentMessageChunk(M, "said"),
        IDLE,
        prompt("d"),
    ) == (
        UserSaid("a"),
        told(Mode.PLAN),
        UserSaid("b"),
        UserSaid("c"),
        AssistantSaid("said", cut=True),
        told(Mode.STANDARD),
        UserSaid("d"),
    )


def test_a_mode_that_was_left_before_anything_was_said_is_not_told():
    assert fold(chosen(Mode.PLAN), chosen(Mode.STANDARD), prompt("a")) == (UserSaid("a"),)


@pytest.mark.parametrize("over", [[IDLE], []], ids=["", "term2 was killed then"])
def test_a_mode_that_came_and_went_while_the_model_was_at_work_is_told_to_be_over(over):
    """It read in the result of a call that plan mode is on, and nothing else would say that it is not."""
    call = (prepared(A), END, settled(A, "Plan mode is on.", Effect.FAILED))
    answered = (
        AssistantSaid("", (CallMade(A, "read_file", "{}"),)),
        ToolAnswered(A, "read_file", "Plan mode is on.", failed=True),
    )
    during = [prompt("a"), chosen(Mode.PLAN), *call]
    back = chosen(Mode.STANDARD)
    expected = UserSaid("a"), *answered, told(Mode.STANDARD), UserSaid("b"), UserSaid("c")
    assert fold(*during, back, *over, prompt("b"), IDLE, prompt("c")) == expected
    command = ev.UserMessage(M, (Text("/help"),), to_model=False)
    assert fold(*during, back, *over, command, IDLE, prompt("b"), IDLE, prompt("c")) == expected
    summary = fold(*during, back, *over, BEGINS, compacted(), prompt("b"))
    assert summary == (summarised(), told(Mode.STANDARD), UserSaid("b"))


def test_a_mode_that_is_set_again_while_the_model_is_at_work_is_not_told_again():
    said = fold(chosen(Mode.PLAN), prompt("a"), chosen(Mode.PLAN), IDLE, prompt("b"))
    assert said == (told(Mode.PLAN), UserSaid("a"), UserSaid("b"))


def test_a_mode_of_a_newer_term2_and_other_options_are_told_nobody():
    model = ev.OptionChosen(OptionId.MODEL, "plan")
    assert fold(chosen("reckless"), model, prompt("a")) == (UserSaid("a"),)


def test_a_refused_prompt_takes_the_telling_of_its_mode_along():
    transcript = Transcript()
    transcript.apply(chosen(Mode.PLAN))
    mark = transcript.mark()
    transcript.apply(prompt("lost"))
    transcript.rewind(mark)
    transcript.apply(prompt("kept"))
    assert transcript.messages() == (told(Mode.PLAN), UserSaid("kept"))


def test_a_command_is_told_nobody_and_keeps_the_mode_for_the_next_words():
    command = ev.UserMessage(M, (Text("/plan"),), to_model=False)
    answer = ev.AgentMessage(M, "Plan mode is on.", spoken_by_model=False)
    assert fold(prompt("a"), IDLE, chosen(Mode.PLAN), command, answer, IDLE, prompt("b")) == (
        UserSaid("a"),
        told(Mode.PLAN),
        UserSaid("b"),
    )


def test_a_prompt_is_told_without_the_command_that_it_begins_with():
    link = ResourceLink("a", "file:///ws/a")
    blocks = (link, Text(" /plan  fix it"), Text("/plan b"))
    event = ev.UserMessage(M, blocks, command_length=8)
    assert fold(event) == (UserSaid("[referenced resource: /ws/a (a)]\nfix it\n/plan b"),)
    assert event.content == blocks, "it is shown as it was typed"
    bare = ev.UserMessage(M, (Text("/plan "), link), command_length=6)
    assert fold(bare) == (UserSaid("[referenced resource: /ws/a (a)]"),)


LOST = ev.RecordsLost(7, 1, 0)


def test_that_records_are_lost_is_told_once_before_the_next_words_of_the_person():
    command = ev.UserMessage(M, (Text("/help"),), to_model=False)
    said = [prompt("a"), ev.AgentMessageChunk(M, "x"), LOST, LOST, ev.AgentMessageChunk(M, "y"), END, IDLE]
    assert fold(*said, command, IDLE, prompt("b"), IDLE, prompt("c")) == (
        UserSaid("a"),
        AssistantSaid("xy"),
        UserSaid(RECORD_LOST),
        UserSaid("b"),
        UserSaid("c"),
    )
    transcript = Transcript()
    for event in said:
        transcript.apply(event)
    mark = transcript.mark()
    transcript.apply(prompt("refused"))
    transcript.rewind(mark)
    transcript.apply(prompt("b"))
    assert transcript.messages()[-2:] == (UserSaid(RECORD_LOST), UserSaid("b")), "it is told with the next"


def test_of_a_reply_with_a_gap_nothing_goes_back_that_is_good_with_the_whole_only():
    back = ev.ReplyEnded("lab", "m", '{"sig":1}')
    said = ev.AgentMessageChunk(M, "y")
    assert fold(prompt("x"), said, LOST, back)[1] == AssistantSaid("y")
    whole = AssistantSaid("y", opaque=Opaque("lab", "m", '{"sig":1}'))
    assert fold(prompt("x"), said, back, LOST)[1] == whole


def test_the_first_settlement_of_a_call_stands():
    twice = [settled(A, "first"), settled(A, "late", Effect.FAILED)]
    assert fold(prompt("go"), prepared(A), END, *twice)[2] == ToolAnswered(A, "read_file", "first")


@given(_EVENTS, st.data())
def test_a_mark_at_any_place_brings_back_what_was_there(events, data):
    place = data.draw(st.integers(0, len(events)))
    transcript = Transcript()
    for event in events[:place]:
        transcript.apply(event)
    mark = transcript.mark()  # it ends the reply that was being made
    before = transcript.messages()
    for event in events[place:]:
        transcript.apply(event)
    transcript.rewind(mark)
    assert transcript.messages() == before


@given(_EVENTS)
def test_a_summary_stands_for_all_but_what_is_kept_and_the_last_words(events):
    last = max((n for n, event in enumerate(events) if isinstance(event, ev.CompactionUpdate)), default=None)
    if last is None or events[last] == BEGINS:
        return
    kept, before = events[last].kept, fold(*events[:last])
    first, *stays = fold(*events[: last + 1])
    assert first.text.startswith(f"{SUMMARY}{events[last].summary}")
    if not kept or not before:
        assert stays == []
    else:
        least = before[-kept:]
        assert tuple(stays[len(stays) - len(least) :]) == least
        assert (UserSaid("p") in stays) == (UserSaid("p") in before)
    words = [message for message in fold(*events) if message == UserSaid("p")]
    later = sum(isinstance(event, ev.UserMessage) for event in events[last:])
    assert len(words) == later + stays.count(UserSaid("p"))


@given(_EVENTS)
def test_every_prefix_is_well_paired(events):
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
        waiting: list[str] = []
        for message in transcript.messages():
            if isinstance(message, ToolAnswered):
                assert waiting, "a result without its call"
                assert waiting.pop(0) == message.call_id
                continue
            assert not waiting, "a call without its result"
            if isinstance(message, AssistantSaid):
                waiting = [call.call_id for call in message.calls]
                assert message.text or waiting, "an empty reply"
        assert not waiting
        assert transcript.reading is None or transcript.reading.messages <= len(transcript.messages())
