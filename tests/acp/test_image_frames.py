"""The echo of a prompt with images: each image whole, in one frame or in chunks of one message, every frame
within its bound and valid in every published schema."""

import hashlib
import json

import pytest

from term2_acp.acp.blocks import MAX_IMAGE_URI_CHARACTERS
from term2_acp.acp.fit import MAX_FRAME_BYTES
from term2_acp.acp.v2.project import Projection
from term2_acp.domain import events as ev
from term2_acp.domain.content import MAX_IMAGE_BYTES, MAX_IMAGES_BYTES, Image, ResourceLink, Text
from term2_acp.domain.ids import MessageId, SessionId
from tests.kit.pictures import base64_of, picture
from tests.kit.schema import Gate

SMALL = base64_of(picture())
LARGEST = base64_of(picture(size=MAX_IMAGE_BYTES))
PLAIN = Image("image/png", SMALL)
PLAIN_WIRE = {"type": "image", "data": SMALL, "mimeType": "image/png"}


def echoed(*content, bound=MAX_FRAME_BYTES, gate=None):
    """The updates that echo a prompt: a whole message, then chunks with its id."""
    gate = gate or Gate.if_available()
    found = []
    for frame in Projection(SessionId("s"), bound).to_wire(ev.UserMessage(MessageId("m"), content)):
        assert b"\n" not in frame
        assert len(frame) + 1 <= bound
        gate.received(frame)
        found.append(json.loads(frame)["params"]["update"])
    kinds = [update["sessionUpdate"] for update in found]
    assert kinds == ["user_message"] + ["user_message_chunk"] * (len(found) - 1)
    assert {update["messageId"] for update in found} == {"m"}
    return found


def blocks(updates):
    first, *rest = updates
    return [*first["content"], *(update["content"] for update in rest)]


def test_an_image_is_echoed_as_it_came():
    loud = Image("Image/PNG", SMALL, "file:///w/%C3%A9%20b.png")
    (update,) = echoed(Text("look"), PLAIN, ResourceLink("n", "u:"), loud)
    assert update["content"] == [
        {"type": "text", "text": "look"},
        PLAIN_WIRE,
        {"type": "resource_link", "name": "n", "uri": "u:"},
        {"type": "image", "data": SMALL, "mimeType": "Image/PNG", "uri": "file:///w/%C3%A9%20b.png"},
    ]


def test_the_largest_image_that_is_taken_is_one_frame_with_the_longest_uri():
    # Control characters take six bytes each: the worst that a URI can be, and none by the schemas.
    worst = Image("image/jpeg", LARGEST, "x:" + "\x01" * (MAX_IMAGE_URI_CHARACTERS - 2))
    (update,) = echoed(worst, gate=Gate(None))
    (block,) = update["content"]
    assert block == {"type": "image", "data": LARGEST, "mimeType": "image/jpeg", "uri": worst.uri}


@pytest.mark.parametrize("count", [2, MAX_IMAGES_BYTES // MAX_IMAGE_BYTES])
def test_several_large_images_are_a_message_and_chunks_each_image_whole(count):
    large = Image("image/png", LARGEST)
    found = echoed(Text("first"), *[large] * count, Text("last"))
    assert len(found) == count + 2
    assert blocks(found) == [
        {"type": "text", "text": "first"},
        *[{"type": "image", "data": LARGEST, "mimeType": "image/png"}] * count,
        {"type": "text", "text": "last"},
    ]


def test_many_small_images_that_fit_are_one_frame():
    (update,) = echoed(*[PLAIN] * 20)
    assert update["content"] == [PLAIN_WIRE] * 20


def test_long_text_beside_an_image_loses_no_character():
    words = 'a"\n🙂' * 2000
    found = echoed(Text(words), PLAIN, bound=4096)
    assert "".join(block.get("text", "") for block in blocks(found)) == words
    assert blocks(found)[-1] == PLAIN_WIRE


def test_an_image_of_a_later_version_that_fits_no_frame_is_told_by_its_size():
    data = base64_of(picture(size=9000))
    (update,) = echoed(Image("image/png", data), bound=4096)
    digest = hashlib.sha256(data.encode()).hexdigest()
    assert update["content"] == [
        {
            "type": "text",
            "text": f"The image is too long to show here: 9000 bytes, SHA-256 of its base64 {digest}.",
        }
    ]
