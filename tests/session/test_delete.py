"""Deleting a session while something else is done with it: it is prompted, opened, listed, replayed, deleted,
closed or open elsewhere; and a deletion that fails half-way. The store is a real one, the model hangs.
"""

import pytest
import trio

from term2_acp.domain.ids import SessionId
from term2_acp.session.session import SETTLE_S, CloseFailed, Session
from term2_acp.store import ClaimedElsewhere, StoreFailed, UnknownSession
from term2_acp.store.artifacts import artifacts_of
from tests.kit.fold import fold
from tests.kit.indoors import Probe, indoors
from tests.kit.wire import Refused

HANGS = '[[rules]]\nmatch = "^hang$"\n[[rules.replies]]\nsteps = [{ text = "I" }, { hang = true }]\n'
SCRIPT = f'{HANGS}[[rules]]\n[[rules.replies]]\nsteps = [{{ text = "Hello." }}]\n'
GONE = -32002


def daemon(tmp_path, **more):
    return indoors(tmp_path, more.pop("script", SCRIPT), profile="full", **more)


async def kept(there, *, prompts=1):
    """A session with a history that nobody has open."""
    await there.editor.initialize()
    session_id = await there.editor.new_session(there.workspace)
    for _ in range(prompts):
        await there.editor.prompt(session_id, "hi")
    await there.editor.request("session/close", {"sessionId": session_id})
    return session_id


def resume(there, session_id):
    return {"sessionId": session_id, "cwd": str(there.workspace), "replayFrom": {"type": "start"}}


async def listed(there):
    return [one["sessionId"] for one in (await there.editor.request("session/list"))["sessions"]]


async def outcome_of(call):
    try:
        return await call.result()
    except Refused as refused:
        return refused.code


async def test_what_was_read_right_after_it_knows_nothing_of_the_session(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        session_id = await kept(there)
        registry = there.core.registry
        delete = registry.delete_nowait(session_id)
        # Nothing of it was done yet.
        assert await there.core._parts.store.find(session_id) is not None
        assert await listed(there) == []
        with pytest.raises(UnknownSession):
            registry.reserve_nowait(session_id)
        await delete()
        assert await there.core._parts.store.find(session_id) is None
        assert await listed(there) == []


async def test_a_live_one_is_closed_for_its_client_from_there_on(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        session_id, turn = await there.begin("hang")
        await turn.seen("agent_message_chunk")
        calls = [
            await there.editor.call(method, {"sessionId": session_id, **more})
            for method, more in (
                ("session/delete", {}),
                ("session/prompt", {"prompt": [{"type": "text", "text": "hi"}]}),
                ("session/resume", {"cwd": str(there.workspace)}),
                ("session/close", {}),
                ("session/delete", {}),
            )
        ]
        assert [await outcome_of(call) for call in calls] == [{}, GONE, GONE, {}, {}]
        assert await turn.ended() == "cancelled"
        assert await listed(there) == []


async def test_one_that_is_being_opened_is_opened_first_and_its_replay_is_whole(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        session_id = await kept(there, prompts=3)
        first = fold(there.editor.updates(session_id))
        start = len(there.editor.frames)
        opening = await there.editor.call("session/resume", resume(there, session_id))
        deletion = await there.editor.call("session/delete", {"sessionId": session_id})
        again = await there.editor.call("session/resume", resume(there, session_id))
        assert [await outcome_of(call) for call in (opening, deletion, again)][1:] == [{}, GONE]
        assert opening.answer.get("error") is None
        assert fold(there.editor.updates(session_id, start)) == first
        order = [frame["id"] for frame in there.editor.frames[start:] if "id" in frame]
        assert order.index(opening.request_id) < order.index(deletion.request_id)
        assert await listed(there) == []


async def test_two_at_once_are_both_answered_and_the_second_finds_nothing(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        session_id = await kept(there)
        other = await kept_beside(there)
        registry = there.core.registry
        deletes = [registry.delete_nowait(session_id) for _ in range(3)]
        async with trio.open_nursery() as nursery:
            for delete in reversed(deletes):
                nursery.start_soon(delete)
        assert await listed(there) == [other]
        await registry.delete_nowait(SessionId("../workspace"))()
        assert there.workspace.is_dir()
        assert await there.editor.request("session/resume", resume(there, other)) is not None


async def kept_beside(there):
    session_id = await there.editor.new_session(there.workspace)
    await there.editor.request("session/close", {"sessionId": session_id})
    return session_id


async def test_its_artifacts_go_with_it(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there:
        session_id = await kept(there)
        folders = [artifacts_of(str(tmp_path / "state"), SessionId(name)) for name in (session_id, "sess_9")]
        for folder in folders:
            folder.open("call_1.txt").close()
        await there.editor.request("session/delete", {"sessionId": session_id})
        assert [path.name for path in (tmp_path / "state" / "artifacts").iterdir()] == ["sess_9"]


async def test_one_that_fails_half_way_can_be_repeated(tmp_path, autojump_clock, monkeypatch):
    async with daemon(tmp_path) as there:
        session_id = await kept(there)
        artifacts_of(str(tmp_path / "state"), SessionId(session_id)).open("call_1.txt").close()
        registry = there.core.registry
        with monkeypatch.context() as patched:
            patched.setattr("shutil.rmtree", _refuses)
            refused = await there.editor.refused("session/delete", {"sessionId": session_id})
            assert refused.code == -32603
            assert "permissions" in refused.message
            # Two behind each other: the second tries by itself.
            for delete in [registry.delete_nowait(session_id) for _ in range(2)]:
                with pytest.raises(StoreFailed):
                    await delete()
        # It is known again, and nobody holds it.
        assert await listed(there) == [session_id]
        await there.editor.request("session/resume", resume(there, session_id))
        assert (await there.editor.prompt(session_id, "hi")).text == "Hello."
        assert await there.editor.request("session/delete", {"sessionId": session_id}) == {}
        assert await listed(there) == []


def _refuses(path):
    raise PermissionError(13, "Permission denied", path)


async def test_one_that_is_open_elsewhere_is_left_alone_and_known_again(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there, daemon(tmp_path) as other:
        await there.editor.initialize()
        await other.editor.initialize()
        session_id = await there.editor.new_session(there.workspace)
        assert await listed(other) == [session_id]
        with pytest.raises(ClaimedElsewhere):
            await other.core.registry.delete_nowait(session_id)()
        assert await listed(other) == [session_id]
        other.core.registry.reserve_nowait(session_id)
        other.core.registry.release_nowait(session_id)
        assert (await there.editor.prompt(session_id, "hi")).text == "Hello."


class Stubborn(Probe):
    """A tool that gives way to no cancel until it is let go."""

    name = "stubborn"

    def __init__(self) -> None:
        super().__init__()
        self.let_go = trio.Event()

    async def run(self, prepared, context):
        with trio.CancelScope(shield=True):
            await self.let_go.wait()
        return await super().run(prepared, context)


async def test_one_whose_turn_is_given_up_stays_until_that_lets_go(tmp_path, autojump_clock):
    stubborn = Stubborn()
    script = '[[rules]]\n[[rules.replies]]\nsteps = [{ call = "stubborn", arguments = { name = "a" } }]\n'
    async with daemon(tmp_path, script=script, more_tools={"stubborn": stubborn}) as there:
        session_id, turn = await there.begin("go")
        await turn.seen("tool_call_update", status="in_progress")
        registry = there.core.registry
        began = trio.current_time()
        with pytest.raises(CloseFailed):
            await registry.delete_nowait(session_id)()
        assert SETTLE_S <= trio.current_time() - began < SETTLE_S + 1
        assert await turn.ended() == "cancelled"
        assert await listed(there) == [session_id]
        with pytest.raises(CloseFailed):
            await registry.delete_nowait(session_id)()
        stubborn.let_go.set()
        await trio.testing.wait_all_tasks_blocked()
        await registry.delete_nowait(session_id)()
        assert await listed(there) == []


async def test_one_whose_turn_failed_inside_has_ended_all_the_same_and_is_deleted(
    tmp_path, autojump_clock, monkeypatch
):
    close = Session.close

    async def fails(session):
        await close(session)
        raise CloseFailed

    monkeypatch.setattr(Session, "close", fails)
    async with daemon(tmp_path) as there:
        session_id, turn = await there.begin("hang")
        await turn.seen("agent_message_chunk")
        assert await there.editor.request("session/delete", {"sessionId": session_id}) == {}
        assert await listed(there) == []


async def test_a_deletion_that_a_shutdown_cancels_lets_nobody_open_what_it_removes(tmp_path, autojump_clock):
    async with daemon(tmp_path) as there, daemon(tmp_path) as other:
        session_id = await kept(there)
        await other.editor.initialize()
        store = there.core._parts.store
        with trio.CancelScope() as scope:
            deleting = store.delete

            async def cancelled_in_the_midst(one):
                scope.cancel()
                await deleting(one)

            store.delete = cancelled_in_the_midst
            await there.core.registry.delete_nowait(session_id)()
        assert scope.cancelled_caught
        refused = await other.editor.refused("session/resume", resume(other, session_id))
        assert refused.code == 409
        store.delete = deleting
    async with daemon(tmp_path) as later:
        await later.editor.initialize()
        await later.editor.request("session/delete", {"sessionId": session_id})
        assert await listed(later) == []


async def test_an_opening_and_a_deletion_that_were_read_before_the_store_was_open_do_not_wait_for_each_other(
    tmp_path, autojump_clock
):
    async with daemon(tmp_path) as there:
        session_id = await kept(there)
    async with daemon(tmp_path) as there:
        await there.editor.initialize()
        deletion = await there.editor.call("session/delete", {"sessionId": session_id})
        opening = await there.editor.call("session/resume", resume(there, session_id))
        assert await deletion.result() == {}
        await outcome_of(opening)  # which of the two comes first is chance
        assert await listed(there) == []
