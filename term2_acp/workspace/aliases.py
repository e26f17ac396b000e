"""The same folder under two names: bind mounts, and one file system that is mounted twice.

No link is followed to get from one name to the other, so a canonical path does not tell; the file system
does, by device and inode. A guard that is written for one name must hold for every other.

A hard link is another name of a file in the same sense, and is found when it is named itself.
"""

import math
import os
import posixpath
import re
import time
from collections.abc import Iterator, Mapping

from attrs import define, field

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
    try:
        with open(_MOUNTS, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return ()
    base = folder.rstrip("/") + "/"
    places = (os.fsdecode(_unescaped(line.split(b" ")[4])) for line in lines)
    return tuple(dict.fromkeys(place for place in places if place.startswith(base) and place != base))


def _unescaped(field: bytes) -> bytes:
    """A field as it was before the kernel wrote white space and backslashes as ``\\040``."""
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), field)


def _upwards(path: str) -> Iterator[str]:
    """The path and every folder above it but ``/``, which has one name."""
    while path != "/":
        yield path
        path = posixpath.dirname(path)


def _identity(path: str) -> Identity | None:
    try:
        return identity_of(os.lstat(path))
    except OSError:
        return None
