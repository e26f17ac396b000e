"""Getting the official packages: each way in which they cannot be had is one clear reason, never a crash."""

import json

import pytest

from tests.kit import packages


@pytest.fixture
def project(tmp_path):
    (tmp_path / "package.json").write_text(json.dumps({"dependencies": {"some-sdk": "npm:is-number@7.0.0"}}))
    return tmp_path


def test_what_is_there_already_is_not_installed_again(project, monkeypatch):
    monkeypatch.setenv("PATH", "")
    installed = project / "node_modules" / "some-sdk"
    installed.mkdir(parents=True)
    (installed / "package.json").write_text('{"version": "7.0.0"}')
    assert packages.install(project) == project / "node_modules"


def test_another_version_is_not_what_was_asked_for(project, monkeypatch):
    monkeypatch.setenv("PATH", "")
    installed = project / "node_modules" / "some-sdk"
    installed.mkdir(parents=True)
    (installed / "package.json").write_text('{"version": "7.0.1"}')
    with pytest.raises(packages.Unavailable):
        packages.install(project)


def test_without_node_the_reason_names_node(project, monkeypatch):
    monkeypatch.setenv("PATH", "")
    with pytest.raises(packages.Unavailable, match="node is not installed"):
        packages.install(project)


def test_a_registry_that_does_not_answer_is_a_reason(project, monkeypatch, tmp_path):
    packages.require()  # where there is no node there is nothing to try here
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    monkeypatch.setenv("npm_config_fetch_retries", "0")
    monkeypatch.setenv("npm_config_cache", str(tmp_path / "cache"))
    with pytest.raises(packages.Unavailable, match=r"npm install failed .*ECONNREFUSED"):
        packages.install(project)
    assert not (project / "package-lock.json").exists()
