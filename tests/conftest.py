"""What all tests have in common: reports can travel between the processes that run them.

The suite runs on every core, and its workers send their reports as UTF-8. What a test logged is part of its
report, and some tests log half characters on purpose.
"""

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.sections = [
        (title, text.encode(errors="backslashreplace").decode()) for title, text in report.sections
    ]
    return report
