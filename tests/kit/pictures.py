"""Pictures as an editor sends them: the smallest of each type, and ones of any size."""

import base64
from typing import Any

PNG = b"\x89PNG\r\n\x1a\n"
BEGINNINGS = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0",
    "image/gif": b"GIF89a",
    "image/webp": b"RIFF\x1a\x00\x00\x00WEBP",
}


def base64_of(data: bytes) -> str:
    """Strict base64, as it stands in a block."""
    return base64.b64encode(data).decode()


def picture(mime_type: str = "image/png", size: int = 64, fill: bytes = b"\x00") -> bytes:
    """Bytes that begin as a file of the type does, ``size`` of them."""
    beginning = BEGINNINGS[mime_type]
    return (beginning + fill * (size // len(fill) + 1))[:size]


def image(data: bytes | str | None = None, mime_type: str = "image/png", **more: Any) -> dict[str, Any]:
    """An image block; ``data`` is base64 already when it is text, and a small picture when it is left out."""
    if data is None:
        data = picture(mime_type)
    text = data if isinstance(data, str) else base64_of(data)
    return {"type": "image", "data": text, "mimeType": mime_type, **more}
