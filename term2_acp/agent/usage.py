"""What a session's calls of a model took and cost: one fold, live and from the journal.

Theory of operation. A turn tells of each call that it begins (``begin``), with a way to ask what was counted
of it so far; from then on its count is in every sum, wherever the call is cut off. The events do the rest
(``apply``): the end of a reply keeps the call's count for good, and the idle keeps the turn's, a call that
was cut off included. So the meter of a session that is read from its journal stands where the live one stood.

What is honest where something is missing:

- A call that was cancelled or broke before its provider counted it is among the calls, and in no sum.
- A counted call without a price, or a whole reply without a count, makes the session's cost unknown, and it
  stays so: what is left would look like the cost and be less. A cost that was told before is withdrawn.
- A journal can have lost what a call cost, with a damaged row or a disk that was full. The cost goes on from
  what was told last all the same: it never falls, and one that was withdrawn does not come back.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from attrs import evolve

from term2_acp.domain import events as ev
from term2_acp.domain.classes import frozen
from term2_acp.domain.usage import MOST_COST, NO_CALLS, TurnUsage, Usage, both

if TYPE_CHECKING:  # a session that is only opened has a meter, and asks no model
    from term2_acp.providers.base import ModelInfo, UsageDelta

# The most tokens of one kind that a call is believed to have: a thousand times the largest context there is.
# Sums of them stay whole numbers in JSON for nine million calls.
MOST_TOKENS = 1_000_000_000


@frozen
class Counted:
    """One call of the model as its provider counted it.

    ``cost_pico_usd`` is None where the call has no price. ``context_tokens`` is the size of the context.
    """

    tokens: Usage
    cost_pico_usd: int | None
    context_tokens: int


def counted(delta: "UsageDelta", info: "ModelInfo") -> Counted | None:
    """A provider's count, held to what can be, and its price: the server's own word, else the model's prices.

    None for a count of nothing at all: every call reads something, and some servers write zeros for
    "not known".
    """
    read, written = _tokens(delta.input_tokens), _tokens(delta.output_tokens)
    if not read and not written:
        return None
    from_cache = min(_tokens(delta.cache_read_tokens), read)
    tokens = Usage(
        input_tokens=read,
        output_tokens=written,
        cache_read_tokens=from_cache,
        cache_write_tokens=min(_tokens(delta.cache_write_tokens), read - from_cache),
        thought_tokens=min(_tokens(delta.thought_tokens), written),
    )
    cost = _believed(delta.cost_pico_usd)
    if cost is None and info.prices is not None:
        cost = _believed(info.prices.of(tokens))
    return Counted(tokens, cost, info.context_tokens)


def _tokens(count: int) -> int:
    if not count >= 0:  # whatever a server managed to make a wire believe, NaN too
        return 0
    return int(min(count, MOST_TOKENS))


def _believed(cost: int | None) -> int | None:
    return int(cost) if cost is not None and 0 <= cost <= MOST_COST else None


@frozen
class Mark:
    """Where a meter stands between two turns."""

    cost_pico_usd: int | None
    shown: ev.UsageUpdate | None
    taken: TurnUsage


class Meter:
    """What one session took. See the module; it starts at nothing."""

    def __init__(self) -> None:
        self._before: int | None = 0  # the cost of the turns that are over
        self._taken: TurnUsage = NO_CALLS  # what those took; of its cost nothing is said
        self._turn: TurnUsage = NO_CALLS  # the calls of this turn that are over
        self._open: Callable[[], Counted | None] | None = None  # the call that is not over
        self._shown: ev.UsageUpdate | None = None  # the last update

    # -- of the turn -------------------------------------------------------------------------------

    def begin(self, count: Callable[[], Counted | None]) -> None:
        """A call of the model begins. ``count`` says what was counted of it by now, at any time."""
        self._open = count

    def break_off(self) -> None:
        """The call that is not over gave no whole reply, and the turn goes on without it.

        It stays in what the turn took, which the turn's idle keeps.
        """
        self._turn, self._open = self._turn_so_far(), None

    def open_call(self) -> Counted | None:
        """What was counted by now of the call that is not over, if there is one."""
        return None if self._open is None else self._open()

    def turn_usage(self) -> TurnUsage | None:
        """What the turn took by now; None when it called no model."""
        turn = self._turn_so_far()
        return turn if turn.model_calls else None

    @property
    def cost_pico_usd(self) -> int | None:
        """What the session cost by now, or None where that is not known."""
        return both(self._before, self._turn_so_far().cost_pico_usd)

    @property
    def taken(self) -> TurnUsage:
        """What the session took by now, with ``cost_pico_usd`` as its cost."""
        taken = self._taken.and_then(self._turn_so_far())
        return evolve(taken, cost_pico_usd=self.cost_pico_usd)

    @property
    def shown(self) -> ev.UsageUpdate | None:
        """What was told last of the context, None before anything was."""
        return self._shown

    def update(self, *, whole_reply: bool = False) -> ev.UsageUpdate | None:
        """What there is to show of the call that is not over; None where its provider did not count it.

        No context is said to be smaller than what was in it: the model then holds more than is known of it.
        Of a whole reply without a count there is one thing to show: that a cost told before holds no longer.
        """
        call, shown = self.open_call(), self._shown
        if call is None:
            if not whole_reply or shown is None or shown.cost_pico_usd is None:
                return None
            return ev.UsageUpdate(shown.used, shown.size, cost_withdrawn=True)
        used = call.tokens.input_tokens + call.tokens.output_tokens
        cost = self.cost_pico_usd
        told = shown is not None and (shown.cost_pico_usd is not None or shown.cost_withdrawn)
        return ev.UsageUpdate(used, max(call.context_tokens, used), cost, cost is None and told)

    def _turn_so_far(self) -> TurnUsage:
        if self._open is None:
            return self._turn
        call = self._open()
        if call is None:
            return self._turn.uncounted(whole_reply=False)
        return self._turn.counted(call.tokens, call.cost_pico_usd)

    # -- of the session ----------------------------------------------------------------------------

    def apply(self, event: ev.Event) -> None:
        """Fold one more event in. Events that say nothing of usage change nothing."""
        if isinstance(event, ev.ReplyEnded):
            self._open = None
            if event.usage is None:
                self._turn = self._turn.uncounted(whole_reply=True)
            else:
                self._turn = self._turn.counted(event.usage, event.cost_pico_usd)
        elif isinstance(event, ev.UsageUpdate):
            self._shown = event
        elif isinstance(event, ev.Idle):
            if event.usage is not None:
                self._turn = event.usage
            self._end_turn()
        elif isinstance(event, ev.UserMessage):
            self._end_turn()  # a turn before it that has no idle ended with its process

    def mark(self) -> Mark:
        """Where the meter stands between two turns, for ``rewind``."""
        self._end_turn()
        return Mark(self._before, self._shown, self._taken)

    def rewind(self, mark: Mark) -> None:
        """Forget everything since ``mark``: a prompt that was refused leaves no trace."""
        self._turn, self._open = NO_CALLS, None
        self._before, self._shown, self._taken = mark.cost_pico_usd, mark.shown, mark.taken

    def _end_turn(self) -> None:
        cost = both(self._before, self._turn.cost_pico_usd)
        if cost is not None and self._shown is not None:
            told = self._shown.cost_pico_usd
            cost = None if told is None else max(cost, told)
        self._before = cost
        if self._turn is not NO_CALLS:
            self._taken = self._taken.and_then(self._turn)
        self._turn, self._open = NO_CALLS, None


METERED: frozenset[type] = frozenset({ev.ReplyEnded, ev.UsageUpdate, ev.Idle, ev.UserMessage})
"""The kinds of events that a meter folds in."""
