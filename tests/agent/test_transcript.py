"""The history a provider is given: what is folded from which events, and that it is well paired at every
prefix of any sequence, cancelled, crashed or whole."""

from hypothesis import given
from hypothesis import strategies as st

from term2_acp.agent.transcript import OUTCOME_UNKNOWN, Transcript
from term2_acp.domain import events as ev
from term2_acp.domain.content import ResourceLink, Text
from term2_acp.domain.ids import MessageId, ToolCallId
from term2_acp.domain.toolcall import Effect
from term2_acp.domain.turn import StopReason
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


_EVENTS = st.lists(
    st.one_of(
        st.just(prompt("p")),
        st.just(ev.AgentMessageChunk(M, "t")),
        st.sampled_from([A, B, ToolCallId("call_c")]).map(prepared),
        st.sampled_from([A, B, ToolCallId("call_c")]).map(lambda call: settled(call, "r")),
        st.just(END),
        st.just(IDLE),
    ),
    max_size=30,
)


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
