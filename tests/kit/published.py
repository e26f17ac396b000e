"""The schema files of the official packages, closed, and a validator for each part of a frame.

Validators are compiled when they are first needed and kept: a frame is looked at in some ten microseconds
a schema, so that every test can afford it. A fault comes out with the JSON path of the innermost place.
"""

import functools
import json
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs

from tests.kit import packages
from tests.kit.closed import Schema, close, is_open

# (package, version of the protocol, file). The members that SDK 2.4.0 defines are known to 1.4.0 too:
# one frame serves both (a prompt's messageId, for one), and 1.4.0 ignores what it does not know. The newest
# of a version is the last.
PUBLISHED = (
    ("sdk14", 2, "schema/v2/schema.unstable.json"),
    ("sdk24", 2, "schema/v2/schema.json"),
    ("sdk24", 2, "schema/v2/schema.unstable.json"),
    ("sdk14", 1, "schema/schema.json"),
    ("sdk24", 1, "schema/v1/schema.json"),
)


class PublishedSchema:
    """One schema file, closed, with a validator for each part of a frame, compiled when first needed."""

    def __init__(self, label: str, schema: Schema, also_known: Schema | None = None) -> None:
        self.label = label
        self._definitions = close(schema, also_known)
        self._parts: dict[tuple[str, str], str] = {}
        for name, definition in schema["$defs"].items():
            method = definition.get("x-method")
            if method is None:
                continue
            for suffix in ("Request", "Response", "Notification"):
                if name.endswith(suffix):
                    self._parts[definition["x-side"], method + " " + suffix] = name
        self._compiled: dict[str, jsonschema_rs.Validator] = {}
        self._kinds = self._update_kinds()
        # v2 leaves room for updates of one's own, v1 does not.
        self._open = any(is_open(branch) for branch in self._branches_of_update())

    def params(self, method: str, kind: Literal["Request", "Notification"], params: Any) -> None:
        """Hold the params of a request or notification that an agent sends to their definition."""
        if method == "$/cancel_request":
            side = "protocol"
        elif method.startswith("_"):
            return
        else:
            side = "client"
        name = self._parts.get((side, f"{method} {kind}")) or self._parts.get(("both", f"{method} {kind}"))
        assert name is not None, f"{self.label} defines no {kind.lower()} {method!r} from an agent"
        if method == "session/update":
            self._update(params)
        else:
            self._hold(name, params, "$.params")

    def result(self, method: str, result: Any) -> None:
        """Hold a result to the definition of the method of its request."""
        if method.startswith("_"):
            return
        name = self._parts.get(("agent", f"{method} Response"))
        assert name is not None, f"{self.label} defines no result of {method!r}, so there can be none"
        self._hold(name, result, "$.result")

    def error(self, error: Any) -> None:
        """Hold an error object to its definition, and its data to that of the codes that have one."""
        self._hold("Error", error, "$.error")
        data = {-32022: "UnsupportedProtocolVersionErrorData", -32002: "SessionNotFoundErrorData"}
        name = data.get(error["code"])
        if name in self._definitions and "data" in error:
            self._hold(name, error["data"], "$.error.data")

    def _branches_of_update(self) -> list[Schema]:
        union = self._definitions["SessionUpdate"]
        branches: list[Schema] = union.get("anyOf") or union["oneOf"]
        return branches

    def _update_kinds(self) -> dict[str, Schema]:
        return {
            branch["properties"]["sessionUpdate"]["const"]: branch
            for branch in self._branches_of_update()
            if "const" in branch.get("properties", {}).get("sessionUpdate", {})
        }

    def _update(self, params: Any) -> None:
        """Validate an update by the branch of its own kind: cheap, and a fault is named where it is."""
        assert isinstance(params, dict), f"{self.label}: $.params is {params!r}, not an object"
        update = params.get("update")
        assert isinstance(update, dict), f"{self.label}: $.params.update is missing or not an object"
        kind = update.get("sessionUpdate")
        branch = self._kinds.get(kind) if isinstance(kind, str) else None
        if branch is None:
            assert isinstance(kind, str), f"{self.label}: $.params.update.sessionUpdate is {kind!r}"
            ours = self._open and kind.startswith("_")
            assert ours, f"{self.label}: $.params.update.sessionUpdate {kind!r} is not defined"
            return
        key = f"update {kind}"
        if key not in self._compiled:
            self._compiled[key] = self._compile(self._notification_of(branch))
        self._raise_first(self._compiled[key], params, "$.params")

    def _notification_of(self, branch: Schema) -> Schema:
        definition = self._definitions[self._parts["client", "session/update Notification"]]
        update = {"allOf": [branch], "unevaluatedProperties": False}
        members = {**definition["properties"], "update": update}
        return {**definition, "properties": members, "unevaluatedProperties": False}

    def _hold(self, name: str, value: Any, where: str) -> None:
        validator = self._compiled.get(name)
        if validator is None:
            whole = {"$ref": f"#/$defs/{name}"}
            validator = self._compiled[name] = self._compile(
                {"allOf": [whole], "unevaluatedProperties": False}
            )
        self._raise_first(validator, value, where)

    def _compile(self, schema: Schema) -> jsonschema_rs.Validator:
        dialect = "https://json-schema.org/draft/2020-12/schema"
        # With those alone that it leads to, it is compiled in a fraction of the time.
        named: dict[str, Schema] = {}
        self._gather(schema, named)
        return jsonschema_rs.validator_for(
            {"$schema": dialect, "$defs": named, **schema}, validate_formats=True
        )

    def _gather(self, schema: Any, named: dict[str, Schema]) -> None:
        """Put the definitions that a schema leads to, wherever in it they are named, into ``named``."""
        if isinstance(schema, dict):
            reference = schema.get("$ref")
            if isinstance(reference, str):
                name = reference.removeprefix("#/$defs/")
                if name not in named:
                    named[name] = self._definitions[name]
                    self._gather(named[name], named)
        inner = schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ()
        for part in inner:
            self._gather(part, named)

    def _raise_first(self, validator: jsonschema_rs.Validator, value: Any, where: str) -> None:
        if validator.is_valid(value):
            return
        faults = sorted(validator.iter_errors(value), key=lambda fault: -len(fault.instance_path))
        fault = _innermost(faults[0])
        path = where + "".join(f"[{s}]" if isinstance(s, int) else f".{s}" for s in fault.instance_path)
        raise AssertionError(f"{self.label}: {path}: {fault.message[:600]}")


# A branch of a union that fails in one of these was never meant.
_TAG_FAULTS = (
    jsonschema_rs.ValidationErrorKind.Constant,
    jsonschema_rs.ValidationErrorKind.Not,
    jsonschema_rs.ValidationErrorKind.Type,
)


def _innermost(fault: jsonschema_rs.ValidationError) -> jsonschema_rs.ValidationError:
    """What is wrong within the branch of a union that was meant, rather than "no branch fits"."""
    kind = fault.kind
    if not isinstance(
        kind, jsonschema_rs.ValidationErrorKind.AnyOf | jsonschema_rs.ValidationErrorKind.OneOfNotValid
    ):
        return fault
    meant = [
        branch
        for branch in kind.context
        if branch and not any(isinstance(inner.kind, _TAG_FAULTS) for inner in branch)
    ]
    inner = [_innermost(fault) for branch in meant for fault in branch]
    return max(inner, key=lambda fault: len(fault.instance_path), default=fault)


@functools.cache
def published(version: int) -> tuple[PublishedSchema, ...]:
    """The closed schemas of one protocol version, from the installed packages.

    Raises:
        packages.Unavailable: they cannot be had here.
    """
    modules = packages.installed()
    return tuple(
        _read(modules, package, file) for package, its_version, file in PUBLISHED if its_version == version
    )


def _read(modules: Path, package: str, file: str) -> PublishedSchema:
    schema = json.loads((modules / package / file).read_text())
    later = None
    if package == "sdk14":
        folder = "v2" if "v2" in file else "v1"
        later = json.loads((modules / "sdk24" / "schema" / folder / "schema.json").read_text())
    return PublishedSchema(f"{package} {file}", schema, later)
