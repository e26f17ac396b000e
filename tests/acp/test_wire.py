"""Params of each v2 method: what is taken, what is refused, and the path by which it is named; and the
results that go out, as whole values."""

import msgspec
import pytest

from term2_acp import __version__
from term2_acp.acp.v2 import wire
from term2_acp.acp.v2.capabilities import BASELINE, PROFILES
from term2_acp.config.settings import PROFILES as PROFILE_NAMES
from term2_acp.config.settings import AcpSettings
from term2_acp.domain.content import ResourceLink, Text
from term2_acp.domain.ids import SessionId
from term2_acp.jsonrpc.errors import ErrorCode, RpcError
from term2_acp.store import Page, SessionRecord


def raw(value):
    return msgspec.Raw(value if isinstance(value, bytes) else msgspec.json.encode(value))


def refused(type_, params):
    """The message of the one error that the params cost, without its common beginning."""

    def decode():
        decoded = wire.decode(type_, raw(params))
        return decoded.content(BASELINE) if isinstance(decoded, wire.PromptSession) else decoded

    with pytest.raises(RpcError) as caught:
        decode()
    assert caught.value.code == ErrorCode.INVALID_PARAMS
    assert "\n" not in caught.value.message
    return caught.value.message.removeprefix("Invalid params: ")


NO_LIST = '$.type: must be "id": every option here has a list of values'


def setting(**members):
    return {"sessionId": "s", "configId": "mode", **members}


def test_an_option_is_set_by_its_id_and_the_id_of_a_value():
    params = wire.decode(wire.SetConfigOption, raw(setting(type="id", value="ask", future=1)))
    assert (params.session_id, params.config_id, params.value) == ("s", "mode", "ask")


def test_a_new_session_needs_an_absolute_cwd_and_nothing_else():
    params = wire.decode(wire.NewSession, raw({"cwd": "/w", "_meta": {"cwd": 1}, "future": [1]}))
    assert params.cwd == "/w"
    nothing = {"cwd": "/w", "additionalDirectories": None, "mcpServers": []}
    assert wire.decode(wire.NewSession, raw(nothing)).cwd == "/w"


def test_a_list_needs_nothing():
    for params in ({}, {"cwd": None, "cursor": None}, b""):
        assert wire.decode(wire.ListSessions, raw(params)) == wire.ListSessions(None, None)
    assert wire.decode(wire.ListSessions, raw({"cwd": "/w", "cursor": "c"})) == wire.ListSessions("/w", "c")


@pytest.mark.parametrize(
    ("replay_from", "replay"),
    [({}, False), ({"replayFrom": None}, False), ({"replayFrom": {"type": "start", "_meta": {}}}, True)],
)
def test_a_resume_replays_from_the_start_or_not_at_all(replay_from, replay):
    params = wire.decode(wire.ResumeSession, raw({"sessionId": "s", "cwd": "/w"} | replay_from))
    assert params.replay is replay
    assert (params.session_id, params.cwd) == ("s", "/w")


@pytest.mark.parametrize("type_", [wire.CancelSession, wire.CloseSession, wire.DeleteSession])
def test_cancel_close_and_delete_need_the_session_alone(type_):
    assert wire.decode(type_, raw({"sessionId": "s", "_meta": None})).session_id == "s"
    assert refused(type_, {}) == "$.sessionId: required, but missing"


@pytest.mark.parametrize(
    ("type_", "params", "message"),
    [
        (wire.NewSession, {}, "$.cwd: required, but missing"),
        (wire.NewSession, b"", "$.cwd: required, but missing"),
        (wire.NewSession, [], "$: expected object, got array"),
        (wire.NewSession, {"cwd": 7}, "$.cwd: expected str, got int"),
        (wire.NewSession, {"cwd": None}, "$.cwd: expected str, got null"),
        (wire.NewSession, {"cwd": "w"}, "$.cwd: must be an absolute path"),
        (wire.NewSession, {"cwd": ""}, "$.cwd: must be an absolute path"),
        (wire.NewSession, {"cwd": "~/w"}, "$.cwd: must be an absolute path"),
        (wire.NewSession, {"cwd": "/w\0"}, "$.cwd: must not hold a null character"),
        (
            wire.NewSession,
            {"cwd": "/w", "additionalDirectories": ["/v"]},
            "$.additionalDirectories: additional directories are not advertised",
        ),
        (
            wire.NewSession,
            {"cwd": "/w", "mcpServers": [{"type": "stdio", "name": "n", "command": "/c"}]},
            "$.mcpServers: MCP servers are not advertised",
        ),
        (
            wire.NewSession,
            {"cwd": "/w", "mcpServers": {"a": 1}},
            "$.mcpServers: expected array | null, got object",
        ),
        (wire.ListSessions, {"cwd": "w"}, "$.cwd: must be an absolute path"),
        (wire.ListSessions, {"cwd": 1}, "$.cwd: expected str | null, got int"),
        (wire.ListSessions, {"cursor": 1}, "$.cursor: expected str | null, got int"),
        (wire.ResumeSession, {"cwd": "/w"}, "$.sessionId: required, but missing"),
        (wire.ResumeSession, {"sessionId": "s"}, "$.cwd: required, but missing"),
        (wire.ResumeSession, {"sessionId": "s", "cwd": "w"}, "$.cwd: must be an absolute path"),
        (
            wire.ResumeSession,
            {"sessionId": "s", "cwd": "/w", "mcpServers": [{}]},
            "$.mcpServers: MCP servers are not advertised",
        ),
        (
            wire.ResumeSession,
            {"sessionId": "s", "cwd": "/w", "additionalDirectories": ["/v"]},
            "$.additionalDirectories: additional directories are not advertised",
        ),
        (
            wire.ResumeSession,
            {"sessionId": "s", "cwd": "/w", "replayFrom": {"type": "end"}},
            '$.replayFrom.type: only "start" is supported',
        ),
        (
            wire.ResumeSession,
            {"sessionId": "s", "cwd": "/w", "replayFrom": {}},
            "$.replayFrom.type: required, but missing",
        ),
        (
            wire.ResumeSession,
            {"sessionId": "s", "cwd": "/w", "replayFrom": "start"},
            "$.replayFrom: expected object | null, got str",
        ),
        (wire.PromptSession, {"sessionId": "s"}, "$.prompt: required, but missing"),
        (wire.PromptSession, {"sessionId": "s", "prompt": "hi"}, "$.prompt: expected array, got str"),
        (wire.PromptSession, {"sessionId": "s", "prompt": None}, "$.prompt: expected array, got null"),
        (wire.PromptSession, {"prompt": []}, "$.sessionId: required, but missing"),
        (wire.CloseSession, {"sessionId": None}, "$.sessionId: expected str, got null"),
        (wire.SetConfigOption, {"configId": "mode"}, "$.sessionId: required, but missing"),
        (wire.SetConfigOption, {"sessionId": "s", "configId": "mode"}, "$.type: required, but missing"),
        (
            wire.SetConfigOption,
            {"sessionId": "s", "configId": "mode", "type": "id"},
            "$.value: required, but missing",
        ),
        (wire.SetConfigOption, setting(type="id", value=7), "$.value: expected str"),
        (wire.SetConfigOption, setting(type="id", value=None), "$.value: expected str"),
        (wire.SetConfigOption, setting(type="boolean", value=True), NO_LIST),
        (wire.SetConfigOption, setting(type="_x", value="ask"), NO_LIST),
        (wire.SetConfigOption, setting(type=None, value="ask"), "$.type: expected str, got null"),
    ],
)
def test_bad_params_are_named_by_their_path(type_, params, message):
    assert refused(type_, params) == message


def prompt(*blocks):
    return {"sessionId": "s", "prompt": list(blocks)}


TEXT = {"type": "text", "text": "go"}


def test_a_prompt_is_text_and_links_character_for_character():
    params = wire.decode(
        wire.PromptSession,
        raw(
            prompt(
                {"type": "text", "text": " a\u2028b\n", "annotations": {"x": 1}, "_meta": None},
                {"type": "resource_link", "name": "ü", "uri": "file:///ws/a%20b/%C3%A9.txt"},
                {
                    "type": "resource_link",
                    "name": "n",
                    "uri": "http://h/",
                    "title": "t",
                    "description": "d",
                    "mimeType": "text/plain",
                    "size": 0,
                    "icons": [1],
                },
                {"type": "resource_link", "name": "n", "uri": "u:", "title": None, "size": None},
            )
        ),
    )
    assert params.content(BASELINE) == (
        Text(" a\u2028b\n"),
        ResourceLink("ü", "file:///ws/a%20b/%C3%A9.txt"),
        ResourceLink("n", "http://h/", "t", "d", "text/plain", 0),
        ResourceLink("n", "u:"),
    )


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "$.prompt: the prompt is empty"),
        ([{"type": "text", "text": ""}], "$.prompt: the prompt is empty"),
        (
            [{"type": "text", "text": " \n\t"}, {"type": "text", "text": "\u2003"}],
            "$.prompt: the prompt is empty",
        ),
        ([TEXT, {"type": "text"}], "$.prompt[1].text: required, but missing"),
        ([{"type": "text", "text": 1}], "$.prompt[0].text: expected str, got int"),
        ([{"type": "text", "text": None}], "$.prompt[0].text: expected str, got null"),
        ([{"text": "go"}], "$.prompt[0].type: required, but missing"),
        ([{"type": 1}], "$.prompt[0].type: expected str, got int"),
        (["go"], "$.prompt[0]: expected object, got str"),
        ([TEXT, None], "$.prompt[1]: expected object, got null"),
        ([{"type": "resource_link", "name": "n"}], "$.prompt[0].uri: required, but missing"),
        ([{"type": "resource_link", "uri": "u:"}], "$.prompt[0].name: required, but missing"),
        (
            [{"type": "resource_link", "name": "n", "uri": "u:", "size": -1}],
            "$.prompt[0].size: expected int >= 0",
        ),
        ([{"type": "resource_link", "name": "n", "uri": "/a/b"}], "$.prompt[0].uri: must be a URI"),
        ([{"type": "resource_link", "name": "n", "uri": ""}], "$.prompt[0].uri: must be a URI"),
        (
            [TEXT, {"type": "image", "data": "", "mimeType": "image/png"}],
            "$.prompt[1].type: image blocks are not advertised",
        ),
        (
            [{"type": "audio", "data": "", "mimeType": "audio/wav"}],
            "$.prompt[0].type: audio blocks are not advertised",
        ),
        (
            [{"type": "resource", "resource": {"uri": "u:", "text": "t"}}],
            "$.prompt[0].type: resource blocks are not advertised",
        ),
        ([TEXT, TEXT, {"type": "_x"}], "$.prompt[2].type: this type of block is not known"),
        ([{"type": "Text\n", "text": "go"}], "$.prompt[0].type: this type of block is not known"),
    ],
)
def test_blocks_that_are_not_taken_are_named_by_their_place(blocks, message):
    assert refused(wire.PromptSession, prompt(*blocks)) == message


def test_text_that_is_no_unicode_is_refused():
    line = b'{"sessionId":"s","prompt":[{"type":"text","text":"\\ud800"}]}'
    assert refused(wire.PromptSession, line) == "$: cannot be read"


def test_a_link_without_text_is_a_prompt():
    link = {"type": "resource_link", "name": "n", "uri": "u:"}
    params = wire.decode(wire.PromptSession, raw(prompt({"type": "text", "text": " "}, link)))
    assert params.content(BASELINE) == (Text(" "), ResourceLink("n", "u:"))


# -- results -------------------------------------------------------------------------------------------


def as_sent(value):
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("profile", "capabilities"),
    [("baseline", {"session": {}}), ("full", {"session": {"prompt": {"image": {}}, "delete": {}}})],
)
def test_the_answer_to_initialize_advertises_what_the_profile_has_and_nothing_else(profile, capabilities):
    assert as_sent(wire.initialize_result(PROFILES[profile])) == {
        "protocolVersion": 2,
        "info": {"name": "term2", "title": "term2", "version": __version__},
        "capabilities": capabilities,
    }


def test_every_profile_that_the_settings_take_has_its_capabilities():
    assert set(PROFILES) == set(PROFILE_NAMES)
    assert PROFILES[AcpSettings().profile] is BASELINE


def kept(session_id, title, cwd="/w"):
    return SessionRecord(
        SessionId(session_id), cwd, title, "2026-11-01T00:00:00.000Z", "2026-11-02T00:00:00.000Z"
    )


def test_a_list_leaves_out_what_is_not_there():
    page = Page((kept("s1", "T"), kept("s2", None)), "c")
    assert as_sent(wire.list_result(page)) == {
        "sessions": [
            {"sessionId": "s1", "cwd": "/w", "title": "T", "updatedAt": "2026-11-02T00:00:00.000Z"},
            {"sessionId": "s2", "cwd": "/w", "updatedAt": "2026-11-02T00:00:00.000Z"},
        ],
        "nextCursor": "c",
    }
    assert as_sent(wire.list_result(Page((), None))) == {"sessions": []}


def test_a_directory_whose_name_is_no_unicode_can_be_listed():
    page = Page((kept("s1", "T\udcff", "/w/\udce9"),), None)
    entry = as_sent(wire.list_result(page))["sessions"][0]
    assert (entry["cwd"], entry["title"]) == ("/w/\ufffd", "T\ufffd")
