"""What a person saw live is what they see when the session is opened again, at every door: one conversation
with all that can happen in one, folded into what a client has on its screen, live and replayed. It is opened
again while it is live, after a close, and in another daemon over the same state. Frames are bounded to a few
KiB here, so what is long goes in pieces."""

import functools
import json
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from unittest.mock import ANY

import pytest
import trio.testing

from term2_acp.acp.v1.client import V1Client
from term2_acp.acp.v2.client import V2Client
from term2_acp.domain.usage import Prices
from term2_acp.providers.base import (
    Delta,
    Failed,
    Finish,
    Finished,
    ModelInfo,
    Overloaded,
    TextDelta,
    ThoughtDelta,
    ToolCallDelta,
    UsageDelta,
)
from term2_acp.sandbox import Sandbox
from tests.kit import fold, fold_v1
from tests.kit.editor_v1 import ALL_FEATURES, EditorV1, choosing
from tests.kit.indoors import Indoors, indoors
from tests.kit.model import OK, Model
from tests.kit.pictures import image
from tests.kit.wire import Json, Refused

FRAME_BYTES = 8 * 1024
CALLS = Finished(Finish.TOOL_CALLS)
SENTENCE = "The server is full. Try again later."
SUMMED_UP = "The conversation was summed up. From here on the model goes by the summary."
PRICED = ModelInfo(context_tokens=100_000, prices=Prices(input=3_000_000, output=15_000_000))

LONG = "".join(f"word {number}, " for number in range(1000))
OUTPUT = "".join(f"{number}\n" for number in range(1, 1001))
PLAN = [
    {"content": "Look", "priority": "high", "status": "completed"},
    {"content": "Leap", "priority": "low", "status": "pending"},
]


def called(name: str, /, **arguments: object) -> ToolCallDelta:
    return ToolCallDelta("theirs", name, json.dumps(arguments))


def reply(*deltas: Delta, end: Finished = OK) -> list[Delta]:
    """A whole reply, for a third of a cent."""
    return [*deltas, UsageDelta(1000, 20), end]


def asked_to(*calls: ToolCallDelta) -> list[list[Delta]]:
    """A reply that makes the calls, and the one that follows their results."""
    return [reply(*calls, end=CALLS), reply(TextDelta("And "), TextDelta("so."))]


def change(old: str, new: str) -> ToolCallDelta:
    pieces = [{"search_content": old, "replace_content": new}]
    return called("search_replace", path="a.txt", replacements=pieces)


def replies(outside: Path) -> list[list[Delta]]:
    """What the model says, one reply a call of it."""
    patch = "*** Begin Patch\n*** Delete File: b.txt\n*** Add File: d/c.txt\n+three\n*** End Patch\n"
    return [
        reply(ThoughtDelta("Hm, "), ThoughtDelta(LONG), TextDelta(LONG), TextDelta("end.")),
        *asked_to(called("update_plan", entries=PLAN)),
        *asked_to(
            called("read_file", path="a.txt"), called("create_file", path="b.txt", content="one\ntwo\n")
        ),
        *asked_to(change("line 20\n", "changed\n"), called("apply_patch", patch=patch)),
        *asked_to(called("probe", name="x", fails=True), called("no_such_tool", y=1)),
        *asked_to(called("read_file", path=str(outside))),
        *asked_to(called("shell", command="seq 1000; printf 'half a \\303'; exit 3")),
        reply(TextDelta("I wait."), called("probe", name="y", asks=True), end=CALLS),
        [TextDelta("Half an "), Failed(Overloaded(SENTENCE))],
        reply(TextDelta("Summed up: "), TextDelta(LONG)),
        reply(TextDelta("I see it.")),
    ]


CALL, SAID = "call", "agent"
TITLE = f"first {LONG}"[:79] + "…"

FIRST = [{"type": "text", "text": f"first {LONG}"}]
PICTURE = [{"type": "text", "text": "look"}, image()]


class AtV2:
    """A person at the v2 door: what they do, and what is on their screen, in words of neither version."""

    cancelled = "cancelled"
    says_why = True  # why a turn failed stands among the messages, live too

    def __init__(self, daemon: Indoors, *, full: bool) -> None:
        self.editor, self.full = daemon.editor, full
        self.knows_all = full  # whether commands and images are advertised to them

    async def sit(self) -> None:
        await self.editor.initialize()

    async def new(self, cwd: Path) -> str:
        return await self.editor.new_session(cwd)

    async def begin(self, session_id: str, prompt: Json) -> Callable[[], Awaitable[str]]:
        return (await self.editor.begin(session_id, prompt)).ended

    async def open(self, session_id: str, cwd: Path) -> None:
        params = {"sessionId": session_id, "cwd": str(cwd), "replayFrom": {"type": "start"}}
        await self.editor.request("session/resume", params)

    def screen(self, session_id: str, start: int = 0) -> Json:
        return fold.fold(self.editor.updates(session_id, start))

    def alike(self, live: Json, again: Json) -> None:
        assert again == live
        assert [thing["id"] for thing in again["things"]] == [thing["id"] for thing in live["things"]]

    def outline(self, screen: Json) -> list[tuple[str, ...]]:
        words = {"user_message": "user", "agent_message": SAID, "agent_thought": "thought"}
        lines = []
        for thing in screen["things"]:
            if thing["is"] in words:
                lines.append((words[thing["is"]], thing["text"], *pictures(thing)))
            elif thing["is"] == "tool_call":
                lines.append((CALL, thing["title"], thing["status"]))
            elif thing["is"] == "compaction":
                lines.append(("compaction", thing["status"], thing["summary"]))
        return lines

    def told_last(self, screen: Json) -> Json:
        last = screen["last"]
        return {
            "plan": last["plan_update"]["plan"]["entries"],
            "usage": last["usage_update"],
            "title": last["session_info_update"],
        }

    def terminals(self, screen: Json) -> list[tuple[str, int]]:
        shown = [thing for thing in screen["things"] if thing["is"] == "terminal"]
        return [
            (thing["output"].decode(errors="replace"), thing["exitStatus"]["exitCode"]) for thing in shown
        ]

    def changed(self, screen: Json) -> list[str]:
        content = [piece for thing in screen["things"] for piece in thing.get("content") or ()]
        return [
            os.path.basename(change["path"])
            for piece in content
            if piece["type"] == "diff"
            for change in piece["changes"]
        ]


class AtV1:
    """The same at the v1 door."""

    cancelled = "failed"
    says_why = False
    knows_all = True

    def __init__(self, daemon: Indoors, *, full: bool) -> None:
        self.editor, self.full, self.v1 = daemon.editor, full, EditorV1(daemon.editor)
        self.prompts: list[tuple[int, Json]] = []  # and how many frames had come before each

    async def sit(self) -> None:
        # Without the editor's files, which are another way to change things and no other way to show them.
        await self.v1.initialize({**ALL_FEATURES, "fs": {}} if self.full else None)

    async def new(self, cwd: Path) -> str:
        return await self.v1.new_session(cwd)

    async def begin(self, session_id: str, prompt: Json) -> Callable[[], Awaitable[str]]:
        self.prompts.append((len(self.editor.frames), prompt))
        turn = await self.v1.begin(session_id, prompt)

        async def ended() -> str:
            try:
                return await turn.ended()
            except Refused as refused:
                return "_term2_error" if refused.message == SENTENCE else refused.message

        return ended

    async def open(self, session_id: str, cwd: Path) -> None:
        await self.v1.load(session_id, cwd)

    def screen(self, session_id: str, start: int = 0) -> Json:
        """What the person sent stands on it too: this client shows that by itself."""
        told: list[Json] = []
        for number, frame in enumerate([*self.editor.frames, {}][start:], start):
            told += (
                {"sessionUpdate": "user_message_chunk", "messageId": f"prompt {count}", "content": block}
                for count, (before, prompt) in enumerate(self.prompts)
                if before == number
                for block in prompt
            )
            if frame.get("method") == "session/update" and frame["params"]["sessionId"] == session_id:
                told.append(frame["params"]["update"])
        screen = fold_v1.fold(u for u in told if u["sessionUpdate"] != "available_commands_update")
        # That a compaction begins is a message in form only, for a client that knows neither it nor notices;
        # a replay has its end alone.
        screen["things"] = {k: thing for k, thing in screen["things"].items() if not k[1].endswith("_began")}
        return screen

    def alike(self, live: Json, again: Json) -> None:
        """But for what v1 shows in another way: see docs/PROTOCOL_V1.md."""
        # Live, the answer says why a turn failed, and prompts have no ids.
        things = [each for each in again["things"].items() if each[1].get("text") != SENTENCE]
        for (key, thing), (key_again, thing_again) in zip(live["things"].items(), things, strict=True):
            assert key[0] == "user" or key_again == key
            assert without_texts(thing_again) == without_texts(thing)
            for before, after in zip(diffs(thing), diffs(thing_again), strict=True):
                old, new = hunk(after.get("oldText", "")), hunk(after["newText"])
                assert old in before.get("oldText", "")
                assert new in before["newText"]
                assert old != new
        assert (again["last"], again["terminals"]) == (live["last"], live["terminals"])
        assert again["notices"] == []

    def outline(self, screen: Json) -> list[tuple[str, ...]]:
        lines = []
        for (word, _id), thing in screen["things"].items():
            if word == CALL:
                lines.append((CALL, thing["title"], thing["status"]))
            elif word == "compaction":
                summary = "".join(block["text"] for block in thing["summary"])
                lines.append((word, thing["status"], summary))
            else:
                lines.append((word, thing["text"], *pictures(thing)))
        return lines

    def told_last(self, screen: Json) -> Json:
        last = screen["last"]
        return {
            "plan": last["plan"]["entries"],
            "usage": last["usage_update"],
            "title": last["session_info_update"],
        }

    def terminals(self, screen: Json) -> list[tuple[str, int]]:
        found = []
        for thing in screen["things"].values():
            for piece in thing.get("content", ()):
                if piece["type"] == "terminal":
                    shown = screen["terminals"][piece["terminalId"]]
                    found.append((shown["text"], shown["exit"][0]))
                elif piece["type"] == "content" and (fenced := FENCED.fullmatch(piece["content"]["text"])):
                    found.append((fenced[1], int(fenced[2])))
        return found

    def changed(self, screen: Json) -> list[str]:
        content = [piece for thing in screen["things"].values() for piece in thing.get("content", ())]
        return [os.path.basename(piece["path"]) for piece in content if piece["type"] == "diff"]


# The output of a command for a client without terminals.
FENCED = re.compile(r"```\n(.*)\n```\nExit code (\d+)\.\n", re.DOTALL)


def pictures(message: Json) -> list[str]:
    return [block["data"] for block in message.get("images", ())]


def diffs(call: Json) -> list[Json]:
    return [piece for piece in call.get("content", ()) if piece["type"] == "diff"]


def hunk(text: str) -> str:
    """The changed lines and those around them, without the word on what was left out between."""
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("… "))


def without_texts(thing: Json) -> Json:
    bare = [
        {key: value for key, value in piece.items() if key not in ("oldText", "newText")}
        for piece in thing.get("content", ())
    ]
    return {**thing, "content": bare}


async def hold(person: AtV2 | AtV1, cwd: Path) -> str:
    """The whole conversation; the id of its session."""
    editor = person.editor
    editor.on_ask = choosing("reject_once")
    session_id = await person.new(cwd)

    async def turn(prompt: str | list, *, stop: str = "end_turn") -> None:
        blocks = [{"type": "text", "text": prompt}] if isinstance(prompt, str) else prompt
        assert await (await person.begin(session_id, blocks))() == stop

    await turn(FIRST)
    for prompt in ("plan", "make", "change", "fail", "outside", "run"):
        await turn(prompt)
    editor.on_ask = None
    ended = await person.begin(session_id, [{"type": "text", "text": "wait"}])
    await editor.next_ask()
    await editor.notify("session/cancel", {"sessionId": session_id})
    assert await ended() == "cancelled"
    await turn("break", stop="_term2_error")
    if person.knows_all:
        await turn("/compact")
        await turn(PICTURE)
    return session_id


def expected(person: AtV2 | AtV1, outside: Path, *, live: bool) -> list[tuple[str, ...]]:
    """What is to be on the screen."""
    so = (SAID, "And so.")
    lines = [
        ("user", FIRST[0]["text"]),
        ("thought", f"Hm, {LONG}"),
        (SAID, f"{LONG}end."),
        ("user", "plan"),
        (CALL, "Update the plan", "completed"),
        so,
        ("user", "make"),
        (CALL, "Read a.txt", "completed"),
        (CALL, "Create b.txt", "completed"),
        so,
        ("user", "change"),
        (CALL, "Edit a.txt", "completed"),
        (CALL, "Patch b.txt, d/c.txt", "completed"),
        so,
        ("user", "fail"),
        (CALL, "Probe x", "failed"),
        (CALL, "Unknown tool no_such_tool", "failed"),
        so,
        ("user", "outside"),
        (CALL, f"Read {outside}", "failed"),
        so,
        ("user", "run"),
        (CALL, "seq 1000; printf 'half a \\303'; exit 3", "completed"),
        so,
        ("user", "wait"),
        (SAID, "I wait."),
        (CALL, "Probe y", person.cancelled),
        ("user", "break"),
        (SAID, "Half an "),
        *([(SAID, SENTENCE)] if person.says_why or not live else []),
    ]
    if person.knows_all:
        lines += [("user", "/compact")]
        lines += [
            ("compaction", "completed", f"Summed up: {LONG}".strip()) if person.full else (SAID, SUMMED_UP)
        ]
        lines += [(SAID, ANY), ("user", "look", PICTURE[1]["data"]), (SAID, "I see it.")]
    return lines


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    """One for all, as in a daemon: it is tried out once."""
    root = tmp_path_factory.mktemp("sandbox")
    return Sandbox({"PATH": os.environ["PATH"], "HOME": str(root)}, (), str(root / "state"))


@pytest.mark.parametrize("full", [False, True], ids=["plain", "full"])
@pytest.mark.parametrize("door", [AtV2, AtV1])
async def test_a_session_is_shown_again_as_it_was_seen(tmp_path, monkeypatch, sandbox, door, full):
    for client in (V1Client, V2Client):
        small = functools.partialmethod(client.__init__, max_frame_bytes=FRAME_BYTES)
        monkeypatch.setattr(client, "__init__", small)
    outside = tmp_path / "elsewhere.txt"
    outside.write_text("not yours\n")
    root = tmp_path / "root"
    (root / "workspace").mkdir(parents=True)
    (root / "workspace" / "a.txt").write_text("".join(f"line {number}\n" for number in range(40)))
    open_daemon = functools.partial(
        indoors, root, sandbox=sandbox, profile="full" if full and door is AtV2 else "baseline"
    )

    async def shown_again(person: AtV2 | AtV1) -> Json:
        """Open the session: all of it comes before the answer, and nothing behind."""
        start = len(person.editor.frames)
        await person.open(session_id, cwd)
        end = len(person.editor.frames)
        await trio.testing.wait_all_tasks_blocked()
        assert len(person.editor.frames) == end
        assert "result" in person.editor.frames[-1]
        return person.screen(session_id, start)

    async with open_daemon(provider=Model(*replies(outside), info=PRICED)) as daemon:
        cwd = daemon.workspace
        person = door(daemon, full=full)
        await person.sit()
        session_id = await hold(person, cwd)
        live = person.screen(session_id)
        assert person.outline(live) == expected(person, outside, live=True)
        cost = {"amount": 0.0528 if person.knows_all else 0.0462, "currency": "USD"}
        assert person.told_last(live) == {
            "plan": PLAN,
            "usage": {"sessionUpdate": "usage_update", "used": 1020, "size": 100_000, "cost": cost},
            "title": {"sessionUpdate": "session_info_update", "title": TITLE, "updatedAt": ANY},
        }
        assert person.changed(live) == ["b.txt", "a.txt", "b.txt", "c.txt"]
        assert person.terminals(live) == [(f"{OUTPUT}half a \ufffd", 3)]
        again = await shown_again(person)
        assert person.outline(again) == expected(person, outside, live=False)
        person.alike(live, again)
        await daemon.editor.request("session/close", {"sessionId": session_id})
        assert await shown_again(person) == again
    async with open_daemon(provider=Model(info=PRICED)) as daemon:
        person = door(daemon, full=full)
        await person.sit()
        (entry,) = (await daemon.editor.request("session/list", {"cwd": str(cwd)}))["sessions"]
        assert await shown_again(person) == again
        title = person.told_last(again)["title"]
        assert (entry["sessionId"], entry["title"]) == (session_id, title["title"])
        assert entry["updatedAt"] >= title["updatedAt"]
        assert daemon.probe.ran == []
