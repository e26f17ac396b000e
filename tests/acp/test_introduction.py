"""Who a client is, by the params of its ``initialize``: both versions' names of the members, what is missing,
null or nonsense, the bounds, and that a door asks for it no sooner than somebody wants to know.
"""

import msgspec
import pytest

from term2_acp.acp.introduction import (
    MAX_CAPABILITIES_BYTES,
    MAX_INTRODUCTION_BYTES,
    MAX_NAME,
    NOTHING_SAID,
    Introduction,
)
from term2_acp.acp.v1.capabilities import ClientFeatures
from term2_acp.acp.v1.client import V1Client
from term2_acp.acp.v2.client import V2Client
from term2_acp.session.ports import ClientIdentity


def introduced(text):
    return Introduction(msgspec.Raw(text.encode()))


V2 = '{"protocolVersion":2,"info":{"name":"Zed","version":"1.2","title":"Z"},"capabilities":{"a" :[1, 2.50]}}'
V1 = '{"protocolVersion":1,"clientInfo":{"name":"Zed","version":"1.2"},"clientCapabilities":{"a":[1,2.50]}}'


@pytest.mark.parametrize(
    ("params", "name", "capabilities"),
    [
        (V2, "Zed 1.2", '{"a":[1,2.50]}'),
        (V1, "Zed 1.2", '{"a":[1,2.50]}'),
        # A client that was written for both, and one that has the other's members only in part.
        (
            '{"info":{"name":"a"},"clientInfo":{"name":"b"},"capabilities":{},"clientCapabilities":1}',
            "a",
            "{}",
        ),
        (
            '{"info":null,"clientInfo":{"name":"b"},"capabilities":null,"clientCapabilities":{"x":{}}}',
            "b",
            '{"x":{}}',
        ),
        ("", "", ""),
        ("{}", "", ""),
        ("[]", "", ""),
        ('{"info":[],"capabilities":true}', "", "true"),
        ('{"info":{"name":1,"version":"3"}}', "3", ""),
        ('{"info":{"name":"a\\u0007b\\u202e\\nc","version":" \\u001b[0m "}}', "abc [0m", ""),
        (
            '{"info":{"name":"a\\ud800"},"capabilities":{}}',
            "",
            "",
        ),  # half a character: nothing of it can be read
        ('{"capabilities":{"x":"\\u202e"}}', "", '{"x":"\\u202e"}'),
    ],
)
def test_what_is_taken_from_it(params, name, capabilities):
    assert introduced(params).identity(2) == ClientIdentity(name, capabilities, 2)


def test_it_is_bounded():
    long = msgspec.json.encode(
        {"info": {"name": "n" * 5_000, "version": "1"}, "capabilities": {"x": "é" * 5_000}}
    )
    found = Introduction(msgspec.Raw(long)).identity(1)
    assert found.name == "n" * MAX_NAME
    size = len(found.capabilities.encode())
    assert MAX_CAPABILITIES_BYTES - 2 <= size <= MAX_CAPABILITIES_BYTES
    assert found.capabilities.startswith('{"x":"ééé')
    assert found.capabilities.endswith("é... (10,008 bytes in all)")


def test_what_is_too_long_is_not_put_aside():
    whole = b'{"info":{"name":"a"},"x":"%s"}'
    fits = whole % (b"y" * (MAX_INTRODUCTION_BYTES - len(whole) + 2))
    assert len(fits) == MAX_INTRODUCTION_BYTES
    assert Introduction(msgspec.Raw(fits)).identity(2).name == "a"
    assert Introduction(msgspec.Raw(fits + b" ")).identity(2) == ClientIdentity("", "", 2)


class Unread(Introduction):
    """Fails whoever asks."""

    def identity(self, protocol):
        pytest.fail("nobody wanted to know")


def test_each_door_says_its_version_and_no_sooner_than_it_is_asked():
    said = introduced(V2)
    assert V2Client(None, said=said).identity == ClientIdentity("Zed 1.2", '{"a":[1,2.50]}', 2)
    client = V1Client(None, ClientFeatures(), said, cwd="/w", named="/w")
    assert client.identity == ClientIdentity("Zed 1.2", '{"a":[1,2.50]}', 1)
    assert client.identity is client.identity
    assert V2Client(None).identity == NOTHING_SAID.identity(2) == ClientIdentity("", "", 2)
    V1Client(None, ClientFeatures(), Unread(msgspec.Raw(b"")), cwd="/w", named="/w")
    V2Client(None, said=Unread(msgspec.Raw(b"")))
