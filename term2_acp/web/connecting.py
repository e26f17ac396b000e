"""Connections that are being made, which the HTTP library forgets when it is cancelled.

Theory of operation. From the first packet until a connection carries its request, httpcore2 holds the socket
in a local variable: cancelled in a TLS handshake, in the greeting of a SOCKS proxy, or just before the first
byte of the request, it leaves the socket to the garbage collector. So each exchange is traced. A socket is
kept here from when it is connected until the headers of the request go out over it; from then on the library
closes it itself, and may give it to another exchange. (The request that opens a tunnel through a proxy is
not yet the one: the handshake with the server follows it.) What is kept here when the exchange is left
belongs to nobody else, and is closed.
"""

from typing import Any

import trio

# Seconds to close a socket, which takes none; a bound because it is shielded from cancels.
_CLOSE_S = 1


class Connecting:
    """The connections that one exchange is making. ``trace`` goes into the extensions of its request."""

    def __init__(self) -> None:
        self._streams: list[Any] = []  # network streams of httpcore2, which is not imported for their type

    async def trace(self, step: str, told: dict[str, Any]) -> None:  # noqa: ASYNC124 - the library awaits it
        """Be told of one step of the library's. It does not wait, so no cancel comes between two steps."""
        if step.endswith(".connect_tcp.complete"):
            self._streams.append(told["return_value"])
        elif step.endswith(".send_request_headers.started") and told["request"].method != b"CONNECT":
            self._streams.clear()

    async def aclose(self) -> None:
        """Close what carries no request, at once. A cancel is not met in here."""
        streams, self._streams = self._streams, []
        with trio.CancelScope(shield=True, deadline=trio.current_time() + _CLOSE_S):
            for stream in streams:
                await stream.aclose()
