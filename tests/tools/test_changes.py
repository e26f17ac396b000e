"""What a call says beforehand about the files that it will change: the SHA-256 of the very bytes that lie on
the disk before and after, of every path that it touches and of no other; and nothing where nobody can know
them.

Real tools on real files: each call is prepared, the files are hashed, it is run, and they are hashed again.
"""

import codecs
import hashlib

import pytest

from term2_acp.domain.toolcall import FileDigests
from tests.kit.editor_files import EditorWithFiles
from tests.kit.tools import Bench


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path.resolve())


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def on_disk(bench):
    """The digest of every file below the bench's root, by its path. Links are no files."""
    files = [path for path in bench.root.rglob("*") if path.is_file() and not path.is_symlink()]
    return {str(path): sha256(path.read_bytes()) for path in files}


async def made(bench, name, **arguments):
    """Make a call; what it said it would change, which is what did change, by the names of the files."""
    before = on_disk(bench)
    prepared = await bench.prepare(name, **arguments)
    assert on_disk(bench) == before
    await bench.run(name, prepared)
    after = on_disk(bench)
    paths = [change.path for change in prepared.changes]
    assert list(prepared.changes) == [FileDigests(p, before.get(p), after.get(p)) for p in paths]
    assert {p for p in before.keys() | after.keys() if before.get(p) != after.get(p)} == set(paths)
    return {p.removeprefix(f"{bench.root}/"): (before.get(p), after.get(p)) for p in paths}


async def test_a_file_that_is_made(bench):
    found = await made(bench, "create_file", path="new/dir/a.txt", content="é\n")
    assert found == {"ws/new/dir/a.txt": (None, sha256(b"\xc3\xa9\n"))}
    assert await made(bench, "create_file", path="empty", content="") == {"ws/empty": (None, sha256(b""))}


async def test_a_file_that_is_overwritten_keeps_its_mark_and_line_ends_and_so_do_the_digests(bench):
    old = codecs.BOM_UTF16_LE + "one\r\ntwo\r\n".encode("utf-16-le")
    (bench.ws / "a.txt").write_bytes(old)
    await bench.call("read_file", path="a.txt")
    found = await made(bench, "create_file", path="a.txt", content="three\n", overwrite=True)
    new = codecs.BOM_UTF16_LE + "three\r\n".encode("utf-16-le")
    assert found == {"ws/a.txt": (sha256(old), sha256(new))}


async def test_replaced_passages_of_a_file_behind_a_link_outside_the_workspace(bench):
    (bench.root / "real.txt").write_bytes(b"caf\xe9 one\r\n")
    (bench.ws / "link").symlink_to("../real.txt")
    await bench.call("read_file", path="link")
    found = await made(bench, "search_replace", path="link", replacements=[("one", "two")])
    assert found == {"real.txt": (sha256(b"caf\xe9 one\r\n"), sha256(b"caf\xe9 two\r\n"))}


PATCH = """*** Begin Patch
*** Add File: sub/new
+one
*** Update File: a
@@
-two
+2
*** Delete File: gone
*** Update File: old
*** Move to: sub/moved
-x
+y
*** Update File: same
*** Move to: sub/same
*** End Patch
"""


async def test_a_patch_of_every_kind_names_both_ends_of_a_move(bench):
    for name, text in {"a": "two\n", "gone": "bye\n", "old": "x\n", "same": "s\n"}.items():
        (bench.ws / name).write_text(text)
        await bench.call("read_file", path=name)
    found = await made(bench, "apply_patch", patch=PATCH)
    assert found == {
        "ws/sub/new": (None, sha256(b"one\n")),
        "ws/a": (sha256(b"two\n"), sha256(b"2\n")),
        "ws/gone": (sha256(b"bye\n"), None),
        "ws/sub/moved": (None, sha256(b"y\n")),
        "ws/old": (sha256(b"x\n"), None),
        "ws/sub/same": (None, sha256(b"s\n")),
        "ws/same": (sha256(b"s\n"), None),
    }


async def test_calls_that_change_no_files_say_nothing(bench):
    (bench.ws / "a").write_text("one\n")
    entries = [{"content": "Look", "priority": "high", "status": "pending"}]
    for name, arguments in {
        "read_file": {"path": "a"},
        "glob": {"pattern": "*"},
        "grep": {"pattern": "o"},
        "update_plan": {"entries": entries},
        "web_fetch": {"url": "https://example.org/"},
    }.items():
        assert (await bench.prepare(name, **arguments)).changes == (), name


# -- with an editor --------------------------------------------------------------------------------


@pytest.fixture
def at(tmp_path):
    """Makes the bench, with what its editor offers."""
    root = tmp_path.resolve()
    (root / "ws").mkdir()
    return lambda **offers: Bench(root, editor=EditorWithFiles().files(root / "ws", **offers))


async def test_nobody_knows_how_an_editor_saves_what_it_is_told_to_write(at):
    bench = at(reads=True, writes=True)
    (bench.ws / "a").write_text("one\n")
    await bench.call("read_file", path="a")
    replaced = await bench.prepare("search_replace", path="a", replacements=[("one", "two")])
    created = await bench.prepare("create_file", path="b", content="new\n")
    assert (replaced.changes, created.changes) == ((), ())
    assert replaced.preview


async def test_what_an_editor_does_not_write_is_known_to_the_byte(at):
    """A file that is no UTF-8, several files at once, and a file outside the workspace go to the disk."""
    bench = at(reads=True, writes=True)
    (bench.ws / "a").write_bytes(b"caf\xe9\n")
    (bench.ws / "b").write_text("two\n")
    for name in ("a", "b"):
        await bench.call("read_file", path=name)
    found = await made(bench, "search_replace", path="a", replacements=[("caf", "CAF")])
    assert found == {"ws/a": (sha256(b"caf\xe9\n"), sha256(b"CAF\xe9\n"))}
    patch = "*** Begin Patch\n*** Add File: c\n+c\n*** Update File: b\n-two\n+2\n*** End Patch\n"
    assert await made(bench, "apply_patch", patch=patch) == {
        "ws/c": (None, sha256(b"c\n")),
        "ws/b": (sha256(b"two\n"), sha256(b"2\n")),
    }
    outside = str(bench.root / "d")
    assert await made(bench, "create_file", path=outside, content="d\n") == {"d": (None, sha256(b"d\n"))}


async def test_an_editor_that_only_reads_writes_nothing(at):
    bench = at(reads=True, writes=False)
    assert await made(bench, "create_file", path="a", content="a\n") == {"ws/a": (None, sha256(b"a\n"))}
