"""The editor's side that the demo and the talk share: how updates fold, and how they are printed."""

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
