"""The sandbox as the rest of the program has it: what it holds here, and a way to run a command in it.

Theory of operation. There is a ladder: the bundled bubblewrap and the machine's own, the newer first, then
Landlock. Each is tried out (see ``probe``), and the first that holds what must be held is used from then on;
when none does there is no sandbox, and no command runs. The answer is kept with what identifies the program:
at each launch one look tells whether that is still the one that was tried, and when not, all is tried again.
That nothing holds is kept for a while only: a machine may be too busy for a trial. Whether a workspace can be
kept read-only as a whole is tried when that is asked for first, and where it cannot, those commands are
refused.
"""

import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TypeVar

import trio
from attrs import evolve

from term2_acp.domain.confinement import Confinement
from term2_acp.sandbox import candidates, landlock, probe
from term2_acp.sandbox.candidates import Candidate
from term2_acp.sandbox.command import Command, nothing_to_say
from term2_acp.sandbox.environment import environment
from term2_acp.sandbox.launch import launch
from term2_acp.sandbox.policy import (
    SYSTEM_SECRETS,
    TEMPORARY_FOLDERS,
    Layer,
    Layers,
    Limits,
    Policy,
    SandboxError,
    SandboxFailed,
    SandboxRefused,
    Unavailable,
    check,
)

logger = logging.getLogger(__name__)

T = TypeVar("T")

# Seconds after which all is tried again when nothing held.
RETRY_S = 30.0

REQUIRED = {
    "bubblewrap": frozenset({Layer.WRITES, Layer.HIDDEN, Layer.NETWORK, Layer.PROTECTED, Layer.WHOLE_TREE}),
    "landlock": frozenset({Layer.WRITES, Layer.HIDDEN, Layer.NETWORK, Layer.WHOLE_TREE}),
}
"""What each kind must hold to be used at all."""

NOT_HELD = {
    Layer.UNIX_SOCKETS: "Commands can reach daemons of this machine by their sockets.",
    Layer.PROTECTED: "Commands can change protected names in the workspace.",
    Layer.PROCESS_VIEW: "Commands see the other processes here and their command lines, not into them.",
    Layer.SYSCALLS: "No system calls are refused to commands.",
    Layer.PROCESSES: "The number of a command's processes is not bounded.",
    Layer.MEMORY: "A command's memory is bounded for each of its processes only, not in all nor when shared.",
}
"""What a person is told of a layer that is not held; the other layers are required of every kind."""

_ATTRIBUTES = (
    "Commands can change the permissions and times of your files outside the workspace, not what is in them."
)
_OF_LANDLOCK = (
    "Commands can list the names of files in hidden places, though not read them.",
    _ATTRIBUTES,
    "A command's temporary files are bounded one by one, not in all.",
)

_HELD_WHERE_READ_ONLY = frozenset({NOT_HELD[Layer.PROTECTED], _ATTRIBUTES})
"""What is not so for a command that may change nothing in the workspace."""


class Sandbox:
    """What commands of this process run in; one for all of them.

    ``environ`` is the daemon's environment, ``secrets`` the keys it was given, which commands do not get.
    ``state`` is term2's state directory, in which a folder is made when the first command runs.
    """

    def __init__(self, environ: Mapping[str, str], secrets: tuple[str, ...], state: str) -> None:
        self._environ = environ
        self._secrets = secrets
        self._folder = os.path.join(state, "sandbox")
        self._environment = environment(environ, secrets)
        self._looking = trio.Lock()
        self._found: Layers | Unavailable | None = None
        self._used: Candidate | None = None
        self._keeps: bool | None = None
        self._found_at = 0.0

    async def layers(self) -> Layers | Unavailable:
        """What is held here: seen by a trial the first time, and again when the program has changed.

        Callers at the same time wait for one trial. Cancelled, nothing is kept, and the next caller tries.
        """
        async with self._looking:
            if self._found is None or not self._is_fresh():
                self._found = None
                found, used = await self._look()
                self._found, self._used, self._found_at = found, used, trio.current_time()
                self._keeps = None
            return self._found

    @asynccontextmanager
    async def launch(
        self,
        command: Sequence[str],
        confinement: Confinement,
        *,
        cwd: str,
        pass_fds: Sequence[int] = (),
        limits: Limits = Limits(),  # noqa: B008 -- a frozen value
        last_word: Callable[[], None] = nothing_to_say,
    ) -> AsyncIterator[Command]:
        """Run a command, whose first word is a program, in ``cwd`` (canonical, in the workspace).

        Its stdin is empty, its environment the allowed part of ours; descriptors of ``pass_fds`` reach it
        under their numbers. ``last_word`` is called in the very step that lets the command run, and may raise
        a ``SandboxError`` that says why it does not after all. When the context has been left, for whatever
        reason, nothing of it runs any more: that is waited for, shielded from cancellation, for some seconds
        at most.

        Raises:
            SandboxRefused: this workspace cannot be confined, or nothing here can confine.
            SandboxFailed: the sandbox did not start. Nothing of the command ran.
        """
        found = await self.layers()
        if isinstance(found, Unavailable):
            raise SandboxRefused(found.reason)
        if not command or any("\0" in word for word in command):
            raise SandboxRefused("there is no command to run, or one that no system call can say")
        used = self._used
        assert used is not None
        if confinement.is_read_only:
            await self._require_kept(used)
        async with self._run(used, command, confinement, cwd, limits, pass_fds, last_word) as running:
            lost = found.held & _BOUNDS - running.bounded
            notes = (*found.notes, *(NOT_HELD[layer] for layer in sorted(lost)), *running.notes)
            if confinement.is_read_only:
                notes = tuple(note for note in notes if note not in _HELD_WHERE_READ_ONLY)
            yield evolve(running, notes=notes)

    @asynccontextmanager
    async def _run(
        self,
        candidate: Candidate,
        command: Sequence[str],
        confinement: Confinement,
        cwd: str,
        limits: Limits,
        pass_fds: Sequence[int] = (),
        last_word: Callable[[], None] = nothing_to_say,
    ) -> AsyncIterator[Command]:
        """The one path by which commands run, the trial's as well."""
        policy = self._policy(confinement, cwd, limits)
        check(policy)
        async with AsyncExitStack() as stack:
            running: AbstractAsyncContextManager[Command]
            if candidate.program is not None:
                running = launch(candidate.program, policy, command, pass_fds=pass_fds, last_word=last_word)
            else:
                kept = confinement.workspace if confinement.is_read_only else None
                temporary = await stack.enter_async_context(landlock.temporary_folder(outside=kept))
                variables = environment(self._environ, self._secrets, temporary=temporary)
                policy = evolve(policy, environment=variables)
                running = landlock.confine(
                    policy, command, temporary=temporary, pass_fds=pass_fds, last_word=last_word
                )
            yield await stack.enter_async_context(running)

    def _policy(self, confinement: Confinement, cwd: str, limits: Limits) -> Policy:
        """The policy of one command, with what the machine has of each place now."""
        system_secrets = tuple(os.path.realpath(path) for path in SYSTEM_SECRETS if os.path.exists(path))
        hidden = (*confinement.hidden, *system_secrets)
        return Policy(
            confinement=confinement,
            cwd=cwd,
            environment=self._environment,
            limits=limits,
            empty_file=self._empty_file(),
            folders=frozenset(filter(os.path.isdir, hidden)),
            system_secrets=system_secrets,
            temporary=tuple(path for path in TEMPORARY_FOLDERS if os.path.realpath(path) == path),
        )

    def _empty_file(self) -> str:
        """The file that is shown in place of a hidden one; it is made the first time.

        Raises:
            SandboxFailed: it cannot be made.
        """
        path = os.path.join(self._folder, "empty")
        try:
            with_nothing = os.stat(path).st_size == 0
        except OSError:
            with_nothing = False
        if not with_nothing:
            try:
                os.makedirs(os.path.dirname(self._folder), mode=0o700, exist_ok=True)
                os.makedirs(self._folder, mode=0o700, exist_ok=True)
                os.close(os.open(path, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW, 0o400))
            except OSError as error:
                raise SandboxFailed(f"the sandbox's folder cannot be made: {error.strerror}") from error
        return os.path.realpath(path)

    def _is_fresh(self) -> bool:
        """Whether what was found still stands."""
        if isinstance(self._found, Unavailable):
            return trio.current_time() < self._found_at + RETRY_S
        used = self._used
        return used is None or used.program is None or candidates.identity(used.program) == used.identity

    async def _look(self) -> tuple[Layers | Unavailable, Candidate | None]:
        """Go down the ladder; what was found, and the step it was found at."""
        if sys.platform != "linux":
            return Unavailable(
                "commands are run on Linux only: no sandbox of this system has been tried"
            ), None
        reasons = []
        found = await candidates.find(self._environment)
        if not any(candidate.program for candidate in found):
            reasons.append("there is no bubblewrap that runs here")
        for candidate in found:
            name = candidate.program or "Landlock"
            try:
                held = await self._tried(candidate, probe.held_by)
            except SandboxError as error:
                reasons.append(f"{name}: {error.reason}")
                continue
            missing = REQUIRED[candidate.kind] - held
            if not missing:
                return _layers(candidate, held), candidate
            reasons.append(f"{name} does not hold: {', '.join(layer.label for layer in sorted(missing))}")
        if (abi := landlock.abi()) < landlock.MINIMUM_ABI:
            reasons.append(
                f"Landlock has ABI {abi} here, and {landlock.MINIMUM_ABI} is needed to bound signals"
            )
        return Unavailable(f"no sandbox can be enforced here ({'; '.join(reasons)})"), None

    async def _require_kept(self, candidate: Candidate) -> None:
        """See that the sandbox keeps a read-only workspace: by a trial the first time.

        Raises:
            SandboxRefused: it does not.
            SandboxFailed: the trial did not come to its end. The next caller tries again.
        """
        async with self._looking:
            if self._keeps is None:
                self._keeps = await self._tried(candidate, probe.keeps_workspace)
            if not self._keeps:
                name = candidate.program or "Landlock"
                raise SandboxRefused(f"{name} was seen not to keep a workspace read-only")

    async def _tried(self, candidate: Candidate, trial: Callable[[probe.Run, str], Awaitable[T]]) -> T:
        """Have one candidate tried out, by the path of all commands."""

        def run(command: Sequence[str], confinement: Confinement) -> AbstractAsyncContextManager[Command]:
            return self._run(candidate, command, confinement, confinement.workspace, Limits())

        self._empty_file()  # makes the folder
        try:
            found = await trial(run, self._folder)
        except OSError as error:
            raise SandboxFailed(f"its trial run could not be made: {error}") from error
        logger.debug("%s: %s came to %s", candidate.program or "Landlock", trial.__name__, found)
        return found


_BOUNDS = frozenset({Layer.PROCESSES, Layer.MEMORY})


def _layers(candidate: Candidate, held: frozenset[Layer]) -> Layers:
    notes = tuple(NOT_HELD[layer] for layer in Layer if layer not in held)
    notes += _OF_LANDLOCK if candidate.kind == "landlock" else ()
    return Layers(candidate.kind, candidate.program, candidate.version, held, notes)
