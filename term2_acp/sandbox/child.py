"""Between us and a command that Landlock confines: a supervisor, and the child that becomes the command.

A program of its own, run by its path: it imports nothing of the package, so that it starts in a few
milliseconds, and everything it needs to know comes as JSON in a descriptor (see ``landlock``).

Theory of operation.

1. The supervisor asks the kernel for a SIGTERM when its parent dies, and answers it by killing its own
   process group, itself included. Its stdin is a gate: at a line it goes on, at the end it exits, so that it
   starts nothing for a parent that is gone. In the meantime the parent sets the limits.
2. It forks. The child gives up all capabilities, enters the Landlock domain, loads the filters and becomes
   the command. A child that cannot do one of these says so through a descriptor of its own and exits.
3. The supervisor stays outside of the domain: the command can neither signal it nor look into it, since the
   domain's signals end at its border. It waits for the child, tells how it ended through a private
   descriptor, and kills the process group. Nothing can have left that: the filters refuse to.
"""

import ctypes
import json
import os
import signal
import stat
import struct
import sys
from typing import Any, NoReturn

_PR_SET_PDEATHSIG = 1
_PR_SET_SECCOMP = 22
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522

# More than the kernel has; the call fails at the first it does not know.
_CAPABILITIES = 64

CONFINED = "+"
"""What is told of a child that has done all but become the command. Anything else is why it has not."""

# The exit code of a supervisor that started nothing.
_NOT_STARTED = 125

# One instruction of a filter, in bytes.
_INSTRUCTION = 8


class _Program(ctypes.Structure):
    """What the kernel takes for a filter: how many instructions, and where."""

    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p)]


def main() -> None:
    """Supervise one command; ends the process."""
    parent, spec_fd, status_fd, start_fd = (int(word) for word in sys.argv[1:5])
    libc = ctypes.CDLL(None, use_errno=True)
    signal.signal(signal.SIGTERM, _kill_group)
    _must(libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0), "ask to die with the parent")
    if os.getppid() != parent:
        sys.exit(_NOT_STARTED)  # it had died before we asked
    for descriptor in (spec_fd, status_fd, start_fd):
        os.set_inheritable(descriptor, False)  # noqa: FBT003 -- as the library has it
    with open(spec_fd, encoding="utf-8") as file:
        spec = json.load(file)
    sys.path.append(spec["library"])  # where ``landlockpy`` is; nothing else of ours is searched for
    if not os.read(0, 1):
        sys.exit(_NOT_STARTED)
    pid = os.fork()
    if pid == 0:
        try:
            _become(spec, libc, start_fd)
        except Exception as error:  # noqa: BLE001 -- whatever it is, the command must not run
            os.write(start_fd, str(error).encode(errors="replace"))
        finally:
            os._exit(_NOT_STARTED)
    os.close(start_fd)
    _pid, status = os.waitpid(pid, 0)
    os.write(status_fd, b"%d\n" % os.waitstatus_to_exitcode(status))
    _kill_group()


def _kill_group(*_signal: object) -> None:
    os.kill(0, signal.SIGKILL)


def _become(spec: dict[str, Any], libc: Any, start_fd: int) -> NoReturn:
    """Enter the domain and become the command; ``start_fd`` is told when all but that is done.

    Raises:
        OSError: a step failed.
    """
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.chdir(spec["cwd"])
    _drop_capabilities(libc)
    _enter_domain(spec["grants"])
    for program in spec["filters"]:
        _load_filter(libc, bytes.fromhex(program))
    # Python ignores these, and what is ignored stays so in the command.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    os.write(start_fd, CONFINED.encode())
    os.close(start_fd)
    command = spec["command"]
    try:
        os.execvpe(command[0], command, spec["environment"])  # noqa: S606 -- what this is for
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="replace"))
        # The codes by which shells tell the two apart.
        os._exit(127 if isinstance(error, FileNotFoundError) else 126)


def _drop_capabilities(libc: Any) -> None:
    """Give up what root may do beside its files: reading raw memory, changing owners, passing permissions."""
    for capability in range(_CAPABILITIES):
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break  # unknown, or we have no right to, having no capabilities anyway
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _must(libc.capset(header, bytes(24)), "give up capabilities")


def _enter_domain(grants: list[list[Any]]) -> None:
    """Restrict this process to what the grants say: pairs of a path and the rights below it.

    A path that is gone, or has become a link, grants nothing.
    """
    from landlockpy import AccessFS, Ruleset, Scope, abi_version, fs_for_abi, net_for_abi

    # All rights that this kernel knows are withheld, and nothing less than what is asked for will do.
    abi = abi_version()
    with Ruleset(
        handled_fs=fs_for_abi(abi),
        handled_net=net_for_abi(abi),
        scoped=Scope.SIGNAL | Scope.ABSTRACT_UNIX_SOCKET,
        best_effort=False,
    ) as ruleset:
        for path, rights in grants:
            _grant(ruleset, path, AccessFS(rights) & ruleset.handled_fs)
        ruleset.restrict()


def _grant(ruleset: Any, path: str, rights: Any) -> None:
    """Add one rule, by a descriptor that was reached through no link."""
    from landlockpy import AccessFS

    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISLNK(mode) or os.readlink(f"/proc/self/fd/{descriptor}") != path:
            return  # a folder above it may have become a link as well, and it is somewhere else then
        if not stat.S_ISDIR(mode):
            # The kernel refuses rights of folders on anything else.
            rights &= (
                AccessFS.EXECUTE
                | AccessFS.READ_FILE
                | AccessFS.WRITE_FILE
                | AccessFS.TRUNCATE
                | AccessFS.IOCTL_DEV
            )
        ruleset.allow_path(f"/proc/self/fd/{descriptor}", rights)
    finally:
        os.close(descriptor)


def _load_filter(libc: Any, program: bytes) -> None:
    """Load one filter. The domain has set ``no_new_privs``, without which this would need a right."""
    filters = _Program(len(program) // _INSTRUCTION, program)
    _must(libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.byref(filters), 0, 0), "load the filters")


def _must(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"cannot {what}: {os.strerror(number)}")


if __name__ == "__main__":
    main()
