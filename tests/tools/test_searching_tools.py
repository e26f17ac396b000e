"""``glob`` and ``grep`` as the model sees them: what is found, what is left out, and what is said of it."""

import os

import pytest

from term2_acp.tools.base import ToolError
from term2_acp.tools.bounded import MAX_BYTES
from term2_acp.tools.glob import MAX_PATHS
from term2_acp.tools.grep import MAX_HITS
from tests.kit.tools import Bench


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path.resolve())


def put(folder, texts):
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def test_glob(bench):
    put(bench.ws, {"b.py": "", "a/c.py": "", "d.txt": ""})
    outcome = await bench.call("glob", pattern="*.py")
    assert outcome.result == "a/c.py\nb.py\n[2 files found in the working directory.]"
    assert outcome.raw_output == {"files": 2, "truncated": False}
    outcome = await bench.call("glob", pattern="*.py", path="a")
    assert outcome.result == "a/c.py\n[1 file found in a.]"
    assert (await bench.call("glob", pattern="*.c")).result.startswith("[No files found in the")


async def test_paths_outside_are_absolute(bench):
    put(bench.root, {"outside/x.py": "needle\n"})
    path = str(bench.root / "outside/x.py")
    assert (await bench.call("glob", pattern="*.py", path="../outside")).result.split("\n")[0] == path
    assert (await bench.call("grep", pattern="needle", path="../outside")).result.split("\n")[0] == path


async def test_the_paths_can_be_used_as_they_are(bench):
    put(bench.ws, {"a b/-c\u202e.txt": "needle\n"})
    path = (await bench.call("glob", pattern="*.txt")).result.split("\n")[0]
    assert (await bench.call("read_file", path=path)).result.startswith("needle")


async def test_long_results_are_cut_and_say_so(bench):
    put(bench.ws, {f"f{number:04}": "needle\n" for number in range(MAX_PATHS + 1)})
    outcome = await bench.call("glob", pattern="f*")
    assert outcome.result.split("\n")[-1] == "[1,000 files shown; there are more. Narrow the pattern.]"
    assert outcome.raw_output == {"files": MAX_PATHS, "truncated": True}
    outcome = await bench.call("grep", pattern="needle")
    assert outcome.raw_output == {"matches": MAX_HITS, "files": MAX_HITS, "truncated": True}
    assert outcome.result.endswith(
        "[These are the first matches; there are more. Narrow the pattern or the files.]"
    )


async def test_the_text_of_a_result_is_bounded(bench):
    put(bench.ws, {"a": ("𝄞" * 1000 + "\n") * 400})
    outcome = await bench.call("grep", pattern=".")
    assert len(outcome.result.encode()) < MAX_BYTES + 200
    assert outcome.raw_output["truncated"]
    assert "\ufffd" not in outcome.result


async def test_grep(bench):
    put(bench.ws, {"a.py": "x = 1\ny = 2\nx = 3\n", "b/c.py": "x = 4\n"})
    outcome = await bench.call("grep", pattern="^x = ")
    assert outcome.result == "a.py\n1: x = 1\n3: x = 3\nb/c.py\n1: x = 4\n[3 matching lines in 2 files.]"
    assert outcome.raw_output == {"matches": 3, "files": 2, "truncated": False}
    assert (await bench.call("grep", pattern="nothing")).result == "[No matches in the working directory.]"
    assert "b/c.py" in (await bench.call("grep", pattern="X", ignore_case=True, include="b/*")).result
    assert "a.py" not in (await bench.call("grep", pattern="x", exclude="a.py")).result
    assert (await bench.call("grep", pattern="x = .", fixed_strings=True)).raw_output["matches"] == 0


async def test_grep_in_one_file(bench):
    put(bench.ws, {"a.py": "x\ny\n"})
    outcome = await bench.call("grep", pattern="y", path="a.py")
    assert outcome.result == "a.py\n2: y\n[1 matching line in 1 file.]"
    (bench.ws / "bin").write_bytes(b"y\0")
    assert (
        await bench.call("grep", pattern="y", path="bin")
    ).result == "[bin is a binary file, and it matches.]"


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("glob", {"pattern": "../*"}, "relative to the searched folder"),
        ("glob", {"pattern": "*", "path": "none"}, "does not exist"),
        ("glob", {"pattern": "*", "path": "file"}, "no folder"),
        ("glob", {"pattern": "*", "path": "~/x"}, "absolute path"),
        ("grep", {"pattern": "(a"}, "unclosed group"),
        ("grep", {"pattern": "a", "path": "none"}, "does not exist"),
        ("grep", {"pattern": "a", "path": "fifo"}, "no folder"),
        ("grep", {"pattern": "a", "include": "/x"}, "relative to the searched folder"),
        ("grep", {"pattern": "a", "exclude": "!x"}, "relative to the searched folder"),
    ],
)
async def test_what_cannot_be_searched_is_a_tool_error(bench, tool, arguments, words):
    put(bench.ws, {"file": ""})
    os.mkfifo(bench.ws / "fifo")
    with pytest.raises(ToolError, match=words):
        await bench.call(tool, **arguments)


async def test_without_ripgrep_the_call_says_so(tmp_path):
    bench = Bench(tmp_path.resolve(), find_ripgrep=lambda: None)
    for tool in ("glob", "grep"):
        with pytest.raises(ToolError, match="needs ripgrep"):
            await bench.call(tool, pattern="x")


async def test_hidden_paths_below_a_searched_folder_are_left_out(tmp_path):
    root = tmp_path.resolve()
    bench = Bench(root, home=str(root / "ws"))
    put(
        bench.ws,
        {".ssh/id": "needle\n", ".bash_history": "needle\n", "a": "needle\n", ".git/config": "needle\n"},
    )
    assert (await bench.call("glob", pattern="**")).raw_output["files"] == 1
    assert (await bench.call("grep", pattern="needle")).raw_output == {
        "matches": 1,
        "files": 1,
        "truncated": False,
    }
