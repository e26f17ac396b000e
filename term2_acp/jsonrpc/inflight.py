"""The one table of open ids, of both directions.

- An incoming id is open from the moment its request is accepted until it is answered. 1 and "1" are two
  ids. An id that is open cannot be opened again.
- An outgoing id is ours: an integer, counted up, never used twice. It is open until it is settled.

The table knows nothing of what it keeps: each direction has a type of its own.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

RequestId = int | str
IncomingT = TypeVar("IncomingT")
OutgoingT = TypeVar("OutgoingT")


class Inflight(Generic[IncomingT, OutgoingT]):
    """What is open on one connection."""

    def __init__(self) -> None:
        self._incoming: dict[RequestId, IncomingT] = {}
        self._outgoing: dict[RequestId, OutgoingT] = {}
        self._next_id = 1

    def accept(self, request_id: RequestId, request: IncomingT) -> None:
        """Open an id of the peer's, which is not open: ``find`` has said so."""
        assert request_id not in self._incoming
        self._incoming[request_id] = request

    def find(self, request_id: RequestId) -> IncomingT | None:
        """The open request with that id of the peer's."""
        return self._incoming.get(request_id)

    def release(self, request_id: RequestId) -> None:
        """The request was answered: its id may be used again."""
        self._incoming.pop(request_id, None)

    def next_id(self) -> int:
        """A fresh id of ours. It is not open yet."""
        call_id = self._next_id
        self._next_id += 1
        return call_id

    def call(self, call_id: int, call: OutgoingT) -> None:
        """Open an id of ours."""
        self._outgoing[call_id] = call

    def settle(self, call_id: RequestId) -> OutgoingT | None:
        """Close an id of ours and return what was kept; None when it is not open (any more)."""
        return self._outgoing.pop(call_id, None)

    def settle_all(self) -> Iterator[OutgoingT]:
        """Close every id of ours, oldest first, also those that are opened meanwhile."""
        while self._outgoing:
            yield self._outgoing.pop(next(iter(self._outgoing)))

    @property
    def incoming(self) -> int:
        """How many requests of the peer's are open."""
        return len(self._incoming)

    @property
    def outgoing(self) -> int:
        """How many calls of ours are open."""
        return len(self._outgoing)
