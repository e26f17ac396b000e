"""The broker: one answer each, and everything but an explicit allow of a live ask is a refusal.

A session's outbox is played by a list of posted asks, a client by a function that keeps ``settle``.
Real Trio tasks wait; nothing sleeps.
"""

from functools import partial

import pytest
import trio
import trio.testing
from attrs import evolve

from term2_acp.domain.ids import SessionId, ToolCallId
from term2_acp.domain.paths import Target
from term2_acp.domain.permission import (
    Access,
    Action,
    AskCancelled,
    Lost,
    Option,
    OptionKind,
    Selected,
    Unintelligible,
)
from term2_acp.domain.toolcall import ToolCallUpdate, ToolStatus
from term2_acp.permission.broker import (
    MAX_DESCRIPTION_BYTES,
    MAX_NAME_BYTES,
    Abandoned,
    Approved,
    Broker,
    Refused,
    RefusedAll,
)
from term2_acp.permission.choices import Choice
from term2_acp.permission.ground import Ground

GROUND = Ground("/home/ann/ws", "/home/ann")
CALL = ToolCallUpdate(ToolCallId("call_1"), title="Edit b", status=ToolStatus.PENDING)
CHOICES = (Choice.ALLOW_ONCE, Choice.ALLOW_EDIT_FOLDER_SESSION, Choice.DENY)


class Client:
    """Keeps what it was asked, and what was withdrawn."""

    def __init__(self):
        self.asked = []
        self.settles = []
        self.withdrawn = []

    def ask(self, ask, settle):
        self.asked.append(ask)
        self.settles.append(settle)
        return lambda: self.withdrawn.append(ask.ask_id)


class Desk:
    """A broker, its outbox and its client."""

    def __init__(self):
        self.posted = []
        self.client = Client()
        self.broker = Broker(SessionId("sess_1"), self.posted.append)
        self.verdicts = {}

    async def ask(self, name="a", *, path="/srv/a/b", choices=CHOICES, title="Edit b", description="Why"):
        self.verdicts[name] = await self.broker.ask(
            title=title,
            description=description,
            tool_call=CALL,
            choices=choices,
            actions=[Action(Access.EDIT, Target(path, path, inside=False))],
            ground=GROUND,
        )

    def pump(self):
        """Let every marker out of the outbox."""
        for waiting in self.posted:
            waiting.send_through(self.client.ask)


@pytest.fixture
def desk():
    return Desk()


async def answered(desk, answer, **said):
    """The verdict on one ask that is sent and then answered."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(partial(desk.ask, **said))
        await trio.testing.wait_all_tasks_blocked()
        desk.pump()
        desk.client.settles[0](answer)
    return desk.verdicts["a"]


async def test_what_is_asked_is_complete_and_hides_nothing(desk):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: desk.ask(title="Edit\u202e b", description="Line 1\nLine\r 2", path="/srv/a\u200b/b")
        )
        await trio.testing.wait_all_tasks_blocked()
        desk.pump()
        ask = desk.client.asked[0]
        nursery.cancel_scope.cancel()
    assert ask.session_id == "sess_1"
    assert ask.title == "Edit\\u202e b"
    assert ask.description == "Line 1\nLine\\u000d 2"
    assert ask.tool_call == CALL
    assert ask.options == (
        Option("allow-once", "Allow once: edit /srv/a\\u200b/b", OptionKind.ALLOW_ONCE),
        Option(
            "allow-edit-folder-session",
            "Allow edits below /srv/a\\u200b until this session closes",
            OptionKind.ALLOW_ALWAYS,
        ),
        Option("deny", "Deny this call", OptionKind.REJECT_ONCE),
    )


async def test_the_title_of_the_call_is_written_out_too():
    posted = []
    broker = Broker(SessionId("s"), posted.append)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(
            lambda: broker.ask(
                title="t",
                description="",
                tool_call=evolve(CALL, title="rm\u202e x", raw_input={"x": "\u202e"}),
                choices=(Choice.APPROVE, Choice.REJECT),
                actions=[Action(Access.OTHER, None, "d")],
                ground=GROUND,
            )
        )
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert posted[0].ask.tool_call.title == "rm\\u202e x"
    # What runs is what is shown: the input itself is not touched.
    assert posted[0].ask.tool_call.raw_input == {"x": "\u202e"}


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (Selected("allow-once"), Approved(Choice.ALLOW_ONCE)),
        (Selected("allow-edit-folder-session"), Approved(Choice.ALLOW_EDIT_FOLDER_SESSION)),
        (Selected("deny"), Refused("The person refused this.", Choice.DENY)),
        # Offered to others, never offered to anyone, unknown, empty: none of them was offered here.
        *(
            (
                Selected(option_id),
                Refused("The editor answered with a choice that was not offered, so this was refused."),
            )
            for option_id in (
                "approve",
                "allow-edit-file-session",
                "unsandboxed-once",
                "allow-remember",
                "allow_once",
                "ALLOW-ONCE",
                "",
            )
        ),
        (
            Unintelligible("the outcome is not known"),
            Refused("The editor did not give an answer that can be understood, so this was refused."),
        ),
        (
            AskCancelled(),
            RefusedAll("The person dismissed the question, so this and the rest of the reply was not run."),
        ),
        (Lost(), Abandoned("The editor went away before it answered, so this was not run.")),
    ],
)
async def test_each_answer_has_its_verdict(desk, answer, verdict):
    assert await answered(desk, answer) == verdict
    assert desk.client.withdrawn == []


async def test_an_ask_waits_for_its_marker_and_is_sent_once(desk):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.ask)
        await trio.testing.wait_all_tasks_blocked()
        assert desk.client.asked == []
        desk.pump()
        desk.pump()
        assert len(desk.client.asked) == 1
        desk.client.settles[0](Selected("allow-once"))
    assert desk.verdicts["a"] == Approved(Choice.ALLOW_ONCE)


async def test_only_the_first_answer_counts(desk):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.ask)
        await trio.testing.wait_all_tasks_blocked()
        desk.pump()
        desk.client.settles[0](Selected("deny"))
        desk.client.settles[0](Selected("allow-once"))
    desk.client.settles[0](Selected("allow-once"))
    assert desk.verdicts["a"] == Refused("The person refused this.", Choice.DENY)


async def test_an_answer_before_the_waiter_waits_is_not_lost():
    """A client that is gone answers while the ask is being posted."""
    broker = Broker(SessionId("s"), lambda waiting: waiting.send_through(gone))

    def gone(_ask, settle):
        settle(Lost())
        return lambda: pytest.fail("there is nothing to withdraw")

    verdict = await broker.ask(
        title="t",
        description="",
        tool_call=CALL,
        choices=(Choice.APPROVE, Choice.REJECT),
        actions=[Action(Access.OTHER, None, "d")],
        ground=GROUND,
    )
    assert verdict == Abandoned()


async def test_a_cancelled_waiter_withdraws_what_was_sent_and_a_late_answer_is_nothing(desk):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.ask)
        await trio.testing.wait_all_tasks_blocked()
        desk.pump()
        nursery.cancel_scope.cancel()
    ask = desk.client.asked[0]
    assert desk.client.withdrawn == [ask.ask_id]
    desk.client.settles[0](Selected("allow-once"))
    assert desk.verdicts == {}
    assert not desk.posted[0].open


async def test_a_cancelled_waiter_whose_ask_is_queued_is_never_sent(desk):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.ask)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    desk.pump()
    assert desk.client.asked == []
    assert desk.client.withdrawn == []


@pytest.mark.parametrize("cancel_first", [True, False])
async def test_a_cancel_read_together_with_the_answer_wins(desk, cancel_first):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.ask)
        await trio.testing.wait_all_tasks_blocked()
        desk.pump()
        if cancel_first:
            nursery.cancel_scope.cancel()
        desk.client.settles[0](Selected("allow-once"))
        nursery.cancel_scope.cancel()
    assert desk.verdicts == {}


async def test_closing_loses_every_open_ask_and_every_later_one(desk):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.ask, "sent")
        await trio.testing.wait_all_tasks_blocked()
        desk.pump()
        nursery.start_soon(desk.ask, "queued")
        await trio.testing.wait_all_tasks_blocked()
        desk.broker.close_nowait()
        desk.pump()
    await desk.ask("later")
    assert desk.verdicts == {"sent": Abandoned(), "queued": Abandoned(), "later": Abandoned()}
    assert len(desk.client.asked) == 1
    assert desk.client.withdrawn == [desk.client.asked[0].ask_id]
    assert len(desk.posted) == 2


async def test_a_close_read_together_with_the_answer_wins(desk):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.ask)
        await trio.testing.wait_all_tasks_blocked()
        desk.pump()
        desk.client.settles[0](Selected("allow-once"))
        desk.broker.close_nowait()
    assert desk.verdicts["a"] == Abandoned()


@pytest.mark.parametrize("answer_first", [True, False])
async def test_a_stale_ask_is_abandoned_whatever_the_answer(desk, answer_first):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.ask)
        await trio.testing.wait_all_tasks_blocked()
        desk.pump()
        if answer_first:
            desk.client.settles[0](Selected("allow-once"))
        desk.broker.revise_nowait()
        desk.client.settles[0](Selected("allow-once"))
    assert desk.verdicts["a"] == Abandoned(
        "What was asked about changed before the answer came, so this was not run."
    )
    assert len(desk.client.withdrawn) == (0 if answer_first else 1)
    # An ask that is made after the change is a live one.
    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.ask, "b")
        await trio.testing.wait_all_tasks_blocked()
        desk.pump()
        desk.client.settles[1](Selected("allow-once"))
    assert desk.verdicts["b"] == Approved(Choice.ALLOW_ONCE)


async def test_each_answer_reaches_its_own_ask(desk):
    """Four at once, answered in reverse, one twice, one never."""
    async with trio.open_nursery() as nursery:
        for name in "abcd":
            nursery.start_soon(desk.ask, name)
            await trio.testing.wait_all_tasks_blocked()
        desk.pump()
        assert len({ask.ask_id for ask in desk.client.asked}) == 4
        settle_a, settle_b, settle_c, _settle_d = desk.client.settles
        settle_c(Selected("allow-once"))
        settle_b(Selected("deny"))
        settle_c(Selected("deny"))
        settle_a(Selected("allow-edit-folder-session"))
        await trio.testing.wait_all_tasks_blocked()
        assert desk.verdicts == {
            "a": Approved(Choice.ALLOW_EDIT_FOLDER_SESSION),
            "b": Refused("The person refused this.", Choice.DENY),
            "c": Approved(Choice.ALLOW_ONCE),
        }
        nursery.cancel_scope.cancel()
    assert desk.client.withdrawn == [desk.client.asked[3].ask_id]


async def test_ask_ids_are_never_used_twice_in_the_process(desk):
    other = Desk()
    async with trio.open_nursery() as nursery:
        for name in "ab":
            nursery.start_soon(desk.ask, name)
            nursery.start_soon(other.ask, name)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    ids = [waiting.ask.ask_id for waiting in desk.posted + other.posted]
    assert len(set(ids)) == 4


async def test_a_client_that_fails_to_send_loses_the_ask_and_the_failure_goes_on(desk):
    def broken(_ask, _settle):
        raise RuntimeError("cannot send")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(desk.ask)
        await trio.testing.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="cannot send"):
            desk.posted[0].send_through(broken)
    assert desk.verdicts["a"] == Abandoned()


async def test_choices_that_cannot_be_offered_are_an_error_and_nothing_is_asked(desk):
    with pytest.raises(ValueError, match="never offered"):
        await desk.ask(choices=(Choice.ALLOW_ONCE, Choice.UNSANDBOXED_ONCE, Choice.DENY))
    assert desk.posted == []


@pytest.mark.parametrize(
    "said",
    [
        {"description": "x" * (MAX_DESCRIPTION_BYTES - 4) + "\u00e9\u00e9"},
        {"description": "\n" * (MAX_DESCRIPTION_BYTES // 2)},
        {"path": "/" + "p" * (MAX_NAME_BYTES - len("Allow edits below / until this session closes")) + "/b"},
    ],
)
async def test_what_fits_into_a_question_is_asked(desk, said):
    assert await answered(desk, Selected("allow-once"), **said) == Approved(Choice.ALLOW_ONCE)


@pytest.mark.parametrize(
    "said",
    [
        {"description": "x" * (MAX_DESCRIPTION_BYTES + 1)},
        {"description": "x" * (MAX_DESCRIPTION_BYTES - 4) + "\u20ac\u20ac"},
        {"description": '"\\' * (MAX_DESCRIPTION_BYTES // 4) + "x"},
        {"description": "\x01" * (MAX_DESCRIPTION_BYTES // 6)},
        {"path": "/" + "p" * MAX_NAME_BYTES + "/b"},
    ],
)
async def test_a_question_that_would_be_cut_is_not_asked(desk, said):
    """Nobody allows what they were not shown, and no grant holds for what its option does not name."""
    await desk.ask(**said)
    verdict = desk.verdicts["a"]
    assert isinstance(verdict, Refused)
    assert "too long to be shown whole" in verdict.reason
    assert desk.posted == []
