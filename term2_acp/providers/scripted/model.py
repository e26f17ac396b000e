"""The scripted provider: a model that says what its script says. For tests, demos and benchmarks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from term2_acp.providers.base import (
    AssistantSaid,
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
from term2_acp.providers.scripted.builtin import BENCH
from term2_acp.providers.scripted.playing import PlayedStream
from term2_acp.providers.scripted.script import Script, ScriptError, read_script


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
        return ModelInfo(self._script.context_tokens, context_assumed=self._script.context_assumed)

    @asynccontextmanager
    async def stream(self, request: Request, on_wait: OnWait = wait_silently) -> AsyncIterator[DeltaStream]:
        """See ``Provider``. Entering does not wait."""
        del on_wait
        prompt, call = _place(request.messages)
        yield PlayedStream(self._script.play(prompt, call), self._script.per_read)

    def rest_nowait(self) -> None:
        """See ``Provider``. There is nothing to let go of."""

    async def aclose(self) -> None:
        """See ``Provider``. There is nothing to close."""
        await trio.lowlevel.checkpoint()


def _place(messages: Sequence[Message]) -> tuple[str, int]:
    """The last prompt, and how many replies of the model came after it."""
    kinds = list(map(type, reversed(messages)))
    if UserSaid not in kinds:
        return "", kinds.count(AssistantSaid)
    since = kinds.index(UserSaid)
    prompt = messages[-1 - since]
    assert isinstance(prompt, UserSaid)
    return prompt.text, kinds[:since].count(AssistantSaid)


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
