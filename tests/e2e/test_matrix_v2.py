"""Profile by client, for ACP v2: each method is served, and each update and member sent, exactly when its
flag allows it. What a client of v2 says it can do changes nothing, since nothing that needs it is sent.

Two tables say which flag each method and each update needs; one conversation that would make every one of
them come is held for each pair, with every frame through the schema gate and the order checker.
"""

import contextlib
import itertools
from typing import Any

import pytest

from term2_acp.acp.v2 import handlers
from term2_acp.acp.v2.capabilities import PROFILES, Advertised
from tests.kit.editor import Editor
from tests.kit.indoors import Indoors, indoors
from tests.kit.pictures import image
from tests.kit.wire import Json, Refused

SCRIPT = """
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [
    { thought = "hmm" },
    { call = "update_plan", arguments = { entries = [{ content = "look", status = "pending" }] } },
    { call = "probe", arguments = { name = "a", asks = true } },
]
[[rules.replies]]
steps = [{ text = "Done." }, { usage = [12, 5] }]
[[rules]]
[[rules.replies]]
steps = [{ text = "The model was asked." }]
"""

# What a request needs to be served: nothing, a flag of the profile, or what no profile has. The params are
# good, so that none is refused for anything else.
METHODS: dict[str, str | None] = {
    "session/list": "",
    "session/resume": "",
    "session/close": "",
    "session/set_config_option": "options",
    "session/delete": "delete",
    "session/fork": None,
    "session/load": None,
    "session/set_mode": None,
    "session/set_model": None,
    "session/set_title": None,
    "session/archive": None,
    "session/status": None,
    "authenticate": None,
    "logout": None,
    "auth/login": None,
    "auth/logout": None,
    "auth/status": None,
    "tool_call/cancel": None,
    "terminal/cancel": None,
    "providers/list": None,
    "mcp/message": None,
    "_term2/anything": None,
}

UPDATES: dict[str, str] = {
    "state_update": "",
    "user_message": "",
    "agent_message_chunk": "",
    "agent_thought_chunk": "",
    "tool_call_update": "",
    "plan_update": "",
    "usage_update": "",
    "session_info_update": "",
    "agent_message": "",  # on a replay, and what is answered here
    "agent_thought": "",  # on a replay
    "config_option_update": "options",
    "available_commands_update": "commands",
    "compaction_update": "compaction",
}

CALLS = {"session/update", "session/request_permission"}

CLIENTS: dict[str, Any] = {
    "none": {},
    "null": None,
    "elicitation": {"elicitation": {"form": {}, "url": {}}},
    "newer": {
        "auth": {"terminal": {}},
        "elicitation": {"form": {}, "url": {}},
        "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}, "subagents": {}},
        "cancel": {},
        "_meta": {"terminal_output": True},
    },
    "as in v1": {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True},
    "junk": [{"session": "yes"}, 7, None],
}

CASES = list(itertools.product(PROFILES, CLIENTS))


@pytest.mark.parametrize(("profile", "client"), CASES, ids=[f"{p} and {c}" for p, c in CASES])
async def test_each_method_and_update_is_there_exactly_when_its_flag_allows_it(
    tmp_path, autojump_clock, profile, client
):
    has = PROFILES[profile]
    async with indoors(tmp_path, SCRIPT, profile=profile) as daemon:
        editor = daemon.editor
        capabilities = await greeted(editor, CLIENTS[client])
        told = {"prompt": {"image": {}}} if has.images else {}
        assert capabilities == {"session": told | ({"delete": {}} if has.delete else {})}

        opened = await editor.request("session/new", {"cwd": str(daemon.workspace)})
        assert opened.keys() == {"sessionId"} | ({"configOptions"} if has.options else set())
        session_id = opened["sessionId"]
        await conversation(daemon, session_id, has)

        served = {method for method in METHODS if await is_served(daemon, session_id, method)}
        assert served == {method for method, flag in METHODS.items() if allowed(has, flag)}
        kinds = {update["sessionUpdate"] for update in editor.updates(session_id)}
        assert kinds == {kind for kind, flag in UPDATES.items() if allowed(has, flag)}
        assert editor.gate is not None
        assert set(editor.gate.methods) == CALLS


def test_the_table_has_every_method_there_is():
    assert METHODS.keys() >= handlers.METHODS.keys() - {"session/new", "session/prompt"}


def allowed(has: Advertised, flag: str | None) -> bool:
    return flag is not None and (not flag or getattr(has, flag))


async def greeted(editor: Editor, capabilities: Any) -> Json:
    """Negotiate; returns what the agent can do."""
    params = {
        "protocolVersion": 2,
        "info": {"name": "kit", "version": "1"},
        "capabilities": capabilities,
    }
    result = await editor.request("initialize", params)
    assert result.keys() == {"protocolVersion", "info", "capabilities"}
    return dict(result["capabilities"])


async def answered(editor: Editor, method: str, params: Json) -> Json:
    """The whole answer to a request."""
    call = await editor.call(method, params)
    with contextlib.suppress(Refused):
        await call.result()
    assert call.answer is not None
    return call.answer


async def conversation(daemon: Indoors, session_id: str, has: Advertised) -> None:
    """Everything that could make an update come, and whether the model had a part in it."""
    editor = daemon.editor
    editor.on_ask = lambda ask: {
        "outcome": {"outcome": "selected", "optionId": ask["params"]["options"][0]["optionId"]}
    }
    assert (await editor.prompt(session_id, "go")).text == "Done."
    assert daemon.probe.ran == ["a"]
    for command in ("/help", "/usage", "/plan", "/compact"):
        turn = await editor.prompt(session_id, command)
        assert turn.of("user_message")[0]["content"] == [{"type": "text", "text": command}]
        assert (turn.text == "The model was asked.") is not has.commands, command
    if has.images:
        await editor.prompt(session_id, [image()])
    else:
        answer = await answered(editor, "session/prompt", {"sessionId": session_id, "prompt": [image()]})
        assert answer["error"]["code"] == -32602
    await editor.request("session/close", {"sessionId": session_id})
    start = len(editor.frames)
    params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
    result = await editor.request("session/resume", params)
    assert result.keys() == ({"configOptions"} if has.options else set())
    replayed = [update["sessionUpdate"] for update in editor.updates(session_id, start)]
    assert replayed.count("available_commands_update") == has.commands
    assert replayed[-1] == "state_update"


async def is_served(daemon: Indoors, session_id: str, method: str) -> bool:
    """Whether a good request is served. One that is not is answered as a method that does not exist."""
    params: Json = {
        "sessionId": session_id,
        "cwd": str(daemon.workspace),
        "configId": "mode",
        "type": "id",
        "value": "ask",
        "modeId": "ask",
        "toolCallId": "c",
    }
    if method == "session/list":
        params.pop("cwd")
    answer = await answered(daemon.editor, method, params)
    if "error" in answer:
        unknown = {"code": -32601, "message": "Method not found", "data": {"method": method}}
        assert answer["error"] == unknown
        return False
    if method == "session/close":  # it has to be open for what comes next
        await daemon.editor.request("session/resume", params)
    return True
