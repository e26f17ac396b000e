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
