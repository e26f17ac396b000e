"""The package as it is installed."""

import importlib.metadata

import term2_acp


def test_the_version_is_the_distribution_version():
    assert importlib.metadata.version("term2-acp") == term2_acp.__version__
