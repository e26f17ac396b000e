"""The provider ``chaos``: the same seed and the same history play the same, everything that it says it can do
does occur, no promise of a provider is broken, and whatever it calls is harmless."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from random import Random

import pytest
import trio
from trio.testing import MockClock

from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    Delta,
    Failed,
    Finish,
    Finished,
    Message,
    Request,
    TextDelta,
    ThoughtDelta,
    ToolAnswered,
    ToolCallDelta,
    ToolSpec,
    UsageDelta,
    UserSaid,
)
from term2_acp.providers.chaos.calls import HARMLESS
from term2_acp.providers.chaos.model import Chaos, fault_of_history
from term2_acp.providers.chaos.reply import reply
from term2_acp.providers.scripted.playing import Hang, Wait
from term2_acp.providers.scripted.steps import ERRORS
from term2_acp.providers.text import is_well_formed
from term2_acp.tools.base import ToolError
from term2_acp.tools.registry import TOOLS, decode, schema_of

SPECS = tuple(ToolSpec(tool.name, tool.description, schema_of(tool)) for tool in TOOLS.values())
SEEDS = range(300)


def asked(prompt: str = "go", calls: int = 0, tools: Sequence[ToolSpec] = SPECS) -> Request:
    """A request in a conversation of which so many replies were made."""
    messages: list[Message] = [UserSaid(prompt)]
    for number in range(calls):
        messages.append(AssistantSaid("", (CallMade(str(number), "f", "{}"),)))
        messages.append(ToolAnswered(str(number), "f", "done"))
    return Request("chaos", "", messages, tools)


async def heard(seed: int, request: Request) -> tuple[list[list[Delta]], list[str]]:
    """Each list that is received, to the end or to where nothing more comes; and what the person is told."""
    lists: list[list[Delta]] = []
    told: list[str] = []
    with trio.move_on_after(1000):
        async with Chaos("c", seed).stream(request, told.append) as deltas:
            while not lists or not isinstance(lists[-1][-1], Finished | Failed):
                lists.append(list(await deltas.receive()))
    return lists, told


def played(seeds: Sequence[int] = SEEDS) -> Iterator[Delta | Wait | Hang]:
    for seed in seeds:
        yield from reply(Random(seed), HARMLESS)


async def test_the_same_again(autojump_clock: MockClock) -> None:
    for seed in range(30):
        for calls in range(3):
            first = await heard(seed, asked(calls=calls))
            assert repr(first) == repr(await heard(seed, asked(calls=calls)))  # an error equals only itself


def test_the_same_in_another_process() -> None:
    program = (
        "from random import Random; from term2_acp.providers.chaos.reply import reply\n"
        "from term2_acp.providers.chaos.calls import HARMLESS\n"
        "import hashlib\n"
        "text = repr([list(reply(Random(seed), HARMLESS)) for seed in range(100)])\n"
        "print(hashlib.sha256(text.encode()).hexdigest())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


async def test_another_seed_place_or_prompt_is_another_reply(autojump_clock: MockClock) -> None:
    requests = [asked(), asked("stop"), asked(calls=1), asked(calls=2)]
    replies = [await heard(seed, request) for seed in range(10) for request in requests]
    assert len({repr(found) for found in replies}) > 30


async def test_no_promise_of_a_provider_is_broken(autojump_clock: MockClock) -> None:
    ended = 0
    for seed in SEEDS:
        lists, _ = await heard(seed, asked(calls=seed % 4))
        deltas = [delta for received in lists for delta in received]
        assert all(lists)
        ends = [number for number, delta in enumerate(deltas) if isinstance(delta, Finished | Failed)]
        assert ends in ([], [len(deltas) - 1])
        ended += len(ends)
        for delta in deltas:
            if isinstance(delta, TextDelta | ThoughtDelta):
                assert is_well_formed(delta.text)
            elif isinstance(delta, ToolCallDelta):
                assert is_well_formed(delta.name + delta.call_id + delta.arguments)
            elif isinstance(delta, UsageDelta):
                counts = (
                    delta.input_tokens,
                    delta.output_tokens,
                    delta.cache_read_tokens,
                    delta.thought_tokens,
                )
                assert all(isinstance(count, int) and count >= 0 for count in counts)
    assert ended > 0.9 * len(SEEDS)


async def test_everything_happens(autojump_clock: MockClock) -> None:
    deltas = list(played(range(2000)))
    kinds = {type(delta) for delta in deltas}
    assert kinds == {TextDelta, ThoughtDelta, ToolCallDelta, UsageDelta, Finished, Failed, Wait, Hang}
    assert {delta.finish for delta in deltas if isinstance(delta, Finished)} == set(Finish)
    assert {type(delta.error) for delta in deltas if isinstance(delta, Failed)} == set(ERRORS.values())
    calls = [delta for delta in deltas if isinstance(delta, ToolCallDelta)]
    assert {call.name for call in calls} > set(TOOLS)
    assert "" in {call.call_id for call in calls}
    assert any("\\ud83d" in call.arguments for call in calls)
    assert any(len(call.arguments) > 200_000 for call in calls)
    text = "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))
    assert all(odd in text for odd in ("\u2028", "\0", "\u202e"))
    assert any(told for _, told in [await heard(seed, asked()) for seed in range(50)])


def test_good_calls_are_good() -> None:
    """A recipe whose arguments no longer fit its tool would only test how bad ones are refused."""
    for name, recipe in HARMLESS.items():
        for seed in range(100):
            decode(TOOLS[name], json.dumps(recipe(Random(seed))))


def test_most_calls_are_good_and_many_are_not() -> None:
    good = bad = 0
    for delta in played(range(1000)):
        if isinstance(delta, ToolCallDelta) and delta.name in TOOLS:
            try:
                decode(TOOLS[delta.name], delta.arguments)
                good += 1
            except ToolError:
                bad += 1
    assert good > bad > 100


def test_whatever_fits_a_tool_is_harmless() -> None:
    for delta in played(range(3000)):
        if not isinstance(delta, ToolCallDelta) or delta.name not in TOOLS:
            continue
        try:
            arguments = json.loads(delta.arguments)
        except (ValueError, RecursionError):
            continue
        if not isinstance(arguments, dict):
            continue
        name, path = delta.name, arguments.get("path")
        if name in ("create_file", "search_replace") and isinstance(path, str) and path:
            assert path.startswith("chaos-")
            assert ".." not in path
        elif name == "apply_patch" and isinstance(arguments.get("patch"), str):
            files = [line for line in arguments["patch"].split("\n") if " File: " in line]
            assert all(line.partition(" File: ")[2].startswith("chaos-") for line in files)
        elif name == "shell" and isinstance(arguments.get("command"), str):
            assert arguments["command"] in ("echo chaos", "")
        elif name == "run_code" and isinstance(arguments.get("code"), str):
            assert arguments["code"] in ("print('chaos')", "")
        elif name == "web_fetch" and isinstance(arguments.get("url"), str):
            assert arguments["url"] in ("https://chaos.invalid/", "")


async def test_a_tool_without_a_recipe_is_never_called(autojump_clock: MockClock) -> None:
    tools = (ToolSpec("erase_everything", "", {}), *SPECS)
    names = set()
    for seed in range(200):
        for received in (await heard(seed, asked(tools=tools)))[0]:
            names |= {delta.name for delta in received if isinstance(delta, ToolCallDelta)}
    assert "erase_everything" not in names
    assert "read_file" in names


async def test_a_tool_that_is_not_offered_is_not_called(autojump_clock: MockClock) -> None:
    for seed in range(100):
        for received in (await heard(seed, asked(tools=SPECS[:1])))[0]:
            names = {delta.name for delta in received if isinstance(delta, ToolCallDelta)}
            assert not names & {spec.name for spec in SPECS[1:]}


USER, CALLS, ANSWER = (
    UserSaid("go"),
    AssistantSaid("", (CallMade("1", "f", "{}"),)),
    ToolAnswered("1", "f", ""),
)
SAID = AssistantSaid("yes")


@pytest.mark.parametrize(
    ("messages", "fault"),
    [
        ([], "it does not begin with the person"),
        ([SAID, USER], "it does not begin with the person"),
        ([USER], None),
        ([USER, USER], None),
        ([USER, SAID], "it does not end with the person or a result"),
        ([USER, SAID, USER], None),
        ([USER, CALLS, ANSWER], None),
        ([USER, CALLS, ANSWER, SAID, USER], None),
        ([USER, CALLS], "it does not end with the person or a result"),
        ([USER, CALLS, USER], "message 2 stands where the result of a call should"),
        ([USER, ANSWER], "message 1 answers no call, or not the next one"),
        ([USER, CALLS, ANSWER, ANSWER], "message 3 answers no call, or not the next one"),
        ([USER, CALLS, ToolAnswered("2", "f", "")], "message 2 answers no call, or not the next one"),
        ([USER, CALLS, ToolAnswered("1", "g", "")], "message 2 answers no call, or not the next one"),
        ([USER, CALLS, ANSWER, CALLS, ANSWER], "message 3 has a call whose id was used before"),
        ([USER, SAID, SAID, USER], "message 2 is a second reply in a row"),
        ([USER, AssistantSaid(""), USER], "message 1 is an empty reply"),
        (
            [USER, AssistantSaid("", (CallMade("1", "f", ""), CallMade("2", "f", ""))), ANSWER],
            "the last call has no result",
        ),
        (
            [
                USER,
                AssistantSaid("", (CallMade("1", "f", ""), CallMade("2", "f", ""))),
                ToolAnswered("2", "f", ""),
                ANSWER,
            ],
            "message 2 answers no call, or not the next one",
        ),
    ],
)
async def test_a_history_is_held_to_the_rules(messages: list[Message], fault: str | None) -> None:
    assert fault_of_history(messages) == fault
    if fault is not None:
        async with Chaos("c", 1).stream(Request("m", "", messages)) as deltas:
            (failed,) = await deltas.receive()
        assert isinstance(failed, Failed)
        assert failed.error.code == "provider_refused"
        assert fault in failed.error.message


async def test_the_seed_is_logged(caplog: pytest.LogCaptureFixture, autojump_clock: MockClock) -> None:
    chaos = Chaos("noise", 4711)
    for _ in range(2):
        async with chaos.stream(asked()):
            pass
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        "the provider noise plays faults on purpose, by seed 4711"
    ]


async def test_a_cancel_ends_any_wait(autojump_clock: MockClock) -> None:
    for seed in range(100):
        with trio.move_on_after(0.001 * seed):
            async with Chaos("c", seed).stream(asked()) as deltas:
                while not isinstance((await deltas.receive())[-1], Finished | Failed):
                    pass
