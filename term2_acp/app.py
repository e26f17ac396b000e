"""The composition root: builds every room, owns the root nursery, and takes everything down again.

Who owns what runs::

    root nursery ............. cancelled last
    ├─ writer ................ the only code that writes to the client
    ├─ signals ............... the first asks for the shutdown, the second kills
    ├─ store writer .......... from the first session on
    ├─ retention ............. where the settings ask for it, some time after the first session
    ├─ sessions (nursery) .... one task a session
    └─ peer .................. the reader and the tasks of requests

The shutdown goes from the inside out, with a deadline at each rung, and a rung that fails or runs out of
time never skips the next: no new requests, turns cancelled and asks denied, the requests in flight
answered, sessions closed and the journal flushed, the store closed, standard output drained, the provider
and its children gone.

Sessions and the store are imported with the first session, the provider and tools with the first prompt, not
at the start: an editor waits for ``initialize`` and for its session, and gets each before it needs the rest.
"""

import functools
import logging
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio
from attrs import field

from term2_acp.acp.door import Door
from term2_acp.config import Config, RetentionSettings, config_path, home_directory, state_directory
from term2_acp.domain.classes import define, frozen
from term2_acp.transport.claim import Claimed
from term2_acp.transport.peer import Peer
from term2_acp.transport.stdio import open_input, open_output
from term2_acp.transport.writer import Writer

if TYPE_CHECKING:  # see the module: imported with the first session
    from term2_acp.providers.choosing.choice import Resolved
    from term2_acp.session.parts import SessionParts, Toolbox
    from term2_acp.session.registry import Registry
    from term2_acp.session.retention import Retention
    from term2_acp.store import Store

logger = logging.getLogger(__name__)

# The rungs of the shutdown, in seconds. Their sum stays under the ten that an editor may count on.
REQUESTS_S = 0.5
SESSIONS_S = 4.5
STORE_S = 1.5
DRAIN_S = 1.5
PROVIDER_S = 1.0

KILLED_BY_SECOND_SIGNAL = 130

# From when the store is open to the first removal of old sessions, in seconds. What an editor asks for as it
# starts is answered by then; what is still being opened is waited for (`session.retention`).
RETENTION_AFTER_S = 2.0

# What Python calls the folders into which packages are installed.
_INSTALLED = ("site-packages", "dist-packages")


@frozen
class Start:
    """Everything that was decided before the event loop runs."""

    claimed: Claimed
    config: Config
    resolved: "Resolved"
    environ: Mapping[str, str]


class Core:
    """The sessions of this process and what they stand on (``acp.core.Core``).

    ``build`` puts the rooms below a session together; it is called once, with the first session. ``keep``
    says which sessions are kept, where not all are.
    """

    def __init__(
        self, build: "Callable[[], SessionParts]", root: trio.Nursery, keep: RetentionSettings | None = None
    ) -> None:
        self._build = build
        self._root = root
        self._keep = keep if keep != RetentionSettings() else None
        self._retention: Retention | None = None
        self._registry: Registry | None = None
        self._parts: SessionParts | None = None
        self._store_lock = trio.Lock()
        self._store_runs = False

    @property
    def registry(self) -> "Registry | None":
        """See ``acp.core.Core``."""
        return self._registry

    def registry_nowait(self) -> "Registry":
        """See ``acp.core.Core``."""
        if self._registry is None:
            # The one place where the rooms behind the door are imported; see the module.
            from term2_acp.session.registry import Registry

            self._parts = self._build()
            self._registry = Registry(self._parts, self._root)
        return self._registry

    async def store(self) -> "Store":
        """See ``acp.core.Core``. Cancelled while it opens, the next caller opens it."""
        self.registry_nowait()
        assert self._parts is not None
        async with self._store_lock:
            if not self._store_runs:
                await self._root.start(self._parts.store.run)
                self._store_runs = True
            await self._parts.store.open()
            if self._keep is not None:
                self._root.start_soon(self._retain, self._parts.store, self._keep)
                self._keep = None
        return self._parts.store

    async def _retain(self, store: "Store", keep: RetentionSettings) -> None:
        await trio.sleep(RETENTION_AFTER_S)
        with _logged("retention"):
            from term2_acp.session.retention import Retention  # few ask for it, and nobody waits for it

            self._retention = Retention(store, self.registry_nowait().deletions, keep.days, keep.sessions)
            await self._retention.run()

    # -- the shutdown's rungs ------------------------------------------------------------------------

    def cancel_turns_nowait(self) -> None:
        """Cancel every turn; its session admits no other."""
        if self._registry is not None:
            self._registry.begin_close_nowait()

    async def close_sessions(self) -> None:
        """Close every session, side by side; cancelled, what is left of them is ended outright."""
        if self._registry is not None:
            try:
                await self._registry.close_all()
            finally:
                self._registry.abandon_nowait()

    async def close_store(self) -> None:
        """Flush and close the store, once nothing is being removed from it."""
        if self._retention is not None:
            await self._retention.aclose()
        if self._parts is not None and self._store_runs:
            await self._parts.store.aclose()

    async def close_provider(self) -> None:
        """Close the provider's connections and end its children."""
        if self._parts is not None:
            await self._parts.mind.aclose()


def build_parts(start: Start) -> "SessionParts":
    """The rooms below a session, as the product has them. Nothing is opened yet."""
    from term2_acp.agent.mind import Mind
    from term2_acp.providers.choosing.offering import Offers
    from term2_acp.providers.choosing.opening import Opener
    from term2_acp.providers.servers.known import known_providers
    from term2_acp.redact import Redactor
    from term2_acp.session.parts import SessionParts
    from term2_acp.store import Store, ThreadRunner

    resolved = start.resolved
    state = state_directory(start.environ)
    settings = config_path(start.environ)
    home = home_directory(start.environ)
    redactor = Redactor(resolved.secrets)
    opener = Opener(resolved, idle_s=start.config.limits.idle_s, state=state)
    own = opener.own()
    return SessionParts(
        store=Store(state, ThreadRunner()),
        mind=Mind(
            source=own,
            model_calls=start.config.limits.model_calls,
            redactor=redactor,
            offers=Offers(opener, own, functools.partial(known_providers, start.config, start.environ)),
        ),
        redactor=redactor,
        home=os.path.realpath(home) if home else None,
        own_paths=(state, settings) if settings else (state,),
        own_code=own_code(),
        state=state,
        toolbox=functools.cache(lambda: build_toolbox(start.environ, resolved.secrets, state)),
    )


def build_toolbox(environ: Mapping[str, str], secrets: tuple[str, ...], state: str) -> "Toolbox":
    """What turns work with, as the product has it. Nothing is started yet."""
    # With the first prompt: nobody waits for tools before that.
    from term2_acp.agent.turn import tool_specs
    from term2_acp.sandbox import Sandbox
    from term2_acp.session.parts import Toolbox
    from term2_acp.tools.registry import TOOLS
    from term2_acp.web.public import Fetcher

    return Toolbox(TOOLS, tool_specs(TOOLS), Sandbox(environ, secrets, state), Fetcher())


def own_code() -> tuple[str, ...]:
    """Where the code is that runs here: the package, and what it was installed into, programs included.

    An editor may have it inside the very workspace that it opens.
    """
    package = os.path.dirname(os.path.abspath(__file__))
    places = [package]
    installed = os.path.dirname(package)
    if sys.prefix != sys.base_prefix:
        places.append(sys.prefix)
    elif os.path.basename(installed) in _INSTALLED:
        places.append(installed)  # with all that it imports; a checkout is not what it was installed into
    return tuple(places)


def serve(claimed: Claimed, config: Config, resolved: "Resolved", environ: Mapping[str, str]) -> int:
    """Serve one client on the claimed descriptors until it goes away or a signal comes; the exit code."""
    return trio.run(_serve, Start(claimed, config, resolved, environ))


async def _serve(start: Start) -> int:
    ending = trio.Event()
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        async with trio.open_nursery() as root:
            root.start_soon(_watch_signals, signals, ending)
            writer = Writer(open_output(start.claimed.output))
            writer.on_broken = ending.set
            await root.start(writer.run)
            core = Core(lambda: build_parts(start), root, start.config.retention)
            door = Door(core, start.config.acp.profile)
            connection = Connection(Peer(open_input(start.claimed.input), writer, door))
            door.peer = connection.peer
            root.start_soon(connection.run)
            root.start_soon(_when, connection.peer.ended, ending)
            await ending.wait()
            await shut_down(core, connection, writer)
            root.cancel_scope.cancel()
    return 0


@define(eq=False)
class Connection:
    """The peer as a task that can be waited for, and ended by itself."""

    peer: Peer
    _scope: trio.CancelScope = field(factory=trio.CancelScope, init=False)
    _over: trio.Event = field(factory=trio.Event, init=False)

    async def run(self) -> None:
        """Run the peer until its input and all its requests have ended."""
        try:
            with self._scope:
                await self.peer.run()
        finally:
            self._over.set()

    async def finished(self) -> None:
        """Wait until every request that was accepted is answered."""
        await self._over.wait()

    async def end(self) -> None:
        """Cancel the requests that are still worked on, and wait until they are answered."""
        self._scope.cancel()
        await self._over.wait()


async def _when(event: trio.Event, then: trio.Event) -> None:
    await event.wait()
    then.set()


async def shut_down(core: Core, connection: Connection, writer: Writer) -> None:
    """The ladder; see the module."""
    connection.peer.stop_nowait()
    core.cancel_turns_nowait()
    await _rung("requests in flight", REQUESTS_S, connection.finished)
    await _rung("requests", REQUESTS_S, connection.end)
    await _rung("sessions", SESSIONS_S, core.close_sessions)
    await _rung("store", STORE_S, core.close_store)
    await _rung("output", DRAIN_S, writer.drained)
    await _rung("provider", PROVIDER_S, core.close_provider)


async def _rung(name: str, seconds: float, step: Callable[[], Awaitable[None]]) -> None:
    """One step of the shutdown: bounded, and no fault of it stops the next."""
    with _logged(f"shutdown: {name}"):
        with trio.move_on_after(seconds) as bound:
            await step()
        if bound.cancelled_caught:
            logger.warning("shutdown: %s did not finish within %s s", name, seconds)


@contextmanager
def _logged(what: str) -> Iterator[None]:
    try:
        yield
    except Exception:
        # The wall between the rungs, and around what nobody waits for: logged, and the rest goes on.
        logger.exception("%s failed", what)


_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


async def _watch_signals(signals: AsyncIterator[int], ending: trio.Event) -> None:
    """The first signal asks for the shutdown, whatever asked for it before; the second ends everything."""
    async for _first in signals:
        ending.set()
        break
    async for _second in signals:
        # Nothing is waited for any more. The kernel ends our children with us (`process.orphan`).
        os._exit(KILLED_BY_SECOND_SIGNAL)
