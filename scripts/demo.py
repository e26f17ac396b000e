"""The main job on a fresh machine: hold a real ACP v2 conversation with the daemon and print it.

Two daemon processes, one after the other, with the embedded model, in a temporary workspace, home and
state. The first answers a prompt, reads a file because it is asked to, lists its session and closes it;
the second resumes that session and replays it, and the replay must be what the first one showed, with the
same ids. Everything printed came over the wire. Exits 0 only if every expected thing happened.

The provider is named on the command line of the daemon, so keys in the environment change nothing.
"""

import os
import queue
import subprocess
import sys
import sysconfig
import tempfile
import time
from pathlib import Path
from typing import Any, Self

from editor import Daemon, Message, Printer, Story

TURN_S = 180.0  # a model on a loaded machine with one core makes five tokens a second
ANSWER_S = 30.0
EXIT_S = 12.0  # the daemon's own bound is 10

FILES = {
    "README.md": "# A small workspace\n\nMade by term2's demo. The list is in shopping.txt.\n",
    "shopping.txt": "three lemons\ntwo loaves of bread\none jar of marmalade\n",
    "notes/today.txt": "Water the tomatoes.\n",
}
HELLO = "Say hello."
READ = "Read the file shopping.txt"


class Unexpected(Exception):
    """Something that should have happened did not. The message says what."""


def expect(true: object, message: str) -> None:
    """Fail the demo with ``message`` unless ``true``."""
    if not true:
        raise Unexpected(message)


class Conversation:
    """One daemon process, and what is being said with it."""

    def __init__(self, root: Path, printer: Printer) -> None:
        self._messages: queue.Queue[Message | str | None] = queue.Queue()
        self.printer = printer
        self.story = Story()
        self.log = root / "daemon.stderr"
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("TERM2_", "XDG_"))
        }
        environment["HOME"] = str(root / "home")
        program = Path(sysconfig.get_path("scripts")) / "term2"
        argv = [str(program), "acp", "--provider", "local"]
        printer.line("starts", "term2 acp --provider local")
        with self.log.open("ab") as log:
            self.daemon = Daemon(
                argv, cwd=root / "home", environment=environment, log=log, heard=self._messages.put
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.process.kill()  # nothing, after an orderly end
        self.daemon.end(EXIT_S)

    def request(self, method: str, params: Message, within_s: float = ANSWER_S) -> Any:
        """Send a request and return its result; what comes before it is shown."""
        self.printer.line("sends", method)
        wanted = self.daemon.request(method, params)
        deadline = time.monotonic() + within_s
        while True:
            message = self._receive(deadline, f"no answer to {method} within {within_s:.0f} s")
            if message.get("id") == wanted and "method" not in message:
                expect("result" in message, f"{method} was answered with an error: {message.get('error')}")
                return message["result"]
            self._handle(message)

    def turn(self, session: str, text: str) -> str:
        """Prompt, show the turn and return its stop reason."""
        states = len(self.story.states)
        self.printer.line("prompts", text)
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": text}]}
        result = self.request("session/prompt", prompt)
        expect(result.get("messageId"), "the prompt was admitted without a messageId")
        deadline = time.monotonic() + TURN_S
        while not self.story.states[states:] or not self.story.states[-1].startswith("idle"):
            self._handle(self._receive(deadline, f"no idle within {TURN_S:.0f} s"))
        expect(result["messageId"] in self.story.messages, "the prompt was not echoed as a user_message")
        return self.story.states[-1].removeprefix("idle ")

    def end(self) -> None:
        """End the daemon's input; it must exit 0 and say nothing more."""
        code = self.daemon.end(EXIT_S)
        expect(code == 0, f"the daemon exited {code} at the end of its input")
        while (message := self._messages.get(timeout=EXIT_S)) is not None:
            raise Unexpected(f"the daemon still said {message}")
        self.printer.line("ended", "exit code 0")

    def _receive(self, deadline: float, complaint: str) -> Message:
        try:
            message = self._messages.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise Unexpected(complaint) from None
        expect(message is not None, "the daemon ended in the middle of the conversation")
        expect(isinstance(message, dict), f"not JSON on standard output: {message!r}")
        assert isinstance(message, dict)
        return message

    def _handle(self, message: Message) -> None:
        method = message.get("method")
        if method == "session/update":
            self.story.take(message["params"]["update"])
            self.printer.update(message["params"]["update"])
        elif method == "session/request_permission":
            options = message["params"]["options"]
            chosen = next(o for o in options if o["kind"] == "allow_once")
            self.printer.line("asked", f"{message['params']['title']}  ->  {chosen['name']}")
            outcome = {"outcome": "selected", "optionId": chosen["optionId"]}
            self.daemon.answer(message["id"], {"outcome": outcome})
        else:
            raise Unexpected(f"an unexpected message: {message}")


def initialize(conversation: Conversation) -> None:
    """Negotiate ACP v2."""
    info = {"name": "term2-demo", "title": "term2's demo", "version": "1"}
    result = conversation.request("initialize", {"protocolVersion": 2, "info": info, "capabilities": {}})
    expect(result.get("protocolVersion") == 2, f"initialize answered version {result.get('protocolVersion')}")
    expect(result.get("info", {}).get("name") == "term2", f"initialize answered as {result.get('info')}")
    conversation.printer.line("answer", f"ACP v2, {result['info']['name']} {result['info']['version']}")


def first(root: Path, printer: Printer) -> tuple[str, Story]:
    """A new session with two turns; returns its id and what was seen."""
    workspace = root / "workspace"
    with Conversation(root, printer) as conversation:
        initialize(conversation)
        session = conversation.request("session/new", {"cwd": str(workspace)})["sessionId"]
        story = conversation.story

        reason = conversation.turn(session, HELLO)
        expect(reason == "end_turn", f"the first turn ended {reason}")
        expect(story.said("agent_message").strip(), "the model said nothing")

        reason = conversation.turn(session, READ)
        expect(reason == "end_turn", f"the second turn ended {reason}")
        reads = [call for call in story.calls.values() if call.get("name") == "read_file"]
        expect(reads, "the model did not read the file")
        wanted = str(workspace / "shopping.txt")
        for call in reads:
            places = [place["path"] for place in call.get("locations") or ()]
            expect(places == [wanted], f"it read {places}, not {wanted}")
            expect(call.get("status") == "completed", f"the read ended {call.get('status')}")

        listed = conversation.request("session/list", {"cwd": str(workspace)})["sessions"]
        printer.line("answer", "\n".join(f"{s['sessionId']}  {s.get('title')}" for s in listed))
        expect([s["sessionId"] for s in listed] == [session], f"the list holds {listed}")

        result = conversation.request("session/close", {"sessionId": session})
        expect(result == {}, f"session/close answered {result}")
        conversation.end()
        return session, story


def second(root: Path, printer: Printer, session: str, before: Story) -> None:
    """Another process resumes the session; its replay must be what was seen before."""
    with Conversation(root, printer) as conversation:
        initialize(conversation)
        resume = {
            "sessionId": session,
            "cwd": str(root / "workspace"),
            "replayFrom": {"type": "start"},
        }
        conversation.request("session/resume", resume)
        story = conversation.story
        seen, told = list(before.messages.items()), list(story.messages.items())
        expect(told == seen, f"replayed {told}, not {seen}")
        expect(list(story.calls) == list(before.calls), "the replay has other tool calls")
        for call_id, call in before.calls.items():
            for key in ("name", "title", "kind", "status", "locations", "rawInput"):
                expect(
                    story.calls[call_id].get(key) == call.get(key), f"{key} of {call_id} was replayed wrong"
                )
        expect(story.states == ["idle"], f"the snapshot after the replay is {story.states}")
        conversation.end()


def main() -> int:
    """Run the demo; the exit code says whether everything happened."""
    printer = Printer(lambda text: (sys.stdout.write(text), sys.stdout.flush()))
    print("The model is SmolLM2-135M, embedded: an offline smoke-test model, not an assistant.\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="term2-demo-") as folder:
        root = Path(folder).resolve()
        (root / "home").mkdir()
        for name, text in FILES.items():
            path = root / "workspace" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        try:
            session, story = first(root, printer)
            second(root, printer, session, story)
        except (Unexpected, OSError, subprocess.SubprocessError) as error:
            log = root / "daemon.stderr"
            said = log.read_text(errors="replace").strip() if log.exists() else ""
            print(f"\ndemo failed: {error}", file=sys.stderr)
            if said:
                print(f"the daemon's standard error:\n{said[-4000:]}", file=sys.stderr)
            return 1
    print("\nThe demo is complete: two turns, a file read, a session closed, resumed and replayed.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
