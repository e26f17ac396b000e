"""What the person points at, in words for the model.

A resource link is a reference, never content: nothing is fetched or read for it. A ``file:`` link is given
by its absolute path, so that the model can read it with the tools, under their path rule and their asks.
"""

from urllib.parse import unquote, urlsplit

from term2_acp.domain.content import ResourceLink

_LOCAL_HOSTS = frozenset({"", "localhost"})


def reference(link: ResourceLink) -> str:
    """One line that names the link: its absolute path when it is a local file, else its URI."""
    place = local_path(link.uri) or link.uri
    name = link.title or link.name
    return (
        f"[referenced resource: {place}]"
        if name in ("", place)
        else f"[referenced resource: {place} ({name})]"
    )


def local_path(uri: str) -> str | None:
    """The absolute path of a ``file:`` URI of this machine; None for any other."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme.lower() == "file" and parts.netloc.lower() in _LOCAL_HOSTS and parts.path.startswith("/"):
        return unquote(parts.path)
    return None
