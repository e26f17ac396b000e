"""The conversation that the rows of the conformance kit look at, held once with one process and recorded.

It has a turn of every ordinary kind, cancels, closes, both resumes, and every envelope that the kit sends;
what came is kept by the step that made it come.
"""

from typing import Any

from attrs import define, field

from tests.kit.daemon import Daemon, running
from tests.kit.editor import Turn
from tests.kit.home import Home
from tests.kit.wire import Json, Refused

# The kit listens for max(0.5, min(2, timeout / 10)) s where nothing may come.
QUIET_S = 0.5


@define
class Record:
    """What one process said in one conversation, by the step that made it say so."""

    raw: bytearray = field(factory=bytearray)
    frames: list[Json] = field(factory=list)
    initialize: Json = field(factory=dict)
    sessions: list[str] = field(factory=list)
    answers: dict[str, Json] = field(factory=dict)
    refusals: dict[str, Json] = field(factory=dict)
    updates: dict[str, list[Json]] = field(factory=dict)
    asks: list[Json] = field(factory=list)
    batches: dict[str, list[Json]] = field(factory=dict)
    quiet: dict[str, list[Json]] = field(factory=dict)

    def of(self, kind: str) -> list[Json]:
        """Every update of one kind in the whole conversation."""
        return [update for update in self.all_updates() if update["sessionUpdate"] == kind]

    def all_updates(self) -> list[Json]:
        """Every update, of every session."""
        return [f["params"]["update"] for f in self.frames if f.get("method") == "session/update"]


def first_option(ask: Json) -> Json:
    return {"outcome": {"outcome": "selected", "optionId": ask["params"]["options"][0]["optionId"]}}


async def refusal(daemon: Daemon, method: str, params: Json | None, request_id: int | str) -> Json:
    call = await daemon.call(method, params, request_id)
    try:
        result = await call.result()
    except Refused as refused:
        return {"id": request_id, "code": refused.code, "message": refused.message}
    raise AssertionError(f"{method} was taken: {result!r}")


async def batch(daemon: Daemon, entries: list[Any], answers: int) -> list[Json]:
    start = len(daemon.frames)
    await daemon.send(entries)
    if answers:
        await daemon.frame(lambda frame: "batch" in frame or "error" in frame, start)
    return daemon.frames[start:] if answers else await daemon.quiet(QUIET_S)


def listing(request_id: int | str) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "method": "session/list"}


async def converse(home: Home) -> Record:
    record = Record()
    async with running(home) as daemon:
        daemon.tap = record.raw.extend
        daemon.on_ask = first_option
        record.frames = daemon.frames
        record.initialize = await daemon.request(
            "initialize",
            {"protocolVersion": 2, "info": {"name": "kit", "version": "1"}, "capabilities": {}},
            request_id="init-1",
        )
        await sessions(daemon, home, record)
        await turns(daemon, record)
        await cancels(daemon, record)
        await envelopes(daemon, record)
        await closing(daemon, home, record)
    return record


async def sessions(daemon: Daemon, home: Home, record: Record) -> None:
    cwd = str(home.workspace)
    bodies: list[Json] = [{}, {"mcpServers": []}]
    for servers in bodies:
        answer = await daemon.request("session/new", {"cwd": cwd, **servers})
        record.answers[f"new {servers}"] = answer
        record.sessions.append(answer["sessionId"])
    record.answers["list"] = await daemon.request("session/list", {"cwd": cwd}, request_id=2**40)
    record.answers["list elsewhere"] = await daemon.request("session/list", {"cwd": "/usr"})
    record.answers["list all"] = await daemon.request("session/list", {})


def keep(record: Record, step: str, turn: Turn) -> None:
    record.answers[step] = {"messageId": turn.message_id}
    record.updates[step] = turn.updates


async def turns(daemon: Daemon, record: Record) -> None:
    session, _ = record.sessions
    link = {"type": "resource_link", "name": "a.txt", "uri": "file:///a.txt"}
    prompts: dict[str, str | list[Json]] = {
        "hi": "hi",
        "again": "remember this",
        "link": [{"type": "text", "text": "have a look at this"}, link],
        "ask": "ask",
        "edit": "edit",
        "plan": "plan",
    }
    for step, prompt in prompts.items():
        keep(record, step, await daemon.prompt(session, prompt))
    record.asks = [frame for frame in daemon.frames if frame.get("method") == "session/request_permission"]
    start = len(daemon.frames)
    blocks = [{"type": "text", "text": "hi", "_meta": {"kit": 1}}]
    params = {"sessionId": session, "prompt": blocks, "_meta": {"traceparent": "00-0-0-00"}}
    answer = await daemon.request("session/prompt", params)
    turn = Turn(daemon, session, answer["messageId"], start)
    await turn.ended()
    keep(record, "meta", turn)


async def cancels(daemon: Daemon, record: Record) -> None:
    session, _ = record.sessions
    for step, meta in (("cancel", {}), ("cancel with meta", {"_meta": {"kit": 1}})):
        turn = await daemon.begin(session, "wait")
        await turn.seen("state_update", state="running")
        await daemon.notify("session/cancel", {"sessionId": session, **meta})
        await turn.ended()
        record.quiet[step] = await daemon.quiet(QUIET_S)
        keep(record, step, turn)


async def envelopes(daemon: Daemon, record: Record) -> None:
    session, _ = record.sessions
    record.refusals["unknown method"] = await refusal(daemon, "session/levitate", {}, "u-1")
    record.refusals["extension"] = await refusal(daemon, "_kit/ping", {"x": 1}, 77)
    record.refusals["bad params"] = await refusal(daemon, "session/new", {"cwd": 5}, "p-1")
    record.refusals["relative cwd"] = await refusal(daemon, "session/list", {"cwd": "w"}, "p-2")
    start = len(daemon.frames)
    await daemon.notify("_kit/hello", {"x": 1})
    await daemon.notify("$/unknown")
    await daemon.notify("session/cancel", {"sessionId": session})
    await daemon.notify("session/cancel", {"sessionId": "nobody"})
    record.quiet["notifications"] = await daemon.quiet(QUIET_S)
    assert len(daemon.frames) == start
    record.answers["after errors"] = await daemon.request("session/list", {}, request_id="after")
    record.batches["empty"] = await batch(daemon, [], 1)
    record.batches["notification"] = await batch(daemon, [{"jsonrpc": "2.0", "method": "_kit/x"}], 0)
    record.batches["two"] = await batch(daemon, [listing("b1"), listing(2)], 2)
    record.batches["mixed"] = await batch(daemon, [17, listing("b3"), {"jsonrpc": "2.0", "method": "_k"}], 2)
    record.batches["bad"] = await batch(daemon, [17, True, None], 3)


async def closing(daemon: Daemon, home: Home, record: Record) -> None:
    session, other = record.sessions
    turn = await daemon.begin(session, "wait")
    await turn.seen("state_update", state="running")
    record.answers["close while working"] = await daemon.request("session/close", {"sessionId": session})
    keep(record, "closed", turn)
    record.answers["close"] = await daemon.request("session/close", {"sessionId": other})
    opened = {"sessionId": session, "cwd": str(home.workspace)}
    start = len(daemon.frames)
    record.answers["resume"] = await daemon.request("session/resume", opened)
    record.quiet["resume"] = await daemon.quiet(QUIET_S)
    record.updates["resume"] = daemon.updates(session, start)
    record.answers["close again"] = await daemon.request("session/close", {"sessionId": session})
    start = len(daemon.frames)
    replay = {**opened, "replayFrom": {"type": "start"}}
    record.answers["replay"] = await daemon.request("session/resume", replay)
    record.quiet["replay"] = await daemon.quiet(QUIET_S)
    record.updates["replay"] = daemon.updates(session, start)
