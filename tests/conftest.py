"""What all tests have in common: they can be run by several processes, and their reports can travel.

The suite runs on every core. Its workers have to call each test the same, so bytes are no part of a name:
those that a compressor makes hold the time of day. And they send their reports as UTF-8; what a test logged
is part of its report, and some tests log half characters on purpose.
"""

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.sections = [
        (title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections
    ]
    return report


def pytest_make_parametrize_id(val, argname):
    return argname if isinstance(val, bytes) else None
