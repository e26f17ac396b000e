"""Attempts to change something outside of the workspace, by every way that leads to a file."""

import errno
import fcntl
import mmap
import os
import stat
import struct

from harness import attempt, call, link_descriptor, main

CHANGED = b"changed by a command\n"


def append(path):
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(descriptor, CHANGED)


def create(path):
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


@attempt
def in_the_workspace(at):
    """The neighbour that is allowed: without it, all refusals could come from a program that cannot write."""
    create(at.workspace + "/allowed")
    append(at.workspace + "/allowed")


@attempt
def in_the_temporary_folder(at):
    create(os.environ.get("TMPDIR", "/tmp") + "/allowed")


@attempt
def append_to_a_file(at):
    append(at.outside)


@attempt
def truncate_a_file(at):
    os.truncate(at.outside, 0)


@attempt
def open_with_truncation(at):
    os.open(at.outside, os.O_RDONLY | os.O_TRUNC)


@attempt
def create_a_file(at):
    create(at.elsewhere + "/new")


@attempt
def create_a_nameless_file(at):
    os.open(at.elsewhere, os.O_TMPFILE | os.O_WRONLY)


@attempt
def create_a_folder(at):
    os.mkdir(at.elsewhere + "/folder")


@attempt
def create_a_link(at):
    os.symlink("/", at.elsewhere + "/link")


@attempt
def create_a_fifo(at):
    os.mkfifo(at.elsewhere + "/fifo")


@attempt
def create_a_device(at):
    os.mknod(at.elsewhere + "/device", stat.S_IFCHR | 0o600, os.makedev(1, 5))


@attempt
def create_a_device_in_the_workspace(at):
    os.mknod(at.workspace + "/device", stat.S_IFBLK | 0o600, os.makedev(7, 0))


@attempt
def remove_a_file(at):
    os.unlink(at.victims + "/removed")


@attempt
def remove_a_folder(at):
    os.rmdir(at.victims + "/folder")


@attempt
def rename_in_place(at):
    os.rename(at.victims + "/renamed", at.victims + "/other")


@attempt
def rename_out_of_the_workspace(at):
    create(at.workspace + "/leaving")
    os.rename(at.workspace + "/leaving", at.elsewhere + "/arrived")


@attempt
def rename_into_the_workspace(at):
    os.rename(at.victims + "/taken", at.workspace + "/taken")


@attempt
def exchange_with_one_of_the_workspace(at):
    create(at.workspace + "/exchanged")
    call(316, -100, at.workspace.encode() + b"/exchanged\0", -100, at.victims.encode() + b"/exchanged\0", 2)


@attempt
def through_a_symlink(at):
    os.symlink(at.outside, "link")
    append("link")


@attempt
def through_a_symlink_to_the_folder(at):
    os.symlink(at.elsewhere, "folder-link")
    create("folder-link/through-a-link")


@attempt
def through_a_relative_symlink(at):
    os.symlink(os.path.relpath(at.outside, at.workspace), "relative-link")
    append("relative-link")


@attempt
def through_dots(at):
    append(at.workspace + "/../" + os.path.relpath(at.outside, os.path.dirname(at.workspace)))


@attempt
def through_a_hard_link(at):
    os.link(at.outside, "hard-link")
    append("hard-link")


@attempt
def through_a_hard_link_outside(at):
    os.link(at.outside, at.elsewhere + "/hard-link")


@attempt
def through_a_descriptor_and_a_link(at):
    """A descriptor that holds no right gets a name in the workspace, by which it could be opened."""
    held = os.open(at.outside, os.O_PATH)
    link_descriptor(held, "from-descriptor")
    append("from-descriptor")


@attempt
def through_a_descriptor_without_a_name(at):
    held = os.open(at.outside, os.O_PATH)
    call(265, held, b"\0", -100, at.workspace.encode() + b"/from-nothing\0", 0x1000)
    append("from-nothing")


@attempt
def by_opening_a_descriptor_again(at):
    held = os.open(at.outside, os.O_RDONLY)
    append(f"/proc/self/fd/{held}")


@attempt
def through_the_root_of_this_process(at):
    append("/proc/self/root" + at.outside)


@attempt
def through_the_root_of_the_first_process(at):
    append("/proc/1/root" + at.outside)


@attempt
def through_the_folder_of_the_first_process(at):
    append("/proc/1/cwd" + at.outside)


@attempt
def through_any_descriptor_of_any_process(at):
    """A folder that somebody has open on the machine's own mounts would be a door. One is our own."""
    os.open("/", os.O_RDONLY)
    numbers = list(filter(str.isdecimal, os.listdir("/proc"))) if at.side == "inside" else [str(os.getpid())]
    for process in numbers:
        try:
            descriptors = os.listdir(f"/proc/{process}/fd")
        except OSError:
            continue
        for number in descriptors:
            for way in ("", "/.." * 12):
                try:
                    append(f"/proc/{process}/fd/{number}{way}{at.outside}")
                except OSError:
                    continue
                return "done"
    return "refused"


@attempt
def by_shared_memory_of_the_file(at):
    descriptor = os.open(at.outside, os.O_RDONLY)
    try:
        mmap.mmap(descriptor, 4, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    except ValueError:
        raise OSError(errno.EACCES, "no") from None


@attempt
def change_the_mode(at):
    os.chmod(at.metadata, 0o666)


@attempt
def change_the_mode_of_a_hidden_folder(at):
    os.chmod(at.hidden, 0o777)


@attempt
def change_the_mode_by_a_descriptor(at):
    os.fchmod(os.open(at.metadata, os.O_RDONLY), 0o666)


@attempt
def change_the_times(at):
    os.utime(at.metadata, (1, 1))


@attempt
def change_the_owner(at):
    os.chown(at.metadata, os.getuid(), os.getgid())


@attempt
def set_an_attribute(at):
    os.setxattr(at.metadata, "user.term2", b"x")


@attempt
def set_the_flags(at):
    descriptor = os.open(at.metadata, os.O_RDONLY)
    flags = fcntl.ioctl(descriptor, 0x80086601, bytes(8))  # FS_IOC_GETFLAGS
    flags = struct.pack("q", struct.unpack("q", flags)[0] | 0x80)  # no times of access
    fcntl.ioctl(descriptor, 0x40086602, flags)  # FS_IOC_SETFLAGS


@attempt
def write_into_a_fifo(at):
    """Somebody outside reads from it."""
    os.write(os.open(at.fifo, os.O_WRONLY | os.O_NONBLOCK), b"order")


@attempt
def open_a_device_that_is_there(at):
    os.read(os.open(at.device, os.O_RDONLY), 1)


if __name__ == "__main__":
    main()
