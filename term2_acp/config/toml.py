"""TOML to ``Config``: tomllib reads, cattrs builds, and every fault gets the key it is about.

Strict: a boolean is no number, a number is no text, a table is a table, and no key is unknown. Faults
are looked for in the whole file; the one reported is an unknown key before any other, since a misspelt
key is often why another one is missing.

Numbers with a point are read as decimal ones: a price of 0.1 is a tenth, and stays one.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

import cattrs
from attrs import evolve, fields
from cattrs.errors import ClassValidationError, ForbiddenExtraKeysError, IterableValidationError
from cattrs.gen import make_dict_structure_fn, override

from term2_acp.config.places import SettingsError
from term2_acp.config.settings import (
    MOST_SHOWN,
    AcpSettings,
    Config,
    Limits,
    ModelSettings,
    ProviderSettings,
    RetentionSettings,
    Wrong,
)

# Compiled where a start is refused.
_BARE_KEY = r"(?a)[A-Za-z0-9_-]+"
_LINE = r" \(at (?:line (\d+), column \d+|end of document)\)$"

# What a person calls the types that TOML has.
_NAMES = {
    str: "text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    Decimal: "a number",
    dict: "a table",
    list: "a list",
}

# Set by the loader, not by the file.
_NOT_IN_THE_FILE = ("source", "origins", "warnings")

_UNKNOWN_FIRST = 0
_OTHERS = 1


def parse(path: str, content: bytes) -> Config:
    """The settings in the file. Raises ``SettingsError``: ``file:line: …`` or ``file:key: …``."""
    table = _decode(path, content)
    try:
        config = _converter().structure(table, Config)
    except (ClassValidationError, Wrong) as error:
        _rank, key, what = min(_faults(error, ()), key=lambda fault: fault[0])
        raise SettingsError(f"{path}:{_dotted(key)}: {what}") from None
    return evolve(config, providers={name: _beside(path, p) for name, p in config.providers.items()})


def _beside(path: str, settings: ProviderSettings) -> ProviderSettings:
    """The provider with its script's path made absolute: relative ones start from the settings file.

    A bare word, with neither a slash nor a suffix, is no path but the name of a built-in script.
    """
    if settings.script is None or not (set(settings.script) & {"/", "."}):
        return settings
    return evolve(settings, script=os.path.join(os.path.dirname(path), os.path.expanduser(settings.script)))


# -- syntax ----------------------------------------------------------------------------------------


def _decode(path: str, content: bytes) -> dict[str, Any]:
    try:
        # Some editors write a byte order mark.
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SettingsError(f"{path}:{line}: is not UTF-8") from None
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as error:
        message = str(error)
        place = re.search(_LINE, message)
        line = int(place[1]) if place is not None and place[1] else text.rstrip("\n").count("\n") + 1
        what = message[: place.start()] if place is not None else message
        raise SettingsError(f"{path}:{line}: {_on_one_line(what[:1].lower() + what[1:])}") from None
    except (ValueError, RecursionError):  # a number of thousands of digits; tables nested as deep
        raise SettingsError(f"{path}: holds a value that is too large to read") from None


# -- structure -------------------------------------------------------------------------------------


def _converter() -> cattrs.Converter:
    converter = cattrs.Converter(forbid_extra_keys=True)
    for scalar in (str, int, bool):
        converter.register_structure_hook(scalar, _strictly)
    converter.register_structure_hook(float, _number)
    converter.register_structure_hook(Decimal, _exactly)
    converter.register_structure_hook_func(lambda cls: cls == tuple[str, ...], _texts)
    # From the inside out: a class is built with the hooks that are there when it is registered.
    _register(converter, ModelSettings)
    _register_named(converter, ModelSettings)
    for cls in (ProviderSettings, Limits, RetentionSettings, AcpSettings):
        _register(converter, cls)
    _register_named(converter, ProviderSettings)
    omitted: dict[str, Any] = {name: override(omit=True) for name in _NOT_IN_THE_FILE}
    build = make_dict_structure_fn(Config, converter, _cattrs_forbid_extra_keys=True, **omitted)
    converter.register_structure_hook(Config, _table(build))
    return converter


def _register(converter: cattrs.Converter, cls: type) -> None:
    """A table of a class."""
    build: Any = make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True)
    converter.register_structure_hook(cls, _table(build))


def _register_named(converter: cattrs.Converter, cls: type) -> None:
    """Tables of a class whose names are the person's own."""
    build = converter.get_structure_hook(dict[str, cls])  # type: ignore[valid-type]
    named = Mapping[str, cls]  # type: ignore[valid-type]
    converter.register_structure_hook_func(lambda asked: asked == named, _table(build))


def _strictly(value: Any, expected: Any) -> Any:
    # cattrs would call the type: true would become 1, and 1 the text "1".
    if type(value) is not expected:
        raise Wrong("", _must_be(expected, value))
    return value


def _exactly(value: Any, _expected: Any) -> Decimal:
    if type(value) not in (int, Decimal):
        raise Wrong("", _must_be(Decimal, value))
    return Decimal(value)


def _number(value: Any, _expected: Any) -> float:
    if type(value) not in (int, Decimal):
        raise Wrong("", _must_be(float, value))
    try:
        return float(value)
    except OverflowError:
        raise Wrong("", "is too large") from None


def _texts(value: Any, _expected: Any) -> tuple[str, ...]:
    if type(value) is not list:
        raise Wrong("", f"must be a list of texts, not {_called(value)}")
    for item in value:
        if type(item) is not str:
            raise Wrong("", f"must be a list of texts, and holds {_called(item)}")
    return tuple(value)


def _table(build: Any) -> Any:
    def structure(value: Any, cls: Any) -> Any:
        if type(value) is not dict:
            raise Wrong("", _must_be(dict, value))
        return build(value, cls)

    return structure


def _must_be(expected: type, value: object) -> str:
    # A whole number is a number too, so of another one it is said what is wrong with it.
    found = "a decimal" if expected is int and type(value) is Decimal else _called(value)
    return f"must be {_NAMES[expected]}, not {found}"


def _called(value: object) -> str:
    return _NAMES.get(type(value), "a date or time")


# -- faults ----------------------------------------------------------------------------------------


def _faults(error: BaseException, key: tuple[str, ...]) -> Iterator[tuple[int, tuple[str, ...], str]]:
    """Every fault below an error of cattrs: how urgent it is to report, its key, what is wrong."""
    if isinstance(error, ClassValidationError):
        named, rest = error.group_exceptions()
        for inner, note in named:
            yield from _faults(inner, (*key, note.name))
        for inner in rest:
            yield from _faults(inner, key)
    elif isinstance(error, IterableValidationError):
        entries, _rest = error.group_exceptions()
        for inner, place in entries:
            yield from _faults(inner, (*key, str(place.index)))
    elif isinstance(error, ForbiddenExtraKeysError):
        for name in sorted(error.extra_fields):
            yield _UNKNOWN_FIRST, (*key, name), _unknown(name, error.cl)
    elif isinstance(error, Wrong):
        below = (error.key,) if isinstance(error.key, str) else error.key
        yield _OTHERS, (*key, *filter(None, below)), error.what
    elif isinstance(error, KeyError):
        yield _OTHERS, key, "is missing"
    else:
        yield _OTHERS, key, "cannot be used"


def _unknown(name: str, cls: type) -> str:
    known = [a.name for a in fields(cls) if cls is not Config or a.name not in _NOT_IN_THE_FILE]
    near = difflib.get_close_matches(name.lower(), known, n=1)
    if near:
        return f"unknown key; did you mean {near[0]!r}?"
    hint = " (an id with a dot in it stands in quotes)" if cls is ModelSettings else ""
    return f"unknown key; known here are {', '.join(sorted(known))}{hint}"


def _dotted(key: tuple[str, ...]) -> str:
    """The key as TOML would write it."""
    parts = (part if len(part) <= MOST_SHOWN else f"{part[:MOST_SHOWN]}..." for part in key)
    return ".".join(part if re.fullmatch(_BARE_KEY, part) else f'"{_on_one_line(part)}"' for part in parts)


def _on_one_line(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)
