"""Attempts to change something in a workspace that is read-only as a whole, by every way to change a file,
and by the programs that people change files with. Each has a file of its own among the victims."""

import ctypes
import fcntl
import os
import struct
import subprocess

from harness import attempt, call, libc, link_descriptor, main

CHANGED = b"changed by a command\n"


def write(path, flags=0):
    descriptor = os.open(path, os.O_WRONLY | flags, 0o600)
    os.write(descriptor, CHANGED)
    os.close(descriptor)


def temporary(name):
    return os.path.join(os.environ["TMPDIR"], name)


def run(line):
    """Run a line of the shell; its words about the error stand for the error."""
    done = subprocess.run(
        ["/bin/sh", "-c", line], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}
    )
    if done.returncode == 0:
        return "done"
    words = {
        "Read-only file system": "EROFS",
        "Permission denied": "EACCES",
        "insufficient permission": "EACCES",  # as git says it
    }
    return next((error for said, error in words.items() if said in done.stderr), done.stderr)


def shell(**lines):
    """Each an attempt by a line of the shell."""
    for name, line in lines.items():
        one = lambda at, line=line: run(line)  # noqa: E731 -- it gets its name below
        one.__name__ = name
        attempt(one)


# -- what works -------------------------------------------------------------------------------------


@attempt
def to_read(at):
    with open("victims/read", "rb") as file:
        file.read()


@attempt
def to_write_a_temporary_file(at):
    write(temporary("new"), os.O_CREAT)
    os.mkdir(temporary("folder"))
    os.rename(temporary("new"), temporary("folder/renamed"))
    os.unlink(temporary("folder/renamed"))


@attempt
def to_change_the_mode_of_a_temporary_file(at):
    """Not where a filter keeps the modes: it sees no path."""
    write(temporary("moded"), os.O_CREAT)
    os.chmod(temporary("moded"), 0o644)


shell(
    git_log="git log -1 --format=%s && git status && git diff HEAD",
    a_temporary_file_by_the_shell='echo > "$TMPDIR/shell" && cat victims/read | tee "$TMPDIR/tee"',
)


# -- calls of the system ----------------------------------------------------------------------------


@attempt
def to_open_for_writing(at):
    with open("victims/opened", "w") as file:
        file.write("changed")


@attempt
def to_append(at):
    write("victims/appended", os.O_APPEND)


@attempt
def to_truncate(at):
    os.truncate("victims/truncated", 0)


@attempt
def to_open_with_truncation(at):
    os.open("victims/opened-truncated", os.O_RDONLY | os.O_TRUNC)


@attempt
def to_make_a_file(at):
    write("new", os.O_CREAT | os.O_EXCL)


@attempt
def to_make_a_nameless_file(at):
    os.open(".", os.O_TMPFILE | os.O_WRONLY)


@attempt
def to_make_a_folder(at):
    os.mkdir("new-folder")


@attempt
def to_remove_a_folder(at):
    os.rmdir("victims/folder")


@attempt
def to_make_a_symlink(at):
    os.symlink("victims", "link")


@attempt
def to_make_a_fifo(at):
    os.mkfifo("fifo")


@attempt
def to_remove(at):
    os.unlink("victims/removed")


@attempt
def to_rename(at):
    os.rename("victims/renamed", "victims/other")


@attempt
def to_exchange(at):
    number = 276 if os.uname().machine == "aarch64" else 316
    call(number, -100, b"victims/exchanged\0", -100, b"victims/exchanged-too\0", 2)


@attempt
def to_rename_the_workspace(at):
    """Back at once where it works: the others need it."""
    os.rename(at.workspace, at.workspace + "-2")
    os.rename(at.workspace + "-2", at.workspace)


@attempt
def to_make_a_hard_link(at):
    os.link("victims/linked", "hard-link")


@attempt
def to_change_the_mode(at):
    os.chmod("victims/moded", 0o777)


@attempt
def to_change_the_mode_by_a_descriptor(at):
    os.fchmod(os.open("victims/moded-by-descriptor", os.O_RDONLY), 0o777)


@attempt
def to_change_the_mode_of_the_workspace(at):
    os.chmod(".", 0o711)


@attempt
def to_change_the_times(at):
    os.utime("victims/timed", (1, 1))


@attempt
def to_change_the_times_by_a_descriptor(at):
    os.utime(os.open("victims/timed-by-descriptor", os.O_RDONLY))


@attempt
def to_change_the_owner(at):
    os.chown("victims/owned", os.getuid(), os.getgid())


@attempt
def to_set_an_attribute(at):
    os.setxattr("victims/attributed", "user.term2", b"x")


@attempt
def to_set_the_flags(at):
    descriptor = os.open("victims/flagged", os.O_RDONLY)
    flags = fcntl.ioctl(descriptor, 0x80086601, bytes(8))  # FS_IOC_GETFLAGS
    flags = struct.pack("q", struct.unpack("q", flags)[0] | 0x80)  # no times of access
    fcntl.ioctl(descriptor, 0x40086602, flags)  # FS_IOC_SETFLAGS


# -- by another way ---------------------------------------------------------------------------------


@attempt
def by_a_symlink_in_the_temporary_folder(at):
    os.symlink(at.workspace + "/victims/by-a-symlink", temporary("link"))
    write(temporary("link"), os.O_APPEND)


@attempt
def by_a_hard_link_in_the_temporary_folder(at):
    os.link("victims/by-a-hard-link", temporary("hard-link"))
    write(temporary("hard-link"), os.O_APPEND)


@attempt
def by_a_descriptor_that_gets_a_name(at):
    link_descriptor(os.open("victims/by-a-name", os.O_PATH), temporary("by-a-name"))
    write(temporary("by-a-name"), os.O_APPEND)


@attempt
def by_a_rename_into_the_workspace(at):
    write(temporary("leaving"), os.O_CREAT)
    os.rename(temporary("leaving"), "arrived")


@attempt
def by_a_rename_out_of_the_workspace(at):
    os.rename("victims/taken", temporary("taken"))


@attempt
def by_opening_a_descriptor_again(at):
    held = os.open("victims/opened-again", os.O_RDONLY)
    write(f"/proc/self/fd/{held}", os.O_APPEND)


@attempt
def by_a_descriptor_of_the_folder(at):
    folder = os.open("victims", os.O_RDONLY | os.O_DIRECTORY)
    os.close(os.open("by-the-folder", os.O_WRONLY, dir_fd=folder))


@attempt
def by_the_root_of_this_process(at):
    write("/proc/self/root" + at.workspace + "/victims/by-the-root", os.O_APPEND)


@attempt
def by_the_folder_of_this_process(at):
    write("/proc/self/cwd/victims/by-the-cwd", os.O_APPEND)


@attempt
def by_the_root_of_the_first_process(at):
    write("/proc/1/root" + at.workspace + "/victims/by-the-first", os.O_APPEND)


@attempt
def by_the_folder_of_the_parent(at):
    write(f"/proc/{os.getppid()}/cwd/victims/by-the-parent", os.O_APPEND)


@attempt
def by_another_mount_of_the_folder(at):
    write(at.home + "-again/project/victims/by-a-mount", os.O_APPEND)


@attempt
def in_a_mount_within_the_workspace(at):
    write("mounted/new", os.O_CREAT)


@attempt
def to_read_a_hidden_file_in_it(at):
    with open("var/term2/sessions.db", encoding="utf-8") as file:
        return "read" if at.marker in file.read() else "covered"


@attempt
def by_mounting_it_anew(at):
    arguments = (b"none", at.workspace.encode(), None, 0x20 | 0x1000, None)  # MS_REMOUNT, MS_BIND
    if libc.mount(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "mount")


@attempt
def by_unmounting_it(at):
    if libc.umount2(at.workspace.encode(), 2) != 0:  # MNT_DETACH
        raise OSError(ctypes.get_errno(), "umount")


@attempt
def by_mounts_of_its_own(at):
    if libc.unshare(0x1002_0000) != 0:  # CLONE_NEWUSER, CLONE_NEWNS
        raise OSError(ctypes.get_errno(), "unshare")


# -- programs ---------------------------------------------------------------------------------------

shell(
    cat="cat victims/read > victims/cat",
    tee="tee victims/tee < victims/read",
    sed="sed -i s/was/is/ victims/sed",
    touch_a_file="touch victims/touched",
    touch_a_new_file="touch new-by-touch",
    mkdir="mkdir new-by-mkdir",
    chmod="chmod 777 victims/chmod",
    cp="cp victims/read victims/cp",
    mv="mv victims/mv victims/moved",
    rm="rm victims/rm",
    ln="ln victims/ln new-by-ln",
)


# -- a repository, of which a command may otherwise change most -------------------------------------

shell(
    git_add="git add victims/read",
    git_branch="git branch other",
    git_commit_amend="git commit -q --amend --no-edit --allow-empty",
    git_hash_object="git hash-object -w victims/read",
)


@attempt
def to_write_its_head(at):
    write(".git/HEAD", os.O_APPEND)


@attempt
def to_write_a_branch(at):
    write(".git/refs/heads/by-hand", os.O_CREAT)


@attempt
def to_write_its_index(at):
    write(".git/index", os.O_APPEND)


@attempt
def to_rename_it(at):
    os.rename(".git", "git")


if __name__ == "__main__":
    main()
