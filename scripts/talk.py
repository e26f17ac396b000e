"""Talk to the daemon by hand.

    scripts/talk.py                                   in the current folder, with your settings
    scripts/talk.py --cwd DIR -- --provider local     what follows `--` goes to `term2 acp`
    scripts/talk.py --agent 'some-other-agent acp'    another ACP v2 agent

What you type is a prompt. A number answers the oldest open question. A line that begins with `{` is sent as
it is. Commands: /new, /cancel, /close, /list, /trace (show every frame), /quit, /help.
"""

import argparse
import json
import os
import select
import shlex
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any

from editor import Daemon, Message, Printer

EXIT_S = 12.0  # the daemon's own bound is 10
READ_BYTES = 64 * 1024
COMMANDS = "a prompt, a number for an open question, {raw JSON}, /new /cancel /close /list /trace /quit"


class Talk:
    """One conversation: the daemon's side comes in on its reading thread, yours by ``say``."""

    def __init__(self, argv: list[str], cwd: Path, wake: int) -> None:
        self.printer = Printer(lambda text: (sys.stdout.write(text), sys.stdout.flush()))
        self.cwd = cwd
        self.session = ""
        self.over = False
        self.trace = False
        self._wake = wake
        self._asked: dict[int | str, list[dict[str, Any]]] = {}
        self._opened = threading.Event()  # the first session was answered, or never will be
        self.daemon = Daemon(argv, cwd=cwd, environment=os.environ, log=None, heard=self._hear)

    def open(self) -> None:
        """Negotiate, open a session, and wait until it is open or the daemon has ended."""
        info = {"name": "term2-talk", "version": "1"}
        self._request("initialize", {"protocolVersion": 2, "info": info, "capabilities": {}})
        self._request("session/new", {"cwd": str(self.cwd)})
        self._opened.wait()

    # -- yours -------------------------------------------------------------------------------------

    def say(self, line: str) -> None:
        """Do what a typed line means."""
        match line.strip():
            case "":
                pass
            case "/quit":
                self.over = True
            case "/trace":
                self.trace = not self.trace
            case "/new":
                self._request("session/new", {"cwd": str(self.cwd)})
            case "/list":
                self._request("session/list", {})
            case "/close":
                self._request("session/close", {"sessionId": self.session})
            case "/cancel":
                self.daemon.notify("session/cancel", {"sessionId": self.session})
            case raw if raw.startswith("{"):
                self.daemon.send_line(raw)
            case number if number.isdecimal() and self._asked:
                self._choose(int(number))
            case command if command.startswith("/"):
                self.printer.line("help", COMMANDS)
            case text:
                prompt = [{"type": "text", "text": text}]
                self._request("session/prompt", {"sessionId": self.session, "prompt": prompt})

    def _choose(self, number: int) -> None:
        ask_id, options = next(iter(self._asked.items()))
        if not 1 <= number <= len(options):
            self.printer.line("asked", f"answer with a number from 1 to {len(options)}")
            return
        del self._asked[ask_id]
        outcome = {"outcome": "selected", "optionId": options[number - 1]["optionId"]}
        self.daemon.answer(ask_id, {"outcome": outcome})

    def _request(self, method: str, params: Message) -> None:
        self.daemon.request(method, params)

    # -- the daemon's ------------------------------------------------------------------------------

    def _hear(self, message: Message | str | None) -> None:
        if message is None:
            self.printer.line("ended", "the daemon closed its output")
            self.over = True
            self._opened.set()
            os.write(self._wake, b".")
            return
        if isinstance(message, str):
            self.printer.line("noise", message)
            return
        if self.trace:
            self.printer.line("frame", json.dumps(message, ensure_ascii=False))
        match message.get("method"):
            case None:
                self._answered(message)
            case "session/update":
                self.printer.update(message["params"]["update"])
            case "session/request_permission":
                self._ask(message)
            case "$/cancel_request":
                ask_id = message["params"]["requestId"]
                if self._asked.pop(ask_id, None) is not None:
                    self.printer.line("asked", "the question was withdrawn")
                    self.daemon.answer(ask_id, {"outcome": {"outcome": "cancelled"}})
            case method:
                self.printer.line(str(method), json.dumps(message.get("params"), ensure_ascii=False))

    def _answered(self, message: Message) -> None:
        method = self.daemon.sent.get(message.get("id") or 0, "a line of yours")
        if "error" in message:
            self.printer.line("error", f"{method}: {json.dumps(message['error'], ensure_ascii=False)}")
        elif method == "session/new":
            self.session = message["result"]["sessionId"]
            self.printer.line("session", self.session)
        elif method != "session/prompt":
            self.printer.line("answer", f"{method}: {json.dumps(message['result'], ensure_ascii=False)}")
        if method == "session/new":
            self._opened.set()

    def _ask(self, message: Message) -> None:
        params = message["params"]
        options = params["options"]
        self._asked[message["id"]] = options
        lines = [params["title"], params.get("description") or ""]
        lines += [f"  {number}. {option['name']}" for number, option in enumerate(options, 1)]
        self.printer.line("asked", "\n".join(filter(None, lines)))


def converse(talk: Talk, wake: int) -> None:
    """Hand on typed lines until either side is done."""
    rest = b""
    while not talk.over:
        ready = select.select([sys.stdin, wake], [], [])[0]
        if wake in ready:
            return
        data = os.read(sys.stdin.fileno(), READ_BYTES)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            if not talk.over:
                talk.say(line.decode(errors="replace"))
        if not data:
            return


def main() -> int:
    """Talk until /quit, the end of input, or the end of the daemon."""
    parser = argparse.ArgumentParser(description="Talk to the daemon by hand.", epilog=COMMANDS)
    parser.add_argument("--cwd", type=Path, default=Path.cwd(), help="the workspace")
    parser.add_argument("--agent", help="the command of another agent")
    parser.add_argument("arguments", nargs="*", help="arguments for `term2 acp`, after --")
    options = parser.parse_args()
    program = [str(Path(sysconfig.get_path("scripts")) / "term2"), "acp", *options.arguments]
    argv = shlex.split(options.agent) if options.agent else program
    woken, wake = os.pipe()
    talk = Talk(argv, options.cwd.resolve(), wake)
    try:
        talk.open()
        converse(talk, woken)
    except (KeyboardInterrupt, BrokenPipeError):
        pass
    return abs(talk.daemon.end(EXIT_S))


if __name__ == "__main__":
    sys.exit(main())
