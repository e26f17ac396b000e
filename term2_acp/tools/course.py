"""The course of one program in the sandbox, from its start to its end, and the words about it.

``shell`` and ``run_code`` differ in what they start; from there on they are the same. Rules:

- Nothing runs bare. Where the sandbox cannot be shown to hold, the call fails with the reason.
- In the mode ``plan`` the workspace is read-only for the program, by the sandbox, and the result says so. The
  mode counts that is in force in the step in which the program is let run.
- The program is over when its own process has exited, whoever holds its pipe; what is in the pipe then is
  read.
- The order of the end, however it came: the process tree is gone, the last output is shown, then the exit
  status, then the call ends. A cancelled call goes the same way without waiting for the editor, and leaves
  word of how far it came.
- The time limit is for the program. It does not run on while a person is asked for it, nor while a slow
  editor takes the output of one that has exited.
- What a program writes is data: nothing in it is read, and the words of the result that are ours come first.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Protocol

import msgspec
import trio
from attrs import field

from term2_acp.domain.classes import define
from term2_acp.domain.confinement import Confinement
from term2_acp.domain.content import Text
from term2_acp.domain.events import ExitStatus
from term2_acp.domain.ids import TerminalId
from term2_acp.domain.options import Mode
from term2_acp.permission.choices import escape_for_person
from term2_acp.sandbox import SandboxError, SandboxRefused, Unavailable
from term2_acp.tools.base import CallPorts, Outcome, ToolContext, ToolError
from term2_acp.tools.clock import Clock
from term2_acp.tools.live import MAX_OUTPUT_BYTES, LiveOutput
from term2_acp.tools.targets import counted, refusals
from term2_acp.workspace import Kind, Workspace

if TYPE_CHECKING:
    from term2_acp.sandbox.command import Command

logger = logging.getLogger(__name__)

# Milliseconds that a program may take: two minutes where nothing is said, ten for a long build.
DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000

# Seconds for the last words of a program that has ended, whatever is cancelled meanwhile.
LOOK_DEADLINE_S = 2.0

# Seconds that are not worth a word.
SHORT_S = 1.0

# Names of a warning. Who makes more has made the point.
MAX_NAMES = 20

READ_ONLY = "Plan mode is on, so the workspace was read-only for this."
"""What is said of a program that could not change the workspace."""

KILLED = ExitStatus(signal="SIGKILL")
"""What becomes of a program whose own exit is not seen."""

Milliseconds = Annotated[
    int,
    msgspec.Meta(
        ge=1,
        le=MAX_TIMEOUT_MS,
        description=f"Time limit in milliseconds. Default: {DEFAULT_TIMEOUT_MS}; at most {MAX_TIMEOUT_MS}.",
    ),
]
"""A time limit as an argument."""


class Beside(Protocol):
    """What the daemon does for a program while that runs."""

    @property
    def descriptors(self) -> Sequence[int]:
        """What the program inherits, under these numbers."""
        ...

    async def attend(self, clock: Clock, ports: CallPorts) -> None:
        """Do it, from the program's start until ``close_nowait``. ``clock`` is the program's."""
        ...

    def close_nowait(self) -> None:
        """The program has exited, or its time is up: let ``attend`` return soon."""
        ...

    def remarks(self, status: ExitStatus) -> Sequence[str]:
        """Sentences for the model and the person about how it went."""
        ...

    def facts(self) -> Mapping[str, Any]:
        """JSON values for the call's raw output."""
        ...


async def require_sandbox(context: ToolContext) -> None:
    """See that programs can be run here at all.

    Raises:
        ToolError: they cannot, and why.
    """
    layers = await context.sandbox.layers()
    if isinstance(layers, Unavailable):
        raise ToolError(
            f"Nothing was run: commands run in a sandbox only, and there is none here: {layers.reason} "
            "Tell the person; `term2 doctor` says what is missing and what to do."
        )


async def run_program(
    context: ToolContext,
    argv: Sequence[str],
    *,
    shown: str,
    terminal_id: TerminalId,
    limit_s: float,
    beside: Beside | None = None,
) -> Outcome:
    """Run a program in the workspace until it has ended, and its whole process tree with it.

    ``shown`` is what its terminal is headed with. Cancelled, the tree is gone and the terminal has ended, and
    the call's ports know how far it came.

    Raises:
        ToolError: it could not be started.
    """
    files, ports = context.files, context.ports
    assert ports is not None, "a program runs for a call"
    read_only = context.mode() is Mode.PLAN
    before = await _confinement(files, read_only=read_only)
    live = LiveOutput(context, command=shown, cwd=files.cwd, terminal_id=terminal_id)
    course = _Course(live, limit_s, ports, beside, read_only=read_only)
    descriptors = tuple(beside.descriptors) if beside is not None else ()

    def last_word() -> None:
        if context.mode() is Mode.PLAN and not read_only:
            raise SandboxRefused("plan mode was switched on just then. Call it again.")

    try:
        async with context.sandbox.launch(
            argv, before, cwd=files.cwd, pass_fds=descriptors, last_word=last_word
        ) as command:
            await course.attend(command)
    except SandboxError as error:
        logger.warning("a command was not run: %s", error.reason)
        raise ToolError(f"Nothing was run: {error.reason}") from None
    except BaseException:
        if course.started:
            with trio.move_on_after(LOOK_DEADLINE_S, shield=True):
                await course.end()
            ports.stopped_nowait(course.outcome(course.cancelled(), ()))
        raise
    await course.end()
    made: Sequence[str] = ()
    if not read_only:
        with trio.move_on_after(LOOK_DEADLINE_S, shield=True):
            made = await files.newly_protected(before)
    # No wait from here on: a cancel that comes now finds a program that has ended.
    return course.outcome(course.ended(), made)


async def _confinement(files: Workspace, *, read_only: bool) -> Confinement:
    with refusals():
        target = files.resolve(files.cwd)
        if target.path != files.cwd or files.kind(target) is not Kind.FOLDER:
            raise ToolError(f"Nothing was run: the working directory {files.cwd} is not there any more.")
        return await files.confinement(read_only=read_only)


@define(eq=False)
class _Course:
    """One program, and the words about it."""

    live: LiveOutput
    limit_s: float
    _ports: CallPorts
    _beside: Beside | None
    read_only: bool = field(kw_only=True)
    started: bool = field(default=False, init=False)
    timed_out: bool = field(default=False, init=False)
    status: ExitStatus = field(default=KILLED, init=False)
    exited: bool = field(default=False, init=False)
    _notes: tuple[str, ...] = field(default=(), init=False)
    _begun_at: float = field(default=0.0, init=False)
    _seconds: float | None = field(default=None, init=False)

    async def attend(self, command: "Command") -> None:
        """Show the program until it has exited and its output is read, or one of its limits is reached."""
        self.started = True
        self._notes = command.notes
        self._begun_at = trio.current_time()
        clock = Clock(self.limit_s)
        async with trio.open_nursery() as nursery:
            if self._beside is not None:
                # Not in the clock's scope: `close_nowait` ends what is open beside the program, which can so
                # tell the end of the time from a cancel of the turn.
                nursery.start_soon(self._beside.attend, clock, self._ports)
            with clock.scope:
                await self._follow(command, clock)
            self._close_beside()
        self.timed_out = clock.expired

    async def _follow(self, command: "Command", clock: Clock) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._see_exit, command, clock)
            await self.live.begin()
            await self.live.follow(command.receive)
            if self.live.overflowed:
                nursery.cancel_scope.cancel()

    async def _see_exit(self, command: "Command", clock: Clock) -> None:
        ended = await command.wait()
        clock.stop_nowait()  # from here on it is the editor that is slow
        self.status = ExitStatus(ended.code, ended.signal)
        self.exited = True
        self._seconds = trio.current_time() - self._begun_at
        self._close_beside()

    def _close_beside(self) -> None:
        if self._beside is not None:
            self._beside.close_nowait()

    async def end(self) -> None:
        """The process tree is gone: show the end and close what is open. No cancel ends this; bounded."""
        if self._seconds is None:
            self._seconds = trio.current_time() - self._begun_at
        self.live.end_nowait(self.status)
        await self.live.finish()

    # -- words -----------------------------------------------------------------------------------------

    def ended(self) -> str:
        """How it ended, in one sentence."""
        if self.exited:
            status = self.status
            how = f"Ended by {status.signal}" if status.signal else f"Exit code {status.exit_code}"
            return f"{how}{self._after()}."
        if self.timed_out:
            return f"Stopped at its time limit of {self.limit_s:g} s; what it did until then stands."
        size = counted(MAX_OUTPUT_BYTES, "byte")
        return f"Stopped after it had written {size}{self._after()}; what it did until then stands."

    def cancelled(self) -> str:
        """How far it came when it was cancelled, in one sentence."""
        if self.exited:
            return f"{self.ended()} The turn was cancelled just then."
        return f"Stopped by the cancel{self._after(0.0)}; what it did until then stands."

    def outcome(self, how: str, made: Sequence[str]) -> Outcome:
        """What happened: ``how`` it ended, and the protected names that were ``made``."""
        remarks = [READ_ONLY, *self._notes] if self.read_only else [*self._notes]
        if self._beside is not None:
            remarks += self._beside.remarks(self.status)
        if made:
            remarks.append(_warning(made))
        output = self.live.for_model()
        shown = [how] if not self.exited else []
        if self.live.cut:
            shown.append(self.live.where_kept())
        notes = "\n".join([*shown, *remarks])
        return Outcome(
            result="\n".join([how, *remarks, f"Output:\n{output}" if output else "It wrote nothing."]),
            content=(self.live.content, Text(notes)) if notes else (self.live.content,),
            raw_output=self._raw(),
            failed=not self.exited,
        )

    def _raw(self) -> dict[str, Any]:
        raw = {
            "exitCode": self.status.exit_code,
            "signal": self.status.signal,
            "timedOut": self.timed_out,
            "durationMs": round(1000 * (self._seconds or 0.0)),
            "outputBytes": self.live.total,
            "truncated": self.live.cut,
        }
        if self.live.kept_in:
            raw["artifact"] = self.live.kept_in
        return raw if self._beside is None else {**raw, **self._beside.facts()}

    def _after(self, least: float = SHORT_S) -> str:
        seconds = self._seconds or 0.0
        return f" after {seconds:.1f} s" if seconds >= least else ""


def _warning(made: Sequence[str]) -> str:
    """What is said of protected names that are new."""
    names = ", ".join(escape_for_person(name) for name in made[:MAX_NAMES])
    more = f" and {len(made) - MAX_NAMES:,} more" if len(made) > MAX_NAMES else ""
    return (
        f"Warning: while it ran, protected names were made or replaced: {names}{more}. Other programs run or "
        "believe such files; look at what is in them."
    )
