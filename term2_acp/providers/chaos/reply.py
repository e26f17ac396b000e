"""One reply of ``chaos``, drawn: words in strange pieces, thoughts, calls, counts, waits, and an end. Pure.

Most of what is drawn is a reply that a model could give, because what breaks is mostly what surrounds it. A
reply calls tools about every second time, so that a turn takes a few calls of the model and then ends.
"""

from collections.abc import Iterator, Mapping
from random import Random

from term2_acp.providers.base import (
    Failed,
    Finish,
    Finished,
    TextDelta,
    ThoughtDelta,
    UsageDelta,
)
from term2_acp.providers.chaos.calls import Recipe, draw_calls
from term2_acp.providers.scripted.playing import Hang, Played, Wait
from term2_acp.providers.scripted.steps import ERRORS

CONTEXT_TOKENS = 32_768

# Chances, of each reply.
_WAITS_FIRST = 0.08
_FAILS_AT_ONCE = 0.06
_FAILS_LATER = 0.08
_SAYS_NOTHING = 0.05
_CALLS = 0.5
_HANGS = 0.02
_FLOODS = 0.03
_FINISH_IS_ODD = 0.15

# Deltas of a flood: more than any queue between a model and an editor holds.
_FLOOD = 3000

_WORDS = (
    "Let me look. ", "ok", " ", "\n\n", "```python\nprint(1)\n```\n", "é", "漢字", "e\u0301",
    "👩\u200d🔬", "\u2028", "\u2029", "\0", "\u202edesrever\u202c", "\u200b", "\ufeff", "\r\n",
    "\x1b[31mred\x1b[0m", "</think>", "data: [DONE]\n\n", '{"jsonrpc": "2.0", "id": 1}\n', "\x7f",
    "\ufffd", "\U0010ffff", "a" * 3000,
)  # fmt: skip
_OPAQUE = (
    "",
    "null",
    "[]",
    "{}",
    '{"signature": "',
    '"\\ud800"',
    "\u2028\0\u202e",
    "[" * 3000,
    "x" * 100_000,
    "7",
)
_MUCH = (0, 1, 7, 1200, CONTEXT_TOKENS, 10**6, 10**15)


def waits_before(draw: Random) -> Iterator[tuple[str, float]]:
    """What the person is told before the answer begins, and for how many seconds nothing comes then."""
    if draw.random() < _WAITS_FIRST:
        for _ in range(draw.randrange(1, 4)):
            yield "Chaos lets you wait, on purpose.", draw.uniform(0.01, 4)


def reply(draw: Random, recipes: Mapping[str, Recipe]) -> Iterator[Played]:
    """Play one reply, to what ends it or to where nothing comes any more."""
    if draw.random() < _FAILS_AT_ONCE:
        yield _failed(draw)
        return
    silent = draw.random() < _SAYS_NOTHING
    calls = draw_calls(draw, recipes) if not silent and draw.random() < _CALLS else []
    parts: list[list[Played]] = [[call] for call in calls]
    if not silent:
        for _ in range(draw.randrange(4)):
            parts.insert(draw.randrange(len(parts) + 1), _speech(draw))
    for _ in range(draw.choice((0, 1, 1, 2, 5))):
        parts.insert(draw.randrange(len(parts) + 1), [_usage(draw)])
    ends: Played = Finished(_finish(draw, Finish.TOOL_CALLS if calls else Finish.STOP), _opaque(draw))
    if draw.random() < _HANGS:
        ends = Hang()
    elif draw.random() < _FAILS_LATER:
        ends = _failed(draw)
    if not isinstance(ends, Finished):
        parts = parts[: draw.randrange(len(parts) + 1)]  # at any point
    for part in parts:
        yield from part
        if draw.random() < 0.1:
            yield Wait(draw.choice((0.0, 0.004, 0.02, 0.5, 3)))
    yield ends


def _speech(draw: Random) -> list[Played]:
    kind = TextDelta if draw.random() < 0.7 else ThoughtDelta
    if draw.random() < _FLOODS:
        return [kind("x")] * _FLOOD
    said = "".join(draw.choices(_WORDS, k=draw.randrange(12)))
    pieces: list[Played] = []
    size = draw.choice((1, 3, 40, len(said) + 1))
    while said:
        at = draw.randrange(size + 1) if len(pieces) < 100 else len(said)
        pieces.append(kind(said[:at]))  # an empty piece now and then, as servers send them
        said = said[at:]
    return pieces


def _usage(draw: Random) -> UsageDelta:
    """Counts that need not fit together, nor the count before."""
    read, written, cached, kept, thought = draw.choices(_MUCH, k=5)
    cost = draw.choice((None, None, 0, 1, 10**9, 10**30))
    if draw.random() < 0.7:
        read = draw.randrange(1, CONTEXT_TOKENS)
        written, cached, kept, thought = (draw.randrange(read) for _ in range(4))
    return UsageDelta(read, written, cached, kept, thought, cost)


def _finish(draw: Random, due: Finish) -> Finish:
    return draw.choice(list(Finish)) if draw.random() < _FINISH_IS_ODD else due


def _opaque(draw: Random) -> str | None:
    return draw.choice(_OPAQUE) if draw.random() < 0.3 else None


def _failed(draw: Random) -> Failed:
    kind = draw.choice(list(ERRORS))
    return Failed(ERRORS[kind](f"Chaos fails on purpose ({kind})."))
