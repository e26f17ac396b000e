"""The filters, tried twice. A small interpreter of BPF asks them about every call that is named, with
arguments that try to slip past a comparison, for both architectures and without a kernel. Then real children
load them and try what must fail and what must work."""

import errno
import json
import platform
import shutil
import socket
import struct
import subprocess
import sys

import pytest

from term2_acp.sandbox.seccomp import LAST_KNOWN_CALL, programs

seccompy = pytest.importorskip("seccompy")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")

ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
X86_64, AARCH64, I386, ARM = 0xC000003E, 0xC00000B7, 0x40000003, 0x40000028
UPPER = 0xDEAD_BEEF << 32


def words(text):
    return text.split()


DENIED = words("""
    ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp migrate_pages move_pages
    io_uring_setup io_uring_enter io_uring_register bpf perf_event_open userfaultfd fanotify_init
    keyctl add_key request_key lookup_dcookie nfsservctl
    mount umount2 pivot_root chroot move_mount mount_setattr open_tree open_tree_attr
    fsopen fsconfig fsmount fspick open_by_handle_at setns
    kexec_load kexec_file_load init_module finit_module delete_module swapon swapoff reboot syslog acct
    quotactl quotactl_fd settimeofday clock_settime clock_adjtime adjtimex sethostname setdomainname vhangup
""")
DENIED_X86 = words("iopl ioperm modify_ldt uselib")
DENIED_WITHOUT_NAMESPACES = words("""
    setsid setpgid shmget shmat shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
    mq_open mq_unlink
""")
ALLOWED = words("""
    read write openat close mmap mprotect execve execveat exit_group wait4 kill tgkill futex prctl
    seccomp landlock_create_ruleset memfd_create pidfd_open pidfd_send_signal connect bind listen sendto
    sendmsg chdir fchmodat renameat2 linkat symlinkat mknodat epoll_create1 inotify_init1 timerfd_create
    clock_gettime getrandom sched_getaffinity setuid capset name_to_handle_at rseq copy_file_range statx
""")


def answer(program, number, arguments, arch):
    """What a filter answers to a call, as the kernel would run it."""
    data = struct.pack("<iIQ6Q", number if number < 2**31 else number - 2**32, arch, 0, *arguments)
    at = accumulator = 0
    while True:
        code, yes, no, k = struct.unpack_from("<HBBI", program, 8 * at)
        at += 1
        if code == 0x06:
            return k
        if code == 0x20:
            (accumulator,) = struct.unpack_from("<I", data, k)
        elif code == 0x54:
            accumulator &= k
        elif code == 0x05:
            at += k
        else:
            holds = {0x15: accumulator == k, 0x25: accumulator > k, 0x35: accumulator >= k}[code]
            at += yes if holds else no


class Machine:
    """Both filters of one architecture, asked about calls by name or number."""

    def __init__(self, arch, **options):
        self.arch = arch
        self.programs = programs(**options)

    def __call__(self, call, *arguments, arch=None):
        """None for leave, the name of the error, or "kill"; the smaller answer is the stricter one."""
        number = seccompy.syscall_nr(call)
        padded = (*arguments, *(0,) * (6 - len(arguments)))
        found = [answer(program, number, padded, arch or self.arch) for program in self.programs]
        if KILL_PROCESS in found:
            return "kill"
        strictest = min(found)
        return None if strictest == ALLOW else errno.errorcode[strictest - ERRNO]


@pytest.fixture(params=["x86_64", "aarch64"])
def arch(request, monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: request.param)
    return {"x86_64": X86_64, "aarch64": AARCH64}[request.param]


@pytest.fixture
def inside(arch):
    return Machine(arch, own_network=True)


@pytest.fixture
def outside(arch):
    return Machine(arch, own_network=False)


# -- what the filters say --------------------------------------------------------------------------


def test_what_is_denied_is_denied_whatever_its_arguments(inside, outside, arch):
    for name in [*DENIED, *(DENIED_X86 if arch == X86_64 else [])]:
        for arguments in [(), (2**64 - 1,) * 6, (1,) * 6]:
            assert (name, inside(name, *arguments)) == (name, "EPERM")
            assert (name, outside(name, *arguments)) == (name, "EPERM")


def test_what_programs_need_is_allowed(inside, outside):
    for name in ALLOWED:
        assert (name, inside(name, 1, 2, 3)) == (name, None)
        assert (name, outside(name, 1, 2, 3)) == (name, None)


def test_what_leaves_the_group_or_is_shared_with_the_machine_is_denied_where_no_namespace_bounds_it(
    inside, outside
):
    for name in DENIED_WITHOUT_NAMESPACES:
        assert (name, inside(name)) == (name, None)
        assert (name, outside(name)) == (name, "EPERM")
    for name in words("prlimit64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler"):
        assert (name, outside(name, 0, 7)) == (name, None)
        assert (name, outside(name, UPPER, 7)) == (name, None)
        assert (name, outside(name, 1, 7)) == (name, "EPERM")
        assert (name, inside(name, 1, 7)) == (name, None)
    for name, of_a_process, of_others in (("setpriority", 0, (1, 2)), ("ioprio_set", 1, (2, 3))):
        assert (name, outside(name, of_a_process, 0, 7)) == (name, None)
        assert (name, outside(name, of_a_process, 1, 7)) == (name, "EPERM")
        assert (name, inside(name, of_a_process, 1, 7)) == (name, None)
        for which in of_others:
            assert (name, outside(name, which, 0, 7)) == (name, "EPERM")


def test_no_call_makes_a_namespace(inside, arch):
    ordinary = 0x003D_0F00 | 17  # what a C library asks for a thread, and SIGCHLD
    assert inside("clone", ordinary) is None
    assert inside("clone", 0x4111) is None
    assert inside("unshare", 0x600) is None
    for bit in (0x0002_0000, 0x0200_0000, 0x0400_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000, 0x4000_0000):
        assert inside("clone", ordinary | bit) == "EPERM"
        assert inside("clone", ordinary | bit | UPPER) == "EPERM"
        assert inside("unshare", bit) == "EPERM"
        assert inside("unshare", bit | 0x600 | UPPER) == "EPERM"
    assert inside("unshare", 0x80) == "EPERM"
    assert inside("clone3", 0x7FFF_0000, 88) == "ENOSYS"


def test_no_file_gets_the_set_uid_bit(inside, outside, arch):
    modes = {"fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknodat": 2}
    opening = {"openat": 3}
    if arch == X86_64:
        modes |= {"chmod": 1, "mknod": 1, "creat": 1}
        opening |= {"open": 2}
    for machine in (inside, outside):
        for name, at in modes.items():
            before = (0,) * at
            for mode in (0o4000, 0o4755, 0o104755, 0o7777, UPPER | 0o4000):
                assert (name, mode, machine(name, *before, mode)) == (name, mode, "EPERM")
            for mode in (0o755, 0o2775, 0o1777, 0o100644, UPPER | 0o755):
                assert (name, mode, machine(name, *before, mode)) == (name, mode, None)
        for name, at in opening.items():
            before = (0,) * (at - 1)
            for flags in (0o100, 0o1102, 0o20200000, 0o20200002, UPPER | 0o100):
                assert (name, machine(name, *before, flags, 0o4755)) == (name, "EPERM")
                assert (name, machine(name, *before, flags, 0o2755)) == (name, None)
            # Without a file that is made the mode is whatever is left there.
            for flags in (0, 2, 0o200000, 0o2000):
                assert (name, machine(name, *before, flags, 2**64 - 1)) == (name, None)
        assert machine("openat2", 1, 2, 3, 24) == "ENOSYS"


def test_nothing_but_the_content_of_a_file_is_changed_where_that_is_asked_for(outside, arch):
    keeping = Machine(arch, own_network=False, keeps_attributes=True)
    names = (
        "fchmod fchmodat fchmodat2 fchown fchownat utimensat setxattr lsetxattr fsetxattr setxattrat "
        "removexattr lremovexattr fremovexattr removexattrat file_setattr"
    )
    for name in [
        *words(names),
        *(words("chmod chown lchown utime utimes futimesat") if arch == X86_64 else []),
    ]:
        assert (name, keeping(name, 1, 2, 0o644)) == (name, "EACCES")
        assert (name, outside(name, 1, 2, 0o644)) == (name, None)
    requests = 0x40086602, 0x40046602, 0x401C5820, 0x40087602, 0x40047602, 0x40806685, 0x800C6613, 0xC0189436
    for request in (*requests, UPPER | 0x40086602):
        assert keeping("ioctl", 3, request) == "EACCES"
        assert outside("ioctl", 3, request) is None
    for name in ALLOWED:
        if outside(name, 1, 2, 3) is None and name not in words(names):
            assert (name, keeping(name, 1, 2, 3)) == (name, None)
    assert keeping("ioctl", 1, 0x5401) is None  # what a program asks its terminal
    assert keeping("socket", 1, 1, 0) == "EPERM"


def test_only_internet_sockets_and_the_routing_netlink_are_made(inside, outside):
    allowed = {(2, 0), (2, 6), (2, 17), (10, 0), (10, 58), (16, 0)}
    for family in range(50):
        for protocol in (0, 6, 12, 15, 17, 58):
            for high in (0, UPPER):
                found = inside("socket", family | high, 0x80002, protocol | high)
                if family in (2, 10) or (family, protocol) in allowed:
                    assert found is None
                else:
                    assert found == "EPERM"
                assert outside("socket", family | high, 1, protocol) == "EPERM"


def test_pairs_of_sockets_are_connected_ones(inside, outside):
    for machine in (inside, outside):
        for kind in (1, 5):
            for flags in (0, 0x80000, 0x800, 0x80800, UPPER):
                assert machine("socketpair", 1, kind | flags) is None
        # A raw UNIX socket is a datagram socket by another name.
        for kind in (0, 2, 3, 4, 6, 10):
            assert machine("socketpair", 1, kind | 0x80000) == "EPERM"
            assert machine("socketpair", 1, kind | UPPER) == "EPERM"
        for family in (0, 2, 10, 16, 30, 40):
            assert machine("socketpair", family, 1) == "EPERM"


def test_nothing_types_into_a_terminal(inside):
    for request in (0x5412, 0x541C):
        for high in (0, UPPER, 2**32):
            assert inside("ioctl", 0, request | high) == "EPERM"
            assert inside("ioctl", 2**64 - 1, request | high) == "EPERM"
    for request in (0x5401, 0x5413, 0x541B, 0x5421, 0x5412_0000):
        assert inside("ioctl", 0, request) is None
    assert inside("ioctl", 0x5412, 0x5401) is None


def test_no_file_system_makes_or_copies_names_on_request(arch, inside, outside):
    """btrfs: a subvolume and a snapshot, by all their calls, removing one, its flags; bcachefs: the same."""
    keeping = Machine(arch, own_network=False, keeps_attributes=True)
    names = 0x5000940E, 0x50009401, 0x50009417, 0x50009418, 0x5000940F, 0x5000943F, 0x4008941A, 0x402CBC10
    for request in (*names, *(UPPER | name for name in names)):
        for machine in (inside, outside, keeping):
            assert (hex(request), machine("ioctl", 3, request)) == (hex(request), "ENOTTY")
    for clone in (0x40049409, 0x4020940D):
        for machine in (inside, outside, keeping):
            assert machine("ioctl", 3, clone) is None


def test_where_nothing_is_mounted_only_requests_that_were_looked_at_are_made(arch, inside, outside):
    keeping = Machine(arch, own_network=False, keeps_attributes=True)
    for request in (0x1, 0x2, 0x5401, 0x541B, 0x5421, 0x5451, 0x80086601, 0x801C581F, 0xC020660B):
        assert outside("ioctl", 3, request) is keeping("ioctl", 3, request) is None
    # An older name for the version on ext4, the attributes of a FAT, a reflink of OCFS2, a folder of Lustre.
    for request in (0x40086604, 0x40047211, 0x40186F04, 0x402066F5, 0, 2**32 - 1):
        assert outside("ioctl", 3, request) == keeping("ioctl", 3, request) == "ENOTTY"
        assert inside("ioctl", 3, request) is None


def test_only_harmless_personalities_are_taken(inside):
    for value in (0, 0xFFFF_FFFF, 2**64 - 1, 0x0004_0000, UPPER):
        assert inside("personality", value) is None
    for value in (0x0040_0000, 0x0010_0000, 0x0044_0000, 0x0020_0000, 8, 0x0400_0004):
        assert inside("personality", value) == "EPERM"


def test_calls_that_nobody_looked_at_do_not_exist(inside, outside):
    for machine in (inside, outside):
        assert machine(LAST_KNOWN_CALL) is None
        for number in (LAST_KNOWN_CALL + 1, 512, 547, 1000, 0x4000_0000, 0x4000_0000 + 39, 2**31, 2**32 - 1):
            assert (number, machine(number)) == (number, "ENOSYS")
        for name in ("ptrace", "mount", "socket", "ioctl"):
            assert machine(0x4000_0000 + seccompy.syscall_nr(name), 1, 0x5412) == "ENOSYS"


def test_a_call_of_another_architecture_kills(inside, arch):
    others = {X86_64: (I386, AARCH64), AARCH64: (ARM, X86_64)}[arch]
    for other in others:
        assert inside(0, arch=other) == "kill"
        assert inside(0x4000_0000, arch=other) == "kill"


def test_the_list_knows_what_the_library_knows():
    for table in (seccompy.syscalls.X86_64_SYSCALLS, seccompy.syscalls.AARCH64_SYSCALLS):
        newer = {name for name, number in table.items() if number > LAST_KNOWN_CALL}
        assert newer == set(), "look at these calls, then raise the bound"


def test_an_unknown_architecture_is_an_error(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    with pytest.raises(seccompy.UnsupportedError):
        programs(own_network=True)


def test_the_programs_are_the_same_each_time():
    assert programs(own_network=True) == programs(own_network=True)
    assert programs(own_network=True) != programs(own_network=False)
    assert all(len(program) % 8 == 0 for program in programs(own_network=True))


# -- what the kernel does with them ----------------------------------------------------------------

LOAD = """
import ctypes, errno, json, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def load(program):
    buffer = ctypes.create_string_buffer(program, len(program))
    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
    given = Program(len(program) // 8, ctypes.addressof(buffer))
    if libc.prctl(22, 2, ctypes.byref(given), 0, 0):
        raise OSError(ctypes.get_errno(), "the filter does not load")
def call(number, *arguments):
    ctypes.set_errno(0)
    found = libc.syscall(ctypes.c_long(number), *(ctypes.c_ulong(one) for one in arguments))
    return errno.errorcode[ctypes.get_errno()] if found == -1 else "done"
def tried(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"
libc.prctl(38, 1, 0, 0, 0)
for program in json.loads(sys.argv[1]):
    load(bytes.fromhex(program))
"""


def loaded(code, *, own_network=True, timeout=30):
    """What a child prints that runs ``code`` under the filters; the code can use what ``LOAD`` defines."""
    given = json.dumps([program.hex() for program in programs(own_network=own_network)])
    child = subprocess.run(
        [sys.executable, "-I", "-c", LOAD + code, given],
        capture_output=True,
        text=True,
        timeout=timeout,
        start_new_session=True,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


@pytest.mark.parametrize("own_network", [True, False])
def test_the_kernel_refuses_what_is_denied(own_network):
    names = [name for name in [*DENIED, "clone3", "openat2"] if name != "vhangup"]
    numbers = {name: seccompy.syscall_nr(name) for name in names}
    # Of arguments that mean nothing: were a call not refused, it would fail otherwise and do nothing.
    bad = 2**64 - 1
    code = f"print(json.dumps({{name: call(number, *[{bad}] * 6) for name, number in {numbers}.items()}}))"
    expected = dict.fromkeys(names, "EPERM") | {"clone3": "ENOSYS", "openat2": "ENOSYS"}
    assert json.loads(loaded(code, own_network=own_network)) == expected


def test_the_kernel_refuses_the_second_table_of_calls():
    assert loaded(f"print(call({0x4000_0000 + 39}), call({LAST_KNOWN_CALL + 1}))") == "ENOSYS ENOSYS\n"


def test_no_socket_of_a_daemon_is_reached(tmp_path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as daemon:
        daemon.bind(str(tmp_path / "daemon"))
        daemon.setblocking(False)
        code = f"""
print(tried(socket.socket, socket.AF_UNIX), tried(socket.socket, socket.AF_UNIX, socket.SOCK_DGRAM))
print(tried(socket.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM))
print(tried(socket.socket, socket.AF_VSOCK), tried(socket.socket, socket.AF_PACKET, socket.SOCK_RAW))
for kind in (socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    one, two = socket.socketpair(socket.AF_UNIX, kind)
    one.send(b"x")
    print(two.recv(9), tried(one.connect, {daemon.getsockname()!r}) != "done")
    tried(one.sendto, b"stolen", {daemon.getsockname()!r})
"""
        refused = "EPERM EPERM\nEPERM\nEPERM EPERM\nb'x' True\nb'x' True\n"
        assert loaded(code) == refused
        assert loaded(code, own_network=False) == refused
        with pytest.raises(BlockingIOError):
            daemon.recv(99)


def test_internet_sockets_are_made_in_a_network_of_ones_own_alone():
    code = """
print(tried(socket.socket, socket.AF_INET), tried(socket.socket, socket.AF_INET6, socket.SOCK_DGRAM))
print(tried(socket.if_nameindex))
"""
    assert loaded(code).startswith("done")
    assert loaded(code).endswith("done\n")
    assert loaded(code, own_network=False).startswith("EPERM EPERM\n")


def test_nothing_is_typed_into_a_terminal():
    code = f"""
import pty
ours, theirs = pty.openpty()
key = ctypes.create_string_buffer(b"x")
requests = (0x5412, 0x541C, 0x1_0000_5412)
print(*(call({seccompy.syscall_nr("ioctl")}, theirs, one, ctypes.addressof(key)) for one in requests))
"""
    assert loaded(code) == "EPERM EPERM EPERM\n"


def test_nothing_leaves_the_group_where_the_group_is_all_that_can_be_killed():
    code = """
sys.stdout.flush()
child = os.fork()
if child == 0:
    print(tried(os.setsid), tried(os.setpgid, 0, 0), flush=True)
    os._exit(0)
os.waitpid(child, 0)
"""
    assert loaded(code, own_network=False) == "EPERM EPERM\n"
    assert loaded(code) == "done EPERM\n"  # a leader of a session has no other group to go to


WORK = """
import asyncio, multiprocessing, queue, subprocess, threading
if __name__ == "__main__":
    seen = queue.Queue()
    threads = [threading.Thread(target=seen.put, args=(n,)) for n in range(8)]
    [t.start() for t in threads], [t.join() for t in threads]
    print(sorted(seen.queue))
    done = subprocess.run(["/bin/sh", "-c", "echo a | cat; (exit 3)"], capture_output=True)
    print(done.returncode, done.stdout, done.stderr)
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(pool.map(abs, [-1, 2]))
    async def run():
        child = await asyncio.create_subprocess_exec("/bin/echo", "b", stdout=-1)
        return (await child.communicate())[0]
    print(asyncio.run(run()))
"""


@pytest.mark.parametrize("own_network", [True, False])
def test_threads_processes_and_pools_of_python_work(own_network):
    assert loaded(WORK, own_network=own_network).splitlines() == [
        "[0, 1, 2, 3, 4, 5, 6, 7]",
        r"3 b'a\n' b''",
        "[1, 2]",
        "[1, 2]",
        r"b'b\n'",
    ]


def run_loaded(argv, cwd, *, own_network):
    code = f"os.chdir({str(cwd)!r}); sys.stdout.flush(); os.execvp({argv[0]!r}, {argv!r})"
    return loaded(code, own_network=own_network, timeout=60)


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("own_network", [True, False])
def test_git_works(tmp_path, own_network):
    line = (
        "git init -q && git config user.email a@b && git config user.name n && echo x > f && git add f"
        " && git commit -qm one && git gc -q && git stash list && git log --format=%s"
    )
    assert run_loaded(["sh", "-c", line], tmp_path, own_network=own_network) == "one\n"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
@pytest.mark.parametrize("own_network", [True, False])
def test_node_works(tmp_path, own_network):
    script = """
const { execFileSync, fork } = require("child_process");
const { Worker } = require("worker_threads");
if (process.send) { process.send(42); process.disconnect(); } else {
  process.stdout.write(execFileSync("echo", ["a"]));
  const child = fork(__filename);
  child.on("message", (m) => { console.log(m);
    new Worker("require('worker_threads').parentPort.postMessage(7)", { eval: true })
      .on("message", (n) => console.log(n)); });
}
"""
    (tmp_path / "a.js").write_text(script)
    assert run_loaded(["node", "a.js"], tmp_path, own_network=own_network) == "a\n42\n7\n"
