"""Images through the installed daemon under both profiles: what is advertised and taken, their echo and their
replay in another process with the ids they had, also under the profile that does not take them."""

import pytest

from tests.kit.editor import Turn
from tests.kit.forked import running
from tests.kit.home import Home
from tests.kit.pictures import image, picture
from tests.kit.play import HELLO

FULL = '[acp]\nprofile = "full"\n'
TEXT = {"type": "text", "text": "hi"}
SCRIPT = f'[[rules]]\n[[rules.replies]]\nsteps = [{{ text = "{HELLO}" }}]\n'


@pytest.mark.parametrize("extra", ["", '[acp]\nprofile = "baseline"\n'])
async def test_the_baseline_takes_no_images_and_says_so(tmp_path, extra):
    home = Home.make(tmp_path, SCRIPT, extra)
    async with running(home) as daemon:
        assert (await daemon.initialize())["capabilities"] == {"session": {}}
        session = await daemon.new_session(home.workspace)
        prompt = {"sessionId": session, "prompt": [TEXT, image()]}
        refused = await daemon.refused("session/prompt", prompt)
        assert refused.code == -32602
        assert refused.message == "Invalid params: $.prompt[1].type: image blocks are not advertised"
        assert (await daemon.prompt(session, "hi")).text == HELLO


async def test_the_full_profile_takes_them_and_another_process_shows_them_again(tmp_path):
    home = Home.make(tmp_path, SCRIPT, FULL)
    small = [image(uri="file:///w/a.png"), TEXT, image(mime_type="image/webp")]
    large = [
        image(picture(size=3_500_000)),
        image(picture("image/jpeg", 3_000_000), "image/jpeg"),
        TEXT,
    ]
    async with running(home) as daemon:
        assert (await daemon.initialize())["capabilities"]["session"]["prompt"] == {"image": {}}
        session = await daemon.new_session(home.workspace)
        turns = [await daemon.prompt(session, blocks) for blocks in (small, large)]
        assert [echo(turn) for turn in turns] == [{turns[0].message_id: small}, {turns[1].message_id: large}]
        assert [turn.text for turn in turns] == [HELLO, HELLO]
    # The profile says what is taken from now on; what was taken is shown under either.
    home.play(SCRIPT)
    async with running(home) as daemon:
        await daemon.initialize()
        params = {"sessionId": session, "cwd": str(home.workspace), "replayFrom": {"type": "start"}}
        assert await daemon.request("session/resume", params) == {}
        assert echo(Turn(daemon, session, "", 0)) == {turns[0].message_id: small, turns[1].message_id: large}
        assert (await daemon.prompt(session, "hi")).text == HELLO


def echo(turn):
    """The content of each user message, as a client puts it together, by its id."""
    messages = {}
    for update in turn.updates:
        if update["sessionUpdate"] == "user_message":
            messages[update["messageId"]] = list(update["content"])
        elif update["sessionUpdate"] == "user_message_chunk":
            messages[update["messageId"]].append(update["content"])
    return messages
