"""The list of sessions: last active first, in pages that stay where they are while sessions are added."""

import base64
import json
from itertools import chain

import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from term2_acp.domain.content import Text
from term2_acp.domain.events import UserMessage
from term2_acp.domain.ids import MessageId, SessionId
from term2_acp.store import BadCursor, InlineRunner, SessionRecord, Store
from term2_acp.store.schema import open_database


def at(number: int) -> str:
    return f"2026-11-30T10:00:00.{number:03}Z"


async def pages(store, *, cwd=None, limit=50, between=None):
    cursor = None
    result = []
    while True:
        page = await store.page(cwd, cursor, limit)
        result.append([entry.session_id for entry in page.sessions])
        cursor = page.next_cursor
        if cursor is None:
            return result
        if between is not None:
            await between()


async def test_last_active_first_in_pages_of_fifty(opened, record, tmp_path):
    async with opened(tmp_path) as store:
        assert await pages(store) == [[]]
        for number in range(120):
            await store.create(record(f"{number}", at=at(number)))
        expected = [f"{number}" for number in reversed(range(120))]
        assert await pages(store) == [expected[:50], expected[50:100], expected[100:]]
        assert await pages(store, limit=120) == [expected]
        assert await pages(store, limit=119) == [expected[:119], expected[119:]]


async def test_activity_moves_a_session_to_the_front(opened, record, tmp_path):
    async with opened(tmp_path, clock=lambda: at(900)) as store:
        for number in range(3):
            await store.create(record(f"{number}", at=at(number)))
        await store.append("0", [UserMessage(MessageId("m"), (Text("hi"),))])
        assert await pages(store) == [["0", "2", "1"]]


async def test_a_list_of_one_workspace(opened, record, tmp_path):
    async with opened(tmp_path) as store:
        for number in range(10):
            await store.create(record(f"{number}", cwd="/a" if number % 2 else "/a/", at=at(number)))
        assert await pages(store, cwd="/a", limit=2) == [["9", "7"], ["5", "3"], ["1"]]
        assert await pages(store, cwd="/b") == [[]]
        assert await pages(store, cwd="/\udcff") == [[]]


async def test_sessions_of_one_moment_are_all_listed_once(opened, record, tmp_path):
    async with opened(tmp_path) as store:
        for number in range(25):
            await store.create(record(f"{number}"))
        listed = await pages(store, limit=4)
        assert list(chain(*listed)) == [f"{number}" for number in reversed(range(25))]


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    first=st.lists(st.integers(0, 20), max_size=12),
    added=st.lists(st.integers(20, 40), max_size=12),
    limit=st.integers(1, 5),
)
def test_pages_are_stable_while_sessions_are_added(tmp_path_factory, first, added, limit):
    # Ties between moments included; added sessions are not older than those that were there.
    directory = tmp_path_factory.mktemp("store")
    later = list(enumerate(added))

    async def main():
        store = Store(str(directory), InlineRunner())
        async with trio.open_nursery() as nursery:
            await nursery.start(store.run)
            await store.open()
            for number, moment in enumerate(first):
                time = at(moment)
                await store.create(SessionRecord(SessionId(f"{number}"), "/w", None, time, time))

            async def add():
                await trio.lowlevel.checkpoint()
                if later:
                    number, moment = later.pop()
                    time = at(moment)
                    await store.create(SessionRecord(SessionId(f"new {number}"), "/w", None, time, time))

            listed = list(chain(*await pages(store, limit=limit, between=add)))
            order = sorted(range(len(first)), key=lambda number: (first[number], number), reverse=True)
            assert listed == [f"{number}" for number in order]
            await store.aclose()

    trio.run(main)


def encoded(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode()


@pytest.mark.parametrize(
    "cursor",
    [
        "",
        "banana",
        "=",
        "\ud800",
        "é",
        "x" * 1000,
        encoded(None),
        encoded([]),
        encoded([at(1)]),
        encoded([at(1), "1"]),
        encoded([at(1), 1.0]),
        encoded([at(1), True]),
        encoded([at(1), -1]),
        encoded([at(1), 2**63]),
        encoded([at(1), 10**40]),
        encoded([at(1), 1, 1]),
        encoded(["yesterday", 1]),
        encoded([1, 1]),
        base64.urlsafe_b64encode(b'["2026-11-30T10:00:00.001Z", 1]').decode(),
        encoded([at(1), 1]) + "\n",
        "!" + encoded([at(1), 1]),
    ],
)
async def test_a_cursor_that_is_not_ours_is_refused(opened, tmp_path, cursor):
    async with opened(tmp_path) as store:
        with pytest.raises(BadCursor):
            await store.page(None, cursor)


async def test_a_cursor_of_ours_is_taken_by_another_process(opened, record, tmp_path):
    async with opened(tmp_path) as store:
        for number in range(3):
            await store.create(record(f"{number}", at=at(number)))
        first = await store.page(None, None, 2)
    async with opened(tmp_path) as store:
        second = await store.page(None, first.next_cursor, 2)
        assert [entry.session_id for entry in second.sessions] == ["0"]
        assert second.next_cursor is None


async def test_a_page_of_a_long_list_reads_only_its_own_records(opened, record, tmp_path):
    plans = []

    def connect(path):
        connection = open_database(path)
        sql = []
        connection.set_trace_callback(sql.append)
        plans.append((connection, sql))
        return connection

    async with opened(tmp_path, connect=connect) as store:
        await store.create(record("a"))
        await store.page(None, None)
        connection, sql = plans[0]
        (query,) = [statement for statement in sql if statement.startswith("SELECT number, id")]
        connection.set_trace_callback(None)
        plan = [row[3] for row in connection.execute("EXPLAIN QUERY PLAN " + query)]
        assert any("SCAN activity" in step for step in plan)
        assert not any("SCAN session" in step for step in plan)
