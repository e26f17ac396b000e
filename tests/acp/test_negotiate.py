"""Version negotiation: each value that a client was seen to send, and what it is answered with."""

import msgspec
import pytest

from term2_acp.acp.negotiate import negotiate
from term2_acp.jsonrpc.errors import ErrorCode, RpcError


def raw(text):
    return msgspec.Raw(text.encode())


@pytest.mark.parametrize(
    "params",
    [
        '{"protocolVersion":2,"info":{"name":"e","version":"1"},"capabilities":{}}',
        '{"protocolVersion":3}',
        '{"protocolVersion":65535}',
        # Nothing else in the params matters.
        '{"protocolVersion":2,"info":null,"capabilities":null}',
        '{"protocolVersion":2,"info":7,"capabilities":[1],"_meta":{"x":1},"future":true}',
        '{"capabilities":{"fs":{"readTextFile":true},"terminal":false},"protocolVersion":2}',
    ],
)
def test_the_newest_version_is_spoken_with_whoever_knows_it(params):
    assert negotiate(raw(params)) == 2


@pytest.mark.parametrize(
    "params",
    [
        '{"protocolVersion":1,"clientInfo":{"name":"e"},"clientCapabilities":{"terminal":true}}',
        '{"protocolVersion":1,"info":{"name":"e","version":"1"},"capabilities":{}}',
        '{"protocolVersion":1}',
    ],
)
def test_a_client_that_knows_the_first_version_only_is_spoken_to_in_it(params):
    assert negotiate(raw(params)) == 1


def test_version_nought_is_refused_with_what_is_supported():
    with pytest.raises(RpcError) as caught:
        negotiate(raw('{"protocolVersion":0}'))
    assert caught.value.code == ErrorCode.UNSUPPORTED_PROTOCOL_VERSION == -32022
    assert caught.value.data == {"requested": 0, "supported": [1, 2]}
    assert caught.value.message == "Protocol version 0 is not supported"


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ('{"protocolVersion":-1}', "$.protocolVersion: expected int >= 0"),
        ('{"protocolVersion":65536}', "$.protocolVersion: expected int <= 65535"),
        ('{"protocolVersion":1180591620717411303424}', "$.protocolVersion: expected int <= 65535"),
        ('{"protocolVersion":1.5}', "$.protocolVersion: expected int, got float"),
        ('{"protocolVersion":2.0}', "$.protocolVersion: expected int, got float"),
        ('{"protocolVersion":1e400}', "$.protocolVersion: number out of range"),
        ('{"protocolVersion":"2"}', "$.protocolVersion: expected int, got str"),
        ('{"protocolVersion":true}', "$.protocolVersion: expected int, got bool"),
        ('{"protocolVersion":null}', "$.protocolVersion: expected int, got null"),
        ('{"protocolVersion":[2]}', "$.protocolVersion: expected int, got array"),
        ('{"info":{}}', "$.protocolVersion: required, but missing"),
        ("{}", "$.protocolVersion: required, but missing"),
        ("", "$.protocolVersion: required, but missing"),
        ("[2]", "$: expected object, got array"),
        ("null", "$: expected object, got null"),
    ],
)
def test_what_is_no_version_is_named_by_its_path(params, message):
    with pytest.raises(RpcError) as caught:
        negotiate(raw(params))
    assert caught.value.code == ErrorCode.INVALID_PARAMS
    assert caught.value.message == f"Invalid params: {message}"
    assert caught.value.data is None
