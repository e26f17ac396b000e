"""Room in the model's context, made by a turn itself: it compacts the history before it overflows.

When it does:

- before a call of the model, where the next request would leave too little room for its reply (``context``);
  only where the size of the context is known, and where a compaction would bring the request below that. A
  model that read more than it is said to hold holds more, and nobody knows how much;
- when the provider finds a request longer than the context. The call is then made once more.

What keeps it from going on for ever:

- at most one compaction a call of the model, whether it worked or not;
- after one that failed, or left too much, none of the turn's is made by an estimate again;
- at most ``MAX_COMPACTIONS`` a turn.

One that failed is shown, and the turn goes on with the whole history: it may fit after all. Compactions are
not among the model's calls that a turn may make: a person who limits those limits the work, and the work
goes on after a compaction where it stood. They are bounded here.
"""

from collections.abc import Callable

from attrs import field

from term2_acp.agent.asking import Asking
from term2_acp.agent.compaction import compact
from term2_acp.agent.context import (
    believed_of,
    estimate,
    kept_of,
    kept_room_of,
    kept_tokens,
    limit_of,
    next_tokens,
    summary_tokens,
    window_of,
)
from term2_acp.domain import events as ev
from term2_acp.domain.classes import define
from term2_acp.domain.events import CompactionStatus, CompactionUpdate
from term2_acp.domain.ids import new_message_id
from term2_acp.providers.base import ToolAnswered

# Compactions that one turn makes. In a small context one makes room for a few calls of the model, and a turn
# has a hundred of them unless its person said otherwise.
MAX_COMPACTIONS = 30

_TOO_SMALL = (
    "The model is to be told about {size:,} tokens, and it is loaded with a context of {stated:,}: its "
    "server may cut that without a word. Load it with a larger context, or choose another model."
)


@define(eq=False)
class Relief:
    """The compactions that one turn makes by itself. ``forget_reads`` is as in ``compact``."""

    asking: Asking
    forget_reads: Callable[[], None]
    _left: int = field(default=MAX_COMPACTIONS, init=False)
    _by_estimate: bool = field(default=True, init=False)
    _warned: bool = field(default=False, init=False)

    @property
    def spent(self) -> bool:
        """Whether the turn has made all the compactions that it may."""
        return not self._left

    async def before_call(self) -> CompactionUpdate | None:
        """Compact where the next request would leave too little room: how that ended, None where it need not
        be or would not help. Of a request that is too long all the same the person may be told.

        Cancelled, it shows how it ended.
        """
        ended = await self._by_the_estimate()
        self._warn()
        return ended

    async def _by_the_estimate(self) -> CompactionUpdate | None:
        window = self._window()
        if window is None or not self._by_estimate or not self._left:
            return None
        limit = limit_of(window)
        if self._next_tokens() <= limit:
            return None
        kept = self._helpful(window, limit)
        if kept is None:
            return None
        ended = await self._compact(kept, window)
        self._by_estimate = completed(ended) and self._next_tokens() <= limit
        return ended

    async def after_overflow(self) -> CompactionUpdate | None:
        """Compact a history that the provider found too long: how that ended, None where nothing can be done.

        What overflowed tells how much the context has at most. Cancelled, it shows how it ended.
        """
        transcript = self.asking.transcript
        if not self._left:
            return None
        # Of the count and the estimate the larger: a request that is still too long is halved.
        whole = max(self._next_tokens(), self.asking.fixed_tokens + estimate(transcript.messages()))
        most = min(limit_of(whole), self._stated() or whole)
        kept = self._helpful(most, most)
        if kept is None:  # what is left may fit after all: the server counts, and this is an estimate
            kept = self._kept(kept_room_of(most))
            if not transcript.compactable(kept):
                kept = self._kept(0)
        return await self._compact(kept, most)

    def _helpful(self, window: int, limit: int) -> int | None:
        """How many messages stay, so that a request with the summary has no more tokens than ``limit``.

        As many as may be; else the work at hand; and where that alone is too much, as the results of many
        calls can be, nothing: the summary repeats the person's words, and the model reads again what it
        needs.
        """
        transcript = self.asking.transcript
        messages, prompt = transcript.messages(), transcript.prompt
        choices = [self._kept(kept_room_of(window)), self._kept(0)]
        words = () if prompt is None else messages[prompt : prompt + 1]
        room = limit - self.asking.fixed_tokens - summary_tokens(window)
        if messages and isinstance(messages[-1], ToolAnswered) and estimate(words) <= room:
            choices.append(0)
        return next((kept for kept in choices if self._is_worth_it(kept, window, limit)), None)

    def _warn(self) -> None:
        """Tell the person, once a turn, of a request that is longer than its context, where the server may
        not.

        It goes out all the same, for that is an estimate.
        """
        stated = self._stated()
        if self._warned or stated is None or not self.asking.info.cuts:
            return
        size = self._next_tokens()
        if size > stated:
            self._warned = True
            told = _TOO_SMALL.format(size=size, stated=stated)
            self.asking.ports.emit_nowait([ev.Notice(new_message_id(), ev.Severity.WARNING, told)])

    def _stated(self) -> int | None:
        """The tokens that somebody says a request may have, as far as that is true."""
        return believed_of(self.asking.info, self.asking.transcript.reading, self.asking.names)

    def _window(self) -> int | None:
        """The same, where it is enough to compact before it is full."""
        return None if self._stated() is None else window_of(self.asking.info)

    async def _compact(self, kept: int, most: int) -> CompactionUpdate | None:
        self._left -= 1
        return await compact(self.asking, forget_reads=self.forget_reads, kept=kept, most=most, at_work=True)

    def _kept(self, room: int) -> int:
        transcript = self.asking.transcript
        return kept_of(transcript.messages(), room, transcript.prompt)

    def _next_tokens(self) -> int:
        transcript = self.asking.transcript
        fixed = self.asking.fixed_tokens if transcript.reading is None else 0
        return next_tokens(transcript.messages(), transcript.reading, fixed)

    def _is_worth_it(self, kept: int, window: int, limit: int) -> bool:
        transcript = self.asking.transcript
        stays = kept_tokens(transcript.messages(), kept, transcript.prompt)
        left = self.asking.fixed_tokens + summary_tokens(window) + stays
        return transcript.compactable(kept) and left <= limit


def completed(ended: CompactionUpdate | None) -> bool:
    """Whether the history was compacted."""
    return ended is not None and ended.status is CompactionStatus.COMPLETED
