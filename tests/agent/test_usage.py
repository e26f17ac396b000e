"""The meter: what a call counts as, what is shown after it, and that live and from the journal it stands the
same, whatever is missing and wherever a turn was cut off."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.agent.usage import MOST_TOKENS, Counted, Meter, counted
from term2_acp.domain import events as ev
from term2_acp.domain.content import Text
from term2_acp.domain.ids import MessageId
from term2_acp.domain.turn import StopReason
from term2_acp.domain.usage import MOST_COST, PICO, Prices, TurnUsage, Usage
from term2_acp.providers.base import ModelInfo, UsageDelta

PRICED = ModelInfo(1000, prices=Prices(3, 15, 1, 4))
UNPRICED = ModelInfo(1000)
U = ev.UserMessage(MessageId("u"), (Text("go"),))


# -- what a call counts as -------------------------------------------------------------------------


def test_a_call_is_priced_by_its_model_unless_its_server_tells_the_price():
    delta = UsageDelta(100, 10, 50, 20, 5)
    tokens = Usage(100, 10, 50, 20, 5)
    assert counted(delta, PRICED) == Counted(tokens, 30 * 3 + 50 * 1 + 20 * 4 + 10 * 15, 1000)
    assert counted(delta, UNPRICED) == Counted(tokens, None, 1000)
    told = UsageDelta(100, 10, 50, 20, 5, cost_pico_usd=77)
    assert counted(told, PRICED) == Counted(tokens, 77, 1000)
    assert counted(told, UNPRICED) == Counted(tokens, 77, 1000)
    free = UsageDelta(100, 10, cost_pico_usd=0)
    assert counted(free, PRICED) == Counted(Usage(100, 10), 0, 1000)


@pytest.mark.parametrize(
    ("delta", "tokens"),
    [
        (UsageDelta(-5, 3), Usage(0, 3)),
        (UsageDelta(3, -5), Usage(3, 0)),
        (UsageDelta(float("nan"), 3), Usage(0, 3)),
        (UsageDelta(3, float("inf")), Usage(3, MOST_TOKENS)),
        (UsageDelta(10**30, 10**30), Usage(MOST_TOKENS, MOST_TOKENS)),
        (UsageDelta(10, 5, 20), Usage(10, 5, 10)),
        (UsageDelta(10, 5, 8, 8), Usage(10, 5, 8, 2)),
        (UsageDelta(10, 5, -1, -1, -1), Usage(10, 5)),
        (UsageDelta(10, 5, 0, 0, 9), Usage(10, 5, 0, 0, 5)),
    ],
)
def test_a_count_that_cannot_be_is_held_to_what_can(delta, tokens):
    call = counted(delta, UNPRICED)
    assert call.tokens == tokens
    assert all(type(number) is int for number in (call.tokens.input_tokens, call.tokens.output_tokens))


@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf"), MOST_COST + 1])
def test_a_price_that_cannot_be_is_not_believed(cost):
    delta = UsageDelta(100, 10, cost_pico_usd=cost)
    assert counted(delta, PRICED).cost_pico_usd == 450
    assert counted(delta, UNPRICED).cost_pico_usd is None


def test_tokens_that_come_too_dear_have_no_price():
    dear = ModelInfo(prices=Prices(PICO, PICO))
    assert counted(UsageDelta(10_000, 0), dear).cost_pico_usd == MOST_COST
    assert counted(UsageDelta(10_001, 0), dear).cost_pico_usd is None


def test_a_count_of_nothing_is_none():
    assert counted(UsageDelta(0, 0), PRICED) is None
    assert counted(UsageDelta(-1, 0, 5), PRICED) is None


# -- the meter -------------------------------------------------------------------------------------


class Live:
    """A meter as a session and its turn work it, and the journal that they write."""

    def __init__(self, meter=None):
        self.meter = meter or Meter()
        self.journal = []
        self.shown = []

    def emit(self, *events):
        for event in events:
            self.meter.apply(event)
            self.journal.append(event)
            if isinstance(event, ev.UsageUpdate):
                self.shown.append((event.used, event.size, event.cost_pico_usd, event.cost_withdrawn))

    def prompt(self):
        self.emit(U)

    def call(self, *deltas, info=PRICED, whole=True):
        """One call of the model that counts so, whole or cut off."""
        now = []
        self.meter.begin(lambda: counted(now[-1], info) if now else None)
        now += deltas
        if whole:
            call, update = self.meter.open_call(), self.meter.update(whole_reply=True)
            self.emit(
                ev.ReplyEnded("p", "m", None, call and call.tokens, call and call.cost_pico_usd),
                *([] if update is None else [update]),
            )

    def settle(self, reason=StopReason.END_TURN):
        update, took = self.meter.update(), self.meter.turn_usage()
        self.emit(*([] if update is None else [update]), ev.Idle(reason, usage=took))
        return took


def read(journal):
    meter = Meter()
    for event in journal:
        meter.apply(event)
    return meter


def test_the_costs_of_a_session_add_up_over_calls_and_turns():
    live = Live()
    live.prompt()
    live.call(UsageDelta(100, 10))  # 450
    live.call(UsageDelta(200, 20, 100))  # 100 * 3 + 100 * 1 + 20 * 15 = 700
    assert live.settle() == TurnUsage(2, 2, Usage(300, 30, 100), 1150)
    live.prompt()
    live.call(UsageDelta(10, 1))  # 45
    assert live.settle() == TurnUsage(1, 1, Usage(10, 1), 45)
    assert live.shown == [(110, 1000, 450, False), (220, 1000, 1150, False), (11, 1000, 1195, False)]
    assert live.meter.cost_pico_usd == read(live.journal).cost_pico_usd == 1195


def test_the_last_count_of_a_call_is_its_count():
    live = Live()
    live.prompt()
    live.call(UsageDelta(100, 1), UsageDelta(100, 7), UsageDelta(100, 10))
    assert live.settle() == TurnUsage(1, 1, Usage(100, 10), 450)


def test_a_context_that_holds_more_than_is_known_of_it():
    live = Live()
    live.prompt()
    live.call(UsageDelta(1500, 10))
    live.call(UsageDelta(990, 10))
    live.call(UsageDelta(5, 5), info=ModelInfo(0))
    assert [used_and_size[:2] for used_and_size in live.shown] == [(1510, 1510), (1000, 1000), (10, 10)]


def test_a_call_that_was_cut_off_counts_as_far_as_it_was_counted():
    live = Live()
    live.prompt()
    live.call(UsageDelta(100, 10))
    live.call(UsageDelta(200, 1), whole=False)
    assert live.settle(StopReason.CANCELLED) == TurnUsage(2, 2, Usage(300, 11), 1065)
    assert live.shown[-1] == (201, 1000, 1065, False)
    live.prompt()
    live.call(whole=False)
    assert live.settle(StopReason.CANCELLED) == TurnUsage(1, 0, Usage(), 0)
    assert len(live.shown) == 2
    assert live.meter.cost_pico_usd == read(live.journal).cost_pico_usd == 1065


def test_a_turn_that_calls_no_model_took_nothing():
    live = Live()
    live.prompt()
    assert live.settle(StopReason.CANCELLED) is None
    assert live.shown == []


@pytest.mark.parametrize(
    "unknown", [((UsageDelta(100, 10),), UNPRICED), ((), PRICED)], ids=["unpriced", "uncounted"]
)
def test_a_cost_that_is_no_longer_known_is_withdrawn_and_stays_so(unknown):
    deltas, info = unknown
    live = Live()
    live.prompt()
    live.call(UsageDelta(100, 10))
    live.call(*deltas, info=info)
    assert live.settle().cost_pico_usd is None
    for session in (live, Live(read(live.journal))):
        session.prompt()
        session.call(UsageDelta(100, 10))
        assert session.settle().cost_pico_usd == 450, "the turn itself is known"
        assert session.shown[-1] == (110, 1000, None, True)
        assert session.meter.cost_pico_usd is None


def test_a_cost_that_was_never_known_is_not_withdrawn():
    live = Live()
    live.prompt()
    live.call(UsageDelta(100, 10), info=UNPRICED)
    live.call(UsageDelta(100, 10))
    assert live.shown == [(110, 1000, None, False)] * 2


def test_a_cost_is_taken_away_by_the_reply_that_nobody_counted():
    live = Live()
    live.prompt()
    live.call(UsageDelta(100, 10))
    live.call()
    assert live.shown == [(110, 1000, 450, False), (110, 1000, None, True)]
    live.call()
    assert len(live.shown) == 2, "once is enough"
    live.call(whole=False)
    assert live.settle(StopReason.CANCELLED) == TurnUsage(4, 1, Usage(100, 10))
    assert len(live.shown) == 2
    again = Live(read(live.journal))
    again.prompt()
    again.call()
    assert again.shown == []


@pytest.mark.parametrize("lost", [ev.ReplyEnded, ev.Idle, (ev.ReplyEnded, ev.Idle)])
def test_what_a_journal_lost_neither_lowers_a_cost_nor_brings_one_back(lost):
    live = Live()
    for price in (PRICED, UNPRICED):
        live.prompt()
        live.call(UsageDelta(100, 10), info=price)
        live.call(UsageDelta(200, 20), info=price, whole=False)
        live.settle(StopReason.CANCELLED)
        left = Live(read([event for event in live.journal if not isinstance(event, lost)]))
        left.prompt()
        left.call(UsageDelta(10, 1))
        assert left.shown == [(11, 1000, None, True) if price is UNPRICED else (11, 1000, 1395, False)]


def test_a_session_from_before_calls_were_counted_has_no_cost():
    old = [U, ev.ReplyEnded("p", "m"), ev.UsageUpdate(17, 1000), ev.Idle(StopReason.END_TURN)]
    live = Live(read(old))
    live.prompt()
    live.call(UsageDelta(100, 10))
    assert live.settle() == TurnUsage(1, 1, Usage(100, 10), 450)
    assert live.shown == [(110, 1000, None, False)]


def test_a_refused_prompt_leaves_no_trace():
    live = Live()
    live.prompt()
    live.call(UsageDelta(100, 10))
    live.settle()
    mark = live.meter.mark()
    live.meter.apply(U)
    live.call(UsageDelta(5, 5), info=UNPRICED)
    live.meter.begin(lambda: Counted(Usage(1, 1), None, 1))
    live.meter.rewind(mark)
    assert live.meter.cost_pico_usd == 450
    assert live.meter.turn_usage() is None
    live.prompt()
    live.call(UsageDelta(100, 10))
    assert live.shown[-1] == (110, 1000, 900, False)


# -- whatever happens ------------------------------------------------------------------------------

deltas = st.builds(
    UsageDelta,
    *[st.integers(-2, 2000)] * 5,
    st.none() | st.integers(-5, 10**6),
)
calls = st.tuples(st.lists(deltas, max_size=3), st.sampled_from([PRICED, PRICED, PRICED, UNPRICED]))
turns = st.tuples(st.lists(calls, max_size=4), st.booleans(), st.booleans())


@given(st.lists(turns, max_size=5))
def test_the_costs_of_all_calls_are_the_cost_of_the_session(session):
    live, journal = Live(), []
    spent, known = 0, True
    for made, cut, crashed in session:
        live.prompt()
        for number, (told, info) in enumerate(made):
            last = number == len(made) - 1
            whole = not (last and (cut or crashed))
            live.call(*told, info=info, whole=whole)
            call = counted(told[-1], info) if told else None
            if crashed and last:
                break  # what only this process knew is lost with it
            if call is not None and call.cost_pico_usd is not None:
                spent += call.cost_pico_usd
            elif call is not None or whole:
                known = False
        if not crashed:
            took = live.settle(StopReason.CANCELLED if cut else StopReason.END_TURN)
            assert (took is None) == (not made)
            if took is not None:
                assert took.model_calls == len(made)
        journal += live.journal
        live = Live(read(journal))  # another process goes on
        assert live.meter.cost_pico_usd == (spent if known else None)
        told = [cost for _, _, cost, _ in live.shown if cost is not None]
        assert told == sorted(told)
