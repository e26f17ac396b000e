"""How a command of a prompt is answered: one message of term2's, in Markdown that reads well as plain text.

No model is told of the answer, and only ``/compact`` asks one. What comes from elsewhere (paths, ids of
models) stands in code spans, with hidden characters written out.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import trio

from term2_acp.domain import events as ev
from term2_acp.domain.ids import new_message_id
from term2_acp.domain.options import Mode, OptionId, SessionOption
from term2_acp.domain.turn import StopReason
from term2_acp.domain.usage import usd
from term2_acp.permission.choices import escape_for_person
from term2_acp.session.commands import COMMANDS, COMPACT, HELP, MODEL, PERMISSIONS, PLAN, USAGE, Command

if TYPE_CHECKING:  # a session has its turns, and is what they work with
    from term2_acp.permission.grants import SessionAccess
    from term2_acp.providers.offers import ModelOffers
    from term2_acp.session.session import Session

# Models that an answer names when the one that was typed is not there.
_NEAR = 8


async def answer(session: "Session", command: Command) -> StopReason:
    """Answer a command of the session's turn. A cancel may come at any moment, and nothing is said then.

    Raises:
        TurnFailed: it needs a model, and there is none.
    """
    text = await _ANSWERS[command.name](session, command.words)
    await session.speech.emit([ev.AgentMessage(new_message_id(), text, spoken_by_model=False)])
    return StopReason.END_TURN


# -- /plan, /compact, /help ------------------------------------------------------------------------


async def _plan(session: "Session", words: str) -> str:
    del words
    await session.speech.reached()  # the mode is kept, or this turn is over
    return (
        "Plan mode is on: files are not changed, and commands can only read. Say what to plan. "
        "Set the session's mode to `standard` to have a plan carried out."
    )


async def _compact(session: "Session", words: str) -> str:
    from term2_acp.agent.compaction import NOTHING, compact
    from term2_acp.session.workbench import asking_of, hands_of

    asking = await asking_of(session)
    forget = hands_of(session).files.forget_reads_nowait
    ended = await compact(asking, forget_reads=forget, instructions=words or None)
    if ended is None:
        return NOTHING
    if ended.error is not None:
        return ended.error
    return "The conversation is compacted: from here on the model is told a summary in place of it."


async def _help(session: "Session", words: str) -> str:
    del session, words
    await trio.lowlevel.checkpoint()
    lines = [
        f"- `/{command.name}{f' [{command.hint}]' if command.hint else ''}`: {command.description}"
        for command in COMMANDS
    ]
    return _paragraphs(
        "A prompt may begin with one of these:",
        "\n".join(lines),
        "Everything else goes to the model, whatever it begins with.",
    )


# -- /model ----------------------------------------------------------------------------------------


async def _model(session: "Session", words: str) -> str:
    before = {option.option_id: option for option in await session.options.shown()}
    offers = session.parts.mind.offers
    if offers is None or OptionId.MODEL not in before:
        return "No model can be chosen here."
    if not words:
        return _paragraphs(_in_force(before), _models(before[OptionId.MODEL]), "`/model NAME` chooses one.")
    found = _named(offers, words)
    if len(found) != 1:
        return _not_one(offers, words, found)
    failure = await session.chooser.choose(OptionId.MODEL, found[0])
    if failure is not None:
        return f"The model was not changed. {failure.message}"
    after = {option.option_id: option for option in session.options.shown_nowait()}
    return _paragraphs(_in_force(after), *_effort_lost(before, after))


def _named(offers: "ModelOffers", words: str) -> Sequence[str]:
    """The values that a name may mean: the one that it is, else those whose model it is."""
    from term2_acp.providers.offers import DEFAULT_MODEL

    if words == DEFAULT_MODEL or offers.find(words) is not None:
        return (words,)
    return [model.value for model in offers.models() if model.value.partition("/")[2] == words]


def _not_one(offers: "ModelOffers", words: str, found: Sequence[str]) -> str:
    from term2_acp.providers.choosing.candidates import near_to

    if found:
        return f"{_code(words)} is a model of several providers: {_codes(found)}. Say which."
    near = list(near_to(words, [model.value for model in offers.models()]))[:_NEAR]
    hint = f"Near to it: {_codes(near)}." if near else "`/model` shows those that there are."
    return f"There is no model {_code(words)}. {hint}"


def _in_force(options: Mapping[OptionId, SessionOption]) -> str:
    model, effort = options[OptionId.MODEL], options.get(OptionId.EFFORT)
    name = next(choice.name for choice in model.choices if choice.value == model.current)
    shown = f"Model: {_code(model.current)}" + ("" if "/" in model.current else f" ({name.lower()})")
    return shown if effort is None else f"{shown}, effort: {effort.current}"


def _models(option: SessionOption) -> str:
    """The models, one line for each provider; a value that names no provider is told by its name."""
    values = sorted(choice.value for choice in option.choices if "/" in choice.value)
    lines = [
        f"- {escape_for_person(provider)}: {_codes([value.partition('/')[2] for value in of_provider])}"
        for provider, of_provider in groupby(values, key=lambda value: value.partition("/")[0])
    ]
    lines += [f"- `{each.value}`: {each.name.lower()}" for each in option.choices if "/" not in each.value]
    return "\n".join(lines)


def _effort_lost(
    before: Mapping[OptionId, SessionOption], after: Mapping[OptionId, SessionOption]
) -> Sequence[str]:
    """That the effort is another one with this model, if it is."""
    old = before[OptionId.EFFORT].current if OptionId.EFFORT in before else "default"
    new = after[OptionId.EFFORT].current if OptionId.EFFORT in after else "default"
    return () if old == new else (f"The effort was {old}, and is {new} with this model.",)


# -- /usage ----------------------------------------------------------------------------------------


async def _usage(session: "Session", words: str) -> str:
    del words
    await trio.lowlevel.checkpoint()
    taken, shown = session.meter.taken, session.meter.shown
    if not taken.model_calls:
        return "No model was called in this session yet."
    tokens = taken.tokens
    lines = [f"- Calls of the model: {taken.model_calls:,}"]
    if taken.counted_calls:
        cache = f"{tokens.cache_read_tokens:,} from a cache, {tokens.cache_write_tokens:,} put into one"
        lines += [
            f"- Tokens read: {tokens.input_tokens:,} ({cache})",
            f"- Tokens written: {tokens.output_tokens:,} ({tokens.thought_tokens:,} of them thoughts)",
        ]
    else:
        lines.append("- Tokens: not known, the model server does not count them")
    cost = taken.cost_pico_usd
    lines.append("- Cost: not known" if cost is None else f"- Cost: ${usd(cost)}")
    if shown is not None:
        share = f" ({shown.used * 100 // shown.size} %)" if shown.size else ""
        lines.append(f"- Context: {shown.used:,} of {shown.size:,} tokens{share}")
    said = ["This session so far:", "\n".join(lines)]
    missing = taken.model_calls - taken.counted_calls
    if missing and taken.counted_calls:
        said.append(f"Not counted, and in no sum: {missing:,} of the calls.")
    return _paragraphs(*said)


# -- /permissions ----------------------------------------------------------------------------------

_OF_MODE: Mapping[Mode, Sequence[str]] = {
    Mode.STANDARD: (
        "Not asked: reading and editing in the workspace, and commands in the sandbox.",
        "Asked, until it is allowed for the session: reading and editing outside of the workspace.",
        "Asked each time: changing protected names (as `.git`, `AGENTS.md`, editors' settings).",
        "Asked each time: reading credentials, fetching web pages.",
    ),
    Mode.ASK: (
        "Not asked: reading in the workspace.",
        "Asked, until it is allowed for the session: reading outside of the workspace.",
        "Asked each time: every edit and every command, reading credentials, fetching web pages.",
    ),
    Mode.PLAN: (
        "Not asked: reading in the workspace, and commands, which can only read there.",
        "Asked, until it is allowed for the session: reading outside of the workspace.",
        "Asked each time: reading credentials, fetching web pages.",
        "Refused: every edit.",
    ),
}


async def _permissions(session: "Session", words: str) -> str:
    await trio.lowlevel.checkpoint()
    access = session.hands.access if session.hands is not None else None
    if words == "reset":
        if access is not None:
            access.reset()
        return "What was allowed for the session is forgotten. From here on it is asked again."
    mode = session.options.mode
    granted = [] if access is None else _grants(access)
    said = [f"Mode: `{mode}`", "\n".join(f"- {line}" for line in _OF_MODE[mode])]
    if granted:
        said += ["Allowed for this session:", "\n".join(granted), "`/permissions reset` forgets it."]
    else:
        said.append("Nothing is allowed beyond that.")
    if words:
        said.append(f"(`/permissions` takes `reset`, or nothing; {_code(words)} means nothing here.)")
    return _paragraphs(*said)


def _grants(access: "SessionAccess") -> list[str]:
    return [
        *(f"- edit {_code(path)}" for path in sorted(access.allow_edit_files)),
        *(f"- edit below {_code(path)}" for path in sorted(access.allow_edit_folders)),
        *(f"- read below {_code(path)}" for path in sorted(access.allow_read_folders)),
    ]


# -- words -----------------------------------------------------------------------------------------

# Characters of what a person typed that an answer repeats, and of a path.
_SHOWN_CHARACTERS = 4096


def _paragraphs(*paragraphs: str) -> str:
    return "\n\n".join(paragraphs)


def _code(text: str) -> str:
    """A code span. One that holds backticks is fenced by more of them, as Markdown has it."""
    shown = escape_for_person(text[:_SHOWN_CHARACTERS])
    if "`" not in shown:
        return f"`{shown}`"
    fence = "`" * (1 + max(map(len, re.findall("`+", shown))))
    return f"{fence} {shown} {fence}"


def _codes(texts: Sequence[str]) -> str:
    return ", ".join(map(_code, texts))


_ANSWERS: Mapping[str, Callable[["Session", str], Awaitable[str]]] = {
    PLAN: _plan,
    COMPACT: _compact,
    MODEL: _model,
    USAGE: _usage,
    PERMISSIONS: _permissions,
    HELP: _help,
}
