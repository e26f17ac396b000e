"""The limits of a command, each by what exceeds it: sizes for a process, processes and memory for the tree.

Where the number of processes and the memory are bounded by a control group, the tests need root; where an
ordinary user's own limit does it, they become one. Which controllers lie where is told from texts.
"""

import os
import sys
from pathlib import Path

import pytest
import trio

from term2_acp.sandbox import Exit, Layer, Limits, cgroups
from term2_acp.sandbox.cgroups import places
from term2_acp.sandbox.launch import launch
from term2_acp.sandbox.limits import counts_by_namespace
from tests.kit.commands import as_ordinary_user, bwrap, everything, groups, policy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the limits are Linux's")

PYTHON = os.path.realpath(sys.executable)

MIB = 1024**2


def limited(folder, program, **limits):
    command = [PYTHON, "-I", "-S", "-c", program]
    return launch(bwrap(), policy(folder, limits=Limits(**limits)), command)


async def test_a_file_grows_to_its_limit_only(tmp_path):
    program = "import signal as s; s.signal(s.SIGXFSZ, s.SIG_DFL)\nopen('f', 'wb').write(bytes(2 << 20))"
    async with limited(tmp_path, program, file_bytes=MIB) as command:
        assert await command.wait() == Exit(None, "SIGXFSZ")
    assert (tmp_path / "workspace" / "f").stat().st_size == MIB


async def test_a_process_has_its_memory_and_its_files_and_leaves_no_dump(tmp_path):
    program = (
        "import os, resource\n"
        "try: bytearray(300 << 20)\n"
        "except MemoryError: print('memory')\n"
        "try:\n"
        "    while True: os.dup(0)\n"
        "except OSError: print('files')\n"
        "print(resource.getrlimit(resource.RLIMIT_CORE), resource.getrlimit(resource.RLIMIT_NOFILE))\n"
        "try: resource.setrlimit(resource.RLIMIT_NOFILE, (33, 33))\n"
        "except ValueError: print('stays')\n"
    )
    async with limited(tmp_path, program, process_memory_bytes=200 * MIB, open_files=32) as command:
        assert await everything(command) == b"memory\nfiles\n(0, 0) (32, 32)\nstays\n"


# Forks until it is refused, and says how many there were. None of them ends by itself.
FORK_BOMB = """\
import os, time
count = 0
try:
    while count < 500:
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
        count += 1
except OSError as error:
    os.write(1, b"%d %d" % (count, error.errno))
"""


@pytest.fixture
def _control_groups():
    with cgroups.group(Limits()) as group:
        if not {Layer.PROCESSES, Layer.MEMORY} <= group.held:
            pytest.skip("no control group for processes and memory can be made here")


@pytest.mark.usefixtures("_control_groups")
async def test_a_fork_bomb_stops_at_the_bound_of_the_tree_for_root_too(tmp_path):
    async with limited(tmp_path, FORK_BOMB, processes=20) as command:
        assert Layer.PROCESSES in command.bounded
        with trio.fail_after(20):
            count, error = map(int, (await everything(command)).split())
            assert await command.wait() == Exit(0, None)
    # The namespace's first process and the program itself are among the twenty.
    assert (count, error) == (18, 11)
    assert groups() == []


@pytest.mark.usefixtures("_control_groups")
async def test_memory_is_bounded_for_the_whole_tree(tmp_path):
    program = (
        "import os, time\n"
        "for _ in range(4):\n"
        "    if os.fork() == 0:\n"
        "        held = bytearray(b'x') * (40 << 20)\n"
        "        time.sleep(1000)\n"
        "print([os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(2)], flush=True)\n"
    )
    async with limited(tmp_path, program, total_memory_bytes=100 * MIB) as command:
        assert Layer.MEMORY in command.bounded
        with trio.fail_after(20):
            assert await everything(command) == b"[-9, -9]\n"
    assert groups() == []


@pytest.mark.usefixtures("_control_groups")
async def test_the_temporary_folder_is_of_the_trees_memory(tmp_path):
    program = "open('/tmp/f', 'wb').write(bytes(1 << 20) * 200)"
    async with limited(tmp_path, program, total_memory_bytes=100 * MIB) as command:
        with trio.fail_after(20):
            assert await command.wait() == Exit(None, "SIGKILL")
    assert groups() == []


ORDINARY = f"""\
import sys, trio
from term2_acp.sandbox import Exit, Limits
from term2_acp.sandbox.launch import launch
from tests.kit.commands import bwrap, everything, policy

async def main():
    limited = policy(sys.argv[1], limits=Limits(processes=20))
    async with launch(bwrap(), limited, ["/usr/bin/python3", "-I", "-S", "-c", {FORK_BOMB!r}]) as command:
        print(*command.bounded, (await everything(command)).decode(), await command.wait() == Exit(0, None))

trio.run(main)
"""


def test_a_fork_bomb_of_an_ordinary_user_stops_too():
    if not counts_by_namespace(os.uname().release):
        pytest.skip("this kernel counts all processes of a user")
    assert as_ordinary_user(ORDINARY) == "processes 18 11 True\n"


@pytest.mark.parametrize(
    ("release", "counts"),
    [
        ("5.13.19", False),
        ("5.14.0-427.el9.x86_64", True),
        ("6.1.0-18-amd64", True),
        ("4.19", False),
        ("10.0-rc1", True),
        ("weird", False),
    ],
)
def test_the_kernel_counts_by_namespace_from_a_release_on(release, counts):
    assert counts_by_namespace(release) is counts


# -- control groups --------------------------------------------------------------------------------

HYBRID = """\
24 23 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
25 23 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
26 23 0:36 /docker/a /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids,freezer
27 23 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
28 23 0:39 / /tmp rw - tmpfs tmpfs rw
"""


def test_controllers_of_version_1_are_found_where_they_are_mounted():
    own = "9:name=systemd:/\n8:freezer,pids:/docker/a/b\n4:memory:/x:y\n0::/\n"
    found = places(own, HYBRID)
    assert {name: (place.folder, place.version) for name, place in found.items()} == {
        "pids": ("/sys/fs/cgroup/pids/b", 1),
        "memory": ("/sys/fs/cgroup/memory/x:y", 1),
    }


def test_a_group_outside_of_what_is_mounted_is_not_ours_to_use():
    found = places("8:pids:/docker/ab\n", HYBRID)
    assert found == {}


def test_version_2_has_what_version_1_does_not():
    found = places("4:memory:/\n0::/user.slice/me\n", HYBRID)
    assert {name: (place.folder, place.version) for name, place in found.items()} == {
        "pids": ("/sys/fs/cgroup/unified/user.slice/me", 2),
        "memory": ("/sys/fs/cgroup/memory", 1),
    }
    alone = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n"
    assert {place.folder for place in places("0::/me\n", alone).values()} == {"/sys/fs/cgroup/me"}


class Trees:
    """Folders in the place of the kernel's trees; writing to them is all that they do."""

    def __init__(self, folder, monkeypatch, version):
        self.own = folder / "own"
        self.own.mkdir()
        (self.own / "cgroup.subtree_control").write_text("cpu pids\n")
        place = cgroups._Place(str(self.own), version)
        monkeypatch.setattr(cgroups, "_places", lambda: {"pids": place, "memory": place})
        monkeypatch.setattr(cgroups, "_write", self.write)
        self.written = []
        self.refused = set()

    def write(self, folder, name, text):
        if name in self.refused or f"{name} {text}" in self.refused:
            raise PermissionError(13, "refused", name)
        self.written.append(f"{Path(folder).name.split('-')[0]} {name} {text}")


def test_version_2_hands_on_what_it_does_not_yet_and_bounds_both(tmp_path, monkeypatch):
    trees = Trees(tmp_path, monkeypatch, 2)
    with cgroups.group(Limits(processes=7, total_memory_bytes=99)) as group:
        assert group.add_nowait(42) == {Layer.PROCESSES, Layer.MEMORY}
    assert trees.written == [
        "term2 pids.max 7",
        "own cgroup.subtree_control +memory",
        "term2 memory.max 99",
        "term2 memory.swap.max 0",
        "term2 cgroup.procs 42",
    ]
    assert [path.name for path in trees.own.iterdir()] == ["cgroup.subtree_control"]


@pytest.mark.parametrize(
    ("refused", "held"),
    [
        ("cgroup.subtree_control +memory", {Layer.PROCESSES}),
        ("memory.max", {Layer.PROCESSES}),
        ("memory.swap.max", {Layer.PROCESSES, Layer.MEMORY}),
        ("pids.max", {Layer.MEMORY}),
        ("cgroup.procs", set()),
    ],
)
def test_what_the_kernel_refuses_is_not_held(tmp_path, monkeypatch, refused, held):
    trees = Trees(tmp_path, monkeypatch, 2)
    trees.refused.add(refused)
    with cgroups.group(Limits()) as group:
        assert group.add_nowait(42) == held
    assert [path.name for path in trees.own.iterdir()] == ["cgroup.subtree_control"]


def test_the_folders_of_the_dead_are_removed_and_those_of_the_living_are_not(tmp_path, monkeypatch):
    trees = Trees(tmp_path, monkeypatch, 1)
    mine = cgroups.name_of_ours()
    # A process with our number that was another, one that there is not, and what is nobody's of ours.
    for name in (f"term2-{os.getpid()}-1-1", "term2-4194304-7-1", "term2-", "term2-web-1-1", mine, "other"):
        (trees.own / name).mkdir()
    with cgroups.group(Limits()):
        pass
    left = {path.name for path in trees.own.iterdir() if path.is_dir()}
    assert left == {mine, "other", "term2-", "term2-web-1-1"}
