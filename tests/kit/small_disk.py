"""A file system of a few MiB that a test can really fill.

The program gets a name space of its own in which a folder is a tmpfs of that size: what it is refused there
is refused by the kernel, as on a disk that is full. ``Disk`` reaches into it from outside. It takes no rights
where people may make name spaces; where they may not, the test is skipped.
"""

import functools
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from attrs import frozen

# $1: size, $2: the folder, $3: what is copied into it, or nothing; the rest is the program.
_MOUNT = """
mount -t tmpfs -o size="$1" none "$2" || exit 99
[ -z "$3" ] || cp -a "$3/." "$2" || exit 99
shift 3
exec "$@"
"""

_BLOCK = b"\0" * 4096


@functools.cache
def _unshare() -> tuple[str, ...]:
    own = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--map-root-user", "--mount")
    try:
        subprocess.run([*own, "mount", "-t", "tmpfs", "none", "/mnt"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no name space with a file system of its own can be made here")
    return own


def on_a_disk_of(size: int, folder: Path, program: Sequence[str], holding: Path | None = None) -> list[str]:
    """The command that runs the program where ``folder`` is a disk of so many bytes.

    ``holding`` is a folder whose content is on it from the start.
    """
    return [*_unshare(), "sh", "-c", _MOUNT, "sh", str(size), str(folder), str(holding or ""), *program]


@frozen
class Disk:
    """The disk that the process ``pid`` sees in ``folder``."""

    pid: int
    folder: Path

    @property
    def path(self) -> Path:
        """The folder as it is seen from here."""
        return Path(f"/proc/{self.pid}/root{self.folder}")

    def fill(self, leave: int = 0) -> None:
        """Take all that is free, but for ``leave`` bytes."""
        with open(self.path / "filler", "ab", buffering=0) as file:
            try:
                while True:
                    file.write(_BLOCK)
            except OSError:
                pass
            file.truncate(max(0, file.tell() - leave))

    def free(self) -> None:
        """Give back what ``fill`` took."""
        (self.path / "filler").unlink()
