"""The embedded model: a child process, and what it is asked."""
