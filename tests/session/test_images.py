"""A prompt with images, through the real door and store: its echo and its replay, what the model is given and
what one without sight is told, its title, and that neither a refusal nor a key leaves a trace in it."""

import gc
import json
from contextlib import asynccontextmanager

import pytest

from term2_acp.domain.content import Image as Shown
from term2_acp.domain.events import UserMessage
from term2_acp.domain.ids import MessageId
from term2_acp.providers.base import (
    Failed,
    Image,
    ModelInfo,
    OnWait,
    Request,
    RequestRefused,
    UserSaid,
    wait_silently,
)
from term2_acp.providers.chat.wire import ChatWire
from term2_acp.providers.scripted.model import Scripted
from term2_acp.providers.scripted.script import read_script
from term2_acp.redact import Redactor
from term2_acp.session.redaction import redacted
from term2_acp.session.title import title_of
from term2_acp.transport.call import Call
from tests.kit.editor import Turn
from tests.kit.fold import fold
from tests.kit.indoors import indoors
from tests.kit.pictures import base64_of, image, picture
from tests.kit.wire import Refused

TEXT = {"type": "text", "text": "look"}
SCRIPT = '[[rules]]\n[[rules.replies]]\nsteps = [{ text = "I see." }]\n'
DATA = base64_of(picture())


class Seeing(Scripted):
    """The scripted model, which keeps what it was asked; it refuses as many requests as it is told to."""

    def __init__(self, refuses: int = 0) -> None:
        super().__init__("play", read_script(SCRIPT))
        self.requests: list[Request] = []
        self.refuses = refuses

    @asynccontextmanager
    async def stream(self, request: Request, on_wait: OnWait = wait_silently):
        self.requests.append(request)
        if len(self.requests) <= self.refuses:
            yield _Refusing()
            return
        async with super().stream(request, on_wait) as deltas:
            yield deltas


class _Refusing:
    async def receive(self):
        return [Failed(RequestRefused("The server cannot read this image."))]


async def begun(daemon):
    await daemon.editor.initialize()
    return await daemon.editor.new_session(daemon.workspace)


async def replayed(daemon, session_id) -> Turn:
    start = len(daemon.editor.frames)
    params = {"sessionId": session_id, "cwd": str(daemon.workspace), "replayFrom": {"type": "start"}}
    await daemon.editor.request("session/resume", params)
    return Turn(daemon.editor, session_id, "", start)


async def test_the_profile_says_what_is_advertised_and_that_is_what_is_taken(tmp_path, autojump_clock):
    for profile, prompts in (("baseline", None), ("full", {"image": {}})):
        root = tmp_path / profile
        root.mkdir()
        async with indoors(root, SCRIPT, profile=profile) as daemon:
            assert (await daemon.editor.initialize())["capabilities"]["session"].get("prompt") == prompts
            session_id = await daemon.editor.new_session(daemon.workspace)
            prompt = {"sessionId": session_id, "prompt": [TEXT, image()]}
            if profile == "full":
                turn = await daemon.editor.prompt(session_id, prompt["prompt"])
                assert turn.text == "I see."
            else:
                refused = await daemon.editor.refused("session/prompt", prompt)
                assert (refused.code, refused.message) == (
                    -32602,
                    "Invalid params: $.prompt[1].type: image blocks are not advertised",
                )


async def test_the_echo_and_the_replay_show_the_image_as_it_came(tmp_path, autojump_clock):
    blocks = [image(mime_type="image/gif", uri="file:///w/a.gif"), TEXT, image() | {"mimeType": "Image/PNG"}]
    async with indoors(tmp_path, provider=Seeing(), profile="full") as daemon:
        session_id = await begun(daemon)
        turn = await daemon.editor.prompt(session_id, blocks)
        (user,) = turn.of("user_message")
        assert user == {"sessionUpdate": "user_message", "messageId": turn.message_id, "content": blocks}
        again = await replayed(daemon, session_id)
        assert again.of("user_message") == [user]
        assert fold(again.updates)["things"] == fold(turn.updates)["things"]
    async with indoors(tmp_path, provider=Seeing(), profile="full") as daemon:
        await daemon.editor.initialize()
        assert (await replayed(daemon, session_id)).of("user_message") == [user]
    # What was shown once is shown again, whatever is taken now.
    async with indoors(tmp_path, provider=Seeing()) as daemon:
        await daemon.editor.initialize()
        assert (await replayed(daemon, session_id)).of("user_message") == [user]


async def test_large_images_are_echoed_and_replayed_in_chunks(tmp_path):
    blocks = [TEXT, *[image(picture(size=3_200_000 + number)) for number in range(2)]]
    async with indoors(tmp_path, provider=Seeing(), profile="full") as daemon:
        session_id = await begun(daemon)
        turn = await daemon.editor.prompt(session_id, blocks)
        assert _echo(turn) == blocks
        assert len(turn.of("user_message_chunk")) == 2
        assert _echo(await replayed(daemon, session_id)) == blocks


def _echo(turn):
    """The content of the one user message, as a client puts it together."""
    (whole,) = turn.of("user_message")
    chunks = turn.of("user_message_chunk")
    assert {chunk["messageId"] for chunk in chunks} <= {whole["messageId"]}
    return [*whole["content"], *(chunk["content"] for chunk in chunks)]


# -- what the model is given ---------------------------------------------------------------------------


async def test_the_model_is_given_the_image_now_and_after_a_restart(tmp_path, autojump_clock):
    model = Seeing()
    async with indoors(tmp_path, provider=model, profile="full") as daemon:
        session_id = await begun(daemon)
        await daemon.editor.prompt(session_id, [TEXT, image() | {"mimeType": "IMAGE/PNG"}])
        await daemon.editor.prompt(session_id, "and now")
        live = daemon.session(session_id).transcript.messages()
    said = UserSaid("look", (Image("image/png", DATA),))
    assert [request.messages[0] for request in model.requests] == [said, said]
    again = Seeing()
    async with indoors(tmp_path, provider=again, profile="full") as daemon:
        await daemon.editor.initialize()
        await daemon.editor.request("session/resume", {"sessionId": session_id, "cwd": str(daemon.workspace)})
        await daemon.editor.prompt(session_id, "and now")
    assert again.requests[0].messages == (*live, UserSaid("and now"))


@pytest.mark.parametrize("sees", [True, False])
async def test_a_model_without_sight_is_told_that_there_was_an_image(tmp_path, autojump_clock, sees):
    model = Seeing()
    data = base64_of(picture(size=66))
    async with indoors(tmp_path, provider=model, profile="full") as daemon:
        await daemon.editor.prompt(await begun(daemon), [TEXT, image(data)])
    (request,) = model.requests
    body = json.loads(ChatWire().body(request, ModelInfo(sees_images=sees), "lab"))
    told = json.dumps(next(said for said in body["messages"] if said["role"] == "user"))
    assert "look" in told
    assert (data in told) is sees
    assert ("an image (image/png, 66 bytes) was attached; it cannot be shown to you" in told) is not sees


async def test_a_refused_request_does_not_end_the_conversation(tmp_path, autojump_clock):
    model = Seeing(refuses=1)
    async with indoors(tmp_path, provider=model, profile="full") as daemon:
        session_id = await begun(daemon)
        turn = await daemon.editor.prompt(session_id, [TEXT, image()])
        assert await turn.ended() == "_term2_error"
        assert turn.text == "The server cannot read this image."
        turn = await daemon.editor.prompt(session_id, "never mind")
        assert await turn.ended() == "end_turn"
    first, second = model.requests
    assert len(first.messages[0].images) == 1
    assert second.messages == (
        UserSaid("look\n[an image was attached here, which is not shown to you]"),
        UserSaid("never mind"),
    )


async def test_a_prompt_that_was_answered_is_in_memory_once(tmp_path, autojump_clock):
    data = base64_of(picture(size=100_000))
    async with indoors(tmp_path, provider=Seeing(), profile="full") as daemon:
        session_id = await begun(daemon)
        await daemon.editor.prompt(session_id, [TEXT, image(data)])
        (said, _reply) = daemon.session(session_id).transcript.messages()
        assert said.images[0].data == data
        # The request is still known to its turn; what stood in it is not kept with it.
        calls = [call for call in gc.get_objects() if type(call) is Call and call.method == "session/prompt"]
        assert calls
        assert sum(len(call.params) for call in calls) == 0


async def test_a_session_that_was_closed_keeps_no_image(tmp_path, autojump_clock):
    data = base64_of(picture(size=100_000, fill=b"\x01"))

    def kept():
        return sum(type(thing) in (Image, Shown) and thing.data == data for thing in gc.get_objects())

    async with indoors(tmp_path, provider=Scripted("play", read_script(SCRIPT)), profile="full") as daemon:
        session_id = await begun(daemon)
        gc.disable()  # it comes when much was made since, which may be never
        try:
            await daemon.editor.prompt(session_id, [TEXT, image(data)])
            assert kept() > 0
            await daemon.editor.request("session/close", {"sessionId": session_id})
            assert kept() == 0
        finally:
            gc.enable()


# -- refusals, titles, keys ----------------------------------------------------------------------------


async def test_a_refused_prompt_leaves_no_trace(tmp_path, autojump_clock):
    model = Seeing()
    async with indoors(tmp_path, provider=model, profile="full") as daemon:
        session_id = await begun(daemon)
        for bad in (image("AAAA"), image("A A="), image(mime_type="image/png") | {"mimeType": "text/plain"}):
            with pytest.raises(Refused) as caught:
                await daemon.editor.begin(session_id, [TEXT, bad])
            assert caught.value.code == -32602
            assert caught.value.message.startswith("Invalid params: $.prompt[1].")
        await replayed(daemon, session_id)
        told = [update["sessionUpdate"] for update in daemon.editor.updates(session_id)]
        assert told == ["available_commands_update", "available_commands_update", "state_update"]
        turn = await daemon.editor.prompt(session_id, [image()])
        assert await turn.ended() == "end_turn"
    assert [len(request.messages) for request in model.requests] == [1]


@pytest.mark.parametrize(
    ("blocks", "title"),
    [
        ([image()], "Image"),
        ([image(), image(), {"type": "text", "text": " \n"}], "2 images"),
        ([image(), {"type": "text", "text": "what  is this?"}], "what is this?"),
        ([image(uri="file:///w/a.png"), {"type": "resource_link", "name": "n", "uri": "u:"}], "n"),
    ],
)
async def test_a_session_that_begins_with_an_image_has_a_title(tmp_path, autojump_clock, blocks, title):
    async with indoors(tmp_path, provider=Seeing(), profile="full") as daemon:
        session_id = await begun(daemon)
        turn = await daemon.editor.prompt(session_id, blocks)
        assert [update["title"] for update in turn.of("session_info_update")] == [title]
        listed = await daemon.editor.request("session/list")
        assert [session["title"] for session in listed["sessions"]] == [title]


def test_the_data_of_an_image_is_neither_title_nor_text():
    assert title_of([Shown("image/png", DATA)], Redactor()) == "Image"


async def test_a_key_that_seems_to_stand_in_a_picture_breaks_no_picture(tmp_path, autojump_clock):
    data = base64_of(picture(size=600))
    key = data[100:140]  # by chance
    blocks = [{"type": "text", "text": f"key {key}"}, image(data)]
    model = Seeing()
    async with indoors(tmp_path, provider=model, profile="full", secrets=(key,)) as daemon:
        turn = await daemon.editor.prompt(await begun(daemon), blocks)
    text, shown = turn.of("user_message")[0]["content"]
    assert text["text"] == "key [redacted]"
    assert shown["data"] == data
    assert model.requests[0].messages[0].images[0].data == data


async def test_a_uri_with_a_key_in_it_stays_a_uri(tmp_path, autojump_clock):
    key = "sk-lab-0123456789abcdef"
    link = {"type": "resource_link", "name": "n", "uri": f"file:///w/{key}/n"}
    blocks = [image(uri=f"file:///w/{key}.png"), link, {"type": "text", "text": key}]
    model = Seeing()
    async with indoors(tmp_path, provider=model, profile="full", secrets=(key,)) as daemon:
        turn = await daemon.editor.prompt(await begun(daemon), blocks)
    shown, pointed_at, text = turn.of("user_message")[0]["content"]
    assert shown["uri"] == "file:///w/%5Bredacted%5D.png"
    assert pointed_at["uri"] == "file:///w/%5Bredacted%5D/n"
    assert text["text"] == "[redacted]"
    said = model.requests[0].messages[0].text
    assert said == "[image 1: /w/[redacted].png]\n[referenced resource: /w/[redacted]/n (n)]\n[redacted]"


def test_of_an_image_only_the_data_is_no_text():
    key = DATA[:40]
    shown = Shown("image/png", DATA, f"https://h/?{key}")
    event = UserMessage(MessageId("m"), (shown,))
    assert redacted(event, Redactor([key])).content == (
        Shown("image/png", DATA, "https://h/?%5Bredacted%5D"),
    )
    plain = UserMessage(MessageId("m"), (Shown("image/png", DATA),))
    assert redacted(plain, Redactor([key])) is plain
