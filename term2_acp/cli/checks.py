"""The checks of ``term2 doctor`` that only look: machine, settings, store.

A check asks the code that would do the work: the settings are loaded as a start loads them. Nothing is
changed and nothing is left behind. There is no network here.
"""

import os
import platform
import stat
import tempfile
from collections.abc import Mapping

from attrs import evolve

import term2_acp
from term2_acp.cli.health import (
    Level,
    Machine,
    SettingsHealth,
    StoreHealth,
)
from term2_acp.config import Config, SettingsError, config_path, load, state_directory
from term2_acp.log import log_directory
from term2_acp.providers.servers import known
from term2_acp.store import StoreError

# Bytes that must be free for conversations to be kept; and for the outputs of one session's commands too.
FREE_FOR_SESSIONS = 16 * 1024**2
FREE_FOR_OUTPUTS = 256 * 1024**2

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MIB = 1024**2


def check_machine() -> Machine:
    """What term2 runs on."""
    system = os.uname()
    return Machine(
        term2=term2_acp.__version__,
        python=platform.python_version(),
        system=f"{system.sysname} {system.release}",
        machine=system.machine,
        root=os.geteuid() == 0,
    )


# -- settings --------------------------------------------------------------------------------------


def check_settings(environ: Mapping[str, str]) -> tuple[SettingsHealth, Config | None]:
    """Load the settings as a start without flags does; None for settings that refuse it."""
    path = config_path(environ)
    try:
        config = load(environ)
    except SettingsError as error:
        found = path is not None and os.path.lexists(path)
        return SettingsHealth(Level.BROKEN, (str(error),), path, found), None
    level = Level.LESS if config.warnings else Level.OK
    return SettingsHealth(level, config.warnings, path, config.source is not None), config


def secrets_of(config: Config | None, environ: Mapping[str, str]) -> tuple[str, ...]:
    """Every key that is known, also as it is sent: without the white space that came along."""
    return known.secrets_of(config or Config(), environ)


# -- the store -------------------------------------------------------------------------------------


def check_store(environ: Mapping[str, str]) -> StoreHealth:
    """See whether conversations can be kept, and whether those that were kept are sound."""
    try:
        directory = state_directory(environ)
    except SettingsError as error:
        return StoreHealth(Level.BROKEN, (str(error),))
    place = nearest(directory)
    free = _free_bytes(place)
    broken = _unwritable(place)
    less: list[str] = []
    health = StoreHealth(
        Level.OK, directory=directory, database="absent", free_bytes=free, logs=log_directory(directory)
    )
    if place == directory and os.path.isdir(directory):
        mode = stat.S_IMODE(os.stat(directory).st_mode)
        health, faults = _with_database(evolve(health, mode=f"{mode:04o}"), directory)
        broken += faults
        if mode & _OTHERS:
            less.append(f"Other users can get into {directory}; chmod 700 makes it private.")
    if free is not None and free < FREE_FOR_OUTPUTS:
        full = broken if free < FREE_FOR_SESSIONS else less
        full.append(f"Only {free // _MIB} MiB are free on the disk where conversations are kept.")
    level = Level.BROKEN if broken else Level.LESS if less else Level.OK
    return evolve(health, level=level, problems=(*broken, *less))


def _with_database(health: StoreHealth, directory: str) -> tuple[StoreHealth, list[str]]:
    """What is known of the database too, and what is wrong with it."""
    from term2_acp.store.examine import barred, examine  # it imports sqlite3

    closed = barred(directory)
    if closed:
        faults = [f"{path} cannot be read and written by this user." for path in closed]
        return evolve(health, database="broken"), faults
    try:
        found = examine(directory)
    except StoreError as error:
        return evolve(health, database="broken"), [error.message]
    word = "absent" if not found.found else "sound" if found.sound else "unchecked"
    notes = (found.note,) if found.note else ()
    return evolve(health, database=word, sessions=found.sessions, notes=notes), []


def nearest(path: str) -> str:
    """What has the name, or else the nearest name above that there is."""
    while not os.path.lexists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _unwritable(place: str) -> list[str]:
    """What is wrong with a folder in which something is to be made; tried with a file without a name."""
    if not os.path.isdir(place):
        return [f"{place} is not a directory."]
    try:
        with tempfile.TemporaryFile(dir=place):
            return []
    except OSError as error:
        return [f"{place} cannot be written to: {os.strerror(error.errno or 0).lower()}."]


def _free_bytes(place: str) -> int | None:
    try:
        found = os.statvfs(place)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize
