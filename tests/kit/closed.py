"""Published ACP schemas, closed: what they leave open for the future is refused here.

The schemas are written for receivers, so they accept anything that a newer peer might send: an unknown
word in every enum, an unknown tag in every union, unknown members in every object. For a sender that is
no check at all (a misspelt status passes). ``close`` rewrites a schema for senders:

- the open branch of a union or an enum takes words that start with ``_`` only;
- objects take the members that are defined, and no others. ``also_known`` is a later schema whose members
  count as defined too, for an older one that a frame of ours has to satisfy at the same time;
- paths are absolute, lines are counted from one, base64 is base64, and ids are not empty: the schemas say so
  in words.

Nothing else changes; whatever the published schema refuses, the closed one refuses.
"""

import copy
import re
from typing import Any

Schema = dict[str, Any]

_ABSOLUTE = "^/"
_BASE64 = "^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$"
_EXTENSION = "^_"

# How v1 words it; v2 has a definition for absolute paths.
_SAYS_ABSOLUTE = re.compile(r"(?i)\babsolute (?:file )?path")

_COMPOSED = ("anyOf", "oneOf", "allOf")
_WORDS = {"title", "description"}  # a schema with nothing else in it accepts everything


def close(schema: Schema, also_known: Schema | None = None) -> Schema:
    """The definitions of ``schema``, closed, as ``{name: definition}``."""
    return _Closer(schema["$defs"], also_known["$defs"] if also_known else {}).closed()


def is_open(branch: Schema) -> bool:
    """Whether this branch of a union stands for what is not defined yet."""
    return branch.get("title") in {"other", "unknown"}


class _Closer:
    def __init__(self, definitions: dict[str, Schema], later: dict[str, Schema]) -> None:
        self._definitions = copy.deepcopy(definitions)
        for name, definition in self._definitions.items():
            mine = definition.get("properties")
            if mine is not None and name in later:
                for member in _members(later[name], later) - mine.keys():
                    mine[member] = True

    def closed(self) -> dict[str, Schema]:
        for name, definition in self._definitions.items():
            self._say_in_schema_what_is_said_in_words(name, definition)
            self._walk(definition)
        return self._definitions

    def _say_in_schema_what_is_said_in_words(self, name: str, definition: Schema) -> None:
        if name == "AbsolutePath":
            definition["pattern"] = _ABSOLUTE
        elif name.endswith("Id") and definition.get("type") == "string":
            definition["minLength"] = 1
        for member in definition.get("properties", {}).values():
            if not isinstance(member, dict):
                continue  # of a later schema
            words = member.get("description", "")
            if "string" in member.get("type", ()) and _SAYS_ABSOLUTE.search(words):
                member["pattern"] = _ABSOLUTE
            elif member.get("minimum") == 0 and "1-based" in words:
                member["minimum"] = 1

    def _walk(self, schema: Any) -> None:
        if isinstance(schema, list):
            for part in schema:
                self._walk(part)
        if not isinstance(schema, dict):
            return
        if schema.get("contentEncoding") == "base64":
            schema["pattern"] = _BASE64
        for union in ("anyOf", "oneOf"):
            for branch in schema.get(union, ()):
                self._close_branch(branch, stands_beside_members="properties" in schema)
        members = schema.get("properties", {})
        for key in members:
            self._walk(members[key])
            members[key] = self._as_value(members[key])
        if isinstance(schema.get("items"), dict):
            self._walk(schema["items"])
            schema["items"] = self._as_value(schema["items"])
        for key in _COMPOSED:
            self._walk(schema.get(key))

    @staticmethod
    def _close_branch(branch: Schema, *, stands_beside_members: bool) -> None:
        """Leave words that start with an underscore as the only ones in the open branch of a union."""
        if not is_open(branch):
            return
        if branch.get("type") == "string":
            branch["pattern"] = _EXTENSION
            return
        known = branch["not"]["anyOf"]
        tags = {tag for other in known for tag in other["properties"]}
        for tag in tags:
            branch["properties"][tag]["pattern"] = _EXTENSION
        if stands_beside_members:
            # A word of ours in a defined object is no licence for members of ours in it.
            branch.pop("additionalProperties", None)

    def _as_value(self, schema: Any) -> Any:
        """Close an object where it stands as a value: its parts are composed, so they stay open."""
        if isinstance(schema, dict) and self._has_members(schema, set()):
            return {"allOf": [schema], "unevaluatedProperties": False}
        return schema

    def _has_members(self, schema: Schema, seen: set[str]) -> bool:
        if schema.get("unevaluatedProperties") is False:
            return False
        if "properties" in schema:
            return True
        name = schema.get("$ref", "").removeprefix("#/$defs/")
        if name and name not in seen:
            seen.add(name)
            if self._has_members(self._definitions[name], seen):
                return True
        parts = [part for key in _COMPOSED for part in schema.get(key, ())]
        if any(part.keys() <= _WORDS for part in parts):
            return False  # one branch takes anything at all (the data of an error)
        return any(self._has_members(part, seen) for part in parts)


def _members(schema: Schema, definitions: dict[str, Schema]) -> set[str]:
    """The names of the members that an object of that definition can have."""
    found = set(schema.get("properties", {}))
    if "$ref" in schema:
        found |= _members(definitions[schema["$ref"].removeprefix("#/$defs/")], definitions)
    for part in (part for key in _COMPOSED for part in schema.get(key, ())):
        found |= _members(part, definitions)
    return found
