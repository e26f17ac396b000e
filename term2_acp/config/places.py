"""Where settings and state are (XDG Base Directory Specification 0.8).

As the specification wants it, a variable that is empty counts as unset, and so does an ``XDG_*``
variable with a relative path. Our own variables may hold ``~`` (editors set them without a shell) or a
path relative to the working directory.
"""

import os
from collections.abc import Mapping


class SettingsError(Exception):
    """The settings cannot be used. The message is one line, ``where: what is wrong``."""


def home_directory(environ: Mapping[str, str]) -> str | None:
    """The person's home directory; None for a user without one.

    An unset, empty or relative ``HOME`` does not leave anybody without the hidden paths of the account.
    """
    home = environ.get("HOME", "")
    if os.path.isabs(home):
        return home
    import pwd  # rarely needed

    try:
        home = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:  # a container's user id without an entry
        return None
    return home if os.path.isabs(home) else None


def config_path(environ: Mapping[str, str]) -> str | None:
    """The path of the settings file, which need not exist; None when there is no home to look in."""
    named = environ.get("TERM2_CONFIG")
    if named:
        return _absolute(named, environ)
    base = _base(environ, "XDG_CONFIG_HOME", ".config")
    return None if base is None else os.path.join(base, "term2", "settings.toml")


def state_directory(environ: Mapping[str, str]) -> str:
    """The directory of the session database and the logs. It need not exist.

    Raises ``SettingsError`` when nothing says where it is.
    """
    named = environ.get("TERM2_STATE_DIR")
    if named:
        return _absolute(named, environ)
    base = _base(environ, "XDG_STATE_HOME", os.path.join(".local", "state"))
    if base is None:
        raise SettingsError("TERM2_STATE_DIR: must be set, since there is no home directory")
    return os.path.join(base, "term2")


def _base(environ: Mapping[str, str], variable: str, below_home: str) -> str | None:
    base = environ.get(variable, "")
    if os.path.isabs(base):
        return base
    home = home_directory(environ)
    return None if home is None else os.path.join(home, below_home)


def _absolute(path: str, environ: Mapping[str, str]) -> str:
    if path == "~" or path.startswith("~/"):
        home = home_directory(environ)
        if home is not None:
            path = home + path[1:]
    return os.path.abspath(path)
