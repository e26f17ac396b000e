"""Attempts that need a launch of their own, or several: what grows without end, what stays behind, what
changes while the sandbox is made, odd workspaces, and what one command leaves for the next.

Each is a function that gets a ground and a way to launch, and returns what came of it as a JSON value.
"""

import os
import secrets
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from attrs import define

from term2_acp.sandbox import Limits, Sandbox, SandboxError
from term2_acp.workspace import Workspace
from tests.kit.commands import everything, mark, running

MIB = 2**20
PYTHON = (os.path.realpath(sys.executable), "-I", "-S", "-c")
CASES = {}

# Seconds for a case; one that hangs shall not hang the others.
PATIENCE_S = 30


def case(function):
    CASES[function.__name__] = function
    return function


@define
class Runner:
    """Launches commands in a workspace, by the way that all commands take."""

    sandbox: Sandbox
    home: Path
    workspace: Path

    def files(self):
        return Workspace(str(self.workspace), home=str(self.home))

    @asynccontextmanager
    async def launch(self, command, *, meanwhile=None, **options):
        """``meanwhile`` is called when the places are found and the sandbox is not made yet."""
        confinement = await self.files().confinement()
        if meanwhile is not None:
            meanwhile()
        async with self.sandbox.launch(command, confinement, cwd=str(self.workspace), **options) as running:
            yield running

    async def says(self, line, **options):
        """What a line of bash prints; the reason where it is not run."""
        try:
            async with self.launch(["/bin/bash", "-c", line], **options) as command:
                said = await everything(command)
                await command.wait()
        except SandboxError as error:
            return f"refused: {error.reason}"
        return said.decode(errors="replace")

    async def python(self, text, **options):
        """What a Python program prints, how it exits, and which bounds of the tree were in force."""
        async with self.launch([*PYTHON, text], **options) as command:
            said = await everything(command)
            ended = await command.wait()
            return {
                "said": said.decode(errors="replace"),
                "code": ended.code,
                "signal": ended.signal,
                "bounded": sorted(command.bounded),
            }


# -- what stays behind -----------------------------------------------------------------------------

LEAVING = """
import glob, os, signal, time
def leave(*ways):
    for number, way in enumerate(ways):
        if os.fork():
            if number:
                os._exit(0)
            return
        try:
            way()
        except OSError:
            pass
    os.execvp("sleep", ["sleep", WORD])
def silent():
    os.dup2(os.open("/dev/null", os.O_RDWR), 1)
def group():
    os.setpgid(0, 0)
def deaf():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
ways = ([os.setsid], [os.setsid, silent], [group], [silent, deaf], [deaf, os.setsid, silent])
for some in ways:
    leave(*some)
def left():
    found = 0
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            found += WORD in open(path).read().split("\\0")
        except OSError:
            pass
    return found
while left() < len(ways):
    time.sleep(0.01)
print("left", left(), flush=True)
"""


@case
async def sessions_and_double_forks(runner):
    """They hold the pipe, or nothing; they are in sessions of their own, or ignore signals."""
    word = mark()
    async with runner.launch([*PYTHON, LEAVING.replace("WORD", repr(word))]) as command:
        said = await everything(command)
        code = (await command.wait()).code
    return {"said": said.decode(), "code": code, "left": running(word)}


@case
async def a_daemon_that_holds_the_pipe(runner):
    word = mark()
    with trio.move_on_after(10) as scope:
        said = await runner.says(
            f"nohup setsid sleep {word} 2>/dev/null & disown 2>/dev/null; (exec 1>&2; sleep {word}) & "
            "echo done"
        )
    return {"said": said, "hung": scope.cancelled_caught, "left": running(word)}


@case
async def a_kill_in_the_midst(runner):
    word = mark()
    async with runner.launch(["/bin/bash", "-c", f"setsid sleep {word} & echo up; sleep {word}"]) as command:
        while b"up" not in await command.receive():
            pass
        command.kill_nowait()
        ended = await command.wait()
    return {"signal": ended.signal, "left": running(word)}


# -- what grows without end ------------------------------------------------------------------------


@case
async def a_fork_bomb(runner):
    """It stops by itself at 200, for where nothing else would stop it."""
    text = (
        "import os, time\n"
        "made = 0\n"
        "try:\n"
        "    while made < 200:\n"
        "        if os.fork() == 0:\n"
        "            time.sleep(60); os._exit(0)\n"
        "        made += 1\n"
        "except OSError as error: print(made, error.errno)\n"
        "else: print(made, 'all')\n"
    )
    return await runner.python(text, limits=Limits(processes=40))


@case
async def memory_of_one_process(runner):
    text = "try: bytearray(512 << 20)\nexcept MemoryError: print('refused')\nelse: print('given')"
    return await runner.python(text, limits=Limits(process_memory_bytes=128 * MIB))


@case
async def memory_of_many_processes(runner):
    text = (
        "import os, time\n"
        "for _ in range(6):\n"
        "    if os.fork() == 0:\n"
        "        held = bytearray(b'x') * (32 << 20); time.sleep(60)\n"
        "time.sleep(0.1)\n"
        "ended = 0\n"
        "for _ in range(50):\n"
        "    if os.waitpid(-1, os.WNOHANG)[0]: ended += 1; break\n"
        "    time.sleep(0.02)\n"
        "print(ended > 0)\n"
    )
    return await runner.python(text, limits=Limits(total_memory_bytes=100 * MIB))


@case
async def memory_in_nameless_files(runner):
    """Each is bounded as a file is; together only where the whole tree is."""
    text = (
        "import errno, os, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "total, word = 0, 'filled'\n"
        "for _ in range(16):\n"
        "    file = os.memfd_create('x')\n"
        "    try:\n"
        "        for _ in range(64): total += os.write(file, bytes(1 << 20))\n"
        "    except OSError as error: word = errno.errorcode[error.errno]\n"
        "print(total >> 20, word)\n"
    )
    return await runner.python(text, limits=Limits(file_bytes=8 * MIB, total_memory_bytes=100 * MIB))


@case
async def temporary_folders(runner):
    """Filled to the brim, each in turn; with MiB that went in."""
    text = (
        "import errno, os\n"
        "for folder in (os.environ['TMPDIR'], '/tmp', '/var/tmp', '/run', '/dev/shm', '/dev', '/proc'):\n"
        "    done, word = 0, 'filled'\n"
        "    try:\n"
        "        for number in range(4):\n"
        "            file = os.open(f'{folder}/fill-{number}', os.O_CREAT | os.O_WRONLY)\n"
        "            for _ in range(16): done += os.write(file, bytes(1 << 20))\n"
        "    except OSError as error: word = errno.errorcode[error.errno]\n"
        "    print(done >> 20, word)\n"
    )
    return await runner.python(text, limits=Limits(temporary_bytes=12 * MIB))


@case
async def a_file_without_end(runner):
    text = (
        "import errno, os, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "file = os.open('endless', os.O_CREAT | os.O_WRONLY)\n"
        "done = 0\n"
        "try:\n"
        "    while done < 64 << 20: done += os.write(file, bytes(1 << 18))\n"
        "except OSError as error: print(done >> 10, errno.errorcode[error.errno])\n"
        "for way in (lambda: os.ftruncate(file, 1 << 40), lambda: os.posix_fallocate(file, 0, 1 << 30)):\n"
        "    try: way()\n"
        "    except OSError as error: print(errno.errorcode[error.errno])\n"
    )
    found = await runner.python(text, limits=Limits(file_bytes=MIB))
    return found | {"size": (runner.workspace / "endless").stat().st_size}


@case
async def many_files(runner):
    """Not held: a person's disk quota is what bounds them."""
    text = "for n in range(8): open(f'many-{n}', 'wb').write(bytes(1 << 18))"
    await runner.python(text, limits=Limits(file_bytes=MIB))
    return sum(path.stat().st_size for path in runner.workspace.glob("many-*"))


@case
async def fifty_megabytes_of_output(runner):
    """Taken as they come: how many arrived, and by how many MiB the daemon grew meanwhile."""
    command = ["/bin/sh", "-c", "head -c 52428800 /dev/zero; echo end >&2; exit 3"]
    async with runner.launch(command) as running:
        count = len(await running.receive())
        before = _resident()
        tail = b""
        while data := await running.receive():
            count, tail = count + len(data), data[-4:]
        grown = _resident() - before
        code = (await running.wait()).code
    return {"count": count, "tail": tail.decode(), "code": code, "grown": grown >> 20}


def _resident():
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# -- terminals, and the next command ---------------------------------------------------------------


@case
async def a_program_that_waits_for_a_person(runner):
    with trio.move_on_after(10) as scope:
        said = await runner.says(
            "read -r line; echo $?; cat | wc -c; (read -r line < /dev/tty) 2> /dev/null; echo $?"
        )
    return {"said": said, "hung": scope.cancelled_caught}


@case
async def what_one_command_leaves_for_the_next(runner):
    """Variables, start-up files, libraries to load first, and files in what is private to a command."""
    first = (
        "export BASH_ENV=$PWD/evil LD_PRELOAD=$PWD/evil.so PYTHONSTARTUP=$PWD/evil; "
        "export GIT_CONFIG_GLOBAL=$PWD/evil; "
        "for f in ~/.bashrc ~/.bash_env ~/.profile ~/.gitconfig /etc/profile /etc/bash.bashrc "
        "/etc/ld.so.preload /etc/environment /etc/gitconfig; "
        "do (echo 'echo PLANTED' >> $f) 2>/dev/null && echo wrote $f; done; "
        "touch $TMPDIR/left /tmp/left /dev/shm/left 2>/dev/null; echo end"
    )
    second = (
        "env | grep -E '^(BASH_ENV|ENV|LD_|PYTHON|GIT_CONFIG)'; bash -lic 'echo in' 2>/dev/null; "
        "ls -A $TMPDIR /tmp/left /dev/shm/left 2>/dev/null | grep left; echo end"
    )
    return [await runner.says(first), await runner.says(second)]


def _exit_code(words, cwd):
    return subprocess.run(words, cwd=cwd, capture_output=True).returncode


@case
async def a_search_path_through_the_workspace(runner):
    """The daemon was started from a virtual environment in the project, say. Programs are planted there."""
    planted = runner.workspace / "bin"
    planted.mkdir()
    for name in ("bwrap", "rg", "sh", "bash", "git", "python3", "env", "true", "sleep", "mount"):
        program = planted / name
        program.write_text(
            f'#!/bin/sh\n: > {runner.home}/ran-{name}\necho bubblewrap 99.9.9\nexec /bin/sh "$@"\n'
        )
        program.chmod(0o755)
    kept = os.environ["PATH"]
    os.environ["PATH"] = f"{planted}:{kept}"
    try:
        state = runner.home / ".local/state/term2-again"
        poisoned = Runner(Sandbox(os.environ, (), str(state)), runner.home, runner.workspace)
        layers = await poisoned.sandbox.layers()
        said = await poisoned.says("echo $PATH | cut -d: -f1; command -v git")
        by_hand = _exit_code([planted / "rg", "-c", "true"], runner.workspace)
    finally:
        os.environ["PATH"] = kept
    return {
        "program": str(getattr(layers, "program", None)),
        "said": said,
        "planted": str(planted),
        "by_hand": by_hand,
        "ran": sorted(path.name for path in runner.home.glob("ran-*")),
    }


# -- what changes while the sandbox is made --------------------------------------------------------


def _remade(runner):
    """The workspace as a new repository, beside a folder that it must not reach, and a hidden one."""
    shutil.rmtree(runner.workspace)
    runner.workspace.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=runner.workspace, check=True)
    beside = runner.home / "beside"
    shutil.rmtree(beside, ignore_errors=True)
    (beside / "hooks").mkdir(parents=True)
    for name in ("config", "file", "HEAD"):
        (beside / name).write_text("as it was\n")
    return beside


def _replace(path, target):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
    path.symlink_to(target)


async def _swapped(runner, swap, line):
    beside = _remade(runner)
    before = {path.name: path.read_text() for path in beside.iterdir() if path.is_file()}
    said = await runner.says(line.format(beside=beside, home=runner.home), meanwhile=swap)
    after = {path.name: path.read_text() for path in beside.iterdir() if path.is_file()}
    return {"said": said, "changed": before != after}


CHANGE = "for f in file config new; do echo changed > {beside}/$f; done 2>/dev/null; cat {beside}/file"
REVEAL = "cat {home}/.ssh/id_ed25519; cat .git/hooks/id_ed25519; ls {home}/.ssh"


@case
async def no_swap_at_all(runner):
    """The neighbour: the same, and nothing is swapped."""
    return await _swapped(runner, lambda: None, CHANGE)


@case
async def the_git_folder_becomes_a_link(runner):
    """A folder that is shown writable, so that it is held, would be the one beside."""
    return await _swapped(runner, lambda: _replace(runner.workspace / ".git", "../beside"), CHANGE)


@case
async def the_git_folder_becomes_an_absolute_link(runner):
    return await _swapped(
        runner, lambda: _replace(runner.workspace / ".git", str(runner.home / "beside")), CHANGE
    )


@case
async def the_hooks_become_a_link_to_a_hidden_folder(runner):
    """Shown read-only, and over its own mask."""
    return await _swapped(runner, lambda: _replace(runner.workspace / ".git/hooks", "../../.ssh"), REVEAL)


@case
async def the_configuration_becomes_a_link_to_a_hidden_file(runner):
    line = "cat {home}/.netrc .git/config"
    return await _swapped(runner, lambda: _replace(runner.workspace / ".git/config", "../../.netrc"), line)


@case
async def the_hooks_become_a_fifo(runner):
    def swap():
        shutil.rmtree(runner.workspace / ".git/hooks")
        os.mkfifo(runner.workspace / ".git/hooks")

    with trio.move_on_after(15) as scope:
        found = await _swapped(runner, swap, CHANGE)
    return found if not scope.cancelled_caught else "hung"


@case
async def the_workspace_becomes_a_link(runner):
    def swap():
        runner.workspace.rename(runner.workspace.with_name("moved"))
        runner.workspace.symlink_to("beside")

    try:
        return await _swapped(runner, swap, CHANGE)
    finally:
        runner.workspace.unlink()
        runner.workspace.with_name("moved").rename(runner.workspace)


@case
async def a_folder_above_the_workspace_becomes_a_link(runner):
    """Whoever works in the folder above can do that."""
    beside = _remade(runner)
    deep = runner.workspace / "a/b"
    deep.mkdir(parents=True)
    (runner.home / "beside/b").mkdir()
    (runner.home / "beside/b/file").write_text("as it was\n")

    def swap():
        (runner.workspace / "a").rename(runner.workspace / "c")
        (runner.workspace / "a").symlink_to("../beside")

    said = await Runner(runner.sandbox, runner.home, deep).says(
        f"echo changed > {beside}/b/file; cat {beside}/b/file", meanwhile=swap
    )
    return {"said": said, "changed": (beside / "b/file").read_text() != "as it was\n"}


# -- odd workspaces --------------------------------------------------------------------------------

ODD = (
    "new\nline", "--bind", "'quotes\"`$(id)", "\udcff\udcfe", "\\040",
    "a b  c", "--", "-", "\\", "tab\t#", "*?[a]", "ümläut", "a" * 255,
)  # fmt: skip

# How many of them are tried under Landlock, to which a name is no part of a command line.
FEW = 5


@case
async def odd_names(runner):
    """Each is a workspace; what is written in it, and that nothing beside it can be."""
    found = {}
    layers = await runner.sandbox.layers()
    for number, name in enumerate(ODD if layers.kind == "bubblewrap" else ODD[:FEW]):
        folder = runner.home / f"odd-{number}" / name
        (folder / ".git/hooks").mkdir(parents=True)
        (folder / ".git/config").write_text("as it was\n")
        (folder / ".git/HEAD").write_text("ref: refs/heads/main\n")
        line = (
            "echo in > file; cat file; "
            "for f in ../out .git/config .git/hooks/x; do (echo no > $f) 2>/dev/null && echo $f; done"
        )
        said = await Runner(runner.sandbox, runner.home, folder).says(line)
        there = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
        found[ascii(name)] = [said, there, (folder / ".git/config").read_text()]
        if (folder.parent / "out").exists():
            found[ascii(name)].append("wrote beside")
    return found


@case
async def a_name_of_four_thousand_bytes(runner):
    """It is refused or it works; it is never something else."""
    folder = runner.home / "long"
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    path = str(folder)
    name = "x" * 200
    while len(path) < 4000 - 200:
        os.mkdir(name, dir_fd=descriptor)
        below = os.open(name, os.O_RDONLY, dir_fd=descriptor)
        os.close(descriptor)
        descriptor, path = below, f"{path}/{name}"
    try:
        said = await Runner(runner.sandbox, runner.home, Path(path)).says(
            f"echo in > file; cat file; echo no > {runner.home}/outside.txt"
        )
        there = os.listdir(descriptor)
    finally:
        os.close(descriptor)
    return {"said": said, "there": there}


# -- what is not held, and said --------------------------------------------------------------------


async def _while_it_runs(runner, do, line):
    """What a command prints after something was done outside while it ran."""
    word = runner.workspace / f"go-{secrets.token_hex(4)}"
    waiting = f"echo up; while ! [ -e {word.name} ]; do sleep 0.02; done; {line}"
    said = b""
    async with runner.launch(["/bin/bash", "-c", waiting]) as command:
        while b"up" not in said:
            said += await command.receive()
        do()
        word.touch()
        said += await everything(command)
    return said.decode().removeprefix("up\n")


@case
async def a_hidden_file_that_is_replaced_meanwhile(runner):
    def do():
        (runner.home / "new").write_text("newer\n")
        (runner.home / "new").replace(runner.home / ".netrc")

    return await _while_it_runs(runner, do, f"cat {runner.home}/.netrc 2>&1")


@case
async def a_file_in_a_hidden_folder_that_is_replaced_meanwhile(runner):
    """This is held: it is the folder that is covered."""

    def do():
        (runner.home / ".ssh/new").write_text("newer\n")
        (runner.home / ".ssh/new").replace(runner.home / ".ssh/id_ed25519")

    return await _while_it_runs(runner, do, f"cat {runner.home}/.ssh/id_ed25519 2>/dev/null || echo no")


@case
async def a_protected_file_that_is_replaced_meanwhile(runner):
    _remade(runner)
    before = await runner.files().confinement()
    said = await _while_it_runs(
        runner,
        lambda: _exit_code(["git", "config", "a.b", "c"], runner.workspace),
        "(echo '# planted' >> .git/config) 2>/dev/null && echo wrote || echo no",
    )
    told = await runner.files().newly_protected(before)
    return [said, [str(Path(path).relative_to(runner.workspace)) for path in told]]


@case
async def a_file_system_that_is_mounted_meanwhile(runner):
    """Where mounts are shared, as systemd has them, a new one of the machine is a new one of the sandbox."""
    layers = await runner.sandbox.layers()
    if os.geteuid() != 0 or layers.kind != "bubblewrap":
        return "not tried"
    late = runner.home / "late"
    late.mkdir()
    # The stage has its mounts to itself: nothing of this is seen outside.
    if _exit_code(["mount", "--bind", runner.home, runner.home], "/") != 0:
        return "not tried"
    _exit_code(["mount", "--make-shared", runner.home], "/")

    def do():
        _exit_code(["mount", "-t", "tmpfs", "late", late], "/")
        (late / "file").write_text("late\n")

    said = await _while_it_runs(runner, do, f"cat {late}/file; echo x > {late}/new && echo wrote")
    _exit_code(["umount", late], "/")
    _exit_code(["umount", runner.home], "/")
    return said
