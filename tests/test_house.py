"""The house rules, as far as a machine can see them.

Import contracts (floors, forbidden libraries) are import-linter's and lint is ruff's; here stands what
neither can say: how large things may get, what the tracked tree may hold, that importing runs nothing, that
there is one table of codes, and that the documents tell what the code does.
"""

import ast
import configparser
import functools
import importlib
import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import LONG

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "term2_acp"

MODULE_LINES = 320
FUNCTION_LINES = 60
CLASS_LINES = 250
CLASS_METHODS = 20

SOURCES = sorted([*PACKAGE.rglob("*.py"), *(ROOT / "scripts").rglob("*.py")])
MODULES = [path for path in SOURCES if PACKAGE in path.parents]

Function = ast.FunctionDef | ast.AsyncFunctionDef


@functools.cache
def tree_of(path):
    """Parsed when a test looks at it: every worker imports this file, and one of them runs it."""
    return ast.parse(path.read_text(), str(path))


@functools.cache
def nodes_of(path):
    """All nodes of a file, looked for once: the walk takes longer than what most rules do with it."""
    return list(ast.walk(tree_of(path)))


def name_of(path):
    """The place as a person writes it: a path from the root of the repository."""
    return str(path.relative_to(ROOT))


@functools.cache
def module_of(path):
    """The dotted name of a module of the package."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def nodes(kind, paths=SOURCES) -> Iterator[tuple[Path, ast.AST]]:
    return ((path, node) for path in paths for node in nodes_of(path) if isinstance(node, kind))


def length(node):
    """Lines from the first decorator to the end."""
    first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
    return node.end_lineno - first + 1


def tracked_files():
    """Every file that git tracks or would take; the whole tree is the project in an unpacked archive."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a git repository: nothing says which files are tracked")
    return [ROOT / name for name in sorted(filter(None, listed.stdout.split("\0"))) if (ROOT / name).exists()]


# -- sizes -----------------------------------------------------------------------------------------


def test_modules_are_short():
    lines = {name_of(path): len(path.read_text().splitlines()) for path in SOURCES}
    assert {name: count for name, count in lines.items() if count > MODULE_LINES} == {}


def test_functions_are_short():
    long = {
        f"{name_of(path)}:{node.name}": length(node)
        for path, node in nodes(Function)
        if length(node) > FUNCTION_LINES
    }
    assert long == {}


def test_classes_are_small():
    large = {}
    for path, node in nodes(ast.ClassDef):
        methods = sum(isinstance(item, Function) for item in node.body)
        if length(node) > CLASS_LINES or methods > CLASS_METHODS:
            large[f"{name_of(path)}:{node.name}"] = f"{length(node)} lines, {methods} methods"
    assert large == {}


# -- words -----------------------------------------------------------------------------------------


def test_modules_and_what_they_offer_are_described():
    silent = [name_of(path) for path in SOURCES if not ast.get_docstring(tree_of(path))]
    for path in MODULES:
        for node in tree_of(path).body:
            public = isinstance(node, ast.ClassDef | Function) and not node.name.startswith("_")
            if public and not ast.get_docstring(node):
                silent.append(f"{name_of(path)}:{node.name}")
    assert silent == []


def test_rooms_and_modules_have_names_that_say_something():
    vague = {"util", "utils", "helper", "helpers", "common", "manager", "service", "misc"}
    assert [name_of(path) for path in SOURCES if vague & {path.stem, path.parent.name}] == []


# -- the tree --------------------------------------------------------------------------------------


def test_the_top_level_holds_what_it_should_and_nothing_else():
    allowed = {
        ".ci", ".gitignore", "CHANGELOG.md", "LICENSE", "Makefile", "README.md", "docs", "pyproject.toml",
        "requirements.lock", "scripts", "setup.cfg", "term2_acp", "tests",
    }  # fmt: skip
    found = {path.relative_to(ROOT).parts[0] for path in tracked_files()}
    assert found - allowed == set()
    assert allowed - found == set()


def test_no_room_is_empty():
    empty = []
    for folder in sorted({PACKAGE, *(path.parent for path in MODULES)}):
        modules = [path for path in MODULES if path.parent == folder]
        code = [
            node
            for path in modules
            for node in tree_of(path).body
            if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        ]
        if not code or folder / "__init__.py" not in modules:
            empty.append(name_of(folder))
    assert empty == []


def test_every_room_has_its_floor():
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / "setup.cfg")
    floors = contracts["importlinter:contract:floors"]
    named = set(re.findall(r"\w+", floors["layers"]))
    rooms = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    rooms |= {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    assert rooms - named == set()
    assert floors["exhaustive"] == "True"


def test_no_file_names_this_machine_or_a_package_index():
    # Pieced together, so that this file does not find itself.
    index = ["py" + "pi.org", "python" + "hosted.org", "npm" + "js.org", "index" + "-url", "--" + "registry"]
    places = {str(place) for place in (ROOT, ROOT.parent, Path.home())} - {"/", "/tmp", "/home"}
    bad = re.compile(
        "|".join([rf"(?<![\w./]){re.escape(p)}/" for p in places] + [re.escape(i) for i in index])
    )
    found = []
    for path in tracked_files():
        text = path.read_bytes().decode(errors="replace")
        if not any(word in text for word in (*places, *index)):
            continue  # which is seen much sooner than what the words are part of
        found += [f"{name_of(path)}: {match[0]}" for match in bad.finditer(text)]
    assert found == []


def test_every_command_of_the_makefile_is_in_its_help():
    text = (ROOT / "Makefile").read_text()
    phony = set(re.search(r"^\.PHONY:(.*)$", text, re.MULTILINE)[1].split())
    targets = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
    helped = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    shown = set(re.findall(r"^ +make ([a-z-]+) ", helped, re.MULTILINE))
    assert targets == phony
    assert shown == targets


# -- the code --------------------------------------------------------------------------------------


def test_nothing_but_the_command_line_prints():
    printing = [
        f"{name_of(path)}:{node.lineno}"
        for path, node in nodes(ast.Call, MODULES)
        if isinstance(node.func, ast.Name) and node.func.id == "print" and path.parent.name != "cli"
    ]
    assert printing == []


def test_there_is_one_table_of_codes():
    table = PACKAGE / "jsonrpc" / "errors.py"
    strays = [
        f"{name_of(path)}:{node.lineno}"
        for path, node in nodes(ast.UnaryOp, MODULES)
        if isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
        and isinstance(node.operand.value, int)
        and 32000 <= node.operand.value <= 32899
        and path != table
    ]
    assert strays == []


def imports_of(path):
    """The modules of the package that this one imports, anywhere in it, except for types alone."""
    known = {module_of(each) for each in MODULES}
    package = module_of(path) if path.name == "__init__.py" else module_of(path).rpartition(".")[0]
    for_types = {
        id(inner)
        for node in nodes_of(path)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    for node in nodes_of(path):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*above, *filter(None, [node.module])])
            inner = [f"{module}.{alias.name}" for alias in node.names]
            yield from (name for name in inner if name in known)
            if module in known and any(name not in known for name in inner):
                yield module


def test_no_module_imports_itself_in_a_circle():
    graph = {module_of(path): set(imports_of(path)) for path in MODULES}
    # What remains when modules without an import of a remaining one are taken away is circles, and
    # what leads to them; the same from the other end leaves the circles.
    for _ in range(2):
        while free := {module for module, imported in graph.items() if not imported & graph.keys()}:
            graph = {module: imported for module, imported in graph.items() if module not in free}
        turned: dict[str, set[str]] = {module: set() for module in graph}
        for module, imported in graph.items():
            for each in imported & graph.keys():
                turned[each].add(module)
        graph = turned
    assert graph == {}


def test_classes_are_made_in_the_house_s_way():
    """What attrs' own decorators make costs an editor twice as long: they are where no domain is known."""
    knows_no_domain = ("web", "process", "transport", "redact", "jsonrpc")
    paths = [path for path in MODULES if path.relative_to(PACKAGE).parts[0] not in knows_no_domain]
    names = {"define", "frozen", "mutable"}
    theirs = {
        name_of(path)
        for path, node in nodes(ast.ImportFrom, paths)
        if node.module == "attrs" and not names.isdisjoint(alias.name for alias in node.names)
    } | {
        name_of(path)
        for path, node in nodes(ast.Attribute, paths)
        if isinstance(node.value, ast.Name) and node.value.id == "attrs" and node.attr in names
    }
    assert theirs == {"term2_acp/domain/classes.py"}


_IMPORT_ALL = """
import importlib, os, signal, sys, threading
names, report = sys.argv[1:-1], sys.argv[-1]
import logging
before = os.environ.copy(), sys.path[:], [signal.getsignal(s) for s in (2, 15)], os.getcwd()
for name in names:
    importlib.import_module(name)
after = os.environ.copy(), sys.path[:], [signal.getsignal(s) for s in (2, 15)], os.getcwd()
changed = []
if before != after:
    changed.append("environment, path, signal handlers or folder")
if threading.active_count() != 1:
    changed.append(f"threads: {threading.enumerate()}")
if logging.getLogger().handlers or logging.getLogger("term2_acp").handlers:
    changed.append("log handlers")
with open(report, "w") as file:
    file.write(repr(changed))
"""


def test_importing_runs_nothing(tmp_path):
    """Every module, in one process that has no standard output and a home with nothing in it."""
    home = tmp_path / "home"
    home.mkdir()
    report = tmp_path / "report"
    python = [sys.executable, "-B", "-W", "error", "-c", _IMPORT_ALL]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *python, *map(module_of, MODULES), str(report)],
        cwd=home,
        env={"HOME": str(home), "PATH": os.defpath, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert report.read_text() == "[]"
    assert list(home.iterdir()) == []


# -- the documents ---------------------------------------------------------------------------------


def documented_methods(page):
    """The page has one table headed ``method | kind``, a method a row: the name, the kind and the words."""
    lines = (ROOT / "docs" / page).read_text().splitlines()
    heads = [number for number, line in enumerate(lines) if re.match(r"\| *method *\| *kind *\|", line)]
    assert len(heads) == 1
    rows = itertools.takewhile(lambda line: line.startswith("|"), lines[heads[0] + 2 :])
    return [tuple(cell.strip(" `") for cell in row.split("|")[1:4]) for row in rows]


@pytest.mark.parametrize(("page", "version"), [("PROTOCOL.md", "v2"), ("PROTOCOL_V1.md", "v1")])
def test_the_methods_handled_are_the_methods_documented(page, version):
    door = importlib.import_module(f"term2_acp.acp.{version}.handlers")
    handled = [(method, "request") for method in door.METHODS]
    handled += [(name, "notification") for name in door.NOTIFICATIONS]
    # What is served before there is a version, and the one notification that is JSON-RPC's own.
    handled += [("initialize", "request"), ("$/cancel_request", "notification")]
    assert Counter((method, kind) for method, kind, _words in documented_methods(page)) == Counter(handled)


@pytest.mark.parametrize("page", ["PROTOCOL.md", "PROTOCOL_V1.md"])
def test_the_commands_and_modes_there_are_are_documented(page):
    from term2_acp.domain.options import Mode, OptionId
    from term2_acp.session.commands import COMMANDS

    text = (ROOT / "docs" / page).read_text()
    documented = re.findall(r"^\| `/(\w+)[ `]", text, re.MULTILINE)
    assert documented == [command.name for command in COMMANDS]
    assert [word for word in (*Mode, *OptionId) if f"`{word}`" not in text] == []


def test_the_methods_of_the_full_profile_are_documented_as_such():
    from term2_acp.acp.v2.capabilities import BASELINE, FULL
    from term2_acp.acp.v2.handlers import served

    said = {
        method for method, _, words in documented_methods("PROTOCOL.md") if words.startswith("Profile `full`")
    }
    assert said == served(FULL).keys() - served(BASELINE).keys()


def test_the_files_that_are_run_first_are_there():
    assert [name for name in LONG if not (ROOT / name).is_file()] == []
