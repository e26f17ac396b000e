"""The one tree of errors that a model's answer may end in."""

from typing import ClassVar


class ProviderError(Exception):
    """A model could not answer. ``message`` is one sentence for the person: what failed, what to do.

    It never holds a key, a header or the body of an answer. ``code`` is one stable word, the same for
    every error of a class.
    """

    code: ClassVar[str] = "provider_error"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class AuthenticationFailed(ProviderError):
    """The key is missing, wrong, or not allowed to use the model (401, 403). Never retried."""

    code = "provider_auth"


class RateLimited(ProviderError):
    """The account's limit is reached (429), and waiting within our bounds did not help."""

    code = "provider_rate_limit"


class Overloaded(ProviderError):
    """The server cannot answer now (5xx, 408, 529), and retries did not help."""

    code = "provider_overloaded"


class RequestRefused(ProviderError):
    """The server understood and refused the request (400, 404, 413 ...). Never retried."""

    code = "provider_refused"


class ContextOverflow(RequestRefused):
    """The request is longer than the model's context."""

    code = "context_overflow"


class ConnectionFailed(ProviderError):
    """No connection, or it broke before anything came."""

    code = "provider_unreachable"


class StreamBroke(ProviderError):
    """The stream ended or broke without its terminal event. Its tool calls are not run."""

    code = "provider_stream_broke"


class StreamSilent(ProviderError):
    """Nothing meaningful arrived for the configured time."""

    code = "provider_silent"


class NotUsable(ProviderError):
    """The provider cannot be used here: nothing is configured, or a part is not installed."""

    code = "provider_not_usable"
