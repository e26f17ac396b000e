"""Which efforts a model takes, as far as its vendor has said. Pure.

Rules:

- A level that is not among a model's refuses the start, so the table holds only what is documented, for the
  models it is documented for. All else is unknown (None): then what the person sets is sent, and the server
  decides. That holds for what is newer than the table, for names that move on to other models
  (``mistral-small-latest``), and for servers that anything may run on (Ollama, llama.cpp, LM Studio, vLLM).
- Words are the person's (``Effort``), not the wire's: the wire of each vendor says how a level is sent. For
  Anthropic the wire's table of families is the only one, and what it can say is what a model takes.
- ``default`` sends nothing and is taken by every model; it stands in no set.
- An empty set is a model that does not think, at a vendor whose server refuses to be told how hard.

Sources, read in November 2026: OpenAI, "Reasoning models" and the pages of the models; Google, "OpenAI
compatibility"; Groq, "Reasoning"; Mistral, "Reasoning"; DeepSeek, "Thinking mode"; OpenRouter, "Reasoning
tokens".
"""

import re
from collections.abc import Mapping

from term2_acp.domain.effort import Effort
from term2_acp.providers.request import ModelInfo

_ORDER = (Effort.NONE, Effort.MINIMAL, Effort.LOW, Effort.MEDIUM, Effort.HIGH, Effort.XHIGH)

# From the catalog's name of a vendor to rows of: models (the whole id, without a date), and their levels.
_TABLE: Mapping[str, tuple[tuple[str, str], ...]] = {
    "openai": (
        (r"gpt-5(-mini|-nano)?", "minimal low medium high"),
        (r"gpt-5-codex|gpt-5\.1-codex(-mini)?", "low medium high"),
        (r"gpt-5-pro", "high"),
        (r"gpt-5\.1", "none low medium high"),
        (r"gpt-5\.[12]-chat-latest", "medium"),
        (r"gpt-5\.1-codex-max|gpt-5\.[23]-codex", "low medium high xhigh"),
        (r"gpt-5\.[245]|gpt-5\.4-(mini|nano)|gpt-5\.6(-sol|-terra|-luna)?", "none low medium high xhigh"),
        (r"gpt-5\.[245]-pro", "medium high xhigh"),
        (r"gpt-6-astra|gpt-6\.1-sol", "low medium high xhigh"),
        (r"o1|o1-pro|o3|o3-mini|o3-pro|o4-mini", "low medium high"),
        (r"(o3|o4-mini)-deep-research", "medium"),
        (r"(gpt-3\.5|gpt-4|chatgpt-4o|gpt-5-chat|o1-mini|o1-preview).*", ""),
    ),
    "google": (
        (r"gemini-2\.5-flash(-lite)?", "none minimal low medium high"),
        # The thinking of these cannot be turned off.
        (r"gemini-2\.5-pro|gemini-3-flash-preview", "minimal low medium high"),
        (r"gemini-3\.1-flash-lite(-preview)?", "minimal low medium high"),
        (r"gemini-3-pro-preview", "low high"),
        (r"gemini-3\.1-pro-preview(-customtools)?|gemini-3\.8-flash", "low medium high"),
        (r"gemini-2\.0-.*", ""),
    ),
    "groq": (
        (r"openai/gpt-oss-.*", "low medium high"),
        (r"qwen/qwen3.*", "none"),  # the other word that they take is `default`
    ),
    "mistral": (
        (r"mistral-small-2603|mistral-medium-(2604|3-5)", "none high"),
    ),
    # The server has three, takes other words for them, and can be told not to think.
    "deepseek": ((r"deepseek-v4-(pro|flash)", "none minimal low medium high xhigh"),),
    # The server maps every level to what the model has, and a model that does not think ignores it.
    "openrouter": ((r".*", "none minimal low medium high xhigh"),),
}  # fmt: skip

# Vendors whose servers refuse an effort for a model that does not think.
_STRICT = frozenset({"openai", "google", "groq", "mistral"})

_DATE = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{8})$")


def efforts_of(vendor: str | None, model: str, *, thinks: bool | None = None) -> frozenset[Effort] | None:
    """The levels that a model takes, ``default`` apart; None where nobody says.

    ``vendor`` is the catalog's name of whose server it is, None for any other server. ``thinks`` is whether
    the catalog calls it a reasoning model, where it does.
    """
    if vendor == "anthropic":
        return _of_claude(model)
    name = _DATE.sub("", model.removeprefix("models/"))
    for pattern, levels in _TABLE.get(vendor or "", ()):
        # Compiled when it is asked for: a start that resolves nothing does not pay for the table.
        if re.fullmatch(pattern, name):
            return frozenset(map(Effort, levels.split()))
    if thinks is False and vendor in _STRICT and not name.endswith("-latest"):
        return frozenset()
    return None


def _of_claude(model: str) -> frozenset[Effort] | None:
    if "claude-" not in model.lower():
        return None
    # The wire is loaded for those who use it.
    from term2_acp.providers.anthropic.thinking import Way, family_of

    family = family_of(model)
    if family.way is Way.NEVER:
        return frozenset()
    # A budget can be as small as one likes; the least that effort has a word for is `low`.
    least = {Effort.MINIMAL} if family.way is Way.BUDGET else set()
    off = {Effort.NONE} if family.off is not None else set()
    return frozenset({Effort.LOW, Effort.MEDIUM, Effort.HIGH, Effort.XHIGH, *least, *off})


def refuse_effort(effort: Effort, info: ModelInfo, model: str) -> str | None:
    """Why a model cannot be asked with this effort, with the levels it takes; None if it can."""
    if effort is Effort.DEFAULT or info.efforts is None or effort in info.efforts:
        return None
    taken = [level.value for level in (*_ORDER, Effort.DEFAULT) if level in {*info.efforts, Effort.DEFAULT}]
    return f"{model} does not take the effort {effort.value!r}; it takes {', '.join(taken)}"
