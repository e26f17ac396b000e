"""Tool calls and questions as v1 writes them: statuses and raw values, where diffs stand, what the bound of a
frame does to a call, and which options a person is offered."""

import hashlib
import json

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.acp.fit import MAX_FRAME_BYTES
from term2_acp.acp.v1.capabilities import ClientFeatures
from term2_acp.acp.v1.project import Projection
from term2_acp.acp.v1.toolcalls import ask_to_wire
from term2_acp.domain import events as ev
from term2_acp.domain.content import Change, Diff, FileTexts, Operation, Text
from term2_acp.domain.ids import SessionId, ToolCallId
from term2_acp.domain.permission import Ask, Option, OptionKind
from term2_acp.domain.toolcall import Location, ToolCallUpdate, ToolKind, ToolStatus
from term2_acp.tools.patch import git_patch
from tests.kit import packages
from tests.kit.fold_v1 import updates_of
from tests.kit.published import published

CALL = ToolCallId("call_1")
SMALL = 4096


def told(*groups, bound=MAX_FRAME_BYTES):
    """The updates of groups of events, all in one list."""
    projection = Projection(SessionId("s"), "/w", ClientFeatures(), bound)
    frames = []
    for group in groups:
        projection.write_to(frames, group)
    return updates_of(frames, bound)


def said(text):
    return {"type": "content", "content": {"type": "text", "text": text}}


def change(path, old, new):
    """A file that was changed, whole and as a patch."""
    return Diff((Change(Operation.MODIFY, path),), git_patch(path, old, new), (FileTexts(path, old, new),))


# -- calls ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "word"),
    [
        (ToolStatus.PENDING, "pending"),
        (ToolStatus.IN_PROGRESS, "in_progress"),
        (ToolStatus.COMPLETED, "completed"),
        (ToolStatus.FAILED, "failed"),
        (ToolStatus.CANCELLED, "failed"),
    ],
)
def test_statuses(status, word):
    (update,) = told([ToolCallUpdate(CALL, status=status)])
    assert update["status"] == word


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        (None, {"cancelled": True}),
        ({"error": "e"}, {"error": "e", "cancelled": True}),
        ("text", {"output": "text", "cancelled": True}),
    ],
)
def test_the_raw_output_of_a_cancelled_call_says_what_it_was(raw, shown):
    (update,) = told([ToolCallUpdate(CALL, status=ToolStatus.CANCELLED, raw_output=raw)])
    assert update["rawOutput"] == shown


def test_a_title_is_never_missing():
    (named,) = told([ToolCallUpdate(CALL, name="shell")])
    assert (named["title"], named["name"]) == ("shell", "shell")
    (first, later) = told([ToolCallUpdate(CALL, title="T")], [ToolCallUpdate(CALL, status=ToolStatus.FAILED)])
    assert (first["title"], "title" in later) == ("T", False)


def test_diffs_stand_before_everything_else():
    content = (Text("a"), change("/w/x", "1\n", "2\n"), Text("b"), change("/w/y", "3\n", "4\n"))
    (update,) = told([ToolCallUpdate(CALL, content=content)])
    assert [piece.get("path") or piece["content"]["text"] for piece in update["content"]] == [
        "/w/x",
        "/w/y",
        "a",
        "b",
    ]


def test_content_that_is_added_comes_with_what_was_there():
    first, second = told(
        [ToolCallUpdate(CALL, content=(Text("a"),))],
        [ev.ToolCallContentAdded(CALL, Text("b")), ev.ToolCallContentAdded(CALL, Text("c"))],
    )
    assert first["content"] == [said("a")]
    assert second == {
        "sessionUpdate": "tool_call_update",
        "toolCallId": "call_1",
        "content": [said("a"), said("b"), said("c")],
    }


def test_content_that_is_taken_away_is_told_to_be_none():
    first, none, bare = told(
        [ToolCallUpdate(CALL, content=(Text("a"),))],
        [ToolCallUpdate(CALL, content=())],
        [ToolCallUpdate(ToolCallId("call_2"), content=())],
    )
    assert (len(first["content"]), none["content"]) == (1, [])
    assert "content" not in bare


def test_content_that_stays_what_it_was_is_not_sent_again():
    content = (change("/w/x", "1\n", "2\n"),)
    _, done = told(
        [ToolCallUpdate(CALL, title="T", content=content)],
        [ToolCallUpdate(CALL, status=ToolStatus.COMPLETED, content=content)],
    )
    assert done == {"sessionUpdate": "tool_call_update", "toolCallId": "call_1", "status": "completed"}


def test_a_call_that_begins_has_its_own_content_again_in_place_of_a_question_s():
    diff = change("/w/x", "1\n", "2\n")
    _, began = told([ToolCallUpdate(CALL, title="T", content=(diff,))], [ev.ToolCallBegan(CALL)])
    assert [piece["type"] for piece in began["content"]] == ["diff"]
    _, bare = told([ToolCallUpdate(CALL, title="T")], [ev.ToolCallBegan(CALL)])
    assert "content" not in bare


def test_a_call_that_is_over_changes_no_more():
    done = ToolCallUpdate(CALL, status=ToolStatus.COMPLETED)
    after = [
        attrs.evolve(done, title="again"),
        ev.ToolCallBegan(CALL),
        ev.ToolCallContentAdded(CALL, Text("x")),
    ]
    assert len(told([done], after)) == 1


def test_calls_are_told_in_the_order_in_which_they_changed():
    other = ToolCallId("call_2")
    updates = told(
        [ToolCallUpdate(CALL, title="a"), ToolCallUpdate(other, title="b")],
        [ev.ToolCallBegan(other), ev.ToolCallBegan(CALL), ToolCallUpdate(other, status=ToolStatus.FAILED)],
    )
    assert [(update["toolCallId"], update.get("status")) for update in updates] == [
        ("call_1", None),
        ("call_2", None),
        ("call_2", "failed"),
        ("call_1", "in_progress"),
    ]


# -- the bound ------------------------------------------------------------------------------------------

LONG = st.builds(
    lambda unit, times: unit * times,
    st.text(st.sampled_from('a"\\\n\x01é🙂\ud800'), min_size=1, max_size=9),
    st.integers(0, 1500),
)
steady = settings(deadline=None, derandomize=True, max_examples=25)


def test_whole_texts_that_do_not_fit_give_way_to_hunks():
    lines = [f"{number}\n" for number in range(2000)]
    old = "".join(lines)
    (update,) = told(
        [ToolCallUpdate(CALL, content=(change("/w/x", old, old.replace("1000\n", "x\n")),))], bound=SMALL
    )
    (diff,) = update["content"]
    assert "… 997 unchanged lines …\n997\n998\n999\nx\n1001\n" in diff["newText"]


def test_a_diff_that_does_not_fit_is_a_sentence_and_the_others_stay():
    new = "é" * 3000
    content = (Text("said"), change("/w/x", "1\n", new), change("/w/y", "3\n", "4\n"))
    (update,) = told([ToolCallUpdate(CALL, content=content)], bound=SMALL)
    digest = hashlib.sha256(new.encode()).hexdigest()
    assert update["content"] == [
        said(
            f"The change of /w/x is too long to show here: of 2 characters it made 3,000, SHA-256 {digest}."
        ),
        {"type": "diff", "path": "/w/y", "oldText": "3\n", "newText": "4\n"},
        said("said"),
    ]


def test_text_that_does_not_fit_says_how_long_it_is_and_leaves_the_rest_its_room():
    (update,) = told([ToolCallUpdate(CALL, content=(Text("z" * 9000), Text("short")))], bound=SMALL)
    long, short = update["content"]
    assert long["content"]["text"].endswith("z… (9000 characters in all)")
    assert len(long["content"]["text"]) > SMALL // 2
    assert short == said("short")


def test_more_pieces_than_a_frame_has_room_for_are_counted():
    content = tuple(Text(f"{number}" * 300) for number in range(300))
    (update,) = told([ToolCallUpdate(CALL, content=content)], bound=SMALL)
    last = update["content"][-1]["content"]["text"]
    assert last == f"{300 - len(update['content']) + 1} more pieces do not fit here."


def test_raw_values_that_do_not_fit_say_how_long_they_are():
    value = {"x": "y" * 9000}
    encoded = json.dumps(value, separators=(",", ":")).encode()
    note = {
        "note": "Too long to show here.",
        "size": len(encoded),
        "sha256": hashlib.sha256(encoded).hexdigest(),
    }
    (update,) = told([ToolCallUpdate(CALL, raw_input={"a": 1}, raw_output=value)], bound=SMALL)
    assert (update["rawInput"], update["rawOutput"]) == ({"a": 1}, note)


# -- questions ------------------------------------------------------------------------------------------

ONCE = Option("allow-once", "Allow once", OptionKind.ALLOW_ONCE)
FILE = Option("allow-edit-file-session", "Allow edits of /w/x", OptionKind.ALLOW_ALWAYS)
FOLDER = Option("allow-edit-folder-session", "Allow edits below /w", OptionKind.ALLOW_ALWAYS)
DENY = Option("deny", "Deny this call", OptionKind.REJECT_ONCE)


def asked(ask, bound=MAX_FRAME_BYTES):
    """The params of the question, which fit both published schemas, and the ids that were sent."""
    raw, shown = ask_to_wire(ask, bound)
    request = (
        b'{"jsonrpc":"2.0","id":1000000,"method":"session/request_permission","params":' + bytes(raw) + b"}\n"
    )
    assert len(request) <= bound
    params = json.loads(bytes(raw).decode())
    try:
        schemas = published(1)
    except packages.Unavailable:
        schemas = ()
    for schema in schemas:
        schema.params("session/request_permission", "Request", params)
    return params, shown


def ask(call, options=(ONCE, FILE, FOLDER, DENY), description="Changes /w/x.\nWorking directory: /w"):
    return Ask(1, SessionId("s"), "Edit x", description, call, options)


EDIT = ToolCallUpdate(
    CALL,
    title="Edit x",
    name="search_replace",
    kind=ToolKind.EDIT,
    status=ToolStatus.PENDING,
    content=(change("/w/x", "1\n", "2\n"),),
    locations=(Location("/w/x", 1),),
    raw_input={"path": "x"},
    parent=ToolCallId("call_0"),
)


def test_a_question_is_a_call_and_options():
    params, shown = asked(ask(EDIT))
    assert params == {
        "sessionId": "s",
        "toolCall": {
            "toolCallId": "call_1",
            "title": "Edit x",
            "name": "search_replace",
            "kind": "edit",
            "status": "pending",
            "locations": [{"path": "/w/x", "line": 1}],
            "rawInput": {"path": "x"},
            "_meta": {"term2": {"parentToolCallId": "call_0"}},
            "content": [
                {"type": "diff", "path": "/w/x", "oldText": "1\n", "newText": "2\n"},
                said("Changes /w/x.\nWorking directory: /w"),
            ],
        },
        "options": [
            {"optionId": "allow-once", "name": "Allow once", "kind": "allow_once"},
            {"optionId": "allow-edit-file-session", "name": "Allow edits of /w/x", "kind": "allow_always"},
            {"optionId": "deny", "name": "Deny this call", "kind": "reject_once"},
        ],
    }
    assert shown == {"allow-once", "allow-edit-file-session", "deny"}


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ((ONCE, DENY), {"allow-once", "deny"}),
        ((FOLDER, DENY), {"allow-edit-folder-session", "deny"}),
        ((ONCE, FOLDER, FILE, DENY), {"allow-once", "allow-edit-folder-session", "deny"}),
    ],
)
def test_at_most_one_option_allows_for_longer_the_first(options, sent):
    assert asked(ask(EDIT, options))[1] == sent


def test_a_question_without_words_has_the_call_s_title_and_no_content():
    params, _ = asked(ask(ToolCallUpdate(CALL), description=""))
    assert params["toolCall"] == {"toolCallId": "call_1", "title": "Edit x", "content": []}


@steady
@given(LONG, LONG, LONG, st.integers(0, 300))
def test_no_question_is_ever_too_long(words, raw, new, places):
    call = attrs.evolve(
        EDIT,
        title=words,
        content=(change("/w/x", raw, new), Text(words)),
        locations=(Location("/w/x"),) * places,
        raw_input={"x": raw},
    )
    options = tuple(attrs.evolve(option, name=words) for option in (ONCE, FILE, FOLDER, DENY))
    params, shown = asked(ask(call, options, words), SMALL)
    assert len(params["options"]) == len(shown) == 3
