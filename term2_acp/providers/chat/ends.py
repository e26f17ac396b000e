"""Why a Chat Completions server stopped: its words, as one of ours. Pure.

A word that is not in the table breaks the reply: a stop that nobody understands is no success. Words are
compared in lower case, and of ``content_filter: RECITATION`` (Gemini's way) the more telling half counts.

OpenRouter adds the word of the server behind it (``native_finish_reason``). It counts only where it is
worse news than the normal one: a refusal, a limit or a malformed call that was told as a plain stop.
"""

from term2_acp.providers.base import Finish
from term2_acp.providers.wire import Broken

_FINISHES: dict[str, Finish] = {
    "stop": Finish.STOP,
    "eos": Finish.STOP,
    "eos_token": Finish.STOP,
    "end_turn": Finish.STOP,
    "stop_sequence": Finish.STOP,
    "tool_calls": Finish.TOOL_CALLS,
    "tool_call": Finish.TOOL_CALLS,
    "tool_use": Finish.TOOL_CALLS,
    "function_call": Finish.TOOL_CALLS,
    "function_calls": Finish.TOOL_CALLS,
    "length": Finish.LENGTH,
    "max_tokens": Finish.LENGTH,
    "max_output_tokens": Finish.LENGTH,
    "model_length": Finish.LENGTH,
    "model_context_window_exceeded": Finish.LENGTH,
    "content_filter": Finish.REFUSAL,
    "refusal": Finish.REFUSAL,
    "safety": Finish.REFUSAL,
    "sensitive": Finish.REFUSAL,
    "recitation": Finish.REFUSAL,
    "blocklist": Finish.REFUSAL,
    "prohibited_content": Finish.REFUSAL,
    "spii": Finish.REFUSAL,
    "model_armor": Finish.REFUSAL,
}

_GOOD = (Finish.STOP, Finish.TOOL_CALLS)

_MALFORMED = Broken("made a malformed tool call")
_BREAKS: dict[str, Broken] = {
    "malformed_function_call": _MALFORMED,
    "function_call_filter": _MALFORMED,
    "unexpected_tool_call": _MALFORMED,
    "too_many_tool_calls": _MALFORMED,
    "insufficient_system_resource": Broken("had no capacity to finish its answer"),  # DeepSeek
    "error": Broken("failed in the middle of its answer"),
    "abort": Broken("broke its answer off"),
}


def finish_of(word: str, native: str = "") -> Finish | Broken:
    """What the reply ended in. ``native`` is the word of the server behind a gateway, "" without one."""
    finish = _look_up(word)
    if finish is None:
        return Broken(f"ended its answer with the unknown reason {word[:40]!r}")
    behind = _look_up(native)
    if behind is None or finish not in _GOOD or behind in _GOOD:
        return finish
    return behind


def stands(word: str, native: str = "") -> bool:
    """Whether no later reason takes this one back: a limit, a refusal or a failure, by a known word."""
    return _look_up(word) is not None and finish_of(word, native) not in _GOOD


def _look_up(word: str) -> Finish | Broken | None:
    kind, _, detail = (part.strip() for part in word.lower().partition(":"))
    for part in (detail, kind):
        found = _FINISHES.get(part) or _BREAKS.get(part)
        if found is not None:
            return found
    return None
