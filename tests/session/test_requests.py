"""What the model is given: the system prompt, the tools, and a history that survives cancels and restarts."""

import sqlite3
from contextlib import asynccontextmanager

from term2_acp.providers.base import AssistantSaid, OnWait, Request, ToolAnswered, UserSaid, wait_silently
from term2_acp.providers.scripted.model import Scripted
from term2_acp.providers.scripted.script import read_script
from tests.kit.indoors import indoors

SCRIPT = """
[[rules]]
match = "^half$"
[[rules.replies]]
steps = [{ text = "half of it" }, { hang = true }]

[[rules]]
match = "^probe$"
[[rules.replies]]
steps = [{ call = "probe", arguments = { name = "a", asks = true }, id = "x" }]
[[rules.replies]]
steps = [{ text = "probed" }]

[[rules]]
[[rules.replies]]
steps = [{ text = "Hello." }]
"""


class Recording(Scripted):
    """The scripted model, which also keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__("play", read_script(SCRIPT))
        self.requests: list[Request] = []

    @asynccontextmanager
    async def stream(self, request: Request, on_wait: OnWait = wait_silently):
        self.requests.append(request)
        async with super().stream(request, on_wait) as deltas:
            yield deltas


async def test_the_first_request(tmp_path):
    model = Recording()
    async with indoors(tmp_path, provider=model) as daemon:
        (daemon.workspace / "AGENTS.md").write_text("Use tabs.\n")
        link = {"type": "resource_link", "name": "a b", "uri": "file:///ws/a%20b"}
        await daemon.editor.initialize()
        session_id = await daemon.editor.new_session(daemon.workspace)
        await daemon.editor.prompt(session_id, [{"type": "text", "text": "look at"}, link])
        (request,) = model.requests
        assert request.messages == (UserSaid("look at\n[referenced resource: /ws/a b (a b)]"),)
        assert f"Working directory: {daemon.workspace}" in request.system
        assert "<agents-md>\nUse tabs.\n</agents-md>" in request.system
        names = {tool.name for tool in request.tools}
        assert {"read_file", "glob", "grep", "create_file", "search_replace", "update_plan"} <= names
        for tool in request.tools:
            assert tool.schema["type"] == "object"
            assert tool.schema["additionalProperties"] is False


async def test_without_words_of_the_workspace_there_is_no_such_part(tmp_path, autojump_clock):
    model = Recording()
    async with indoors(tmp_path, provider=model) as daemon:
        _, turn = await daemon.begin("hi")
        await turn.ended()
    assert "agents-md" not in model.requests[0].system


async def test_the_system_prompt_is_the_same_for_the_life_of_a_session(tmp_path, autojump_clock):
    """Also days later: what a server keeps of it, or seals under it, is good for the same words alone."""
    model = Recording()
    async with indoors(tmp_path, provider=model) as daemon:
        session_id, turn = await daemon.begin("hi")
        await turn.ended()
    with sqlite3.connect(tmp_path / "state" / "sessions.db") as store:
        store.execute("UPDATE session SET created_at = '2026-01-02' || substr(created_at, 11)")
    store.close()
    async with indoors(tmp_path, provider=model) as daemon:
        await daemon.editor.initialize()
        params = {"sessionId": session_id, "cwd": str(daemon.workspace)}
        await daemon.editor.request("session/resume", params)
        await daemon.editor.prompt(session_id, "hi")
        await daemon.editor.prompt(session_id, "hi")
    systems = [request.system for request in model.requests]
    assert "First day of this session: 2026-01-02\n" in systems[1] + "\n"
    assert systems[1] == systems[2]
    assert model.requests[0].cache_key == model.requests[1].cache_key != ""


async def test_a_cancelled_reply_and_call_are_told_live_and_after_a_restart(tmp_path, autojump_clock):
    model = Recording()
    async with indoors(tmp_path, provider=model) as daemon:
        session_id, turn = await daemon.begin("half")
        await turn.seen("agent_message_chunk")
        await daemon.editor.cancel(session_id)
        assert await turn.ended() == "cancelled"
        turn = await daemon.editor.begin(session_id, "probe")
        await daemon.editor.next_ask()
        await daemon.editor.cancel(session_id)
        assert await turn.ended() == "cancelled"
        await daemon.editor.prompt(session_id, "hi")
        live = model.requests[-1].messages
    said = [message for message in live if isinstance(message, UserSaid)]
    assert [message.text for message in said] == ["half", "probe", "hi"]
    assert live[1] == AssistantSaid("half of it", cut=True)
    assert isinstance(live[3], AssistantSaid)
    (call,) = live[3].calls
    assert (call.name, call.arguments) == ("probe", '{"name":"a","asks":true}')
    assert isinstance(live[4], ToolAnswered)
    assert (live[4].call_id, live[4].failed) == (call.call_id, True)
    assert call.call_id != "x", "the ids of a provider are its own"
    again = Recording()
    async with indoors(tmp_path, provider=again) as daemon:
        await daemon.editor.initialize()
        await daemon.editor.request("session/resume", {"sessionId": session_id, "cwd": str(daemon.workspace)})
        await daemon.editor.prompt(session_id, "hi")
    assert again.requests[0].messages == (*live, AssistantSaid("Hello."), UserSaid("hi"))


async def test_a_key_in_the_words_of_the_workspace_is_not_sent(tmp_path):
    model = Recording()
    async with indoors(tmp_path, provider=model, secrets=("sk-canary-0123456789",)) as daemon:
        (daemon.workspace / "AGENTS.md").write_text("The key is sk-canary-0123456789.\n")
        _, turn = await daemon.begin("hi")
        await turn.ended()
    assert "The key is [redacted]." in model.requests[0].system
