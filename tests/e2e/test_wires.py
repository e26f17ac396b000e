"""One conversation over every wire: the installed daemon is given a model server that speaks Responses, Chat
Completions or Messages, and what the editor sees, and what the model is told, must be the same."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_golden import joined
from tests.kit.fold import fold
from tests.kit.forked import running
from tests.kit.home import Home
from tests.kit.model_server import open_model_server
from tests.kit.wires import PATHS, WIRES, Reply, opaque_came_back, speaks, told

CONVERSATION: Sequence[Sequence[Reply]] = (
    (
        Reply(
            "I should look at both files.",
            "Let me look.\u2028",
            [("read_file", {"path": "a.txt"}), ("grep", {"pattern": "two"})],
        ),
        Reply("Now I make the new one.", "", [("create_file", {"path": "c.txt", "content": "three\n"})]),
        Reply("", "Done: c.txt has \u201cthree\u201d. \U0001f600", usage=(300, 30, 200)),
    ),
    (Reply("", "Nothing more to say is", end="length"),),
    (Reply("", "I cannot help with that.", end="refusal"),),
    (
        Reply("", "", [("read_file", {"path": "missing.txt"}), ("no_such_tool", {"x": 1})]),
        Reply("", "It is not there."),
    ),
)
STOPS = ["end_turn", "max_tokens", "refusal", "end_turn"]


def home_of(root: Path, wire: str, base_url: str) -> Home:
    home = Home.make(root, None)
    home.settings.write_text(
        f'provider = "lab"\nmodel = "m-1"\n[providers.lab]\ntype = "{wire}"\n'
        f'base_url = "{base_url}"\napi_key_env = "LAB_KEY"\nmodels = ["m-1"]\n'
        f'[providers.lab.catalog."m-1"]\ncontext_tokens = 1000\ninput_usd = 3.0\noutput_usd = 15\n'
        "cache_read_usd = 0.3\n"
    )
    (home.workspace / "a.txt").write_text("one\n")
    (home.workspace / "b.txt").write_text("two\n")
    return home


async def converse(root: Path, wire: str) -> tuple[list[Any], list[Any], list[Any]]:
    """What the editor saw, what the model was told, and the raw bodies."""
    answers = [speaks(wire, reply) for turn in CONVERSATION for reply in turn]
    async with open_model_server(*answers) as server:
        home = home_of(root, wire, server.base_url)
        async with running(home, environment={"LAB_KEY": "sk-lab-0123456789abcdef"}) as daemon:
            await daemon.initialize()
            session = await daemon.new_session(home.workspace)
            for number, stop in enumerate(STOPS):
                turn = await daemon.begin(session, f"prompt {number}")
                assert await turn.ended() == stop
            frames = joined(daemon.frames)
        bodies = [call.json for call in server.calls]
        paths = {call.path for call in server.calls}
        assert paths == {f"/v1{PATHS[wire]}"}
        updates = [f["params"]["update"] for f in frames if f.get("method") == "session/update"]
        tellings = [told(wire, body) for body in bodies]
        return updates, json.loads(json.dumps(tellings).replace(str(root), "/ROOT")), bodies


def without_ids(updates: Sequence[Any], root: Path) -> Any:
    """The updates with ids numbered in order, and the folder and times named."""
    from tests.e2e.test_golden import IDS, TIME

    seen: dict[str, str] = {}
    text = TIME.sub("TIME", json.dumps(updates).replace(str(root), "/ROOT"))
    return json.loads(IDS.sub(lambda m: seen.setdefault(m[0], f"{m[1]}{len(seen)}"), text))


def without_calls(updates: Sequence[Any]) -> list[Any]:
    """All but what becomes of tool calls: those that run side by side end in any order."""
    return [update for update in updates if update["sessionUpdate"] != "tool_call_update"]


@pytest.fixture(scope="module")
def by_chat(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the conversation is on Chat Completions, held once."""
    import trio

    root = tmp_path_factory.mktemp("chat")
    updates, tellings, _bodies = trio.run(converse, root, "openai-compatible")
    return without_ids(updates, root), tellings


@pytest.mark.parametrize("wire", WIRES)
async def test_the_editor_and_the_model_are_told_the_same(tmp_path: Path, wire: str, by_chat: Any) -> None:
    updates, tellings, bodies = await converse(tmp_path, wire)
    expected_updates, expected_tellings = by_chat
    assert tellings == expected_tellings
    found = without_ids(updates, tmp_path)
    assert without_calls(found) == without_calls(expected_updates)
    assert fold(found) == fold(expected_updates)
    assert opaque_came_back(wire, bodies[1]) == (wire != "openai-compatible")


def test_the_conversation_is_the_one_that_was_meant(by_chat: Any) -> None:
    """The values, once: what each wire is compared with is not just itself."""
    updates, tellings = by_chat
    things = fold(updates)["things"]
    assert [thing.get("text", thing.get("title")) for thing in things][:5] == [
        "prompt 0",
        "I should look at both files.",
        "Let me look.\u2028",
        "Read a.txt",
        "Search for two",
    ]
    statuses = [thing["status"] for thing in things if thing["is"] == "tool_call"]
    assert statuses == ["completed", "completed", "completed", "failed", "failed"]
    usage = [update for update in updates if update["sessionUpdate"] == "usage_update"]
    assert [(update["used"], update["size"]) for update in usage][:3] == [
        (120, 1000),
        (120, 1000),
        (330, 1000),
    ]
    # 60 read at 3 USD, 40 from the cache at 0.3 USD and 20 written at 15 USD, for a million each.
    assert usage[0]["cost"] == {"amount": 0.000492, "currency": "USD"}
    assert usage[2]["cost"] == {"amount": 2 * 0.000492 + 0.00081, "currency": "USD"}
    last = tellings[-1]
    assert last[0] == ["user", "prompt 0"]
    assert ["call", ["grep", {"pattern": "two"}]] in last
    assert [kind for kind, _ in last[-4:]] == ["call", "call", "result", "result"]
