"""The profile for macOS as text: the whole of it for an ordinary policy, and that no path can end its string.
Whether macOS enforces it is not tried here."""

import pytest

from term2_acp.domain.confinement import Confinement
from term2_acp.sandbox.policy import Limits, Policy
from term2_acp.sandbox.seatbelt import profile

NEEDED = """\
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


def text_of(workspace="/Users/p/ws", *, secrets=(), temporary=("/private/tmp/t1",), **places):
    return profile(
        Policy(
            Confinement(workspace, **places),
            workspace,
            {},
            Limits(),
            "/Users/p/empty",
            system_secrets=secrets,
            temporary=temporary,
        )
    )


def test_the_whole_profile():
    assert (
        text_of(
            hidden=("/Users/p/.ssh", "/Users/p/.netrc"),
            secrets=("/private/etc/master.passwd",),
            held=("/Users/p/ws/.git",),
            read_only=("/Users/p/ws/.git/hooks", "/Users/p/ws/AGENTS.md"),
        )
        == NEEDED
        + """\
(allow file-write*
  (subpath "/Users/p/ws")
  (subpath "/private/tmp/t1"))
(deny file-write-unlink
  (literal "/Users/p/ws/.git"))
(deny file-write*
  (subpath "/Users/p/ws/.git/hooks")
  (subpath "/Users/p/ws/AGENTS.md"))
(deny file-read* file-write*
  (subpath "/Users/p/.netrc")
  (subpath "/Users/p/.ssh")
  (subpath "/private/etc/master.passwd"))
(deny network*)
"""
    )


def test_a_rule_without_paths_is_not_written_since_it_would_be_one_for_everything():
    assert (
        text_of()
        == NEEDED
        + """\
(allow file-write*
  (subpath "/Users/p/ws")
  (subpath "/private/tmp/t1"))
(deny network*)
"""
    )


def test_a_workspace_that_is_read_only_is_not_allowed_at_all_and_denies_no_temporary_folder_in_it():
    written = text_of(
        hidden=("/Users/p/ws/a/keys",),
        read_only=("/Users/p/ws",),
        temporary=("/Users/p/ws/t1",),
    )
    assert (
        written
        == NEEDED
        + """\
(allow file-write*
  (subpath "/Users/p/ws/t1"))
(deny file-write-unlink
  (literal "/Users/p/ws/a"))
(deny file-read* file-write*
  (subpath "/Users/p/ws/a/keys"))
(deny network*)
"""
    )


@pytest.mark.parametrize("workspace", ["/Users/p/ws", "/"])
def test_no_folder_above_a_guarded_place_may_be_renamed(workspace):
    below = workspace.rstrip("/")
    written = text_of(
        workspace,
        read_only=(f"{below}/a/b/AGENTS.md", f"{below}/a/c"),
        hidden=(f"{below}/d/keys", "/.x"),
    )
    assert (
        f"""(deny file-write-unlink
  (literal "{below}/a")
  (literal "{below}/a/b")
  (literal "{below}/d"))
"""
        in written
    )


@pytest.mark.parametrize(
    ("workspace", "quoted"),
    [
        ('/a"b', r'"/a\"b"'),
        ("/a\\", r'"/a\\"'),
        ('/a\\"b', r'"/a\\\"b"'),
        ("/a\nb", r'"/a\nb"'),
        ("/a\tb\x7f\x01", r'"/a\x09b\x7f\x01"'),
        ('/")\n(allow default)\n("', r'"/\")\n(allow default)\n(\""'),
        ("/(a) #|b|# ;c", '"/(a) #|b|# ;c"'),
        ("/Größe ☃", '"/Größe ☃"'),
        ("/a\udcff", '"/a\udcff"'),
    ],
)
def test_no_character_of_a_path_ends_its_string(workspace, quoted):
    written = text_of(workspace).removeprefix(NEEDED)
    assert written == (
        f'(allow file-write*\n  (subpath {quoted})\n  (subpath "/private/tmp/t1"))\n(deny network*)\n'
    )
