"""The file tools with an editor that offers its files: what goes through it, what it is asked and when, and
that the rules of the workspace hold all the same.

Real tools, a real workspace and the door's own way to the editor; the editor is a fake with buffers over the
real folder, and decides itself whether it saves.
"""

import itertools
import os

import attrs
import pytest
import trio

from term2_acp.acp.v1 import files
from term2_acp.domain.content import MAX_DIFF_TEXT, Diff, FileTexts
from term2_acp.domain.options import Mode
from term2_acp.tools import patch_plan
from term2_acp.tools.base import OutcomeUnknown, ToolError
from term2_acp.transport.peer import Gone
from term2_acp.workspace import buffers
from tests.kit.editor_files import READ, WRITE, EditorWithFiles, refusal, result
from tests.kit.tools import Bench
from tests.kit.until import until


@pytest.fixture
def editor():
    return EditorWithFiles()


@pytest.fixture
def at(tmp_path, editor):
    """Makes the bench, with what the editor offers."""
    root = tmp_path.resolve()
    (root / "ws").mkdir()

    def bench(**offers):
        return Bench(root, editor=editor.files(root / "ws", **offers))

    return bench


def path_of(bench, name):
    return str(bench.ws / name)


async def replace(bench, name, old, new):
    return await bench.call("search_replace", path=name, replacements=[(old, new)])


# -- what is offered -------------------------------------------------------------------------------


@pytest.mark.parametrize(("reads", "writes", "knows"), [*itertools.product([True, False], repeat=3)])
async def test_only_what_is_offered_is_asked_for(at, editor, reads, writes, knows):
    bench = at(reads=reads, writes=writes)
    (bench.ws / "a").write_text("one\n")
    if not knows:
        editor.answers = {READ: refusal(), WRITE: refusal()}
    if reads and not knows:
        with pytest.raises(ToolError, match="does not offer that after all"):
            await bench.call("read_file", path="a")
        assert editor.methods() == [READ]
        return
    assert (await bench.call("read_file", path="a")).result.startswith("one\n[")
    asked = [READ] if reads else []
    assert editor.methods() == asked
    if writes and not knows:
        with pytest.raises(ToolError, match="does not offer that after all"):
            await replace(bench, "a", "one", "two")
        assert (bench.ws / "a").read_text() == "one\n"
        assert editor.methods() == [*asked, WRITE]
        return
    outcome = await replace(bench, "a", "one", "two")
    assert outcome.result == f"Replaced 1 passage in {path_of(bench, 'a')}."
    assert (bench.ws / "a").read_text() == "two\n"
    assert editor.methods() == [*asked, *asked, *asked, *([WRITE] if writes else [])]
    assert sorted(os.listdir(bench.ws)) == ["a"]


# -- reading ---------------------------------------------------------------------------------------


async def test_what_is_not_saved_is_read_changed_and_written(at, editor):
    bench = at()
    (bench.ws / "a").write_text("one\n")
    editor.buffers[path_of(bench, "a")] = "one, and what was typed\n"
    read = await bench.call("read_file", path="a")
    assert read.result == (
        "one, and what was typed\n[Line 1 of 1. "
        "The editor shows this text, and it is not saved: searches and commands see another.]"
    )
    outcome = await replace(bench, "a", "one", "two")
    assert editor.asked[-1] == (
        WRITE,
        {"sessionId": "sess_1", "path": path_of(bench, "a"), "content": "two, and what was typed\n"},
    )
    (diff,) = outcome.content
    texts = FileTexts(path_of(bench, "a"), "one, and what was typed\n", "two, and what was typed\n")
    assert diff.texts == (texts,)
    assert "-one, and what was typed\n+two, and what was typed\n" in diff.patch
    assert (bench.ws / "a").read_text() == "two, and what was typed\n"


@pytest.mark.parametrize(
    "data", [b"one\r\ntwo\r\n", b"one\rtwo\r", b"\xef\xbb\xbfone\r\ntwo\r\n", b"one\r\ntwo"]
)
async def test_the_bytes_of_a_file_are_kept_where_the_editor_shows_line_feeds(at, editor, data):
    bench = at(writes=not data.startswith(b"\xef"))
    (bench.ws / "a").write_bytes(data)
    editor.shows = lambda text: text.replace("\r\n", "\n").replace("\r", "\n")
    # It puts the file's own line ends back when it saves, whatever it was given: CRLF become CR CR LF.
    editor.saves_as = lambda text: text.replace("\n", "\r\n") if b"\r\n" in data else text
    read = await bench.call("read_file", path="a")
    assert "Line ends: " in read.result
    assert "not saved" not in read.result
    await replace(bench, "a", "two", "2")
    assert (bench.ws / "a").read_bytes() == data.replace(b"two", b"2")
    editor.buffers[path_of(bench, "a")] = editor.shows(data.decode("utf-8-sig")) + "3"
    content = await bench.context.files.load(bench.context.files.resolve("a"))
    assert content.data == data + b"3"


@pytest.mark.parametrize("reads", [True, False])
async def test_an_editor_that_shows_crlf_or_nothing_is_given_crlf(at, editor, reads):
    bench = at(reads=reads)
    (bench.ws / "a").write_bytes(b"one\r\ntwo\r\n")
    await bench.call("read_file", path="a")
    await replace(bench, "a", "two", "2\n3")
    assert editor.asked[-1][1]["content"] == "one\r\n2\r\n3\r\n"


@pytest.mark.parametrize("saved", ["one\n", "one"])
async def test_a_last_line_end_is_no_change(at, editor, saved):
    bench = at()
    (bench.ws / "a").write_text(saved)
    editor.buffers[path_of(bench, "a")] = "one" if saved.endswith("\n") else "one\n"
    content = await bench.context.files.load(bench.context.files.resolve("a"))
    assert (content.data, content.unsaved) == (saved.encode(), False)


async def test_an_editor_has_a_moment_to_notice_what_we_changed_on_the_disk(at, editor, monkeypatch):
    monkeypatch.setattr(buffers, "SETTLES_S", 60.0)
    monkeypatch.setattr(buffers, "_STEP_S", 0.001)
    bench = at()
    (bench.ws / "a").write_text("made by a person\n")
    editor.buffers[path_of(bench, "a")] = "what was there before\n"
    assert "what was there before" in (await bench.call("read_file", path="a")).result
    assert editor.methods() == [READ]
    await bench.context.files.confinement()  # a command begins
    (bench.ws / "a").write_text("made by the command\n")

    def notice(method):
        if len(editor.asked) == 4:
            editor.buffers.clear()

    editor.before_answer = notice
    read = await bench.call("read_file", path="a")
    assert read.result == "made by the command\n[Line 1 of 1.]"
    assert editor.methods() == [READ] * 4


async def test_a_file_that_is_saved_while_it_is_read_is_read_again(at, editor):
    bench = at()
    (bench.ws / "a").write_text("one\n")
    editor.buffers[path_of(bench, "a")] = "two\n"

    def save(method):
        if len(editor.asked) == 1:
            (bench.ws / "a").write_text("two\n")

    editor.before_answer = save
    read = await bench.call("read_file", path="a")
    assert read.result == "two\n[Line 1 of 1.]"
    assert editor.methods() == [READ] * 2


async def test_a_file_that_changes_each_time_is_given_up(at, editor):
    bench = at()
    (bench.ws / "a").write_text("one\n")
    numbers = itertools.count()
    editor.before_answer = lambda method: (bench.ws / "a").write_text(f"{next(numbers)}")
    with pytest.raises(ToolError, match="kept changing"):
        await bench.call("read_file", path="a")


async def test_a_path_that_leads_elsewhere_while_the_editor_reads_gives_nothing_away(at, editor):
    bench = at()
    (bench.ws / "a").write_text("mine\n")
    (bench.root / "outside").write_text("theirs\n")

    def swap(method):
        (bench.ws / "a").unlink()
        (bench.ws / "a").symlink_to(bench.root / "outside")

    editor.before_answer = swap
    with pytest.raises(ToolError, match="leads elsewhere"):
        await bench.call("read_file", path="a")


@pytest.mark.parametrize("kind", ["missing", "binary", "latin-1", "utf-16", "outside", "hidden", "folder"])
async def test_what_is_no_text_of_the_workspace_is_not_the_editors(at, editor, kind):
    bench = at()
    data = {"binary": b"\0\1", "latin-1": b"caf\xe9\n", "utf-16": "é\n".encode("utf-16")}.get(kind, b"x\n")
    name = "../outside" if kind == "outside" else "a"
    if kind == "folder":
        (bench.ws / "a").mkdir()
    elif kind != "missing":
        (bench.ws / name).write_bytes(data)
    if kind == "hidden":
        bench = Bench(bench.root, editor=editor.files(bench.ws), own_paths=(str(bench.ws / "a"),))
    if kind in ("missing", "binary", "folder"):
        with pytest.raises(ToolError):
            await bench.call("read_file", path=name)
    else:
        await bench.call("read_file", path=name)
        await bench.call("create_file", path=name, content="new\n", overwrite=True)
        assert (bench.ws / name).read_bytes() not in (data, b"")
    assert editor.asked == []


async def test_words_of_the_workspace_and_searches_are_the_disks(at, editor):
    bench = at()
    (bench.ws / "AGENTS.md").write_text("saved\n")
    editor.buffers[path_of(bench, "AGENTS.md")] = "typed\n"
    assert await bench.context.files.read_words("AGENTS.md", 100) == "saved\n"
    assert "saved" in (await bench.call("grep", pattern="saved|typed")).result
    assert editor.asked == []


async def test_a_client_error_is_no_leave_to_read_the_disk(at, editor):
    bench = at()
    (bench.ws / "a").write_text("one\n")
    await bench.call("read_file", path="a")
    editor.answers[READ] = refusal(-32603, "the buffer is locked")
    with pytest.raises(ToolError, match="the buffer is locked"):
        await bench.call("read_file", path="a")
    with pytest.raises(ToolError, match="the buffer is locked"):
        await replace(bench, "a", "one", "two")
    assert (bench.ws / "a").read_text() == "one\n"


# -- writing ---------------------------------------------------------------------------------------


async def test_there_is_one_write_and_it_is_the_editors(at, editor):
    bench = at()
    editor.saves = False
    for name, tool, arguments in [
        ("x/new", "create_file", {"path": "x/new", "content": "new\n"}),
        ("y", "apply_patch", {"patch": "*** Begin Patch\n*** Add File: y\n+added\n*** End Patch\n"}),
    ]:
        await bench.call(tool, **arguments)
        assert editor.asked[-1][1]["path"] == path_of(bench, name)
    assert editor.methods() == [READ, WRITE] * 2
    assert os.listdir(bench.ws) == []
    (bench.ws / "a").write_text("one\n")
    await bench.call("read_file", path="a")
    before = os.stat(bench.ws / "a")
    await replace(bench, "a", "one", "two")
    after = os.stat(bench.ws / "a")
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    # What it has and did not save is what the next edit is of.
    await replace(bench, "a", "two", "three")
    assert editor.buffers[path_of(bench, "a")] == "three\n"
    assert (bench.ws / "a").read_text() == "one\n"
    assert sorted(os.listdir(bench.ws)) == ["a"]


@pytest.mark.parametrize(
    "saves_as",
    [
        lambda text: text,
        lambda text: text.removesuffix("\n") + "\n",
        lambda text: "\n".join(line.rstrip() for line in text.split("\n")),
        lambda text: text.replace("\r", "").replace("\n", "\r\n"),
    ],
    ids=["exactly", "with a last line end", "without white space at the ends", "with CRLF"],
)
@pytest.mark.parametrize("reads", [True, False])
async def test_an_edit_after_an_edit_needs_no_new_read(at, editor, saves_as, reads):
    bench = at(reads=reads)
    editor.saves_as = saves_as
    await bench.call("create_file", path="a", content="one  \ntwo\nthree")
    await replace(bench, "a", "one", "1")
    await replace(bench, "a", "two", "2")
    await bench.call("create_file", path="a", content="four\nfive", overwrite=True)
    assert (bench.ws / "a").read_bytes().split() == [b"four", b"five"]


@pytest.mark.parametrize("reads", [True, False])
async def test_a_real_change_after_an_edit_is_seen(at, editor, reads):
    bench = at(reads=reads)
    await bench.call("create_file", path="a", content="one\ntwo\n")
    editor.saves_as = str.upper  # one that formats as it saves
    await replace(bench, "a", "one", "1")
    with pytest.raises(ToolError, match="changed since it was read"):
        await replace(bench, "a", "two", "2")
    await bench.call("read_file", path="a")
    await replace(bench, "a", "TWO", "2")
    (bench.ws / "a").write_text("somebody's\n")
    with pytest.raises(ToolError, match="changed since it was read"):
        await replace(bench, "a", "2", "3")


async def test_what_was_read_and_is_only_white_space_apart_was_changed_by_a_person(at, editor):
    bench = at()
    (bench.ws / "a").write_text("one\n")
    await bench.call("read_file", path="a")
    (bench.ws / "a").write_text("one \n")
    with pytest.raises(ToolError, match="changed since it was read"):
        await replace(bench, "a", "one", "two")


async def test_a_disk_that_changes_under_an_unsaved_text_is_seen(at, editor):
    bench = at()
    (bench.ws / "a").write_text("one\n")
    editor.buffers[path_of(bench, "a")] = "one, typed\n"
    await bench.call("read_file", path="a")
    (bench.ws / "a").write_text("one, by a command\n")
    with pytest.raises(ToolError, match="changed since it was read"):
        await replace(bench, "a", "one", "two")
    assert editor.buffers[path_of(bench, "a")] == "one, typed\n"


@pytest.mark.parametrize("where", ["buffer", "disk", "appeared", "parent", "guard"])
async def test_what_changes_while_the_person_is_asked_is_not_written_over(at, editor, where):
    bench = at()
    (bench.ws / "sub").mkdir()
    (bench.ws / "sub/a").write_text("one\n")
    await bench.call("read_file", path="sub/a")
    edit = await bench.prepare("search_replace", path="sub/a", replacements=[("one", "two")])
    new = await bench.prepare("create_file", path="sub/b", content="x")
    if where == "buffer":
        editor.buffers[path_of(bench, "sub/a")] = "one, and typed\n"
        tool, prepared = "search_replace", edit
    elif where == "disk":
        (bench.ws / "sub/a").write_text("three\n")
        tool, prepared = "search_replace", edit
    elif where == "appeared":
        (bench.ws / "sub/b").write_text("somebody's")
        tool, prepared = "create_file", new
    elif where == "parent":
        (bench.ws / "sub").rename(bench.root / "aside")
        (bench.ws / "sub").symlink_to(bench.root / "aside")
        tool, prepared = "create_file", new
    else:
        (bench.ws / "AGENTS.md").symlink_to("sub/b")
        tool, prepared = "create_file", new
    with pytest.raises(ToolError):
        await bench.run(tool, prepared)
    assert WRITE not in editor.methods()


@pytest.mark.parametrize("what", ["file", "link", "guard"])
async def test_the_last_look_comes_after_the_editor_has_answered(at, editor, what):
    """It and the request come without a wait between: here something changes at the editor's answer."""
    bench = at()
    (bench.ws / "sub").mkdir()
    (bench.ws / "link").symlink_to("sub")
    (bench.ws / "sub/a").write_text("one\n")
    await bench.call("read_file", path="link/a")
    prepared = await bench.prepare("search_replace", path="link/a", replacements=[("one", "two")])
    editor.buffers[path_of(bench, "sub/a")] = "one\n"

    def change(method):
        if what == "file":
            (bench.ws / "sub/a").write_text("three\n")
        elif what == "link":
            (bench.ws / "link").unlink()
            (bench.ws / "link").mkdir()
        else:
            (bench.ws / "AGENTS.md").symlink_to("sub/a")

    editor.before_answer = change
    with pytest.raises(ToolError, match=r"changed since it was read|leads elsewhere|is protected"):
        await bench.run("search_replace", prepared)
    assert WRITE not in editor.methods()


async def test_a_file_with_a_mark_is_read_from_the_editor_and_written_on_the_disk(at, editor):
    bench = at()
    mark = b"\xef\xbb\xbf"
    (bench.ws / "a").write_bytes(mark + b"one\n")
    await bench.call("read_file", path="a")
    await replace(bench, "a", "one", "two")
    await bench.call("create_file", path="b", content="\ufeffnew\n")
    assert (bench.ws / "a").read_bytes() == mark + b"two\n"
    assert (bench.ws / "b").read_bytes() == mark + b"new\n"
    assert set(editor.methods()) == {READ}


@pytest.mark.parametrize("reads", [True, False])
async def test_plan_mode_writes_nothing_either_way(at, editor, reads):
    bench = at(reads=reads)
    prepared = await bench.prepare("create_file", path="a", content="x")
    context = attrs.evolve(bench.context, mode=lambda: Mode.PLAN)
    bench.context = context
    with pytest.raises(ToolError):
        await bench.run("create_file", prepared)
    assert WRITE not in editor.methods()
    assert os.listdir(bench.ws) == []


async def test_a_refused_write_is_an_error_and_the_file_may_be_edited_again(at, editor):
    bench = at()
    (bench.ws / "a").write_text("one\n")
    await bench.call("read_file", path="a")
    editor.answers[WRITE] = refusal(-32000, "the person said no")
    with pytest.raises(ToolError, match=r"the person said no \(error -32000\)\. Nothing was written"):
        await replace(bench, "a", "one", "two")
    del editor.answers[WRITE]
    await replace(bench, "a", "one", "two")
    assert (bench.ws / "a").read_text() == "two\n"


async def test_a_write_that_nobody_answered_for_is_told_as_unknown(at, editor):
    bench = at()
    editor.answers[WRITE] = Gone()
    with pytest.raises(OutcomeUnknown, match=r"^outcome_unknown: .*is gone\. .*look before you repeat it"):
        await bench.call("create_file", path="a", content="x")
    patch = "*** Begin Patch\n*** Add File: b\n+x\n*** End Patch\n"
    with pytest.raises(OutcomeUnknown) as caught:
        await bench.call("apply_patch", patch=patch)
    assert "No file of the patch was changed" not in str(caught.value)


@pytest.mark.parametrize("offers", [{"writes": False}, {}])
async def test_an_edit_of_the_disk_does_not_pass_by_what_is_not_saved(at, editor, offers):
    """Several files go to the disk, and so does all where the editor does not write."""
    bench = at(**offers)
    for name in ("a", "b"):
        (bench.ws / name).write_text("one\n")
    editor.buffers[path_of(bench, "a")] = "one, typed\n"
    for name in ("a", "b"):
        await bench.call("read_file", path=name)
    patch = (
        "*** Begin Patch\n*** Update File: a\n@@\n-one, typed\n+two\n"
        "*** Update File: b\n@@\n-one\n+two\n*** End Patch\n"
    )
    with pytest.raises(ToolError, match="not saved"):
        await bench.prepare("apply_patch", patch=patch)
    with pytest.raises(ToolError, match="not saved"):
        await bench.prepare("apply_patch", patch="*** Begin Patch\n*** Delete File: a\n*** End Patch\n")
    if offers:
        with pytest.raises(ToolError, match="Ask the person to save the file"):
            await bench.prepare("search_replace", path="a", replacements=[("one", "two")])
    del editor.buffers[path_of(bench, "a")]
    await bench.call("read_file", path="a")
    prepared = await bench.prepare("apply_patch", patch=patch.replace("one, typed", "one"))
    editor.buffers[path_of(bench, "b")] = "typed meanwhile\n"
    with pytest.raises(ToolError, match=r"not saved.*No file of the patch was changed"):
        await bench.run("apply_patch", prepared)
    del editor.buffers[path_of(bench, "b")]
    outcome = await bench.run("apply_patch", prepared)
    assert [(bench.ws / name).read_text() for name in ("a", "b")] == ["two\n", "two\n"]
    assert [texts.new for texts in outcome.content[0].texts] == ["two\n", "two\n"]
    assert WRITE not in editor.methods()
    await bench.call(
        "apply_patch", patch="*** Begin Patch\n*** Update File: a\n*** Move to: c\n*** End Patch\n"
    )
    assert sorted(os.listdir(bench.ws)) == ["b", "c"]
    assert WRITE not in editor.methods()


# -- what only the editor has ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offers", "arguments"),
    [
        ({}, {"path": "a", "content": "new\n"}),
        ({"writes": False}, {"path": "a", "content": "new\n"}),
        ({}, {"patch": "*** Begin Patch\n*** Add File: b\n+b\n*** Add File: a\n+new\n*** End Patch\n"}),
        ({}, {"patch": "*** Begin Patch\n*** Update File: c\n*** Move to: a\n*** End Patch\n"}),
    ],
    ids=["through the editor", "on the disk", "of a patch", "the end of a move"],
)
async def test_no_file_is_made_over_a_text_that_was_never_saved(at, editor, offers, arguments):
    bench = at(**offers)
    tool = "create_file" if "content" in arguments else "apply_patch"
    (bench.ws / "c").write_text("new\n")
    await bench.call("read_file", path="c")
    prepared = await bench.prepare(tool, **arguments)
    editor.buffers[path_of(bench, "a")] = "typed, and nowhere else\n"
    with pytest.raises(ToolError, match=r"a is not on the disk, and the editor has a text of it"):
        await bench.run(tool, prepared)
    assert WRITE not in editor.methods()
    assert os.listdir(bench.ws) == ["c"]
    assert editor.buffers == {path_of(bench, "a"): "typed, and nowhere else\n"}
    editor.buffers[path_of(bench, "a")] = " \n\n"
    await bench.run(tool, prepared)
    assert (bench.ws / "a").read_text() == "new\n"


@pytest.mark.parametrize(
    "reply", [refusal(-32002, "Resource not found"), refusal(), result(b"null"), result(b'{"content":""}')]
)
async def test_whatever_an_editor_says_of_a_file_that_is_not_there_it_may_be_made(at, editor, reply):
    bench = at()
    editor.answers[READ] = reply
    await bench.call("create_file", path="a", content="new\n")
    assert editor.methods() == [READ, WRITE]


async def test_a_silent_editor_is_not_told_to_make_a_file(at, editor, monkeypatch):
    monkeypatch.setattr(files, "READ_S", 0.01)
    bench = at()
    editor.hold = {READ}
    with pytest.raises(ToolError, match=r"did not read .* within"):
        await bench.call("create_file", path="a", content="new\n")
    assert WRITE not in editor.methods()


@pytest.mark.parametrize("by", ["a patch", "a command"])
async def test_what_the_model_saw_of_a_file_that_is_gone_may_be_replaced(at, editor, by):
    """Editors show a file that was removed as long as it is open."""
    bench = at()
    (bench.ws / "a").write_bytes(b"one\r\n")
    await bench.call("read_file", path="a")
    if by == "a patch":
        await bench.call("apply_patch", patch="*** Begin Patch\n*** Delete File: a\n*** End Patch\n")
    else:
        (bench.ws / "a").unlink()
    editor.buffers[path_of(bench, "a")] = "one\n"
    await bench.call("create_file", path="a", content="new\n")
    assert (bench.ws / "a").read_text() == "new\n"


async def test_a_new_file_that_the_editor_has_not_saved_may_be_written_again(at, editor):
    bench = at()
    editor.saves = False
    for text in ("one\n", "two\n"):
        await bench.call("create_file", path="a", content=text)
    assert editor.buffers == {path_of(bench, "a"): "two\n"}


# -- limits and cancels ----------------------------------------------------------------------------


async def test_a_text_too_long_for_a_frame_goes_to_the_disk(at, editor):
    bench = at()
    text = "\x01" * (buffers.MAX_WRITTEN_BYTES + 1)
    await bench.call("create_file", path="a", content=text)
    assert (bench.ws / "a").read_text() == text
    assert WRITE not in editor.methods()
    await bench.call("create_file", path="b", content=text[1:])
    assert editor.methods() == [READ, READ, WRITE]
    assert (bench.ws / "b").read_text() == text[1:]


async def test_a_cancel_while_the_editor_writes_leaves_word(at, editor):
    bench = at()
    said = []

    class Ports:
        stopped_nowait = said.append

    bench.context = attrs.evolve(bench.context, ports=Ports())
    prepared = await bench.prepare("create_file", path="a", content="x")
    editor.hold = {WRITE}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.run, "create_file", prepared)
        await until(lambda: WRITE in editor.methods())
        nursery.cancel_scope.cancel()
    (outcome,) = said
    assert outcome.failed
    assert outcome.result.startswith(f"outcome_unknown: The editor was writing {path_of(bench, 'a')} when")
    assert editor.withdrawn == [1]


@pytest.mark.parametrize("when", ["at the answer", "at the last look"])
async def test_a_cancel_before_the_editor_is_told_has_no_effect(at, editor, when):
    bench = at()
    said = []

    class Ports:
        stopped_nowait = said.append

    bench.context = attrs.evolve(bench.context, ports=Ports())
    (bench.ws / "a").write_text("one\n")
    await bench.call("read_file", path="a")
    prepared = await bench.prepare("search_replace", path="a", replacements=[("one", "two")])
    before = len(os.listdir("/proc/self/fd"))
    with trio.CancelScope() as scope:
        if when == "at the answer":
            editor.before_answer = lambda method: scope.cancel()
        else:
            bench.context = attrs.evolve(bench.context, mode=scope.cancel)
        await bench.run("search_replace", prepared)
    assert scope.cancelled_caught
    assert said == []
    assert WRITE not in editor.methods()
    assert len(os.listdir("/proc/self/fd")) == before


# -- texts of diffs --------------------------------------------------------------------------------


async def test_a_diff_carries_its_texts_whole(tmp_path):
    bench = Bench(tmp_path.resolve())
    (bench.ws / "a").write_bytes(b"one\r\n")
    (bench.ws / "b").write_text("gone\n")
    (bench.ws / "bin").write_bytes(b"\0")
    for name in ("a", "b"):
        await bench.call("read_file", path=name)
    prepared = await bench.prepare("create_file", path="new", content="n")
    assert prepared.preview[0].texts == (FileTexts(path_of(bench, "new"), None, "n"),)
    prepared = await bench.prepare("search_replace", path="a", replacements=[("one", "two")])
    assert prepared.preview[0].texts == (FileTexts(path_of(bench, "a"), "one\r\n", "two\r\n"),)
    patch = (
        "*** Begin Patch\n*** Update File: a\n*** Move to: c\n@@\n-one\n+two\n*** Delete File: b\n"
        "*** Add File: d\n+new\n*** End Patch\n"
    )
    (diff,) = (await bench.prepare("apply_patch", patch=patch)).preview
    assert diff.texts == (
        FileTexts(path_of(bench, "c"), "one\r\n", "two\r\n"),
        FileTexts(path_of(bench, "b"), "gone\n", None),
        FileTexts(path_of(bench, "d"), None, "new\n"),
    )
    assert [change.path for change in diff.changes] == [texts.path for texts in diff.texts]


async def test_a_text_that_is_too_long_is_left_out(tmp_path):
    bench = Bench(tmp_path.resolve())
    for length, carried in ((MAX_DIFF_TEXT, 1), (MAX_DIFF_TEXT + 1, 0)):
        prepared = await bench.prepare("create_file", path="a", content="x" * length)
        (diff,) = prepared.preview
        assert isinstance(diff, Diff)
        assert len(diff.texts) == carried
        assert diff.patch


async def test_the_texts_of_a_patch_have_a_bound_together(tmp_path, monkeypatch):
    monkeypatch.setattr(patch_plan, "MAX_TEXTS", 10)
    bench = Bench(tmp_path.resolve())
    added = [("a", "1234567"), ("b", "123"), ("c", "12")]  # and a line end each
    sections = "".join(f"*** Add File: {name}\n+{text}\n" for name, text in added)
    patch = f"*** Begin Patch\n{sections}*** End Patch\n"
    (diff,) = (await bench.prepare("apply_patch", patch=patch)).preview
    assert [texts.new for texts in diff.texts] == ["1234567\n"]
    monkeypatch.setattr(patch_plan, "MAX_TEXTS", 11)
    (diff,) = (await bench.prepare("apply_patch", patch=patch)).preview
    assert [texts.new for texts in diff.texts] == ["1234567\n", "12\n"]
    assert len(diff.changes) == 3
