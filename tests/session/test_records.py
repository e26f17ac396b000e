"""What the journal of a whole daemon holds of its tool calls, behind both doors: which records, in which
order, with which values, and when. The records are read back from the real file; the clock jumps, so waits
are exact. Who decides is the gate's to test (``tests/agent/test_gate``), what a tool says of
its files the tools'.
"""

import hashlib
import json
from contextlib import asynccontextmanager
from typing import ClassVar, Literal

import attrs
import msgspec
import pytest
import trio

import term2_acp
from term2_acp.domain import events as ev
from term2_acp.domain.ids import SessionId
from term2_acp.domain.options import Mode, OptionId
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import DecidedBy, Effect, FileDigests, ToolKind
from term2_acp.permission.policy import PLAN_KEEPS_FILES
from term2_acp.tools.base import Description, Outcome, Prepared, ToolError
from tests.kit.editor_v1 import EditorV1
from tests.kit.indoors import indoors
from tests.session.test_files_in_a_turn import playing
from tests.session.test_nested_calls import Nester, nest

DONE = hashlib.sha256(b"done").hexdigest()
CUT_OFF = "This was ended before an answer of the person was acted on."


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    what: Literal["read", "edit", "other"]
    path: str = "a"
    seconds: float = 0.0
    fails: bool = False


class Deed:
    """A tool that says what the real ones say, without their threads; ``seen``: the journal as it acts."""

    name: ClassVar[str] = "deed"
    kind: ClassVar[ToolKind] = ToolKind.OTHER
    description: ClassVar[str] = "Does one thing."
    reads_only: ClassVar[bool] = False
    Arguments: ClassVar[type[msgspec.Struct]] = _Arguments

    def __init__(self):
        self.look = None
        self.seen = []

    def describe(self, arguments, context):
        return Description(f"{arguments.what} {arguments.path}")

    async def prepare(self, arguments, context):
        await trio.lowlevel.checkpoint()
        if arguments.what == "other":
            return Prepared((Action(Access.OTHER, None, f"do {arguments.path}"),), work=arguments)
        target = context.files.resolve(arguments.path)
        changes = (FileDigests(target.path, None, DONE),) if arguments.what == "edit" else ()
        return Prepared((Action(Access(arguments.what), target),), work=arguments, changes=changes)

    async def run(self, prepared, context):
        self.seen.append(await self.look(context.ports.tool_call_id))
        await trio.sleep(prepared.work.seconds)
        if prepared.work.fails:
            raise ToolError("it broke")
        return Outcome("did it")


class DeedThatReads(Deed):
    """The same, of the kind that may run beside others."""

    name: ClassVar[str] = "reading_deed"
    reads_only: ClassVar[bool] = True


def deed(what, path="a", **more):
    return "deed", {"what": what, "path": path, **more}


def reading(path, **more):
    return "reading_deed", {"what": "read", "path": path, **more}


RECORDS = (ev.ToolCallPrepared, ev.ToolCallDecided, ev.ToolCallDispatched, ev.ToolCallSettled)


@attrs.define(eq=False)
class It:
    """A daemon whose model does deeds, its one session, and the client that speaks either version."""

    daemon: object
    client: object
    deeds: tuple
    session_id: SessionId = ""

    @property
    def session(self):
        return self.daemon.session(self.session_id)

    async def open(self):
        self.session_id = await self.client.new_session(self.daemon.workspace)
        for one in self.deeds:
            one.look = self.of

    async def kept(self):
        """Every event of the session that the file has."""
        events = []
        async with self.session.parts.store.journal(self.session_id) as journal:
            while chunk := await journal.receive():
                events += chunk
        return events

    async def of(self, call_id):
        """The kinds of the records that the file has of one call."""
        kept = await self.kept()
        return [type(e) for e in kept if isinstance(e, RECORDS) and e.tool_call_id == call_id]

    async def turn(self, prompt, mode=Mode.STANDARD, answers=()):
        """A turn with a person who takes 1.5 s for each answer: its prompt's id, and what was kept of it."""
        done = lambda options: None  # noqa: E731
        self.session.set_option_nowait(OptionId.MODE, mode.value, done, pytest.fail)
        before = len(await self.kept())
        turn = await self.client.begin(self.session_id, prompt)
        for option in answers:
            ask = await self.daemon.editor.next_ask()
            await trio.sleep(1.5)
            if option is None:
                await self.daemon.editor.cancel(self.session_id)
            else:
                outcome = {"outcome": "selected", "optionId": option}
                await self.daemon.editor.reply(ask, {"outcome": outcome})
        assert await turn.ended() == ("cancelled" if None in answers else "end_turn")
        await self.session.reached()
        kept = (await self.kept())[before:]
        (prompted,) = (event.message_id for event in kept if isinstance(event, ev.UserMessage))
        return prompted, kept

    def inside(self, name):
        return str(self.daemon.workspace / name)


@asynccontextmanager
async def at_work(root, rules, version=2, initialize=None, secrets=()):
    (root / "out").mkdir()
    deeds, nester = (Deed(), DeedThatReads()), Nester()
    tools = {tool.name: tool for tool in (*deeds, nester)}
    async with indoors(root, playing(rules), more_tools=tools, secrets=secrets) as daemon:
        client = daemon.editor if version == 2 else EditorV1(daemon.editor)
        if initialize is None:
            await client.initialize()
        else:
            await daemon.editor.request("initialize", initialize)
        it = It(daemon, client, deeds)
        await it.open()
        yield it


def records(kept):
    """The records of tool calls and circumstances, in order; the calls by their places in the turn."""
    places = {}
    found = []
    for event in kept:
        if isinstance(event, ev.ToolCallPrepared):
            places[event.tool_call_id] = len(places)
        if isinstance(event, RECORDS):
            found.append((places[event.tool_call_id], event))
        elif isinstance(event, ev.Circumstances):
            found.append(event)
    return found


def in_words(kept):
    """Which records there are, in order: ``0 prepared``."""
    words = {kind: kind.__name__.removeprefix("ToolCall").lower() for kind in RECORDS}
    return [
        "circumstances" if isinstance(one, ev.Circumstances) else f"{one[0]} {words[type(one[1])]}"
        for one in records(kept)
    ]


def of_kind(kept, kind):
    """The records of one kind by the places of their calls, without the calls' ids."""
    return {
        one[0]: attrs.evolve(one[1], tool_call_id="")
        for one in records(kept)
        if isinstance(one, tuple) and isinstance(one[1], kind)
    }


def decided(by, *targets, mode="standard", **more):
    more.setdefault("allowed", not more.get("reason"))
    return ev.ToolCallDecided("", by=by, mode=mode, targets=targets, **more)


def committed(took_ms, result="did it"):
    return ev.ToolCallSettled("", Effect.COMMITTED, result, failed=False, took_ms=took_ms)


def failed(result, took_ms=None):
    return ev.ToolCallSettled("", Effect.FAILED, result, failed=True, took_ms=took_ms)


@pytest.mark.parametrize("version", [1, 2])
async def test_every_way_that_a_call_can_go(tmp_path, autojump_clock, version):
    root = tmp_path.resolve()
    out = root / "out"
    calls = [
        reading("r", seconds=0.25),
        deed("edit", "e", seconds=2),
        deed("other", "thing"),
        deed("other", "refused"),
        deed("read", str(out / "x"), seconds=0.5),
        deed("read", str(out / "y")),
        deed("edit", "f", seconds=1, fails=True),
        ("nobody", {}),
    ]
    async with at_work(root, {"go": [calls]}, version) as it:
        answers = ["approve", "reject", "allow-folder-session"]
        prompt, kept = await it.turn("go", answers=answers)
        person, policy, asked = DecidedBy.PERSON, DecidedBy.POLICY, {"waited_ms": 1500}
        refusal = "The person refused this."
        assert of_kind(kept, ev.ToolCallDecided) == {
            0: decided(policy, it.inside("r")),
            1: decided(policy, it.inside("e")),
            2: decided(person, "do thing", choice="approve", **asked),
            3: decided(person, "do refused", choice="reject", reason=refusal, **asked),
            4: decided(person, str(out / "x"), choice="allow-folder-session", **asked),
            5: decided(DecidedBy.GRANT, str(out / "y"), grants=(f"read below {out}",)),
            6: decided(policy, it.inside("f"), grants=(f"read below {out}",)),
        }
        changes = {1: "e", 6: "f"}
        assert of_kind(kept, ev.ToolCallDispatched) == {
            place: ev.ToolCallDispatched(
                "", (FileDigests(it.inside(changes[place]), None, DONE),) if place in changes else ()
            )
            for place in (0, 1, 2, 4, 5, 6)
        }
        unknown = of_kind(kept, ev.ToolCallSettled).pop(7).result
        assert unknown.startswith("There is no tool 'nobody'.")
        assert of_kind(kept, ev.ToolCallSettled) == {
            0: committed(250),
            1: committed(2000),
            2: committed(0),
            3: failed(refusal),
            4: committed(500),
            5: committed(0),
            6: failed("it broke", 1000),
            7: failed(unknown),
        }
        prepared = of_kind(kept, ev.ToolCallPrepared)
        digest = hashlib.sha256(b"deed\0" + json.dumps(calls[1][1]).encode()).hexdigest()
        assert (prepared[1].arguments, prepared[1].digest) == (json.dumps(calls[1][1]), digest)
        ran = ["decided", "dispatched", "settled"]
        of_call = [ran, ran, ran, [ran[0], ran[2]], ran, ran, ran, [ran[2]]]
        assert in_words(kept) == [
            "circumstances",
            *(f"{place} prepared" for place in range(8)),
            *(f"{place} {word}" for place, words in enumerate(of_call) for word in words),
        ]
        # What changes something is in the file before it acts; what only reads comes with its end.
        changing, reading_one = it.deeds
        before = [ev.ToolCallPrepared, ev.ToolCallDecided, ev.ToolCallDispatched]
        assert changing.seen == [before] * 5
        assert reading_one.seen in ([[]], [[ev.ToolCallPrepared]])
        assert records(kept)[0] == ev.Circumstances(
            prompt=prompt,
            client="kit 1",
            capabilities="{}",
            agent=term2_acp.__version__,
            protocol=version,
            provider="play",
            model="scripted",
            effort="default",
            roots=(str(it.daemon.workspace),),
        )


async def test_turns_without_calls_denied_calls_and_cancelled_ones(tmp_path, autojump_clock):
    rules = {
        "plan": [[deed("edit", "e")], [reading("r")]],
        "cut": [[deed("other", "asked"), deed("edit", "never")]],
        "stop": [[deed("edit", "slow", seconds=3600)]],
        "look": [[reading("slow", seconds=3600)]],
    }
    async with at_work(tmp_path.resolve(), rules) as it:
        _, kept = await it.turn("hi")
        assert in_words(kept) == []

        prompt, kept = await it.turn("plan", Mode.PLAN)
        denied = ["0 prepared", "0 decided", "0 settled"]
        ran = ["1 prepared", "1 decided", "1 dispatched", "1 settled"]
        assert in_words(kept) == ["circumstances", *denied, *ran]  # once for the turn's two replies
        assert records(kept)[0].prompt == prompt
        why = {"mode": "plan", "reason": PLAN_KEEPS_FILES}
        assert of_kind(kept, ev.ToolCallDecided)[0] == decided(DecidedBy.POLICY, it.inside("e"), **why)
        assert of_kind(kept, ev.ToolCallSettled)[0] == failed(PLAN_KEEPS_FILES)

        prompt, kept = await it.turn("cut", answers=[None])
        both = ["0 prepared", "1 prepared"]
        assert in_words(kept) == ["circumstances", *both, "0 decided", "0 settled", "1 settled"]
        assert records(kept)[0].prompt == prompt
        nobody = decided(DecidedBy.NOBODY, "do asked", reason=CUT_OFF, waited_ms=1500)
        assert of_kind(kept, ev.ToolCallDecided) == {0: nobody}
        assert [one.took_ms for one in of_kind(kept, ev.ToolCallSettled).values()] == [None, None]

        for prompt, written in (("stop", ["decided", "dispatched"]), ("look", [])):
            before = len(await it.kept())
            turn = await it.client.begin(it.session_id, prompt)
            await trio.sleep(60)
            words = in_words((await it.kept())[before:])
            assert words == ["circumstances", "0 prepared", *(f"0 {word}" for word in written)]
            await it.client.cancel(it.session_id)
            assert await turn.ended() == "cancelled"
            kept = (await it.kept())[before:]
            records_of_it = ["0 prepared", "0 decided", "0 dispatched", "0 settled"]
            assert in_words(kept) == ["circumstances", *records_of_it]
            (settled,) = of_kind(kept, ev.ToolCallSettled).values()
            assert (settled.effect, settled.took_ms) == (Effect.FAILED, 60_000)


async def test_a_call_that_a_program_makes_has_the_same_records(tmp_path, autojump_clock):
    inner = [("deed", {"what": "other", "path": "a"}), ("deed", {"what": "other", "path": "b"})]
    async with at_work(tmp_path.resolve(), {"go": [[nest(*inner)]]}) as it:
        _, kept = await it.turn("go", answers=["approve", "reject"])
        assert in_words(kept) == [
            "circumstances",
            "0 prepared", "0 decided", "0 dispatched",
            "1 prepared", "1 decided", "1 dispatched", "1 settled",
            "2 prepared", "2 decided", "2 settled",
            "0 settled",
        ]  # fmt: skip
        found = of_kind(kept, ev.ToolCallDecided)
        assert (found[1].by, found[1].choice, found[1].waited_ms) == (DecidedBy.PERSON, "approve", 1500)
        assert (found[2].by, found[2].choice, found[2].allowed) == (DecidedBy.PERSON, "reject", False)
        assert of_kind(kept, ev.ToolCallSettled)[0].took_ms == 3000


async def test_a_known_key_is_in_no_record_and_a_path_with_one_is_not_to_be_looked_up(
    tmp_path, autojump_clock
):
    key = "sk-" + "k1" * 20
    said = {"name": f"editor {key}", "version": "9"}
    params = {"protocolVersion": 2, "clientInfo": said, "clientCapabilities": {"x": key}}
    rules = {"go": [[deed("edit", f"{key}.txt"), deed("edit", "plain")]]}
    async with at_work(tmp_path.resolve(), rules, initialize=params, secrets=(key,)) as it:
        _, kept = await it.turn("go")
        assert key not in repr(kept)
        (told,) = (event for event in kept if isinstance(event, ev.Circumstances))
        assert (told.client, told.capabilities) == ("editor [redacted] 9", '{"x":"[redacted]"}')
        found = of_kind(kept, ev.ToolCallDecided)
        assert [one.targets for one in found.values()] == [
            (it.inside("[redacted].txt"),),
            (it.inside("plain"),),
        ]
        # In its place stands the name of another file, which is as it was whatever this call did.
        dispatched = of_kind(kept, ev.ToolCallDispatched)
        assert dispatched[0].changes == ()
        assert dispatched[1].changes == (FileDigests(it.inside("plain"), None, DONE),)
