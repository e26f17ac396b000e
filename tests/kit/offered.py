"""What a client of ACP v1 offered when it connected, and what may be sent to it in consequence.

The gate asks this for every frame, and it is read here from the client's own words rather than by the code
that is under test:

- a method of the client's is called only when its own flag was true;
- an update that only some clients know goes only to those which have its marker;
- options that are on or off, and terminals that show our commands, likewise.
"""

from collections.abc import Iterator
from typing import Any

from attrs import field, frozen

Json = dict[str, Any]

_METHODS = {
    "fs/read_text_file": ("fs", "readTextFile"),
    "fs/write_text_file": ("fs", "writeTextFile"),
    "terminal/create": ("terminal",),
    "terminal/output": ("terminal",),
    "terminal/wait_for_exit": ("terminal",),
    "terminal/kill": ("terminal",),
    "terminal/release": ("terminal",),
    "elicitation/create": ("elicitation",),
}

_UPDATES = {
    "notice": ("session", "notices"),
    "compaction_update": ("session", "compaction"),
    "compaction_summary_chunk": ("session", "compaction"),
}

# Updates that the newest published schema has and no older one.
NEWEST_ONLY = frozenset({"notice"})


@frozen
class Offered:
    """The capabilities of one client; nothing for what it left out, or gave another shape."""

    capabilities: Json = field(factory=dict)

    @classmethod
    def from_params(cls, params: Any) -> "Offered":
        """What these params of ``initialize`` offer."""
        given = params.get("clientCapabilities") if isinstance(params, dict) else None
        return cls(given if isinstance(given, dict) else {})

    def hold_request(self, method: str) -> None:
        """Refuse a request that the client did not say it takes."""
        if method in _METHODS:
            self._need(_METHODS[method], f"the request {method}")

    def hold_update(self, params: Any) -> None:
        """Refuse an update, or a part of one, that the client did not say it knows."""
        update = params.get("update") if isinstance(params, dict) else None
        if not isinstance(update, dict):
            return
        kind = update.get("sessionUpdate")
        if kind in _UPDATES:
            self._need(_UPDATES[kind], f"the update {kind}")
        elif kind == "config_option_update":
            self._hold_options(update)
        elif kind in ("tool_call", "tool_call_update") and _shows_terminal(update):
            self._need(("_meta", "terminal_output"), f"a terminal in {kind}")

    def hold_result(self, result: Any) -> None:
        """Refuse options in a result that the client did not say it knows."""
        if isinstance(result, dict):
            self._hold_options(result)

    def _hold_options(self, value: Json) -> None:
        options = value.get("configOptions")
        for option in options if isinstance(options, list) else ():
            if isinstance(option, dict) and option.get("type") == "boolean":
                self._need(("session", "configOptions", "boolean"), f"the boolean option {option.get('id')}")

    def _need(self, path: tuple[str, ...], what: str) -> None:
        value: Any = self.capabilities
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        # A flag is true, a marker is an object.
        offered = value is True or isinstance(value, dict)
        assert offered, f"{what}, and the client does not offer {'.'.join(path)}"


def _shows_terminal(update: Json) -> bool:
    meta = update.get("_meta")
    if isinstance(meta, dict) and any(name.startswith("terminal_") for name in meta):
        return True
    return any(item.get("type") == "terminal" for item in _items(update.get("content")))


def _items(value: Any) -> Iterator[Json]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())
