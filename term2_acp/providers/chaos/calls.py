"""The tool calls of ``chaos``: good ones that do no harm, and bad ones made of them. Pure.

Rules:

- A tool is called only by a recipe, which draws arguments that are right and harmless. What reads may read;
  what writes, writes to names that begin with ``chaos-`` in the workspace; commands, programs and fetches are
  the same constants each time. Of a tool without a recipe (one of an MCP server, say) nobody knows what it
  does, so it is not called at all, not even with nonsense: a tool may take that.
- Bad arguments are good ones that were spoilt. No way of spoiling them puts in a word of its own that a tool
  could act on, so a spoilt call that happens to be valid is a harmless one.
"""

import json
from collections.abc import Callable, Mapping
from random import Random
from types import MappingProxyType
from typing import Any

from term2_acp.providers.base import ToolCallDelta

Arguments = dict[str, Any]
Recipe = Callable[[Random], Arguments]

_HALVES = ("\ud83d", "\udc00")  # of a surrogate pair: the most troublesome, so the most often
# Letters of each width, marks that change how text reads, a line end that is none.
_ODD = ("é", "漢", "🧪", "\u202e", "\u200b", "\u2028", "\0", "\x1b[2J", "\\", '"', "\r\n", "\ufeff")

_PLACES = (
    "README.md",
    "src/main.py",
    "nothing-here.txt",
    ".",
    "",
    "chaos-1.txt",
    "../outside.txt",
    "/etc/hosts",
)
_PATTERNS = ("**/*.md", "*", "src/**", "[", "{a,b}", "**/**/**/x", "chaos-*")
_EXPRESSIONS = ("chaos", "def .*", "(", "[[:alpha:]]+", "^$", "\\", "x{1000}")
_STATUSES = ("pending", "in_progress", "completed")
_PRIORITIES = ("low", "medium", "high")
_UNKNOWN = (
    "",
    "no_such_tool",
    "Read_File",
    "functions.read_file",
    "read_file ",
    "读",
    "x" * 3000,
    "sh\0ell",
    "\u202e",
)
_IDS = ("", "call_1", "call_1", "0", "x" * 2000, "call 1\n", "\u2028", "tool-call/1", "чуж")

# Deeper than any reader of nested values goes; more characters than a line of an editor's log.
_DEEP = 5000
_HUGE = 200_000


def _file(draw: Random) -> str:
    return f"chaos-{draw.randrange(3)}{draw.choice(('.txt', '.md', '/inner.txt', ' é.txt'))}"


def _text(draw: Random) -> str:
    lines = ("one", "two", "", "  three", "é漢🧪", "chaos")
    return "\n".join(draw.choices(lines, k=draw.randrange(8)))


def _read_file(draw: Random) -> Arguments:
    arguments: Arguments = {"path": draw.choice((*_PLACES, _file(draw), f"chaos-{'x' * 5000}"))}
    if draw.random() < 0.3:
        arguments["start_line"] = draw.choice((1, 2, 10**9))
    if draw.random() < 0.3:
        arguments["end_line"] = draw.choice((1, 5, 10**9))
    return arguments


def _glob(draw: Random) -> Arguments:
    return {"pattern": draw.choice(_PATTERNS)}


def _grep(draw: Random) -> Arguments:
    arguments: Arguments = {"pattern": draw.choice(_EXPRESSIONS)}
    if draw.random() < 0.3:
        arguments["fixed_strings"] = True
    if draw.random() < 0.3:
        arguments["include"] = draw.choice(_PATTERNS)
    return arguments


def _update_plan(draw: Random) -> Arguments:
    entries = [
        {
            "content": f"{draw.choice(('Look', 'Leap', 'Rest'))} {number}",
            "priority": draw.choice(_PRIORITIES),
            "status": draw.choice(_STATUSES),
        }
        for number in range(draw.choice((0, 1, 3, 30)))
    ]
    return {"entries": entries}


def _create_file(draw: Random) -> Arguments:
    arguments: Arguments = {"path": _file(draw), "content": _text(draw)}
    if draw.random() < 0.5:
        arguments["overwrite"] = True
    return arguments


def _search_replace(draw: Random) -> Arguments:
    replacement = {"search_content": draw.choice(("one", "two", "absent")), "replace_content": _text(draw)}
    return {"path": _file(draw), "replacements": [replacement] * draw.choice((1, 1, 2))}


def _apply_patch(draw: Random) -> Arguments:
    name = f"chaos-{draw.randrange(3)}.txt"
    added = f"*** Begin Patch\n*** Add File: {name}\n+one\n+two\n*** End Patch\n"
    changed = f"*** Begin Patch\n*** Update File: {name}\n@@\n-one\n+{draw.randrange(9)}\n*** End Patch\n"
    return {
        "patch": draw.choice((added, changed, f"*** Begin Patch\n*** Delete File: {name}\n", "@@ -1 +1 @@\n"))
    }


def _shell(_draw: Random) -> Arguments:
    return {"command": "echo chaos", "timeout_ms": 10_000}


def _run_code(_draw: Random) -> Arguments:
    return {"code": "print('chaos')", "timeout_ms": 10_000}


def _web_fetch(_draw: Random) -> Arguments:
    return {"url": "https://chaos.invalid/"}  # a name that leads nowhere, by RFC 2606


HARMLESS: Mapping[str, Recipe] = MappingProxyType(
    {
        "read_file": _read_file,
        "glob": _glob,
        "grep": _grep,
        "update_plan": _update_plan,
        "create_file": _create_file,
        "search_replace": _search_replace,
        "apply_patch": _apply_patch,
        "shell": _shell,
        "run_code": _run_code,
        "web_fetch": _web_fetch,
    }
)
"""The built-in tools that are called, with what they are called with."""


def draw_calls(draw: Random, recipes: Mapping[str, Recipe]) -> list[ToolCallDelta]:
    """The calls of one reply: at least one if there is a recipe. One may stand there several times."""
    calls: list[ToolCallDelta] = []
    for _ in range(draw.choice((1, 1, 1, 2, 3, 8))):
        if calls and draw.random() < 0.15:
            calls.append(calls[-1])
        elif draw.random() < 0.15:
            calls.append(ToolCallDelta(_call_id(draw), draw.choice(_UNKNOWN), draw.choice(("{}", "", "["))))
        elif recipes:
            name = draw.choice(list(recipes))
            arguments = recipes[name](draw)
            text = json.dumps(arguments, ensure_ascii=draw.random() < 0.5)
            if draw.random() < 0.4:
                text = draw.choice(_SPOILING)(draw, arguments)
            calls.append(ToolCallDelta(_call_id(draw), name, text))
    return calls


def _call_id(draw: Random) -> str:
    return draw.choice(_IDS) if draw.random() < 0.5 else f"call_{draw.randrange(10**6)}"


# -- ways of spoiling arguments ------------------------------------------------------------------------------


def _cut(draw: Random, arguments: Arguments) -> str:
    text = json.dumps(arguments)
    return text[: draw.randrange(len(text))]


def _no_object(draw: Random, arguments: Arguments) -> str:
    text = json.dumps(arguments)
    return draw.choice(
        (
            "",
            "  ",
            "null",
            "[]",
            "7",
            "NaN",
            json.dumps(text),
            repr(arguments),
            f"[{text}]",
            f"{text}}}",
            f"\ufeff{text}",
        )
    )


def _wrong_types(draw: Random, arguments: Arguments) -> str:
    wrong: Any = draw.choice((None, True, 7, -1.5, 1e308, [], {}, [[]], 10**40))
    return json.dumps({**arguments, draw.choice(list(arguments)): wrong})


def _missing(draw: Random, arguments: Arguments) -> str:
    gone = draw.choice(list(arguments))
    return json.dumps({key: value for key, value in arguments.items() if key != gone})


def _twice(draw: Random, arguments: Arguments) -> str:
    key = draw.choice(list(arguments))
    again = draw.choice((json.dumps(arguments[key]), "null", '""'))
    return f"{json.dumps(arguments)[:-1]}, {json.dumps(key)}: {again}}}"


def _extra(draw: Random, arguments: Arguments) -> str:
    return json.dumps({draw.choice(("extra", "", "__class__", "Path", "ключ")): 1, **arguments})


def _deep(draw: Random, arguments: Arguments) -> str:
    opening, closing = draw.choice((("[", "]"), ('{"x":', "}")))
    levels = draw.choice((70, 200, _DEEP))
    return f'{json.dumps(arguments)[:-1]}, "deep": {opening * levels}1{closing * levels}}}'


def _huge(draw: Random, arguments: Arguments) -> str:
    return json.dumps(
        {**arguments, "huge": draw.choice(("x", "é", "\0")) * _HUGE}, ensure_ascii=draw.random() < 0.5
    )


def _odd_text(draw: Random, arguments: Arguments) -> str:
    """Odd characters behind a word of the arguments: what begins with ``chaos-`` still does."""
    texts = [
        key
        for key, value in arguments.items()
        if isinstance(value, str) and key in ("path", "content", "pattern")
    ]
    if not texts:
        return _extra(draw, arguments)
    key = draw.choice(texts)
    odd = draw.choice(_HALVES if draw.random() < 0.4 else _ODD)
    # Escaped, so that half a pair is JSON all the same: that is how a server sends one.
    return json.dumps({**arguments, key: arguments[key] + odd}, ensure_ascii=True)


_SPOILING: tuple[Callable[[Random, Arguments], str], ...] = (
    _cut,
    _no_object,
    _wrong_types,
    _missing,
    _twice,
    _extra,
    _deep,
    _huge,
    _odd_text,
)
