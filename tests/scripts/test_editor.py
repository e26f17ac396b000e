"""The editor's side that the demo and the talk share: how updates fold, and how they are printed."""

import base64

from editor import Printer, Story, plain, text_of


def text(words):
    return {"type": "text", "text": words}


def chunk(message_id, words, kind="agent_message_chunk"):
    return {"sessionUpdate": kind, "messageId": message_id, "content": text(words)}


def test_chunks_append_and_whole_messages_replace():
    story = Story()
    for update in (
        {"sessionUpdate": "user_message", "messageId": "u", "content": [text("hi"), text("there")]},
        chunk("a", "one "),
        chunk("b", "hm", "agent_thought_chunk"),
        chunk("a", "two"),
        {"sessionUpdate": "agent_message", "messageId": "c", "content": [text("whole")]},
        chunk("c", " and more"),
    ):
        story.take(update)
    assert list(story.messages.items()) == [
        ("u", ["user_message", "hi\nthere"]),
        ("a", ["agent_message", "one two"]),
        ("b", ["agent_thought", "hm"]),
        ("c", ["agent_message", "whole and more"]),
    ]
    assert story.said("agent_message") == "one twowhole and more"


def test_tool_calls_keep_what_an_update_leaves_out():
    story = Story()
    story.take({"sessionUpdate": "tool_call_update", "toolCallId": "c", "title": "Read", "status": "pending"})
    story.take({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"})
    story.take(
        {"sessionUpdate": "tool_call_content_chunk", "toolCallId": "c", "content": {"type": "content"}}
    )
    assert story.calls == {"c": {"title": "Read", "status": "completed", "content": [{"type": "content"}]}}


def test_states_keep_their_reason():
    story = Story()
    story.take({"sessionUpdate": "state_update", "state": "running"})
    story.take({"sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn"})
    assert story.states == ["running", "idle end_turn"]


def test_text_is_found_where_content_keeps_it():
    diff = {"type": "diff", "changes": [], "patch": {"format": "git_patch", "text": "+a"}}
    link = {"type": "resource_link", "name": "a", "uri": "file:///a"}
    assert text_of([text("x"), {"type": "content", "content": text("y")}, diff, link, {"type": "image"}]) == (
        "x\ny\n+a\n<file:///a>"
    )


def test_what_could_move_the_cursor_is_shown_instead():
    assert plain("a\x1b[2Jb\r\n\tc") == "a\\x1b[2Jb\\x0d\n\tc"


def test_chunks_of_a_message_share_a_line():
    written = []
    printer = Printer(written.append)
    for update in (chunk("a", "one "), chunk("a", "two\nthree"), chunk("b", "x")):
        printer.update(update)
    printer.line("ended", "now")
    lines = [line[11:] for line in "".join(written).splitlines()]
    assert lines == ["agent   one two", "        three", "agent   x", "ended   now"]


def terminal(**members):
    return {"sessionUpdate": "terminal_update", "terminalId": "t", **members}


def output(data):
    return {
        "sessionUpdate": "terminal_output_chunk",
        "terminalId": "t",
        "data": base64.b64encode(data).decode(),
    }


RAN = (
    terminal(command="make", cwd="/w"),
    output(b"50 \xe2\x82"),
    output(b"\xac\n"),
    terminal(exitStatus={"exitCode": 2}),
)


def test_a_terminal_keeps_its_bytes_and_a_snapshot_replaces_them():
    story = Story()
    for update in RAN:
        story.take(update)
    assert story.terminals == {"t": "50 €\n".encode()}
    story.take(terminal(output={"data": base64.b64encode(b"head").decode()}))
    assert story.terminals == {"t": b"head"}


def test_a_call_that_only_names_its_terminal_is_no_line():
    written = []
    content = [{"type": "terminal", "terminalId": "t"}]
    Printer(written.append).update(
        {"sessionUpdate": "tool_call_update", "toolCallId": "c", "content": content}
    )
    assert written == []


def test_a_command_is_printed_with_whole_characters_and_how_it_ended():
    written = []
    printer = Printer(written.append)
    for update in RAN:
        printer.update(update)
    lines = [line[11:].rstrip() for line in "".join(written).splitlines()]
    assert lines == ["terminal $ make", "        (in /w)", "output  50 €", "", "terminal ended: 2"]
