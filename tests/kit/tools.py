"""A workspace with the tools on it: what a dispatcher does with a call, without permission and journal."""

import json

import trio

from term2_acp.redact import Redactor
from term2_acp.sandbox import Sandbox
from term2_acp.store.artifacts import Artifacts
from term2_acp.tools.arguments import decode
from term2_acp.tools.base import ToolContext
from term2_acp.tools.registry import TOOLS
from term2_acp.web.public import Fetcher
from term2_acp.workspace import Workspace


class Bench:
    """Calls tools on ``root/ws``; what they publish is in ``published``."""

    def __init__(self, root, **options):
        self.root = root
        self.ws = root / "ws"
        self.ws.mkdir(exist_ok=True)
        self.published = []
        options.setdefault("home", str(root / "home"))
        self.context = ToolContext(
            files=Workspace(str(self.ws), **options),
            publish=self._publish,
            sandbox=Sandbox({}, (), str(root / "state")),
            artifacts=Artifacts(str(root / "state" / "artifacts")),
            fetcher=Fetcher(),
            redactor=Redactor(),
        )

    def describe(self, name, **arguments):
        return TOOLS[name].describe(self._decoded(name, arguments), self.context)

    async def prepare(self, name, **arguments):
        return await TOOLS[name].prepare(self._decoded(name, arguments), self.context)

    async def run(self, name, prepared):
        return await TOOLS[name].run(prepared, self.context)

    async def call(self, name, **arguments):
        self.describe(name, **arguments)
        return await self.run(name, await self.prepare(name, **arguments))

    def _decoded(self, name, arguments):
        if isinstance(arguments.get("replacements"), list):
            arguments["replacements"] = [
                {"search_content": part[0], "replace_content": part[1]} if isinstance(part, tuple) else part
                for part in arguments["replacements"]
            ]
        return decode(TOOLS[name], json.dumps(arguments))

    async def _publish(self, event):
        await trio.lowlevel.checkpoint()
        self.published.append(event)
