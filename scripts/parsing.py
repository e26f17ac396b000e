"""Measure how fast streams of model servers are read, beside the vendors' own SDKs, as ratios.

    scripts/parsing.py [--deltas N]

A server on the loopback interface plays one long reply on each wire. term2's reader and the vendor's SDK read
the same bytes in turns, each in a process of its own; CPU counts, since a socket's waits are nobody's
merit. A second table tells the time from the last byte of the model server to the last byte that term2
writes to its editor. The SDKs are installed into a temporary folder, from the package registry.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.client import Agent  # noqa: E402 - the repository's root has to be on the path

from tests.kit.wires import PATHS, WIRES, Reply, spoken  # noqa: E402

SDKS = ("openai", "anthropic")
ROUNDS = 3
TURNS = 15
HERE = Path(__file__).parent / "benchmarks"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
PIECE = 16 * 1024


class Server:
    """Plays one body to every request. ``last_byte_ns`` is when the last of it was handed to the system."""

    def __init__(self, body: bytes) -> None:
        pieces = [body[start : start + PIECE] for start in range(0, len(body), PIECE)]
        self._answer = [b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
        self.last_byte_ns = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.base_url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            # The end of a body must not wait for the reader's system to acknowledge what came before it.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        buffer = b""
        with connection:
            while True:
                while b"\r\n\r\n" not in buffer:
                    data = connection.recv(65536)
                    if not data:
                        return
                    buffer += data
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                fields = (line.partition(b":") for line in head.lower().split(b"\r\n"))
                length = next((int(value) for name, _, value in fields if name == b"content-length"), 0)
                while len(buffer) < length:
                    buffer += connection.recv(65536)
                buffer = buffer[length:]
                connection.sendall(HEAD)
                for piece in self._answer:
                    connection.sendall(piece)
                self.last_byte_ns = time.perf_counter_ns()
                connection.sendall(b"0\r\n\r\n")


def read(python: str, program: str, wire: str, server: Server) -> dict:
    """Let a child read, and return what it measured."""
    command = [python, str(HERE / program), wire, server.base_url, str(ROUNDS)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode != 0:
        sys.exit(f"{program} {wire}: {done.stderr.strip()[-2000:]}")
    return json.loads(done.stdout)


def with_sdks(folder: Path) -> str:
    """A Python that has the vendors' SDKs."""
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", *SDKS], check=True, capture_output=True)
    return python


def compare(wire: str, body: bytes, events: int, sdk: str) -> None:
    """One line of the first table."""
    server, ours, theirs = Server(body), [], []
    for _ in range(3):
        ours.append(read(sys.executable, "reading.py", wire, server))
        theirs.append(read(sdk, "reading_sdk.py", wire, server))
    if len({figures["characters"] for figures in (*ours, *theirs)}) != 1:
        sys.exit(f"{wire}: they did not read the same")
    mine, other = (min(f["cpu_s"] for f in figures) / ROUNDS for figures in (ours, theirs))
    megabytes = len(body) / 1e6
    print(
        f"{wire:<20}{events / mine:>12,.0f}{megabytes / mine:>9.1f}{events / other:>14,.0f}"
        f"{megabytes / other:>9.1f}{other / mine:>9.1f} x",
        flush=True,
    )


def last_byte(wire: str, body: bytes, root: Path) -> None:
    """One line of the second table: medians over turns, in ms."""
    server = Server(body)
    home = root / wire
    settings = home / ".config" / "term2" / "settings.toml"
    settings.parent.mkdir(parents=True)
    settings.write_text(
        f'provider = "lab"\nmodel = "m-1"\n[providers.lab]\ntype = "{wire}"\nmodels = ["m-1"]\n'
        f'base_url = "{server.base_url}"\napi_key = "sk-bench"\n'
    )
    settings.chmod(0o600)
    with Agent("term2", [sys.executable, "-m", "term2_acp", "acp"], home) as agent:
        agent.initialize()
        session = agent.new_session()
        took = []
        for _ in range(TURNS):
            agent.turn(session, "go")
            took.append((time.perf_counter_ns() - server.last_byte_ns) / 1e6)
    print(f"{wire:<20}{statistics.median(took):>12.2f}{max(took):>12.2f}", flush=True)


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description="Measure how fast model servers' streams are read.")
    parser.add_argument("--deltas", type=int, default=20_000, help="text deltas in the long reply")
    deltas = parser.parse_args().deltas
    long = Reply(text="x" * (7 * deltas))
    short = Reply(text="x" * 700)
    with tempfile.TemporaryDirectory(prefix="term2-parsing-") as folder:
        sdk = with_sdks(Path(folder) / "sdks")
        titles = ("wire", "events/s", "MB/s", "SDK events/s", "MB/s", "faster")
        print("{:<20}{:>12}{:>9}{:>14}{:>9}{:>11}".format(*titles))
        for wire in WIRES:
            events = spoken(wire, long)
            compare(wire, "".join(events).encode(), len(events), sdk)
        print(f"\n{'last byte to idle':<20}{'p50 ms':>12}{'worst ms':>12}")
        for wire in WIRES:
            assert PATHS[wire]
            last_byte(wire, "".join(spoken(wire, short)).encode(), Path(folder))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
