"""Attempts to change a protected name in the workspace, by every way to change a file or a folder."""

import errno
import os

from harness import ATTEMPTS, attempt, call, main

CHANGED = b"changed by a command\n"


def write(path, flags):
    descriptor = os.open(path, os.O_WRONLY | flags, 0o600)
    os.write(descriptor, CHANGED)


@attempt
def an_ordinary_file(at):
    """The neighbour that is allowed, beside them and in the git folder."""
    write("ordinary", os.O_CREAT)
    write(".git/description", os.O_CREAT)


def exchange(one, other):
    number = 276 if os.uname().machine == "aarch64" else 316
    call(number, -100, os.fsencode(one) + b"\0", -100, os.fsencode(other) + b"\0", 2)


def over(make):
    """One attempt upon every protected file; which of them gave way."""

    def all_of_them(at):
        gave_way, refusals = [], set()
        for number, path in enumerate(at.protected):
            try:
                make(path, f"spare-{make.__name__}-{number}")
                gave_way.append(os.path.relpath(path, at.workspace))
            except OSError as error:
                refusals.add(errno.errorcode[error.errno])
        if gave_way and refusals:
            return f"only {gave_way} gave way"
        return "done" if gave_way else " ".join(sorted(refusals))

    ATTEMPTS[make.__name__] = all_of_them
    return make


def plain(path):
    with open(path, "wb") as file:
        file.write(CHANGED)


@over
def to_write(path, spare):
    write(path, 0)


@over
def to_append(path, spare):
    write(path, os.O_APPEND)


@over
def to_truncate(path, spare):
    os.truncate(path, 0)


@over
def to_rename_over(path, spare):
    plain(spare)
    os.rename(spare, path)


@over
def to_rename_away(path, spare):
    os.rename(path, spare)
    plain(path)  # for the attempts that come after, where this one worked


@over
def to_exchange(path, spare):
    plain(spare)
    exchange(path, spare)


@over
def to_remove(path, spare):
    os.unlink(path)
    plain(path)


@over
def to_reach_by_a_hard_link(path, spare):
    os.link(path, spare)
    write(spare, 0)


@over
def to_reach_by_a_symlink(path, spare):
    os.symlink(path, spare)
    write(spare, 0)


@over
def to_reach_by_a_descriptor(path, spare):
    write(f"/proc/self/fd/{os.open(path, os.O_RDONLY)}", 0)


@over
def to_change_the_mode(path, spare):
    os.chmod(path, 0o777)


@over
def to_change_the_times(path, spare):
    os.utime(path, (1, 1))


@over
def to_set_an_attribute(path, spare):
    os.setxattr(path, "user.term2", b"x")


@attempt
def to_put_a_name_into_a_protected_folder(at):
    """Whether it is allowed in one of them, or what refused it."""
    refusals = set()
    for folder in (".vscode", ".github/workflows", ".git/hooks", ".git/modules/lib/hooks"):
        try:
            write(f"{folder}/planted", os.O_CREAT)
        except OSError as error:
            refusals.add(errno.errorcode[error.errno])
        else:
            return "done"
    return " ".join(sorted(refusals))


@attempt
def to_rename_the_git_folder(at):
    os.rename(".git", "git")
    os.rename("git", ".git")


@attempt
def to_exchange_the_git_folder(at):
    os.mkdir("other")
    exchange(".git", "other")
    exchange(".git", "other")


@attempt
def to_rename_the_folder_of_workflows(at):
    os.rename(".github", "github")
    os.rename("github", ".github")


@attempt
def to_rename_the_folder_of_a_submodule(at):
    os.rename(".git/modules", ".git/mods")
    os.rename(".git/mods", ".git/modules")


@attempt
def to_replace_the_git_folder_of_a_submodule(at):
    os.rename("lib/.git", "lib/git")
    os.rename("lib/git", "lib/.git")


@attempt
def to_rename_the_workspace(at):
    os.rename(at.workspace, at.workspace + "-moved")
    os.rename(at.workspace + "-moved", at.workspace)


@attempt
def to_put_a_symlink_in_the_place_of_hooks(at):
    os.symlink("/tmp", "hooks-link")
    exchange("hooks-link", ".git/hooks")
    exchange("hooks-link", ".git/hooks")


@attempt
def to_change_what_a_protected_link_leads_to(at):
    """``CLAUDE.md`` is a link to a file that has no protected name."""
    write("shared-notes", 0)


@attempt
def to_unmount(at):
    number = 39 if os.uname().machine == "aarch64" else 166
    call(number, b".git/hooks\0", 2)


@attempt
def to_change_term2s_own_code(at):
    write(at.own_code + "/program.py", os.O_APPEND)


@attempt
def to_add_to_term2s_own_code(at):
    write(at.own_code + "/sitecustomize.py", os.O_CREAT)


@attempt
def to_read_term2s_state_in_the_workspace(at):
    with open(at.inner_state + "/sessions.db") as file:
        data = file.read()
    return "read" if at.marker in data else "another content"


@attempt
def to_rename_the_folder_of_term2s_state(at):
    os.rename(os.path.dirname(at.inner_state), "moved-state")


if __name__ == "__main__":
    main()
