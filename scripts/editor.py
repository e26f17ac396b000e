"""The editor's side of ACP, as small as it can be: what ``demo.py`` and ``talk.py`` share.

- ``Daemon`` starts an agent and carries lines. One thread reads its output and calls ``heard`` with each
  message, in order, and with None at the end; nothing is interpreted.
- ``Story`` folds the updates of a session into what a person has seen: messages and tool calls by id.
- ``Printer`` writes updates as lines of a transcript, with the seconds since it was made.

Standard library only. Everything that waits has a deadline.
"""

import base64
import codecs
import json
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

Message = dict[str, Any]


class Daemon:
    """A running agent. ``sent`` has the method of every request by its id, from before it is sent.

    ``heard`` is called by the reading thread: with each message, with a ``str`` for a line that is no
    JSON object, and with None when the output ended. Diagnostics are kept in ``log``.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        log: IO[bytes] | None,
        heard: Callable[[Message | str | None], None],
    ) -> None:
        self._heard = heard
        self._sending = threading.Lock()
        self.sent: dict[int, str] = {}
        self.process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=cwd, env=dict(environment)
        )
        self._reader = threading.Thread(target=self._read, name="daemon output", daemon=True)
        self._reader.start()

    def request(self, method: str, params: Message) -> int:
        """Send a request and return its id; the answer comes through ``heard``."""
        with self._sending:
            request_id = len(self.sent) + 1
            self.sent[request_id] = method
        self.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
        return request_id

    def notify(self, method: str, params: Message) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def answer(self, request_id: int | str, result: Message) -> None:
        """Answer a request of the daemon."""
        self.send({"jsonrpc": "2.0", "id": request_id, "result": result})

    def send(self, message: Message) -> None:
        """Send any message."""
        self.send_line(json.dumps(message, separators=(",", ":")))

    def send_line(self, line: str) -> None:
        """Send a line as it is.

        Raises:
            BrokenPipeError: the daemon is gone.
        """
        assert self.process.stdin is not None
        with self._sending:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def end(self, within_s: float) -> int:
        """Close the daemon's input and wait for it to exit; kill it after ``within_s`` seconds.

        Returns the exit code, which is negative for a daemon that was killed.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass
        try:
            self.process.wait(within_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._reader.join(within_s)  # a child of the daemon could still hold the pipe
        if not self._reader.is_alive():
            self.process.stdout.close()
        return self.process.returncode

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                message = None
            self._heard(message if isinstance(message, dict) else line.decode(errors="replace"))
        self._heard(None)


def text_of(content: Any) -> str:
    """The text in content: a block, a list of blocks, or a tool call's wrapped ones."""
    if isinstance(content, list):
        return "\n".join(filter(None, map(text_of, content)))
    if not isinstance(content, dict):
        return ""
    match content.get("type"):
        case "text":
            return str(content.get("text", ""))
        case "content":
            return text_of(content.get("content"))
        case "resource_link":
            return f"<{content.get('uri')}>"
        case "diff":
            patch = content.get("patch") or {}
            return str(patch.get("text", ""))
    return ""


class Story:
    """What a person has seen of one session. Whole messages replace, chunks append (ACP v2 upserts).

    ``messages`` maps an id to ``[role, text]``, ``calls`` an id to the tool call's fields, both in the
    order in which they began; ``terminals`` maps an id to the bytes that a command's terminal shows.
    ``states`` holds every state, with the stop reason where there is one.
    """

    def __init__(self) -> None:
        self.messages: dict[str, list[str]] = {}
        self.calls: dict[str, Message] = {}
        self.terminals: dict[str, bytes] = {}
        self.states: list[str] = []

    def take(self, update: Message) -> None:
        """Fold one update in."""
        kind = update["sessionUpdate"]
        if kind == "state_update":
            reason = update.get("stopReason")
            self.states.append(update["state"] + (f" {reason}" if reason else ""))
        elif kind.endswith(("_message", "_thought")):
            self.messages[update["messageId"]] = [kind, text_of(update.get("content"))]
        elif kind.endswith("_chunk") and "messageId" in update:
            entry = self.messages.setdefault(update["messageId"], [kind.removesuffix("_chunk"), ""])
            entry[1] += text_of(update["content"])
        elif kind == "tool_call_update":
            call = self.calls.setdefault(update["toolCallId"], {})
            call.update({k: v for k, v in update.items() if k not in ("sessionUpdate", "toolCallId")})
        elif kind == "tool_call_content_chunk":
            call = self.calls.setdefault(update["toolCallId"], {})
            call["content"] = [*call.get("content", ()), update["content"]]
        elif kind == "terminal_output_chunk":
            self.terminals[update["terminalId"]] += base64.b64decode(update["data"])
        elif kind == "terminal_update":
            shown = update.get("output")
            before = self.terminals.get(update["terminalId"], b"")
            self.terminals[update["terminalId"]] = base64.b64decode(shown["data"]) if shown else before

    def said(self, role: str) -> str:
        """Everything that was said in that role, joined."""
        return "".join(text for spoken, text in self.messages.values() if spoken == role)


def plain(text: str) -> str:
    """The text without anything that could move a terminal's cursor; newlines and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else f"\\x{ord(c):02x}" for c in text)


_SPEAKERS = {"user_message": "you", "agent_message": "agent", "agent_thought": "thinks"}


class Printer:
    """Writes a transcript. Chunks of one message share a line until something else comes."""

    def __init__(self, write: Callable[[str], object]) -> None:
        self._write = write
        self._began = time.monotonic()
        self._open = ""
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}

    def line(self, who: str, text: str) -> None:
        """One entry; further lines of the text are indented below it."""
        self._close()
        self._write(self._head(who) + self._indent(plain(text)) + "\n")

    def update(self, update: Message) -> None:
        """Show one update of a session."""
        kind = str(update.get("sessionUpdate"))
        speaker = _SPEAKERS.get(kind.removesuffix("_chunk"), kind)
        match kind:
            case "agent_message_chunk" | "agent_thought_chunk" | "user_message_chunk":
                if self._open != update["messageId"]:
                    self._close()
                    self._open = update["messageId"]
                    self._write(self._head(speaker))
                self._write(self._indent(plain(text_of(update["content"]))))
            case "agent_message" | "agent_thought" | "user_message":
                self.line(speaker, text_of(update.get("content")))
            case "state_update":
                reason = update.get("stopReason")
                self.line("state", update["state"] + (f": {reason}" if reason else ""))
            case "tool_call_update":
                if words := self._call(update):  # a call that only names its terminal says nothing new
                    self.line("tool", words)
            case "tool_call_content_chunk":
                self.line("tool", text_of(update["content"]))
            case "terminal_update":
                self._terminal(update)
            case "terminal_output_chunk":
                if self._open != update["terminalId"]:
                    self._close()
                    self._open = update["terminalId"]
                    self._write(self._head("output"))
                self._write(self._indent(plain(self._decoded(update["terminalId"], update["data"]))))
            case "plan_update":
                entries = update["plan"].get("entries", ())
                self.line("plan", "\n".join(f"[{e['status']}] {e['content']}" for e in entries))
            case "session_info_update":
                self.line("title", str(update.get("title")))
            case "usage_update":
                self.line("usage", f"{update['used']} of {update['size']} tokens")
            case _:
                self.line(kind, json.dumps(update, ensure_ascii=False))

    def _terminal(self, update: Message) -> None:
        if update.get("command"):
            self.line("terminal", f"$ {update['command']}\n(in {update.get('cwd')})")
        if update.get("output"):
            self.line("output", self._decoded(update["terminalId"], update["output"]["data"]))
        if update.get("exitStatus") is not None:
            ended = update["exitStatus"]
            self.line("terminal", f"ended: {ended.get('signal') or ended.get('exitCode')}")

    def _decoded(self, terminal_id: str, data: str) -> str:
        # A character may be split between two chunks.
        decoder = self._decoders.setdefault(terminal_id, codecs.getincrementaldecoder("utf-8")("replace"))
        return decoder.decode(base64.b64decode(data))

    def _call(self, update: Message) -> str:
        words = [str(update[key]) for key in ("status", "name", "title") if update.get(key)]
        words += [f"{place['path']}" for place in update.get("locations") or ()]
        shown = text_of(update.get("content"))
        return "  ".join(words) + (f"\n{shown.rstrip()}" if shown else "")

    def _head(self, who: str) -> str:
        return f"{time.monotonic() - self._began:7.2f} s  {who:<7} "

    @staticmethod
    def _indent(text: str) -> str:
        return text.replace("\n", "\n" + " " * 19)

    def _close(self) -> None:
        if self._open:
            self._open = ""
            self._write("\n")
