"""A session's title: the first words of its first prompt, on one line; of one without words, "Image"."""

from collections.abc import Sequence

from term2_acp.domain.content import ContentBlock, Image, Text
from term2_acp.domain.events import Event, SessionInfoUpdate
from term2_acp.redact import Redactor
from term2_acp.store import now

TITLE_CHARACTERS = 80


def name(
    title: str | None, content: Sequence[ContentBlock], redactor: Redactor
) -> tuple[str | None, list[Event]]:
    """The session's title after a prompt, and the event that tells it if it is new."""
    if title is not None:
        return title, []
    title = title_of(content, redactor)
    return title, [] if title is None else [SessionInfoUpdate(title, now())]


def title_of(content: Sequence[ContentBlock], redactor: Redactor) -> str | None:
    """The title that a prompt gives, at most ``TITLE_CHARACTERS`` long; None when there is nothing to name.

    Redacted before it is cut: half a key is no key that anyone would find again. Of a prompt of megabytes
    only as many words are divided as can be shown.
    """
    texts = (
        block.text if isinstance(block, Text) else block.name
        for block in content
        if not isinstance(block, Image)
    )
    words = " ".join(redactor.redact(" ".join(texts)).split(maxsplit=TITLE_CHARACTERS)[:TITLE_CHARACTERS])
    if not words:
        return _of_images(sum(isinstance(block, Image) for block in content))
    return words if len(words) <= TITLE_CHARACTERS else words[: TITLE_CHARACTERS - 1].rstrip() + "…"


def _of_images(count: int) -> str | None:
    if count == 0:
        return None
    return "Image" if count == 1 else f"{count} images"
