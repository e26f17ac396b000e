"""The scripted provider: a model that says what its script says. For tests, demos and benchmarks.

Theory of operation. A script makes an iterator, and a stream reads it in the task of whoever reads the
stream: no task and no channel stand between, so that a benchmark pays for one checkpoint and one list a
read, and under Trio's autojump clock every wait is exact.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from term2_acp.providers.base import (
    AssistantSaid,
    Delta,
    DeltaStream,
    Message,
    ModelInfo,
    NotUsable,
    OnWait,
    Request,
    UserSaid,
    wait_silently,
)
from term2_acp.providers.scripted.bench import Bench
from term2_acp.providers.scripted.script import Script, ScriptError, read_script
from term2_acp.providers.scripted.steps import Hang, Played, Wait

BENCH = "bench"
_WAITS = (Wait, Hang)  # a tuple that exists: making a union at each delta costs as much as the delta


class Scripted:
    """A script as a provider (``Provider``)."""

    asks_for_edits = False

    def __init__(self, name: str, script: Script) -> None:
        self.name = name
        self.merge_text = script.merge_text
        self._script = script

    def describe(self, model: str) -> ModelInfo:
        """See ``Provider``."""
        del model
        return ModelInfo(self._script.context_tokens)

    @asynccontextmanager
    async def stream(self, request: Request, on_wait: OnWait = wait_silently) -> AsyncIterator[DeltaStream]:
        """See ``Provider``. Entering does not wait."""
        del on_wait
        prompt, call = _place(request.messages)
        yield _ScriptedStream(self._script.play(prompt, call), self._script.per_read)

    def rest_nowait(self) -> None:
        """See ``Provider``. There is nothing to let go of."""

    async def aclose(self) -> None:
        """See ``Provider``. There is nothing to close."""
        await trio.lowlevel.checkpoint()


class _ScriptedStream:
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


def _place(messages: Sequence[Message]) -> tuple[str, int]:
    """The last prompt, and how many replies of the model came after it."""
    replies = 0
    for message in reversed(messages):
        if isinstance(message, UserSaid):
            return message.text, replies
        replies += isinstance(message, AssistantSaid)
    return "", replies


def open_script(path_or_name: str) -> Script:
    """The script of that path, or the built-in one of that name.

    Raises:
        NotUsable: there is no such file, or it is not a script.
    """
    if path_or_name == BENCH:
        return Bench()
    try:
        return read_script(Path(path_or_name).read_text("utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise NotUsable(f"The script {path_or_name} cannot be read: {reason}.") from error
    except ScriptError as error:
        raise NotUsable(f"The script {path_or_name} is wrong: {error}.") from error
