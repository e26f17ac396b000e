"""The policy: every row of the table of what asks, with the choices in their order, in each mode, with and
without grants and under a provider that asks for edits; and how the rows of a call with several actions go
together. Values only; no file system and no Trio."""

import itertools

import pytest

from term2_acp.domain.options import Mode
from term2_acp.domain.paths import OWN_FILES, Target, is_within
from term2_acp.domain.permission import Access, Action
from term2_acp.permission.choices import Choice
from term2_acp.permission.grants import SessionAccess
from term2_acp.permission.ground import Ground, may_grant
from term2_acp.permission.policy import PLAN_KEEPS_FILES, Allow, AskPerson, Deny, decide

GROUND = Ground("/home/ann/ws", "/home/ann")

READ_ASK = (Choice.APPROVE, Choice.ALLOW_FOLDER_SESSION, Choice.REJECT)
EDIT_ASK = (Choice.ALLOW_ONCE, Choice.ALLOW_EDIT_FILE_SESSION, Choice.ALLOW_EDIT_FOLDER_SESSION, Choice.DENY)
EDIT_ASK_NO_FOLDER = (Choice.ALLOW_ONCE, Choice.ALLOW_EDIT_FILE_SESSION, Choice.DENY)
APPROVE = (Choice.APPROVE, Choice.REJECT)
ONCE = (Choice.ALLOW_ONCE, Choice.DENY)


def act(access, path, guarded=None):
    return Action(access, Target(path, path, is_within(GROUND.workspace, path), guarded))


def read(path, guarded=None):
    return act(Access.READ, path, guarded)


def search(path, guarded=None):
    return act(Access.SEARCH, path, guarded)


def edit(path, guarded=None):
    return act(Access.EDIT, path, guarded)


COMMAND = Action(Access.COMMAND, None, "Runs a command in the sandbox.")
FETCH = Action(Access.OTHER, None, "fetch https://example.org/")


def decided(*actions, access=None, asks_for_edits=False, ground=GROUND, mode=Mode.STANDARD):
    decision = decide(
        actions, access or SessionAccess(), ground=ground, asks_for_edits=asks_for_edits, mode=mode
    )
    return decision.choices if isinstance(decision, AskPerson) else decision


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (read("/home/ann/ws/a"), Allow()),
        (search("/home/ann/ws"), Allow()),
        (edit("/home/ann/ws/a"), Allow()),
        # Reading a protected name in the workspace does not ask; changing it does, once each time.
        (read("/home/ann/ws/AGENTS.md", "AGENTS.md"), Allow()),
        (read("/home/ann/ws/.git/config", ".git/"), Allow()),
        (edit("/home/ann/ws/.git/config", ".git/"), ONCE),
        (edit("/home/ann/ws/.envrc", ".envrc"), ONCE),
        # Outside.
        (read("/srv/data/a"), READ_ASK),
        (search("/srv/data"), READ_ASK),
        (edit("/srv/data/a"), EDIT_ASK),
        (edit("/srv/data/AGENTS.md", "AGENTS.md"), ONCE),
        (read("/srv/data/AGENTS.md", "AGENTS.md"), APPROVE),
        # Credential paths, outside and in the workspace itself.
        (read("/home/ann/.ssh/id", "~/.ssh"), APPROVE),
        (search("/home/ann/.ssh", "~/.ssh"), APPROVE),
        (edit("/home/ann/.ssh/config", "~/.ssh"), ONCE),
        (read("/home/ann/ws/.npmrc", "~/.npmrc"), APPROVE),
        (edit("/home/ann/ws/.npmrc", "~/.npmrc"), ONCE),
        # term2's own settings and state, wherever they were put.
        (read("/var/term2/store.db", OWN_FILES), APPROVE),
        (edit("/home/ann/ws/.state/x", OWN_FILES), ONCE),
        # What has no file.
        (FETCH, APPROVE),
        (COMMAND, Allow()),
        # No folder choice for `/`, the home directory, what holds either the home or the workspace.
        (read("/etc"), APPROVE),
        (search("/"), APPROVE),
        (edit("/f"), EDIT_ASK_NO_FOLDER),
        (read("/home/ann/notes"), APPROVE),
        (edit("/home/ann/notes"), EDIT_ASK_NO_FOLDER),
        (search("/home/ann"), APPROVE),
        (search("/home"), APPROVE),
        (read("/home/ann/wsx/a"), READ_ASK),
        (read("/home/ben/a"), READ_ASK),
    ],
)
def test_one_action(action, expected):
    assert decided(action) == expected


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (edit("/home/ann/ws/a"), APPROVE),
        (edit("/srv/data/a"), ONCE),
        (edit("/home/ann/ws/.git/config", ".git/"), ONCE),
        (read("/home/ann/ws/a"), Allow()),
        (read("/srv/data/a"), READ_ASK),
    ],
)
def test_where_every_edit_asks(action, expected):
    assert decided(action, asks_for_edits=True) == expected


def test_where_every_edit_asks_a_grant_does_not_answer():
    access = SessionAccess(allow_edit_files={"/srv/data/a"}, allow_edit_folders={"/srv/data"})
    assert decided(edit("/srv/data/a"), access=access, asks_for_edits=True) == ONCE


# -- modes -----------------------------------------------------------------------------------------

PLACES = {
    "inside": ("/home/ann/ws/a", None),
    "outside": ("/srv/data/a", None),
    "protected-inside": ("/home/ann/ws/AGENTS.md", "AGENTS.md"),
    "protected-outside": ("/srv/data/AGENTS.md", "AGENTS.md"),
    "hidden-inside": ("/home/ann/ws/.npmrc", "~/.npmrc"),
    "hidden-outside": ("/home/ann/.ssh/id", "~/.ssh"),
}
WORDS = {
    "allow": Allow(),
    "granted": Allow(granted=True),
    "deny": Deny(PLAN_KEEPS_FILES),
    "approve": APPROVE,
    "once": ONCE,
    "read-ask": READ_ASK,
    "edit-ask": EDIT_ASK,
}
# What is done and where; then in standard, ask and plan: with nothing granted, and with everything granted.
MODES = """
    read    inside             allow    allow    allow     allow    allow    allow
    read    outside            read-ask read-ask read-ask  granted  granted  granted
    read    protected-inside   allow    allow    allow     allow    allow    allow
    read    protected-outside  approve  approve  approve   approve  approve  approve
    read    hidden-inside      approve  approve  approve   approve  approve  approve
    read    hidden-outside     approve  approve  approve   approve  approve  approve
    search  inside             allow    allow    allow     allow    allow    allow
    search  outside            read-ask read-ask read-ask  granted  granted  granted
    search  protected-inside   allow    allow    allow     allow    allow    allow
    search  protected-outside  approve  approve  approve   approve  approve  approve
    search  hidden-inside      approve  approve  approve   approve  approve  approve
    search  hidden-outside     approve  approve  approve   approve  approve  approve
    edit    inside             allow    approve  deny      allow    approve  deny
    edit    outside            edit-ask once     deny      granted  once     deny
    edit    protected-inside   once     once     deny      once     once     deny
    edit    protected-outside  once     once     deny      once     once     deny
    edit    hidden-inside      once     once     deny      once     once     deny
    edit    hidden-outside     once     once     deny      once     once     deny
    command -                  allow    approve  allow     allow    approve  allow
    other   -                  approve  approve  approve   approve  approve  approve
"""


def _rows():
    for line in MODES.strip().splitlines():
        access, place, *words = line.split()
        for (granted, mode), word in zip(itertools.product((False, True), Mode), words, strict=True):
            yield Access(access), place, granted, mode, word


ROWS = list(_rows())
EVERYTHING = SessionAccess({"/srv/data/a"}, {"/"}, {"/"})


def _action(access, place):
    return Action(access, None, "It.") if place == "-" else act(access, *PLACES[place])


def test_the_table_of_modes_is_whole():
    with_files = itertools.product((Access.READ, Access.SEARCH, Access.EDIT), PLACES)
    without = [(Access.COMMAND, "-"), (Access.OTHER, "-")]
    assert {row[:2] for row in ROWS} == {*with_files, *without}
    assert len(ROWS) == 20 * 2 * len(Mode)


@pytest.mark.parametrize(("access", "place", "granted", "mode", "word"), ROWS)
def test_one_action_in_one_mode(access, place, granted, mode, word):
    found = decided(_action(access, place), access=EVERYTHING if granted else None, mode=mode)
    assert found == WORDS[word]


@pytest.mark.parametrize(("access", "place", "granted", "mode", "word"), ROWS)
def test_a_provider_that_asks_for_edits_does_so_in_every_mode_and_allows_nothing(
    access, place, granted, mode, word
):
    """Its word for an edit or a command is that of ``ask``, unless the mode denies it."""
    of_ask = {row[:3]: row[4] for row in ROWS if row[3] is Mode.ASK}
    expected = (
        word
        if word == "deny" or access not in {Access.EDIT, Access.COMMAND}
        else of_ask[access, place, granted]
    )
    found = decided(
        _action(access, place), access=EVERYTHING if granted else None, mode=mode, asks_for_edits=True
    )
    assert found == WORDS[expected]


@pytest.mark.parametrize("other", [*PLACES, None])
def test_one_edit_denies_its_whole_call_in_plan(other):
    beside = FETCH if other is None else read(*PLACES[other])
    for actions in ([beside, edit("/home/ann/ws/a")], [edit("/srv/data/a"), beside]):
        assert decided(*actions, mode=Mode.PLAN, access=EVERYTHING) == Deny(PLAN_KEEPS_FILES)


def test_no_mode_makes_or_ends_a_grant():
    access = SessionAccess(allow_edit_folders={"/srv/data"})
    standard = Allow(granted=True)
    for mode, expected in ((Mode.ASK, ONCE), (Mode.PLAN, Deny(PLAN_KEEPS_FILES)), (Mode.STANDARD, standard)):
        assert decided(edit("/srv/data/a"), access=access, mode=mode) == expected
    assert access == SessionAccess(allow_edit_folders={"/srv/data"})


def test_what_does_not_say_what_it_is_about_is_denied_in_every_mode_for_that_reason():
    for mode in Mode:
        assert decided(Action(Access.EDIT), mode=mode).reason.startswith("This call does not say which file")


# -- several actions -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("actions", "expected"),
    [
        ((), Allow()),
        ((read("/home/ann/ws/a"), edit("/home/ann/ws/b")), Allow()),
        ((edit("/home/ann/ws/a"), edit("/srv/data/b")), EDIT_ASK),
        ((edit("/srv/data/a"), edit("/opt/b/c")), EDIT_ASK),
        ((edit("/srv/data/a"), edit("/home/ann/ws/.git/x", ".git/")), ONCE),
        ((edit("/srv/data/a"), edit("/f")), EDIT_ASK_NO_FOLDER),
        ((read("/srv/data/a"), read("/home/ann/.ssh/id", "~/.ssh")), APPROVE),
        ((read("/srv/data/a"), FETCH), APPROVE),
        # No choice in common: one way to allow once and one to refuse, in the words of the edit.
        ((read("/srv/data/a"), edit("/srv/data/b")), ONCE),
        ((FETCH, edit("/srv/data/b")), ONCE),
    ],
)
def test_several_actions(actions, expected):
    assert decided(*actions) == expected
    assert decided(*reversed(actions)) == expected


def test_a_grant_answers_for_its_own_part_of_a_call_only():
    access = SessionAccess(allow_edit_folders={"/srv/data"})
    assert decided(edit("/srv/data/a"), access=access) == Allow(granted=True)
    assert decided(edit("/srv/data/a"), read("/home/ann/ws/b"), access=access) == Allow(granted=True)
    assert decided(edit("/home/ann/ws/a"), access=access) == Allow()
    assert decided(edit("/srv/data/a"), edit("/opt/b/c"), access=access) == EDIT_ASK
    assert decided(read("/srv/data/a"), access=access) == READ_ASK


def test_no_folder_choice_when_a_covered_action_would_make_it_too_wide():
    # The file in the home directory is granted; a folder choice for both would name the home directory.
    access = SessionAccess(allow_edit_files={"/home/ann/notes"})
    assert decided(edit("/home/ann/notes"), edit("/srv/data/a"), access=access) == EDIT_ASK_NO_FOLDER


def test_a_guard_is_stronger_than_every_grant():
    access = SessionAccess(
        allow_edit_files={"/srv/data/AGENTS.md", "/home/ann/.ssh/id"},
        allow_edit_folders={"/srv/data", "/home/ann/.ssh"},
        allow_read_folders={"/srv/data", "/home/ann/.ssh"},
    )
    assert decided(edit("/srv/data/AGENTS.md", "AGENTS.md"), access=access) == ONCE
    assert decided(read("/srv/data/AGENTS.md", "AGENTS.md"), access=access) == APPROVE
    assert decided(read("/home/ann/.ssh/id", "~/.ssh"), access=access) == APPROVE


@pytest.mark.parametrize(
    "action",
    [
        Action(Access.READ),
        Action(Access.EDIT),
        Action(Access.SEARCH, None, "search"),
        Action(Access.EDIT, Target("a", "a", inside=True)),
        Action(Access.OTHER, Target("/a", "/a", inside=True), "what?"),
        Action(Access.COMMAND, Target("/a", "/a", inside=True), "what?"),
    ],
)
def test_an_action_that_does_not_say_what_it_is_about_is_denied(action):
    decision = decided(read("/home/ann/ws/a"), action)
    assert isinstance(decision, Deny)
    assert decision.reason == "This call does not say which file it is about, so it is refused."


def test_a_command_asks_where_every_edit_asks():
    assert decided(COMMAND, asks_for_edits=True) == APPROVE
    everything = SessionAccess({"/"}, {"/"}, {"/"})
    assert decided(COMMAND, access=everything, asks_for_edits=True) == APPROVE


def test_without_a_home_only_the_workspace_and_the_root_are_too_wide():
    ground = Ground("/w/s")
    assert not may_grant("/", ground)
    assert not may_grant("/w", ground)
    assert not may_grant("/w/s", ground)
    assert may_grant("/home/ann", ground)
