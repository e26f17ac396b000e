"""The modes where they are enforced, in a whole daemon: what runs, what asks and what is denied in each; that
a mode counts from the moment it is set, both ways, at every step of a call; that an ask which is open then is
stale; and that what a provider asks for stays on top. How a mode is set, shown and kept is not looked at."""

from contextlib import asynccontextmanager
from typing import ClassVar, Literal

import attrs
import msgspec
import pytest
import trio

from term2_acp.domain.options import Mode, OptionId
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import ToolKind
from term2_acp.permission.policy import PLAN_KEEPS_FILES
from term2_acp.providers.base import ToolAnswered
from term2_acp.providers.scripted.model import Scripted
from term2_acp.providers.scripted.script import read_script
from term2_acp.sandbox import Unavailable
from term2_acp.tools.base import Description, Outcome, Prepared
from term2_acp.tools.course import READ_ONLY
from tests.kit.indoors import indoors
from tests.kit.play import calling
from tests.kit.steps import at_step, seeded
from tests.session.test_nested_calls import Nester, nest, withdrawn

CHANGED = "The session's mode was changed just before this call ran, so it was not run. Call it again."


class _Arguments(msgspec.Struct, forbid_unknown_fields=True):
    what: Literal["edit", "command", "read", "fetch"]
    path: str = "a"


class Deed:
    """A tool that acts as the real ones do, without their threads: ``done`` has the mode of each effect."""

    name: ClassVar[str] = "deed"
    kind: ClassVar[ToolKind] = ToolKind.OTHER
    description: ClassVar[str] = "Does one thing."
    reads_only: ClassVar[bool] = False
    Arguments: ClassVar[type[msgspec.Struct]] = _Arguments

    def __init__(self):
        self.done = []

    def describe(self, arguments, context):
        return Description(f"{arguments.what} {arguments.path}")

    async def prepare(self, arguments, context):
        await trio.lowlevel.checkpoint()
        if arguments.what == "command":
            return Prepared((Action(Access.COMMAND, None, "Run this."),), work=arguments)
        if arguments.what == "fetch":
            return Prepared((Action(Access.OTHER, None, "Fetch this."),), work=arguments)
        target = context.files.resolve(arguments.path)
        return Prepared((Action(Access(arguments.what), target),), work=arguments)

    async def run(self, prepared, context):
        await trio.lowlevel.checkpoint()
        if prepared.work.what == "edit":
            context.require_changes_nowait()
        self.done.append((prepared.work.what, context.mode()))
        return Outcome("did it")


class It:
    """A daemon whose model does deeds, and its one session."""

    def __init__(self, daemon, deed, nester, session_id):
        self.daemon = daemon
        self.editor = daemon.editor
        self.deed = deed
        self.nester = nester
        self.session_id = session_id
        self.asked = []

    @property
    def session(self):
        return self.daemon.session(self.session_id)

    def set_nowait(self, mode):
        self.session.set_option_nowait(OptionId.MODE, mode.value, lambda options: None, pytest.fail)

    def answer(self, option_id):
        """Answer every ask so, if it is offered; ``asked`` has what was offered, and the description."""

        def reply(ask):
            options = [option["optionId"] for option in ask["params"]["options"]]
            self.asked.append((options, ask["params"]["description"]))
            chosen = option_id if option_id in options else options[0]
            return {"outcome": {"outcome": "selected", "optionId": chosen}}

        self.editor.on_ask = reply

    async def go(self, mode=None):
        """A turn in a mode: how it ended, and what was asked in it."""
        if mode is not None:
            self.set_nowait(mode)
        before = len(self.asked)
        turn = await self.editor.begin(self.session_id, "go")
        assert await turn.ended() == "end_turn"
        return turn, [options for options, _ in self.asked[before:]]

    def told(self):
        """The results that the model was given, in order."""
        messages = self.session.transcript.messages()
        return [(message.result, message.failed) for message in messages if isinstance(message, ToolAnswered)]


@asynccontextmanager
async def at_work(root, *calls, asks_for_edits=False):
    deed, nester = Deed(), Nester()
    model = Scripted("play", read_script(calling(*calls)))
    model.asks_for_edits = asks_for_edits
    async with indoors(root, provider=model, more_tools={"deed": deed, "nester": nester}) as daemon:
        await daemon.editor.initialize()
        session_id = await daemon.editor.new_session(daemon.workspace)
        yield It(daemon, deed, nester, session_id)


def deed(what, path="a"):
    return "deed", {"what": what, "path": path}


def statuses(turn):
    return [call["status"] for call in turn.calls.values()]


APPROVE = ["approve", "reject"]
ONCE = ["allow-once", "deny"]

# -- what each mode does ---------------------------------------------------------------------------


async def test_a_session_begins_in_standard_and_works_unasked(tmp_path, autojump_clock):
    async with at_work(tmp_path, deed("edit"), deed("command"), deed("read")) as it:
        turn, asked = await it.go()
        assert asked == []
        assert statuses(turn) == ["completed"] * 3
        assert it.deed.done == [(what, Mode.STANDARD) for what in ("edit", "command", "read")]


async def test_in_plan_no_edit_runs_and_nobody_is_asked(tmp_path, autojump_clock):
    hidden = str(tmp_path / "home" / ".ssh" / "config")
    places = ("a", "/elsewhere/a", ".git/config", hidden, "AGENTS.md")
    async with at_work(tmp_path, *(deed("edit", place) for place in places), deed("command")) as it:
        turn, asked = await it.go(Mode.PLAN)
        assert asked == []
        assert statuses(turn) == ["failed"] * 5 + ["completed"]
        assert it.deed.done == [("command", Mode.PLAN)]
        assert it.told() == [(PLAN_KEEPS_FILES, True)] * 5 + [("did it", False)]
        refused = next(iter(turn.calls.values()))
        assert refused["content"] == [
            {"type": "content", "content": {"type": "text", "text": PLAN_KEEPS_FILES}}
        ]


REAL = {
    "create_file": {"path": "new", "content": "x"},
    "search_replace": {
        "path": "a",
        "replacements": [{"search_content": "one", "replace_content": "two"}],
    },
    "apply_patch": {
        "patch": "*** Begin Patch\n*** Add File: c\n+new\n*** Update File: a\n@@\n-one\n+two\n"
        "*** Delete File: b\n*** Update File: d\n*** Move to: e\n@@\n-one\n+two\n*** End Patch\n"
    },
}


@pytest.mark.parametrize("by", ["the model", "a program"])
async def test_in_plan_no_tool_changes_a_file_by_the_model_nor_by_a_program(tmp_path, by):
    reads = [("read_file", {"path": name}) for name in "abd"]
    calls = [*reads, *REAL.items()]
    async with at_work(tmp_path, *(calls if by == "the model" else [nest(*calls)])) as it:
        for name in "abd":
            (it.daemon.workspace / name).write_text("one\n")
        before = {path.name: path.read_text() for path in it.daemon.workspace.iterdir()}
        _, asked = await it.go(Mode.PLAN)
        results = it.told() if by == "the model" else it.nester.results
        assert asked == []
        assert [failed for _, failed in results] == [False] * 3 + [True] * 3
        assert {text for text, failed in results if failed} == {PLAN_KEEPS_FILES}
        assert {path.name: path.read_text() for path in it.daemon.workspace.iterdir()} == before


PROGRAM = """
for attempt in (
    lambda: open("a", "w"),
    lambda: tools.create_file(path="new", content="x"),
    lambda: tools.call("search_replace", path="a", replacements=[
        {"search_content": "one", "replace_content": "two"}
    ]),
):
    try: attempt(); print("did it")
    except (OSError, ToolError) as error: print(error)
"""


async def test_in_plan_commands_and_programs_of_the_real_sandbox_change_nothing(tmp_path):
    line = "cat a; echo two > a; mv a b; mkdir c; echo end"
    calls = ("read_file", {"path": "a"}), ("shell", {"command": line}), ("run_code", {"code": PROGRAM})
    async with at_work(tmp_path, *calls) as it:
        layers = await it.session.parts.toolbox().sandbox.layers()
        if isinstance(layers, Unavailable):
            pytest.skip(f"no sandbox here: {layers.reason}")
        (it.daemon.workspace / "a").write_text("one\n")
        _, asked = await it.go(Mode.PLAN)
        assert asked == []
        (_, (command, _), (program, _)) = it.told()
        for result in (command, program):
            assert result.startswith(f"Exit code 0.\n{READ_ONLY}\n")
        *refused, last = command.partition("Output:\none\n")[2].splitlines()
        assert (len(refused), last) == (3, "end")
        lines = program.partition("Output:\n")[2].splitlines()
        assert lines[1:] == [PLAN_KEEPS_FILES] * 2
        assert "'a'" in lines[0]
        assert [path.name for path in it.daemon.workspace.iterdir()] == ["a"]
        assert (it.daemon.workspace / "a").read_text() == "one\n"


async def test_in_plan_other_things_are_as_in_standard(tmp_path, autojump_clock):
    entries = [{"content": "look", "priority": "high", "status": "pending"}]
    calls = deed("fetch"), deed("read", "/etc/x/y"), deed("read"), ("update_plan", {"entries": entries})
    async with at_work(tmp_path, *calls) as it:
        it.answer("approve")
        for mode in (Mode.STANDARD, Mode.PLAN):
            turn, asked = await it.go(mode)
            assert asked == [APPROVE, ["approve", "allow-folder-session", "reject"]]
            assert statuses(turn) == ["completed"] * 4
            assert turn.of("plan_update")


async def test_in_ask_every_edit_and_command_asks_whatever_was_granted(tmp_path, autojump_clock):
    outside = tmp_path / "elsewhere" / "folder" / "a"
    outside.parent.mkdir(parents=True)
    async with at_work(tmp_path, deed("edit", str(outside)), deed("edit"), deed("command")) as it:
        it.answer("allow-edit-folder-session")
        _, asked = await it.go()
        assert asked == [["allow-once", "allow-edit-file-session", "allow-edit-folder-session", "deny"]]
        assert (await it.go())[1] == []
        for _ in range(2):
            assert (await it.go(Mode.ASK))[1] == [ONCE, APPROVE, APPROVE]
        turn, asked = await it.go(Mode.PLAN)
        assert (asked, statuses(turn)) == ([], ["failed", "failed", "completed"])
        # What was granted counts again.
        turn, asked = await it.go(Mode.STANDARD)
        assert (asked, statuses(turn)) == ([], ["completed"] * 3)


async def test_a_refusal_in_ask_is_one_of_that_call(tmp_path, autojump_clock):
    async with at_work(tmp_path, deed("edit"), deed("command")) as it:
        it.answer("reject")
        turn, asked = await it.go(Mode.ASK)
        assert asked == [APPROVE, APPROVE]
        assert statuses(turn) == ["failed", "failed"]
        assert it.deed.done == []


async def test_an_answer_of_this_very_turn_is_not_honoured_in_ask(tmp_path, autojump_clock):
    """The door's cache of answers is a kind of grant."""
    outside = str(tmp_path / "elsewhere" / "folder" / "a")
    async with at_work(tmp_path, deed("edit", outside), deed("edit", outside + "2")) as it:
        it.answer("allow-edit-folder-session")
        really = it.deed.run

        async def run(prepared, context):
            outcome = await really(prepared, context)
            it.set_nowait(Mode.ASK)
            return outcome

        it.deed.run = run
        turn, asked = await it.go()
        assert statuses(turn) == ["completed", "completed"]
        assert asked[1] == ONCE


async def test_what_a_provider_asks_for_stays_on_top_of_every_mode(tmp_path, autojump_clock):
    async with at_work(tmp_path, deed("edit"), deed("command"), asks_for_edits=True) as it:
        it.answer("approve")
        assert (await it.go(Mode.STANDARD))[1] == [APPROVE, APPROVE]
        assert (await it.go(Mode.ASK))[1] == [APPROVE, APPROVE]
        words = "Plan mode is on: the workspace is read-only for this."
        assert not any(words in description for _, description in it.asked)
        turn, asked = await it.go(Mode.PLAN)
        assert (asked, statuses(turn)) == ([APPROVE], ["failed", "completed"])
        assert f"\nRun this.\n{words}\n" in "\n" + it.asked[-1][1]


# -- from the moment it is set ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (Mode.ASK, Mode.STANDARD, "edit"),  # which would allow it
        (Mode.ASK, Mode.PLAN, "edit"),
        (Mode.ASK, Mode.PLAN, "command"),  # which would allow it
        (Mode.STANDARD, Mode.ASK, "fetch"),  # which asks the same
        (Mode.PLAN, Mode.STANDARD, "fetch"),
    ],
)
@pytest.mark.parametrize("nested", [False, True], ids=["a call", "a nested call"])
async def test_an_ask_that_is_open_is_stale_and_ends_the_turn(
    tmp_path, autojump_clock, before, after, what, nested
):
    first = nest(deed(what)) if nested else deed(what)
    async with at_work(tmp_path, first, deed("command")) as it:
        it.set_nowait(before)
        turn = await it.editor.begin(it.session_id, "go")
        ask = await it.editor.next_ask()
        it.set_nowait(after)
        assert await turn.ended() == "cancelled"
        await withdrawn(it, ask)
        await it.editor.reply(ask, {"outcome": {"outcome": "selected", "optionId": "approve"}})
        await trio.testing.wait_all_tasks_blocked()
        assert it.deed.done == []
        assert set(statuses(turn)) == {"cancelled"}


async def test_an_answer_that_crosses_the_change_does_not_count(tmp_path, autojump_clock):
    """It was read before the mode was set, in the same step of the reader: the call had not gone on yet."""
    async with at_work(tmp_path, deed("edit")) as it:
        it.set_nowait(Mode.ASK)
        turn = await it.editor.begin(it.session_id, "go")
        await it.editor.next_ask()
        (waiting,) = it.session.hands.broker._open.values()
        waiting.settle_nowait(_selected("approve"))
        it.set_nowait(Mode.STANDARD)
        assert await turn.ended() == "cancelled"
        assert it.deed.done == []


def _selected(option_id):
    from term2_acp.domain.permission import Selected

    return Selected(option_id)


async def sweep(it, before, after, look):
    """A turn for each of its steps, at which the mode is set; ``look`` gets its end and its results."""
    for step in range(1, 500):
        it.set_nowait(before)
        told, it.deed.done, it.asked = len(it.told()), [], []
        with seeded(step), at_step(step, lambda: it.set_nowait(after)) as instrument:
            turn = await it.editor.begin(it.session_id, "go")
            reason = await turn.ended()
        if not instrument.acted:
            assert step > 20
            return
        look(reason, it.told()[told:])
    pytest.fail("a turn has no end")


async def test_plan_that_is_set_at_any_step_stops_every_edit_that_is_not_made(tmp_path, autojump_clock):
    """Whatever step of the turn it is, no effect is made after it; what was made before stands."""
    seen = set()
    async with at_work(tmp_path, deed("edit"), deed("edit")) as it:

        def look(reason, results):
            made = len(it.deed.done)
            assert reason == "end_turn"
            assert it.deed.done == [("edit", Mode.STANDARD)] * made
            assert results == [("did it", False)] * made + [(PLAN_KEEPS_FILES, True)] * (2 - made)
            seen.add(made)

        await sweep(it, Mode.STANDARD, Mode.PLAN, look)
    assert seen == {0, 1, 2}


async def test_ask_that_is_set_at_any_step_asks_or_finds_the_call_at_work(tmp_path, autojump_clock):
    """A call that was admitted without an ask and has not begun is not run: it may be called again."""
    seen = set()
    async with at_work(tmp_path, deed("edit")) as it:
        it.answer("approve")

        def look(reason, results):
            assert reason == "end_turn"
            ((result, failed),) = results
            assert failed == (not it.deed.done)
            seen.add((result, len(it.asked), *(mode for _, mode in it.deed.done)))

        await sweep(it, Mode.STANDARD, Mode.ASK, look)
    assert seen == {
        ("did it", 1, Mode.ASK),
        (CHANGED, 0),
        ("did it", 0, Mode.ASK),  # it was at work
        ("did it", 0, Mode.STANDARD),
    }


async def test_standard_that_is_set_at_any_step_frees_what_has_not_been_decided(tmp_path, autojump_clock):
    seen = set()
    async with at_work(tmp_path, deed("edit")) as it:

        def look(reason, results):
            assert reason == "end_turn"
            assert results == ([("did it", False)] if it.deed.done else [(PLAN_KEEPS_FILES, True)])
            seen.update(results)

        await sweep(it, Mode.PLAN, Mode.STANDARD, look)
    assert seen == {("did it", False), (PLAN_KEEPS_FILES, True)}


async def test_no_step_lets_a_call_run_that_an_ask_was_open_for(tmp_path, autojump_clock):
    """The person answers at once, and the mode is set at any step of that."""
    seen = set()
    async with at_work(tmp_path, deed("edit")) as it:
        it.answer("approve")

        def look(reason, results):
            assert it.deed.done in ([], [("edit", Mode.ASK)])
            assert (reason == "cancelled") <= (not it.deed.done)
            seen.add((reason, len(it.asked), bool(it.deed.done)))
            assert len(results) == 1

        await sweep(it, Mode.ASK, Mode.PLAN, look)
    assert seen == {
        ("end_turn", 0, False),
        ("cancelled", 0, False),  # withdrawn before it was sent, or sent and not answered yet
        ("cancelled", 1, False),
        ("end_turn", 1, False),
        ("end_turn", 1, True),
    }


async def test_a_tool_is_told_the_mode_of_now_in_the_midst_of_its_work(tmp_path, autojump_clock):
    async with at_work(tmp_path, deed("command")) as it:
        context = []
        really = it.deed.run

        async def run(prepared, given):
            context.append(given)
            return await really(prepared, given)

        it.deed.run = run
        await it.go(Mode.PLAN)
        assert context[0].mode() is Mode.PLAN
        it.set_nowait(Mode.ASK)
        assert context[0].mode() is Mode.ASK
        assert attrs.evolve(context[0], ports=None).mode() is Mode.ASK
