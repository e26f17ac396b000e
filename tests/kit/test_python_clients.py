"""Getting the Python clients: what is there is used, and what cannot be had is one clear reason."""

import sys

import pytest

from tests.kit import python_clients
from tests.kit.packages import Unavailable


@pytest.fixture
def pins(tmp_path):
    path = tmp_path / "pins.txt"
    path.write_text("no-such-client==1.0\n")
    return path


def test_what_cannot_be_had_is_a_reason_that_names_it_and_what_is_there_is_used(pins, tmp_path, monkeypatch):
    # Offline on purpose: an index that has nothing answers at once.
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    environment = tmp_path / "environment"
    with pytest.raises(Unavailable, match=r"installing no-such-client failed .*no-such-client"):
        python_clients.install("no-such-client", environment, pins)
    assert not (environment / "has-no-such-client").exists()
    (environment / "has-no-such-client").write_text((environment / "made").read_text())
    python = python_clients.install("no-such-client", environment, pins)
    assert python == str(environment / "bin" / "python")


def test_a_python_that_makes_no_environment_is_a_reason(pins, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/usr/bin/false")
    with pytest.raises(Unavailable, match="making the environment failed"):
        python_clients.install("some-client", tmp_path / "environment", pins)
