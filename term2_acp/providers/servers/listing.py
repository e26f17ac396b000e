"""What model servers say of their models, read. Pure.

Every server has its own words for the same few facts, and one entry of a list may hold the words of several.
So all of them are looked for in every entry, whoever sent it, and what is not understood is left out:

- OpenRouter: ``context_length``, ``top_provider``, ``architecture``, ``pricing`` (USD of one token, as text);
- vLLM: ``max_model_len``; llama.cpp: ``meta.n_ctx_train``, ``capabilities``, and what runs in ``/props``;
- LM Studio: ``loaded_context_length``, ``max_context_length``, ``type``, ``state``;
- Ollama: ``details.families``, the rest of it in ``/api/show``, and what is in memory in ``/api/ps``;
- Groq: ``context_window``; Mistral: ``max_context_length``, ``capabilities``;
- Anthropic: ``max_input_tokens``, ``max_tokens``, ``capabilities``.

Rules: a body is bounded before it comes here, and anything may stand in it. An entry without an id that can
be shown is left out; a fact of the wrong type, or one that cannot be, is no fact. Nothing here raises.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from attrs import field

from term2_acp.domain.classes import frozen
from term2_acp.domain.usage import Prices
from term2_acp.providers.servers.facts import ServerFacts
from term2_acp.providers.servers.pricing import prices

# Models of one server that are looked at. The largest router has 400.
MAX_MODELS = 5_000
# Characters of an id. The longest of today's have 80.
MAX_ID_CHARS = 200

# Words for the longest request, the ones that say what runs now before those that say what could.
_CONTEXT = (
    "loaded_context_length",
    "context_length",
    "context_window",
    "max_model_len",
    "max_context_length",
    "max_input_tokens",
)
_TRAINED = ("n_ctx", "n_ctx_train")

# Ids of models that nobody can talk to, where a server does not say it in any other way.
_MUTE = re.compile(r"embed|rerank|whisper|(?:^|[/_-])(?:bge|gte|tts|clip|minilm)(?:[-_.:]|$)", re.IGNORECASE)

_NUMBER = re.compile(r"^num_ctx\s+([0-9]{1,10})\s*$", re.MULTILINE)


@frozen
class ServerModel:
    """One model of a server. ``talks`` is False for models that answer with something else than words.

    ``loaded`` says that it is in memory, ``owner`` is what the server calls its owner. ``told`` is True once
    its server was asked for this model alone. ``fleeting``: how large its context is, is decided each time
    that it is loaded; until then what is known is only what it could be at most.
    """

    id: str
    facts: ServerFacts = field(factory=ServerFacts)
    talks: bool = True
    loaded: bool = False
    owner: str = ""
    told: bool = False
    fleeting: bool = False


@frozen
class Listing:
    """The models of a server, in its order. ``whole`` is False where there may be more than were read."""

    models: tuple[ServerModel, ...]
    whole: bool = True

    def named(self, model: str) -> ServerModel | None:
        """The entry with this id."""
        return next((each for each in self.models if each.id == model), None)

    def first_suitable(self) -> ServerModel | None:
        """The model to take where the person named none: one that talks, and rather one that is loaded."""
        talkers = [each for each in self.models if each.talks]
        return next((each for each in talkers if each.loaded), next(iter(talkers), None))


@frozen
class Page:
    """One answer: the models in it, and the id behind which the next one begins (None: there is none)."""

    models: tuple[ServerModel, ...]
    whole: bool
    next_after: str | None = None


def read_models(body: bytes) -> Page | None:
    """The models that a list names; None for what is no list of models."""
    value = _decode(body)
    entries = value
    if isinstance(value, dict):
        # LM Studio and llama.cpp say `models` beside `data`; Ollama says `models` alone.
        entries = value["data"] if isinstance(value.get("data"), list) else value.get("models")
    if not isinstance(entries, list):
        return None
    found = {model.id: model for model in _models(entries[:MAX_MODELS])}
    after = value.get("last_id") if isinstance(value, dict) and value.get("has_more") is True else None
    return Page(tuple(found.values()), len(entries) <= MAX_MODELS, after if is_id(after) else None)


def read_props(body: bytes) -> ServerFacts:
    """What llama.cpp runs its model with: the answer of ``/props``."""
    value = _mapping(_decode(body))
    running = _mapping(value.get("default_generation_settings"))
    sees = _mapping(value.get("modalities")).get("vision")
    return ServerFacts(running.get("n_ctx"), None, sees if isinstance(sees, bool) else None)


def read_show(body: bytes) -> ServerFacts:
    """What Ollama says of one model: the answer of ``/api/show``.

    Its context is the smaller of what it was trained for and what it is set to (``num_ctx``): the server
    loads it with no more than either. Where nothing is set, it may be loaded with far less (see
    ``read_running``).
    """
    value = _mapping(_decode(body))
    context = None
    for name, fact in _mapping(value.get("model_info")).items():
        if isinstance(name, str) and name.endswith(".context_length"):
            context = ServerFacts(fact).context_tokens
    parameters = value.get("parameters")
    number = _NUMBER.search(parameters) if isinstance(parameters, str) else None
    if number is not None:
        context = least(context, ServerFacts(int(number[1])).context_tokens)
    abilities = value.get("capabilities")
    sees = "vision" in abilities if isinstance(abilities, list) else None
    return ServerFacts(context, None, sees)


def read_running(body: bytes, model: str) -> int | None:
    """The tokens of the context that Ollama has loaded a model with, by the answer of ``/api/ps``.

    None where it is not loaded, or an older server does not say. What is longer it cuts without a word.
    """
    entries = _mapping(_decode(body)).get("models")
    names, found = (model, f"{model}:latest"), None
    for entry in map(_mapping, entries[:MAX_MODELS] if isinstance(entries, list) else ()):
        if entry.get("name") in names or entry.get("model") in names:
            found = least(found, ServerFacts(entry.get("context_length")).context_tokens)
    return found


def least(*numbers: int | None) -> int | None:
    """The smallest of the numbers that are known; None where none is."""
    return min((number for number in numbers if number is not None), default=None)


def _models(entries: list[Any]) -> Iterator[ServerModel]:
    for each in entries:
        entry = {"id": each} if isinstance(each, str) else _mapping(each)
        model = next((entry[name] for name in ("id", "model", "name") if is_id(entry.get(name))), None)
        if model is None:
            continue
        owner = entry.get("owned_by")
        yield ServerModel(
            model,
            _facts(entry),
            _talks(entry, model),
            entry.get("state") == "loaded",
            owner if isinstance(owner, str) and is_id(owner) else "",
        )


def _facts(entry: Mapping[str, Any]) -> ServerFacts:
    router, meta = _mapping(entry.get("top_provider")), _mapping(entry.get("meta"))
    context = next((ServerFacts(entry.get(name)).context_tokens for name in _CONTEXT if name in entry), None)
    if context is None:
        context = next((meta[name] for name in _TRAINED if name in meta), None)
    output = router.get("max_completion_tokens") or entry.get("max_completion_tokens")
    if "max_input_tokens" in entry:
        output = entry.get("max_tokens")
    return ServerFacts(context, output, _sees(entry), _prices(entry))


def _sees(entry: Mapping[str, Any]) -> bool | None:
    modalities = _mapping(entry.get("architecture")).get("input_modalities")
    if isinstance(modalities, list):
        return "image" in modalities
    abilities = entry.get("capabilities")
    if isinstance(abilities, list):
        return "multimodal" in abilities or "vision" in abilities
    vision = _mapping(abilities).get("vision")
    if isinstance(vision, bool):
        return vision
    vision = _mapping(_mapping(abilities).get("image_input")).get("supported")
    if isinstance(vision, bool):
        return vision
    return {"vlm": True, "llm": False}.get(str(entry.get("type"))[:8])


def _prices(entry: Mapping[str, Any]) -> Prices | None:
    said = _mapping(entry.get("pricing"))
    found: list[Any] = [
        price if isinstance(price, str | int | float) else None
        for price in map(said.get, ("prompt", "completion", "input_cache_read", "input_cache_write"))
    ]
    read, written, cache_read, cache_write = found
    return prices(read, written, cache_read, cache_write, tokens=1)


def _talks(entry: Mapping[str, Any], model: str) -> bool:
    kind, abilities = entry.get("type"), entry.get("capabilities")
    says = _mapping(entry.get("architecture")).get("output_modalities")
    families = _mapping(entry.get("details")).get("families")
    return not (
        (isinstance(kind, str) and kind.startswith("embedding"))
        or (isinstance(abilities, list) and "embedding" in abilities and "completion" not in abilities)
        or _mapping(abilities).get("completion_chat") is False
        or (isinstance(says, list) and "text" not in says)
        or (isinstance(families, list) and any(isinstance(f, str) and "bert" in f for f in families))
        or _MUTE.search(model)
    )


def is_id(value: Any) -> bool:
    """Whether it can be the id of a model: text on one line, with an end."""
    return isinstance(value, str) and 0 < len(value) <= MAX_ID_CHARS and value.isprintable()


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _decode(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None
