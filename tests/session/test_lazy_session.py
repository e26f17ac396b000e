"""What an editor waits for when it opens a session: nothing that only a turn needs is imported for it."""

import subprocess
import sys

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
    assert "term2_acp.store.rows" not in loaded
