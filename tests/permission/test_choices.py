"""The choices on the wire: ids, ACP kinds, order and names, what can never be offered; and text in which
nothing is hidden from the person who reads it."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from term2_acp.domain.paths import Target
from term2_acp.domain.permission import Access, Action, Option, OptionKind
from term2_acp.permission.choices import KINDS, Choice, allows, escape_for_person, escape_lines, to_options
from term2_acp.permission.ground import Ground

GROUND = Ground("/home/ann/ws", "/home/ann")


def act(access, path, *, inside=False):
    return Action(access, Target(path, path, inside))


def test_the_mapping_is_exactly_the_contract():
    once, always, no = OptionKind.ALLOW_ONCE, OptionKind.ALLOW_ALWAYS, OptionKind.REJECT_ONCE
    assert {choice.value: kind for choice, kind in KINDS.items()} == {
        "approve": once,
        "allow-once": once,
        "allow-folder-session": always,
        "allow-edit-file-session": always,
        "allow-edit-folder-session": always,
        "reject": no,
        "deny": no,
    }
    assert {choice.value for choice in Choice} - {choice.value for choice in KINDS} == {
        "unsandboxed-once",
        "allow-remember",
    }
    assert {choice.value for choice in Choice if allows(choice)} == {
        "approve",
        "allow-once",
        "allow-folder-session",
        "allow-edit-file-session",
        "allow-edit-folder-session",
    }


def test_an_edit_outside_is_named_for_what_where_and_how_long():
    edit = act(Access.EDIT, "/srv/a/b.py")
    choices = [
        Choice.DENY,
        Choice.ALLOW_EDIT_FOLDER_SESSION,
        Choice.ALLOW_EDIT_FILE_SESSION,
        Choice.ALLOW_ONCE,
    ]
    assert to_options(choices, [edit], GROUND) == (
        Option("allow-once", "Allow once: edit /srv/a/b.py", OptionKind.ALLOW_ONCE),
        Option(
            "allow-edit-file-session",
            "Allow edits of /srv/a/b.py until this session closes",
            OptionKind.ALLOW_ALWAYS,
        ),
        Option(
            "allow-edit-folder-session",
            "Allow edits below /srv/a until this session closes",
            OptionKind.ALLOW_ALWAYS,
        ),
        Option("deny", "Deny this call", OptionKind.REJECT_ONCE),
    )


@pytest.mark.parametrize(
    ("action", "once", "session"),
    [
        (act(Access.READ, "/srv/a/b"), "Allow once: read /srv/a/b", "Allow reading below /srv/a until"),
        (act(Access.SEARCH, "/srv/a"), "Allow once: search below /srv/a", "Allow reading below /srv/a until"),
    ],
)
def test_reading_outside_is_named(action, once, session):
    options = to_options([Choice.APPROVE, Choice.ALLOW_FOLDER_SESSION, Choice.REJECT], [action], GROUND)
    assert [option.option_id for option in options] == ["approve", "allow-folder-session", "reject"]
    assert options[0].name == once
    assert options[1].name == f"{session} this session closes"
    assert options[2] == Option("reject", "Reject this call", OptionKind.REJECT_ONCE)


def test_what_has_no_file_is_named_by_its_description():
    fetch = Action(Access.OTHER, None, "fetch https://example.org/\u202egpj")
    options = to_options([Choice.APPROVE, Choice.REJECT], [fetch], GROUND)
    assert options[0].name == "Allow once: fetch https://example.org/\\u202egpj"


def test_every_path_that_is_granted_is_named_once():
    actions = [
        act(Access.EDIT, "/srv/a/1"),
        act(Access.EDIT, "/srv/a/2"),
        act(Access.EDIT, "/opt/b/3"),
        act(Access.EDIT, "/home/ann/ws/4", inside=True),
    ]
    options = to_options([Choice.ALLOW_ONCE, Choice.ALLOW_EDIT_FOLDER_SESSION, Choice.DENY], actions, GROUND)
    assert options[1].name == "Allow edits below /srv/a and /opt/b until this session closes"
    assert (
        options[0].name == "Allow once: edit /srv/a/1, edit /srv/a/2, edit /opt/b/3 and edit /home/ann/ws/4"
    )


@pytest.mark.parametrize("never", [Choice.UNSANDBOXED_ONCE, Choice.ALLOW_REMEMBER])
def test_what_is_never_offered_cannot_be(never):
    with pytest.raises(ValueError, match=f"{never} is never offered"):
        to_options([Choice.APPROVE, never, Choice.REJECT], [act(Access.READ, "/srv/a/b")], GROUND)


@pytest.mark.parametrize(
    ("choices", "action", "why"),
    [
        ([Choice.APPROVE], act(Access.READ, "/srv/a/b"), "a way to refuse"),
        ([Choice.REJECT], act(Access.READ, "/srv/a/b"), "a way to allow"),
        ([], act(Access.READ, "/srv/a/b"), "a way to allow"),
        (
            [Choice.APPROVE, Choice.ALLOW_FOLDER_SESSION, Choice.REJECT],
            act(Access.READ, "/home/ann/x"),
            "never granted",
        ),
        (
            [Choice.APPROVE, Choice.ALLOW_FOLDER_SESSION, Choice.REJECT],
            act(Access.SEARCH, "/home"),
            "never granted",
        ),
        (
            [Choice.APPROVE, Choice.ALLOW_FOLDER_SESSION, Choice.REJECT],
            act(Access.EDIT, "/srv/a/b"),
            "grant nothing",
        ),
        (
            [Choice.ALLOW_ONCE, Choice.ALLOW_EDIT_FILE_SESSION, Choice.DENY],
            Action(Access.EDIT, Target("/o/.envrc", "/o/.envrc", inside=False, guarded=".envrc")),
            "grant nothing",
        ),
    ],
)
def test_options_that_would_grant_wrongly_cannot_be_made(choices, action, why):
    with pytest.raises(ValueError, match=why):
        to_options(choices, [action], GROUND)


# -- text ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("ls -la /tmp", "ls -la /tmp"),
        ("Grüße 你好 🙂 naïve", "Grüße 你好 🙂 naïve"),
        ("a\u202eb", "a\\u202eb"),
        ("a\u200bb", "a\\u200bb"),
        ("a\u2028b", "a\\u2028b"),
        ("\x1b[2K", "\\u001b[2K"),
        ("\x9b2K", "\\u009b2K"),
        ("a\rb\nc\td", "a\\u000db\\u000ac\\u0009d"),
        ("\U000e0041", "\\U000e0041"),
        ("\u2066x\u2069", "\\u2066x\\u2069"),
        ("\ufeff", "\\ufeff"),
        ("\udcff", "\\udcff"),
        ("a" + " " * 5000 + "; rm", "a" + " " * 5000 + "; rm"),
        ("already \\u202e", "already \\u202e"),
    ],
)
def test_hidden_characters_are_written_out(text, shown):
    assert escape_for_person(text) == shown
    assert escape_for_person(shown) == shown


def test_no_control_and_no_character_that_turns_others_around_is_ever_shown():
    turning = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
    for point in range(sys.maxunicode + 1):
        character = chr(point)
        if unicodedata.category(character) in {"Cc", "Zl", "Zp", "Cs"} or (
            unicodedata.bidirectional(character) in turning
        ):
            assert escape_for_person(character) != character, hex(point)


@settings(deadline=None, derandomize=True)
@given(st.text())
def test_escaping_twice_is_escaping_once(text):
    once = escape_for_person(text)
    assert escape_for_person(once) == once
    assert escape_lines(text).split("\n") == [escape_for_person(line) for line in text.split("\n")]
