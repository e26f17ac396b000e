"""What a command may do, as values: the limits, the policy of one command, the layers of the sandbox.

Theory of operation. A ``Policy`` says everything about one command's surroundings, and nothing about how they
are made: ``bwrap`` and ``seatbelt`` turn it into arguments or text without looking at anything. Whoever makes
the value looks at the file system once, and its answers are fields: which hidden places are folders, which
system secrets and temporary folders exist. An answer that has gone stale since never makes the sandbox wider:
bubblewrap does not start with a mask of the wrong kind, nor with a place that has gone (but for a hidden one
in the workspace, which it makes anew, empty).

A *layer* is one promise. A sandbox either holds it or says that it does not; ``Unavailable`` is the sandbox
that could not be shown to hold the least: writes, hidden places and the network.
"""

import functools
from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import Self

from term2_acp.domain.classes import frozen
from term2_acp.domain.confinement import Confinement
from term2_acp.domain.paths import is_within

# Bytes of private data (heap, stacks of threads, anonymous maps) for each process. A type checker or a
# bundler takes one or two GiB. RLIMIT_AS would count what is only reserved too, and JavaScript engines
# reserve a lot.
PROCESS_MEMORY_BYTES = 4 * 1024**3

# Bytes of memory for the whole tree, temporary files included, where a control group can be made.
TOTAL_MEMORY_BYTES = 8 * 1024**3

# Processes and threads of the whole tree: a parallel build on a large machine stays below, a fork bomb does
# not.
PROCESSES = 1024

# Bytes of one file. Build results and test data stay below; an endless writer stops before most disks are
# full.
FILE_BYTES = 2 * 1024**3

# Open files of each process: what file watchers and linkers ask for at most.
OPEN_FILES = 4096

# Bytes of private temporary space, all its folders together. They are memory.
TEMPORARY_BYTES = 1024**3

TEMPORARY_FOLDERS = ("/tmp", "/var/tmp", "/run", "/dev/shm")  # noqa: S108 -- names of mounts
"""Where a command sees an empty folder of its own, gone with it, in place of what the machine has there."""

SYSTEM_SECRETS = (
    "/etc/master.passwd",
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssl/private",
    "/etc/ssh/ssh_host_dsa_key",
    "/etc/ssh/ssh_host_ecdsa_key",
    "/etc/ssh/ssh_host_ed25519_key",
    "/etc/ssh/ssh_host_rsa_key",
)
"""Secrets of the machine. Its owner may read them, and so may a command of root, without any capability."""

# What a command has of its own, new and small, so that a workspace in it would not be seen.
_OWN_KERNEL_FOLDERS = ("/dev", "/proc")

# What no command may change.
_KERNEL_STATE = "/sys"

# Below /dev, but a folder of ordinary files, which fast builds are put in.
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 -- the name of a mount

# Where the daemons of the machine keep their sockets. A folder in it may be somebody's; itself, it is
# nobody's project.
_DAEMONS = "/run"


class SandboxError(Exception):
    """A command was not run. ``reason`` is one sentence for the person and the model."""

    def __init__(self, reason: str) -> None:
        # A path in it may hold bytes that are no text, which could not be sent to anyone.
        self.reason = reason.encode(errors="replace").decode()
        super().__init__(self.reason)


class SandboxRefused(SandboxError):
    """What was asked for cannot be confined, or nothing here can confine. Asking again changes nothing."""


class SandboxFailed(SandboxError):
    """The sandbox did not start, though it should have. Nothing of the command ran."""


class Layer(StrEnum):
    """One promise of the sandbox. ``label`` is how a person reads it."""

    label: str

    WRITES = "writes", "no writes outside the workspace"
    HIDDEN = "hidden", "credentials and histories hidden"
    NETWORK = "network", "no network"
    UNIX_SOCKETS = "unix_sockets", "no sockets of daemons"
    PROTECTED = "protected", "protected names read-only"
    PROCESS_VIEW = "process_view", "own view of processes"
    WHOLE_TREE = "whole_tree", "nothing survives"
    SYSCALLS = "syscalls", "dangerous system calls refused"
    PROCESSES = "processes", "bounded number of processes"
    MEMORY = "memory", "bounded memory"

    def __new__(cls, value: str, label: str) -> Self:
        """A member: its word, which records and settings use, and its label."""
        member = str.__new__(cls, value)
        member._value_ = value
        member.label = label
        return member


@frozen
class Limits:
    """What a command may use. Sizes in bytes.

    ``processes``, ``total_memory_bytes`` and ``temporary_bytes`` are of the whole tree, the others of each
    process.
    """

    process_memory_bytes: int = PROCESS_MEMORY_BYTES
    total_memory_bytes: int = TOTAL_MEMORY_BYTES
    processes: int = PROCESSES
    file_bytes: int = FILE_BYTES
    open_files: int = OPEN_FILES
    temporary_bytes: int = TEMPORARY_BYTES


@frozen
class Policy:
    """Everything about the surroundings of one command. All paths are canonical and absolute.

    ``cwd`` lies in the workspace. ``environment`` is the whole environment. ``empty_file`` is an empty
    regular file, shown in place of a hidden file. ``system_secrets`` are the ones of ``SYSTEM_SECRETS``
    that exist. ``folders`` are those of the hidden places and system secrets that are folders; any other is
    taken for a file. ``temporary`` are the folders that the command has to itself: the ones of
    ``TEMPORARY_FOLDERS`` that exist, the first being the one for ``TMPDIR``; where nothing can be mounted,
    one that was made for it.
    """

    confinement: Confinement
    cwd: str
    environment: Mapping[str, str]
    limits: Limits
    empty_file: str
    folders: frozenset[str] = frozenset()
    system_secrets: tuple[str, ...] = ()
    temporary: tuple[str, ...] = TEMPORARY_FOLDERS

    @functools.cached_property
    def hidden(self) -> tuple[str, ...]:
        """The hidden places and the system secrets, none below another."""
        return outermost((*self.confinement.hidden, *self.system_secrets))

    @functools.cached_property
    def private(self) -> tuple[str, ...]:
        """Where the command has an empty folder: ``temporary`` but for the workspace and what is hidden."""
        workspace = self.confinement.workspace
        return tuple(
            place for place in self.temporary if place != workspace and not lies_in(place, self.hidden)
        )


@frozen
class Layers:
    """A sandbox that was seen to hold: by ``kind`` ("bubblewrap", "landlock"), with its program and version.

    ``notes`` are sentences about what is *not* held, for the person and the model.
    """

    kind: str
    program: str | None
    version: str
    held: frozenset[Layer]
    notes: tuple[str, ...] = ()


@frozen
class Unavailable:
    """Nothing here could be shown to hold; ``reason`` is one sentence that says why."""

    reason: str


def check(policy: Policy) -> None:
    """See whether the workspace of a policy can be confined.

    Raises:
        SandboxRefused: it lies where a command sees something else, or the command would not start in it.
    """
    workspace, cwd = policy.confinement.workspace, policy.cwd
    if workspace == _DAEMONS:
        raise SandboxRefused(f"the workspace is {workspace}, where daemons keep their sockets")
    for place in _OWN_KERNEL_FOLDERS:
        if is_within(place, workspace) and not is_within(_SHARED_MEMORY, workspace):
            raise SandboxRefused(
                f"the workspace {workspace} lies in {place}, of which commands have their own"
            )
    if is_within(_KERNEL_STATE, workspace):
        raise SandboxRefused(f"the workspace {workspace} lies in {_KERNEL_STATE}, which is the kernel's")
    if not is_within(workspace, cwd):
        raise SandboxRefused(f"the folder {cwd} does not lie in the workspace {workspace}")
    if lies_in(cwd, policy.hidden):
        raise SandboxRefused(f"the folder {cwd} is hidden from commands")
    if not visible(policy, cwd):
        raise SandboxRefused(f"the folder {cwd} lies where commands have an empty folder of their own")


def notes(policy: Policy) -> tuple[str, ...]:
    """Sentences on where this policy is weaker than it could be, for the person and the model."""
    workspace = policy.confinement.workspace
    found = []
    if workspace in policy.temporary and policy.confinement.is_read_only:
        found.append(f"The workspace is {workspace} itself: no temporary files can be made in it.")
    elif workspace in policy.temporary:
        found.append(f"The workspace is {workspace} itself: temporary files are made in it, and stay.")
    if policy.confinement.incomplete:
        found.append("The workspace has too many protected names: only the nearest are read-only.")
    return tuple(found)


def visible(policy: Policy, path: str) -> bool:
    """Whether a command sees the machine's own ``path``, not a folder of its own that covers it."""
    covers = (*policy.private, *_OWN_KERNEL_FOLDERS)
    nearest = max((place for place in covers if is_within(place, path)), key=len, default=None)
    workspace = policy.confinement.workspace
    return nearest is None or (is_within(workspace, path) and len(workspace) > len(nearest))


def outermost(paths: Iterable[str]) -> tuple[str, ...]:
    """The paths without those that lie below another of them, each once, sorted by their names."""
    found: list[str] = []
    for path in sorted(set(paths), key=lambda path: path.split("/")):
        if not (found and is_within(found[-1], path)):
            found.append(path)
    return tuple(found)


def lies_in(path: str, places: Collection[str]) -> bool:
    """Whether a canonical path is one of ``places`` or lies below one."""
    while path not in places and path != "/":
        path = path.rpartition("/")[0] or "/"
    return path in places


def between(workspace: str, places: Iterable[str]) -> frozenset[str]:
    """The folders strictly between the workspace and each of the places in it."""
    found: set[str] = set()
    for place in places:
        folder = place.rpartition("/")[0]
        while folder != workspace and is_within(workspace, folder):
            found.add(folder)
            folder = folder.rpartition("/")[0]
    return frozenset(found)


def depth(path: str) -> int:
    """How many names lead to a canonical path; 0 for ``/``."""
    return 0 if path == "/" else path.count("/")
