"""Listing and searching with the real ripgrep: what is left out, the bounds, and that a cancel ends it."""

import os
import resource
import sys
import time

import pytest
import trio

from term2_acp.workspace import (
    FileContent,
    FileRefused,
    Hit,
    Missing,
    NotRegular,
    PathChanged,
    PatternRefused,
    Query,
    Workspace,
    compile_pattern,
)
from term2_acp.workspace import ripgrep as ripgrep_module
from term2_acp.workspace.ripgrep import Splitter
from tests.kit.until import until


@pytest.fixture
def root(tmp_path):
    path = tmp_path.resolve()
    (path / "ws").mkdir()
    return path


@pytest.fixture
def ws(root):
    return root / "ws"


@pytest.fixture
def files(root):
    return Workspace(str(root / "ws"), home=str(root / "home"))


def put(folder, **texts):
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


async def listed(files, pattern="**", path=".", limit=1000):
    return await files.list_files(files.resolve(path), pattern, limit)


async def found(files, query, path=".", limit=100, *, one_file=False):
    query = Query(query) if isinstance(query, str) else query
    return await files.search(files.resolve(path), query, limit, one_file=one_file)


def hits(result):
    return [(hit.path, hit.line, hit.text) for hit in result.hits]


def children():
    """Our living children, by their command lines."""
    mine = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as stat, open(f"/proc/{pid}/cmdline", "rb") as line:
                if int(stat.read().rsplit(")", 1)[1].split()[1]) == os.getpid():
                    mine.append(line.read())
        except (OSError, ValueError):
            continue
    return mine


def searches():
    return [line for line in children() if b"--field-match-separator" in line]


def write_long_line(path):
    with open(path, "wb") as file:
        for _ in range(30):
            file.write(b"x" * 1_000_000)
        file.write("needle é".encode() * 1000)


async def test_files_are_listed_in_order(files, ws):
    put(
        ws,
        b_dot_py="",
        a__z_dot_py="",
        a__b__c_dot_py="",
        a_dot_txt="",
        _dot_hidden="",
        _dot_github__x_dot_yml="",
    )
    result = await listed(files)
    assert result.paths == (".github/x.yml", ".hidden", "a/b/c.py", "a/z.py", "a.txt", "b.py")
    assert not result.truncated
    assert not result.unreadable
    assert (await listed(files, "*.py")).paths == ("a/b/c.py", "a/z.py", "b.py")
    assert (await listed(files, "a/*.py")).paths == ("a/z.py",)
    assert (await listed(files, "*.py", path="a")).paths == ("b/c.py", "z.py")


async def test_ignore_files_are_honoured_without_git_and_whatever_the_pattern(files, ws):
    put(ws, _dot_gitignore="node_modules\n*.log\n", a_dot_log="", a_dot_py="", node_modules__x_dot_py="")
    for pattern in ("**/*", "*.py", "*.log", "node_modules/**"):
        paths = (await listed(files, pattern)).paths
        assert not [path for path in paths if "node_modules" in path or path.endswith(".log")]
    assert (await listed(files, path="node_modules")).paths == ("x.py",)


async def test_git_and_hidden_paths_are_left_out(root):
    home = root / "home"
    put(
        home,
        _dot_git__config="",
        _dot_ssh__id="",
        _dot_config__gcloud__key="",
        _dot_config__other="",
        _dot_netrc="",
    )
    put(home, project__a="", state__db="", **{"sp [x]__db": ""})
    own = (str(home / "state"), str(home / "sp [x]"))
    files = Workspace(str(home), home=str(home), own_paths=own)
    assert (await listed(files)).paths == (".config/other", "project/a")
    assert not (await found(files, "")).unreadable
    above = Workspace(str(root / "home/project"), home=str(home), own_paths=own)
    assert (await listed(above, path=str(root))).paths == ("home/.config/other", "home/project/a")
    # Whoever is allowed to look into a hidden folder itself sees what is in it.
    assert (await listed(files, path=".ssh")).paths == ("id",)


@pytest.mark.parametrize("name", ["state ", "state\t", " state", "st ate", "state\n", "#state", "!state"])
async def test_a_hidden_path_is_left_out_whatever_its_name(root, ws, name):
    put(ws, **{f"{name}__db": "key", "other": "key"})
    files = Workspace(str(ws), home=None, own_paths=(str(ws / name),))
    assert (await listed(files)).paths == ("other",)
    assert hits(await found(files, "key")) == [("other", 1, "key")]


async def test_what_an_edit_has_staged_is_not_found(files, ws):
    put(ws, a="old")
    target = files.resolve("a")
    old = await files.load(target)
    with await files.stage(target, FileContent.of(b"new"), old):
        assert len(os.listdir(ws)) == 2
        # Another session that works in the same folder.
        other = Workspace(str(ws), home=None)
        assert (await listed(other)).paths == ("a",)
        assert hits(await found(other, "new|old")) == [("a", 1, "old")]


async def test_what_a_hidden_link_leads_to_is_left_out(root):
    home = root / "home"
    put(home, dotfiles__ssh__id="key", dotfiles__vimrc="key")
    (home / ".ssh").symlink_to("dotfiles/ssh")
    files = Workspace(str(home), home=str(home))
    assert (await listed(files)).paths == ("dotfiles/vimrc",)
    assert hits(await found(files, "key")) == [("dotfiles/vimrc", 1, "key")]


async def test_links_are_not_followed(files, root, ws):
    put(root, outside__f="needle")
    put(ws, a__f="needle")
    (ws / "a/loop").symlink_to("..")
    (ws / "out").symlink_to(root / "outside")
    (ws / "file").symlink_to(root / "outside/f")
    assert (await listed(files)).paths == ("a/f",)
    assert hits(await found(files, "needle")) == [("a/f", 1, "needle")]


async def test_a_long_list_is_cut_and_says_so(files, ws):
    for number in range(30):
        put(ws, **{f"f{number:02}": "needle\n" * 2})
    result = await listed(files, limit=10)
    assert (result.paths, result.truncated) == (tuple(f"f{number:02}" for number in range(10)), True)
    assert not (await listed(files, limit=30)).truncated
    cut = await found(files, "needle", limit=5)
    assert (len(cut.hits), cut.truncated) == (5, True)
    assert not (await found(files, "needle", limit=60)).truncated


async def test_a_search_finds_lines(files, ws):
    put(ws, a="one\nTwo two\n", b__c="two\r\n", d="t.o")
    assert hits(await found(files, "two")) == [("a", 2, "Two two"), ("b/c", 1, "two")]
    assert hits(await found(files, "^t.o$")) == [("b/c", 1, "two"), ("d", 1, "t.o")]
    assert hits(await found(files, Query("t.o", fixed_strings=True))) == [("d", 1, "t.o")]
    assert len((await found(files, Query("TWO", ignore_case=True))).hits) == 2
    assert hits(await found(files, "nothing")) == []


async def test_include_and_exclude(files, ws):
    put(
        ws,
        _dot_gitignore="*.log",
        a_dot_py="x",
        a_dot_log="x",
        src__b_dot_py="x",
        src__gen__c_dot_py="x",
        d_dot_c="x",
    )

    async def paths(**how):
        if "include" in how:
            how["include"] = compile_pattern(how["include"])
        return [hit.path for hit in (await found(files, Query("x", **how))).hits]

    assert await paths(include="*.py") == ["a.py", "src/b.py", "src/gen/c.py"]
    assert await paths(include="*.{c,py}", exclude="src") == ["a.py", "d.c"]
    assert await paths(include="src/*.py") == ["src/b.py"]
    assert await paths(include="src/**", exclude="gen") == ["src/b.py"]
    assert await paths(include="*.log") == []
    assert await paths(include="[ab].py") == ["a.py", "src/b.py"]
    assert await paths(exclude="*.py") == ["d.c"]


async def test_odd_names_and_patterns_are_safe(files, ws):
    put(ws, **{"-x": "-e\n", "a\nb": "nl\n", "é ü": "--\n", "a:1:b": "nl\n"})
    assert hits(await found(files, "-e")) == [("-x", 1, "-e")]
    assert hits(await found(files, "--")) == [("é ü", 1, "--")]
    assert hits(await found(files, "nl")) == [("a\nb", 1, "nl"), ("a:1:b", 1, "nl")]
    assert hits(await found(files, "e", path="-x", one_file=True)) == [("<stdin>", 1, "-e")]


async def test_names_that_are_not_utf8_are_counted(files, ws):
    put(ws, a="")
    os.mknod(os.fsencode(ws) + b"/\xff")
    result = await listed(files)
    assert (result.paths, result.unprintable) == (("a",), 1)


async def test_a_configuration_file_is_not_read(files, root, ws, monkeypatch):
    put(root, rc="--invert-match\n--follow\n")
    put(ws, a="one\ntwo\n")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(root / "rc"))
    assert hits(await found(files, "one")) == [("a", 1, "one")]


async def test_one_file_is_searched_through_its_descriptor(files, root, ws):
    put(ws, a="one\ntwo\n", _dot_gitignore="a")
    assert hits(await found(files, "two", path="a", one_file=True)) == [("<stdin>", 2, "two")]
    (ws / "bin").write_bytes(b"needle\0")
    result = await found(files, "needle", path="bin", one_file=True)
    assert (result.hits, result.binary) == ((), True)
    with pytest.raises(Missing):
        await found(files, "x", path="none", one_file=True)
    os.mkfifo(ws / "fifo")
    with trio.fail_after(5), pytest.raises(NotRegular):
        await found(files, "x", path="fifo", one_file=True)
    with trio.fail_after(5):
        assert hits(await found(files, "needle")) == []


async def test_a_file_that_became_a_folder_is_not_searched_as_one(files, ws):
    put(ws, a="needle")
    target = files.resolve("a")
    (ws / "a").unlink()
    put(ws, a__secret="needle")
    with pytest.raises(NotRegular):
        await files.search(target, Query("needle"), 10, one_file=True)


async def test_what_is_no_folder_is_not_listed(files, root, ws):
    put(ws, a="")
    (root / "outside").mkdir()
    (ws / "sub").mkdir()
    with pytest.raises(NotRegular, match="no folder"):
        await listed(files, path="a")
    with pytest.raises(Missing):
        await listed(files, path="none")
    target = files.resolve("sub")
    (ws / "sub").rmdir()
    (ws / "sub").symlink_to(root / "outside")
    with pytest.raises(PathChanged):
        await files.list_files(target, "*", 10)


async def test_the_folder_that_was_opened_is_searched_whatever_its_name_means_now(files, root, ws):
    put(ws, sub__f="mine")
    put(root, outside__f="theirs")
    where = files.resolve("sub")
    with files._searching._folder(where, {}) as ground:
        (ws / "sub").rename(ws / "aside")
        (ws / "sub").symlink_to(root / "outside")
        result = await ripgrep_module.search(ripgrep_module.find(), ground, Query("mine|theirs"), 10)
    assert [hit.text for hit in result.hits] == ["mine"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(a", "unclosed group"),
        ("a\nb", "not allowed"),
        ("a\0", "NUL"),
        ("x" * 10_001, "10,000"),
        ("(?:a{999}){999}", "exceeds"),
    ],
)
async def test_a_bad_pattern_is_refused_in_ripgreps_words(files, pattern, words):
    with pytest.raises(PatternRefused, match=words):
        await found(files, pattern)


async def test_without_ripgrep_the_search_fails_and_says_so(root):
    files = Workspace(str(root / "ws"), home=None, find_ripgrep=lambda: None)
    for search in (listed(files), found(files, "x")):
        with pytest.raises(FileRefused, match="needs ripgrep"):
            await search


def test_ripgrep_is_found_beside_this_python_and_never_along_a_search_path(monkeypatch, tmp_path):
    """A search path leads through projects, where a command could leave a program for us to start."""
    monkeypatch.setenv("PATH", "")
    assert os.access(ripgrep_module.find(), os.X_OK)
    (tmp_path / "rg").write_text("")
    (tmp_path / "rg").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sysconfig.get_path", lambda _: "/nowhere")
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    monkeypatch.setenv("PATH", os.pathsep.join([".", str(tmp_path)]))
    assert ripgrep_module.find(()) is None
    assert ripgrep_module.find() != str(tmp_path / "rg")
    assert ripgrep_module.find((str(tmp_path),)) == str(tmp_path / "rg")


async def test_a_pattern_that_blows_up_elsewhere_takes_no_time(files, ws):
    put(ws, a="a" * 100_000 + "!\n")
    began = time.monotonic()
    assert hits(await found(files, "(a+)+$")) == []
    assert time.monotonic() - began < 5


async def test_a_huge_line_is_cut_before_it_reaches_us(files, ws):
    write_long_line(ws / "big")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = await found(files, "needle")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 8 * 1024
    (hit,) = result.hits
    assert hit.text.startswith("xxx")
    assert hit.text.endswith("[... omitted end of long line]")
    assert len(hit.text) < ripgrep_module.MAX_LINE_BYTES + 50


@pytest.mark.skipif(sys.platform != "linux", reason="the bound is set by the stub that Linux needs")
async def test_a_line_that_would_take_all_memory_fails_the_search(files, ws, monkeypatch):
    monkeypatch.setattr(ripgrep_module, "MAX_MEMORY", 64 * 1024 * 1024)
    put(ws, a="needle")
    with (ws / "line").open("wb") as file:
        for _ in range(128):
            file.write(b"x" * 1024 * 1024)
    with pytest.raises(FileRefused, match="67,108,864 bytes of memory"):
        await found(files, "needle")
    (ws / "line").unlink()
    assert hits(await found(files, "needle")) == [("a", 1, "needle")]


async def test_a_binary_file_in_a_folder_stops_nothing(files, ws):
    put(ws, z="needle\n")
    (ws / "a").write_bytes(b"needle early\n" + b"x\n" * 200_000 + b"\0\nneedle late\n")
    assert hits(await found(files, "needle")) == [("a", 1, "needle early"), ("z", 1, "needle")]


async def test_utf16_and_undecodable_text_are_searched(files, ws):
    (ws / "u16").write_bytes("needle é\n".encode("utf-16"))
    (ws / "bad").write_bytes(b"needle \xff\n")
    assert hits(await found(files, "needle")) == [("bad", 1, "needle \ufffd"), ("u16", 1, "needle é")]


@pytest.mark.skipif(os.getuid() == 0, reason="root can read everything")
async def test_unreadable_folders_are_told(files, ws):
    put(ws, a__f="needle", b="needle")
    (ws / "a").chmod(0)
    try:
        result = await found(files, "needle")
    finally:
        (ws / "a").chmod(0o755)
    assert (hits(result), result.unreadable) == ([("b", 1, "needle")], True)


async def test_a_cancel_kills_the_search_within_a_second(files, ws):
    """A FIFO as the one file that is searched cannot end, so the search hangs until it is killed."""
    reader, writer = os.pipe()
    try:
        with files._searching._folder(files.resolve("."), {}) as ground:
            endless = ripgrep_module.Ground(ground.descriptor, ground.path, file=reader)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(ripgrep_module.search, ripgrep_module.find(), endless, Query("x"), 10)
                await until(searches)
                began = time.monotonic()
                nursery.cancel_scope.cancel()
        assert time.monotonic() - began < 1
        assert not searches()
    finally:
        os.close(reader)
        os.close(writer)


def test_output_is_taken_apart_wherever_it_is_split():
    output = (
        b"a\0001\0one\n"
        b'b: WARNING: stopped searching binary file after match (found "\\0" byte around offset 7)\n'
        b"./c\nd\00012\0t\xc3\xa9\r\n"
        b'<stdin>: binary file matches (found "\\0" byte around offset 6)\n'
    )
    expected = [Hit("a", 1, "one"), Hit("c\nd", 12, "té")]
    for size in (1, 2, 7, 1000):
        splitter = Splitter()
        got = []
        for at in range(0, len(output), size):
            got += splitter.feed(output[at : at + size])
        assert got == expected
        assert splitter.binary


def test_output_without_an_end_is_not_kept():
    splitter = Splitter()
    with pytest.raises(FileRefused):
        list(splitter.feed(b"x" * 100_000))
