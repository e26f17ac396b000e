"""``shell``: a command in the sandbox, shown live. How it runs and ends is in ``course``.

Rules:

- Nothing runs bare, and asking for no sandbox changes nothing.
- What runs is what was asked for: the command is handed on as one argument, and nothing of it is read here.
- A command that no system could start is refused before anyone is asked about it.
"""

from typing import Annotated, Any, ClassVar, Literal

import msgspec

from term2_acp.domain.classes import frozen
from term2_acp.domain.content import Terminal
from term2_acp.domain.ids import TerminalId, new_terminal_id
from term2_acp.domain.permission import Access, Action
from term2_acp.domain.toolcall import ToolKind
from term2_acp.tools.base import Description, Outcome, Prepared, ToolContext, ToolError
from term2_acp.tools.course import DEFAULT_TIMEOUT_MS, Milliseconds, require_sandbox, run_program
from term2_acp.tools.live import MODEL_HEAD_BYTES, MODEL_TAIL_BYTES
from term2_acp.tools.targets import brief

# Bytes of a command. The kernel takes 128 KiB as one argument, and refuses more with E2BIG.
MAX_COMMAND_BYTES = 100_000

# bash where there is one, since models write for it. The command is an argument, so nothing of it is quoted.
_SHELL = ("/bin/sh", "-c", 'command -v bash >/dev/null 2>&1 && exec bash -c "$1"; exec /bin/sh -c "$1"', "sh")

CommandLine = Annotated[str, msgspec.Meta(description="The command line, as bash takes it.")]
Confined = Annotated[
    Literal["default", "unsandboxed"], msgspec.Meta(description="Commands run in the sandbox.")
]


class ShellArguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What ``shell`` takes. Whatever ``sandbox`` says, it is the default one."""

    command: CommandLine
    timeout_ms: Milliseconds | None = None
    sandbox: Confined | None = None


@frozen
class _Work:
    command: str
    limit_s: float
    terminal_id: TerminalId


class Shell:
    """Runs one command."""

    name: ClassVar[str] = "shell"
    kind: ClassVar[ToolKind] = ToolKind.EXECUTE
    description: ClassVar[str] = (
        "Run a command with bash in the working directory, and return its exit code and output (stdout and "
        "stderr as one). It runs in a sandbox: it can read files, but write only in the workspace and in a "
        "private /tmp, which is empty at first and thrown away at the end; protected names in the workspace "
        "(.git/config, .git/hooks, .vscode and the like) are read-only, and credential files look empty. No "
        "network: downloads and package installs fail. No stdin and no terminal: prompts get end of file. "
        "Nothing outlives the call: no background process, and no state of the shell. It is killed after "
        f"{DEFAULT_TIMEOUT_MS // 1000} s, or timeout_ms. Of a long output the first "
        f"{MODEL_HEAD_BYTES // 1024} KiB and the last {MODEL_TAIL_BYTES // 1024} KiB are returned."
    )
    reads_only: ClassVar[bool] = False
    Arguments: ClassVar[type[msgspec.Struct]] = ShellArguments

    def describe(self, arguments: Any, context: ToolContext) -> Description:
        """See ``Tool``."""
        return Description(brief(arguments.command) or "Run a command")

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared:
        """See ``Tool``."""
        _require_runnable(arguments.command)
        await require_sandbox(context)
        limit_s = (arguments.timeout_ms or DEFAULT_TIMEOUT_MS) / 1000
        work = _Work(arguments.command, limit_s, new_terminal_id())
        deed = "Run this command in the sandbox: no network, writes in the workspace, output to the model"
        return Prepared(
            actions=(Action(Access.COMMAND, description=deed),),
            preview=(Terminal(work.terminal_id),),
            summary=f"For at most {limit_s:g} s: {arguments.command}",
            work=work,
        )

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        """Run the command until it has ended, and its whole process tree with it.

        Cancelled, the tree is gone and the terminal has ended, and the call's ports know how far it came.

        Raises:
            ToolError: it could not be started.
        """
        work: _Work = prepared.work
        return await run_program(
            context,
            [*_SHELL, work.command],
            shown=work.command,
            terminal_id=work.terminal_id,
            limit_s=work.limit_s,
        )


def _require_runnable(command: str) -> None:
    """Refuse what no shell could be given.

    Raises:
        ToolError: it is that.
    """
    if not command.strip():
        raise ToolError("The command is empty.")
    if "\0" in command:
        raise ToolError("A command cannot hold a NUL character.")
    try:
        size = len(command.encode())
    except UnicodeEncodeError:
        raise ToolError("The command holds half a character (a lone surrogate).") from None
    if size > MAX_COMMAND_BYTES:
        raise ToolError(
            f"The command has {size:,} bytes; {MAX_COMMAND_BYTES:,} is the most the system takes (E2BIG). "
            "Write a script to a file and run that."
        )
