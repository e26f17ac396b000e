"""The command line of bubblewrap for a policy: pure, and good for every version since 0.8.

What each part is for:

- ``--unshare-user --cap-drop ALL --disable-userns``: bubblewrap started by root would leave the command every
  capability, with which it undoes the mounts; and a command that may make user namespaces gets them back.
- The other namespaces: its own processes, System V memory, host name, view of control groups, and a network
  that has the loopback device alone.
- ``--die-with-parent``: when we are killed, the namespace's first process is, and with it all others. The
  signal belongs to the thread that started bubblewrap, which therefore is the main one.
- ``--new-session``: the command has no terminal to type into.
- The mounts, in the order of ``mounts``. The folder of the new devices could be filled to half of the memory,
  and so is made read-only; the devices in it are mounts of their own.
- The filters, which are loaded in the order given, last of all.
- ``--block-fd``: the command waits until this descriptor can be read, so that its limits are in force first.
- ``--json-status-fd``: tells the namespace's first process, and how the command exited.

No variable is set or cleared here: bubblewrap is started with the command's environment, since its own can be
read in ``/proc/1/environ`` of the sandbox.
"""

from collections.abc import Sequence

from term2_acp.sandbox.mounts import Kind, Mount, mounts
from term2_acp.sandbox.policy import Policy, SandboxRefused

# Arguments that bubblewrap takes at most; it exits with a word of its own at one more.
MAX_ARGUMENTS = 9000

_NAMESPACES = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--unshare-cgroup-try",
    "--unshare-net",
    "--die-with-parent",
    "--new-session",
    "--hostname",
    "sandbox",
    "--cap-drop",
    "ALL",
    "--disable-userns",
)


def bwrap_argv(
    program: str,
    policy: Policy,
    command: Sequence[str],
    *,
    status_fd: int,
    block_fd: int,
    filter_fds: Sequence[int],
) -> list[str]:
    """The whole command line that runs ``command`` under ``policy``, which ``check`` has passed.

    ``program`` is the path of bubblewrap. The descriptors are those it inherits: it writes its status to
    ``status_fd``, waits for ``block_fd``, and reads one filter from each of ``filter_fds``.

    Raises:
        SandboxRefused: there are more places to mount than bubblewrap takes.
    """
    argv = [program, *_NAMESPACES]
    for mount in mounts(policy):
        argv += _arguments(mount)
    for descriptor in filter_fds:
        argv += ["--add-seccomp-fd", str(descriptor)]
    argv += ["--json-status-fd", str(status_fd), "--block-fd", str(block_fd)]
    argv += ["--chdir", policy.cwd, "--", *command]
    if len(argv) > MAX_ARGUMENTS:
        raise SandboxRefused("the workspace has more protected names than bubblewrap can keep read-only")
    return argv


def _arguments(mount: Mount) -> list[str]:
    """What makes bubblewrap mount this."""
    target = mount.target
    if mount.source is not None:
        return [_BINDS[mount.kind], mount.source, target]
    if mount.kind is Kind.PROCESSES:
        return ["--proc", target]
    if mount.kind is Kind.DEVICES:
        return ["--dev", target, "--remount-ro", target]
    made = ["--size", str(mount.size), "--tmpfs", target]
    if mount.kind is Kind.MASK:
        return ["--perms", "0555", *made, "--remount-ro", target]
    return ["--perms", "1777", *made]


_BINDS = {
    Kind.READ_ONLY: "--ro-bind",
    Kind.READ_ONLY_IF_THERE: "--ro-bind-try",
    Kind.WRITABLE: "--bind",
}
