"""What all tests have in common: they can be run by several processes, and their reports can travel.

The suite keeps every core at work. Its workers have to call each test the same, so bytes are no part of a
name: those that a compressor makes hold the time of day. And they send their reports as UTF-8; what a test
logged is part of its report, and some tests log half characters on purpose.

Every worker has to collect every test, and in a fresh tree most of that is work on modules that nobody has
compiled yet. So each begins at another place of the same list, and finds what the others have done by the
time it gets there. Bytecode is written for that, whatever the environment says.

Of a test that passed, a worker says so once and not in five messages: that took longer than the half of the
tests do.

A file is run by one worker, so one that takes long must not be the last: those of ``LONG`` are handed out
first, and what is left for the end is short.
"""

import contextlib
import functools
import gc
import importlib
import os
import sys
from pathlib import Path

import pytest

sys.dont_write_bytecode = False


CLIENTS = Path(__file__).parent / "clients"

# The files that take a worker longest, in the order in which they are handed out: those that install packages
# or hold a core for about eight seconds and more.
LONG = (
    "tests/sandbox/test_escapes.py",
    "tests/e2e/test_real_clients_acpx.py",
    "tests/e2e/test_real_clients_python.py",
    "tests/sandbox/test_git.py",
    "tests/faults/test_crash_matrix.py",
    "tests/e2e/test_process.py",
    "tests/faults/test_sweeps.py",
    "tests/faults/test_chaos.py",
    "tests/e2e/test_sdk_clients.py",
    "tests/providers/test_local.py",
    "tests/e2e/test_hostile.py",
    "tests/tools/test_run_code.py",
    "tests/cli/test_doctor.py",
    "tests/session/test_nested_calls.py",
    "tests/scripts/test_scripts.py",
)


def pytest_configure(config):
    if hasattr(config.option, "loadscopereorder"):
        config.option.loadscopereorder = False  # it goes by the number of tests, which is not what they take


@pytest.hookimpl(trylast=True)
def pytest_sessionstart(session):
    """In a worker, leave out what is told to nobody.

    That a test begins and has ended is shown by a run that is verbose, and what its fixtures took by one that
    is asked for times; both are left as they are.
    """
    option = session.config.option
    if option.verbose > 0 or option.durations is not None or getattr(option, "xmlpath", None):
        return
    for plugin in session.config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            plugin.sendevent = functools.partial(_send_what_is_told, plugin.sendevent)


def _send_what_is_told(send, name, **members):
    if name in ("logstart", "logfinish"):
        return
    report = members.get("data") if name == "testreport" else None
    if report is not None and (report["when"], report["outcome"]) in _TOLD_BY_THE_CALL:
        return
    send(name, **members)


_TOLD_BY_THE_CALL = (("setup", "passed"), ("teardown", "passed"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    places = {name: place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(LONG)))


def pytest_xdist_auto_num_workers(config):
    # One more than cores: a third of the suite's time is waiting for processes, sockets and limits of time.
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session):
    # What is made here lives as long as the process. Looking through it for garbage, again and again while
    # it is made and with every full collection of the tests, took a tenth of the suite's time.
    gc.disable()
    try:
        _import_in_turn(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item, nextitem):
    """After each file, set aside what has stayed of it: tests that collect then look at their own garbage.

    A collection goes through everything that was made since the start, a fifth of a second in the end.
    """
    try:
        return (yield)
    finally:
        if nextitem is None or nextitem.path != item.path:
            gc.collect()
            gc.freeze()


def _import_in_turn(config):
    """In a worker, import the test files that were asked for, from its own place in their list on."""
    worker = getattr(config, "workerinput", None)
    if worker is None:
        return
    asked = [config.invocation_params.dir / name.partition("::")[0] for name in config.args]
    files = sorted(
        {file for path in asked for file in ([path] if path.is_file() else path.rglob("test_*.py"))}
    )
    files = [file for file in files if CLIENTS not in file.parents]  # what is installed there is not ours
    first = len(files) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for file in files[first:] + files[:first]:
        # Collection imports it again when it fails here, and reports why.
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(_module_of(file.relative_to(config.rootpath)))


def _module_of(path: Path) -> str:
    return ".".join(path.with_suffix("").parts)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.sections = [
        (title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections
    ]
    return report


def pytest_make_parametrize_id(val, argname):
    return argname if isinstance(val, bytes) else None
