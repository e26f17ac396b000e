"""How much of a model's context its next request takes, and how much of it a compaction leaves. Pure.

Theory of operation. What was counted is known and the rest is estimated: a provider's count of the last reply
says what the history took up to there, and only what was added since is estimated. Where nothing was counted
(a server that does not count, a history that was just compacted) everything is estimated by its length. An
estimate is too high rather than too low, and what it is held against leaves room for the reply and for the
error of both (``limit_of``).

A history is cut between its groups only: the person's words, or a reply of the model with the results of its
calls. So it is well paired on both sides of every cut.
"""

from collections.abc import Sequence

import msgspec

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import (
    ContextOverflow,
    Failed,
    Finished,
    Message,
    ModelInfo,
    ToolAnswered,
    ToolSpec,
    UserSaid,
)

# Letters and blanks that make a token, at least: English has four to five to a token, and so have the names
# and words in code. Of digits and marks, which tokenizers take by ones, twos and threes, two make one. Beyond
# ASCII three bytes of UTF-8 do: scripts of three bytes a character have about one token for each, those of
# two bytes somewhat less.
BYTES_A_TOKEN = 4
# A text with so many bytes for each blank or line end in it is none: base64, hexadecimal, minified code. Of
# these two bytes make a token, letters too. What is shorter than the second number may be words, paths and
# ids.
_DENSE = 64
_DENSE_FROM = 2_048
_LETTERS_AND_SPACE = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ \n\r\t"
# Tokens that a message or a call costs beside its text: roles, ids, marks.
TOKENS_A_MESSAGE = 8
# Tokens of one image. The vendors count 300 to 1,600 for one of ordinary size, some twice that for a large
# one.
TOKENS_AN_IMAGE = 2_000
# Tokens of what a provider wants back with one reply, at most: it is the thoughts of that reply, sealed, and
# what is longer than a reply's thoughts can be is the seal.
SEALED_TOKENS = 32_000

# Tokens. In a smaller window the tools alone take more than half, and a summary would take the rest. The
# embedded model is smaller, and fits what it is told by itself.
SMALLEST_WINDOW = 8_000
# Tokens of a window that are left for the reply, and for what the estimate is wrong by: a quarter of the
# window, and no more than this, which is a long reply with its thoughts.
RESERVE_TOKENS = 32_000
_RESERVE_PART = 4
# The part of a window that may go on as it was said when the rest is summarised. More would be full again
# soon; the work at hand (the files that were just read, the last errors) fits in this.
_KEPT_PART = 4

# Words of a summary in a window that has room for them; a small window has one for each 16 of its tokens.
SUMMARY_WORDS = 1_500
_WINDOW_A_WORD = 16


@frozen
class Reading:
    """What a provider counted: the first ``messages`` messages of the history, and all that goes before them
    in each request, took ``tokens`` tokens.

    The last of these messages is the reply that was counted; its request had ``read`` tokens. ``by`` are the
    names of its provider and its model.
    """

    tokens: int
    messages: int
    read: int = 0
    by: tuple[str, str] = ("", "")


# -- what things take ------------------------------------------------------------------------------


def tokens_of(text: str) -> int:
    """The tokens of a text, by its length and by what it is made of."""
    near = text.encode("ascii", "ignore")
    size, far = len(near), 0
    if size < len(text):
        far = len(text.encode("utf-8", "surrogatepass")) - size
    marks = len(near.translate(None, _LETTERS_AND_SPACE))
    if size >= _DENSE_FROM and (near.count(b" ") + near.count(b"\n")) * _DENSE < size:
        marks = size
    twelfths = 3 * (size - marks) + 6 * marks + 4 * far
    return -(-twelfths // 12)


def estimate(messages: Sequence[Message]) -> int:
    """The tokens of the messages, by their length."""
    return sum(map(_of_message, messages))


def fixed_tokens(system: str, specs: Sequence[ToolSpec]) -> int:
    """The tokens of what stands in every request, by its length: the system prompt and the tools."""
    tools = sum(
        TOKENS_A_MESSAGE
        + tokens_of(spec.name)
        + tokens_of(spec.description)
        + tokens_of(msgspec.json.encode(spec.schema).decode())
        for spec in specs
    )
    return tokens_of(system) + tools


def next_tokens(messages: Sequence[Message], reading: Reading | None, fixed: int) -> int:
    """The tokens of the next request; ``fixed`` is what stands in every one (``fixed_tokens``)."""
    if reading is None:
        return fixed + estimate(messages)
    return reading.tokens + estimate(messages[reading.messages :])


def _of_message(message: Message) -> int:
    if isinstance(message, UserSaid):
        return TOKENS_A_MESSAGE + tokens_of(message.text) + TOKENS_AN_IMAGE * len(message.images)
    if isinstance(message, ToolAnswered):
        return TOKENS_A_MESSAGE + tokens_of(message.result)
    calls = sum(TOKENS_A_MESSAGE + tokens_of(call.name) + tokens_of(call.arguments) for call in message.calls)
    opaque = 0 if message.opaque is None else min(tokens_of(message.opaque.data), SEALED_TOKENS)
    return TOKENS_A_MESSAGE + tokens_of(message.text) + calls + opaque


# -- what there is room for ------------------------------------------------------------------------


def window_of(info: ModelInfo) -> int | None:
    """The tokens that a request to the model may have; None where that is not known, or is too little."""
    stated = stated_of(info)
    return None if stated is None or stated < SMALLEST_WINDOW else stated


def stated_of(info: ModelInfo) -> int | None:
    """The tokens of the model's context, as somebody says; None where nobody does."""
    return None if info.context_assumed or info.context_tokens <= 0 else info.context_tokens


def believed_of(info: ModelInfo, reading: Reading | None, by: tuple[str, str]) -> int | None:
    """The same, unless the model of these names (``by``) read more: then nobody knows how much it holds."""
    stated = stated_of(info)
    if stated is None or reading is None or reading.by != by:
        return stated
    return stated if reading.read <= stated else None


def overflowed(end: Finished | Failed | None) -> bool:
    """Whether a reply ended with its provider's word that the request is longer than the context."""
    return isinstance(end, Failed) and isinstance(end.error, ContextOverflow)


def limit_of(window: int) -> int:
    """The tokens that a request may have before the history is compacted."""
    return window - min(RESERVE_TOKENS, window // _RESERVE_PART)


def kept_room_of(window: int) -> int:
    """The tokens of a window that may go on as they were said."""
    return window // _KEPT_PART


def summary_words(window: int | None) -> int:
    """The words that a summary is asked to have at most."""
    if window is None:
        return SUMMARY_WORDS
    return min(SUMMARY_WORDS, max(window // _WINDOW_A_WORD // 100 * 100, 100))


def summary_tokens(window: int | None) -> int:
    """The tokens of a summary, with some to spare: two and a half a word."""
    return summary_words(window) * 5 // 2


# -- where a history is cut ------------------------------------------------------------------------


def groups_of(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """The messages in pieces that belong together: each reply with its results, all else by itself."""
    starts = [place for place, message in enumerate(messages) if not isinstance(message, ToolAnswered)]
    starts[:1] = [0]
    return [messages[a:b] for a, b in zip(starts, [*starts[1:], len(messages)], strict=True) if a < b]


def start_of(messages: Sequence[Message], kept: int) -> int:
    """Where the last ``kept`` messages begin; earlier where a reply would be apart from its results."""
    start = max(len(messages) - kept, 0)
    while 0 < start < len(messages) and isinstance(messages[start], ToolAnswered):
        start -= 1
    return start


def kept_of(messages: Sequence[Message], room: int, prompt: int | None) -> int:
    """How many messages at the end go on as they were said, when the rest is summarised.

    At least the last group: what was asked and not answered yet, or the last reply with its results. As many
    groups before it as fit in ``room`` tokens with it. Where they reach back beyond the person's last words,
    which stand at the place ``prompt``, they are whole turns.
    """
    groups = groups_of(messages)
    start, size = len(messages), 0
    for group in reversed(groups):
        size += estimate(group)
        if size > room and start < len(messages):
            break
        start -= len(group)
    if prompt is not None and start < prompt:
        start = next(place for place in range(start, prompt + 1) if isinstance(messages[place], UserSaid))
    return len(messages) - start


def kept_tokens(messages: Sequence[Message], kept: int, prompt: int | None) -> int:
    """The tokens of what stays beside a summary, where the last ``kept`` messages are kept."""
    start = start_of(messages, kept)
    again = messages[prompt : prompt + 1] if prompt is not None and prompt < start and kept else ()
    return estimate(again) + estimate(messages[start:])
