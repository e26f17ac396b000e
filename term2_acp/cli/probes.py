"""The checks of ``term2 doctor`` that run something: ripgrep searches, and the sandbox is tried.

Both are run in the way in which tools and commands run them, bounded in time, and are gone when the check is
left, for whatever reason.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import trio

from term2_acp.cli.checks import nearest
from term2_acp.cli.health import Level, RipgrepHealth, SandboxHealth
from term2_acp.process import dies_with_parent, open_process
from term2_acp.workspace import ripgrep
from term2_acp.workspace.refusals import FileRefused

# Seconds for ripgrep to answer twice. It takes some hundredths; a disk that has to wake up takes a few whole
# ones.
RIPGREP_S = 15.0

# Seconds for the sandbox to be tried, in all the ways there are, each of which has a bound of its own. It
# takes a few tenths of one.
SANDBOX_S = 60.0

NO_SANDBOX = "So shell and run_code fail."
"""What it means for the person that there is no sandbox."""

_WEAKER = "Commands run in a weaker sandbox than there is: see what is not held."


async def check_ripgrep(program: str | None) -> RipgrepHealth:
    """Have ripgrep say its version and find something, as the tools run it. Cancelled, it is killed."""
    if program is None:
        missing = "ripgrep (`rg`) is installed neither with term2 nor by the system: glob and grep fail."
        return RipgrepHealth(Level.LESS, (missing,))
    version, why = None, f"it did not answer within {RIPGREP_S:.0f} s"
    with trio.move_on_after(RIPGREP_S):
        try:
            version = await _version(program)
            why = "" if await _finds(program) else "it does not find what is there"
        except FileRefused as refused:
            why = str(refused).rstrip(".")
        except OSError as error:
            why = os.strerror(error.errno or 0).lower()
    if not why:
        return RipgrepHealth(Level.OK, (), program, version)
    return RipgrepHealth(
        Level.LESS, (f"{program} does not work ({why}): glob and grep fail.",), program, version
    )


async def _version(program: str) -> str | None:
    """The second word of what it says; None where it says none."""
    argv = dies_with_parent([program, "--no-config", "--version"], max_memory=ripgrep.MAX_MEMORY)
    said = b""
    async with open_process(argv, env={}) as process:
        while len(said) < ripgrep.MAX_LINE_BYTES and (data := await process.receive()):
            said += data
    words = said.split(b"\n", 1)[0].decode(errors="replace").split()
    return words[1] if len(words) > 1 else None


async def _finds(program: str) -> bool:
    """Whether it finds the second of two lines that it is given, as a tool searches one file."""
    with _opened_pipe(b"one\ntwo\n") as file, _opened(os.sep) as folder:
        ground = ripgrep.Ground(folder, os.sep, file=file)
        found = await ripgrep.search(program, ground, ripgrep.Query("^two$"), limit=1)
    return [(hit.line, hit.text) for hit in found.hits] == [(2, "two")]


@contextmanager
def _opened(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened_pipe(data: bytes) -> Iterator[int]:
    """A pipe from which these few bytes can be read, and then its end."""
    reader, writer = os.pipe()
    try:
        os.write(writer, data)
        os.close(writer)
        yield reader
    finally:
        os.close(reader)


async def check_sandbox(
    environ: Mapping[str, str], secrets: tuple[str, ...], state: str | None
) -> SandboxHealth:
    """Have the sandbox tried, as it is before the first command. Cancelled, what was started is ended.

    ``state`` is term2's state directory, which need not exist.
    """
    # Here, so that a machine on which one of its packages cannot be loaded is told so, and all the rest.
    from term2_acp.sandbox import Layer, Sandbox, Unavailable

    with _folder_near(state) as folder, trio.move_on_after(SANDBOX_S):
        if folder is None:
            return _without_sandbox("there is no directory that can be written to, in which to try one")
        found = await Sandbox(environ, secrets, folder).layers()
        if isinstance(found, Unavailable):
            return _without_sandbox(found.reason)
        layers = {layer.value: layer in found.held for layer in Layer}
        # Few machines hold the bounds in all for an ordinary user. They do not keep a command in.
        weaker = not found.held | {Layer.PROCESSES, Layer.MEMORY} >= set(Layer)
        level, problems = (Level.LESS, (_WEAKER,)) if weaker else (Level.OK, ())
        return SandboxHealth(level, problems, found.kind, found.program, found.version, layers, found.notes)
    return _without_sandbox(f"it could not be tried within {SANDBOX_S:.0f} s")


def _without_sandbox(reason: str) -> SandboxHealth:
    sentence = reason[:1].upper() + reason[1:].rstrip(".")
    return SandboxHealth(Level.LESS, (f"{sentence}. {NO_SANDBOX}",))


@contextmanager
def _folder_near(state: str | None) -> Iterator[str | None]:
    """A folder for the trial, gone with the context; None where none can be made.

    It stands in for the state directory and lies in it, or as near as there is something: in a temporary
    folder, of which commands have their own anyway, a trial would show less.
    """
    folder = None
    for place in (state and nearest(state), None):
        try:
            folder = tempfile.mkdtemp(prefix=".term2-doctor-", dir=place)
            break
        except OSError:
            continue
    try:
        yield folder and os.path.realpath(folder)
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
