"""Retries: a written schedule of decisions for every kind of failure. Nothing here waits."""

from datetime import UTC, datetime

import pytest

from term2_acp.providers.base import ConnectionFailed, Overloaded, RequestRefused
from term2_acp.providers.retry import MAX_TRIES, GiveUp, Setback, TryAgain, decide, retry_after_s

NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)


def schedule(setback: Setback, random: float) -> list[float | str]:
    steps: list[float | str] = []
    for tries in range(1, 20):
        verdict = decide(setback, tries, 7.0, lambda: random, NOW)
        if isinstance(verdict, GiveUp):
            return [*steps, verdict.error.message]
        steps.append(verdict.delay_s)
    raise AssertionError("no end")


def test_the_schedule_doubles_is_jittered_and_ends() -> None:
    setback = Setback(ConnectionFailed("No."), transient=True)
    end = "No. Gave up after 5 tries and 7 seconds of waiting."
    assert schedule(setback, 0.0) == [0.25, 0.5, 1.0, 2.0, end]
    assert schedule(setback, 0.5) == [0.375, 0.75, 1.5, 3.0, end]
    assert MAX_TRIES == 5


def test_what_does_not_pass_by_itself_is_one_try() -> None:
    error = RequestRefused("No.")
    assert decide(Setback(error), 1, 0, lambda: 0.0, NOW) == GiveUp(error)


@pytest.mark.parametrize(
    ("value", "delay_s"),
    [
        ("3", 3.0),
        ("2.5", 2.5),
        ("60", 60.0),
        ("0", 0.25),  # our own back-off: never at once
        ("Mon, 30 Nov 2026 12:00:10 GMT", 10.0),
        ("Mon, 30 Nov 2026 11:00:00 GMT", 0.25),
        ("soon", 0.25),
        ("-5", 0.25),
        ("nan", 0.25),
        ("", 0.25),
        ("1" * 5000, 0.25),
        ("Mon, 99 Foo 2026 12:00:10 GMT", 0.25),
        ("Mon, 30 Nov 2026 12:00:10 +99999999999999", 0.25),  # a zone that no clock can count
        ("\u0661\u0662", 0.25),  # digits, but none of HTTP's
        (None, 0.25),
    ],
)
def test_retry_after(value: str | None, delay_s: float) -> None:
    setback = Setback(Overloaded("No."), transient=True, retry_after=value)
    assert decide(setback, 1, 0, lambda: 0.0, NOW) == TryAgain(delay_s)


@pytest.mark.parametrize(
    ("value", "named"),
    [("61", "61"), ("1000000000", "1000000000"), ("Mon, 30 Nov 2026 13:00:00 GMT", "3600")],
)
def test_a_longer_wait_is_named_and_not_waited_for(value: str, named: str) -> None:
    verdict = decide(Setback(Overloaded("No."), transient=True, retry_after=value), 1, 0, lambda: 0.0, NOW)
    assert isinstance(verdict, GiveUp)
    assert isinstance(verdict.error, Overloaded)
    assert verdict.error.message == f"No. The server asks to wait {named} seconds."


def test_a_date_without_a_zone_is_utc() -> None:
    assert retry_after_s("Mon, 30 Nov 2026 12:00:10 -0000", NOW) == 10.0
