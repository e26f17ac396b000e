"""Looking at the whole store: each damage is found by session and row, what is no damage is told apart
from it, and nothing is changed by looking, at rest and beside a store that is open. (The index beside a
database in use is memory that is shared with whoever looks; it is the one thing that is not compared.)

Damage is made by hand in a real database, since term2 makes none.
"""

import fcntl
import os
import shutil

import pytest

from term2_acp.domain import events as ev
from term2_acp.domain.ids import MessageId, ToolCallId
from term2_acp.domain.toolcall import DecidedBy, Effect
from term2_acp.domain.turn import StopReason
from term2_acp.store import Standing, StoreFailed, StoreTooNew, UnknownSession, schema
from term2_acp.store import findings as findings_module
from term2_acp.store.artifacts import artifacts_of
from term2_acp.store.findings import Finding, Kind, Verified
from term2_acp.store.pairing import TWICE, UNASKED, UNSETTLED, Pairing
from term2_acp.store.verify import verify
from tests.kit.conversations import keep

CALL = ToolCallId("call_a")
ASKED = ev.ToolCallPrepared(CALL, "shell", "{}", "p", "d")
DECIDED = ev.ToolCallDecided(CALL, True, DecidedBy.POLICY, "standard")
DISPATCHED = ev.ToolCallDispatched(CALL)
SETTLED = ev.ToolCallSettled(CALL, Effect.COMMITTED, "done")
IDLE = ev.Idle(StopReason.END_TURN)


def prompt(name="m"):
    return ev.UserMessage(MessageId(name), ())


def snapshot(folder):
    files = (path for path in folder.iterdir() if path.is_file() and not path.name.endswith("-shm"))
    return {path.name: path.read_bytes() for path in files}


def looked(folder):
    """What is found, and that everything in the folder is as it was."""
    before = snapshot(folder)
    try:
        return verify(str(folder))
    finally:
        assert snapshot(folder) == before


def told(verified):
    return [(each.kind, each.session, each.seq) for each in verified.findings]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The store of ``kept``, which is copied for each test."""
    folder = tmp_path_factory.mktemp("made")
    keep(str(folder), "a", events=[prompt(), ASKED, SETTLED, IDLE])
    keep(str(folder), "b")
    keep(str(folder), "c", events=[prompt(f"{n}") for n in range(700)])
    return folder


@pytest.fixture
def kept(tmp_path, made):
    """A store of three sessions that nobody has open: numbers 1 to 3, of 4, 0 and 700 rows."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_nothing_is_made_where_there_is_nothing(tmp_path):
    found = looked(tmp_path)
    assert (found.found, found.sound, found.sessions) == (False, True, 0)
    assert not (tmp_path / "nowhere").exists()
    assert not verify(str(tmp_path / "nowhere")).found
    assert not (tmp_path / "nowhere").exists()


def test_what_is_sound(kept):
    found = looked(kept)
    assert (found.found, found.sound, found.sessions, found.records) == (True, True, 3, 704)
    assert (found.findings, found.counts, found.omitted) == ([], {}, 0)


async def test_it_looks_beside_a_store_that_is_in_use(kept, opened):
    async with opened(kept) as store:
        claim = await store.claim("b")
        await store.append("b", [prompt(), ASKED])
        assert looked(kept).records == 706  # what is in the log is seen too
        assert looked(kept).counts == {}  # its turn goes on
        claim.release()
        assert told(looked(kept)) == [(Kind.UNSETTLED, "b", 2)]
        assert looked(kept).sound
        await store.append("b", [SETTLED])
        assert looked(kept).counts == {}


def test_rows_that_cannot_be_read_are_named_without_their_content(kept, database):
    base = (3 << 32) + 1
    database("UPDATE journal SET body = ? WHERE place = ?", b"canary", base + 4)
    database("UPDATE journal SET body = x'00' WHERE place = ?", base + 5)
    database("UPDATE journal SET kind = 'dream' WHERE place = ?", base + 600)
    found = looked(kept)
    assert told(found) == [(Kind.UNREADABLE, "c", 5), (Kind.UNREADABLE, "c", 6), (Kind.NEWER, "c", 601)]
    assert (found.sound, found.records) == (False, 704)
    assert found.findings[0].reason.startswith("user_message: ")
    assert found.findings[2].reason == "dream, format 1"
    assert "canary" not in repr(found)
    database("DELETE FROM journal WHERE place BETWEEN ? AND ?", base + 4, base + 5)
    database("DELETE FROM journal WHERE place = ?", base)
    found = looked(kept)
    assert told(found) == [(Kind.MISSING, "c", 1), (Kind.MISSING, "c", 5), (Kind.NEWER, "c", 601)]
    assert found.records == 701
    database("UPDATE journal SET kind = 'user_message' WHERE place = ?", base + 600)
    database(
        "INSERT INTO journal SELECT ?, version, kind, body, at FROM journal WHERE place = ?", base, base + 1
    )
    assert told(looked(kept)) == [(Kind.MISSING, "c", 5)]


def test_what_damage_made_of_a_kind_or_a_format_is_named_by_nobody(kept, database, caplog):
    base = (3 << 32) + 1
    database("UPDATE journal SET kind = 'canary one' WHERE place = ?", base + 4)
    database("UPDATE journal SET version = 'canary two' WHERE place = ?", base + 6)
    found = looked(kept)
    assert told(found) == [(Kind.UNREADABLE, "c", 5), (Kind.UNREADABLE, "c", 7)]
    assert [one.reason for one in found.findings] == [
        "a kind that cannot be",
        "user_message: a format that cannot be",
    ]
    assert not found.sound
    assert "canary" not in repr(found) + caplog.text


def test_rows_and_sessions_that_do_not_belong_together(kept, database):
    database("UPDATE journal SET place = place + (6 << 32) WHERE place >> 32 = 1")
    database("INSERT INTO journal VALUES (0, 1, 'idle', '{}', NULL)")
    database("DELETE FROM activity WHERE session = 2")
    artifacts_of(str(kept), "a").open("call.txt").close()
    artifacts_of(str(kept), "gone").open("call.txt").close()
    found = looked(kept)
    assert told(found) == [
        (Kind.NO_SESSION, None, 0),
        (Kind.UNREADABLE, "a", 1),  # it is known that it had some
        (Kind.NOT_LISTED, "b", None),
        (Kind.NO_SESSION, None, 1),
        (Kind.STRAY_FILES, "gone", None),
    ]
    assert not found.sound
    assert found.findings[3].reason == "there are records of a session 7, which there is not"
    database("UPDATE session SET number = 1 << 40 WHERE number = 2")
    assert Kind.DATABASE in looked(kept).counts


async def test_calls_of_which_the_records_do_not_fit(kept, opened):
    async with opened(kept) as store:
        await store.append("b", [prompt(), SETTLED, IDLE, prompt("2"), ASKED, ASKED, IDLE, prompt("3"), IDLE])
    assert told(looked(kept)) == [
        (Kind.OUT_OF_ORDER, "b", 2), (Kind.OUT_OF_ORDER, "b", 6), (Kind.UNSETTLED, "b", 7),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "found"),
    [
        ([ASKED, DECIDED, DISPATCHED, SETTLED, IDLE], []),
        ([ASKED, SETTLED, IDLE], []),
        ([ASKED, DISPATCHED, DECIDED, SETTLED, IDLE], [TWICE]),
        ([ASKED, SETTLED, SETTLED, IDLE], [TWICE]),
        ([DECIDED, ASKED, SETTLED, IDLE], [UNASKED, TWICE]),
        ([ASKED, prompt(), SETTLED], [UNSETTLED, UNASKED]),
        ([ev.RecordsLost(1, 1, 0), SETTLED, ASKED, IDLE, SETTLED], [UNASKED]),
        ([ASKED, ev.RecordsLost(1, 1, 0), IDLE, ASKED, IDLE], [UNSETTLED]),
    ],
)
def test_the_order_of_the_records_of_a_call(events, found):
    pairing = Pairing()
    assert list(filter(None, map(pairing.see, events))) == found


def test_only_so_many_findings_are_kept(kept, database, monkeypatch):
    monkeypatch.setattr(findings_module, "MAX_FINDINGS", 10)
    database("UPDATE journal SET body = x'00'")
    found = looked(kept)
    assert (len(found.findings), found.omitted, found.counts) == (10, 694, {Kind.UNREADABLE: 704})


def test_a_database_that_is_damaged_itself(kept):
    path = kept / "sessions.db"
    whole = path.read_bytes()
    size = 4096
    path.write_bytes(whole[: 8 * size] + b"\xa5" * 2 * size + whole[10 * size :])
    found = looked(kept)
    assert Kind.DATABASE in found.counts
    assert not found.sound
    path.write_bytes(b"no database at all, but a text" * 200)
    found = looked(kept)
    assert found.findings == [Finding(Kind.DATABASE, None, None, "it cannot be read as a database")]
    path.unlink()
    path.mkdir()
    assert not looked(kept).sound


def test_an_older_one_is_brought_up_to_date_and_a_newer_one_is_left_alone(kept, database):
    database("DROP VIEW journal_by_session")
    database("ALTER TABLE journal DROP COLUMN at")
    database("ALTER TABLE activity DROP COLUMN records")
    database("PRAGMA user_version = 1")
    # What the first release's view was is not of interest; the migration drops it.
    database("CREATE VIEW journal_by_session AS SELECT place FROM journal")
    assert verify(str(kept)).records == 704
    assert database("PRAGMA user_version") == [(len(schema.migration_files()),)]
    database("PRAGMA user_version = 999")
    with pytest.raises(StoreTooNew):
        looked(kept)


async def test_a_log_that_only_a_writer_can_read_is_not_looked_at(kept, opened, tmp_path_factory):
    copy = tmp_path_factory.mktemp("copy")
    async with opened(kept) as store:
        await store.append("b", [prompt()])
        for name in ("sessions.db", "sessions.db-wal"):
            shutil.copy(kept / name, copy)
    with pytest.raises(StoreFailed, match="left in the midst of a write"):
        looked(copy)
    async with opened(copy):
        assert looked(copy).records == 705


@pytest.mark.parametrize("one_file", [True, False])
async def test_who_has_a_session_open_is_seen_without_a_claim(
    opened, record, tmp_path, monkeypatch, one_file
):
    if not one_file:  # as where the kernel has no open-file-description locks
        monkeypatch.delattr(fcntl, "F_OFD_SETLK")
        monkeypatch.delattr(fcntl, "F_OFD_GETLK")
    async with opened(tmp_path) as store:
        await store.create(record("a"))
        assert await store.standing("a") == Standing(0, None)
        claim = await store.claim("a")
        await store.append("a", [prompt(), ASKED])
        assert await store.standing("a") == Standing(2, os.getpid())
        assert looked(tmp_path).counts == {}
        claim.release()
        assert await store.standing("a") == Standing(2, None)
        (await store.claim("a")).release()
        with pytest.raises(UnknownSession):
            await store.standing("b")


def test_what_is_found_says_whether_it_is_damage():
    found = Verified(found=True)
    for kind in (Kind.NEWER, Kind.UNSETTLED, Kind.STRAY_FILES):
        found.add(kind, None, None, "")
        assert found.sound
    found.add(Kind.MISSING, None, None, "")
    assert not found.sound
