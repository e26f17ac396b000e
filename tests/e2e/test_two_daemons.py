"""Several daemons on one state directory, as an editor with two windows starts them: the first start of both
at once, work in both at once, each other's sessions in the list and out of reach, and what becomes of the
sessions of one that dies, stopped before that or not. One of them speaks version 1, the others version 2.
"""

import signal

import trio

from term2_acp.domain.ids import SessionId
from term2_acp.store import InlineRunner, SessionRecord, Store
from tests.kit.daemon import running
from tests.kit.editor_v1 import EditorV1
from tests.kit.fold import fold
from tests.kit.home import Home
from tests.kit.play import HELLO, WAITING, WAITS

SESSIONS = 4
SETTINGS = '[acp]\nprofile = "full"\n'
RETENTION = "[retention]\ndays = 30\n"
OLD = "2020-01-01T10:00:00.000Z"


async def opened(editor, home, ids, count):
    """Make sessions, all at once; their ids come to ``ids`` in some order."""

    async def one():
        ids.append(await editor.new_session(home.workspace))

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(one)


async def worked(editor, name, ids):
    """A turn in each session, all at once; the first gives the session its title."""

    async def one(session_id, prompt):
        turn = await editor.prompt(session_id, prompt)
        assert await turn.ended() == "end_turn"
        assert turn.text == HELLO

    async with trio.open_nursery() as nursery:
        for number, session_id in enumerate(ids):
            nursery.start_soon(one, session_id, f"{name} {number}")


async def titles(daemon):
    """The titles of all sessions in the list, by id."""
    listed = await daemon.request("session/list", {})
    assert all(one["updatedAt"] for one in listed["sessions"])
    return {one["sessionId"]: one.get("title") for one in listed["sessions"]}


async def assert_out_of_reach(daemon, home, session_id, pid, *methods):
    for method in methods:
        params = {"sessionId": session_id, "cwd": str(home.workspace), "mcpServers": []}
        refused = await daemon.refused(method, params)
        assert (refused.code, refused.data) == (409, {"sessionId": session_id, "pid": pid}), method


def texts(updates, kind):
    """What was said, v1: the texts of the chunks of a kind, by message."""
    said = {}
    for update in updates:
        if update["sessionUpdate"] == kind:
            said.setdefault(update.get("messageId"), []).append(update["content"]["text"])
    return ["".join(parts) for parts in said.values()]


async def add_old_session(home):
    """A session that nobody used for years, made by a third process: this one."""
    store = Store(str(home.state), InlineRunner())
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        await store.open()
        await store.create(SessionRecord(SessionId("sess_old"), str(home.workspace), "Old", OLD, OLD))
        await store.aclose()


async def test_two_daemons_share_a_store_and_the_sessions_of_one_that_dies_are_free(tmp_path):
    home = Home.make(tmp_path, WAITS, SETTINGS)
    async with running(home, leaves=False) as first, running(home, leaves=False) as second:
        window = EditorV1(second)
        await first.initialize()
        await window.initialize()
        # Nobody was here before: both make the tables.
        assert not home.state.exists()
        mine, theirs = [], []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(opened, first, home, mine, SESSIONS)
            nursery.start_soon(opened, window, home, theirs, SESSIONS)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(worked, first, "first", mine)
            nursery.start_soon(worked, window, "second", theirs)

        expected = {session_id: f"first {number}" for number, session_id in enumerate(mine)}
        expected |= {session_id: f"second {number}" for number, session_id in enumerate(theirs)}
        assert await titles(first) == await titles(second) == expected
        one, two = first.process.pid, second.process.pid
        await assert_out_of_reach(first, home, theirs[0], two, "session/resume", "session/delete")
        await assert_out_of_reach(
            second, home, mine[0], one, "session/load", "session/resume", "session/delete"
        )
        await first.request("session/close", {"sessionId": mine[3]})
        assert await second.request("session/delete", {"sessionId": mine[3]}) == {}
        del expected[mine[3]]
        assert await titles(first) == await titles(second) == expected

        # One that hangs still has its sessions; one that is dead has none.
        turn = await first.begin(mine[1], "wait")
        await turn.seen("agent_message_chunk")
        seen = turn.text
        first.signal(signal.SIGSTOP)
        await assert_out_of_reach(second, home, mine[1], one, "session/load")
        first.kill()
        _, updates = await window.load(mine[1], home.workspace)
        assert texts(updates, "user_message_chunk") == ["first 1", "wait"]
        assert texts(updates, "agent_message_chunk")[0] == HELLO
        assert texts(updates, "agent_message_chunk")[1].startswith(seen)
        await worked(window, "again", [mine[1]])

        # The third is told to remove what is old, and does so by itself.
        await add_old_session(home)
        home.play(WAITS, SETTINGS + RETENTION)
        async with running(home) as third:
            await third.initialize()
            assert await titles(third) == expected | {"sess_old": "Old"}
            await assert_out_of_reach(third, home, mine[1], two, "session/resume", "session/delete")
            replay = {"cwd": str(home.workspace), "replayFrom": {"type": "start"}}
            await third.request("session/resume", {"sessionId": mine[0], **replay})
            assert fold(third.updates(mine[0])) == fold(first.updates(mine[0]))
            turn = await window.begin(theirs[0], "wait")
            await turn.seen("agent_message_chunk")
            seen = turn.text
            second.kill()
            for session_id in (mine[1], theirs[0]):
                await third.request("session/resume", {"sessionId": session_id, **replay})
            things = fold(third.updates(theirs[0]))["things"]
            assert [one["text"] for one in things if one["is"] == "user_message"] == ["second 0", "wait"]
            said = [one["text"] for one in things if one["is"] == "agent_message"]
            assert said[0] == HELLO
            assert said[1].startswith(seen)
            assert WAITING.startswith(seen)
            await worked(third, "and again", [theirs[0]])
            with trio.fail_after(10):
                while "sess_old" in await titles(third):  # noqa: ASYNC110 - of another process
                    await trio.sleep(0.1)
            assert await titles(third) == expected
    for daemon in (first, second, third):
        assert "locked" not in daemon.stderr
        assert "Traceback" not in daemon.stderr
