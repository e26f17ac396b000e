"""What a grant covers and what it does not: aliases, neighbours, the other kind of access, guarded targets,
another session; and how long an answer is remembered."""

import pytest

from term2_acp.domain.paths import Target
from term2_acp.domain.permission import Access, Action
from term2_acp.permission.choices import Choice
from term2_acp.permission.grants import SessionAccess, TurnAnswers

FILE = Choice.ALLOW_EDIT_FILE_SESSION
EDITS = Choice.ALLOW_EDIT_FOLDER_SESSION
READS = Choice.ALLOW_FOLDER_SESSION


def act(access, path, *, typed=None, inside=False, guarded=None):
    return Action(access, Target(typed or path, path, inside, guarded))


def edit(path, **more):
    return act(Access.EDIT, path, **more)


def read(path, **more):
    return act(Access.READ, path, **more)


def search(path, **more):
    return act(Access.SEARCH, path, **more)


def granted(choice, action):
    access = SessionAccess()
    access.record(choice, action)
    return access


@pytest.mark.parametrize(
    ("choice", "shown", "later", "expected"),
    [
        # A file grant is for the file, whatever name it is reached by.
        (FILE, edit("/o/src/a"), edit("/o/src/a"), True),
        (FILE, edit("/o/src/a"), edit("/o/src/a", typed="/o/src/../src/./a"), True),
        (FILE, edit("/o/src/a"), edit("/o/src/b"), False),
        (FILE, edit("/o/src/a"), edit("/o/src/a/b"), False),
        (FILE, edit("/o/src/a"), read("/o/src/a"), False),
        # The name that was granted leads elsewhere now.
        (FILE, edit("/o/src/a"), edit("/o/secret", typed="/o/src/a"), False),
        # A folder grant is for the folder that holds the target, and all below it.
        (EDITS, edit("/o/src/a"), edit("/o/src/b"), True),
        (EDITS, edit("/o/src/a"), edit("/o/src/deep/er/b"), True),
        (EDITS, edit("/o/src/a"), edit("/o/srcs/b"), False),
        (EDITS, edit("/o/src/a"), edit("/o/b"), False),
        (EDITS, edit("/o/src/a"), read("/o/src/a"), False),
        (EDITS, edit("/o/src/a"), search("/o/src"), False),
        (READS, read("/o/src/a"), read("/o/src/b"), True),
        (READS, read("/o/src/a"), search("/o/src"), True),
        (READS, read("/o/src/a"), search("/o/src/deep"), True),
        (READS, read("/o/src/a"), search("/o"), False),
        (READS, read("/o/src/a"), edit("/o/src/a"), False),
        # A search grants the folder that was searched, not the one that holds it.
        (READS, search("/o/src"), read("/o/src/a"), True),
        (READS, search("/o/src"), read("/o/other"), False),
        # A guarded target is never covered, and never granted.
        (EDITS, edit("/o/src/a"), edit("/o/src/.git/config", guarded=".git/"), False),
        (READS, read("/o/src/a"), read("/o/src/AGENTS.md", guarded="AGENTS.md"), False),
        (EDITS, edit("/o/AGENTS.md", guarded="AGENTS.md"), edit("/o/b"), False),
        (FILE, edit("/o/AGENTS.md", guarded="AGENTS.md"), edit("/o/AGENTS.md"), False),
        (READS, read("/h/.ssh/id", guarded="~/.ssh"), read("/h/.ssh/x"), False),
        # A choice about one kind of access grants nothing for the other.
        (EDITS, read("/o/src/a"), edit("/o/src/a"), False),
        (READS, edit("/o/src/a"), read("/o/src/a"), False),
        # What lies inside needs no grant, and leaves none.
        (EDITS, edit("/ws/a", inside=True), edit("/ws/b"), False),
        # Once is once.
        (Choice.ALLOW_ONCE, edit("/o/src/a"), edit("/o/src/a"), False),
        (Choice.APPROVE, read("/o/src/a"), read("/o/src/a"), False),
        (Choice.DENY, edit("/o/src/a"), edit("/o/src/a"), False),
        (EDITS, Action(Access.OTHER, None, "fetch"), Action(Access.OTHER, None, "fetch"), False),
    ],
)
def test_what_a_grant_covers(choice, shown, later, expected):
    assert granted(choice, shown).covers(later) is expected


def test_grants_name_canonical_paths():
    access = granted(FILE, edit("/o/a", typed="/o/x/../a"))
    access.record(EDITS, edit("/p/q/b"))
    access.record(READS, search("/r"))
    assert access == SessionAccess({"/o/a"}, {"/p/q"}, {"/r"})


def test_a_reset_forgets_and_another_session_never_knew():
    access = granted(EDITS, edit("/o/a"))
    assert not SessionAccess().covers(edit("/o/a"))
    access.reset()
    assert access == SessionAccess()
    assert not access.covers(edit("/o/a"))


def test_a_turn_remembers_by_tool_option_and_scope():
    answers = TurnAnswers()
    answers.remember("create_file", EDITS, edit("/o/a"))
    assert answers.covering("create_file", [edit("/o/b")]) is EDITS
    assert answers.covering("apply_patch", [edit("/o/b")]) is None
    assert answers.covering("create_file", [edit("/p/b")]) is None
    # The same scope, not one below it: that is for the session's grants to say.
    assert answers.covering("create_file", [edit("/o/deep/b")]) is None
    assert answers.covering("create_file", [edit("/o/.git/x", guarded=".git/")]) is None
    assert answers.covering("create_file", [read("/o/a")]) is None


def test_a_remembered_answer_must_answer_for_every_action_that_can_ask():
    answers = TurnAnswers()
    answers.remember("apply_patch", FILE, edit("/o/a"))
    inside = edit("/ws/a", inside=True)
    assert answers.covering("apply_patch", [inside, edit("/o/a")]) is FILE
    assert answers.covering("apply_patch", [edit("/o/a"), edit("/o/b")]) is None
    assert answers.covering("apply_patch", [edit("/ws/.git/x", inside=True, guarded=".git/")]) is None
    assert answers.covering("apply_patch", [inside]) is None
    assert answers.covering("apply_patch", []) is None


@pytest.mark.parametrize("choice", [Choice.ALLOW_ONCE, Choice.DENY, Choice.APPROVE, Choice.REJECT])
def test_what_is_for_one_call_is_not_remembered(choice):
    answers = TurnAnswers()
    answers.remember("create_file", choice, edit("/o/a"))
    assert answers.covering("create_file", [edit("/o/a")]) is None


def test_settling_the_prompt_forgets_its_answers():
    answers = TurnAnswers()
    answers.remember("create_file", EDITS, edit("/o/a"))
    answers.settle()
    assert answers.covering("create_file", [edit("/o/a")]) is None
