"""The whole of outputs that were cut for the model and the screen: files of one session.

- One folder a session, ``artifacts/SESSION`` below the state directory, made with its first file; the folder
  is 0700, its files 0600.
- A session keeps ``MAX_SESSION_BYTES``. While a file grows beyond what is left of that, the oldest others go,
  one by one; when none is left to go, the file is cut, and says so.
- They go with their session, all at once.
- Nothing here waits for the event loop: callers use a thread. An ``Artifact`` takes turns with itself, since
  the thread of a caller that was cancelled may still be at work.
"""

import contextlib
import logging
import os
import shutil
import threading
from collections import deque

from attrs import field

from term2_acp.domain.classes import define
from term2_acp.domain.ids import SessionId, ToolCallId
from term2_acp.store.private import make_directory, open_file

logger = logging.getLogger(__name__)

# What one session may keep. A person's disk is theirs; the oldest outputs are the least asked for.
MAX_SESSION_BYTES = 256 * 1024 * 1024


@define(eq=False)
class Others:
    """The other files of a session's folder, the oldest first, each with its size; and their bytes."""

    files: deque[tuple[str, int]]
    used: int

    def shrink(self, most: int) -> None:
        """Remove the oldest until at most ``most`` bytes are used. What cannot be removed counts on."""
        while self.used > most and self.files:
            path, size = self.files.popleft()
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass  # somebody was faster
            except OSError as error:
                logger.warning("an old artifact cannot be removed: %s", error.strerror)
                continue
            self.used -= size


@define(eq=False)
class Artifact:
    """One output that is being kept. ``path`` is where; ``size`` is what is kept so far, in bytes.

    ``cut``: what came last did not fit any more, and is left out.
    """

    path: str
    max_bytes: int
    _descriptor: int
    _others: Others
    size: int = field(default=0, init=False)
    cut: bool = field(default=False, init=False)
    _turn: threading.Lock = field(factory=threading.Lock, init=False)

    def write(self, data: bytes) -> None:
        """Append, after the oldest others made room; what does not fit even then is left out.

        Raises:
            OSError: the disk is full or gone. ``size`` says what was kept of it.
            ValueError: it is closed.
        """
        with self._turn:
            if self._descriptor < 0:
                raise ValueError("this artifact is closed")
            if self.cut:
                return  # nothing may follow a gap
            self._others.shrink(max(self.max_bytes - self.size - len(data), 0))
            fits = memoryview(data)[: max(self.max_bytes - self.size - self._others.used, 0)]
            self.cut = len(fits) < len(data)
            while fits:
                written = os.write(self._descriptor, fits)
                self.size += written
                fits = fits[written:]

    def close(self) -> None:
        """Close the file. A second time it does nothing."""
        with self._turn:
            if self._descriptor >= 0:
                descriptor, self._descriptor = self._descriptor, -1
                os.close(descriptor)


@define(eq=False)
class Artifacts:
    """The artifacts of one session. ``folder`` is made when the first of them is."""

    folder: str
    max_bytes: int = MAX_SESSION_BYTES

    def open(self, name: str) -> Artifact:
        """Begin a new file of that name; one that has it already is written anew.

        Raises:
            OSError: it cannot be made.
        """
        make_directory(self.folder)
        path = os.path.join(self.folder, name)
        descriptor = open_file(path, os.O_WRONLY | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW)
        try:
            return Artifact(path, self.max_bytes, descriptor, self._others(path))
        except BaseException:
            os.close(descriptor)
            raise

    def remove(self) -> None:
        """Remove all of them, and the folder. Nothing happens when there are none.

        Raises:
            OSError: some may be left. It can be done again.
        """
        try:
            shutil.rmtree(self.folder)
        except FileNotFoundError:
            if os.path.lexists(self.folder):
                raise

    def _others(self, mine: str) -> Others:
        """The files there are besides ``mine``."""
        found: list[tuple[int, str, int]] = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    state = entry.stat(follow_symlinks=False)
                    if entry.path != mine:
                        found.append((state.st_mtime_ns, entry.path, state.st_size))
        found.sort()
        return Others(deque((path, size) for _when, path, size in found), sum(size for *_, size in found))


def artifacts_of(state: str, session_id: SessionId) -> Artifacts:
    """The artifacts of a session, below the state directory. Nothing is made yet."""
    return Artifacts(os.path.join(state, "artifacts", session_id))


def artifact_name(call: ToolCallId | str) -> str:
    """The file's name for the output of a call."""
    return f"{call}.txt"
