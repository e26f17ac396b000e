"""Paths as values: what a target is, containment, and the one table of names that ask.

No file system is asked here; every path is POSIX text. Two kinds of guard:

- A *protected name* (``.git/``, ``AGENTS.md``, ``.bashrc``) decides what somebody's tools will run or
  believe later. It is protected at any depth, with everything below it, and against changes only.
- A *hidden path* holds credentials, a shell history, or term2's own settings and state. It is guarded
  against reading as well, and its guard is written from the home directory (``~/.ssh``).

Names are compared without case, and without the characters that some file systems ignore in names: a
volume that folds ``.GIT`` into ``.git`` must not offer a way round, and one that does not merely asks
once more than it had to.
"""

import functools
import posixpath
import unicodedata

from term2_acp.domain.classes import frozen

PROTECTED_NAMES = (
    ".git/",
    ".envrc",
    ".vscode/",
    ".idea/",
    ".mcp.json",
    "AGENTS.md",
    "CLAUDE.md",
    ".cursorrules",
    ".github/workflows/",
    # What shells run when they start, and what starts them.
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".xonshrc",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".config/fish/",
    ".config/nushell/",
    ".config/powershell/",
    ".config/xonsh/",
    ".config/environment.d/",
)
"""Names that ask before they are changed, at any depth; a final slash marks a folder."""

GIT_FOLDER = ".git/"
"""The protected name of which a command may change most: a commit must work."""

GIT_PARTS = (
    # Names programs by the dozen: aliases, filters, pagers, `core.fsmonitor`, `core.hooksPath`.
    "config",
    # The same for one worktree, read where `config` turns it on.
    "config.worktree",
    # Says where else the two above and the hooks are taken from.
    "commondir",
    "hooks",
)
"""What git executes or believes in a folder of its own, be it ``.git``, bare, or named by a ``.git`` file.

All else there is data to git. ``info/attributes`` only chooses among the programs that ``config`` names, and
a ``.gitattributes`` in any folder can do that too; alternates, ``HEAD``, refs and the index name objects; a
URL in the old ``remotes`` and ``branches`` runs nothing.
"""

GIT_SCRIPTS = ("rebase-merge/git-rebase-todo", "rebase-merge/strategy", "sequencer/opts")
"""What git executes when its user goes on with what was begun: ``exec`` lines of a rebase, and the program
that is named as the strategy.

Git rewrites them at each step, so a command may as well; that they appeared or changed is said.
"""

GIT_INNER = ("modules", "worktrees")
"""Folders in a ``.git`` folder that hold further ones, for submodules (at any depth) and for worktrees."""

HIDDEN_PATHS = (
    ".ssh",
    ".aws",
    ".config/gcloud",
    ".kube",
    ".gnupg",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".docker",
    # Shell histories: people paste secrets into command lines.
    ".bash_history",
    ".zsh_history",
    ".zhistory",
    ".zsh_sessions",
    ".sh_history",
    ".ksh_history",
    ".history",
    ".local/share/fish/fish_history",
    ".config/fish/fish_history",
    ".config/nushell/history.txt",
    ".config/nushell/history.sqlite3",
    ".local/share/xonsh",
    ".local/share/powershell/PSReadLine",
)
"""Paths below the home directory that ask before they are read or changed, with all below them."""

OWN_FILES = "term2's own settings and state"
OWN_CODE = "term2's own code"

# Home directories and workspaces in use at a time, for which the table is kept written out.
_FEW_FOLDERS = 16

_FOLDED_NAMES = tuple((f"/{name.rstrip('/').lower()}/", name) for name in PROTECTED_NAMES)

# By the last part of a protected name: what stands before that, and the name.
_BY_LAST_PART = {
    last: tuple(
        (whole[: -len(last) - 2], name) for whole, name in _FOLDED_NAMES if whole.endswith(f"/{last}/")
    )
    for last in {whole.split("/")[-2] for whole, _name in _FOLDED_NAMES}
}

# By the first part of a protected name that has several: what stands after that.
_BY_FIRST_PART = {
    first: tuple(
        whole[len(first) + 2 : -1] for whole, _name in _FOLDED_NAMES if whole.startswith(f"/{first}/")
    )
    for first in {whole.split("/")[1] for whole, _name in _FOLDED_NAMES if whole.count("/") > 2}
}


@frozen
class Target:
    """A path that a tool call is about, resolved once.

    ``typed`` is what the model wrote, made absolute from the session's cwd and otherwise untouched;
    resolving it again at the moment of use must give the same ``path``. ``path`` is canonical: no
    link, no ``..``, no double slash in it. ``inside`` tells whether it lies in the workspace.
    ``guarded`` is the protected name or hidden credential path that covers it, as a person would write
    it (``.git/``, ``~/.ssh``), or None.
    """

    typed: str
    path: str
    inside: bool
    guarded: str | None = None


def is_within(folder: str, path: str) -> bool:
    """Whether ``path`` is ``folder`` or lies below it; both canonical. ``/a/ws2`` is not within ``/a/ws``."""
    return path == folder or path.startswith(folder if folder.endswith("/") else folder + "/")


def hides(guard: str | None) -> bool:
    """Whether a guard stands for a hidden path, which asks for reading as well as for changing."""
    return guard is not None and (guard.startswith("~/") or guard == OWN_FILES)


def guard_of(
    path: str, *, home: str | None, own_paths: tuple[str, ...] = (), own_code: tuple[str, ...] = ()
) -> str | None:
    """What guards ``path``, as a person would write it, or None.

    ``home`` is the person's home directory. ``own_paths`` are term2's settings file and its state
    directory; ``own_code`` is the directory of its code, for an installation inside a workspace.
    A hidden path is named before a protected one, since it is the stricter of the two.
    """
    folded = _fold(path)
    hidden = _hidden(folded, home) or _own_files(folded, home, own_paths)
    return hidden or _protected(folded) or (OWN_CODE if _below_any(own_code, folded) is not None else None)


def protected_at(folder: str, name: str) -> str | None:
    """The protected name that ``name`` in ``folder`` is itself, and not only lies below; or None.

    Quick where it is none: a walk asks for every name that it finds.
    """
    rows = _BY_LAST_PART.get(_fold(name))
    if rows is None:
        return None
    before = _fold(folder)
    return next((guard for parts, guard in rows if before.endswith(parts)), None)


def protected_below(name: str) -> tuple[str, ...]:
    """What makes a protected name together with ``name``: ``workflows`` for ``.github``."""
    return _BY_FIRST_PART.get(_fold(name), ())


@functools.lru_cache(maxsize=_FEW_FOLDERS)
def named_paths(folder: str, *, home: bool) -> tuple[tuple[str, str], ...]:
    """Where the guarded names lie directly below ``folder``: pairs of path and guard.

    With ``home`` the hidden paths are among them. For those who must look whether such a name is a link
    (then what it leads to is guarded too), or must hide it from a command.
    """
    protected = [(posixpath.join(folder, name.rstrip("/")), name) for name in PROTECTED_NAMES]
    hidden = [(posixpath.join(folder, name), f"~/{name}") for name in HIDDEN_PATHS] if home else []
    return (*hidden, *protected)


def _fold(text: str) -> str:
    """The form in which names are compared: no case, one composition, no ignorable characters."""
    if text.isascii():
        return text.lower()
    plain = unicodedata.normalize("NFKC", text)
    return "".join(char for char in plain if unicodedata.category(char) != "Cf").casefold()


def _hidden(folded: str, home: str | None) -> str | None:
    if home is None or _below_any((home,), folded) is None:
        return None  # all of them are in the home directory
    return next((guard for place, guard in _hidden_places(home) if is_within(place, folded)), None)


@functools.lru_cache(maxsize=_FEW_FOLDERS)
def _hidden_places(home: str) -> tuple[tuple[str, str], ...]:
    return tuple((_fold(posixpath.join(home, name)), f"~/{name}") for name in HIDDEN_PATHS)


@functools.lru_cache(maxsize=_FEW_FOLDERS)
def _folded(places: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_fold, places))


def _own_files(folded: str, home: str | None, own_paths: tuple[str, ...]) -> str | None:
    place = _below_any(own_paths, folded)
    if place is None:
        return None
    if home is not None and place != home and is_within(home, place):
        return f"~/{posixpath.relpath(place, home)}"
    return OWN_FILES


def _below_any(places: tuple[str, ...], folded: str) -> str | None:
    folds = zip(places, _folded(places), strict=True)
    return next((place for place, fold in folds if is_within(fold, folded)), None)


def _protected(folded: str) -> str | None:
    if _BY_LAST_PART.keys().isdisjoint(folded.split("/")):
        return None  # most paths have no such name in them
    whole = folded.rstrip("/") + "/"
    return next((name for part, name in _FOLDED_NAMES if part in whole), None)
