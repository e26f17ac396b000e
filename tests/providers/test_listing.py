"""What model servers say of their models, read: each vendor's shape gives the right facts, and whatever else
stands in an answer is left out."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.domain.usage import Prices
from term2_acp.providers.servers.facts import ServerFacts
from term2_acp.providers.servers.listing import (
    MAX_ID_CHARS,
    MAX_MODELS,
    Listing,
    Page,
    ServerModel,
    read_models,
    read_props,
    read_running,
    read_show,
)

OPENROUTER = {
    "id": "vendor/large",
    "name": "Vendor: Large",
    "context_length": 262144,
    "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
    "pricing": {
        "prompt": "0.000003",
        "completion": "0.000015",
        "request": "0",
        "input_cache_read": "0.0000003",
        "input_cache_write": "0.00000375",
    },
    "top_provider": {"context_length": 200000, "max_completion_tokens": 64000, "is_moderated": False},
}


WORDS = [
    "data",
    "models",
    "details",
    "families",
    "capabilities",
    "meta",
    "n_ctx",
    "type",
    "state",
    "vision",
    "image_input",
    "supported",
    "default_generation_settings",
    "modalities",
    "model_info",
    "x.context_length",
    "parameters",
    "has_more",
    "last_id",
]


def page_of(value: Any) -> Page:
    page = read_models(json.dumps(value).encode())
    assert page is not None
    return page


def only(entry: Any) -> ServerModel:
    (model,) = page_of({"data": [entry]}).models
    return model


@pytest.mark.parametrize(
    ("entry", "facts"),
    [
        (
            OPENROUTER,
            ServerFacts(262144, 64000, True, Prices(3_000_000, 15_000_000, 300_000, 3_750_000)),
        ),
        ({"id": "m", "max_model_len": 40960, "owned_by": "vllm"}, ServerFacts(40960)),
        (
            {"id": "m", "owned_by": "llamacpp", "meta": {"n_ctx_train": 131072, "n_params": 1}},
            ServerFacts(131072),
        ),
        ({"id": "m", "meta": {"n_ctx_train": 131072, "n_ctx": 8192}}, ServerFacts(8192)),
        (
            {"id": "m", "type": "vlm", "state": "not-loaded", "max_context_length": 32768},
            ServerFacts(32768, None, True),
        ),
        (
            {
                "id": "m",
                "type": "llm",
                "state": "loaded",
                "loaded_context_length": 4096,
                "max_context_length": 32768,
            },
            ServerFacts(4096, None, False),
        ),
        ({"id": "m", "context_window": 131072, "max_completion_tokens": 65536}, ServerFacts(131072, 65536)),
        (
            {"id": "m", "max_context_length": 262144, "capabilities": {"vision": False}},
            ServerFacts(262144, None, False),
        ),
        (
            {
                "id": "m",
                "type": "model",
                "max_input_tokens": 1000000,
                "max_tokens": 64000,
                "capabilities": {"image_input": {"supported": True}},
            },
            ServerFacts(1000000, 64000, True),
        ),
        ({"id": "m", "max_input_tokens": 0, "max_tokens": 0}, ServerFacts()),
        ({"id": "m", "capabilities": ["completion", "multimodal"]}, ServerFacts(None, None, True)),
    ],
)
def test_each_vendor_s_words(entry: dict[str, Any], facts: ServerFacts) -> None:
    assert only(entry).facts == facts
    assert only(entry).talks


@pytest.mark.parametrize(
    ("value", "ids"),
    [
        ({"object": "list", "data": [{"id": "a"}, {"id": "b"}]}, ["a", "b"]),
        ({"models": [{"name": "a:latest", "model": "a:latest"}]}, ["a:latest"]),
        ({"models": [{"name": "x"}], "data": [{"id": "a"}]}, ["a"]),
        ([{"id": "a"}], ["a"]),
        (["a", "b"], ["a", "b"]),
        ({"data": [{"id": "a"}, {"id": "a"}]}, ["a"]),
        ({"data": []}, []),
    ],
)
def test_what_counts_as_a_list(value: Any, ids: list[str]) -> None:
    assert [model.id for model in page_of(value).models] == ids


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"{}",
        b"<html>",
        b'{"data": {}}',
        b'{"data": null, "models": "m"}',
        b'{"data": [NaN]}',
        b'{"data": [{"id": "a"}]',
        b"\xff",
        b"[" * 100_000,
        b'{"error": {"message": "no"}}',
        b'{"data": [{"id": "\\udcff"}]}',
    ],
)
def test_what_is_no_list(body: bytes) -> None:
    assert read_models(body) is None


@pytest.mark.parametrize(
    "name",
    [
        None,
        1,
        True,
        "",
        "a\nb",
        "a\x1b[2J",
        "a\u202eb",
        "a\u200bb",
        "x" * (MAX_ID_CHARS + 1),
        [],
        {"id": "m"},
    ],
)
def test_an_id_that_cannot_be_shown_is_left_out(name: Any) -> None:
    assert page_of({"data": [{"id": name}, {"id": "m"}, name if not isinstance(name, dict) else 1]}).models[
        -1
    ] == ServerModel("m")


@pytest.mark.parametrize(
    "value", [-1, 0, True, "8192", 1.5, 10**12, 10**30, 1e308, None, [], {}, ["n"], "\x00"]
)
def test_facts_of_the_wrong_kind_are_no_facts(value: Any) -> None:
    entry = {
        "id": "m",
        "context_length": value,
        "top_provider": {"max_completion_tokens": value},
        "architecture": {"input_modalities": value},
        "capabilities": value,
        "details": value,
        "type": value,
        "state": value,
        "owned_by": 5,
        "meta": {"n_ctx_train": value},
        "pricing": {"prompt": [value], "completion": "1e9999999999"},
    }
    model = only(entry)
    assert model.facts.context_tokens is None
    assert model.facts.output_tokens is None
    assert model.facts.prices is None
    assert model.owner == ""
    for name in ("top_provider", "architecture", "meta", "pricing"):
        assert only({"id": "m", name: value}).facts == ServerFacts()


@pytest.mark.parametrize(
    ("prompt", "completion", "prices"),
    [
        ("0", "0", Prices(0, 0)),
        ("-1", "-1", None),
        ("0.000003", None, None),
        ("", "1", None),
        ("NaN", "0.1", None),
        ("Infinity", "0.1", None),
        (0.000003, 0.000015, Prices(3_000_000, 15_000_000)),
        (float("1e-7"), "0.0000001", Prices(100_000, 100_000)),
        (True, "0.1", None),
    ],
)
def test_prices_are_exact_or_none(prompt: Any, completion: Any, prices: Prices | None) -> None:
    assert only({"id": "m", "pricing": {"prompt": prompt, "completion": completion}}).facts.prices == prices


def test_a_long_list_is_not_whole() -> None:
    page = page_of({"data": [{"id": f"m{number}"} for number in range(MAX_MODELS + 1)]})
    assert (len(page.models), page.whole) == (MAX_MODELS, False)
    assert page_of({"data": [{"id": f"m{number}"} for number in range(MAX_MODELS)]}).whole


def test_a_page_says_where_the_next_begins() -> None:
    assert page_of({"data": [{"id": "a"}], "has_more": True, "last_id": "a"}).next_after == "a"
    assert page_of({"data": [{"id": "a"}], "has_more": False, "last_id": "a"}).next_after is None
    assert page_of({"data": [{"id": "a"}], "has_more": True, "last_id": 5}).next_after is None


@pytest.mark.parametrize(
    "entry",
    [
        {"id": "text-embedding-3-small"},
        {"id": "nomic-embed-text:latest"},
        {"id": "BAAI/bge-m3"},
        {"id": "qwen3-reranker-8b"},
        {"id": "whisper-large-v3"},
        {"id": "m", "type": "embeddings"},
        {"id": "m", "details": {"families": ["nomic-bert"]}},
        {"id": "m", "capabilities": ["embedding"]},
        {"id": "m", "capabilities": {"completion_chat": False}},
        {"id": "m", "architecture": {"output_modalities": ["image"]}},
    ],
)
def test_models_that_nobody_can_talk_to(entry: dict[str, Any]) -> None:
    assert not only(entry).talks


@pytest.mark.parametrize(
    "name", ["qwen3-coder", "llama3.2:3b", "gpt-oss:20b", "bigger-model", "e5mistral-chat"]
)
def test_models_that_talk(name: str) -> None:
    assert only({"id": name}).talks


def test_the_first_suitable_is_one_that_talks_and_rather_one_that_is_loaded() -> None:
    mute, cold, warm = (
        ServerModel("embeds", talks=False, loaded=True),
        ServerModel("cold"),
        ServerModel("warm", loaded=True),
    )
    assert Listing((mute, cold, warm)).first_suitable() == warm
    assert Listing((mute, cold)).first_suitable() == cold
    assert Listing((mute,)).first_suitable() is None


@pytest.mark.parametrize(
    ("value", "facts"),
    [
        ({"default_generation_settings": {"n_ctx": 8192}, "modalities": {"vision": True}}, (8192, True)),
        ({"default_generation_settings": {"n_ctx": 8192}}, (8192, None)),
        ({"default_generation_settings": {"n_ctx": "8192"}, "modalities": []}, (None, None)),
        ({"default_generation_settings": 5, "modalities": {"vision": "yes"}}, (None, None)),
        ([], (None, None)),
    ],
)
def test_what_llama_cpp_runs_with(value: Any, facts: tuple[int | None, bool | None]) -> None:
    found = read_props(json.dumps(value).encode())
    assert (found.context_tokens, found.sees_images) == facts


@pytest.mark.parametrize(
    ("value", "facts"),
    [
        (
            {
                "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 262144},
                "capabilities": ["completion", "tools"],
            },
            (262144, False),
        ),
        (
            {
                "model_info": {"llama.context_length": 131072},
                "parameters": 'stop    "x"\nnum_ctx                        16384',
                "capabilities": ["completion", "vision"],
            },
            (16384, True),
        ),
        ({"model_info": {"x.context_length": 8192}, "parameters": "num_ctx 131072"}, (8192, None)),
        ({"model_info": {}, "parameters": "num_ctx 4096"}, (4096, None)),
        ({"model_info": {"x.context_length": 8192}, "parameters": "num_ctx 0"}, (8192, None)),
        ({"model_info": {"x.context_length": "131072"}, "parameters": "num_ctx many"}, (None, None)),
        ({"model_info": {"x.context_length": -5}, "capabilities": "vision"}, (None, None)),
        ({"model_info": [], "parameters": {}}, (None, None)),
        ("text", (None, None)),
    ],
)
def test_what_ollama_says_of_one_model(value: Any, facts: tuple[int | None, bool | None]) -> None:
    found = read_show(json.dumps(value).encode())
    assert (found.context_tokens, found.sees_images) == facts


RUNNING = {"name": "qwen3:8b", "model": "qwen3:8b", "size_vram": 0, "context_length": 4096}


@pytest.mark.parametrize(
    ("value", "model", "context"),
    [
        ({"models": [RUNNING]}, "qwen3:8b", 4096),
        ({"models": [RUNNING | {"name": "m:latest", "model": "m:latest"}]}, "m", 4096),
        ({"models": [{"name": "other", "context_length": 1}, RUNNING]}, "qwen3:8b", 4096),
        ({"models": [RUNNING, RUNNING | {"context_length": 2048}]}, "qwen3:8b", 2048),
        ({"models": [RUNNING]}, "qwen3", None),
        ({"models": [RUNNING | {"context_length": 0}]}, "qwen3:8b", None),
        ({"models": [{"name": "qwen3:8b"}]}, "qwen3:8b", None),
        ({"models": [{"name": ["qwen3:8b"], "model": {}}, 5]}, "qwen3:8b", None),
        ({"models": {}}, "qwen3:8b", None),
        ([RUNNING], "qwen3:8b", None),
    ],
)
def test_what_ollama_has_loaded_a_model_with(value: Any, model: str, context: int | None) -> None:
    assert read_running(json.dumps(value).encode(), model) == context


def test_bodies_that_do_not_parse_say_nothing() -> None:
    for body in (b"", b"{", b"[" * 100_000, b"\xff"):
        assert read_props(body) == read_show(body) == ServerFacts()
        assert read_running(body, "m") is None


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*OPENROUTER, *WORDS]), inner)
    ),
    max_leaves=20,
)


@given(JSON)
def test_whatever_stands_in_an_answer_nothing_is_raised(value: Any) -> None:
    for read in (read_models, read_props, read_show, lambda body: read_running(body, "m")):
        running = {"name": "m", "model": value, "context_length": value}
        entry = {"id": "m", "meta": value, "pricing": value}
        for body in (value, {"data": [value]}, {"models": [entry, running, {"name": value}]}):
            found = read(json.dumps(body).encode())
            assert found is None or isinstance(found, Page | ServerFacts | int)
