"""The order of the mounts, compared as whole lists for workspaces in every awkward place. Whether bubblewrap
makes of it what is meant is tried in ``test_bwrap``; nothing here touches the file system."""

import random

import pytest

from term2_acp.domain.confinement import Confinement
from term2_acp.sandbox.mounts import Kind, Mount, mounts
from term2_acp.sandbox.policy import Limits, Policy

MIB = 2**20


def ro(target, source=None):
    return Mount(Kind.READ_ONLY, target, source=source or target)


def rw(target):
    return Mount(Kind.WRITABLE, target, source=target)


def mask(target):
    return Mount(Kind.MASK, target, size=4096)


def temporary(target, size):
    return Mount(Kind.TEMPORARY, target, size=size)


DEV = Mount(Kind.DEVICES, "/dev")
PROC = Mount(Kind.PROCESSES, "/proc")
KERNEL = tuple(
    Mount(Kind.READ_ONLY_IF_THERE, f"/proc/{name}", source=f"/proc/{name}")
    for name in ("acpi", "bus", "fs", "irq", "mtrr", "pressure", "scsi", "sys", "sysrq-trigger")
)

# A space of 600 MiB: half for /tmp, a sixth for each of the others.
TMP = temporary("/tmp", 300 * MIB)
VAR_TMP = temporary("/var/tmp", 100 * MIB)
RUN = temporary("/run", 100 * MIB)
SHM = temporary("/dev/shm", 100 * MIB)


def made(workspace, *, space=600 * MIB, folders=(), secrets=(), **places):
    policy = Policy(
        Confinement(workspace, **places),
        workspace,
        {},
        Limits(temporary_bytes=space),
        "/state/empty",
        folders=frozenset(folders),
        system_secrets=secrets,
    )
    return list(mounts(policy))


def test_an_ordinary_workspace():
    assert made(
        "/srv/ws",
        hidden=("/home/p/.ssh", "/home/p/.netrc", "/home/p/.ssh/old", "/srv/ws/keys"),
        secrets=("/etc/shadow", "/etc/ssl/private"),
        held=("/srv/ws/.git", "/srv/ws/.github"),
        read_only=(
            "/srv/ws/.github/workflows",
            "/srv/ws/.git/hooks",
            "/srv/ws/AGENTS.md",
            "/srv/ws/.git/config",
        ),
        folders=("/home/p/.ssh", "/srv/ws/keys", "/etc/ssl/private"),
    ) == [
        ro("/"),
        DEV,
        PROC,
        TMP,
        RUN,
        *KERNEL,
        VAR_TMP,
        SHM,
        rw("/srv/ws"),
        ro("/etc/shadow", "/state/empty"),
        rw("/srv/ws/.git"),
        rw("/srv/ws/.github"),
        ro("/srv/ws/AGENTS.md"),
        mask("/etc/ssl/private"),
        ro("/home/p/.netrc", "/state/empty"),
        mask("/home/p/.ssh"),
        mask("/srv/ws/keys"),
        ro("/srv/ws/.git/config"),
        ro("/srv/ws/.git/hooks"),
        ro("/srv/ws/.github/workflows"),
    ]


def test_the_home_directory_as_the_workspace_keeps_its_masks():
    ssh = "/home/p/.ssh"
    assert made("/home/p", hidden=(ssh,), folders=(ssh,), read_only=("/home/p/.bashrc",)) == [
        ro("/"), DEV, PROC, TMP, RUN, *KERNEL, VAR_TMP, SHM,
        rw("/home/p"),
        ro("/home/p/.bashrc"),
        mask("/home/p/.ssh"),
    ]  # fmt: skip


def test_the_root_as_the_workspace_is_mounted_first_and_the_kernel_s_state_stays_read_only():
    assert made(
        "/",
        hidden=("/home/p/.ssh", "/tmp/a/state", "/srv/q/.netrc"),
        folders=("/home/p/.ssh", "/tmp/a/state"),
        held=("/.git", "/tmp/x/.git"),
        read_only=("/.git/hooks", "/AGENTS.md", "/tmp/x/.git/hooks", "/var/tmp/CLAUDE.md"),
    ) == [
        rw("/"),
        ro("/sys"),
        DEV,
        PROC,
        TMP,
        RUN,
        rw("/.git"),
        rw("/home"),
        rw("/srv"),
        ro("/AGENTS.md"),
        *KERNEL,
        VAR_TMP,
        SHM,
        rw("/home/p"),
        rw("/srv/q"),
        ro("/.git/hooks"),
        mask("/home/p/.ssh"),
        ro("/srv/q/.netrc", "/state/empty"),
    ]


def test_a_workspace_below_a_temporary_folder_is_mounted_into_it():
    assert made(
        "/tmp/a/ws",
        hidden=("/tmp/home/.ssh", "/tmp/a/ws/keys", "/tmp/a/wskeys", "/run/x"),
        held=("/tmp/a/ws/.git",),
        read_only=("/tmp/a/ws/.git/hooks",),
    ) == [
        ro("/"), DEV, PROC, TMP, RUN, *KERNEL, VAR_TMP, SHM,
        rw("/tmp/a/ws"),
        rw("/tmp/a/ws/.git"),
        ro("/tmp/a/ws/keys", "/state/empty"),
        ro("/tmp/a/ws/.git/hooks"),
    ]  # fmt: skip


def test_a_temporary_folder_as_the_workspace_stays_the_workspace():
    assert made("/tmp", hidden=("/tmp/home/.netrc",)) == [
        ro("/"), DEV, PROC,
        temporary("/run", 150 * MIB),
        rw("/tmp"),
        *KERNEL,
        temporary("/var/tmp", 300 * MIB),
        temporary("/dev/shm", 150 * MIB),
        rw("/tmp/home"),
        ro("/tmp/home/.netrc", "/state/empty"),
    ]  # fmt: skip


def test_a_workspace_that_holds_a_temporary_folder():
    assert made(
        "/var", held=("/var/tmp", "/var/tmp/p/.git", "/var/p/.git"), read_only=("/var/tmp/p/.git/hooks",)
    ) == [
        ro("/"), DEV, PROC, TMP, RUN,
        rw("/var"),
        *KERNEL,
        VAR_TMP,
        SHM,
        rw("/var/p/.git"),
    ]  # fmt: skip


def test_shared_memory_as_the_workspace():
    assert made("/dev/shm", space=8 * MIB) == [
        ro("/"), DEV, PROC, temporary("/tmp", 4 * MIB), temporary("/run", 2 * MIB),
        *KERNEL,
        temporary("/var/tmp", 2 * MIB),
        rw("/dev/shm"),
    ]  # fmt: skip


def test_folders_between_the_workspace_and_a_hidden_place_are_held():
    found = made(
        "/home/p",
        hidden=(
            "/home/p/.config/app/keys",
            "/home/p/.config/gcloud",
            "/home/p/.ssh",
            "/home/q/a/b",
            "/etc/x",
        ),
        held=("/home/p/.config",),
    )
    assert [mount.target for mount in found if mount.kind is Kind.WRITABLE] == [
        "/home/p",
        "/home/p/.config",
        "/home/p/.config/app",
    ]


def test_what_lies_below_a_hidden_place_is_left_to_its_mask():
    found = made(
        "/srv/ws",
        hidden=("/srv/ws/keys", "/srv/ws/keys/inner"),
        folders=("/srv/ws/keys",),
        held=("/srv/ws/keys", "/srv/ws/keys/.git"),
        read_only=("/srv/ws/keys/.git/hooks",),
    )
    assert found[-2:] == [rw("/srv/ws"), mask("/srv/ws/keys")]


def test_nothing_below_a_read_only_place_becomes_writable_again():
    found = made(
        "/srv/ws",
        held=("/srv/ws/code", "/srv/ws/code/.git", "/srv/ws/codes"),
        read_only=("/srv/ws/code/.git/hooks", "/srv/ws/code"),
    )
    assert found[-3:] == [rw("/srv/ws"), rw("/srv/ws/codes"), ro("/srv/ws/code")]


def test_nothing_outside_the_workspace_becomes_writable():
    found = made("/srv/ws", held=("/srv", "/srv/ws", "/srv/ws2", "/etc/x"))
    assert [mount.target for mount in found if mount.kind is Kind.WRITABLE] == ["/srv/ws"]


def test_a_workspace_that_is_read_only_itself_is_read_only():
    assert made("/srv/ws", read_only=("/srv/ws",)) == [
        ro("/"),
        DEV,
        PROC,
        TMP,
        RUN,
        *KERNEL,
        VAR_TMP,
        SHM,
        ro("/srv/ws"),
    ]


@pytest.mark.parametrize("workspace", ["/srv/ws", "/", "/tmp", "/tmp/ws", "/var", "/home/p"])
def test_in_a_workspace_that_is_read_only_nothing_is_writable_but_temporary_folders(workspace):
    below = workspace.rstrip("/")
    found = made(
        workspace,
        held=(f"{below}/.git",),
        read_only=(workspace, f"{below}/.git/hooks"),
        hidden=("/home/p/.ssh", f"{below}/keys"),
        folders=("/home/p/.ssh",),
    )
    assert not [mount for mount in found if mount.kind is Kind.WRITABLE]
    assert [mount for mount in found if mount.target == workspace] == [ro(workspace)]
    folders = {"/tmp", "/var/tmp", "/run", "/dev/shm"} - {workspace}
    assert {mount.target for mount in found if mount.kind is Kind.TEMPORARY} == folders
    assert {mask("/home/p/.ssh"), ro(f"{below}/keys", "/state/empty")} <= set(found)


def test_a_hidden_place_that_holds_a_temporary_folder_covers_it():
    found = made("/srv/ws", hidden=("/var",), folders=("/var",))
    assert mask("/var") in found
    assert "/var/tmp" not in [mount.target for mount in found]


def test_the_temporary_folders_share_the_space_and_are_never_without_a_bound():
    for space in (600 * MIB, 2**30, 7, 0):
        sizes = [mount.size for mount in made("/srv/ws", space=space) if mount.kind is Kind.TEMPORARY]
        assert len(sizes) == 4
        assert min(sizes) >= 4096
        assert sum(sizes) <= max(space, 4 * 4096)
    alone = Policy(Confinement("/w"), "/w", {}, Limits(temporary_bytes=5 * MIB), "/e", temporary=("/tmp",))
    assert temporary("/tmp", 5 * MIB) in mounts(alone)


@pytest.mark.parametrize("workspace", ["/", "/srv/ws", "/tmp/ws", "/var", "/tmp"])
def test_the_order_does_not_depend_on_how_the_places_come(workspace):
    below = workspace.rstrip("/")
    shuffle = random.Random(workspace).shuffle
    places = {
        "hidden": [f"{below}/h{n}" for n in range(5)],
        "held": [f"{below}/a{n}/.git" for n in range(5)] * 2,
        "read_only": [f"{below}/a{n}/.git/hooks" for n in range(5)] * 2,
    }
    expected = made(workspace, **{name: tuple(paths) for name, paths in places.items()})
    for _ in range(5):
        for paths in places.values():
            shuffle(paths)
        assert made(workspace, **{name: tuple(paths) for name, paths in places.items()}) == expected


@pytest.mark.parametrize("workspace", ["/", "/srv/ws", "/tmp/ws", "/var", "/tmp", "/dev/shm/ws", "/run/a/b"])
def test_no_mount_is_covered_by_a_later_one_of_its_parents(workspace):
    below = workspace.rstrip("/")
    found = made(
        workspace,
        hidden=(f"{below}/h", f"{below}/x/h"),
        held=(f"{below}/x/.git", f"{below}/.git"),
        read_only=(f"{below}/.git/hooks", f"{below}/x/.git/config"),
    )
    targets = [mount.target for mount in found]
    for number, target in enumerate(targets):
        assert not [late for late in targets[number + 1 :] if target.startswith(late.rstrip("/") + "/")]
