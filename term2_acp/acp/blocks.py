"""The content blocks of a prompt, whatever the version of the protocol.

Blocks are an open union: each is first asked for its type, then converted to that type. What is not
advertised is refused by name, since a block that is dropped in silence is worse than an error.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from term2_acp.acp.images import Images
from term2_acp.acp.params import convert_at, invalid
from term2_acp.domain.content import ContentBlock, Image, ResourceLink, Text

# Blocks that ACP knows and that are not taken; an image is taken where it is advertised.
_NOT_ADVERTISED = frozenset({"image", "audio", "resource"})

# What makes a URI of a text (RFC 3986, section 3.1). What follows the scheme is not looked at: editors do
# send characters that should have been escaped, and the person means what they point at.
_HAS_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")

# Characters of an image's URI. It is echoed in one frame with the image, which leaves it a megabyte, and
# nothing reads it; what is longer holds an image of its own.
MAX_IMAGE_URI_CHARACTERS = 64 * 1024


class _AnyBlock(msgspec.Struct, frozen=True):
    type: str


class _TextBlock(msgspec.Struct, frozen=True):
    text: str


class _ResourceLinkBlock(msgspec.Struct, rename="camel", frozen=True):
    name: str
    uri: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: Annotated[int, msgspec.Meta(ge=0)] | None = None


class _ImageBlock(msgspec.Struct, rename="camel", frozen=True):
    data: str
    mime_type: str
    uri: str | None = None


def content_from_wire(prompt: Sequence[Any], *, images: bool) -> tuple[ContentBlock, ...]:
    """The blocks of a prompt, in order. ``images``: whether the client was told that it may send them.

    Raises:
        RpcError: -32602, a block is malformed or not advertised, or there is nothing in the prompt.
    """
    taken = Images() if images else None
    blocks = tuple(_block(f"$.prompt[{place}]", value, taken) for place, value in enumerate(prompt))
    if all(isinstance(block, Text) and not block.text.strip() for block in blocks):
        raise invalid("$.prompt", "the prompt is empty")
    return blocks


def _block(path: str, value: Any, images: Images | None) -> ContentBlock:
    kind = convert_at(path, _AnyBlock, value).type
    if kind == "text":
        return Text(convert_at(path, _TextBlock, value).text)
    if kind == "resource_link":
        link = convert_at(path, _ResourceLinkBlock, value)
        _check_uri(path, link.uri)
        return ResourceLink(
            name=link.name,
            uri=link.uri,
            title=link.title,
            description=link.description,
            mime_type=link.mime_type,
            size=link.size,
        )
    if kind == "image" and images is not None:
        image = convert_at(path, _ImageBlock, value)
        if image.uri is not None:
            _check_uri(path, image.uri)
            if len(image.uri) > MAX_IMAGE_URI_CHARACTERS:
                raise invalid(f"{path}.uri", f"may have at most {MAX_IMAGE_URI_CHARACTERS} characters")
        return images.take(path, Image(image.mime_type, image.data, image.uri))
    if kind in _NOT_ADVERTISED:
        raise invalid(f"{path}.type", f"{kind} blocks are not advertised")
    raise invalid(f"{path}.type", "this type of block is not known")


def _check_uri(path: str, uri: str) -> None:
    if not _HAS_SCHEME.match(uri):
        raise invalid(f"{path}.uri", "must be a URI")
