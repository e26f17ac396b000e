"""Calls that a program makes, without the program: a tool that makes the calls it is told to, on a clock that
jumps. What is shown, kept and told to the model; every answer to an ask; a program that ends before its call;
and a cancel and a close at every step.
"""

import json
from contextlib import asynccontextmanager, contextmanager
from typing import Any, ClassVar

import msgspec
import pytest
import trio

from term2_acp.domain import events as ev
from term2_acp.domain.toolcall import Effect, ToolKind
from term2_acp.providers.base import ToolAnswered
from term2_acp.tools.base import Description, Outcome, Prepared, ToolContext
from tests.kit.fold import fold
from tests.kit.indoors import indoors
from tests.kit.play import calling
from tests.kit.steps import at_step, seeded
from tests.kit.wire import Refused

APPROVE = {"outcome": {"outcome": "selected", "optionId": "approve"}}
REJECT = {"outcome": {"outcome": "selected", "optionId": "reject"}}
DISMISS = {"outcome": {"outcome": "cancelled"}}


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    calls: list[tuple[str, Any]]
    seconds: float = 1e9


class Nester:
    """A program of nothing but calls. It ends after ``seconds``, whatever is open."""

    name: ClassVar[str] = "nester"
    kind: ClassVar[ToolKind] = ToolKind.EXECUTE
    description: ClassVar[str] = "Makes calls."
    reads_only: ClassVar[bool] = False
    Arguments: ClassVar[type[msgspec.Struct]] = _Arguments

    def __init__(self) -> None:
        self.results: list[tuple[str, bool]] = []
        self.paused = 0.0  # seconds in which the person was asked

    def describe(self, arguments: _Arguments, context: ToolContext) -> Description:
        return Description("Nest")

    async def prepare(self, arguments: _Arguments, context: ToolContext) -> Prepared:
        await trio.lowlevel.checkpoint()
        return Prepared(work=arguments)

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        assert context.ports is not None
        async with context.ports.nesting() as nesting:
            with trio.move_on_after(prepared.work.seconds):
                for name, arguments in prepared.work.calls:
                    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
                    result = await nesting.call(name, text, self._asking)
                    self.results.append((result.text, result.failed))
        return Outcome("nested", raw_output={"calls": len(self.results)})

    @contextmanager
    def _asking(self):
        start = trio.current_time()
        try:
            yield
        finally:
            self.paused += trio.current_time() - start


def nest(*calls, **more) -> tuple[str, dict]:
    return "nester", {"calls": [list(call) for call in calls], **more}


def probe(name, **more) -> tuple[str, dict]:
    return "probe", {"name": name, **more}


class Nested:
    """A daemon with a nester, and what its journal was given."""

    def __init__(self, daemon, nester):
        self.daemon = daemon
        self.editor = daemon.editor
        self.nester = nester
        self.kept = []
        self.session_id = ""

    async def begin(self):
        await self.editor.initialize()
        self.session_id = await self.editor.new_session(self.daemon.workspace)
        store = self.session.parts.store
        really = store.append

        async def append(session_id, events):
            self.kept += events
            await really(session_id, events)

        store.append = append
        return await self.editor.begin(self.session_id, "go")

    @property
    def session(self):
        return self.daemon.session(self.session_id)

    @property
    def ran(self):
        return self.daemon.probe.ran

    def of(self, kind):
        return [event for event in self.kept if isinstance(event, kind)]

    def told(self):
        """The results that the model was given, in order."""
        messages = self.session.transcript.messages()
        return [(m.name, m.result, m.failed) for m in messages if isinstance(m, ToolAnswered)]

    async def replays_as_shown(self):
        live = fold(self.editor.updates(self.session_id))
        await self.editor.request("session/close", {"sessionId": self.session_id})
        start = len(self.editor.frames)
        cwd = str(self.daemon.workspace)
        params = {"sessionId": self.session_id, "cwd": cwd, "replayFrom": {"type": "start"}}
        await self.editor.request("session/resume", params)
        assert fold(self.editor.updates(self.session_id, start)) == live


@asynccontextmanager
async def nested(root, *calls, **more):
    nester = Nester()
    async with indoors(root, calling(*calls), more_tools={"nester": nester}, **more) as daemon:
        yield Nested(daemon, nester)


def states(turn) -> list[str]:
    return [update["state"] for update in turn.of("state_update")]


def by_name(turn) -> dict[str, dict]:
    """The calls of a turn by what they probe, or by their name."""
    return {call["rawInput"].get("name", call["name"]): call for call in turn.calls.values()}


def parent_of(call) -> str | None:
    return call.get("_meta", {}).get("term2", {}).get("parentToolCallId")


# -- what it is ------------------------------------------------------------------------------------


async def test_a_nested_call_is_a_call_of_its_own(tmp_path, autojump_clock):
    async with nested(tmp_path, nest(probe("a"), probe("b", fails=True), probe("c"))) as it:
        turn = await it.begin()
        assert await turn.ended() == "end_turn"
        assert it.nester.results == [("probed a", False), ("the probe broke", True), ("probed c", False)]
        assert it.ran == ["a", "c"]
        parent, *inner = turn.calls.values()
        assert [call["status"] for call in inner] == ["completed", "failed", "completed"]
        assert [call["title"] for call in inner] == ["Probe a", "Probe b", "Probe c"]
        assert [call["rawInput"]["name"] for call in inner] == ["a", "b", "c"]
        assert {parent_of(call) for call in inner} == {parent["toolCallId"]}
        assert parent_of(parent) is None
        assert parent["status"] == "completed"
        # Each inner call has ended before the next begins, and all of them before their parent has.
        order = [u["toolCallId"] for u in turn.of("tool_call_update") if u.get("status") == "completed"]
        assert order == [inner[0]["toolCallId"], inner[2]["toolCallId"], parent["toolCallId"]]
        await it.replays_as_shown()


async def test_the_journal_has_it_with_its_parent_and_the_model_is_not_told(tmp_path, autojump_clock):
    async with nested(tmp_path, nest(probe("a"), ("reading_probe", {"name": "r"}))) as it:
        turn = await it.begin()
        await turn.ended()
        parent, write, read = turn.calls
        prepared = {event.tool_call_id: event for event in it.of(ev.ToolCallPrepared)}
        assert [(prepared[each].name, prepared[each].parent) for each in turn.calls] == [
            ("nester", None),
            ("probe", parent),
            ("reading_probe", parent),
        ]
        assert json.loads(prepared[write].arguments) == {"name": "a"}
        assert len(prepared[write].digest) == 64
        assert [event.tool_call_id for event in it.of(ev.ToolCallDispatched)] == [parent, write, read]
        settled = [(e.tool_call_id, e.effect, e.result, e.failed) for e in it.of(ev.ToolCallSettled)]
        assert settled == [
            (write, Effect.COMMITTED, "probed a", False),
            (read, Effect.COMMITTED, "probed r", False),
            (parent, Effect.COMMITTED, "nested", False),
        ]
        # Journalled as dispatched before it ran.
        kept = [type(event).__name__ for event in it.kept if getattr(event, "tool_call_id", None) == write]
        assert kept[0] == "ToolCallPrepared"
        assert kept.index("ToolCallDispatched") < kept.index("ToolCallSettled")
        assert it.told() == [("nester", "nested", False)]
        live = it.session.transcript.messages()
        await it.replays_as_shown()
        assert it.session.transcript.messages() == live


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("nobody", {}, "There is no tool 'nobody'"),
        ("probe", {}, "The arguments of probe do not fit"),
        ("probe", {"name": 1}, "do not fit"),
        ("probe", "{", "are no JSON"),
        ("probe", '{"name":"a","name":"b"}', "a key appears twice"),
        ("shell", {"command": "touch x"}, "shell cannot be called from a program"),
        ("run_code", {"code": "1"}, "run_code cannot be called from a program"),
        ("shell", {}, "shell cannot be called from a program"),
    ],
)
async def test_what_cannot_be_called(tmp_path, autojump_clock, name, arguments, words):
    async with nested(tmp_path, nest((name, arguments), probe("after"))) as it:
        turn = await it.begin()
        assert await turn.ended() == "end_turn"
        (text, failed), after = it.nester.results
        assert failed
        assert words in text
        assert after == ("probed after", False)
        _, call, _ = turn.calls.values()
        assert call["status"] == "failed"
        assert call["rawOutput"] == {"error": text}
        await it.replays_as_shown()


async def test_a_key_is_in_nothing_that_a_nested_call_says(tmp_path, autojump_clock):
    key = "sk-" + "k1" * 20
    async with nested(tmp_path, nest(probe(key)), secrets=(key,)) as it:
        turn = await it.begin()
        await turn.ended()
        assert it.ran == [key]
        assert key not in json.dumps(turn.updates)
        assert key not in repr(it.kept)


# -- asks ------------------------------------------------------------------------------------------


async def test_an_ask_that_is_allowed(tmp_path, autojump_clock):
    async with nested(tmp_path, nest(probe("a", asks=True))) as it:
        turn = await it.begin()
        ask = await it.editor.next_ask()
        assert states(turn) == ["running", "requires_action"]
        subject = ask["params"]["subject"]["toolCall"]
        parent, call = turn.calls
        assert (subject["toolCallId"], subject["title"]) == (call, "Probe a")
        assert subject["_meta"] == {"term2": {"parentToolCallId": parent}}
        await trio.sleep(3600)
        assert it.ran == []
        await it.editor.reply(ask, APPROVE)
        assert await turn.ended() == "end_turn"
        assert it.nester.results == [("probed a", False)]
        assert it.nester.paused == 3600
        assert states(turn) == ["running", "requires_action", "running", "idle"]
        await it.replays_as_shown()


async def test_it_requires_action_exactly_while_it_asks(tmp_path, autojump_clock):
    calls = [probe("a"), probe("b", asks=True), probe("c"), probe("d", asks=True)]
    async with nested(tmp_path, nest(*calls)) as it:
        it.editor.on_ask = lambda ask: APPROVE
        turn = await it.begin()
        await turn.ended()
        said = []
        for update in turn.updates:
            if update["sessionUpdate"] == "state_update":
                said.append(update["state"])
            elif update.get("status") == "completed":
                said.append(turn.calls[update["toolCallId"]]["rawInput"].get("name", "nester"))
        assert said == [
            "running", "a", "requires_action", "running", "b", "c", "requires_action", "running", "d",
            "nester", "idle",
        ]  # fmt: skip


async def test_an_ask_that_is_refused(tmp_path, autojump_clock):
    async with nested(tmp_path, nest(probe("a", asks=True), probe("b")), probe("next")) as it:
        it.editor.on_ask = lambda ask: REJECT
        turn = await it.begin()
        assert await turn.ended() == "end_turn"
        assert it.nester.results == [("The person refused this.", True), ("probed b", False)]
        assert it.ran == ["b", "next"]
        assert by_name(turn)["a"]["status"] == "failed"
        await it.replays_as_shown()


async def test_an_ask_that_is_dismissed_ends_the_reply(tmp_path, autojump_clock):
    """The program goes on and is told; no other call of it is run, nor of the reply that it stands in."""
    calls = nest(probe("a"), probe("b", asks=True), probe("c"), ("reading_probe", {"name": "r"}))
    async with nested(tmp_path, calls, probe("next")) as it:
        it.editor.on_ask = lambda ask: DISMISS
        turn = await it.begin()
        assert await turn.ended() == "end_turn"
        assert it.ran == ["a"]
        assert it.daemon.reading.ran == []
        assert [failed for _, failed in it.nester.results] == [False, True, True, True]
        assert it.nester.results[2] == it.nester.results[3]
        assert "the person cancelled an earlier call" in it.nester.results[2][0]
        found = by_name(turn)
        assert {name: call["status"] for name, call in found.items()} == {
            "nester": "completed", "a": "completed", "b": "failed", "c": "failed", "r": "failed",
            "next": "failed",
        }  # fmt: skip
        assert it.told()[1][1].startswith("This call was not run: the person cancelled another call")
        assert turn.text == "Done."
        await it.replays_as_shown()


async def test_an_ask_that_is_never_answered_waits_for_the_cancel(tmp_path, autojump_clock):
    async with nested(tmp_path, nest(probe("a", asks=True)), probe("next")) as it:
        turn = await it.begin()
        ask = await it.editor.next_ask()
        await trio.sleep(10 * 24 * 3600)
        assert states(turn) == ["running", "requires_action"]
        await it.editor.cancel(it.session_id)
        assert await turn.ended() == "cancelled"
        await withdrawn(it, ask)
        assert {call["status"] for call in turn.calls.values()} == {"cancelled"}
        await it.editor.reply(ask, APPROVE)
        await trio.testing.wait_all_tasks_blocked()
        assert it.ran == []
        await it.replays_as_shown()


async def withdrawn(it, ask) -> None:
    """Wait until the client is told that an ask needs no answer any more."""
    await it.editor.frame(
        lambda f: f.get("method") == "$/cancel_request" and f["params"]["requestId"] == ask["id"]
    )


async def test_a_program_that_ends_while_its_ask_is_open(tmp_path, autojump_clock):
    async with nested(tmp_path, nest(probe("a", asks=True), seconds=5), probe("next")) as it:
        turn = await it.begin()
        ask = await it.editor.next_ask()
        assert await turn.ended() == "end_turn"
        await withdrawn(it, ask)
        await it.editor.reply(ask, APPROVE)  # too late: nobody is there to run it for
        await trio.testing.wait_all_tasks_blocked()
        assert it.ran == ["next"]
        call = by_name(turn)["a"]
        assert call["status"] == "failed"
        assert call["rawOutput"]["error"].startswith("The program that made this call ended, or closed")
        assert states(turn) == ["running", "requires_action", "running", "idle"]
        assert it.session.hands is None or not it.session.hands.broker._open
        settled = {e.tool_call_id: e.effect for e in it.of(ev.ToolCallSettled)}
        assert settled[call["toolCallId"]] is Effect.FAILED
        await it.replays_as_shown()


async def test_a_stale_ask_ends_the_turn(tmp_path, autojump_clock):
    async with nested(tmp_path, nest(probe("a", asks=True)), probe("next")) as it:
        turn = await it.begin()
        await it.editor.next_ask()
        it.session.hands.broker.revise_nowait()
        assert await turn.ended() == "cancelled"
        assert it.ran == []
        assert {call["status"] for call in turn.calls.values()} == {"cancelled"}


# -- bounds ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["probe", "nobody"])
async def test_a_client_that_does_not_read_stops_the_program(tmp_path, autojump_clock, name):
    """Whether its calls run or fail at once: what they say is on its way before the next one begins."""
    calls = [(name, {"name": "x" * 200_000}) for _ in range(20)]
    async with nested(tmp_path, nest(*calls)) as it:
        turn = await it.begin()
        await turn.seen("tool_call_update", name="nester")
        it.daemon.wire.stop_reading()
        await trio.sleep(3600)
        assert len(it.nester.results) < 8
        waiting = [entry for entry in it.session.outbox._line if isinstance(entry, ev.ToolCallPrepared)]
        assert len(waiting) <= 1
        it.daemon.wire.resume_reading()
        assert await turn.ended() == "end_turn"
        assert len(it.nester.results) == len(calls)


# -- faults at every step --------------------------------------------------------------------------

SWEPT = nest(("reading_probe", {"name": "r"}), probe("b", asks=True), probe("f", fails=True))


async def swept(it: Nested, k: int, fault: str) -> bool:
    """Run the turn with one fault at step ``k``; whether it had as many steps."""
    daemon, editor = it.daemon, it.editor
    daemon.probe.ran.clear()
    daemon.reading.ran.clear()
    it.session_id = session_id = await editor.new_session(daemon.workspace)
    session = it.session
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
    assert reason in (("cancelled", "end_turn") if acted else ("end_turn",))
    calls = list(turn.calls.values())
    assert all(call["status"] in ("completed", "failed", "cancelled") for call in calls)
    assert all("rawOutput" in call for call in calls)
    done = [c["rawInput"]["name"] for c in calls if c["status"] == "completed" and "name" in c["rawInput"]]
    assert sorted(daemon.probe.ran + daemon.reading.ran) == sorted(done)
    assert not session.running
    assert session.hands is None or len(session.hands.open_calls) == 0
    assert session.hands is None or not session.hands.broker._open
    assert session._work is not None
    assert not session._work.child_tasks
    if not session.closing:
        assert (await editor.prompt(session_id, "hi")).text == "Hello."
    await it.replays_as_shown()
    return acted


@pytest.mark.parametrize(("fault", "seed"), [("cancel", 0), ("close", 1)])
async def test_a_fault_at_every_step(tmp_path, autojump_clock, fault, seed):
    with seeded(seed):
        async with nested(tmp_path, SWEPT, probe("next")) as it:
            it.editor.on_ask = lambda ask: APPROVE
            await it.editor.initialize()
            reached = 0
            for k in range(1, 500):
                if not await swept(it, k, fault):
                    break
                reached = k
    assert 40 < reached < 499, "the sweep has to begin before the turn and to reach its end"


@pytest.mark.parametrize("seconds", [0.5, 1.0, 1.5])
async def test_a_program_that_ends_in_the_moment_of_the_answer(tmp_path, autojump_clock, seconds):
    """Whichever comes first: what ran is what its call says, and nothing stays open."""
    async with nested(tmp_path, nest(probe("a", asks=True), probe("b"), seconds=1.0), probe("next")) as it:
        turn = await it.begin()
        ask = await it.editor.next_ask()
        await trio.sleep(seconds)
        await it.editor.reply(ask, APPROVE)
        assert await turn.ended() == "end_turn"
        await trio.testing.wait_all_tasks_blocked()
        found = by_name(turn)
        done = [name for name in ("a", "b") if name in found and found[name]["status"] == "completed"]
        assert it.ran == [*done, "next"]
        assert ("a" in done) == (seconds < 1.0) or seconds == 1.0
        assert it.session.hands is None or len(it.session.hands.open_calls) == 0
        await it.replays_as_shown()
