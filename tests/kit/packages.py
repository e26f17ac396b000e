"""The two official SDK packages that the schema gate and the client drivers need, installed once.

They come from whatever registry the environment's npm uses, into ``tests/clients/node_modules``, and no
lock file is written: it would name a registry's host. Several test processes may ask at the same time,
so a file lock outside the tree makes one of them install while the others wait. Where node, npm or the
registry is missing, ``installed`` raises ``Unavailable`` with the reason, and whoever needed the
packages skips by name with that reason.
"""

import fcntl
import functools
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CLIENTS = Path(__file__).resolve().parent.parent / "clients"

# A cold registry and a busy machine need their time; a registry that does not answer must not hold a
# test run up for long.
INSTALL_TIMEOUT_S = 120


class Unavailable(Exception):
    """The packages cannot be had here. The message is the reason to skip with."""


def node() -> str:
    """The path of node; raises ``Unavailable`` where there is none."""
    path = shutil.which("node")
    if path is None:
        raise Unavailable("node is not installed, and the official SDK clients run on it")
    return path


@functools.cache
def _outcome() -> Path | Unavailable:
    # A failure is remembered as well as a success: one registry that does not answer costs one wait.
    try:
        return install(CLIENTS)
    except Unavailable as unavailable:
        return unavailable


def installed() -> Path:
    """``tests/clients/node_modules`` with both SDKs in it, installing them if need be.

    Raises:
        Unavailable: they cannot be installed here.
    """
    outcome = _outcome()
    if isinstance(outcome, Unavailable):
        raise Unavailable(str(outcome))
    return outcome


def require() -> Path:
    """``installed``, for tests: skips the calling test, saying why, where the packages cannot be had."""
    try:
        return installed()
    except Unavailable as unavailable:
        pytest.skip(f"the official SDK packages are not available: {unavailable}")


def install(project: Path) -> Path:
    """Install what ``project/package.json`` names, unless it is there, and return its node_modules."""
    modules = project / "node_modules"
    if _complete(project):
        return modules
    node()
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is not installed, and the official SDK packages come from its registry")
    with _locked(project):
        if not _complete(project):
            _npm_install(npm, project)
    return modules


def _complete(project: Path) -> bool:
    wanted = json.loads((project / "package.json").read_text())["dependencies"]
    for name, spec in wanted.items():
        manifest = project / "node_modules" / name / "package.json"
        if not manifest.is_file():
            return False
        exact = spec.rpartition("@")[2]
        if exact[:1].isdigit() and json.loads(manifest.read_text())["version"] != exact:
            return False
    return True


def _npm_install(npm: str, project: Path) -> None:
    command = [npm, "install", "--no-package-lock", "--no-audit", "--no-fund", "--ignore-scripts"]
    try:
        done = subprocess.run(
            command, cwd=project, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"npm install did not end within {INSTALL_TIMEOUT_S} s") from None
    if done.returncode != 0 or not _complete(project):
        said = next((line for line in done.stderr.splitlines() if "code" in line), done.stderr[-200:])
        raise Unavailable(f"npm install failed (exit {done.returncode}): {said.strip()}")


@contextmanager
def _locked(project: Path) -> Iterator[None]:
    tag = hashlib.sha256(os.fsencode(project)).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"term2-clients-{os.getuid()}-{tag}.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
