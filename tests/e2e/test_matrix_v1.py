"""Every combination of what a v1 client can offer: each method is called, and each kind of update is sent,
exactly when the flag for it was set. The gate holds every frame to the schema and the offer; here the other
half is held, that what was offered is used."""

import itertools
from typing import Any, ClassVar

import msgspec
import pytest
import trio

from term2_acp.domain import events as ev
from term2_acp.domain.content import Terminal
from term2_acp.domain.ids import new_terminal_id
from term2_acp.domain.toolcall import ToolKind
from term2_acp.providers.base import Provider
from term2_acp.providers.scripted.model import Scripted
from term2_acp.providers.scripted.script import read_script
from term2_acp.tools.base import Description, Outcome, Prepared, ToolContext
from tests.kit.editor_v1 import EditorV1
from tests.kit.indoors import indoors
from tests.kit.wire import Refused

SCRIPT = """
[[rules]]
match = "^work$"
[[rules.replies]]
steps = [{ call = "read_file", arguments = { path = "a.txt" } }]
[[rules.replies]]
steps = [
  { call = "create_file", arguments = { path = "b.txt", content = "made\\n" } },
  { call = "loud", arguments = {} },
]
[[rules.replies]]
steps = [{ text = "Done." }]

[[rules]]
[[rules.replies]]
steps = [{ text = "In short." }]
"""

FLAGS = ("read", "write", "terminals", "boolean", "notices", "compaction")


class _NoArguments(msgspec.Struct, forbid_unknown_fields=True):
    pass


class Loud:
    """A tool with a terminal and no process behind it."""

    name: ClassVar[str] = "loud"
    kind: ClassVar[ToolKind] = ToolKind.EXECUTE
    description: ClassVar[str] = "Shows a terminal."
    reads_only: ClassVar[bool] = False
    Arguments: ClassVar[type[msgspec.Struct]] = _NoArguments

    def describe(self, arguments: Any, context: ToolContext) -> Description:
        return Description("make noise")

    async def prepare(self, arguments: Any, context: ToolContext) -> Prepared:
        await trio.lowlevel.checkpoint()
        terminal_id = new_terminal_id()
        return Prepared(preview=(Terminal(terminal_id),), work=terminal_id)

    async def run(self, prepared: Prepared, context: ToolContext) -> Outcome:
        one = prepared.work
        await context.publish(ev.TerminalUpdate(one, "make noise", context.files.cwd))
        await context.publish(ev.TerminalOutput(one, b"very loud\n"))
        await context.publish(ev.TerminalUpdate(one, exit_status=ev.ExitStatus(0)))
        return Outcome("very loud", (Terminal(one),))


class Slow(Scripted):
    """A scripted model whose server has to be waited for."""

    def stream(self, request: Any, on_wait: Any = None) -> Any:
        if on_wait is not None:
            on_wait("The server is busy. It is asked again in 5 s.")
        return super().stream(request)


def offered(on: frozenset[str]) -> dict[str, Any]:
    markers = {"configOptions": {"boolean": {}} if "boolean" in on else {}}
    markers |= {name: {} for name in ("notices", "compaction") if name in on}
    return {
        "fs": {"readTextFile": "read" in on, "writeTextFile": "write" in on},
        "terminal": "terminals" in on,
        "session": markers,
        "_meta": {"terminal_output": "terminals" in on},
    }


@pytest.mark.parametrize("read", [False, True], ids=["-", "read"])
@pytest.mark.parametrize("write", [False, True], ids=["-", "write"])
async def test_each_method_and_update_appears_exactly_when_it_was_offered(tmp_path, read, write):
    files = {name for name, on in (("read", read), ("write", write)) if on}
    for number, rest in enumerate(itertools.product([False, True], repeat=len(FLAGS) - 2)):
        on = frozenset(files | {name for name, given in zip(FLAGS[2:], rest, strict=True) if given})
        root = tmp_path / str(number)
        root.mkdir()
        await held(root, on)


async def held(root, on: frozenset[str]) -> None:
    model: Provider = Slow("play", read_script(SCRIPT))
    async with indoors(root, provider=model, more_tools={"loud": Loud()}) as daemon:
        (daemon.workspace / "a.txt").write_text("on disk\n")
        wrote: list[tuple[str, str]] = []

        def serve(frame: dict[str, Any]) -> dict[str, Any]:
            params = frame["params"]
            if frame["method"] == "fs/read_text_file":
                assert "read" in on
                return {"content": "in the buffer\n" if params["path"].endswith("/a.txt") else ""}
            assert (frame["method"], "write" in on) == ("fs/write_text_file", True)
            wrote.append((params["path"], params["content"]))
            return {}

        daemon.editor.on_call = serve
        editor = EditorV1(daemon.editor)
        await editor.initialize(offered(on))
        session = await editor.new_session(daemon.workspace)
        turn = await editor.prompt(session, "work")
        assert turn.text.endswith("Done.")
        assert [call["status"] for call in turn.calls.values()] == 3 * ["completed"]
        compacted = await editor.prompt(session, "/compact")

        gate = daemon.editor.gate
        assert gate is not None
        assert (gate.methods["fs/read_text_file"] > 0) == ("read" in on)
        made = str(daemon.workspace / "b.txt")
        assert wrote == ([(made, "made\n")] if "write" in on else [])
        assert (daemon.workspace / "b.txt").exists() == ("write" not in on)
        assert set(gate.methods) <= {"session/update", "fs/read_text_file", "fs/write_text_file"}

        kinds = {update["sessionUpdate"] for update in [*turn.updates, *compacted.updates]}
        assert ("notice" in kinds) == ("notices" in on)
        assert ("The server is busy" in turn.text) == ("notices" not in on)
        assert ("compaction_update" in kinds) == ("compaction" in on)
        loud = next(call for call in turn.calls if turn.calls[call]["title"] == "make noise")
        meta = [u["_meta"] for u in turn.updates if u.get("toolCallId") == loud and "_meta" in u]
        shown = "".join(m["terminal_output"]["data"] for m in meta if "terminal_output" in m)
        assert shown == ("very loud\n" if "terminals" in on else "")
        content = turn.calls[loud]["content"]
        if "terminals" in on:
            assert content == [{"type": "terminal", "terminalId": loud}]
        else:
            assert [item["type"] for item in content] == ["content"]
            assert "very loud" in content[0]["content"]["text"]


@pytest.mark.parametrize("read", [False, True], ids=["-", "read"])
@pytest.mark.parametrize("write", [False, True], ids=["-", "write"])
async def test_a_client_without_the_method_it_offered_fails_the_tool_and_not_the_turn(tmp_path, read, write):
    async with indoors(tmp_path, SCRIPT, more_tools={"loud": Loud()}) as daemon:
        (daemon.workspace / "a.txt").write_text("on disk\n")

        def serve(frame: dict[str, Any]) -> dict[str, Any]:
            raise Refused({"code": -32601, "message": "Method not found"})

        daemon.editor.on_call = serve
        editor = EditorV1(daemon.editor)
        await editor.initialize({"fs": {"readTextFile": read, "writeTextFile": write}, "terminal": True})
        session = await editor.new_session(daemon.workspace)
        turn = await editor.prompt(session, "work")
        assert turn.text == "Done."
        assert [call["status"] for call in turn.calls.values()] == [
            "failed" if read else "completed",
            "failed" if write else "completed",
            "completed",
        ]
        assert (daemon.workspace / "b.txt").exists() != write
