"""The look at the mounts of a sandbox, on the kernel's words for them: what lies where it should, and each
way in which it may not. Real swaps in the midst of a launch are tried in ``test_escapes``."""

import attrs
import pytest

from term2_acp.domain.confinement import Confinement
from term2_acp.sandbox.mounted import misplaced
from term2_acp.sandbox.mounts import mounts
from term2_acp.sandbox.policy import Limits, Policy

HERE = r"""
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
22 21 0:21 / /proc rw - proc proc rw
23 21 8:2 /people /home rw shared:2 - ext4 /dev/sda2 rw
24 21 0:30 / /tmp rw - tmpfs tmpfs rw
25 23 8:3 / /home/me/old rw - ext4 /dev/sda3 rw
26 23 8:4 /@/x\040y /home/me rw - btrfs /dev/sda4 rw,subvol=/@/x\040y
""".strip()

# Of the policy below, as bubblewrap makes it; the first is on one that is not shown.
THERE = r"""
50 40 8:1 / / ro,nosuid,nodev - ext4 /dev/sda1 rw
51 50 8:2 /people /home ro,nosuid,nodev - ext4 /dev/sda2 rw
52 51 8:3 / /home/me/old ro,nosuid,nodev - ext4 /dev/sda3 rw
53 51 8:4 /@/x\040y /home/me ro,nosuid,nodev - btrfs /dev/sda4 rw
54 50 0:30 / /tmp ro,nosuid,nodev - tmpfs tmpfs rw
55 54 0:40 / /tmp rw,nosuid,nodev - tmpfs tmpfs rw,size=1k
56 50 0:41 / /proc rw - proc proc rw
57 53 8:4 /@/x\040y/my\040project /home/me/my\040project rw,nosuid,nodev - btrfs /dev/sda4 rw
58 57 8:4 /@/x\040y/my\040project/.git /home/me/my\040project/.git rw,nosuid,nodev - btrfs /dev/sda4 rw
59 58 8:4 /@/x\040y/my\040project/.git/hooks /home/me/my\040project/.git/hooks ro - btrfs /dev/sda4 rw
60 53 0:42 / /home/me/.ssh ro,nosuid,nodev - tmpfs tmpfs rw,size=4k
61 53 8:4 /@/x\040y/.state/empty /home/me/.netrc ro,nosuid,nodev - btrfs /dev/sda4 rw
""".strip()

PROJECT = "/home/me/my project"


def policy(**places):
    return Policy(
        Confinement(
            PROJECT,
            hidden=("/home/me/.ssh", "/home/me/.netrc"),
            held=(f"{PROJECT}/.git",),
            read_only=(f"{PROJECT}/.git/hooks",),
        ),
        cwd=PROJECT,
        environment={},
        limits=Limits(),
        empty_file="/home/me/.state/empty",
        folders=frozenset({"/home/me/.ssh"}),
        temporary=("/tmp",),
        **places,
    )


def wrong(theirs=THERE, ours=HERE):
    return misplaced(mounts(policy()), theirs, ours)


def test_all_is_where_it_should_be():
    assert wrong() == ()


def test_a_workspace_that_should_be_read_only_must_be():
    made = policy()
    expected = mounts(attrs.evolve(made, confinement=made.confinement.as_read_only()))
    alone = THERE.replace(" /home/me/my\\040project rw,", " /home/me/my\\040project ro,")
    without = "\n".join(line for line in alone.split("\n") if ".git" not in line)
    assert misplaced(expected, without, HERE) == ()
    assert misplaced(expected, without.replace("my\\040project ro,", "my\\040project rw,"), HERE) == (
        PROJECT,
    )


CHANGES = [
    # What was taken for the git folder was a link, and so its mount is of, and at, something else.
    ("hooks /home/me/my\\040project/.git/hooks", "hooks /home/me/elsewhere", f"{PROJECT}/.git/hooks"),
    ("/my\\040project/.git/hooks /home/me", "/.ssh /home/me", f"{PROJECT}/.git/hooks"),
    ("57 53 8:4 /@/x\\040y/my\\040project ", "57 53 8:4 /@/x\\040y ", PROJECT),
    ("57 53 8:4", "57 53 8:5", PROJECT),
    ("/.git rw,", "/.git ro,", f"{PROJECT}/.git"),
    ("hooks ro -", "hooks rw -", f"{PROJECT}/.git/hooks"),
    ("/ / ro,", "/ / rw,", "/"),
    ("60 53 0:42 / /home/me/.ssh", "60 53 0:42 / /home/me/.aws", "/home/me/.ssh"),
    ("/home/me/.ssh ro,nosuid,nodev - tmpfs", "/home/me/.ssh ro,nosuid,nodev - ext4", "/home/me/.ssh"),
    ("/.state/empty /home/me/.netrc", "/.state/other /home/me/.netrc", "/home/me/.netrc"),
    # A file system in memory, but the machine's own.
    ("55 54 0:40 / /tmp rw,", "55 54 0:30 / /tmp rw,", "/tmp"),
    # The folder that was mounted has been removed.
    ("/.git/hooks /home", "/.git/hooks//deleted /home", f"{PROJECT}/.git/hooks"),
]


@pytest.mark.parametrize(("before", "after", "place"), CHANGES)
def test_what_is_not_as_it_should_be_is_named(before, after, place):
    assert THERE.count(before) == 1
    assert place in wrong(THERE.replace(before, after))


def test_what_covers_a_mask_is_seen():
    """The real folder over its own mask, which is still there beneath."""
    above = "70 60 8:4 /@/x\\040y/.ssh /home/me/.ssh ro,nosuid,nodev - btrfs /dev/sda4 rw"
    assert wrong(f"{THERE}\n{above}") == ("/home/me/.ssh",)


def test_what_is_covered_does_not_count():
    """A mount on another that is not what the path leads to any more."""
    below = "70 51 8:9 / /home/me/.ssh rw - ext4 /dev/sda9 rw"
    assert wrong(f"{below}\n{THERE}") == ()


def test_a_missing_mount_is_seen():
    for number in ("50", "55", "57", "58", "59", "60", "61"):
        lines = [line for line in THERE.splitlines() if not line.startswith(f"{number} ")]
        assert wrong("\n".join(lines)) != ()


def test_a_file_system_that_folds_case_tells_its_own_spelling():
    there = THERE.replace("/@/x\\040y/my\\040project", "/@/X\\040y/My\\040Project")
    assert wrong(there) == ()


def test_a_workspace_on_a_mount_that_is_read_only_stays_so():
    ours = HERE.replace("/home/me rw - btrfs", "/home/me ro - btrfs")
    assert wrong(ours=ours) != ()
    there = THERE.replace("project rw,", "project ro,").replace("/.git rw,", "/.git ro,")
    assert wrong(there, ours) == ()


def test_names_with_what_would_end_a_field():
    names = (("my\\040project", "my\\011pro\\012ject\\134\\043"), ("my project", "my\tpro\nject\\#"))
    there = THERE.replace(*names[0])
    project = PROJECT.replace(*names[1])
    made = Policy(
        Confinement(project),
        cwd=project,
        environment={},
        limits=Limits(),
        empty_file="/e",
        temporary=("/tmp",),
    )
    assert misplaced(mounts(made), there, HERE) == ()
