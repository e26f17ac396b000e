"""Drives ``term2 acp`` with the v1 client of the official Python SDK, and prints what the client saw.

    python official.py PLAN

The plan is JSON: ``{"command": [...], "cwd": ..., "model": one to choose}``. What is right is for the
test to say; this file asserts nothing. The client offers nothing of its own: no files, no terminals.
"""

import asyncio
import json
import os
import sys

from acp import PROTOCOL_VERSION, spawn_agent_process, text_block
from acp.interfaces import Client
from acp.schema import AllowedOutcome, Implementation, RequestPermissionResponse


class Editor(Client):
    """What an editor's user does: reads along, and answers by the kind of an option."""

    def __init__(self):
        self.updates = []
        self.asks = []
        self.choice = "allow_once"
        self.on_text = None

    async def session_update(self, session_id, update, **more):
        del more
        self.updates.append(plain(update))
        if self.on_text is not None and update.session_update == "agent_message_chunk":
            act, self.on_text = self.on_text, None
            await act(session_id)

    async def request_permission(self, session_id, tool_call, options, **more):
        del session_id, more
        self.asks.append({"toolCall": plain(tool_call), "options": [plain(option) for option in options]})
        option = next(option for option in options if option.kind == self.choice)
        outcome = AllowedOutcome(option_id=option.option_id, outcome="selected")
        return RequestPermissionResponse(outcome=outcome)

    def told(self):
        told, self.updates = self.updates, []
        return told


def plain(model):
    """A model of the SDK as it stands on the wire."""
    return None if model is None else model.model_dump(by_alias=True, exclude_none=True, mode="json")


async def turn(editor, connection, session_id, words):
    editor.told()
    answer = await connection.prompt(session_id=session_id, prompt=[text_block(words)])
    return {"stopReason": answer.stop_reason, "updates": editor.told()}


async def live(plan, editor, connection):
    initialized = await connection.initialize(
        protocol_version=PROTOCOL_VERSION, client_info=Implementation(name="term2-driver", version="1")
    )
    authenticated = await connection.authenticate(method_id="none")
    made = await connection.new_session(cwd=plan["cwd"])
    session_id = made.session_id
    seen = {"initialized": plain(initialized), "authenticated": plain(authenticated), "made": plain(made)}
    seen["work"] = await turn(editor, connection, session_id, "work")
    seen["allowed"] = await turn(editor, connection, session_id, "outside")
    await connection.set_session_mode(session_id=session_id, mode_id="plan")
    seen["toldOfMode"] = editor.told()
    seen["planned"] = await turn(editor, connection, session_id, "change one two")
    asking = await connection.set_config_option(config_id="mode", session_id=session_id, value="ask")
    editor.choice = "reject_once"
    seen["rejected"] = await turn(editor, connection, session_id, "change one two")
    model = await connection.set_config_option(config_id="model", session_id=session_id, value=plan["model"])
    editor.on_text = connection.cancel
    seen["cancelled"] = await turn(editor, connection, session_id, "wait")
    seen["listed"] = plain(await connection.list_sessions(cwd=plan["cwd"]))
    return {**seen, "asking": plain(asking), "model": plain(model)}


async def again(plan, editor, connection):
    await connection.initialize(protocol_version=PROTOCOL_VERSION)
    opened = {"cwd": plan["cwd"], "session_id": plan["sessionId"]}
    loaded = await connection.load_session(**opened)
    history = editor.told()
    closed = await connection.close_session(session_id=plan["sessionId"])
    resumed = await connection.resume_session(**opened)
    silence = editor.told()
    goes_on = await turn(editor, connection, plan["sessionId"], "hi")
    seen = {"loaded": plain(loaded), "closed": plain(closed), "resumed": plain(resumed)}
    return {**seen, "history": history, "silence": silence, "goesOn": goes_on}


async def run(scenario, plan):
    editor = Editor()
    program, *arguments = plan["command"]
    # Left to itself it hands on next to nothing of the environment, and reads stderr of nobody.
    stderr = {"stderr": None}
    async with spawn_agent_process(
        editor, program, *arguments, cwd=plan["cwd"], env=os.environ, transport_kwargs=stderr
    ) as (connection, process):
        seen = await scenario(plan, editor, connection)
    return {**seen, "asks": editor.asks, "exit": process.returncode}


async def main():
    plan = json.loads(sys.argv[1])
    first = await run(live, plan)
    second = await run(again, {**plan, "sessionId": first["made"]["sessionId"]})
    json.dump({"live": first, "again": second}, sys.stdout)


asyncio.run(main())
