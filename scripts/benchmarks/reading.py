"""Reads streams of a model server as term2 does; a child of ``scripts/parsing.py``.

``python reading.py WIRE BASE_URL ROUNDS`` prints one JSON line: CPU seconds and wall seconds of all rounds,
and how many characters of text came.
"""

import json
import sys
import time

import trio

from term2_acp.providers.anthropic.wire import AnthropicWire
from term2_acp.providers.base import Failed, Finished, Request, TextDelta, UserSaid
from term2_acp.providers.chat.wire import ChatWire
from term2_acp.providers.http_provider import HttpProvider
from term2_acp.providers.responses.wire import ResponsesWire

WIRES = {"openai": ResponsesWire, "openai-compatible": ChatWire, "anthropic": AnthropicWire}


async def _read(wire: str, base_url: str, rounds: int) -> None:
    provider = HttpProvider("bench", WIRES[wire](), base_url, "sk-bench", idle_s=60)
    request = Request("m-1", "", [UserSaid("go")])
    await _once(provider, request)  # warm: imports, the connection
    cpu, wall, said = time.process_time(), time.perf_counter(), 0
    for _ in range(rounds):
        said += await _once(provider, request)
    figures = {"cpu_s": time.process_time() - cpu, "wall_s": time.perf_counter() - wall, "characters": said}
    sys.stdout.write(json.dumps(figures) + "\n")
    await provider.aclose()


async def _once(provider: HttpProvider, request: Request) -> int:
    said = 0
    async with provider.stream(request) as deltas:
        while True:
            for delta in await deltas.receive():
                if isinstance(delta, TextDelta):
                    said += len(delta.text)
                elif isinstance(delta, Failed):
                    sys.exit(delta.error.message)
                elif isinstance(delta, Finished):
                    return said


if __name__ == "__main__":
    trio.run(_read, sys.argv[1], sys.argv[2], int(sys.argv[3]))
