"""Language model servers that are asked over HTTP, whatever wire they speak.

Theory of operation. ``stream`` sends the request, and waits for the first event *before* its context is
entered; so every try has an exchange of its own, opened and closed in one place, and whatever is handed to
the caller has begun and is never repeated. The waits between tries are Trio's sleeps: a cancel ends them like
anything else. A person is told of a wait that they would notice (``VISIBLE_WAIT_S``). When the reply was
read, whoever wants to know more of the model is let in: it is loaded then (``answered``).
"""

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import random as _random

import trio

from term2_acp import __version__
from term2_acp.providers.base import (
    DeltaStream,
    Failed,
    ModelInfo,
    OnWait,
    ProviderError,
    Request,
    wait_silently,
)
from term2_acp.providers.ended import Ended
from term2_acp.providers.faults import Faults
from term2_acp.providers.http_stream import HttpStream
from term2_acp.providers.retry import GiveUp, decide
from term2_acp.providers.wire import Wire
from term2_acp.web.client import HttpClient

_log = logging.getLogger(__name__)

# Seconds from the first try on, all tries and the waits between them together, from which on a person is told
# why nothing comes.
VISIBLE_WAIT_S = 3.0
# Bytes of a request that make a token, at least: what has fewer than half of the tokens of the context by
# this was not too long for it.
_BYTES_A_TOKEN = 2


class HttpProvider:
    """A model server as a provider (``Provider``).

    ``base_url`` ends where the wire's path begins. ``key`` is sent as the wire sends keys, if there is one.
    ``describe`` tells what is known of a model, and ``answered`` is awaited behind each reply of one; it
    bounds itself, and raises nothing. ``idle_s`` is the longest silence, in seconds. ``random`` jitters the
    waits between tries.
    """

    merge_text = True
    asks_for_edits = False

    def __init__(
        self,
        name: str,
        wire: Wire,
        base_url: str,
        key: str | None,
        *,
        idle_s: float,
        key_source: str = "api_key_env",
        describe: Callable[[str], ModelInfo] = lambda _model: ModelInfo(),
        answered: Callable[[str], Awaitable[None]] | None = None,
        random: Callable[[], float] = _random,
    ) -> None:
        self.name = name
        self._wire = wire
        self._url = base_url.rstrip("/") + wire.path
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "user-agent": f"term2-acp/{__version__}",
        }
        self._key = key
        self._faults = Faults(name, key_source, (key,) if key else ())
        self._idle_s = idle_s
        self._describe = describe
        self._answered = answered
        self._random = random
        self._client = HttpClient(base_url)

    def describe(self, model: str) -> ModelInfo:
        """See ``Provider``."""
        return self._describe(model)

    @asynccontextmanager
    async def stream(self, request: Request, on_wait: OnWait = wait_silently) -> AsyncIterator[DeltaStream]:
        """See ``Provider``. Entering waits for the first event, through all tries."""
        headers = {**self._headers, **self._wire.headers(self._key, request.model)}
        tries, asked_at = 0, trio.current_time()
        while True:
            tries += 1
            info = self.describe(request.model)
            body = self._wire.body(request, info, self.name)
            crowded = info.context_assumed or len(body) // _BYTES_A_TOKEN > info.context_tokens // 2
            async with self._client.post(self._url, headers, body) as exchange:
                reply = self._wire.reply()
                stream = HttpStream(exchange, reply, self._faults, self._idle_s, crowded=crowded)
                setback = await stream.first()
                if setback is None:
                    yield stream
                    await stream.drain()
                    if self._answered is not None:
                        await self._answered(request.model)
                    return
            if setback.opaque_refused and request.has_opaque:
                # Sealed under another key, or too old: without it the session goes on, with it never again.
                _log.warning("asking again without sealed thoughts: %s", setback.error.message)
                request, tries = request.without_opaque(), tries - 1
                continue
            # The time that the tries took is felt too: a host that drops packets takes a quarter of a minute.
            waited_s = trio.current_time() - asked_at
            verdict = decide(setback, tries, waited_s, self._random, datetime.now(UTC))
            if isinstance(verdict, GiveUp):
                yield Ended([Failed(verdict.error)])
                return
            _log.info("try %d: %s Again in %.1f s.", tries, setback.error.message, verdict.delay_s)
            if waited_s + verdict.delay_s >= VISIBLE_WAIT_S:
                on_wait(_waiting(setback.error, verdict.delay_s))
            await trio.sleep(verdict.delay_s)

    def rest_nowait(self) -> None:
        """See ``Provider``. Idle connections close by themselves."""

    async def aclose(self) -> None:
        """See ``Provider``."""
        await self._client.aclose()


def _waiting(error: ProviderError, delay_s: float) -> str:
    return f"{error.message} (Asking again in {math.ceil(delay_s)} s.)"
