"""Every event of a session, and every ask, passes here before anyone sees it.

The keys that term2 was given are replaced wherever text stands, so that the wire, the journal, a replay and
the next request to a model agree about what was said. It is done in this one place, on the values
themselves, so that a new kind of event cannot forget it.

The data of an image is no text: a key that seems to stand in its base64 is chance, and to replace it would
break the picture. What a picture shows is the person's to know.

A URI stays one: no bracket may stand in its path, so what replaces a key there is escaped.
"""

import functools
import operator
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

import attrs

from term2_acp.domain.content import Image
from term2_acp.redact import PLACEHOLDER, Redactor


def redacted(value: Any, redactor: Redactor) -> Any:
    """The value with every secret in its texts replaced; the same object when there is none in it."""
    return _redacted(value, redactor) if redactor else value


def _redacted(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, Enum) or value is None:
        return value
    if isinstance(value, str | bytes):
        new = redactor.redact(value) if isinstance(value, str) else redactor.redact_bytes(value)
        return value if new == value else new
    kind: Any = type(value)
    names = _names_of(kind)
    if names is not None:
        return _instance(value, names, redactor)
    if isinstance(value, Mapping):
        items = {_redacted(key, redactor): _redacted(item, redactor) for key, item in value.items()}
        return value if _same((*items, *items.values()), (*value, *value.values())) else items
    if isinstance(value, list | tuple):
        members = [_redacted(item, redactor) for item in value]
        return value if _same(members, value) else type(value)(members)
    return value


def _same(new: Iterable[Any], old: Iterable[Any]) -> bool:
    """Whether two collections of one length hold the same objects.

    They are not compared by value: a secret may stand where two values need not be alike to be equal.
    """
    return all(map(operator.is_, new, old))


def _instance(value: Any, names: tuple[str, ...], redactor: Redactor) -> Any:
    changed = {}
    for name in names:
        old = getattr(value, name)
        new = _redacted(old, redactor)
        if new is not old:
            if name == "uri":
                new = new.replace(PLACEHOLDER, _PLACEHOLDER_IN_URI)
            changed[name] = new
    return attrs.evolve(value, **changed) if changed else value


@functools.cache
def _names_of(cls: type) -> tuple[str, ...] | None:
    """The members of a class of ours that may hold text; None for any other class."""
    if not attrs.has(cls):
        return None
    return tuple(attribute.name for attribute in attrs.fields(cls) if attribute is not _IMAGE_DATA)


_IMAGE_DATA = attrs.fields(Image).data
_PLACEHOLDER_IN_URI = PLACEHOLDER.replace("[", "%5B").replace("]", "%5D")
