"""The store's thread: one thread, in order, and work that was handed over is done whatever becomes of
its waiter. Real threads, so the real clock; the tests wait for events only."""

import threading

import pytest
import trio

from term2_acp.store import InlineRunner, ThreadRunner


@pytest.mark.parametrize("make", [ThreadRunner, InlineRunner])
async def test_results_and_errors_come_back(make):
    runner = make()
    assert await runner.run(lambda: 42) == 42
    with pytest.raises(ZeroDivisionError):
        await runner.run(lambda: 1 // 0)
    assert await runner.run(lambda: "still works") == "still works"
    await runner.aclose()
    with pytest.raises(trio.ClosedResourceError):
        await runner.run(lambda: 0)
    await runner.aclose()


async def test_all_work_is_done_on_one_thread_that_is_not_trios():
    runner = ThreadRunner()
    threads = set()
    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(runner.run, lambda: threads.add(threading.get_ident()))
    assert len(threads) == 1
    assert threading.get_ident() not in threads
    await runner.aclose()


async def test_work_is_done_in_the_order_in_which_it_was_handed_over():
    runner = ThreadRunner()
    done = []
    gate = threading.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.run, gate.wait)
        for number in range(10):
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(runner.run, lambda number=number: done.append(number))
        await trio.testing.wait_all_tasks_blocked()
        gate.set()
    assert done == list(range(10))
    await runner.aclose()


async def test_a_cancelled_waiter_leaves_at_once_and_its_work_is_done():
    runner = ThreadRunner()
    gate = threading.Event()
    done = []
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runner.run, lambda: (gate.wait(), done.append("late")))
            await trio.testing.wait_all_tasks_blocked()
            scope.cancel()
    assert scope.cancelled_caught
    assert done == []
    gate.set()
    await runner.run(lambda: None)
    assert done == ["late"]
    await runner.aclose()


@pytest.mark.parametrize("make", [ThreadRunner, InlineRunner])
async def test_work_of_a_waiter_that_was_cancelled_before_it_began_is_done_too(make):
    runner = make()
    done = []
    with trio.CancelScope() as scope:
        scope.cancel()
        await runner.run(lambda: done.append("it"))
    assert scope.cancelled_caught
    await runner.run(lambda: None)
    assert done == ["it"]
    await runner.aclose()


async def test_closing_waits_for_the_work_and_ends_the_thread():
    runner = ThreadRunner()
    gate = threading.Event()
    done = []
    thread = await runner.run(threading.current_thread)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runner.run, lambda: (gate.wait(), done.append("last")))
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(runner.aclose)
        await trio.testing.wait_all_tasks_blocked()
        assert done == []
        gate.set()
    assert done == ["last"]
    thread.join(5)
    assert not thread.is_alive()


async def test_a_thread_that_hangs_does_not_hold_its_waiter_or_the_closing():
    runner = ThreadRunner()
    gate = threading.Event()
    with trio.move_on_after(0.01) as scope:
        await runner.run(gate.wait)
    assert scope.cancelled_caught
    with trio.move_on_after(0.01) as scope:
        await runner.aclose()
    assert scope.cancelled_caught
    gate.set()


def test_a_thread_outlives_its_trio_run_without_a_word():
    gate = threading.Event()
    threads = []

    async def main():
        runner = ThreadRunner()
        threads.append(await runner.run(threading.current_thread))
        with trio.move_on_after(0.01):
            await runner.run(gate.wait)
        with trio.move_on_after(0.01):
            await runner.aclose()

    trio.run(main)
    gate.set()
    threads[0].join(5)
    assert not threads[0].is_alive()
