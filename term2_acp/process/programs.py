"""Where programs are looked for that we start bare, with nothing around them.

Not along our own search path. That commonly leads through projects (the tools of a virtual environment, of a
package manager), where a command of any session could put a program for us to find.
"""

SYSTEM_FOLDERS = (
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
    "/run/current-system/sw/bin",  # NixOS
)
"""Where systems install programs."""
