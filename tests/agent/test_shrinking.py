"""A history that is made smaller for a summary: it fits, it is well paired, each gap says so, and what there
is no other record of (the earlier summary, the newest words) is what stays longest."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.agent.context import estimate
from term2_acp.agent.shrinking import CUTS, cut_text, shrunk
from term2_acp.providers.base import AssistantSaid, CallMade, Image, Opaque, ToolAnswered, UserSaid

SUMMARY = UserSaid("What came before.")


def test_what_fits_is_left_alone():
    history = [
        UserSaid("see", (Image("image/png", "AAAA"),)),
        AssistantSaid("x", opaque=Opaque("p", "m", "1")),
    ]
    assert shrunk(history, estimate(history), None) is history


def test_a_text_is_cut_in_its_middle_and_says_how_much_is_gone():
    assert cut_text("abcdef", 6) == "abcdef"
    assert cut_text("a" * 60 + "b" * 60, 20) == (
        f"{'a' * 10}\n[term2: 100 characters are left out here]\n{'b' * 10}"
    )


def test_what_is_long_is_cut_first_and_images_are_told_in_words():
    history = [
        SUMMARY,
        UserSaid("w" * 100_000, (Image("image/png", "AAAA"),)),
        AssistantSaid(
            "t" * 100_000,
            (CallMade("a", "n", msgspec.json.encode({"content": "c" * 100_000}).decode()),),
            Opaque("p", "m", "x" * 100_000),
        ),
        ToolAnswered("a", "n", "r" * 100_000, failed=True),
        AssistantSaid("short", cut=True),
    ]
    told = shrunk(history, 5 * CUTS[1] // 4, SUMMARY)
    first, words, said, answered, last = told
    assert (first, last) == (SUMMARY, AssistantSaid("short", cut=True))
    assert words.images == ()
    assert words.text.endswith("[an image was attached here, which is not shown to you]")
    assert "characters are left out here" in words.text
    assert said.opaque is None
    assert len(said.text) < 1.1 * CUTS[1]
    assert "characters are left out here" in msgspec.json.decode(said.calls[0].arguments)["shortened"]
    assert answered.failed
    assert answered.result.startswith("r" * 1000)
    assert answered.result.endswith("r" * 1000)
    assert estimate(told) <= 5 * CUTS[1] // 4


def test_then_the_oldest_go_and_the_earlier_summary_stays():
    history = [SUMMARY, *(UserSaid(f"{number} " + "x" * 1000) for number in range(100))]
    told = shrunk(history, 3000, SUMMARY)
    assert told[0] == SUMMARY
    kept = told[2:]
    assert told[1] == UserSaid(
        f"[term2: {100 - len(kept)} earlier messages are left out here, for they do not fit]"
    )
    assert list(kept) == history[-len(kept) :]
    assert 2500 < estimate(told) <= 3000


def test_a_summary_of_before_that_is_too_long_itself_is_cut():
    long = UserSaid("s" * 100_000)
    told = shrunk([long, UserSaid("last")], 2000, long)
    assert "characters are left out here" in told[0].text
    assert told[-1] == UserSaid("last")
    assert estimate(told) <= 2000


@pytest.mark.parametrize("letter", ["漢", "7", "é"])
def test_a_summary_of_before_is_cut_to_its_tokens_and_not_to_its_characters(letter):
    long = UserSaid(letter * 100_000)
    told = shrunk([long, UserSaid("last")], 2000, long)
    assert "characters are left out here" in told[0].text
    assert told[-1] == UserSaid("last")
    assert 500 < estimate(told) <= 2000


def test_a_last_group_that_is_too_much_by_itself_is_cut_to_its_outlines():
    made = tuple(CallMade(f"c{number}", "n", '{"path": "a"}') for number in range(50))
    results = [ToolAnswered(call.call_id, "n", "漢" * 40_000) for call in made]
    told = shrunk([UserSaid("old"), AssistantSaid("", made), *results], 10_000, None)
    assert [type(message) for message in told] == [UserSaid, AssistantSaid] + 50 * [ToolAnswered]
    assert told[0] == UserSaid("old"), "nothing is said to be left out"
    assert estimate(told) <= 10_000
    assert all("characters are left out here" in message.result for message in told[2:])


@pytest.mark.parametrize("room", [0, -500, 60])
def test_where_nothing_fits_there_is_nothing(room):
    assert shrunk([UserSaid("x" * 4000), ToolAnswered("a", "n", "x" * 4000)], room, None) is None


_GROUP = st.tuples(st.integers(0, 3), st.integers(0, 40_000))


@given(st.lists(_GROUP, min_size=1, max_size=8), st.integers(0, 30_000), st.booleans())
def test_whatever_is_left_fits_and_is_well_paired(shapes, room, summarised):
    history = [SUMMARY] if summarised else []
    for number, (calls, size) in enumerate(shapes):
        made = tuple(CallMade(f"{number}.{call}", "n", '"' + "a" * size + '"') for call in range(calls))
        history.append(AssistantSaid("x" * size, made) if made else UserSaid("y" * size))
        history += [ToolAnswered(call.call_id, "n", "z" * size) for call in made]
    told = shrunk(history, room, SUMMARY if summarised else None)
    if told is None:
        return
    assert estimate(told) <= room
    waiting: list[str] = []
    for message in told:
        if isinstance(message, ToolAnswered):
            assert waiting.pop(0) == message.call_id
            continue
        assert not waiting
        waiting = [call.call_id for call in message.calls] if isinstance(message, AssistantSaid) else []
    assert not waiting
