"""Attempts to read what is hidden: credentials, histories, term2's own files, the machine's secrets, and the
environments and memories of processes outside. An attempt that got the word which stands there returns it."""

import ctypes
import errno
import glob
import os
import stat
import struct

from harness import attempt, call, main


def content(path):
    """What is in a file, or what an empty one in its place means."""
    with open(path, "rb") as file:
        data = file.read(16384)
    if not data:
        raise OSError(errno.ENODATA, "an empty file stands in its place")
    return data.decode(errors="replace")


def look_for(at, *paths):
    """Look into files for the word; what came of the last of them when none has it."""
    said = "nothing to look into"
    for path in paths:
        try:
            if at.marker in content(path):
                return "read"
        except OSError as error:
            said = errno.errorcode[error.errno]
            continue
        said = "another content"
    return said


@attempt
def an_ordinary_file(at):
    """The neighbour that is allowed."""
    return content(at.outside).strip()


@attempt
def a_key(at):
    return look_for(at, at.hidden + "/id_ed25519")


@attempt
def every_credential_by_its_name(at):
    return look_for(at, *at.credentials)


@attempt
def every_credential_through_the_listing(at):
    paths = [os.path.join(one, name) for one in at.hidden_folders for name in os.listdir(one)]
    return look_for(at, *paths)


@attempt
def through_a_symlink(at):
    os.symlink(at.hidden, "keys")
    return look_for(at, "keys/id_ed25519")


@attempt
def through_a_symlink_beside(at):
    return look_for(at, at.home + "/link-to-keys/id_ed25519")


@attempt
def through_dots(at):
    return look_for(at, at.workspace + "/../.ssh/../.ssh/./id_ed25519")


@attempt
def through_the_root_of_this_process(at):
    return look_for(at, "/proc/self/root" + at.hidden + "/id_ed25519")


@attempt
def through_the_root_of_the_first_process(at):
    return look_for(at, "/proc/1/root" + at.hidden + "/id_ed25519")


@attempt
def by_another_case(at):
    return look_for(at, at.home + "/.SSH/ID_ED25519")


@attempt
def through_a_hard_link_of_the_file(at):
    os.link(at.hidden + "/id_ed25519", "hard-key")
    return look_for(at, "hard-key")


@attempt
def through_a_bind_mount_made_before(at):
    return look_for(at, at.home + "/bound/id_ed25519")


@attempt
def through_a_bind_mount_of_the_home_made_before(at):
    return look_for(at, at.home + "-again/.ssh/id_ed25519")


@attempt
def by_a_handle_of_the_file(at):
    """A number of the file by which it could be opened without any name."""
    handle = struct.pack("Ii", 128, 0) + bytes(128)
    buffer = ctypes.create_string_buffer(handle, len(handle))
    mount = ctypes.c_int()
    path = (at.hidden + "/id_ed25519").encode() + b"\0"
    call(303, -100, path, ctypes.addressof(buffer), ctypes.addressof(mount), 0)
    folder = os.open("/", os.O_RDONLY)
    call(304, folder, ctypes.addressof(buffer), os.O_RDONLY)


@attempt
def the_state_of_term2(at):
    return look_for(at, at.state + "/sessions.db")


@attempt
def the_settings_of_term2(at):
    return look_for(at, at.settings)


@attempt
def the_password_hashes(at):
    """Outside it is not read, but only seen whether that could be done."""
    if at.side == "outside":
        return "readable" if os.access("/etc/shadow", os.R_OK) else "EACCES"
    return "read" if ":" in content("/etc/shadow") else "another content"


@attempt
def the_environment_of_this_command(at):
    """The neighbour that is allowed: it can be read, and holds no key."""
    return look_for(at, "/proc/self/environ")


@attempt
def the_environment_of_the_daemon(at):
    return look_for(at, f"/proc/{at.daemon}/environ", f"/proc/{at.daemon}/task/{at.daemon}/environ")


@attempt
def the_environment_of_a_stranger(at):
    return look_for(at, f"/proc/{at.stranger}/environ")


@attempt
def the_environment_of_the_first_process(at):
    """Outside that is the machine's own, and nobody's business."""
    return look_for(at, "/proc/1/environ") if at.side == "inside" else "not asked"


@attempt
def every_environment(at):
    """Outside only that of our own stranger: the others are nobody's business."""
    if at.side == "outside":
        return look_for(at, f"/proc/{at.stranger}/environ")
    paths = glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/task/*/environ")
    return "read" if look_for(at, *paths) == "read" else "nowhere"


@attempt
def every_command_line(at):
    """That of a process outside holds a word which stands nowhere else, our own told it backwards."""
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if at.spoken_backwards[::-1] in content(path):
                return "read"
        except OSError:
            continue
    return "nowhere"


@attempt
def the_memory_of_the_daemon(at):
    os.open(f"/proc/{at.daemon}/mem", os.O_RDONLY)


@attempt
def the_files_of_the_daemon(at):
    os.readlink(f"/proc/{at.daemon}/fd/0")


@attempt
def the_folder_of_the_daemon(at):
    os.listdir(f"/proc/{at.daemon}/cwd")


@attempt
def the_memory_of_the_kernel(at):
    """A few bytes each, which say nothing, but that they can be read."""
    for path in ("/proc/kcore", "/dev/mem", "/dev/kmem", "/dev/port"):
        try:
            os.read(os.open(path, os.O_RDONLY), 4)
        except OSError:
            continue
        return "read"
    return "nowhere"


@attempt
def the_messages_of_the_kernel(at):
    os.open("/dev/kmsg", os.O_RDONLY)


@attempt
def the_disks(at):
    """By their names, and by nodes made for them. Outside by one of them that holds nothing."""
    names = ("sda", "vda", "nvme0n1", "xvda", "mmcblk0", "dm-0", "md0", "loop0")
    paths = [f"/dev/{name}" for name in names] if at.side == "inside" else []
    for major in (7, 8, 253, 254, 259) if at.side == "inside" else (7,):
        for folder in (at.workspace, os.environ.get("TMPDIR", "/tmp")):
            path = f"{folder}/disk-{major}"
            try:
                os.mknod(path, stat.S_IFBLK | 0o600, os.makedev(major, 0))
            except OSError:
                continue
            paths.append(path)
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDONLY))
        except OSError:
            continue
        return "opened"
    return "none"


if __name__ == "__main__":
    main()
