"""What a prompt that begins with a command does: term2 answers it as a turn like any other on the wire, no
model is told of it, a replay shows it as it was typed, and what only looks like a command goes to the model.

Reading a command is a pure function; everything else is done by real sessions behind the full profile of v2,
with a scripted model.
"""

from contextlib import asynccontextmanager

import pytest
import trio

from term2_acp.agent.told import MODE_TOLD, SUMMARY
from term2_acp.config import ModelSettings, ProviderSettings
from term2_acp.domain import events as ev
from term2_acp.domain.content import ResourceLink, Text
from term2_acp.domain.options import Mode
from term2_acp.domain.usage import NO_CALLS, Prices, Usage
from term2_acp.providers.base import ToolAnswered
from term2_acp.session.commands import COMMANDS, command_of
from term2_acp.store import StoreFailed
from term2_acp.store.errors import FULL
from tests.kit.choices import NOWHERE, offering, scripted
from tests.kit.fold import fold
from tests.kit.indoors import indoors

SCRIPT = """
[[rules]]
match = "(?s)about to be cut here.*keep the names"
[[rules.replies]]
steps = [{ text = "Names: Anna." }]
[[rules]]
match = "about to be cut here"
[[rules.replies]]
steps = [{ text = "We" }, { hang = true }]
[[rules]]
match = "^count$"
[[rules.replies]]
steps = [{ text = "One." }, { usage = [1200, 34] }]
[[rules]]
match = "^edit$"
[[rules.replies]]
steps = [{ call = "create_file", arguments = { path = "new.txt", content = "x" } }]
[[rules.replies]]
steps = [{ text = "Done." }]
[[rules]]
[[rules.replies]]
steps = [{ text = "Hello." }]
"""


@asynccontextmanager
async def opened(root, **more):
    """A daemon with a session, and its id."""
    async with indoors(root, SCRIPT, profile="full", **more) as daemon:
        await daemon.editor.initialize()
        yield daemon, await daemon.editor.new_session(daemon.workspace)


async def said(daemon, session_id, prompt):
    """What is said to a prompt that ends well."""
    turn = await daemon.editor.prompt(session_id, prompt)
    assert await turn.ended() == "end_turn"
    return turn.text


def told_to_model(daemon, session_id):
    messages = daemon.session(session_id).transcript.messages()
    return [message.text for message in messages if not isinstance(message, ToolAnswered)]


async def reopened(daemon, session_id):
    """Close the session and open it again: what the client is shown of it."""
    await daemon.editor.request("session/close", {"sessionId": session_id})
    start = len(daemon.editor.frames)
    params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
    await daemon.editor.request("session/resume", params)
    return daemon.editor.updates(session_id, start)


# -- reading -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "name", "words", "to_model"),
    [
        ("/plan", "plan", "", False),
        ("  \n/plan  fix\nit ", "plan", "fix\nit", True),
        ("/plan\nfix it", "plan", "fix it", True),
        ("/compact keep the names", "compact", "keep the names", False),
        ("/model lab/sage", "model", "lab/sage", False),
        ("/usage please", "usage", "please", False),
        ("/permissions reset", "permissions", "reset", False),
        ("/help ", "help", "", False),
    ],
)
def test_a_command_is_read(text, name, words, to_model):
    command = command_of([Text(text)])
    assert (command.name, command.words, command.to_model) == (name, words, to_model)
    if to_model:
        assert text[command.length :].strip() == words


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "/usr/bin",
        "/plan/b",
        "/plans",
        "/Plan",
        "/plan: x",
        "plan",
        "a /plan",
        "//plan",
        "/ plan",
        "/new",
    ],
)
def test_what_is_no_command_is_none(text):
    assert command_of([Text(text)]) is None


def test_the_first_text_counts_and_no_other():
    link = ResourceLink("a", "file:///a")
    assert command_of([Text("look at"), Text("/help")]) is None
    assert command_of([link, Text("/help")]).name == "help"
    assert command_of([link]) is None
    # What is attached may be what there is to plan.
    assert command_of([Text("/plan"), link]).to_model
    assert command_of([Text("/plan"), Text(" "), Text("it")]).to_model
    assert not command_of([Text("/plan"), Text("\n ")]).to_model
    assert not command_of([Text("/usage"), link]).to_model


def test_there_are_six_and_each_says_what_it_does():
    names = [command.name for command in COMMANDS]
    assert names == ["plan", "compact", "model", "usage", "permissions", "help"]
    assert all(command.description for command in COMMANDS)


# -- on the wire ---------------------------------------------------------------------------------------


async def test_an_answer_is_a_turn_like_any_other_and_no_model_is_told(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        turn = await daemon.editor.prompt(session_id, " /help")
        assert [update["sessionUpdate"] for update in turn.updates] == [
            "state_update",
            "user_message",
            "agent_message",
            "state_update",
        ]
        assert turn.of("user_message")[0]["content"] == [{"type": "text", "text": " /help"}]
        assert await turn.ended() == "end_turn"
        assert all(f"`/{command.name}" in turn.text for command in COMMANDS)
        assert told_to_model(daemon, session_id) == []
        assert await said(daemon, session_id, "/usr/bin is what?") == "Hello."
        assert told_to_model(daemon, session_id) == ["/usr/bin is what?", "Hello."]


async def test_it_is_shown_again_as_it_was_typed_and_told_as_before(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        for prompt in ("/help", "/plan  count", "/usage", "hi"):
            await daemon.editor.prompt(session_id, prompt)
        live = fold(daemon.editor.updates(session_id))["things"]
        told = told_to_model(daemon, session_id)
        assert told == [MODE_TOLD[Mode.PLAN], "count", "One.", "hi", "Hello."]
        again = fold(await reopened(daemon, session_id))["things"]
        assert again == live
        assert told_to_model(daemon, session_id) == told


async def test_a_session_is_not_named_by_a_command(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        turn = await daemon.editor.prompt(session_id, "/help")
        assert turn.of("session_info_update") == []
        turn = await daemon.editor.prompt(session_id, "/plan  the new house")
        assert [update["title"] for update in turn.of("session_info_update")] == ["the new house"]
        (listed,) = (await daemon.editor.request("session/list", {}))["sessions"]
        assert listed["title"] == "the new house"


async def test_without_commands_all_of_it_is_the_models(tmp_path, autojump_clock):
    async with indoors(tmp_path, SCRIPT) as daemon:
        session_id, turn = await daemon.begin("/help")
        await turn.ended()
        assert turn.text == "Hello."
        assert told_to_model(daemon, session_id)[0] == "/help"


async def test_a_command_that_cannot_be_kept_is_refused_and_leaves_no_trace(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        store = daemon.session(session_id).parts.store
        append = store.append

        async def refusing(session_id, events):
            if any(isinstance(event, ev.UserMessage) for event in events):
                raise StoreFailed.because(FULL)
            await append(session_id, events)

        store.append = refusing
        start = len(daemon.editor.frames)
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": "/help"}]}
        assert (await daemon.editor.refused("session/prompt", params)).code == -32603
        assert daemon.editor.updates(session_id, start) == []
        store.append = append
        assert await said(daemon, session_id, "hi") == "Hello."


# -- /plan ---------------------------------------------------------------------------------------------


async def test_plan_sets_the_mode_says_so_and_goes_on_with_what_follows(tmp_path):
    async with opened(tmp_path) as (daemon, session_id):
        start = len(daemon.editor.frames)
        turn = await daemon.editor.prompt(session_id, "/plan edit")
        assert turn.text == "Done."
        (call,) = turn.calls.values()
        assert call["status"] == "failed"
        assert not (daemon.workspace / "new.txt").exists()
        kinds = [update["sessionUpdate"] for update in daemon.editor.updates(session_id, start)]
        assert kinds[:3] == ["config_option_update", "state_update", "user_message"]
        assert turn.of("user_message")[0]["content"] == [{"type": "text", "text": "/plan edit"}]
        assert told_to_model(daemon, session_id)[:2] == [MODE_TOLD[Mode.PLAN], "edit"]
        start = len(daemon.editor.frames)
        await daemon.editor.prompt(session_id, "/plan count")
        updates = daemon.editor.updates(session_id, start)
        assert "config_option_update" not in [update["sessionUpdate"] for update in updates]


async def test_plan_alone_is_a_sentence(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        assert (await said(daemon, session_id, "/plan")).startswith("Plan mode is on")
        assert daemon.session(session_id).options.mode is Mode.PLAN
        await daemon.editor.prompt(session_id, "hi")
        assert told_to_model(daemon, session_id) == [MODE_TOLD[Mode.PLAN], "hi", "Hello."]
        await reopened(daemon, session_id)
        assert daemon.session(session_id).options.mode is Mode.PLAN


@pytest.mark.parametrize("prompt", ["/plan", "/plan edit"])
async def test_a_mode_that_cannot_be_kept_ends_the_turn_that_was_to_change_nothing(tmp_path, prompt):
    async with opened(tmp_path) as (daemon, session_id):
        store = daemon.session(session_id).parts.store
        append = store.append

        async def refusing(session_id, events):
            if any(isinstance(event, ev.OptionChosen) for event in events):
                raise StoreFailed.because(FULL)
            await append(session_id, events)

        store.append = refusing
        turn = await daemon.editor.prompt(session_id, prompt)
        assert await turn.ended() == "_term2_error"
        assert "disk" in turn.text
        assert "Plan mode is on" not in turn.text
        assert daemon.session(session_id).options.mode is Mode.STANDARD
        assert not (daemon.workspace / "new.txt").exists()
        assert await said(daemon, session_id, "hi") == "Hello."


# -- /compact ------------------------------------------------------------------------------------------


async def test_compact_puts_a_summary_in_the_place_of_what_was_said(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        assert await said(daemon, session_id, "/compact") == "There is nothing to compact yet."
        await daemon.editor.prompt(session_id, "hi")
        turn = await daemon.editor.prompt(session_id, "/compact keep the names")
        assert (
            turn.text
            == "The conversation is compacted: from here on the model is told a summary in place of it."
        )
        assert told_to_model(daemon, session_id) == [f"{SUMMARY}Names: Anna."]
        assert await said(daemon, session_id, "again") == "Hello."
        await reopened(daemon, session_id)
        assert told_to_model(daemon, session_id) == [f"{SUMMARY}Names: Anna.", "again", "Hello."]


async def test_a_cancel_ends_a_compaction(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        await daemon.editor.prompt(session_id, "hi")
        turn = await daemon.editor.begin(session_id, "/compact")
        await turn.seen("compaction_update")
        await daemon.editor.cancel(session_id)
        assert await turn.ended() == "cancelled"
        assert turn.of("agent_message") == []
        assert told_to_model(daemon, session_id) == ["hi", "Hello."]


# -- /model --------------------------------------------------------------------------------------------

MORE = {
    "two": ProviderSettings(
        "openai-compatible",
        base_url=NOWHERE,
        models=("sage", "odd``\u202ename"),
        catalog={"sage": ModelSettings(efforts=("low",))},
    )
}


async def test_model_shows_what_is_in_force_and_what_there_is(tmp_path, autojump_clock):
    async with opened(tmp_path, offers=offering(MORE)) as (daemon, session_id):
        assert await said(daemon, session_id, "/model") == (
            "Model: `lab/plain`, effort: default\n\n"
            "- lab: `plain`, `sage`\n"
            "- two: ``` odd``\\u202ename ```, `sage`\n\n"
            "`/model NAME` chooses one."
        )


async def test_model_chooses_by_value_by_name_and_back(tmp_path, autojump_clock):
    offers = offering({"anna": scripted(tmp_path, "anna"), **MORE})
    async with opened(tmp_path, offers=offers) as (daemon, session_id):
        turn = await daemon.editor.prompt(session_id, "/model anna/scripted")
        assert turn.text == "Model: `anna/scripted`"
        assert len(turn.of("config_option_update")) == 1
        assert await said(daemon, session_id, "hi") == "I am anna."
        assert await said(daemon, session_id, "/model plain") == "Model: `lab/plain`, effort: default"
        await said(daemon, session_id, "/model scripted")
        assert await said(daemon, session_id, "/model default") == "Model: `lab/plain`, effort: default"
        assert daemon.session(session_id).options.model() is None
        assert await said(daemon, session_id, "hi") == "Hello."


async def test_model_says_that_the_effort_is_another_one_now(tmp_path, autojump_clock):
    async with opened(tmp_path, offers=offering(MORE)) as (daemon, session_id):
        await daemon.editor.prompt(session_id, "/model lab/sage")
        await daemon.session(session_id).chooser.choose("effort", "high")
        assert await said(daemon, session_id, "/model two/sage") == (
            "Model: `two/sage`, effort: default\n\nThe effort was high, and is default with this model."
        )


async def test_model_names_what_is_near_and_what_is_not_plain(tmp_path, autojump_clock):
    async with opened(tmp_path, offers=offering(MORE)) as (daemon, session_id):
        assert await said(daemon, session_id, "/model sage") == (
            "`sage` is a model of several providers: `lab/sage`, `two/sage`. Say which."
        )
        near = await said(daemon, session_id, "/model lab/sages")
        assert near.startswith("There is no model `lab/sages`. Near to it: `lab/sage`")
        far = await said(daemon, session_id, "/model xyzzy")
        assert far == "There is no model `xyzzy`. `/model` shows those that there are."
        assert daemon.session(session_id).options.model() is None


async def test_without_models_to_choose_it_says_so(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        assert await said(daemon, session_id, "/model") == "No model can be chosen here."


# -- /usage --------------------------------------------------------------------------------------------


async def test_usage_says_what_is_known_and_that_the_rest_is_not(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        assert await said(daemon, session_id, "/usage") == "No model was called in this session yet."
        await daemon.editor.prompt(session_id, "hi")
        assert await said(daemon, session_id, "/usage") == (
            "This session so far:\n\n"
            "- Calls of the model: 1\n"
            "- Tokens: not known, the model server does not count them\n"
            "- Cost: not known"
        )
        await daemon.editor.prompt(session_id, "count")
        counted = (
            "This session so far:\n\n"
            "- Calls of the model: 2\n"
            "- Tokens read: 1,200 (0 from a cache, 0 put into one)\n"
            "- Tokens written: 34 (0 of them thoughts)\n"
            "- Cost: not known\n"
            "- Context: 1,234 of 32,768 tokens (3 %)\n\n"
            "Not counted, and in no sum: 1 of the calls."
        )
        assert await said(daemon, session_id, "/usage") == counted
        await reopened(daemon, session_id)
        assert await said(daemon, session_id, "/usage") == counted


async def test_usage_has_the_cost_where_it_is_known(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        meter = daemon.session(session_id).meter
        tokens = Usage(10_000, 500, 8_000, 1_000, 200)
        cost = Prices(3_000_000, 15_000_000).of(tokens)
        meter.apply(ev.ReplyEnded("lab", "m", usage=tokens, cost_pico_usd=cost))
        meter.apply(ev.Idle(usage=NO_CALLS.counted(tokens, cost)))
        text = await said(daemon, session_id, "/usage")
        assert "- Tokens read: 10,000 (8,000 from a cache, 1,000 put into one)" in text
        assert "- Tokens written: 500 (200 of them thoughts)" in text
        assert "- Cost: $0.0375" in text
        assert "Not counted" not in text


# -- /permissions --------------------------------------------------------------------------------------


async def test_permissions_shows_the_grants_and_forgets_them(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        text = await said(daemon, session_id, "/permissions")
        assert text.startswith("Mode: `standard`\n\n- Not asked: reading and editing in the workspace")
        assert text.endswith("Nothing is allowed beyond that.")
        await daemon.editor.prompt(session_id, "hi")
        access = daemon.session(session_id).hands.access
        access.allow_edit_files.add("/a/b.txt")
        access.allow_edit_folders.add("/c")
        access.allow_read_folders |= {"/z", "/d\n- edit below `/`"}
        text = await said(daemon, session_id, "/permissions")
        assert text.partition("Allowed for this session:\n\n")[2] == (
            "- edit `/a/b.txt`\n"
            "- edit below `/c`\n"
            "- read below `` /d\\u000a- edit below `/` ``\n"
            "- read below `/z`\n\n"
            "`/permissions reset` forgets it."
        )
        assert "nothing here" in await said(daemon, session_id, "/permissions reset all")
        assert access.allow_edit_files == {"/a/b.txt"}
        assert "is forgotten" in await said(daemon, session_id, "/permissions reset")
        assert (await said(daemon, session_id, "/permissions")).endswith("Nothing is allowed beyond that.")


async def test_permissions_goes_by_the_mode(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        await daemon.editor.prompt(session_id, "/plan")
        text = await said(daemon, session_id, "/permissions")
        assert text.startswith("Mode: `plan`")
        assert "- Refused: every edit." in text


# -- cancelling and closing ----------------------------------------------------------------------------


async def test_a_cancel_that_is_read_beside_a_command_ends_it_cancelled(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id):
        call = daemon.editor.prepare("session/prompt")
        params = {"sessionId": session_id, "prompt": [{"type": "text", "text": "/help"}]}
        cancel = {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session_id}}
        await daemon.editor.send_together(daemon.editor.request_frame(call, params), cancel)
        await call.result()
        idle = await daemon.editor.update(session_id, lambda update: update.get("stopReason"))
        assert idle["stopReason"] == "cancelled"
        with trio.fail_after(5):
            await daemon.editor.request("session/close", {"sessionId": session_id})
