"""The settings file: every key with good and bad values, and each fault as one line that names the file
and the key (or the line) and says what is wrong, without repeating a secret."""

import os
import subprocess
import sys
from decimal import Decimal

import pytest

from term2_acp.config import (
    EFFORTS,
    PRESET_NAMES,
    AcpSettings,
    Config,
    Limits,
    ModelSettings,
    ProviderSettings,
    RetentionSettings,
    SettingsError,
    load,
)
from term2_acp.providers.base import Effort
from term2_acp.providers.servers.presets import PRESETS


@pytest.fixture
def file(tmp_path):
    """Write the settings file and load it."""
    path = tmp_path / "settings.toml"

    def write(content, *, mode=0o600, **flags):
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        path.chmod(mode)
        return load({"TERM2_CONFIG": str(path)}, **flags)

    write.path = str(path)
    return write


def test_everything_that_can_be_set(file):
    config = file("""
        provider = "lab"
        model = "qwen3-coder"
        effort = "xhigh"
        [providers.lab]
        type = "openai-compatible"
        base_url = "http://127.0.0.1:8080/v1"
        api_key_env = "LAB_KEY"
        models = ["qwen3-coder", "other"]
        [providers.lab.catalog.qwen3-coder]
        context_tokens = 262_144
        output_tokens = 65_536
        images = true
        efforts = ["none", "high"]
        input_usd = 0.1
        output_usd = 3
        cache_read_usd = 0.01
        cache_write_usd = 0.125
        [providers.mine]
        type = "anthropic"
        api_key = "sk-ant-1234"
        [providers.test]
        type = "scripted"
        script = "/s.toml"
        [providers.noise]
        type = "chaos"
        seed = 0
        [providers.small]
        type = "local"
        [limits]
        model_calls = 7
        idle_s = 1.5
        [retention]
        days = 90
        sessions = 500
        [acp]
        profile = "full"
    """)
    assert config == Config(
        provider="lab",
        model="qwen3-coder",
        effort="xhigh",
        providers={
            "lab": ProviderSettings(
                type="openai-compatible",
                base_url="http://127.0.0.1:8080/v1",
                api_key_env="LAB_KEY",
                models=("qwen3-coder", "other"),
                catalog={
                    "qwen3-coder": ModelSettings(
                        context_tokens=262_144,
                        output_tokens=65_536,
                        images=True,
                        efforts=("none", "high"),
                        input_usd=Decimal("0.1"),
                        output_usd=Decimal(3),
                        cache_read_usd=Decimal("0.01"),
                        cache_write_usd=Decimal("0.125"),
                    )
                },
            ),
            "mine": ProviderSettings(type="anthropic", api_key="sk-ant-1234"),
            "test": ProviderSettings(type="scripted", script="/s.toml"),
            "noise": ProviderSettings(type="chaos", seed=0),
            "small": ProviderSettings(type="local"),
        },
        limits=Limits(model_calls=7, idle_s=1.5),
        retention=RetentionSettings(days=90, sessions=500),
        acp=AcpSettings(profile="full"),
        source=file.path,
        warnings=(),
    )


def test_an_empty_file_is_all_defaults(file):
    assert file("") == Config(source=file.path)
    assert file(b"\xef\xbb\xbf# with a byte order mark\r\n") == Config(source=file.path)
    config = file("[limits]\nidle_s = 5\n")
    assert config.limits == Limits(model_calls=100, idle_s=5.0)
    assert type(config.limits.idle_s) is float
    assert config.retention == RetentionSettings(days=None, sessions=None)
    assert file("[retention]\nsessions = 1").retention == RetentionSettings(days=None, sessions=1)


PROVIDER = '[providers.lab]\ntype = "{}"\n'
OPENAI = PROVIDER.format("openai")
CHAOS = PROVIDER.format("chaos")
MODEL = OPENAI + '[providers.lab.catalog."gpt-4.1"]\n'
WHERE = 'providers.lab.catalog."gpt-4.1"'
PRICE = "must be USD for a million tokens, from 0 to 1000000"
TOKENS = "must be a number of tokens from 1 to 1000000000"
KNOWN = "unknown key; known here are acp, effort, limits, model, provider, providers, retention"


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        ("modle = 'x'", "modle", "unknown key; did you mean 'model'?"),
        ("MODEL = 'x'", "MODEL", "unknown key; did you mean 'model'?"),
        ("[limit]", "limit", "unknown key; did you mean 'limits'?"),
        ("[limits]\nmodel_call = 1", "limits.model_call", "unknown key; did you mean 'model_calls'?"),
        ("[acp]\nprofil = 'full'", "acp.profil", "unknown key; did you mean 'profile'?"),
        ("[provider.lab]\ntype = 'local'", "provider", "must be text, not a table"),
        ("zz = 1", "zz", KNOWN),
        ("source = 'x'", "source", KNOWN),
        ("[acp]\nzz = 1", "acp.zz", "unknown key; known here are profile"),
        ('"a b" = 1\n', '"a b"', KNOWN),
        (OPENAI + "api_kye = 'k'", "providers.lab.api_kye", "unknown key; did you mean 'api_key'?"),
        ("limits = 3", "limits", "must be a table, not a whole number"),
        ("providers = []", "providers", "must be a table, not a list"),
        ("[[providers.lab]]\ntype = 'local'", "providers.lab", "must be a table, not a list"),
        ("providers.lab = 'local'", "providers.lab", "must be a table, not text"),
        ("[limits]\nmodel_calls = true", "limits.model_calls", "must be a whole number, not true or false"),
        ("[limits]\nmodel_calls = 1.0", "limits.model_calls", "must be a whole number, not a decimal"),
        ("[limits]\nmodel_calls = '1'", "limits.model_calls", "must be a whole number, not text"),
        ("[limits]\nmodel_calls = 0", "limits.model_calls", "must be at least 1"),
        ("[limits]\nmodel_calls = -3", "limits.model_calls", "must be at least 1"),
        ("[limits]\nidle_s = false", "limits.idle_s", "must be a number, not true or false"),
        ("[limits]\nidle_s = 0", "limits.idle_s", "must be a number of seconds above 0"),
        ("[limits]\nidle_s = nan", "limits.idle_s", "must be a number of seconds above 0"),
        ("[limits]\nidle_s = inf", "limits.idle_s", "must be a number of seconds above 0"),
        ("[limits]\nidle_s = 1" + "0" * 400, "limits.idle_s", "is too large"),
        ("[retention]\nday = 3", "retention.day", "unknown key; did you mean 'days'?"),
        ("[retentions]", "retentions", "unknown key; did you mean 'retention'?"),
        ("[retention]\ndays = 0", "retention.days", "must be a number of days from 1 to 36500"),
        ("[retention]\ndays = 36501", "retention.days", "must be a number of days from 1 to 36500"),
        ("[retention]\ndays = 1.5", "retention.days", "must be a whole number, not a decimal"),
        ("[retention]\ndays = true", "retention.days", "must be a whole number, not true or false"),
        ("[retention]\nsessions = 0", "retention.sessions", "must be at least 1"),
        ("[retention]\nsessions = 'all'", "retention.sessions", "must be a whole number, not text"),
        ("provider = 1979-05-27", "provider", "must be text, not a date or time"),
        ("provider = ''", "provider", "must not be empty"),
        ("model = ' '", "model", "must not be empty"),
        ("effort = 'maximal'", "effort", f"must be one of {', '.join(EFFORTS)}, not 'maximal'"),
        ("effort = 3", "effort", "must be text, not a whole number"),
        ("[acp]\nprofile = 'all'", "acp.profile", "must be one of baseline, full, not 'all'"),
        ("[providers.lab]", "providers.lab.type", "is missing"),
        (
            PROVIDER.format("opnai"),
            "providers.lab.type",
            "must be one of openai, openai-compatible, anthropic, local, scripted, chaos, not 'opnai'",
        ),
        (
            PROVIDER.format("openai-compatible"),
            "providers.lab.base_url",
            "is missing; a provider of type 'openai-compatible' needs it, but for those with a known name",
        ),
        (
            PROVIDER.format("scripted"),
            "providers.lab.script",
            "is missing; a provider of type 'scripted' needs it",
        ),
        (PROVIDER.format("chaos"), "providers.lab.seed", "is missing; a provider of type 'chaos' needs it"),
        (
            OPENAI + "script = 'x'",
            "providers.lab.script",
            "has no meaning for a provider of type 'openai'",
        ),
        (
            PROVIDER.format("local") + "base_url = 'http://h'",
            "providers.lab.base_url",
            "has no meaning for a provider of type 'local'",
        ),
        (CHAOS + "seed = true", "providers.lab.seed", "must be a whole number, not true or false"),
        (OPENAI + "models = 'm'", "providers.lab.models", "must be a list of texts, not text"),
        (
            OPENAI + "models = ['m', 1]",
            "providers.lab.models",
            "must be a list of texts, and holds a whole number",
        ),
        (
            OPENAI + "models = []",
            "providers.lab.models",
            "must not be empty; leave it out if the models need no list",
        ),
        (OPENAI + "models = ['m', 'm']", "providers.lab.models", "names 'm' twice"),
        (OPENAI + "models = ['']", "providers.lab.models", "must not be empty"),
        (
            OPENAI + "base_url = 'https://me:sk-very@h/v1'",
            "providers.lab.base_url",
            "must not hold a user name or a password; api_key_env names the key",
        ),
        (
            OPENAI + "base_url = 'localhost:80'",
            "providers.lab.base_url",
            "must be an http:// or https:// URL without a query",
        ),
        (OPENAI + "api_key = ''", "providers.lab.api_key", "must not be empty"),
        (
            "[providers.'a/b']\ntype = 'openai'",
            "providers",
            "'a/b' cannot be a provider's name; use letters, digits, '.', '_' and '-'",
        ),
        (MODEL + "context = 1", f"{WHERE}.context", "unknown key; did you mean 'context_tokens'?"),
        (MODEL + "context_tokens = 0", f"{WHERE}.context_tokens", TOKENS),
        (MODEL + "context_tokens = -1", f"{WHERE}.context_tokens", TOKENS),
        (MODEL + "output_tokens = 1_000_000_001", f"{WHERE}.output_tokens", TOKENS),
        (MODEL + "context_tokens = 1e5", f"{WHERE}.context_tokens", "must be a whole number, not a decimal"),
        (
            MODEL + "context_tokens = true",
            f"{WHERE}.context_tokens",
            "must be a whole number, not true or false",
        ),
        *(
            (
                PROVIDER.format("openai") + f"base_url = '{url}'",
                "providers.lab.base_url",
                "must have a host, and a port, if any, that is a number up to 65535",
            )
            for url in ("http://h:99999/v1", "http://h:x/v1", "http://h:0/v1", "http://[::1", "http://:80/v1")
        ),
        (MODEL + "images = 1", f"{WHERE}.images", "must be true or false, not a whole number"),
        (MODEL + "images = 'yes'", f"{WHERE}.images", "must be true or false, not text"),
        (MODEL + "efforts = 'low'", f"{WHERE}.efforts", "must be a list of texts, not text"),
        (
            MODEL + "efforts = ['default']",
            f"{WHERE}.efforts",
            "must be one of none, minimal, low, medium, high, xhigh, not 'default'",
        ),
        (MODEL + "efforts = ['low', 'low']", f"{WHERE}.efforts", "names a level twice"),
        (MODEL + "input_usd = -0.5\noutput_usd = 1", f"{WHERE}.input_usd", PRICE),
        (MODEL + "input_usd = nan\noutput_usd = 1", f"{WHERE}.input_usd", PRICE),
        (MODEL + "input_usd = 1\noutput_usd = inf", f"{WHERE}.output_usd", PRICE),
        (MODEL + "input_usd = 1\noutput_usd = -inf", f"{WHERE}.output_usd", PRICE),
        (MODEL + "input_usd = 1e999\noutput_usd = 1", f"{WHERE}.input_usd", PRICE),
        (MODEL + "cache_write_usd = -1", f"{WHERE}.cache_write_usd", PRICE),
        (MODEL + "input_usd = true", f"{WHERE}.input_usd", "must be a number, not true or false"),
        (MODEL + "input_usd = '1'", f"{WHERE}.input_usd", "must be a number, not text"),
        (
            MODEL + "input_usd = 1",
            f"{WHERE}.output_usd",
            "is missing; what a call costs cannot be told from input_usd alone",
        ),
        (
            MODEL + "cache_read_usd = 1",
            f"{WHERE}.input_usd",
            "is missing; what a call costs cannot be told from cache_read_usd alone",
        ),
        (OPENAI + "catalog = 3", "providers.lab.catalog", "must be a table, not a whole number"),
        (OPENAI + "catalog.m = 3", "providers.lab.catalog.m", "must be a table, not a whole number"),
        (OPENAI + "[providers.lab.catalog.' ']", "providers.lab.catalog", "must not be empty"),
        (
            OPENAI + "[providers.lab.catalog.gpt-4.1]",
            "providers.lab.catalog.gpt-4.1",
            "unknown key; known here are cache_read_usd, cache_write_usd, context_tokens, efforts, images, ",
        ),
        (
            OPENAI + "models = ['a']\n[providers.lab.catalog.b]",
            "providers.lab.catalog.b",
            "describes a model that `models` does not list",
        ),
        (
            PROVIDER.format("local") + "[providers.lab.catalog.b]",
            "providers.lab.catalog",
            "has no meaning for a provider of type 'local'",
        ),
        # Syntax: the line.
        ("x", "1", "expected '=' after a key in a key/value pair"),
        ("a = 1\n\nb = [1,\n", "3", "invalid value"),
        ("a = 1\na = 2\n", "2", "cannot overwrite a value"),
        (b"a = 1\n# \xff\n", "2", "is not UTF-8"),
        (b"a = 1\nb = '\x00'", "2", "found invalid character '\\x00'"),
    ],
)  # fmt: skip
def test_a_fault_is_one_line_with_file_key_and_reason(file, content, where, what):
    with pytest.raises(SettingsError) as caught:
        file(content)
    message = str(caught.value)
    assert message.startswith(f"{file.path}:{where}: {what}")
    assert message.isprintable()


@pytest.mark.parametrize("content", ["x = " + "[" * 20_000, "x = 1" + "0" * 5000, "a." * 3000 + "b = 1"])
def test_a_file_that_cannot_be_taken_in_is_refused(file, content):
    with pytest.raises(SettingsError, match=":"):
        file(content)


def test_a_misspelt_key_is_named_before_what_it_made_missing(file):
    with pytest.raises(SettingsError) as caught:
        file("[providers.lab]\ntipe = 'openai'")
    assert str(caught.value) == f"{file.path}:providers.lab.tipe: unknown key; did you mean 'type'?"


@pytest.mark.parametrize(
    "line",
    [
        "api_key = 'sk-very secret'",
        "api_key = ['sk-very secret']",
        "api_key_env = 'sk-very secret'",
        "api_kee = 'sk-very'",
        "base_url = 'http://sk-very:@h/v1'",
    ],
)
def test_no_fault_repeats_a_key(file, line):
    with pytest.raises(SettingsError) as caught:
        file(OPENAI + line)
    assert "very" not in str(caught.value)


def test_a_key_does_not_show_in_a_representation(file):
    config = file(OPENAI + "api_key = 'sk-verysecret'")
    assert config.providers["lab"].api_key == "sk-verysecret"
    assert "verysecret" not in repr(config)


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o640, True), (0o604, True), (0o700, False)])
def test_a_key_in_a_file_that_others_can_read_warns(file, mode, warns):
    config = file(OPENAI + "api_key = 'sk-verysecret'\ncatalog.m.images = true", mode=mode)
    line = f"{file.path}:providers.lab.api_key: other users can read this file; chmod 600 makes it private"
    assert config.warnings == ((line,) if warns else ())


def test_a_file_without_keys_may_be_read_by_anyone(file):
    assert file(OPENAI + "api_key_env = 'K'", mode=0o644).warnings == ()


def test_a_script_is_found_beside_the_settings(file):
    directory = os.path.dirname(file.path)
    content = PROVIDER.format("scripted") + "script = '{}'"
    assert file(content.format("s.toml")).providers["lab"].script == os.path.join(directory, "s.toml")
    assert file(content.format("/s.toml")).providers["lab"].script == "/s.toml"


def test_a_bare_word_names_a_built_in_script(file):
    assert file(PROVIDER.format("scripted") + "script = 'bench'").providers["lab"].script == "bench"


def test_the_efforts_are_those_that_providers_know():
    assert set(EFFORTS) == {effort.value for effort in Effort}


def test_the_known_servers_are_those_that_providers_know():
    assert PRESETS.keys() == PRESET_NAMES


@pytest.mark.parametrize("name", sorted(PRESET_NAMES))
def test_a_known_server_needs_no_address(file, name):
    config = file(f'[providers."{name}"]\ntype = "openai-compatible"\nmodels = ["m"]')
    assert config.providers[name] == ProviderSettings("openai-compatible", models=("m",))


def test_prices_are_what_is_written(file):
    """Not what is left of it in a binary fraction."""
    lines = (
        "input_usd = 0.1000000000000000055\noutput_usd = 1_000.10\ncache_read_usd = 3e-2\ncache_write_usd = 0"
    )
    told = file(MODEL + lines).providers["lab"].catalog["gpt-4.1"]
    assert told.input_usd == Decimal("0.1000000000000000055")
    assert (told.output_usd, told.cache_read_usd, told.cache_write_usd) == (
        Decimal("1000.1"),
        Decimal("0.03"),
        0,
    )


@pytest.mark.parametrize("line", ["effort = '{}'", "{} = 1", "[providers.'{}!']\ntype = 'local'"])
def test_what_has_no_end_is_shown_in_part(file, line):
    with pytest.raises(SettingsError) as caught:
        file(line.format("x" * 500_000))
    assert len(str(caught.value)) < 1000


def test_an_id_that_needs_quotes_says_so(file):
    with pytest.raises(SettingsError) as caught:
        file(OPENAI + "[providers.lab.catalog.gpt-4.1]")
    assert str(caught.value).endswith("output_usd (an id with a dot in it stands in quotes)")


def test_a_model_may_be_described_in_part(file):
    assert file(MODEL).providers["lab"].catalog == {"gpt-4.1": ModelSettings()}
    config = file(OPENAI + "catalog = { 'vendor/m:free' = { images = false, efforts = [] } }")
    assert config.providers["lab"].catalog == {"vendor/m:free": ModelSettings(images=False, efforts=())}
    assert file(OPENAI).providers["lab"].catalog == {}


def test_without_a_file_neither_tomllib_nor_cattrs_is_imported(tmp_path):
    program = (
        "import sys, term2_acp.config as c\n"
        f"c.load({{'HOME': {str(tmp_path)!r}}})\n"
        "print([m for m in ('tomllib', 'cattrs', 'difflib', 'pwd') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True,
                            env={"PYTHONPATH": os.pathsep.join(sys.path)}, check=True)  # fmt: skip
    assert result.stdout.strip() == "[]"
