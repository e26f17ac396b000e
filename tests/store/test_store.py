"""The store as the session room uses it: what is kept, what is given back, and whose fault a failure is.
Inline and in virtual time where nothing else runs; one real file in each test."""

import logging
import subprocess
import sys
import threading

import pytest
import trio

from term2_acp.domain.events import (
    AgentMessageChunk,
    Idle,
    RecordsLost,
    RequiresAction,
    Running,
    SessionInfoUpdate,
    UserMessage,
)
from term2_acp.domain.ids import MessageId
from term2_acp.domain.toolcall import ToolCallUpdate
from term2_acp.domain.turn import StopReason
from term2_acp.store import InlineRunner, Store, StoreFailed, ThreadRunner, UnknownSession, now
from term2_acp.store.journal import Dated
from term2_acp.store.schema import open_database
from term2_acp.store.store import milliseconds

LATER = "2026-11-30T11:00:00.000Z"


async def test_a_session_is_found_as_it_was_made(opened, record, tmp_path):
    made = record("sess_a", cwd="/home/me/\udcff\u2028\0x", title="T\ud800")
    async with opened(tmp_path) as store:
        assert await store.find("sess_a") is None
        await store.create(made)
        assert await store.find("sess_a") == made
        assert await store.find("sess_A") is None
        assert await store.find("\ud800") is None
    async with opened(tmp_path) as store:
        assert await store.find("sess_a") == made


async def test_the_journal_gives_back_what_is_kept_in_order(opened, record, history, tmp_path):
    m = MessageId("m")
    prompt = UserMessage(m, ())
    async with opened(tmp_path) as store:
        await store.create(record("a"))
        await store.append("a", [Running(), prompt])
        await store.append("a", [AgentMessageChunk(m, "he"), AgentMessageChunk(m, "llo"), RequiresAction()])
        await store.append("a", [AgentMessageChunk(m, " again"), Idle(StopReason.END_TURN)])
        expected = [
            prompt,
            AgentMessageChunk(m, "hello"),
            AgentMessageChunk(m, " again"),
            Idle(StopReason.END_TURN),
        ]
        assert await history(store, "a") == expected
    async with opened(tmp_path) as store:
        assert await history(store, "a") == expected


async def test_sessions_do_not_mix(opened, record, history, said, tmp_path):
    async with opened(tmp_path) as store:
        for name in "abc":
            await store.create(record(name))
        async with trio.open_nursery() as nursery:
            for number in range(10):
                for name in "abc":
                    nursery.start_soon(store.append, name, [said(f"{name}{number}")])
        for name in "abc":
            texts = [event.text for event in await history(store, name)]
            assert sorted(texts) == sorted(f"{name}{number}" for number in range(10))


async def test_a_turn_makes_the_session_active_and_gives_it_its_title(opened, record, said, tmp_path):
    async with opened(tmp_path, clock=lambda: LATER) as store:
        await store.create(record("a"))
        await store.append("a", [Running()])
        await store.append("a", [said("what is said within a turn")])
        assert await store.find("a") == record("a")
        await store.append("a", [said("hi"), Idle(StopReason.END_TURN)])
        found = await store.find("a")
        assert (found.title, found.updated_at, found.created_at) == (None, LATER, record("a").created_at)
        await store.append("a", [SessionInfoUpdate("first", LATER), SessionInfoUpdate("second", LATER)])
        assert (await store.find("a")).title == "second"
        await store.append("a", [said("more")])
        assert (await store.find("a")).title == "second"


async def test_nothing_is_written_for_events_that_are_only_shown(opened, record, history, tmp_path):
    async with opened(tmp_path, clock=lambda: LATER) as store:
        await store.create(record("a"))
        await store.append("a", [Running(), RequiresAction()])
        await store.append("a", [])
        assert await history(store, "a") == []
        assert (await store.find("a")).updated_at == record("a").updated_at


async def test_an_unknown_session_is_named_as_such(opened, said, tmp_path):
    async with opened(tmp_path) as store:
        with pytest.raises(UnknownSession):
            await store.append("nobody", [said("x")])
        with pytest.raises(UnknownSession):
            await store.claim("nobody")
        with pytest.raises(UnknownSession):
            async with store.journal("nobody"):
                pass


async def test_an_id_is_given_once(opened, record, tmp_path):
    async with opened(tmp_path) as store:
        await store.create(record("a"))
        with pytest.raises(StoreFailed) as caught:
            await store.create(record("a", cwd="/other"))
        assert caught.value.code == "store_failed"
        assert await store.find("a") == record("a")


@pytest.mark.parametrize("at", ["", "2026-11-30", "2026-11-30T10:00:00Z", "2026-11-30T10:00:00.000+00:00"])
async def test_a_time_that_would_not_sort_is_refused(opened, record, tmp_path, at):
    async with opened(tmp_path) as store:
        with pytest.raises(StoreFailed):
            await store.create(record("a", at=at))
        assert await store.find("a") is None


async def test_the_clock_has_the_form_that_the_store_takes(opened, record, tmp_path):
    async with opened(tmp_path) as store:
        await store.create(record("a", at=now()))


async def test_one_bad_record_fails_itself_and_nobody_else(opened, record, history, said, code_of, tmp_path):
    outcomes = {}

    async def attempt(store, session_id, events):
        outcomes[session_id] = await code_of(store.append(session_id, events))

    runner = ThreadRunner()
    gate = threading.Event()
    async with opened(tmp_path, runner=runner) as store:
        for name in "abcd":
            await store.create(record(name))
        async with trio.open_nursery() as nursery:
            # Behind the gate they gather: the first leads, the others become one group.
            nursery.start_soon(runner.run, gate.wait)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(attempt, store, "a", [said("1")])
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(attempt, store, "b", [said("2")])
            nursery.start_soon(attempt, store, "nobody", [said("3")])
            nursery.start_soon(attempt, store, "c", [ToolCallUpdate("call", raw_output=object())])
            nursery.start_soon(attempt, store, "d", [said("4")])
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
        assert outcomes == {
            "a": "kept",
            "b": "kept",
            "c": "store_failed",
            "d": "kept",
            "nobody": "unknown_session",
        }
        assert await history(store, "b") == [said("2")]
        assert await history(store, "c") == []
        assert await history(store, "d") == [said("4")]


async def test_all_that_waits_shares_one_transaction(opened, record, said, tmp_path):
    statements = []

    def connect(path):
        connection = open_database(path)
        connection.set_trace_callback(statements.append)
        return connection

    runner = ThreadRunner()
    gate = threading.Event()
    async with opened(tmp_path, runner=runner, connect=connect) as store:
        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(store.create, record(f"s{number}"))
        statements.clear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runner.run, gate.wait)
            await trio.testing.wait_all_tasks_blocked()
            for number in range(50):
                nursery.start_soon(store.append, f"s{number}", [said("x")])
            await trio.testing.wait_all_tasks_blocked()
            gate.set()
        # The first of them leads at once; the 49 behind it are one group.
        assert statements.count("COMMIT") == 2
        assert sum(statement.startswith("INSERT INTO journal") for statement in statements) == 50


async def test_a_cancelled_append_is_kept_all_the_same(opened, record, history, said, tmp_path):
    runner = ThreadRunner()
    gate = threading.Event()
    async with opened(tmp_path, runner=runner) as store:
        await store.create(record("a"))
        await store.create(record("b"))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(runner.run, gate.wait)
            await trio.testing.wait_all_tasks_blocked()
            with trio.CancelScope() as scope:
                async with trio.open_nursery() as inner:
                    inner.start_soon(store.append, "a", [said("the leader")])
                    await trio.testing.wait_all_tasks_blocked()
                    inner.start_soon(store.append, "a", [said("behind it")])
                    nursery.start_soon(store.append, "b", [said("not cancelled")])
                    await trio.testing.wait_all_tasks_blocked()
                    scope.cancel()
            assert scope.cancelled_caught
            gate.set()
        assert await history(store, "a") == [said("the leader"), said("behind it")]
        assert await history(store, "b") == [said("not cancelled")]


async def test_a_writer_that_is_cancelled_writes_what_waits(record, history, said, opened, tmp_path):
    runner = ThreadRunner()
    gate = threading.Event()
    store = Store(str(tmp_path), runner)
    kept = []

    async def append(text):
        await store.append("a", [said(text)])
        kept.append(text)

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as writer:
            async with trio.open_nursery() as inner:
                inner.start_soon(store.run)
                await store.open()
                await store.create(record("a"))
                nursery.start_soon(runner.run, gate.wait)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(append, "leads")
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(append, "waits")
                await trio.testing.wait_all_tasks_blocked()
                writer.cancel()
                gate.set()
        with pytest.raises(StoreFailed) as caught:
            await store.append("a", [said("too late")])
        assert caught.value.code == "store_closed"
    assert sorted(kept) == ["leads", "waits"]
    await store.aclose()
    async with opened(tmp_path) as again:
        assert await history(again, "a") == [said("leads"), said("waits")]


async def test_a_writer_that_cannot_flush_gives_up_after_its_deadline(
    autojump_clock, record, said, code_of, tmp_path, caplog
):
    class Stuck(InlineRunner):
        stuck = False

        async def run(self, fn):
            if self.stuck:
                await trio.sleep_forever()
            return await super().run(fn)

    runner = Stuck()
    store = Store(str(tmp_path), runner)
    codes = []

    async def append(text):
        codes.append(await code_of(store.append("a", [said(text)])))

    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as writer:
            async with trio.open_nursery() as inner:
                inner.start_soon(store.run)
                await store.open()
                await store.create(record("a"))
                runner.stuck = True
                with trio.move_on_after(1):
                    await append("leads and is cancelled")
                await trio.testing.wait_all_tasks_blocked()  # the writer leads in its place, and is stuck
                nursery.start_soon(append, "waits")
                await trio.testing.wait_all_tasks_blocked()
                before = trio.current_time()
                writer.cancel()
        assert trio.current_time() - before == pytest.approx(3.0)
        await trio.testing.wait_all_tasks_blocked()
        assert codes == ["store_failed"]
        nursery.cancel_scope.cancel()
    assert "did not write" in caplog.text
    runner.stuck = False
    await store.aclose()


async def test_before_open_and_after_close_everything_is_refused(record, said, tmp_path):
    store = Store(str(tmp_path), InlineRunner())
    calls = [
        lambda: store.find("a"),
        lambda: store.page(None, None),
        lambda: store.append("a", [said("x")]),
        lambda: store.create(record("a")),
        lambda: store.claim("a"),
        lambda: store.journal("a").__aenter__(),
    ]
    for _ in ("before", "after"):
        for call in calls:
            with pytest.raises(StoreFailed) as caught:
                await call()
            assert caught.value.code == "store_closed"
        await store.aclose()
    with pytest.raises(StoreFailed):
        await store.open()
    assert list(tmp_path.iterdir()) == []


async def test_opening_twice_or_at_once_is_opening_once(record, tmp_path):
    opened = []

    def connect(path):
        opened.append(path)
        return open_database(path)

    store = Store(str(tmp_path), InlineRunner(), connect=connect)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(store.run)
        async with trio.open_nursery() as inner:
            for _ in range(5):
                inner.start_soon(store.open)
        await store.open()
        await store.create(record("a"))
        await store.aclose()
    assert len(opened) == 1


async def test_a_long_journal_is_read_in_bounded_pieces(opened, record, tmp_path):
    m = MessageId("m")
    big = "x" * 300_000
    async with opened(tmp_path) as store:
        await store.create(record("many"))
        await store.append("many", [UserMessage(MessageId(f"{n}"), ()) for n in range(1201)])
        async with store.journal("many") as journal:
            sizes = []
            seen = []
            while events := await journal.receive():
                sizes.append(len(events))
                seen += [event.message_id for event in events]
            assert sizes == [500, 500, 201]
            assert seen == [f"{n}" for n in range(1201)]
            assert await journal.receive() == []
        await store.create(record("big"))
        for n in range(6):
            await store.append("big", [AgentMessageChunk(m, big), UserMessage(MessageId(f"{n}"), ())])
        async with store.journal("big") as journal:
            sizes = []
            while events := await journal.receive():
                sizes.append(sum(len(getattr(event, "text", "")) for event in events))
            # A piece ends with the row that takes it over 1 MiB.
            assert sizes == [4 * 300_000, 2 * 300_000]


async def test_a_reading_ends_at_what_was_there_when_it_began(opened, record, said, tmp_path):
    async with opened(tmp_path) as store:
        await store.create(record("a"))
        await store.create(record("b"))
        await store.append("a", [said("1")])
        await store.append("b", [said("other")])
        async with store.journal("a") as journal:
            await store.append("a", [said("2")])
            assert await journal.receive() == [said("1")]
            assert await journal.receive() == []


async def test_an_empty_journal_is_no_error(opened, record, history, tmp_path):
    async with opened(tmp_path) as store:
        await store.create(record("a"))
        assert await history(store, "a") == []


async def test_damaged_and_newer_rows_are_skipped_counted_and_named(
    opened, record, said, history, database, tmp_path, caplog
):
    async with opened(tmp_path) as store:
        for name in "abcde":
            await store.create(record(name))
            await store.append(name, [said("1")])
            await store.append(name, [said("2")])
            await store.append(name, [said("3")])
        base = database("SELECT MIN(place) FROM journal WHERE place >> 32 = 3")[0][0]
        database("UPDATE journal SET body = ? WHERE place = ?", b'{"message_id":"sk-sec', base)
        database("UPDATE journal SET kind = 'dream' WHERE place = ?", base + 1)
        with caplog.at_level(logging.WARNING):
            async with store.journal("c") as journal:
                assert await journal.receive() == [RecordsLost(1, 1, 1), said("3")]
                assert await journal.receive() == []
                assert journal.skipped == 2
        assert "session c: 1 row(s) of its journal are damaged" in caplog.text
        assert "session c: 1 row(s) of its journal are from a newer term2" in caplog.text
        assert "sk-sec" not in caplog.text
        # The session is in the list, goes on, and the newer row is still in the file.
        assert len((await store.page(None, None)).sessions) == 5
        await store.append("c", [said("4")])
        assert await history(store, "c") == [RecordsLost(1, 1, 1), said("3"), said("4")]
        assert database("SELECT COUNT(*) FROM journal WHERE kind = 'dream'") == [(1,)]
        assert await history(store, "d") == [said("1"), said("2"), said("3")]


async def test_a_journal_of_damaged_rows_only_ends(opened, record, said, history, database, tmp_path):
    async with opened(tmp_path) as store:
        await store.create(record("a"))
        await store.append("a", [UserMessage(MessageId(f"{n}"), ()) for n in range(600)])
        database("UPDATE journal SET body = x'00'")
        lost = [RecordsLost(1, 500, 0), RecordsLost(501, 100, 0)]  # one for each piece that is read
        assert await history(store, "a") == lost
        await store.append("a", [said("new")])
        assert await history(store, "a") == [lost[0], RecordsLost(501, 100, 0), said("new")]


async def test_rows_that_are_not_there_are_said_in_their_place(
    opened, record, said, history, database, tmp_path
):
    async with opened(tmp_path) as store:
        await store.create(record("a"))
        await store.append("a", [said(str(n)) for n in range(1, 1200)])
        database("UPDATE journal SET body = 'a hand' WHERE place & 4294967295 = 3")
        database("DELETE FROM journal WHERE place & 4294967295 IN (1, 4, 5, 7)")
        database("DELETE FROM journal WHERE place & 4294967295 BETWEEN 8 AND 1100")
        async with store.journal("a") as journal:
            read = [event for _ in range(3) for event in await journal.receive()]
            assert journal.skipped == 1098
        assert read[:6] == [
            RecordsLost(1, 1, 0),
            said("2"),
            RecordsLost(3, 3, 0),
            said("6"),
            RecordsLost(7, 1094, 0),
            said("1101"),
        ]
        assert read[6:] == [said(str(n)) for n in range(1102, 1200)]


async def test_each_record_has_the_time_at_which_it_was_written(opened, record, said, database, tmp_path):
    async with opened(tmp_path) as store:
        await store.create(record("a"))
        begun = milliseconds()
        await store.append("a", [said("1"), said("2")])
        await store.append("a", [said("3")])
        ended = milliseconds()
        database(
            "UPDATE journal SET at = NULL WHERE place & 4294967295 = 2"
        )  # written before there were times
        database("UPDATE journal SET body = x'00' WHERE place & 4294967295 = 3")
        async with store.journal("a") as journal:
            first, second, lost = await journal.receive_dated()
            assert await journal.receive_dated() == []
        assert (first.event, second, lost) == (
            said("1"),
            Dated(said("2"), None),
            Dated(RecordsLost(3, 1, 0), None),
        )
        assert begun <= first.at <= ended


async def test_a_damaged_title_does_not_hide_the_list(opened, record, database, tmp_path):
    async with opened(tmp_path) as store:
        await store.create(record("a", title="fine"))
        await store.create(record("b", title="fine"))
        database("UPDATE session SET title = x'ff41' WHERE number = 1")
        titles = {r.session_id: r.title for r in (await store.page(None, None)).sessions}
        assert titles == {"a": "\ufffdA", "b": "fine"}


def test_importing_the_store_imports_neither_sqlite3_nor_cattrs():
    program = "import sys, term2_acp.store; print([m for m in ('sqlite3', 'cattrs') if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
