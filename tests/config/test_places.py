"""Where settings and state are looked for, which layer decides, and files that cannot be read."""

import os
import pwd

import pytest

from term2_acp.config import (
    EFFORTS,
    Config,
    ProviderSettings,
    SettingsError,
    config_path,
    known_keys,
    load,
    state_directory,
)
from term2_acp.providers.servers.presets import PRESETS

HOME = "/home/me"


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"HOME": HOME}, "/home/me/.config/term2/settings.toml"),
        ({"HOME": HOME, "XDG_CONFIG_HOME": "/x"}, "/x/term2/settings.toml"),
        ({"HOME": HOME, "XDG_CONFIG_HOME": ""}, "/home/me/.config/term2/settings.toml"),
        ({"HOME": HOME, "XDG_CONFIG_HOME": "relative"}, "/home/me/.config/term2/settings.toml"),
        ({"HOME": HOME, "XDG_CONFIG_HOME": "/x", "TERM2_CONFIG": "/c.toml"}, "/c.toml"),
        ({"HOME": HOME, "TERM2_CONFIG": "~/c.toml"}, "/home/me/c.toml"),
        ({"HOME": HOME, "TERM2_CONFIG": ""}, "/home/me/.config/term2/settings.toml"),
        ({"HOME": HOME, "TERM2_CONFIG": "c.toml"}, os.path.join(os.getcwd(), "c.toml")),
    ],
)
def test_where_the_settings_are(environ, path):
    assert config_path(environ) == path


@pytest.mark.parametrize(
    ("environ", "path"),
    [
        ({"HOME": HOME}, "/home/me/.local/state/term2"),
        ({"HOME": HOME, "XDG_STATE_HOME": "/x"}, "/x/term2"),
        ({"HOME": HOME, "XDG_STATE_HOME": "x"}, "/home/me/.local/state/term2"),
        ({"HOME": HOME, "XDG_STATE_HOME": "/x", "TERM2_STATE_DIR": "/s/t"}, "/s/t"),
        ({"HOME": HOME, "TERM2_STATE_DIR": "~/s"}, "/home/me/s"),
        ({"XDG_STATE_HOME": "/x"}, "/x/term2"),
    ],
)
def test_where_the_state_is(environ, path):
    assert state_directory(environ) == path


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "relative"}])
def test_without_home_the_user_database_is_asked(environ):
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert state_directory(environ) == f"{home}/.local/state/term2"
    assert config_path(environ) == f"{home}/.config/term2/settings.toml"


def test_an_absent_file_is_fine_unless_it_is_named(tmp_path):
    assert load({"HOME": str(tmp_path)}) == Config()
    path = tmp_path / "none.toml"
    with pytest.raises(SettingsError) as caught:
        load({"TERM2_CONFIG": str(path)})
    assert str(caught.value) == f"{path}: cannot be read: does not exist"


def test_a_file_in_place_of_the_settings_directory_is_no_file(tmp_path):
    (tmp_path / ".config").write_text("")
    assert load({"HOME": str(tmp_path)}) == Config()


def settings_below(home):
    path = home / ".config" / "term2" / "settings.toml"
    path.parent.mkdir(parents=True)
    return path


def test_a_link_that_leads_nowhere_is_not_an_absent_file(tmp_path):
    path = settings_below(tmp_path)
    path.symlink_to("gone")
    with pytest.raises(SettingsError, match="does not exist"):
        load({"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkdir, "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (lambda path: path.write_bytes(b"#" * (1024 * 1024 + 1)), "is larger than a settings file may be"),
        (lambda path: path.symlink_to(path), "too many levels of symbolic links"),
    ],
)
def test_what_is_no_file_is_refused_at_once(tmp_path, make, reason):
    path = settings_below(tmp_path)
    make(path)
    with pytest.raises(SettingsError) as caught:
        load({"HOME": str(tmp_path)})
    assert str(caught.value).startswith(f"{path}: ")
    assert reason in str(caught.value)


def test_flag_before_environment_before_file(tmp_path):
    path = settings_below(tmp_path)
    path.write_text("provider = 'file'\nmodel = 'file'\neffort = 'low'\n")
    environ = {"HOME": str(tmp_path)}

    def chosen(config):
        return config.provider, config.model, config.effort

    assert chosen(load(environ)) == ("file", "file", "low")
    environ |= {"TERM2_PROVIDER": "env", "TERM2_MODEL": "", "TERM2_EFFORT": "high"}
    assert chosen(load(environ)) == ("env", "file", "high")
    assert chosen(load(environ, provider="flag", model="flag")) == ("flag", "flag", "high")
    assert chosen(load(environ, effort="none")) == ("env", "file", "none")
    assert load(environ).source == str(path)


def test_where_a_setting_comes_from(tmp_path):
    """The beginning of the line that refuses a start: the place that a person has to change."""
    path = settings_below(tmp_path)
    path.write_text("provider = 'file'\nmodel = 'file'\n")
    environ = {"HOME": str(tmp_path)}
    assert load(environ).named_in("provider") == f"{path}:provider: "
    environ |= {"TERM2_PROVIDER": "env", "TERM2_MODEL": ""}
    config = load(environ, effort="low")
    assert config.named_in("provider") == "TERM2_PROVIDER: "
    assert config.named_in("model") == f"{path}:model: "
    assert config.named_in("effort") == "--effort: "
    assert load(environ, provider="flag").named_in("provider") == "--provider: "
    path.unlink()
    assert load({"HOME": str(tmp_path)}).named_in("provider") == ""


@pytest.mark.parametrize(
    ("environ", "flags", "message"),
    [
        ({"TERM2_EFFORT": "hi"}, {}, f"TERM2_EFFORT: must be one of {', '.join(EFFORTS)}, not 'hi'"),
        ({"TERM2_MODEL": " "}, {}, "TERM2_MODEL: must not be empty"),
        ({"TERM2_EFFORT": "low"}, {"effort": ""}, f"--effort: must be one of {', '.join(EFFORTS)}, not ''"),
        ({}, {"provider": ""}, "--provider: must not be empty"),
        ({}, {"model": "\t"}, "--model: must not be empty"),
    ],
)  # fmt: skip
def test_a_bad_variable_or_flag_is_named(tmp_path, environ, flags, message):
    with pytest.raises(SettingsError) as caught:
        load({"HOME": str(tmp_path), **environ}, **flags)
    assert str(caught.value) == message


def test_the_keys_that_we_were_given(tmp_path):
    config = Config(
        providers={
            "a": ProviderSettings("openai", api_key="in-the-file"),
            "b": ProviderSettings("openai", api_key_env="MINE"),
            "c": ProviderSettings("openai", api_key_env="UNSET"),
        }
    )
    environ = {"OPENAI_API_KEY": "one", "OPENROUTER_API_KEY": "", "MINE": "two", "OTHER_API_KEY": "not ours"}
    assert known_keys(config, environ) == ("in-the-file", "one", "two")


def test_every_variable_that_a_key_may_come_from_holds_one():
    """Also those of providers that nothing names: what we were given must not be shown."""
    environ = {name: f"key of {name}" for preset in PRESETS.values() for name in preset.keys}
    assert {"GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"} <= set(
        environ
    )
    assert known_keys(Config(), environ) == tuple(sorted(environ.values()))
