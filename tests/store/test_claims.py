"""Claims: one holder at a time, over processes, over two stores in one process, and over the death of a
holder. Other processes are real ones; they talk by their pipes."""

import os
import signal
import subprocess
import sys

import pytest
import trio

from term2_acp.store import ClaimedElsewhere, StoreFailed
from term2_acp.store.claims import LockFile, LockFolder

HOLD = """
import sys, trio
from term2_acp.store import InlineRunner, Store

async def main():
    store = Store(sys.argv[1], InlineRunner())
    await store.open()
    claims = {name: await store.claim(name) for name in sys.argv[2:]}
    print("held", flush=True)
    for line in sys.stdin:
        claims[line.strip()].release()
        print("released", flush=True)

trio.run(main)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process that holds sessions of the store in ``tmp_path``."""
    started = []

    def start(*names):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path), *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


async def test_another_process_is_named_until_it_lets_go_or_is_killed(opened, record, tmp_path, holder):
    async with opened(tmp_path) as store:
        for name in "abc":
            await store.create(record(name))
        other = holder("a", "b")
        for name in "ab":
            with pytest.raises(ClaimedElsewhere) as caught:
                await store.claim(name)
            assert caught.value.pid == other.pid
        (await store.claim("c")).release()
        other.stdin.write("a\n")
        other.stdin.flush()
        assert other.stdout.readline() == "released\n"
        (await store.claim("a")).release()
        with pytest.raises(ClaimedElsewhere):
            await store.claim("b")
        other.send_signal(signal.SIGKILL)
        other.wait()
        claim = await store.claim("b")
        # The record still has the dead process' id until ours is written; now it is ours.
        with pytest.raises(ClaimedElsewhere) as caught:
            await store.claim("b")
        assert caught.value.pid == os.getpid()
        claim.release()


@pytest.fixture
def stranger(tmp_path):
    """A living process that has nothing to do with us, and whose id is in the record of session 1."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    (tmp_path / "sessions.lock").write_bytes(b"\0\0\0\0" + process.pid.to_bytes(4, "little"))
    yield process
    process.communicate(b"\n")
    assert process.returncode == 0


async def test_a_record_with_the_id_of_a_living_stranger_is_no_claim(opened, record, tmp_path, stranger):
    async with opened(tmp_path) as store:
        await store.create(record("a"))
        claim = await store.claim("a")
        claim.release()
        assert stranger.poll() is None


async def test_one_process_claims_a_session_once(opened, record, tmp_path):
    async with opened(tmp_path) as store, opened(tmp_path) as second:
        await store.create(record("a"))
        claim = await store.claim("a")
        for other in (store, second):
            with pytest.raises(ClaimedElsewhere) as caught:
                await other.claim("a")
            assert caught.value.pid == os.getpid()
        claim.release()
        claim.release()
        again = await second.claim("a")
        with pytest.raises(ClaimedElsewhere):
            await store.claim("a")
        claim.release()  # a claim that was given back has no say over who has it now
        with pytest.raises(ClaimedElsewhere):
            await store.claim("a")
        again.release()


async def test_closing_the_store_gives_everything_back(opened, record, tmp_path):
    async with opened(tmp_path) as second:
        async with opened(tmp_path) as store:
            await store.create(record("a"))
            claim = await store.claim("a")
        (await second.claim("a")).release()
        claim.release()


async def test_a_cancelled_claim_holds_nothing(opened, record, tmp_path):
    async with opened(tmp_path) as store, opened(tmp_path) as second:
        await store.create(record("a"))
        for claimant in (store, second):  # with the number known, and without
            with trio.CancelScope() as scope:
                scope.cancel()
                await claimant.claim("a")
            assert scope.cancelled_caught
        (await store.claim("a")).release()


async def test_many_sessions_cost_one_descriptor(opened, record, tmp_path):
    async with opened(tmp_path) as store:
        async with trio.open_nursery() as nursery:
            for number in range(300):
                nursery.start_soon(store.create, record(f"{number}"))
        before = len(os.listdir("/proc/self/fd"))
        claims = [await store.claim(f"{number}") for number in range(300)]
        assert len(os.listdir("/proc/self/fd")) == before
        for claim in claims[::2]:
            claim.release()
        async with opened(tmp_path) as second:
            for number in range(0, 300, 2):
                (await second.claim(f"{number}")).release()
            with pytest.raises(ClaimedElsewhere):
                await second.claim("1")


@pytest.fixture(params=["file", "folder"])
def locks(request, tmp_path):
    """Two holders of locks on the same place, of each kind. ``folder`` is what macOS gets."""
    made = []

    def make():
        made.append(
            LockFile(str(tmp_path / "l")) if request.param == "file" else LockFolder(str(tmp_path / "d"))
        )
        return made[-1]

    yield make(), make()
    for each in made:
        each.close()


def test_both_kinds_of_locks_keep_the_same_rules(locks):
    first, second = locks
    first.acquire(1)
    first.acquire(2)
    for other in (first, second):
        with pytest.raises(ClaimedElsewhere) as caught:
            other.acquire(1)
        assert caught.value.pid == os.getpid()
    second.acquire(3)
    second.release(1)  # not its own: nothing happens
    with pytest.raises(ClaimedElsewhere):
        second.acquire(1)
    first.release(1)
    second.acquire(1)
    with pytest.raises(ClaimedElsewhere):
        second.acquire(2)
    first.close()
    second.acquire(2)
    first.close()


def test_a_lock_that_cannot_be_tried_is_a_failure_and_not_a_claim(tmp_path):
    locks = LockFile(str(tmp_path / "l"))
    os.close(locks._fd)
    with pytest.raises(StoreFailed):
        locks.acquire(1)
    locks._fd = -1


def test_lock_files_are_private_from_creation(tmp_path):
    old = os.umask(0)
    try:
        LockFile(str(tmp_path / "l")).close()
        folder = LockFolder(str(tmp_path / "d"))
        folder.acquire(7)
        folder.close()
    finally:
        os.umask(old)
    assert (tmp_path / "l").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "d").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "d" / "7.lock").stat().st_mode & 0o777 == 0o600
