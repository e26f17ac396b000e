"""Reading the settings and putting the layers together."""

import errno
import os
import stat
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from term2_acp.config.places import SettingsError, config_path
from term2_acp.config.settings import Config, Wrong

MAX_FILE_BYTES = 1024 * 1024
"""A settings file has a few hundred bytes; something this large is not one."""

_LAYERED = ("provider", "model", "effort")

# The variables that a provider's key comes from without being named, and those that it might: whatever they
# hold, we were given it.
_STANDARD_KEYS = (
    "OPENAI_API_KEY",
    "ANTHROPIC_API_KEY",
    "OPENROUTER_API_KEY",
    "GROQ_API_KEY",
    "MISTRAL_API_KEY",
    "DEEPSEEK_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_API_KEY",
)


def load(
    environ: Mapping[str, str],
    *,
    provider: str | None = None,
    model: str | None = None,
    effort: str | None = None,
) -> Config:
    """The settings in force. The keyword arguments are the command line's flags.

    Raises ``SettingsError``, whose message is one line, ``file:key: what is wrong`` for a fault of the
    file and ``NAME: what is wrong`` for one of a variable or a flag.
    """
    path = config_path(environ)
    config = Config() if path is None else _from_file(path, named=bool(environ.get("TERM2_CONFIG")))
    for name, flag in zip(_LAYERED, (provider, model, effort), strict=True):
        variable = f"TERM2_{name.upper()}"
        value, where = (flag, f"--{name}") if flag is not None else (environ.get(variable) or None, variable)
        if value is not None:
            change: dict[str, Any] = {name: value, "origins": {**config.origins, name: where}}
            try:
                config = evolve(config, **change)
            except Wrong as wrong:
                raise SettingsError(f"{where}: {wrong.what}") from None
    return config


def known_keys(config: Config, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Every key that we were given, for the redactor: in the file and in the variables it may name."""
    settings = config.providers.values()
    variables = {*_STANDARD_KEYS, *(s.api_key_env for s in settings if s.api_key_env is not None)}
    found = {environ[name] for name in variables if environ.get(name)}
    return tuple(sorted(found | {s.api_key for s in settings if s.api_key is not None}))


def _from_file(path: str, *, named: bool) -> Config:
    content = _read(path, named=named)
    if content is None:
        return Config()
    text, others_can_read = content
    from term2_acp.config.toml import parse  # it imports tomllib and cattrs

    config = evolve(parse(path, text), source=path)
    keys = [name for name, settings in config.providers.items() if settings.api_key is not None]
    if others_can_read and keys:
        config = evolve(
            config,
            warnings=tuple(
                f"{path}:providers.{name}.api_key: other users can read this file; chmod 600 makes it private"
                for name in keys
            ),
        )
    return config


def _read(path: str, *, named: bool) -> tuple[bytes, bool] | None:
    """The file's bytes, and whether others can read them; None when there is no file."""
    try:
        # Not blocking: a FIFO in its place must not hold the start up.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        absent = error.errno in (errno.ENOENT, errno.ENOTDIR) and not os.path.lexists(path)
        if absent and not named:
            return None
        # A link that leads nowhere is a file that was meant to be there.
        reason = "does not exist" if error.errno == errno.ENOENT else os.strerror(error.errno or 0).lower()
        raise SettingsError(f"{path}: cannot be read: {reason}") from None
    try:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise SettingsError(f"{path}: cannot be read: not a regular file")
        with open(fd, "rb", closefd=False) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {os.strerror(error.errno or 0).lower()}") from None
    finally:
        os.close(fd)
    if len(content) > MAX_FILE_BYTES:
        raise SettingsError(f"{path}: is larger than a settings file may be ({MAX_FILE_BYTES} bytes)")
    return content, bool(status.st_mode & (stat.S_IRGRP | stat.S_IROTH))
