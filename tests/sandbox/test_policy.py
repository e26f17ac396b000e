"""The policy as a value: which workspaces cannot be confined and why, what a command sees of the machine, and
which weaknesses of a policy are said. Nothing here touches the file system."""

import attrs
import pytest

from term2_acp.domain.confinement import Confinement
from term2_acp.sandbox.policy import (
    SYSTEM_SECRETS,
    TEMPORARY_FOLDERS,
    Layer,
    Limits,
    Policy,
    SandboxError,
    SandboxFailed,
    SandboxRefused,
    check,
    depth,
    lies_in,
    notes,
    outermost,
    visible,
)


def policy(
    workspace="/srv/ws", *, cwd=None, hidden=(), temporary=TEMPORARY_FOLDERS, secrets=(), incomplete=False
):
    confinement = Confinement(workspace, hidden=hidden, incomplete=incomplete)
    return Policy(
        confinement,
        cwd or workspace,
        {},
        Limits(),
        "/srv/empty",
        system_secrets=secrets,
        temporary=temporary,
    )


@pytest.mark.parametrize(
    "workspace",
    [
        "/", "/srv", "/srv/ws", "/etc", "/home/p", "/tmp", "/tmp/x", "/var", "/var/tmp", "/var/tmp/x",
        "/run/x", "/dev/shm", "/dev/shm/x", "/development", "/system", "/process",
    ],
)  # fmt: skip
def test_a_workspace_may_lie_anywhere_else(workspace):
    assert check(policy(workspace, hidden=("/home/p/.ssh",))) is None


@pytest.mark.parametrize(
    ("workspace", "reason"),
    [
        ("/dev", "the workspace /dev lies in /dev, of which commands have their own"),
        ("/dev/x", "the workspace /dev/x lies in /dev, of which commands have their own"),
        ("/dev/shmx", "the workspace /dev/shmx lies in /dev, of which commands have their own"),
        ("/proc", "the workspace /proc lies in /proc, of which commands have their own"),
        ("/proc/1/cwd", "the workspace /proc/1/cwd lies in /proc, of which commands have their own"),
        ("/sys", "the workspace /sys lies in /sys, which is the kernel's"),
        ("/sys/fs/cgroup/x", "the workspace /sys/fs/cgroup/x lies in /sys, which is the kernel's"),
        ("/run", "the workspace is /run, where daemons keep their sockets"),
        ("/home/p/.ssh", "the folder /home/p/.ssh is hidden from commands"),
        ("/home/p/.ssh/a/b", "the folder /home/p/.ssh/a/b is hidden from commands"),
        ("/etc/sudoers.d", "the folder /etc/sudoers.d is hidden from commands"),
    ],
)
def test_a_workspace_that_a_command_would_not_see_is_refused(workspace, reason):
    with pytest.raises(SandboxRefused) as caught:
        check(policy(workspace, hidden=("/home/p/.ssh",), secrets=("/etc/sudoers.d",)))
    assert caught.value.reason == reason
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("cwd", "reason"),
    [
        ("/srv", "the folder /srv does not lie in the workspace /srv/ws"),
        ("/srv/ws2", "the folder /srv/ws2 does not lie in the workspace /srv/ws"),
        ("/srv/ws/keys/x", "the folder /srv/ws/keys/x is hidden from commands"),
        ("/srv/ws/t/x", "the folder /srv/ws/t/x lies where commands have an empty folder of their own"),
    ],
)
def test_a_command_starts_only_where_it_sees_the_workspace(cwd, reason):
    with pytest.raises(SandboxRefused) as caught:
        check(policy(cwd=cwd, hidden=("/srv/ws/keys",), temporary=("/tmp", "/srv/ws/t")))
    assert caught.value.reason == reason


def test_a_folder_of_the_workspace_is_a_good_place_to_start():
    assert check(policy(cwd="/srv/ws/a b/c", hidden=("/srv/ws/a",))) is None


@pytest.mark.parametrize(
    ("workspace", "path", "seen"),
    [
        ("/srv/ws", "/etc/passwd", True),
        ("/srv/ws", "/tmp/x", False),
        ("/srv/ws", "/tmpx", True),
        ("/srv/ws", "/dev/null", False),
        ("/srv/ws", "/proc/self", False),
        ("/srv/ws", "/sys/x", True),
        ("/tmp/ws", "/tmp/ws", True),
        ("/tmp/ws", "/tmp/ws/x", True),
        ("/tmp/ws", "/tmp/ws2", False),
        ("/tmp", "/tmp/x", True),
        ("/var", "/var/lib/x", True),
        ("/var", "/var/tmp/x", False),
        ("/", "/x", True),
        ("/", "/tmp/x", False),
        ("/dev/shm", "/dev/shm/x", True),
        ("/dev/shm", "/dev/x", False),
        ("/dev/shm/ws", "/dev/shm/x", False),
    ],
)
def test_the_deepest_cover_decides_what_is_seen(workspace, path, seen):
    assert visible(policy(workspace), path) is seen


def test_the_workspace_and_hidden_places_are_no_temporary_folders():
    assert policy().private == TEMPORARY_FOLDERS
    assert policy("/tmp").private == ("/var/tmp", "/run", "/dev/shm")
    assert policy(hidden=("/var",)).private == ("/tmp", "/run", "/dev/shm")
    assert policy(hidden=("/run",)).private == ("/tmp", "/var/tmp", "/dev/shm")


def test_system_secrets_are_hidden_places_like_others():
    found = policy(hidden=("/home/p/.ssh", "/home/p/.ssh/id", "/etc/ssl"), secrets=SYSTEM_SECRETS)
    assert found.hidden == (
        "/etc/gshadow",
        "/etc/gshadow-",
        "/etc/master.passwd",
        "/etc/shadow",
        "/etc/shadow-",
        "/etc/ssh/ssh_host_dsa_key",
        "/etc/ssh/ssh_host_ecdsa_key",
        "/etc/ssh/ssh_host_ed25519_key",
        "/etc/ssh/ssh_host_rsa_key",
        "/etc/ssl",
        "/etc/sudoers",
        "/etc/sudoers.d",
        "/home/p/.ssh",
    )


def test_what_lies_below_another_is_left_out_whatever_sorts_between():
    assert outermost(("/a/b", "/a-b", "/a", "/a/b/c", "/a.b/c", "/a")) == ("/a", "/a-b", "/a.b/c")
    assert outermost(("/x", "/")) == ("/",)
    assert outermost(()) == ()


@pytest.mark.parametrize(
    ("path", "expected"),
    [("/a", True), ("/a/b/c", True), ("/ab", False), ("/", False), ("/b", False)],
)
def test_lying_in_counts_whole_names(path, expected):
    assert lies_in(path, {"/a", "/b/c"}) is expected
    assert lies_in(path, {"/"}) is True
    assert lies_in(path, ()) is False


def test_depth_counts_names():
    assert [depth(path) for path in ("/", "/a", "/a/b")] == [0, 1, 2]


def test_weaknesses_of_a_policy_are_said():
    assert notes(policy()) == ()
    assert notes(policy("/tmp/x")) == ()
    assert notes(policy("/tmp", incomplete=True)) == (
        "The workspace is /tmp itself: temporary files are made in it, and stay.",
        "The workspace has too many protected names: only the nearest are read-only.",
    )
    read_only = attrs.evolve(policy("/tmp"), confinement=Confinement("/tmp").as_read_only())
    assert notes(read_only) == ("The workspace is /tmp itself: no temporary files can be made in it.",)


def test_layers_are_words_with_labels():
    assert [layer.value for layer in Layer] == [
        "writes", "hidden", "network", "unix_sockets", "protected", "process_view", "whole_tree", "syscalls",
        "processes", "memory",
    ]  # fmt: skip
    assert Layer("network") is Layer.NETWORK
    assert Layer.NETWORK == "network"
    assert len({layer.label for layer in Layer}) == len(Layer)
    assert Layer.WRITES.label == "no writes outside the workspace"


def test_a_refusal_is_not_a_failure_and_both_are_errors_of_the_sandbox():
    assert issubclass(SandboxRefused, SandboxError)
    assert issubclass(SandboxFailed, SandboxError)
    assert not issubclass(SandboxRefused, SandboxFailed)
    assert not issubclass(SandboxFailed, SandboxRefused)


def test_a_reason_can_always_be_sent():
    with pytest.raises(SandboxRefused) as caught:
        check(policy("/proc/\udcff"))
    assert caught.value.reason == "the workspace /proc/? lies in /proc, of which commands have their own"
    assert str(caught.value) == caught.value.reason


def test_the_limits_are_what_the_documents_say():
    limits = Limits()
    assert limits.process_memory_bytes == 4 * 2**30
    assert limits.total_memory_bytes == 8 * 2**30
    assert limits.processes == 1024
    assert limits.file_bytes == 2 * 2**30
    assert limits.open_files == 4096
    assert limits.temporary_bytes == 2**30
