"""What all tests have in common: they can be run by several processes, and their reports can travel.

The suite keeps every core at work. Its workers have to call each test the same, so bytes are no part of a
name: those that a compressor makes hold the time of day. And they send their reports as UTF-8; what a test
logged is part of its report, and some tests log half characters on purpose.
"""

import os

import pytest


def pytest_xdist_auto_num_workers(config):
    # One more than cores: a third of the suite's time is waiting for processes, sockets and limits of time.
    return len(os.sched_getaffinity(0)) + 1


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.sections = [
        (title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections
    ]
    return report


def pytest_make_parametrize_id(val, argname):
    return argname if isinstance(val, bytes) else None
