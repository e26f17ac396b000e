"""A place of its own for each daemon: home, settings, state and workspace, all fresh.

Two daemons that are to share a store are started in the same ``Home`` one after the other. Nothing of the
person who runs the tests is seen: HOME and every XDG folder lie inside, and the environment that the
daemon gets is made here from nothing.
"""

import json
import os
import sys
from pathlib import Path

from attrs import frozen

PROVIDER = "play"


@frozen
class Home:
    """The folders of one daemon. ``root`` may hold anything else that a test needs beside them."""

    root: Path

    @classmethod
    def make(cls, root: Path, script: str | Path | None = "bench", extra: str = "") -> "Home":
        """Make the folders, and settings whose provider plays ``script``.

        ``script`` is the text of a script (anything with a line end in it), the path of one, the word
        ``bench`` for the one that is built in, or None for settings that name no provider. ``extra`` is
        TOML that is appended: whole tables.
        """
        home = cls(root)
        for folder in (home.user, home.workspace, home.settings.parent, home.state.parent):
            folder.mkdir(parents=True, exist_ok=True)
        home.play(script, extra)
        return home

    @property
    def user(self) -> Path:
        """The home directory."""
        return self.root / "home"

    @property
    def workspace(self) -> Path:
        """Where sessions work unless a test says otherwise."""
        return self.root / "workspace"

    @property
    def settings(self) -> Path:
        """The settings file."""
        return self.root / "config" / "term2" / "settings.toml"

    @property
    def state(self) -> Path:
        """The state directory; made by term2, not here."""
        return self.root / "state" / "term2"

    def play(self, script: str | Path | None, extra: str = "") -> None:
        """Write the settings anew, so that the next daemon in this home plays another script."""
        if isinstance(script, str) and "\n" in script:
            path = self.root / "script.toml"
            path.write_text(script)
            script = path
        lines = []
        if script is not None:
            lines = [
                f'provider = "{PROVIDER}"',
                f"[providers.{PROVIDER}]",
                'type = "scripted"',
                f"script = {json.dumps(str(script))}",
            ]
        self.settings.write_text("\n".join([*lines, extra]) + "\n")

    def environment(self, **more: str) -> dict[str, str]:
        """What the daemon gets as its environment, and nothing else."""
        return {
            "HOME": str(self.user),
            "PATH": os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]),
            "LANG": "C.UTF-8",
            "XDG_CONFIG_HOME": str(self.root / "config"),
            "XDG_STATE_HOME": str(self.root / "state"),
            "XDG_CACHE_HOME": str(self.root / "cache"),
            **more,
        }
