"""When a request that failed is sent again, and after how long.

Rules:

- Only a request of which nothing has come yet is repeated. Whoever asks keeps that rule: what is decided
  here is the case of a failure before the first event.
- Only what can pass by itself: faults of the network, 408, 409, 429 and 5xx (529 among them). A 400 is one
  call, whatever it says.
- ``Retry-After`` is honoured up to ``RETRY_AFTER_CAP_S``; a server that asks for more is not waited for,
  and the person is told how long it wants. It never shortens our own back-off, so ``0`` does not hammer.
- Tries are counted and the delays are bounded, so the longest wait of all is (``MAX_TRIES`` - 1) x 60 s.
- Nothing here waits or draws a random number by itself: the caller sleeps, and passes in both ``random``
  and ``now``, so a schedule can be written down in a test.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import ProviderError

# Tries of one request, the first included. A model server that failed five times in a row over ten
# seconds is down for longer than a person watches a spinner.
MAX_TRIES = 5
# Seconds before the second try; each further delay is twice the last, up to MAX_DELAY_S.
FIRST_DELAY_S = 0.5
MAX_DELAY_S = 8.0
# The longest Retry-After (seconds) that is waited for.
RETRY_AFTER_CAP_S = 60

_SECONDS = re.compile(r"[0-9]{1,18}(\.[0-9]{1,9})?")


@frozen
class Setback:
    """One try that failed. ``transient`` says whether another may succeed; ``retry_after`` is the header.

    ``opaque_refused`` says that the server did not take back what it had given with an earlier reply.
    """

    error: ProviderError
    transient: bool = False
    retry_after: str | None = None
    opaque_refused: bool = False


@frozen
class TryAgain:
    """Send the request again after this many seconds."""

    delay_s: float


@frozen
class GiveUp:
    """Do not. ``error`` is what the person is told."""

    error: ProviderError


def decide(
    setback: Setback, tries: int, waited_s: float, random: Callable[[], float], now: datetime
) -> TryAgain | GiveUp:
    """Decide about the try after ``tries`` that failed, ``waited_s`` seconds after the first began.

    ``random`` gives numbers in [0, 1); half of a delay is left to it, so that clients which failed
    together do not come back together.
    """
    error = setback.error
    if not setback.transient:
        return GiveUp(error)
    wanted_s = retry_after_s(setback.retry_after, now)
    if wanted_s is not None and wanted_s > RETRY_AFTER_CAP_S:
        return GiveUp(_add(error, f"The server asks to wait {wanted_s:.0f} seconds."))
    if tries >= MAX_TRIES:
        return GiveUp(_add(error, f"Gave up after {tries} tries and {waited_s:.0f} seconds of waiting."))
    delay_s: float = min(MAX_DELAY_S, FIRST_DELAY_S * 2 ** (tries - 1))
    delay_s *= 0.5 + random() / 2
    return TryAgain(max(delay_s, wanted_s or 0.0))


def retry_after_s(value: str | None, now: datetime) -> float | None:
    """The seconds that a ``Retry-After`` header asks for; a date in the past is 0, garbage is None.

    Source: RFC 9110, section 10.2.3. ``now`` is aware.
    """
    if value is None:
        return None
    value = value.strip()
    if _SECONDS.fullmatch(value):
        return float(value)
    from email.utils import parsedate_to_datetime  # 10 ms, and rarely needed

    try:
        moment = parsedate_to_datetime(value)
    except (ValueError, IndexError, OverflowError):  # the last for a zone that no clock can count
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0.0, (moment - now).total_seconds())


def _add(error: ProviderError, sentence: str) -> ProviderError:
    return type(error)(f"{error.message} {sentence}")
