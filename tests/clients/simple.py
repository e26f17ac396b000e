"""Drives ``term2 acp`` with the asyncio library acp-client, and prints what the client saw.

    python simple.py PLAN

The plan is JSON: ``{"command": [...], "cwd": ...}``. What is right is for the test to say; this file asserts
nothing. This client offers nothing, makes or loads a session by itself, and ends its agent by a signal
instead of the end of its input.
"""

import asyncio
import json
import sys

from acp_client import Agent


async def main():
    plan = json.loads(sys.argv[1])
    asks = []
    choice = "none of them"  # the handler fails, and the client turns the permission down

    async def permission(request):
        await asyncio.sleep(0)  # as a person would, it lets everything else go on
        asks.append(request)
        return next(option["optionId"] for option in request["options"] if option["kind"] == choice)

    agent = Agent(plan["command"], plan["cwd"], permission=permission)
    updates = []
    work = await agent.ask("work", on_update=updates.append)
    updates_refused = []
    refused = await agent.ask("outside", on_update=updates_refused.append)
    choice = "allow_once"
    allowed = await agent.ask("outside")
    cancelled = await agent.ask("wait", on_text=lambda _text: agent.cancel())
    session, first = agent.session, agent.process
    await agent.stop()

    later = Agent(plan["command"], plan["cwd"], session=session)
    history = []
    await later.start(history.append)
    carried_on = later.session
    hello = await later.ask("hi")
    second = later.process
    await later.stop()
    seen = {
        "session": session,
        "work": work,
        "updates": updates,
        "allowed": allowed,
        "refused": refused,
        "updatesRefused": updates_refused,
        "cancelled": cancelled,
        "asks": asks,
        "carriedOn": carried_on,
        "history": history,
        "hello": hello,
        "exits": [first.returncode, second.returncode],
    }
    json.dump(seen, sys.stdout)


asyncio.run(main())
