"""Chaos by seed: a model that does everything wrong, a person who answers, cancels and closes as the seed has
it, and what must hold all the same. Each frame passes the schema gate and the order checker; each turn ends
with one idle and every call with a final status; what ran is what its call says; the model is always asked
with a history that a strict server takes; the session works afterwards; and a second daemon replays what the
first one showed, and goes on from there. A run is repeated by its seed, which a failing test has in its name.
"""

import os
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from pathlib import Path
from random import Random

import pytest
import trio
import trio.testing

from term2_acp.providers.base import (
    AssistantSaid,
    Delta,
    DeltaStream,
    Finish,
    Finished,
    OnWait,
    Request,
    ToolCallDelta,
    UserSaid,
    wait_silently,
)
from term2_acp.providers.chaos import model as chaos
from term2_acp.providers.chaos.calls import HARMLESS, Arguments, Recipe
from term2_acp.providers.chaos.model import Chaos
from term2_acp.providers.scripted import playing
from term2_acp.providers.scripted.model import Scripted
from term2_acp.providers.scripted.script import read_script
from term2_acp.session.session import Session
from tests.kit.editor import Editor, Turn
from tests.kit.fold import fold
from tests.kit.forked import running
from tests.kit.home import Home
from tests.kit.indoors import Indoors, indoors
from tests.kit.steps import at_step, seeded

# As many as take a few seconds; TERM2_CHAOS_SEEDS=1000-2000 plays others, for a night.
FIRST, _, LAST = os.environ.get("TERM2_CHAOS_SEEDS", "").partition("-")
SEEDS = range(int(FIRST), int(LAST)) if LAST else range(32)
SEEDS_WITH_FILES = range(int(FIRST), int(LAST)) if LAST else range(6)

SEEDS_INSTALLED = range(int(FIRST), int(LAST)) if LAST else range(2)

PROMPTS = 4
# Seconds after which the person has waited enough for a turn that does not end by itself.
PATIENCE_S = 15

HELLO = '[[rules]]\n[[rules.replies]]\nsteps = [{ text = "Hello." }]\n'


def said(turn: Turn) -> list[str]:
    """What the agent said in a turn. That the conversation is being summed up is a notice, not among it."""
    return [thing["text"] for thing in fold(turn.updates)["things"] if thing["is"] == "agent_message"]


class Heard:
    """A stream, and the calls of it that may be run: those of a whole reply which was not cut or refused."""

    def __init__(self, deltas: DeltaStream, runnable: Counter[tuple[str, str]]) -> None:
        self._deltas = deltas
        self._runnable = runnable
        self._calls: list[tuple[str, str]] = []

    async def receive(self) -> Sequence[Delta]:
        deltas = await self._deltas.receive()
        self._calls += [(d.name, d.arguments) for d in deltas if isinstance(d, ToolCallDelta)]
        end = deltas[-1]
        if isinstance(end, Finished) and end.finish in (Finish.STOP, Finish.TOOL_CALLS):
            self._runnable.update(self._calls)
        return deltas


class SaneAtLast(Chaos):
    """Chaos, which answers like anyone while it is ``calm``, and notices what it is told of calls that it
    never made. Where it is asked for a summary, arguments that are too long may be told as such."""

    def __init__(self, seed: int, recipes: Mapping[str, Recipe]) -> None:
        super().__init__("chaos", seed, recipes=recipes)
        self.runnable: Counter[tuple[str, str]] = Counter()
        self.calm = False

    @asynccontextmanager
    async def stream(self, request: Request, on_wait: OnWait = wait_silently) -> AsyncIterator[DeltaStream]:
        assert chaos.fault_of_history(request.messages) is None
        said = [message for message in request.messages if isinstance(message, AssistantSaid)]
        told = Counter((c.name, c.arguments) for one in said for c in one.calls)
        last = request.messages[-1]
        if isinstance(last, UserSaid) and last.text.startswith("The conversation is about to be cut here."):
            told = Counter({call: n for call, n in told.items() if not call[1].startswith('{"shortened":')})
        assert told <= self.runnable
        calm = Scripted("s", read_script(HELLO))
        stream = calm.stream(request) if self.calm else super().stream(request, on_wait)
        async with stream as deltas:
            yield Heard(deltas, self.runnable)


def _probe(draw: Random) -> Arguments:
    return {"name": f"p{draw.randrange(100)}", "asks": draw.random() < 0.4, "fails": draw.random() < 0.2}


# Tools that use no thread: under the autojump clock a run is then the same each time.
PROBES: dict[str, Recipe] = {"probe": _probe, "reading_probe": _probe, "update_plan": HARMLESS["update_plan"]}
FILES: dict[str, Recipe] = {
    name: HARMLESS[name]
    for name in ("read_file", "glob", "grep", "create_file", "search_replace", "apply_patch", "update_plan")
}


class Person:
    """Answers asks, loses patience, and cancels; all by one seed."""

    def __init__(self, editor: Editor, draw: Random) -> None:
        self.editor = editor
        self.draw = draw

    def answer(self, ask):
        """Any of the options, what a client may answer besides, or nothing at all."""
        options = ask["params"]["options"]
        allowing = [option for option in options if option["kind"].startswith("allow")]
        return self.draw.choice(
            [
                *(
                    {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
                    for option in allowing * 4 + options
                ),
                {"outcome": {"outcome": "cancelled"}},
                {"outcome": {"outcome": "selected", "optionId": "unsandboxed-once"}},
                {"nonsense": None},
                None,
            ]
        )

    def cancelling(self, session: Session) -> AbstractContextManager[object]:
        """A cancel at some step of the scheduler, or none."""
        if self.draw.random() < 0.6:
            return nullcontext()
        return at_step(self.draw.randrange(1, 120), session.cancel_nowait)

    async def sees_the_end(self, turn: Turn) -> str:
        """Wait for the end of a turn, and cancel it where that takes too long."""
        patience = self.draw.choice((0.001, 0.02, 1, PATIENCE_S, PATIENCE_S, PATIENCE_S))
        with trio.move_on_after(patience):
            return await turn.ended()
        await self.editor.cancel(turn.session_id)
        return await turn.ended()


def check_turn(turn: Turn, reason: str) -> None:
    """What a client can tell of a turn that has ended, whatever happened in it."""
    updates = turn.updates
    assert [u["state"] for u in turn.of("state_update")].count("idle") == 1
    assert updates[-1].get("stopReason") == reason
    assert reason in {
        "end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled", "_term2_error"
    }  # fmt: skip
    calls = turn.calls.values()
    assert all(call["status"] in ("completed", "failed", "cancelled") for call in calls)
    assert all("rawOutput" in call for call in calls)


def check_session(session: Session) -> None:
    """What is left of a turn in a session that waits for the next one."""
    assert not session.running
    assert session.hands is None or len(session.hands.open_calls) == 0
    assert session.hands is None or not session.hands.broker._open
    assert session._work is not None
    assert not session._work.child_tasks


def ran_what_it_says(daemon: Indoors, session_id: str) -> None:
    """The probes ran as often as a call of theirs is shown as done."""
    things = fold(daemon.editor.updates(session_id))["things"]
    done = [
        thing["rawInput"]["name"]
        for thing in things
        if thing["is"] == "tool_call" and "probe" in thing["name"] and thing["status"] == "completed"
    ]
    assert sorted(done) == sorted(daemon.probe.ran + daemon.reading.ran)


async def lives(root: Path, seed: int, recipes: dict[str, Recipe]) -> None:
    """One session from its beginning to its replay."""
    draw = Random(seed)
    ending = draw.choice(("quiet", "quiet", "close", "leave"))
    model = SaneAtLast(seed, recipes)
    async with indoors(root, provider=model) as daemon:
        editor, person = daemon.editor, Person(daemon.editor, draw)
        editor.on_ask = person.answer
        await editor.initialize()
        session_id = await editor.new_session(daemon.workspace)
        for number in range(PROMPTS):
            with person.cancelling(daemon.session(session_id)):
                turn = await editor.begin(session_id, f"prompt {number}")
                reason = await person.sees_the_end(turn)
            await trio.testing.wait_all_tasks_blocked()
            check_turn(turn, reason)
            check_session(daemon.session(session_id))
        model.calm = True
        assert said(await editor.prompt(session_id, "hi")) == ["Hello."]
        model.calm = False
        if ending != "quiet":
            await editor.begin(session_id, "the last one")
            await trio.sleep(draw.choice((0, 0.01, 1)))
        if ending == "close":
            await editor.request("session/close", {"sessionId": session_id})
    ran_what_it_says(daemon, session_id)
    await replayed_alike(root, model, session_id, fold(editor.updates(session_id)))


async def replayed_alike(root: Path, model: SaneAtLast, session_id: str, live) -> None:
    """A second daemon shows what the first one showed, and the session goes on."""
    model.calm = True
    async with indoors(root, provider=model) as daemon:
        await daemon.editor.initialize()
        params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
        assert await daemon.editor.request("session/resume", params) == {}
        assert fold(daemon.editor.updates(session_id)) == live
        assert said(await daemon.editor.prompt(session_id, "hi")) == ["Hello."]


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_a_model_does(tmp_path: Path, autojump_clock: object, seed: int) -> None:
    with seeded(seed):
        await lives(tmp_path, seed, PROBES)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real clock, since files are read in threads; but chaos waits a hundredth of its waits."""
    slow = playing._wait

    async def wait(what: object) -> None:
        await slow(playing.Wait(what.seconds / 100) if isinstance(what, playing.Wait) else what)

    monkeypatch.setattr(playing, "_wait", wait)
    monkeypatch.setattr(chaos, "waits_before", lambda draw: ())
    monkeypatch.setattr(f"{__name__}.PATIENCE_S", 0.5)


def unharmed(root: Path) -> None:
    """Nothing was written but what chaos may write."""
    names = {path.name for path in (root / "workspace").iterdir()}
    assert {name for name in names if not name.startswith("chaos-")} == {"README.md"}
    assert (root / "workspace" / "README.md").read_text() == "one\ntwo\n"
    assert (root / "outside.txt").read_text() == "outside\n"


def furnish(root: Path) -> None:
    (root / "workspace").mkdir(exist_ok=True)
    (root / "workspace" / "README.md").write_text("one\ntwo\n")
    (root / "outside.txt").write_text("outside\n")


@pytest.mark.parametrize("seed", SEEDS_WITH_FILES)
async def test_whatever_a_model_does_to_files(tmp_path: Path, hurried: None, seed: int) -> None:
    furnish(tmp_path)
    with seeded(seed):
        await lives(tmp_path, seed, FILES)
    unharmed(tmp_path)


@pytest.mark.parametrize("seed", SEEDS_INSTALLED)
async def test_the_installed_daemon(tmp_path: Path, seed: int) -> None:
    """With every tool, its own clock, and a person who waits no longer than a second."""
    home = Home.make(tmp_path, None)
    home.settings.write_text(f'provider = "noise"\n[providers.noise]\ntype = "chaos"\nseed = {seed}\n')
    furnish(tmp_path)
    draw = Random(seed)
    async with running(home) as daemon:
        person = Person(daemon, draw)
        daemon.on_ask = person.answer
        await daemon.initialize()
        session_id = await daemon.new_session(home.workspace)
        for number in range(PROMPTS):
            turn = await daemon.begin(session_id, f"prompt {number}")
            with trio.move_on_after(draw.choice((0, 0.1, 1))):
                await turn.ended()
            await daemon.cancel(session_id)  # of an idle session it is nothing
            check_turn(turn, await turn.ended())
        live = fold(daemon.updates(session_id))
        await daemon.request("session/close", {"sessionId": session_id})
        start = len(daemon.frames)
        params = {"sessionId": session_id, "cwd": str(home.workspace), "replayFrom": {"type": "start"}}
        await daemon.request("session/resume", params)
        assert fold(daemon.updates(session_id, start)) == live
    assert f"plays faults on purpose, by seed {seed}" in daemon.stderr
    assert "The history is broken" not in str(live)
    unharmed(tmp_path)
