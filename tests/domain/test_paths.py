"""The table of guarded names: what is protected at any depth, what is hidden, and the prefix trap."""

import pytest

from term2_acp.domain.paths import (
    HIDDEN_PATHS,
    OWN_CODE,
    OWN_FILES,
    PROTECTED_NAMES,
    guard_of,
    hides,
    is_within,
    named_paths,
)

HOME = "/home/u"


@pytest.mark.parametrize(
    ("folder", "path", "within"),
    [
        ("/a/ws", "/a/ws", True),
        ("/a/ws", "/a/ws/x/y", True),
        ("/a/ws", "/a/ws2", False),
        ("/a/ws", "/a/ws2/x", False),
        ("/a/ws", "/a", False),
        ("/", "/", True),
        ("/", "/x", True),
        ("/a", "/A/x", False),
    ],
)
def test_containment_goes_by_whole_names(folder, path, within):
    assert is_within(folder, path) is within


@pytest.mark.parametrize(
    ("path", "guard"),
    [
        ("/ws/.git", ".git/"),
        ("/ws/.git/hooks/pre-commit", ".git/"),
        ("/ws/sub/deep/.git/config", ".git/"),
        ("/elsewhere/.git/config", ".git/"),
        ("/ws/.gitignore", None),
        ("/ws/x.git/config", None),
        ("/ws/git/config", None),
        ("/ws/.GIT/config", ".git/"),
        ("/ws/.g\u200cit/config", ".git/"),
        ("/ws/.github/workflows/ci.yml", ".github/workflows/"),
        ("/ws/.github/workflows", ".github/workflows/"),
        ("/ws/.github/CODEOWNERS", None),
        ("/ws/workflows/ci.yml", None),
        ("/ws/a/AGENTS.md", "AGENTS.md"),
        ("/ws/agents.MD", "AGENTS.md"),
        ("/ws/AGENTS.md.bak", None),
        ("/ws/CLAUDE.md", "CLAUDE.md"),
        ("/ws/.cursorrules", ".cursorrules"),
        ("/ws/.envrc", ".envrc"),
        ("/ws/.env", None),
        ("/ws/.vscode/settings.json", ".vscode/"),
        ("/ws/.idea/x", ".idea/"),
        ("/ws/.mcp.json", ".mcp.json"),
        ("/ws/dotfiles/.zshrc", ".zshrc"),
        ("/home/u/.bash_profile", ".bash_profile"),
        ("/home/u/.config/fish/config.fish", ".config/fish/"),
        ("/home/u/.config/foo/config", None),
        ("/ws/src/main.py", None),
        ("/", None),
    ],
)
def test_protected_names_at_any_depth_and_in_any_case(path, guard):
    assert guard_of(path, home=HOME) == guard
    assert not hides(guard)


@pytest.mark.parametrize(
    ("path", "guard"),
    [
        ("/home/u/.ssh", "~/.ssh"),
        ("/home/u/.ssh/id_ed25519", "~/.ssh"),
        ("/home/u/.SSH/id_ed25519", "~/.ssh"),
        ("/home/u/.aws/credentials", "~/.aws"),
        ("/home/u/.config/gcloud/x", "~/.config/gcloud"),
        ("/home/u/.kube/config", "~/.kube"),
        ("/home/u/.gnupg/x", "~/.gnupg"),
        ("/home/u/.netrc", "~/.netrc"),
        ("/home/u/.npmrc", "~/.npmrc"),
        ("/home/u/.pypirc", "~/.pypirc"),
        ("/home/u/.docker/config.json", "~/.docker"),
        ("/home/u/.bash_history", "~/.bash_history"),
        ("/home/u/.config/fish/fish_history", "~/.config/fish/fish_history"),
        ("/home/u/.sshx", None),
        ("/home/other/.ssh/id", None),
        ("/home/u", None),
    ],
)
def test_hidden_paths_are_those_of_the_home_directory(path, guard):
    assert guard_of(path, home=HOME) == guard
    assert hides(guard) == (guard is not None)


@pytest.mark.parametrize("home", ["/", "/home/U", "/home/\uff35", HOME])
def test_hidden_paths_are_found_in_every_home(home):
    """Also where the home directory is the root, or is written as a file system might fold it."""
    for name in HIDDEN_PATHS:
        place = f"{home.rstrip('/')}/{name}"
        for path in (place, f"{place}/below", place.upper()):
            assert guard_of(path, home=home) == f"~/{name}"


def test_without_a_home_nothing_is_hidden():
    assert guard_of("/home/u/.ssh/id", home=None) is None


def test_term2s_own_files_are_hidden_and_its_code_is_protected():
    own = {"own_paths": ("/home/u/.config/term2", "/srv/state"), "own_code": ("/ws/term2_acp",)}
    assert guard_of("/home/u/.config/term2/settings.toml", home=HOME, **own) == "~/.config/term2"
    assert guard_of("/srv/state/db", home=HOME, **own) == OWN_FILES
    assert hides(OWN_FILES)
    assert guard_of("/ws/term2_acp/app.py", home=HOME, **own) == OWN_CODE
    assert not hides(OWN_CODE)
    assert guard_of("/ws/term2_acp2/app.py", home=HOME, **own) is None


def test_the_places_of_the_names_are_guarded_by_themselves():
    places = named_paths(HOME, home=True)
    assert len(places) == len(PROTECTED_NAMES) + len(HIDDEN_PATHS)
    for path, guard in places:
        assert guard_of(path, home=HOME) == guard
    assert ("/ws/.git", ".git/") in named_paths("/ws", home=False)
    assert all(not hides(guard) for _, guard in named_paths("/ws", home=False))
