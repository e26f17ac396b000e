"""The commands for a person: ``help``, ``version``, ``doctor``, ``sessions``. ``cli.acp`` has the daemon."""

import os
from collections.abc import Sequence

import term2_acp
from term2_acp.cli.arguments import shortened
from term2_acp.cli.terminal import ACP_USAGE, DOCTOR_USAGE, SESSIONS_USAGE, USAGE, complain, put

_HELP = f"""\
term2 {term2_acp.__version__}: the coding agent behind your editor.

An editor starts `term2 acp` and talks to it over the Agent Client Protocol (ACP):
JSON-RPC, one message a line, on standard input and output. Set the editor's agent
command to `term2` with the one argument `acp`; there is nothing to see in a terminal.

Commands:
  term2 acp              run the daemon, for an editor
  term2 doctor           show what works on this machine
  term2 sessions ...     list, show, export, delete, audit and verify conversations
  term2 help [COMMAND]   show this text, or the text of a command
  term2 version          show the version

Settings:  ~/.config/term2/settings.toml   (or $TERM2_CONFIG)
State:     ~/.local/state/term2            (or $TERM2_STATE_DIR)
"""

_HELP_ACP = f"""\
{ACP_USAGE}

Runs the daemon: ACP messages on standard input and output, diagnostics on standard
error, until standard input ends or SIGINT or SIGTERM comes.

  --provider P   the model's provider: a name from the settings, or openai, anthropic,
                 openrouter, groq, mistral, deepseek, gemini, ollama, lmstudio, llama.cpp,
                 vllm, local (the embedded smoke-test model)
  --model M      an exact model id, or provider/model
  --effort E     none, minimal, low, medium, high, xhigh or default

Each may also be written --flag=VALUE. A flag wins over the environment (TERM2_PROVIDER,
TERM2_MODEL, TERM2_EFFORT), the environment over the settings file. Keys come from the
environment: OPENAI_API_KEY, ANTHROPIC_API_KEY, OPENROUTER_API_KEY, GROQ_API_KEY,
MISTRAL_API_KEY, DEEPSEEK_API_KEY, GEMINI_API_KEY, or what `api_key_env` names. Without
any, and without settings, a model server on this machine is looked for.

TERM2_LOG_LEVEL sets what is logged: debug, info, warning (as it comes), error, critical.
There is no flag that approves by itself or that turns the sandbox off.
"""

_HELP_DOCTOR = f"""\
{DOCTOR_USAGE}

Shows what works here: the sandbox layer by layer, ripgrep, the settings, the model that
would be used and each provider (whether its key is set, never the key), and the store.
The server of that model and the usual ports of this machine are asked which models they
have. Nothing is changed. Colours only on a terminal, and not with NO_COLOR.

Exit status:
  0   everything works
  1   broken: `term2 acp` would refuse to start (settings, provider), or conversations
      cannot be kept (the state directory, the database, a full disk)
  2   it works, with less than it could: no sandbox, so shell and run_code fail, or a
      weaker one; no ripgrep, so glob and grep fail; no usable provider, or its server
      does not answer, so prompts fail; other users can read a key or the state
      directory; little room on the disk

--json prints one object: `status` (as above) and `level` (ok, less, broken), then
sandbox, ripgrep, settings, providers, store, each with its own `level` (or unknown) and
`problems`, and machine. sandbox has `kind`, `layers` (a word: held or not) and `notes`;
providers has `chosen`, `model`, `about` (its limits, whether its server `answers`),
`local_servers` and `known` (each with `key`: set, missing, none, not needed); store has
`directory`, `database`, `sessions`, `free_bytes`. The names stay.
"""

_HELP_SESSIONS = f"""\
{SESSIONS_USAGE}

What was said and done is kept (docs/SESSIONS.md says what and where). An ID may be the
beginning of one, where no other session begins so.

  list [--cwd DIR] [--limit N] [--json]
      every session, last active first, and whether a process has it open
  show ID [--json]
      the conversation; long outputs are cut, and it says so
  export ID [--format json|markdown] [--output FILE] [--force]
      all of it as one document; FILE is made for you alone (0600), and replaced only
      with --force. It holds what you saw: the keys that term2 was given were replaced
      before that was kept, but what only looks like a secret is left as it was
  delete ID... [--yes] [--json]
      for good, with its outputs; asks first, on a terminal, and needs --yes elsewhere.
      What a process has open is left alone
  audit ID [--json]
      each decision and each tool call: who, under what, when, what came of it. What
      looks like a secret is taken out; thoughts and files' contents are not in it
  verify [--json]
      look at everything that is kept, and say what is damaged; nothing is changed

Exit status: 0 done; 1 not done (or not all of it), and one line says why; 130
interrupted. verify: 0 sound, 1 damaged, 2 it could not look.

Reading makes nothing that is not there. --json is ASCII and its names stay. Colours only
on a terminal, and not with NO_COLOR. TERM2_LOG_LEVEL=error shows details of a failure.
"""

_HELP_HELP = "usage: term2 help [COMMAND]\n\nShows what term2 is, or what a command does.\n"
_HELP_VERSION = "usage: term2 version\n\nShows the version. `term2 --version` does the same.\n"

_TEXTS = {
    "acp": _HELP_ACP,
    "doctor": _HELP_DOCTOR,
    "sessions": _HELP_SESSIONS,
    "help": _HELP_HELP,
    "version": _HELP_VERSION,
}


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
                return complain("term2", f"unexpected argument '{shortened(rest[0])}'", USAGE)
            return put(f"term2 {term2_acp.__version__}\n")
        case "doctor":
            from term2_acp.cli import doctor  # lazy: help needs none of it

            return doctor.run(rest, os.environ)
        case "sessions":
            from term2_acp.cli import sessions  # the same

            return sessions.run(rest, os.environ)
        case _:
            kind = "option" if command.startswith("-") else "command"
            return complain("term2", f"unknown {kind} '{shortened(command)}'", USAGE)


def _help(rest: Sequence[str]) -> int:
    if len(rest) > 1:
        return complain("term2", f"unexpected argument '{shortened(rest[1])}'", USAGE)
    if not rest:
        return put(_HELP)
    text = _TEXTS.get(rest[0])
    if text is None:
        return complain("term2", f"unknown command '{shortened(rest[0])}'", USAGE)
    return put(text)
