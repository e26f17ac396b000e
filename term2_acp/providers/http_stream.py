"""Reading one answer of a model server: bytes to events to deltas, with a watchdog. Every wire is read so.

Rules:

- The watchdog (``idle_s``) runs from the sending of the request and from every sign of life; comments,
  empty events and half an event are none. It stands still while nobody waits for deltas, so a slow editor
  is not the model's silence.
- A reply is complete when the server said why it stopped, and over when it said that nothing follows (the
  usage may). A server that does not say the second is waited for no longer than ``AFTER_FINISH_S``.
- After the reply, the body is read to its end, within ``DRAIN_S``, so that the connection can be used again.
- What arrives in one read is handed on in one list.
- An empty reply to a request that may have been too long is the fault that it stands for. What was counted of
  it is handed on before that.
"""

from collections.abc import Sequence

import trio

from term2_acp.providers.base import Delta, Failed, UsageDelta
from term2_acp.providers.faults import Faults
from term2_acp.providers.retry import Setback
from term2_acp.providers.wire import Broken, NoRoom, Reply, ServerError
from term2_acp.web.client import HttpExchange, HttpResponse
from term2_acp.web.faults import HttpFault
from term2_acp.web.sse import EventTooLong, SseEvent, SseParser

# Seconds to wait for what may follow a reply that is complete.
AFTER_FINISH_S = 5
# Seconds for the end of the body behind the last event; it nearly always comes in the same read.
DRAIN_S = 0.2
# Seconds and bytes for the body of an error; its message stands at the beginning.
_ERROR_BODY_S = 5
_ERROR_BODY_BYTES = 64 * 1024


class HttpStream:
    """The deltas of one exchange (``DeltaStream``). ``first`` is awaited before the first ``receive``.

    ``crowded``: the request may have been longer than the model's context, as far as anybody knows.
    """

    def __init__(
        self, exchange: HttpExchange, reply: Reply, faults: Faults, idle_s: float, *, crowded: bool = True
    ) -> None:
        self._exchange = exchange
        self._faults = faults
        self._idle_s = idle_s
        self._crowded = crowded
        self._response: HttpResponse | None = None
        self._parser = SseParser()
        self._reply = reply
        self._body = bytearray()  # what came before the first event: the words of an error, perhaps
        self._streams = False  # an event has come, be it an empty one
        self._alive = False  # an event with something in it has come: no second try from here on
        self._deltas: list[Delta] = []
        self._setback: Setback | None = None
        self._ended = False  # the terminal event is in `_deltas`, or was handed on

    async def first(self) -> Setback | None:
        """Wait for the first deltas, which ``receive`` then returns; or return why none came.

        A setback that is transient may be tried again: nothing of an answer was seen.
        """
        with trio.CancelScope(deadline=trio.current_time() + self._idle_s) as scope:
            head = await self._exchange.head()
            if isinstance(head, HttpFault):
                return self._faults.of_network(head)
            if not 200 <= head.status < 300:
                return self._faults.of_status(head.status, head.headers, await _error_body(head))
            self._response = head
            await self._fill(scope)
        if scope.cancelled_caught:
            self._time_is_up()
        return None if self._deltas else self._setback

    async def receive(self) -> Sequence[Delta]:
        """See ``DeltaStream``."""
        if self._deltas or self._setback is not None:
            await trio.lowlevel.checkpoint()
        else:
            limit_s = AFTER_FINISH_S if self._reply.complete else self._idle_s
            with trio.CancelScope(deadline=trio.current_time() + limit_s) as scope:
                await self._fill(scope)
            if scope.cancelled_caught:
                self._time_is_up()
        deltas, self._deltas = self._deltas, []
        if self._setback is not None:
            deltas.append(Failed(self._setback.error))
        return deltas

    async def drain(self) -> None:
        """Read what is left of the body of a complete reply, for a moment at most."""
        if not self._ended or self._response is None:
            return
        with trio.move_on_after(DRAIN_S):
            while True:
                data = await self._response.receive()
                if not data or isinstance(data, HttpFault):
                    return

    async def _fill(self, watchdog: trio.CancelScope) -> None:
        """Read until there are deltas, or no more; each sign of life puts the watchdog's deadline off."""
        assert self._response is not None
        while not self._deltas and self._setback is None:
            data = await self._response.receive()
            if isinstance(data, HttpFault):
                self._network_fault(data)
            elif not data:
                self._end_of_body()
            elif self._take(data):
                limit_s = AFTER_FINISH_S if self._reply.complete else self._idle_s
                watchdog.deadline = trio.current_time() + limit_s

    def _take(self, data: bytes) -> bool:
        """Take bytes; return whether there was a sign of life in them."""
        try:
            events = self._parser.feed(data)
        except EventTooLong:
            self._setback = self._faults.broke("sent an event that is too long")
            return True
        if not self._alive and len(self._body) < _ERROR_BODY_BYTES:
            self._body += data
        return self._take_events(events)

    def _take_events(self, events: Sequence[SseEvent]) -> bool:
        alive = False
        self._streams = self._streams or bool(events)
        for event in events:
            if self._ended or self._setback is not None:
                break
            outcome = self._reply.feed(event.name, event.data)
            if isinstance(outcome, Broken):
                self._setback = self._faults.broke(outcome.reason)
            elif isinstance(outcome, ServerError):
                self._server_error(outcome)
            elif self._reply.over:
                self._deltas += outcome or ()
                self._close()
                return True
            elif outcome is not None:
                self._deltas += outcome
                self._alive = alive = True
        return alive

    def _close(self) -> None:
        """The reply is over: hand on its terminal event, or why it has none."""
        outcome = self._reply.close()
        if isinstance(outcome, NoRoom):
            if outcome.sure or self._crowded:
                self._deltas += [delta for delta in outcome.otherwise if isinstance(delta, UsageDelta)]
                self._setback = self._faults.no_room()
                return
            outcome = outcome.otherwise
        if isinstance(outcome, Broken):
            self._setback = self._faults.broke(outcome.reason)
        else:
            self._deltas += outcome
            self._ended = True

    def _end_of_body(self) -> None:
        self._take_events(self._parser.finish())
        if self._ended or self._setback is not None:
            return
        if self._streams:
            self._close()
        else:
            self._setback = self._faults.of_body(bytes(self._body))

    def _network_fault(self, fault: HttpFault) -> None:
        if self._reply.complete:
            self._close()  # complete: what was lost is the usage at most
        elif self._alive:
            self._setback = self._faults.broke("lost the connection in the middle", fault.reason)
        else:
            self._setback = self._faults.of_network(fault)

    def _server_error(self, error: ServerError) -> None:
        setback = self._faults.of_error(error.error)
        self._setback = Setback(setback.error) if self._alive else setback

    def _time_is_up(self) -> None:
        if self._reply.complete:
            self._close()
        else:
            self._setback = self._faults.silent(self._idle_s)


async def _error_body(response: HttpResponse) -> bytes:
    body = bytearray()
    with trio.move_on_after(_ERROR_BODY_S):
        while len(body) < _ERROR_BODY_BYTES:
            data = await response.receive()
            if not data or isinstance(data, HttpFault):
                break
            body += data
    return bytes(body)
