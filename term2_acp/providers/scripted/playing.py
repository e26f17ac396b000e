"""What is played in place of a model's answer (by a script, by ``chaos``), and the stream that plays it.

Theory of operation. What is played is an iterator, read in the task of whoever reads the stream: no task and
no channel stand between, so that a benchmark pays for one checkpoint and one list a read, and under Trio's
autojump clock every wait is exact. A wait comes behind the deltas before it, which go first.
"""

from collections.abc import Iterator, Sequence

import trio

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import Delta


@frozen
class Wait:
    """Nothing comes for this many seconds."""

    seconds: float


@frozen
class Hang:
    """Nothing comes any more, and the stream stays open."""


Played = Delta | Wait | Hang

_WAITS = (Wait, Hang)  # a tuple that exists: making a union at each delta costs as much as the delta


class PlayedStream:
    """What is played, as it is read (``DeltaStream``), at most ``per_read`` deltas together."""

    def __init__(self, played: Iterator[Played], per_read: int) -> None:
        self._played = played
        self._per_read = per_read
        self._held: Wait | Hang | None = None  # met behind deltas, which had to go first

    async def receive(self) -> Sequence[Delta]:
        """See ``DeltaStream``."""
        if self._held is None:
            await trio.lowlevel.checkpoint()
        else:
            held, self._held = self._held, None
            await _wait(held)
        deltas: list[Delta] = []
        for played in self._played:
            if isinstance(played, _WAITS):
                if deltas:
                    self._held = played
                    break
                await _wait(played)
                continue
            deltas.append(played)
            if len(deltas) == self._per_read:
                break
        return deltas


async def _wait(what: Wait | Hang) -> None:
    if isinstance(what, Hang):
        await trio.sleep_forever()
    else:
        await trio.sleep(what.seconds)
