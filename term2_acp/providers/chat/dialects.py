"""How the servers of Chat Completions differ from one another, one value each. Pure.

Rules:

- Only what some server is known to need is a field here. What all of them take, or what can be read
  whoever sent it, stands in ``request`` and ``reply``: ids of nine letters and digits, names,
  usage wherever it is, the pieces of calls.
- A server that refuses unknown fields (Mistral, Groq, Gemini) is sent none. The plain dialect, for servers
  that nobody named, sends least.
- ``default`` effort sends nothing. Which levels a model takes is decided elsewhere; here they only get the
  words of the server, and a word that a server does not know becomes its nearest.
- ``parallel_tool_calls`` is never sent: every server's default is right for us.
- The length of a reply is limited only for DeepSeek, which takes far less than its model can when nothing is
  said. Everywhere else the default is what the model can, and a limit of ours would only cut replies.

Sources, as of November 2026: the vendors' API references; for the local servers their source.
"""

from collections.abc import Callable, Mapping
from typing import Any

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import Effort
from term2_acp.providers.chat.opaque import Back

Fields = Mapping[str, Any]


def _word(**nearest: str) -> Callable[[Effort], Fields]:
    """The effort in a word; ``nearest`` has the server's words for those that it does not know."""

    def fields(effort: Effort) -> Fields:
        return {"reasoning_effort": nearest.get(effort.value, effort.value)}

    return fields


_our_word = _word()


def _reasoning(effort: Effort) -> Fields:
    return {"reasoning": {"effort": effort.value}}


def _thinking(effort: Effort) -> Fields:
    if effort is Effort.NONE:
        return {"thinking": {"type": "disabled"}}
    return {"thinking": {"type": "enabled"}, **_word(minimal="low", xhigh="max")(effort)}


def _template(effort: Effort) -> Fields:
    if effort is Effort.NONE:
        return {"chat_template_kwargs": {"enable_thinking": False}}
    return {"chat_template_kwargs": {"enable_thinking": True, **_word(minimal="low", xhigh="high")(effort)}}


def _no_cache(model: str, key: str) -> Fields:
    del model, key
    return {}


def _cache_key(model: str, key: str) -> Fields:
    del model
    return {"prompt_cache_key": key} if key else {}


def _cache_claude(model: str, key: str) -> Fields:
    del key
    return {"cache_control": {"type": "ephemeral"}} if model.startswith("anthropic/") else {}


@frozen
class Dialect:
    """What one server wants of a request and does in its replies.

    - ``effort``: the fields that ask for a level (``default`` apart).
    - ``cache``: the fields that make the server keep the prompt, from the model and the session's key.
    - ``stream_options``: whether the usage has to be asked for.
    - ``limits_output``: whether a reply is cut short when its length is not set, so that it has to be.
    - ``back``: how reasoning goes back.
    - ``always_reasoning``: whether a reply with calls is refused without ``reasoning_content``, be it empty;
      beside other replies it is ignored.
    - ``stand_in_signature``: the ``extra_content`` of the first call of a reply that came without a
      signature, from another model for one; such a reply is refused otherwise.
    - ``null_content``: whether a reply of calls alone has ``content: null``; else it has none.
    - ``says_after_results``: whether a prompt right behind the result of a call is refused, so that a word
      of the assistant has to stand between them.
    - ``image_types``: the MIME types of images that it can read.
    - ``thinks_in_text``: whether thoughts may come as ``<think>`` at the beginning of the text.
    - ``tells_cost``: whether ``usage.cost`` is in US dollars.
    - ``silent_overflow``: whether a request that is longer than the context is answered with an empty reply.
    """

    effort: Callable[[Effort], Fields] = _our_word
    cache: Callable[[str, str], Fields] = _no_cache
    stream_options: bool = True
    limits_output: bool = False
    back: Back = Back.FIELD
    always_reasoning: bool = False
    stand_in_signature: Fields | None = None
    null_content: bool = True
    says_after_results: bool = False
    image_types: frozenset[str] = frozenset({"image/png", "image/jpeg", "image/webp", "image/gif"})
    thinks_in_text: bool = False
    tells_cost: bool = False
    silent_overflow: bool = False


_THREE_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/webp"})

PLAIN = Dialect(thinks_in_text=True)
"""A server that nobody described. What it calls its reasoning goes back by that name: those that show any
(Moonshot, Z.ai, MiniMax, xAI and the like) take it, and some refuse calls without it."""

DIALECTS: Mapping[str, Dialect] = {
    "openai": Dialect(cache=_cache_key, back=Back.NOTHING),
    "openrouter": Dialect(
        effort=_reasoning,
        cache=_cache_claude,
        stream_options=False,  # it always tells the usage
        back=Back.DETAILS,
        tells_cost=True,
    ),
    "ollama": Dialect(
        effort=_word(minimal="low", xhigh="high"), image_types=_THREE_IMAGE_TYPES, thinks_in_text=True
    ),
    "llama.cpp": Dialect(
        effort=_template,  # the one way that every version passes on to the model's template
        image_types=frozenset({"image/png", "image/jpeg", "image/gif", "image/bmp"}),
        thinks_in_text=True,
    ),
    "lmstudio": Dialect(
        effort=_word(minimal="low"),
        image_types=_THREE_IMAGE_TYPES,
        thinks_in_text=True,
        silent_overflow=True,  # of GGUF models; it says so of others
    ),
    "vllm": Dialect(thinks_in_text=True),
    "groq": Dialect(
        effort=_word(minimal="low", xhigh="high"),
        back=Back.NOTHING,
        thinks_in_text=True,  # without tools
    ),
    "mistral": Dialect(
        effort=_word(minimal="low", xhigh="high"),
        cache=_cache_key,
        stream_options=False,  # refused; the usage comes unasked
        back=Back.PARTS,
        says_after_results=True,
    ),
    "deepseek": Dialect(effort=_thinking, limits_output=True, always_reasoning=True),
    "gemini": Dialect(
        effort=_word(xhigh="high"),
        back=Back.SIGNATURES,
        stand_in_signature={"google": {"thought_signature": "skip_thought_signature_validator"}},
        null_content=False,  # `null` is refused
    ),
}
"""The dialects of the servers that are known, by the names of their presets."""


def dialect_of(name: str) -> Dialect:
    """The dialect of the preset of that name; the plain one for every other name."""
    return DIALECTS.get(name, PLAIN)
