"""The whole daemon in this process, behind memory streams: real peer, door, sessions, store and tools.

``indoors`` is for tests that must see inside or steer the scheduler: the store runs inline on a real
SQLite file, so a test under the autojump clock is deterministic as long as no tool uses a thread (the
file tools do; ``Probe`` does not). The client is the same unforgiving ``Editor`` that drives the real
process, so every frame goes through the schema gate and the order checker here too.
"""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import attrs
import msgspec
import trio

from term2_acp.acp.door import Door
from term2_acp.agent.mind import Mind
from term2_acp.agent.turn import tool_specs
from term2_acp.app import Connection, Core, shut_down
from term2_acp.domain.content import Text
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import ToolKind
from term2_acp.providers.base import Provider
from term2_acp.providers.choosing.source import Fixed
from term2_acp.providers.scripted.model import Scripted
from term2_acp.providers.scripted.script import read_script
from term2_acp.redact import Redactor
from term2_acp.sandbox import Sandbox
from term2_acp.session.parts import SessionParts, Toolbox
from term2_acp.session.session import Session
from term2_acp.store import InlineRunner, Store
from term2_acp.tools.base import Description, Outcome, Prepared, Tool, ToolContext, ToolError
from term2_acp.tools.registry import TOOLS
from term2_acp.transport.peer import Peer
from term2_acp.transport.writer import Writer
from term2_acp.web.public import Fetcher
from tests.kit.editor import Editor
from tests.kit.streams import Wire


class _ProbeArguments(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    asks: bool = False
    fails: bool = False


class Probe:
    """A tool with an effect that a test can see, and no thread: ``ran`` lists the names of its calls.

    Its effect is made as every tool makes it: in one synchronous step at the end of ``run``.
    """

    name: ClassVar[str] = "probe"
    kind: ClassVar[ToolKind] = ToolKind.EXECUTE
    description: ClassVar[str] = "Does something that a test can see."
    reads_only: ClassVar[bool] = False
    Arguments: ClassVar[type[msgspec.Struct]] = _ProbeArguments

    def __init__(self) -> None:
        self.ran: list[str] = []

    def describe(self, arguments: _ProbeArguments, context: ToolContext) -> Description:
        return Description(f"Probe {arguments.name}")

    async def prepare(self, arguments: _ProbeArguments, context: ToolContext) -> Prepared:
        await trio.lowlevel.checkpoint()
        actions = (Action(Access.OTHER, description=f"Probes {arguments.name}."),) if arguments.asks else ()
        return Prepared(actions=actions, preview=(Text(f"about to probe {arguments.name}"),), work=arguments)

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        await trio.lowlevel.checkpoint()
        if prepared.work.fails:
            raise ToolError("the probe broke")
        self.ran.append(prepared.work.name)
        return Outcome(f"probed {prepared.work.name}", raw_output={"probed": prepared.work.name})


class ReadingProbe(Probe):
    """The same, but of the kind that may run beside others."""

    name: ClassVar[str] = "reading_probe"
    reads_only: ClassVar[bool] = True


@attrs.define(eq=False)
class Indoors:
    """One daemon. ``probe`` and ``reading`` are its two visible tools."""

    editor: Editor
    wire: Wire
    core: Core
    peer: Peer
    workspace: Path
    probe: Probe
    reading: ReadingProbe
    sessions: trio.Nursery

    def session(self, session_id: str) -> Session:
        """The live session with that id."""
        registry = self.core.registry
        assert registry is not None
        session = registry.find(session_id)  # type: ignore[arg-type]
        assert session is not None
        return session

    async def begin(self, prompt: str) -> tuple[str, Any]:
        """Initialize, make a session, and send it a prompt: the session's id and the turn."""
        await self.editor.initialize()
        session_id = await self.editor.new_session(self.workspace)
        return session_id, await self.editor.begin(session_id, prompt)


@asynccontextmanager
async def indoors(
    root: Path,
    script: str = "",
    *,
    provider: Provider | None = None,
    secrets: tuple[str, ...] = (),
    model_calls: int = 100,
    more_tools: Mapping[str, Tool] | None = None,
    watch: bool = True,
    connect: Any = None,
    sandbox: Any = None,
    fetcher: Any = None,
    profile: str = "baseline",
    offers: Any = None,
    keep: Any = None,
) -> AsyncIterator[Indoors]:
    """Run a daemon whose model plays ``script``, in folders below ``root``; it leaves well in the end.

    ``offers`` makes the other models that its sessions may choose, from the source of that one. ``keep`` is
    what the settings say of retention.
    """
    workspace = root / "workspace"
    workspace.mkdir(exist_ok=True)
    probe, reading = Probe(), ReadingProbe()
    tools: dict[str, Tool] = {**TOOLS, "probe": probe, "reading_probe": reading, **(more_tools or {})}
    redactor = Redactor(secrets)
    environ = {"PATH": os.environ["PATH"], "HOME": str(root / "home")}
    toolbox = Toolbox(
        tools,
        tool_specs(tools),
        sandbox or Sandbox(environ, secrets, str(root / "state")),
        fetcher or Fetcher(),
    )

    def build() -> SessionParts:
        own = Fixed(provider or Scripted("play", read_script(script)), "scripted")
        return SessionParts(
            store=Store(str(root / "state"), InlineRunner(), connect=connect),
            mind=Mind(own, model_calls, redactor, None if offers is None else offers(own)),
            redactor=redactor,
            home=str(root / "home"),
            own_paths=(str(root / "state"),),
            own_code=(),
            state=str(root / "state"),
            toolbox=lambda: toolbox,
        )

    wire = Wire()
    editor = Editor(_feeder(wire), watch=watch)
    writer = Writer(wire.outgoing)
    async with trio.open_nursery() as nursery:
        await nursery.start(writer.run)
        core = Core(build, nursery, keep)
        door = Door(core, profile)
        connection = Connection(Peer(wire.incoming, writer, door))
        peer = connection.peer
        door.peer = peer
        nursery.start_soon(connection.run)  # noqa: ASYNC113 - what is fed waits for it
        nursery.start_soon(_read, wire, editor)
        yield Indoors(editor, wire, core, peer, workspace, probe, reading, nursery)
        wire.end()
        await peer.ended.wait()
        await shut_down(core, connection, writer)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    editor.end()
    if not writer.broken:
        editor.check_ended_well()


def _feeder(wire: Wire) -> Any:
    async def feed(data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        if not wire.incoming._ended:  # an answer to an ask may come when the client has closed already
            wire.feed(data)

    return feed


async def _read(wire: Wire, editor: Editor) -> None:
    """Hand what the daemon wrote to the client, as a client's own reader would."""
    taken = 0
    while True:
        data = bytes(wire.outgoing.read[taken:])
        taken += len(data)
        if data:
            for reply in editor.feed(data):
                await editor.send(reply)
        else:
            await wire.outgoing.more()
