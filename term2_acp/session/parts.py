"""What every session of a process is made with, put together once by the composition root."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import frozen

from term2_acp.agent.turn import Mind
from term2_acp.providers.base import ToolSpec
from term2_acp.redact import Redactor
from term2_acp.store import Store
from term2_acp.tools.base import Tool

if TYPE_CHECKING:  # both are imported by the composition root, after the start
    from term2_acp.sandbox import Sandbox
    from term2_acp.web.public import Fetcher


@frozen
class SessionParts:
    """The rooms below a session.

    ``specs`` are the tools as a model is told of them. ``home`` is the person's canonical home
    directory, or None where there is none. ``own_paths`` are term2's settings and state, ``own_code`` its
    code: its tools change neither unasked. ``state`` is its state directory. ``sandbox`` runs commands, and
    ``fetcher`` is the way to the web.
    """

    store: Store
    mind: Mind
    tools: Mapping[str, Tool]
    specs: tuple[ToolSpec, ...]
    redactor: Redactor
    home: str | None
    own_paths: tuple[str, ...]
    own_code: tuple[str, ...]
    state: str
    sandbox: "Sandbox"
    fetcher: "Fetcher"
