"""Every way a turn can end, and what the person is told when it ends badly.

The scripted model plays each ending; what is checked is the idle and what stands before it on the wire.
"""

import trio

from tests.kit.daemon import Daemon
from tests.kit.daemon import running as started
from tests.kit.forked import running
from tests.kit.home import Home

SCRIPT = """
[[rules]]
match = "^length$"
[[rules.replies]]
steps = [{ text = "half a sen" }, { finish = "length" }]

[[rules]]
match = "^half a call$"
[[rules.replies]]
steps = [{ call = "create_file", arguments = { path = "half.txt", content = "x" } }, { finish = "length" }]

[[rules]]
match = "^refusal$"
[[rules.replies]]
steps = [{ finish = "refusal" }]

[[rules]]
match = "^error$"
[[rules.replies]]
steps = [{ text = "so far" }, { error = "auth", message = "The key of play is missing. Set PLAY_KEY." }]

[[rules]]
match = "^broken call$"
[[rules.replies]]
steps = [
    { call = "create_file", arguments = { path = "broken.txt", content = "x" } },
    { error = "stream_broke" },
]

[[rules]]
match = "^loop$"
repeat = true
[[rules.replies]]
steps = [{ call = "glob", arguments = { pattern = "*" } }]

[[rules]]
match = "^nonsense$"
[[rules.replies]]
steps = [
    { call = "levitate", arguments = { height = 3 } },
    { call = "read_file", raw = '{"path":' },
    { call = "read_file", raw = '[]' },
    { call = "read_file", arguments = { path = 5 } },
    { call = "update_plan", arguments = { entries = [] } },
]
[[rules.replies]]
steps = [{ text = "Sorry." }]

[[rules]]
match = "^late$"
[[rules.replies]]
steps = [{ text = "a" }, { wait_ms = 60000 }]

[[rules]]
[[rules.replies]]
steps = [{ text = "Well." }]
"""

LIMITS = "[limits]\nmodel_calls = 4\n"


async def session_of(daemon: Daemon, home: Home) -> str:
    await daemon.initialize()
    return await daemon.new_session(home.workspace)


ENDINGS = {
    "length": ("max_tokens", "half a sen"),
    "half a call": ("max_tokens", ""),
    "refusal": ("refusal", ""),
    "anything": ("end_turn", "Well."),
}


async def test_endings_that_are_no_failures(tmp_path):
    home = Home.make(tmp_path, script=SCRIPT)
    async with running(home) as daemon:
        session = await session_of(daemon, home)
        for prompt, (stop_reason, text) in ENDINGS.items():
            turn = await daemon.prompt(session, prompt)
            assert await turn.ended() == stop_reason, prompt
            assert turn.text == text, prompt
            assert {call["status"] for call in turn.calls.values()} <= {"failed", "cancelled"}
    assert not (home.workspace / "half.txt").exists()


async def test_a_failure_is_told_in_one_sentence_and_marked_on_the_idle(tmp_path):
    home = Home.make(tmp_path, script=SCRIPT)
    async with running(home) as daemon:
        session = await session_of(daemon, home)
        turn = await daemon.prompt(session, "error")
        assert await turn.ended() == "_term2_error"
        *_, message, idle = [
            u for u in turn.updates if u["sessionUpdate"] in {"agent_message", "state_update"}
        ]
        sentence = "The key of play is missing. Set PLAY_KEY."
        assert [block["text"] for block in message["content"]] == [sentence]
        error = idle["_meta"]["term2"]["error"]
        assert error == {"code": "provider_auth", "message": sentence}
        assert turn.text == "so far" + sentence
        # The session goes on.
        assert await (await daemon.prompt(session, "anything")).ended() == "end_turn"
    assert "provider_auth" in daemon.stderr or "PLAY_KEY" in daemon.stderr


async def test_a_call_of_a_reply_that_broke_off_is_not_run(tmp_path):
    home = Home.make(tmp_path, script=SCRIPT)
    async with running(home) as daemon:
        turn = await daemon.prompt(await session_of(daemon, home), "broken call")
        assert await turn.ended() == "_term2_error"
        assert "completed" not in {call["status"] for call in turn.calls.values()}
    assert not (home.workspace / "broken.txt").exists()


async def test_the_limit_of_model_calls_ends_the_turn(tmp_path):
    home = Home.make(tmp_path)
    home.play(SCRIPT, LIMITS)
    async with running(home) as daemon:
        turn = await daemon.prompt(await session_of(daemon, home), "loop")
        assert await turn.ended() == "max_turn_requests"
        assert len(turn.calls) <= 4
        assert {call["status"] for call in turn.calls.values()} <= {"completed", "failed"}


async def test_a_model_that_repeats_itself_is_stopped_at_the_sixth_call(tmp_path):
    home = Home.make(tmp_path, script=SCRIPT)
    async with running(home) as daemon:
        turn = await daemon.prompt(await session_of(daemon, home), "loop")
        assert await turn.ended() == "max_turn_requests"
        assert 5 <= len(turn.calls) <= 6
        assert [call["status"] for call in turn.calls.values()][:2] == ["completed"] * 2


async def test_calls_that_make_no_sense_fail_each_by_itself(tmp_path):
    home = Home.make(tmp_path, script=SCRIPT)
    async with running(home) as daemon:
        turn = await daemon.prompt(await session_of(daemon, home), "nonsense")
        assert await turn.ended() == "end_turn"
        assert turn.text == "Sorry."
        statuses = [(call["name"], call["status"]) for call in turn.calls.values()]
        assert statuses == [
            ("levitate", "failed"),
            ("read_file", "failed"),
            ("read_file", "failed"),
            ("read_file", "failed"),
            ("update_plan", "completed"),
        ]
        kinds = [call["kind"] for call in turn.calls.values()]
        assert kinds == ["other", "read", "read", "read", "think"]


async def test_a_cancel_is_quick_whatever_the_model_does(tmp_path):
    home = Home.make(tmp_path, script=SCRIPT)
    async with running(home) as daemon:
        session = await session_of(daemon, home)
        turn = await daemon.begin(session, "late")
        await turn.seen("agent_message_chunk")
        await daemon.cancel(session)
        with trio.fail_after(2):
            assert await turn.ended() == "cancelled"
        assert turn.text == "a"


# The runtime of the embedded model is a provider too, where it is installed.
NO_EMBEDDED_MODEL = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "xllamacpp":
            raise ModuleNotFoundError(name, name=name)

sys.meta_path.insert(0, Hidden())
"""


async def test_without_any_provider_it_starts_and_a_prompt_says_what_to_set(tmp_path):
    home = Home.make(tmp_path, script=None)
    (tmp_path / "hide").mkdir()
    (tmp_path / "hide" / "sitecustomize.py").write_text(NO_EMBEDDED_MODEL)
    async with started(home, environment={"PYTHONPATH": str(tmp_path / "hide")}) as daemon:
        turn = await daemon.prompt(await session_of(daemon, home), "hello")
        assert await turn.ended() == "_term2_error"
        (message,) = turn.of("agent_message")
        assert "_API_KEY" in message["content"][0]["text"]


async def test_a_client_that_hangs_slows_the_turn_and_can_still_cancel_it(tmp_path):
    home = Home.make(tmp_path, script="bench")
    async with running(home) as daemon:
        session = await session_of(daemon, home)
        turn = await daemon.begin(session, "bench flood 500")
        await turn.seen("agent_message_chunk")
        daemon.stop_reading()
        await trio.sleep(0.5)
        size = resident_kib(daemon)
        await trio.sleep(0.5)
        assert resident_kib(daemon) - size < 4096
        await daemon.cancel(session)
        listing = await daemon.call("session/list", {})
        await trio.sleep(0.2)
        daemon.go_on_reading()
        with trio.fail_after(10):
            assert await turn.ended() == "cancelled"
        assert len((await listing.result())["sessions"]) == 1


def resident_kib(daemon: Daemon) -> int:
    with open(f"/proc/{daemon.process.pid}/status") as status:
        return int(next(line.split()[1] for line in status if line.startswith("VmRSS:")))


async def test_a_hundred_sessions_are_listed_in_pages_that_lose_and_repeat_nothing(tmp_path):
    home = Home.make(tmp_path)
    async with running(home) as daemon:
        made = [await session_of(daemon, home)]
        made += [await daemon.new_session(home.workspace) for _ in range(99)]
        listed: list[str] = []
        cursor: dict[str, str] = {}
        while True:
            page = await daemon.request("session/list", cursor)
            listed += [entry["sessionId"] for entry in page["sessions"]]
            if "nextCursor" not in page:
                break
            assert len(page["sessions"]) == 50
            cursor = {"cursor": page["nextCursor"]}
            # One more, in between: it is newer than what is still to come.
            await daemon.new_session(home.workspace)
        assert sorted(listed) == sorted(made)
