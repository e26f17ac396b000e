"""Certificates that the tests of this room share: making them takes a moment."""

import pytest

from tests.kit.certificates import Certified, certify


@pytest.fixture(scope="session")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """A certificate for ``site.test``."""
    return certify(tmp_path_factory.mktemp("certificates"), "DNS:site.test")


@pytest.fixture(scope="session")
def certified_here(tmp_path_factory: pytest.TempPathFactory) -> Certified:
    """A certificate for this machine."""
    return certify(tmp_path_factory.mktemp("certificates-here"), "IP:127.0.0.1", "DNS:localhost")
