"""A forked program is what a started one is: the same arguments, environment, folder, descriptors, session
and signals, as ``/proc`` shows them; and what it does wrong is seen."""

import os
import signal
from pathlib import Path

import pytest

from tests.kit import daemon, forked, processes
from tests.kit.home import Home


def shown(pid: int) -> dict[str, object]:
    """What ``/proc`` has of a process, as far as two of the same program do not differ."""
    proc = Path(f"/proc/{pid}")
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    stat = (proc / "stat").read_text().rpartition(")")[2].split()
    environment = (proc / "environ").read_bytes().rstrip(b"\0").split(b"\0")
    return {
        "command": (proc / "cmdline").read_bytes().rstrip(b"\0").split(b"\0"),
        "environment": sorted(entry for entry in environment if not entry.startswith(b"TERM2_TEST_MARK=")),
        "folder": os.readlink(proc / "cwd"),
        "program": os.readlink(proc / "exe"),
        "descriptors": sorted(
            (int(entry.name), os.readlink(entry).partition(":")[0]) for entry in (proc / "fd").iterdir()
        ),
        "leads its group and session": stat[2] == stat[3] == str(pid),
        **{name: status[name].split() for name in (
            "Name", "Umask", "Uid", "Gid", "Groups", "SigBlk", "SigIgn", "SigCgt", "NoNewPrivs", "Seccomp",
            "Threads",
        )},
    }  # fmt: skip


async def test_it_is_what_a_started_one_is(tmp_path: Path) -> None:
    home = Home.make(tmp_path)
    more = {"environment": {"LAB_KEY": "sk-\u00e9", "TERM2_LOG_LEVEL": "debug"}, "args": ["--effort", "low"]}
    found = []
    for kit in (daemon, forked):
        async with kit.running(home, **more) as running:
            await running.initialize()
            assert processes.marked(running._mark) != []
            found.append((shown(running.process.pid), running.stderr != ""))
    assert found[0] == found[1]


def test_what_a_start_of_its_own_would_read_is_refused(tmp_path: Path) -> None:
    for name in ("PYTHONPATH", "LD_PRELOAD", "LC_ALL", "TZ"):
        with pytest.raises(ValueError, match=name):
            forked.running(Home.make(tmp_path), environment={name: "x"})
    with pytest.raises(ValueError, match="LANG"):
        forked.running(Home.make(tmp_path), environment={"LANG": "C"})


async def test_how_it_ended_is_told(tmp_path: Path) -> None:
    home = Home.make(tmp_path)
    async with forked.running(home, leaves=False) as running:
        await running.initialize()
        assert running.process.poll() is None
        running.signal(signal.SIGKILL)
        assert await running.exit_code() == -signal.SIGKILL == running.process.poll()
    with pytest.raises(AssertionError, match="left with 1, not 0"):
        async with forked.running(home, args=["--yolo"]):
            pass
    done = forked.run(["acp", "--yolo"], home.root, home.environment())
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"term2 acp: unknown option --yolo\n")


async def test_what_a_test_leaves_is_killed(tmp_path: Path) -> None:
    seen = []

    async def leave() -> None:
        async with forked.running(Home.make(tmp_path)) as running:
            await running.initialize()
            seen.append(running.process.pid)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await leave()
    assert not Path(f"/proc/{seen[0]}").exists()
