"""The text that runs a program, in a plain child on the Python that runs us: what it sees and how it ends.

The other end of the channel is held by the test; no sandbox is needed for any of this.
"""

import json
import signal
import socket
import sys

import attrs
import pytest
import trio

from term2_acp.process import open_process
from term2_acp.tools.base import NestedResult
from term2_acp.tools.code_runner import PROGRAM_NAME, SOURCE, SOURCE_NAME, command
from term2_acp.tools.program import Asked, Decoder, answer, first_frame, refusal

PARAMETERS = {"read_file": ("path", "start_line")}


@attrs.define
class Ended:
    code: int
    output: str
    asked: list[tuple[str, dict]]


async def run(code, *, reply=None, argv=None):
    """Run ``code``; ``reply`` gives the frame that answers a call, and None closes our end."""
    ours, theirs = socket.socketpair()
    ended = Ended(0, "", [])

    def fine(asked: Asked) -> bytes:
        return answer(NestedResult(f"did {asked.name}", "fail" in asked.name))

    async def serve():
        with trio.socket.from_stdlib_socket(ours) as channel:
            stream = trio.SocketStream(channel)
            await stream.send_all(first_frame(code, PARAMETERS))
            decoder = Decoder()
            while data := await stream.receive_some(65536):
                asked = decoder.feed(bytes(data))
                if asked is not None:
                    ended.asked.append((asked.name, json.loads(asked.arguments)))
                    frame = (reply or fine)(asked)
                    if frame is None:
                        return
                    await stream.send_all(frame)

    argv = argv or command(theirs.fileno())
    with ours, theirs, trio.fail_after(30):
        async with open_process(
            argv, env={"PATH": "/usr/bin:/bin"}, stderr="stdout", pass_fds=[theirs.fileno()]
        ) as process:
            theirs.close()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(serve)
                output = bytearray()
                while data := await process.receive():
                    output += data
                ended.code, ended.output = await process.wait(), output.decode()
                nursery.cancel_scope.cancel()
    return ended


async def test_calls_give_the_text_of_the_result():
    code = """
print(tools.read_file(path="a"))
print(tools.read_file("b", 3))
print(tools.call("grep", pattern="x", name=1, self=2))
import pathlib
tools.read_file(pathlib.Path("c"))
"""
    ended = await run(code)
    assert (ended.code, ended.output) == (0, "did read_file\ndid read_file\ndid grep\n")
    assert ended.asked == [
        ("read_file", {"path": "a"}),
        ("read_file", {"path": "b", "start_line": 3}),
        ("grep", {"pattern": "x", "name": 1, "self": 2}),
        ("read_file", {"path": "c"}),
    ]


async def test_a_failed_call_raises_with_its_words():
    code = """
try:
    tools.fail()
except ToolError as error:
    print(type(error).__name__, error)
print(tools.ok())
"""
    ended = await run(code)
    assert (ended.code, ended.output) == (0, "ToolError did fail\ndid ok\n")


async def test_what_cannot_be_a_call_raises_without_one():
    code = r"""
for call in (
    lambda: tools.read_file("a", path="b"),
    lambda: tools.read_file("a", 1, 2),
    lambda: tools.glob("a"),
    lambda: tools.glob(pattern=float("nan")),
    lambda: tools.glob(pattern="\udcff"),
    lambda: tools.glob(pattern=b"x"),
    lambda: tools.glob(pattern="x" * 9_000_000),
    lambda: tools.__deepcopy__,
):
    try:
        call()
    except (TypeError, ValueError, AttributeError, ToolError) as error:
        print(type(error).__name__)
print(tools.ok())
"""
    ended = await run(code)
    assert ended.output.split("\n") == [
        "TypeError",
        "TypeError",
        "TypeError",
        "ValueError",
        "UnicodeEncodeError",
        "TypeError",
        "ToolError",
        "AttributeError",
        "did ok",
        "",
    ]
    assert [name for name, _ in ended.asked] == ["ok"]


@pytest.mark.parametrize(
    ("code", "status", "output"),
    [
        ("print('x')", 0, "x\n"),
        ("print('x', end='')", 0, "x"),
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit(7)", 7, ""),
        ("import sys; sys.exit(258)", 2, ""),
        ("import sys; sys.exit('bye')", 1, "bye\n"),
        ("import os; print('x'); os._exit(5)", 5, "x\n"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL, ""),
        ("import os; os.abort()", -signal.SIGABRT, ""),
        ("import atexit; atexit.register(print, 'last'); print('first')", 0, "first\nlast\n"),
        ("import threading; threading.Thread(target=threading.Event().wait).start()", 0, ""),
        ("import sys; sys.stdout.close()", 0, ""),
        ("input()", 1, None),
        ("import sys; print(sys.stdin.read(), __name__, sys.argv)", 0, " __main__ ['run_code']\n"),
    ],
)
async def test_the_exit_is_python_s(code, status, output):
    ended = await run(code)
    assert ended.code == status
    if output is not None:
        assert ended.output == output


async def test_a_traceback_has_the_program_s_frames_only():
    code = """\
def inner():
    try:
        tools.fail()
    except ToolError:
        raise ValueError("deep")

inner()
"""
    ended = await run(code)
    assert ended.code == 1
    assert SOURCE_NAME not in ended.output
    files = {line.split('"')[1] for line in ended.output.splitlines() if line.strip().startswith("File")}
    assert files == {PROGRAM_NAME}
    assert "    inner()\n" in ended.output
    assert ended.output.endswith("ValueError: deep\n")
    assert "ToolError: did fail" in ended.output


async def test_the_lines_of_a_traceback_are_those_of_the_code():
    ended = await run("a = 'x\u2028y'\r\nb = '\x0c'\r1 / 0  # here\n")
    assert "line 3, in <module>\n    1 / 0  # here\n" in ended.output


async def test_a_hook_of_the_program_is_asked_first():
    hook = "import sys\ndef hook(kind, error, trace):\n    print('hook', error)\nsys.excepthook = hook\n1 / 0"
    ended = await run(hook)
    assert (ended.code, ended.output) == (1, "hook division by zero\n")
    ended = await run(hook.replace("print(", "broken("))
    assert ended.code == 1
    assert "ZeroDivisionError: division by zero" in ended.output
    assert "NameError: name 'broken' is not defined" in ended.output
    assert SOURCE_NAME not in ended.output


async def test_the_traceback_of_a_thread_and_of_bad_syntax():
    ended = await run(
        "import threading\nt = threading.Thread(target=tools.fail, name='t')\nt.start()\nt.join()\n"
    )
    assert ended.code == 0
    assert ended.output.startswith("Exception in thread t:\nTraceback")
    assert ended.output.endswith("ToolError: did fail\n")
    assert SOURCE_NAME not in ended.output
    ended = await run("def f(:\n")
    assert ended.code == 1
    assert ended.output.startswith(f'  File "{PROGRAM_NAME}", line 1\n    def f(:\n')
    assert ended.output.endswith("SyntaxError: invalid syntax\n")
    ended = await run("x = 'a\0b'")
    assert ended.code == 1


async def test_it_is_an_ordinary_main_module():
    code = """
import dataclasses, inspect, pickle, sys
@dataclasses.dataclass
class Point:
    x: "int"
print(pickle.loads(pickle.dumps(Point(3))), sys.modules["__main__"].Point is Point)
def named():
    return 1
print(inspect.getsource(named).splitlines())
print("read_file" in dir(tools), tools.read_file.__doc__)
"""
    ended = await run(code)
    assert (ended.code, ended.output) == (
        0,
        "Point(x=3) True\n['def named():', '    return 1']\nTrue read_file(path, start_line)\n",
    )


async def test_threads_take_turns():
    code = """
import threading
def work(number):
    for _ in range(20):
        assert tools.call(f"t{number}") == f"did t{number}"
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
print("done")
"""
    ended = await run(code)
    assert (ended.code, ended.output) == (0, "done\n")
    assert len(ended.asked) == 80


async def test_a_forked_child_gets_nothing_and_the_parent_goes_on():
    code = """
import os
child = os.fork()
if not child:
    try:
        tools.ok()
    except ToolError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(tools.ok())
"""
    ended = await run(code)
    words = "Tools can only be called in the program's own process, not in a child of it."
    assert ended.output == f"{words}\ndid ok\n"
    assert len(ended.asked) == 1


async def test_a_started_child_does_not_inherit_the_channel():
    code = """
import os, subprocess
print(subprocess.run(["ls", "/proc/self/fd"], capture_output=True, text=True, close_fds=False).stdout)
"""
    ended = await run(code)
    # 0, 1, 2 and the descriptor by which ls reads the folder.
    assert ended.output.split() == ["0", "1", "2", "3"]


async def test_a_call_that_was_broken_off_is_the_last():
    code = """
import signal
def alarm(*_):
    try:
        tools.again()
    except ToolError as error:
        print("inside:", error)
    raise TimeoutError("slow")
signal.signal(signal.SIGALRM, alarm)
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    tools.slow()
except TimeoutError as error:
    print(error)
try:
    tools.ok()
except ToolError as error:
    print(error)
"""

    def reply(asked):
        assert asked.name == "slow"
        return b'{"text": '  # an answer that has not come whole when the alarm goes

    ended = await run(code, reply=reply)
    words = "An earlier call was broken off, so no more calls can be made."
    assert (ended.code, ended.output) == (0, f"inside: {words}\nslow\n{words}\n")
    assert len(ended.asked) == 1


async def test_a_closed_channel_and_the_last_answer_are_remembered():
    code = """
for _ in range(2):
    try:
        tools.ok()
    except ToolError as error:
        print(error)
"""
    closed = await run(code, reply=lambda asked: None)
    assert closed.output == "The channel to the tools is closed, so no more calls can be made.\n" * 2
    last = await run(code, reply=lambda asked: refusal("Enough.", last=True))
    assert last.output == "Enough.\nEnough.\n"
    assert len(last.asked) == 1


async def test_lines_come_as_they_end():
    code = "print('one', flush=False); tools.slow(); print('two')"
    ours, theirs = socket.socketpair()
    with ours, theirs, trio.fail_after(30):
        async with open_process(
            command(theirs.fileno()), env={}, stderr="stdout", pass_fds=[theirs.fileno()]
        ) as process:
            ours.sendall(first_frame(code, {}))
            assert await process.receive() == b"one\n"


async def test_the_environment_and_the_folder_decide_nothing(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    ended = await run("import sys; print(sys.flags.isolated, sys.flags.utf8_mode, '' in sys.path)")
    assert (ended.code, ended.output) == (0, "1 1 False\n")


async def test_where_one_python_is_not_to_be_seen_the_other_is_taken(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    ended = await run("print('x')")
    assert (ended.code, ended.output) == (0, "x\n")


def test_the_text_fits_into_one_argument():
    assert len(SOURCE.encode()) < 128 * 1024 // 4
    compile(SOURCE, SOURCE_NAME, "exec")
