"""The embedded model: SmolLM2-135M in a child process. An offline smoke test, not an assistant.

Theory of operation. The first request starts the child, and a task of its own holds it for as long as
the process lives; whoever else asks meanwhile waits for the same child. The child speaks Chat Completions
on the loopback interface, so the answer is read like any other server's. A request is one or two
questions: which of the calls that the prompt can mean to make, if any (``prompt``), or the answer.

Rules:

- Nothing is loaded, and no file is opened, before the first request.
- The child's key is drawn anew for each child, and known to nobody else.
- A child that died is started again by the next request.
- The holding task is a system task: it belongs to no turn, and a turn's cancel must not end it. It lets no
  exception out. Cancelled with the run, or told to, it kills the child.
"""

import logging
import os
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio
from attrs import field

from term2_acp.domain.classes import define, frozen
from term2_acp.process import Process, open_process
from term2_acp.providers.base import (
    DeltaStream,
    Failed,
    Finish,
    Finished,
    ModelInfo,
    NotUsable,
    OnWait,
    ProviderError,
    Request,
    TextDelta,
    ToolCallDelta,
    wait_silently,
)
from term2_acp.providers.chat.reply import ChatReply
from term2_acp.providers.ended import Ended
from term2_acp.providers.faults import Faults
from term2_acp.providers.http_stream import HttpStream
from term2_acp.providers.local.child import KEY_VARIABLE
from term2_acp.providers.local.prompt import (
    ANSWER_TOKENS,
    CONTEXT_TOKENS,
    Call,
    Choose,
    answer,
    chosen,
    next_step,
)
from term2_acp.providers.local.weights import HOW_TO_INSTALL
from term2_acp.providers.wire_words import encode
from term2_acp.web.client import HttpClient

_log = logging.getLogger(__name__)

# Seconds for the child to load the model. It takes 0.4 s, and ten times that on a busy machine.
LOAD_S = 60
# Seconds to close the connections to a child that is about to be killed.
_CLOSE_S = 1
_NOT_INSTALLED = f"The embedded model is not installed; {HOW_TO_INSTALL}, or set another provider."
# What of our environment the child may see: where its libraries are, and nothing that is secret.
_ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "LANG", "SYSTEMROOT")


@frozen
class _Server:
    """Where a child that is ready can be asked."""

    url: str
    key: str
    client: HttpClient


@define(eq=False)
class _Child:
    """One child. ``stop`` ends it; ``settled`` says that it is ready or failed, ``ended`` that it is gone."""

    stop: trio.Event = field(factory=trio.Event)
    settled: trio.Event = field(factory=trio.Event)
    ended: trio.Event = field(factory=trio.Event)
    server: _Server | None = None


class LocalModel:
    """The embedded model as a provider (``Provider``). ``weights`` None: it is not installed."""

    merge_text = True
    asks_for_edits = True

    def __init__(self, name: str, weights: Path | None, *, idle_s: float) -> None:
        self.name = name
        self._weights = weights
        self._idle_s = idle_s
        self._faults = Faults(name)
        self._child: _Child | None = None  # the one that is asked
        self._children: set[_Child] = set()  # all that are not gone

    def describe(self, model: str) -> ModelInfo:
        """See ``Provider``."""
        del model
        return ModelInfo(CONTEXT_TOKENS, ANSWER_TOKENS)

    @asynccontextmanager
    async def stream(self, request: Request, on_wait: OnWait = wait_silently) -> AsyncIterator[DeltaStream]:
        """See ``Provider``. Entering waits for the model to be loaded, and for the choice of a call."""
        del on_wait  # loading takes less than a second
        try:
            server = await self._running_server()
        except ProviderError as error:
            yield Ended([Failed(error)])
            return
        step = next_step(request, await request.files())
        if isinstance(step, Choose):
            words = await self._words_of(server, step)
            if isinstance(words, Failed):
                yield Ended([words])
                return
            choice = chosen(words, step.choices)
            step = answer(request) if choice is None else Call(choice)
        if isinstance(step, Call):
            arguments = encode(dict(step.choice.arguments)).decode()
            call = ToolCallDelta(f"local_{secrets.token_hex(4)}", step.choice.tool, arguments)
            yield Ended([call, Finished(Finish.TOOL_CALLS)])
            return
        async with self._ask(server, step.body) as stream:
            yield stream

    def rest_nowait(self) -> None:
        """See ``Provider``. The child ends; the next request starts another."""
        self._child = None
        for child in self._children:
            child.stop.set()

    async def aclose(self) -> None:
        """See ``Provider``. Children are killed by the tasks that hold them."""
        self.rest_nowait()
        for child in list(self._children):
            await child.ended.wait()

    @asynccontextmanager
    async def _ask(self, server: _Server, body: Mapping[str, object]) -> AsyncIterator[DeltaStream]:
        # One connection for each request: on this machine it costs nothing, and the server drops idle ones.
        headers = {
            "authorization": f"Bearer {server.key}",
            "content-type": "application/json",
            "connection": "close",
        }
        url = f"{server.url}/chat/completions"
        async with server.client.post(url, headers, encode(dict(body))) as exchange:
            stream = HttpStream(exchange, ChatReply(), self._faults, self._idle_s)
            setback = await stream.first()
            if setback is not None:
                yield Ended([Failed(setback.error)])
                return
            yield stream
            await stream.drain()

    async def _words_of(self, server: _Server, step: Choose) -> str | Failed:
        words: list[str] = []
        async with self._ask(server, step.body) as stream:
            while True:
                for delta in await stream.receive():
                    if isinstance(delta, TextDelta):
                        words.append(delta.text)
                    elif isinstance(delta, Failed):
                        return delta
                    elif isinstance(delta, Finished):
                        return "".join(words)

    async def _running_server(self) -> _Server:
        """Wait for the child to be ready; start it if there is none that runs.

        Cancelled, the child goes on loading for whoever asks next.

        Raises:
            NotUsable: it is not installed, or cannot be loaded.
        """
        child = self._child
        if child is None or child.ended.is_set():
            if self._weights is None:
                raise NotUsable(_NOT_INSTALLED)
            child = self._child = _Child()
            self._children.add(child)
            trio.lowlevel.spawn_system_task(self._hold, self._weights, child)
        await child.settled.wait()
        if child.server is None:
            raise NotUsable("The embedded model cannot be loaded; the log says why. Set another provider.")
        return child.server

    async def _hold(self, weights: Path, child: _Child) -> None:
        """Start a child and hold it until it ends or is told to stop. The wall of the system task."""
        try:
            await self._hold_process(weights, child)
        except Exception:  # noqa: BLE001 - an exception out of a system task would end the whole run
            _log.exception("the embedded model failed")
        finally:
            self._children.discard(child)
            child.ended.set()
            child.settled.set()

    async def _hold_process(self, weights: Path, child: _Child) -> None:
        key = secrets.token_urlsafe(24)
        module = "term2_acp.providers.local.child"
        argv = [sys.executable, "-P", "-m", module, str(weights), str(CONTEXT_TOKENS)]
        env = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        env[KEY_VARIABLE] = key
        async with (
            open_process(argv, env=env, cwd="/", stdin="pipe", stderr="keep") as process,
            trio.open_nursery() as nursery,
        ):
            # From the start on: whoever closes must not wait for a model that is still being loaded.
            nursery.start_soon(_cancel_after, child.stop.wait, nursery.cancel_scope)
            url = await _first_line(process)
            if url is None:
                _log.warning("the embedded model did not load: %r", process.errors[-2000:])
            else:
                await _serve(process, _Server(url, key, HttpClient(url)), child)
            nursery.cancel_scope.cancel()


async def _serve(process: Process, server: _Server, child: _Child) -> None:
    """Let the child be asked until it ends. Cancelled or not, the connections to it are closed."""
    child.server = server
    child.settled.set()
    try:
        await process.wait()
    finally:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSE_S):
            await server.client.aclose()


async def _first_line(process: Process) -> str | None:
    """What the child says when it is ready; None when it ended or took longer than ``LOAD_S``."""
    said = bytearray()
    with trio.move_on_after(LOAD_S):
        while b"\n" not in said:
            data = await process.receive()
            if not data:
                return None
            said += data
        return said.decode().partition("\n")[0]
    return None


async def _cancel_after(wait: Callable[[], Awaitable[object]], scope: trio.CancelScope) -> None:
    await wait()
    scope.cancel()
