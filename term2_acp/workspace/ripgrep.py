"""Listing and searching, by ripgrep: it walks, honours ignore files, and matches in linear time.

How it is run: in a folder that we hold open (so a folder that was swapped meanwhile is not searched), one
thread and sorted, so that a result can be cut where it is long enough; links are not followed, no
configuration is read, the environment is empty. ``.git``, staged files and the hidden paths below the folder
are left out. Hidden files are not: ``.github`` is part of a project. A file is searched through a descriptor.

Our memory is bounded by construction: ripgrep cuts a line at ``MAX_LINE_BYTES``, and what is read from it is
taken apart piece by piece and not kept. Its own is bounded by the system, since it holds a line whole while
it looks at it. Leaving a search, by a cancel too, kills it.

What ripgrep opens below the folder it opens by name. Who can swap folders for links in the midst of a
search can have it read elsewhere; a tool cannot, since edits do not run beside a search.
"""

import logging
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from typing import Literal

from attrs import field

from term2_acp.domain.classes import define, frozen
from term2_acp.process import SYSTEM_FOLDERS, Process, dies_with_parent, open_process
from term2_acp.workspace.patterns import Pattern, PatternRefused
from term2_acp.workspace.refusals import Failed, from_os_error
from term2_acp.workspace.replace import STAGED_NAMES

logger = logging.getLogger(__name__)

# Bytes of a matching line that are kept; ripgrep says at its end that it was cut.
MAX_LINE_BYTES = 400

# Bytes a record may take before the output is not believed: a path, a number, a cut line and notices.
_MAX_RECORD_BYTES = 64 * 1024

# Bytes of memory that ripgrep may have. Lines of some 100 MiB fit; one of 600 MiB took 1.2 GiB.
MAX_MEMORY = 512 * 1024 * 1024

# What a compiled expression may take in memory. With 50M, `(?:a{999}){999}` took a second and 100 MB.
_MAX_EXPRESSION = "10M"

# Characters of ripgrep's own words about a pattern that are handed on.
_MAX_COMPLAINT = 1000

_FLAGS = (
    "--no-config",
    "--no-messages",
    "--color=never",
    "--hidden",
    "--no-require-git",
    "--no-ignore-global",
    "--no-follow",
    "--sort=path",
)
_NEVER = ("!.git", f"!{STAGED_NAMES}")

# The searched folder. It comes back in front of each name.
_HERE = "./"

# Names that mean the same to ripgrep's types as they mean to us, and nothing else.
_PLAIN_NAME = re.compile(r"[\w.*?-]+")

# File systems that hold no files, for a search of "/".
_NO_FILES = ("/proc", "/sys", "/dev")

# What ripgrep says on stdout about a file in which it found a NUL byte.
_NOTICE = re.compile(
    rb"\A[^\0]*?: (?:WARNING: stopped searching binary file after match|binary file matches) "
    rb'\(found "\\0" byte around offset \d+\)\n'
)


@frozen
class Listing:
    """Files, as paths relative to the listed folder. ``unreadable``: something could not be looked at.

    ``unprintable`` counts names that are not UTF-8, which no tool could be given.
    """

    paths: tuple[str, ...]
    truncated: bool = False
    unreadable: bool = False
    unprintable: int = 0


@frozen
class Hit:
    """One matching line, without its end. ``path`` is relative to the searched folder."""

    path: str
    line: int
    text: str


@frozen
class Hits:
    """What a search found, in the order of paths and lines.

    ``binary``: the one file that was searched is binary and matches, so there are no lines to show.
    """

    hits: tuple[Hit, ...]
    truncated: bool = False
    unreadable: bool = False
    binary: bool = False


@frozen
class Query:
    """What to search for. ``include`` and ``exclude`` are file-name patterns."""

    pattern: str
    fixed_strings: bool = False
    ignore_case: bool = False
    include: Pattern | None = None
    exclude: str | None = None


@frozen
class Ground:
    """Where to search: an open folder, or with ``file`` one open file in it; ``path`` is its name.

    ``left_out`` are canonical paths that are not looked at.
    """

    descriptor: int
    path: str
    left_out: tuple[str, ...] = ()
    file: int | None = None


def find(folders: Sequence[str] = SYSTEM_FOLDERS) -> str | None:
    """The ripgrep program: beside this Python's scripts, else where systems install it; None for none."""
    # Imported here, since most starts of the program never search.
    import shutil
    import sysconfig

    places = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable), *folders]
    return shutil.which("rg", path=os.pathsep.join(places))


async def list_files(program: str | None, ground: Ground, wanted: Pattern, limit: int) -> Listing:
    """List files below a folder that match a pattern; at most ``limit``, the first in order.

    Raises:
        FileRefused: ripgrep is not there or did not work.
    """
    paths: list[str] = []
    unprintable = 0
    async with _running(program, ["--files", "--null"], ground) as process:
        rest = b""
        while data := await process.receive():
            *names, rest = (rest + data).split(b"\0")
            for raw in names:
                try:
                    name = raw.decode().removeprefix(_HERE)
                except UnicodeDecodeError:
                    unprintable += 1
                    continue
                if wanted.matches(name):
                    paths.append(name)
            if len(paths) > limit:
                return Listing(tuple(paths[:limit]), truncated=True, unprintable=unprintable)
        unreadable = await _ended(process)
    return Listing(tuple(paths), unreadable=unreadable, unprintable=unprintable)


async def search(program: str | None, ground: Ground, query: Query, limit: int) -> Hits:
    """Find matching lines; at most ``limit``, the first in order.

    Raises:
        PatternRefused: ripgrep does not take the pattern; its own words are in the message.
        FileRefused: ripgrep is not there or did not work.
    """
    hits: list[Hit] = []
    splitter = Splitter()
    async with _running(program, _search_arguments(query, ground), ground) as process:
        while data := await process.receive():
            for hit in splitter.feed(data):
                if query.include is None or ground.file is not None or query.include.matches(hit.path):
                    hits.append(hit)
                if len(hits) > limit:
                    return Hits(tuple(hits[:limit]), truncated=True)
        unreadable = await _ended(process)
    return Hits(tuple(hits), unreadable=unreadable, binary=splitter.binary)


@define
class Splitter:
    """Takes ripgrep's output apart: ``path NUL line NUL text LF``, with notices in between."""

    binary: bool = field(default=False, init=False)
    _rest: bytes = field(default=b"", init=False)

    def feed(self, data: bytes) -> Iterator[Hit]:
        """The hits that are complete with ``data``."""
        buffer = self._rest + data
        at = 0
        while True:
            path_end = buffer.find(b"\0", at)
            line_end = buffer.find(b"\0", path_end + 1) if path_end >= 0 else -1
            text_end = buffer.find(b"\n", line_end + 1) if line_end >= 0 else -1
            if text_end < 0:
                break
            path = buffer[at:path_end]
            while notice := _NOTICE.match(path):
                path = path[notice.end() :]
            line = int(buffer[path_end + 1 : line_end])
            text = buffer[line_end + 1 : text_end].removesuffix(b"\r")
            yield Hit(path.decode(errors="replace").removeprefix(_HERE), line, text.decode(errors="replace"))
            at = text_end + 1
        self._rest = buffer[at:]
        self.binary = self.binary or b": binary file matches (found" in self._rest
        if len(self._rest) > _MAX_RECORD_BYTES:
            raise Failed("ripgrep's output cannot be read.")


def _search_arguments(query: Query, ground: Ground) -> list[str]:
    arguments = [
        "--line-number",
        "--no-heading",
        "--with-filename",
        "--null",
        "--field-match-separator=\\x00",
        f"--max-columns={MAX_LINE_BYTES}",
        "--max-columns-preview",
        "--crlf",
        f"--regex-size-limit={_MAX_EXPRESSION}",
        f"--dfa-size-limit={_MAX_EXPRESSION}",
        "--ignore-case" if query.ignore_case else "--case-sensitive",
    ]
    if query.fixed_strings:
        arguments.append("--fixed-strings")
    if query.include is not None and all(map(_PLAIN_NAME.fullmatch, query.include.names)):
        # A type, unlike a glob, does not override ignore files. It sees names only; the rest of the
        # pattern is matched on what is found.
        arguments += [f"--type-add=term2:{name}" for name in query.include.names]
        arguments.append("--type=term2")
    if query.exclude is not None:
        arguments.append(f"--glob=!{query.exclude}")
    arguments.append(f"--regexp={query.pattern}")
    return arguments


def _left_out(ground: Ground) -> Iterator[str]:
    yield from _NEVER
    base = ground.path.rstrip("/") + "/"
    for path in (*ground.left_out, *_NO_FILES):
        if path.startswith(base):
            yield "!/" + _literally(path[len(base) :])


def _literally(path: str) -> str:
    """A path as a pattern that fits it alone.

    White space stands in brackets: at the end of a pattern ripgrep drops it, as in a line of an ignore
    file, and the pattern would fit another name.
    """
    return re.sub(r"(\s)", r"[\1]", re.sub(r"([\\*?\[\]{}])", r"\\\1", path))


@asynccontextmanager
async def _running(program: str | None, arguments: list[str], ground: Ground) -> AsyncIterator[Process]:
    if program is None:
        raise Failed(
            "Searching needs ripgrep (`rg`), which is installed neither with term2 nor by the system."
        )
    excluded = [f"--iglob={pattern}" for pattern in _left_out(ground)] if ground.file is None else []
    argv = [program, *_FLAGS, *arguments, *excluded, "--", _HERE if ground.file is None else "-"]
    # On Linux the open folder has a name of its own, which no swap changes.
    cwd = f"/proc/self/fd/{ground.descriptor}" if sys.platform == "linux" else ground.path
    stdin: Literal["null"] | int = "null" if ground.file is None else ground.file
    argv = dies_with_parent(argv, max_memory=MAX_MEMORY)
    try:
        async with open_process(argv, env={}, cwd=cwd, stdin=stdin, stderr="keep") as process:
            yield process
    except OSError as error:
        raise from_os_error(error, program) from None


async def _ended(process: Process) -> bool:
    """Wait for the end; whether something could not be read."""
    code = await process.wait()
    complaint = process.errors.decode(errors="replace").strip()
    if code in (0, 1):
        return False
    if code == 2 and not complaint:
        return True
    if code == 2:
        raise PatternRefused(_in_bounds(complaint))
    if code == -signal.SIGABRT:
        raise Failed(
            f"The search needs more than {MAX_MEMORY:,} bytes of memory: a file there has a very long line. "
            "Leave it out with exclude, or search elsewhere."
        )
    logger.warning("ripgrep ended with %d: %s", code, _in_bounds(complaint))
    raise Failed(f"ripgrep ended with code {code}.")


def _in_bounds(complaint: str) -> str:
    words = complaint.removeprefix("rg: ")
    return words if len(words) <= _MAX_COMPLAINT else words[:_MAX_COMPLAINT] + " ..."


WhereIsRipgrep = Callable[[], str | None]
