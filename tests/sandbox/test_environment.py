"""What of the daemon's environment reaches a command: only what is listed, no secret, and nothing that makes
a program wait for a person. Odd values are tried with a real child, since they must never stop one."""

import os
import subprocess

import pytest

from term2_acp.sandbox.environment import DEFAULT_PATH, environment

FIXED = {
    "TERM": "dumb",
    "PAGER": "cat",
    "MANPAGER": "cat",
    "GIT_PAGER": "cat",
    "EDITOR": "false",
    "VISUAL": "false",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_TERMINAL_PROMPT": "0",
    "DEBIAN_FRONTEND": "noninteractive",
    "TMPDIR": "/tmp",
    "XDG_CACHE_HOME": "/tmp/.cache",
    "npm_config_cache": "/tmp/.cache/npm",
}


def test_an_empty_environment_still_finds_programs():
    assert environment({}, ()) == {"PATH": DEFAULT_PATH} | FIXED
    assert DEFAULT_PATH == "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def test_listed_variables_pass_and_all_others_stay():
    passed = {
        "PATH": "/opt/bin:/usr/bin",
        "HOME": "/home/p",
        "USER": "p",
        "LOGNAME": "p",
        "SHELL": "/bin/bash",
        "LANG": "de_DE.UTF-8",
        "LANGUAGE": "de",
        "LC_ALL": "C",
        "LC_TIME": "en_GB",
        "TZ": "Europe/Berlin",
        "VIRTUAL_ENV": "/home/p/v",
        "CONDA_PREFIX": "/opt/conda",
        "JAVA_HOME": "/opt/java",
        "GOROOT": "/opt/go",
        "GOPATH": "/home/p/go",
        "CARGO_HOME": "/home/p/.cargo",
        "RUSTUP_HOME": "/home/p/.rustup",
        "NVM_DIR": "/home/p/.nvm",
        "PYENV_ROOT": "/home/p/.pyenv",
        "NODE_PATH": "/opt/node",
    }
    kept_back = {
        "OPENAI_API_KEY": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "GITHUB_TOKEN": "x",
        "SSH_AUTH_SOCK": "/run/agent",
        "DBUS_SESSION_BUS_ADDRESS": "unix:path=/run/bus",
        "XDG_RUNTIME_DIR": "/run/user/1",
        "DISPLAY": ":0",
        "WAYLAND_DISPLAY": "w",
        "DOCKER_HOST": "unix:///run/docker.sock",
        "LD_PRELOAD": "/x.so",
        "LD_LIBRARY_PATH": "/x",
        "PYTHONPATH": "/x",
        "PYTHONSTARTUP": "/x",
        "BASH_ENV": "/x",
        "ENV": "/x",
        "GIT_DIR": "/x",
        "GIT_CONFIG_GLOBAL": "/x",
        "NODE_OPTIONS": "--inspect",
        "TERM2_CONFIG": "/x",
        "COLORTERM": "truecolor",
        "HTTP_PROXY": "http://u:p@h",
        "path": "/x",
        "LC": "x",
    }
    assert environment(passed | kept_back, ()) == passed | FIXED


def test_what_is_fixed_is_fixed():
    given = dict.fromkeys(FIXED, "/else")
    assert environment(given, ()) == {"PATH": DEFAULT_PATH} | FIXED


def test_the_temporary_folder_may_be_another():
    found = environment({}, (), temporary="/private/t")
    assert found["TMPDIR"] == "/private/t"
    assert found["XDG_CACHE_HOME"] == "/private/t/.cache"
    assert found["npm_config_cache"] == "/private/t/.cache/npm"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("/a:/b", "/a:/b"),
        ("", DEFAULT_PATH),
        (".:bin::node_modules/.bin", DEFAULT_PATH),
        (":/a:.:/b:", "/a:/b"),
        ("~/bin:/a b", "/a b"),
    ],
)
def test_no_folder_of_the_search_path_is_relative(value, expected):
    assert environment({"PATH": value}, ())["PATH"] == expected


def test_a_variable_that_holds_a_secret_is_left_out():
    secret = "q7-very-secret-key"
    given = {
        "HOME": f"/home/{secret}",
        "USER": "p",
        "LC_X": f"a{secret}b",
        "PATH": f"/bin:/{secret}",
        "TZ": secret[:-1],
    }
    found = environment(given, ("", "p", secret))
    assert found == {"USER": "p", "PATH": DEFAULT_PATH} | FIXED
    assert secret[:-1] not in repr(found)


def test_odd_values_pass_or_are_left_out_and_never_stop_a_command():
    given = {
        "HOME": os.fsdecode(b"/home/\xff\xfe"),
        "USER": "a\nb=c",
        "LC_\N{SNOWMAN}": "x",
        "LANG": "a\0b",
        "SHELL": "\ud83d",
        "LC_\0": "x",
        "LC_A=B": "x",
        "TZ": "",
    }
    found = environment(given, ())
    assert (
        found
        == {
            "PATH": DEFAULT_PATH,
            "HOME": given["HOME"],
            "USER": "a\nb=c",
            "LC_\N{SNOWMAN}": "x",
            "TZ": "",
        }
        | FIXED
    )
    child = subprocess.run(["/usr/bin/env", "-0"], env=found, capture_output=True, check=True)
    expected = {os.fsencode(f"{name}={value}") for name, value in found.items()}
    assert set(child.stdout.rstrip(b"\0").split(b"\0")) == expected
