"""``run_code`` with real programs in the real sandbox, below a real session: what a program may call and what
it gets, what is shown and asked meanwhile, and that nothing is left of it however it ends, whatever it does.

Programs talk to the test by files in the workspace, where there is no event to wait for. The real clock runs.
"""

import contextlib
import json
import os
from collections import Counter
from contextlib import asynccontextmanager

import pytest
import trio

from term2_acp.providers.scripted.model import Scripted
from term2_acp.providers.scripted.script import read_script
from term2_acp.sandbox import Sandbox, Unavailable
from term2_acp.tools import course
from term2_acp.tools.base import ToolError
from term2_acp.tools.clock import Clock
from term2_acp.tools.program import MAX_CALLS
from term2_acp.tools.registry import TOOLS, decode
from term2_acp.tools.run_code import MAX_CODE_BYTES
from tests.kit.fold import fold
from tests.kit.indoors import indoors
from tests.kit.play import calling
from tests.kit.processes import alive, descendants
from tests.kit.steps import at_step

APPROVE = {"outcome": {"outcome": "selected", "optionId": "approve"}}


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    """One for all, as in a daemon: it is tried out once."""
    root = tmp_path_factory.mktemp("sandbox")
    return Sandbox({"PATH": os.environ["PATH"], "HOME": str(root)}, (), str(root / "state"))


@pytest.fixture(autouse=True)
async def _enforceable(sandbox):
    layers = await sandbox.layers()
    if isinstance(layers, Unavailable):
        pytest.skip(f"no program can be confined here: {layers.reason}")


def playing(code, more=(), **arguments) -> str:
    return calling(("run_code", {"code": code, **arguments}), *more)


class Run:
    """One turn with one program in it."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.editor = daemon.editor
        self.workspace = daemon.workspace
        self.ran = daemon.probe.ran
        self.others = descendants(os.getpid())

    async def begin(self):
        self.session_id, self.turn = await self.daemon.begin("go")

    async def ended(self):
        """Wait for the end of the turn, and see that nothing of the program is left."""
        reason = await self.turn.ended()
        assert started(self.others) == []
        return reason

    @property
    def call(self):
        """The call of the program, as the person sees it in the end."""
        return next(iter(self.turn.calls.values()))

    @property
    def inner(self):
        return list(self.turn.calls.values())[1:]

    @property
    def terminal(self):
        things = fold(self.editor.updates(self.session_id))["things"]
        return next(thing for thing in things if thing["is"] == "terminal")

    def told(self):
        """What the model was told of the program."""
        messages = self.daemon.session(self.session_id).transcript.messages()
        return next(m for m in messages if getattr(m, "name", None) == "run_code")

    async def replays_as_shown(self):
        live = fold(self.editor.updates(self.session_id))
        await self.editor.request("session/close", {"sessionId": self.session_id})
        start = len(self.editor.frames)
        params = {"sessionId": self.session_id, "cwd": str(self.workspace), "replayFrom": {"type": "start"}}
        await self.editor.request("session/resume", params)
        assert fold(self.editor.updates(self.session_id, start)) == live


def started(others):
    """The processes that run below us and were not there before."""
    return [process for process in alive(descendants(os.getpid())) if process not in others]


def connections() -> Counter[str]:
    """What we hold open that is no file: sockets, pipes, descriptors of processes."""
    found = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.append(os.readlink(f"/proc/self/fd/{number}"))
    return Counter(name for name in found if not name.startswith("/") or "memfd" in name)


@asynccontextmanager
async def running(root, sandbox, code, more=(), *, asks=False, answer=APPROVE, **arguments):
    """A daemon whose model runs ``code``; ``answer`` is given to each ask, None leaves them to the test."""
    provider = Scripted("play", read_script(playing(code, more, **arguments)))
    provider.asks_for_edits = asks
    async with indoors(root, provider=provider, sandbox=sandbox) as daemon:
        if answer is not None:
            daemon.editor.on_ask = lambda ask: answer
        run = Run(daemon)
        before = connections()
        await run.begin()
        yield run
        assert not connections() - before, "no end of a channel is left"


async def ran(root, sandbox, code, **more):
    """Run ``code`` to the end of its turn, which ends well and replays as it was shown."""
    async with running(root, sandbox, code, **more) as run:
        assert await run.ended() == "end_turn"
        run.result = run.told()
        await run.replays_as_shown()
    return run


# -- what a program is and gets --------------------------------------------------------------------


async def test_what_is_shown_of_a_program(tmp_path, sandbox):
    run = await ran(tmp_path, sandbox, "import os\nprint('hello')\nprint(os.getcwd())\n")
    call = run.call
    assert (call["title"], call["kind"]) == ("Run a Python program of 3 lines", "execute")
    assert call["rawInput"] == {"code": "import os\nprint('hello')\nprint(os.getcwd())\n"}
    assert call["status"] == "completed"
    assert call["content"] == [{"type": "terminal", "terminalId": run.terminal["id"]}]
    raw = call["rawOutput"]
    assert (raw["exitCode"], raw["signal"], raw["timedOut"], raw["toolCalls"]) == (0, None, False, 0)
    output = f"hello\n{run.workspace}\n"
    assert run.terminal["output"] == output.encode()
    assert run.terminal["command"] == "python (run_code)"
    assert run.terminal["cwd"] == str(run.workspace)
    assert run.terminal["exitStatus"] == {"exitCode": 0}
    assert (run.result.result, run.result.failed) == (f"Exit code 0.\nOutput:\n{output}", False)
    kinds = [update["sessionUpdate"] for update in run.turn.updates]
    last_terminal = len(kinds) - 1 - kinds[::-1].index("terminal_update")
    final = next(n for n, update in enumerate(run.turn.updates) if update.get("status") == "completed")
    assert last_terminal < final


async def test_calls_of_tools(tmp_path, sandbox):
    code = """
print(tools.create_file(path="a.txt", content="one\\ntwo\\n"))
print(tools.read_file("a.txt", 2))
tools.search_replace(path="a.txt", replacements=[{"search_content": "one", "replace_content": "ONE"}])
print(open("a.txt").read())
try:
    tools.read_file(path="nowhere.txt")
except ToolError as error:
    print("ToolError:", error)
for name in ("shell", "run_code"):
    try:
        tools.call(name, command="touch x", code="1")
    except ToolError as error:
        print(error)
"""
    run = await ran(tmp_path, sandbox, code)
    assert run.result.result.startswith("Exit code 0.\n")
    output = run.terminal["output"].decode()
    assert "two\n[Lines 2 to 2" in output or "two\n[Line 2 of 2.]" in output
    assert "\nONE\ntwo\n" in output
    assert "nowhere.txt does not exist." in output
    assert "shell cannot be called from a program" in output
    assert "run_code cannot be called from a program" in output
    assert [(call["name"], call["status"]) for call in run.inner] == [
        ("create_file", "completed"),
        ("read_file", "completed"),
        ("search_replace", "completed"),
        ("read_file", "failed"),
        ("shell", "failed"),
        ("run_code", "failed"),
    ]
    parents = {call["_meta"]["term2"]["parentToolCallId"] for call in run.inner}
    assert parents == {run.call["toolCallId"]}
    assert run.inner[0]["content"][0]["type"] == "diff"
    assert run.call["rawOutput"]["toolCalls"] == 6
    assert not (run.workspace / "x").exists()


async def test_every_tool_but_two_takes_its_arguments_by_position(tmp_path, sandbox):
    code = "print({name: getattr(tools, name).__doc__ for name in dir(tools) if name[0] != '_'})"
    run = await ran(tmp_path, sandbox, code)
    shown = eval(run.terminal["output"].decode())
    for name, tool in TOOLS.items():
        if name != "run_code":
            assert shown[name] == f"{name}({', '.join(tool.Arguments.__struct_fields__)})"


async def test_it_is_confined_as_a_command_is(tmp_path, sandbox):
    outside = tmp_path / "outside.txt"
    code = f"""
import os, socket, sys
for attempt in (
    lambda: open("/etc/term2-was-here", "w"),
    lambda: socket.create_connection(("1.1.1.1", 53), 1),
    lambda: os.mkdir("/usr/x"),
):
    try:
        attempt()
        print("done")
    except OSError as error:
        print(type(error).__name__)
os.makedirs({str(tmp_path)!r}, exist_ok=True)
open({str(outside)!r}, "w").close()  # in a temporary folder of its own
print(repr(sys.stdin.read()), os.getpid() < 100)
open("inside.txt", "w").write("x")
"""
    run = await ran(tmp_path, sandbox, code)
    assert "done" not in run.terminal["output"].decode()
    assert run.terminal["output"].decode().endswith("'' True\n")
    assert not outside.exists()
    assert (run.workspace / "inside.txt").read_text() == "x"


async def test_two_threads_at_once(tmp_path, sandbox):
    code = """
import threading
def work(name):
    for number in range(10):
        assert tools.reading_probe(name=f"{name}{number}") == f"probed {name}{number}"
threads = [threading.Thread(target=work, args=(name,)) for name in "ab"]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("both")
"""
    run = await ran(tmp_path, sandbox, code)
    assert run.terminal["output"] == b"both\n"
    assert sorted(run.daemon.reading.ran) == sorted(f"{name}{n}" for name in "ab" for n in range(10))


async def test_the_call_that_is_one_too_many(tmp_path, sandbox):
    code = f"""
for number in range({MAX_CALLS}):
    tools.reading_probe(name="x")
for _ in range(2):
    try:
        tools.reading_probe(name="too many")
    except ToolError as error:
        print(error)
print("goes on")
"""
    async with running(tmp_path, sandbox, code) as run:
        assert await run.ended() == "end_turn"
        assert run.daemon.reading.ran == ["x"] * 200
        assert len(run.inner) == 200
        words = "This program has made its 200 calls; it can make no more.\n"
        assert run.terminal["output"].decode() == words * 2 + "goes on\n"


async def test_under_landlock_it_is_the_same(tmp_path):
    class Weaker(Sandbox):
        async def _candidates(self):
            return [one for one in await super()._candidates() if one[1].kind == "landlock"]

    weaker = Weaker({"PATH": os.environ["PATH"], "HOME": str(tmp_path)}, (), str(tmp_path / "state"))
    layers = await weaker.layers()
    if isinstance(layers, Unavailable):
        pytest.skip(f"Landlock does not hold here: {layers.reason}")
    (tmp_path / "outside.txt").write_text("out there")
    path = str(tmp_path / "outside.txt")
    code = f"print(tools.probe(name='a', asks=True))\nprint(tools.read_file({path!r})[:9])\n1/0\n"
    run = await ran(tmp_path, weaker, code)
    assert run.ran == ["a"]
    assert run.terminal["output"].startswith(b"probed a\nout there\nTraceback")
    assert run.terminal["exitStatus"] == {"exitCode": 1}


# -- how it ends -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "how", "status"),
    [
        ("import sys; sys.exit(7)", "Exit code 7.\nIt wrote nothing.", {"exitCode": 7}),
        ("import os; os._exit(3)", "Exit code 3.\n", {"exitCode": 3}),
        ("import os; os.kill(os.getpid(), 9)", "Ended by SIGKILL.\n", {"signal": "SIGKILL"}),
        ("import ctypes; ctypes.string_at(0)", "Ended by SIGSEGV.\n", {"signal": "SIGSEGV"}),
        (
            "import threading\nthreading.Thread(target=threading.Event().wait).start()\nprint('x')",
            "Exit code 0.\nOutput:\nx\n",
            {"exitCode": 0},
        ),
    ],
)
async def test_its_own_end(tmp_path, sandbox, code, how, status):
    run = await ran(tmp_path, sandbox, code)
    assert run.result.result.startswith(how)
    assert run.call["status"] == "completed"
    assert run.terminal["exitStatus"] == status


async def test_an_exception(tmp_path, sandbox):
    run = await ran(tmp_path, sandbox, "def f():\n    return 1 / 0\nf()\n")
    assert run.call["status"] == "completed"
    assert run.result.result == (
        "Exit code 1.\n"
        "Unless it chose that code, an exception ended it; the traceback is in its output.\n"
        "Output:\n"
        "Traceback (most recent call last):\n"
        '  File "<run_code>", line 3, in <module>\n'
        "    f()\n"
        '  File "<run_code>", line 2, in f\n'
        "    return 1 / 0\n"
        "           ~~^~~\n"
        "ZeroDivisionError: division by zero\n"
    )


async def test_the_time_limit(tmp_path, sandbox):
    code = """
import subprocess, time
subprocess.Popen(["sleep", "1000"], start_new_session=True)
print("begun")
time.sleep(1000)
"""
    run = await ran(tmp_path, sandbox, code, timeout_ms=1500)
    assert run.call["status"] == "failed"
    assert run.call["rawOutput"]["timedOut"] is True
    assert run.terminal["exitStatus"] == {"signal": "SIGKILL"}
    assert run.result.failed
    assert run.result.result.startswith("Stopped at its time limit of 1.5 s; what it did until then stands.")
    assert run.result.result.endswith("Output:\nbegun\n")


async def test_the_time_limit_ends_a_call_that_runs(tmp_path, sandbox):
    class Slow(type(TOOLS["read_file"])):
        async def run(self, prepared, context):
            await trio.sleep_forever()

    provider = Scripted("play", read_script(playing("tools.slow(path='x')", timeout_ms=1500)))
    async with indoors(tmp_path, provider=provider, sandbox=sandbox, more_tools={"slow": Slow()}) as daemon:
        run = Run(daemon)
        await run.begin()
        assert await run.ended() == "end_turn"
        (inner,) = run.inner
        assert inner["status"] == "failed"
        assert inner["rawOutput"]["error"].startswith("The program that made this call ended, or closed")
        # The inner call has ended before the outer one has.
        final = [u["toolCallId"] for u in run.turn.of("tool_call_update") if u.get("status") == "failed"]
        assert final == [inner["toolCallId"], run.call["toolCallId"]]
        await run.replays_as_shown()


async def test_nothing_of_it_goes_on_after_its_end(tmp_path, sandbox):
    """A child that holds the channel, in a session of its own, waits for the end of the program to call."""
    code = """
import json, os, stat, time
end = next(fd for fd in range(3, 256) if os.path.exists(f"/proc/self/fd/{fd}")
           and stat.S_ISSOCK(os.fstat(fd).st_mode))
parent = os.getpid()
if not os.fork():
    os.setsid()
    os.write(1, b"child\\n")
    while os.getppid() == parent:
        time.sleep(0.001)
    while True:
        os.write(end, json.dumps({"name": "probe", "arguments": {"name": "late"}}).encode() + b"\\n")
        time.sleep(0.001)
import threading
threading.Thread(target=lambda: [tools.probe(name="thread", asks=True) for _ in iter(int, 1)]).start()
while not os.path.exists("go"):
    time.sleep(0.005)
"""
    async with running(tmp_path, sandbox, code, answer=None) as run:
        ask = await run.editor.next_ask()
        (run.workspace / "go").touch()
        assert await run.ended() == "end_turn"
        await run.editor.frame(
            lambda f: f.get("method") == "$/cancel_request" and f["params"]["requestId"] == ask["id"]
        )
        await run.editor.reply(ask, APPROVE)
        await trio.testing.wait_all_tasks_blocked()
        assert run.ran == []
        (inner,) = run.inner
        assert inner["status"] == "failed"
        assert inner["rawOutput"]["error"].startswith("The program that made this call ended, or closed")
        states = [update["state"] for update in run.turn.of("state_update")]
        assert states == ["running", "requires_action", "running", "idle"]
        assert run.call["status"] == "completed"
        await run.replays_as_shown()


# -- asks ------------------------------------------------------------------------------------------


async def test_an_ask_inside_a_program_stops_its_clock(tmp_path, sandbox, monkeypatch):
    clocks = []

    class Seen(Clock):
        def __init__(self, seconds):
            super().__init__(seconds)
            clocks.append(self)

    monkeypatch.setattr(course, "Clock", Seen)
    code = "print(tools.probe(name='a', asks=True)); input_never = open('never'); print('end')"
    async with running(tmp_path, sandbox, code, answer=None, timeout_ms=60_000) as run:
        (run.workspace / "never").touch()
        ask = await run.editor.next_ask()
        (clock,) = clocks
        assert clock.scope.deadline == float("inf")
        assert run.turn.updates[-1] == {"sessionUpdate": "state_update", "state": "requires_action"}
        subject = ask["params"]["subject"]["toolCall"]
        assert (subject["name"], subject["rawInput"]) == ("probe", {"name": "a", "asks": True})
        await run.editor.reply(ask, APPROVE)
        assert await run.ended() == "end_turn"
        assert run.terminal["output"] == b"probed a\nend\n"
        assert run.ran == ["a"]
        assert not clock.expired


@pytest.mark.parametrize(
    ("outcome", "after"),
    [
        ({"outcome": "selected", "optionId": "reject"}, ["b", "next"]),
        ({"outcome": "cancelled"}, []),
    ],
)
async def test_an_ask_that_is_refused(tmp_path, sandbox, outcome, after):
    code = """
for name in "ab":
    try:
        print(tools.probe(name=name, asks=name == "a"))
    except ToolError as error:
        print("refused:", error)
"""
    more = [("probe", {"name": "next"})]
    async with running(tmp_path, sandbox, code, more, answer={"outcome": outcome}) as run:
        assert await run.ended() == "end_turn"
        assert run.ran == after
        lines = run.terminal["output"].decode().splitlines()
        assert lines[0].startswith("refused: The person")
        assert (lines[1] == "probed b") == ("b" in after)
        assert run.call["status"] == "completed"
        await run.replays_as_shown()


async def test_it_asks_itself_where_every_edit_asks(tmp_path, sandbox):
    code = "print('x') \u202e#\nWorking directory: /elsewhere"
    async with running(tmp_path, sandbox, code, asks=True, answer=None) as run:
        ask = await run.editor.next_ask()
        assert [option["optionId"] for option in ask["params"]["options"]] == ["approve", "reject"]
        program, _deed, where = ask["params"]["description"].split("\n")
        assert program.endswith(
            "a Python program of 2 lines: print('x') \\u202e#\\u000aWorking directory: /elsewhere"
        )
        assert where == f"Working directory: {run.workspace}"
        assert ask["params"]["subject"]["toolCall"]["rawInput"] == {"code": code}
        await run.editor.choose(ask, "reject")
        assert await run.ended() == "end_turn"
        assert run.call["status"] == "failed"
        assert not run.turn.of("terminal_update")


# -- what cannot be run ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"code": " \n"}, "There is no code"),
        ({"code": "#" * (MAX_CODE_BYTES + 1)}, "bytes"),
        ({"code": "1", "timeout_ms": 0}, "timeout_ms"),
        ({"code": "1", "timeout_ms": 600_001}, "timeout_ms"),
        ({"code": 1}, "code"),
        ({}, "code"),
        ({"code": "1", "cwd": "/"}, "cwd"),
    ],
)
async def test_arguments_that_do_not_fit(arguments, words):
    tool = TOOLS["run_code"]
    with pytest.raises(ToolError, match=words):
        await tool.prepare(decode(tool, json.dumps(arguments)), None)


async def test_the_longest_code_fits_whatever_is_in_it(tmp_path, sandbox):
    code = "print('x')\n#" + "\x01" * (MAX_CODE_BYTES - 12)
    run = await ran(tmp_path, sandbox, code)
    assert run.terminal["output"] == b"x\n"


async def test_without_a_sandbox_nothing_is_run(tmp_path):
    class Bare:
        async def layers(self):
            await trio.lowlevel.checkpoint()
            return Unavailable("there is no kernel.")

    async with running(tmp_path, Bare(), "open('x', 'w')") as run:
        assert await run.ended() == "end_turn"
        assert run.call["status"] == "failed"
        assert "there is no kernel." in run.call["rawOutput"]["error"]
        assert list(run.workspace.iterdir()) == []


# -- a hostile program -----------------------------------------------------------------------------

FIND = """
import json, os, stat
end = next(fd for fd in range(3, 256) if os.path.exists(f"/proc/self/fd/{fd}")
           and stat.S_ISSOCK(os.fstat(fd).st_mode))
call = json.dumps({"name": "reading_probe", "arguments": {"name": "raw"}}).encode() + b"\\n"
def write(data):
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(end, view):]
    except OSError as error:
        print(type(error).__name__)
"""

THEN = """
try:
    print(tools.reading_probe(name="after"))
except ToolError as error:
    print(error)
"""

CLOSED = "The channel to the tools is closed, so no more calls can be made."


@pytest.mark.parametrize(
    ("deed", "calls", "fault"),
    [
        ("write(b'garbage\\n')", 0, "bytes that are no JSON"),
        ('write(b\'{"text": "a reply to itself"}\\n\')', 0, "a frame that is no call"),
        ("write(call + call)", 0, "bytes behind a call"),
        ("write(call * 3)", 0, "bytes behind a call"),
        ("for _ in range(1_000): write(call)", None, None),
        ("write(call[:-5])", 0, "bytes that are no JSON"),
        ("write(b'[' * 5_000_000 + b'\\n')", 0, "too many values"),
        ("[write(b'x' * 1_000_000) for _ in range(1_000)]", 0, "more than 8,388,608 bytes"),
        ("os.close(end)", 0, None),
        ("import socket; socket.socket(fileno=os.dup(end)).shutdown(2)", 0, None),
        ("os.dup2(os.open('/dev/zero', os.O_RDONLY), end)", 0, None),
    ],
)
async def test_whatever_it_writes_ends_its_calls_and_nothing_else(tmp_path, sandbox, deed, calls, fault):
    async with running(tmp_path, sandbox, FIND + deed + THEN, timeout_ms=20_000) as run:
        assert await run.ended() == "end_turn"
        assert run.call["status"] == "completed", run.told().result
        assert "after" not in run.daemon.reading.ran
        if calls is not None:
            assert len(run.inner) == calls
        assert len(run.inner) <= 3
        result = run.told().result
        if calls is not None:
            assert CLOSED in result
        if fault is not None:
            assert "Its channel to the tools was closed" in result
            # Its next call may have come in one piece with the garbage.
            assert fault in result or "bytes behind a call" in result
        await run.replays_as_shown()
        # The session is as it was.
        assert (await run.editor.prompt(run.session_id, "hi")).text == "Hello."


async def test_a_call_that_is_open_when_the_channel_closes(tmp_path, sandbox):
    """The ask is withdrawn at once, not when the program has ended."""
    code = FIND + "write(call.replace(b'}}', b',\"asks\":true}}'.replace(b\"'\", b'')))\n"
    code += "import time\nwhile not os.path.exists('go'): time.sleep(0.005)\nos.close(end)\n"
    code += "while not os.path.exists('on'): time.sleep(0.005)\n"
    code = code.replace('\\"', '"')
    async with running(tmp_path, sandbox, code, answer=None) as run:
        ask = await run.editor.next_ask()
        (run.workspace / "go").touch()
        await run.editor.frame(
            lambda f: f.get("method") == "$/cancel_request" and f["params"]["requestId"] == ask["id"]
        )
        await run.turn.seen("tool_call_update", status="failed")
        assert "exitStatus" not in run.terminal
        (run.workspace / "on").touch()
        assert await run.ended() == "end_turn"
        assert run.daemon.reading.ran == []


# -- a cancel at each step -------------------------------------------------------------------------

LIFE = """
import os, subprocess, time
subprocess.Popen(["sleep", "1000"], start_new_session=True)
print(tools.probe(name="a"))
print(tools.probe(name="b", asks=True))
open("done", "w").close()
"""


@pytest.mark.parametrize("fault", ["cancel", "close"])
async def test_a_cancel_at_steps_of_its_life(tmp_path, sandbox, fault):
    reached = 0
    others = descendants(os.getpid())
    script = playing(LIFE)
    async with indoors(tmp_path, script, sandbox=sandbox) as daemon:
        editor = daemon.editor
        editor.on_ask = lambda ask: APPROVE
        await editor.initialize()
        k = 4
        while True:
            daemon.probe.ran.clear()
            session_id = await editor.new_session(daemon.workspace)
            session = daemon.session(session_id)
            act = session.begin_close_nowait if fault == "close" else session.cancel_nowait
            with at_step(k, act) as armed:
                turn = await editor.begin(session_id, "go")
                reason = await turn.ended()
                acted = armed.acted
            assert started(others) == []
            assert reason in (("cancelled", "end_turn") if acted else ("end_turn",))
            calls = list(turn.calls.values())
            assert all(call["status"] in ("completed", "failed", "cancelled") for call in calls)
            done = [call for call in calls if call["status"] == "completed" and call["name"] == "probe"]
            assert [call["rawInput"]["name"] for call in done] == daemon.probe.ran
            assert session.hands is None or len(session.hands.open_calls) == 0
            assert session.hands is None or not session.hands.broker._open
            live = fold(editor.updates(session_id))
            await editor.request("session/close", {"sessionId": session_id})
            start = len(editor.frames)
            params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
            await editor.request("session/resume", params)
            assert fold(editor.updates(session_id, start)) == live
            if not acted:
                break
            reached = k
            k = k * 5 // 4 + 1
    assert reached > 100


@pytest.mark.parametrize("moment", ["it asks", "it works"])
async def test_a_cancel_while(tmp_path, sandbox, moment):
    code = {
        "it asks": "tools.probe(name='a', asks=True)",
        "it works": "import time; print('work'); time.sleep(1000)",
    }[moment]
    more = [("probe", {"name": "next"})]
    async with running(tmp_path, sandbox, code, more, answer=None) as run:
        if moment == "it asks":
            await run.editor.next_ask()
        else:
            await run.turn.seen("terminal_output_chunk")
        await run.editor.cancel(run.session_id)
        assert await run.ended() == "cancelled"
        assert {call["status"] for call in run.turn.calls.values()} == {"cancelled"}
        assert run.terminal["exitStatus"] == {"signal": "SIGKILL"}
        assert run.told().result.startswith("Stopped by the cancel after")
        assert run.ran == []
        await run.replays_as_shown()
