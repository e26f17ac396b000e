"""The built-in script ``bench``: what the benchmarks, and tests that need much of something, ask for.

The words of the prompt say what is played:

- ``bench stream N SIZE``: N deltas of SIZE characters, each a wake-up of its own.
- ``bench flood SIZE``: the same without end.
- ``bench paced N US``: N deltas of 32 characters, US microseconds apart.
- ``bench perm K``: K replies with one tool call each: a file outside every workspace is read, so each asks.
- ``bench read K``: the same, but ``bench.txt`` in the workspace is read, which does not ask.
- ``bench sh K``: K replies with one ``shell`` call each, of a command that does nothing.
- ``bench sleep``: one ``shell`` call, of a command that says a word and then sleeps.
- ``bench hang``: nothing, and the stream stays open.

Anything else is answered by a greeting. Text is not merged, so that every delta is paid for.
"""

from collections.abc import Iterator
from itertools import chain, repeat

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import Finish, Finished, TextDelta, ToolCallDelta
from term2_acp.providers.scripted.builtin import BENCH, MERGES_TEXT
from term2_acp.providers.scripted.playing import Hang, Played, Wait

GREETING = "Hello from the scripted model."
# A file that every system has, that is no secret, and that lies in no workspace.
OUTSIDE = "/etc/hosts"
INSIDE = "bench.txt"
_PACED_SIZE = 32
_CONTEXT_TOKENS = 128_000


@frozen
class Bench:
    """The script ``bench`` (``Script``)."""

    merge_text: bool = MERGES_TEXT[BENCH]
    per_read: int = 1
    context_tokens: int = _CONTEXT_TOKENS
    context_assumed: bool = True  # what is measured must not be compacted

    def play(self, prompt: str, call: int) -> Iterator[Played]:
        """See ``Script``."""
        words = prompt.split()
        numbers = tuple(int(word) for word in words[2:] if word.isdecimal())
        match (words[1:2] if words[:1] == ["bench"] else []), numbers:
            case ["stream"], (count, size):
                return _then_stop(repeat(_text(size), count))
            case ["flood"], (size,):
                return repeat(_text(size))
            case ["paced"], (count, microseconds):
                paced = (Wait(microseconds / 1_000_000), _text(_PACED_SIZE))
                return _then_stop(chain.from_iterable(repeat(paced, count)))
            case ["perm"], (count,):
                return _reading(call, OUTSIDE) if call < count else _then_stop([TextDelta("Done.")])
            case ["read"], (count,):
                return _reading(call, INSIDE) if call < count else _then_stop([TextDelta("Done.")])
            case ["sh"], (count,):
                return _command(call, f": {call}") if call < count else _then_stop([TextDelta("Done.")])
            case ["sleep"], ():
                return _command(call, "echo up; sleep 600")
            case ["hang"], ():
                return iter([Hang()])
        return _then_stop([TextDelta(GREETING)])


def _text(size: int) -> TextDelta:
    return TextDelta("x" * max(1, size))


def _reading(call: int, path: str) -> Iterator[Played]:
    # Each call differs from the last, or it would be taken for a model that repeats itself.
    arguments = f'{{"path": "{path}", "start_line": 1, "end_line": {call + 1}}}'
    return iter([ToolCallDelta(f"bench_{call}", "read_file", arguments), Finished(Finish.TOOL_CALLS)])


def _command(call: int, command: str) -> Iterator[Played]:
    made = ToolCallDelta(f"bench_{call}", "shell", f'{{"command": "{command}"}}')
    return iter([made, Finished(Finish.TOOL_CALLS)])


def _then_stop(deltas: "Iterator[Played] | list[Played]") -> Iterator[Played]:
    return chain(deltas, (Finished(Finish.STOP),))
