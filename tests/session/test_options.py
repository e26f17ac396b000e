"""What a person sets of a session: it holds at once and in the order in which it was read, during a turn and
between turns; the journal keeps it, and what it cannot keep is taken back without a trace in any turn.

The sessions are real ones behind the full profile of v2, with a scripted model; what they may choose of
models comes from real settings.
"""

from contextlib import asynccontextmanager

import pytest
import trio

from term2_acp.agent.told import MODE_TOLD
from term2_acp.config import Config, ProviderSettings
from term2_acp.domain import events as ev
from term2_acp.domain.effort import Effort
from term2_acp.domain.options import Mode, OptionId
from term2_acp.domain.permission import Access, Action
from term2_acp.providers.base import ToolAnswered
from term2_acp.providers.choosing.choice import Undecided
from term2_acp.providers.servers.known import known_providers
from term2_acp.session.choosing import MOST_WAITING
from term2_acp.session.menus import MOST_MODELS
from term2_acp.session.options import UnknownOption, UnknownValue
from term2_acp.store import StoreFailed
from term2_acp.store.errors import FULL
from term2_acp.tools.base import Prepared
from tests.kit.choices import NOWHERE, offering, scripted
from tests.kit.indoors import Probe, indoors
from tests.kit.wire import Refused

SCRIPT = """
[[rules]]
match = "^go$"
[[rules.replies]]
steps = [{ call = "command", arguments = { name = "a" } }]
[[rules.replies]]
steps = [{ text = "Done." }]
[[rules]]
match = "^hold$"
[[rules.replies]]
steps = [{ text = "w" }, { hang = true }]
[[rules]]
[[rules.replies]]
steps = [{ text = "Hello." }]
"""


class Command(Probe):
    """A command, as far as the policy is concerned."""

    name = "command"

    async def prepare(self, arguments, context):
        await trio.lowlevel.checkpoint()
        return Prepared(actions=(Action(Access.COMMAND, description="Runs it."),), work=arguments)


@asynccontextmanager
async def opened(root, **more):
    """A daemon with a session, its id, and the command that its model may run."""
    command = Command()
    tools = {"command": command}
    async with indoors(root, SCRIPT, profile="full", more_tools=tools, **more) as daemon:
        await daemon.editor.initialize()
        yield daemon, await daemon.editor.new_session(daemon.workspace), command


def setting(session_id, value, option="mode"):
    return {"sessionId": session_id, "configId": option, "type": "id", "value": value}


def prompting(session_id, text):
    return {"sessionId": session_id, "prompt": [{"type": "text", "text": text}]}


async def set_to(daemon, session_id, value, option="mode"):
    """Set an option over the wire: the values that are current then."""
    result = await daemon.editor.request("session/set_config_option", setting(session_id, value, option))
    return current(result["configOptions"])


def current(options):
    return {option["configId"]: option["currentValue"] for option in options}


async def together(editor, *requests):
    """Send requests that are read in one piece: their calls."""
    calls = [(editor.prepare(method), params) for method, params in requests]
    await editor.send_together(*(editor.request_frame(call, params) for call, params in calls))
    return [call for call, _ in calls]


def told_to_model(daemon, session_id):
    messages = daemon.session(session_id).transcript.messages()
    return [message.text for message in messages if not isinstance(message, ToolAnswered)]


async def kept(daemon, session_id):
    """What the journal has of options: ids and values."""
    store = await daemon.core.store()
    found = []
    async with store.journal(session_id) as journal:
        while events := await journal.receive():
            found += [(e.option_id, e.value) for e in events if isinstance(e, ev.OptionChosen)]
    return found


def failing(store, fails):
    """Have the journal refuse every group of events that ``fails`` says yes to."""
    append = store.append

    async def refusing(session_id, events):
        if any(fails(event) for event in events):
            await trio.lowlevel.checkpoint()
            raise StoreFailed.because(FULL)
        await append(session_id, events)

    store.append = refusing


def is_choice(event):
    return isinstance(event, ev.OptionChosen)


# -- the mode ------------------------------------------------------------------------------------------


async def test_a_mode_is_kept_and_holds_when_the_session_is_opened_again(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id, _command):
        assert daemon.session(session_id).options.mode is Mode.STANDARD
        assert await set_to(daemon, session_id, "plan") == {"mode": "plan"}
        assert await kept(daemon, session_id) == [(OptionId.MODE, "plan")]
        await daemon.editor.request("session/close", {"sessionId": session_id})
        params = {"sessionId": session_id, "cwd": str(daemon.workspace)}
        result = await daemon.editor.request("session/resume", params)
        assert current(result["configOptions"]) == {"mode": "plan"}
        await daemon.editor.prompt(session_id, "hi")
        assert told_to_model(daemon, session_id) == [MODE_TOLD[Mode.PLAN], "hi", "Hello."]
        other = await daemon.editor.new_session(daemon.workspace)
        assert daemon.session(other).options.mode is Mode.STANDARD


@pytest.mark.parametrize("mode_first", [True, False])
async def test_a_mode_that_is_read_beside_a_prompt_rules_its_turn(tmp_path, autojump_clock, mode_first):
    """Every call is decided under the mode in force when it is about to run; the model is told of a mode that
    was set before its prompt."""
    async with opened(tmp_path) as (daemon, session_id, command):
        requests = [
            ("session/set_config_option", setting(session_id, "ask")),
            ("session/prompt", prompting(session_id, "go")),
        ]
        calls = await together(daemon.editor, *(requests if mode_first else reversed(requests)))
        ask = await daemon.editor.next_ask()
        assert command.ran == []
        await daemon.editor.choose(ask, "approve")
        for call in calls:
            await call.result()
        await daemon.editor.update(session_id, lambda update: update.get("stopReason") == "end_turn")
        assert command.ran == ["a"]
        await daemon.editor.prompt(session_id, "hi")
        told = told_to_model(daemon, session_id)
        assert told.index(MODE_TOLD[Mode.ASK]) == told.index("go" if mode_first else "hi") - 1
        assert told.count(MODE_TOLD[Mode.ASK]) == 1


async def test_the_mode_that_was_read_last_rules(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id, command):
        method = "session/set_config_option"
        await together(
            daemon.editor,
            (method, setting(session_id, "ask")),
            (method, setting(session_id, "standard")),
            ("session/prompt", prompting(session_id, "go")),
        )
        await daemon.editor.update(session_id, lambda update: update.get("stopReason") == "end_turn")
        assert command.ran == ["a"]
        assert told_to_model(daemon, session_id)[0] == "go"


async def test_an_ask_that_is_open_when_the_mode_changes_is_stale(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id, command):
        await set_to(daemon, session_id, "ask")
        turn = await daemon.editor.begin(session_id, "go")
        ask = await daemon.editor.next_ask()
        await set_to(daemon, session_id, "ask")
        assert daemon.session(session_id).hands.broker.revision == 0, "it is the mode that it was"
        await set_to(daemon, session_id, "standard")
        await daemon.editor.choose(ask, "approve")
        assert await turn.ended() == "cancelled"
        assert command.ran == []


async def test_what_is_set_during_a_turn_is_answered_during_it(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id, _command):
        turn = await daemon.editor.begin(session_id, "hold")
        await turn.seen("agent_message_chunk")
        assert await set_to(daemon, session_id, "plan") == {"mode": "plan"}
        assert not [update for update in turn.updates if update.get("stopReason")]
        assert [update["sessionUpdate"] for update in turn.updates][-1] == "config_option_update"
        await daemon.editor.cancel(session_id)
        assert await turn.ended() == "cancelled"


# -- many, and too many --------------------------------------------------------------------------------


async def test_two_hundred_changes_before_the_pump_runs_are_answered_in_order(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id, _command):
        values = [("standard", "ask", "plan")[number % 3] for number in range(200)]
        method = "session/set_config_option"
        start = len(daemon.editor.frames)
        calls = await together(daemon.editor, *((method, setting(session_id, value)) for value in values))
        answers = [current((await call.result())["configOptions"])["mode"] for call in calls]
        assert answers == values
        shown = daemon.editor.updates(session_id, start)
        assert [current(update["configOptions"])["mode"] for update in shown] == values
        assert daemon.session(session_id).options.mode == values[-1]
        assert await kept(daemon, session_id) == [("mode", value) for value in values]


async def test_more_than_may_wait_are_refused_and_change_nothing(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id, _command):
        session = daemon.session(session_id)
        done, refused = [], []
        for _ in range(MOST_WAITING):
            session.set_option_nowait("mode", "ask", done.append, refused.append)
        assert (done, refused) == ([], [])
        session.set_option_nowait("mode", "plan", done.append, refused.append)
        assert [failure.code for failure in refused] == ["busy"]
        assert session.options.mode is Mode.ASK
        await session.reached()
        assert len(done) == MOST_WAITING
        assert await set_to(daemon, session_id, "plan") == {"mode": "plan"}


# -- a journal that cannot take it ---------------------------------------------------------------------


async def test_a_change_that_cannot_be_kept_between_turns_is_taken_back(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id, command):
        await daemon.editor.prompt(session_id, "hi")
        failing(daemon.session(session_id).parts.store, is_choice)
        start = len(daemon.editor.frames)
        error = await daemon.editor.refused("session/set_config_option", setting(session_id, "ask"))
        assert error.code == -32603
        assert "disk" in error.message
        await daemon.session(session_id).reached()
        (update,) = daemon.editor.updates(session_id, start)
        assert current(update["configOptions"]) == {"mode": "standard"}
        assert daemon.session(session_id).options.mode is Mode.STANDARD
        turn = await daemon.editor.prompt(session_id, "go")
        assert (await turn.ended(), turn.text, command.ran) == ("end_turn", "Done.", ["a"])
        assert MODE_TOLD[Mode.ASK] not in told_to_model(daemon, session_id)


async def test_a_change_that_cannot_be_kept_fails_no_turn_that_is_open(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id, _command):
        failing(daemon.session(session_id).parts.store, is_choice)
        turn = await daemon.editor.begin(session_id, "hold")
        await turn.seen("agent_message_chunk")
        await daemon.editor.refused("session/set_config_option", setting(session_id, "ask"))
        await daemon.editor.cancel(session_id)
        assert await turn.ended() == "cancelled"
        assert "error" not in turn.updates[-1]["_meta"]["term2"]
        assert turn.of("agent_message") == []


async def test_changes_and_turns_in_one_group_stand_and_fall_each_by_itself(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id, _command):
        store = daemon.session(session_id).parts.store
        failing(store, lambda event: is_choice(event) and event.value == "ask")
        method = "session/set_config_option"
        calls = await together(
            daemon.editor,
            (method, setting(session_id, "plan")),
            (method, setting(session_id, "ask")),
            ("session/prompt", prompting(session_id, "hi")),
            (method, setting(session_id, "standard")),
            (method, setting(session_id, "ask")),
        )
        answers = []
        for call in calls:
            try:
                answers.append(await call.result())
            except Refused as refused:
                answers.append(refused.code)
        assert [answers[1], answers[4]] == [-32603, -32603]
        assert current(answers[3]["configOptions"]) == {"mode": "standard"}
        await daemon.editor.update(session_id, lambda update: update.get("stopReason") == "end_turn")
        assert await kept(daemon, session_id) == [("mode", "plan"), ("mode", "standard")]
        assert daemon.session(session_id).options.mode is Mode.STANDARD
        shown = [u for u in daemon.editor.updates(session_id) if u["sessionUpdate"] == "config_option_update"]
        assert current(shown[-1]["configOptions"]) == {"mode": "standard"}


async def test_what_later_changes_showed_is_put_right_when_an_earlier_one_falls(tmp_path, autojump_clock):
    async with opened(tmp_path, offers=offering()) as (daemon, session_id, _command):
        store = daemon.session(session_id).parts.store
        failing(store, lambda event: is_choice(event) and event.value == "plan")
        method = "session/set_config_option"
        bad, good = await together(
            daemon.editor,
            (method, setting(session_id, "plan")),
            (method, setting(session_id, "lab/sage", "model")),
        )
        with pytest.raises(Refused):
            await bad.result()
        assert current((await good.result())["configOptions"])["model"] == "lab/sage"
        await daemon.session(session_id).reached()
        (*_, last) = daemon.editor.updates(session_id)
        assert current(last["configOptions"]) == {
            "mode": "standard",
            "model": "lab/sage",
            "effort": "default",
        }


async def test_a_turn_that_failed_takes_no_change_along(tmp_path, autojump_clock):
    """The journal refuses what the model says, and the turn is over; what is set meanwhile is kept."""
    async with opened(tmp_path) as (daemon, session_id, _command):
        turn = await daemon.editor.begin(session_id, "hold")
        session = daemon.session(session_id)
        await turn.seen("agent_message_chunk")
        refuse = ev.AgentMessageChunk
        failing(session.parts.store, lambda event: isinstance(event, refuse))
        session.speech.emit_nowait([ev.AgentMessageChunk("msg_x", "lost")])
        assert await set_to(daemon, session_id, "ask") == {"mode": "ask"}
        assert await turn.ended() == "_term2_error"
        refuse = ()
        assert await set_to(daemon, session_id, "plan") == {"mode": "plan"}
        assert (await daemon.editor.prompt(session_id, "hi")).text == "Hello."
        assert await kept(daemon, session_id) == [("mode", "ask"), ("mode", "plan")]


@pytest.mark.parametrize("prompt", ["go", "/plan go"])
async def test_no_turn_goes_on_in_another_mode_than_it_was_admitted_in(tmp_path, autojump_clock, prompt):
    """The mode was set before its prompt, and the journal cannot take it but takes the prompt."""
    async with opened(tmp_path) as (daemon, session_id, command):
        once = [True]
        failing(daemon.session(session_id).parts.store, lambda event: is_choice(event) and once.pop())
        change, sent = await together(
            daemon.editor,
            ("session/set_config_option", setting(session_id, "plan")),
            ("session/prompt", prompting(session_id, prompt)),
        )
        with pytest.raises(Refused):
            await change.result()
        await sent.result()
        idle = await daemon.editor.update(session_id, lambda update: update.get("state") == "idle")
        assert idle["_meta"]["term2"]["error"]["code"] == "store_full"
        assert (command.ran, daemon.session(session_id).options.mode) == ([], Mode.STANDARD)
        turn = await daemon.editor.prompt(session_id, "go")
        assert (turn.text, command.ran) == ("Done.", ["a"])


# -- the end -------------------------------------------------------------------------------------------


async def test_a_session_that_is_closing_refuses(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id, _command):
        session = daemon.session(session_id)
        session.begin_close_nowait()
        done, refused = [], []
        session.set_option_nowait("mode", "plan", done.append, refused.append)
        assert ([failure.code for failure in refused], done) == (["closed"], [])
        assert session.options.mode is Mode.STANDARD
        await session.close()


async def test_a_session_that_ends_outright_refuses_what_still_waits(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id, _command):
        session = daemon.session(session_id)
        done, refused = [], []
        session.set_option_nowait("mode", "plan", done.append, refused.append)
        session.abandon_nowait()
        await session.over.wait()
        assert ([failure.code for failure in refused], done) == (["closed"], [])


async def test_what_was_set_before_a_close_is_kept(tmp_path, autojump_clock):
    async with opened(tmp_path) as (daemon, session_id, _command):
        change, close = await together(
            daemon.editor,
            ("session/set_config_option", setting(session_id, "plan")),
            ("session/close", {"sessionId": session_id}),
        )
        assert current((await change.result())["configOptions"]) == {"mode": "plan"}
        await close.result()
        assert await kept(daemon, session_id) == [("mode", "plan")]


@pytest.mark.parametrize("outright", [True, False])
async def test_a_client_is_told_once_and_last_that_its_session_ended(tmp_path, autojump_clock, outright):
    async with opened(tmp_path) as (daemon, session_id, _command):
        session = daemon.session(session_id)
        left = []
        session.client.left = lambda gone: left.append((gone, session.over.is_set()))
        session.set_option_nowait("mode", "plan", left.append, left.append)
        if outright:
            session.abandon_nowait()
            await session.over.wait()
        else:
            await session.close()
        assert len(left) == 2, "what was set is answered before"
        assert left[1] == (session_id, True)


# -- what may be set -----------------------------------------------------------------------------------


async def test_what_cannot_be_set_says_what_can(tmp_path, autojump_clock):
    async with opened(tmp_path, offers=offering()) as (daemon, session_id, _command):
        options = daemon.session(session_id).options
        with pytest.raises(UnknownValue, match="there are standard, ask, plan") as value:
            options.set_nowait("mode", "yolo")
        assert value.value.valid == ("standard", "ask", "plan")
        with pytest.raises(UnknownOption) as option:
            options.set_nowait("colour", "red")
        assert option.value.valid == ("mode", "model", "effort")
        with pytest.raises(UnknownValue) as model:
            options.set_nowait("model", "x" * 1000)
        assert len(str(model.value)) < 500
        assert options.waiting == 0


async def test_what_cannot_be_set_is_repeated_without_the_keys_in_it(tmp_path, autojump_clock):
    key = "sk-live-0123456789abcdef"
    async with opened(tmp_path, secrets=(key,), offers=offering()) as (daemon, session_id, _command):
        for option, value in (("model", f"{'x' * 90}{key}"), (key, "x")):
            error = await daemon.editor.refused(
                "session/set_config_option", setting(session_id, value, option)
            )
            assert error.code == -32602
            assert key[:8] not in error.message
            assert "[redacted" in error.message


async def test_of_a_session_that_was_never_shown_the_mode_can_be_set(tmp_path, autojump_clock):
    async with indoors(tmp_path, SCRIPT, offers=offering()) as daemon:
        await daemon.editor.initialize()
        session = daemon.session(await daemon.editor.new_session(daemon.workspace))
        done = []
        session.set_option_nowait("mode", "plan", done.append, done.append)
        with pytest.raises(UnknownOption):
            session.set_option_nowait("model", "lab/sage", done.append, done.append)
        await session.reached()
        ((option,),) = done
        assert (option.option_id, option.current) == (OptionId.MODE, "plan")


# -- models and efforts --------------------------------------------------------------------------------


async def test_the_options_are_shown_whole(tmp_path, autojump_clock):
    async with opened(tmp_path, offers=offering(model="lab/sage", effort="low")) as (daemon, session_id, _c):
        mode, model, effort = await daemon.session(session_id).options.shown()
        assert [choice.value for choice in mode.choices] == ["standard", "ask", "plan"]
        assert all(choice.description for choice in mode.choices)
        assert (model.option_id, model.category, model.current) == ("model", "model", "lab/sage")
        assert [(choice.value, choice.name) for choice in model.choices] == [
            ("lab/sage", "sage"),
            ("lab/plain", "plain"),
        ]
        assert (effort.option_id, effort.category, effort.current) == ("effort", "thought_level", "low")
        assert [choice.value for choice in effort.choices] == ["default", "low", "high"]


async def test_a_model_that_is_chosen_answers_from_the_next_prompt_on(tmp_path, autojump_clock):
    two = {"anna": scripted(tmp_path, "anna"), "ben": scripted(tmp_path, "ben")}
    async with opened(tmp_path, offers=offering(two)) as (daemon, session_id, _command):
        other = await daemon.editor.new_session(daemon.workspace)
        assert (await daemon.editor.prompt(session_id, "hi")).text == "Hello."
        await set_to(daemon, session_id, "anna/scripted", "model")
        assert (await daemon.editor.prompt(session_id, "hi")).text == "I am anna."
        await set_to(daemon, session_id, "ben/scripted", "model")
        assert (await daemon.editor.prompt(session_id, "hi")).text == "I am ben."
        assert (await daemon.editor.prompt(other, "hi")).text == "Hello."
        await daemon.editor.request("session/close", {"sessionId": session_id})
        params = {"sessionId": session_id, "cwd": str(daemon.workspace)}
        result = await daemon.editor.request("session/resume", params)
        assert current(result["configOptions"])["model"] == "ben/scripted"
        assert (await daemon.editor.prompt(session_id, "hi")).text == "I am ben."


async def test_a_model_that_does_not_take_the_effort_sets_it_back_and_the_update_says_so(
    tmp_path, autojump_clock
):
    async with opened(tmp_path, offers=offering()) as (daemon, session_id, _command):
        options = daemon.session(session_id).options
        await set_to(daemon, session_id, "lab/sage", "model")
        assert (await set_to(daemon, session_id, "high", "effort"))["effort"] == "high"
        start = len(daemon.editor.frames)
        assert await set_to(daemon, session_id, "lab/plain", "model") == {
            "mode": "standard",
            "model": "lab/plain",
            "effort": "default",
        }
        (update,) = daemon.editor.updates(session_id, start)
        assert current(update["configOptions"])["effort"] == "default"
        assert (await kept(daemon, session_id))[-2:] == [("model", "lab/plain"), ("effort", "default")]
        # One that takes it keeps it.
        await set_to(daemon, session_id, "low", "effort")
        assert (await set_to(daemon, session_id, "lab/sage", "model"))["effort"] == "low"
        choice = await options.source().choice()
        assert (choice.provider.name, choice.model, choice.effort) == ("lab", "sage", Effort.LOW)


async def test_without_a_choice_the_effort_is_that_of_the_settings_where_the_model_takes_it(
    tmp_path, autojump_clock
):
    offers = offering(model="lab/sage", effort="high")
    async with opened(tmp_path, offers=offers) as (daemon, session_id, _command):
        options = daemon.session(session_id).options
        assert (await set_to(daemon, session_id, "lab/plain", "model"))["effort"] == "default"
        assert (await options.source().choice()).effort is Effort.DEFAULT
        assert (await set_to(daemon, session_id, "lab/sage", "model"))["effort"] == "high"
        assert (await options.source().choice()).effort is Effort.HIGH
        assert (await set_to(daemon, session_id, "default", "effort"))["effort"] == "default"
        assert (await options.source().choice()).effort is Effort.DEFAULT


async def test_a_kept_model_that_is_gone_is_told_with_the_next_prompt_and_once(tmp_path, autojump_clock):
    gone = {"anna": scripted(tmp_path, "anna")}
    async with opened(tmp_path, offers=offering(gone)) as (daemon, session_id, _command):
        await set_to(daemon, session_id, "anna/scripted", "model")
    async with indoors(tmp_path, SCRIPT, profile="full", offers=offering()) as daemon:
        await daemon.editor.initialize()
        params = {"sessionId": session_id, "cwd": str(daemon.workspace)}
        result = await daemon.editor.request("session/resume", params)
        assert current(result["configOptions"])["model"] == "lab/plain"
        turn = await daemon.editor.prompt(session_id, "hi")
        assert turn.text.endswith("Hello."), "the process's own model answers"
        (told,) = [update for update in turn.updates if "anna/scripted" in str(update)]
        assert "is not offered here any more" in str(told)
        again = await daemon.editor.prompt(session_id, "hi")
        assert "anna" not in str(again.updates)


async def test_of_a_kept_model_that_is_gone_nothing_is_told_where_another_was_chosen(
    tmp_path, autojump_clock
):
    gone = {"anna": scripted(tmp_path, "anna")}
    async with opened(tmp_path, offers=offering(gone)) as (daemon, session_id, _command):
        await set_to(daemon, session_id, "anna/scripted", "model")
    here = offering({"ben": scripted(tmp_path, "ben")})
    async with indoors(tmp_path, SCRIPT, profile="full", offers=here) as daemon:
        await daemon.editor.initialize()
        params = {"sessionId": session_id, "cwd": str(daemon.workspace)}
        await daemon.editor.request("session/resume", params)
        await set_to(daemon, session_id, "ben/scripted", "model")
        turn = await daemon.editor.prompt(session_id, "hi")
        assert turn.text == "I am ben."
        assert "anna" not in str(turn.updates)


async def test_a_kept_effort_that_nobody_can_see_is_not_sent(tmp_path, autojump_clock):
    """The session had another model when it was set. This one is not known to take any."""
    async with opened(tmp_path, offers=offering(model="lab/sage")) as (daemon, session_id, _command):
        await set_to(daemon, session_id, "high", "effort")
    bare = {"bare": ProviderSettings("openai-compatible", base_url=NOWHERE, models=("any",))}
    async with indoors(tmp_path, SCRIPT, profile="full", offers=offering(bare, model="bare/any")) as daemon:
        await daemon.editor.initialize()
        params = {"sessionId": session_id, "cwd": str(daemon.workspace)}
        result = await daemon.editor.request("session/resume", params)
        assert current(result["configOptions"]) == {"mode": "standard", "model": "bare/any"}
        choice = await daemon.session(session_id).options.source().choice()
        assert choice.effort is Effort.DEFAULT


async def test_a_model_that_is_not_known_yet_has_a_choice_and_is_named_when_it_is(tmp_path, autojump_clock):
    holder = []

    def offers(own):
        wanted = Undecided((known_providers(Config(), {})["ollama"],))
        made = offering(wanted=wanted)(own)
        holder.append(made)
        return made

    async with opened(tmp_path, offers=offers) as (daemon, session_id, _command):
        _mode, model = await daemon.session(session_id).options.shown()
        assert model.current == "default"
        assert model.choices[0].name == "Found with the first prompt"
        assert [choice.value for choice in model.choices] == ["default", "lab/sage", "lab/plain"]
        await set_to(daemon, session_id, "lab/sage", "model")
        await set_to(daemon, session_id, "default", "model")
        holder[0]._opener.found(known_providers(Config(), {})["ollama"], "qwen3")
        turn = await daemon.editor.prompt(session_id, "hi")
        (update,) = turn.of("config_option_update")
        assert current(update["configOptions"])["model"] == "ollama/qwen3"
        assert turn.text == "Hello."


async def test_a_router_is_cut_to_what_can_be_read_and_keeps_what_is_in_force(tmp_path, autojump_clock):
    many = ProviderSettings("openai-compatible", base_url=NOWHERE, models=tuple(f"m{n}" for n in range(300)))
    async with opened(tmp_path, offers=offering({"many": many})) as (daemon, session_id, _command):
        options = daemon.session(session_id).options
        _mode, model, _effort = await options.shown()
        assert [choice.value for choice in model.choices[:3]] == ["lab/sage", "lab/plain", "many/m0"]
        assert len(model.choices) == MOST_MODELS
        await daemon.session(session_id).chooser.choose(OptionId.MODEL, "many/m299")
        _mode, model = await options.shown()
        values = [choice.value for choice in model.choices]
        assert model.current == "many/m299"
        assert values[:3] == ["lab/plain", "many/m299", "many/m0"]
        assert len(values) == len(set(values)) == MOST_MODELS
        # About where the list is cut.
        for number in range(MOST_MODELS - 3, MOST_MODELS + 2):
            await daemon.session(session_id).chooser.choose(OptionId.MODEL, f"many/m{number}")
            _mode, model = await options.shown()
            values = [choice.value for choice in model.choices]
            assert {"lab/plain", model.current, "many/m0"} <= set(values)
            assert model.current == f"many/m{number}"
            assert len(values) == len(set(values)) == MOST_MODELS
