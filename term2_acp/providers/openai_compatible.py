"""Servers that speak Chat Completions: OpenAI, OpenRouter, Ollama, llama.cpp, LM Studio, vLLM and others.

Theory of operation. ``stream`` sends the request, and waits for the first event *before* its context is
entered; so every try has an exchange of its own, opened and closed in one place, and whatever is handed
to the caller has begun and is never repeated. The waits between tries are Trio's sleeps: a cancel ends
them like anything else.
"""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from random import random as _random

import trio

from term2_acp import __version__
from term2_acp.providers.base import DeltaStream, Failed, Request
from term2_acp.providers.chat_request import chat_request
from term2_acp.providers.chat_stream import ChatStream
from term2_acp.providers.ended import Ended
from term2_acp.providers.faults import Faults
from term2_acp.providers.retry import GiveUp, decide
from term2_acp.web.client import HttpClient

_log = logging.getLogger(__name__)

# Tokens of context that are assumed of a server which does not say: what today's hosted models have at
# least. The usage meter shows it; nothing is cut by it.
DEFAULT_CONTEXT_TOKENS = 128_000


class OpenAICompatible:
    """A provider on the Chat Completions wire (``Provider``).

    ``base_url`` ends where ``/chat/completions`` begins. ``key`` is sent as a bearer token, if there is
    one. ``idle_s`` is the longest silence, in seconds. ``random`` jitters the waits between tries.
    """

    merge_text = True
    asks_for_edits = False

    def __init__(
        self,
        name: str,
        base_url: str,
        key: str | None,
        *,
        idle_s: float,
        key_source: str = "api_key_env",
        random: Callable[[], float] = _random,
    ) -> None:
        self.name = name
        self._url = base_url.rstrip("/") + "/chat/completions"
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "user-agent": f"term2-acp/{__version__}",
        }
        if key:
            self._headers["authorization"] = f"Bearer {key}"
        self._faults = Faults(name, key_source, (key,) if key else ())
        self._idle_s = idle_s
        self._random = random
        self._client = HttpClient(base_url)

    def context_tokens(self, model: str) -> int:
        """See ``Provider``."""
        del model
        return DEFAULT_CONTEXT_TOKENS

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[DeltaStream]:
        """See ``Provider``. Entering waits for the first event, through all tries."""
        body = chat_request(request)
        tries, waited_s = 0, 0.0
        while True:
            tries += 1
            async with self._client.post(self._url, self._headers, body) as exchange:
                stream = ChatStream(exchange, self._faults, self._idle_s)
                setback = await stream.first()
                if setback is None:
                    yield stream
                    await stream.drain()
                    return
            verdict = decide(setback, tries, waited_s, self._random, datetime.now(UTC))
            if isinstance(verdict, GiveUp):
                yield Ended([Failed(verdict.error)])
                return
            _log.info("try %d: %s Again in %.1f s.", tries, setback.error.message, verdict.delay_s)
            await trio.sleep(verdict.delay_s)
            waited_s += verdict.delay_s

    async def aclose(self) -> None:
        """See ``Provider``."""
        await self._client.aclose()
