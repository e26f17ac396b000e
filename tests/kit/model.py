"""A model whose replies a test writes down as the deltas that they are, with its prices and its waits."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import trio
from attrs import frozen

from term2_acp.providers.base import (
    Delta,
    DeltaStream,
    Finish,
    Finished,
    ModelInfo,
    OnWait,
    Request,
    TextDelta,
    UsageDelta,
    wait_silently,
)

OK = Finished(Finish.STOP)


class Hang:
    """In a reply: nothing comes any more."""


HANG = Hang()


@frozen
class Waits:
    """At the head of a reply: its request is tried again in some seconds, and the person is told."""

    sentence: str
    seconds: float = 5.0


Reply = Sequence[Delta | Hang | Waits]


class Model:
    """Says the next of ``replies`` at each call, and then nothing but "ok", for 10 tokens.

    ``asked`` are the requests so far. ``info`` may be changed at any time.
    """

    name = "play"
    merge_text = True
    asks_for_edits = False

    def __init__(self, *replies: Reply, info: ModelInfo) -> None:
        self.replies = list(replies)
        self.info = info
        self.asked: list[Request] = []

    def describe(self, model: str) -> ModelInfo:
        del model
        return self.info

    @asynccontextmanager
    async def stream(self, request: Request, on_wait: OnWait = wait_silently) -> AsyncIterator[DeltaStream]:
        self.asked.append(request)
        reply = list(self.replies.pop(0)) if self.replies else [TextDelta("ok"), UsageDelta(10, 0), OK]
        while isinstance(reply[0], Waits):
            waits = reply.pop(0)
            on_wait(waits.sentence)
            await trio.sleep(waits.seconds)
        yield _Stream(reply)

    def rest_nowait(self) -> None:
        pass

    async def aclose(self) -> None:
        await trio.lowlevel.checkpoint()


class _Stream:
    def __init__(self, reply: list[Delta | Hang | Waits]) -> None:
        self._reply = reply

    async def receive(self) -> Sequence[Delta]:
        await trio.lowlevel.checkpoint()
        delta = self._reply.pop(0)
        if isinstance(delta, Hang):
            await trio.sleep_forever()
        return [delta]
