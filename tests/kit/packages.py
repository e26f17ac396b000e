"""The npm packages that the schema gate and the client drivers need, installed once.

They come from whatever registry the environment's npm uses, into ``tests/clients/node_modules`` (the two
official SDKs) and ``tests/clients/acpx/node_modules`` (acpx and a node for it; apart, so that the gate does
not depend on them), and no lock file is written: it would name a registry's host. Several test processes
may ask at the same time, so a file lock outside the tree makes one of them install while the others wait.
Where node, npm or the registry is missing, ``installed`` raises ``Unavailable`` with the reason, and whoever
needed the packages skips by name with that reason.
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
"""The project with the official SDKs."""

ACPX = CLIENTS / "acpx"
"""The project with acpx."""

# A cold registry and a busy machine need their time; a registry that does not answer must not hold a
# test run up for long.
INSTALL_TIMEOUT_S = 120

ACPX_NEEDS_NODE = (22, 13)


class Unavailable(Exception):
    """The packages cannot be had here. The message is the reason to skip with."""


def node() -> str:
    """The path of node; raises ``Unavailable`` where there is none."""
    path = shutil.which("node")
    if path is None:
        raise Unavailable("node is not installed, and the official SDK clients run on it")
    return path


@functools.cache
def newer_node(modules: Path) -> str:
    """The path of a node that acpx runs on: the one from ``ACPX``'s packages, else the system's.

    Raises:
        Unavailable: neither is there, or neither is new enough.
    """
    packaged = [str(path) for path in sorted(modules.glob("node-linux-*/bin/node"))]
    for path in [*packaged, shutil.which("node")]:
        if path is not None and _node_version(path) >= ACPX_NEEDS_NODE:
            return path
    raise Unavailable(f"acpx needs node {'.'.join(map(str, ACPX_NEEDS_NODE))} or newer, and there is none")


def _node_version(path: str) -> tuple[int, ...]:
    """The version that a node says it has; empty where it does not run here."""
    try:
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        return tuple(int(part) for part in said.strip().removeprefix("v").split("."))
    except (OSError, ValueError):
        return ()


@functools.cache
def _outcome(project: Path) -> Path | Unavailable:
    # A failure is remembered as well as a success: one registry that does not answer costs one wait.
    try:
        return install(project)
    except Unavailable as unavailable:
        return unavailable


def installed(project: Path = CLIENTS) -> Path:
    """The node_modules of the project with all its packages in it, installing them if need be.

    Raises:
        Unavailable: they cannot be installed here.
    """
    outcome = _outcome(project)
    if isinstance(outcome, Unavailable):
        raise Unavailable(str(outcome))
    return outcome


def require() -> Path:
    """``installed``, for tests: skips the calling test, saying why, where they cannot be had or run."""
    try:
        node()
        return installed()
    except Unavailable as unavailable:
        pytest.skip(f"the official SDK packages are not available: {unavailable}")


def require_acpx() -> list[str]:
    """The command that runs acpx; skips the calling test, saying why, where it cannot be had."""
    try:
        modules = installed(ACPX)
        return [newer_node(modules), str(modules / "acpx" / "dist" / "cli.js")]
    except Unavailable as unavailable:
        pytest.skip(f"the npm package acpx is not available: {unavailable}")


def install(project: Path) -> Path:
    """Install what ``project/package.json`` names, unless it is there, and return its node_modules."""
    modules = project / "node_modules"
    if _complete(project):
        return modules
    node()
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("npm is not installed, and the packages come from its registry")
    with one_at_a_time(project):
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
def one_at_a_time(project: Path) -> Iterator[None]:
    """Hold the lock for installing into that folder. Entering waits for whoever holds it now."""
    tag = hashlib.sha256(os.fsencode(project)).hexdigest()[:16]
    path = Path(tempfile.gettempdir()) / f"term2-clients-{os.getuid()}-{tag}.lock"
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
