"""One scenario, held at both doors with the same scripted model: every kind of turn, asks, modes, commands of
the person, the history, and the end of a session. What is expected is written once."""

import functools
import json
from pathlib import Path

import pytest

from tests.kit.editor_v1 import EditorV1
from tests.kit.indoors import Indoors, indoors
from tests.kit.seats import Seat, SeatV1, SeatV2, SeenAsk, SeenCall

SCRIPT = """
context_tokens = 1000

[[rules]]
match = "^hi$"
[[rules.replies]]
steps = [{ thought = "A greeting." }, { text = "Hello there.", chunk = 3 }, { usage = [12, 5] }]

[[rules]]
match = "^wait$"
[[rules.replies]]
steps = [{ text = "Waiting." }, { call = "read_file", arguments = { path = "a.txt" } }, { hang = true }]

[[rules]]
match = "^read$"
[[rules.replies]]
steps = [{ call = "read_file", arguments = { path = "a.txt" } }]
[[rules.replies]]
steps = [{ text = "Read." }]

[[rules]]
match = "^outside$"
[[rules.replies]]
steps = [{ call = "read_file", arguments = { path = "@OUTSIDE@" } }]
[[rules.replies]]
steps = [{ text = "After." }]

[[rules]]
match = "^make (.*)$"
[[rules.replies]]
steps = [{ call = "create_file", arguments = { path = "$1", content = "one\\ntwo\\n" } }]
[[rules.replies]]
steps = [{ text = "So be it." }]

[[rules]]
match = "^change$"
[[rules.replies]]
steps = [{ call = "read_file", arguments = { path = "a.txt" } }]
[[rules.replies]]
steps = [{ call = "search_replace", raw = '@CHANGE@' }]
[[rules.replies]]
steps = [{ text = "Changed." }]

[[rules]]
match = "^plan$"
[[rules.replies]]
[[rules.replies.steps]]
call = "update_plan"
[[rules.replies.steps.arguments.entries]]
content = "Look"
priority = "high"
status = "completed"
[[rules.replies.steps.arguments.entries]]
content = "Leap"
priority = "low"
status = "pending"
[[rules.replies]]
steps = [{ text = "Planned." }]

[[rules]]
match = "^long$"
[[rules.replies]]
steps = [{ text = "And so" }, { finish = "length" }]

[[rules]]
match = "^no$"
[[rules.replies]]
steps = [{ text = "I will not." }, { finish = "refusal" }]

[[rules]]
match = "^break$"
[[rules.replies]]
steps = [{ text = "Half" }, { error = "overloaded", message = "The server is full. Try again later." }]

[[rules]]
match = "^odd$"
[[rules.replies]]
steps = [{ call = "no_such_tool", arguments = { x = 1 } }]
[[rules.replies]]
steps = [{ text = "Odd." }]

[[rules]]
[[rules.replies]]
steps = [{ text = "You said: $0" }]
"""

CHANGE = {"path": "a.txt", "replacements": [{"search_content": "two", "replace_content": "2"}]}


@pytest.fixture(params=["v1", "v2"])
def door(request: pytest.FixtureRequest, tmp_path: Path):
    """Opens a daemon that plays the script, and a seat at one of its doors."""
    outside = tmp_path / "elsewhere" / "outside.txt"
    outside.parent.mkdir()
    outside.write_text("outside words\n")
    script = SCRIPT.replace("@OUTSIDE@", str(outside)).replace("@CHANGE@", json.dumps(CHANGE))
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "a.txt").write_text("one\ntwo\nthree\n")
    make = {"v1": lambda d: SeatV1(EditorV1(d.editor)), "v2": lambda d: SeatV2(d.editor)}[request.param]
    return functools.partial(indoors, tmp_path, script, profile="full"), make


async def seated(daemon: Indoors, make) -> tuple[Seat, str]:
    seat: Seat = make(daemon)
    await seat.sit()
    return seat, await seat.new(daemon.workspace)


async def test_turns_of_every_kind(door):
    run, make = door
    async with run() as daemon:
        seat, session = await seated(daemon, make)
        seen = await seat.prompt(session, "hi")
        assert (seen.stop, seen.text, seen.thought) == ("end_turn", "Hello there.", "A greeting.")
        assert (seen.usage, seen.title) == ((17, 1000), "hi")
        assert (await seat.prompt(session, "plan")).plan == [("Look", "completed"), ("Leap", "pending")]
        long = await seat.prompt(session, "long")
        assert (long.stop, long.text) == ("max_tokens", "And so")
        assert (await seat.prompt(session, "no")).stop == "refusal"
        broken = await seat.prompt(session, "break")
        assert (broken.stop, broken.text) == ("error", "Half")
        assert broken.error == "The server is full. Try again later."
        odd = await seat.prompt(session, "odd")
        assert [(call.kind, call.status) for call in odd.calls] == [("other", "failed")]
        assert (odd.stop, odd.text) == ("end_turn", "Odd.")
        assert seat.asks == []


async def test_files_are_read_made_and_changed(door):
    run, make = door
    async with run() as daemon:
        seat, session = await seated(daemon, make)
        read = await seat.prompt(session, "read")
        assert [(c.title, c.kind, c.status, c.files) for c in read.calls] == [
            ("Read a.txt", "read", "completed", ())
        ]
        made = await seat.prompt(session, "make b.txt")
        assert made.calls == [SeenCall("Create b.txt", "edit", "completed", ("b.txt",))]
        assert (daemon.workspace / "b.txt").read_text() == "one\ntwo\n"
        changed = await seat.prompt(session, "change")
        assert [(c.kind, c.status, c.files) for c in changed.calls] == [
            ("read", "completed", ()),
            ("edit", "completed", ("a.txt",)),
        ]
        assert (daemon.workspace / "a.txt").read_text() == "one\n2\nthree\n"
        assert seat.asks == []


async def test_what_lies_outside_is_asked_for_and_the_answer_is_what_happens(door):
    run, make = door
    async with run() as daemon:
        seat, session = await seated(daemon, make)
        seat.answer = "reject_once"
        refused = await seat.prompt(session, "outside")
        assert [(call.status, call.text) for call in refused.calls] == [
            ("failed", "The person refused this.")
        ]
        assert (refused.stop, refused.text) == ("end_turn", "After.")
        seat.answer = "allow_always"
        assert [call.status for call in (await seat.prompt(session, "outside")).calls] == ["completed"]
        assert [call.status for call in (await seat.prompt(session, "outside")).calls] == ["completed"]
        title = f"Read {daemon.workspace.parent}/elsewhere/outside.txt"
        assert seat.asks == 2 * [SeenAsk(title, ("allow_once", "allow_always", "reject_once"), ())]


async def test_a_turn_is_cancelled_and_the_next_one_works(door):
    run, make = door
    async with run() as daemon:
        seat, session = await seated(daemon, make)
        waiting = await seat.prompt(session, "wait", meanwhile=lambda: seat.cancel(session))
        assert (waiting.stop, waiting.text, waiting.calls) == ("cancelled", "Waiting.", [])
        assert (await seat.prompt(session, "hi")).stop == "end_turn"


async def test_plan_mode_changes_nothing_and_ask_mode_asks(door):
    run, make = door
    async with run() as daemon:
        seat, session = await seated(daemon, make)
        assert (await seat.set(session, "mode", "plan"))["mode"] == "plan"
        denied = await seat.prompt(session, "make b.txt")
        assert [call.status for call in denied.calls] == ["failed"]
        assert "plan mode" in denied.calls[0].text.lower()
        assert not (daemon.workspace / "b.txt").exists()
        assert seat.asks == []
        assert (await seat.set(session, "mode", "ask"))["mode"] == "ask"
        seat.answer = "reject_once"
        assert [call.status for call in (await seat.prompt(session, "make b.txt")).calls] == ["failed"]
        seat.answer = "allow_once"
        made = await seat.prompt(session, "make b.txt")
        assert made.calls == [SeenCall("Create b.txt", "edit", "completed", ("b.txt",))]
        assert seat.asks == 2 * [SeenAsk("Create b.txt", ("allow_once", "reject_once"), ("b.txt",))]
        await seat.close(session)
        assert (await seat.options(session, daemon.workspace))["mode"] == "ask"


async def test_what_is_no_option_is_refused_and_changes_nothing(door):
    run, make = door
    async with run() as daemon:
        seat, session = await seated(daemon, make)
        for option, value in (("mode", "yolo"), ("nothing", "plan")):
            params = {"sessionId": session, "configId": option, "type": "id", "value": value}
            refused = await seat.refused("session/set_config_option", params)
            assert refused.code == -32602
            assert "\n" not in refused.message
        assert (
            "standard, ask, plan"
            in (
                await seat.refused(
                    "session/set_config_option",
                    {"sessionId": session, "configId": "mode", "type": "id", "value": "yolo"},
                )
            ).message
        )
        assert (await seat.options(session, daemon.workspace))["mode"] == "standard"


async def test_commands_of_the_person_are_answered_here(door):
    run, make = door
    async with run() as daemon:
        seat, session = await seated(daemon, make)
        helped = await seat.prompt(session, "/help")
        assert helped.stop == "end_turn"
        for name in ("/plan", "/compact", "/model", "/usage", "/permissions", "/help"):
            assert name in helped.text
        assert helped.usage is None
        planned = await seat.prompt(session, "/plan")
        assert (planned.stop, planned.mode) == ("end_turn", "plan")
        told = await seat.prompt(session, "/plan hi")
        assert told.text == "Hello there."
        assert (await seat.prompt(session, "/usr/bin is a folder")).text.startswith("You said: ")
        assert "17" in (await seat.prompt(session, "/usage")).text


async def test_the_history_is_told_again_and_the_session_goes(door):
    run, make = door
    async with run() as daemon:
        seat, session = await seated(daemon, make)
        await seat.prompt(session, "hi")
        await seat.prompt(session, "make b.txt")
        await seat.prompt(session, "break")
        await seat.close(session)
        assert await seat.history(session, daemon.workspace) == [
            ("user_message", "hi"),
            ("agent_thought", "A greeting."),
            ("agent_message", "Hello there."),
            ("user_message", "make b.txt"),
            ("tool_call", "Create b.txt: completed"),
            ("agent_message", "So be it."),
            ("user_message", "break"),
            ("agent_message", "Half"),
            ("agent_message", "The server is full. Try again later."),
        ]
        assert (await seat.prompt(session, "hi")).stop == "end_turn"
        assert await seat.sessions(daemon.workspace) == [(session, "hi")]
        await seat.delete(session)
        assert await seat.sessions(daemon.workspace) == []
        await seat.delete(session)
        gone = await seat.refused(
            "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "x"}]}
        )
        assert (gone.code, gone.data) == (-32002, {"sessionId": session})
