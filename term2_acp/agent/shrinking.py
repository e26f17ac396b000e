"""Makes a part of a history small enough to be summarised in one request. Pure.

First what is long is cut in its middle, more and more: results of tools, texts, arguments of calls. What is
still too much then goes, the oldest first, whole groups at a time, so that what is left is well paired; and
where not even the newest group fits, it is cut to its outlines. A summary at its beginning stays, for it is
all that there is of what came before. Images are told in words, and what a provider wants back is left out.
Every place where something is missing says so.
"""

from collections.abc import Sequence

from attrs import evolve

from term2_acp.agent.context import BYTES_A_TOKEN, estimate, groups_of, tokens_of
from term2_acp.agent.images import in_words
from term2_acp.providers.base import AssistantSaid, CallMade, Message, ToolAnswered, UserSaid
from term2_acp.providers.wire_words import encode

# Characters that a text is cut to, one after the other until all fits: a long file, a few pages, one page.
CUTS = (32_000, 8_000, 2_000)
# And where the last reply with its results alone is too much even so: a few lines, one line.
LAST_CUTS = (CUTS[-1], 500, 100)


def shrunk(messages: Sequence[Message], room: int, summary: UserSaid | None) -> Sequence[Message] | None:
    """The messages in at most ``room`` tokens; None where nothing of them fits.

    ``summary`` is the earlier summary, if they may begin with one.
    """
    if estimate(messages) <= room:
        return messages
    head, rest = _beginning(messages, summary, room)
    room -= estimate(head)
    for most in CUTS:
        cut = [_shortened(message, most) for message in rest]
        if estimate(cut) <= room:
            return (*head, *cut)
    for most in LAST_CUTS:
        left = _newest(head, [_shortened(message, most) for message in rest], room)
        if left is not None:
            return left
    return None


def cut_text(text: str, most: int) -> str:
    """At most about ``most`` characters of the text: its beginning, how much is left out, and its end."""
    if len(text) <= most:
        return text
    half = most // 2
    note = f"\n[term2: {len(text) - 2 * half:,} characters are left out here]\n"
    return f"{text[:half]}{note}{text[len(text) - half :]}"


def _beginning(
    messages: Sequence[Message], summary: UserSaid | None, room: int
) -> tuple[Sequence[Message], Sequence[Message]]:
    if summary is None or not messages or messages[0] is not summary:
        return (), messages
    half = max(room, 0) // 2
    most = half * BYTES_A_TOKEN
    while tokens_of(text := cut_text(summary.text, most)) > half and most:
        most //= 2
    return (UserSaid(text),), messages[1:]


def _newest(head: Sequence[Message], messages: Sequence[Message], room: int) -> Sequence[Message] | None:
    """The newest groups that fit, behind a note of how many messages are left out."""
    note = UserSaid(f"[term2: {len(messages):,} earlier messages are left out here, for they do not fit]")
    room -= estimate((note,))
    kept: list[Message] = []
    for group in reversed(groups_of(messages)):
        room -= estimate(group)
        if room < 0:
            break
        kept[:0] = group
    if not kept:
        return None
    left_out = len(messages) - len(kept)
    if not left_out:
        return (*head, *kept)
    note = UserSaid(f"[term2: {left_out:,} earlier messages are left out here, for they do not fit]")
    return (*head, note, *kept)


def _shortened(message: Message, most: int) -> Message:
    message = in_words(message)
    if isinstance(message, UserSaid):
        return evolve(message, text=cut_text(message.text, most))
    if isinstance(message, ToolAnswered):
        return evolve(message, result=cut_text(message.result, most))
    calls = tuple(_shortened_call(call, most) for call in message.calls)
    return AssistantSaid(cut_text(message.text, most), calls, cut=message.cut)


def _shortened_call(call: CallMade, most: int) -> CallMade:
    """Arguments are JSON, and half of it is none: what is too long is told as an object of its own."""
    if len(call.arguments) <= most:
        return call
    return evolve(call, arguments=encode({"shortened": cut_text(call.arguments, most)}).decode())
