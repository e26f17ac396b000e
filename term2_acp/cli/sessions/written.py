"""A JSON object that is written as it comes, so that no session has to fit into memory.

Members are indented. A list has an entry a line, for tools that work by lines. All of it is ASCII.
"""

import json
from collections.abc import Iterable
from typing import Protocol


class Output(Protocol):
    """Where text goes."""

    def write(self, text: str, /) -> object:
        """Write it, all of it."""
        ...


class JsonObject:
    """See the module. Members come in the order of the calls; ``end`` closes the object."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._before = "{"  # what the next member is written behind
        self._separator = ""

    def member(self, name: str, value: object) -> None:
        """A member with its value, whole."""
        text = json.dumps(value, indent=2).replace("\n", "\n  ")
        self._output.write(f'{self._before}\n  "{name}": {text}')
        self._before = ","

    def begin_list(self, name: str) -> None:
        """A member whose value is a list of what is given to ``add`` from now on."""
        self._output.write(f'{self._before}\n  "{name}": [')
        self._before, self._separator = "\n  ],", ""

    def add(self, entries: Iterable[object]) -> None:
        """Entries of the list."""
        self.add_lines(map(json.dumps, entries))

    def add_lines(self, lines: Iterable[str]) -> None:
        """Entries of the list, each as its JSON on one line."""
        text = ",".join(f"\n    {line}" for line in lines)
        if text:
            self._output.write(self._separator + text)
            self._separator = ","

    def end(self) -> None:
        """There are no more members. The last one is a list."""
        self._output.write("\n  ]\n}\n")
