"""Tokens and money of a session as its client sees them: after each call, at each way a turn can end, in
another process, and after a crash. The order checker holds every frame of these tests to what makes sense."""

import shutil
from contextlib import asynccontextmanager

import pytest
import trio

from term2_acp.domain.usage import Prices, Usage
from term2_acp.providers.base import (
    Failed,
    Finish,
    Finished,
    ModelInfo,
    Overloaded,
    TextDelta,
    ToolCallDelta,
    UsageDelta,
    wait_silently,
)
from term2_acp.store.schema import open_database
from tests.kit.fold import fold
from tests.kit.indoors import indoors
from tests.kit.model import HANG, OK, Model
from tests.kit.steps import at_step, seeded
from tests.kit.wire import Refused

# 3 USD a million tokens read, 15 written, 0.30 from a cache, 3.75 into one.
PRICES = Prices(3_000_000, 15_000_000, 300_000, 3_750_000)
PRICED = ModelInfo(200_000, prices=PRICES)
UNPRICED = ModelInfo(200_000)
CALL = ToolCallDelta("1", "probe", '{"name": "a"}')


def plays(*replies, info=PRICED):
    return Model(*replies, info=info)


def usd(amount):
    return {"amount": amount, "currency": "USD"}


def took(turn):
    return turn.updates[-1]["_meta"]["term2"]["usage"]


def shown(turn):
    return [(u["used"], u["size"], u.get("cost", "not told")) for u in turn.of("usage_update")]


def resume(daemon, session_id, *, replay=True):
    params = {"sessionId": session_id, "cwd": str(daemon.workspace)}
    return {**params, "replayFrom": {"type": "start"}} if replay else params


async def test_after_each_call_and_on_the_idle(tmp_path, autojump_clock):
    model = plays(
        [TextDelta("I look."), CALL, UsageDelta(10_000, 500, 8000, 1000, 400), Finished(Finish.TOOL_CALLS)],
        [TextDelta("Done."), UsageDelta(11_000, 100), UsageDelta(12_000, 200), OK],
        [TextDelta("Again."), UsageDelta(13_000, 0, cost_pico_usd=500_000), OK],
    )
    async with indoors(tmp_path, provider=model) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.ended()
        # 1000 * 3 + 8000 * 0.3 + 1000 * 3.75 + 500 * 15, then 12,000 * 3 + 200 * 15, in millionths.
        assert shown(turn) == [(10_500, 200_000, usd(0.01665)), (12_200, 200_000, usd(0.05565))]
        assert took(turn) == {
            "modelCalls": 2,
            "countedCalls": 2,
            "inputTokens": 22_000,
            "outputTokens": 700,
            "cacheReadTokens": 8000,
            "cacheWriteTokens": 1000,
            "thoughtTokens": 400,
            "costUsd": 0.05565,
        }
        order = [update["sessionUpdate"] for update in turn.updates]
        assert order.index("usage_update") > order.index("agent_message_chunk")
        assert order[-2:] == ["usage_update", "state_update"]
        second = await daemon.editor.prompt(session_id, "again")
        # The server's own word for its price counts, not the catalog's.
        assert shown(second) == [(13_000, 200_000, usd(0.0556505))]
        assert took(second)["costUsd"] == 0.0000005
        assert daemon.session(session_id).meter.cost_pico_usd == 55_650_500_000


ENDS = {
    "cancelled": ([TextDelta("I beg"), UsageDelta(1000, 7), HANG], "cancelled"),
    "failed": ([TextDelta("I beg"), UsageDelta(1000, 7), Failed(Overloaded("No."))], "_term2_error"),
    "refused": ([TextDelta("No."), UsageDelta(1000, 7), Finished(Finish.REFUSAL)], "refusal"),
    "cut at its length": ([TextDelta("I"), UsageDelta(1000, 7), Finished(Finish.LENGTH)], "max_tokens"),
    "nonsense": ([UsageDelta(1000, 7), Finished(Finish.TOOL_CALLS)], "_term2_error"),
    "out of calls": ([CALL, UsageDelta(1000, 7), Finished(Finish.TOOL_CALLS)], "max_turn_requests"),
}


@pytest.mark.parametrize(("reply", "reason"), ENDS.values(), ids=ENDS)
async def test_however_a_turn_ends_what_was_counted_stands(tmp_path, autojump_clock, reply, reason):
    first = [CALL, UsageDelta(2000, 1), Finished(Finish.TOOL_CALLS)]
    async with indoors(tmp_path, provider=plays(first, reply), model_calls=2) as daemon:
        session_id, turn = await daemon.begin("go")
        if reason == "cancelled":
            await turn.seen("agent_message_chunk")
            await daemon.editor.cancel(session_id)
        assert await turn.ended() == reason
        assert shown(turn) == [(2001, 200_000, usd(0.006015)), (1007, 200_000, usd(0.00912))]
        assert took(turn) == {
            "modelCalls": 2,
            "countedCalls": 2,
            "inputTokens": 3000,
            "outputTokens": 8,
            **dict.fromkeys(["cacheReadTokens", "cacheWriteTokens", "thoughtTokens"], 0),
            "costUsd": 0.00912,
        }
        assert ("error" in turn.updates[-1]["_meta"]["term2"]) == (reason == "_term2_error")
        second = await daemon.editor.prompt(session_id, "again")
        assert shown(second) == [(10, 200_000, usd(0.00915))]


@pytest.mark.parametrize("end", [HANG, Failed(Overloaded("No."))], ids=["cancelled", "failed"])
async def test_a_call_that_was_cut_before_its_count_is_a_call_and_hides_no_cost(
    tmp_path, autojump_clock, end
):
    async with indoors(tmp_path, provider=plays([TextDelta("I beg"), end])) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.seen("agent_message_chunk")
        await daemon.editor.cancel(session_id)
        await turn.ended()
        assert shown(turn) == []
        assert took(turn)["modelCalls"] == 1
        assert took(turn)["countedCalls"] == 0
        assert "costUsd" not in took(turn)
        second = await daemon.editor.prompt(session_id, "again")
        assert shown(second) == [(10, 200_000, usd(0.00003))]


class Deaf(Model):
    """A model whose stream gives way to no cancel once its reply is said, until ``release`` is set."""

    def __init__(self, *replies, info):
        super().__init__(*replies, info=info)
        self.release = trio.Event()

    @asynccontextmanager
    async def stream(self, request, on_wait=wait_silently):
        async with super().stream(request, on_wait) as stream:
            self.receive_really, self.left = stream.receive, 2
            yield self

    async def receive(self):
        if self.left:
            self.left -= 1
            return await self.receive_really()
        with trio.CancelScope(shield=True):
            await self.release.wait()
        return [OK]


async def test_a_turn_that_had_to_be_given_up_tells_what_was_counted(tmp_path, autojump_clock):
    model = Deaf([UsageDelta(1000, 7), TextDelta("I beg")], info=PRICED)
    async with indoors(tmp_path, provider=model) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.seen("agent_message_chunk")
        refused = await daemon.editor.refused("session/close", {"sessionId": session_id})
        assert refused.code == -32603
        assert turn.updates[-1]["stopReason"] == "cancelled"
        assert took(turn)["costUsd"] == 0.003105
        assert shown(turn) == [(1007, 200_000, usd(0.003105))]
        model.release.set()


async def test_a_turn_that_is_cancelled_before_it_asks_a_model_took_nothing(tmp_path, autojump_clock):
    model = plays()
    async with indoors(tmp_path, provider=model) as daemon:
        await daemon.editor.initialize()
        session_id = await daemon.editor.new_session(daemon.workspace)
        call = daemon.editor.prepare("session/prompt")
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": "hi"}]}
        await daemon.editor.send(daemon.editor.request_frame(call, params))
        await daemon.editor.cancel(session_id)
        idle = await daemon.editor.update(session_id, lambda update: update.get("state") == "idle")
        assert idle == {"sessionUpdate": "state_update", "state": "idle", "stopReason": "cancelled"}
    assert model.asked == []


async def test_a_server_that_counts_nothing(tmp_path, autojump_clock):
    model = plays([TextDelta("a"), OK], [TextDelta("b"), UsageDelta(0, 0), OK])
    async with indoors(tmp_path, provider=model) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.ended()
        assert shown(turn) == []
        assert (took(turn)["modelCalls"], took(turn)["countedCalls"]) == (1, 0)
        assert "costUsd" not in took(turn)
        second = await daemon.editor.prompt(session_id, "go on")
        assert shown(second) == [], "zeros are no count"
        third = await daemon.editor.prompt(session_id, "go on")
        assert shown(third) == [(10, 200_000, "not told")], "what the first calls cost nobody knows"
        assert took(third)["costUsd"] == 0.00003


async def test_a_context_that_holds_more_than_anybody_knew(tmp_path, autojump_clock):
    model = plays([UsageDelta(9000, 100), OK], info=ModelInfo(8192))
    async with indoors(tmp_path, provider=model) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.ended()
        assert shown(turn) == [(9100, 9100, "not told")]
        second = await daemon.editor.prompt(session_id, "again")
        assert shown(second) == [(10, 8192, "not told")]


# -- another process -------------------------------------------------------------------------------


@pytest.mark.parametrize("replay", [True, False])
async def test_the_cost_goes_on_in_another_process(tmp_path, autojump_clock, replay):
    cut = [TextDelta("I beg"), UsageDelta(1000, 7), HANG]
    async with indoors(tmp_path, provider=plays([UsageDelta(2000, 1), OK], cut)) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.ended()
        turn = await daemon.editor.begin(session_id, "more")
        await turn.seen("agent_message_chunk")
        await daemon.editor.request("session/close", {"sessionId": session_id})
        assert shown(turn) == [(1007, 200_000, usd(0.00912))]
        live = fold(daemon.editor.updates(session_id))
    for again, amount in ((1, 0.00915), (2, 0.00918)):
        async with indoors(tmp_path, provider=plays()) as daemon:
            editor = daemon.editor
            await editor.initialize()
            start = len(editor.frames)
            await editor.request("session/resume", resume(daemon, session_id, replay=replay))
            updates = editor.updates(session_id, start)
            assert updates[-1] == {"sessionUpdate": "state_update", "state": "idle"}
            usage = [update for update in updates if update["sessionUpdate"] == "usage_update"]
            assert len(usage) == replay
            if replay and again == 1:
                assert fold(updates) == live
                assert usage[0]["cost"] == usd(0.00912)
            turn = await editor.prompt(session_id, "on")
            assert shown(turn) == [(10, 200_000, usd(amount))]


async def test_the_cost_survives_a_crash(tmp_path, autojump_clock):
    reply = [CALL, UsageDelta(2000, 1), Finished(Finish.TOOL_CALLS)]
    state, left = tmp_path / "state", tmp_path / "left"
    model = plays([UsageDelta(1000, 0), OK], reply, [TextDelta("I beg"), UsageDelta(5000, 1), HANG])
    async with indoors(tmp_path, provider=model) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.ended()
        turn = await daemon.editor.begin(session_id, "more")
        await turn.seen("agent_message_chunk")
        shutil.copytree(state, left)  # what a process that is killed now leaves behind
        await daemon.editor.cancel(session_id)
        await turn.ended()
    shutil.rmtree(state)
    left.rename(state)
    async with indoors(tmp_path, provider=plays()) as daemon:
        editor = daemon.editor
        await editor.initialize()
        start = len(editor.frames)
        await editor.request("session/resume", resume(daemon, session_id))
        updates = editor.updates(session_id, start)
        (usage,) = [update for update in updates if update["sessionUpdate"] == "usage_update"]
        assert (usage["used"], usage["cost"]) == (2001, usd(0.009015))
        turn = await editor.prompt(session_id, "on")
        assert shown(turn) == [(10, 200_000, usd(0.009045))]


async def test_a_cost_that_nobody_knows_any_more_is_taken_away_everywhere(tmp_path, autojump_clock):
    model = plays()
    async with indoors(tmp_path, provider=model) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.ended()
        assert shown(turn) == [(10, 200_000, usd(0.00003))]
        model.info = UNPRICED
        second = await daemon.editor.prompt(session_id, "on")
        assert shown(second) == [(10, 200_000, None)]
        assert "costUsd" not in took(second)
        live = fold(daemon.editor.updates(session_id))
    async with indoors(tmp_path, provider=plays()) as daemon:
        editor = daemon.editor
        await editor.initialize()
        start = len(editor.frames)
        await editor.request("session/resume", resume(daemon, session_id))
        assert fold(editor.updates(session_id, start)) == live
        third = await editor.prompt(session_id, "on")
        assert shown(third) == [(10, 200_000, None)]
        assert took(third)["costUsd"] == 0.00003


async def test_a_reply_that_nobody_counted_takes_the_cost_away_at_once(tmp_path, autojump_clock):
    model = plays([UsageDelta(10, 0), OK], [TextDelta("b"), OK])
    async with indoors(tmp_path, provider=model) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.ended()
        assert shown(turn) == [(10, 200_000, usd(0.00003))]
        second = await daemon.editor.prompt(session_id, "on")
        assert shown(second) == [(10, 200_000, None)]
        assert [update["sessionUpdate"] for update in second.updates[-2:]] == ["usage_update", "state_update"]
        live = fold(daemon.editor.updates(session_id))
    async with indoors(tmp_path, provider=plays()) as daemon:
        await daemon.editor.initialize()
        start = len(daemon.editor.frames)
        await daemon.editor.request("session/resume", resume(daemon, session_id))
        assert fold(daemon.editor.updates(session_id, start)) == live


async def test_a_damaged_journal_lets_no_cost_fall(tmp_path, autojump_clock):
    connections = []

    def connect(path):
        connections.append(open_database(path))
        return connections[-1]

    async with indoors(tmp_path, provider=plays([UsageDelta(1000, 0), OK]), connect=connect) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.ended()
        assert shown(turn) == [(1000, 200_000, usd(0.003))]
        await daemon.editor.request("session/close", {"sessionId": session_id})
        connections[0].execute("UPDATE journal SET body = x'00' WHERE kind IN ('reply_ended', 'idle')")
        await daemon.editor.request("session/resume", resume(daemon, session_id))
        second = await daemon.editor.prompt(session_id, "on")
        assert shown(second) == [(10, 200_000, usd(0.00303))]


# -- whatever is cancelled when --------------------------------------------------------------------


def counting():
    """Replies whose counts come early, late, and in several words."""
    return [
        [UsageDelta(1000, 1), TextDelta("I look."), CALL, UsageDelta(1000, 9), Finished(Finish.TOOL_CALLS)],
        [TextDelta("Do"), UsageDelta(2000, 1, 1000), TextDelta("ne."), UsageDelta(2000, 4, 1000), OK],
    ]


@pytest.mark.parametrize("fault", ["cancel", "close"])
async def test_at_whatever_step_a_turn_ends_the_cost_is_that_of_its_calls(tmp_path, autojump_clock, fault):
    # What the calls of the turn can have cost by the moment that it ended, in pico-USD.
    first, first_whole, second, second_whole = (
        PRICES.of(Usage(*tokens)) for tokens in ((1000, 1), (1000, 9), (2000, 1, 1000), (2000, 4, 1000))
    )
    possible = [0, first, first_whole, first_whole + second, first_whole + second_whole]
    met = set()
    acted, k = True, 0
    model = plays()
    with seeded(1):
        async with indoors(tmp_path, provider=model) as daemon:
            await daemon.editor.initialize()
            while acted:
                k += 1
                acted, cost = await swept(daemon, model, k, fault)
                met.add(cost)
    assert met == set(possible)
    assert k > 20


async def swept(daemon, model, k, fault):
    """One turn with a fault at step ``k``: whether it came so far, and what it cost."""
    editor = daemon.editor
    session_id = await editor.new_session(daemon.workspace)
    model.replies = []
    await editor.prompt(session_id, "hi")  # 10 tokens that were paid before
    session = daemon.session(session_id)
    act = session.begin_close_nowait if fault == "close" else session.cancel_nowait
    model.replies = counting()
    with at_step(k, act) as armed:
        try:
            turn = await editor.begin(session_id, "go")
        except Refused as refused:
            if (fault, refused.code) != ("close", -32002):
                raise
            return True, 0  # it was closed before the prompt was read
        await turn.ended()
        acted = armed.acted
    before = PRICES.of(Usage(10))
    spent = session.meter.cost_pico_usd - before
    usage = turn.updates[-1].get("_meta", {}).get("term2", {}).get("usage", {})
    assert round(usage.get("costUsd", 0) * 10**12) == spent
    await editor.request("session/close", {"sessionId": session_id})
    await editor.request("session/resume", resume(daemon, session_id, replay=False))
    assert daemon.session(session_id).meter.cost_pico_usd == before + spent
    return acted, spent
