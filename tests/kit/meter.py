"""Tokens and money as a client sees them, checked from outside and independently of the code that counts.

- A context holds what is in it.
- The cost of a session never falls. It is told with each usage, or withdrawn, and then never told again.
- What an idle says of its turn are counts, and the cost that the session rose by.
- A replay has one ``usage_update`` at most, and no usage of a turn.
"""

from typing import Any

from attrs import define

_COUNTS = {
    *("modelCalls", "countedCalls"),
    *("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "thoughtTokens"),
}


@define
class Meter:
    """What a client knows of the tokens and the money of one session. ``see`` gets every update of it."""

    cost: float | None = None  # what is told now
    withdrawn: bool = False
    at_prompt: float | None = None  # what was told when the turn began; None when nothing was
    fresh: bool = True  # the session was made on this connection, so all of its cost was told here
    replayed: int = 0

    def see(self, session_id: str, update: dict[str, Any], *, replayed: bool) -> None:
        kind = update["sessionUpdate"]
        if kind == "usage_update":
            self.replayed += replayed
            assert self.replayed <= 1, f"{session_id}: a replay with a second usage_update"
            self._usage(session_id, update)
        elif kind == "user_message" and not replayed:
            self.at_prompt = self.cost if self.cost is not None or not self.fresh else 0.0
        elif update.get("state") == "idle":
            took = (update.get("_meta") or {}).get("term2", {}).get("usage")
            if took is not None:
                assert not replayed, f"{session_id}: the snapshot of a resume has usage"
                self._turn(session_id, took)

    def _usage(self, session_id: str, update: dict[str, Any]) -> None:
        assert 0 < update["used"] <= update["size"], f"{session_id}: {update['used']} of {update['size']}"
        if "cost" not in update:
            assert self.cost is None, f"{session_id}: a cost was told, and is neither told nor withdrawn"
        elif update["cost"] is None:
            self.cost, self.withdrawn = None, True
        else:
            amount = update["cost"]["amount"]
            assert not self.withdrawn, f"{session_id}: a cost of {amount} after it was withdrawn"
            assert amount >= (self.cost or 0), f"{session_id}: the cost fell from {self.cost} to {amount}"
            self.cost = amount

    def _turn(self, session_id: str, took: dict[str, Any]) -> None:
        counts = {name: number for name, number in took.items() if name != "costUsd"}
        assert counts.keys() == _COUNTS, f"{session_id}: a turn took {sorted(took)}"
        assert all(type(n) is int and n >= 0 for n in counts.values()), f"{session_id}: a turn took {took}"
        assert took["countedCalls"] <= took["modelCalls"] > 0, f"{session_id}: calls of a turn: {took}"
        rose = None if self.cost is None or self.at_prompt is None else self.cost - self.at_prompt
        if rose is not None and "costUsd" in took:
            # Both are rounded to the ninth digit.
            assert abs(rose - took["costUsd"]) < 3e-9, f"{session_id}: {took} where the cost rose by {rose}"
