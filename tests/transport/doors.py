"""A door for tests: it echoes, waits, fails and counts on demand, and notes what it was given."""

from collections.abc import Awaitable, Callable

import msgspec
import trio

from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from term2_acp.transport.peer import Call, Work


class TestDoor:
    """``seen`` is every method in the order of acceptance, with its decoded params."""

    __test__ = False
    unbatchable = frozenset({"initialize"})

    def __init__(self) -> None:
        self.seen: list[tuple[str, object]] = []
        self.open = trio.Event()  # lets ``slow`` go on
        self.kept: list[Call] = []
        self.ended: list[str] = []  # how the tasks of ``slow`` ended

    def request(self, call: Call) -> Work | None:
        params = msgspec.json.decode(call.params)
        self.seen.append((call.method, params))
        handler = getattr(self, f"_{call.method}", None)
        if handler is None:
            raise RpcError(ErrorCode.METHOD_NOT_FOUND, f"no {call.method}", {"method": call.method})
        work: Work | None = handler(call, params)
        return work

    def notification(self, method: str, params: msgspec.Raw) -> None:
        self.seen.append((method, msgspec.json.decode(params)))
        if method == "explode":
            raise ValueError("a secret path")

    def _initialize(self, call: Call, params: object) -> None:
        call.answer_nowait({})

    def _echo(self, call: Call, params: object) -> None:
        call.answer_nowait(params)

    def _explode(self, call: Call, params: object) -> None:
        raise ValueError("a secret path")

    def _unwritable(self, call: Call, params: object) -> None:
        call.answer_nowait(object())

    def _twice(self, call: Call, params: object) -> None:
        call.answer_nowait({"first": True})
        call.answer_nowait({"first": False})
        raise RpcError(ErrorCode.BUSY, "third")

    def _keep(self, call: Call, params: object) -> None:
        call.on_cancel = lambda: call.answer_nowait({"cancelled": True})
        self.kept.append(call)

    def _forget(self, call: Call, params: object) -> None:
        self.kept.append(call)

    def _slow(self, call: Call, params: object) -> Work:
        async def work() -> object:
            try:
                await self.open.wait()
            except trio.Cancelled:
                self.ended.append("cancelled")
                raise
            self.ended.append("done")
            return params

        return work

    def _slow_explode(self, call: Call, params: object) -> Work:
        return _failing(ValueError("a secret path"))

    def _slow_refuse(self, call: Call, params: object) -> Work:
        return _failing(RpcError(ErrorCode.NOT_FOUND, "gone", {"sessionId": "s"}))

    def _slow_group(self, call: Call, params: object) -> Work:
        async def work() -> object:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_failing(ValueError("a secret path")))
                nursery.start_soon(trio.sleep_forever)
            raise AssertionError

        return work

    def _finishes(self, call: Call, params: object) -> Work:
        """Takes no notice of a cancel: it has finished."""

        async def work() -> object:
            with trio.CancelScope(shield=True):
                await self.open.wait()
            return {"finished": True}

        return work


def _failing(error: Exception) -> Callable[[], Awaitable[object]]:
    async def work() -> object:
        await trio.lowlevel.checkpoint()
        raise error

    return work
