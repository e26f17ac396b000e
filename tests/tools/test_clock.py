"""The clock of a program, on a clock that jumps: what uses up its time and what does not, to the second."""

import pytest
import trio

from term2_acp.tools.clock import Clock


async def test_it_ends_what_takes_longer(autojump_clock):
    clock = Clock(5)
    start = trio.current_time()
    with clock.scope:
        await trio.sleep(60)
    assert clock.expired
    assert trio.current_time() - start == 5


async def test_it_leaves_alone_what_ends_in_time(autojump_clock):
    clock = Clock(5)
    with clock.scope:
        await trio.sleep(4.9)
    assert not clock.expired


async def test_it_runs_from_when_it_is_made(autojump_clock):
    clock = Clock(5)
    await trio.sleep(3)
    start = trio.current_time()
    with clock.scope:
        await trio.sleep(60)
    assert trio.current_time() - start == 2


async def test_a_pause_is_no_time_of_the_program(autojump_clock):
    clock = Clock(5)
    start = trio.current_time()
    with clock.scope:
        await trio.sleep(2)
        with clock.paused():
            await trio.sleep(3600)
        await trio.sleep(2)
        with clock.paused():
            await trio.sleep(3600)
        await trio.sleep(60)
    assert clock.expired
    assert trio.current_time() - start == 5 + 2 * 3600


async def test_pauses_that_overlap_count_once(autojump_clock):
    clock = Clock(5)
    start = trio.current_time()

    async def pause(after, seconds):
        await trio.sleep(after)
        with clock.paused():
            await trio.sleep(seconds)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pause, 1, 10)  # from 1 to 11
        nursery.start_soon(pause, 6, 20)  # from 6 to 26: the first ends inside it
        with clock.scope:
            await trio.sleep(3600)
    assert clock.expired
    assert trio.current_time() - start == 26 + 4


async def test_a_pause_inside_a_pause(autojump_clock):
    clock = Clock(5)
    start = trio.current_time()
    with clock.scope:
        with clock.paused():
            with clock.paused():
                await trio.sleep(100)
            await trio.sleep(100)
        await trio.sleep(60)
    assert trio.current_time() - start == 205


async def test_a_pause_gives_back_no_time_that_was_used_up(autojump_clock):
    clock = Clock(5)
    went_on = False
    with clock.scope:
        with trio.CancelScope(shield=True):
            await trio.sleep(7)  # what is shielded runs past the end
        with clock.paused():
            pass
        await trio.lowlevel.checkpoint()
        went_on = True
    assert clock.expired
    assert not went_on


async def test_a_pause_that_is_left_by_an_error_ends(autojump_clock):
    clock = Clock(5)
    start = trio.current_time()
    with clock.scope:
        with pytest.raises(ValueError, match="x"):
            with clock.paused():
                raise ValueError("x")
        await trio.sleep(60)
    assert trio.current_time() - start == 5


async def test_a_cancel_from_outside_is_no_expiry(autojump_clock):
    clock = Clock(5)
    with trio.CancelScope() as outer:
        with clock.scope:
            outer.cancel()
            await trio.sleep(60)
    assert not clock.expired


async def test_a_program_that_ended_while_it_was_paused_has_not_expired(autojump_clock):
    clock = Clock(1)
    with clock.scope:
        with clock.paused():
            await trio.sleep(50)
    assert not clock.expired


async def test_a_stopped_clock_stands_still_for_good(autojump_clock):
    clock = Clock(1)
    with clock.scope:
        with clock.paused():
            await trio.sleep(5)
            clock.stop_nowait()
        with clock.paused():
            await trio.sleep(5)
        await trio.sleep(3600)
    assert not clock.expired
