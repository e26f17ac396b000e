"""What differs between the servers of language models: a wire says how a request is written and a reply read.

A wire is pure. ``HttpProvider`` sends what it writes, tries again, watches the clock and hands its replies
the events; so every wire is robust in the same way.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import Delta, ModelInfo, Request


@frozen
class Broken:
    """The reply cannot be taken for what it says. ``reason`` follows the server's name in a sentence."""

    reason: str


@frozen
class NoRoom:
    """The reply has nothing in it, and that may be how the server says that the request was too long.

    ``sure``: nothing else ends so. Where it is not, the size of the request decides, and ``otherwise`` is
    what the terminal event brings of an empty reply that is no more than that.
    """

    otherwise: Sequence[Delta]
    sure: bool = False


@frozen
class ServerError:
    """The server reported an error inside the stream. ``error`` is its JSON value."""

    error: Any


class Reply(Protocol):
    """One reply, gathered from the events of its stream.

    Text and thoughts come out at once; tool calls come out whole, with the terminal event, and only with it.
    """

    @property
    def complete(self) -> bool:
        """Whether the server said why it stopped. What may still follow is the usage."""
        ...

    @property
    def over(self) -> bool:
        """Whether the server said that nothing more will come."""
        ...

    def feed(self, name: str, data: bytes) -> Sequence[Delta] | Broken | ServerError | None:
        """Take one event. None means that it carried nothing: it does not count as a sign of life."""
        ...

    def close(self) -> Sequence[Delta] | Broken | NoRoom:
        """The stream ended: what the terminal event brings (calls, usage, ``Finished``), or why not."""
        ...


class Wire(Protocol):
    """One way to talk to a model server."""

    @property
    def path(self) -> str:
        """What follows the base URL."""
        ...

    def headers(self, key: str | None, model: str) -> Mapping[str, str]:
        """The headers that carry the key, and those that ``model`` needs besides. Names in lower case."""
        ...

    def body(self, request: Request, info: ModelInfo, provider: str) -> bytes:
        """The request as JSON in UTF-8. ``provider`` is the name that opaque data are kept under."""
        ...

    def reply(self) -> Reply:
        """Begin to gather a reply."""
        ...
