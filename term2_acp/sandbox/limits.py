"""What a command may use at most, set on a process before it runs anything of the command.

Rules. Limits of the system's own kind (``setrlimit``) count for each process and are inherited, so they are
set on the one process that all the others descend from. They are only ever lowered. The number of processes
is another matter: that limit counts all processes of a *user*, except that from Linux 5.14 on it counts those
of a user *in one user namespace*. So it is set only where the command has a namespace of its own; and it does
nothing for root, whose bound is the control group's alone (see ``cgroups``).
"""

import os
import resource
import sys

from term2_acp.sandbox.policy import Layer, Limits

# The first Linux that counts the processes of a user for each user namespace.
_COUNTS_BY_NAMESPACE = (5, 14)


def hold(pid: int, limits: Limits, *, namespace: bool) -> frozenset[Layer]:
    """Set the limits on a process, and for all its descendants from now on; which layers they hold.

    ``namespace``: the process is alone in a user namespace of its own. Of ``Limits`` the sizes of the whole
    tree are not set here.

    Raises:
        ProcessLookupError: the process has gone.
    """
    if sys.platform != "linux":
        return frozenset()
    _lower(pid, resource.RLIMIT_DATA, limits.process_memory_bytes)
    _lower(pid, resource.RLIMIT_FSIZE, limits.file_bytes)
    _lower(pid, resource.RLIMIT_NOFILE, limits.open_files)
    # A dump would hold the memory of the command, in a place that the machine chooses.
    _lower(pid, resource.RLIMIT_CORE, 0)
    if not (namespace and os.geteuid() != 0 and counts_by_namespace(os.uname().release)):
        return frozenset()
    _lower(pid, resource.RLIMIT_NPROC, limits.processes)
    return frozenset({Layer.PROCESSES})


def counts_by_namespace(release: str) -> bool:
    """Whether a kernel of this release counts a user's processes for each user namespace."""
    numbers = release.split("-", 1)[0].split(".")
    try:
        return (int(numbers[0]), int(numbers[1])) >= _COUNTS_BY_NAMESPACE
    except (ValueError, IndexError):
        return False


def _lower(pid: int, kind: int, most: int) -> None:
    """Set both the soft and the hard limit, to what the hard one allows."""
    _soft, hard = resource.prlimit(pid, kind)
    most = most if hard == resource.RLIM_INFINITY else min(most, hard)
    resource.prlimit(pid, kind, (most, most))
