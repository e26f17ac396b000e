"""The client of the benchmarks: one agent process, blocking, with as little in it as possible.

The client runs on one core and the agent on another, so that neither is charged for the other. What is
measured of an agent is its own CPU clock (nanoseconds, all its threads) and its resident set; wall time is
only ever compared with that of another agent in the same round.
"""

import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

READ_BYTES = 1024 * 1024
DEADLINE_S = 60.0  # no single answer takes a tenth of this, even on a loaded machine

_CORES = sorted(os.sched_getaffinity(0))
CLIENT_CORE, AGENT_CORE = _CORES[0], _CORES[-1]


class AgentFailed(Exception):
    """The agent ended, went silent, or answered an error. The message holds the end of its stderr."""


class Agent:
    """A running agent and the pipes to it. ``started`` is the moment before it was started, in ns."""

    def __init__(self, name: str, argv: Sequence[str], home: Path) -> None:
        self.name = name
        self.log = home / f"{name}.stderr"
        environment = {
            "HOME": str(home),
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": str(Path(__file__).parent),
        }
        os.sched_setaffinity(0, {AGENT_CORE})  # inherited by the child; taken back below
        try:
            with self.log.open("wb") as log:
                self.started = time.perf_counter_ns()
                self.process = subprocess.Popen(
                    argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    cwd=home,
                    env=environment,
                    bufsize=0,
                )
        finally:
            os.sched_setaffinity(0, {CLIENT_CORE})
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        # clock_getcpuclockid(3): the clock of another process is the complement of its id, shifted.
        self._cpu_clock = (~self.process.pid << 3) | 2
        self._rest = b""
        self._next_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()

    # -- what it costs -----------------------------------------------------------------------------

    def cpu_ns(self) -> int:
        """CPU time of the process so far, of all its threads, in nanoseconds."""
        return time.clock_gettime_ns(self._cpu_clock)

    def resident_kib(self) -> int:
        """Resident memory, counted page by page (the cheap counters lag behind)."""
        return self._kib("smaps_rollup", "Rss:")

    def peak_kib(self) -> int:
        """The most resident memory that it ever had."""
        return self._kib("status", "VmHWM:")

    def _kib(self, file: str, label: str) -> int:
        for line in Path(f"/proc/{self.process.pid}/{file}").read_text().splitlines():
            if line.startswith(label):
                return int(line.split()[1])
        raise AgentFailed(f"no {label} in {file}")

    # -- bytes -------------------------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self.stdin, data) :]
        except BrokenPipeError:
            raise self.failed("closed its input") from None

    def read(self) -> bytes:
        """What has arrived, at least a byte."""
        if not select.select([self.stdout], [], [], DEADLINE_S)[0]:
            raise self.failed(f"was silent for {DEADLINE_S:.0f} s")
        data = os.read(self.stdout, READ_BYTES)
        if not data:
            raise self.failed("closed its output")
        return data

    def lines(self) -> list[bytes]:
        """The complete lines that have arrived, at least one."""
        while True:
            *lines, self._rest = (self._rest + self.read()).split(b"\n")
            if lines:
                return lines

    def drain_until(self, mark: bytes, count: int = 1) -> bytes:
        """Read until ``mark`` was seen ``count`` times and its line is complete; return all of it."""
        parts = [self._rest]
        seen = self._rest.count(mark)
        tail = self._rest
        while seen < count or not parts[-1].endswith(b"\n"):
            data = self.read()
            parts.append(data)
            # What could be the beginning of a mark is looked at again, and never a whole one.
            tail = tail[max(0, len(tail) - len(mark) + 1) :] + data
            seen += tail.count(mark)
        self._rest = b""
        return b"".join(parts)

    # -- messages ----------------------------------------------------------------------------------

    def frame(self, method: str, params: Any, *, request: bool = True) -> bytes:
        """A message as bytes; a request gets the next id, which is ``last_id`` afterwards."""
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if request:
            self._next_id += 1
            message = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": params}
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"

    @property
    def last_id(self) -> int:
        return self._next_id

    def request(self, method: str, params: Any) -> Any:
        """Send a request and wait for its result; updates in between are dropped."""
        self.write(self.frame(method, params))
        wanted = self._next_id
        while True:
            for line in self.lines():
                message = json.loads(line)
                if message.get("id") == wanted and "method" not in message:
                    if "result" not in message:
                        raise self.failed(f"answered {method} with {message.get('error')}")
                    return message["result"]

    def initialize(self) -> None:
        info = {"name": "bench", "version": "1"}
        self.request("initialize", {"protocolVersion": 2, "info": info, "capabilities": {}})

    def new_session(self) -> str:
        return str(self.request("session/new", {"cwd": os.path.realpath(self.log.parent)})["sessionId"])

    def turn(self, session: str, text: str) -> bytes:
        """Hold a turn to its idle and return all that was told of it; it must end ``end_turn``."""
        self.write(self.prompt_frame(session, text))
        told = self.drain_until(b'"stopReason"')
        if b'"stopReason":"end_turn"' not in told:
            raise self.failed(f"ended the turn {text!r} with {told[-300:]!r}")
        return told

    def prompt_frame(self, session: str, text: str) -> bytes:
        return self.frame(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        )

    def close_input(self) -> None:
        """End the agent's standard input."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def failed(self, what: str) -> AgentFailed:
        said = self.log.read_text(errors="replace").strip()[-2000:]
        return AgentFailed(f"{self.name} {what}" + (f"; on stderr:\n{said}" if said else ""))
