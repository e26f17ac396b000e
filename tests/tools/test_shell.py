"""``shell`` with real commands in the real sandbox: what the model, the person and the artifact get, that
every command ends with its whole tree however it ends, and that a cancel may come at any step of its life."""

import contextlib
import itertools
import json
import os
import secrets
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

from term2_acp.domain.content import Terminal, Text
from term2_acp.domain.events import ExitStatus, TerminalOutput, TerminalUpdate
from term2_acp.domain.ids import ToolCallId
from term2_acp.domain.permission import Access
from term2_acp.redact import Redactor
from term2_acp.sandbox import Sandbox, SandboxFailed, Unavailable
from term2_acp.store.artifacts import Artifacts
from term2_acp.tools import course, live
from term2_acp.tools.arguments import decode
from term2_acp.tools.base import ToolContext, ToolError
from term2_acp.tools.registry import TOOLS
from term2_acp.tools.shell import MAX_COMMAND_BYTES
from term2_acp.workspace import Workspace
from tests.kit.fold import fold
from tests.kit.indoors import indoors
from tests.kit.until import until

SHELL = TOOLS["shell"]
KILLED = ExitStatus(signal="SIGKILL")
KEY = "sk-a-key-that-nobody-may-see"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    """One for all, as in a daemon: it is tried out once."""
    root = tmp_path_factory.mktemp("sandbox")
    return Sandbox({"PATH": os.environ["PATH"], "HOME": str(root)}, (), str(root / "state"))


class Bench:
    """A session's workspace and its calls of ``shell``; ``events`` is what was shown.

    ``mark`` is a word that a command can carry, by which its processes are found.
    """

    def __init__(self, root, sandbox, secret=()):
        self.root = root
        self.ws = root / "ws"
        self.ws.mkdir(exist_ok=True)
        self.events = []
        self.stopped = None
        self.tool_call_id = ToolCallId("call_1")
        self.mark = f"6{secrets.randbelow(10**12):012}"
        self.artifact = root / "state" / "artifacts" / "call_1.txt"
        self.context = ToolContext(
            files=Workspace(str(self.ws), home=str(root / "home"), own_paths=(str(root / "state"),)),
            publish=self._publish,
            sandbox=sandbox,
            artifacts=Artifacts(str(self.artifact.parent)),
            fetcher=None,
            redactor=Redactor(secret),
            ports=self,
        )

    def show_nowait(self, events):
        self.events += events

    def stopped_nowait(self, outcome):
        self.stopped = outcome

    async def _publish(self, event):
        await trio.lowlevel.checkpoint()
        self.events.append(event)

    def change(self, **changes):
        self.context = attrs.evolve(self.context, **changes)

    async def prepare(self, command, **arguments):
        return await SHELL.prepare(decode(SHELL, json.dumps({"command": command, **arguments})), self.context)

    async def run(self, command, **arguments):
        return await SHELL.run(await self.prepare(command, **arguments), self.context)

    @property
    def screen(self):
        shown = b""
        for event in self.events:
            shown = shown + event.data if isinstance(event, TerminalOutput) else event.output or shown
        return shown

    @property
    def status(self):
        """The exit status, which must be the last word about the terminal, and said once."""
        ends = [event for event in self.events if getattr(event, "exit_status", None)]
        assert ends == self.events[-1:]
        return ends[0].exit_status if ends else None

    def survivors(self):
        """The processes that carry the mark."""
        found = []
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and self.mark.encode() in Path(f"/proc/{entry}/cmdline").read_bytes():
                    found.append(entry)
        return found


@pytest.fixture
async def bench(tmp_path, sandbox):
    layers = await sandbox.layers()
    if isinstance(layers, Unavailable):
        pytest.skip(f"no sandbox here: {layers.reason}")
    bench = Bench(tmp_path.resolve(), sandbox)
    yield bench
    assert bench.survivors() == []


def output_of(outcome):
    """What the command wrote, out of the words for the model."""
    return outcome.result.partition("\nOutput:\n")[2]


# -- a command and its result ------------------------------------------------------------------------


async def test_a_command_is_shown_and_its_result_is_told(bench):
    prepared = await bench.prepare("echo one; echo two >&2; pwd; exit 3")
    (terminal,) = prepared.preview
    outcome = await SHELL.run(prepared, bench.context)
    assert outcome.result == f"Exit code 3.\nOutput:\none\ntwo\n{bench.ws}\n"
    assert outcome.content == (terminal,)
    assert not outcome.failed
    assert outcome.raw_output.pop("durationMs") < 10_000
    assert outcome.raw_output == {
        "exitCode": 3,
        "signal": None,
        "timedOut": False,
        "outputBytes": len(output_of(outcome)),
        "truncated": False,
    }
    shown = TerminalUpdate(terminal.terminal_id, "echo one; echo two >&2; pwd; exit 3", str(bench.ws))
    assert bench.events[0] == shown
    assert bench.status == ExitStatus(3)
    assert bench.screen == output_of(outcome).encode()
    assert bench.stopped is None


async def test_what_is_said_before_it_runs(bench):
    command = "make \\\n  test \u202e # and\x1b"
    described = SHELL.describe(decode(SHELL, json.dumps({"command": command})), bench.context)
    assert described.title == "make \\ test \\u202e # and\\x1b"
    prepared = await bench.prepare(command, timeout_ms=1500)
    (action,) = prepared.actions
    assert (action.access, action.target) == (Access.COMMAND, None)
    assert "sandbox" in action.description
    assert prepared.summary == f"For at most 1.5 s: {command}"
    assert bench.events == []


async def test_no_sandbox_is_none_of_the_choices(bench):
    outside = bench.root / "outside"
    for wanted in ("default", "unsandboxed"):
        outcome = await bench.run(f"echo x > {outside}; echo x > inside", sandbox=wanted)
        assert outcome.raw_output["exitCode"] == 0
        assert not outside.exists()
        assert (bench.ws / "inside").read_text() == "x\n"
    assert SHELL.describe(decode(SHELL, '{"command":"x","sandbox":null}'), bench.context).title == "x"
    with pytest.raises(ToolError, match="do not fit"):
        await bench.run("true", sandbox="none")


async def test_a_death_by_signal_is_no_exit_code(bench):
    outcome = await bench.run("kill -SEGV $$")
    assert outcome.result == "Ended by SIGSEGV.\nIt wrote nothing."
    assert (outcome.raw_output["exitCode"], outcome.raw_output["signal"]) == (None, "SIGSEGV")
    assert bench.status == ExitStatus(signal="SIGSEGV")


async def test_how_long_it_took_is_told_when_it_was_long(bench):
    outcome = await bench.run("sleep 1.2")
    assert outcome.result.startswith("Exit code 0 after 1.")
    assert outcome.raw_output["durationMs"] >= 1050


async def test_bash_runs_it_and_no_state_is_left(bench):
    assert (
        output_of(await bench.run("a=(1 2); echo ${a[1]} $BASH_VERSION; cd /; X=1; echo y > /tmp/y"))[0]
        == "2"
    )
    assert output_of(await bench.run("pwd; echo $X; cat /tmp/y")).splitlines()[:2] == [str(bench.ws), ""]


async def test_nobody_answers_a_command_that_asks(bench):
    """A pager, an editor and a password: each fails at once, or reads the end of its input."""
    asks = "cat; read x || echo end; test -t 0 || test -t 1 || echo no terminal; (: < /dev/tty) || echo none"
    with trio.fail_after(20):
        lines = output_of(await bench.run(asks)).splitlines()
        assert [line for line in lines if "/dev/tty" not in line] == ["end", "no terminal", "none"]
        outcome = await bench.run("git init -q . && git log; git commit; git clone -q https://127.0.0.1:1/x")
    assert outcome.raw_output["exitCode"] != 0
    assert "does not have any commits yet" in outcome.result


async def test_what_the_sandbox_does_not_hold_is_said(bench, sandbox):
    notes = ("Commands see other processes.", "Memory is not bounded.")
    bench.change(sandbox=Wrapped(sandbox, notes=notes))
    outcome = await bench.run("echo x")
    assert outcome.result == "Exit code 0.\n" + "\n".join(notes) + "\nOutput:\nx\n"
    assert outcome.content[1] == Text("\n".join(notes))


async def test_newly_made_protected_names_are_named(bench):
    outcome = await bench.run(
        "mkdir .vscode; echo '{}' > .vscode/tasks.json; echo hi > AGENTS.md; echo ok > plain"
    )
    (terminal, words) = outcome.content
    assert isinstance(terminal, Terminal)
    for text in (outcome.result, words.text):
        assert "Warning" in text
        assert str(bench.ws / ".vscode") in text
        assert str(bench.ws / "AGENTS.md") in text
        assert "plain" not in text
    assert outcome.result.startswith("Exit code 0.\nWarning")
    outcome = await bench.run("echo more >> plain")
    assert "Warning" not in outcome.result


async def test_a_file_that_a_command_changed_is_to_be_read_again(bench):
    (bench.ws / "a").write_text("one\n")
    read, edit = TOOLS["read_file"], TOOLS["search_replace"]
    await read.run(await read.prepare(decode(read, '{"path":"a"}'), bench.context), bench.context)
    await bench.run("echo two > a")
    wanted = {"path": "a", "replacements": [{"search_content": "two", "replace_content": "three"}]}
    with pytest.raises(ToolError, match="changed since it was read"):
        await edit.run(await edit.prepare(decode(edit, json.dumps(wanted)), bench.context), bench.context)


# -- what cannot be run ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"command": ""}, "empty"),
        ({"command": " \n\t"}, "empty"),
        ({"command": "echo \0"}, "NUL"),
        ({"command": "é" * (MAX_COMMAND_BYTES // 2 + 1)}, "E2BIG"),
        ({"command": "true", "timeout_ms": 0}, r"timeout_ms"),
        ({"command": "true", "timeout_ms": 600_001}, r"timeout_ms"),
        ({"command": "true", "timeout_ms": 1.5}, r"timeout_ms"),
        ({"command": "true", "shell": "zsh"}, r"shell"),
        ({}, r"command"),
    ],
)
async def test_what_makes_no_sense_is_refused_before_it_runs(bench, arguments, why):
    with pytest.raises(ToolError, match=why):
        await SHELL.prepare(decode(SHELL, json.dumps(arguments)), bench.context)
    assert bench.events == []


async def test_half_a_character_is_refused(bench):
    with pytest.raises(ToolError, match="half a character"):
        await SHELL.prepare(SHELL.Arguments("echo \ud83d"), bench.context)


async def test_the_longest_command_runs(bench):
    outcome = await bench.run("echo " + "x" * (MAX_COMMAND_BYTES - 5) + "")
    assert outcome.raw_output["outputBytes"] == MAX_COMMAND_BYTES - 4


async def test_without_a_sandbox_nothing_runs(bench):
    bench.change(sandbox=Refusing())
    with pytest.raises(ToolError) as refused:
        await bench.run("touch made")
    assert "user namespaces are off" in str(refused.value)
    assert "term2 doctor" in str(refused.value)
    assert bench.events == []


async def test_a_command_that_cannot_be_started_is_an_error_with_the_reason(bench, sandbox):
    bench.change(sandbox=Wrapped(sandbox, fails=SandboxFailed("sh: not found")))
    with pytest.raises(ToolError, match="Nothing was run: sh: not found"):
        await bench.run("true")
    assert bench.events == []
    assert bench.stopped is None


@pytest.mark.parametrize("instead", ["nothing", "a file", "a link"])
async def test_a_working_directory_that_is_gone_is_an_error(bench, instead):
    prepared = await bench.prepare("touch made")
    bench.ws.rename(bench.root / "moved")
    if instead == "a file":
        bench.ws.write_text("")
    elif instead == "a link":
        bench.ws.symlink_to(bench.root / "moved")
    with pytest.raises(ToolError, match="is not there any more"):
        await SHELL.run(prepared, bench.context)
    assert bench.events == []
    assert os.listdir(bench.root / "moved") == []


# -- the end of a command ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "sleep {mark} & echo done",
        "setsid sleep {mark} & echo done",
        "nohup sleep {mark} & echo done",
        "(exec 1>&- 2>&-; sleep {mark}) & echo done",
        "setsid sleep {mark} > f 2>&1 < /dev/null & echo done",
        "(setsid setsid sh -c 'trap \"\" TERM HUP; sleep {mark}; :' &) ; echo done",
        "yes {mark} > /dev/null & echo done",
    ],
)
async def test_what_is_left_in_the_background_ends_with_the_shell(bench, command):
    with trio.fail_after(20):
        outcome = await bench.run(command.format(mark=bench.mark))
    assert bench.survivors() == []
    assert output_of(outcome) == "done\n"
    assert bench.status == ExitStatus(0)


async def test_a_background_child_that_writes_for_ever_cannot_keep_the_call_open(bench):
    with trio.fail_after(20):
        outcome = await bench.run(f"yes {bench.mark} & sleep 0.1; exit 4")
    assert outcome.raw_output["exitCode"] == 4
    assert bench.survivors() == []


async def test_output_that_is_closed_early_is_no_end(bench):
    outcome = await bench.run("echo words; exec 1>&- 2>&-; sleep 0.2; touch later; exit 5")
    assert outcome.result == "Exit code 5.\nOutput:\nwords\n"
    assert (bench.ws / "later").exists()


async def test_a_tree_that_ignores_signals_is_gone_at_its_time_limit(bench):
    inner = 'trap "" TERM HUP INT; while :; do date >> log; sleep 0.01; done'
    command = (
        f"trap '' TERM HUP INT; setsid bash -c '{inner}' {bench.mark} & echo begun; while :; do wait; done"
    )
    outcome = await bench.run(command, timeout_ms=400)
    assert bench.survivors() == []
    assert outcome.failed
    assert outcome.result == (
        "Stopped at its time limit of 0.4 s; what it did until then stands.\nOutput:\nbegun\n"
    )
    assert outcome.content[1] == Text("Stopped at its time limit of 0.4 s; what it did until then stands.")
    assert outcome.raw_output["timedOut"]
    assert outcome.raw_output["signal"] == "SIGKILL"
    assert 400 <= outcome.raw_output["durationMs"] < 5000
    assert bench.status == KILLED
    assert (bench.ws / "log").exists()


async def test_both_outputs_come_in_order_and_neither_stalls(bench):
    script = (
        "import os\n"
        "for i in range(64):\n"
        "    os.write(2, b'e' * 16384); os.write(1, b'o' * 16384)\n"
        "os.write(2, b'E' * 1048576)\n"
    )
    (bench.ws / "chatty.py").write_text(script)
    outcome = await bench.run("python3 chatty.py")
    assert outcome.raw_output["outputBytes"] == 3 * 1048576
    assert bench.artifact.read_bytes() == (b"e" * 16384 + b"o" * 16384) * 64 + b"E" * 1048576


# -- what a command writes ---------------------------------------------------------------------------


async def test_a_character_in_two_writes_is_one(bench):
    script = "import os,time\nos.write(1,b'x\\xe2');time.sleep(.1);os.write(1,b'\\x80\\x94 y\\xf0\\x9d')\n"
    (bench.ws / "split.py").write_text(script)
    assert output_of(await bench.run("python3 split.py")) == "x— y\ufffd"
    assert bench.screen == b"x\xe2\x80\x94 y\xf0\x9d"


async def test_a_mebibyte_of_long_characters_is_cut_between_them(bench):
    outcome = await bench.run("python3 -c \"print('𝄞' * 262144, end='')\"")
    head, note, tail = output_of(outcome).split("\n")
    assert set(head + tail) == {"𝄞"}
    left_out = 4 * (262144 - len(head) - len(tail))
    where = f"The whole, 1,048,576 bytes, is in {bench.artifact}."
    assert note.startswith(f"[{left_out:,} bytes left out here. {where} ")
    assert outcome.raw_output["truncated"]
    assert outcome.raw_output["artifact"] == str(bench.artifact)
    assert outcome.content[1] == Text(where)
    assert bench.artifact.read_text() == "𝄞" * 262144


async def test_bytes_that_are_no_text_are_shown_as_such(bench):
    outcome = await bench.run("printf '\\xff\\xfe'; exit 6")
    assert outcome.result == "Exit code 6.\nOutput:\n\ufffd\ufffd"
    assert bench.screen == b"\xff\xfe"
    outcome = await bench.run("head -c 1000 /dev/urandom; exit 7")
    assert outcome.raw_output["exitCode"] == 7
    assert outcome.raw_output["outputBytes"] == 1000


async def test_many_small_writes_are_few_events_and_no_byte_more(bench):
    outcome = await bench.run("for i in $(seq 1 10000); do echo $i; done")
    whole = "".join(f"{number}\n" for number in range(1, 10_001)).encode()
    assert bench.screen == whole
    assert sum(len(event.data) for event in bench.events if isinstance(event, TerminalOutput)) == len(whole)
    assert len(bench.events) < 20 * (outcome.raw_output["durationMs"] / 1000 + 1) + 3


def memory(name):
    """A value of this process's ``/proc/self/status``, in bytes."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition(f"{name}:")[2].split()[0])


@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="no peak of memory to look at")
@pytest.mark.parametrize("command", ["head -c 120000000 /dev/zero", "yes {mark} | head -c 120000000"])
async def test_memory_does_not_grow_with_what_is_written(bench, command):
    bench.context.artifacts.max_bytes = 50_000_000
    await bench.run("echo warm")
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here on
    outcome = await bench.run(command.format(mark=bench.mark))
    assert memory("VmHWM") - before < 64 * 1024 * 1024
    assert outcome.raw_output["outputBytes"] == 120_000_000
    assert len(outcome.result) < 34_000
    assert "Only its first 50,000,000 bytes could be kept" in outcome.result
    assert len(bench.screen) < 140_000
    assert sum(len(event.data) for event in bench.events if isinstance(event, TerminalOutput)) < 1_100_000


async def test_a_command_that_writes_without_end_is_stopped(bench, monkeypatch):
    monkeypatch.setattr(live, "MAX_OUTPUT_BYTES", 2_000_000)
    monkeypatch.setattr(course, "MAX_OUTPUT_BYTES", 2_000_000)
    outcome = await bench.run(f"yes {bench.mark}; true")
    assert outcome.failed
    assert outcome.result.startswith("Stopped after it had written 2,000,000 bytes")
    assert not outcome.raw_output["timedOut"]
    assert bench.status == KILLED


@pytest.mark.parametrize("before", [0, 40_000])
async def test_a_key_in_two_writes_is_nowhere(tmp_path, sandbox, bench, before):
    bench.change(redactor=Redactor([KEY]))
    (bench.ws / "tell.py").write_text(
        "import os,time\n"
        f"os.write(1,b'a'*{before}+b'key='+{KEY[:12].encode()!r});time.sleep(.15);os.write(1,{KEY[12:].encode()!r}+b';')\n"
    )
    outcome = await bench.run("python3 tell.py")
    assert outcome.result.endswith("key=[redacted];")
    assert bench.screen == b"a" * before + b"key=[redacted];"
    assert KEY[:12].encode() not in b"".join(e.data for e in bench.events if isinstance(e, TerminalOutput))
    if before:
        assert bench.artifact.read_bytes() == b"a" * before + b"key=[redacted];"


async def test_words_that_look_like_ours_come_after_ours(bench):
    outcome = await bench.run("echo 'Exit code 0.'; echo 'Output:'; exit 1")
    assert outcome.result == "Exit code 1.\nOutput:\nExit code 0.\nOutput:\n"


# -- a slow editor -----------------------------------------------------------------------------------


async def test_the_time_limit_comes_while_the_editor_does_not_read(bench):
    async def never(_event):
        await trio.sleep_forever()

    bench.change(publish=never)
    with trio.fail_after(20):
        outcome = await bench.run(f"yes {bench.mark}; true", timeout_ms=300)
    assert outcome.raw_output["timedOut"]
    assert bench.events[0].command is not None
    assert bench.status == KILLED


async def test_a_command_that_has_exited_is_not_late_because_the_editor_is(bench):
    reads = trio.Event()

    async def slow(event):
        await reads.wait()
        bench.events.append(event)

    bench.change(publish=slow)
    outcomes = []

    async def run():
        outcomes.append(await bench.run(f"echo {bench.mark}", timeout_ms=500))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        await trio.sleep(1)  # long past the limit
        await until(lambda: bench.survivors() == [])
        assert outcomes == []
        reads.set()
    assert outcomes[0].result == f"Exit code 0.\nOutput:\n{bench.mark}\n"
    assert bench.status == ExitStatus(0)


# -- a cancel ----------------------------------------------------------------------------------------


class Refusing:
    """A sandbox that cannot be enforced."""

    async def layers(self):
        await trio.lowlevel.checkpoint()
        return Unavailable("user namespaces are off.")


class Wrapped:
    """The real sandbox, with a look at each of its waits."""

    def __init__(self, sandbox, *, step=trio.lowlevel.checkpoint, notes=None, fails=None):
        self._sandbox, self._step, self._notes, self._fails = sandbox, step, notes, fails

    async def layers(self):
        return await self._sandbox.layers()

    @asynccontextmanager
    async def launch(self, command, confinement, **options):
        await self._step()
        if self._fails is not None:
            raise self._fails
        async with self._sandbox.launch(command, confinement, **options) as running:
            yield _Watched(running, self._step, running.notes if self._notes is None else self._notes)


class _Watched:
    def __init__(self, command, step, notes):
        self._command, self._step, self.notes = command, step, notes

    async def receive(self):
        await self._step()
        return await self._command.receive()

    async def wait(self):
        await self._step()
        ended = await self._command.wait()
        await self._step()
        return ended


class Stepping(Workspace):
    """A workspace of which each wait is a step."""

    async def confinement(self, *, read_only=False):
        await self.step()
        found = await super().confinement(read_only=read_only)
        await self.step()
        return found

    async def newly_protected(self, before):
        await self.step()
        found = await super().newly_protected(before)
        await self.step()
        return found


async def test_a_cancel_at_any_step_ends_the_tree_and_says_how_far_it_came(tmp_path, sandbox, bench):
    """The k-th wait of the call is the one at which the cancel comes, until a call has no k-th wait."""
    places = set()
    for cancel_at in itertools.count(1):
        steps = 0

        async def step():
            nonlocal steps
            steps += 1
            if steps == cancel_at:  # noqa: B023 -- used before the next round
                scope.cancel()
            await trio.lowlevel.checkpoint()

        root = tmp_path / str(cancel_at)
        root.mkdir()
        stage = Bench(root.resolve(), Wrapped(sandbox, step=step))
        publish, outcome = stage._publish, None
        files = Stepping(str(stage.ws), home=None)
        files.step = step
        stage.change(files=files)

        async def slow(event):
            await step()
            await publish(event)  # noqa: B023

        stage.change(publish=slow)
        with trio.fail_after(20), trio.CancelScope() as scope:
            outcome = await stage.run(f"echo a; sleep 0.1; echo b; setsid sleep {stage.mark} & echo c")
        assert stage.survivors() == []
        if not scope.cancel_called:
            assert outcome.result == "Exit code 0.\nOutput:\na\nb\nc\n"
            break
        if outcome is not None:  # it came when the command had ended, and found it ended
            places.add("ended")
            assert stage.status == ExitStatus(0)
        elif not stage.events:
            places.add("not begun")
            assert stage.stopped is None
        else:
            places.add("stopped")
            assert stage.status in (KILLED, ExitStatus(0))
            assert stage.stopped.content[0] == Terminal(stage.events[0].terminal_id)
            how = "Exit code 0." if stage.status.exit_code == 0 else "Stopped by the cancel after 0."
            assert stage.stopped.result.startswith(how)
            assert stage.screen == output_of(stage.stopped).encode()
        assert cancel_at < 200
    assert places == {"not begun", "stopped", "ended"}


async def test_a_cancelled_command_says_what_it_did(bench):
    bench.change(publish=(hold := Hold(bench)).publish)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bench.run, f"echo begun > made; echo begun; setsid sleep {bench.mark} & wait")
        await hold.shown.wait()
        nursery.cancel_scope.cancel()
    assert bench.survivors() == []
    assert bench.stopped.result.startswith("Stopped by the cancel after ")
    assert bench.stopped.result.endswith("what it did until then stands.\nOutput:\nbegun\n")
    assert bench.stopped.content[1].text.startswith("Stopped by the cancel after ")
    assert bench.stopped.raw_output["signal"] == "SIGKILL"
    assert bench.status == KILLED
    assert (bench.ws / "made").read_text() == "begun\n"


class Hold:
    """Tells when the first output is shown."""

    def __init__(self, bench):
        self._publish = bench._publish
        self.shown = trio.Event()

    async def publish(self, event):
        await self._publish(event)
        if isinstance(event, TerminalOutput):
            self.shown.set()


# -- the whole daemon --------------------------------------------------------------------------------

_SCRIPT = """
[[rules]]
[[rules.replies]]
steps = [{{ call = "shell", arguments = {{ command = "{command}" }}, id = "x" }}]
[[rules.replies]]
steps = [{{ text = "Done." }}]
"""


async def replayed(daemon, session_id):
    await daemon.editor.request("session/close", {"sessionId": session_id})
    start = len(daemon.editor.frames)
    params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
    assert await daemon.editor.request("session/resume", params) == {}
    return fold(daemon.editor.updates(session_id, start))


@pytest.mark.parametrize(
    "command", ["echo one; echo two >&2; exit 3", "head -c 2000000 /dev/zero | tr '\\\\0' x"]
)
async def test_live_and_replay_agree_about_a_command(sandbox, bench, command):
    async with indoors(bench.root, _SCRIPT.format(command=command), sandbox=sandbox) as daemon:
        session_id, turn = await daemon.begin("go")
        assert await turn.ended() == "end_turn"
        (call,) = turn.calls.values()
        live_view = fold(daemon.editor.updates(session_id))
        (terminal,) = [thing for thing in live_view["things"] if thing["is"] == "terminal"]
        assert call["status"] == "completed"
        assert call["content"][0] == {"type": "terminal", "terminalId": terminal["terminalId"]}
        assert terminal["exitStatus"] == {"exitCode": call["rawOutput"]["exitCode"]}
        assert terminal["cwd"] == str(daemon.workspace)
        assert await replayed(daemon, session_id) == live_view


async def test_a_cancelled_turn_ends_its_command_first(sandbox, bench):
    command = f"echo begun; setsid sleep {bench.mark} & wait"
    async with indoors(bench.root, _SCRIPT.format(command=command), sandbox=sandbox) as daemon:
        session_id, turn = await daemon.begin("go")
        await turn.seen("terminal_output_chunk")
        daemon.session(session_id).cancel_nowait()
        assert await turn.ended() == "cancelled"
        assert bench.survivors() == []
        (call,) = turn.calls.values()
        assert call["status"] == "cancelled"
        assert call["rawOutput"]["signal"] == "SIGKILL"
        live_view = fold(daemon.editor.updates(session_id))
        (terminal,) = [thing for thing in live_view["things"] if thing["is"] == "terminal"]
        assert (terminal["output"], terminal["exitStatus"]) == (b"begun\n", {"signal": "SIGKILL"})
        assert await replayed(daemon, session_id) == live_view
