"""Every kind of descriptor that a launcher can hand to the daemon, and that none of them is changed.

Flags of a description are shared with whoever else holds it, so they are read before, during and after.
Nothing that prints reaches the wire, and no child gets hold of it.
"""

import fcntl
import json
import os
import pty
import signal
import socket
import subprocess
import termios
from pathlib import Path

import pytest
import trio

from tests.kit.daemon import LEAVES_WITHIN_S, PROGRAM, running
from tests.kit.home import Home
from tests.kit.play import WAITS
from tests.kit.program import INITIALIZE, read_line, started


@pytest.fixture
def home(tmp_path):
    return Home.make(tmp_path, script=WAITS)


def flags_of(*descriptors):
    return [fcntl.fcntl(descriptor, fcntl.F_GETFL) for descriptor in descriptors]


def test_on_a_socketpair_for_everything_flags_stay_as_they_were(home):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        before = flags_of(theirs)
        with started(home, stdin=theirs, stdout=theirs, stderr=theirs) as process:
            ours.sendall(INITIALIZE)
            assert json.loads(read_line(ours.fileno()))["id"] == 0
            assert flags_of(theirs) == before
            theirs.close()
            ours.shutdown(socket.SHUT_WR)
            assert process.wait(LEAVES_WITHIN_S) == 0
        assert ours.recv(1) == b""


def test_on_pipes_the_flags_of_shared_descriptions_stay_as_they_were(home):
    (in_read, in_write), (out_read, out_write) = os.pipe(), os.pipe()
    before = flags_of(in_read, out_write)
    with started(home, stdin=in_read, stdout=out_write, stderr=out_write) as process:
        os.write(in_write, INITIALIZE)
        assert json.loads(read_line(out_read))["id"] == 0
        assert flags_of(in_read, out_write) == before
        os.close(in_write)
        assert process.wait(LEAVES_WITHIN_S) == 0
    assert flags_of(in_read, out_write) == before
    for descriptor in (in_read, out_read, out_write):
        os.close(descriptor)


def test_on_a_terminal_it_works_and_leaves_the_terminal_alone(home):
    controller, terminal = pty.openpty()
    attributes = termios.tcgetattr(terminal)
    attributes[3] &= ~(termios.ECHO | termios.ICANON)
    attributes[1] &= ~termios.OPOST
    termios.tcsetattr(terminal, termios.TCSANOW, attributes)
    before, modes = flags_of(terminal), termios.tcgetattr(terminal)
    with started(home, stdin=terminal, stdout=terminal, stderr=terminal) as process:
        os.write(controller, INITIALIZE)
        assert json.loads(read_line(controller))["id"] == 0
        assert flags_of(terminal) == before
        process.send_signal(signal.SIGTERM)
        assert process.wait(LEAVES_WITHIN_S) == 0
    assert flags_of(terminal) == before
    assert termios.tcgetattr(terminal) == modes
    os.close(controller)
    os.close(terminal)


def test_on_regular_files_it_reads_to_the_end_and_writes(home):
    (home.root / "in").write_bytes(INITIALIZE + INITIALIZE.replace(b":0", b":1"))
    with (home.root / "in").open("rb") as stdin, (home.root / "out").open("wb") as stdout:
        before = flags_of(stdin, stdout)
        with started(home, stdin=stdin, stdout=stdout) as process:
            assert process.wait(LEAVES_WITHIN_S) == 0
            assert flags_of(stdin, stdout) == before
            assert process.stderr.read() == b""
    assert [json.loads(line)["id"] for line in (home.root / "out").read_bytes().splitlines()] == [0, 1]


def test_on_the_null_device_it_ends_at_once(home):
    with started(home, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        assert process.wait(LEAVES_WITHIN_S) == 0
        assert process.stderr.read() == b""


def test_a_full_disk_for_stdout_is_an_end_and_no_hang(home):
    with open("/dev/full", "wb", buffering=0) as full, started(home, stdout=full) as process:
        process.stdin.write(INITIALIZE)
        process.wait(LEAVES_WITHIN_S)
        assert b"cannot be written" in process.stderr.read()


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_descriptor_that_is_closed_at_the_start_is_survived(home, closed):
    shell = f'exec "$0" "$@" {closed}>&-'
    done = subprocess.run(
        ["/bin/sh", "-c", shell, *PROGRAM],
        input=INITIALIZE,
        capture_output=True,
        env=home.environment(),
        cwd=home.root,
        timeout=LEAVES_WITHIN_S,
    )
    assert b"Traceback" not in done.stderr
    if closed == 2:
        assert done.returncode == 0
        assert json.loads(done.stdout)["id"] == 0
    else:
        assert done.stdout == b""


# Everything that is imported once the daemon's own command runs prints, writes to descriptor 1 and
# starts a child that does.
NOISY = """
import os, subprocess, sys

class Noise:
    loud = False
    def find_spec(self, name, path=None, target=None):
        if name == "term2_acp.cli.acp":
            Noise.loud = True
        if Noise.loud and name in {"trio", "msgspec", "term2_acp.app", "term2_acp.session", "sqlite3"}:
            print("noise from", name, flush=True)
            os.write(1, b"\\x1b]0;noise\\x07")
            sys.__stdout__.write("more noise\\n")
            subprocess.run(["echo", "noise of a child"])

sys.meta_path.insert(0, Noise())
"""


async def test_nothing_that_prints_reaches_the_wire(home):
    (home.root / "sitecustomize.py").write_text(NOISY)
    async with running(home, environment={"PYTHONPATH": str(home.root)}) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        assert await (await daemon.begin(session, "hi")).ended() == "end_turn"
    assert "noise from trio" in daemon.stderr
    assert "noise of a child" in daemon.stderr


async def test_a_child_inherits_neither_the_wire_nor_its_descriptors(home):
    async with running(home) as daemon:
        await daemon.initialize()
        links = {
            int(entry.name): os.readlink(entry) for entry in Path(f"/proc/{daemon.process.pid}/fd").iterdir()
        }
        assert links[0] == "/dev/null"
        assert links[1] == links[2]
        private = [fd for fd, link in links.items() if link.startswith("pipe:") and fd > 2]
        assert private, links
        for fd in private:
            info = Path(f"/proc/{daemon.process.pid}/fdinfo/{fd}").read_text()
            flags = int(next(line.split()[1] for line in info.splitlines() if line.startswith("flags:")), 8)
            assert flags & os.O_CLOEXEC, f"descriptor {fd} would be inherited"
        await trio.lowlevel.checkpoint()
