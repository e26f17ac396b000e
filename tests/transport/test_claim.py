"""Taking stdin and stdout away from everybody else. Charter: whatever a process does afterwards, not one
byte of it reaches the protocol's output and nobody reads its input; closed descriptors are no trouble."""

import ast
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PROBE = str(Path(__file__).with_name("claim_probe.py"))
ROOT = str(Path(__file__).parents[2])


def probe(*, closed=(), **streams):
    """Run the probe with some of the standard descriptors closed."""
    code = (
        f"import os,runpy\nfor fd in {closed!r}: os.close(fd)\nrunpy.run_path({PROBE!r}, run_name='__main__')"
    )
    # -I keeps the environment of the tests out; the package is found by its path.
    argv = [sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {ROOT!r})\n{code}"]
    return subprocess.run(argv, capture_output=not streams, timeout=30, **streams)


def test_nothing_but_the_protocol_reaches_its_output():
    done = probe(input=b"a request\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    assert done.returncode == 0, done.stderr
    found, copied = done.stdout.splitlines()
    assert ast.literal_eval(found.decode()) == {
        "heavy": [],
        "private": True,
        "inherited": False,
        "stdin": b"",
        "stdin is inheritable": True,
        "stdout is stderr": True,
        "nonblocking": [False, False],
    }
    assert copied == b"input: b'a request\\n'"
    for noise in (b"printed", b"\x1b]0;title\x07", b"warned", b"child got ''"):
        assert noise in done.stderr


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)])
def test_descriptors_that_were_closed_are_the_null_device(closed):
    done = probe(closed=closed, input=b"a request\n", stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    assert done.returncode == 0, done.stderr
    if 1 in closed:
        assert done.stdout == b""
    else:
        found, copied = done.stdout.splitlines()
        assert ast.literal_eval(found.decode())["private"]
        assert copied == (b"input: b''" if 0 in closed else b"input: b'a request\\n'")
    if 2 in closed:
        assert done.stderr == b""


def test_all_three_on_one_socket():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(b"a request\n")
        done = probe(stdin=theirs, stdout=theirs, stderr=theirs)
        theirs.close()
        with ours.makefile("rb") as file:
            said = file.read()

    assert done.returncode == 0
    assert b"input: b'a request\\n'\n" in said
