"""The table of open calls and the records of a call: in their order, each once, whatever ends the call, and
how long it took by a clock that the test sets. A call that only reads has all of them at its end.
"""

import pytest

from term2_acp.agent.calls import OpenCalls, new_call
from term2_acp.domain import events as ev
from term2_acp.domain.toolcall import DecidedBy, Effect, FileDigests, ToolCallUpdate, ToolStatus
from term2_acp.providers.base import ToolCallDelta
from term2_acp.tools.base import Description, Outcome
from term2_acp.tools.registry import TOOLS

CHANGES = (FileDigests("/w/a", None, "ab"),)
OUTCOME = Outcome("done")


class Clock:
    """``at`` is the time in seconds."""

    at = 100.0

    def now(self):
        return self.at


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def calls(clock):
    return OpenCalls(clock.now)


def opened(calls, name):
    """A call that was announced and decided about."""
    call = new_call(ToolCallDelta("p", name, '{"x":1}'), TOOLS[name], None, Description(name))
    (prepared, _shown) = calls.announce(call)
    # Of the tool's name, NUL and the arguments as the model wrote them.
    assert prepared.digest == DIGESTS[name]
    decided = ev.ToolCallDecided(call.tool_call_id, allowed=True, by=DecidedBy.POLICY, mode="standard")
    call.unwritten.append(decided)
    return call, decided


DIGESTS = {
    "create_file": "5cf7ab3543c721abdb0e8f20135547cb39334b9fcbc0136bcafbbef6f11c0a58",
    "read_file": "6ff2b68946af726c98e66c0a3a4fefd5b4aff32477ef411182959062a47ce138",
}


def settled(call, effect, result, took_ms, *, failed):
    return ev.ToolCallSettled(call.tool_call_id, effect, result, failed, took_ms)


def test_a_call_that_changes_something_is_recorded_before_it_acts_and_when_it_has(calls, clock):
    call, decided = opened(calls, "create_file")
    assert calls.dispatch(call, CHANGES) == [decided, ev.ToolCallDispatched(call.tool_call_id, CHANGES)]
    clock.at += 1.2344
    record, shown = calls.complete(call, OUTCOME)
    assert record == settled(call, Effect.COMMITTED, "done", 1234, failed=False)
    assert shown == ToolCallUpdate(call.tool_call_id, status=ToolStatus.COMPLETED, raw_output={})
    assert not calls.is_open(call)


def test_a_call_that_only_reads_is_recorded_when_it_ends(calls, clock):
    call, decided = opened(calls, "read_file")
    assert calls.dispatch(call, ()) == []
    clock.at += 0.002
    *records, _shown = calls.complete(call, OUTCOME)
    assert records == [
        decided,
        ev.ToolCallDispatched(call.tool_call_id),
        settled(call, Effect.COMMITTED, "done", 2, failed=False),
    ]


ENDS = {
    "fail": lambda calls, call: calls.fail(call, "no"),
    "lose": lambda calls, call: calls.lose(call, "no"),
    "cancel": lambda calls, call: calls.settle_all(None),
    "failure": lambda calls, call: calls.settle_all("no"),
    "given up": lambda calls, call: calls.settle_all(None, at_work=True),
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("name", ["create_file", "read_file"])
@pytest.mark.parametrize("dispatched", [True, False])
def test_every_end_comes_after_what_was_recorded_of_it(calls, clock, end, name, dispatched):
    call, decided = opened(calls, name)
    written = calls.dispatch(call, ()) if dispatched else []
    clock.at += 3
    events = written + ENDS[end](calls, call)
    kinds = [type(event) for event in events]
    expected = [ev.ToolCallDecided, *([ev.ToolCallDispatched] if dispatched else []), ev.ToolCallSettled]
    assert kinds == [*expected, ToolCallUpdate]
    assert events[0] == decided
    assert events[-2].took_ms == (3000 if dispatched else None)
    assert call.unwritten == []
    assert len(calls) == 0


def test_a_call_that_was_never_decided_about_has_no_such_record(calls):
    call = new_call(ToolCallDelta("p", "nobody", "{}"), None, None, Description("?"))
    calls.announce(call)
    assert [type(event) for event in calls.fail(call, "no")] == [ev.ToolCallSettled, ToolCallUpdate]
