"""What ``initialize`` tells a v2 client, and what is taken from it in consequence.

Presence of an object is what advertises a capability in v2; a boolean would be read as absence. Nothing
is in here that is not served: what is not advertised answers -32601, or -32602 where it is content.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from term2_acp import __version__
from term2_acp.domain.classes import frozen

PROTOCOL_VERSION = 2

INFO = MappingProxyType({"name": "term2", "title": "term2", "version": __version__})


@frozen
class Advertised:
    """What one connection is told of. The decoders, the handlers and the projection ask this very value.

    ``images``: blocks of a prompt. ``delete``: ``session/delete``. ``options``: what can be set of a session;
    ACP has no marker for it, they are told in the results of ``session/new`` and ``session/resume``.
    ``commands``: prompts that begin with a slash; told by an update. ``compaction``: updates of that kind.
    """

    images: bool = False
    delete: bool = False
    options: bool = False
    commands: bool = False
    compaction: bool = False

    def to_wire(self) -> dict[str, Any]:
        """The ``capabilities`` of the answer to ``initialize``.

        ``session`` stands for the baseline: new, list, resume, prompt, cancel, close and update.
        """
        session: dict[str, Any] = {}
        if self.images:
            session["prompt"] = {"image": {}}
        if self.delete:
            session["delete"] = {}
        return {"session": session}


BASELINE = Advertised()

FULL = Advertised(images=True, delete=True, options=True, commands=True, compaction=True)

# By the profile that the settings name (``[acp] profile``).
PROFILES: Mapping[str, Advertised] = MappingProxyType({"baseline": BASELINE, "full": FULL})
