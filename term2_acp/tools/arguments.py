"""A tool's arguments: decoded strictly from the model's JSON, and their schema for the model.

Both come from the tool's one msgspec Struct. Beyond what msgspec checks, a key that appears twice in one
object is refused: the model meant one of the two, and the person may be shown the other.
"""

import functools
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from term2_acp.tools.base import Tool, ToolError

# Characters of a decoder's complaint that are handed on; it may quote a name as long as the arguments.
MAX_COMPLAINT = 300


class _Twice(dict[str, Any]):
    """An object in which ``key`` appeared more than once."""

    key = ""


def decode(tool: Tool, arguments: str) -> msgspec.Struct:
    """Decode the JSON text that the model wrote as ``tool``'s arguments; blank text is ``{}``.

    Raises:
        ToolError: it is no JSON or does not fit; the message holds the JSON path of the fault.
    """
    text = arguments if arguments.strip() else "{}"
    try:
        decoded: msgspec.Struct = msgspec.json.decode(text, type=tool.Arguments)
        # Behind each key stands a colon. Where there are as many as the one object has members, no key stands
        # there twice and no object lies in another: so it is with most calls, and no pair need be looked at.
        flat = text.count(":") == len(_decode_any(text))
        twice = None if flat else next(_repeated(_WITH_DOUBLES.decode(text), "$"), None)
    except msgspec.ValidationError as error:
        raise ToolError(f"The arguments of {tool.name} do not fit: {_in_bounds(str(error))}") from None
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise ToolError(f"The arguments of {tool.name} are no JSON: {_in_bounds(str(error))}") from None
    if twice is not None:
        where = _in_bounds(twice)
        raise ToolError(f"The arguments of {tool.name} do not fit: a key appears twice - at `{where}`")
    return decoded


def schema_of(tool: Tool) -> dict[str, Any]:
    """The JSON Schema of a tool's arguments, whole in itself, as providers take it. A fresh copy."""
    copy: dict[str, Any] = json.loads(_schema_text(tool.Arguments))
    return copy


@functools.cache
def _schema_text(arguments: type[msgspec.Struct]) -> str:
    (root,), parts = msgspec.json.schema_components([arguments], ref_template="{name}")
    schema = _plain(root, parts)
    schema.pop("description", None)  # the Struct's docstring; the tool has a description of its own
    return json.dumps(schema)


def _plain(node: Any, parts: dict[str, Any]) -> Any:
    """A schema without references, titles and "or null".

    An optional argument is one that may be left out; ``null`` is taken too, and nobody is told to send it.
    """
    if isinstance(node, list):
        return [_plain(item, parts) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        node = {**parts[node["$ref"]], **{key: value for key, value in node.items() if key != "$ref"}}
    if "anyOf" in node:
        choices = [choice for choice in node["anyOf"] if choice != {"type": "null"}]
        if len(choices) == 1:
            node = {**choices[0], **{key: value for key, value in node.items() if key != "anyOf"}}
    plain = {}
    for key, value in node.items():
        if key == "properties":
            plain[key] = {name: _plain(part, parts) for name, part in value.items()}
        elif not (key == "title" or (key == "default" and value is None)):
            plain[key] = _plain(value, parts)
    return plain


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    twice = _Twice(found)
    keys = [key for key, _ in pairs]
    twice.key = next(key for index, key in enumerate(keys) if key in keys[:index])
    return twice


_decode_any = msgspec.json.Decoder().decode

# Made once: `json.loads` with a hook makes one for each text.
_WITH_DOUBLES = json.JSONDecoder(object_pairs_hook=_object)


def _repeated(value: Any, path: str) -> Iterator[str]:
    """The paths of keys that appear twice."""
    if isinstance(value, _Twice):
        yield f"{path}.{value.key}"
    if isinstance(value, dict):
        for key, member in value.items():
            yield from _repeated(member, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _repeated(item, f"{path}[{index}]")


def _in_bounds(complaint: str) -> str:
    return complaint if len(complaint) <= MAX_COMPLAINT else complaint[:MAX_COMPLAINT] + " ..."
