"""What every wire has to do with a history before a server takes it. Pure.

Rules, each for servers that were seen to refuse the whole session otherwise:

- What goes out is JSON in UTF-8, whatever a model or a tool put into it.
- The arguments of a call are an object. What does not parse is told as an object that quotes it.
- A name has at most 64 of the characters that every server takes.
- An id depends on the history alone, so that a server's prompt cache holds from one request to the next,
  and a call and its result get the same one, however often an id of ours comes up.

Every request has the whole history, so what is found out of a name or an id is remembered: a third of what it
takes to write a long one goes into that.
"""

import functools
import hashlib
import re
from typing import Any

import msgspec

from term2_acp.providers.text import well_formed

CUT_NOTE = "[This reply was cut off here.]"
"""What stands behind a reply that did not come to its end, so that the model does not take it for whole."""

# The longest name of a function that servers take, in characters, and what may be in it.
_NAME_LIMIT = 64
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
# Characters of arguments that do not parse which the model is shown again. It has them in the error
# result too.
_MALFORMED_LIMIT = 500
# Names and ids that are remembered: more than any history has of the one, and a long one of the other.
_NAMES = 256
_IDS = 16_384
# Letters and digits: the strictest rule of any server (Mistral's). OpenAI's is at most 40 of [a-zA-Z0-9_-].
_ID_LENGTH = 9


def encode(value: Any) -> bytes:
    """JSON in UTF-8. Lone surrogates, which no UTF-8 has, become U+FFFD.

    Raises ``RecursionError`` for a value that is nested deeper than the interpreter can follow.
    """
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_all_well_formed(value))


def marked_if_cut(text: str, cut: bool) -> str:  # noqa: FBT001 - a fact of the history, not a switch
    """The text of a reply, with ``CUT_NOTE`` behind it if the reply was cut."""
    if not cut:
        return text
    return f"{text}\n{CUT_NOTE}" if text else CUT_NOTE


def object_arguments(arguments: str) -> str:
    """The arguments as the model wrote them, if they are a JSON object; else an object that quotes them.

    Templates parse them, and fail the whole request when they cannot.
    """
    try:
        if isinstance(msgspec.json.decode(arguments), dict):
            return arguments
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        pass
    return encode({"malformed": arguments[:_MALFORMED_LIMIT]}).decode()


@functools.lru_cache(_NAMES)
def function_name(name: str) -> str:
    """The name of a tool, as every server takes it. Models invent names, so a history may hold any."""
    return _NOT_IN_NAMES.sub("_", name)[:_NAME_LIMIT] or "unnamed"


class CallIds:
    """Gives each call of one history an id of its own, and each result the id of its call."""

    def __init__(self) -> None:
        self._of_last_call: dict[str, str] = {}
        self._used: set[str] = set()

    def of_call(self, call_id: str) -> str:
        """The id for the next call, nine letters and digits, which no other call of the history has."""
        turn = 0
        while True:
            wire_id = _digest(call_id, turn)
            if wire_id not in self._used:
                break
            turn += 1
        self._used.add(wire_id)
        self._of_last_call[call_id] = wire_id
        return wire_id

    def of_result(self, call_id: str) -> str:
        """The id of the last call that has this id of ours."""
        known = self._of_last_call.get(call_id)
        return known if known is not None else self.of_call(call_id)


@functools.lru_cache(_IDS)
def _digest(call_id: str, turn: int) -> str:
    return hashlib.sha256(f"{call_id}/{turn}".encode("utf-8", "replace")).hexdigest()[:_ID_LENGTH]


def _all_well_formed(value: Any) -> Any:
    if isinstance(value, str):
        return well_formed(value)
    if isinstance(value, list | tuple):
        return [_all_well_formed(item) for item in value]
    if isinstance(value, dict):
        return {_all_well_formed(key): _all_well_formed(item) for key, item in value.items()}
    return value
