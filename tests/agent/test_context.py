"""How much a request takes and where a history is cut: what is counted and what is estimated, which windows
there is a word about, and that what is kept fits, is well paired, and is never less than the work at hand."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.agent.context import (
    RESERVE_TOKENS,
    SEALED_TOKENS,
    SMALLEST_WINDOW,
    TOKENS_A_MESSAGE,
    TOKENS_AN_IMAGE,
    Reading,
    estimate,
    fixed_tokens,
    groups_of,
    kept_of,
    kept_room_of,
    kept_tokens,
    limit_of,
    next_tokens,
    overflowed,
    start_of,
    stated_of,
    summary_tokens,
    summary_words,
    tokens_of,
    window_of,
)
from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    ContextOverflow,
    Failed,
    Finish,
    Finished,
    Image,
    ModelInfo,
    Opaque,
    RequestRefused,
    ToolAnswered,
    ToolSpec,
    UserSaid,
)


def called(call_id: str, size: int = 0) -> tuple[AssistantSaid, ToolAnswered]:
    result = "xxx " * (size // 4) + "x" * (size % 4)
    return AssistantSaid("", (CallMade(call_id, "reads", "{}"),)), ToolAnswered(call_id, "reads", result)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("abcd", 1),
        ("abcde", 2),
        ("ab c\nefg", 2),
        ("0123", 2),
        ("{};,", 2),
        ("ab12", 2),
        ("é" * 4, 3),
        ("漢" * 4, 4),
        ("abcd漢", 2),
        ("\ud800", 1),
        ("😀" * 3, 4),
        ("some " * 1000, 1250),
        ("A" * 2047, 512),
        ("A" * 2048, 1024),
        ("A" * 2048 + " " * 33, 521),
    ],
    ids=lambda value: repr(value)[:12],
)
def test_a_text_has_the_tokens_of_what_it_is_made_of(text, tokens):
    assert tokens_of(text) == tokens


def test_what_is_no_text_is_not_estimated_as_if_it_were_one():
    """Tokenizers make a token of 1.3 to 3 characters of these."""
    data = bytes(range(256)) * 40
    for text in (base64.b64encode(data).decode(), data.hex(), json.dumps(list(data), separators=(",", ":"))):
        assert tokens_of(text) == -(-len(text) // 2)
    lines = "\n".join(base64.b64encode(data[place : place + 57]).decode() for place in range(0, 9_000, 57))
    assert tokens_of(lines) > len(lines) / 2.2, "in lines, as in mails and keys"


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (UserSaid("x" * 40), 10),
        (UserSaid("some " * 1000), 1250),
        (UserSaid("", (Image("image/png", "A" * 1_000_000),)), TOKENS_AN_IMAGE),
        (ToolAnswered("c", "n", "x" * 40), 10),
        (AssistantSaid("x" * 40, (CallMade("c", "name", "x" * 8),)), 10 + TOKENS_A_MESSAGE + 3),
        (AssistantSaid("", opaque=Opaque("p", "m", "x" * 400)), 100),
        (AssistantSaid("", opaque=Opaque("p", "m", "x" * 8_000_000)), SEALED_TOKENS),
    ],
)
def test_everything_of_a_message_is_estimated(message, tokens):
    assert estimate([message]) == TOKENS_A_MESSAGE + tokens


def test_what_stands_in_every_request_is_the_system_prompt_and_the_tools():
    assert fixed_tokens("x" * 40, ()) == 10
    tool = ToolSpec("name", "x" * 400, {"type": "object"})
    assert fixed_tokens("", (tool,)) == TOKENS_A_MESSAGE + 1 + 100 + 6


def test_what_was_counted_is_not_estimated():
    history = [UserSaid("some " * 800), AssistantSaid("y"), ToolAnswered("c", "n", "z" * 40)]
    assert next_tokens(history, None, 50) == 50 + estimate(history)
    assert next_tokens(history, Reading(700, 2), 50) == 700 + TOKENS_A_MESSAGE + 10
    assert next_tokens(history, Reading(700, 3), 50) == 700


def test_there_is_a_word_about_known_windows_that_are_large_enough():
    assert window_of(ModelInfo(200_000)) == 200_000
    assert window_of(ModelInfo(SMALLEST_WINDOW)) == SMALLEST_WINDOW
    assert window_of(ModelInfo(SMALLEST_WINDOW - 1)) is None
    assert window_of(ModelInfo(context_assumed=True)) is None
    stated = [stated_of(ModelInfo(tokens)) for tokens in (0, 1, 4_096, 10**12)]
    assert stated == [None, 1, 4_096, 10**12]
    assert stated_of(ModelInfo(context_assumed=True)) is None


def test_some_of_a_window_is_left_for_the_reply_and_some_may_be_kept():
    assert [limit_of(window) for window in (8_000, 100_000)] == [6_000, 75_000]
    assert limit_of(1_000_000) == 1_000_000 - RESERVE_TOKENS
    assert kept_room_of(8_000) == 2_000
    assert [summary_words(window) for window in (8_000, 16_000, 1_000_000, None)] == [500, 1000, 1500, 1500]
    assert [summary_words(window) for window in (1, 1_600, 3_100)] == [100, 100, 100]
    assert summary_tokens(8_000) == 1_250


def test_an_overflow_is_the_providers_word():
    assert overflowed(Failed(ContextOverflow("too long")))
    assert not overflowed(Failed(RequestRefused("no")))
    assert not overflowed(Finished(Finish.LENGTH))
    assert not overflowed(None)


OLD = (UserSaid("old"), *called("a", 4000), AssistantSaid("did it"))
NOW = (UserSaid("go"), *called("b", 4000), *called("c", 4000))


@pytest.mark.parametrize(
    ("history", "prompt", "room", "kept"),
    [
        ((), None, 100, 0),
        ((UserSaid("go"),), 0, 0, 1),
        ((*OLD, UserSaid("go")), 4, 0, 1),
        ((*OLD, UserSaid("go")), 4, 1050, 1),  # the end of the turn before fits, but not the whole of it
        ((*OLD, UserSaid("go")), 4, 1200, 5),
        ((*OLD, *NOW), 4, 0, 2),
        ((*OLD, *NOW), 4, 1100, 2),
        ((*OLD, *NOW), 4, 2200, 5),
        ((*OLD, *NOW), 4, 9999, 9),
        ((*OLD, *NOW), None, 2070, 5),
        ((*OLD, *NOW), None, 2080, 6),
    ],
)
def test_the_last_turns_are_kept_while_they_fit_and_always_the_work_at_hand(history, prompt, room, kept):
    assert kept_of(history, room, prompt) == kept


def test_the_persons_last_words_are_told_once():
    history = (*OLD, *NOW)
    assert kept_tokens(history, 2, 4) == estimate([UserSaid("go"), *NOW[-2:]])
    assert kept_tokens(history, 5, 4) == estimate(NOW)
    assert kept_tokens(history, 0, 4) == 0


_GROUPS = st.lists(
    st.one_of(
        st.just((UserSaid("p"),)),
        st.just((AssistantSaid("said"),)),
        st.integers(0, 300).map(lambda size: called("a", size)),
        st.just(
            (AssistantSaid("", (CallMade("a", "n", "{}"), CallMade("b", "n", "{}"))),) + called("a")[1:] * 2
        ),
    ),
    max_size=12,
)


@given(_GROUPS, st.integers(0, 400), st.integers(0, 30))
def test_a_cut_is_never_within_a_group(groups, room, number):
    history = [message for group in groups for message in group]
    assert [tuple(group) for group in groups_of(history)] == groups
    begins = {sum(map(len, groups[:place])) for place in range(len(groups) + 1)}
    start = start_of(history, number)
    assert start in begins
    assert len(history) - start >= min(number, len(history))
    prompt = max((n for n, message in enumerate(history) if isinstance(message, UserSaid)), default=None)
    kept = kept_of(history, room, prompt)
    assert start_of(history, kept) == len(history) - kept
    if history:
        assert kept >= len(groups[-1])
        assert kept == len(groups[-1]) or estimate(history[len(history) - kept :]) <= room
