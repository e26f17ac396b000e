"""Calls that repeat: the third in a row is warned, the sixth ends the turn, another call starts anew."""

from term2_acp.agent.budget import Repeat, Repeats


def test_the_third_is_warned_and_the_sixth_stops():
    repeats = Repeats()
    seen = [repeats.see("glob", "{}") for _ in range(6)]
    assert seen == [Repeat.RUN, Repeat.RUN, Repeat.WARN, Repeat.WARN, Repeat.WARN, Repeat.STOP]


def test_another_call_between_starts_the_count_again():
    repeats = Repeats()
    for arguments in ["a", "a", "b", "a", "a"]:
        assert repeats.see("glob", arguments) is Repeat.RUN
    assert repeats.see("grep", "a") is Repeat.RUN
