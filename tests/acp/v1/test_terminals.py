"""What a command writes, in a terminal of the client's or as text: characters that are split, bytes that are
none, snapshots, endings, and that showing it live costs no more than it is long."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.acp.fit import MAX_FRAME_BYTES
from term2_acp.acp.v1.capabilities import ClientFeatures
from term2_acp.acp.v1.project import Projection
from term2_acp.acp.v1.terminals import CLEAR, LIVE_TAIL_BYTES, fenced
from term2_acp.domain import events as ev
from term2_acp.domain.content import Terminal, Text
from term2_acp.domain.ids import SessionId, TerminalId, ToolCallId
from term2_acp.domain.toolcall import Location, ToolCallUpdate, ToolKind, ToolStatus
from tests.kit.fold_v1 import fold, updates_of

CALL = ToolCallId("call_1")
TERM = TerminalId("term_1")
MADE = [
    ToolCallUpdate(CALL, title="make", kind=ToolKind.EXECUTE, status=ToolStatus.PENDING),
    ToolCallUpdate(CALL, content=(Terminal(TERM),)),
    ev.ToolCallBegan(CALL),
    ev.TerminalUpdate(TERM, "make", "/w"),
]
DONE = ToolCallUpdate(CALL, status=ToolStatus.COMPLETED, content=(Terminal(TERM),), raw_output={})
EXIT_0 = ev.TerminalUpdate(TERM, exit_status=ev.ExitStatus(0))


def told(*groups, streams, bound=MAX_FRAME_BYTES):
    """The updates of each group of a turn."""
    projection = Projection(SessionId("s"), "/w", ClientFeatures(terminal_output=streams), bound)
    projection.write_to([], [ev.Running()])
    found = []
    for group in groups:
        frames = []
        projection.write_to(frames, group)
        found.append(updates_of(frames, bound))
    return found


def wrote(*pieces):
    return [ev.TerminalOutput(TERM, piece) for piece in pieces]


def meta(**members):
    return {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "_meta": members}


def output(data):
    return {"terminal_id": "call_1", "data": data}


# -- the extension --------------------------------------------------------------------------------------


def test_a_terminal_is_made_with_its_call_then_filled_then_ended():
    made, first, second, ended = told(MADE, wrote(b"a\n", b"b\n"), wrote(b"c"), [EXIT_0, DONE], streams=True)
    assert made == [
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "call_1",
            "title": "make",
            "kind": "execute",
            "status": "pending",
            "_meta": {"terminal_info": {"terminal_id": "call_1", "cwd": "/w"}},
        },
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "call_1",
            "status": "in_progress",
            "content": [{"type": "terminal", "terminalId": "call_1"}],
        },
    ]
    assert first == [meta(terminal_output=output("a\nb\n"))]
    assert second == [meta(terminal_output=output("c"))]
    exit_ = {"terminal_id": "call_1", "exit_code": 0, "signal": None}
    assert ended == [
        {
            "sessionUpdate": "tool_call_update",
            "toolCallId": "call_1",
            "status": "completed",
            "rawOutput": {},
            "_meta": {"terminal_exit": exit_},
        }
    ]


def test_output_never_comes_with_the_update_that_makes_its_terminal():
    whole = ToolCallUpdate(CALL, kind=ToolKind.EXECUTE, content=(Terminal(TERM),))
    (updates,) = told([*wrote(b"x"), EXIT_0, whole], streams=True)
    assert [update["sessionUpdate"] for update in updates] == ["tool_call", "tool_call_update"]
    assert updates[1] == meta(
        terminal_output=output("x"),
        terminal_exit={"terminal_id": "call_1", "exit_code": 0, "signal": None},
    )


@pytest.mark.parametrize("status", [ev.ExitStatus(3), ev.ExitStatus(None, "SIGKILL"), ev.ExitStatus()])
def test_an_exit_has_both_members_and_comes_once(status):
    ended = ev.TerminalUpdate(TERM, exit_status=status)
    _, once, later = told(MADE, [ended], [ended, *wrote(b"late"), DONE], streams=True)
    exit_ = {"terminal_id": "call_1", "exit_code": status.exit_code, "signal": status.signal}
    assert once == [meta(terminal_exit=exit_)]
    assert "_meta" not in later[0]


def test_a_character_waits_for_its_rest_and_what_is_none_is_replaced():
    _, *groups = told(
        MADE, wrote(b"a\xe2"), wrote(b"\x82"), wrote(b"\xac\xff"), wrote(b"\xc3"), [EXIT_0], streams=True
    )
    data = ["".join(u["_meta"].get("terminal_output", output(""))["data"] for u in group) for group in groups]
    assert data == ["a", "", "€\ufffd", "", "\ufffd"]


def test_a_snapshot_clears_what_was_shown_and_only_then():
    snapshot = ev.TerminalUpdate(TERM, output=b"all", exit_status=ev.ExitStatus(0))
    _, _, (replaced,) = told(MADE, wrote(b"x\xc3"), [snapshot], streams=True)
    assert replaced["_meta"]["terminal_output"]["data"] == f"{CLEAR}all"
    _, (first,) = told(MADE, [snapshot], streams=True)
    assert first["_meta"]["terminal_output"]["data"] == "all"


def test_output_longer_than_a_frame_is_split_and_the_exit_comes_last():
    text = "é\x01" * 5000
    _, updates = told(MADE, [*wrote(text.encode()), EXIT_0, DONE], streams=True, bound=4096)
    assert [update.get("status") for update in updates] == ["completed"] + [None] * (len(updates) - 1)
    assert ["terminal_exit" in update.get("_meta", {}) for update in updates] == [False] * (
        len(updates) - 1
    ) + [True]
    assert "".join(update["_meta"]["terminal_output"]["data"] for update in updates[1:]) == text


def test_output_does_not_crowd_out_what_else_changed():
    """Both are about half of a frame, and neither may make the other break its bound."""
    long = "x" * 3000
    done = ToolCallUpdate(
        CALL,
        title=long,
        name=long,
        status=ToolStatus.COMPLETED,
        locations=tuple(Location(f"/w/{number:0100}", 1) for number in range(60)),
        raw_input={"x": long},
        raw_output=long,
    )
    _, (update, *rest) = told(MADE, [*wrote(b"y" * 1800), EXIT_0, done], streams=True, bound=4096)
    assert update["status"] == "completed"
    assert "".join(update["_meta"]["terminal_output"]["data"] for update in rest) == "y" * 1800


def test_only_commands_have_terminals_and_only_one_each():
    search = ToolCallUpdate(CALL, title="t", kind=ToolKind.SEARCH, content=(Terminal(TERM),))
    (updates,) = told([search, *wrote(b"x")], streams=True)
    assert "_meta" not in updates[0]
    assert updates[0]["content"][0]["content"]["text"] == "```\nx\n```\n"
    two = ToolCallUpdate(CALL, kind=ToolKind.EXECUTE, content=(Terminal(TERM), Terminal(TerminalId("other"))))
    other = ev.TerminalOutput(TerminalId("other"), b"second")
    (updates,) = told([two, *wrote(b"first"), other], streams=True)
    assert [piece["type"] for piece in updates[0]["content"]] == ["terminal", "content"]
    assert updates[1:] == [meta(terminal_output=output("first"))]


# -- text -----------------------------------------------------------------------------------------------


def shown_in(updates):
    """The text of the last content that was told, if any was."""
    contents = [update["content"] for update in updates if "content" in update]
    return "".join(piece["content"]["text"] for piece in contents[-1]) if contents else None


def test_text_grows_with_the_output_and_ends_with_all_of_it():
    groups = told(MADE, wrote(b"a\n", b"b"), wrote(b"\nc"), [EXIT_0, DONE], streams=False)
    assert [len(group) for group in groups] == [2, 1, 1, 1]
    assert [shown_in(group) for group in groups] == [
        None,
        "```\na\nb\n```\n",
        "```\na\nb\nc\n```\n",
        "```\na\nb\nc\n```\n",
    ]


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (ev.ExitStatus(0), ""),
        (ev.ExitStatus(3), "Exit code 3.\n"),
        (ev.ExitStatus(None, "SIGKILL"), "Ended by SIGKILL.\n"),
        (ev.ExitStatus(), "How it ended is not known.\n"),
    ],
)
def test_an_ending_that_is_no_success_is_said_in_words(status, words):
    ended = ev.TerminalUpdate(TERM, exit_status=status)
    _, silent = told(MADE, [ended, DONE], streams=False)
    assert (shown_in(silent) or "") == words
    _, spoken = told(MADE, [*wrote(b"x\n"), ended, DONE], streams=False)
    assert shown_in(spoken) == f"```\nx\n```\n{words}"


def test_a_split_character_waits_in_text_too():
    _, first, second, last = told(
        MADE, wrote(b"a\xe2\x82"), wrote(b"\xac\xc3"), [EXIT_0, DONE], streams=False
    )
    assert [shown_in(group) for group in (first, second, last)] == [
        "```\na\n```\n",
        "```\na€\n```\n",
        "```\na€\ufffd\n```\n",
    ]


def test_only_the_end_of_a_long_output_is_shown_while_it_runs():
    data = "€".encode() * LIVE_TAIL_BYTES  # whose end, of so many bytes, begins inside a character
    _, live, ended = told(MADE, wrote(b"x", data), [EXIT_0, DONE], streams=False)
    said = shown_in(live)
    assert said.startswith("The command is still running. The end of its output so far:\n\n```\n€")
    assert said.count("€") == LIVE_TAIL_BYTES // 3
    assert "\ufffd" not in said
    assert shown_in(ended) == f"```\nx{data.decode()}\n```\n"


def test_showing_a_command_live_costs_no_more_than_a_bounded_part_of_it_each_time():
    """A megabyte in pieces of 64 KiB, as they come live: the whole is sent once."""
    pieces = [b"y" * 65_535 + b"\n"] * 16
    projection = Projection(SessionId("s"), "/w", ClientFeatures())
    sent = 0
    for group in [MADE, *([ev.TerminalOutput(TERM, piece)] for piece in pieces), [EXIT_0], [DONE]]:
        frames = []
        projection.write_to(frames, group)
        sent += sum(len(frame) for frame in frames)
    assert sent < sum(map(len, pieces)) + 20 * (LIVE_TAIL_BYTES + 1000)


def test_a_snapshot_replaces_the_text():
    snapshot = ev.TerminalUpdate(TERM, output=b"head ... tail", exit_status=ev.ExitStatus(1))
    _, _, ended = told(MADE, wrote(b"x" * 9000), [snapshot, DONE], streams=False)
    assert shown_in(ended) == "```\nhead ... tail\n```\nExit code 1.\n"


def test_an_output_that_is_longer_than_a_frame_says_how_long_it_is():
    _, (ended,) = told(MADE, [*wrote(b"z" * 9000), EXIT_0, DONE], streams=False, bound=4096)
    said = ended["content"][0]["content"]["text"]
    assert said.startswith("```\nzzz")
    assert said.endswith("(9009 characters in all)")


@pytest.mark.parametrize("inside", ["x", "```", "a\n````\nb\n", "`` `"])
def test_a_fence_is_longer_than_any_in_the_text(inside):
    fence, *lines, last, end = fenced(inside).split("\n")
    assert (fence, end) == (last, "")
    assert set(fence) == {"`"}
    assert fence not in inside
    assert "\n".join(lines) == inside.removesuffix("\n")


# -- both -----------------------------------------------------------------------------------------------


def test_a_question_leaves_the_terminal_in_its_place():
    """Clients show the question's words as the call's content; its beginning puts its own in their place."""
    _, (began,) = told(MADE[:2], MADE[2:], streams=True)
    assert began["status"] == "in_progress"
    assert began["content"] == [{"type": "terminal", "terminalId": "call_1"}]


@pytest.mark.parametrize("streams", [True, False])
def test_a_refusal_stands_in_place_of_the_terminal(streams):
    refused = ToolCallUpdate(
        CALL, status=ToolStatus.FAILED, content=(Text("No."),), raw_output={"error": "No."}
    )
    screen = fold([update for group in told(MADE[:2], [refused], streams=streams) for update in group])
    (call,) = screen["things"].values()
    assert call["content"] == [{"type": "content", "content": {"type": "text", "text": "No."}}]


@pytest.mark.parametrize("streams", [True, False])
@pytest.mark.parametrize("call_first", [True, False])
def test_a_call_and_its_terminal_find_each_other_in_whatever_order_they_come(streams, call_first):
    """A replay shows the call first, which has its final status then."""
    call = ToolCallUpdate(
        CALL, title="T", kind=ToolKind.EXECUTE, status=ToolStatus.COMPLETED, content=(Terminal(TERM),)
    )
    terminal = ev.TerminalUpdate(TERM, "make", "/w", b"out", ev.ExitStatus(0))
    groups = told(*([[call], [terminal]] if call_first else [[terminal], [call]]), streams=streams)
    screen = fold([update for group in groups for update in group])
    if streams:
        assert screen["terminals"]["call_1"] == {"text": "out", "exit": (0, None)}
    else:
        (shown,) = screen["things"].values()
        assert shown["content"][0]["content"]["text"] == fenced("out")


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.lists(st.binary(max_size=40), max_size=8), st.booleans())
def test_whatever_the_pieces_the_text_is_that_of_all_bytes(pieces, streams):
    groups = [MADE, *(wrote(piece) for piece in pieces), [EXIT_0, DONE]]
    screen = fold([update for group in told(*groups, streams=streams) for update in group])
    text = b"".join(pieces).decode("utf-8", "replace")
    if streams:
        assert screen["terminals"]["call_1"] == {"text": text, "exit": (0, None)}
    else:
        (call,) = screen["things"].values()
        content = [piece["content"]["text"] for piece in call["content"]]
        assert content == ([fenced(text)] if text else [])
