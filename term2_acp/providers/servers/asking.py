"""Asking several model servers at once, for so many seconds in all."""

from collections.abc import Callable, Mapping, Sequence

import trio

from term2_acp.providers.base import StreamSilent
from term2_acp.providers.faults import Faults
from term2_acp.providers.servers.known import Known
from term2_acp.providers.servers.listing import Listing
from term2_acp.providers.servers.model_server import ModelServer, NoList

# Seconds for the closing of connections that are of no use any more.
_CLOSE_S = 0.5
# Parts in which the seconds are counted.
_TICKS = 20

Answers = Mapping[str, Listing | NoList]
"""What the servers said, by the names of the providers."""


def _never(answers: Answers) -> bool:
    del answers
    return False


async def ask_all(
    servers: Sequence[Known],
    seconds: float,
    *,
    about: str | None = None,
    enough: Callable[[Answers], bool] = _never,
) -> Answers:
    """Wait for the lists of all servers, until time is up, or those that came are ``enough``.

    ``about`` is a model of which everything shall be told. A server that said nothing in time has an answer
    that says so (``NoList``). Cancelled, every connection is closed.
    """
    answers: dict[str, Listing | NoList] = {}

    async def ask(known: Known) -> None:
        server = ModelServer(known)
        try:
            answers[known.name] = await (server.models() if about is None else server.about(about))
        finally:
            with trio.move_on_after(_CLOSE_S, shield=True):
                await server.aclose()
        if enough(answers):
            bound.cancel_scope.cancel()

    async with trio.open_nursery() as bound:
        bound.start_soon(_count_down, bound.cancel_scope, seconds)
        async with trio.open_nursery() as asking:
            for known in servers:
                asking.start_soon(ask, known)
        bound.cancel_scope.cancel()
    return {known.name: answers.get(known.name) or _silent(known, seconds) for known in servers}


async def _count_down(scope: trio.CancelScope, seconds: float) -> None:
    """Cancel the scope after so many seconds.

    They are counted in parts: the first question loads the HTTP library inside of the loop, and on a busy
    machine that must not pass for the silence of a server.
    """
    for _ in range(_TICKS):
        await trio.sleep(seconds / _TICKS)
    scope.cancel()


def _silent(known: Known, seconds: float) -> NoList:
    advice = "Is it running, and is its base_url right?"
    what = f"did not say within {seconds:g} s which models it has"
    return NoList(Faults(known.name).sentence(StreamSilent, what, "", advice), answered=False)
