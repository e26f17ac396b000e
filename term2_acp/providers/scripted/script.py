"""Scripts of the scripted provider: from a TOML file to what a model "says". docs/SCRIPTS.md is the manual.

Rules:

- The words of the last prompt choose the rule, and the number of the model call in the turn chooses its
  reply; nothing else does. A script has no state, so the same history is always answered the same.
- A mistake in the file is an error with its place in the file; unknown keys are mistakes.
- Playing makes values only. Waiting is for whoever plays (``Wait``, ``Hang``).
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import msgspec

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import Failed, Finish, Finished, RequestRefused, ToolCallDelta
from term2_acp.providers.scripted.playing import Hang, Played
from term2_acp.providers.scripted.steps import STEPS, Step

# Deltas that a reader gets in one piece, unless the script says otherwise.
_PER_READ = 64
_CONTEXT_TOKENS = 32_768


class Script(Protocol):
    """What the scripted provider plays. ``play`` ends with ``Finished``, ``Failed`` or ``Hang``, or never."""

    @property
    def merge_text(self) -> bool:
        """As ``Provider.merge_text``."""
        ...

    @property
    def per_read(self) -> int:
        """How many deltas a reader gets in one piece at most."""
        ...

    @property
    def context_tokens(self) -> int:
        """The size of the model's context, in tokens."""
        ...

    @property
    def context_assumed(self) -> bool:
        """As ``ModelInfo.context_assumed``: the conversation is not compacted by that size."""
        ...

    def play(self, prompt: str, call: int) -> Iterator[Played]:
        """What the model says to ``prompt`` at its ``call``-th call (from 0) of the turn."""
        ...


class ScriptError(Exception):
    """The script cannot be read. The message names the place and the mistake."""


class _Reply(msgspec.Struct, forbid_unknown_fields=True):
    steps: list[dict[str, Any]]


class _Rule(msgspec.Struct, forbid_unknown_fields=True):
    replies: list[_Reply]
    when: list[str] = []
    match: str | None = None
    repeat: bool = False


class _File(msgspec.Struct, forbid_unknown_fields=True):
    rules: list[_Rule]
    merge_text: bool = True
    per_read: int = _PER_READ
    context_tokens: int | None = None


@frozen
class _CompiledRule:
    when: tuple[str, ...]
    match: re.Pattern[str] | None
    repeat: bool
    replies: tuple[tuple[Step, ...], ...]


@frozen
class FileScript:
    """A script from a file (``Script``)."""

    rules: tuple[_CompiledRule, ...]
    merge_text: bool = True
    per_read: int = _PER_READ
    context_tokens: int = _CONTEXT_TOKENS
    context_assumed: bool = True

    def play(self, prompt: str, call: int) -> Iterator[Played]:
        """See ``Script``."""
        for rule in self.rules:
            groups = _fits(rule, prompt)
            if groups is not None:
                return _play(_steps_of(rule, call), groups)
        message = "The script has no rule for this prompt; add one, or one without `when` at its end."
        return iter([Failed(RequestRefused(message))])


def read_script(text: str) -> FileScript:
    """Read a script.

    Raises:
        ScriptError: it is not TOML, or not a script.
    """
    import tomllib  # needed by nobody but users of scripts

    try:
        file = msgspec.convert(tomllib.loads(text), _File)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ScriptError(str(error)) from error
    if file.per_read < 1:
        raise ScriptError("per_read: must be 1 or more")
    rules = tuple(_compiled(rule, f"rules[{number}]") for number, rule in enumerate(file.rules))
    size, assumed = file.context_tokens or _CONTEXT_TOKENS, file.context_tokens is None
    return FileScript(rules, file.merge_text, file.per_read, size, assumed)


def _compiled(rule: _Rule, place: str) -> _CompiledRule:
    try:
        match = None if rule.match is None else re.compile(rule.match)
    except re.error as error:
        raise ScriptError(f"{place}.match: {error}") from error
    replies = tuple(
        tuple(
            _step(step, f"{place}.replies[{number}].steps[{index}]") for index, step in enumerate(reply.steps)
        )
        for number, reply in enumerate(rule.replies)
    )
    return _CompiledRule(tuple(word.lower() for word in rule.when), match, rule.repeat, replies)


def _step(step: dict[str, Any], place: str) -> Step:
    kinds = [key for key in step if key in STEPS]
    if len(kinds) != 1:
        raise ScriptError(f"{place}: a step has exactly one of {', '.join(STEPS)}")
    try:
        return msgspec.convert(step, STEPS[kinds[0]])
    except msgspec.ValidationError as error:
        raise ScriptError(f"{place}: {error}") from error


def _fits(rule: _CompiledRule, prompt: str) -> tuple[str, ...] | None:
    """The groups of the rule's expression if the rule is for this prompt, else None."""
    lowered = prompt.lower()
    if not all(word in lowered for word in rule.when):
        return None
    if rule.match is None:
        return ()
    found = rule.match.search(prompt)
    return None if found is None else tuple(group or "" for group in found.groups())


def _steps_of(rule: _CompiledRule, call: int) -> Sequence[Step]:
    if call < len(rule.replies):
        return rule.replies[call]
    return rule.replies[-1] if rule.repeat and rule.replies else ()


def _play(steps: Sequence[Step], groups: tuple[str, ...]) -> Iterator[Played]:
    def fill(value: Any) -> Any:
        if isinstance(value, str):
            return _GROUP.sub(lambda m: groups[int(m[1]) - 1] if int(m[1]) <= len(groups) else m[0], value)
        if isinstance(value, list):
            return [fill(item) for item in value]
        if isinstance(value, dict):
            return {key: fill(item) for key, item in value.items()}
        return value

    finish = Finish.STOP
    for step in steps:
        for played in step.play(fill):
            yield played
            if isinstance(played, Finished | Failed | Hang):
                return
            if isinstance(played, ToolCallDelta):
                finish = Finish.TOOL_CALLS
    yield Finished(finish)


_GROUP = re.compile(r"\$([1-9])")
