"""What every session of a process is made with, put together once by the composition root.

What only a turn needs is put together with the first of them: a session that an editor opens is answered
before any tool is imported.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from term2_acp.agent.mind import Mind
from term2_acp.domain.classes import frozen
from term2_acp.redact import Redactor
from term2_acp.store import Store

if TYPE_CHECKING:  # imported with the first turn
    from term2_acp.providers.base import ToolSpec
    from term2_acp.sandbox import Sandbox
    from term2_acp.tools.base import Tool
    from term2_acp.web.public import Fetcher


@frozen
class Toolbox:
    """What turns work with. ``specs`` are the tools as a model is told of them.

    ``sandbox`` runs commands, and ``fetcher`` is the way to the web.
    """

    tools: "Mapping[str, Tool]"
    specs: "tuple[ToolSpec, ...]"
    sandbox: "Sandbox"
    fetcher: "Fetcher"


@frozen
class SessionParts:
    """The rooms below a session.

    ``home`` is the person's canonical home directory, or None where there is none. ``own_paths`` are term2's
    settings and state, ``own_code`` its code: its tools change neither unasked. ``state`` is its state
    directory. ``toolbox`` gives one and the same to every turn, and makes it for the first.
    """

    store: Store
    mind: Mind
    redactor: Redactor
    home: str | None
    own_paths: tuple[str, ...]
    own_code: tuple[str, ...]
    state: str
    toolbox: Callable[[], Toolbox]
