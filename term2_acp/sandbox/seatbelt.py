"""The policy as a profile of Seatbelt, the sandbox of macOS: pure text, for ``sandbox-exec -p``.

Untested on a real Mac: the text is compared with what it should be, and whether macOS enforces it is for the
probe to see there.

Rules of the language that the order below stands on: what no rule allows is denied, and of several rules
that match, the last one counts. So the protected names follow the workspace, and the hidden places follow
everything. Paths are compared as the kernel knows them, without links; ``subpath`` is the path itself and
all below it.

A rule is about a path, not about the file that is there. So a folder between the workspace and a protected or
hidden place may not be renamed, as that place would be another path then.

Weaker than on Linux: nothing is covered, so a hidden place answers "not permitted" instead of looking
empty. The temporary folder is one that was made for the command and named in the policy. There is no view
of processes of its own; signals reach the command's own processes alone.
"""

from collections.abc import Iterable

from term2_acp.sandbox.policy import Policy, between

# What programs need to run at all: starting each other, system values, the devices that hold nothing, the
# service that knows users' names, and the semaphores of Python's multiprocessing. None of it reaches a file.
_NEEDED = """\
(version 1)
(deny default)
(allow process-exec)
(allow process-fork)
(allow process-info* (target same-sandbox))
(allow signal (target same-sandbox))
(allow sysctl-read)
(allow ipc-posix-sem)
(allow mach-lookup
  (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow file-read*)
(allow file-write-data
  (literal "/dev/null")
  (literal "/dev/zero"))
(allow file-ioctl
  (literal "/dev/null")
  (literal "/dev/zero"))
"""

# Said although it is denied by default: a rule that is added above must not open it by the way.
_NO_NETWORK = "(deny network*)\n"


def profile(policy: Policy) -> str:
    """The whole profile for a policy that ``check`` has passed.

    ``policy.temporary`` must name folders that belong to this command alone: they become writable.
    """
    confinement = policy.confinement
    # Nothing is allowed in a workspace that is read-only, and so nothing need be denied there: a rule that
    # denied it would come after the one for a temporary folder that lies in it.
    writable = () if confinement.is_read_only else (confinement.workspace,)
    read_only = () if confinement.is_read_only else confinement.read_only
    guarded = (*read_only, *policy.hidden)
    kept = sorted({*confinement.held, *between(confinement.workspace, guarded)})
    return "".join(
        (
            _NEEDED,
            _rule("allow file-write*", "subpath", (*writable, *policy.temporary)),
            _rule("deny file-write-unlink", "literal", kept),
            _rule("deny file-write*", "subpath", read_only),
            _rule("deny file-read* file-write*", "subpath", policy.hidden),
            _NO_NETWORK,
        )
    )


def _rule(what: str, kind: str, paths: Iterable[str]) -> str:
    """One rule for all the paths; none for none, since a rule without paths is one for everything."""
    filters = "".join(f"\n  ({kind} {_quoted(path)})" for path in dict.fromkeys(paths))
    return f"({what}{filters})\n" if filters else ""


def _quoted(path: str) -> str:
    """The path as a string of the language, which is Scheme's: no character of it can end the string."""
    return '"' + "".join(_ESCAPED.get(char, char) for char in path) + '"'


# Control characters are written by number, in two digits.
_ESCAPED = {chr(code): f"\\x{code:02x}" for code in (*range(0x20), 0x7F)} | {
    '"': '\\"',
    "\\": "\\\\",
    "\n": "\\n",
}
