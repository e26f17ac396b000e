"""Images in a prompt, at the door: what is taken, character for character, and how each thing that is not an
image we take is refused by its path; what a profile does not advertise, and many blocks."""

import base64
import binascii

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from term2_acp.acp.blocks import MAX_IMAGE_URI_CHARACTERS
from term2_acp.acp.v2 import wire
from term2_acp.acp.v2.capabilities import BASELINE, PROFILES
from term2_acp.domain.content import (
    MAX_IMAGE_BYTES,
    MAX_IMAGES,
    MAX_IMAGES_BYTES,
    Image,
    Text,
    size_of_base64,
)
from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from tests.kit.pictures import BEGINNINGS, base64_of, image, picture

FULL = PROFILES["full"]
TEXT = {"type": "text", "text": "look"}


def content(*blocks, advertised=FULL):
    raw = msgspec.Raw(msgspec.json.encode({"sessionId": "s", "prompt": list(blocks)}))
    return wire.decode(wire.PromptSession, raw).content(advertised)


def refused(*blocks, advertised=FULL):
    """The message of the one error that the blocks cost, without its common beginning."""
    with pytest.raises(RpcError) as caught:
        content(*blocks, advertised=advertised)
    assert caught.value.code == ErrorCode.INVALID_PARAMS
    assert len(caught.value.message) < 200
    return caught.value.message.removeprefix("Invalid params: ")


@pytest.mark.parametrize("mime_type", BEGINNINGS)
def test_each_type_is_taken_as_it_came(mime_type):
    block = image(mime_type=mime_type)
    assert content(TEXT, block) == (Text("look"), Image(mime_type, block["data"]))
    loud = image(block["data"], mime_type.upper())
    assert content(loud) == (Image(mime_type.upper(), block["data"]),)


def test_a_uri_is_kept_and_what_else_a_block_holds_is_not_looked_at():
    block = image(uri="file:///w/a%20b.png", annotations={"x": 1}, _meta={"y": 2}, future=[1])
    assert content(block) == (Image("image/png", block["data"], "file:///w/a%20b.png"),)
    assert content(image(uri=None)) == (Image("image/png", block["data"]),)


def test_a_prompt_of_an_image_alone_is_not_blank():
    assert len(content(image())) == 1
    assert len(content({"type": "text", "text": " "}, image())) == 2


GIF_AS_PNG = base64_of(picture("image/gif"))
OTHER = "must be one of image/png, image/jpeg, image/gif, image/webp"
NOT_BASE64 = "$.prompt[1].data: must be base64 with padding, and nothing else"
WHOLE = base64_of(picture(size=66))  # no padding
PADDED = base64_of(picture(size=64))  # "=="


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"type": "image", "mimeType": "image/png"}, "$.prompt[1].data: required, but missing"),
        ({"type": "image", "data": "AAAA"}, "$.prompt[1].mimeType: required, but missing"),
        (image() | {"data": None}, "$.prompt[1].data: expected str, got null"),
        (image() | {"data": 7}, "$.prompt[1].data: expected str, got int"),
        (image() | {"data": ["AAAA"]}, "$.prompt[1].data: expected str, got array"),
        (image() | {"mimeType": None}, "$.prompt[1].mimeType: expected str, got null"),
        (image(uri=7), "$.prompt[1].uri: expected str | null, got int"),
        (image(uri="/w/a.png"), "$.prompt[1].uri: must be a URI"),
        (image(uri=""), "$.prompt[1].uri: must be a URI"),
        (
            image(uri="data:image/png;base64," + "A" * MAX_IMAGE_URI_CHARACTERS),
            "$.prompt[1].uri: may have at most 65536 characters",
        ),
        (image(mime_type="image/png") | {"mimeType": ""}, f"$.prompt[1].mimeType: {OTHER}"),
        (image() | {"mimeType": "png"}, f"$.prompt[1].mimeType: {OTHER}"),
        (image() | {"mimeType": "image/svg+xml"}, f"$.prompt[1].mimeType: {OTHER}"),
        (image() | {"mimeType": "image/jpg"}, f"$.prompt[1].mimeType: {OTHER}"),
        (image() | {"mimeType": "image/png; q=1"}, f"$.prompt[1].mimeType: {OTHER}"),
        (image() | {"mimeType": "image/png\n"}, f"$.prompt[1].mimeType: {OTHER}"),
        (image(""), "$.prompt[1].data: must not be empty"),
        (image(GIF_AS_PNG), "$.prompt[1].mimeType: the data is image/gif"),
        (image(picture("image/png"), "image/webp"), "$.prompt[1].mimeType: the data is image/png"),
        (image(b"BM\x00\x00" * 16), f"$.prompt[1].data: {OTHER}"),
        (image(b"\x00"), f"$.prompt[1].data: {OTHER}"),
        (image(b"\x00" * 5000), f"$.prompt[1].data: {OTHER}"),
        (image(picture()[:7]), f"$.prompt[1].data: {OTHER}"),
        (image(b"RIFF\x00\x00\x00\x00WAVEfmt ", "image/webp"), f"$.prompt[1].data: {OTHER}"),
        (image("data:image/png;base64," + PADDED), NOT_BASE64),
        (image(" " + PADDED), NOT_BASE64),
        (image(PADDED + "\n"), NOT_BASE64),
        (image(WHOLE[:8] + "\r\n\r\n" + WHOLE[8:]), NOT_BASE64),
        (image(WHOLE[:8] + "    " + WHOLE[8:]), NOT_BASE64),
        (image(PADDED.rstrip("=")), NOT_BASE64),
        (image(PADDED[:-1]), NOT_BASE64),
        (image(PADDED + "=="), NOT_BASE64),
        (image(PADDED + WHOLE), NOT_BASE64),
        (image(WHOLE[:-4] + "A==="), NOT_BASE64),
        (image(WHOLE[:-4] + "=AAA"), NOT_BASE64),
        (image(WHOLE[:-4] + "===="), NOT_BASE64),
        (image("===="), NOT_BASE64),
        (image(WHOLE[:-4] + "AA-_"), NOT_BASE64),
        (image(WHOLE[:-4] + "AAé"), NOT_BASE64),
        (image(WHOLE[:-4] + "AA\u2028A"), NOT_BASE64),
        (image(WHOLE[:-4] + "AA\0A"), NOT_BASE64),
        (image(WHOLE[:-4] + "AB=="), NOT_BASE64),  # bits that belong to no byte
    ],
)
def test_what_is_no_image_is_named_by_its_member(block, message):
    assert refused(TEXT, block) == message


@given(st.binary(max_size=64))
def test_whatever_base64_is_is_taken_for_base64(tail):
    data = base64_of(picture(size=8) + tail)
    (taken,) = content(image(data))
    assert taken.data == data
    assert taken.size == size_of_base64(data) == 8 + len(tail)


@given(st.text(st.sampled_from("AZaz09+/=-_ \n"), min_size=1, max_size=12))
def test_what_is_taken_is_what_a_strict_decoder_gives_back(tail):
    """Held to an independent judge: what decodes strictly and encodes to the same text again."""
    data = base64_of(picture(size=9)) + tail
    try:
        sound = base64.b64encode(base64.b64decode(data, validate=True)).decode() == data
    except binascii.Error:
        sound = False
    if sound:
        assert content(image(data))[0].data == data
    else:
        assert refused(image(data)).startswith("$.prompt[0].data: must be base64")


def test_an_image_may_be_so_large_and_no_larger():
    (taken,) = content(image(picture(size=MAX_IMAGE_BYTES)))
    assert taken.size == MAX_IMAGE_BYTES == 5 * 1024 * 1024
    assert refused(image(picture(size=MAX_IMAGE_BYTES + 1))) == (
        "$.prompt[0].data: an image may have at most 5 MiB"
    )
    assert refused(TEXT, image("A" * (8 * 1024 * 1024))).endswith("an image may have at most 5 MiB")


def test_a_prompt_may_have_so_many_images_and_no_more():
    assert len(content(*[image()] * MAX_IMAGES)) == MAX_IMAGES == 20
    assert refused(TEXT, *[image()] * (MAX_IMAGES + 1)) == "$.prompt[21]: a prompt may have at most 20 images"


def test_the_images_of_a_prompt_may_have_so_much_together_and_no_more():
    quarter = image(picture(size=MAX_IMAGES_BYTES // 4))
    assert len(content(*[quarter] * 4)) == 4
    assert refused(*[quarter] * 4, image()) == (
        "$.prompt[4].data: the images of a prompt may have 20 MiB together"
    )


def test_ten_thousand_images_are_refused_at_the_one_too_many():
    # The data of the others is no base64, and nobody has looked.
    assert refused(*[image()] * 20, *[image("?")] * 10_000) == (
        "$.prompt[20]: a prompt may have at most 20 images"
    )


def test_ten_thousand_blocks_of_text_with_an_image_in_the_last_are_taken():
    assert len(content(*[TEXT] * 9_999, image())) == 10_000


@pytest.mark.parametrize("profile", PROFILES)
def test_audio_and_resources_are_advertised_by_no_profile(profile):
    advertised = PROFILES[profile]
    for kind in ("audio", "resource"):
        assert refused({"type": kind, "data": "", "mimeType": "x"}, advertised=advertised) == (
            f"$.prompt[0].type: {kind} blocks are not advertised"
        )


@pytest.mark.parametrize("advertised", PROFILES.values(), ids=PROFILES)
def test_an_image_is_taken_exactly_where_it_is_advertised(advertised):
    told = "image" in advertised.to_wire()["session"].get("prompt", {})
    assert told is (advertised is not BASELINE)
    if told:
        assert content(image(), advertised=advertised)
    else:
        assert refused(image(), advertised=advertised) == (
            "$.prompt[0].type: image blocks are not advertised"
        )


def test_the_picture_is_in_no_repr():
    block = content(image())[0]
    assert block.data not in repr(block)
