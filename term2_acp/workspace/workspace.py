"""One session's view of the file system."""


class Workspace:
    """The files a session works on, rooted at its canonical ``cwd``."""
