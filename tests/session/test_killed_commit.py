"""A change of several files whose process is killed before any of its steps, and the session is opened again.

Whatever the step: the files tell what became of the call, nothing that a file held is lost, where it was put
aside is said, and nothing else is left behind. Real files, a real kill, a journal as that process left it.
"""

import os
import signal

import pytest
import trio

from term2_acp.domain.toolcall import FileDigests
from term2_acp.session.outcome import MADE, NOT_MADE
from term2_acp.workspace import Edit, FileContent, Workspace
from term2_acp.workspace.replace import Ticket, name_aside
from term2_acp.workspace.several import stage_all
from tests.kit.indoors import indoors
from tests.session.test_reading import HELLO, SESSION, cut_off, digest, killed, resumed

BEFORE = {"a": "old a", "b": "old b", "sub/c": "old c", "sub/twin": "old c"}
AFTER = {"a": "new a", "b": "new b", "sub/twin": "old c", "new/deep/d": "new d"}
CHANGED = ("a", "b", "sub/c", "new/deep/d")

_STEPS = ("link", "rename", "unlink", "mkdir")


def patch(root):
    """Make the change, as a session's turn does."""
    files = Workspace(str(root), home=None, owner=SESSION)

    def content(texts, name):
        return FileContent.of(texts[name].encode()) if name in texts else None

    edits = [Edit(files.resolve(name), content(AFTER, name), content(BEFORE, name)) for name in CHANGED]
    stage_all(edits, Ticket(), lambda edit: None, SESSION).commit_nowait()


def is_killed_before(step, work):
    """Do the work in a process that is killed before its so many'th step; whether it had as many."""
    child = os.fork()
    if child == 0:
        made = 0

        def counted(function):
            def made_or_killed(*args, **named):
                nonlocal made
                made += 1
                if made == step:
                    os.kill(os.getpid(), signal.SIGKILL)
                return function(*args, **named)

            return made_or_killed

        for name in _STEPS:
            setattr(os, name, counted(getattr(os, name)))
        try:
            work()
        finally:
            os._exit(0)
    _pid, status = os.waitpid(child, 0)
    return os.WIFSIGNALED(status)


def tree(root):
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("*") if path.is_file()}


async def opened(root):
    """The call as it is shown when the session is opened, and once more when it is live."""
    async with indoors(root, HELLO) as daemon:
        await daemon.editor.initialize()
        (call,) = [thing for thing in await resumed(daemon) if thing["is"] == "tool_call"]
        assert [thing for thing in await resumed(daemon) if thing["is"] == "tool_call"] == [call]
        return call


def life(root, step):
    """What the call is said to have come to, what the workspace holds, and whether the kill came."""
    root.mkdir()
    workspace = root / "workspace"
    changes = [
        FileDigests(str(workspace / name), digest(BEFORE.get(name)), digest(AFTER.get(name)))
        for name in CHANGED
    ]
    trio.run(killed, root, cut_off(*changes))
    for name, text in BEFORE.items():
        (workspace / name).parent.mkdir(exist_ok=True)
        (workspace / name).write_text(text)
    was_killed = is_killed_before(step, lambda: patch(workspace))
    call = trio.run(opened, root)
    return call, tree(workspace), was_killed


@pytest.mark.parametrize("links", [True, False])
def test_before_whichever_step_it_is_killed(tmp_path, links, monkeypatch):
    if not links:  # as on FAT, and for a file of somebody else

        def no_links(*_args, **_named):
            raise PermissionError(1, "not permitted")

        monkeypatch.setattr(os, "link", no_links)
    ends, step, was_killed = [], 0, True
    while was_killed:
        step += 1
        call, now, was_killed = life(tmp_path / str(step), step)
        hidden = {name: text for name, text in now.items() if ".term2-" in name}
        shown = {name: text for name, text in now.items() if name not in hidden}
        words = call["rawOutput"].get("error") or call["rawOutput"]["note"]
        ends.append(call["rawOutput"]["effect"])
        for name, text in BEFORE.items():
            assert shown.get(name) in (text, AFTER.get(name))
        if words in (MADE, NOT_MADE):
            assert shown == (AFTER if words == MADE else BEFORE)
            assert hidden == {}
            continue
        assert ends[-1] == "outcome_unknown"
        # What stands nowhere else is kept, and it is said where; there is nothing else.
        gone = {text for name, text in BEFORE.items() if shown.get(name) != text and name in CHANGED}
        assert set(hidden.values()) == gone
        assert len(hidden) == len(gone)
        for name in hidden:
            assert f"What it held before is in {tmp_path / str(step) / 'workspace' / name}." in words
    assert ends[0] == "failed"
    assert "outcome_unknown" in ends
    assert ends[-1] == "committed"
    assert ends == sorted(ends, key=["failed", "outcome_unknown", "committed"].index)
    assert len(ends) > 10


def test_of_two_files_that_held_the_same_the_changed_one_has_what_was_put_aside(tmp_path):
    workspace = tmp_path / "workspace"
    changes = [FileDigests(str(workspace / name), digest("same"), digest("new")) for name in ("a", "b")]
    trio.run(killed, tmp_path, cut_off(*changes))
    (workspace / "a").write_text("same")
    (workspace / "b").write_text("new")
    aside = workspace / name_aside(SESSION)
    aside.write_text("same")
    call = trio.run(opened, tmp_path)
    assert (
        f"b is as the call was to leave it. What it held before is in {aside}." in call["rawOutput"]["error"]
    )
    assert aside.read_text() == "same"
