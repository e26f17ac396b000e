"""The Python clients that term2 is driven by in tests, installed once into an environment of their own.

They are no dependencies of term2 and must not become any: they live in ``tests/clients/.venv``, made with
the Python that runs the tests, and their drivers are run by its interpreter. ``requirements.txt`` beside it
pins them and all that they need. All of it is installed at once: with nothing to find out, and nothing
compiled that nobody imports, this takes two thirds of what one client after the other does. Where that is
refused, each is installed by itself and leaves a mark when it is whole, so that one that cannot be had costs
its own tests only. The rules of ``packages`` hold: one process installs while the others wait, and where
something is missing the tests skip by the client's name, with the reason.
"""

import contextlib
import functools
import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.packages import CLIENTS, INSTALL_TIMEOUT_S, Unavailable, one_at_a_time

PINS = CLIENTS / "requirements.txt"


def require(client: str) -> str:
    """The Python that has the client; skips the calling test, saying why, where it cannot be had."""
    outcome = _outcome(client)
    if isinstance(outcome, Unavailable):
        pytest.skip(f"the Python client {client} is not available: {outcome}")
    return outcome


class _Refused(Unavailable):
    """Somebody answered, and the answer is no. Where nobody does, another question only takes its time."""


@functools.cache
def _outcome(client: str) -> str | Unavailable:
    # A failure is remembered as well as a success: one index that does not answer costs one wait.
    try:
        return install(client, CLIENTS / ".venv", PINS)
    except Unavailable as unavailable:
        return unavailable


def install(client: str, environment: Path, pins: Path) -> str:
    """Install the client, unless it is there, and return the environment's Python.

    Raises:
        Unavailable: it cannot be installed here. The message is the reason to skip with.
    """
    python = environment / "bin" / "python"
    # What is there is what was asked for when neither the pins nor the Python changed since.
    wanted = hashlib.sha256(pins.read_bytes() + sys.version.encode()).hexdigest()
    if _is_whole(environment, client, wanted):
        return str(python)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install"]
    # A source that would have to be built takes minutes and a compiler.
    pip += ["--quiet", "--no-compile", "--only-binary", ":all:"]
    with one_at_a_time(environment):
        if not _says(environment / "made", wanted):
            # It needs no pip of its own: the one that is here installs into it, and making one takes seconds.
            _run(
                "making the environment",
                [sys.executable, "-m", "venv", "--clear", "--without-pip", str(environment)],
            )
            (environment / "made").write_text(wanted)
            with contextlib.suppress(_Refused):
                _run("installing all clients", [*pip, "--no-deps", "--requirement", str(pins)])
                (environment / "has-all").write_text(wanted)
        if not _is_whole(environment, client, wanted):
            _run(f"installing {client}", [*pip, "--constraint", str(pins), client])
            (environment / f"has-{client}").write_text(wanted)
    return str(python)


def _is_whole(environment: Path, client: str, wanted: str) -> bool:
    return any(_says(environment / f"has-{what}", wanted) for what in ("all", client))


def _says(mark: Path, wanted: str) -> bool:
    return mark.is_file() and mark.read_text() == wanted


def _run(what: str, command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{what} did not end within {INSTALL_TIMEOUT_S} s") from None
    if done.returncode != 0:
        lines = (done.stderr or done.stdout).splitlines()
        said = next((line for line in lines if "ERROR" in line), "".join(lines[-1:]))
        raise _Refused(f"{what} failed (exit {done.returncode}): {said.strip()}")
