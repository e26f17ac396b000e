"""What must hold for a conversation that was interrupted and is shown again.

Each function is one rule and raises ``AssertionError``. ``shown`` and ``replay`` are folded updates
(``fold``), ``updates`` are bare ones, ``rows`` are those of a journal, and ``messages`` are what the model
was sent (``crashing``).
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from tests.kit.crashing import Row
from tests.kit.order import FINAL

Json = dict[str, Any]

INTERRUPTED = "term2 stopped during this turn"
UNKNOWN = "outcome_unknown"


def things(shown: Json, kind: str) -> list[Json]:
    """What is shown of one kind, in order."""
    return [thing for thing in shown["things"] if thing["is"] == kind]


def in_turn(rows: Sequence[Row]) -> str | None:
    """The prompt of the turn that the journal ends in the midst of, if it does."""
    prompt = None
    for row in rows:
        if row.kind == "user_message":
            prompt = row.value["message_id"]
        elif row.kind == "idle":
            prompt = None
    return prompt


def nothing_is_missing(live: Json, replay: Json) -> None:
    """What the client saw is the beginning of what it is shown again: the same ids in the same order."""
    count = len(live["things"])
    assert [one["id"] for one in replay["things"][:count]] == [one["id"] for one in live["things"]]
    for before, after in zip(live["things"], replay["things"], strict=False):
        _is_shown_again(before, after)
    for kind in ("plan_update", "session_info_update"):
        if kind in live["last"]:
            assert replay["last"][kind] == live["last"][kind]
    if "usage_update" in live["last"]:  # each replaces the one before; the last may not have been shown
        assert replay["last"]["usage_update"]["used"] >= live["last"]["usage_update"]["used"]


def _is_shown_again(before: Json, after: Json) -> None:
    assert after["is"] == before["is"]
    if before["is"] == "tool_call" and before["status"] in FINAL:
        assert after == before
    elif before["is"] == "tool_call":
        for member in ("name", "kind", "rawInput", "title"):
            assert after[member] == before[member]
    elif before["is"] == "terminal":
        assert after["output"].startswith(before["output"])
        for member in ("command", "cwd"):
            assert after[member] == before[member]
        assert before.get("exitStatus", after["exitStatus"]) == after["exitStatus"]
    else:
        assert after["text"].startswith(before["text"])


def nothing_comes_twice(updates: Sequence[Json]) -> None:
    """Each thing is begun once, and what replaces what stood before comes once."""
    begun = Counter(
        next(
            (update[member] for member in ("messageId", "toolCallId", "terminalId") if member in update),
            update["sessionUpdate"],
        )
        for update in updates
        if update["sessionUpdate"] != "tool_call_update" or "title" in update
    )
    assert [one for one, count in begun.items() if count > 1] == []


def everything_is_over(replay: Json, prompt: str | None) -> None:
    """Every call and terminal has ended, and a sentence stands where the turn was cut off, and only there."""
    assert all(call["status"] in FINAL and "rawOutput" in call for call in things(replay, "tool_call"))
    assert all("exitStatus" in terminal for terminal in things(replay, "terminal"))
    cut = [one["id"] for one in things(replay, "agent_message") if INTERRUPTED in one["text"]]
    assert cut == ([] if prompt is None else [f"{prompt}_interrupted"])
    assert prompt is None or replay["things"][-1]["id"] == cut[0]


def is_well_paired(messages: Sequence[Json]) -> None:
    """Every call has exactly one result, behind its reply and in its order, and nothing else has one."""
    waiting: list[str] = []
    ids: set[str] = set()
    assert messages[0]["is"] == "UserSaid"
    for message in messages:
        if message["is"] == "ToolAnswered":
            assert waiting.pop(0) == message["answers"]
            assert message["text"]
            continue
        assert waiting == [], "a reply's calls have no results"
        assert message["text"] or message.get("calls"), "an empty message"
        waiting = list(message.get("calls", ()))
        assert not ids & set(waiting), "an id of another call"
        ids |= set(waiting)
    assert waiting == []


def the_model_is_told(messages: Sequence[Json], replay: Json, prompt: str) -> None:
    """The model knows of every prompt and call, well paired, and of an unknown outcome as the person does."""
    is_well_paired(messages)
    said = [message["text"] for message in messages if message["is"] == "UserSaid"]
    assert said == [one["text"] for one in things(replay, "user_message")] + [prompt]
    told = {message["answers"]: message["text"] for message in messages if message["is"] == "ToolAnswered"}
    calls = {call["toolCallId"]: call for call in things(replay, "tool_call")}
    assert told.keys() == calls.keys()
    for call_id, text in told.items():
        assert (UNKNOWN in text) == (UNKNOWN in json.dumps(calls[call_id]["rawOutput"])), text
