"""What is removed by itself, and what never is: by age and by number; what is in use, here or elsewhere; what
comes to be used at the last moment; how much each time, and when; beside another daemon; after a failure; at
its end. The store is a real one, and time is Trio's own or a parameter.
"""

import logging
import sys
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import attrs
import pytest
import trio

import term2_acp.session
from term2_acp.app import RETENTION_AFTER_S
from term2_acp.config import RetentionSettings
from term2_acp.domain.events import UserMessage
from term2_acp.domain.ids import MessageId, SessionId
from term2_acp.session import retention
from term2_acp.session.deletions import Deletions
from term2_acp.session.retention import EVERY_S, LAST_S, MOST_AT_ONCE, REST_S, Retention
from term2_acp.store import InlineRunner, SessionRecord, Store, StoreFailed, UnknownSession
from term2_acp.store.artifacts import artifacts_of
from tests.kit.indoors import indoors

MODULE = "term2_acp.session.retention"
SCRIPT = '[[rules]]\n[[rules.replies]]\nsteps = [{ text = "Hello." }]\n'
NOW = datetime.fromisoformat("2026-11-30T10:00:00.000Z")
GONE = -32002


def ago(**time):
    """That long before ``NOW``, as the store has it."""
    moment = NOW - timedelta(**time)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@attrs.define
class Kept:
    """A store with sessions in it, and what this process does with them."""

    store: Store
    directory: str
    live: set = attrs.field(factory=set)
    opening: set = attrs.field(factory=set)
    deletions: Deletions = attrs.field(init=False)

    def __attrs_post_init__(self):
        self.deletions = Deletions(self.store, lambda session_id: None, self.live, self.opening)

    async def add(self, *ages, start=0):
        """Make ``s0``, ``s1`` and so on, last active as long ago as said."""
        for number, age in enumerate(ages, start):
            record = SessionRecord(SessionId(f"s{number}"), "/w", None, age, age)
            await self.store.create(record)

    async def left(self):
        """The sessions that are there, by name."""
        names, cursor = [], None
        while True:
            page = await self.store.page(None, cursor)
            names += [one.session_id for one in page.sessions]
            cursor = page.next_cursor
            if cursor is None:
                return sorted(names)

    def retention(self, days=None, sessions=None):
        return Retention(self.store, self.deletions, days, sessions, clock=lambda: ago(days=0))


@asynccontextmanager
async def kept(tmp_path, **parameters):
    store = Store(str(tmp_path), InlineRunner(), **parameters)
    async with trio.open_nursery() as nursery:
        await nursery.start(store.run)
        await store.open()
        yield Kept(store, str(tmp_path))
        await store.aclose()


@asynccontextmanager
async def removing(*retentions):
    """Each once, until nothing is to be removed any more; they end with the block."""
    async with trio.open_nursery() as nursery:
        for one in retentions:
            nursery.start_soon(one.run)  # noqa: ASYNC113 - it has all the time that it needs
        await trio.sleep(MOST_AT_ONCE * (REST_S + 0.1))
        yield
        for one in retentions:
            await one.aclose()


def removed(caplog):
    """The sessions that the log says were removed, in order."""
    return [record.args[0] for record in caplog.records if record.msg.startswith("removed session")]


@pytest.fixture(autouse=True)
def informed(caplog):
    caplog.set_level(logging.INFO, MODULE)


AGES = (ago(minutes=2), ago(days=3), ago(days=30), ago(days=30, milliseconds=1), ago(days=400))


@pytest.mark.parametrize(
    ("days", "sessions", "left"),
    [
        (30, None, ["s0", "s1", "s2"]),
        (1, None, ["s0"]),
        (36_500, None, ["s0", "s1", "s2", "s3", "s4"]),
        (None, 4, ["s0", "s1", "s2", "s3"]),
        (None, 1, ["s0"]),
        (None, 9, ["s0", "s1", "s2", "s3", "s4"]),
        (30, 2, ["s0", "s1"]),
        (3, 4, ["s0", "s1"]),
    ],
)
async def test_what_is_too_old_or_one_too_many_goes_the_oldest_first(
    tmp_path, autojump_clock, caplog, days, sessions, left
):
    async with kept(tmp_path) as there:
        await there.add(*AGES)
        async with removing(there.retention(days, sessions)):
            assert await there.left() == left
    assert removed(caplog) == [f"s{number}" for number in range(4, len(left) - 1, -1)]
    if (days, sessions) == (30, 2):
        assert [record.getMessage() for record in caplog.records][1:] == [
            f"removed session s3: last active {AGES[3]}, more than 30 days ago",
            f"removed session s2: last active {AGES[2]}, before the newest 2",
        ]


async def test_what_was_active_just_now_or_at_no_time_that_there_is_stays(tmp_path, autojump_clock, caplog):
    async with kept(tmp_path) as there:
        await there.add(*[ago(seconds=59)] * 3, ago(days=-3), *[ago(days=9)] * 3, "1970-01-01T00:10:00.000Z")
        damaged = [
            "not a time at all, but longer",
            "2026-01-01",
        ]  # the second is one without its place on earth
        for number, time in enumerate(damaged, 4):
            await there.store._writer.write(
                lambda database, number=number, time=time: database._connection.execute(
                    "UPDATE activity SET updated_at = ? WHERE session = ?", (time, number + 1)
                )
            )
        async with removing(there.retention(days=5, sessions=1)):
            assert await there.left() == ["s0", "s1", "s2", "s3", "s4", "s5", "s7"]
    assert removed(caplog) == ["s6"]


async def test_so_many_at_a_time_and_the_rest_a_day_later(tmp_path, autojump_clock, caplog, monkeypatch):
    monkeypatch.setattr(retention, "MOST_AT_ONCE", 3)
    monkeypatch.setattr(retention, "_PAGE", 2)
    async with kept(tmp_path) as there:
        await there.add(*(ago(days=100 + number) for number in range(5)), ago(days=0))
        async with removing(there.retention(days=30)):
            assert removed(caplog) == ["s4", "s3", "s2"]
            await trio.sleep(EVERY_S)
            assert await there.left() == ["s5"]
            await there.add(ago(days=31), start=6)
            await trio.sleep(EVERY_S)
            assert await there.left() == ["s5"]


async def test_what_is_in_use_in_any_process_stays(tmp_path, autojump_clock, caplog):
    async with kept(tmp_path) as there, kept(tmp_path) as other:
        await there.add(*[ago(days=100)] * 6)
        there.live.add("s0")
        claims = [await other.store.claim(SessionId("s1"))]
        # Its deletion was read, and waits for something.
        there.deletions.begin_nowait(SessionId("s2"))
        async with removing(there.retention(days=30)):
            assert await there.left() == ["s0", "s1", "s2"]
        there.opening.add("s0")
        there.live.clear()
        claims.append(await there.store.claim(SessionId("s0")))
        assert not await there.deletions.delete_unused(SessionId("s0"), lambda record: True)
        for claim in claims:
            claim.release()
    assert removed(caplog) == ["s3", "s4", "s5"]


async def test_a_client_that_waits_for_a_session_is_waited_for(tmp_path, autojump_clock):
    async with kept(tmp_path) as there:
        await there.add(*[ago(days=100)] * 2)
        there.opening.add("s9")
        async with removing(there.retention(days=30)):
            assert await there.left() == ["s0", "s1"]
            there.opening.clear()
            began = trio.current_time()
            while len(left := await there.left()) == 2:  # noqa: ASYNC110 - so that it is seen in between
                await trio.sleep(REST_S / 2)
            assert left == ["s1"]  # it rests before the next
            assert trio.current_time() - began <= 3 * REST_S


async def test_what_comes_to_be_used_at_the_last_moment_stays(tmp_path, autojump_clock, caplog, monkeypatch):
    """Something becomes of each after it was chosen, until the claim is taken. No claim is kept."""
    async with kept(tmp_path) as there, kept(tmp_path) as other, trio.open_nursery() as nursery:
        await there.add(*[ago(days=100)] * 4)
        claim = there.store.claim

        async def opened_soon(session_id):
            there.opening.add(session_id)
            await trio.sleep(1)
            there.opening.remove(session_id)

        async def claimed(session_id):
            if session_id == "s0":  # our client asks for it
                nursery.start_soon(opened_soon, session_id)
                await trio.testing.wait_all_tasks_blocked()
            if session_id == "s1":  # another process opens it, uses it and closes it
                theirs = await other.store.claim(session_id)
                await other.store.append(session_id, [UserMessage(MessageId("m"), ())])
                theirs.release()
            if (
                session_id == "s2"
            ):  # and another one removes it; it was open here once, so its number is known
                await other.store.delete(session_id)
                there.store._numbers[session_id] = 3
            if session_id == "s3":  # and it is removed without a trace
                await other.store.delete(session_id)
            return await claim(session_id)

        with monkeypatch.context() as patched:
            patched.setattr(there.store, "claim", claimed)
            async with removing(there.retention(days=30)):
                assert await there.left() == ["s0", "s1"]
        for name in ("s0", "s1"):
            (await other.store.claim(SessionId(name))).release()
            assert SessionId(name) not in there.deletions
    assert removed(caplog) == []


# -- what goes wrong, and the end ------------------------------------------------------------------------


async def test_files_that_cannot_be_removed_keep_their_session_and_no_other(
    tmp_path, autojump_clock, caplog, monkeypatch
):
    async with kept(tmp_path) as there:
        await there.add(*[ago(days=100)] * 3)
        artifacts_of(str(tmp_path), SessionId("s0")).open("call_1.txt").close()
        with monkeypatch.context() as patched:
            patched.setattr("shutil.rmtree", _refuses_one)
            async with removing(there.retention(days=30)):
                assert await there.left() == ["s0"]
        assert [one.levelname for one in caplog.records if one.name == MODULE] == ["INFO", "INFO", "WARNING"]
        async with removing(there.retention(days=30)):
            assert await there.left() == []


def _refuses_one(path):
    if path.endswith("s0"):
        raise PermissionError(13, "Permission denied", path)
    raise FileNotFoundError(2, "No such file or directory", path)


@pytest.mark.parametrize("fault", [StoreFailed.because("store_full"), ValueError("a fault of ours")])
@pytest.mark.parametrize("method", ["page", "delete"])
async def test_another_failure_is_logged_once_and_the_next_day_is_another_day(
    tmp_path, autojump_clock, caplog, monkeypatch, fault, method
):
    tried = []

    async def fails(*arguments):
        tried.append(arguments)
        await trio.lowlevel.checkpoint()
        raise fault

    async with kept(tmp_path) as there:
        await there.add(*[ago(days=100)] * 3)
        one = there.retention(days=30)
        monkeypatch.setattr(there.store, method, fails)
        async with removing(one):
            monkeypatch.undo()
            assert len(tried) == 1
            assert [record.levelno for record in caplog.records] == [
                logging.WARNING if isinstance(fault, StoreFailed) else logging.ERROR
            ]
            assert await there.left() == ["s0", "s1", "s2"]
            await trio.sleep(EVERY_S)
            assert await there.left() == []


@pytest.mark.parametrize(("takes", "left"), [(LAST_S / 2, ["s1", "s2"]), (60, ["s0", "s1", "s2"])])
async def test_the_end_comes_between_two_sessions_unless_one_takes_too_long(
    tmp_path, autojump_clock, monkeypatch, takes, left
):
    async with kept(tmp_path) as there:
        await there.add(*[ago(days=100)] * 3)
        delete = there.store.delete
        begun = trio.Event()

        async def slowly(session_id):
            begun.set()
            await trio.sleep(takes)
            await delete(session_id)

        monkeypatch.setattr(there.store, "delete", slowly)
        one = there.retention(days=30)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(one.run)
            await begun.wait()
            began = trio.current_time()
            await one.aclose()
            assert trio.current_time() - began == pytest.approx(min(takes, LAST_S))
        assert await there.left() == left


# -- in a daemon -----------------------------------------------------------------------------------------

TIME = "2020-01-01T10:00:00.000Z"


def daemon(tmp_path, **keep):
    return indoors(tmp_path, SCRIPT, profile="full", keep=RetentionSettings(**keep))


@pytest.fixture
async def old(tmp_path):
    """The ids of three sessions that nobody used since long ago, each with a history and files."""
    ids = [SessionId(f"sess_old{number}") for number in range(3)]
    async with kept(tmp_path / "state", clock=lambda: TIME) as there:
        for session_id in ids:
            await there.store.create(
                SessionRecord(session_id, str(tmp_path / "workspace"), "Old", TIME, TIME)
            )
            await there.store.append(session_id, [UserMessage(MessageId("m"), ())])
            artifacts_of(there.directory, session_id).open("call_1.txt").close()
    return ids


async def listed(there):
    return [one["sessionId"] for one in (await there.editor.request("session/list"))["sessions"]]


@pytest.mark.parametrize("keep", [{}, {"days": 30}, {"sessions": 1}])
async def test_a_session_is_opened_before_anything_of_it_is_imported(
    tmp_path, autojump_clock, monkeypatch, old, keep
):
    monkeypatch.delitem(sys.modules, MODULE)
    monkeypatch.delattr(term2_acp.session, "retention")
    async with daemon(tmp_path, **keep) as there:
        await there.editor.initialize()
        await trio.sleep(EVERY_S)
        session_id = await there.editor.new_session(there.workspace)
        assert MODULE not in sys.modules
        assert sorted(await listed(there)) == sorted([session_id, *old])
        await trio.sleep(RETENTION_AFTER_S + 2)
        assert (MODULE in sys.modules) is bool(keep)
        assert sorted(await listed(there)) == sorted([session_id] if keep else [session_id, *old])
        assert (tmp_path / "state" / "artifacts" / old[0]).exists() is not bool(keep)
        # It may be the oldest by now, and is open.
        await trio.sleep(EVERY_S)
        assert (await there.editor.prompt(session_id, "hi")).text == "Hello."


async def test_one_that_is_being_removed_is_in_no_list_and_cannot_be_opened(
    tmp_path, autojump_clock, monkeypatch, old
):
    async with daemon(tmp_path, days=30) as there:
        await there.editor.initialize()
        assert await listed(there) == old[::-1]
        delete = there.core._parts.store.delete
        begun, go_on = trio.Event(), trio.Event()

        async def held(session_id):
            begun.set()
            await go_on.wait()
            await delete(session_id)

        monkeypatch.setattr(there.core._parts.store, "delete", held)
        await begun.wait()
        assert await listed(there) == [old[2], old[1]]
        resume = {"sessionId": old[0], "cwd": str(there.workspace)}
        assert (await there.editor.refused("session/resume", resume)).code == GONE
        with pytest.raises(UnknownSession):
            there.core.registry.reserve_nowait(old[0])
        # The same by the client comes after it.
        deletion = await there.editor.call("session/delete", {"sessionId": old[0]})
        await trio.testing.wait_all_tasks_blocked()
        assert deletion.answer is None
        go_on.set()
        assert await deletion.result() == {}
        assert await there.editor.request("session/resume", resume | {"sessionId": old[2]}) is not None
        await trio.sleep(1)
        assert await listed(there) == [old[2]]


async def test_two_daemons_remove_each_once(tmp_path, autojump_clock, caplog, old):
    async with daemon(tmp_path, days=30) as there, daemon(tmp_path, days=30) as other:
        for one in (there, other):
            await one.editor.initialize()
            assert await listed(one) == old[::-1]
        await trio.sleep(RETENTION_AFTER_S + 2)
        assert await listed(there) == await listed(other) == []
    assert sorted(removed(caplog)) == old
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


async def test_a_shutdown_lets_the_one_that_is_under_way_go_first(
    tmp_path, autojump_clock, monkeypatch, caplog, old
):
    async with daemon(tmp_path, days=30) as there:
        await there.editor.initialize()
        await listed(there)
        delete, begun = there.core._parts.store.delete, trio.Event()

        async def slowly(session_id):
            begun.set()
            await trio.sleep(LAST_S / 2)
            await delete(session_id)

        monkeypatch.setattr(there.core._parts.store, "delete", slowly)
        await begun.wait()
    async with kept(tmp_path / "state") as later:
        assert await later.left() == old[1:]
    assert removed(caplog) == old[:1]
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
