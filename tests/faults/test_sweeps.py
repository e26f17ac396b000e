"""A fault at every step of a turn: a cancel, a close, a client that goes away; and at every frame.

The scenario has what can go wrong in a turn: words, two calls side by side of which one asks, a call with
an effect that asks, a failing call, and a last word. After each fault the same things must hold: exactly
one idle, every call final, no ask open, nothing left running in the session, an effect only where its call
says ``completed``, and a journal that replays to what the client saw.
"""

import pytest
import trio

from tests.kit.fold import fold
from tests.kit.indoors import Indoors, indoors
from tests.kit.steps import at_step, seeded
from tests.kit.wire import Refused

SCRIPT = """
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [
    { thought = "hm" },
    { text = "I look.", chunk = 3 },
    { call = "reading_probe", arguments = { name = "r1", asks = true } },
    { call = "reading_probe", arguments = { name = "r2" } },
    { call = "probe", arguments = { name = "p1", asks = true } },
    { call = "probe", arguments = { name = "p2", fails = true } },
]
[[rules.replies]]
steps = [{ text = "Done." }]

[[rules]]
[[rules.replies]]
steps = [{ text = "Hello." }]
"""

SEEDS = range(3)
# More than the scenario has steps with any of the seeds; a sweep ends where its fault comes too late.
MOST_STEPS = 400


def allow(ask):
    return {"outcome": {"outcome": "selected", "optionId": "approve"}}


def effects(daemon: Indoors, calls) -> None:
    """What ran is what its call says."""
    ran = daemon.probe.ran + daemon.reading.ran
    done = [call["rawInput"]["name"] for call in calls if call["status"] == "completed"]
    assert sorted(ran) == sorted(done)


async def replayed(daemon: Indoors, session_id: str):
    """What a resume of the closed session shows, from its journal."""
    start = len(daemon.editor.frames)
    params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
    assert await daemon.editor.request("session/resume", params) == {}
    return fold(daemon.editor.updates(session_id, start))


async def swept(daemon: Indoors, k: int, fault: str) -> bool:
    """Run the scenario with one fault at step ``k``; whether the turn had as many steps."""
    editor = daemon.editor
    daemon.probe.ran.clear()
    daemon.reading.ran.clear()
    session_id = await editor.new_session(daemon.workspace)
    session = daemon.session(session_id)
    act = session.begin_close_nowait if fault == "close" else session.cancel_nowait
    with at_step(k, act) as armed:
        try:
            turn = await editor.begin(session_id, "go")
        except Refused as refused:
            if (fault, refused.code) != ("close", -32002):
                raise
            return True  # it was closed before the prompt was read
        reason = await turn.ended()
        acted = armed.acted
    await trio.testing.wait_all_tasks_blocked()
    in_time = acted and reason == "cancelled"
    assert reason == ("cancelled" if in_time else "end_turn")
    assert len([u for u in turn.of("state_update") if u["state"] == "idle"]) == 1
    assert turn.updates[-1]["state"] == "idle"
    calls = list(turn.calls.values())
    assert all(call["status"] in ("completed", "failed", "cancelled") for call in calls)
    assert all("rawOutput" in call for call in calls)
    effects(daemon, calls)
    assert not session.running
    assert session.hands is None or len(session.hands.open_calls) == 0
    assert session.hands is None or not session.hands.broker._open
    assert session._work is not None
    assert not session._work.child_tasks
    if not session.closing:
        assert (await editor.prompt(session_id, "hi")).text == "Hello."
    live = fold(editor.updates(session_id))
    await editor.request("session/close", {"sessionId": session_id})
    assert session.ended.is_set()
    assert await replayed(daemon, session_id) == live
    return acted


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("fault", ["cancel", "close"])
async def test_a_fault_at_every_step(tmp_path, autojump_clock, fault, seed):
    with seeded(seed):
        async with indoors(tmp_path, SCRIPT) as daemon:
            daemon.editor.on_ask = allow
            await daemon.editor.initialize()
            reached = 0
            for k in range(1, MOST_STEPS):
                if not await swept(daemon, k, fault):
                    break
                reached = k
    assert 20 < reached < MOST_STEPS - 1, "the sweep has to begin before the turn and to reach its end"


async def gone_at(root, n: int) -> bool:
    """Run the scenario with a client that goes away at frame ``n`` of the turn; whether it had so many."""
    async with indoors(root, SCRIPT) as daemon:
        editor = daemon.editor
        editor.on_ask = allow
        await editor.initialize()
        session_id = await editor.new_session(daemon.workspace)
        session = daemon.session(session_id)
        start = len(editor.frames)
        await editor.begin(session_id, "go")
        with trio.move_on_after(1) as waited:
            await editor.frame(lambda _frame: len(editor.frames) - start >= n)
        daemon.wire.break_()
    assert not session.running
    assert session.ended.is_set()
    assert session.hands is None or len(session.hands.open_calls) == 0
    async with indoors(root, SCRIPT) as second:
        await second.editor.initialize()
        kept = await replayed(second, session_id)
    calls = [thing for thing in kept["things"] if thing["is"] == "tool_call"]
    assert all(call["status"] in ("completed", "failed", "cancelled") for call in calls)
    effects(daemon, calls)
    return not waited.cancelled_caught


async def test_a_client_gone_at_every_frame(tmp_path, autojump_clock):
    n = 0
    more = True
    while more:
        n += 1
        root = tmp_path / str(n)
        root.mkdir()
        with seeded(n):
            more = await gone_at(root, n)
    assert n > 20, "the turn has more frames than that"
