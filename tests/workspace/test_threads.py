"""The threads of a session: so many at a time and no more, and one that nobody waits for keeps its place."""

import threading

import pytest
import trio
import trio.testing

from term2_acp.workspace.threads import MAX_THREADS, Threads
from tests.kit.until import until


async def test_work_waits_for_a_thread_also_where_its_waiter_was_cancelled():
    threads, go_on, begun = Threads(), threading.Event(), []

    def work(number):
        begun.append(number)
        go_on.wait(10)

    async with trio.open_nursery() as nursery:
        for number in range(MAX_THREADS):
            nursery.start_soon(threads.run, lambda number=number: work(number))
        await until(lambda: len(begun) == MAX_THREADS)
        nursery.cancel_scope.cancel()
    done = []
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            scope.cancel()
            await threads.run(lambda: done.append("never"))
        nursery.start_soon(threads.run, lambda: done.append("first"))
        nursery.start_soon(threads.run, lambda: done.append("second"))
        await trio.testing.wait_all_tasks_blocked()
        assert not done, "the threads that were given up are at work still"
        go_on.set()
    assert sorted(done) == ["first", "second"]
    assert await threads.run(lambda: 1) == 1


async def test_what_work_raises_is_raised_and_gives_its_place_back():
    threads = Threads()
    for _ in range(MAX_THREADS + 1):
        with pytest.raises(ZeroDivisionError):
            await threads.run(lambda: 1 // 0)
