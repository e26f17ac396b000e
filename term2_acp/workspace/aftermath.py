"""After a process was killed: what the files of its calls hold now, and what it had staged beside them.

A file is looked at as everything else here is opened: the way is walked by descriptor, no link is followed,
and only a regular file of a bounded size is read, in a thread. What it holds goes to nobody but as a digest,
and counts as read by no model.

What was left behind has a name that says whose it is and what (``replace``). It is removed where it can be
nobody else's: a regular file of this user, named for the session, whose claim the caller holds. (What root
had staged for somebody's file may be that person's.)

- A *staged* file holds nothing but what its call was to write. A new one waits in the deepest folder that was
  there before its own were made, so it is looked for in each folder above.
- A file that a commit had *put aside* is what was there before, and may be the only copy. It lies in the
  folder of the file that it was, and is known by what it holds. Only the caller can tell whether it is still
  needed. Where a file has lost its name to that and got no other in its place, it is given it again.
"""

import contextlib
import functools
import hashlib
import itertools
import logging
import os
import re
import stat
import threading
from collections.abc import Collection, Iterable, Iterator

from attrs import field

from term2_acp.domain.classes import define
from term2_acp.domain.paths import is_within
from term2_acp.domain.toolcall import FileDigests
from term2_acp.workspace import opening
from term2_acp.workspace.content import MAX_FILE_BYTES
from term2_acp.workspace.refusals import ChangedSinceRead, FileRefused, Missing, PathRefused, from_os_error
from term2_acp.workspace.replace import move_new, names_aside_of, staged_names_of
from term2_acp.workspace.threads import Threads

logger = logging.getLogger(__name__)

# Bytes that are hashed at a time; more of a file is never in memory.
_BLOCK = 256 * 1024

_LISTED = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@define(eq=False)
class Aftermath:
    """One look. ``own_paths`` are term2's settings and state, of which nothing is opened."""

    _own_paths: tuple[str, ...]
    _threads: Threads = field(factory=Threads, init=False)

    async def digest(self, path: str, *, was_there: bool) -> str | None:
        """The SHA-256 of what the file at a canonical path holds, in hex; None where there is no file.

        ``was_there``: there was one, so its folder was there too. Where that is gone, moved away or not
        mounted, nobody knows what became of the file in it. Cancelled, nobody waits for its thread.

        Raises:
            FileRefused: it cannot be looked at, or changes meanwhile.
        """
        return await self._threads.run(lambda: self._digest(path, was_there=was_there))

    async def remove_staged(self, changes: Iterable[FileDigests], owner: str) -> None:
        """Remove what a session had staged for changes of files at canonical paths; what cannot be stays.

        Cancelled, nothing more is removed: the session may be at work by then, and stage anew.
        """
        staged, abandoned = staged_names_of(owner), threading.Event()
        try:
            # Files of one call are mostly in few folders, and a folder may be long.
            for folder in dict.fromkeys(itertools.chain.from_iterable(map(_waits_in, changes))):
                await self._threads.run(functools.partial(_clear, folder, staged, abandoned))
        finally:
            abandoned.set()

    async def aside(self, changes: Collection[FileDigests], owner: str) -> dict[str, str]:
        """Where a session's commit had put what was to be replaced or removed.

        Returns the paths of the hidden files that are there, by the canonical paths of the files that they
        were; of two that held the same, the first of the changes gets it. What was put aside of term2's own
        is not looked for. Cancelled, nobody waits for its thread.
        """
        names, found = names_aside_of(owner), dict[str, str]()
        for folder in dict.fromkeys(os.path.dirname(change.path) for change in changes):
            if _can_be(folder):
                of_it = [change for change in changes if os.path.dirname(change.path) == folder]
                found |= await self._threads.run(functools.partial(self._aside_in, folder, names, of_it))
        return found

    async def put_back(self, aside: str, path: str) -> bool:
        """Give a file that was put aside its name again, where nothing has that; whether it was given.

        Cancelled, it was or was not.
        """
        return await self._threads.run(lambda: _put_back(aside, path))

    async def remove_aside(self, path: str) -> None:
        """Remove a file that ``aside`` found and that is not needed any more. What cannot be removed stays.

        Cancelled, it is removed or not.
        """
        folder, name = os.path.split(path)
        only, abandoned = re.compile(re.escape(name)), threading.Event()
        try:
            await self._threads.run(functools.partial(_clear, folder, only, abandoned))
        finally:
            abandoned.set()

    def _digest(self, path: str, *, was_there: bool) -> str | None:
        head, name = os.path.split(path)
        if not _can_be(path):
            raise PathRefused("No file has a path like this.")
        if self._is_own(path):
            # Closing a file drops every POSIX lock that this process has on it, the database's too.
            raise PathRefused(f"{path} is term2's own.")
        try:
            with opening.folder(head) as within:
                was_there = False  # what is missing from here on is the file
                return _digest_at(name, within, path)
        except Missing:
            if was_there:
                raise
            return None

    def _aside_in(
        self, folder: str, names: re.Pattern[str], changes: Collection[FileDigests]
    ) -> dict[str, str]:
        # It may be a second name of a file that is in use, and that is not to be closed (``_digest``).
        return {} if self._is_own(folder) else _aside_in(folder, names, changes)

    def _is_own(self, path: str) -> bool:
        return any(is_within(os.path.realpath(own), path) for own in self._own_paths)


def _waits_in(change: FileDigests) -> Iterator[str]:
    """The folders where the staged file may be."""
    folder = os.path.dirname(change.path)
    if not _can_be(change.path):
        return
    yield folder
    while change.before is None and (above := os.path.dirname(folder)) != folder:
        folder = above
        yield folder


def _aside_in(folder: str, names: re.Pattern[str], changes: Collection[FileDigests]) -> dict[str, str]:
    """The files put aside in a folder, by which file held what they hold."""
    found: dict[str, str] = {}
    try:
        with opening.folder(folder) as within:
            for name in sorted(filter(names.fullmatch, _names_in(within))):
                path = os.path.join(folder, name)
                try:
                    digest = _digest_at(name, within, path)
                except FileRefused as error:
                    logger.info("what was put aside is not known: %s", error)
                    continue
                whose = (one.path for one in changes if one.before == digest and one.path not in found)
                if (of := next(whose, None)) is not None:
                    found[of] = path
    except (FileRefused, OSError) as error:
        logger.info("what may have been put aside in %s is not known: %s", folder, error)
    return found


def _put_back(aside: str, path: str) -> bool:
    folder, name = os.path.split(aside)
    try:
        with opening.folder(folder) as within:
            move_new(name, within, os.path.basename(path), within)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=within)
    except (FileRefused, OSError) as error:
        logger.info("%s cannot be put back: %s", aside, error)
        return False
    logger.info("put %s back, which a commit that was killed had put aside", path)
    return True


def _clear(folder: str, staged: re.Pattern[str], abandoned: threading.Event) -> None:
    """Remove the files of these names."""
    try:
        with opening.folder(folder) as within:
            for name in _names_in(within):
                if staged.fullmatch(name) and _is_our_file(name, within):
                    if abandoned.is_set():
                        return
                    os.unlink(name, dir_fd=within)
                    logger.info("removed %s, which was left behind in %s", name, folder)
    except Missing:
        return  # the call did not come to make it
    except (FileRefused, OSError) as error:
        logger.info("what may be left behind in %s stays: %s", folder, error)


def _can_be(path: str) -> bool:
    """Whether a file can have this path: what comes from a journal may be anything."""
    try:
        return os.path.isabs(path) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        return False


def _digest_at(name: str, within: int, path: str) -> str:
    descriptor = opening.open_regular(name, within, path)
    try:
        return _digest_of(descriptor, path)
    except OSError as error:
        raise from_os_error(error, path) from None
    finally:
        os.close(descriptor)


def _digest_of(descriptor: int, path: str) -> str:
    before = opening.Identity.of(os.fstat(descriptor))
    digest, left = hashlib.sha256(), MAX_FILE_BYTES
    if before.size > left:
        raise FileRefused(f"{path} is larger than what is ever written.")
    while block := os.read(descriptor, _BLOCK):
        digest.update(block)
        left -= len(block)
        if left < 0:
            break
    if opening.Identity.of(os.fstat(descriptor)) != before:
        raise ChangedSinceRead(f"{path} changes while it is looked at.")
    return digest.hexdigest()


def _names_in(within: int) -> list[str]:
    # The folder is open for the walk only, and that cannot be listed.
    listed = os.open(".", _LISTED, dir_fd=within)
    try:
        return os.listdir(listed)
    finally:
        os.close(listed)


def _is_our_file(name: str, within: int) -> bool:
    found = opening.look(name, within)
    return found is not None and stat.S_ISREG(found.st_mode) and os.geteuid() in (0, found.st_uid)
