"""term2: a coding agent that an editor launches and talks to over the Agent Client Protocol.

Importing this package runs nothing: no file is opened, nothing is printed, no setting is read.
"""

__version__ = "0.1.0"
