"""An editor that offers its files: buffers over real ones, behind the connection that a door would call.

What it was asked is in ``asked``. It answers in the next tick of the loop, as a reader does; what is of the
methods in ``hold`` it keeps, and ``let_go`` answers it.
"""

import os
from pathlib import Path

import msgspec
import trio

from term2_acp.acp.v1.files import ClientFiles
from term2_acp.jsonrpc.errors import ErrorCode
from term2_acp.transport.peer import ErrorReply, Result

READ, WRITE = "fs/read_text_file", "fs/write_text_file"
SESSION = "sess_1"


class EditorWithFiles:
    """``buffers`` are the texts that are not saved, by the path as the editor knows it."""

    def __init__(self, *, saves: bool = True):
        self.buffers: dict[str, str] = {}
        self.asked: list[tuple[str, dict]] = []
        self.withdrawn: list[int] = []
        self.answers: dict[str, object] = {}  # a reply in place of the editor's own, by method
        self.saves = saves
        self.shows = lambda text: text
        self.saves_as = lambda text: text
        self.before_answer = lambda method: None
        self.hold: set[str] = set()
        self._held: list = []

    def files(self, cwd, *, reads=True, writes=True, named=None):
        """What a door would make of it for the session's workspace."""
        return ClientFiles(
            self.call, SESSION, named=str(named or cwd), cwd=os.path.realpath(cwd), reads=reads, writes=writes
        )

    def methods(self):
        return [method for method, _ in self.asked]

    def call(self, method, params, settle):
        number = len(self.asked)
        self.asked.append((method, params))
        answered = set()

        def answer():
            if number not in self.withdrawn:
                self.before_answer(method)
                answered.add(number)
                settle(self._answer(method, params))

        if method in self.hold:
            self._held.append(answer)
        else:
            trio.lowlevel.current_trio_token().run_sync_soon(answer)
        return lambda: self.withdrawn.extend({number} - answered)

    def let_go(self):
        self.hold = set()
        for answer in self._held:
            answer()
        self._held.clear()

    def _answer(self, method, params):
        if method in self.answers:
            return self.answers[method]
        path = Path(params["path"])
        if method == WRITE:
            self._write(path, params["content"])
            return Result(msgspec.Raw(b"null"))
        text = self.buffers.get(str(path))
        if text is None:
            # An empty buffer for what is not there: what many editors do.
            text = self.shows(path.read_bytes().decode(errors="replace")) if path.exists() else ""
        return Result(msgspec.Raw(msgspec.json.encode({"content": text})))

    def _write(self, path, text):
        self.buffers[str(path)] = text
        if self.saves:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(self.saves_as(text).encode())
            del self.buffers[str(path)]


def refusal(code=ErrorCode.METHOD_NOT_FOUND, message="no such method"):
    """A reply that is an error."""
    return ErrorReply(int(code), message)


def result(json: bytes):
    """A reply with a result."""
    return Result(msgspec.Raw(json))
