"""Sentences for the person: one line, bounded, without keys and without anything that a terminal would
obey; and the one table from statuses and words to the error tree."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.providers.base import (
    AuthenticationFailed,
    ContextOverflow,
    Overloaded,
    RateLimited,
    RequestRefused,
)
from term2_acp.providers.faults import MAX_SENTENCE, Faults
from term2_acp.web.faults import Fault, HttpFault

KEY = "sk-secret-0123456789"
FAULTS = Faults("lab", "LAB_KEY", (KEY,))


@pytest.mark.parametrize(
    ("error", "kind", "transient"),
    [
        ({"message": "x", "code": 503}, Overloaded, True),
        ({"message": "x", "code": "503"}, Overloaded, True),
        ({"message": "x", "type": "overloaded_error"}, Overloaded, True),
        ({"message": "x", "type": "server_error"}, Overloaded, True),
        ({"message": "x", "code": "rate_limit_exceeded"}, RateLimited, True),
        ({"message": "x", "type": "insufficient_quota"}, RateLimited, False),
        ({"message": "x", "code": "invalid_api_key"}, AuthenticationFailed, False),
        ({"message": "x", "status": "PERMISSION_DENIED"}, AuthenticationFailed, False),
        ({"message": "x", "code": "context_length_exceeded"}, ContextOverflow, False),
        ({"message": "x", "type": "exceed_context_size_error", "code": 400}, ContextOverflow, False),
        ({"message": "x"}, RequestRefused, False),
        ({"message": 5, "code": True, "type": None}, RequestRefused, False),
        ("x", RequestRefused, False),
        (["x"], RequestRefused, False),
        (None, RequestRefused, False),
    ],
)
def test_errors_inside_a_stream(error: Any, kind: type, transient: bool) -> None:
    setback = FAULTS.of_error(error)
    assert (type(setback.error), setback.transient) == (kind, transient)


# What vendors' servers were seen to answer: a status, an error object, and what it comes to.
ANSWERS: list[tuple[int, dict[str, Any], type, bool]] = [
    # Anthropic
    (400, {"type": "invalid_request_error", "message": "max_tokens: 1 > 0"}, RequestRefused, False),
    (
        400,
        {"type": "invalid_request_error", "message": "prompt is too long: 208310 tokens > 200000 maximum"},
        ContextOverflow,
        False,
    ),
    (
        400,
        {
            "type": "invalid_request_error",
            "message": "input length and `max_tokens` exceed context limit: 188240 + 64000 > 200000",
        },
        ContextOverflow,
        False,
    ),
    (401, {"type": "authentication_error", "message": "invalid x-api-key"}, AuthenticationFailed, False),
    (403, {"type": "permission_error", "message": "no"}, AuthenticationFailed, False),
    (403, {"type": "billing_error", "message": "no"}, RateLimited, False),
    (404, {"type": "not_found_error", "message": "model: x"}, RequestRefused, False),
    (413, {"type": "request_too_large", "message": "too many megabytes"}, ContextOverflow, False),
    (429, {"type": "rate_limit_error", "message": "slower"}, RateLimited, True),
    (
        429,
        {"type": "rate_limit_error", "details": {"error_code": "enforced_spend_limit_reached"}},
        RateLimited,
        False,
    ),
    (500, {"type": "api_error", "message": "oops"}, Overloaded, True),
    (529, {"type": "overloaded_error", "message": "Overloaded"}, Overloaded, True),
    # OpenAI
    (400, {"code": "context_length_exceeded", "type": "invalid_request_error"}, ContextOverflow, False),
    (400, {"code": "string_above_max_length", "message": "too long"}, ContextOverflow, False),
    (401, {"code": "invalid_api_key", "type": "invalid_request_error"}, AuthenticationFailed, False),
    (403, {"code": "model_not_found", "type": "invalid_request_error"}, RequestRefused, False),
    (404, {"code": "model_not_found", "type": "invalid_request_error"}, RequestRefused, False),
    (429, {"code": "rate_limit_exceeded", "type": "tokens"}, RateLimited, True),
    (429, {"code": "insufficient_quota", "type": "insufficient_quota"}, RateLimited, False),
    (400, {"code": "billing_hard_limit_reached", "type": "invalid_request_error"}, RateLimited, False),
    (503, {"code": "slow_down", "message": "Slow down"}, Overloaded, True),
    # Google
    (
        400,
        {
            "code": 400,
            "status": "INVALID_ARGUMENT",
            "message": "The input token count (9) exceeds the maximum number of tokens allowed (8).",
        },
        ContextOverflow,
        False,
    ),
    (401, {"code": 401, "status": "UNAUTHENTICATED"}, AuthenticationFailed, False),
    (429, {"code": 429, "status": "RESOURCE_EXHAUSTED"}, RateLimited, True),
    (503, {"code": 503, "status": "UNAVAILABLE"}, Overloaded, True),
    (504, {"code": 504, "status": "DEADLINE_EXCEEDED"}, Overloaded, True),
    # Others
    (400, {"code": 400, "type": "exceed_context_size_error"}, ContextOverflow, False),  # llama.cpp
    (
        400,
        {"code": 400, "type": "BadRequestError", "message": "The maximum context length is 8 tokens."},
        ContextOverflow,
        False,
    ),  # vLLM
    (400, {"message": "The maximum prompt length is 8."}, ContextOverflow, False),  # xAI
    (400, {"message": "Your request exceeded model token limit: 8"}, ContextOverflow, False),  # Kimi
    (429, {"type": "exceeded_current_quota_error"}, RateLimited, False),  # Kimi
    (413, {"code": "rate_limit_exceeded", "type": "tokens"}, ContextOverflow, False),  # Groq
    (
        429,
        {
            "code": "rate_limit_exceeded",
            "type": "tokens",
            "message": "Request too large for x on tokens per min (TPM): Limit 8, Requested 9.",
        },
        ContextOverflow,
        False,
    ),  # OpenAI
    (
        400,
        {"message": "The decoder prompt (length 9) is longer than the maximum model length of 8."},
        ContextOverflow,
        False,
    ),  # vLLM
    (400, {"code": "1261", "message": "Prompt exceeds max length"}, ContextOverflow, False),  # Z.ai
    (
        400,
        {"code": "invalid_parameter_error", "message": "Range of input length should be [1, 8]"},
        ContextOverflow,
        False,
    ),  # Alibaba
    (422, {"message": "`inputs` must have less than 8 tokens. Given: 9"}, ContextOverflow, False),  # TGI
    (
        422,
        {"message": "`inputs` tokens + `max_new_tokens` must be <= 8. Given: 9 `inputs` tokens"},
        ContextOverflow,
        False,
    ),  # TGI
    (
        400,
        {"message": {"detail": "Prompt contains 9 tokens, too large for 8 maximum context length"}},
        ContextOverflow,
        False,
    ),  # Mistral
    (400, {"message": {"detail": 5}}, RequestRefused, False),
    (402, {"message": "Insufficient Balance"}, RateLimited, False),  # DeepSeek
    (400, {"message": "the context of this question"}, RequestRefused, False),
    (429, {"message": "Too many tokens, please wait"}, RateLimited, True),  # Bedrock
]  # fmt: skip


@pytest.mark.parametrize(("status", "error", "kind", "transient"), ANSWERS)
def test_what_vendors_answer(status: int, error: dict[str, Any], kind: type, transient: bool) -> None:
    setback = FAULTS.of_status(status, {}, json.dumps({"error": error}).encode())
    assert (type(setback.error), setback.transient) == (kind, transient)


@pytest.mark.parametrize(("status", "error", "kind", "transient"), ANSWERS)
def test_the_same_inside_a_stream(status: int, error: dict[str, Any], kind: type, transient: bool) -> None:
    if not any(name in error for name in ("code", "type")) or error.get("type") == "tokens":
        error = {**error, "code": status}  # without a word of its own, or one that means several things
    setback = FAULTS.of_error({"type": "error", "error": error})
    assert (type(setback.error), setback.transient) == (kind, transient)


@pytest.mark.parametrize(
    ("status", "error", "advice"),
    [
        (404, {}, "Check the model's name and the base_url."),
        (403, {"code": "model_not_found"}, "Check the model's name and the base_url."),
        (413, {}, "Shorten the prompt or start a new session."),
        (400, {"code": "context_length_exceeded"}, "Shorten the prompt or start a new session."),
        (400, {}, "Check the settings."),
        (403, {"type": "billing_error"}, "Check the account."),
        (401, {}, "Check the key (LAB_KEY) and what it may use."),
    ],
)
def test_the_sentence_ends_with_what_helps(status: int, error: dict[str, Any], advice: str) -> None:
    message = FAULTS.of_status(status, {}, json.dumps({"error": error}).encode()).error.message
    assert message.endswith(advice)


@pytest.mark.parametrize(
    ("kind", "transient"),
    [(Fault.UNREACHABLE, True), (Fault.BROKE, True), (Fault.TLS, False), (Fault.UNUSABLE, False)],
)
def test_network_faults(kind: Fault, transient: bool) -> None:
    assert FAULTS.of_network(HttpFault(kind, "why")).transient is transient


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"error": {"message": "two\\nlines\\u001b[31m \\u202eevil"}}', "two lines [31m evil"),
        (b'{"error": "plain"}', "plain"),
        (b'{"message": "top"}', "top"),
        (b'{"detail": [{"msg": "field required"}]}', "field required"),
        (b'[{"error": {"message": "in a list"}}]', "in a list"),
        (b"upstream timed out", "upstream timed out"),
        (b"<!doctype html><TITLE>502 Bad\nGateway</TITLE>", "502 Bad Gateway"),
        (json.dumps({"error": {"message": f"bad key {KEY}!"}}).encode(), "bad key [redacted]!"),
    ],
)
def test_the_servers_short_words_are_in_the_sentence(body: bytes, words: str) -> None:
    message = FAULTS.of_status(400, {}, body).error.message
    assert message == f"The model server of lab refuses the request (400): {words}. Check the settings."


@pytest.mark.parametrize(
    "body", [b"<html>" + b"x" * 9999, b"a\nb\n", b"\xff\xfe", b"x" * 5000, b"[" * 99_999, b""]
)
def test_a_body_without_a_message_is_not_quoted(body: bytes) -> None:
    message = FAULTS.of_status(500, {}, body).error.message
    assert message.removesuffix(" Try again later.") in {
        "The model server of lab cannot answer now (500).",
        "The model server of lab cannot answer now (500): \ufffd\ufffd.",
    }


def test_the_key_is_replaced_before_the_sentence_is_cut() -> None:
    for padding in range(MAX_SENTENCE):
        message = FAULTS.of_error({"message": "y" * padding + KEY}).error.message
        assert not any(KEY[:size] in message for size in range(6, len(KEY)))


def test_what_looks_like_a_key_of_someone_else_is_replaced_too() -> None:
    message = FAULTS.of_error({"message": "Incorrect key: sk-other-key-of-somebody"}).error.message
    assert "Incorrect key: [redacted]" in message


@given(
    st.one_of(st.binary(), st.text().map(lambda text: json.dumps({"error": {"message": text}}).encode())),
    st.integers(300, 599),
)
def test_every_sentence_is_one_bounded_line(body: bytes, status: int) -> None:
    message = FAULTS.of_status(status, {}, body).error.message
    assert len(message) <= MAX_SENTENCE
    assert message.isprintable()
    assert message.endswith(".")
    assert message.startswith("The model server of lab ")


def test_a_router_is_not_quoted_where_the_server_behind_it_spoke() -> None:
    raw = '{"error":{"message":"the model is sleeping","code":503}}'
    error: dict[str, Any] = {"message": "Provider returned error", "code": 502, "metadata": {"raw": raw}}
    assert "the model is sleeping" in Faults("lab").of_error({"error": error}).error.message
    error = {
        "message": "Provider returned error",
        "code": 400,
        "metadata": {"raw": "prompt is too long: 9 > 8"},
    }
    assert isinstance(Faults("lab").of_error({"error": error}).error, ContextOverflow)
    for odd in ("", "no\njson", "[1]", '{"metadata":{"raw":"{}"}}', "[" * 100_000):
        error = {"message": "Provider returned error", "metadata": {"raw": odd}}
        assert "Provider returned error" in Faults("lab").of_error({"error": error}).error.message
