"""Which system calls a command may not make, as programs for the kernel.

Theory of operation. Namespaces and mounts decide what a command can name; the filters take away the calls
that reach round them or that open much of the kernel for nothing a build needs. Everything else is allowed:
a list of the allowed would break programs that nobody tried. There are two programs, and the kernel takes
the stricter answer:

1. The denied calls, by name. A call of another architecture (32-bit programs) kills the process.
2. Whatever the kernel has numbered after ``LAST_KNOWN_CALL`` does not exist (ENOSYS), as in an older
   kernel, for which every program is prepared. The second table of x86-64, x32, is numbered from 0x40000000
   on and is another name for every denied call; it goes the same way.

Rules on arguments:

- An argument that the kernel takes for an ``int`` is compared by its lower 32 bits, since the kernel drops
  the upper ones and a comparison of all 64 would be passed by setting one.
- What a pointer leads to cannot be seen. ``clone3`` has its flags there, and therefore does not exist: the C
  libraries then use ``clone``, whose flags are looked at.
- ``socket`` makes internet sockets and asks about interfaces (netlink's routing part), for the network
  namespace has a loopback of its own. A UNIX socket would reach a daemon outside by its path, past the
  network namespace and through a read-only mount. ``socketpair`` makes UNIX sockets that are connected for
  good; its datagram sockets are not, as each may still send to any path, and are refused.
- No file gets the set-uid bit: it would stay in the workspace, and lend the rights of who ran the command to
  any other user of the machine. ``openat2`` has its mode behind a pointer, and goes the way of ``clone3``:
  programs that know it try ``openat`` then. The set-gid bit is left, for folders that hand on their group.
- Where Landlock alone keeps files from being changed, what it does not know of is refused to all files, since
  a filter sees no path: modes, owners, times, attributes and flags. That is asked for when nothing at all may
  be changed in the workspace; a build could not do without.
- Requests that make names or copy trees, as btrfs has them, are refused (``requests``).
- Without a network namespace no socket is made but by ``socketpair``. There is then no other namespace
  either, so nothing may leave the process group by which all are killed, set the limits, priorities or
  processors of others than itself, or use or remove the shared memory, semaphores and queues of System V and
  POSIX, which have no path that could be withheld.
"""

import errno
from collections.abc import Sequence
from typing import TYPE_CHECKING

from term2_acp.domain.classes import frozen
from term2_acp.sandbox.requests import answers

if TYPE_CHECKING:
    from seccompy import Filter

LAST_KNOWN_CALL = 471
"""The highest number whose call was looked at for this list; both architectures count alike from 424 on."""

# Reaching into other processes. In a namespace of its own a command sees none but its own; a debugger is
# refused all the same, for what the kernel had to mend in these calls.
_OTHER_PROCESSES = (
    "ptrace",
    "process_vm_readv",
    "process_vm_writev",
    "process_madvise",
    "pidfd_getfd",
    "kcmp",
    "migrate_pages",
    "move_pages",
)

# Large parts of the kernel that are reached by no right at all, and that run or see what others do.
_KERNEL_SURFACE = (
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "fanotify_init",
    "keyctl",
    "add_key",
    "request_key",
    "lookup_dcookie",
    "nfsservctl",
)

# What undoes the view of the file system, or reaches a file that has no name in it.
_FILE_SYSTEM = (
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "move_mount",
    "mount_setattr",
    "open_tree",
    "open_tree_attr",
    "fsopen",
    "fsconfig",
    "fsmount",
    "fspick",
    "open_by_handle_at",
    "setns",
)

# What changes the machine.
_MACHINE = (
    "kexec_load",
    "kexec_file_load",
    "init_module",
    "finit_module",
    "delete_module",
    "swapon",
    "swapoff",
    "reboot",
    "syslog",
    "acct",
    "quotactl",
    "quotactl_fd",
    "settimeofday",
    "clock_settime",
    "clock_adjtime",
    "adjtimex",
    "sethostname",
    "setdomainname",
    "vhangup",
)

# What changes a file and not what is in it. The older calls are only on x86-64.
_ATTRIBUTES = (
    "fchmod",
    "fchmodat",
    "fchmodat2",
    "fchown",
    "fchownat",
    "utimensat",
    "setxattr",
    "lsetxattr",
    "fsetxattr",
    "setxattrat",
    "removexattr",
    "lremovexattr",
    "fremovexattr",
    "removexattrat",
    "file_setattr",
)
_OLDER_ATTRIBUTES = ("chmod", "chown", "lchown", "utime", "utimes", "futimesat")

# Only on x86-64.
_X86 = ("iopl", "ioperm", "modify_ldt", "uselib")

# What leaves the process group, and what is shared by all processes of a user, where no namespace bounds
# them.
_WITHOUT_NAMESPACES = (
    "setsid",
    "setpgid",
    "shmget",
    "shmat",
    "shmctl",
    "semget",
    "semop",
    "semtimedop",
    "semctl",
    "msgget",
    "msgsnd",
    "msgrcv",
    "msgctl",
    "mq_open",
    "mq_unlink",
)

# What has the arguments that matter behind a pointer, and an older call that programs know as well.
_WITH_A_POINTER = ("clone3", "openat2")

_LOW = 0xFFFF_FFFF


@frozen
class _Bits:
    """That the bits of ``mask`` in an argument are those of ``value``. The arguments are counted from 0."""

    argument: int
    value: int
    mask: int = _LOW


# CLONE_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET.
_NEW_NAMESPACES = 0x7E02_0000

# CLONE_NEWTIME, which only ``unshare`` and ``clone3`` know: in ``clone`` the bit belongs to the exit signal.
_NEW_TIME = 0x80

# AF_UNIX, AF_INET, AF_INET6, AF_NETLINK; NETLINK_ROUTE.
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_ROUTE = 0

# SOCK_STREAM and SOCK_SEQPACKET, and the bits of the argument in which a type stands beside flags.
_CONNECTED = (1, 5)
_TYPE_BITS = 0xF

# Asking (all bits set), plain Linux, and no random addresses, which sanitizers and debuggers set for what
# they start. The others make memory executable, map page zero, or are for programs of other systems.
_PERSONALITIES = (0xFFFF_FFFF, 0, 0x0004_0000)


# S_ISUID.
_SET_UID = 0o4000

# What a process may set for itself, whose number is 0: limits, then what it gets of processors and disks. The
# first argument of the last two says that the second is the number of a process.
_OF_ONESELF = {
    "prlimit64": (_Bits(0, 0),),
    "sched_setaffinity": (_Bits(0, 0),),
    "sched_setattr": (_Bits(0, 0),),
    "sched_setparam": (_Bits(0, 0),),
    "sched_setscheduler": (_Bits(0, 0),),
    "setpriority": (_Bits(0, 0), _Bits(1, 0)),
    "ioprio_set": (_Bits(0, 1), _Bits(1, 0)),
}

# Which argument is a mode, where a file gets one. The older calls are only on x86-64.
_MODES = {"fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknodat": 2}
_OLDER_MODES = {"chmod": 1, "mknod": 1, "creat": 1}

# The same for opening, which makes a file when its flags have one of these: O_CREAT, and the bit of
# O_TMPFILE. The flags come just before the mode, which otherwise means nothing and may be anything.
_OPENING = {"openat": 3}
_OLDER_OPENING = {"open": 2}
_MAKING = (0o100, 0o2000_0000)

# What the internet sockets and the one netlink socket look like.
_INTERNET = ([_Bits(0, _INET)], [_Bits(0, _INET6)], [_Bits(0, _NETLINK), _Bits(2, _ROUTE)])


def programs(*, own_network: bool, keeps_attributes: bool = False) -> tuple[bytes, ...]:
    """The filters for this machine's architecture, each a classic BPF program, to be loaded in this order.

    ``own_network``: the command has namespaces of its own, of the network and of all else. It has none
    otherwise. ``keeps_attributes``: it may change modes, owners, times, attributes and flags of no file.

    Raises:
        seccompy.UnsupportedError: the architecture is neither x86-64 nor 64-bit ARM.
    """
    # Lazily: only a command needs it, and most sessions of an editor start none.
    from seccompy import Action, Filter, arch

    program = Filter(default=Action.ALLOW)
    is_x86 = arch() == "x86_64"
    denied: tuple[str, ...] = (*_OTHER_PROCESSES, *_KERNEL_SURFACE, *_FILE_SYSTEM, *_MACHINE)
    denied += _X86 if is_x86 else ()
    denied += () if own_network else _WITHOUT_NAMESPACES
    for name in denied:
        program.errno(name, errno.EPERM)
    for name in _WITH_A_POINTER:
        program.errno(name, errno.ENOSYS)
    if keeps_attributes:
        _no_attributes(program, is_x86=is_x86)
    _no_set_uid(program, is_x86=is_x86)
    _only(program, "clone", [_Bits(0, 0, _NEW_NAMESPACES)])
    _only(program, "unshare", [_Bits(0, 0, _NEW_NAMESPACES | _NEW_TIME)])
    _only(program, "personality", *([_Bits(0, value)] for value in _PERSONALITIES))
    for request, mask, error in answers(by_mounts=own_network, keeps_attributes=keeps_attributes):
        args = _conditions([_Bits(1, request, mask)])
        program.errno("ioctl", error, args=args) if error else program.allow("ioctl", args=args)
    _only(program, "socket", *(_INTERNET if own_network else ()))
    _only(program, "socketpair", *([_Bits(0, _UNIX), _Bits(1, kind, _TYPE_BITS)] for kind in _CONNECTED))
    if not own_network:
        for name, bits in _OF_ONESELF.items():
            _only(program, name, bits)
    return program.program, _known_calls_only()


def _only(program: "Filter", name: str, *allowed: Sequence[_Bits]) -> None:
    """Allow a call when its arguments are as one of ``allowed`` says, and refuse it otherwise."""
    for bits in allowed:
        program.allow(name, args=_conditions(bits))
    program.errno(name, errno.EPERM)  # the first rule that matches counts, and this is the last


def _no_attributes(program: "Filter", *, is_x86: bool) -> None:
    """Refuse to change a file otherwise than by writing, as Landlock refuses the writing."""
    for name in (*_ATTRIBUTES, *(_OLDER_ATTRIBUTES if is_x86 else ())):
        program.errno(name, errno.EACCES)


def _no_set_uid(program: "Filter", *, is_x86: bool) -> None:
    """Refuse to give a file the set-uid bit, when it is made or later."""
    for name, mode in (_MODES | (_OLDER_MODES if is_x86 else {})).items():
        program.errno(name, errno.EPERM, args=_conditions([_Bits(mode, _SET_UID, _SET_UID)]))
    for name, mode in (_OPENING | (_OLDER_OPENING if is_x86 else {})).items():
        for flag in _MAKING:
            bits = [_Bits(mode - 1, flag, flag), _Bits(mode, _SET_UID, _SET_UID)]
            program.errno(name, errno.EPERM, args=_conditions(bits))


def _conditions(bits: Sequence[_Bits]) -> list[tuple[int, int, int, int]]:
    """All of ``bits``, as seccompy writes conditions."""
    # Lazily, as above.
    from seccompy import CmpOp

    return [(one.argument, CmpOp.MASKED_EQ, one.value, one.mask) for one in bits]


def _known_calls_only() -> bytes:
    """The program that answers ENOSYS to every number above the last known one."""
    # Lazily, as above.
    from seccompy import Action, bpf

    number_of_call = 0  # the offset of the call's number in what the kernel shows to a filter
    return bpf.assemble(
        [
            bpf.Load(number_of_call),
            bpf.Jump(bpf.BPF_JGT, LAST_KNOWN_CALL, "unknown", None),
            bpf.Ret(Action.ALLOW),
            bpf.Ret(Action.ERRNO | errno.ENOSYS),
        ],
        {"unknown": 3},
    )
