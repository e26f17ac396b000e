"""What went wrong, as one error of the tree with one sentence for the person.

Rules:

- Decisions are made from status codes and from the words a server puts into ``code``, ``type`` and
  ``status`` (``_KINDS``). The text of its message decides two things only, which many servers say in no
  other way: whether the context overflowed, and whether what was given back sealed was not taken.
- A request that is too large in any other way (413, or for a rate that it alone exceeds) is an overflow too:
  a shorter one is all that helps, and waiting does not.
- A sentence says who failed, what happened in the server's own words if it has short ones, and what to do.
  It is one line of at most ``MAX_SENTENCE`` characters, without control or invisible characters, and our
  keys are replaced in it: servers like to quote them.
- The body of an answer is never quoted, only the message inside it; of a web page, only its title.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from term2_acp.domain.classes import frozen
from term2_acp.providers.base import (
    AuthenticationFailed,
    ConnectionFailed,
    ContextOverflow,
    Overloaded,
    ProviderError,
    RateLimited,
    RequestRefused,
    StreamBroke,
    StreamSilent,
)
from term2_acp.providers.retry import Setback
from term2_acp.redact import Redactor
from term2_acp.web.faults import Fault, HttpFault

# Characters. A status line of an editor shows about 300; what `retry` adds to a sentence fits in the rest.
MAX_SENTENCE = 240
# Characters of a message that are looked at. Far more than is shown, so that no key is cut unseen.
_MOST_WORDS = 10_000

# How servers say that the context overflowed, in their error's words or its message, and with which status.
_CONTEXT = re.compile(
    r"context[ _]?(length|size|window|limit)|maximum context|exceeds? the (available )?context"
    r"|(prompt|input|messages?) (is |are )?too long"  # Anthropic, Bedrock, Perplexity
    r"|reduce the length|string_above_max_length"  # OpenAI
    r"|too many (input |total )?(text )?(tokens|bytes)"  # Bedrock
    r"|(prompt|input) (length|token count)\b.{0,80}\bexceeds|input token count is"  # Google, Poolside
    r"|maximum (allowed )?(prompt|input) length|model token limit"  # xAI, Kimi
    r"|maximum model length|max_model_len"  # vLLM
    r"|prompt exceeds max(imum)? length|range of input length"  # Z.ai, Alibaba
    r"|max_new_tokens` must be <=|inputs` must have less than",  # Hugging Face
    re.IGNORECASE,
)
# How servers say that they do not take back thoughts that they had sealed, or their signatures.
_OPAQUE = re.compile(
    r"invalid_encrypted_content|encrypted content|invalid.{0,9}signature.{0,9}in.{0,9}thinking"
    r"|thought[ _]signature|thinking.{0,40}blocks? .{0,60}cannot be modified|reasoning.{0,40}not found",
    re.IGNORECASE,
)
_OVERFLOW_STATUSES = frozenset({400, 422, 500})
# How a server says, with 429, that one request has more tokens than a minute may have (OpenAI).
_OVER_RATE = re.compile(r"request too large|tokens must be reduced", re.IGNORECASE)
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)

# The words in an error object, as the status they stand for: the first row that is a part of one of them.
_KINDS: tuple[tuple[str, int], ...] = (
    ("insufficient_quota", 402),  # OpenAI
    ("current_quota", 402),  # Kimi
    ("insufficient_balance", 402),
    ("billing", 402),  # Anthropic, OpenAI
    ("spend_limit", 402),  # Anthropic, in the details of a rate_limit_error
    ("credit", 402),
    ("request_too_large", 413),  # Anthropic
    ("model_not_found", 404),
    ("rate_limit", 429),
    ("too_many_requests", 429),
    ("resource_exhausted", 429),  # Google
    ("overloaded", 529),
    ("slow_down", 503),  # OpenAI
    ("unavailable", 503),  # Google, llama.cpp
    ("deadline_exceeded", 504),  # Google
    ("timeout", 504),
    ("api_error", 500),  # Anthropic
    ("server_error", 500),  # OpenAI
    ("internal", 500),  # Google
    ("invalid_api_key", 401),
    ("authentication", 401),
    ("unauthenticated", 401),  # Google
    ("unauthorized", 401),
    ("permission", 403),
    ("not_found", 404),
)

# What helps where the server refuses the request itself.
_ADVICE: Mapping[int, str] = {
    404: "Check the model's name and the base_url.",
}


@frozen
class Faults:
    """Tells the faults of one provider.

    ``provider`` is its name in the settings; ``key_source`` says where its key comes from, in words that
    a person can act on; ``secrets`` are replaced wherever a server repeats them.
    """

    provider: str
    key_source: str = "api_key_env"
    secrets: tuple[str, ...] = ()

    def of_status(self, status: int, headers: Mapping[str, str], body: bytes) -> Setback:
        """The fault that an answer other than 200 reports."""
        words, kinds = read_error(body)
        return self._of(_exact(status, kinds), words, kinds, headers.get("retry-after"))

    def of_error(self, error: Any) -> Setback:
        """The fault that an error object inside a stream reports."""
        words, kinds = _error_words(error)
        return self._of(_exact(_number(kinds), kinds), words, kinds, None)

    def of_network(self, fault: HttpFault) -> Setback:
        """The fault of a request that got no answer, or of an answer that broke off."""
        if fault.kind is Fault.BROKE:
            return Setback(
                self.sentence(ConnectionFailed, "lost the connection", fault.reason, "Try again."),
                transient=True,
            )
        if fault.kind is Fault.UNREACHABLE:
            advice = "Is it running, and is its base_url right?"
            return Setback(
                self.sentence(ConnectionFailed, "cannot be reached", fault.reason, advice), transient=True
            )
        if fault.kind is Fault.TLS:
            advice = "Check its base_url, or set SSL_CERT_FILE to your certificate authority."
            return Setback(self.sentence(ConnectionFailed, "offers no safe connection", fault.reason, advice))
        advice = "Check its base_url, its key and the proxy settings."
        return Setback(self.sentence(ConnectionFailed, "cannot be asked", fault.reason, advice))

    def of_body(self, body: bytes) -> Setback:
        """The fault of a 200 whose body is no event stream."""
        if not body.strip():
            return self.broke("sent an empty answer")
        try:
            value = msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            value = None
        if isinstance(value, dict) and value.get("error"):
            return self.of_error(value)
        advice = "Is its base_url right?"
        words, _ = read_error(body)
        return Setback(self.sentence(StreamBroke, "answers with something else than a stream", words, advice))

    def broke(self, reason: str, words: str = "") -> Setback:
        """The stream is not what it should be; ``reason`` follows the provider's name."""
        return Setback(self.sentence(StreamBroke, reason, words, "Try again."))

    def no_room(self) -> Setback:
        """The reply is empty, and the request filled the context."""
        what = "answered with nothing, as it does when a request fills the context that its model has"
        advice = "Load the model with a larger one, or start a new session."
        return Setback(self.sentence(ContextOverflow, what, "", advice))

    def silent(self, idle_s: float) -> Setback:
        """Nothing meaningful came for the configured time."""
        advice = "Try again, or raise idle_s in [limits] if the model is slow."
        return Setback(self.sentence(StreamSilent, f"said nothing for {idle_s:g} seconds", "", advice))

    def sentence(self, kind: type[ProviderError], what: str, words: str, advice: str) -> ProviderError:
        """An error of ``kind`` that says what happened, in whose words, and what to do."""
        start = f"The model server of {_one_line(self.provider)[:40]} {what}"
        # A server may quote other secrets than ours, so what only looks like one goes too.
        words = Redactor(self.secrets).redact_log(_one_line(words[:_MOST_WORDS])).strip(" .:")
        room = MAX_SENTENCE - len(start) - len(advice) - 4
        if len(words) > room:
            words = words[: max(0, room - 1)] + "…"
        told = f"{start}: {words}. {advice}" if words else f"{start}. {advice}"
        return kind(told[:MAX_SENTENCE])

    def _of(self, status: int, words: str, kinds: str, retry_after: str | None) -> Setback:
        if _too_long(status, f"{kinds} {words}"):
            advice = "Shorten the prompt or start a new session."
            return Setback(self.sentence(ContextOverflow, "finds the request too long", words, advice))
        if status in {401, 403}:
            advice = f"Check the key ({self.key_source}) and what it may use."
            return Setback(self.sentence(AuthenticationFailed, f"refuses the key ({status})", words, advice))
        if status == 402:
            error = self.sentence(RateLimited, "says the quota is used up", words, "Check the account.")
            return Setback(error)
        if status == 429:
            error = self.sentence(RateLimited, "limits our rate (429)", words, "Try again later.")
            return Setback(error, transient=True, retry_after=retry_after)
        if status in {408, 409} or status >= 500:
            error = self.sentence(Overloaded, f"cannot answer now ({status})", words, "Try again later.")
            return Setback(error, transient=True, retry_after=retry_after)
        if 300 <= status < 400:
            advice = "Set base_url to where it leads."
            return Setback(self.sentence(RequestRefused, f"redirects ({status})", words, advice))
        advice = _ADVICE.get(status, "Check the settings.")
        error = self.sentence(RequestRefused, f"refuses the request ({status})", words, advice)
        return Setback(error, opaque_refused=_OPAQUE.search(f"{kinds} {words}") is not None)


def _too_long(status: int, said: str) -> bool:
    if status == 413:
        return True
    if status == 429:
        return _OVER_RATE.search(said) is not None
    return status in _OVERFLOW_STATUSES and _CONTEXT.search(said) is not None


def read_error(body: bytes) -> tuple[str, str]:
    """The message in the body of an error, and its machine-readable words in lower case."""
    try:
        return _error_words(msgspec.json.decode(body))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        pass
    if body.lstrip()[:1] == b"<":
        title = _TITLE.search(body)
        return (title.group(1).decode("utf-8", "replace") if title else "", "")
    return (_plain(body.decode("utf-8", "replace")), "")


def _plain(text: str) -> str:
    """A body that is no JSON: of one line it is a message, anything longer is a page or a dump."""
    text = text.strip()
    return text if "\n" not in text and len(text) <= MAX_SENTENCE else ""


def _error_words(value: Any) -> tuple[str, str]:
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return (value if isinstance(value, str) else "", "")
    if isinstance(value.get("error"), dict):
        value = value["error"]
    message: Any = value.get("message") or value.get("error") or value.get("detail") or ""
    if isinstance(message, dict):
        message = message.get("detail", "")  # Mistral
    if isinstance(message, list) and message and isinstance(message[0], dict):
        message = message[0].get("msg", "")  # FastAPI's way to say what a field got wrong
    message = _upstream(value) or message
    details = value.get("details")
    exact = details.get("error_code") if isinstance(details, dict) else None
    words = (exact, value.get("code"), value.get("type"), value.get("status"))
    kinds = " ".join(str(word) for word in words if _is_word(word))
    return (message if isinstance(message, str) else "", kinds.lower())


def _upstream(error: dict[str, Any]) -> str:
    """What the server behind a router said (OpenRouter); the router's own message is only that it erred."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    if not isinstance(raw, str) or not raw.strip():
        return ""
    try:
        inner = msgspec.json.decode(raw)
    except RecursionError:
        return ""
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _plain(raw)
    return _error_words(inner)[0] if isinstance(inner, dict) and "metadata" not in inner else ""


def _is_word(value: Any) -> bool:
    return isinstance(value, str | int) and not isinstance(value, bool)


def _exact(status: int | None, kinds: str) -> int:
    """The status that tells what helps: that of the answer, unless the words say it better.

    A quota that waiting does not refill comes with 400 or 429 too, and a model that this key does not see
    with 400 or 403.
    """
    named = next((status for word, status in _KINDS if word in kinds), None)
    if status is None:
        return named or 400
    better = (named == 402 and status < 500) or (named == 404 and status in {400, 403})
    return named if named is not None and better else status


def _number(kinds: str) -> int | None:
    numbers = (int(word) for word in kinds.split() if len(word) == 3 and word.isdecimal())
    return next((number for number in numbers if 400 <= number < 600), None)


def _one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
