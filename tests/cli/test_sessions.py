"""``term2 sessions``: each command in this process on a real store, what it says and what it leaves alone;
and once all of them as the program.

Elsewhere than on a terminal a line is whole, so texts are compared as they are; JSON is compared as values.
"""

import errno
import itertools
import json
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest
import trio

from term2_acp.cli.screen import Screen
from term2_acp.cli.sessions import run
from term2_acp.cli.sessions.arguments import _COMMANDS, COMMANDS, Request, parse
from term2_acp.cli.sessions.kept import NotDone
from term2_acp.cli.sessions.verifying import _ADVICE
from term2_acp.cli.terminal import SESSIONS_USAGE, CannotWrite, Output
from term2_acp.domain import events as ev
from term2_acp.domain.content import Change, Diff, Image, Operation, ResourceLink, Terminal, Text
from term2_acp.domain.ids import CompactionId, MessageId, PlanId, SessionId, TerminalId, ToolCallId
from term2_acp.domain.plan import PlanEntry, PlanPriority, PlanStatus
from term2_acp.domain.toolcall import DecidedBy, Effect, Location, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.domain.turn import Failure, StopReason
from term2_acp.domain.usage import TurnUsage, Usage
from term2_acp.store import InlineRunner, Store, StoreFailed, StoreTooNew, schema
from term2_acp.store.artifacts import artifacts_of
from term2_acp.store.findings import DAMAGE, Kind
from term2_acp.store.rows import RowCodec
from tests.kit.conversations import keep
from tests.kit.home import Home
from tests.kit.indoors import indoors

CALL, EDIT = ToolCallId("call_a"), ToolCallId("call_b")
TERMINAL = TerminalId("term_a")
TERMINAL_SCREEN = Screen(72, colours=True)
LOOKS_LIKE_A_KEY = "sk-abcdefghijklmnop"

TITLE = ev.SessionInfoUpdate("Fix the parser", "2026-11-30T10:00:00.000Z")
PATCH = "--- /w/a.py\n+++ /w/a.py\n@@ -1 +1 @@\n-old\n+new\n"

CONVERSATION = (
    ev.UserMessage(
        MessageId("m1"),
        (Text("Fix it\nplease"), ResourceLink("a.py", "file:///w/a.py"), Image("image/png", "AAAA")),
    ),
    TITLE,
    ev.AgentThoughtChunk(MessageId("t1"), "Let me see."),
    ev.AgentMessageChunk(MessageId("a1"), "I **run** it:"),
    ev.Circumstances(
        MessageId("m1"), "Zed 1.0", '{"fs":true}', "0.1.0", 2, "play", "scripted", "default", ("/w",)
    ),
    ev.ToolCallPrepared(CALL, "shell", "{}", "p", "a" * 64),
    ToolCallUpdate(CALL, "Run make", "shell", ToolKind.EXECUTE, ToolStatus.PENDING),
    ev.ToolCallDecided(
        CALL,
        True,
        DecidedBy.PERSON,
        "ask",
        (f"make KEY={LOOKS_LIKE_A_KEY}",),
        ("edit /w",),
        "allow-once",
        1500,
    ),
    ev.ToolCallDispatched(CALL),
    ToolCallUpdate(CALL, content=(Terminal(TERMINAL),)),
    ev.TerminalUpdate(TERMINAL, "make", "/w"),
    ev.TerminalOutput(TERMINAL, b"\x1b[31mred\x1b[0m\n" + b"".join(b"line %d\n" % n for n in range(150))),
    ev.TerminalUpdate(TERMINAL, exit_status=ev.ExitStatus(2)),
    ev.ToolCallSettled(CALL, Effect.COMMITTED, "done", False, 1234),
    ToolCallUpdate(CALL, status=ToolStatus.COMPLETED),
    ev.ToolCallPrepared(EDIT, "apply_patch", "{}", "p", "b" * 64),
    ToolCallUpdate(
        EDIT,
        "Edit a.py",
        "apply_patch",
        ToolKind.EDIT,
        ToolStatus.PENDING,
        locations=(Location("/w/a.py", 3),),
    ),
    ToolCallUpdate(EDIT, content=(Diff((Change(Operation.MODIFY, "/w/a.py"),), PATCH),)),
    ev.ToolCallSettled(EDIT, Effect.COMMITTED, "done"),
    ToolCallUpdate(EDIT, status=ToolStatus.COMPLETED),
    ev.PlanUpdate(
        PlanId("plan"),
        (
            PlanEntry("Look", PlanPriority.HIGH, PlanStatus.COMPLETED),
            PlanEntry("Mend", PlanPriority.HIGH, PlanStatus.PENDING),
        ),
    ),
    ev.CompactionUpdate(CompactionId("c"), ev.CompactionStatus.COMPLETED, "We fixed it."),
    ev.UsageUpdate(1000, 200_000, 12_300_000_000),
    ev.Idle(StopReason.END_TURN, None, TurnUsage(2, 2, Usage(1200, 20), 12_300_000_000)),
)
CUT_OFF = (
    ev.UserMessage(MessageId("m2"), (Text("again"),)),
    ev.ToolCallPrepared(EDIT, "create_file", "{}", "p", "c" * 64),
    ToolCallUpdate(EDIT, "Create b.py", "create_file", ToolKind.EDIT, ToolStatus.PENDING),
    ev.ToolCallDispatched(EDIT),
)

SHOWN = """\
Fix the parser
sess_one
/w, active 2026-11-30 10:00:01, made 2026-11-30 10:00:01, 28 records

You, TIME
  Fix it
  please
  (a.py: file:///w/a.py)
  (an image, image/png, 3 bytes)

Thought
  Let me see.

Answer
  I **run** it:

Run make (execute, shell): completed
  $ make
  in /w
    (394 characters of output before this are not shown.)
    LINES
  Exit code 2.

Edit a.py (edit, apply_patch): completed
  /w/a.py:3
  Changed: /w/a.py
    --- /w/a.py
    +++ /w/a.py
    @@ -1 +1 @@
    -old
    +new

Plan
  [x] Look
  [ ] Mend

What was said before was summarised for the model.
  We fixed it.

The turn ended. 2 calls of the model, 1,200 tokens read, 20 written, 0.0123 USD.

You, TIME
  again

Create b.py (edit, create_file): failed
    outcome_unknown: term2 stopped before the end of this call was recorded. It may or may not have had its \
effect; look before you repeat it.

term2: term2 stopped during this turn; what came after this point is lost.

1,000 of 200,000 tokens of context are in use. The session cost 0.0123 USD.
"""


@pytest.fixture(autouse=True)
def _in_utc(monkeypatch):
    """Times for a person are in their own zone."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The state directory of ``two``, which is copied for each test."""
    state = tmp_path_factory.mktemp("made") / "state"
    keep(str(state), "sess_one", events=[*CONVERSATION, *CUT_OFF], second=1)
    keep(str(state), "sess_other", cwd="/v", second=2)
    return state


@pytest.fixture
def two(kept, made):
    """Two sessions: one with all that a session may hold, one that was only made."""
    shutil.copytree(made, kept.state)
    return kept


@asynccontextmanager
async def live(kept, session_id):
    """A store that has the session open."""
    store = Store(kept.state, InlineRunner())
    await store.open()
    claim = await store.claim(SessionId(session_id))
    yield store
    claim.release()
    await store.aclose()


def while_open(kept, session_id, *words, **more):
    """What a command does while somebody has the session open."""

    async def hold():
        async with live(kept, session_id):
            return await trio.to_thread.run_sync(lambda: kept.run(*words, **more))

    return trio.run(hold)


# -- arguments -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "no command given"),
        (["dump"], "unknown command 'dump'"),
        (["--json"], "unknown option '--json'"),
        (["list", "x"], "unexpected argument 'x'"),
        (["list", "--jsn=sk-secret"], "unknown option --jsn"),
        (["list", "--limit"], "--limit needs a value"),
        (["list", "--limit", "--json"], "--limit needs a value"),
        (["list", "--limit", "0"], "--limit: must be a number from 1 to 1000000, not '0'"),
        (["list", "--limit=99999999999"], "--limit: must be a number from 1 to 1000000, not '99999999999'"),
        (["list", "--limit=²"], "--limit: must be a number from 1 to 1000000, not '²'"),
        (["show"], "show needs the id of a session"),
        (["show", ""], "show needs the id of a session"),
        (["show", "a", "b"], "unexpected argument 'b'"),
        (["show", "a", "--yes"], "unknown option --yes"),
        (["export", "a", "--format", "html"], "--format: must be json or markdown, not 'html'"),
        (["delete", "--yes", "--yes", "a"], "--yes is given twice"),
        (["verify", "--json=1"], "--json takes no value"),
        (["show", "a", "b" * 10_000], f"unexpected argument '{'b' * 80}...'"),
    ],
)
def test_what_is_not_an_argument_is_one_line_and_the_usage(capfd, words, reason):
    assert run(words, {}) == (2 if words[:1] == ["verify"] else 1)
    assert capfd.readouterr() == ("", f"term2 sessions: {reason}\n{SESSIONS_USAGE}\n")


def test_arguments_are_read():
    assert parse(["list", "--cwd=-x", "--limit", "7", "--json"]) == Request(
        "list", (), frozenset({"json"}), {"cwd": "-x", "limit": "7"}
    )
    assert parse(["delete", "a", "--yes", "b", "a"]) == Request("delete", ("a", "b"), frozenset({"yes"}))


# -- nothing there, or nothing to be touched -------------------------------------------------------


def test_reading_makes_nothing_that_is_not_there(kept):
    assert kept.says("list") == ""
    assert kept.says("list", screen=TERMINAL_SCREEN) == "\x1b[2mNo sessions are kept.\x1b[0m\n"
    assert kept.json("list") == {"sessions": []}
    assert kept.says("verify") == "No sessions are kept.\n"
    for command in ("show", "export", "audit", "delete"):
        with pytest.raises(NotDone, match=r"^there is no session 'x'$"):
            kept.run(command, "x", *(["--yes"] if command == "delete" else []))
    assert not Path(kept.state).exists()


def test_what_a_newer_term2_wrote_is_left_alone(two):
    path = Path(two.state) / "sessions.db"
    connection = schema.open_database(str(path))
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    before = path.read_bytes()
    for words in (["list"], ["show", "sess_one"], ["delete", "sess_one", "--yes"], ["verify"]):
        with pytest.raises(StoreTooNew):
            two.run(*words)
    assert path.read_bytes() == before


def files_of(kept):
    return {path.name: path.read_bytes() for path in Path(kept.state).iterdir() if path.is_file()}


def test_what_may_not_be_written_to_can_be_read(two):
    """A disk that is full, or that was made read-only when it began to fail."""
    commands = (["list"], ["show", "sess_one"], ["export", "sess_one"], ["audit", "sess_one"])
    told = [two.json(*words) for words in commands]
    (Path(two.state) / "sessions.lock").unlink()
    there = files_of(two)
    refusal = sqlite3.OperationalError("no")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("term2_acp.store.viewer.open_database", Mock(side_effect=refusal))
        for refusal.sqlite_errorcode in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN):
            assert [two.json(*words) for words in commands] == told
        refusal.sqlite_errorcode = sqlite3.SQLITE_BUSY
        with pytest.raises(StoreFailed, match="locked"):
            two.run("list")
    assert files_of(two) == there


def test_what_cannot_be_looked_at_is_not_said_to_be_nothing(two):
    (Path(two.state) / "sessions.db").unlink()
    (Path(two.state) / "sessions.db").symlink_to("sessions.db")
    with pytest.raises(StoreFailed):
        two.run("list")
    shutil.rmtree(two.state)
    Path(two.state).write_text("no directory")
    with pytest.raises(StoreFailed):
        two.run("show", "sess_one")


def test_a_damaged_journal_hides_no_other_session(two, plain):
    """The page that holds the end of it, as a torn write leaves it."""
    two.add("sess_next", events=CONVERSATION, second=3)
    path = Path(two.state) / "sessions.db"
    data = bytearray(path.read_bytes())
    page = data.rindex(b"create_file") // 4096
    data[page * 4096 : page * 4096 + 8] = b"\xff" * 8
    path.write_bytes(data)
    following, _other, one = two.json("list")["sessions"]
    assert (following["records"], one["records"]) == (24, None)
    assert "  -  closed  /w  Fix the parser\n" in two.says("list")
    assert "damaged (`term2 sessions verify`" in plain(two.says("list", screen=Screen(200)))
    findings = json.loads(two.run("verify", "--json")[1])["findings"]
    assert {each["kind"] for each in findings} == {"database", "unreadable"}
    assert "sess_one" in [each["session"] for each in findings]
    assert "sess_next" not in [each["session"] for each in findings]


# -- list ------------------------------------------------------------------------------------------


def test_list(two, tmp_path):
    one, other = two.json("list")["sessions"][::-1]
    assert one == {
        "session_id": "sess_one",
        "title": "Fix the parser",
        "cwd": "/w",
        "created_at": "2026-11-30T10:00:01.000Z",
        "updated_at": "2026-11-30T10:00:01.000Z",
        "records": 28,
        "open": False,
        "pid": None,
    }
    assert (other["session_id"], other["title"], other["records"]) == ("sess_other", None, 0)
    assert two.says("list") == (
        "sess_other  2026-11-30T10:00:02.000Z  2026-11-30T10:00:02.000Z  0  closed  /v  -\n"
        "sess_one  2026-11-30T10:00:01.000Z  2026-11-30T10:00:01.000Z  28  closed  /w  Fix the parser\n"
    )
    assert [each["session_id"] for each in two.json("list", "--limit", "1")["sessions"]] == ["sess_other"]
    assert [each["session_id"] for each in two.json("list", "--cwd", "/w")["sessions"]] == ["sess_one"]
    link = tmp_path / "link"
    link.symlink_to("/v")
    assert [each["session_id"] for each in two.json("list", "--cwd", str(link))["sessions"]] == ["sess_other"]


def test_list_on_a_terminal_has_ids_that_are_as_short_as_they_may_be(kept, plain):
    for n, name in enumerate(("sess_0123456789a00", "sess_0123456789b00", "sess_f0123456789000")):
        kept.add(name, events=[TITLE], second=n)
    _code, text = while_open(kept, "sess_f0123456789000", "list", screen=TERMINAL_SCREEN)
    assert plain(text).splitlines()[0] == f"sess_f0123456789  Fix the parser  (open in process {os.getpid()})"
    heads = [line.split()[0] for line in plain(text).splitlines()[::2]]
    assert heads == ["sess_f0123456789", "sess_0123456789b", "sess_0123456789a"]


def test_a_beginning_of_an_id_will_do(two):
    assert two.json("show", "sess_on")["session"]["session_id"] == "sess_one"
    with pytest.raises(NotDone) as caught:
        two.run("show", "sess_o")
    assert str(caught.value) == "'sess_o' is the beginning of several sessions: sess_other, sess_one"
    two.add("sess_oneself")
    assert two.json("show", "sess_one")["session"]["session_id"] == "sess_one"  # all of one, and a beginning
    two.add(*(f"sess_many{n}" for n in range(12)))
    with pytest.raises(NotDone, match=r" and 2 more$"):
        two.run("audit", "sess_many")
    for hostile in ("../sess_one", "%", "sess_one/", "\u0455ess_one", "\udcff", "x" * 10_000):
        with pytest.raises(NotDone, match=r"^there is no session '.{1,83}'$"):
            two.run("show", hostile)


# -- show ------------------------------------------------------------------------------------------


def test_show(two):
    text = two.says("show", "sess_one")
    moments = {line for line in text.splitlines() if line.startswith("You, ")}
    assert len(moments) == 1
    for moment in moments:
        text = text.replace(moment, "You, TIME")
    lines = "\n    ".join(f"line {n}" for n in range(50, 150))
    assert text.replace(lines, "LINES") == SHOWN


def test_show_on_a_terminal_draws_what_the_model_wrote(two, plain):
    text = two.says("show", "sess_one", screen=TERMINAL_SCREEN)
    assert "I \x1b[1mrun\x1b[0m it:" in text
    assert "\x1b[32m+new\x1b[0m" in text
    assert max(map(len, plain(text).splitlines())) <= 72
    assert "\x1b" not in two.says("show", "sess_one", screen=Screen(72))


def test_show_json_has_what_a_replay_shows(two):
    shown = two.json("show", "sess_one")["shown"]
    assert [entry["kind"] for entry in shown] == [
        "user_message", "session_info_update", "agent_thought", "agent_message", "tool_call_update",
        "terminal_update", "tool_call_update", "plan_update", "compaction_update", "idle", "user_message",
        "tool_call_update", "agent_message", "usage_update",
    ]  # fmt: skip
    assert shown[5]["output"].startswith("\x1b[31mred\x1b[0m\nline 0\n")
    assert shown[5]["body"]["exit_status"] == {"exit_code": 2}
    last = shown[11]["body"]
    assert (last["status"], last["raw_output"]["effect"]) == ("failed", "outcome_unknown")
    assert shown[0]["at"] is not None


def test_a_session_that_is_open_is_not_shown_as_interrupted(two):
    code, text = while_open(two, "sess_one", "show", "sess_one")
    assert code == 0
    assert "Create b.py (edit, create_file): pending\n" in text
    assert text.endswith(f"\nThe session is open in process {os.getpid()}.\n")
    assert "stopped" not in text
    _code, text = while_open(two, "sess_one", "audit", "sess_one", "--json")
    audit = json.loads(text)
    assert (audit["session"]["open"], audit["session"]["pid"]) == (True, os.getpid())
    assert audit["audit"][-1]["effect"] is None


def test_what_else_there_is(kept):
    events = {
        ev.Idle(StopReason.CANCELLED): "The turn was cancelled.",
        ev.Idle(StopReason.ERROR, Failure("x", "no")): "The turn failed.",
        ev.Idle(
            StopReason.END_TURN, None, TurnUsage(1, 0, Usage(), 0)
        ): "1 call of the model, tokens not counted.",
        ev.Idle(
            StopReason.END_TURN, None, TurnUsage(3, 2, Usage(1200, 8), 0)
        ): "3 calls of the model, 2 of them counted, 1,200 tokens read, 8 written, 0 USD.",
        ev.CompactionUpdate(CompactionId("c"), ev.CompactionStatus.FAILED, error="No."): "summarised. No.",
        ev.PlanUpdate(PlanId("p"), (PlanEntry("x", PlanPriority.LOW, PlanStatus.IN_PROGRESS),)): "[>] x",
        ev.AgentMessage(MessageId("e"), "It is down.", spoken_by_model=False): "It is down.",
    }
    kept.add("s", events=[CONVERSATION[0], *events])
    for text in (kept.says("show", "s"), kept.says("export", "s", "--format", "markdown")):
        assert [said for said in events.values() if said not in text.replace("\\", "")] == []


# -- export ----------------------------------------------------------------------------------------


def test_export_as_json_has_every_record_as_it_is_kept(two):
    exported = two.json("export", "sess_one")
    assert list(exported) == ["format", "session", "events", "audit"]
    assert (exported["format"], exported["session"]) == (1, two.json("list")["sessions"][1])
    codec = RowCodec()
    for entry, event in zip(exported["events"], (*CONVERSATION, *CUT_OFF), strict=True):
        body = json.dumps(entry["body"]).encode()
        assert codec.from_row(1, entry["kind"], body) == event
        assert entry["at"].endswith("Z")
    assert exported["audit"] == two.json("audit", "sess_one")["audit"]


def test_export_says_where_records_could_not_be_read(two):
    connection = schema.open_database(f"{two.state}/sessions.db")
    connection.execute("UPDATE journal SET body = x'00' WHERE place & 4294967295 IN (3, 4)")
    connection.close()
    lost = two.json("export", "sess_one")["events"][2]
    assert (lost["kind"], lost["at"]) == ("records_lost", None)
    assert lost["body"] == {"seq": 3, "damaged": 2, "newer": 0, "hidden_end": False}
    assert "2 records of this conversation could not be read here" in two.says("show", "sess_one")
    code, text = two.run("verify")
    assert code == 1
    assert text.startswith("Damaged: 2 sessions, 28 records.\n\nunreadable: 2\n")
    assert "    sess_one, record 3: agent_thought_chunk: " in text
    found = json.loads(two.run("verify", "--json")[1])
    assert (found["sound"], found["counts"]) == (False, {"unreadable": 2, "unsettled": 1})
    assert [each["damage"] for each in found["findings"]] == [True, True, False]


def test_export_as_markdown_has_all_of_it(two):
    text = two.says("export", "sess_one", "--format", "markdown")
    assert text.startswith("# Fix the parser\n\n- session: `sess_one`\n- workspace: `/w`\n")
    assert "```text\n$ make\nred\nline 0\n" in text
    assert "line 149\n```\n\nExit code 2.\n" in text
    assert f"- Changed: /w/a.py\n\n```diff\n{PATCH}```\n" in text
    assert "\n### Answer\n\n```markdown\nI **run** it:\n```\n" in text


def test_export_to_a_file(two, tmp_path):
    path = tmp_path / "out.json"
    old = os.umask(0)
    try:
        assert two.says("export", "sess_one", "--output", str(path)) == ""
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text()) == two.json("export", "sess_one")
    path.write_text("mine")
    path.chmod(0o644)
    with pytest.raises(NotDone, match=r"out\.json is there already; --force replaces it$"):
        two.run("export", "sess_one", "--output", str(path))
    assert path.read_text() == "mine"
    two.says("export", "sess_one", "--output", str(path), "--force")
    assert (stat.S_IMODE(path.stat().st_mode), path.read_text()[:2]) == (0o600, "{\n")
    link = tmp_path / "link"
    link.symlink_to(path)
    for strange in (link, tmp_path, Path("/dev/null")):
        with pytest.raises(NotDone, match="no regular file"):
            two.run("export", "sess_one", "--output", str(strange), "--force")
    with pytest.raises(NotDone, match="cannot be written: No such file or directory"):
        two.run("export", "sess_one", "--output", str(tmp_path / "no" / "where"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link", "out.json", "output", "state"]


def test_export_to_a_file_system_without_links(two, tmp_path, monkeypatch):
    def refuse(_old, _new):
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    path = tmp_path / "out.json"
    monkeypatch.setattr("os.link", refuse)
    two.says("export", "sess_one", "--output", str(path))
    assert json.loads(path.read_text())["format"] == 1


def test_a_file_that_could_not_be_written_whole_is_not_there(two, tmp_path, monkeypatch):
    def full(_self, _text):
        raise CannotWrite("No space left on device", gone=False)

    monkeypatch.setattr(Output, "write", full)
    with pytest.raises(CannotWrite):
        two.run("export", "sess_one", "--output", str(tmp_path / "out"))
    assert sorted(each.name for each in tmp_path.iterdir()) == ["output", "state"]


# -- audit -----------------------------------------------------------------------------------------


def test_audit(two):
    decision, command, edit, cut_off = two.json("audit", "sess_one")["audit"]
    assert decision["record"] == "decision"
    assert decision["targets"] == ["make KEY=[redacted]"]
    assert (decision["by"], decision["choice"], decision["waited_ms"]) == ("person", "allow-once", 1500)
    assert (decision["policy"]["mode"], decision["policy"]["grants"]) == ("ask", ["edit /w"])
    assert (command["record"], command["exit_code"], command["took_ms"]) == ("call", 2, 1234)
    assert (command["client"], command["protocol"], command["roots"]) == ("Zed 1.0", 2, ["/w"])
    assert command["settled_at"].endswith("Z")
    assert (edit["tool"], edit["targets"], edit["effect"]) == ("apply_patch", ["/w/a.py"], "committed")
    assert (cut_off["turn"], cut_off["effect"]) == ("m2", "outcome_unknown")
    text = two.says("audit", "sess_one")
    assert "\n    decision: allowed by person (allow-once), after 1,500 ms\n" in text
    assert "\n  create_file: outcome_unknown (failed)\n" in text
    assert LOOKS_LIKE_A_KEY not in text + json.dumps(two.json("audit", "sess_one"))
    title = ev.SessionInfoUpdate(f"Use {LOOKS_LIKE_A_KEY}", "2026-11-30T10:00:00.000Z")
    two.add("sess_titled", events=[title])
    assert two.json("audit", "sess_titled")["session"]["title"] == "Use [redacted]"
    assert two.says("audit", "sess_titled").startswith("Use [redacted]\n")
    assert two.says("audit", "sess_other").endswith("\n\nNo tool was called in this session.\n")


ASKED = """
[[rules]]
[[rules.replies]]
steps = [{ text = "I probe." }, { call = "probe", arguments = { name = "a", asks = true } }]
[[rules.replies]]
steps = [{ text = "Done." }]
"""


async def test_what_a_daemon_keeps_is_what_is_told(kept, tmp_path):
    async with indoors(tmp_path, ASKED) as there:
        session_id, turn = await there.begin("go")
        ask = await there.editor.next_ask()
        await there.editor.reply(ask, {"outcome": {"outcome": "selected", "optionId": "approve"}})
        assert await turn.ended() == "end_turn"
    decision, call = (await trio.to_thread.run_sync(kept.json, "audit", session_id))["audit"]
    assert (decision["tool_call"], decision["by"], decision["choice"]) == (
        call["tool_call"],
        "person",
        "approve",
    )
    assert (call["protocol"], call["provider"], call["model"]) == (2, "play", "scripted")
    assert call["roots"] == [str(there.workspace)]
    assert call["client"]
    times = [call[name] for name in ("prepared_at", "decided_at", "dispatched_at", "settled_at")]
    assert times == sorted(times)
    assert (call["effect"], call["status"], call["turn_ended"]) == ("committed", "completed", "end_turn")
    text = await trio.to_thread.run_sync(kept.says, "show", session_id)
    assert [
        line
        for line in ("  go", "  I probe.", "Probe a (execute, probe): completed", "  Done.")
        if line not in text.split("\n")
    ] == []
    assert (await trio.to_thread.run_sync(kept.json, "verify"))["counts"] == {}


# -- delete ----------------------------------------------------------------------------------------


def test_delete_removes_the_session_and_its_outputs(two):
    artifacts_of(two.state, SessionId("sess_one")).open("call.txt").close()
    assert two.says("delete", "sess_on", "sess_one", "--yes") == "Deleted sess_one  Fix the parser\n"
    assert [each["session_id"] for each in two.json("list")["sessions"]] == ["sess_other"]
    assert not (Path(two.state) / "artifacts" / "sess_one").exists()
    assert b"Fix the parser" not in b"".join(
        path.read_bytes() for path in Path(two.state).iterdir() if path.is_file()
    )
    code, text = two.run("delete", "sess_other", "--yes", "--json")
    outcome = {"session_id": "sess_other", "deleted": True, "problem": None, "pid": None}
    assert (code, json.loads(text)) == (0, {"sessions": [outcome]})


def test_delete_asks_first_on_a_terminal(two):
    _code, text = two.run("delete", "sess_one", "sess_other", screen=Screen(72), answer=b"n\n")
    assert text.endswith("Delete these 2 sessions for good? [y/N] Nothing was deleted.\n")
    assert "  sess_one  Fix the parser\n  /w\n" in text
    for answer in (b"", b"yess\n"):
        assert two.run("delete", "sess_one", screen=Screen(72), answer=answer)[0] == 1
    assert len(two.json("list")["sessions"]) == 2
    assert two.run("delete", "sess_one", screen=Screen(72), answer=b"Y\n")[0] == 0
    assert len(two.json("list")["sessions"]) == 1


def test_delete_needs_a_yes_where_nobody_can_be_asked(two):
    for words, more in ((["sess_one"], {"answer": b"y\n"}), (["sess_one", "--json"], {"screen": Screen(72)})):
        with pytest.raises(NotDone, match=r"^nobody can be asked here; --yes deletes without asking$"):
            two.run("delete", *words, **more)
    with pytest.raises(NotDone, match="there is no session 'nobody'"):
        two.run("delete", "sess_one", "nobody", "--yes")
    assert len(two.json("list")["sessions"]) == 2


def test_delete_leaves_alone_what_is_open(two, capfd):
    code, text = while_open(two, "sess_one", "delete", "sess_one", "sess_other", "--yes")
    assert (code, text) == (1, "Deleted sess_other  (no title yet)\n")
    said = f"sess_one is open in process {os.getpid()} and was not deleted; close it there first"
    assert capfd.readouterr().err == f"term2 sessions delete: {said}\n"
    assert [each["session_id"] for each in two.json("list")["sessions"]] == ["sess_one"]


# -- the program -----------------------------------------------------------------------------------


def test_the_program(kept, tmp_path):
    kept.add("sess_one", events=[*CONVERSATION, *CUT_OFF])
    home = Home.make(tmp_path / "home")

    def term2(*words, stdout=subprocess.PIPE):
        done = subprocess.run(
            [sys.executable, "-m", "term2_acp", "sessions", *words],
            env=home.environment(TERM2_STATE_DIR=kept.state),
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
        out = "" if done.stdout is None else done.stdout.decode()
        return done.returncode, out, done.stderr.decode()

    code, text, said = term2("list", "--json")
    assert (code, json.loads(text), said) == (0, kept.json("list"), "")
    with Path("/dev/full").open("wb") as full:
        refused = (1, "", "term2 sessions: cannot write: No space left on device\n")
        assert term2("export", "sess_one", stdout=full) == refused
    gone, stdout = os.pipe()
    os.close(gone)
    assert term2("audit", "sess_one", stdout=stdout) == (0, "", "")
    os.close(stdout)
    assert term2("delete", "sess_one", "--yes") == (0, "Deleted sess_one  Fix the parser\n", "")
    connection = schema.open_database(f"{kept.state}/sessions.db")
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    newer = "term2 sessions: The session store was written by a newer term2; update this one to use it.\n"
    assert term2("verify") == (2, "", newer)


def test_every_command_is_in_its_help(capfd):
    from term2_acp.cli import commands

    assert commands.run(["help", "sessions"]) == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[0] == SESSIONS_USAGE
    assert [line.split()[0] for line in lines if line[:2] == "  " and line[2] != " "] == list(COMMANDS)
    assert max(map(len, lines)) <= 90


# -- the page --------------------------------------------------------------------------------------

PAGE = Path(__file__).resolve().parents[2] / "docs" / "SESSIONS.md"


def table(heading):
    """The rows of the table of the page that is headed so, each as its cells."""
    lines = PAGE.read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[first + 2 :])
    return [[cell.strip() for cell in row.split(" | ")] for row in (row.strip("|") for row in rows)]


def test_the_page_has_every_command_with_its_flags():
    for (name, _what, flags), command in zip(table("command"), COMMANDS, strict=True):
        assert name == f"`{command}`"
        grammar = _COMMANDS[command]
        assert set(re.findall(r"--[a-z]+", flags)) == {*grammar.flags, *grammar.values}


def test_the_page_has_every_member_of_the_audit(two):
    decision, call, *_more = two.json("audit", "sess_one")["audit"]
    documented = {"decision": [], "call": []}
    for names, where, _meaning in table("member"):
        for record in ("decision", "call") if where == "both" else (where,):
            documented[record] += re.findall(r"`(\w+)`", names)
    assert sorted(documented["decision"]) == sorted(decision)
    assert sorted(documented["call"]) == sorted(call)


def test_the_page_has_everything_that_may_be_found():
    assert {(found.strip("`"), damage) for found, damage, _meaning in table("found")} == {
        (kind.value, "yes" if kind in DAMAGE else "no") for kind in Kind
    }
    assert set(_ADVICE) == set(Kind)
