"""Which variables a command gets: those on a list, and some that keep it from waiting for a person.

Theory of operation. The daemon's environment holds keys, session cookies and addresses of agents (of SSH,
of the desktop), under names that nobody can list. So the list says what is passed on: who and where the
person is, the language, and where tools are installed. The rest is fixed: temporary files and caches go to
the private temporary folder, since the home directory is read-only, and nothing opens an editor, a pager or
a prompt: no person would see it.

A listed variable is left out when its value holds one of the given secrets, or cannot stand in an
environment. Bytes that are no UTF-8, and line ends, are passed on as they are.
"""

from collections.abc import Iterable, Mapping

from term2_acp.redact import Redactor

DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""Where programs are looked for when the environment names no folder."""

_PERSON = ("HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ")

# Places, not settings: each names a folder in which a toolchain or what it installed is found.
_TOOLCHAINS = (
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYENV_ROOT",
    "NVM_DIR",
    "VOLTA_HOME",
    "NODE_PATH",
    "PNPM_HOME",
    "BUN_INSTALL",
    "JAVA_HOME",
    "MAVEN_HOME",
    "GRADLE_HOME",
    "ANDROID_HOME",
    "GOROOT",
    "GOPATH",
    "CARGO_HOME",
    "RUSTUP_HOME",
    "RBENV_ROOT",
    "GEM_HOME",
    "GEM_PATH",
    "DOTNET_ROOT",
    "ASDF_DATA_DIR",
    "MISE_DATA_DIR",
)

_PASSED = frozenset((*_PERSON, *_TOOLCHAINS))

# The variables of the language's parts: LC_ALL, LC_CTYPE, and so on.
_LOCALE = "LC_"

# A program that fails at once: in the place of an editor or of a question for a password, the command that
# needs one ends with an error that says so, where another program would wait for the timeout.
_FAILS = "false"

_FIXED = {
    "TERM": "dumb",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "EDITOR": _FAILS,
    "VISUAL": _FAILS,
    "GIT_EDITOR": _FAILS,
    "GIT_SEQUENCE_EDITOR": _FAILS,
    "GIT_ASKPASS": _FAILS,
    "SSH_ASKPASS": _FAILS,
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
}


def environment(
    environ: Mapping[str, str],
    secrets: Iterable[str],
    *,
    temporary: str = "/tmp",  # noqa: S108 -- the private one of the sandbox
) -> dict[str, str]:
    """The whole environment of a command, made from the daemon's.

    ``secrets`` are the keys that the daemon was given. ``temporary`` is the command's private temporary
    folder.
    """
    redactor = Redactor(secrets)
    found = {name: value for name, value in environ.items() if name in _PASSED or name.startswith(_LOCALE)}
    found["PATH"] = _path(environ.get("PATH", ""))
    passed = {
        name: value
        for name, value in found.items()
        if "=" not in name and _fits(name) and _fits(value) and redactor.redact(value) == value
    }
    cache = f"{temporary}/.cache"
    places = {"TMPDIR": temporary, "XDG_CACHE_HOME": cache, "npm_config_cache": f"{cache}/npm"}
    return {"PATH": DEFAULT_PATH} | passed | _FIXED | places


def _path(value: str) -> str:
    """The search path without what stands for the folder a command is in: that is the workspace's own."""
    return ":".join(folder for folder in value.split(":") if folder.startswith("/")) or DEFAULT_PATH


def _fits(text: str) -> bool:
    """Whether the text can stand in an environment: a lone surrogate that stands for no byte cannot."""
    try:
        return b"\0" not in text.encode(errors="surrogateescape")
    except UnicodeEncodeError:
        return False
