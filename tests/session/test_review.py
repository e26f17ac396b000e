"""What review proved: close and resume together, a store that fails and comes back, tools that are stuck."""

import contextlib
import json
import tracemalloc
from contextlib import asynccontextmanager

import pytest
import trio

from term2_acp.acp.v2.client import V2Client
from term2_acp.domain.content import Text
from term2_acp.domain.ids import ToolCallId
from term2_acp.domain.toolcall import ToolCallUpdate, ToolStatus
from term2_acp.providers.base import Finish, Finished, ModelInfo, TextDelta, ToolCallDelta
from term2_acp.redact import Redactor
from term2_acp.session.replay import Replay
from term2_acp.session.title import title_of
from term2_acp.store import StoreFailed
from term2_acp.store.errors import FULL
from tests.kit.fold import fold
from tests.kit.indoors import Probe, indoors
from tests.kit.steps import at_step, seeded
from tests.kit.wire import Refused

HI = """
[[rules]]
[[rules.replies]]
steps = [{ text = "Hello." }]
"""


def resume(daemon, session_id):
    return {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}


@pytest.mark.parametrize("order", [("session/close", "session/resume"), ("session/resume", "session/close")])
async def test_a_close_and_a_resume_in_one_read_are_both_answered(tmp_path, autojump_clock, order):
    async with indoors(tmp_path, HI) as daemon:
        editor = daemon.editor
        await editor.initialize()
        session_id = await editor.new_session(daemon.workspace)
        await editor.prompt(session_id, "hi")
        unwatched(editor)
        calls, data = [], b""
        for method in order:
            params = resume(daemon, session_id) if method == "session/resume" else {"sessionId": session_id}
            call = editor.prepare(method)
            frame = editor.request_frame(call, params)
            calls.append(call)
            data += json.dumps(frame).encode() + b"\n"
        await editor.send_bytes(data)
        for call in calls:
            assert await call.result() == {}


class Failing:
    """Fails the appends that ``when`` picks, as a full disk does."""

    def __init__(self, store, when):
        self.append_really = store.append
        self.when = when
        self.failed = 0
        store.append = self.append

    async def append(self, session_id, events):
        if self.when(events):
            self.failed += 1
            await trio.lowlevel.checkpoint()
            raise StoreFailed.because(FULL)
        await self.append_really(session_id, events)


def has(kind, **members):
    def when(events):
        return any(
            type(e).__name__ == kind and all(getattr(e, k) == v for k, v in members.items()) for e in events
        )

    return when


async def start(daemon, when):
    await daemon.editor.initialize()
    session_id = await daemon.editor.new_session(daemon.workspace)
    failing = Failing(daemon.session(session_id).parts.store, when)
    return session_id, failing


def unwatched(editor):
    editor.order = editor.gate = None


async def test_a_reply_that_cannot_be_kept_with_its_idle_is_no_end_turn(tmp_path, autojump_clock):
    async with indoors(tmp_path, HI) as daemon:
        session_id, _failing = await start(daemon, has("Idle"))
        turn = await daemon.editor.begin(session_id, "hi")
        reason = await turn.ended()
    assert (reason, "disk" in turn.text) == ("_term2_error", True) or turn.text == "Hello."


CALL = """
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [{ call = "probe", arguments = { name = "a", asks = @ASKS@ } }]
[[rules.replies]]
steps = [{ text = "Done." }]

[[rules]]
[[rules.replies]]
steps = [{ text = "Hello." }]
"""


@pytest.mark.parametrize("asks", ["false", "true"])
async def test_a_call_whose_announcement_was_lost_is_never_spoken_of(tmp_path, autojump_clock, asks):
    async with indoors(tmp_path, CALL.replace("@ASKS@", asks)) as daemon:
        once = [True]

        def when(events):
            return has("ToolCallPrepared")(events) and once and bool(once.pop())

        session_id, failing = await start(daemon, when)
        unwatched(daemon.editor)
        turn = await daemon.editor.begin(session_id, "go")
        reason = await turn.ended()
        asked = [f for f in daemon.editor.frames if f.get("method") == "session/request_permission"]
        assert failing.failed == 1
        assert reason == "_term2_error"
        assert not turn.of("tool_call_update")
        assert not asked
        live = fold(daemon.editor.updates(session_id))
        start_ = len(daemon.editor.frames)
        await daemon.editor.request("session/close", {"sessionId": session_id})
        await daemon.editor.request("session/resume", resume(daemon, session_id))
        replay = daemon.editor.updates(session_id, start_)
        assert not [u for u in replay if u["sessionUpdate"] == "tool_call_update"]
        assert fold(replay) == live


class Stuck(Probe):
    name = "stuck"

    async def run(self, prepared, context):
        with trio.CancelScope(shield=True):
            await trio.sleep(60)
        return await super().run(prepared, context)


async def test_a_close_of_a_turn_that_does_not_settle_is_answered_within_its_bound(tmp_path, autojump_clock):
    script = CALL.replace('"probe"', '"stuck"').replace("@ASKS@", "false")
    async with indoors(tmp_path, script, more_tools={"stuck": Stuck()}) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.seen("tool_call_update", status="in_progress")
        begun = trio.current_time()
        close = await daemon.editor.call("session/close", {"sessionId": session_id})
        with pytest.raises(Refused) as refused:
            await close.result()
        assert refused.value.code == -32603
        assert trio.current_time() - begun < 5


class Deep:
    """A model that calls a tool with arguments as deep as it likes, and then says a word."""

    name = "deep"
    merge_text = True
    asks_for_edits = False

    def __init__(self, arguments):
        self.replies = [
            [ToolCallDelta("x", "probe", arguments), Finished(Finish.TOOL_CALLS)],
            [TextDelta("Done."), Finished(Finish.STOP)],
        ]

    def describe(self, model):
        return ModelInfo(1000)

    def rest_nowait(self):
        pass

    @asynccontextmanager
    async def stream(self, request, on_wait):
        yield self

    async def receive(self):
        await trio.lowlevel.checkpoint()
        return self.replies.pop(0)

    async def aclose(self):
        await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("secrets", [(), ("sk-a-very-secret-key",)])
@pytest.mark.parametrize("depth", [100, 300, 600, 1200, 3000, 50000])
async def test_arguments_however_deep_end_as_a_call_that_failed(tmp_path, autojump_clock, depth, secrets):
    arguments = '{"name":' + "[" * depth + "]" * depth + "}"
    async with indoors(tmp_path, provider=Deep(arguments), secrets=secrets) as daemon:
        session_id, turn = await daemon.begin("go")
        assert await turn.ended() == "end_turn"
        (call,) = turn.calls.values()
        assert call["status"] == "failed"
        await daemon.editor.request("session/close", {"sessionId": session_id})
        await daemon.editor.request("session/resume", resume(daemon, session_id))


async def test_a_title_does_not_hold_the_beginning_of_a_key(tmp_path, autojump_clock):
    key = "sk-" + "abcdefghij" * 4
    async with indoors(tmp_path, HI, secrets=(key,)) as daemon:
        await daemon.editor.initialize()
        session_id = await daemon.editor.new_session(daemon.workspace)
        turn = await daemon.editor.prompt(session_id, "x" * 50 + " " + key)
        (info,) = turn.of("session_info_update")
        assert "sk-abc" not in info["title"]


async def test_cancelling_the_request_of_one_turn_leaves_the_next_alone(
    tmp_path, autojump_clock, monkeypatch
):
    script = """
[[rules]]
match = "^wait$"
[[rules.replies]]
steps = [{ text = "x" }, { hang = true }]
[[rules]]
[[rules.replies]]
steps = [{ text = "Hello." }]
"""
    async with indoors(tmp_path, script) as daemon:
        editor = daemon.editor
        await editor.initialize()
        session_id = await editor.new_session(daemon.workspace)
        session = daemon.session(session_id)
        ready = trio.Event()

        async def never(_client):
            await ready.wait()

        monkeypatch.setattr(V2Client, "ready", never)
        monkeypatch.setattr(V2Client, "behind", True)
        first = await editor.call(
            "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": "wait"}]}
        )
        await trio.testing.wait_all_tasks_blocked()
        await editor.cancel(session_id)
        await trio.testing.wait_all_tasks_blocked()
        second = await editor.call(
            "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": "wait"}]}
        )
        await trio.testing.wait_all_tasks_blocked()
        before = session.turn
        await editor.notify("$/cancel_request", {"requestId": first.request_id})
        await trio.testing.wait_all_tasks_blocked()
        assert session.turn is before, "the second turn was stopped by the cancel of the first request"
        ready.set()
        await first.result()
        await editor.cancel(session_id)
        with contextlib.suppress(Refused):  # busy, where a prompt is not admitted before the last is answered
            await second.result()


async def test_a_stuck_client_does_not_keep_the_end_of_a_turn_out_of_the_journal(
    tmp_path, autojump_clock, monkeypatch
):
    script = """
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [{ call = "probe", arguments = { name = "a" } }, { text = "@" }]
[[rules.replies]]
steps = [{ hang = true }]
[[rules]]
[[rules.replies]]
steps = [{ text = "Hello." }]
"""
    async with indoors(tmp_path, script) as daemon:
        editor = daemon.editor
        await editor.initialize()
        session_id = await editor.new_session(daemon.workspace)

        async def never(_client):
            await trio.sleep_forever()

        begun = await editor.begin(session_id, "go")
        await begun.seen("tool_call_update", status="pending")
        monkeypatch.setattr(V2Client, "ready", never)
        monkeypatch.setattr(V2Client, "behind", True)
        await trio.testing.wait_all_tasks_blocked()
        editor.check_ended_well = lambda: None
    monkeypatch.undo()
    async with indoors(tmp_path, script) as second:
        await second.editor.initialize()
        start_ = len(second.editor.frames)
        await second.editor.request("session/resume", resume(second, session_id))
        replay = second.editor.updates(session_id, start_)
    words = json.dumps(replay)
    assert "stopped during this turn" not in words


class Slow(Failing):
    """As ``Failing``, but each picked append waits for ``go`` first, as a store that is locked does."""

    def __init__(self, store, when):
        super().__init__(store, when)
        self.go = trio.Event()

    async def append(self, session_id, events):
        if self.when(events):
            await self.go.wait()
        await super().append(session_id, events)


async def test_a_refused_prompt_takes_no_later_prompt_with_it(tmp_path, autojump_clock):
    async with indoors(tmp_path, HI) as daemon:
        editor = daemon.editor
        await editor.initialize()
        session_id = await editor.new_session(daemon.workspace)
        slow = Slow(
            daemon.session(session_id).parts.store, lambda e: has("UserMessage")(e) and not slow.failed
        )
        unwatched(editor)
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": "hi"}]}
        first = await editor.call("session/prompt", params)
        await trio.testing.wait_all_tasks_blocked()
        await editor.cancel(session_id)
        await trio.testing.wait_all_tasks_blocked()
        second = await editor.call("session/prompt", params)
        await trio.testing.wait_all_tasks_blocked()
        slow.go.set()
        for call in (first, second):
            with contextlib.suppress(Refused):  # the one cannot be kept, the other is busy
                await call.result()
        await trio.testing.wait_all_tasks_blocked()
        assert not daemon.session(session_id).running


async def test_a_refused_prompt_takes_no_resume_with_it(tmp_path, autojump_clock):
    async with indoors(tmp_path, HI) as daemon:
        editor = daemon.editor
        await editor.initialize()
        session_id = await editor.new_session(daemon.workspace)
        slow = Slow(
            daemon.session(session_id).parts.store, lambda e: has("UserMessage")(e) and not slow.failed
        )
        unwatched(editor)
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": "hi"}]}
        first = await editor.call("session/prompt", params)
        await trio.testing.wait_all_tasks_blocked()
        await editor.cancel(session_id)
        await trio.testing.wait_all_tasks_blocked()
        second = await editor.call("session/resume", resume(daemon, session_id))
        await trio.testing.wait_all_tasks_blocked()
        slow.go.set()
        with pytest.raises(Refused):
            await first.result()
        with contextlib.suppress(Refused):  # busy
            assert await second.result() == {}


async def settled(daemon, session_id):
    """The session is closed or open, and can be opened and spoken to either way: nothing was left behind."""
    editor = daemon.editor
    await trio.testing.wait_all_tasks_blocked()
    registry = daemon.core.registry
    assert not registry._opening
    assert await editor.request("session/resume", resume(daemon, session_id)) == {}
    assert (await editor.prompt(session_id, "hi")).text == "Hello."


@pytest.mark.parametrize("live", [True, False])
@pytest.mark.parametrize("second", ["session/close", "session/resume", "$/cancel_request"])
@pytest.mark.parametrize("first", ["session/close", "session/resume"])
async def test_two_requests_at_any_distance_are_both_answered(tmp_path, autojump_clock, first, second, live):
    with seeded(1):
        async with indoors(tmp_path, HI) as daemon:
            editor = daemon.editor
            await editor.initialize()
            session_id = await editor.new_session(daemon.workspace)
            await editor.prompt(session_id, "hi")
            unwatched(editor)
            params = {
                "session/close": {"sessionId": session_id},
                "session/resume": resume(daemon, session_id),
            }
            for k in range(1, 60):
                if not live:
                    await editor.request("session/close", {"sessionId": session_id})
                one, two = editor.prepare(first), editor.prepare(second)
                params["$/cancel_request"] = {"requestId": one.request_id}
                frame = editor.request_frame(two, params[second])
                if second == "$/cancel_request":
                    del frame["id"]
                    two.settle({"result": None})
                data = json.dumps(frame).encode() + b"\n"
                with at_step(k, lambda data=data: daemon.wire.feed(data)) as armed:
                    await editor.send(editor.request_frame(one, params[first]))
                    with trio.fail_after(9):
                        await one._answered.wait()
                        acted = armed.acted
                        if acted:
                            await two._answered.wait()
                await settled(daemon, session_id)
                if not acted:
                    break
            assert 5 < k < 59


async def test_a_session_new_cancelled_at_any_step_leaves_no_claim(tmp_path, autojump_clock):
    with seeded(1):
        async with indoors(tmp_path, HI) as daemon:
            editor = daemon.editor
            await editor.initialize()
            await editor.new_session(daemon.workspace)
            unwatched(editor)
            outcomes = set()
            for k in range(1, 60):
                call = editor.prepare("session/new")
                cancel = {
                    "jsonrpc": "2.0",
                    "method": "$/cancel_request",
                    "params": {"requestId": call.request_id},
                }
                data = json.dumps(cancel).encode() + b"\n"
                with at_step(k, lambda data=data: daemon.wire.feed(data)) as armed:
                    await editor.send(editor.request_frame(call, {"cwd": str(daemon.workspace)}))
                    await call._answered.wait()
                    acted = armed.acted
                await trio.testing.wait_all_tasks_blocked()
                live = set(daemon.core.registry._live)
                listed = [s["sessionId"] for s in (await editor.request("session/list", {}))["sessions"]]
                if "error" in call.answer:
                    outcomes.add(call.answer["error"]["code"])
                    assert len(live) == 1, "a session that nobody was told of"
                else:
                    outcomes.add("made")
                    await editor.request("session/close", {"sessionId": call.answer["result"]["sessionId"]})
                for session_id in set(listed) - live:
                    assert await editor.request("session/resume", resume(daemon, session_id)) == {}
                    await editor.request("session/close", {"sessionId": session_id})
                if not acted:
                    break
            assert outcomes == {"made", -32800}


@pytest.mark.parametrize("third", ["session/resume", "session/prompt"])
async def test_what_is_read_after_a_close_that_waits_for_an_opening_comes_after_it(
    tmp_path, autojump_clock, third
):
    with seeded(1):
        async with indoors(tmp_path, HI) as daemon:
            editor = daemon.editor
            await editor.initialize()
            session_id = await editor.new_session(daemon.workspace)
            await editor.prompt(session_id, "hi")
            unwatched(editor)
            bad = []
            for k in range(1, 80):
                await editor.request("session/close", {"sessionId": session_id})
                await trio.testing.wait_all_tasks_blocked()
                one, two, three = (editor.prepare(m) for m in ("session/resume", "session/close", third))
                params = (
                    resume(daemon, session_id)
                    if third == "session/resume"
                    else {"sessionId": session_id, "prompt": [{"type": "text", "text": "hi"}]}
                )
                data = json.dumps(editor.request_frame(three, params)).encode() + b"\n"
                both = b"".join(
                    json.dumps(editor.request_frame(c, p)).encode() + b"\n"
                    for c, p in ((one, resume(daemon, session_id)), (two, {"sessionId": session_id}))
                )
                with at_step(k, lambda data=data: daemon.wire.feed(data)) as armed:
                    await editor.send_bytes(both)
                    await one._answered.wait()
                    await two._answered.wait()
                    acted = armed.acted
                if not acted:
                    break
                await three._answered.wait()
                await trio.testing.wait_all_tasks_blocked()
                a = three.answer
                if k < 5:
                    continue  # the third was read first
                if third == "session/prompt" and "result" in a:
                    bad.append((k, a))
                if third == "session/resume":
                    ok = "result" in a and daemon.core.registry.find(session_id) is not None
                    ok = ok or ("error" in a and a["error"]["code"] == -32000)
                    if not ok:
                        bad.append((k, a, daemon.core.registry.find(session_id)))
            assert 5 < k < 79
            assert not bad


@pytest.mark.parametrize("asks", ["false", "true"])
async def test_a_failure_while_a_call_asks_is_told_in_a_running_turn(tmp_path, autojump_clock, asks):
    async with indoors(tmp_path, CALL.replace("@ASKS@", asks)) as daemon:
        once = [True]
        session_id, _failing = await start(
            daemon, lambda e: has("ToolCallPrepared")(e) and once and bool(once.pop())
        )
        turn = await daemon.editor.begin(session_id, "go")
        assert await turn.ended() == "_term2_error"


async def test_a_failure_while_all_that_is_left_asks_is_told_in_a_running_turn(tmp_path, autojump_clock):
    script = """
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [
    { call = "reading_probe", arguments = { name = "a", asks = true } },
    { call = "reading_probe", arguments = { name = "b" } },
]
[[rules]]
[[rules.replies]]
steps = [{ text = "Hello." }]
"""
    async with indoors(tmp_path, script) as daemon:
        session_id, _failing = await start(daemon, has("ToolCallSettled", result="probed b"))
        turn = await daemon.editor.begin(session_id, "go")
        reason = await turn.ended()
        assert reason == "_term2_error"


async def test_prompts_of_a_client_that_does_not_read_do_not_pile_up(tmp_path, autojump_clock):
    async with indoors(
        tmp_path, "[[rules]]\n[[rules.replies]]\nsteps=[{hang=true}]\n", watch=False
    ) as daemon:
        editor = daemon.editor
        await editor.initialize()
        session_id = await editor.new_session(daemon.workspace)
        session = daemon.session(session_id)
        daemon.wire.stop_reading()
        for _ in range(60):
            await editor.call(
                "session/prompt",
                {"sessionId": session_id, "prompt": [{"type": "text", "text": "x" * 100_000}]},
            )
            await trio.testing.wait_all_tasks_blocked()
            await editor.cancel(session_id)
            await trio.testing.wait_all_tasks_blocked()
        waiting = len(session.outbox._line)
        daemon.wire.break_()
        assert waiting < 20, waiting


async def test_a_session_that_crashes_answers_its_prompt(tmp_path, autojump_clock):
    async with indoors(tmp_path, HI) as daemon:
        editor = daemon.editor
        await editor.initialize()
        session_id = await editor.new_session(daemon.workspace)
        store = daemon.session(session_id).parts.store

        async def broken(*_):
            await trio.lowlevel.checkpoint()
            raise ZeroDivisionError

        store.append = broken
        unwatched(editor)
        call = await editor.call(
            "session/prompt", {"sessionId": session_id, "prompt": [{"type": "text", "text": "hi"}]}
        )
        await trio.testing.wait_all_tasks_blocked()
        assert call.answered


class Mumbles(Probe):
    name = "mumbles"

    def describe(self, arguments, context):
        raise ZeroDivisionError


async def test_a_tool_that_cannot_describe_its_call_is_a_failed_call(tmp_path, autojump_clock):
    script = CALL.replace('"probe"', '"mumbles"').replace("@ASKS@", "false")
    script = script.replace(
        "steps = [{ call", 'steps = [{ call = "probe", arguments = { name = "x" } }, { call'
    )
    async with indoors(tmp_path, script, more_tools={"mumbles": Mumbles()}) as daemon:
        _session_id, turn = await daemon.begin("go")
        reason = await turn.ended()
        assert reason == "end_turn"


class Half(Probe):
    name = "half"

    async def run(self, prepared, context):
        await super().run(prepared, context)
        raise ZeroDivisionError


async def test_a_tool_that_breaks_after_its_effect_is_not_said_to_have_had_none(tmp_path, autojump_clock):
    half = Half()
    script = CALL.replace('"probe"', '"half"').replace("@ASKS@", "false")
    async with indoors(tmp_path, script, more_tools={"half": half}) as daemon:
        _session_id, turn = await daemon.begin("go")
        await turn.ended()
        (call,) = turn.calls.values()
        assert half.ran == ["a"]
        assert "no effect" not in json.dumps(call)


def test_a_title_costs_no_list_of_all_words():
    content = (Text("ab " * 1_000_000),)
    tracemalloc.start()
    try:
        title = title_of(content, Redactor())
        _now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert title == "ab " * 26 + "a…"
    assert peak < 16 * 1024 * 1024


def test_a_call_whose_announcement_is_damaged_is_not_replayed():
    end = ToolCallUpdate(ToolCallId("call_1"), status=ToolStatus.COMPLETED, raw_output={})
    replay = Replay()
    assert replay.feed([end]) + replay.end() == []
