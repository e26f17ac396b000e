"""What ``initialize`` tells a v1 client, and what is learnt there about the client.

Everything that is implemented is advertised. What a client offers is read leniently: clients leave out, send
null, or send the shape of another version, and each of those means that it does not offer it. Nothing is
offered but by ``true``, or by an object where v1 has markers.
"""

from typing import Any

import msgspec

from term2_acp import __version__
from term2_acp.domain.classes import frozen

PROTOCOL_VERSION = 1

IMAGES = True
"""Whether images are taken in prompts."""


@frozen
class ClientFeatures:
    """What one client offers beyond v1's baseline.

    ``read_files`` and ``write_files``: its ``fs/*`` methods. ``terminal_output``: output of our commands in a
    terminal of its own, by the ``_meta`` extension of that name. ``booleans``: config options that are on or
    off. ``notices`` and ``compaction``: updates of these kinds.
    """

    read_files: bool = False
    write_files: bool = False
    terminal_output: bool = False
    booleans: bool = False
    notices: bool = False
    compaction: bool = False


def features_from_wire(params: msgspec.Raw) -> ClientFeatures:
    """What the client of these ``initialize`` params offers. Never raises."""
    try:
        given = msgspec.json.decode(params) if len(params) else {}
    except msgspec.DecodeError:
        return ClientFeatures()
    capabilities = _member(given, "clientCapabilities")
    files = _member(capabilities, "fs")
    session = _member(capabilities, "session")
    return ClientFeatures(
        read_files=files.get("readTextFile") is True,
        write_files=files.get("writeTextFile") is True,
        terminal_output=_member(capabilities, "_meta").get("terminal_output") is True,
        booleans=_marked(_member(session, "configOptions"), "boolean"),
        notices=_marked(session, "notices"),
        compaction=_marked(session, "compaction"),
    )


def _member(value: Any, name: str) -> dict[str, Any]:
    """The object that is a member of an object; an empty one for anything else."""
    member = value.get(name) if isinstance(value, dict) else None
    return member if isinstance(member, dict) else {}


def _marked(value: dict[str, Any], name: str) -> bool:
    """Whether a marker is there: an object says that something is offered, whatever is in it."""
    return isinstance(value.get(name), dict)


def initialize_result() -> dict[str, Any]:
    """What ``initialize`` is answered with.

    No login is needed, so none is offered: some clients use the first that is listed, always.
    """
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {"name": "term2", "title": "term2", "version": __version__},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": IMAGES, "audio": False, "embeddedContext": False},
            "mcpCapabilities": {"http": False, "sse": False},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}, "delete": {}},
        },
        "authMethods": [],
    }
