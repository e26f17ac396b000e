"""Whether the mounts of a sandbox lie where they should: the kernel's word for it, before the command runs.

Theory of operation. bubblewrap is told paths, and follows the links in them. Between the look that found the
places and the mounts, another program in the workspace (the command of another session, which is confined
and may still write there) can put a link in the place of a folder. What was to be shown writable, or
read-only, would then be something else, and at another place: a folder outside of the workspace, or a hidden
one over its mask. It cannot be kept from trying; but when the mounts are made they stay, and the kernel tells
in ``mountinfo`` what each is of and where it is. Each must be of what the path means to us, without a link,
and be on that very path.

Names are compared without case: on a file system that folds them, the kernel tells the one on the disk.
"""

from collections.abc import Iterable
from enum import Enum, auto

from term2_acp.domain.classes import frozen
from term2_acp.sandbox.mounts import Kind, Mount, mounts
from term2_acp.sandbox.policy import Policy, SandboxFailed

_BOUND = (Kind.READ_ONLY, Kind.WRITABLE)
_EMPTY = (Kind.TEMPORARY, Kind.MASK)

# The characters that are written as their number, with three octal digits.
_ESCAPED = {f"\\{ord(char):03o}": char for char in (" ", "\t", "\n", "#", "\\")}


class Rights(Enum):
    """Whether a mount may be written to."""

    READ_ONLY = auto()
    WRITABLE = auto()


@frozen
class _Mounted:
    """One line: which mount, on which other and where; what part (``root``) of which device; its kind."""

    number: str
    parent: str
    device: str
    root: str
    point: str
    rights: Rights
    kind: str


def require_in_place(pid: int, policy: Policy) -> None:
    """See that process 1 of a sandbox, which has made its mounts, has made those of the policy.

    Raises:
        SandboxFailed: it has not. Nothing of the command ran.
        OSError: the process has gone.
    """
    theirs, ours = _read(f"/proc/{pid}/mountinfo"), _read("/proc/self/mountinfo")
    if wrong := misplaced(mounts(policy), theirs, ours):
        raise SandboxFailed(
            f"{wrong[0]} is not what it should be in the sandbox; another program may have changed it just "
            "then, so try again"
        )


def misplaced(expected: Iterable[Mount], theirs: str, ours: str) -> tuple[str, ...]:
    """The targets on which there is not what should be.

    ``theirs`` and ``ours`` are the texts of ``mountinfo`` of the sandbox's first process, which has made its
    mounts, and of this process. What comes with the new devices and processes, and what is mounted only where
    the kernel has it, is not looked at.
    """
    inside, here = _Tree(theirs), _Tree(ours)
    last = {mount.target: mount for mount in expected if mount.kind in (*_BOUND, *_EMPTY)}
    return tuple(target for target, mount in last.items() if not _is_placed(mount, inside, here))


def _is_placed(mount: Mount, inside: "_Tree", here: "_Tree") -> bool:
    found = inside.on(mount.target)
    if found is None or found.point != mount.target:
        return False
    if mount.kind in _EMPTY:
        # A new one: a folder of the machine may be a file system in memory as well.
        return found.kind == "tmpfs" and found.device not in here.devices
    assert mount.source is not None
    source = here.on(mount.source)
    if source is None:
        return False
    below = mount.source[len(source.point) :] if source.point != "/" else mount.source
    root = (source.root.rstrip("/") + "/" + below.strip("/")).rstrip("/") or "/"
    is_writable = found.rights is Rights.WRITABLE
    return (
        found.device == source.device
        and found.root.casefold() == root.casefold()
        and is_writable == (mount.kind is Kind.WRITABLE and source.rights is Rights.WRITABLE)
    )


class _Tree:
    """The mounts that a process sees, followed as the kernel follows a path."""

    def __init__(self, text: str) -> None:
        lines = [_parsed(line) for line in text.split("\n") if line]
        numbers = {line.number for line in lines}
        self.devices = {line.device for line in lines}
        self._on = {(line.parent, line.point): line for line in lines}
        tops = (line for line in lines if line.point == "/" and line.parent not in numbers - {line.number})
        self._top = next(tops, None)

    def on(self, path: str) -> _Mounted | None:
        """The mount that a path without links leads to."""
        found = self._climb(self._top, "/")
        place = ""
        for name in path.split("/")[1:] if path != "/" else ():
            place += "/" + name
            found = self._climb(found, place)
        return found

    def _climb(self, found: _Mounted | None, place: str) -> _Mounted | None:
        """The uppermost of what is mounted on one place."""
        while found is not None and (above := self._on.get((found.number, place))) is not None:
            if above is found:
                break
            found = above
        return found


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


def _parsed(line: str) -> _Mounted:
    before, _, after = line.partition(" - ")
    number, parent, device, root, point, options = before.split(" ")[:6]
    rights = Rights.READ_ONLY if "ro" in options.split(",") else Rights.WRITABLE
    return _Mounted(
        number, parent, device, _unescaped(root), _unescaped(point), rights, after.partition(" ")[0]
    )


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    parts = text.split("\\")
    return parts[0] + "".join(_ESCAPED.get("\\" + part[:3], "\\" + part[:3]) + part[3:] for part in parts[1:])
