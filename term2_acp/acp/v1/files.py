"""The editor's files behind the v1 door: ``fs/read_text_file`` and ``fs/write_text_file``.

Rules:

- One request each, and only of a method that the client has offered. It ends with the client's answer, with
  an error, or with our patience. Whatever is no answer is a refusal, in one sentence.
- A client knows its workspace by the name that it gave, which may lead through links; it is asked by that
  name, as long as that leads to the workspace still.
- A write that was sent may have been done unless the client says that it was not.
- What a client says of its errors is shown to the person and the model as a short quotation, escaped.
"""

import posixpath
from collections.abc import Callable
from typing import Any

import msgspec
import trio

from term2_acp.acp.params import Unfit, decode_value
from term2_acp.acp.places import canonical
from term2_acp.domain.ids import SessionId
from term2_acp.jsonrpc.errors import ErrorCode
from term2_acp.permission.choices import escape_for_person
from term2_acp.transport.peer import ErrorReply, Gone, MalformedReply, Reply, Result
from term2_acp.workspace.editor import EditorLost, EditorRefused, EditorSilent

# Seconds that a client has to read a file. It does that by itself, from a buffer or the disk.
READ_S = 30.0

# Seconds that it has to write one: some ask a person first.
WRITE_S = 600.0

# Characters of a client's error that are quoted.
MAX_QUOTED = 200

Call = Callable[[str, Any, Callable[[Reply], None]], Callable[[], None]]
"""``transport.peer.Peer.call_nowait``."""


class _Read(msgspec.Struct):
    content: str


class ClientFiles:
    """One session's files as its client has them (``workspace.editor.EditorFiles``).

    ``cwd`` is the canonical workspace, ``named`` what the client calls it. ``reads`` and ``writes`` say what
    the client offers.
    """

    def __init__(
        self, call: Call, session_id: SessionId, *, named: str, cwd: str, reads: bool, writes: bool
    ) -> None:
        self.reads = reads
        self.writes = writes
        self._call = call
        self._session_id = session_id
        self._named = named
        self._cwd = cwd

    async def read(self, path: str) -> str:
        """See ``workspace.editor.EditorFiles``."""
        doing = f"read {path}"
        reply = await self._ask("fs/read_text_file", path, {}, READ_S)
        match reply:
            case Result(value=value):
                try:
                    return decode_value("$", _Read, value).content
                except Unfit:
                    raise EditorRefused(f"The editor was to {doing}, and its answer has no text.") from None
            case ErrorReply():
                raise EditorRefused(_refused(doing, reply))
            case MalformedReply():
                raise EditorRefused(f"The editor was to {doing}, and its answer makes no sense.")
            case Gone():
                raise EditorRefused(f"The editor is gone; it did not {doing}.")
            case None:
                raise EditorSilent(f"The editor did not {doing} within {READ_S:g} s.")

    async def write(self, path: str, text: str) -> None:
        """See ``workspace.editor.EditorFiles``. Whatever result comes says that it did."""
        doing = f"write {path}"
        reply = await self._ask("fs/write_text_file", path, {"content": text}, WRITE_S)
        match reply:
            case Result():
                return
            case ErrorReply():
                raise EditorRefused(f"{_refused(doing, reply)} Nothing was written.")
            case MalformedReply():
                raise EditorLost(f"The editor was to {doing}, and its answer makes no sense.")
            case Gone():
                raise EditorLost(f"The editor was to {doing}, and is gone.")
            case None:
                raise EditorLost(f"The editor was to {doing}, and said nothing for {WRITE_S:g} s.")

    async def _ask(self, method: str, path: str, more: dict[str, str], seconds: float) -> Reply | None:
        """Send a request before the first wait, and wait for its reply; None when there is none in time.

        Cancelled, or out of time, the request is withdrawn.

        Raises:
            EditorRefused: the client cannot be asked. Nothing was sent.
        """
        replies: list[Reply] = []
        answered = trio.Event()

        def settle(reply: Reply) -> None:
            replies.append(reply)
            answered.set()

        params = {"sessionId": self._session_id, "path": self._as_named(path), **more}
        withdraw = self._call(method, params, settle)
        if replies and isinstance(replies[0], Gone):
            raise EditorRefused(f"The editor is gone; {path} cannot be reached through it.")
        try:
            with trio.move_on_after(seconds):
                await answered.wait()
        finally:
            withdraw()
        return replies[0] if replies else None

    def _as_named(self, path: str) -> str:
        """A canonical path of the workspace as the client would write it. Metadata only."""
        if self._named == self._cwd:
            return path
        if canonical(self._named) != self._cwd:
            named = escape_for_person(self._named)
            raise EditorRefused(
                f"The editor calls its workspace {named}, which does not lead to {self._cwd} any more. "
                f"{path} cannot be reached through it."
            )
        return posixpath.join(self._named, posixpath.relpath(path, self._cwd))


def _refused(doing: str, error: ErrorReply) -> str:
    if error.code == ErrorCode.METHOD_NOT_FOUND:
        return f"The editor was to {doing}, and does not offer that after all (error {error.code})."
    said = escape_for_person(" ".join(error.message[: 4 * MAX_QUOTED].split()))
    if len(said) > MAX_QUOTED:
        said = said[: MAX_QUOTED - 3] + "..."
    return f"The editor did not {doing}: {said or 'it gave no reason'} (error {error.code})."
