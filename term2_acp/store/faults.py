"""What SQLite raises: the one table of it, for whoever calls SQLite."""

import sqlite3

FAULTS = (sqlite3.Error, UnicodeDecodeError)
"""A message may quote what is damaged, and then it may be no text: Python raises that in its place."""
