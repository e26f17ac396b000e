"""The daemon is killed at every write of its journal, and what the next one makes of it.

A real process is killed by SIGKILL just before the COMMIT of each write transaction of one conversation, and
just after it (``kit.crashing``). Its files are opened by a second daemon, which lists, replays and prompts
once more, and by a third, which only replays; at some points the second is itself killed while it writes
down how the interrupted turn ended. At every point the same must hold: what the client saw is shown again
under the same ids, and once; all that was committed is still there; every call is final and says the truth
about the file or the command that it was about; nothing ran twice; and the model is told a well-paired
history in which an unknown outcome is called so.
"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trio
from attrs import define

from tests.kit.crashing import (
    AFTER,
    BEFORE,
    MADE,
    Fault,
    Life,
    cut_life,
    first_life,
    later_life,
    prepare,
    zygote,
)
from tests.kit.survival import (
    UNKNOWN,
    everything_is_over,
    in_turn,
    nothing_comes_twice,
    nothing_is_missing,
    the_model_is_told,
    things,
)

# Two cores: while one daemon waits for its disk or its command, two others work.
SIDE_BY_SIDE = 3

# -- what must hold ----------------------------------------------------------------------------------


def calls_tell_the_truth(home, replay, rows):
    """What each call is shown as is what became of its file, or of its command."""
    shown = {call["name"]: call for call in things(replay, "tool_call") if call["name"] != "read_file"}
    ids = {call["toolCallId"]: name for name, call in shown.items()}
    kinds = {
        (row.kind, ids.get(row.value["tool_call_id"])) for row in rows if row.kind.startswith("tool_call_")
    }
    made = home.workspace / "made.txt"
    for name, happened in (
        ("search_replace", (home.workspace / "a.txt").read_text() == AFTER),
        ("create_file", made.exists()),
    ):
        if name not in shown:
            assert not happened
            continue
        assert shown[name]["status"] == ("completed" if happened else "failed"), name
        assert UNKNOWN not in json.dumps(shown[name]), f"{name}: the file tells"
        diffs = [content for content in shown[name].get("content") or () if content["type"] == "diff"]
        assert bool(diffs) == happened, f"{name}: a change is shown where there is one"
    assert (home.workspace / "a.txt").read_text() in (BEFORE, AFTER)
    assert not made.exists() or made.read_text() == MADE
    ran = home.workspace / "ran.txt"
    count = len(ran.read_text().splitlines()) if ran.exists() else 0
    command = shown.get("shell")
    if ("tool_call_settled", "shell") in kinds:
        assert (command["status"], count) == ("completed", 1)
    elif ("tool_call_dispatched", "shell") in kinds:
        assert command["status"] == "failed"
        assert UNKNOWN in json.dumps([command["rawOutput"], command["content"]])
        assert count <= 1
    else:
        assert count == 0
        assert command is None or (command["status"] == "failed" and UNKNOWN not in json.dumps(command))
    plan = shown.get("update_plan")
    assert (plan is not None and plan["status"] == "completed") == ("plan_update" in replay["last"])


def is_listed(life: Life, first: Life, began):
    (entry,) = life.listed
    assert entry["sessionId"] == life.session_id
    named = [row.value["title"] for row in first.rows if row.kind == "session_info_update"]
    assert entry.get("title") == (named[0] if named else None)
    assert began <= datetime.fromisoformat(entry["updatedAt"]) <= datetime.now(UTC)


# -- one point ---------------------------------------------------------------------------------------


@define
class Point:
    """One place of the matrix. ``again``: the daemon that opens what is left is killed there first."""

    root: Path
    fault: Fault
    again: Fault | None
    life: Life | None = None
    cut: bool = False
    error: Exception | None = None

    def __str__(self):
        kinds = ", ".join(self.life.writes[-1]) if self.life is not None else "?"
        then = f", and the next {self.again}" if self.again else ""
        return f"{self.fault} ({kinds}){then}: {type(self.error).__name__}: {self.error}"

    async def holds(self, source):
        """Live through it, and see that what must hold does."""
        began = datetime.now(UTC) - timedelta(milliseconds=1)  # what is kept has no finer times
        home = prepare(self.root)
        first = self.life = await first_life(source, home, self.fault)
        if self.again is not None and first.session_id is not None:
            self.cut = await cut_life(source, home, first.session_id, self.again)
        second = await later_life(source, home, "second", first.session_id, "again")
        third = await later_life(source, home, "third", second.session_id)
        if second.session_id is None:
            assert second.listed == []
            assert first.rows == []
            return
        is_listed(second, first, began)
        prompt, replay = in_turn(first.rows), second.replay
        nothing_is_missing(first.shown, replay)
        nothing_comes_twice(second.updates[: second.replayed])
        everything_is_over(replay, prompt)
        calls_tell_the_truth(home, replay, first.rows)
        (asked,) = second.asked
        the_model_is_told(asked, replay, "again")
        # What was committed stays as it was, and what one has written down the next does not write again.
        assert second.rows[: len(first.rows)] == first.rows
        assert third.rows == second.rows
        sentences = [row.value["message_id"] for row in second.rows if row.kind == "agent_message"]
        assert sentences == ([] if prompt is None else [f"{prompt}_interrupted"])
        assert third.replay == second.shown
        nothing_comes_twice(third.updates)


# -- all points --------------------------------------------------------------------------------------


def points(writes):
    """Each write, before and after; behind every third, what opens it is killed as well."""
    for number in range(1, writes + 1):
        for when in ("before", "after"):
            yield Fault(number, when), None
    for number in range(4, writes + 1, 3):
        yield Fault(number, "after"), Fault(1, ("before", "after")[number % 2])


async def test_nothing_is_lost_and_nothing_is_run_twice_wherever_it_is_killed(tmp_path):
    limiter = trio.CapacityLimiter(SIDE_BY_SIDE)
    with zygote() as source:

        async def attempt(point):
            async with limiter:
                try:
                    await point.holds(source)
                except Exception as error:  # noqa: BLE001 - the other points tell more; all are told together
                    point.error = error

        whole = await first_life(source, prepare(tmp_path / "whole"), None)
        matrix = [Point(tmp_path / str(n), *at) for n, at in enumerate(points(len(whole.writes)))]
        async with trio.open_nursery() as nursery:
            for point in matrix:
                nursery.start_soon(attempt, point)
    failed = [point for point in matrix if point.error is not None]
    if failed:
        told = "\n".join(f"- {point}" for point in failed)
        raise AssertionError(f"{len(failed)} of {len(matrix)} points:\n{told}") from failed[0].error
    assert len(whole.writes) > 15
    # What comes together is written together, so that a fault at the very end may come too late.
    assert sum(not point.life.killed for point in matrix) <= 6
    assert sum(point.cut for point in matrix) >= 3
