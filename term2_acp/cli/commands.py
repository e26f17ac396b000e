"""The commands for a person: ``help`` and ``version``. The daemon itself is in ``cli.acp``."""

from collections.abc import Sequence

import term2_acp
from term2_acp.cli.terminal import ACP_USAGE, USAGE, complain, put

_HELP = f"""\
term2 {term2_acp.__version__}: the coding agent behind your editor.

An editor starts `term2 acp` and talks to it over the Agent Client Protocol (ACP):
JSON-RPC, one message a line, on standard input and output. Set the editor's agent
command to `term2` with the one argument `acp`; there is nothing to see in a terminal.

Commands:
  term2 acp              run the daemon, for an editor
  term2 help [COMMAND]   show this text, or the text of a command
  term2 version          show the version

Settings:  ~/.config/term2/settings.toml   (or $TERM2_CONFIG)
State:     ~/.local/state/term2            (or $TERM2_STATE_DIR)
"""

_HELP_ACP = f"""\
{ACP_USAGE}

Runs the daemon: ACP messages on standard input and output, diagnostics on standard
error, until standard input ends or SIGINT or SIGTERM comes.

  --provider P   the model's provider: a name from the settings, or openai, openrouter,
                 local (the embedded smoke-test model)
  --model M      an exact model id, or provider/model
  --effort E     none, minimal, low, medium, high, xhigh or default

Each may also be written --flag=VALUE. A flag wins over the environment (TERM2_PROVIDER,
TERM2_MODEL, TERM2_EFFORT), the environment over the settings file. Keys come from the
environment: OPENAI_API_KEY, OPENROUTER_API_KEY, or the variable that `api_key_env` names.

TERM2_LOG_LEVEL sets what is logged: debug, info, warning (as it comes), error, critical.
There is no flag that approves by itself or that turns the sandbox off.
"""

_HELP_HELP = "usage: term2 help [COMMAND]\n\nShows what term2 is, or what a command does.\n"
_HELP_VERSION = "usage: term2 version\n\nShows the version. `term2 --version` does the same.\n"

_TEXTS = {"acp": _HELP_ACP, "help": _HELP_HELP, "version": _HELP_VERSION}


def run(words: Sequence[str]) -> int:
    """Run the command that is not ``acp``; return the exit code."""
    if not words:
        return complain("term2", "no command given", USAGE)
    command, rest = words[0], words[1:]
    match command:
        case "help" | "--help" | "-h":
            return _help(rest)
        case "version" | "--version":
            if rest:
                return complain("term2", f"unexpected argument '{rest[0]}'", USAGE)
            return put(f"term2 {term2_acp.__version__}\n")
        case _:
            kind = "option" if command.startswith("-") else "command"
            return complain("term2", f"unknown {kind} '{command}'", USAGE)


def _help(rest: Sequence[str]) -> int:
    if len(rest) > 1:
        return complain("term2", f"unexpected argument '{rest[1]}'", USAGE)
    if not rest:
        return put(_HELP)
    text = _TEXTS.get(rest[0])
    if text is None:
        return complain("term2", f"unknown command '{rest[0]}'", USAGE)
    return put(text)
