"""A control group for one command: the only bound on processes and memory that holds for root.

Theory of operation. The kernel keeps groups as folders. Version 1 has one tree for each controller, version 2
one tree for all; both may be mounted at once, and then a controller belongs to one of them. A group for a
command is a new folder below the one that we are in, so that whatever bounds us bounds the command as well.
Root may commonly make one; an ordinary user only where its part of a version 2 tree was delegated. A version
2 group that has processes of its own cannot hand controllers on to its children (but for the root of the
tree), so there the folder that we are in must already do so.

What cannot be made is not held, and ``Group.held`` says what is. A folder is removed when its command has
gone; those of daemons that died before that are removed by whoever makes the next one.
"""

import itertools
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from term2_acp.domain.classes import frozen
from term2_acp.sandbox.policy import Layer, Limits

logger = logging.getLogger(__name__)

_PREFIX = "term2-"

_numbers = itertools.count(1)


@frozen
class Group:
    """The folders of one command's group, and the layers that they hold once a process is in it."""

    folders: tuple[str, ...]
    held: frozenset[Layer]

    def add_nowait(self, pid: int) -> frozenset[Layer]:
        """Put a process into the group, and its future children; the layers that hold for it."""
        try:
            for folder in self.folders:
                _write(folder, "cgroup.procs", str(pid))
        except OSError as error:
            logger.warning("a command could not be put into its control group: %s", error)
            return frozenset()
        return self.held


@contextmanager
def group(limits: Limits) -> Iterator[Group]:
    """A group with these limits, as far as it can be made here; its folders go when the context is left.

    Its processes must have gone by then. A folder that is still in use stays and is logged.
    """
    made: list[str] = []
    held: set[Layer] = set()
    try:
        for controller, place in _places().items():
            layer = _make(controller, place, limits, made)
            held |= {layer} if layer is not None else set()
        yield Group(tuple(made), frozenset(held))
    finally:
        for folder in made:
            try:
                os.rmdir(folder)
            except OSError as error:
                logger.warning("a control group could not be removed: %s", error)


@frozen
class _Place:
    """Where our own group of a controller is: its folder, and the version of its tree."""

    folder: str
    version: int


def _make(controller: str, place: _Place, limits: Limits, made: list[str]) -> Layer | None:
    """Make one group with its limit, or join the one made before in the same tree; None when it cannot be."""
    folder = next((one for one in made if os.path.dirname(one) == place.folder), None)
    try:
        if place.version == 2:
            _hand_on(controller, place.folder)
        if folder is None:
            _remove_leftovers(place.folder)
            folder = os.path.join(place.folder, name_of_ours())
            os.mkdir(folder)
            made.append(folder)
        if controller == "pids":
            _write(folder, "pids.max", str(limits.processes))
            return Layer.PROCESSES
        _bound_memory(folder, place.version, limits.total_memory_bytes)
    except OSError as error:
        logger.debug("no control group for %s: %s", controller, error)
        return None
    return Layer.MEMORY


def _bound_memory(folder: str, version: int, most: int) -> None:
    _write(folder, "memory.max" if version == 2 else "memory.limit_in_bytes", str(most))
    # Not every kernel counts swap; where it does, it is no way around the limit.
    with suppress(OSError):
        if version == 2:
            _write(folder, "memory.swap.max", "0")
        else:
            _write(folder, "memory.memsw.limit_in_bytes", str(most))


def _hand_on(controller: str, folder: str) -> None:
    """Have a version 2 group give a controller to its children.

    Raises:
        OSError: it does not, and may not be told to.
    """
    with open(os.path.join(folder, "cgroup.subtree_control"), encoding="ascii") as file:
        if controller in file.read().split():
            return
    _write(folder, "cgroup.subtree_control", f"+{controller}")


def _remove_leftovers(folder: str) -> None:
    """Remove the groups of daemons that are no more; one that still has processes stays."""
    for name in os.listdir(folder):
        if is_leftover(name):
            with suppress(OSError):
                os.rmdir(os.path.join(folder, name))


def name_of_ours() -> str:
    """A name for something that must not outlive us, from which others see when it has."""
    return f"{_PREFIX}{os.getpid()}-{_started(os.getpid())}-{next(_numbers)}"


def is_leftover(name: str) -> bool:
    """Whether ``name_of_ours`` made this name in a process that is no more, whoever has its number now."""
    pid, _, rest = name.removeprefix(_PREFIX).partition("-")
    started, _, number = rest.partition("-")
    is_one = name.startswith(_PREFIX) and pid.isdecimal() and started.isdecimal() and number != ""
    return is_one and _started(int(pid)) != started


def _started(pid: int) -> str | None:
    """When a process started, in the kernel's ticks; None when there is none."""
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            # The second field is the program's name in parentheses, which may hold anything.
            return file.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None


def _places() -> dict[str, _Place]:
    """Our own groups of the two controllers, as far as they are mounted."""
    try:
        with open("/proc/self/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            own = file.read()
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            mounted = file.read()
    except OSError:
        return {}
    return places(own, mounted)


def places(own: str, mounted: str) -> dict[str, _Place]:
    """Our own groups by controller, from the texts of ``cgroup`` and ``mountinfo`` in ``/proc/self``.

    A controller that has a tree of version 1 is bound there, any other by version 2.
    """
    trees = list(_trees(mounted))
    found: dict[str, _Place] = {}
    for line in own.splitlines():
        _number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in ("pids", "memory"):
            if controllers and controller not in controllers.split(","):
                continue
            version = 1 if controllers else 2
            for tree_version, options, root, point in trees:
                if tree_version != version or (version == 1 and controller not in options):
                    continue
                folder = _below(point, root, path)
                if folder is not None and (version == 1 or controller not in found):
                    found[controller] = _Place(folder, version)
    return found


def _trees(mounted: str) -> Iterator[tuple[int, list[str], str, str]]:
    """The mounted trees: version, options, which part of the tree is mounted, and where."""
    for line in mounted.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, rest = after.partition(" ")
        fields = before.split(" ")
        if kind in ("cgroup", "cgroup2") and len(fields) > 4:
            yield (2 if kind == "cgroup2" else 1), rest.split(" ")[-1].split(","), fields[3], fields[4]


def _below(point: str, root: str, path: str) -> str | None:
    """Where the group ``path`` lies, when the part ``root`` of its tree is mounted at ``point``."""
    if root != "/" and path != root and not path.startswith(root + "/"):
        return None
    inner = path if root == "/" else path[len(root) :]
    return os.path.normpath(point + "/" + inner)


def _write(folder: str, name: str, text: str) -> None:
    # Opened without O_CREAT: a missing file means that the folder is no control group.
    descriptor = os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)
