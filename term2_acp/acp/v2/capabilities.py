"""What ``initialize`` tells a v2 client.

Presence of an object is what advertises a capability in v2; a boolean would be read as absence. Nothing
is in here that is not served: what is not advertised answers -32601, or -32602 where it is content.
"""

from types import MappingProxyType
from typing import Any

from term2_acp import __version__

PROTOCOL_VERSION = 2

INFO = MappingProxyType({"name": "term2", "title": "term2", "version": __version__})

# ``session`` stands for the baseline: new, list, resume, prompt, cancel, close and update.
CAPABILITIES: MappingProxyType[str, dict[str, Any]] = MappingProxyType({"session": {}})
