"""Permission as the client sees it: nothing but an explicit allow to a live ask lets a tool run.

One process takes the whole table of answers that are no approval, one after the other; each has to leave
the call failed, the secret unread, and the turn alive. What ends a turn, or needs several calls, is a
scene of its own.
"""

import json
from collections.abc import Iterator

import pytest
import trio
from attrs import define

from tests.kit.daemon import Daemon
from tests.kit.editor import Turn
from tests.kit.forked import running
from tests.kit.home import Home
from tests.kit.play import OUTSIDE, conformance
from tests.kit.wire import Json

THREE = """
[[rules]]
match = "^three$"
[[rules.replies]]
steps = [
    { call = "read_file", arguments = { path = "@A@" } },
    { call = "create_file", arguments = { path = "@B@", content = "b" } },
    { call = "read_file", arguments = { path = "@A@", start_line = 1 } },
]
[[rules.replies]]
steps = [{ text = "All three." }]

[[rules]]
match = "^write$"
[[rules.replies]]
steps = [{ call = "create_file", arguments = { path = "@B@", content = "b" } }]
[[rules.replies]]
steps = [{ text = "Wrote." }]

[[rules]]
match = "^envrc$"
[[rules.replies]]
steps = [{ call = "create_file", arguments = { path = ".envrc", content = "export A=1" } }]
[[rules.replies]]
steps = [{ text = "Wrote." }]

[[rules]]
match = "^link$"
[[rules.replies]]
steps = [{ call = "read_file", arguments = { path = "link/outside.txt" } }]
[[rules.replies]]
steps = [{ text = "Followed." }]
"""


def make(root) -> Home:
    home = Home.make(root)
    script = THREE.replace("@A@", str(root / "elsewhere" / "outside.txt"))
    home.play(script.replace("@B@", str(root / "written" / "b.txt")) + conformance(home))
    (root / "written").mkdir()
    return home


# -- answers that are no approval ------------------------------------------------------------------


def selected(option_id):
    return {"result": {"outcome": {"outcome": "selected", "optionId": option_id}}}


# What the client sends back as the members of its response, or as a whole line with the id in it.
NO_APPROVAL = {
    "reject": selected("reject"),
    "cancelled": {"result": {"outcome": {"outcome": "cancelled"}}},
    "an error": {"error": {"code": -32603, "message": "no"}},
    "a client without the method": {"error": {"code": -32601, "message": "Method not found"}},
    "a malformed error": {"error": "no"},
    "null": {"result": None},
    "an empty result": {"result": {}},
    "no outcome": {"result": {"optionId": "approve"}},
    "an outcome that is a word": {"result": {"outcome": "selected"}},
    "an outcome of v1's elders": {"result": {"approved": True}},
    "a boolean": {"result": True},
    "selected, and nothing": {"result": {"outcome": {"outcome": "selected"}}},
    "selected, and null": selected(None),
    "selected, and a number": selected(1),
    "selected, and a list": selected(["approve"]),
    "an option that was not offered": {
        "result": {"outcome": {"outcome": "selected", "optionId": "allow-once"}}
    },
    "an option that never is": {
        "result": {"outcome": {"outcome": "selected", "optionId": "unsandboxed-once"}}
    },
    "the name of an option": {"result": {"outcome": {"outcome": "selected", "optionId": "Allow once"}}},
    "another case": {"result": {"outcome": {"outcome": "selected", "optionId": "Approve"}}},
    "an outcome of ours": {"result": {"outcome": {"outcome": "_x_allowed", "optionId": "approve"}}},
    "both result and error": {
        "result": {"outcome": {"outcome": "selected", "optionId": "approve"}},
        "error": {"code": 1, "message": "x"},
    },
    "a member twice": '{"jsonrpc":"2.0","id":@,"result":{"outcome":'
    '{"outcome":"cancelled","outcome":"selected","optionId":"approve"}}}',
    "a member twice at the root": '{"jsonrpc":"2.0","id":@,"result":{},"result":'
    '{"outcome":{"outcome":"selected","optionId":"approve"}}}',
    "no jsonrpc": '{"id":@,"result":{"outcome":{"outcome":"selected","optionId":"approve"}}}',
    "too deep": '{"jsonrpc":"2.0","id":@,"result":{"outcome":{"outcome":"selected","optionId":"approve"},"x":'
    + "[" * 200
    + "]" * 200
    + "}}",
}


@define
class Denied:
    """What came of one answer."""

    call: Json
    text: str
    stop_reason: str
    frames: list[Json]


async def deny_all(home: Home) -> dict[str, Denied]:
    found = {}
    async with running(home) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        for name, answer in NO_APPROVAL.items():
            start = len(daemon.frames)
            turn = await daemon.begin(session, "ask")
            ask = await daemon.next_ask()
            if isinstance(answer, str):
                await daemon.send_line(answer.replace("@", json.dumps(ask["id"])))
            else:
                await daemon.send({"jsonrpc": "2.0", "id": ask["id"], **answer})
            stop_reason = await turn.ended()
            (call,) = turn.calls.values()
            found[name] = Denied(call, turn.text, stop_reason, daemon.frames[start:])
    return found


@pytest.fixture(scope="module")
def denied(tmp_path_factory) -> Iterator[dict[str, Denied]]:
    return trio.run(deny_all, make(tmp_path_factory.mktemp("asks")))


@pytest.mark.parametrize("name", NO_APPROVAL)
def test_an_answer_that_is_no_approval_fails_the_call_and_the_turn_goes_on(denied, name):
    it = denied[name]
    assert it.call["status"] == "failed"
    assert it.call["content"]
    assert it.stop_reason == "end_turn"
    assert it.text == "Let me look.Looked."
    assert OUTSIDE not in json.dumps(it.frames)


@pytest.mark.parametrize("name", NO_APPROVAL)
def test_an_answer_is_never_answered(denied, name):
    assert [frame for frame in denied[name].frames if "error" in frame] == []


# -- what ends the turn ----------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["session/cancel", "session/close"])
async def test_a_cancel_or_close_withdraws_an_open_ask_and_a_late_answer_is_nothing(tmp_path, how):
    home = make(tmp_path)
    async with running(home) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        turn = await daemon.begin(session, "ask")
        ask = await daemon.next_ask()
        if how == "session/cancel":
            await daemon.cancel(session)
        else:
            assert await daemon.request(how, {"sessionId": session}) == {}
        assert await turn.ended() == "cancelled"
        withdrawn = [frame for frame in daemon.frames if frame.get("method") == "$/cancel_request"]
        assert [frame["params"]["requestId"] for frame in withdrawn] == [ask["id"]]
        await daemon.choose(ask, "approve")
        if how == "session/close":
            assert await daemon.request("session/resume", opened(home, session)) == {}
        assert await (await daemon.prompt(session, "hi")).ended() == "end_turn"
        (call,) = turn.calls.values()
        assert call["status"] == "cancelled"
        assert OUTSIDE not in json.dumps(daemon.frames)


def opened(home, session):
    return {"sessionId": session, "cwd": str(home.workspace)}


async def test_an_answer_inside_an_array_is_an_answer(tmp_path):
    home = make(tmp_path)
    async with running(home) as daemon:
        await daemon.initialize()
        turn = await daemon.begin(await daemon.new_session(home.workspace), "ask")
        ask = await daemon.next_ask()
        await daemon.send([{"jsonrpc": "2.0", "id": ask["id"], **selected("approve")}])
        assert await turn.ended() == "end_turn"
        assert statuses(turn) == ["completed"]
        assert await daemon.quiet(0) == []


# -- several calls ---------------------------------------------------------------------------------


async def three(daemon: Daemon, home: Home, answers: list[str]) -> Turn:
    await daemon.initialize()
    session = await daemon.new_session(home.workspace)
    turn = await daemon.begin(session, "three")
    for answer in answers:
        ask = await daemon.next_ask()
        if answer == "cancelled":
            await daemon.reply(ask, {"outcome": {"outcome": "cancelled"}})
        else:
            await daemon.choose(ask, answer)
    assert await turn.ended() == "end_turn"
    assert turn.text == "All three."
    return turn


def statuses(turn):
    return [call["status"] for call in turn.calls.values()]


async def test_a_reject_refuses_its_own_call_alone(tmp_path):
    home = make(tmp_path)
    async with running(home) as daemon:
        turn = await three(daemon, home, ["approve", "deny", "approve"])
    assert statuses(turn) == ["completed", "failed", "completed"]
    assert not (tmp_path / "written" / "b.txt").exists()


async def test_a_cancelled_outcome_keeps_the_rest_of_the_reply_from_running(tmp_path):
    home = make(tmp_path)
    async with running(home) as daemon:
        turn = await three(daemon, home, ["approve", "cancelled"])
    assert statuses(turn) == ["completed", "failed", "failed"]
    assert not (tmp_path / "written" / "b.txt").exists()


async def test_a_folder_grant_covers_reading_alone_and_dies_with_the_session(tmp_path):
    home = make(tmp_path)
    async with running(home) as daemon:
        turn = await three(daemon, home, ["allow-folder-session", "allow-once"])
        assert statuses(turn) == ["completed"] * 3
        assert (tmp_path / "written" / "b.txt").read_text() == "b"
        session = turn.session_id
        asked = len(asks(daemon))
        assert statuses(await daemon.prompt(session, "ask")) == ["completed"]
        assert len(asks(daemon)) == asked
        # Neither another session nor the same one, closed and resumed, has the grant.
        other = await daemon.new_session(home.workspace)
        await daemon.request("session/close", {"sessionId": session})
        await daemon.request("session/resume", opened(home, session))
        for again in (session, other):
            turn = await daemon.begin(again, "ask")
            await daemon.choose(await daemon.next_ask(), "reject")
            assert await turn.ended() == "end_turn"


def asks(daemon):
    return [frame for frame in daemon.frames if frame.get("method") == "session/request_permission"]


def kinds(ask):
    return {option["optionId"]: option["kind"] for option in ask["params"]["options"]}


async def test_an_edit_outside_shows_its_diff_and_offers_file_and_folder(tmp_path):
    home = make(tmp_path)
    async with running(home) as daemon:
        await daemon.initialize()
        turn = await daemon.begin(await daemon.new_session(home.workspace), "write")
        ask = await daemon.next_ask()
        assert kinds(ask) == {
            "allow-once": "allow_once",
            "allow-edit-file-session": "allow_always",
            "allow-edit-folder-session": "allow_always",
            "deny": "reject_once",
        }
        target = str(tmp_path / "written" / "b.txt")
        assert target in ask["params"]["description"]
        (diff,) = ask["params"]["subject"]["toolCall"]["content"]
        assert diff["changes"] == [{"operation": "add", "path": target}]
        await daemon.choose(ask, "deny")
        assert await turn.ended() == "end_turn"
        (call,) = turn.calls.values()
        # The refusal stands in place of the diff.
        assert [content["type"] for content in call["content"]] == ["content"]
    assert not (tmp_path / "written" / "b.txt").exists()


async def test_a_protected_name_asks_each_time_and_offers_no_grant(tmp_path):
    home = make(tmp_path)
    async with running(home) as daemon:
        await daemon.initialize()
        session = await daemon.new_session(home.workspace)
        for answer in ("deny", "allow-once"):
            turn = await daemon.begin(session, "envrc")
            ask = await daemon.next_ask()
            assert kinds(ask) == {"allow-once": "allow_once", "deny": "reject_once"}
            assert not (home.workspace / ".envrc").exists()
            await daemon.choose(ask, answer)
            assert await turn.ended() == "end_turn"
    assert (home.workspace / ".envrc").read_text() == "export A=1"


async def test_a_link_that_leads_out_asks_for_where_it_leads(tmp_path):
    home = make(tmp_path)
    (home.workspace / "link").symlink_to(tmp_path / "elsewhere")
    async with running(home) as daemon:
        await daemon.initialize()
        turn = await daemon.begin(await daemon.new_session(home.workspace), "link")
        ask = await daemon.next_ask()
        assert str(tmp_path / "elsewhere" / "outside.txt") in ask["params"]["description"]
        # Swapped while the person thinks: what was shown is no longer what would be read.
        (home.workspace / "link").unlink()
        (tmp_path / "secret").mkdir()
        (tmp_path / "secret" / "outside.txt").write_text("other words")
        (home.workspace / "link").symlink_to(tmp_path / "secret")
        await daemon.choose(ask, "approve")
        assert await turn.ended() == "cancelled"
        assert "other words" not in json.dumps(daemon.frames)
