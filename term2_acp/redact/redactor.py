"""Replacing known keys, and text that looks like one.

Every pattern below takes time linear in the text: no two quantifiers can match the same characters in
more than a bounded number of ways. A pattern keeps what names the secret (``api_key=``, ``Bearer``) and
replaces the secret itself.
"""

import functools
import math
import re
from collections.abc import Iterable

from term2_acp.redact.escapes import EscapedKey

PLACEHOLDER = "[redacted]"

# A shorter "key" is a word that occurs in ordinary text; replacing it would spoil the text and hide
# nothing.
SHORTEST_SECRET = 6

# A key may also stand cut in the text: at the bound of a title or of a tool's result. What is left is taken
# out when it is this many characters and this share of the key; of less, nobody can guess the rest.
TELLING_CHARACTERS = 16
TELLING_SHARE = 0.75

# What people write where a local server asks for a key and takes any. Ordinary words, all of them.
_NO_SECRETS = frozenset(
    {"ollama", "lm-studio", "lmstudio", "llama.cpp", "not-needed", "not needed", "no-key", "no-key-required"}
    | {"sk-no-key-required", "nokey", "dummy-key", "placeholder", "unused", "optional", "changeme"}
)

_NAME_OF_ONE = r"(?:api[_-]?key|access[_-]?key|secret|token|passwd|password|credential)[A-Za-z0-9_-]{0,20}"


@functools.cache
def _patterns() -> tuple[tuple[re.Pattern[str], str], ...]:
    """What looks like a secret. Compiled with the first line of a log, not at the start of the daemon."""
    return tuple(
        (re.compile(pattern, flags), replacement)
        for pattern, flags, replacement in (
            # A private key, to its end or, cut off, to the end of the text.
            (
                r"-----BEGIN ([A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END \1-----|\Z)",
                re.DOTALL,
                PLACEHOLDER,
            ),
            # Keys that say whose they are: OpenAI, Anthropic, OpenRouter; AWS; GitHub; GitLab; Slack;
            # Google; Hugging Face; npm; PyPI.
            (r"\bsk-[A-Za-z0-9_-]{12,}", 0, PLACEHOLDER),
            (r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b", 0, PLACEHOLDER),
            (r"\b(?:gh[opsur]_[A-Za-z0-9]{16,}|github_pat_[A-Za-z0-9_]{16,})", 0, PLACEHOLDER),
            (r"\bglpat-[A-Za-z0-9_-]{16,}", 0, PLACEHOLDER),
            (r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}", 0, PLACEHOLDER),
            (r"\bAIza[A-Za-z0-9_-]{30,}", 0, PLACEHOLDER),
            (r"\b(?:hf|npm)_[A-Za-z0-9]{20,}", 0, PLACEHOLDER),
            (r"\bpypi-[A-Za-z0-9_-]{32,}", 0, PLACEHOLDER),
            # A signed token (RFC 7519).
            (r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*", 0, PLACEHOLDER),
            # HTTP credentials (RFC 9110, section 11), and a password in a URL.
            (r"\b(bearer\s{1,4})[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE, rf"\1{PLACEHOLDER}"),
            (r"\b(basic\s{1,4})[A-Za-z0-9+/]{16,}={0,2}", re.IGNORECASE, rf"\1{PLACEHOLDER}"),
            (r"(://[^\s/:@]{0,64}:)[^\s/@]{1,256}(?=@)", 0, rf"\1{PLACEHOLDER}"),
            # name = value, in shell, TOML, JSON, HTTP headers and query strings. A bare number is a count
            # (max_token=100000), not a secret.
            (
                rf"({_NAME_OF_ONE}[\"']?\s{{0,4}}[:=]\s{{0,4}}[\"']?)(?!\[redacted\])(?!\d+\b)[^\s\"'&,;]{{6,}}",
                re.IGNORECASE,
                rf"\1{PLACEHOLDER}",
            ),
        )
    )


class Redactor:
    """Takes secrets out of text. ``secrets`` are the keys we were given.

    Surrounding white space is no part of a key; keys shorter than ``SHORTEST_SECRET`` and the words
    that stand for "no key" are not used.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        stripped = {secret.strip() for secret in secrets}
        usable = {s for s in stripped if len(s) >= SHORTEST_SECRET and s.lower() not in _NO_SECRETS}
        # The longest first: one key may begin another.
        self._secrets = tuple(sorted(usable, key=lambda secret: (-len(secret), secret)))
        self._beginnings = tuple(
            (secret, secret[:telling])
            for secret in self._secrets
            if (telling := max(TELLING_CHARACTERS, math.ceil(TELLING_SHARE * len(secret)))) < len(secret)
        )

    def __bool__(self) -> bool:
        """Whether there is any key to look for."""
        return bool(self._secrets)

    def redact(self, text: str) -> str:
        """The text with every known key replaced by ``[redacted]``, also one of which the end is cut off."""
        return self.redact_cut(self.redact_whole(text))

    def redact_bytes(self, data: bytes) -> bytes:
        """``redact`` for bytes that hold UTF-8 and whatever else."""
        return self._of_bytes.redact(data.decode("latin-1")).encode("latin-1") if self else data

    @functools.cached_property
    def _of_bytes(self) -> "Redactor":
        """The same keys as the text that their bytes make when each byte is taken for a character."""
        return Redactor(secret.encode(errors="surrogateescape").decode("latin-1") for secret in self._secrets)

    def redact_whole(self, text: str) -> str:
        """The text with every known key that stands in it whole replaced, spelt with JSON's escapes too."""
        if "\\" in text:  # what JSON escapes with; first, or the escape of a key's first letter would be left
            for key in self._escaped:
                text = key.replace_in(text, PLACEHOLDER)
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, PLACEHOLDER)
        return text

    def redact_cut(self, text: str) -> str:
        """The text with the telling beginnings of known keys replaced.

        Whole keys must be gone already: of two that begin alike, the end of one would be left.
        """
        if "\\" in text:  # first, as above
            for key in self._escaped_beginnings:
                text = key.replace_in(text, PLACEHOLDER)
        for secret, beginning in self._beginnings:
            if beginning in text:
                text = _without_beginnings(text, secret, beginning)
        return text

    @functools.cached_property
    def _escaped(self) -> tuple[EscapedKey, ...]:
        return tuple(EscapedKey(secret, secret) for secret in self._secrets)

    @functools.cached_property
    def _escaped_beginnings(self) -> tuple[EscapedKey, ...]:
        return tuple(EscapedKey(secret, beginning) for secret, beginning in self._beginnings)

    def redact_log(self, text: str) -> str:
        """The text without known keys and without what looks like a secret, for logs and audit."""
        text = self.redact(text)
        for pattern, replacement in _patterns():
            text = pattern.sub(replacement, text)
        return text

    def looks_secret(self, text: str) -> bool:
        """Whether the text holds a known key or something that looks like a secret."""
        return any(secret in text for secret in self._secrets) or any(
            pattern.search(text) for pattern, _replacement in _patterns()
        )

    def unfinished(self, text: str) -> int:
        """How many characters at the end of the text may be the beginning of a known key."""
        longest = 0
        for secret in self._secrets:
            for length in range(min(len(secret) - 1, len(text)), longest, -1):
                if text.endswith(secret[:length]):
                    longest = length
                    break
        return longest


class StreamRedactor:
    """``Redactor.redact`` for text that comes in pieces, which may split a key anywhere.

    The end of a piece is held back while it may be the beginning of a key, so nothing of one ever
    leaves; ``flush`` gives what is still held back when the stream has ended.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""

    def feed(self, text: str) -> str:
        """What can be handed on now. At once, and the same object, when there are no keys."""
        if not self._redactor:
            return text
        # What is held back may yet become whole, so beginnings are looked for in the rest alone.
        text = self._redactor.redact_whole(self._held + text)
        cut = len(text) - self._redactor.unfinished(text)
        self._held = text[cut:]
        return self._redactor.redact_cut(text[:cut])

    def flush(self) -> str:
        """What was held back and turned out to be no whole key."""
        held, self._held = self._held, ""
        return self._redactor.redact_cut(held)


class ByteStreamRedactor:
    """``StreamRedactor`` for bytes: for what a command writes, which may be no text at all."""

    def __init__(self, redactor: Redactor) -> None:
        self._stream = StreamRedactor(redactor._of_bytes) if redactor else None

    def feed(self, data: bytes) -> bytes:
        """What can be handed on now. At once, and the same object, when there are no keys."""
        if self._stream is None:
            return data
        return self._stream.feed(data.decode("latin-1")).encode("latin-1")

    def flush(self) -> bytes:
        """What was held back and turned out to be no whole key."""
        return self._stream.flush().encode("latin-1") if self._stream is not None else b""


def _without_beginnings(text: str, secret: str, beginning: str) -> str:
    """The text in which ``beginning``, and what follows of ``secret`` behind it, is replaced."""
    parts: list[str] = []
    done = 0
    at = text.find(beginning)
    while at >= 0:
        parts += (text[done:at], PLACEHOLDER)
        done = at + len(beginning)
        while text[done : done + 1] == secret[done - at : done - at + 1] != "":
            done += 1
        at = text.find(beginning, done)
    parts.append(text[done:])
    return "".join(parts)
