"""The tools in the mode ``plan``: an edit that was admitted before and comes to its commit after is refused
in that very step, by every tool and on either way to a file, and leaves nothing behind; commands see the
workspace read-only, the result says so, and nothing is made in it by us. That no edit is admitted in the
first place is the policy's (``tests/permission``); that the sandbox holds is tried in ``tests/sandbox``."""

import os
from pathlib import Path

import attrs
import pytest
import trio

from term2_acp.domain.content import Text
from term2_acp.domain.options import Mode
from term2_acp.permission.policy import PLAN_KEEPS_FILES
from term2_acp.sandbox import Sandbox, Unavailable
from term2_acp.tools.base import ToolError
from term2_acp.tools.course import READ_ONLY
from tests.kit.tools import Bench
from tests.tools.test_shell import Bench as Commands
from tests.tools.test_shell import output_of


class Switch:
    """A session's mode."""

    def __init__(self, mode=Mode.STANDARD):
        self.mode = mode

    def __call__(self):
        return self.mode


def tree(folder):
    """Every name below a folder but those of a file's content, with its mode, links and content."""
    found = {}
    for path in sorted(folder.rglob("*")):
        facts = path.lstat()
        content = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(folder))] = (facts.st_mode, facts.st_nlink, facts.st_ino, content)
    return found


# -- edits -------------------------------------------------------------------------------------------

EDITS = {
    "a new file": ("create_file", {"path": "new/deep/file", "content": "x\n"}),
    "a file overwritten": ("create_file", {"path": "a", "content": "x\n", "overwrite": True}),
    "a replacement": ("search_replace", {"path": "a", "replacements": [("one", "two")]}),
    "a patch": (
        "apply_patch",
        {
            "patch": "*** Begin Patch\n*** Add File: c\n+new\n*** Update File: a\n@@\n-one\n+two\n"
            "*** Delete File: b\n*** Update File: d\n*** Move to: e/f\n@@\n-one\n+two\n*** End Patch\n"
        },
    ),
    "a file removed": ("apply_patch", {"patch": "*** Begin Patch\n*** Delete File: b\n*** End Patch\n"}),
}


class Editor:
    """An editor that has the files of the disk, and counts what it is told to write."""

    reads = writes = True

    def __init__(self):
        self.written = []

    async def read(self, path):
        await trio.lowlevel.checkpoint()
        return Path(path).read_text()

    async def write(self, path, text):
        self.written.append(path)
        await trio.lowlevel.checkpoint()
        Path(path).write_text(text)


async def bench_of(root, **options):
    bench = Bench(root.resolve(), **options)
    switch = Switch()
    bench.context = attrs.evolve(bench.context, mode=switch)
    for name in "abd":
        (bench.ws / name).write_text("one\n")
        await bench.call("read_file", path=name)
    return bench, switch


@pytest.mark.parametrize("edit", EDITS)
async def test_an_edit_that_comes_to_its_commit_in_plan_is_refused_and_leaves_nothing(tmp_path, edit):
    bench, switch = await bench_of(tmp_path)
    name, arguments = EDITS[edit]
    prepared = await bench.prepare(name, **arguments)
    before = tree(bench.ws)
    really = bench.context.files.stage_all
    staged = []

    async def stage_all(edits):
        made = await really(edits)
        staged.append(tree(bench.ws) != before)
        switch.mode = Mode.PLAN
        return made

    bench.context.files.stage_all = stage_all
    with pytest.raises(ToolError) as error:
        await bench.run(name, prepared)
    assert str(error.value) == PLAN_KEEPS_FILES
    assert staged == [edit != "a file removed"]  # what is written beside its place, and is gone now
    assert tree(bench.ws) == before
    # In the other modes the same call is made, since it is at work already.
    switch.mode = Mode.ASK
    bench.context.files.stage_all = really
    await bench.run(name, prepared)
    assert tree(bench.ws) != before


async def test_no_editor_is_told_to_write_in_plan(tmp_path):
    editor = Editor()
    bench, switch = await bench_of(tmp_path, editor=editor)
    prepared = await bench.prepare("search_replace", path="a", replacements=[("one", "two")])
    really = bench.context.files.stage_all

    async def stage_all(edits):
        made = await really(edits)
        switch.mode = Mode.PLAN
        return made

    bench.context.files.stage_all = stage_all
    with pytest.raises(ToolError, match="Plan mode is on"):
        await bench.run("search_replace", prepared)
    assert editor.written == []
    bench.context.files.stage_all = really
    switch.mode = Mode.STANDARD
    await bench.run("search_replace", prepared)
    assert editor.written == [str(bench.ws / "a")]


def test_the_sentence_says_what_to_do():
    assert PLAN_KEEPS_FILES.startswith("Plan mode is on, so no file was changed. Show the plan; the person ")


# -- commands ----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    root = tmp_path_factory.mktemp("sandbox")
    return Sandbox({"PATH": os.environ["PATH"], "HOME": str(root)}, (), str(root / "state"))


@pytest.fixture
async def commands(tmp_path, sandbox):
    layers = await sandbox.layers()
    if isinstance(layers, Unavailable):
        pytest.skip(f"no sandbox here: {layers.reason}")
    bench = Commands(tmp_path.resolve(), sandbox)
    bench.switch = Switch(Mode.PLAN)
    bench.change(mode=bench.switch)
    return bench


async def test_a_command_sees_the_workspace_read_only_and_the_result_says_so(commands):
    (commands.ws / "file").write_text("as it was\n")
    before = tree(commands.ws)
    outcome = await commands.run(
        'cat file; echo no > file; echo yes > "$TMPDIR/t" && cat "$TMPDIR/t"; exit 3'
    )
    first, second, *_ = outcome.result.split("\n")
    assert (first, second) == ("Exit code 3.", READ_ONLY)
    lines = output_of(outcome).splitlines()
    assert (lines[0], lines[-1]) == ("as it was", "yes")
    assert "file: " in lines[1]
    assert tree(commands.ws) == before
    assert isinstance(outcome.content[1], Text)
    assert outcome.content[1].text.startswith(READ_ONLY)
    assert outcome.result.count("Plan mode") == 1


async def test_nothing_is_made_in_a_repository_and_nothing_of_others_is_told(commands):
    """Neither the folder of hooks, nor a warning of what somebody else made: the command did not."""
    git = commands.ws / ".git"
    for name in ("objects", "refs"):
        (git / name).mkdir(parents=True)
    (git / "HEAD").write_text("ref: refs/heads/main\n")
    (git / "config").write_text("[core]\n")
    before = tree(commands.ws)
    publish = commands._publish

    async def meanwhile(event):
        await publish(event)
        (commands.ws / "AGENTS.md").write_text("theirs\n")

    commands.change(publish=meanwhile)
    outcome = await commands.run("touch AGENTS.md .git/HEAD .git/hooks; echo end")
    assert "Warning" not in outcome.result
    assert output_of(outcome).endswith("end\n")
    (commands.ws / "AGENTS.md").unlink()
    assert tree(commands.ws) == before
    commands.switch.mode = Mode.STANDARD
    outcome = await commands.run("echo end")
    assert "Warning: while it ran, protected names were made or replaced: " in outcome.result
    assert (git / "hooks").is_dir()


class Switched:
    """A sandbox that, just before it lets a command run, finds the mode switched."""

    def __init__(self, sandbox, switch, mode):
        self._sandbox, self._switch, self._mode = sandbox, switch, mode
        self.layers = sandbox.layers

    def launch(self, *arguments, last_word, **options):
        def switched():
            self._switch.mode = self._mode
            last_word()

        return self._sandbox.launch(*arguments, last_word=switched, **options)


async def test_a_command_that_is_being_started_when_plan_is_switched_on_does_not_run(commands):
    commands.switch.mode = Mode.STANDARD
    commands.change(sandbox=Switched(commands.context.sandbox, commands.switch, Mode.PLAN))
    with pytest.raises(ToolError) as error:
        await commands.run("touch ran")
    assert str(error.value) == "Nothing was run: plan mode was switched on just then. Call it again."
    assert os.listdir(commands.ws) == []
    assert commands.events == []
    assert commands.stopped is None


@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.ASK])
async def test_a_command_that_is_being_started_when_plan_is_switched_off_runs_as_it_was_started(
    commands, mode
):
    commands.change(sandbox=Switched(commands.context.sandbox, commands.switch, mode))
    outcome = await commands.run("touch ran; echo end")
    assert outcome.result.startswith(f"Exit code 0.\n{READ_ONLY}\n")
    assert os.listdir(commands.ws) == []


@pytest.mark.parametrize("mode", [Mode.STANDARD, Mode.ASK])
async def test_in_the_other_modes_a_command_writes_and_nothing_is_said(commands, mode):
    commands.switch.mode = mode
    assert (await commands.run("touch ran; echo end")).result == "Exit code 0.\nOutput:\nend\n"
    assert os.listdir(commands.ws) == ["ran"]


async def test_a_sandbox_that_cannot_keep_the_workspace_runs_nothing_and_says_why(commands, monkeypatch):
    async def no(run, folder):
        await trio.lowlevel.checkpoint()
        return False

    monkeypatch.setattr("term2_acp.sandbox.probe.keeps_workspace", no)
    commands.change(sandbox=Sandbox({"PATH": os.environ["PATH"]}, (), str(commands.root / "state")))
    with pytest.raises(ToolError, match=r"Nothing was run: .* was seen not to keep a workspace read-only"):
        await commands.run("touch ran")
    commands.switch.mode = Mode.STANDARD
    await commands.run("touch ran")
    assert os.listdir(commands.ws) == ["ran"]
