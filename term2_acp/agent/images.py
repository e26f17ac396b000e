"""The images of a conversation: how a prompt with some is told to a model, and when they are let go.

Every request holds the whole history, so its images are sent again each time, and a request that a server
refuses for them would be refused for ever. Two rules keep a conversation going:

- A request holds the newest images within what all servers take (``domain.content``). What was attached
  before those is told in words; a prompt keeps its images all or none.
- When a server refused a request, every image up to there is told in words from the next prompt on. Which
  one it would not take is known to nobody, and the person can attach it again.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

from term2_acp.agent.references import local_path, reference
from term2_acp.domain.content import MAX_IMAGES, MAX_IMAGES_BYTES, ContentBlock, Image, Text, size_of_base64
from term2_acp.providers.base import Image as ShownImage
from term2_acp.providers.base import Message, UserSaid


def said(content: Sequence[ContentBlock]) -> UserSaid:
    """A prompt as a model is told of it.

    A mark says where an image stands among the text, unless all of them come before it or behind it. An
    image that is a file of this machine is named by its path, which tools can use.
    """
    kinds = [isinstance(block, Image) for block in content]
    apart = sum(first is not second for first, second in pairwise(kinds)) > 1
    lines: list[str] = []
    images: list[ShownImage] = []
    for block in content:
        if isinstance(block, Text):
            lines.append(block.text)
        elif isinstance(block, Image):
            images.append(ShownImage(block.mime_type.lower(), block.data))
            path = None if block.uri is None else local_path(block.uri)
            if path is not None:
                lines.append(f"[image {len(images)}: {path}]")
            elif apart:
                lines.append(f"[image {len(images)}]")
        else:
            lines.append(reference(block))
    return UserSaid("\n".join(lines), tuple(images))


def within_bounds(messages: Iterable[Message]) -> list[Message]:
    """The history with the newest of its images, as many as one request may have."""
    history = list(messages)
    # Every request looks through the whole history, so this is the one line that is felt in a long one.
    prompts = [(place, message) for place, message in enumerate(history) if type(message) is UserSaid]
    count = size = 0
    for place, message in reversed(prompts):
        if message.images:
            count += len(message.images)
            size += sum(size_of_base64(image.data) for image in message.images)
            if count > MAX_IMAGES or size > MAX_IMAGES_BYTES:
                history[place] = in_words(message)
    return history


def in_words(message: Message) -> Message:
    """The message without its images, and with a note that there were some."""
    if not isinstance(message, UserSaid) or not message.images:
        return message
    count = len(message.images)
    note = (
        "[an image was attached here, which is not shown to you]"
        if count == 1
        else f"[{count} images were attached here, which are not shown to you]"
    )
    return UserSaid(f"{message.text}\n{note}" if message.text else note)
