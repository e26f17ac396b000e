"""``run_code``: a Python program in the sandbox of ``shell``, with the other tools at hand.

Rules:

- The program is confined as a command is, and shown as one (``course``). What it may not do itself it can ask
  for: each call of a tool is a call of its own, decided about and asked about as a call of the model is.
- The way to the tools is one private descriptor, on which the program may write anything (``program``). It is
  made for this one program, and both of its ends are closed when the call ends.
- When the program has exited, nobody calls any more: what is still open is ended then, before anything else.
"""

import socket
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Annotated, Any, ClassVar, Self

import msgspec
from attrs import field

from term2_acp.domain.classes import define, frozen
from term2_acp.domain.content import Terminal
from term2_acp.domain.events import ExitStatus
from term2_acp.domain.ids import TerminalId, new_terminal_id
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import ToolKind
from term2_acp.tools.base import CallPorts, Description, Outcome, Prepared, Tool, ToolContext, ToolError
from term2_acp.tools.clock import Clock
from term2_acp.tools.code_runner import command
from term2_acp.tools.course import DEFAULT_TIMEOUT_MS, Milliseconds, require_sandbox, run_program
from term2_acp.tools.live import MODEL_HEAD_BYTES, MODEL_TAIL_BYTES
from term2_acp.tools.program import MAX_CALLS, Channel, first_frame
from term2_acp.tools.targets import counted

# How the terminal of a program is headed; its code is the call's input.
SHOWN = "python (run_code)"

# Bytes of a program's code: far more than a model writes. As JSON it fits into a frame, whatever is in it.
MAX_CODE_BYTES = 256 * 1024

Code = Annotated[str, msgspec.Meta(description="The program: Python source text.")]


class RunCodeArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``run_code`` takes."""

    code: Code
    timeout_ms: Milliseconds | None = None


@frozen
class _Work:
    code: str
    seconds: float
    terminal_id: TerminalId


class RunCode:
    """Runs one program. ``tools`` are those whose arguments a program may give by position."""

    name: ClassVar[str] = "run_code"
    kind: ClassVar[ToolKind] = ToolKind.EXECUTE
    description: ClassVar[str] = (
        "Run a Python program, and return its exit code and output (stdout and stderr as one); print what "
        "you want to see. It runs in the working directory, in the sandbox of shell: no network, no stdin, "
        "writes only in the workspace and in a private /tmp. `tools` has the other tools as functions: "
        "`tools.read_file(path='a.txt')` returns the text that the tool would return to you, or raises "
        "`ToolError` when it fails or is refused; `tools.call(name, **arguments)` does the same. The person "
        "sees each such call, and decides about it, as about one of yours. shell and run_code cannot be "
        f"called from a program (subprocess works there); it can make {MAX_CALLS} calls, one at a time. "
        "Use it where many calls or much data would fill the conversation. The program ends when its main "
        "thread does: join the others. Nothing outlives the call. The standard library is there; the working "
        f"directory is not on sys.path. It is killed after {DEFAULT_TIMEOUT_MS // 1000} s, or timeout_ms; "
        "time in which the person is asked does not count. Of a long output the first "
        f"{MODEL_HEAD_BYTES // 1024} KiB and the last {MODEL_TAIL_BYTES // 1024} KiB are returned."
    )
    reads_only: ClassVar[bool] = False
    Arguments: ClassVar[type[msgspec.Struct]] = RunCodeArguments

    def __init__(self, tools: Sequence[Tool] = ()) -> None:
        self._parameters = {tool.name: tool.Arguments.__struct_fields__ for tool in tools}

    def describe(self, arguments: Any, context: ToolContext) -> Description:
        """See ``Tool``."""
        return Description(f"Run a Python program of {_lines(arguments.code)}")

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared:
        """See ``Tool``."""
        if not arguments.code.strip():
            raise ToolError("There is no code.")
        size = len(arguments.code.encode(errors="surrogatepass"))
        if size > MAX_CODE_BYTES:
            raise ToolError(
                f"The code has {size:,} bytes; {MAX_CODE_BYTES:,} is the most. "
                "Put data into a file and read that."
            )
        await require_sandbox(context)
        seconds = (arguments.timeout_ms or DEFAULT_TIMEOUT_MS) / 1000
        work = _Work(arguments.code, seconds, new_terminal_id())
        deed = (
            "Run this Python program in the sandbox: no network, writes in the workspace, output to the "
            "model. Each tool that it calls is decided about by itself"
        )
        return Prepared(
            actions=(Action(Access.COMMAND, description=deed),),
            preview=(Terminal(work.terminal_id),),
            summary=f"For at most {seconds:g} s: a Python program of {_lines(work.code)}: {work.code}",
            work=work,
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        """Run the program until it has ended, and its whole process tree with it.

        Cancelled, the tree is gone and the terminal has ended, and the call's ports know how far it came.

        Raises:
            ToolError: it could not be started.
        """
        work: _Work = prepared.work
        with _Calls(first_frame(work.code, self._parameters)) as calls:
            return await run_program(
                context,
                command(calls.descriptors[0]),
                shown=SHOWN,
                terminal_id=work.terminal_id,
                limit_s=work.seconds,
                beside=calls,
            )


@define(eq=False)
class _Calls:
    """The calls of one program (``course.Beside``), and the two ends of its channel."""

    _first: bytes
    _ours: socket.socket = field(init=False)
    _theirs: socket.socket = field(init=False)
    _channel: Channel | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)

    def __enter__(self) -> Self:
        self._ours, self._theirs = socket.socketpair()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ours.close()
        self._theirs.close()

    @property
    def descriptors(self) -> tuple[int, ...]:
        """See ``Beside``."""
        return (self._theirs.fileno(),)

    async def attend(self, clock: Clock, ports: CallPorts) -> None:
        """See ``Beside``."""
        self._theirs.close()  # the program has it: only with no other holder does its end show its going
        self._channel = Channel(self._ours, clock)
        if self._closed:  # it has exited before this task had its first step
            self._channel.close_nowait()
        await self._channel.serve(self._first, ports)

    def close_nowait(self) -> None:
        """See ``Beside``."""
        self._closed = True
        if self._channel is not None:
            self._channel.close_nowait()

    def remarks(self, status: ExitStatus) -> list[str]:
        """See ``Beside``."""
        words = []
        if status.exit_code == 1:
            words.append("Unless it chose that code, an exception ended it; the traceback is in its output.")
        if self._channel is not None and self._channel.fault is not None:
            words.append(
                f"Its channel to the tools was closed, since it wrote {self._channel.fault} to it; "
                "calls after that were not made."
            )
        return words

    def facts(self) -> Mapping[str, Any]:
        """See ``Beside``."""
        return {"toolCalls": 0 if self._channel is None else self._channel.calls}


def _lines(code: str) -> str:
    return counted(len(code.strip("\n").split("\n")), "line")
