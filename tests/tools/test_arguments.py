"""Arguments and schemas: what a model may write, what the refusal says, and what it is told."""

import json

import jsonschema_rs
import pytest

from term2_acp.tools.arguments import MAX_COMPLAINT, decode, schema_of
from term2_acp.tools.base import ToolError
from term2_acp.tools.registry import TOOLS

TWICE = json.dumps(
    {"path": "a", "replacements": [{"search_content": "x", "replace_content": "y"}] * 2}
).replace('"y"}]', '"y", "search_content": "z"}]')


def test_arguments_are_decoded():
    found = decode(
        TOOLS["search_replace"], '{"path":"a","replacements":[{"search_content":"x","replace_content":""}]}'
    )
    assert found.path == "a"
    assert found.replacements[0].search_content == "x"
    assert not found.replacements[0].match_all
    found = decode(TOOLS["read_file"], '{"path":"a","start_line":null}')
    assert (found.start_line, found.end_line) == (None, None)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("read_file", "", "missing required field `path`"),
        ("read_file", "  ", "missing required field `path`"),
        ("read_file", "{", "no JSON"),
        ("read_file", '{"path":"a"} x', "no JSON"),
        ("read_file", "[" * 100_000, "got `array`"),
        ("read_file", '{"path":' + "[" * 100_000, "got `array`"),
        ("read_file", '"a"', "Expected `object`, got `str`"),
        ("read_file", "null", "Expected `object`, got `null`"),
        ("read_file", '{"path":null}', r"got `null` - at `\$\.path`"),
        ("read_file", '{"path":{"a":1}}', r"Expected `str`, got `object` - at `\$\.path`"),
        ("read_file", '{"path":"a","start_line":"3"}', r"at `\$\.start_line`"),
        ("read_file", '{"path":"a","start_line":true}', r"at `\$\.start_line`"),
        ("read_file", '{"path":"a","start_line":1.5}', r"at `\$\.start_line`"),
        ("read_file", '{"path":"a","start_line":0}', r">= 1 - at `\$\.start_line`"),
        ("read_file", '{"path":"a","file":"b"}', "unknown field `file`"),
        ("read_file", '{"path":"\\ud800"}', "no JSON"),
        ("create_file", '{"path":"a","content":"","overwrite":"false"}', r"at `\$\.overwrite`"),
        ("create_file", '{"path":"a","content":"","path":"b"}', r"twice - at `\$\.path`"),
        (
            "search_replace",
            TWICE,
            r"twice - at `\$\.replacements\[1\]\.search_content`",
        ),
        ("search_replace", '{"path":"a","replacements":[]}', "length >= 1"),
        (
            "search_replace",
            '{"path":"a","replacements":[{"search_content":"","replace_content":""}]}',
            "length >= 1",
        ),
        ("update_plan", '{"entries":[{"content":"a","status":"done"}]}', r"at `\$\.entries\[0\]\.status`"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(tool, arguments, words):
    with pytest.raises(ToolError, match=words) as caught:
        decode(TOOLS[tool], arguments)
    assert tool in str(caught.value)


def test_a_complaint_is_bounded():
    with pytest.raises(ToolError) as caught:
        decode(TOOLS["read_file"], json.dumps({"path": "a", "x" * 100_000: 1}))
    assert len(str(caught.value)) < MAX_COMPLAINT + 100


@pytest.mark.parametrize("name", TOOLS)
def test_schemas_are_whole_and_plain(name):
    schema = schema_of(TOOLS[name])
    jsonschema_rs.meta.validate(schema)
    assert schema["type"] == "object"
    assert schema["additionalProperties"] is False
    text = json.dumps(schema)
    for word in ("$ref", "$defs", "anyOf", '"title"', '"null"'):
        assert word not in text


def test_the_schema_says_what_the_decoder_takes():
    schema = schema_of(TOOLS["search_replace"])
    assert list(schema["properties"]) == ["path", "replacements"]
    assert schema["required"] == ["path", "replacements"]
    item = schema["properties"]["replacements"]["items"]
    assert item["required"] == ["search_content", "replace_content"]
    assert item["additionalProperties"] is False
    assert item["properties"]["match_all"]["type"] == "boolean"
    assert schema_of(TOOLS["read_file"])["properties"]["start_line"]["minimum"] == 1
    entry = schema_of(TOOLS["update_plan"])["properties"]["entries"]["items"]
    assert entry["properties"]["status"]["enum"] == ["cancelled", "completed", "in_progress", "pending"]
    assert entry["required"] == ["content"]


def test_a_schema_is_a_copy():
    schema_of(TOOLS["glob"]).clear()
    assert schema_of(TOOLS["glob"])["type"] == "object"


@pytest.mark.parametrize(
    "arguments",
    [
        '{"path":"a:b","start_line":1}',
        '{"path": "a" , "start_line" : 1, "end_line":2}',
        '{"path":"{\\"path\\":1}"}',
    ],
)
def test_colons_within_values_are_no_keys(arguments):
    assert decode(TOOLS["read_file"], arguments).path == json.loads(arguments)["path"]


@pytest.mark.parametrize(
    "arguments",
    [
        '{"path":"a","path":"b"}',
        '{"path":"a:","path":"b","start_line":1}',
        '{"path":"a","\\u0070ath":"b"}',
        '{"path":"a","start_line":1,"start_line":1}',
    ],
)
def test_a_key_that_appears_twice_is_refused_however_it_is_written(arguments):
    with pytest.raises(ToolError, match=r"twice - at `\$\.(path|start_line)`"):
        decode(TOOLS["read_file"], arguments)
