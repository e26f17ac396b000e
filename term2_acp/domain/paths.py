"""Paths as values: what a target is, and containment. No file system is asked here."""

from attrs import frozen


@frozen
class Target:
    """A path that a tool call is about, resolved once.

    ``typed`` is what the model wrote, made absolute from the session's cwd and otherwise untouched;
    resolving it again at the moment of use must give the same ``path``. ``path`` is canonical: no
    link, no ``..``, no double slash in it. ``inside`` tells whether it lies in the workspace.
    ``guarded`` is the protected name or hidden credential path that covers it, as a person would write
    it (``.git/``, ``~/.ssh``), or None.
    """

    typed: str
    path: str
    inside: bool
    guarded: str | None = None
