"""What went wrong below HTTP, as a value: the kind for whoever decides, the words for a person.

No word of it quotes a header, a body or an address: the first may hold a key, and the caller knows the last.
"""

import os
from enum import StrEnum

from attrs import frozen


class Fault(StrEnum):
    """What kind of fault it was, for whoever decides about another try."""

    UNREACHABLE = "unreachable"  # no connection: refused, unknown host, unreachable, proxy
    TLS = "tls"  # the certificate or the handshake; trying again does not help
    BROKE = "broke"  # the connection was lost, or what came over it was not HTTP
    UNUSABLE = "unusable"  # the request cannot be sent at all: a bad URL, header or proxy setting


@frozen
class HttpFault:
    """The request failed below HTTP. ``reason`` is short, for a person, and names neither key nor body."""

    kind: Fault
    reason: str


def fault_of(error: Exception, connect_s: float) -> HttpFault:
    """What an error of httpx2 means. ``connect_s`` is how long a connection was waited for, in seconds."""
    import ssl  # both are loaded already, by whoever raised

    import httpx2

    if isinstance(error, httpx2.LocalProtocolError):
        # Its text quotes the header, and the header is where the key is.
        return HttpFault(Fault.UNUSABLE, "a header is not valid")
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return HttpFault(Fault.UNUSABLE, "the address is not valid")
    if isinstance(error, httpx2.ConnectTimeout):
        return HttpFault(Fault.UNREACHABLE, f"no connection within {connect_s:g} seconds")
    cause = _innermost(error)
    if isinstance(cause, ssl.SSLCertVerificationError):
        # An OSError too, with a number that means something else.
        words = cause.verify_message.rstrip(".")
        return HttpFault(Fault.TLS, f"its certificate was not accepted: {words}")
    if isinstance(cause, ssl.SSLError):
        words = (cause.reason or "the handshake failed").lower().replace("_", " ")
        return HttpFault(Fault.TLS, words)
    reason = _reason(cause, error)
    if isinstance(error, httpx2.ConnectError | httpx2.ProxyError):
        return HttpFault(Fault.UNREACHABLE, reason)
    return HttpFault(Fault.BROKE, reason)


def _innermost(error: BaseException) -> BaseException:
    """What really happened: httpx2 and Trio wrap the system's error, and say less than it does."""
    while True:
        inner = error.__cause__ or error.__context__
        if isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        if not isinstance(inner, Exception):
            return error
        error = inner


def _reason(cause: BaseException, error: Exception) -> str:
    if isinstance(cause, OSError) and cause.errno is not None and cause.strerror:
        # Trio puts the address before the system's words; the caller knows it. (Look-ups count below 0.)
        return os.strerror(cause.errno) if cause.errno > 0 else cause.strerror
    return str(cause) or str(error) or type(error).__name__
