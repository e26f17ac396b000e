"""``read_file``, ``create_file`` and ``search_replace`` through their three steps, on real files."""

import codecs
import inspect
import os
import subprocess
import threading
import time

import attrs
import pytest
import trio

from term2_acp.domain.content import Change, Diff, Operation, Text
from term2_acp.domain.permission import Access
from term2_acp.domain.toolcall import Location
from term2_acp.tools import edits
from term2_acp.tools.apply_patch import ApplyPatch
from term2_acp.tools.arguments import decode
from term2_acp.tools.base import Prepared, ToolError
from term2_acp.tools.excerpt import MAX_BYTES
from term2_acp.tools.registry import TOOLS
from term2_acp.workspace import MAX_FILE_BYTES, BufferEdit, Workspace
from tests.kit.tools import Bench
from tests.kit.until import until


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path.resolve())


def names(folder):
    return sorted(os.listdir(folder))


def git_apply(folder, patch):
    subprocess.run(
        ["git", "apply", "--unsafe-paths", "-p1", "--directory=/", "--whitespace=nowarn", "-"],
        input=patch.encode(),
        cwd=folder,
        check=True,
    )


# -- read_file -------------------------------------------------------------------------------------


async def test_a_file_is_read(bench):
    (bench.ws / "a.txt").write_text("one\ntwo\nthree\n")
    outcome = await bench.call("read_file", path="a.txt")
    assert outcome.result == "one\ntwo\nthree\n[Lines 1 to 3 of 3.]"
    assert outcome.content == (Text("Lines 1 to 3 of 3."),)
    assert outcome.raw_output == {"lines": 3, "bytes": 13, "truncated": False}


async def test_a_range_is_read_and_the_rest_is_named(bench):
    (bench.ws / "a").write_text("\n".join("abcdef"))
    outcome = await bench.call("read_file", path="a", start_line=2, end_line=4)
    assert outcome.result.startswith("b\nc\nd\n[Lines 2 to 4 of 6.")
    assert not outcome.raw_output["truncated"]
    outcome = await bench.call("read_file", path="a", start_line=6)
    assert outcome.result == "f\n[Line 6 of 6. The last line has no line end.]"
    with pytest.raises(ToolError, match="has only 6 lines"):
        await bench.call("read_file", path="a", start_line=7)
    with pytest.raises(ToolError, match="end_line 1 is before start_line 2"):
        await bench.call("read_file", path="a", start_line=2, end_line=1)


async def test_a_long_file_is_cut_and_says_how_to_read_on(bench):
    (bench.ws / "a").write_text("é\n" * 2500)
    outcome = await bench.call("read_file", path="a")
    assert outcome.result.endswith(
        "é\n[Lines 1 to 2,000 of 2,500. 500 lines are left out; read on with start_line=2001.]"
    )
    assert outcome.raw_output == {"lines": 2000, "bytes": 5999, "truncated": True}


async def test_one_long_line_is_cut_between_characters(bench):
    (bench.ws / "a").write_text("𝄞" * MAX_BYTES + "\n")
    outcome = await bench.call("read_file", path="a")
    text, note = outcome.result.split("\n")
    assert text == "𝄞" * (MAX_BYTES // 4)
    assert note == "[Line 1 of 1. Line 1 has 262,144 bytes; the first 65,536 are shown.]"


async def test_encodings_and_line_ends_are_named(bench):
    (bench.ws / "a").write_bytes(codecs.BOM_UTF8 + b"one\r\ntwo\r\n")
    assert (await bench.call("read_file", path="a")).result == (
        "one\ntwo\n[Lines 1 to 2 of 2. Encoding: utf-8 with byte-order mark. "
        "Line ends: CRLF, shown as LF; an edit keeps them.]"
    )
    (bench.ws / "a").write_bytes(b"caf\xe9\nx\r\n")
    assert (await bench.call("read_file", path="a")).result == (
        "café\nx\n[Lines 1 to 2 of 2. Encoding: latin-1. "
        "Line ends: CRLF and LF mixed, shown as LF; an edit keeps them.]"
    )
    (bench.ws / "a").write_bytes("é".encode("utf-16"))
    assert (await bench.call("read_file", path="a")).result.startswith("é\n[")
    (bench.ws / "a").write_bytes(b"")
    assert (await bench.call("read_file", path="a")).result == "[The file is empty.]"


async def test_binary_files_are_refused_with_their_size(bench):
    (bench.ws / "a").write_bytes(b"\x7fELF\0" * 1000)
    with pytest.raises(ToolError, match=r"binary file of 5,000 bytes"):
        await bench.call("read_file", path="a")
    # What could not be shown was not seen.
    with pytest.raises(ToolError, match="not read in this session"):
        await bench.call("create_file", path="a", content="x", overwrite=True)


@pytest.mark.parametrize("path", ["none", "sub", "fifo", "\0", "/proc/self/environ", "~/x", "loop"])
async def test_what_cannot_be_read_is_a_tool_error(bench, path):
    (bench.ws / "sub").mkdir()
    os.mkfifo(bench.ws / "fifo")
    (bench.ws / "loop").symlink_to("loop")
    with trio.fail_after(5), pytest.raises(ToolError):
        await bench.call("read_file", path=path)


@pytest.mark.parametrize("tool", ["read_file", "glob", "grep", "create_file", "search_replace"])
def test_describing_never_fails(bench, tool):
    for path in ("a", "\0", "~", "x" * 9000, "/proc/self/fd/0", "a\nb\u202e"):
        arguments = {
            "read_file": {"path": path, "start_line": 3},
            "glob": {"pattern": "*" * 5000, "path": path},
            "grep": {"pattern": "x", "path": path},
            "create_file": {"path": path, "content": ""},
            "search_replace": {
                "path": path,
                "replacements": [{"search_content": "a", "replace_content": "b"}],
            },
        }[tool]
        description = bench.describe(tool, **arguments)
        assert "\n" not in description.title
        assert len(description.title) < 300
        assert description.title.isprintable()
        if path == "a":
            line = 3 if tool == "read_file" else None
            assert description.locations == (Location(str(bench.ws / "a"), line),)


# -- what the policy is told -----------------------------------------------------------------------


async def test_every_access_is_an_action_with_its_real_target(bench):
    (bench.root / "outside").write_text("x")
    (bench.ws / "l").symlink_to(bench.root / "outside")
    (bench.ws / "f").write_text("x")
    await bench.call("read_file", path="f")
    for tool, arguments, access, path, inside in [
        ("read_file", {"path": "f"}, Access.READ, bench.ws / "f", True),
        ("read_file", {"path": "l"}, Access.READ, bench.root / "outside", False),
        ("read_file", {"path": "../none"}, Access.READ, bench.root / "none", False),
        ("create_file", {"path": "new", "content": "x"}, Access.EDIT, bench.ws / "new", True),
        ("create_file", {"path": "../new", "content": "x"}, Access.EDIT, bench.root / "new", False),
        ("glob", {"pattern": "*"}, Access.SEARCH, bench.ws, True),
        ("glob", {"pattern": "*", "path": ".."}, Access.SEARCH, bench.root, False),
        ("grep", {"pattern": "x", "path": ".."}, Access.SEARCH, bench.root, False),
        ("grep", {"pattern": "x", "path": "l"}, Access.READ, bench.root / "outside", False),
    ]:
        prepared = await bench.prepare(tool, **arguments)
        (action,) = prepared.actions
        assert (action.access, action.target.path, action.target.inside) == (access, str(path), inside)
        assert prepared.locations[0].path == str(path)
    prepared = await bench.prepare("create_file", path=".git/hooks/x", content="x")
    assert prepared.actions[0].target.guarded == ".git/"


# -- create_file -----------------------------------------------------------------------------------


async def test_a_file_is_created_with_its_folders(bench):
    prepared = await bench.prepare("create_file", path="x/y/a.txt", content="one\ntwo")
    path = str(bench.ws / "x/y/a.txt")
    diff = Diff(
        (Change(Operation.ADD, path),),
        f"diff --git {path} {path}\nnew file mode 100644\n--- /dev/null\n+++ {path}\n"
        "@@ -0,0 +1,2 @@\n+one\n+two\n\\ No newline at end of file\n",
    )
    assert prepared.preview == (diff,)
    assert prepared.summary == f"Create {path} (2 lines)."
    assert names(bench.ws) == []
    outcome = await bench.run("create_file", prepared)
    assert (bench.ws / "x/y/a.txt").read_bytes() == b"one\ntwo"
    assert outcome.result == f"Created {path}: 2 lines, 7 bytes."
    assert outcome.content == (diff,)
    assert outcome.raw_output == {"path": path, "bytes": 7, "created": True}


async def test_a_new_file_has_no_mark_and_its_very_bytes(bench):
    await bench.call("create_file", path="a", content="é\r\n\u2028\ufeff\n")
    assert (bench.ws / "a").read_bytes() == "é\r\n\u2028\ufeff\n".encode()
    await bench.call("create_file", path="empty", content="")
    assert (bench.ws / "empty").read_bytes() == b""


async def test_an_existing_file_is_overwritten_only_when_asked_and_read(bench):
    (bench.ws / "a").write_text("old")
    with pytest.raises(ToolError, match=r"exists already \(3 bytes\)"):
        await bench.call("create_file", path="a", content="new")
    with pytest.raises(ToolError, match="not read in this session"):
        await bench.call("create_file", path="a", content="new", overwrite=True)
    await bench.call("read_file", path="a")
    with pytest.raises(ToolError, match="exists already"):
        await bench.call("create_file", path="a", content="new")
    outcome = await bench.call("create_file", path="a", content="new", overwrite=True)
    assert (bench.ws / "a").read_text() == "new"
    assert outcome.content[0].changes == (Change(Operation.MODIFY, str(bench.ws / "a")),)
    with pytest.raises(ToolError, match="exactly this already"):
        await bench.call("create_file", path="a", content="new", overwrite=True)


async def test_overwriting_keeps_encoding_mark_and_line_ends(bench):
    path = bench.ws / "a"
    path.write_bytes(codecs.BOM_UTF8 + b"one\r\ntwo\r\n")
    await bench.call("read_file", path="a")
    await bench.call("create_file", path="a", content="1\n2\n", overwrite=True)
    assert path.read_bytes() == codecs.BOM_UTF8 + b"1\r\n2\r\n"
    path.write_bytes("é\n".encode("utf-16"))
    await bench.call("read_file", path="a")
    await bench.call("create_file", path="a", content="ü\n", overwrite=True)
    assert path.read_bytes() == "ü\n".encode("utf-16")
    path.write_bytes(b"caf\xe9\n")
    await bench.call("read_file", path="a")
    with pytest.raises(ToolError, match="cannot hold U\\+20AC"):
        await bench.call("create_file", path="a", content="€", overwrite=True)
    assert path.read_bytes() == b"caf\xe9\n"


@pytest.mark.parametrize("path", ["sub", "sub/", "new/", "file/below", "fifo"])
async def test_what_is_no_place_for_a_file_is_a_tool_error(bench, path):
    (bench.ws / "sub").mkdir()
    (bench.ws / "file").write_text("x")
    os.mkfifo(bench.ws / "fifo")
    with trio.fail_after(5), pytest.raises(ToolError):
        await bench.call("create_file", path=path, content="x", overwrite=True)
    assert names(bench.ws) == ["fifo", "file", "sub"]


async def test_too_large_a_file_is_not_written(bench):
    with pytest.raises(ToolError, match="would have"):
        await bench.call("create_file", path="a", content="é" * (MAX_FILE_BYTES // 2 + 1))
    assert names(bench.ws) == []


# -- search_replace --------------------------------------------------------------------------------


async def test_passages_are_replaced(bench):
    path = bench.ws / "a.py"
    path.write_text("one\ntwo\nthree\n")
    path.chmod(0o755)
    await bench.call("read_file", path="a.py")
    prepared = await bench.prepare(
        "search_replace", path="a.py", replacements=[("two", "2"), ("three\n", "3\n")]
    )
    patch = f"diff --git {path} {path}\n--- {path}\n+++ {path}\n@@ -1,3 +1,3 @@\n one\n-two\n-three\n+2\n+3\n"
    assert prepared.preview == (Diff((Change(Operation.MODIFY, str(path)),), patch),)
    assert prepared.locations == (Location(str(path), 2),)
    assert prepared.summary == f"Replace 2 passages in {path}."
    outcome = await bench.run("search_replace", prepared)
    assert path.read_text() == "one\n2\n3\n"
    assert path.stat().st_mode & 0o777 == 0o755
    assert outcome.result == f"Replaced 2 passages in {path}."
    assert outcome.raw_output == {"path": str(path), "bytes": 8, "replaced": 2}


@pytest.mark.parametrize(
    "data",
    [
        b"one\r\ntwo\r\n",
        b"one\ntwo\n",
        b"one\r\ntwo\nthree\r\n",
        b"one\rtwo\r",
        b"one\ntwo",
        codecs.BOM_UTF8 + b"one\r\ntwo",
        "one\x0ctwo\u2028\x85\n".encode(),
        b"caf\xe9 two\r\n",
        "é two\r\n".encode("utf-16"),
        codecs.BOM_UTF16_BE + "é two\n".encode("utf-16-be"),
    ],
)
async def test_only_the_edited_bytes_differ(bench, data):
    (bench.ws / "a").write_bytes(data)
    await bench.call("read_file", path="a")
    await bench.call("search_replace", path="a", replacements=[("two", "2")])
    wide = "utf-16-le" if data.startswith(codecs.BOM_UTF16_LE) else "utf-8"
    wide = "utf-16-be" if data.startswith(codecs.BOM_UTF16_BE) else wide
    assert (bench.ws / "a").read_bytes() == data.replace("two".encode(wide), "2".encode(wide))


async def test_the_diff_that_was_shown_is_the_change(bench):
    path = bench.ws / "a"
    path.write_bytes("".join(f"line {n}\r\n" for n in range(50)).encode() + b"end")
    before = path.read_bytes()
    await bench.call("read_file", path="a")
    prepared = await bench.prepare(
        "search_replace", path="a", replacements=[("line 7\n", "seven\nx\n"), ("end", "END")]
    )
    await bench.run("search_replace", prepared)
    after = path.read_bytes()
    path.write_bytes(before)
    git_apply(bench.root, prepared.preview[0].patch)
    assert path.read_bytes() == after


async def test_all_or_nothing(bench):
    (bench.ws / "a").write_text("one two")
    await bench.call("read_file", path="a")
    with pytest.raises(ToolError, match="Replacement 2"):
        await bench.call("search_replace", path="a", replacements=[("one", "1"), ("three", "3")])
    with pytest.raises(ToolError, match="exactly this already"):
        await bench.call("search_replace", path="a", replacements=[("one", "1"), ("1", "one")])
    assert (bench.ws / "a").read_text() == "one two"


async def test_what_cannot_be_edited_is_a_tool_error(bench):
    with pytest.raises(ToolError, match="does not exist"):
        await bench.call("search_replace", path="none", replacements=[("a", "b")])
    (bench.ws / "a").write_text("secret")
    with pytest.raises(ToolError, match="not read") as caught:
        await bench.call("search_replace", path="a", replacements=[("b", "c")])
    assert "secret" not in str(caught.value)


async def test_a_change_since_the_reading_is_refused_and_own_edits_are_not(bench):
    path = bench.ws / "a"
    path.write_text("one")
    await bench.call("read_file", path="a")
    await bench.call("search_replace", path="a", replacements=[("one", "two")])
    await bench.call("search_replace", path="a", replacements=[("two", "six")])
    before = path.stat()
    path.write_text("ten")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    with pytest.raises(ToolError, match="changed since it was read"):
        await bench.call("search_replace", path="a", replacements=[("ten", "x")])
    await bench.call("read_file", path="a")
    await bench.call("search_replace", path="a", replacements=[("ten", "x")])
    assert path.read_text() == "x"


async def test_a_change_while_the_question_is_open_is_refused(bench):
    path = bench.ws / "a"
    path.write_text("one")
    await bench.call("read_file", path="a")
    prepared = await bench.prepare("search_replace", path="a", replacements=[("one", "two")])
    path.write_text("six")
    with pytest.raises(ToolError, match="changed since it was read; nothing was written"):
        await bench.run("search_replace", prepared)
    assert path.read_text() == "six"


async def test_a_parent_that_was_swapped_while_the_question_was_open_is_refused(bench):
    (bench.ws / "sub").mkdir()
    (bench.ws / "sub/a").write_text("one")
    (bench.root / "outside").mkdir()
    (bench.root / "outside/a").write_text("one")
    await bench.call("read_file", path="sub/a")
    edit = await bench.prepare("search_replace", path="sub/a", replacements=[("one", "two")])
    new = await bench.prepare("create_file", path="sub/new", content="x")
    (bench.ws / "sub").rename(bench.ws / "aside")
    (bench.ws / "sub").symlink_to(bench.root / "outside")
    for tool, prepared in (("search_replace", edit), ("create_file", new)):
        with pytest.raises(ToolError, match="leads elsewhere"):
            await bench.run(tool, prepared)
    assert names(bench.root / "outside") == ["a"]
    assert (bench.root / "outside/a").read_text() == "one"


# -- cancellation ----------------------------------------------------------------------------------


async def test_a_cancel_before_the_effect_leaves_everything_as_it_was(bench, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    real = os.write

    def held(descriptor, data):
        begun.set()
        go_on.wait(10)
        return real(descriptor, data)

    (bench.ws / "a").write_text("one")
    await bench.call("read_file", path="a")
    prepared = await bench.prepare("search_replace", path="a", replacements=[("one", "two")])
    monkeypatch.setattr(os, "write", held)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.run, "search_replace", prepared)
        await trio.to_thread.run_sync(begun.wait)
        began = time.monotonic()
        nursery.cancel_scope.cancel()
    assert time.monotonic() - began < 1
    monkeypatch.undo()
    go_on.set()
    await until(lambda: names(bench.ws) == ["a"])
    assert (bench.ws / "a").read_text() == "one"


@pytest.mark.parametrize("run", [edits.make_edit, ApplyPatch.run])
def test_no_checkpoint_follows_the_effect(run):
    """Between the rename and the finished outcome nothing may be awaited, or a cancel could fall there."""
    after = inspect.getsource(run).split("await commit(", 1)[1]
    assert "await" not in after
    assert "async" not in after
    assert inspect.getsource(edits.commit).split("commit_nowait()", 1)[1].split()[0] == "return"
    assert "await" not in inspect.getsource(edits.commit).split("await staged.write()", 1)[1]
    assert "await" not in inspect.getsource(BufferEdit.write).split("await self._editor.write(", 1)[1]


async def test_the_plans_are_kept_apart_by_session(bench):
    """Seeing is a matter of one session: another workspace on the same folder has seen nothing."""
    (bench.ws / "a").write_text("one")
    await bench.call("read_file", path="a")
    other = attrs.evolve(bench.context, files=Workspace(str(bench.ws), home=None))
    tool = TOOLS["search_replace"]
    arguments = decode(tool, '{"path":"a","replacements":[{"search_content":"one","replace_content":"two"}]}')
    with pytest.raises(ToolError, match="not read"):
        await tool.prepare(arguments, other)
    assert isinstance(await tool.prepare(arguments, bench.context), Prepared)
