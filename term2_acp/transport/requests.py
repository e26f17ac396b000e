"""The client's requests: accepted inline, worked on in tasks where they have to wait, cancelled on demand.

A request that need not wait is answered before ``accept_nowait`` returns and costs no task. Every
exception of the door or of its work stops at a wall here: traceback to the log, -32603 to the client.
"""

import logging
from collections.abc import Callable

import trio

from term2_acp.jsonrpc.envelope import Request, RequestId
from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from term2_acp.jsonrpc.inflight import Inflight
from term2_acp.transport.call import INTERNAL_ERROR, Answers, Call, Door, Work
from term2_acp.transport.calls import Settle
from term2_acp.transport.replies import Replies

logger = logging.getLogger(__name__)

# Requests that may be worked on in tasks at once; each costs some kilobytes. While so many are, any other
# request is refused before the door sees it, for a door may reserve something for the work it returns.
MAX_TASKS = 1_024


class Requests:
    """The requests that are open on one connection."""

    def __init__(self, inflight: Inflight[Call, Settle], replies: Replies, door: Door) -> None:
        self._inflight = inflight
        self._replies = replies
        self._door = door
        self._tasks = 0
        self._nursery: trio.Nursery | None = None

    def work_in(self, nursery: trio.Nursery) -> None:
        """Where the tasks run. Called before the first request."""
        self._nursery = nursery

    def cancel_nowait(self, request_id: RequestId) -> None:
        """The client cancels a request of its own; nothing when it is unknown or answered."""
        call = self._inflight.find(request_id)
        if call is None:
            return
        if call.on_cancel is not None:
            call.on_cancel()
        elif call.scope is not None:
            call.scope.cancel()

    def accept_nowait(self, message: Request, answers: Answers | None) -> None:
        """Hand a request to the door, and start the work that it returns. Every way out answers it once."""
        refusal = self._refusal(message, answers)
        if refusal is not None:
            self._replies.refuse_nowait(message.id, refusal, answers)
            return
        finish = self._finish if answers is None else self._finisher(answers)
        call = Call(message.id, message.method, message.params, answers is not None, finish)
        try:
            work = self._door.request(call)
        except RpcError as error:
            call.fail_nowait(error)
        except Exception:  # the wall: nothing that a door does wrong ends the reader
            logger.exception("%s failed", message.method)
            if not call.answered:
                call.fail_nowait(RpcError(ErrorCode.INTERNAL_ERROR, INTERNAL_ERROR))
        else:
            if not call.answered:  # what was answered inline was never open to anyone
                self._inflight.accept(call.id, call)
                call.open = True
            if work is not None:
                self._start(call, work)

    def _refusal(self, message: Request, answers: Answers | None) -> RpcError | None:
        """Why a request does not reach the door, if so."""
        if answers is not None and message.method in self._door.unbatchable:
            return RpcError(ErrorCode.INVALID_REQUEST, f"{message.method} cannot stand in a batch")
        if self._inflight.find(message.id) is not None:
            return RpcError(ErrorCode.INVALID_REQUEST, "a request with this id is open")
        if self._tasks >= MAX_TASKS:
            return RpcError(ErrorCode.INTERNAL_ERROR, "too many open requests")
        return None

    def _start(self, call: Call, work: Work) -> None:
        """Run the work in a task. Its scope exists at once, for a cancel that comes with the same read."""
        assert self._nursery is not None
        call.scope = trio.CancelScope()
        self._tasks += 1
        self._nursery.start_soon(self._work, call, work, call.scope)

    async def _work(self, call: Call, work: Work, scope: trio.CancelScope) -> None:
        try:
            with scope:
                result = await work()
                if not call.answered:
                    call.answer_nowait(result)
        except RpcError as error:
            call.fail_nowait(error)
        except Exception:  # the wall: a request that fails ends nothing but itself
            logger.exception("%s failed", call.method)
            if not call.answered:
                call.fail_nowait(RpcError(ErrorCode.INTERNAL_ERROR, INTERNAL_ERROR))
        finally:
            self._tasks -= 1
            if not call.answered:
                call.fail_nowait(RpcError(ErrorCode.REQUEST_CANCELLED, "Request cancelled"))

    def _finisher(self, answers: Answers) -> Callable[[Call, bytes], None]:
        """How a call of a batch is answered: in the array of its batch."""
        answers.expect()

        def finish(call: Call, frame: bytes) -> None:
            self._release(call)
            answers.add(frame, call.id)
            answers.settle()

        return finish

    def _release(self, call: Call) -> None:
        if call.open:
            call.open = False
            self._inflight.release(call.id)

    def _finish(self, call: Call, frame: bytes) -> None:
        if call.open:
            self._release(call)
        self._replies.send_nowait(frame)
