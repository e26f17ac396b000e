"""Which mounts make a command's view of the file system, and in which order.

Theory of operation. bubblewrap mounts in the order of its arguments, and a later mount covers what lies
below its target. So everything is sorted by depth: a parent is mounted before what lies in it, wherever the
workspace is (``/``, ``/tmp/x``, the home directory, ``/var``). Among targets of one depth the order is that
of this list:

1. ``/`` read-only, with everything mounted below it. When the workspace is ``/`` it is the workspace, and the
   kernel's ``/sys`` is made read-only instead.
2. ``/dev``, made new with the harmless devices; ``/proc``, new for the namespace.
3. The parts of ``/proc`` that change the machine, read-only: the kernel checks who owns them, not
   capabilities, so a command of root could set ``core_pattern``, which runs a program outside.
4. The temporary folders, each an empty one of the command's own, with a bound on its size: the first has half
   of the space, the others share the rest. The workspace is none, even when it is ``/tmp`` itself; one that
   lies in the workspace stays temporary.
5. The workspace, writable; or read-only as a whole, and then nothing in it is held or kept by itself.
6. ``held`` folders, bound onto themselves: a mount point can be neither renamed nor removed, and so the
   read-only names in it cannot be moved away together with it. So are the folders between the workspace and a
   hidden place: moved away with it, the settings of a program would leave their name to be written anew.
7. ``read_only`` places, bound onto themselves.
8. Hidden places: a folder is covered by an empty one, a file by an empty file.

A place is left out where it has no meaning: below a hidden place, below a read-only one, or under a folder
that the command does not see at all (its target would not be there, or would be made and filled from
outside). A held place outside the workspace is left out as well, since it would become writable.
"""

from collections.abc import Iterator
from enum import Enum, auto

from term2_acp.domain.classes import frozen
from term2_acp.domain.paths import is_within
from term2_acp.sandbox.policy import Policy, between, depth, lies_in, outermost, visible

# Bytes of the empty folder that covers a hidden one: a page, the least that can be given.
MASK_BYTES = 4096

# What of /proc is made read-only, as far as the kernel has it.
_CHANGING_THE_MACHINE = tuple(
    f"/proc/{name}"
    for name in ("acpi", "bus", "fs", "irq", "mtrr", "pressure", "scsi", "sys", "sysrq-trigger")
)


class Kind(Enum):
    """What is mounted."""

    READ_ONLY = auto()
    READ_ONLY_IF_THERE = auto()
    WRITABLE = auto()
    DEVICES = auto()
    PROCESSES = auto()
    TEMPORARY = auto()
    MASK = auto()


@frozen
class Mount:
    """One mount on the path ``target``.

    ``source`` is what is shown there, as the machine names it, for the kinds that show something; ``size``
    in bytes is for the folders that are made empty: ``TEMPORARY``, which may be filled, and ``MASK``, which
    may not.
    """

    kind: Kind
    target: str
    source: str | None = None
    size: int | None = None


def mounts(policy: Policy) -> tuple[Mount, ...]:
    """The mounts for a policy that ``check`` has passed, in the order in which they are to be made."""
    inner = (*_base(policy), *_temporary(policy), *_workspace(policy), *_masks(policy))
    return tuple(sorted(inner, key=lambda mount: depth(mount.target)))


def _base(policy: Policy) -> Iterator[Mount]:
    if policy.confinement.workspace == "/":
        yield _bound(Kind.READ_ONLY, "/sys")
    else:
        yield _bound(Kind.READ_ONLY, "/")
    yield Mount(Kind.DEVICES, "/dev")
    yield Mount(Kind.PROCESSES, "/proc")
    for place in _CHANGING_THE_MACHINE:
        yield _bound(Kind.READ_ONLY_IF_THERE, place)


def _temporary(policy: Policy) -> Iterator[Mount]:
    places = policy.private
    whole = policy.limits.temporary_bytes
    first = whole // 2 if len(places) > 1 else whole
    other = (whole - first) // max(len(places) - 1, 1)
    for number, place in enumerate(places):
        # A size of nothing would mean no bound at all.
        yield Mount(Kind.TEMPORARY, place, size=max(other if number else first, MASK_BYTES))


def _workspace(policy: Policy) -> Iterator[Mount]:
    workspace = policy.confinement.workspace
    if policy.confinement.is_read_only:
        yield _bound(Kind.READ_ONLY, workspace)
        return
    yield _bound(Kind.WRITABLE, workspace)
    read_only = frozenset(policy.confinement.read_only)
    masked = (place for place in policy.hidden if visible(policy, place))
    held = {*policy.confinement.held, *between(workspace, masked)}
    for place in sorted(held):
        below = place != workspace and is_within(workspace, place)
        if below and _seen(policy, place) and not lies_in(place, read_only):
            yield _bound(Kind.WRITABLE, place)
    for place in outermost(read_only):
        if _seen(policy, place):
            yield _bound(Kind.READ_ONLY, place)


def _masks(policy: Policy) -> Iterator[Mount]:
    for place in policy.hidden:
        if not visible(policy, place):
            continue
        if place in policy.folders:
            yield Mount(Kind.MASK, place, size=MASK_BYTES)
        else:
            yield Mount(Kind.READ_ONLY, place, source=policy.empty_file)


def _seen(policy: Policy, place: str) -> bool:
    """Whether the command sees what is at ``place``."""
    return visible(policy, place) and not lies_in(place, policy.hidden)


def _bound(kind: Kind, place: str) -> Mount:
    return Mount(kind, place, source=place)
