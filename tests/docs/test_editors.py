"""The pages for editors: every snippet parses as what it says it is and launches ``term2 acp``, every page
has what it promises, no link leads nowhere, and the manifest has the shape that the registry of agents takes.
"""

import json
import re
import shlex
import tomllib
from pathlib import Path

import jsonschema_rs
import pytest

import term2_acp
from term2_acp.config import toml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "docs" / "editors"
INDEX = FOLDER / "README.md"
PAGES = sorted(set(FOLDER.glob("*.md")) - {INDEX})
COMMAND = ["term2", "acp"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def snippets(page):
    return _FENCE.findall(page.read_text())


def balanced(text, *, comment, quotes):
    """Whether every bracket of a program outside of strings and comments has its other half."""
    expected, place = [], 0
    while place < len(text):
        rest, char = text[place:], text[place]
        if rest.startswith(comment):
            place += len(rest.partition("\n")[0])
            continue
        if char in quotes:
            string = re.match(rf"{char}(?:\\.|[^{char}\\])*{char}", rest, re.DOTALL)
            if string is None:
                return False
            place += string.end()
            continue
        if char in _CLOSING:
            expected.append(_CLOSING[char])
        elif char in _CLOSING.values() and (not expected or expected.pop() != char):
            return False
        place += 1
    return not expected


def entries(value):
    """Every object in a JSON document that launches something."""
    if isinstance(value, dict):
        if "command" in value:
            yield value
        for member in value.values():
            yield from entries(member)


def launched_by_json(text):
    (entry,) = entries(json.loads(text))
    assert not set(entry) - {
        "type", "command", "args", "env", "use_idea_mcp", "use_custom_mcp", "default_config_options",
    }  # fmt: skip
    return [entry["command"], *entry["args"]]


def launched_by_lua(text):
    assert balanced(text, comment="--", quotes="\"'")
    (words,) = re.findall(r"default = \{([^{}]*)\}", text)
    return json.loads(f"[{words}]")


def launched_by_elisp(text):
    # A quote mark in Lisp opens no string.
    assert balanced(text, comment=";", quotes='"')
    (program,) = re.findall(r":command (\"[^\"]*\")", text)
    (words,) = re.findall(r":command-params '\(([^()]*)\)", text)
    return [json.loads(program), *shlex.split(words)]


def launched_by_shell(text):
    program, what, command, _folder = shlex.split(text)
    assert (program, what) == ("toad", "acp")
    return shlex.split(command)


LAUNCHED = {
    "json": launched_by_json,
    "lua": launched_by_lua,
    "elisp": launched_by_elisp,
    "sh": launched_by_shell,
}


def test_there_is_a_page_for_each_editor_of_the_index_and_no_other():
    named = re.findall(r"^\|[^|]+\| \[([\w-]+\.md)\]", INDEX.read_text(), re.MULTILINE)
    assert sorted(named) == [page.name for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_snippet_of_a_page_launches_term2(page):
    found = snippets(page)
    assert found
    for language, text in found:
        assert LAUNCHED[language](text) == COMMAND


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_says_what_works_and_what_to_do_when_it_does_not(page):
    text = page.read_text()
    rows = re.findall(r"^\| (\w[\w ]*) \|", text, re.MULTILINE)
    assert rows == ["files", "terminals", "modes and options", "permissions", "sessions"]
    assert "`term2 doctor`" in text


@pytest.mark.parametrize("page", [INDEX, *PAGES], ids=lambda page: page.stem)
def test_every_link_leads_somewhere(page):
    for target in _LINK.findall(page.read_text()):
        name, _, anchor = target.partition("#")
        path = (page.parent / name).resolve() if name else page
        assert path.is_file(), target
        headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
        if anchor:
            assert anchor in [re.sub(r"[^\w -]", "", each).lower().replace(" ", "-") for each in headings]


def test_a_snippet_that_does_not_close_what_it_opens_is_found():
    assert balanced("{ a = 'it}s' } -- }", comment="--", quotes="\"'")
    assert not balanced("{ a = (1 }", comment="--", quotes="\"'")
    assert not balanced("(a))", comment=";", quotes='"')
    assert not balanced('(a "b)', comment=";", quotes='"')


def test_the_settings_of_the_index_are_settings():
    ((language, text),) = snippets(INDEX)
    assert language == "toml"
    settings = toml.parse("settings.toml", text.encode())
    assert (settings.provider, settings.model) == ("openai", "gpt-5.4")


# -- the manifest ----------------------------------------------------------------------------------

# What the registry of ACP agents asks of an entry that comes as a Python package: its schema, less what is
# only for other kinds of entries, and closed where the schema leaves room for misspelt members.
_TEXT = {"type": "string", "minLength": 1}
_URL = {"type": "string", "format": "uri", "pattern": "^https://"}
MANIFEST = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "required": ["id", "name", "version", "description", "license_url", "distribution"],
    "additionalProperties": False,
    "properties": {
        "id": {"type": "string", "pattern": "^[a-z][a-z0-9-]*$"},
        "name": _TEXT,
        "version": {"type": "string", "pattern": "^[0-9]+\\.[0-9]+\\.[0-9]+$"},
        "description": _TEXT,
        "repository": _URL,
        "website": _URL,
        "authors": {"type": "array", "items": _TEXT},
        "license": _TEXT,
        "license_url": _URL,
        "distribution": {
            "type": "object",
            "required": ["uvx"],
            "additionalProperties": False,
            "properties": {
                "uvx": {
                    "type": "object",
                    "required": ["package"],
                    "additionalProperties": False,
                    "properties": {
                        "package": _TEXT,
                        "args": {"type": "array", "items": _TEXT},
                        "env": {"type": "object", "additionalProperties": {"type": "string"}},
                    },
                }
            },
        },
    },
}


@pytest.fixture(scope="module")
def manifest():
    return json.loads((FOLDER / "agent.json").read_text())


def test_the_manifest_has_the_shape_that_the_registry_takes(manifest):
    jsonschema_rs.validator_for(MANIFEST, validate_formats=True).validate(manifest)


def test_the_manifest_tells_what_the_package_tells(manifest):
    version = term2_acp.__version__
    said = {member: manifest[member] for member in ("version", "description", "license")}
    assert said == {"version": version, "description": PROJECT["description"], "license": PROJECT["license"]}
    assert manifest["distribution"]["uvx"]["package"] == f"{PROJECT['name']}=={version}"


def test_the_package_has_the_program_that_uvx_runs(manifest):
    """uvx runs the program that is called like the package; the registry has no word for another one."""
    name = manifest["distribution"]["uvx"]["package"].partition("==")[0]
    assert name in PROJECT["scripts"]
    assert manifest["distribution"]["uvx"]["args"] == COMMAND[1:]


def test_the_icon_is_small_square_and_takes_the_colour_of_its_place():
    icon = (FOLDER / "icon.svg").read_text()
    assert 'width="16" height="16" viewBox="0 0 16 16"' in icon
    colours = set(re.findall(r'(?:fill|stroke)="([^"]*)"', icon))
    assert colours <= {"none", "currentColor"}
