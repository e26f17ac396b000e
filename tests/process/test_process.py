"""Child processes with real programs: what ends them, what does not, and that nothing is left of them."""

import os
import signal
import sys
import time

import pytest
import trio

from term2_acp.process import dies_with_parent, open_process
from term2_acp.process import process as process_module
from tests.kit.until import until

ENV = {"PATH": os.environ["PATH"]}


def sh(line, **options):
    return open_process(["/bin/sh", "-c", line], env=ENV, **options)


async def everything(process):
    parts = []
    while data := await process.receive():
        parts.append(data)
    return b"".join(parts)


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def open_descriptors():
    return set(os.listdir("/proc/self/fd"))


async def until_gone(pid):
    await until(lambda: not lives(pid))


async def test_output_and_exit_code_arrive():
    async with sh("printf 'a\\0b'; printf c; exit 7") as process:
        assert await everything(process) == b"a\0bc"
        assert await process.wait() == 7
        assert process.returncode == 7


async def test_a_signal_is_a_negative_code():
    async with sh("kill -TERM $$") as process:
        assert await process.wait() == -signal.SIGTERM


async def test_the_child_gets_the_environment_it_is_given_and_nothing_else():
    odd = {"A": "one\ntwo=3", "B": os.fsdecode(b"\xff"), "C": "x" * 100_000}
    code = "import os; os.write(1, repr(sorted(os.environb.items())).encode())"
    async with open_process([sys.executable, "-I", "-S", "-c", code], env=odd) as process:
        found = dict(eval((await everything(process)).decode()))
    found.pop(b"LC_CTYPE", None)  # Python's own
    assert found == {b"A": b"one\ntwo=3", b"B": b"\xff", b"C": b"x" * 100_000}


async def test_the_child_leads_its_own_session_with_an_empty_stdin_and_no_other_descriptors():
    code = (
        "import os\n"
        "assert os.read(0, 1) == b''\n"
        "print(os.getsid(0) == os.getpid() == os.getpgrp(), sorted(os.listdir('/proc/self/fd')))"
    )
    async with open_process([sys.executable, "-I", "-S", "-c", code], env=ENV) as process:
        # The fourth is the listing's own.
        assert await everything(process) == b"True ['0', '1', '2', '3']\n"


async def test_the_blocking_mode_of_the_childs_end_is_untouched():
    code = "import os; print(os.get_blocking(1))"
    async with open_process([sys.executable, "-I", "-S", "-c", code], env=ENV) as process:
        assert await everything(process) == b"True\n"


async def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_exit():
    async with sh("sleep 60 & echo $!; echo done") as process:
        with trio.fail_after(5):
            output = await everything(process)
            assert await process.wait() == 0
        pid, word = output.split()
        assert word == b"done"
        assert lives(int(pid))
    await until_gone(int(pid))


async def test_a_grandchild_that_goes_on_writing_is_not_read_for_ever():
    async with sh("yes & exit 3") as process:
        assert await process.wait() == 3
        with trio.fail_after(10):
            output = await everything(process)
        assert len(output) <= process_module.MAX_BYTES_AFTER_EXIT + process_module.RECEIVE_BYTES


async def test_leaving_kills_a_group_that_ignores_sigterm():
    async with sh("trap '' TERM HUP; sh -c 'trap \"\" TERM; echo $$; sleep 60' & wait") as process:
        inner = int(await process.receive())
        leader = process.pid
    await until_gone(inner)
    assert not lives(leader)
    assert process.returncode == -signal.SIGKILL


async def test_a_cancel_kills_the_group_and_is_quick():
    started = trio.Event()
    pids = []

    async def run():
        async with sh("sleep 60 & echo $!; wait") as process:
            pids.extend([int(await process.receive()), process.pid])
            started.set()
            await process.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await started.wait()
        began = time.monotonic()
        nursery.cancel_scope.cancel()
    assert time.monotonic() - began < 2
    for pid in pids:
        await until_gone(pid)


async def test_an_error_of_the_body_comes_out_as_it_is():
    with pytest.raises(ValueError, match="mine"):
        async with sh("sleep 60"):
            raise ValueError("mine")


async def test_a_cancelled_receive_loses_nothing():
    async with sh("sleep 0.2; echo late") as process:
        with trio.move_on_after(0.02) as scope:
            await process.receive()
        assert scope.cancelled_caught
        assert await everything(process) == b"late\n"


async def test_stderr_is_kept_at_its_beginning_and_never_blocks_the_child():
    async with sh("echo first >&2; head -c 1000000 /dev/zero >&2; exit 2", stderr="keep") as process:
        with trio.fail_after(10):
            assert await process.wait() == 2
        assert process.errors.startswith(b"first\n\0")
        assert len(process.errors) == process_module.KEPT_ERROR_BYTES


async def test_the_last_words_on_stderr_are_there_with_the_exit():
    for _ in range(20):
        async with sh("echo no such thing >&2; exit 1", stderr="keep") as process:
            await process.wait()
            assert process.errors == b"no such thing\n"


async def test_an_ignored_sigchld_ends_nothing_early_and_breaks_nothing():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        async with sh("sleep 0.1; echo x") as process:
            assert await everything(process) == b"x\n"
            with trio.fail_after(5):
                await process.wait()
    finally:
        signal.signal(signal.SIGCHLD, before)


async def test_the_two_readers_of_stderr_do_not_trip_over_each_other():
    for _ in range(50):
        async with sh("echo x >&2", stderr="keep") as process:
            await process.wait()
            await trio.lowlevel.checkpoint()
            assert process.errors == b"x\n"


async def test_stderr_can_go_where_stdout_goes():
    async with sh("echo a; echo b >&2", stderr="stdout") as process:
        assert await everything(process) == b"a\nb\n"


async def test_stdin_is_a_life_line():
    async with sh("echo 4711; cat >/dev/null; exit 5", stdin="pipe") as process:
        assert await process.receive() == b"4711\n"
        assert process.returncode is None
        process.close_stdin()
        process.close_stdin()
        assert await process.wait() == 5


async def test_stdin_can_be_a_descriptor(tmp_path):
    (tmp_path / "in").write_bytes(b"from a file")
    descriptor = os.open(tmp_path / "in", os.O_RDONLY)
    try:
        async with sh("cat", stdin=descriptor) as process:
            assert await everything(process) == b"from a file"
    finally:
        os.close(descriptor)


async def test_a_program_that_is_not_there_is_an_os_error_and_leaves_nothing_open():
    before = open_descriptors()
    with pytest.raises(FileNotFoundError):
        async with open_process(["/no/such/program"], env=ENV, stdin="pipe", stderr="keep"):
            pass
    assert open_descriptors() == before


async def test_nothing_stays_open_afterwards():
    before = open_descriptors()
    for _ in range(3):
        async with sh("echo x", stdin="pipe", stderr="keep") as process:
            await process.receive()
    assert open_descriptors() == before


async def test_without_a_pidfd_a_thread_waits(monkeypatch):
    monkeypatch.delattr(os, "pidfd_open")
    async with sh("sleep 60 & echo $!; exit 9") as process:
        pid = int(await everything(process))
        assert await process.wait() == 9
    await until_gone(pid)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child that its parent went")
async def test_a_child_of_a_killed_parent_is_killed():
    code = (
        "import os, trio\n"
        "from term2_acp.process import dies_with_parent, open_process\n"
        "async def main():\n"
        "    argv = dies_with_parent(['/bin/sleep', '60'])\n"
        "    async with open_process(argv, env={}) as process:\n"
        "        while b'sleep' not in open(f'/proc/{process.pid}/cmdline', 'rb').read()[:12]:\n"
        "            await trio.sleep(0.005)\n"
        "        os.write(1, b'%d\\n' % process.pid)\n"
        "        await trio.sleep_forever()\n"
        "trio.run(main)\n"
    )
    async with open_process([sys.executable, "-c", code], env={**ENV, "PYTHONPATH": os.getcwd()}) as parent:
        with trio.fail_after(20):
            pid = int(await parent.receive())
        assert lives(pid)
        os.kill(parent.pid, signal.SIGKILL)
        await until_gone(pid)


async def test_the_stub_becomes_the_program():
    argv = dies_with_parent(["/bin/sh", "-c", 'echo "$0 $1"; exit 4', "a b", "-x"])
    async with open_process(argv, env=ENV) as process:
        assert await everything(process) == b"a b -x\n"
        assert await process.wait() == 4
