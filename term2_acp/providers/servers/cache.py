"""What model servers said of their models, kept in one file for the processes to come.

Rules:

- One file in the state directory, 0600 from the moment it exists, replaced in one step: whoever reads it sees
  one version or the next. Several processes write without locks; the last one wins, and what another loses
  is asked again.
- Damaged, too large, or of another version: absent. It can be deleted at any moment.
- What a server said holds for an hour if it is this machine, where people load and unload models, and for a
  day elsewhere. What is older is kept, for a server that does not answer.
- No key and no header is in it. A write that fails is logged and forgotten: the cache is for speed.

Reading and writing are plain calls of a few milliseconds at most; a caller with an event loop decides
where to make them.
"""

import contextlib
import logging
import os
import stat
import time
from collections.abc import Callable, Mapping

import msgspec

from term2_acp.domain.classes import frozen
from term2_acp.domain.usage import Prices
from term2_acp.providers.servers.facts import ServerFacts
from term2_acp.providers.servers.listing import Listing, ServerModel, is_id
from term2_acp.providers.servers.pricing import DEAREST_PICO

_log = logging.getLogger(__name__)

FILE = "models.json"
# Seconds for which a list holds.
LOCAL_S = 60 * 60
REMOTE_S = 24 * 60 * 60
# Bytes of a file that is read. One with the largest servers of today has 0.2 MiB.
MAX_FILE_BYTES = 4 * 1024 * 1024
# Servers and models of one that are kept; the servers that were asked last.
MAX_SERVERS = 32
MAX_KEPT_MODELS = 1_000

_VERSION = 1


class _Model(msgspec.Struct, omit_defaults=True):
    id: str
    context: int | None = None
    output: int | None = None
    images: bool | None = None
    prices: tuple[int, int, int | None, int | None] | None = None
    talks: bool = True
    loaded: bool = False
    owner: str = ""
    told: bool = False


class _Server(msgspec.Struct, omit_defaults=True):
    asked: float
    models: list[_Model]
    whole: bool = True


class _File(msgspec.Struct):
    version: int
    servers: dict[str, _Server]


@frozen
class Remembered:
    """What a server said when it was asked last. ``fresh`` is False when that was too long ago."""

    listing: Listing
    fresh: bool


class ModelsCache:
    """The file in one directory. ``clock`` is the time of day in seconds."""

    def __init__(self, directory: str, clock: Callable[[], float] = time.time) -> None:
        self._directory = directory
        self.path = os.path.join(directory, FILE)
        self._clock = clock

    def listing(self, base_url: str, *, local: bool) -> Remembered | None:
        """What the server said, if anything is known of it. ``local`` is whether it is this machine."""
        server = self._read().get(_name(base_url))
        if server is None:
            return None
        age = self._clock() - server.asked
        # A time that lies ahead of us is a clock that was set; nothing can be told from it.
        fresh = 0 <= age < (LOCAL_S if local else REMOTE_S)
        models = (_from_row(row) for row in server.models if is_id(row.id))
        return Remembered(Listing(tuple(models), server.whole), fresh)

    def keep(self, base_url: str, listing: Listing) -> None:
        """Remember what the server says now."""
        models = [_to_row(model) for model in listing.models[:MAX_KEPT_MODELS]]
        whole = listing.whole and len(listing.models) <= MAX_KEPT_MODELS
        servers = {**self._read(), _name(base_url): _Server(self._clock(), models, whole)}
        latest = sorted(servers.items(), key=lambda item: item[1].asked)[-MAX_SERVERS:]
        content = msgspec.json.encode(_File(_VERSION, dict(latest)))
        if len(content) <= MAX_FILE_BYTES:
            self._write(content)

    def _read(self) -> Mapping[str, _Server]:
        try:
            content = _content(self.path)
            kept = msgspec.json.decode(content, type=_File)
        except (OSError, msgspec.DecodeError, RecursionError):
            return {}
        return kept.servers if kept.version == _VERSION and len(content) <= MAX_FILE_BYTES else {}

    def _write(self, content: bytes) -> None:
        # The name is our own process's, so nobody else writes to it; the rename is what others see.
        path = f"{self.path}.{os.getpid()}"
        try:
            os.makedirs(self._directory, 0o700, exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)  # of a process with our number that was killed in between
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(fd, "wb") as file:
                file.write(content)
            os.replace(path, self.path)
        except OSError as error:
            _log.info("what model servers said is not kept: %s", os.strerror(error.errno or 0).lower())
            with contextlib.suppress(OSError):
                os.unlink(path)


def _content(path: str) -> bytes:
    """The bytes of the file, and none of what is not a regular one."""
    # Not blocking: a FIFO in its place must hold nobody up.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return b""
        with open(fd, "rb", closefd=False) as file:
            return file.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(fd)


def _name(base_url: str) -> str:
    return base_url.rstrip("/")


def _to_row(model: ServerModel) -> _Model:
    facts, p = model.facts, model.facts.prices
    prices = None if p is None else (p.input, p.output, p.cache_read, p.cache_write)
    return _Model(
        model.id,
        facts.context_tokens,
        facts.output_tokens,
        facts.sees_images,
        prices,
        model.talks,
        model.loaded,
        model.owner,
        model.told and not model.fleeting,
    )


def _from_row(row: _Model) -> ServerModel:
    # What is negative or beyond the dearest was not written by us.
    sane = row.prices is not None and all(0 <= (p or 0) <= DEAREST_PICO for p in row.prices)
    prices = Prices(*row.prices) if row.prices is not None and sane else None
    facts = ServerFacts(row.context, row.output, row.images, prices)
    return ServerModel(row.id, facts, row.talks, row.loaded, row.owner, row.told)
