"""The command line as a real process: exit codes, which stream says what, and what an editor would see.

Each process gets a home with nothing in it. A refused start must leave standard output empty, say why in
one line, and give the usage in a second. Where it is the start that is looked at it is a real one, as a
module and as the installed script; the rest is forked (``kit.forked``).
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import term2_acp
from tests.kit import forked

ACP_USAGE = "usage: term2 acp [--provider P] [--model M] [--effort E]"
USAGE = "usage: term2 acp | sessions COMMAND | doctor [--json] | help [COMMAND] | version"

PROGRAMS = {
    "module": [sys.executable, "-m", "term2_acp"],
    "script": [str(Path(sys.executable).parent / "term2")],
}


@pytest.fixture
def term2(tmp_path):
    """Run ``term2`` with the given words to its end, with an empty standard input."""

    def run(*words, program="forked", stdout=None, settings=None, **environment):
        if settings is not None:
            path = tmp_path / ".config" / "term2" / "settings.toml"
            path.parent.mkdir(parents=True)
            path.write_text(settings)
        environment = {"HOME": str(tmp_path), "PATH": os.defpath, **environment}
        if program == "forked":
            return forked.run(words, tmp_path, environment, stdout=stdout)
        return subprocess.run(
            [*PROGRAMS[program], *words],
            cwd=tmp_path,
            env=environment,
            input=b"",
            stdout=subprocess.PIPE if stdout is None else stdout,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )

    return run


def refusal(done):
    """The reason in a refused start of the daemon; checks everything around it."""
    assert done.returncode == 1
    assert done.stdout == b""
    reason, usage = done.stderr.decode().splitlines()
    assert usage == ACP_USAGE
    assert reason.startswith("term2 acp: ")
    return reason.removeprefix("term2 acp: ")


# -- for a person ----------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_version(term2, program, words):
    done = term2(*words, program=program)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == f"term2 {term2_acp.__version__}\n"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["help"], "term2 acp "),
        (["--help"], "term2 acp "),
        (["-h"], "term2 acp "),
        (["help", "acp"], "--provider P"),
        (["help", "help"], "term2 help [COMMAND]"),
        (["help", "version"], "term2 version"),
    ],
)
def test_help_fits_a_screen(term2, words, told):
    done = term2(*words)
    assert (done.returncode, done.stderr) == (0, b"")
    text = done.stdout.decode()
    assert told in text
    lines = text.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 90


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "no command given"),
        (["serve"], "unknown command 'serve'"),
        (["--yolo"], "unknown option '--yolo'"),
        (["help", "serve"], "unknown command 'serve'"),
        (["help", "acp", "more"], "unexpected argument 'more'"),
        (["version", "more"], "unexpected argument 'more'"),
        (["two\nlines\x1b[2J"], "unknown command 'two\\nlines\\x1b[2J'"),
        ([b"\xff\xfe"], "unknown command '\\udcff\\udcfe'"),
    ],
)
def test_what_is_not_a_command_is_one_line_and_the_usage(term2, words, reason):
    # What is no text is read as such by the interpreter, at its start.
    done = term2(*words, program="module" if bytes in map(type, words) else "forked")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.decode().splitlines() == [f"term2: {reason}", USAGE]


@pytest.mark.parametrize("words", [["help"], ["version"]])
def test_a_reader_that_went_away_is_no_error(term2, words):
    gone, stdout = os.pipe()
    os.close(gone)
    try:
        done = term2(*words, stdout=stdout)
    finally:
        os.close(stdout)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_is_told(term2):
    with Path("/dev/full").open("wb") as full:
        done = term2("help", stdout=full.fileno())
    assert done.returncode == 1
    assert done.stderr.decode().splitlines()[0] == "term2: cannot write: No space left on device"


# -- the daemon ------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS)
def test_there_is_no_flag_that_approves(term2, program):
    assert refusal(term2("acp", "--auto-approve", program=program)) == "unknown option --auto-approve"


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--help"], "unknown option --help"),
        (["--api-key=sk-secret"], "unknown option --api-key"),
        (["now"], "unexpected argument 'now'"),
        (["--model"], "--model needs a value"),
        (["two\nlines"], "unexpected argument 'two\\nlines'"),
    ],
)
def test_bad_arguments_refuse_the_start(term2, words, reason):
    assert refusal(term2("acp", *words)) == reason


@pytest.mark.parametrize("variable", ["TERM2_AUTO_APPROVE", "TERM2_YOLO", "TERM2_UNSANDBOXED"])
def test_no_variable_is_taken_for_a_flag(term2, variable):
    done = term2("acp", **{variable: "1"})
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_broken_setting_refuses_the_start(term2):
    reason = refusal(term2("acp", settings="modle = 'x'\n"))
    assert "settings.toml:modle" in reason


def test_a_settings_file_that_is_named_and_missing_refuses_the_start(term2):
    assert "nowhere.toml" in refusal(term2("acp", TERM2_CONFIG="/nowhere.toml"))


def test_an_unknown_provider_refuses_the_start(term2):
    assert "nobody" in refusal(term2("acp", "--provider", "nobody"))


def test_an_effort_that_is_none_refuses_the_start(term2):
    efforts = "none, minimal, low, medium, high, xhigh, default"
    assert refusal(term2("acp", "--effort", "HIGH")) == f"--effort: must be one of {efforts}, not 'HIGH'"
    assert refusal(term2("acp", TERM2_EFFORT="max")) == f"TERM2_EFFORT: must be one of {efforts}, not 'max'"


@pytest.mark.parametrize("effort", ["none", "minimal", "low", "medium", "high", "xhigh", "default"])
def test_every_effort_is_taken(term2, effort):
    done = term2("acp", "--effort", effort)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_end_of_input_before_anything_is_an_orderly_end(term2, program):
    done = term2("acp", program=program)
    assert (done.returncode, done.stdout) == (0, b"")


def test_a_module_of_the_workspace_is_not_imported(term2, tmp_path):
    """An editor starts the daemon in somebody's project; ``python -m`` would look there first."""
    for name in ("trio", "attrs", "msgspec", "logging", "secrets"):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('{name} of the workspace')\n")
    done = term2("acp", program="module")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_missing_descriptors_are_no_crash(tmp_path, closed):
    done = subprocess.run(
        ["sh", "-c", f'exec "$@" {closed}', "sh", *PROGRAMS["module"], "acp"],
        env={"HOME": str(tmp_path), "PATH": os.defpath},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == b""
    assert b"Traceback" not in done.stderr
    assert done.returncode in (0, 1)


INITIALIZE = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":2,'
    b'"info":{"name":"test","version":"1"},"capabilities":{}}}\n'
)


def test_the_start_imports_nothing_that_can_wait(tmp_path):
    """Imports are nearly all of what an editor waits for before `initialize` is answered."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "term2_acp", "acp"],
        env={"HOME": str(tmp_path), "PATH": os.defpath, "OPENAI_API_KEY": "sk-test"},
        input=INITIALIZE,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    assert b'"protocolVersion":2' in done.stdout
    imported = {
        line.rsplit(b"|", 1)[-1].strip().decode() for line in done.stderr.splitlines() if b"|" in line
    }
    assert "trio" in imported
    can_wait = {
        "argparse", "asyncio", "httpx2", "importlib.metadata", "mcp", "sqlite3", "xllamacpp",
        "term2_acp.session.registry", "term2_acp.store", "term2_acp.tools.registry", "term2_acp.cli.commands",
    }  # fmt: skip
    assert imported & can_wait == set()


def test_descriptors_are_claimed_before_anything_is_imported(tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "term2_acp", "acp", "--auto-approve"],
        env={"HOME": str(tmp_path), "PATH": os.defpath},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    order = [line.rsplit(b"|", 1)[-1].strip().decode() for line in done.stderr.splitlines() if b"|" in line]
    before = order[: order.index("term2_acp.transport.claim")]
    ours = {name for name in before if name.startswith("term2_acp")}
    assert ours - {"term2_acp", "term2_acp.cli", "term2_acp.transport"} == set()
    assert {"trio", "attr", "msgspec", "logging"} & set(before) == set()
