"""What the gate leaves with each call that it decides about: who decided, by which choice, after how long,
under which mode and grants, about what. A real broker, a real workspace and the real policy; the editor
answers after a while, or never. What the decision itself should be is the policy's to test.
"""

import contextlib

import pytest
import trio
from attrs import define, field

from term2_acp.agent.calls import new_call
from term2_acp.agent.gate import MAX_TARGET, Abort, Gate, Go, No, targets_of
from term2_acp.domain.events import ToolCallDecided
from term2_acp.domain.ids import SessionId
from term2_acp.domain.options import Mode
from term2_acp.domain.paths import Target
from term2_acp.domain.permission import Access, Action, AskCancelled, Lost, Selected, Unintelligible
from term2_acp.domain.toolcall import DecidedBy
from term2_acp.permission.broker import Broker
from term2_acp.permission.choices import Choice
from term2_acp.permission.grants import MAX_WORDED, SessionAccess, TurnAnswers
from term2_acp.permission.policy import PLAN_KEEPS_FILES, Ground
from term2_acp.providers.base import ToolCallDelta
from term2_acp.tools.base import Description, Prepared
from term2_acp.workspace import Workspace


class Workers:
    """Nobody shows who waits."""

    def asking(self):
        return contextlib.nullcontext()

    def done(self):
        pass


@define
class At:
    """A gate at work. ``answer`` is what the editor answers after ``seconds``; None: nothing, ever."""

    root: object
    answer: object = None
    seconds: float = 0.0
    mode: Mode = Mode.STANDARD
    before_answer: object = field(default=lambda: None)
    gate: Gate = field(init=False)

    def __attrs_post_init__(self):
        ws = self.root / "ws"
        ws.mkdir()
        (self.root / "out").mkdir()
        self.gate = Gate(
            ground=Ground(str(ws), str(self.root / "home")),
            access=SessionAccess(),
            answers=TurnAnswers(),
            broker=Broker(SessionId("s"), self._post),
            files=Workspace(str(ws), home=str(self.root / "home")),
            asks_for_edits=False,
            mode=lambda: self.mode,
        )

    def _post(self, waiting):
        async def answer():
            await trio.sleep(self.seconds)
            self.before_answer()
            waiting.settle_nowait(self.answer)

        if self.answer is not None:
            trio.lowlevel.spawn_system_task(answer)

    def path(self, name):
        return str(self.root / name)

    def act(self, access, name):
        return Action(access, self.gate.files.resolve(self.path(name)))

    async def decided(self, *actions, **prepared):
        """What came of a call, and the one record that was left with it."""
        call = new_call(ToolCallDelta("", "tool", "{}"), None, None, Description("Do it"))
        admission = await self.gate.admit(call, Prepared(actions, **prepared), Workers())
        (record,) = call.unwritten
        assert record.tool_call_id == call.tool_call_id
        return admission, record

    def record(self, record, by, names, **more):
        """What the record of a decision by somebody about these files has to be."""
        more.setdefault("allowed", not more.get("reason"))
        targets = tuple(map(self.path, names))
        return ToolCallDecided(record.tool_call_id, by=by, mode=self.mode.value, targets=targets, **more)


@pytest.fixture
def at(tmp_path):
    return lambda **how: At(tmp_path.resolve(), **how)


# -- without an ask --------------------------------------------------------------------------------


async def test_what_the_mode_allows_or_denies_is_the_policys(at, autojump_clock):
    gate = at()
    admission, record = await gate.decided(gate.act(Access.EDIT, "ws/a"), gate.act(Access.READ, "ws/b"))
    assert admission == Go(Mode.STANDARD)
    assert record == gate.record(record, DecidedBy.POLICY, ["ws/a", "ws/b"])
    gate.mode = Mode.PLAN
    admission, record = await gate.decided(gate.act(Access.EDIT, "ws/a"))
    assert admission == No(PLAN_KEEPS_FILES)
    assert record == gate.record(record, DecidedBy.POLICY, ["ws/a"], reason=PLAN_KEEPS_FILES)
    admission, record = await gate.decided()
    assert (record.by, record.mode, record.targets) == (DecidedBy.POLICY, "plan", ())


async def test_what_a_grant_allows_is_the_grants_and_all_of_them_are_named(at, autojump_clock):
    gate = at()
    gate.gate.access = SessionAccess({gate.path("out/f")}, {gate.path("out/d")}, {gate.path("out")})
    admission, record = await gate.decided(gate.act(Access.READ, "out/x"), gate.act(Access.EDIT, "ws/a"))
    assert admission == Go(Mode.STANDARD)
    grants = (
        f"edit {gate.path('out/f')}",
        f"edit below {gate.path('out/d')}",
        f"read below {gate.path('out')}",
    )
    assert record == gate.record(record, DecidedBy.GRANT, ["out/x", "ws/a"], grants=grants)
    _, record = await gate.decided(gate.act(Access.READ, "ws/a"))
    assert record == gate.record(record, DecidedBy.POLICY, ["ws/a"], grants=grants)


def test_of_very_many_grants_the_record_says_how_many():
    access = SessionAccess({f"/f/{number:04}" for number in range(MAX_WORDED + 1_001)})
    words = access.in_words()
    assert words[0] == "edit /f/0000"
    assert words[-2:] == (f"edit /f/{MAX_WORDED - 1:04}", "and 1,001 more")
    assert len(words) == MAX_WORDED + 1


async def test_what_an_answer_of_this_turn_covers_is_that_answers(at, autojump_clock):
    gate = at()
    outside = gate.act(Access.READ, "out/x")
    gate.gate.answers.remember("tool", Choice.ALLOW_FOLDER_SESSION, outside)
    admission, record = await gate.decided(outside)
    assert admission == Go(Mode.STANDARD)
    assert record == gate.record(record, DecidedBy.ANSWER, ["out/x"], choice="allow-folder-session")


# -- with an ask -----------------------------------------------------------------------------------


async def test_an_allow_is_the_persons_under_the_grants_of_before(at, autojump_clock):
    gate = at(answer=Selected("allow-edit-folder-session"), seconds=1.2346)
    admission, record = await gate.decided(gate.act(Access.EDIT, "out/a"))
    assert admission == Go(Mode.STANDARD)
    choice = "allow-edit-folder-session"
    assert record == gate.record(record, DecidedBy.PERSON, ["out/a"], choice=choice, waited_ms=1235)
    _, record = await gate.decided(gate.act(Access.EDIT, "out/b"))
    grants = (f"edit below {gate.path('out')}",)
    assert record == gate.record(record, DecidedBy.GRANT, ["out/b"], grants=grants)


PERSON, NOBODY = DecidedBy.PERSON, DecidedBy.NOBODY


@pytest.mark.parametrize(
    ("answer", "kind", "by", "choice", "reason"),
    [
        (Selected("deny"), No, PERSON, "deny", "The person refused this."),
        (AskCancelled(), No, PERSON, None, "The person dismissed the question, so this and"),
        (Selected("approve"), No, NOBODY, None, "The editor answered with a choice that was not offered"),
        (Unintelligible("?"), No, NOBODY, None, "The editor did not give an answer that can be understood"),
        (Lost(), Abort, NOBODY, None, "The editor went away before it answered"),
    ],
)
async def test_a_refusal_is_the_persons_only_where_they_refused(
    at, autojump_clock, answer, kind, by, choice, reason
):
    gate = at(answer=answer, seconds=2)
    admission, record = await gate.decided(gate.act(Access.EDIT, "out/a"))
    assert isinstance(admission, kind)
    assert admission.reason.startswith(reason)
    assert record == gate.record(
        record, by, ["out/a"], choice=choice, reason=admission.reason, waited_ms=2000
    )
    assert gate.gate.access == SessionAccess()


async def test_an_answer_to_what_has_changed_since_is_nobodys(at, autojump_clock):
    gate = at(answer=Selected("allow-once"))
    gate.before_answer = gate.gate.broker.revise_nowait
    admission, record = await gate.decided(gate.act(Access.EDIT, "out/a"))
    assert isinstance(admission, Abort)
    assert (record.by, record.allowed, record.choice) == (NOBODY, False, None)
    (gate.root / "out" / "link").symlink_to("a")
    gate.before_answer = lambda: move(gate.root / "out" / "link", "b")
    action = gate.act(Access.EDIT, "out/link")
    admission, record = await gate.decided(action)
    reason = "A target changed between the ask and its answer."
    assert admission == Abort(reason)
    assert record == gate.record(record, NOBODY, ["out/a"], choice="allow-once", reason=reason)


def move(link, to):
    link.unlink()
    link.symlink_to(to)


async def test_a_question_that_is_too_long_to_be_asked_is_nobodys(at, autojump_clock):
    gate = at(answer=Selected("approve"), seconds=5)
    action = Action(Access.OTHER, None, "x" * 500_000)
    admission, record = await gate.decided(action)
    assert isinstance(admission, No)
    assert (record.by, record.allowed, record.waited_ms) == (NOBODY, False, 0)
    assert record.targets == ("x" * (MAX_TARGET - 3) + "...",)


async def test_an_ask_that_a_cancel_ends_was_answered_by_nobody(at, autojump_clock):
    gate = at()
    call = new_call(ToolCallDelta("", "tool", "{}"), None, None, Description("Do it"))
    with trio.move_on_after(90):
        await gate.gate.admit(call, Prepared((gate.act(Access.READ, "out/a"),)), Workers())
    (record,) = call.unwritten
    reason = "This was ended before an answer of the person was acted on."
    assert record == gate.record(record, NOBODY, ["out/a"], reason=reason, waited_ms=90_000)


# -- what it is about ------------------------------------------------------------------------------


def test_what_a_call_is_about_is_its_paths_and_else_its_words():
    command = Action(Access.COMMAND, None, "Run this command in the sandbox")
    fetch = Action(Access.OTHER, None, "fetch https://example.org/")
    file = Action(Access.EDIT, Target("/w/l", "/w/a\nb", inside=True))
    prepared = Prepared((file, fetch, command), summary="For at most 120 s: make\x1b[0m\n test")
    assert targets_of(prepared) == (
        "/w/a\nb",
        "fetch https://example.org/",
        "For at most 120 s: make\\u001b[0m\\u000a test",
    )
    assert targets_of(Prepared((command,))) == ("Run this command in the sandbox",)
    exactly, more = "x" * MAX_TARGET, "\n" * MAX_TARGET
    assert targets_of(Prepared((Action(Access.OTHER, None, exactly),))) == (exactly,)
    (shown,) = targets_of(Prepared((Action(Access.OTHER, None, more),)))
    assert len(shown) == MAX_TARGET
    assert shown.startswith("\\u000a")
    assert shown.endswith("...")
