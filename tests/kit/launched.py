"""A daemon that somebody else launches: a real client, by its own means.

``Launch`` has what the client is to run and in which environment, and looks at what happened when the client
has gone: nothing that carries the launch's mark may be left, and every line of every connection is held to
the schemas and to the order, which real clients do not do (they drop what they do not understand without a
word). The lines come from ``tests/clients/record.py``, which stands in between.
"""

import json
import os
import select
import sys
import time
import uuid
from typing import Any

from attrs import field, frozen

from tests.kit import processes
from tests.kit.daemon import LEAVES_WITHIN_S, PROGRAM
from tests.kit.home import Home
from tests.kit.order_v1 import OrderV1
from tests.kit.packages import CLIENTS
from tests.kit.schema import Gate

Json = dict[str, Any]


@frozen
class Line:
    """One line that passed: from the client (``c2a``) or from the agent (``a2c``), and what it says."""

    direction: str
    message: Json


@frozen
class Connection:
    """All lines of one connection, in their order."""

    lines: tuple[Line, ...]

    def asked(self, method: str) -> list[Json]:
        """The params of every request and notification of that method, from either side."""
        return [line.message["params"] for line in self.lines if line.message.get("method") == method]

    def answers(self, method: str) -> list[Json]:
        """The whole answers to the requests of that method, from either side."""
        found = []
        for number, line in enumerate(self.lines):
            if line.message.get("method") != method or "id" not in line.message:
                continue
            for later in self.lines[number:]:
                mine = later.direction != line.direction and later.message.get("id") == line.message["id"]
                if mine and "method" not in later.message:
                    found.append(later.message)
                    break
        return found

    def updates(self, kind: str) -> list[Json]:
        """The updates of one kind, of all sessions."""
        updates = (params["update"] for params in self.asked("session/update"))
        return [update for update in updates if update["sessionUpdate"] == kind]


@frozen
class Launch:
    """What a client launches in one home. Its clients run one after the other."""

    home: Home
    _mark: str = field(factory=lambda: uuid.uuid4().hex)

    @property
    def command(self) -> list[str]:
        """What the client is to run as its agent."""
        python = [sys.executable, "-I", "-S"]
        folder = self.home.root / "frames"
        folder.mkdir(exist_ok=True)
        return [*python, str(CLIENTS / "record.py"), str(folder), *PROGRAM]

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the client, which it hands on to its agent."""
        return self.home.environment(**{processes.MARK: self._mark})

    def left(self) -> list[processes.Process]:
        """Wait until nothing of the launch runs any more, as long as that may take; what is left then."""
        ends = time.monotonic() + LEAVES_WITHIN_S
        while (left := processes.marked(self._mark)) and (remains := ends - time.monotonic()) > 0:
            _wait_for_one(left[0], remains)
        return left

    def connections(self) -> list[Connection]:
        """What passed on each connection, in the order in which they began, held to every rule of v1.

        Raises:
            AssertionError: something is left of the launch, or a line breaks a rule.
        """
        assert self.left() == []
        return [_checked(path.read_text()) for path in sorted((self.home.root / "frames").iterdir())]


def _wait_for_one(process: processes.Process, seconds: float) -> None:
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        select.select([pidfd], [], [], seconds)
    finally:
        os.close(pidfd)


def _checked(text: str) -> Connection:
    gate, order = Gate.if_available(), OrderV1()
    lines = []
    for entry in text.splitlines():
        direction, line = json.loads(entry)
        gate.check_line(direction, line)
        (order.sent if direction == "c2a" else order.received)(line)
        lines.append(Line(direction, json.loads(line)))
    assert gate.unanswered() == []
    order.finish()
    return Connection(tuple(lines))
