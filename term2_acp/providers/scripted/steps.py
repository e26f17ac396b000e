"""The steps of a script: one Struct for each, decoded strictly, each of which knows how to play itself.

The first field of a step is the key that tells it from the others; docs/SCRIPTS.md lists them. ``play`` gets
a function that fills the groups of the rule's expression into text, lists and tables.
"""

from collections.abc import Callable, Iterator
from typing import Annotated, Any

import msgspec

from term2_acp.providers.base import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextOverflow,
    Failed,
    Finish,
    Finished,
    NotUsable,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestRefused,
    StreamBroke,
    StreamSilent,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    UsageDelta,
)
from term2_acp.providers.scripted.playing import Hang, Played, Wait
from term2_acp.providers.wire_words import encode

ERRORS: dict[str, type[ProviderError]] = {
    kind.code.removeprefix("provider_"): kind
    for kind in (
        AuthenticationFailed,
        ConnectionFailed,
        ContextOverflow,
        NotUsable,
        Overloaded,
        RateLimited,
        RequestRefused,
        StreamBroke,
        StreamSilent,
    )
}


Fill = Callable[[Any], Any]


class _Say(msgspec.Struct, forbid_unknown_fields=True):
    text: str
    chunk: int | None = None

    def play(self, fill: Fill) -> Iterator[Played]:
        return map(TextDelta, _pieces(fill(self.text), self.chunk))


class _SayMuch(msgspec.Struct, forbid_unknown_fields=True):
    size: Annotated[int, msgspec.Meta(ge=1)]
    count: Annotated[int, msgspec.Meta(ge=0)] = 1

    def play(self, fill: Fill) -> Iterator[Played]:
        del fill
        delta = TextDelta("x" * self.size)
        return (delta for _ in range(self.count))


class _Think(msgspec.Struct, forbid_unknown_fields=True):
    thought: str
    chunk: int | None = None

    def play(self, fill: Fill) -> Iterator[Played]:
        return map(ThoughtDelta, _pieces(fill(self.thought), self.chunk))


class _CallTool(msgspec.Struct, forbid_unknown_fields=True):
    call: str
    arguments: dict[str, Any] = {}
    raw: str | None = None
    id: str | None = None

    def play(self, fill: Fill) -> Iterator[Played]:
        arguments = encode(fill(self.arguments)).decode() if self.raw is None else fill(self.raw)
        yield ToolCallDelta("scripted" if self.id is None else self.id, self.call, arguments)


class _Pause(msgspec.Struct, forbid_unknown_fields=True):
    wait_ms: Annotated[float, msgspec.Meta(ge=0)]

    def play(self, fill: Fill) -> Iterator[Played]:
        del fill
        yield Wait(self.wait_ms / 1000)


class _HangUp(msgspec.Struct, forbid_unknown_fields=True):
    hang: bool

    def play(self, fill: Fill) -> Iterator[Played]:
        del fill
        if self.hang:
            yield Hang()


class _Fail(msgspec.Struct, forbid_unknown_fields=True):
    error: str
    message: str = "The scripted model failed as its script says."

    def __post_init__(self) -> None:
        if self.error not in ERRORS:
            known = ", ".join(sorted(ERRORS))
            raise ValueError(f"unknown error {self.error!r}; there are {known}")

    def play(self, fill: Fill) -> Iterator[Played]:
        yield Failed(ERRORS[self.error](fill(self.message)))


_Tokens = Annotated[int, msgspec.Meta(ge=0)]


class _Use(msgspec.Struct, forbid_unknown_fields=True):
    usage: tuple[_Tokens, _Tokens]

    def play(self, fill: Fill) -> Iterator[Played]:
        del fill
        yield UsageDelta(*self.usage)


class _End(msgspec.Struct, forbid_unknown_fields=True):
    finish: Finish

    def play(self, fill: Fill) -> Iterator[Played]:
        del fill
        yield Finished(self.finish)


Step = _Say | _SayMuch | _Think | _CallTool | _Pause | _HangUp | _Fail | _Use | _End
STEPS: dict[str, type[Step]] = {
    kind.__struct_fields__[0]: kind
    for kind in (_Say, _SayMuch, _Think, _CallTool, _Pause, _HangUp, _Fail, _Use, _End)
}


def _pieces(text: str, size: int | None) -> Iterator[str]:
    size = max(1, size or len(text))
    return (text[start : start + size] for start in range(0, len(text), size))
