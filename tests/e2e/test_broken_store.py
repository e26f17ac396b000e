"""The daemon beside a store that is not as it should be: a full disk, no right to write, a log that was torn,
rows and pages that are damaged, and schemas of another time.

Where the store cannot do what is asked, the request fails with one readable sentence, nothing is shown that
is not kept, and the daemon lives on. What can still be read is shown, and what cannot is said in its place
and left in the file. The daemons are real processes (``kit.zygote``); the full disk is a real file system.
"""

import hashlib
import json
import os
import random
import shutil
import sqlite3
import tempfile
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import trio

from term2_acp.store.schema import migration_files
from tests.kit.crashing import Fault, first_life, later_life, living, prepare, rows_of, zygote
from tests.kit.daemon import PROGRAM, running
from tests.kit.fold import fold
from tests.kit.small_disk import Disk, on_a_disk_of
from tests.kit.survival import (
    everything_is_over,
    in_turn,
    is_well_paired,
    nothing_comes_twice,
    nothing_is_missing,
    the_model_is_told,
    things,
)

NOBODY = 65534
MIB = 1024 * 1024
WORDS = "x" * (MIB // 4)

FULL = "The disk that holds term2's state is full; free some space and try again."
READ_ONLY = "term2's state directory cannot be written to; check its permissions."
DAMAGED = (
    "The session store is damaged; export what can be read, then move sessions.db out of term2's state "
    "directory, with its -wal and -shm, to start afresh."
)
TOO_NEW = "The session store was written by a newer term2; update this one to use it."


@pytest.fixture(scope="module")
def source():
    with zygote() as source:
        yield source


@pytest.fixture(scope="module")
def lived_once(source, tmp_path_factory):
    """A whole conversation whose daemon was killed behind its end, so that it stands in the log alone."""
    home = prepare(tmp_path_factory.mktemp("lived"))
    life = trio.run(first_life, source, home, None)
    shutil.copytree(home.state, home.root / "kept")
    return home, life


@pytest.fixture
def lived(lived_once):
    """The home of that conversation as the killed daemon left it, and what was seen of it."""
    home, life = lived_once
    shutil.rmtree(home.state)
    shutil.copytree(home.root / "kept", home.state)
    return home, life


@pytest.fixture
def at_rest(lived):
    """The same where the log was folded in, and the path of the database."""
    home, life = lived
    path = home.state / "sessions.db"
    database(path, "PRAGMA user_version")
    assert [name.name for name in home.state.glob("sessions.db*")] == ["sessions.db"]
    return home, life, path


def database(path, sql, *values):
    """Run SQL on the database of a daemon that has ended."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        return connection.execute(sql, values).fetchall()


def tree(folder):
    """Every file below the folder with its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def resume(home, session_id):
    return {"sessionId": session_id, "cwd": str(home.workspace), "replayFrom": {"type": "start"}}


async def refusals(daemon, home, session_id):
    """Initialize, which works, and ask for what needs the store; the sentences of the refusals, by method."""
    await daemon.initialize()
    sentences = {}
    for method, params in (
        ("session/new", {"cwd": str(home.workspace)}),
        ("session/list", {}),
        ("session/resume", resume(home, session_id)),
    ):
        refused = await daemon.refused(method, params)
        assert refused.code == -32603
        sentences[method] = refused.message
    assert [frame for frame in daemon.frames if frame.get("method") == "session/update"] == []
    return sentences


async def leaves_well(daemon):
    await daemon.close_stdin()
    assert await daemon.exit_code() == 0
    daemon.check_ended_well()


# -- a full disk -------------------------------------------------------------------------------------


async def test_a_full_disk(source, tmp_path):
    home = prepare(tmp_path)
    script = home.root / "script.toml"
    script.write_text(
        f"""
[[rules]]
match = "^much$"
[[rules.replies]]
steps = [{{ call = "read_file", arguments = {{ path = "{home.root}/elsewhere/outside.txt" }} }}]
[[rules.replies]]
steps = [{{ text = "{WORDS}" }}]
"""
        + script.read_text()
    )
    cut = await first_life(source, home, Fault("terminal_output", "before"))
    prompt = in_turn(cut.rows)
    assert prompt is not None
    shutil.move(home.state, home.root / "kept")
    (home.root / "kept" / "sessions.db-shm").unlink()
    home.state.mkdir()
    program = on_a_disk_of(4 * MIB, home.state, PROGRAM, holding=home.root / "kept")
    async with running(home, program=program, leaves=False) as daemon:
        await daemon.initialize()
        disk = Disk(daemon.process.pid, home.state)
        disk.fill()
        # Not even the index beside the log can be made.
        refused = await daemon.refused("session/list")
        assert (refused.code, refused.message) == (-32603, FULL)
        disk.free()
        (listed,) = (await daemon.request("session/list"))["sessions"]
        assert listed["sessionId"] == cut.session_id
        # How the turn ended cannot be kept. It is told all the same, and told again the same.
        disk.fill()
        assert await daemon.request("session/resume", resume(home, cut.session_id)) == {}
        replay = fold(daemon.updates(cut.session_id))
        nothing_is_missing(cut.shown, replay)
        everything_is_over(replay, prompt)
        start = len(daemon.frames)
        words = [{"type": "text", "text": WORDS}]
        refused = await daemon.refused("session/prompt", {"sessionId": cut.session_id, "prompt": words})
        assert (refused.code, refused.message) == (-32603, FULL)
        refused = await daemon.refused("session/new", {"cwd": str(home.workspace)})
        assert (refused.code, refused.message) == (-32603, FULL)
        assert daemon.updates(cut.session_id, start) == []
        disk.free()
        # In the midst of a turn: what cannot be kept is not shown, and the turn says why it ends.
        turn = await daemon.begin(cut.session_id, "much")
        ask = await daemon.next_ask()
        disk.fill()
        await daemon.choose(ask, "approve")
        assert await turn.ended() == "_term2_error"
        assert turn.updates[-1]["_meta"]["term2"]["error"] == {"code": "store_full", "message": FULL}
        assert WORDS not in json.dumps(turn.updates)
        disk.free()
        assert (await daemon.prompt(cut.session_id, "hi")).text == "Hello."
        live = fold(daemon.updates(cut.session_id))
        await daemon.request("session/close", {"sessionId": cut.session_id})
        shutil.copytree(disk.path, home.root / "after")
        await leaves_well(daemon)
    home.state.rmdir()
    (home.root / "after").rename(home.state)
    later = await later_life(source, home, "later", cut.session_id)
    assert later.rows[: len(cut.rows)] == cut.rows
    nothing_comes_twice(later.updates)
    # The one thing that a client is shown and that is not kept is why a turn ended whose end was not kept.
    nothing_is_missing(replay, later.replay)
    ids, seen = ([one["id"] for one in shown["things"]] for shown in (later.replay, live))
    assert [one for one in seen if one not in ids] == [turn.of("agent_message")[0]["messageId"]]
    assert [one for one in ids if one not in seen] == [f"{turn.message_id}_interrupted"]


# -- no right to write -------------------------------------------------------------------------------


@pytest.fixture
def open_home(lived_once):
    """A home that an ordinary user can look into, with the state of the conversation; root's."""
    old, _life = lived_once
    with tempfile.TemporaryDirectory(prefix="term2-test-", dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        home = prepare(Path(folder) / "home")
        shutil.copytree(old.root / "kept", home.state)
        database(home.state / "sessions.db", "UPDATE session SET cwd = ?", str(home.workspace).encode())
        yield home


@asynccontextmanager
async def as_ordinary_user(source, home):
    """A daemon of a user who may write nothing that is root's."""
    user = NOBODY if os.geteuid() == 0 else None
    async with living(source, home, home.root / "report", user=user) as daemon:
        yield daemon
        await leaves_well(daemon)


async def test_a_state_directory_that_cannot_be_written(source, lived_once, open_home):
    home, session_id = open_home, lived_once[1].session_id
    for path in (home.state / "sessions.db", home.state / "sessions.lock"):
        path.chmod(0o444)
    home.state.chmod(0o555)
    before = tree(home.state)
    async with as_ordinary_user(source, home) as daemon:
        assert set((await refusals(daemon, home, session_id)).values()) == {READ_ONLY}
    assert tree(home.state) == before
    home.state.chmod(0o755)
    shutil.rmtree(home.state)
    home.state.parent.chmod(0o555)
    async with as_ordinary_user(source, home) as daemon:  # nor can it be made
        assert set((await refusals(daemon, home, session_id)).values()) == {READ_ONLY}
    assert not home.state.exists()


async def test_a_database_that_can_only_be_read(source, lived_once, open_home):
    home, session_id = open_home, lived_once[1].session_id
    if os.geteuid() == 0:
        os.chown(home.state, NOBODY, NOBODY)
        os.chown(home.state / "sessions.lock", NOBODY, NOBODY)
    (home.state / "sessions.db").chmod(0o444)
    before = (home.state / "sessions.db").read_bytes()
    async with as_ordinary_user(source, home) as daemon:
        await daemon.initialize()
        refused = await daemon.refused("session/new", {"cwd": str(home.workspace)})
        assert (refused.code, refused.message) == (-32603, READ_ONLY)
        assert len((await daemon.request("session/list"))["sessions"]) == 1
        await daemon.request("session/resume", resume(home, session_id))  # what was kept can be read
        start = len(daemon.frames)
        prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": "again"}]}
        refused = await daemon.refused("session/prompt", prompt)
        assert (refused.code, refused.message) == (-32603, READ_ONLY)
        assert daemon.updates(session_id, start) == []
    assert (home.state / "sessions.db").read_bytes() == before


# -- a log that was torn -----------------------------------------------------------------------------


def torn(log):
    """The log as it may be found after a power cut, by what became of it."""
    noise = random.Random(6).randbytes
    third, half = len(log) // 3, len(log) // 2
    yield "cut in the middle", log[:half]
    yield "cut within a frame", log[: third * 2 + 1]
    yield "its end is noise", log[: -third - 100] + noise(third + 100)
    yield "noise behind it", log + noise(5000)
    yield "a byte of it is another", log[:half] + bytes([log[half] ^ 0xFF]) + log[half + 1 :]
    yield "its head is noise", noise(32) + log[32:]


async def test_a_log_that_was_torn_loses_its_last_commits_and_nothing_else(source, lived):
    home, life = lived
    path = home.state / "sessions.db-wal"
    lengths = {}
    for name, log in torn(path.read_bytes()):
        shutil.rmtree(home.state)
        shutil.copytree(home.root / "kept", home.state)
        path.write_bytes(log)
        (home.state / "sessions.db-shm").unlink()
        rows = rows_of(home)
        assert life.rows[: len(rows)] == rows, name
        lengths[name] = len(rows)
        second = await later_life(source, home, f"second {name}", None, "again")
        if second.session_id is None:
            assert rows == []
            continue
        assert second.session_id == life.session_id
        prompt = in_turn(rows)
        replay = second.replay
        ids = [one["id"] for one in replay["things"] if not one["id"].endswith("_interrupted")]
        assert ids == [one["id"] for one in life.shown["things"]][: len(ids)], name
        everything_is_over(replay, prompt)
        the_model_is_told(second.asked[0], replay, "again")
        third = await later_life(source, home, f"third {name}", life.session_id)
        assert third.replay == second.shown, name
        assert third.rows == second.rows
    whole = len(life.rows)
    assert lengths["noise behind it"] == whole
    assert lengths["its head is noise"] == 0
    assert all(0 < lengths[name] < whole for name in [*list(lengths)[:3], "a byte of it is another"])


# -- damaged rows and pages --------------------------------------------------------------------------


def place_of(rows, kind, holds=""):
    return next(row.place for row in rows if row.kind == kind and holds in row.body.decode())


async def test_damaged_rows_are_said_in_their_place_and_stay_in_the_file(source, at_rest):
    home, life, path = at_rest
    rows = life.rows
    text = place_of(rows, "agent_message_chunk", "I write")
    settled = place_of(rows, "tool_call_settled", "Exit code 0")
    number = rows[0].place >> 32
    for sql, *values in (
        ("UPDATE journal SET body = ? WHERE place = ?", b"\xff\x00{garbage", text),
        ("UPDATE journal SET body = ? WHERE place = ?", b'{"tool_call_id": 7}', settled),
        ("UPDATE journal SET body = 7 WHERE place = ?", settled + 1),  # the last word about that call
        ("UPDATE journal SET kind = 'hologram' WHERE place = ?", place_of(rows, "plan_update")),
    ):
        database(path, sql, *values)
    damaged = rows_of(home)
    second = await later_life(source, home, "second", life.session_id, "again")
    replay = second.replay
    lost = {one["id"]: one["text"] for one in replay["things"] if one["id"].startswith("lost_")}
    seq = [place - (number << 32) for place in (text, settled, place_of(rows, "plan_update"))]
    assert list(lost) == [f"lost_{one}" for one in seq]
    assert [words.split(" could")[0] for words in lost.values()] == [
        "1 record of this conversation",
        "2 records of this conversation",
        "1 record of this conversation",
    ]
    assert "newer term2" in lost[f"lost_{seq[2]}"]
    # All the rest is there, under the ids that it had, and the losses stand where their rows did.
    live = life.shown
    gone = {one["id"] for one in live["things"]} - {one["id"] for one in replay["things"]}
    assert gone == {one["id"] for one in things(live, "agent_message") if one["text"] == "I write."}
    order = [one["id"] for one in replay["things"]]
    shown = {call["name"]: call for call in things(replay, "tool_call")}
    assert order.index(f"lost_{seq[0]}") < order.index(shown["search_replace"]["toolCallId"])
    assert order.index(shown["shell"]["toolCallId"]) < order.index(f"lost_{seq[1]}")
    assert order.index(f"lost_{seq[1]}") < order.index(shown["update_plan"]["toolCallId"])
    assert shown["shell"]["status"] == "failed"
    assert "outcome_unknown" in json.dumps(shown["shell"]["rawOutput"])
    everything_is_over(replay, None)
    # The session goes on, its model knows, and nothing of it was changed.
    (asked,) = second.asked
    is_well_paired(asked)
    assert any("could not be read" in message["text"] for message in asked if message["is"] == "UserSaid")
    assert second.rows[: len(damaged)] == damaged
    third = await later_life(source, home, "third", life.session_id)
    assert third.replay == second.shown


async def test_a_page_that_is_damaged_hides_its_rows_and_no_others(source, at_rest):
    home, life, path = at_rest
    size = 4096
    content = bytearray(path.read_bytes())
    # A leaf of the journal in the middle of it: type 13 (sqlite.org/fileformat2), with rows of the edit.
    leaves = [
        start
        for start in range(0, len(content), size)
        if content[start] == 13 and b'"search_replace"' in content[start : start + size]
    ]
    content[leaves[0] : leaves[0] + size] = b"\xa5" * size
    path.write_bytes(content)
    second = await later_life(source, home, "second", life.session_id, "again", sound=False)
    replay = second.replay
    (lost,) = [one for one in replay["things"] if one["id"].startswith("lost_")]
    first, last = replay["things"][0], replay["things"][-1]
    assert first == life.shown["things"][0]
    assert last == life.shown["things"][-1]
    known = {one["id"] for one in life.shown["things"]} | {lost["id"]}
    assert {one["id"] for one in replay["things"]} <= known
    everything_is_over(replay, None)
    is_well_paired(second.asked[0])
    third = await later_life(source, home, "third", life.session_id, sound=False)
    assert third.replay == second.shown
    assert bytes(content[leaves[0] : leaves[0] + size]) in path.read_bytes()


async def test_where_the_last_page_is_damaged_the_rest_is_shown_and_nothing_is_put_behind_it(source, at_rest):
    home, life, path = at_rest
    size = 4096
    content = bytearray(path.read_bytes())
    (last,) = [
        start
        for start in range(0, len(content), size)
        if content[start] == 13 and life.rows[-1].body in content[start : start + size]
    ]
    content[last : last + size] = b"\xa5" * size
    path.write_bytes(content)
    async with living(source, home, home.root / "report") as daemon:
        await daemon.initialize()
        (listed,) = (await daemon.request("session/list"))["sessions"]
        assert listed["sessionId"] == life.session_id
        assert await daemon.request("session/resume", resume(home, life.session_id)) == {}
        replay = fold(daemon.updates(life.session_id))
        lost = next(one for one in replay["things"] if one["id"].startswith("lost_"))
        assert lost["text"].startswith("The store is damaged here, so whatever may follow")
        before = replay["things"][: replay["things"].index(lost)]
        assert len(before) > 5
        assert [one["id"] for one in before] == [one["id"] for one in life.shown["things"][: len(before)]]
        prompt = things(replay, "user_message")[-1]["id"]
        behind = [one["id"] for one in replay["things"][len(before) + 1 :]]
        assert behind == [f"{prompt}_interrupted"]  # for all that can be known
        everything_is_over(replay, None)
        start = len(daemon.frames)
        words = [{"type": "text", "text": "again"}]
        refused = await daemon.refused("session/prompt", {"sessionId": life.session_id, "prompt": words})
        assert (refused.code, refused.message) == (-32603, DAMAGED)
        assert daemon.updates(life.session_id, start) == []
        await leaves_well(daemon)
    assert content[last : last + size] in path.read_bytes()


async def test_a_page_that_is_needed_to_find_anything_is_one_sentence(source, at_rest):
    home, life, path = at_rest
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xa5" * (len(content) - 4096)
    path.write_bytes(content)
    async with living(source, home, home.root / "report") as daemon:
        assert set((await refusals(daemon, home, life.session_id)).values()) == {DAMAGED}
        await leaves_well(daemon)
    assert path.read_bytes() == content


# -- schemas of another time -------------------------------------------------------------------------


def digests(folder):
    return {name: hashlib.sha256(content).hexdigest() for name, content in tree(folder).items()}


@pytest.mark.parametrize("left_open", [False, True])
async def test_a_newer_schema_is_refused_and_not_a_byte_is_changed(source, lived, left_open):
    home, life = lived
    path = home.state / "sessions.db"
    if left_open:  # by a newer term2 that was killed: what it wrote stands in the log
        holder = sqlite3.connect(path, isolation_level=None)
        holder.execute("PRAGMA user_version = 1000")
        kept = tree(home.state)
        holder.close()
        for name, content in kept.items():
            (home.state / name).write_bytes(content)
    else:
        database(path, "PRAGMA user_version = 1000")
    before = digests(home.state)
    assert ("sessions.db-wal" in before) == left_open
    async with living(source, home, home.root / "report") as daemon:
        assert set((await refusals(daemon, home, life.session_id)).values()) == {TOO_NEW}
        await leaves_well(daemon)
    after = digests(home.state)
    for name in ("sessions.db", "sessions.db-wal"):
        assert after.get(name) == before.get(name)


def of_version_1(path, old):
    """A database as the first schema had it, with all that is in the one at ``old``."""
    migrations = Path(__file__).parents[2] / "term2_acp" / "store" / "migrations"
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.executescript((migrations / "0001_sessions_and_journal.sql").read_text())
        connection.execute("PRAGMA user_version = 1")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("ATTACH ? AS old", (str(old),))
        for table, columns in (
            ("session", "number, id, cwd, title, created_at"),
            ("activity", "session, updated_at"),
            ("journal", "place, version, kind, body"),
        ):
            connection.execute(f"INSERT INTO {table} ({columns}) SELECT {columns} FROM old.{table}")


async def test_an_older_schema_is_brought_up_to_date_by_two_at_once_and_loses_nothing(source, at_rest):
    home, life, path = at_rest
    path.rename(home.root / "old.db")
    of_version_1(path, home.root / "old.db")
    (home.root / "old.db").unlink()
    listed = {}
    async with (
        living(source, home, home.root / "one") as one,
        living(source, home, home.root / "other") as other,
    ):
        async with trio.open_nursery() as nursery:

            async def list_them(name, daemon):
                await daemon.initialize()
                listed[name] = await daemon.request("session/list")

            nursery.start_soon(list_them, "one", one)
            nursery.start_soon(list_them, "other", other)
        assert listed["one"] == listed["other"]
        assert [entry["sessionId"] for entry in listed["one"]["sessions"]] == [life.session_id]
        await one.request("session/resume", resume(home, life.session_id))
        refused = await other.refused("session/resume", resume(home, life.session_id))
        assert (refused.code, refused.data["pid"]) == (409, one.process.pid)
        replay = fold(one.updates(life.session_id))
        nothing_is_missing(life.shown, replay)
        await leaves_well(one)
        await leaves_well(other)
    assert rows_of(home) == life.rows
    assert database(path, "SELECT COUNT(*) FROM journal WHERE at IS NOT NULL") == [(0,)]
    assert database(path, "PRAGMA user_version") == [(len(migration_files()),)]
