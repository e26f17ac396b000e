"""Attempts to undo the sandbox with the kernel's help: mounts, namespaces, its settings, its large
interfaces, other tables of system calls, terminals, and programs that bring rights of their own."""

import contextlib
import ctypes
import fcntl
import mmap
import os
import platform
import signal
import subprocess

from harness import attempt, call, link_descriptor, main

SYS = {
    "x86_64": {
        "ptrace": 101, "personality": 135, "pivot_root": 155, "chroot": 161, "mount": 165, "umount2": 166,
        "add_key": 248, "keyctl": 250, "unshare": 272, "perf_event_open": 298, "setns": 308, "bpf": 321,
        "userfaultfd": 323, "process_vm_readv": 310, "chmod": 90, "mmap": 9,
    },
    "aarch64": {
        "ptrace": 117, "personality": 92, "pivot_root": 41, "chroot": 51, "mount": 40, "umount2": 39,
        "add_key": 217, "keyctl": 219, "unshare": 97, "perf_event_open": 241, "setns": 268, "bpf": 280,
        "userfaultfd": 282, "process_vm_readv": 270, "mmap": 222,
    },
}[platform.machine()] | {
    "io_uring_setup": 425, "pidfd_open": 434, "clone3": 435, "openat2": 437, "pidfd_getfd": 438,
    "mount_setattr": 442, "open_tree": 428, "move_mount": 429, "fsopen": 430, "fchmodat2": 452,
}  # fmt: skip

MS_RDONLY, MS_REMOUNT, MS_BIND, MNT_DETACH = 1, 32, 4096, 2
NEW_USER, NEW_MOUNTS = 0x1000_0000, 0x0002_0000


def mount(source, target, flags):
    call(SYS["mount"], os.fsencode(source) + b"\0", os.fsencode(target) + b"\0", b"none\0", flags, 0)


def inner_user(inside):
    """Do something as the root of a user namespace of one's own, where that can be made."""
    call(SYS["unshare"], NEW_USER | NEW_MOUNTS)
    inside()


def opened_for_writing(path):
    """Open and close: nothing is written, for on a machine that lets us it would have an effect."""
    os.close(os.open(path, os.O_WRONLY))


# -- mounts and namespaces -------------------------------------------------------------------------


@attempt
def make_the_root_writable(at):
    mount("none", "/", MS_REMOUNT | MS_BIND)


@attempt
def make_the_home_writable_by_attributes(at):
    """By the newer call: attributes to clear, that of read-only."""
    call(
        SYS["mount_setattr"],
        -100,
        b"/\0",
        0x8000,
        (0).to_bytes(8, "little") + (1).to_bytes(8, "little") + bytes(16),
        32,
    )


@attempt
def take_off_a_mask(at):
    call(SYS["umount2"], os.fsencode(at.hidden) + b"\0", MNT_DETACH)


@attempt
def bind_something_over_a_mask(at):
    mount(at.workspace, at.hidden, MS_BIND)


@attempt
def bind_the_root_into_the_workspace(at):
    os.mkdir("root")
    mount("/", at.workspace + "/root", MS_BIND)


@attempt
def clone_a_tree_of_mounts(at):
    call(SYS["open_tree"], -100, b"/\0", 1)


@attempt
def make_a_file_system(at):
    call(SYS["fsopen"], b"tmpfs\0", 0)


@attempt
def change_the_root(at):
    call(SYS["chroot"], os.fsencode(at.workspace) + b"\0")


@attempt
def pivot_the_root(at):
    call(SYS["pivot_root"], b".\0", b".\0")


@attempt
def enter_the_namespace_of_the_first_process(at):
    call(SYS["setns"], os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)


@attempt
def enter_a_namespace_by_a_descriptor_of_a_process(at):
    call(SYS["setns"], os.pidfd_open(os.getpid()), NEW_MOUNTS)


@attempt
def make_a_user_namespace(at):
    call(SYS["unshare"], NEW_USER)


@attempt
def make_a_user_namespace_by_clone(at):
    number = 56 if platform.machine() == "x86_64" else 220
    if call(number, NEW_USER | 17, 0, 0, 0, 0) == 0:
        os._exit(0)


@attempt
def make_a_user_namespace_by_the_newer_clone(at):
    arguments = NEW_USER.to_bytes(8, "little") + bytes(24) + (17).to_bytes(8, "little") + bytes(24)
    if call(SYS["clone3"], arguments, len(arguments)) == 0:
        os._exit(0)


@attempt
def make_a_user_namespace_by_a_program(at):
    done = subprocess.run(["unshare", "-U", "true"], capture_output=True, text=True)
    return "done" if done.returncode == 0 else "refused"


@attempt
def unmount_in_a_namespace_of_ones_own(at):
    inner_user(lambda: call(SYS["umount2"], os.fsencode(at.hidden) + b"\0", MNT_DETACH))


# -- settings of the machine -----------------------------------------------------------------------


@attempt
def the_program_for_core_dumps(at):
    opened_for_writing("/proc/sys/kernel/core_pattern")


@attempt
def the_program_for_modules(at):
    opened_for_writing("/proc/sys/kernel/modprobe")


@attempt
def the_keys_of_the_system_request(at):
    opened_for_writing("/proc/sysrq-trigger")


@attempt
def anything_below_proc(at):
    """Every file but those of processes; a mere look first, for some of them take long to open."""
    found = []
    for folder, folders, files in os.walk("/proc"):
        if folder == "/proc":
            folders[:] = [name for name in folders if not name.isdecimal() and "self" not in name]
        found += [
            os.path.join(folder, name) for name in files if os.access(os.path.join(folder, name), os.W_OK)
        ]
    return "some" if [path for path in found if "self" not in path] else "nothing"


@attempt
def anything_below_sys(at):
    """Not all of it, which takes long: some thousand files of every part."""
    for part in os.listdir("/sys"):
        looked_at = 0
        for folder, _folders, files in os.walk(f"/sys/{part}"):
            if any(os.access(os.path.join(folder, name), os.W_OK) for name in files):
                return "some"
            looked_at += len(files)
            if looked_at > 1000:
                break
    return "nothing"


@attempt
def the_agent_of_a_control_group(at):
    """The kernel runs what is written there, outside, when a group is empty."""
    for folder, _folders, files in os.walk("/sys/fs/cgroup"):
        for name in {"release_agent", "cgroup.procs"} & set(files):
            try:
                opened_for_writing(os.path.join(folder, name))
            except OSError:
                continue
            return "opened"
    return "nothing"


@attempt
def raw_devices(at):
    """Those that may be opened without doing anything by that; a watchdog would begin to count."""
    names = (
        "mem", "port", "kmsg", "fuse", "kvm", "loop-control", "loop0", "vda", "sda", "nvme0n1", "net/tun",
        "mapper/control", "vsock", "vhost-net", "uinput", "userfaultfd", "input/event0", "tty0", "console",
    )  # fmt: skip
    found = []
    for name in names:
        try:
            os.close(os.open(f"/dev/{name}", os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY))
        except OSError:
            continue
        found.append(name)
    return "some" if found else "nothing"


@attempt
def a_device_that_is_not_harmless(at):
    """What is in the folder at all, but for links, terminals and shared memory."""
    harmless = {
        "null",
        "zero",
        "full",
        "random",
        "urandom",
        "ptmx",
        "tty",
        "pts",
        "shm",
        "core",
        "fd",
        "console",
    }
    links = {"stdin", "stdout", "stderr"}
    return "some" if set(os.listdir("/dev")) - harmless - links else "none"


# -- large interfaces ------------------------------------------------------------------------------


@attempt
def keys_of_the_kernel(at):
    call(SYS["add_key"], b"user\0", b"term2\0", b"x", 1, -3 & 0xFFFF_FFFF)


@attempt
def keyrings_of_the_session(at):
    call(SYS["keyctl"], 0, -3 & 0xFFFF_FFFF, 1)


@attempt
def rings_of_input_and_output(at):
    call(SYS["io_uring_setup"], 4, bytes(120))


@attempt
def programs_in_the_kernel(at):
    """A map, which needs the least: arguments of an array with one entry."""
    words = [2, 4, 4, 1]
    call(SYS["bpf"], 0, b"".join(word.to_bytes(4, "little") for word in words) + bytes(112), 128)


@attempt
def faults_handled_by_a_process(at):
    call(SYS["userfaultfd"], 1)


@attempt
def counters_of_the_processor(at):
    """Of this process alone, in software: the least of them."""
    attributes = (
        (1).to_bytes(4, "little")
        + (128).to_bytes(4, "little")
        + bytes(32)
        + (0x61).to_bytes(8, "little")
        + bytes(80)
    )
    call(SYS["perf_event_open"], attributes, 0, -1, -1, 0)


@attempt
def memory_that_is_executable_by_reading(at):
    call(SYS["personality"], 0x0400000)


@attempt
def page_zero(at):
    call(SYS["personality"], 0x0100000)


@attempt
def addresses_that_are_not_random(at):
    """The neighbour that is allowed: debuggers and sanitizers set it for what they start."""
    call(SYS["personality"], 0x0040000)


@attempt
def a_debugger_of_a_child(at):
    child = os.fork()
    if child == 0:
        with contextlib.suppress(OSError):
            call(SYS["ptrace"], 0, 0, 0, 0)
            os._exit(7)
        os._exit(1)
    _child, status = os.waitpid(child, 0)
    return "done" if os.waitstatus_to_exitcode(status) == 7 else "refused"


# -- other tables of system calls ------------------------------------------------------------------


def i386_program():
    """A whole file: write(1, "i386\\n", 5) by interrupt 0x80, then exit(42)."""
    code = bytes.fromhex("b804000000bb01000000b9")
    text = b"i386\n"
    entry = 0x08048054
    size_of_code = 11 + 4 + 5 + 2 + 5 + 5 + 2
    code += (entry + size_of_code).to_bytes(4, "little")
    code += bytes.fromhex("ba05000000cd80b801000000bb2a000000cd80")
    whole = 84 + len(code) + len(text)
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    header += b"".join(
        n.to_bytes(size, "little")
        for n, size in (
            (2, 2), (3, 2), (1, 4), (entry, 4), (52, 4), (0, 4), (0, 4), (52, 2), (32, 2), (1, 2), (0, 2),
            (0, 2), (0, 2),
        )
    )  # fmt: skip
    program = b"".join(
        n.to_bytes(4, "little") for n in (1, 0, 0x08048000, 0x08048000, whole, whole, 5, 0x1000)
    )
    return header + program + code + text


@attempt
def a_program_of_32_bits(at):
    with open("i386", "wb") as file:
        file.write(i386_program())
    os.chmod("i386", 0o755)
    done = subprocess.run(["./i386"], capture_output=True)
    if done.returncode == 42 and done.stdout == b"i386\n":
        return "done"
    return signal.Signals(-done.returncode).name if done.returncode < 0 else repr(done)


@attempt
def the_table_of_32_bits_by_an_interrupt(at):
    """In this process: 20 is getpid in that table, and getpid is all that it asks for."""
    if platform.machine() != "x86_64":
        return "no such table"
    code = mmap.mmap(
        -1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
    )
    code.write(bytes.fromhex("53b814000000cd805bc3"))
    function = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    return "done" if function() == os.getpid() else "another answer"


@attempt
def the_second_table_of_64_bits(at):
    """x32: the same numbers with a bit more; 39 is getpid."""
    call(0x4000_0000 + 39)


@attempt
def a_call_that_nobody_looked_at(at):
    call(4000)


# -- terminals -------------------------------------------------------------------------------------


@attempt
def the_terminal_of_the_daemon(at):
    os.open("/dev/tty", os.O_RDWR)


@attempt
def the_terminal_of_the_daemon_by_its_name(at):
    os.open(at.terminal, os.O_RDWR | os.O_NOCTTY)


@attempt
def a_descriptor_of_a_terminal(at):
    found = [
        number for number in os.listdir("/proc/self/fd") if number.isdecimal() and os.isatty(int(number))
    ]
    return "some" if found else "none"


def own_terminal():
    import pty

    return pty.openpty()


@attempt
def typing_into_a_terminal(at):
    try:
        descriptor = own_terminal()[1]
    except OSError:
        descriptor = 1  # the filter looks at the request and not at the file
    fcntl.ioctl(descriptor, 0x5412, b"x")


@attempt
def typing_with_upper_bits_set(at):
    number = 16 if platform.machine() == "x86_64" else 29
    try:
        descriptor = own_terminal()[1]
    except OSError:
        descriptor = 1
    call(number, descriptor, 0x1_0000_5412, b"x")


@attempt
def pasting_into_a_console(at):
    fcntl.ioctl(1, 0x541C, b"\x03")


@attempt
def a_terminal_of_ones_own(at):
    """The neighbour that is allowed under bubblewrap: programs test themselves with one."""
    ours, theirs = own_terminal()
    os.write(theirs, b"x")
    return os.read(ours, 1).decode() == "x" and "done"


# -- programs with rights of their own -------------------------------------------------------------


@attempt
def becoming_root_by_su(at):
    """No new privileges: the bit of ``su`` gives nothing. It is not run: outside it would ask for a word."""
    with open("/proc/self/status") as file:
        return "possible" if "NoNewPrivs:\t0" in file.read() else "refused"


@attempt
def a_program_of_roots_that_is_there(at):
    """A copy of ``id`` that belongs to root, with the bit, made before outside: who does it run as?"""
    done = subprocess.run([at.setuid, "-u"], capture_output=True, text=True)
    return done.stdout.strip() or "refused"


@attempt
def a_set_uid_copy_in_the_workspace(at):
    """Whoever runs it outside, later, has the rights of who made it."""
    with open("copy", "wb") as file:
        file.write(b"#")
    os.chmod("copy", 0o4755)
    return oct(os.stat("copy").st_mode & 0o7777)


@attempt
def a_set_uid_copy_by_a_descriptor(at):
    descriptor = os.open("copy2", os.O_CREAT | os.O_WRONLY, 0o755)
    os.fchmod(descriptor, 0o4755)
    return oct(os.fstat(descriptor).st_mode & 0o7777)


@attempt
def a_set_uid_file_from_the_start(at):
    descriptor = os.open("copy3", os.O_CREAT | os.O_WRONLY, 0o4755)
    return oct(os.fstat(descriptor).st_mode & 0o7777)


@attempt
def a_set_uid_file_without_a_name_at_first(at):
    descriptor = os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o4755)
    link_descriptor(descriptor, "copy4")
    return oct(os.fstat(descriptor).st_mode & 0o7777)


@attempt
def a_set_uid_file_by_the_newest_calls(at):
    with open("copy5", "wb") as file:
        file.write(b"#")
    call(SYS["fchmodat2"], -100, b"copy5\0", 0o4755, 0)
    return oct(os.stat("copy5").st_mode & 0o7777)


@attempt
def a_set_uid_file_by_the_newest_open(at):
    how = (os.O_CREAT | os.O_WRONLY).to_bytes(8, "little") + (0o4755).to_bytes(8, "little") + bytes(8)
    descriptor = call(SYS["openat2"], -100, b"copy6\0", how, len(how))
    return oct(os.fstat(descriptor).st_mode & 0o7777)


@attempt
def a_set_uid_node(at):
    os.mknod("copy7", 0o104755)
    return oct(os.stat("copy7").st_mode & 0o7777)


@attempt
def an_ordinary_mode(at):
    """The neighbour that is allowed, and folders that hand on their group with it."""
    with open("program", "wb") as file:
        file.write(b"#")
    os.chmod("program", 0o755)
    os.mkdir("shared")
    os.chmod("shared", 0o2775)
    return oct(os.stat("program").st_mode & 0o7777)


@attempt
def capabilities_of_a_file(at):
    with open("capable", "wb") as file:
        file.write(b"#")
    os.setxattr("capable", "security.capability", bytes.fromhex("0000000200200000000000000000000000000000"))


@attempt
def capabilities_of_this_process(at):
    with open("/proc/self/status") as file:
        lines = file.read().splitlines()
    names = ("CapEff", "CapPrm", "CapInh", "CapAmb")
    return "some" if any(int(line.split()[1], 16) for line in lines if line.startswith(names)) else "none"


if __name__ == "__main__":
    main()
