"""The same folder under two names: bind mounts, and one file system that is mounted twice.

No link is followed to get from one name to the other, so a canonical path does not tell; the file system
does, by device and inode. A guard that is written for one name must hold for every other.

A hard link is another name of a file in the same sense, and is found when it is named itself.
"""

import math
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping

from attrs import field

from term2_acp.domain.classes import define, frozen
from term2_acp.domain.paths import is_within

# Seconds for which the places are taken to be what they were. Each look costs a call of the system a name.
KNOWN_FOR_S = 1.0

Identity = tuple[int, int]
"""Device and inode."""

_MOUNTS = "/proc/self/mountinfo"


@define(eq=False)
class Aliases:
    """The other names of ``places``, which are canonical paths and need not exist.

    A place counts with the folders above it: one of them may be what has two names.
    """

    places: tuple[str, ...]
    _known: dict[Identity, str] = field(factory=dict, init=False)
    _looked_at: float = field(default=-math.inf, init=False)

    def name_of(self, path: str, identities: Mapping[str, Identity] | None = None) -> str | None:
        """A canonical path by the name of one of the places, if it leads through that by another name.

        ``identities`` are those of the path and the folders above it, where the caller has them already.
        Metadata only.
        """
        known = self._identities()
        for named in _upwards(path):
            identity = _identity(named) if identities is None else identities.get(named)
            name = known.get(identity) if identity is not None else None
            if name is not None and name != named:
                return name + path[len(named) :]
        return None

    def _identities(self) -> dict[Identity, str]:
        now = time.monotonic()
        if now - self._looked_at > KNOWN_FOR_S:
            known: dict[Identity, str] = {}
            for named in dict.fromkeys(named for place in self.places for named in _upwards(place)):
                identity = _identity(named)
                if identity is not None:
                    known.setdefault(identity, named)
            # At once and whole: a thread may be looking as well.
            self._known, self._looked_at = known, now
        return self._known


def identity_of(found: os.stat_result) -> Identity | None:
    """What a look at a name tells about its identity; some network file systems have no numbers to give."""
    return (found.st_dev, found.st_ino) if found.st_ino else None


def mounts_below(folder: str) -> tuple[str, ...]:
    """Where something is mounted strictly below a folder; nothing where the system does not tell."""
    below = (mount.point for mount in _mounts() if is_within(folder, mount.point) and mount.point != folder)
    return tuple(dict.fromkeys(below))


def other_names(places: Iterable[str]) -> dict[str, str]:
    """Every other name that a mount gives to canonical places that exist, or to something in them.

    The other name first, then what it is called below the place. Told from the table of mounts: the same
    device, and which folder of it is mounted where. Only names so found are looked at, so that a mount on a
    server that is gone hangs nobody who does not ask for it.
    """
    mounts = _mounts()
    names: dict[str, str] = {}
    for place in places:
        through = [mount for mount in mounts if is_within(mount.point, place)]
        if not through:
            continue
        # The deepest; of several at one point, the last one lies on top.
        own = max(reversed(through), key=lambda mount: len(mount.point))
        inner = _moved(place, own.point, own.root)
        for mount in mounts:
            if mount.device != own.device:
                continue
            if is_within(mount.root, inner):
                name, called = _moved(inner, mount.root, mount.point), place
            elif is_within(inner, mount.root):
                name, called = mount.point, _moved(mount.root, inner, place)
            else:
                continue
            if name != called and name not in names and _identity(name) == _identity(called) is not None:
                names[name] = called
    return names


@frozen
class _Mount:
    """A line of the table: the folder ``root`` of a device is seen at ``point``."""

    device: bytes
    root: str
    point: str


def _mounts() -> list[_Mount]:
    try:
        with open(_MOUNTS, "rb") as file:
            lines = [line.split(b" ") for line in file.read().splitlines()]
    except OSError:
        return []
    return [_Mount(parts[2], *(os.fsdecode(_unescaped(part)) for part in parts[3:5])) for parts in lines]


def _moved(path: str, old: str, new: str) -> str:
    """A path below ``old`` as it is below ``new``."""
    return (new.rstrip("/") + path[len(old.rstrip("/")) :]) or "/"


def _unescaped(field: bytes) -> bytes:
    """A field as it was before the kernel wrote white space and backslashes as ``\\040``."""
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), field)


def _upwards(path: str) -> Iterator[str]:
    """The path and every folder above it but ``/``, which has one name."""
    while path != "/":
        yield path
        path = path.rpartition("/")[0] or "/"


def _identity(path: str) -> Identity | None:
    try:
        return identity_of(os.lstat(path))
    except OSError:
        return None
