"""What the embedded model may choose from: each way to say each kind of work gives its whole call, paths are
of real files, commands and texts are copied, and where no work is meant nothing is offered."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.providers.local.choices import (
    CREATE,
    EDIT,
    FIND,
    LIST,
    READ,
    RUN,
    Choice,
    choices,
    is_order,
    mentioned_files,
    unlisted_files,
)
from term2_acp.providers.wire_words import encode
from term2_acp.tools.arguments import decode
from term2_acp.tools.registry import TOOLS

FILES = ("Makefile", "README.md", "docs/guide.md", "lib/text.py", "notes.txt", "src/text.py", "src/main.py")
ALL = frozenset({READ, LIST, FIND, RUN, CREATE, EDIT})


def offered(text: str, read: tuple[str, ...] = ()) -> dict[str, tuple[str, Any]]:
    return {c.line: (c.tool, c.arguments) for c in choices(text, FILES, ALL, read)}


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("Read README.md.", ("README.md",)),
        ("What is in src/app.py, and in `my notes.txt`?", ("src/app.py", "my notes.txt")),
        ('Compare "a.c" (old) with ./b.c!', ("a.c", "./b.c")),
        ("see /etc/hosts and ../up.txt and ~/x", ("/etc/hosts", "../up.txt", "~/x")),
        ('Read " a b.txt " please', ("a b.txt",)),
        ("Explain the Makefile", ("Makefile",)),
        ("a.py a.py a.py", ("a.py",)),
        (".gitignore", (".gitignore",)),
        ("Hello. How are you?", ()),
        ("It is 3.5 or 1/2, e.g. and/or i.e. so...", ()),
        ("see https://example.org/a.html and www.example.org or me@example.org", ()),
        ("x" * 300 + ".py", ()),
        ("/ . .. ./ ~", ()),
    ],
)
def test_words_that_are_files(text: str, files: tuple[str, ...]) -> None:
    assert mentioned_files(text) == files


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("Read notes.txt", ["cat notes.txt"]),
        ("Read ./notes.txt and main.py", ["cat notes.txt", "cat src/main.py"]),
        ("what does text.py do?", ["cat lib/text.py", "cat src/text.py"]),
        ("Summarise the readme", ["cat README.md"]),
        ("Read /etc/passwd and ../up.txt and nothing.txt", []),
        ("List the files", ["ls ."]),
        ("What is in docs?", ["ls docs"]),
        ("Read notes.txt and list the files", ["cat notes.txt"]),
        ("Hello", []),
        ("How do I list files?", []),
        ("Don't run rm -rf build.", []),
        ("Please never read notes.txt", []),
        ("Run the tests", []),
        ("I had to run rm -rf build yesterday.", []),
        ("Will it run on Windows?", []),
        ("They execute make test every night.", []),
        ("Run on the spot", []),
        ("can you please " * 40 + "x notes.txt", ["cat notes.txt"]),
    ],
)
def test_lines(text: str, lines: list[str]) -> None:
    assert list(offered(text)) == lines


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("Run make test", "make test"),
        ("Can you run make build?", "make build"),
        ("Hi! Run make build", "make build"),
        ("Read notes.txt\n  and run make build", "make build"),
        ("Let's run make build", "make build"),
        ("I want you to run make build", "make build"),
        ("Please run `git log -1 | cat` and tell me what it says.", "git log -1 | cat"),
        ('execute "echo hi."', "echo hi."),
        ("run pytest -q, then read notes.txt", "pytest -q"),
        ("run ls -l ../x.", "ls -l ../x"),
    ],
)
def test_a_command_is_copied(text: str, command: str) -> None:
    assert offered(text)[f"run {command}"] == (RUN, {"command": command})


def test_a_text_is_looked_for() -> None:
    assert offered('search for "a b"') == {"find a b": (FIND, {"pattern": "a b", "fixed_strings": True})}
    assert list(offered("Where is parse_args used in the code?")) == ["find parse_args"]


def test_a_file_is_made_of_quoted_words() -> None:
    arguments = {"path": "new/todo.txt", "content": "buy milk\n"}
    assert offered('Create new/todo.txt with "buy milk"') == {"write new/todo.txt": (CREATE, arguments)}
    assert offered('Create ../todo.txt with "buy milk"') == {}
    assert offered('Create notes.txt with "buy milk"') == {"cat notes.txt": (READ, {"path": "notes.txt"})}
    assert offered("Create todo.txt with a list") == {}


def test_an_edit_reads_first() -> None:
    text = 'Replace "tea" with "coffee" in notes.txt.'
    assert offered(text) == {"edit notes.txt": (READ, {"path": "notes.txt"})}
    replacement = {"search_content": "tea", "replace_content": "coffee"}
    arguments = {"path": "notes.txt", "replacements": [replacement]}
    assert offered(text, ("notes.txt",)) == {"edit notes.txt": (EDIT, arguments)}


def test_tools_that_there_are_not_are_not_offered() -> None:
    assert choices("Run make and read notes.txt", FILES, {READ}) == (
        Choice("cat notes.txt", READ, {"path": "notes.txt"}),
    )


@pytest.mark.parametrize("piece", ["run x ", "a.b ", "\n", '"a" ', "can you please ", "list notes.txt "])
def test_a_long_prompt_offers_nothing_and_takes_no_time(piece: str) -> None:
    """What is that long carries a text with it; and all sessions wait while it is read apart."""
    began = time.process_time()
    for text in (piece * 100_000, f"Read notes.txt {piece * 100_000}"):
        assert choices(text, FILES, ALL) == ()
        assert mentioned_files(text) == ()
    within = f"{piece * 4000}"[:3980]
    choices(f"Read {within}", FILES, ALL)
    is_order(f"{within} notes.txt")
    assert time.process_time() - began < 2


@pytest.mark.parametrize("name", ["a\nb", "a\0b", "a\ud800b", "a\tb", "deep/" * 60, "é" * 150])
def test_a_name_that_cannot_be_written_as_a_line_is_not_offered(name: str) -> None:
    """Found by its last part, a path can have anything before that in it."""
    assert choices("Read x.txt", [f"{name}/x.txt"], ALL) == ()
    assert choices("Read the readme", [f"README.{name}"], ALL) == ()


def test_files_that_are_not_there() -> None:
    assert unlisted_files("Compare notes.txt with other.txt", FILES) == ("other.txt",)


@pytest.mark.parametrize("text", ["Read a", "please run x", "Could you please open a?", "Now list it"])
def test_orders(text: str) -> None:
    assert is_order(text)


@pytest.mark.parametrize("text", ["What is a?", "I read a", "Reading is fun", "", "You should run x"])
def test_what_is_no_order(text: str) -> None:
    assert not is_order(text)


words = st.one_of(
    st.sampled_from(
        [*FILES, "run", "list", "find", "replace", "create", "with", '"a b"', "`c`", "in", "src"]
    ),
    st.text(max_size=8),
)


@given(st.lists(words, max_size=12).map(" ".join), st.sampled_from([(), ("notes.txt",)]))
def test_every_call_is_valid_and_of_real_files(text: str, read: tuple[str, ...]) -> None:
    found = choices(text, FILES, ALL, read)
    assert len({choice.line for choice in found}) == len(found) <= 8
    for choice in found:
        assert "\n" not in choice.line
        decode(TOOLS[choice.tool], encode(dict(choice.arguments)).decode())  # raises for what is not valid
        if choice.tool in {READ, EDIT}:
            assert choice.arguments["path"] in FILES
        if choice.tool == RUN:
            assert choice.arguments["command"] in text
