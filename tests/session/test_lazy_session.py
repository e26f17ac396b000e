"""What an editor waits for when it opens a session: nothing that only a turn needs is imported for it."""

import json
import subprocess
import sys

import pytest

from tests.kit.home import Home

PROGRAM = """
import sys
import term2_acp.session.registry, term2_acp.session.parts, term2_acp.store, term2_acp.agent.mind
import term2_acp.acp.v2.client, term2_acp.acp.v2.handlers
import term2_acp.providers.choosing.opening
print(*sys.modules)
"""
OF_A_TURN = {
    "term2_acp.acp.answers",
    "term2_acp.acp.v2.project",
    "term2_acp.agent.transcript",
    "term2_acp.agent.calls",
    "term2_acp.domain.permission",
    "term2_acp.permission.broker",
    "term2_acp.providers.base",
    "term2_acp.providers.request",
    "term2_acp.sandbox",
    "term2_acp.session.hands",
    "term2_acp.session.workbench",
    "term2_acp.tools",
    "term2_acp.workspace",
}


def loaded_by(program: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_a_session_that_is_only_opened_imports_nothing_of_a_turn() -> None:
    assert loaded_by(PROGRAM) & OF_A_TURN == set()


def test_a_turn_imports_all_of_it() -> None:
    """The names above are names: one that was changed would be absent for ever."""
    turn = (
        "import sys, term2_acp.session.workbench, term2_acp.app as app; app.build_toolbox({}, (), '/'); "
        "import term2_acp.acp.answers, term2_acp.acp.v2.project"
    )
    assert loaded_by(f"{turn}; print(*sys.modules)") >= OF_A_TURN


def test_a_session_that_is_only_made_needs_no_way_to_write_rows(tmp_path) -> None:
    program = f"""
import sys
from term2_acp.store.database import Database
from term2_acp.store import SessionRecord, now
database = Database.open({str(tmp_path / "sessions.db")!r})
database.commit(lambda: database.create(SessionRecord("s", "/w", None, now(), now())))
print(*sys.modules)
print("made" if database.find("s") else "lost")
"""
    loaded = loaded_by(program)
    assert "made" in loaded
    assert loaded & {"term2_acp.store.rows", "term2_acp.store.journal"} == set()


# -- the real process, at each moment ---------------------------------------------------------------

OF_A_SESSION = {
    "sqlite3",
    "term2_acp.domain.events",
    "term2_acp.providers.choosing.opening",
    "term2_acp.session.registry",
    "term2_acp.store.database",
}
OF_A_PROMPT = OF_A_TURN | {
    "term2_acp.providers.base",
    "term2_acp.providers.scripted.model",
    "term2_acp.session.workbench",
    "term2_acp.store.journal",
    "term2_acp.store.rows",
}
RARE = {"asyncio", "httpx2", "importlib.metadata", "pydantic", "argparse"}


def imported_until(answered: str, home: Home) -> set[str]:
    """The modules that the daemon imports up to the answer to the last of the three requests it is sent."""
    requests = {
        "initialize": {"protocolVersion": 2, "info": {"name": "t", "version": "1"}, "capabilities": {}},
        "session/new": {"cwd": str(home.workspace), "mcpServers": []},
        "session/prompt": {"prompt": [{"type": "text", "text": "bench stream 1 1"}]},
    }
    report = home.root / "imported"
    with (
        report.open("wb") as stderr,
        subprocess.Popen(
            [sys.executable, "-X", "importtime", "-m", "term2_acp", "acp"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=home.environment(),
        ) as daemon,
    ):
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        session: dict[str, str] = {}
        for method, params in requests.items():
            request = {"jsonrpc": "2.0", "id": method, "method": method, "params": {**params, **session}}
            daemon.stdin.write(json.dumps(request).encode() + b"\n")
            daemon.stdin.flush()
            done = '"idle"' if method == "session/prompt" else f'"id":"{method}"'
            line = next(line for line in daemon.stdout if done.encode() in line)
            if method == answered:
                break
            if method == "session/new":
                session = json.loads(line)["result"]
        daemon.kill()
    lines = (line.rpartition("|") for line in report.read_text().splitlines())
    return {name.strip() for before, _bar, name in lines if before.startswith("import time:")}


@pytest.mark.parametrize(
    ("answered", "there", "not_there"),
    [
        ("initialize", {"trio", "tomllib"}, OF_A_SESSION | OF_A_PROMPT | RARE),
        ("session/new", OF_A_SESSION, OF_A_PROMPT | RARE),
        ("session/prompt", OF_A_PROMPT - {"term2_acp.acp.answers"}, RARE),
    ],
)
def test_each_answer_waits_for_its_own_imports_alone(tmp_path, answered, there, not_there) -> None:
    """Of the whole daemon, in the order in which an editor asks; and each name is one that comes in time."""
    imported = imported_until(answered, Home.make(tmp_path))
    assert there - imported == set()
    assert imported & not_there == set()
