"""The scripted provider: docs/SCRIPTS.md is true, its waits are exact under the autojump clock, a mistake in
a script is named with its place, and the built-in script plays what its words say."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from term2_acp.config import Config, ProviderSettings
from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    Delta,
    Failed,
    Finish,
    Finished,
    Message,
    Overloaded,
    Request,
    RequestRefused,
    TextDelta,
    ThoughtDelta,
    ToolAnswered,
    ToolCallDelta,
    UsageDelta,
    UserSaid,
)
from term2_acp.providers.choosing.choice import Decided, Resolved
from term2_acp.providers.choosing.opening import open_source
from term2_acp.providers.request import ModelInfo
from term2_acp.providers.scripted.builtin import BENCH, MERGES_TEXT
from term2_acp.providers.scripted.model import Scripted, open_script
from term2_acp.providers.scripted.script import ScriptError, read_script
from term2_acp.providers.scripted.steps import ERRORS
from term2_acp.providers.servers.known import known_providers

MANUAL = (Path(__file__).parents[2] / "docs" / "SCRIPTS.md").read_text("utf-8")
EXAMPLE = re.findall(r"```toml\n(.*?)```", MANUAL, re.DOTALL)[1]


def turn(prompt: str, calls: int = 0) -> list[Message]:
    """A history in which the model was already called so many times since the prompt."""
    messages: list[Message] = [UserSaid("earlier"), AssistantSaid("yes"), UserSaid(prompt)]
    for number in range(calls):
        messages.append(AssistantSaid("", (CallMade(str(number), "f", "{}"),)))
        messages.append(ToolAnswered(str(number), "f", "done"))
    return messages


async def reads(script: str | Scripted, messages: Sequence[Message], most: int = 1000) -> list[list[Delta]]:
    """What each read gives, up to the end."""
    provider = script if isinstance(script, Scripted) else Scripted("s", read_script(script))
    out: list[list[Delta]] = []
    async with provider.stream(Request("m", "", messages)) as deltas:
        while len(out) < most:
            out.append(list(await deltas.receive()))
            assert out[-1]
            if isinstance(out[-1][-1], Finished | Failed):
                break
    return out


async def says(script: str, messages: Sequence[Message]) -> list[Delta]:
    return [delta for read in await reads(script, messages) for delta in read]


def one(steps: str, head: str = "") -> str:
    return f"{head}\n[[rules]]\n[[rules.replies]]\nsteps = {steps}\n"


# -- the manual ------------------------------------------------------------------------------------


async def test_the_manuals_example_plays_as_it_says(autojump_clock: MockClock) -> None:
    assert await says(EXAMPLE, turn("Please read notes.txt now")) == [
        ThoughtDelta("A file. I will look."),
        TextDelta("Reading notes.txt."),
        ToolCallDelta("scripted", "read_file", '{"path":"notes.txt"}'),
        Finished(Finish.TOOL_CALLS),
    ]
    begin = trio.current_time()
    assert await says(EXAMPLE, turn("READ, read notes.txt", calls=1)) == [
        TextDelta("Ther"),
        TextDelta("e it"),
        TextDelta(" is."),
        UsageDelta(120, 8),
        Finished(Finish.STOP),
    ]
    assert trio.current_time() - begin == pytest.approx(0.3)
    assert await says(EXAMPLE, turn("read notes.txt", calls=2)) == [Finished(Finish.STOP)]
    assert await says(EXAMPLE, turn("hello")) == [
        TextDelta("Ask me to read something."),
        Finished(Finish.STOP),
    ]


def test_the_manual_names_every_error_and_no_other() -> None:
    row = next(line for line in MANUAL.splitlines() if line.startswith("| `error"))
    assert set(re.findall(r"`(\w+)`", row.split("|")[3])) == set(ERRORS)


def test_the_manual_names_every_step() -> None:
    with pytest.raises(ScriptError) as raised:
        read_script(one("[{}]"))
    named = re.findall(r"(\w+)(?:,|$)", str(raised.value).partition("exactly one of ")[2])
    rows = re.findall(r"^\| `(\w+) = ", MANUAL, re.MULTILINE)
    assert rows == named
    assert len(named) == 9


# -- rules and replies -----------------------------------------------------------------------------


async def test_a_rule_that_repeats() -> None:
    script = "[[rules]]\nrepeat = true\nreplies = [{steps = [{text = 'a'}]}, {steps = [{text = 'b'}]}]"
    for calls, text in [(0, "a"), (1, "b"), (2, "b"), (7, "b")]:
        assert await says(script, turn("x", calls)) == [TextDelta(text), Finished(Finish.STOP)]


async def test_no_rule_fits() -> None:
    (failed,) = await says("[[rules]]\nwhen = ['a', 'b']\nreplies = []", turn("only a"))
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, RequestRefused)


async def test_groups_are_filled_in_everywhere_and_literally() -> None:
    script = one(
        "[{call = 'f', arguments = {a = ['$1', {b = '$2'}], n = 1, c = '$3'}},"
        " {call = 'g', raw = '{\"x\": $1'},"
        " {error = 'overloaded', message = 'no $2'}]"
    ).replace("[[rules.replies]]", "match = '(\\S+) (\\S+)'\n[[rules.replies]]")
    deltas = await says(script, turn(r"\1$2 b"))
    assert deltas[0] == ToolCallDelta("scripted", "f", r'{"a":["\\1$2",{"b":"b"}],"n":1,"c":"$3"}')
    assert deltas[1] == ToolCallDelta("scripted", "g", '{"x": \\1$2')
    assert isinstance(deltas[2], Failed)
    assert isinstance(deltas[2].error, Overloaded)
    assert deltas[2].error.message == "no b"
    assert len(deltas) == 3


@pytest.mark.parametrize("finish", list(Finish))
async def test_a_finish_ends_the_reply(finish: Finish) -> None:
    assert await says(one(f"[{{finish = '{finish}'}}, {{text = 'never'}}]"), turn("x")) == [Finished(finish)]


async def test_a_history_without_a_prompt_is_played_too() -> None:
    assert await says(one("[{text = 'a'}]"), []) == [TextDelta("a"), Finished(Finish.STOP)]


# -- reading ---------------------------------------------------------------------------------------


async def test_what_is_there_comes_in_one_piece_and_never_across_a_wait(autojump_clock: MockClock) -> None:
    script = one("[{size = 3, count = 5}, {wait_ms = 50}, {text = 'b'}]", head="per_read = 2")
    text = TextDelta("xxx")
    assert await reads(script, turn("x")) == [
        [text, text],
        [text, text],
        [text],
        [TextDelta("b"), Finished(Finish.STOP)],
    ]


async def test_a_cancel_ends_a_wait_and_loses_nothing(autojump_clock: MockClock) -> None:
    provider = Scripted("s", read_script(one("[{text = 'a'}, {wait_ms = 1000}, {hang = true}]")))
    async with provider.stream(Request("m", "", turn("x"))) as deltas:
        assert await deltas.receive() == [TextDelta("a")]
        with trio.move_on_after(0.5) as scope:
            await deltas.receive()
        assert scope.cancelled_caught
        with trio.move_on_after(3600) as scope:
            await deltas.receive()
        assert scope.cancelled_caught
        assert trio.current_time() >= 3600


async def test_every_read_is_a_checkpoint() -> None:
    provider = Scripted("s", open_script("bench"))
    async with provider.stream(Request("m", "", turn("bench flood 1"))) as deltas:
        with trio.CancelScope() as scope:
            scope.cancel()
            await deltas.receive()
        assert scope.cancelled_caught


def test_keys_of_the_whole_script() -> None:
    provider = Scripted("s", read_script("merge_text = false\ncontext_tokens = 7\nrules = []"))
    assert (provider.merge_text, provider.describe("m")) == (False, ModelInfo(7))
    assert Scripted("s", read_script("rules = []")).describe("m") == ModelInfo(32_768, context_assumed=True)
    assert Scripted("s", read_script("rules = []")).merge_text is True


# -- mistakes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("rules = [\n}", "line 2"),
        ("", "`rules`"),
        ("rules = []\nextra = 1", "extra"),
        ("rules = []\nper_read = 0", "per_read"),
        ("[[rules]]", "$.rules[0]"),
        ("[[rules]]\nreplies = []\nmatch = '('", "rules[0].match"),
        (one("[{text = 'a', call = 'b'}]"), "rules[0].replies[0].steps[0]: a step has exactly one of"),
        (one("[{text = 'a'}, {}]"), "steps[1]"),
        (one("[{text = 5}]"), "steps[0]: Expected `str`, got `int` - at `$.text`"),
        (one("[{text = 'a', chunks = 2}]"), "chunks"),
        (one("[{error = 'weird'}]"), "unknown error 'weird'"),
        (one("[{finish = 'weird'}]"), "weird"),
        (one("[{usage = [1]}]"), "steps[0]"),
        (one("[{usage = [1, -1]}]"), "steps[0]"),
        (one("[{size = 0}]"), "$.size"),
        (one("[{wait_ms = -1}]"), "$.wait_ms"),
    ],
)
def test_a_mistake_is_named_with_its_place(script: str, words: str) -> None:
    with pytest.raises(ScriptError) as raised:
        read_script(script)
    assert words in str(raised.value)


# -- bench -----------------------------------------------------------------------------------------


async def bench(prompt: str, calls: int = 0, most: int = 1000) -> list[list[Delta]]:
    return await reads(Scripted("b", open_script("bench")), turn(prompt, calls), most)


async def test_bench_stream_is_one_delta_a_read() -> None:
    assert await bench("bench stream 100 32") == [[TextDelta("x" * 32)]] * 100 + [[Finished(Finish.STOP)]]


@pytest.mark.parametrize("name", MERGES_TEXT)
async def test_a_built_in_script_merges_text_as_was_said_before_it_was_imported(name: str) -> None:
    assert open_script(name).merge_text is MERGES_TEXT[name]
    settings = ProviderSettings("scripted", script=name)
    choice = Decided(known_providers(Config(providers={"s": settings}), {})["s"], "m")
    source = open_source(Resolved(choice), idle_s=1.0, state=None)
    assert source.merge_text is MERGES_TEXT[name]
    assert (await source.choice()).provider.merge_text is MERGES_TEXT[name]
    await source.aclose()


def test_text_of_bench_is_not_merged() -> None:
    assert MERGES_TEXT[BENCH] is False


async def test_bench_flood_never_ends() -> None:
    assert await bench("bench flood 4", most=500) == [[TextDelta("xxxx")]] * 500


async def test_bench_paced(autojump_clock: MockClock) -> None:
    begin = trio.current_time()
    assert len(await bench("bench paced 100 2000")) == 101
    assert trio.current_time() - begin == pytest.approx(0.2)


@pytest.mark.parametrize(("word", "path"), [("perm", "/etc/hosts"), ("read", "bench.txt")])
async def test_bench_calls_each_time_with_other_arguments(word: str, path: str) -> None:
    seen = set()
    for number in range(3):
        ((call,), (finished,)) = await bench(f"bench {word} 3", number)
        assert isinstance(call, ToolCallDelta)
        assert call.name == "read_file"
        assert json.loads(call.arguments)["path"] == path
        seen.add(call.arguments)
        assert finished == Finished(Finish.TOOL_CALLS)
    assert len(seen) == 3
    assert await bench(f"bench {word} 3", 3) == [[TextDelta("Done.")], [Finished(Finish.STOP)]]


async def test_bench_sh_runs_commands_that_differ() -> None:
    commands = []
    for number in range(2):
        ((call,), (finished,)) = await bench("bench sh 2", number)
        assert isinstance(call, ToolCallDelta)
        assert call.name == "shell"
        assert finished == Finished(Finish.TOOL_CALLS)
        commands.append(json.loads(call.arguments))
    assert commands == [{"command": ": 0"}, {"command": ": 1"}]
    assert await bench("bench sh 2", 2) == [[TextDelta("Done.")], [Finished(Finish.STOP)]]
    ((call,), _finished) = await bench("bench sleep")
    assert isinstance(call, ToolCallDelta)
    assert json.loads(call.arguments) == {"command": "echo up; sleep 600"}


async def test_bench_hang(autojump_clock: MockClock) -> None:
    with trio.move_on_after(1_000_000) as scope:
        await bench("bench hang")
    assert scope.cancelled_caught


@pytest.mark.parametrize(
    "prompt", ["hello", "", "bench", "bench stream", "bench stream x y", "bench nothing 1"]
)
async def test_bench_greets_otherwise(prompt: str) -> None:
    assert await bench(prompt) == [[TextDelta("Hello from the scripted model.")], [Finished(Finish.STOP)]]
