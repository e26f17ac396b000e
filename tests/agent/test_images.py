"""Images in the history that a model is given: how a prompt with some is told, which of them are sent, and
when they are let go so that no conversation is lost to a picture."""

import pytest

from term2_acp.agent.images import in_words, within_bounds
from term2_acp.agent.transcript import Transcript
from term2_acp.domain import events as ev
from term2_acp.domain.content import MAX_IMAGES, MAX_IMAGES_BYTES, Image, ResourceLink, Text
from term2_acp.domain.ids import MessageId
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.providers.base import AssistantSaid, UserSaid
from term2_acp.providers.base import Image as Shown
from tests.kit.pictures import base64_of, picture

DATA = base64_of(picture())
PLAIN = Image("image/png", DATA)
SHOWN = Shown("image/png", DATA)
NOTE = "[an image was attached here, which is not shown to you]"
END = ev.ReplyEnded("lab", "m", None)


def prompt(*content):
    return ev.UserMessage(MessageId("msg_u"), content)


def fold(*events):
    transcript = Transcript()
    for event in events:
        transcript.apply(event)
    return transcript.messages()


def reply(text):
    return (ev.AgentMessageChunk(MessageId("msg_a"), text), END, ev.Idle(StopReason.END_TURN))


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ((PLAIN,), UserSaid("", (SHOWN,))),
        ((Text("look"), PLAIN), UserSaid("look", (SHOWN,))),
        ((PLAIN, PLAIN, Text("compare")), UserSaid("compare", (SHOWN, SHOWN))),
        ((Text("this"), PLAIN, Text("like")), UserSaid("this\n[image 1]\nlike", (SHOWN,))),
        (
            (PLAIN, Text("or"), PLAIN, Text("?")),
            UserSaid("[image 1]\nor\n[image 2]\n?", (SHOWN, SHOWN)),
        ),
        (
            (ResourceLink("a", "file:///w/a"), PLAIN),
            UserSaid("[referenced resource: /w/a (a)]", (SHOWN,)),
        ),
        (
            (Text("move"), Image("image/png", DATA, "file:///w/a%20b.png")),
            UserSaid("move\n[image 1: /w/a b.png]", (SHOWN,)),
        ),
        ((Text("see"), Image("IMAGE/png", DATA, "https://h/a.png")), UserSaid("see", (SHOWN,))),
    ],
)
def test_a_prompt_with_images(content, told):
    assert fold(prompt(*content)) == (told,)


def test_the_history_holds_the_very_text_that_came_in_and_no_copy():
    (said,) = fold(prompt(Text("x"), PLAIN))
    assert said.images[0].data is DATA


def test_images_stay_in_the_history_for_the_next_request():
    assert fold(prompt(Text("a"), PLAIN), *reply("b"), prompt(Text("c"))) == (
        UserSaid("a", (SHOWN,)),
        AssistantSaid("b"),
        UserSaid("c"),
    )


# -- the bounds of a request ---------------------------------------------------------------------------


def test_the_newest_images_are_sent_and_a_prompt_keeps_its_own_all_or_none():
    half = [PLAIN] * (MAX_IMAGES // 2)
    told = fold(prompt(Text("1"), PLAIN, PLAIN), prompt(Text("2"), *half), prompt(Text("3"), *half))
    assert told == (
        UserSaid("1\n[2 images were attached here, which are not shown to you]"),
        UserSaid("2", (SHOWN,) * len(half)),
        UserSaid("3", (SHOWN,) * len(half)),
    )


def test_the_bytes_of_all_images_together_are_bounded():
    half = Image("image/png", base64_of(picture(size=MAX_IMAGES_BYTES // 2)))
    told = fold(prompt(Text("1"), PLAIN), prompt(Text("2"), half), prompt(Text("3"), half))
    assert [len(said.images) for said in told] == [0, 1, 1]
    assert told[0] == UserSaid(f"1\n{NOTE}")


def test_an_older_image_does_not_come_back_when_a_newer_one_is_too_much():
    """The images that are sent are the newest in one run: the same from one request to the next."""
    many = [PLAIN] * MAX_IMAGES
    told = fold(prompt(Text("1"), PLAIN), prompt(Text("2"), *many), prompt(Text("3"), PLAIN))
    assert [len(said.images) for said in told] == [0, 0, 1]


def test_what_no_request_will_hold_again_is_let_go():
    transcript = Transcript()
    for number in range(5):
        transcript.apply(prompt(Text(str(number)), *[PLAIN] * MAX_IMAGES))
    kept = [message for message in transcript._done if message.images]
    assert len(kept) == 2  # the newest, and the one before it, which could come back if that is taken back


def test_a_history_without_images_is_as_it_was():
    history = (UserSaid("a"), AssistantSaid("b"))
    assert within_bounds(history) == list(history)
    assert [in_words(message) for message in history] == list(history)


# -- a request that was refused ------------------------------------------------------------------------


def failed(code):
    return ev.Idle(StopReason.ERROR, Failure(code, "No."))


@pytest.mark.parametrize("code", ["provider_refused", "context_overflow"])
def test_after_a_refused_request_no_image_is_sent_again(code):
    told = fold(
        prompt(Text("1"), PLAIN), *reply("seen"), prompt(PLAIN), failed(code), prompt(Text("go on"), PLAIN)
    )
    assert told == (
        UserSaid(f"1\n{NOTE}"),
        AssistantSaid("seen"),
        UserSaid(NOTE),
        UserSaid("go on", (SHOWN,)),
    )


@pytest.mark.parametrize("code", ["provider_unreachable", "provider_overloaded", "provider_auth", "internal"])
def test_after_any_other_failure_they_are(code):
    assert fold(prompt(Text("1"), PLAIN), failed(code), prompt(Text("again"))) == (
        UserSaid("1", (SHOWN,)),
        UserSaid("again"),
    )


def test_a_turn_that_is_taken_back_takes_its_refusal_with_it():
    transcript = Transcript()
    for event in (prompt(Text("1"), PLAIN), *reply("seen")):
        transcript.apply(event)
    mark = transcript.mark()
    for event in (prompt(Text("2")), failed("provider_refused")):
        transcript.apply(event)
    transcript.rewind(mark)
    transcript.apply(prompt(Text("3")))
    assert transcript.messages() == (UserSaid("1", (SHOWN,)), AssistantSaid("seen"), UserSaid("3"))


def test_the_refusals_of_the_providers_are_the_words_that_are_looked_for():
    from term2_acp.agent.transcript import _REFUSED

    assert frozenset({"provider_refused", "context_overflow"}) == _REFUSED
