"""Where the attempts are made: a person's home, a project in it, and a daemon that has what must not be
reached.

It is a program of its own, run by the tests as whoever shall be attacked: ``stage.py FOLDER KIND``. It makes
the places in ``FOLDER``, has the things of a daemon (a terminal, an environment with a key, a neighbour
process, listeners, shared memory), and runs every program of attempts twice: by the product's own way into
the sandbox of ``KIND``, and outside, on places of another name, to see that the same program succeeds there.
Then come the ``cases``. What came of it, and what the places were like afterwards, is one line of JSON.

Nothing here can harm the machine if it succeeds: what would is opened and not written. What belongs to others
is not looked into outside, but only in the sandbox.
"""

import contextlib
import ctypes
import hashlib
import json
import os
import pty
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import trio

from term2_acp.sandbox import Sandbox, Unavailable
from term2_acp.workspace import Workspace
from tests.sandbox.escapes.cases import CASES, PATIENCE_S, PYTHON, Runner

HERE = Path(__file__).parent
ANSWER = "the attempts came to: "
PROGRAMS = ("writes", "reads", "kernel", "strangers", "protected", "read_only")

MARKER = "KEEP-THIS-FROM-COMMANDS"
SPOKEN = "a-word-of-a-command-line-outside"
AS_IT_WAS = "as it was\n"

CREDENTIALS = (
    ".ssh/id_ed25519", ".ssh/config", ".aws/credentials", ".config/gcloud/credentials.db", ".kube/config",
    ".gnupg/private-keys-v1.d/key", ".netrc", ".npmrc", ".pypirc", ".docker/config.json", ".bash_history",
    ".zsh_history", ".local/share/fish/fish_history",
)  # fmt: skip

PROTECTED = (
    ".git/config", ".git/hooks/pre-commit", ".git/modules/lib/config", ".git/modules/lib/hooks/post-checkout",
    ".envrc", ".vscode/settings.json", ".mcp.json", "AGENTS.md", "deep/AGENTS.md", ".github/workflows/ci.yml",
    ".bashrc", "lib/.git",
)  # fmt: skip

# One for each attempt upon a workspace that is read-only as a whole.
VICTIMS = (
    "read", "opened", "appended", "truncated", "opened-truncated", "removed", "renamed", "exchanged",
    "exchanged-too", "linked", "moded", "moded-by-descriptor", "timed", "timed-by-descriptor", "owned",
    "attributed", "flagged", "by-a-symlink", "by-a-hard-link", "by-a-name", "taken", "opened-again",
    "by-the-folder", "by-the-root", "by-the-cwd", "by-the-first", "by-the-parent", "by-a-mount", "cat",
    "tee", "sed", "touched", "chmod", "cp", "mv", "rm", "ln",
)  # fmt: skip

# What the listeners of the daemon are called, and their kinds.
STREAMS = ("home_socket", "workspace_socket", "temporary_socket", "run_socket", "agent_socket")


class Ground:
    """The places below one folder. ``at`` is what the programs are told."""

    def __init__(self, folder):
        self.folder = folder
        self.home = folder / "home"
        self.workspace = self.home / "project"
        self.at = {
            "home": str(self.home),
            "workspace": str(self.workspace),
            "outside": str(self.home / "outside.txt"),
            "elsewhere": str(self.home / "elsewhere"),
            "victims": str(self.home / "victims"),
            "metadata": str(self.home / "metadata"),
            "hidden": str(self.home / ".ssh"),
            "credentials": [str(self.home / name) for name in CREDENTIALS],
            "hidden_folders": [str(self.home / name) for name in (".ssh", ".aws", ".kube", ".docker")],
            "state": str(self.home / ".local/state/term2"),
            "settings": str(self.home / ".config/term2/settings.toml"),
            "fifo": str(self.home / "fifo"),
            "device": str(self.home / "device"),
            "setuid": str(folder.parent / "setuid-id"),
            "protected": [str(self.workspace / name) for name in PROTECTED],
            "own_code": str(self.workspace / "tools/term2"),
            "inner_state": str(self.workspace / "var/term2"),
            "marker": MARKER,
            "spoken_backwards": SPOKEN[::-1],
        }

    def make(self):
        for name in ("elsewhere", "victims/folder", "project"):
            (self.home / name).mkdir(parents=True)
        self._put(self.home, AS_IT_WAS, "outside.txt", "metadata", *(f"victims/{name}" for name in (
            "removed", "renamed", "taken", "exchanged",
        )))  # fmt: skip
        self._put(self.home, MARKER + "\n", *CREDENTIALS, ".local/state/term2/sessions.db")
        self._put(self.home, MARKER + "\n", ".config/term2/settings.toml")
        (self.home / "link-to-keys").symlink_to(".ssh")
        os.mkfifo(self.at["fifo"])
        if os.geteuid() == 0:
            os.mknod(self.at["device"], stat.S_IFCHR | 0o666, os.makedev(1, 5))

    def make_protected(self):
        """The workspace as a repository with a submodule, and all that is guarded in it."""
        lines = "init -q; config user.email a@b; config user.name n; config core.hooksPath .git/hooks"
        for line in lines.split("; "):
            subprocess.run(["git", *line.split()], cwd=self.workspace, check=True)
        modules = self.workspace / ".git/modules/lib"
        subprocess.run(["git", "init", "-q", "--bare", modules], check=True)
        self._put(
            self.workspace, AS_IT_WAS, *(one for one in PROTECTED if "config" not in one), "shared-notes"
        )
        (self.workspace / "lib/.git").write_text("gitdir: ../.git/modules/lib\n")
        (self.workspace / "CLAUDE.md").symlink_to("shared-notes")
        self._put(self.workspace, AS_IT_WAS, "tools/term2/program.py")
        self._put(self.workspace, MARKER + "\n", "var/term2/sessions.db")

    def make_repository(self):
        """The workspace as a repository with one commit, and a file for each attempt."""
        self._put(self.workspace, AS_IT_WAS, *(f"victims/{name}" for name in VICTIMS))
        (self.workspace / "victims/folder").mkdir()
        self._put(self.workspace, MARKER + "\n", "var/term2/sessions.db")
        for line in (
            "init -q",
            "config user.email a@b",
            "config user.name n",
            "commit -q --allow-empty -m one",
        ):
            subprocess.run(["git", *line.split()], cwd=self.workspace, check=True)

    def _put(self, below, text, *names):
        for name in names:
            path = below / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    def state_of_workspace(self):
        """What is in the workspace, with the times of its last changes, which nobody can set back."""
        found = self.digest(self.workspace)
        times = {name: (self.workspace / name).lstat().st_ctime_ns for name in found}
        return found, times, self.workspace.stat().st_ctime_ns

    def digest(self, below, *, without=()):
        """What is below a folder, names, kinds, modes and contents, as one value for each name."""
        found = {}
        for path in sorted(below.rglob("*")):
            name = str(path.relative_to(below))
            if any(name == one or name.startswith(one + "/") for one in without):
                continue
            facts = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(facts.st_mode) else b""
            if stat.S_ISLNK(facts.st_mode):
                content = os.readlink(path).encode()
            found[name] = [stat.filemode(facts.st_mode), hashlib.sha256(content).hexdigest()[:12]]
        return found


class Belongings:
    """What a daemon and its neighbours have beside files, and what became of it, for one run of a program."""

    def __init__(self, ground, number):
        self.ground = ground
        self.number = number
        self.listeners = {}
        self.signals = []
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        signal.signal(signal.SIGUSR1, lambda *_: self.signals.append("daemon"))
        self._listen()
        self._start_stranger()
        self._share()
        at = self.ground.at
        at |= {"daemon": os.getpid(), "group": os.getpgrp(), "terminal": os.ttyname(0)}
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _listen(self):
        at, mark = self.ground.at, f"term2-{os.getpid()}-{self.number}"
        run = "/run" if os.access("/run", os.W_OK) else "/var/tmp"
        at["home_socket"] = f"{at['home']}/daemon"
        at["workspace_socket"] = f"{at['workspace']}/daemon"
        at["temporary_socket"] = f"/tmp/{mark}"
        at["run_socket"] = f"{run}/{mark}"
        at["agent_socket"] = os.environ["SSH_AUTH_SOCK"] = f"{at['home']}/agent"
        at["datagram_socket"] = f"{at['home']}/datagrams"
        at["abstract"] = mark
        for name in (*STREAMS, "datagram_socket", "abstract"):
            kind = socket.SOCK_DGRAM if name == "datagram_socket" else socket.SOCK_STREAM
            self._bound(name, socket.AF_UNIX, kind, "\0" + mark if name == "abstract" else at[name])
        at["tcp"] = self._bound("tcp", socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))[1]
        at["tcp6"] = self._bound("tcp6", socket.AF_INET6, socket.SOCK_STREAM, ("::1", 0))[1]
        at["udp"] = self._bound("udp", socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 0))[1]
        self._fifo = os.open(at["fifo"], os.O_RDWR | os.O_NONBLOCK)
        self._stack.callback(os.close, self._fifo)

    def _bound(self, name, family, kind, address):
        one = self._stack.enter_context(socket.socket(family, kind))
        one.bind(address)
        if kind == socket.SOCK_STREAM:
            one.listen()
        one.setblocking(False)
        if isinstance(address, str) and address.startswith("/"):
            self._stack.callback(Path(address).unlink, missing_ok=True)
        self.listeners[name] = one
        return one.getsockname()

    def _start_stranger(self):
        program = (
            "import os, signal, time\n"
            "signal.signal(signal.SIGUSR1, lambda *_: os.write(1, b's'))\n"
            "os.write(1, b'r')\n"
            "while True: time.sleep(60)"
        )
        self.stranger = self._stack.enter_context(
            # With the daemon's environment, and so with its key.
            subprocess.Popen([sys.executable, "-c", program, SPOKEN], stdout=subprocess.PIPE, bufsize=0)
        )
        self._stack.callback(self.stranger.kill)
        assert self.stranger.stdout.read(1) == b"r"
        os.set_blocking(self.stranger.stdout.fileno(), False)
        maps = Path(f"/proc/{self.stranger.pid}/maps").read_text()
        self.ground.at |= {"stranger": self.stranger.pid, "address": int(maps.split("-")[0], 16)}

    def _share(self):
        """Shared memory, a queue and semaphores of System V, and a queue with a name."""
        libc = ctypes.CDLL(None, use_errno=True)
        segment, queue, semaphores = (
            libc.shmget(0, 4096, 0o600),
            libc.msgget(0, 0o600),
            libc.semget(0, 1, 0o600),
        )
        self._stack.callback(libc.shmctl, segment, 0, None)
        self._stack.callback(libc.msgctl, queue, 0, None)
        self._stack.callback(libc.semctl, semaphores, 0, 0)
        name = f"/term2-{os.getpid()}-{self.number}"
        rt = ctypes.CDLL(None, use_errno=True)
        named = rt.mq_open(name.encode(), os.O_CREAT | os.O_RDWR, 0o600, None)
        assert min(segment, queue, semaphores, named) >= 0, os.strerror(ctypes.get_errno())
        self._stack.callback(rt.mq_unlink, name.encode())
        self._stack.callback(rt.mq_close, named)
        self.shared = (segment, queue, semaphores)
        self.named = name
        self.ground.at |= dict(zip(("segment", "queue", "semaphores"), self.shared, strict=True))
        self.ground.at["named_queue"] = name[1:]

    def facts(self):
        """What was reached or changed, as words; nothing where nothing was."""
        found = [f"reached {name}" for name, one in self.listeners.items() if _was_reached(one)]
        with contextlib.suppress(BlockingIOError):
            found.append(f"fifo got {os.read(self._fifo, 99).decode()}")
        if self.stranger.poll() is not None:
            found.append("the stranger is dead")
        elif self.stranger.stdout.read(99):
            found.append("the stranger was signalled")
        found += [f"the {name} was signalled" for name in dict.fromkeys(self.signals)]
        pid = self.stranger.pid
        if os.getpriority(os.PRIO_PROCESS, pid) != os.getpriority(os.PRIO_PROCESS, 0):
            found.append("priority")
        if os.sched_getaffinity(pid) != os.sched_getaffinity(0):
            found.append("processors")
        if os.sched_getscheduler(pid) != os.sched_getscheduler(0):
            found.append("scheduling")
        libc = ctypes.CDLL(None, use_errno=True)
        room = ctypes.create_string_buffer(512)
        segment, queue, semaphores = self.shared
        if libc.shmctl(segment, 2, room) < 0:
            found.append("the segment is gone")
        if libc.msgctl(queue, 2, room) < 0:
            found.append("the queue is gone")
        if libc.semctl(semaphores, 0, 12) < 0:
            found.append("the semaphores are gone")
        again = libc.mq_open(self.named.encode(), os.O_RDWR)
        if again < 0:
            found.append("the named queue is gone")
        else:
            libc.mq_close(again)
        return found


def _was_reached(one):
    try:
        if one.type == socket.SOCK_DGRAM:
            one.recv(99)
        else:
            one.accept()[0].close()
    except BlockingIOError:
        return False
    return True


# -- the runs --------------------------------------------------------------------------------------


def text_of(program):
    """A program of attempts that needs no file: what it imports as ``harness`` is in it."""
    harness, attempts = ((HERE / f"{name}.py").read_text() for name in ("harness", program))
    return (
        "import sys, types\nmodule = types.ModuleType('harness')\n"
        f"exec({harness!r}, module.__dict__)\nsys.modules['harness'] = module\n{attempts}"
    )


def answer(said):
    """What the attempts came to, out of all that was printed."""
    lines = [line for line in said.splitlines() if line.startswith(ANSWER)]
    assert len(lines) == 1, said[-2000:]
    return json.loads(lines[0].removeprefix(ANSWER))


async def inside(ground, program, sandbox):
    """Run a program of attempts as commands are run; what came of them, and what was said not to be held."""
    protected = program == "protected"
    # Landlock cannot hide it inside of the workspace, and would refuse that.
    hides = protected or (program == "read_only" and (await sandbox.layers()).kind != "landlock")
    inner = (ground.at["inner_state"],) if hides else ()
    files = Workspace(
        str(ground.workspace),
        home=str(ground.home),
        own_paths=(ground.at["state"], ground.at["settings"], *inner),
        own_code=(ground.at["own_code"],) if protected else (),
    )
    confinement = await files.confinement(read_only=program == "read_only")
    command = [*PYTHON, text_of(program), json.dumps(ground.at)]
    said = bytearray()
    async with sandbox.launch(command, confinement, cwd=str(ground.workspace)) as running:
        while data := await running.receive():
            said += data
        notes = running.notes
    made = await files.newly_protected(confinement)
    return {"attempts": answer(said.decode()), "notes": notes, "made": made}


def outside(ground, program):
    """Run a program of attempts bare, in mounts of its own where we are root."""
    bare = [sys.executable, "-I", "-S", "-c", text_of(program), json.dumps(ground.at)]
    if os.geteuid() == 0:
        bare = ["unshare", "-m", "--propagation", "private", *bare]
    own = {"TMPDIR": ground.at["elsewhere"]}
    done = subprocess.run(
        bare, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | own
    )
    return {"attempts": answer(done.stdout)}


async def both(folder, program, sandbox, number):
    """One program of attempts, inside and outside, each on places of its own."""
    found = {}
    kind = (await sandbox.layers()).kind
    for side in ("inside", "outside"):
        ground = Ground(folder / f"{program}-{side}")
        ground.at["side"] = side
        ground.make()
        if program == "protected":
            ground.make_protected()
        if program == "read_only":
            ground.make_repository()
            _mount_within(ground)
        if kind != "landlock":
            _mount_again(ground)
        with Belongings(ground, f"{number}{side[0]}") as belongings:
            before = ground.digest(ground.home, without=("project",))
            workspace = ground.state_of_workspace()
            guarded = _guarded(ground) if program == "protected" else {}
            if side == "inside":
                found[side] = await inside(ground, program, sandbox)
            else:
                found[side] = outside(ground, program)
            after = ground.digest(ground.home, without=("project",))
            now = _guarded(ground)
            found[side] |= {
                "changed": sorted(name for name in {*before, *after} if before.get(name) != after.get(name)),
                "workspace": workspace != ground.state_of_workspace(),
                "facts": belongings.facts(),
                "unguarded": sorted(name for name in guarded if guarded[name] != now.get(name)),
            }
    return found


async def one_case(folder, name, sandbox):
    """One of the cases, on places of its own; an error of it is told as one."""
    ground = Ground(folder / name)
    ground.make()
    try:
        with trio.fail_after(PATIENCE_S):
            return await CASES[name](Runner(sandbox, ground.home, ground.workspace))
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is told
        return f"failed: {error!r}"


def _guarded(ground):
    whole = ground.digest(ground.workspace)
    names = (*PROTECTED, "shared-notes", "CLAUDE.md", "tools/term2", "var/term2")
    return {
        name: value
        for name, value in whole.items()
        if any(name == one or name.startswith(one + "/") for one in names)
    }


def _mount_again(ground):
    """Give hidden places a second name, as a person with bind mounts in the home has it.

    Landlock is not used where its own trial is made below such a mount: to it both are one place.
    """
    if os.geteuid() != 0:
        return
    for source, target in (
        (ground.home / ".ssh", ground.home / "bound"),
        (ground.home, f"{ground.home}-again"),
    ):
        os.mkdir(target)
        subprocess.run(["mount", "--bind", source, target], check=True)


def _mount_within(ground):
    """Have another file system's place in the workspace, where we may."""
    if os.geteuid() == 0:
        target = ground.workspace / "mounted"
        target.mkdir()
        subprocess.run(["mount", "--bind", ground.home / "elsewhere", target], check=True)


def _become_a_daemon():
    """Have a terminal, as a daemon has that a person starts by hand, and mounts of one's own if one may."""
    _ours, theirs = pty.openpty()
    if os.getsid(0) != os.getpid():
        os.setsid()
    import fcntl
    import termios

    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    os.dup2(theirs, 0)
    if os.geteuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.unshare(0x0002_0000) == 0
        assert libc.mount(b"none", b"/", None, (1 << 18) | 16384, None) == 0  # private, all of them


def _without_bubblewrap():
    from term2_acp.sandbox import candidates

    candidates.bundled = list
    candidates.installed = lambda _path: []


async def everything(folder, kind, programs):
    """All of it, or why there is nothing."""
    if kind == "landlock":
        _without_bubblewrap()
    sandbox = Sandbox(os.environ, (), str(folder / "state"))
    layers = await sandbox.layers()
    if isinstance(layers, Unavailable) or layers.kind != kind:
        return {"skip": layers.reason if isinstance(layers, Unavailable) else f"{layers.kind} is used here"}
    found = {"held": sorted(layers.held), "notes": layers.notes}
    for number, name in enumerate(programs or (*PROGRAMS, *CASES)):
        if name in CASES:
            found[name] = await one_case(folder, name, sandbox)
        elif not (name == "protected" and kind == "landlock"):  # which does not hold it, and says so
            found[name] = await both(folder, name, sandbox, number)
    return found


def main():
    folder, kind, *programs = sys.argv[1:]
    _become_a_daemon()
    found = trio.run(everything, Path(folder), kind, programs)
    sys.stdout.write(f"{ANSWER}{json.dumps(found)}\n")


if __name__ == "__main__":
    main()
