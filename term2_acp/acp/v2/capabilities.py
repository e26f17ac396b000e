"""What ``initialize`` tells a v2 client, and what is taken from it in consequence.

Presence of an object is what advertises a capability in v2; a boolean would be read as absence. Nothing
is in here that is not served: what is not advertised answers -32601, or -32602 where it is content.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from term2_acp import __version__

PROTOCOL_VERSION = 2

INFO = MappingProxyType({"name": "term2", "title": "term2", "version": __version__})


@frozen
class Advertised:
    """What one connection is told that it may send. The decoders ask this very value what they take."""

    images: bool = False

    def to_wire(self) -> dict[str, Any]:
        """The ``capabilities`` of the answer to ``initialize``.

        ``session`` stands for the baseline: new, list, resume, prompt, cancel, close and update.
        """
        session: dict[str, Any] = {}
        if self.images:
            session["prompt"] = {"image": {}}
        return {"session": session}


BASELINE = Advertised()

# By the profile that the settings name (``[acp] profile``).
PROFILES: Mapping[str, Advertised] = MappingProxyType({"baseline": BASELINE, "full": Advertised(images=True)})
