"""The program with plain pipes, for tests of what happens before and beneath the protocol."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, Any

from tests.kit.daemon import PROGRAM
from tests.kit.home import Home

INITIALIZE = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":2}}\n'


@contextmanager
def started(
    home: Home, *args: str, environment: Mapping[str, str] | None = None, **pipes: int | IO[Any] | None
) -> Iterator["subprocess.Popen[bytes]"]:
    """The program; when the block ends it is gone and every pipe of it is closed."""
    process = subprocess.Popen(
        [*PROGRAM, *args],
        bufsize=0,
        cwd=home.root,
        env=home.environment(**(environment or {})),
        stdin=pipes.get("stdin", subprocess.PIPE),
        stdout=pipes.get("stdout", subprocess.PIPE),
        stderr=pipes.get("stderr", subprocess.PIPE),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def read_line(descriptor: int) -> bytes:
    """One line from a descriptor, and not a byte more."""
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(descriptor, 1)
    return line
