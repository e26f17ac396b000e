"""What a command tries in order to leave the sandbox: the program of the trial run. Its text is what runs.

A program of its own that imports nothing of the package: it is handed to Python by ``-c``, since no file of
ours need be visible in a sandbox. It gets the places as JSON in its first argument, tries each way out, and
prints what came of it as one line of JSON: for each attempt the name of the error that stopped it, or None
when nothing did. Whether that is true is decided outside, by whoever looks at the places afterwards. Where
the workspace is to be read-only as a whole, it tries to change that instead.
"""

import errno
import fcntl
import json
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

_CLONE_NEWUSER = 0x1000_0000

# Seconds that an attempt to connect may take, and that the child left behind lives when nobody ends it.
_CONNECT_S = 1.0
_LEFT_BEHIND_S = 30.0


def main() -> None:
    """Try everything, and print what came of it."""
    places: dict[str, Any] = json.loads(sys.argv[1])
    found = _changes(places) if places["read_only"] else _ways_out(places)
    os.write(1, json.dumps({"nonce": places["nonce"], **found}).encode())


def _changes(places: dict[str, Any]) -> dict[str, Any]:
    """Try to change something in the workspace, in an order in which no success spoils the next attempt."""
    workspace, file = places["workspace"], places["protected"]
    return {
        "written": _stopped(_append, file),
        "by_the_root": _stopped(_append, "/proc/self/root" + file),
        "made": _stopped(_append, os.path.join(workspace, "new")),
        "nameless": _stopped(_nameless_file, workspace),
        "folder": _stopped(os.mkdir, os.path.join(workspace, "folder")),
        "linked": _stopped(os.link, file, os.path.join(workspace, "link")),
        "mode": _stopped(os.chmod, file, 0o777),
        "times": _stopped(os.utime, file, (1, 1)),
        "renamed": _stopped(_rename_and_back, file, os.path.join(workspace, "renamed")),
        "removed": _stopped(os.unlink, file),
    }


def _ways_out(places: dict[str, Any]) -> dict[str, Any]:
    """Try to leave a workspace that may be written."""
    with open(os.path.join(places["workspace"], "proof"), "w", encoding="ascii") as file:
        file.write(places["nonce"])
    found: dict[str, Any] = {
        "outside": _stopped(_append, places["outside"]),
        "beside": _stopped(_append, places["outside"] + ".new"),
        "root": _stopped(_nameless_file, "/"),
        "protected": _stopped(_append, places["protected"]),
        "removed": _stopped(os.unlink, places["protected"]),
        "kernel": _stopped(_open_for_writing, "/proc/sys/kernel/core_pattern"),
        "hidden": _stopped(_read, places["hidden"], places["secret"]),
        "hidden_below": _stopped(_read, places["hidden_below"], places["secret"]),
        "tcp": _stopped(_connect, places["port"]),
        "unix": _stopped(_make_unix_socket),
        "namespace": _stopped(_new_namespace),
        "process": _stopped(_see_process, places["pid"], places["started"]),
        "filtered": _is_filtered(),
    }
    found["left_behind"] = _leave_behind(os.path.join(places["workspace"], "alive"))
    return found


def _stopped(attempt: Callable[..., object], *arguments: object) -> str | None:
    """The name of the error that an attempt ended with, or None."""
    try:
        attempt(*arguments)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    return None


def _append(path: str) -> None:
    with open(path, "a", encoding="ascii") as file:
        file.write("changed")


def _nameless_file(folder: str) -> None:
    os.close(os.open(folder, os.O_TMPFILE | os.O_WRONLY))  # where it works, nothing of it stays


def _rename_and_back(path: str, other: str) -> None:
    os.rename(path, other)
    os.rename(other, path)


def _open_for_writing(path: str) -> None:
    os.close(
        os.open(path, os.O_WRONLY)
    )  # nothing is written: on a machine that lets us it would have an effect


def _read(path: str, length: int) -> None:
    with open(path, encoding="ascii") as file:
        if len(file.read()) != length:
            raise FileNotFoundError(errno.ENOENT, "an empty file stands in its place")


def _connect(port: int) -> None:
    socket.create_connection(("127.0.0.1", port), _CONNECT_S).close()


def _make_unix_socket() -> None:
    """Only made: with one, any daemon could be reached whose path is visible."""
    socket.socket(socket.AF_UNIX).close()


def _new_namespace() -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def _see_process(pid: int, started: str) -> None:
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        if file.read().rpartition(")")[2].split()[19] != started:
            raise ProcessLookupError(errno.ESRCH, "another process has its number here")


def _is_filtered() -> bool:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return any(line.split() == ["Seccomp:", "2"] for line in file)


def _leave_behind(path: str) -> bool:
    """Leave a grandchild that holds a lock, in a session of its own if it can; whether it got there."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        if os.fork() == 0:
            _stopped(os.setsid)
            descriptor = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(writing, b"held")
            until = time.monotonic() + _LEFT_BEHIND_S
            while os.path.exists(path) and time.monotonic() < until:
                time.sleep(0.05)
        os._exit(0)
    os.close(writing)
    os.wait()
    return os.read(reading, 4) == b"held"


if __name__ == "__main__":
    main()
