"""What the tests of ``term2 sessions`` share: a store with conversations, and a desk to run a command at."""

import json
import re
from collections.abc import Callable

import pytest
import trio
from attrs import define

from term2_acp.cli import sessions
from term2_acp.cli.screen import Screen
from term2_acp.cli.sessions.arguments import parse
from term2_acp.cli.terminal import Output
from term2_acp.redact import Redactor
from tests.kit.conversations import keep

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@define(eq=False)
class Kept:
    """The state directory of a term2, and what its commands say."""

    state: str
    _output: Callable[[], str]
    _run: Callable[..., int]

    def add(self, *names, **more):
        """See ``tests.kit.conversations.keep``."""
        keep(self.state, *names, **more)

    def run(self, *words, screen=None, answer=None):
        """Run a command: its exit status, and all that it wrote. Without a screen that is no terminal."""
        return self._run(words, screen or Screen(), answer), self._output()

    def says(self, *words, screen=None):
        """What a command writes that does what it is asked to."""
        code, text = self.run(*words, screen=screen)
        assert code == 0
        return text

    def json(self, *words):
        """The same, for a program."""
        text = self.says(*words, "--json") if words[0] != "export" else self.says(*words)
        assert text.isascii()
        return json.loads(text)


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """A state directory below ``tmp_path`` that does not exist yet."""
    state = str(tmp_path / "state")
    output = tmp_path / "output"

    def run(words, screen, answer):
        monkeypatch.setattr("os.isatty", lambda descriptor: answer is not None)
        if answer is not None:
            monkeypatch.setattr("os.read", lambda descriptor, most: answer)
        with output.open("wb") as file:
            request = parse(words)
            desk = sessions.Desk(request, state, screen, Output(file.fileno()), -1, Redactor(["canary-key"]))
            try:
                return trio.run(sessions._command(request.command), desk)
            finally:
                monkeypatch.undo()

    return Kept(state, output.read_text, run)


@pytest.fixture
def plain():
    """A text without the colours of its letters, in which nothing is left that acts on a terminal."""

    def strip(text):
        stripped = _COLOUR.sub("", text)
        assert all(letter.isprintable() or letter in "\n\u3000\xa0" for letter in stripped), repr(
            stripped[:500]
        )
        return stripped

    return strip
