"""One whole conversation at each door, frame for frame, against those that are kept in ``tests/golden``.

Other tests say what must hold; this one shows when anything at all changed on the wire, so that a change
is made on purpose and is seen in review. What differs from run to run is made equal first: ids are
numbered in the order of their first appearance, folders and times get names, and adjacent chunks of one
message are joined, since how text is cut up depends on the clock.

To keep a new conversation: ``TERM2_RENEW_GOLDEN=1 pytest tests/e2e/test_golden.py``.
"""

import json
import os
import re
from pathlib import Path

from term2_acp import __version__
from tests.kit.daemon import Daemon
from tests.kit.editor_v1 import EditorV1, choosing
from tests.kit.forked import running
from tests.kit.home import Home
from tests.kit.play import conformance

GOLDEN = Path(__file__).parent.parent / "golden"

IDS = re.compile(r"\b(sess|msg|call|plan|term|comp)_[0-9a-f]{8,}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")


def normal(frames, home):
    """The frames as lines in which nothing differs from run to run."""
    seen = {}

    def number(match):
        kind = match.group(1)
        name = f"{kind}_{sum(1 for known in seen.values() if known.startswith(kind)) + 1}"
        return seen.setdefault(match.group(0), name)

    lines = []
    for frame in joined(frames):
        line = json.dumps(frame, ensure_ascii=False)
        line = line.replace(str(home.root), "/ROOT").replace(json.dumps(__version__), '"VERSION"')
        lines.append(TIME.sub("TIME", IDS.sub(number, line)))
    return lines


def joined(frames):
    """The frames, with adjacent chunks of one message as one chunk."""
    out = []
    for frame in frames:
        update = frame.get("params", {}).get("update", {})
        last = out[-1].get("params", {}).get("update", {}) if out else {}
        if update.get("sessionUpdate", "").endswith(("message_chunk", "thought_chunk")) and (
            last.get("sessionUpdate"),
            last.get("messageId"),
        ) == (update["sessionUpdate"], update["messageId"]):
            last["content"]["text"] += update["content"]["text"]
        else:
            out.append(json.loads(json.dumps(frame)))
    return out


def gathered(frames):
    """The frames, with adjacent updates of one call as one: what is told together depends on the clock."""
    out = []
    for frame in frames:
        update = frame.get("params", {}).get("update", {})
        last = out[-1].get("params", {}).get("update", {}) if out else {}
        if update.get("sessionUpdate") == "tool_call_update" and (
            last.get("sessionUpdate"),
            last.get("toolCallId"),
        ) == ("tool_call_update", update["toolCallId"]):
            last.update(update)
        else:
            out.append(json.loads(json.dumps(frame)))
    return out


async def converse(daemon: Daemon, home: Home) -> str:
    await daemon.initialize()
    session = await daemon.new_session(home.workspace)
    daemon.on_ask = lambda ask: {"outcome": {"outcome": "selected", "optionId": "approve"}}
    for prompt in ("hi", "ask", "edit", "plan"):
        await daemon.prompt(session, prompt)
    daemon.on_ask = lambda ask: {"outcome": {"outcome": "selected", "optionId": "reject"}}
    await daemon.prompt(session, "ask")
    turn = await daemon.begin(session, "wait")
    await turn.seen("agent_message_chunk")
    await daemon.cancel(session)
    await turn.ended()
    await daemon.request("session/list", {"cwd": str(home.workspace)})
    await daemon.request("session/close", {"sessionId": session})
    return session


async def converse_v1(daemon: Daemon, home: Home) -> str:
    editor = EditorV1(daemon)
    await editor.initialize({"session": {"compaction": {}}})
    session = await editor.new_session(home.workspace)
    daemon.on_ask = choosing("allow_once")
    for prompt in ("hi", "ask", "edit", "plan"):
        await editor.prompt(session, prompt)
    daemon.on_ask = choosing("reject_once")
    await editor.prompt(session, "ask")
    turn = await editor.begin(session, "wait")
    await turn.seen("agent_message_chunk")
    await editor.cancel(session)
    await turn.ended()
    for mode in ("plan", "standard"):
        await editor.set_mode(session, mode)
    for command in ("/help", "/usage", "/permissions"):
        await editor.prompt(session, command)
    await daemon.request("session/list", {"cwd": str(home.workspace)})
    await daemon.request("session/close", {"sessionId": session})
    return session


def hold(name: str, lines: list[str]) -> None:
    kept = GOLDEN / name
    if os.environ.get("TERM2_RENEW_GOLDEN"):
        kept.write_text("".join(line + "\n" for line in lines))
    assert lines == kept.read_text().splitlines()


async def test_the_conversation_on_the_wire_is_the_one_that_is_kept(tmp_path):
    home = Home.make(tmp_path)
    home.play(conformance(home))
    async with running(home) as daemon:
        session = await converse(daemon, home)
    async with running(home) as again:
        await again.initialize()
        params = {"sessionId": session, "cwd": str(home.workspace), "replayFrom": {"type": "start"}}
        await again.request("session/resume", params)
    hold("conversation.jsonl", normal([*daemon.frames, *again.frames], home))


async def test_the_conversation_of_the_first_version_is_the_one_that_is_kept(tmp_path):
    home = Home.make(tmp_path)
    home.play(conformance(home))
    async with running(home) as daemon:
        session = await converse_v1(daemon, home)
    async with running(home) as again:
        editor = EditorV1(again)
        await editor.initialize()
        await editor.load(session, home.workspace)
        await again.request("session/delete", {"sessionId": session})
    hold("conversation-v1.jsonl", normal(gathered([*daemon.frames, *again.frames]), home))
