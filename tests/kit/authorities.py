"""The certificate authorities of the system, read once: it takes 50 ms, and every fetcher wants them."""

import functools
import os
import ssl

from term2_acp.web.public import system_authorities


def authorities() -> ssl.SSLContext:
    """As the product reads them, and anew where the environment names others."""
    return _read(os.environ.get("SSL_CERT_FILE"))


@functools.cache
def _read(named: str | None) -> ssl.SSLContext:
    del named  # it is what they are told apart by
    return system_authorities()
