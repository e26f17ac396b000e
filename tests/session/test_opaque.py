"""What a provider wants back with its reply: kept and given back verbatim, or, with a key of ours in it or
too long for a row, dropped whole; the reply itself stands either way."""

import json
import logging

import pytest

from term2_acp.agent.asking import MAX_OPAQUE
from term2_acp.providers.base import AssistantSaid, Finish, Finished, ModelInfo, Opaque, TextDelta, UserSaid
from tests.kit.indoors import indoors
from tests.kit.model import Model

KEY = "sk-canary-0123456789"
SIGNED = json.dumps([{"signature": "c2lnbmVk" * 100, "data": "\u2028 \ud800"}])


async def asked_after(tmp_path, opaque):
    """What the model is told of its first reply, in the same process and in another."""
    histories = []
    model = Model([TextDelta("Hello."), Finished(Finish.STOP, opaque)], info=ModelInfo())
    async with indoors(tmp_path, provider=model, secrets=(KEY,)) as daemon:
        session_id, turn = await daemon.begin("hi")
        await turn.ended()
        await daemon.editor.prompt(session_id, "again")
        histories.append(list(model.asked[1].messages))
    model = Model(info=ModelInfo())
    async with indoors(tmp_path, provider=model, secrets=(KEY,)) as daemon:
        await daemon.editor.initialize()
        await daemon.editor.request("session/resume", {"sessionId": session_id, "cwd": str(daemon.workspace)})
        await daemon.editor.prompt(session_id, "again")
        histories.append(list(model.asked[0].messages[:3]))
    return histories


def history(opaque):
    return [UserSaid("hi"), AssistantSaid("Hello.", (), opaque), UserSaid("again")]


@pytest.mark.parametrize(
    "opaque", [SIGNED, "", "not JSON", "x" * MAX_OPAQUE], ids=lambda text: str(len(text))
)
async def test_it_comes_back_verbatim(tmp_path, autojump_clock, opaque):
    kept = history(Opaque("play", "scripted", opaque))
    assert await asked_after(tmp_path, opaque) == [kept, kept]


DROPPED = {
    "a key": (json.dumps({"thought": f"the key is {KEY}, I think"}), "holds a key"),
    "a key that is cut": (json.dumps({"thought": KEY[:18]}), "holds a key"),
    "too long": ("x" * (MAX_OPAQUE + 1), "too long"),
}


@pytest.mark.parametrize(("opaque", "why"), DROPPED.values(), ids=DROPPED)
async def test_what_must_not_be_kept_is_dropped_whole(tmp_path, autojump_clock, caplog, opaque, why):
    with caplog.at_level(logging.WARNING):
        assert await asked_after(tmp_path, opaque) == [history(None), history(None)]
    assert why in caplog.text
    assert KEY[:18] not in caplog.text
    for path in (tmp_path / "state").rglob("*"):
        if path.is_file():
            assert KEY[:18].encode() not in path.read_bytes(), path
